//! Times on the wire: RFC 3339 with milliseconds.

use quorate_core::{Code, Refused, Timestamp};

/// A time as it is shown. By hand, because every delivery has two of them and a formatter that knows all calendars takes longer
/// than the rest of it.
pub(crate) fn shown(time: Timestamp) -> String {
    const DAY_MS: u64 = 86_400_000;
    // Beyond the year 9999 there is no such text; nobody means such a time.
    let ms = time.0.min(253_402_300_799_999);
    let (year, month, day) = date(ms / DAY_MS);
    let of_day = ms % DAY_MS;
    let mut text = [0; 24];
    let mut put = |at: usize, digits: usize, mut number: u64| {
        for place in text[at..at + digits].iter_mut().rev() {
            *place = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    put(0, 4, year);
    put(5, 2, month);
    put(8, 2, day);
    put(11, 2, of_day / 3_600_000);
    put(14, 2, of_day / 60_000 % 60);
    put(17, 2, of_day / 1_000 % 60);
    put(20, 3, of_day % 1_000);
    for (at, mark) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')] {
        text[at] = mark;
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Year, month and day of a day, counted from the first of 1970. Years begin in March here, so that the leap day is the last.
fn date(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + later, month, day)
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

    // Fails under: a leap year that is none, a month that is too long.
    #[test]
    fn every_day_is_shown_as_calendars_have_it() {
        for day in (0..60_000_u64).chain((60_000..2_932_897).step_by(97)) {
            let ms = day * 86_400_000 + day * 7_919 % 86_400_000;
            let time = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
            assert_eq!(shown(Timestamp(ms)), format!("{time:.3}"));
        }
        assert_eq!(shown(Timestamp(u64::MAX)), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn times_are_read_as_they_are_shown() {
        assert_eq!(shown(Timestamp(1_767_225_600_001)), "2026-01-01T00:00:00.001Z");
        assert_eq!(shown(Timestamp(1_767_225_600_000)), "2026-01-01T00:00:00.000Z");
        assert_eq!(read("at", "2026-01-01T01:00:00.001+01:00").unwrap(), Timestamp(1_767_225_600_001));
        assert!(read("at", "tomorrow").unwrap_err().detail.contains("at: \"tomorrow\""));
        assert!(read("at", "1969-01-01T00:00:00Z").is_err());
    }
}
