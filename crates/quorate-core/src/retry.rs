//! Retry policy of requests: exponential backoff, starting at 1 s.

use crate::refused::Code;

/// Default number of retries.
pub const RETRIES_DEFAULT: u32 = 3;
/// Maximum backoff, reached with the fifth retry.
const LONGEST_MS: u64 = 16_000;

/// Returns the backoff before the next attempt, after `retries` retries and a last attempt that ended with this code;
/// `None` if it is not retried. Only transient errors are: timeout, unavailable, overloaded.
///
/// ```
/// use quorate_core::{Code, retry};
/// let waits: Vec<_> = (0..).map_while(|retries| retry::next_delay_ms(retries, 3, Code::Timeout)).collect();
/// assert_eq!(waits, [1_000, 2_000, 4_000]);
/// assert_eq!(retry::next_delay_ms(0, 3, Code::Forbidden), None);
/// ```
#[must_use]
pub fn next_delay_ms(retries: u32, retries_max: u32, code: Code) -> Option<u64> {
    let transient = matches!(code, Code::Timeout | Code::Unavailable | Code::Overloaded);
    (transient && retries < retries_max).then(|| backoff_ms(retries))
}

/// Returns the backoff after `retries` retries: 1, 2, 4, 8, then 16 s.
#[must_use]
pub fn backoff_ms(retries: u32) -> u64 {
    1_000u64.checked_shl(retries.min(32)).unwrap_or(LONGEST_MS).min(LONGEST_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a backoff that does not double or has no maximum, one retry too many or too few.
    #[test]
    fn d7_retries_wait_1_2_4_8_16_seconds() {
        let waits: Vec<_> = (0..8).map(|retries| next_delay_ms(retries, 7, Code::Unavailable)).collect();
        let seconds = [1, 2, 4, 8, 16, 16, 16].map(|seconds: u64| Some(seconds * 1000));
        assert_eq!(waits[..7], seconds);
        assert_eq!(waits[7], None, "seven were allowed");
        assert_eq!(backoff_ms(u32::MAX), 16_000);
    }

    // Fails under: `Code::retryable` used as the rule.
    #[test]
    fn d7_only_three_codes_are_retried() {
        let retried: Vec<_> =
            Code::ALL.iter().copied().filter(|code| next_delay_ms(0, 3, *code).is_some()).collect();
        assert_eq!(retried, [Code::Timeout, Code::Unavailable, Code::Overloaded]);
    }
}
