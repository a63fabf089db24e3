//! Times in query parameters and reports: RFC 3339 with milliseconds.

use quorate_core::{Refused, Timestamp};

pub(crate) fn format(time: Timestamp) -> String {
    time.to_string()
}

/// Parses a time; `name` is the query parameter, for the error message.
pub(crate) fn parse(name: &str, text: &str) -> Result<Timestamp, Refused> {
    text.parse().map_err(|mut refused: Refused| {
        refused.detail = format!("{name}: {}", refused.detail);
        refused
    })
}
