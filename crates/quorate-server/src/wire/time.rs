//! Times on the wire: RFC 3339 with milliseconds.

use quorate_core::{Code, Refused, Timestamp};

/// A time as it is shown.
pub(crate) fn shown(time: Timestamp) -> String {
    let ms = i64::try_from(time.0).unwrap_or(i64::MAX);
    // Beyond the year 9999 there is no such text; nobody means such a time.
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

/// A time that somebody wrote.
pub(crate) fn read(name: &str, text: &str) -> Result<Timestamp, Refused> {
    let wrong = || {
        Refused::new(Code::Invalid, format!("{name}: {text:?} is no time"))
            .hint("write it as in 2026-01-31T09:30:00.000Z")
    };
    let time: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
    u64::try_from(time.as_millisecond()).map(Timestamp).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use quorate_core::Timestamp;

    use super::{read, shown};

    #[test]
    fn times_are_read_as_they_are_shown() {
        assert_eq!(shown(Timestamp(1_767_225_600_001)), "2026-01-01T00:00:00.001Z");
        assert_eq!(shown(Timestamp(1_767_225_600_000)), "2026-01-01T00:00:00.000Z");
        assert_eq!(read("at", "2026-01-01T01:00:00.001+01:00").unwrap(), Timestamp(1_767_225_600_001));
        assert!(read("at", "tomorrow").unwrap_err().detail.contains("at: \"tomorrow\""));
        assert!(read("at", "1969-01-01T00:00:00Z").is_err());
    }
}
