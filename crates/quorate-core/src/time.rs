//! Points in time, as arguments. Nothing here asks what time it is.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::refused::{Code, Refused};

/// A wall-clock instant: milliseconds since 1970, UTC. Within a space it never goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The instant `delay_ms` later; saturates at the end of time.
    #[must_use]
    pub fn plus_ms(self, delay_ms: u64) -> Self {
        Self(self.0.saturating_add(delay_ms))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&rfc3339(*self)).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Timestamp {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let wrong = || {
            Refused::new(Code::Invalid, format!("{text:?} is not an RFC 3339 time"))
                .hint("write it as in 2026-01-31T09:30:00.000Z")
        };
        let time: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
        u64::try_from(time.as_millisecond()).map(Self).map_err(|_| wrong())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = rfc3339(*self);
        serializer.serialize_str(std::str::from_utf8(&text).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text_serde::parse(deserializer)
    }
}

crate::text_serde::text_schema!(Timestamp, { "type": "string", "format": "date-time" });

/// RFC 3339 in UTC with milliseconds. Written by hand because every delivery has two of them, and a general formatter takes
/// longer than the rest of the delivery.
fn rfc3339(time: Timestamp) -> [u8; 24] {
    const DAY_MS: u64 = 86_400_000;
    // RFC 3339 ends with the year 9999.
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
    text
}

/// Year, month and day of a day counted from 1970-01-01. Years begin in March here, so that the leap day is the last.
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

/// A reading of the monotonic clock, in milliseconds since an arbitrary start. Leases are measured with it, so that a
/// jump of the wall clock neither ends nor prolongs one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Mono(pub u64);

impl Mono {
    /// The reading `delay_ms` later; saturates.
    #[must_use]
    pub fn plus_ms(self, delay_ms: u64) -> Self {
        Self(self.0.saturating_add(delay_ms))
    }
}

/// Both clocks, read together. Every decision is made at one `Now`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// For what people see and what is written down.
    pub wall: Timestamp,
    /// For how long a lease lasts.
    pub mono: Mono,
}

impl Now {
    /// The same moment on both clocks, `by` later.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        Self { wall: self.wall.plus_ms(ms), mono: self.mono.plus_ms(ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    // Fails under: a leap year that is none, a month that is too long.
    #[test]
    fn every_day_is_written_as_calendars_have_it() {
        for day in (0..60_000_u64).chain((60_000..2_932_897).step_by(97)) {
            let ms = day * 86_400_000 + day * 7_919 % 86_400_000;
            let time = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
            assert_eq!(Timestamp(ms).to_string(), format!("{time:.3}"));
        }
        assert_eq!(Timestamp(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn times_are_parsed_as_they_are_written() {
        assert_eq!(Timestamp(1_767_225_600_001).to_string(), "2026-01-01T00:00:00.001Z");
        assert_eq!(Timestamp(1_767_225_600_000).to_string(), "2026-01-01T00:00:00.000Z");
        let parse = |text: &str| text.parse::<Timestamp>();
        assert_eq!(parse("2026-01-01T01:00:00.001+01:00").unwrap(), Timestamp(1_767_225_600_001));
        assert!(parse("tomorrow").unwrap_err().detail.contains("\"tomorrow\""));
        assert!(parse("1969-01-01T00:00:00Z").is_err());
    }
}
