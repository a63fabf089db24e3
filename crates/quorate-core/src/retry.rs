//! When to try again what was refused or not answered: first after 1 s, then after twice as long each time.

use crate::refused::Code;

/// Retries when nobody says otherwise.
pub const RETRIES_DEFAULT: u32 = 3;
/// The longest wait: the fifth and every later one.
const LONGEST_MS: u64 = 16_000;

/// How long to wait before the next try, after `retries` were made already and the last try ended with this code; `None`
/// when it is not tried again. Only what may pass by itself is: nothing came in time, nobody was there, too much waited.
///
/// ```
/// use quorate_core::{Code, retry};
/// let waits: Vec<_> = (0..).map_while(|retries| retry::wait_ms(retries, 3, Code::Timeout)).collect();
/// assert_eq!(waits, [1_000, 2_000, 4_000]);
/// assert_eq!(retry::wait_ms(0, 3, Code::Forbidden), None);
/// ```
#[must_use]
pub fn wait_ms(retries: u32, retries_max: u32, code: Code) -> Option<u64> {
    let may_pass = matches!(code, Code::Timeout | Code::Unavailable | Code::Overloaded);
    (may_pass && retries < retries_max).then(|| backoff_ms(retries))
}

/// How long to wait before the next try after `retries` were made already: 1, 2, 4, 8, then 16 s.
#[must_use]
pub fn backoff_ms(retries: u32) -> u64 {
    1_000u64.checked_shl(retries.min(32)).unwrap_or(LONGEST_MS).min(LONGEST_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a wait that does not double, no longest wait, one retry too many or too few.
    #[test]
    fn d7_retries_wait_1_2_4_8_16_seconds() {
        let waits: Vec<_> = (0..8).map(|retries| wait_ms(retries, 7, Code::Unavailable)).collect();
        let seconds = [1, 2, 4, 8, 16, 16, 16].map(|seconds: u64| Some(seconds * 1000));
        assert_eq!(waits[..7], seconds);
        assert_eq!(waits[7], None, "seven were allowed");
        assert_eq!(backoff_ms(u32::MAX), 16_000);
    }

    // Fails under: `Code::retryable` taken for the rule.
    #[test]
    fn d7_only_three_codes_are_tried_again() {
        let tried: Vec<_> = Code::ALL.iter().copied().filter(|code| wait_ms(0, 3, *code).is_some()).collect();
        assert_eq!(tried, [Code::Timeout, Code::Unavailable, Code::Overloaded]);
    }
}
