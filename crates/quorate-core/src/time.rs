//! Time types. This crate never reads a clock: times are passed in as arguments.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::refused::{Code, Refused};

/// A wall-clock time: milliseconds since 1970 in UTC. Never decreases within a space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Adds milliseconds, saturating.
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
        let invalid = || {
            Refused::new(Code::Invalid, format!("invalid time {text:?}: not in RFC 3339 format"))
                .hint("use a time such as 2026-01-31T09:30:00.000Z")
        };
        parse_rfc3339(text.as_bytes()).map(Self).ok_or_else(invalid)
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

/// Formats a time as RFC 3339 in UTC with milliseconds. Hand-written because every delivery contains two times, and a
/// general formatter takes longer than the rest of the delivery.
fn rfc3339(time: Timestamp) -> [u8; 24] {
    const DAY_MS: u64 = 86_400_000;
    // RFC 3339 ends with the year 9999.
    let ms = time.0.min(253_402_300_799_999);
    let (year, month, day) = civil_date(ms / DAY_MS);
    let ms_of_day = ms % DAY_MS;
    let mut text = [0; 24];
    let mut put = |at: usize, digits: usize, mut number: u64| {
        for digit in text[at..at + digits].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    put(0, 4, year);
    put(5, 2, month);
    put(8, 2, day);
    put(11, 2, ms_of_day / 3_600_000);
    put(14, 2, ms_of_day / 60_000 % 60);
    put(17, 2, ms_of_day / 1_000 % 60);
    put(20, 3, ms_of_day % 1_000);
    for (at, mark) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')] {
        text[at] = mark;
    }
    text
}

/// Converts days since 1970-01-01 into year, month and day of the Gregorian calendar. The computation starts years in
/// March, so that the leap day is the last of its year.
pub(crate) fn civil_date(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + carry, month, day)
}

/// Parses an RFC 3339 time with any offset into milliseconds since 1970; finer fractions are truncated.
fn parse_rfc3339(text: &[u8]) -> Option<u64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits
            .iter()
            .try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
    };
    let is = |at: usize, marks: &[u8]| text.get(at).is_some_and(|byte| marks.contains(byte));
    if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let [year, month, day] = [number(0, 4)?, number(5, 7)?, number(8, 10)?];
    let [hour, minute, second] = [number(11, 13)?, number(14, 16)?, number(17, 19)?];
    // A leap second is treated as the second before it.
    let second = if second == 60 { 59 } else { second };
    let mut at = 19;
    let mut ms = 0;
    if is(at, b".") {
        let digits = text[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        let kept = digits.min(3);
        ms = number(at + 1, at + 1 + kept)? * 10_i64.pow(3 - kept as u32);
        at += 1 + digits;
    }
    let offset = match (text.get(at)?, text.len() - at) {
        (b'Z' | b'z', 1) => 0,
        (sign @ (b'+' | b'-'), 6) if is(at + 3, b":") => {
            let [hours, minutes] = [number(at + 1, at + 3)?, number(at + 4, at + 6)?];
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'+' { 60 } else { -60 }
        }
        _ => return None,
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    u64::try_from(seconds * 1_000 + ms).ok()
}

/// The inverse of [`date`].
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// A monotonic time, in milliseconds since an arbitrary start. Leases are measured with it, so that a jump of the wall
/// clock neither expires nor extends them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Mono(pub u64);

impl Mono {
    /// Adds milliseconds, saturating.
    #[must_use]
    pub fn plus_ms(self, delay_ms: u64) -> Self {
        Self(self.0.saturating_add(delay_ms))
    }
}

/// A reading of both clocks. Every decision is made at one `Now`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Wall-clock time, for display and records.
    pub wall: Timestamp,
    /// Monotonic time, for leases and timeouts.
    pub mono: Mono,
}

impl Now {
    /// Adds a duration to both clocks.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        Self { wall: self.wall.plus_ms(ms), mono: self.mono.plus_ms(ms) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Timestamp;

    fn parse(text: &str) -> Option<u64> {
        text.parse::<Timestamp>().ok().map(|time| time.0)
    }

    // Fails under: a wrong leap year or month length.
    #[test]
    fn every_day_is_formatted_and_parsed_like_jiff() {
        for day in (0..60_000_u64).chain((60_000..2_932_897).step_by(97)) {
            let ms = day * 86_400_000 + day * 7_919 % 86_400_000;
            let time = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
            assert_eq!(Timestamp(ms).to_string(), format!("{time:.3}"));
            assert_eq!(parse(&format!("{time:.3}")), Some(ms));
        }
        assert_eq!(Timestamp(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn times_are_parsed_with_offsets_and_fractions() {
        let ms = Some(1_767_225_600_001);
        for text in [
            "2026-01-01T00:00:00.001Z",
            "2026-01-01T01:00:00.001+01:00",
            "2025-12-31t19:30:00.0019-04:30",
            "2026-01-01 00:00:00.001z",
        ] {
            assert_eq!(parse(text), ms, "{text}");
        }
        assert_eq!(parse("2026-06-30T23:59:60Z"), parse("2026-06-30T23:59:59Z"));
        for text in [
            "tomorrow",
            "",
            "1969-01-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+0100",
            "2026-01-01T00:00:00Zx",
            "2026-1-1T00:00:00Z",
            "２０２６-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!("tomorrow".parse::<Timestamp>().unwrap_err().detail.contains("\"tomorrow\""));
    }

    proptest! {
        #[test]
        fn times_are_parsed_like_jiff(
            text in "20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{1,9})?(Z|[+-][01][0-9]:[0-6][0-9])"
        ) {
            let expected = text.parse::<jiff::Timestamp>().ok();
            prop_assert_eq!(parse(&text), expected.map(|time| time.as_millisecond() as u64));
        }
    }
}
