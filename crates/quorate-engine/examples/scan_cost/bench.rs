//! A single measurement, and the texts that are measured.

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use quorate_engine::Scanner;

/// Published sizes.
pub(crate) const SIZES: [usize; 4] = [256, 4 * 1024, 64 * 1024, 512 * 1024];

/// Text to scan.
#[derive(Clone, Copy)]
pub(crate) enum Text {
    /// JSON with hardly any keywords.
    Plain,
    /// JSON with a URL in every object.
    Usual,
    /// JSON with many keywords but no secrets.
    Suspicious,
    /// JSON as written by Python, with an escape in every object.
    Escaped,
}

impl Text {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "JSON",
            Self::Usual => "JSON with URLs",
            Self::Suspicious => "JSON about secrets",
            Self::Escaped => "JSON with \\u escapes",
        }
    }

    /// Returns this many bytes of the text.
    pub(crate) fn of(self, size: usize) -> Vec<u8> {
        let more = match self {
            Self::Plain => "",
            Self::Usual => r#","url":"https://example.org/docs/annex-b?page=2""#,
            Self::Suspicious => {
                r#","url":"https://example.org/","rules":"password: required, api_key: optional, client_secret: none""#
            }
            Self::Escaped => r#","quote":"\u201cas agreed\u201d""#,
        };
        let mut text = String::from("[");
        let mut number = 0u64;
        while text.len() < size {
            number += 1;
            let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let written = write!(
                text,
                r#"{{"id":"tsk_0-{number}-1"{more},"title":"Review clause {number} of the supply contract","status":"done","confidence":0.{},"findings":["the termination notice is shorter than agreed","no cap on liability"],"commit":"{random:016x}{random:016x}{:08x}","tokens":{},"note":"The author asked for a second look,\nsee \"annex B\"."}},"#,
                random % 100,
                random >> 32,
                random % 5000,
            );
            written.expect("writing to a string cannot fail");
        }
        text.truncate(size);
        text.into_bytes()
    }
}

/// Returns the average duration of a scan.
pub(crate) fn scan_cost(scanner: &Scanner, text: Text, size: usize, times: usize) -> Duration {
    let bytes = text.of(size);
    let start = Instant::now();
    for _ in 0..times {
        assert_eq!(black_box(scanner.scan(black_box(&bytes))), None, "the text contains no secret");
    }
    start.elapsed() / u32::try_from(times).unwrap_or(u32::MAX)
}
