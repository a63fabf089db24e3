//! Checks that bytes are interoperable JSON: bounded nesting depth, valid UTF-8, and no lone surrogates.

use quorate_core::limits::JSON_DEPTH_MAX;
use quorate_core::{Code, Refused};
use serde::de::IgnoredAny;

mod json_path;

/// Rejects bytes that are not JSON or are nested too deeply.
///
/// # Errors
/// `INVALID` or `LIMIT_EXCEEDED`, with the position.
pub fn check_json(field: &str, bytes: &[u8]) -> Result<(), Refused> {
    if let Some(at) = too_deep(bytes) {
        return Err(Refused::new(
            Code::LimitExceeded,
            format!("the {field} is nested deeper than {JSON_DEPTH_MAX} levels at byte {at}"),
        )
        .limit(JSON_DEPTH_MAX as u64)
        .hint("flatten the JSON, or send it with another content type"));
    }
    // Check UTF-8 first: `IgnoredAny` skips strings without validating their bytes.
    let parsed = std::str::from_utf8(bytes)
        .map_err(|error| error.to_string())
        .and_then(|text| serde_json::from_str::<IgnoredAny>(text).map_err(|error| error.to_string()));
    match parsed {
        Ok(_) => match lone_surrogate(bytes) {
            Some(at) => Err(Refused::new(
                Code::Invalid,
                format!(
                    "the {field} contains a lone surrogate at {}: its escape is not text",
                    json_path::path_at(bytes, at)
                ),
            )
            .hint("an escape from \\ud800 to \\udbff must be followed by one from \\udc00 to \\udfff")),
            None => Ok(()),
        },
        Err(error) => Err(Refused::new(Code::Invalid, format!("the {field} is not JSON: {error}"))
            .hint("send JSON, or set the content type")),
    }
}

/// Returns the position of a lone surrogate in a string of valid JSON. Parsers of most languages reject the whole
/// document for it, so one such text would make every list that contains it unreadable.
fn lone_surrogate(bytes: &[u8]) -> Option<usize> {
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => return Some(at),
            Some(_) => at += 6,
            // All other escapes are two bytes long.
            None => at += 2,
        }
    }
    None
}

/// Returns the position at which the nesting exceeds the limit. Only counts brackets outside of strings, so it needs
/// no stack.
fn too_deep(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > JSON_DEPTH_MAX {
                    return Some(at);
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
