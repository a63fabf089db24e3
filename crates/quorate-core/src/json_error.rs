//! Rewrites serde's error messages for users: without Rust types, backquotes or `struct`.

/// Rewrites a serde error message. Unrecognised messages are returned unchanged.
#[must_use]
pub fn describe_json_error(message: &str) -> String {
    let (problem, position) = split_position(message);
    format!("{}{position}", rewrite(problem).unwrap_or_else(|| problem.to_owned()))
}

/// ` at line 1 column 8` → ` (line 1, column 8)`.
fn split_position(message: &str) -> (&str, String) {
    let split = message.rsplit_once(" at line ").and_then(|(problem, position)| {
        let (line, column) = position.split_once(" column ")?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(line) && is_number(column)).then(|| (problem, format!(" (line {line}, column {column})")))
    });
    split.unwrap_or((message, String::new()))
}

fn rewrite(problem: &str) -> Option<String> {
    if let Some(name) = problem.strip_prefix("missing field ") {
        return Some(format!("missing field {}", name.trim_matches('`')));
    }
    if let Some(rest) = problem.strip_prefix("unknown field ") {
        let (name, known) = rest.split_once(", ")?;
        let name = name.trim_matches('`');
        return Some(match known.strip_prefix("expected ") {
            Some(known) => format!("unknown field {name}, expected {}", names(known)),
            None => format!("unknown field {name}, expected no fields"),
        });
    }
    if let Some(rest) = problem.strip_prefix("unknown variant ") {
        let (word, known) = rest.split_once(", expected ")?;
        return Some(format!("expected {}, found {}", names(known), quoted(word)));
    }
    let rest = problem.strip_prefix("invalid type: ").or_else(|| problem.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    Some(format!("expected {}, found {}", describe_expected(expected), describe_found(found)))
}

/// `one of `a`, `b`` → `one of a, b`.
fn names(known: &str) -> String {
    known.replace('`', "")
}

fn quoted(word: &str) -> String {
    format!("\"{}\"", word.trim_matches('`'))
}

fn describe_found(found: &str) -> &str {
    match found {
        "sequence" => "an array",
        "map" => "an object",
        "unit value" => "null",
        _ => ["string ", "integer ", "floating point ", "boolean ", "number "]
            .iter()
            .find_map(|kind| found.strip_prefix(kind))
            .map_or(found, |value| value.trim_matches('`')),
    }
}

fn describe_expected(expected: &str) -> &str {
    match expected {
        "u8" => "an integer from 0 to 255",
        "u16" => "an integer from 0 to 65535",
        "u32" => "an integer from 0 to 4294967295",
        "u64" | "usize" => "an integer of at least 0",
        "a nonzero u64" | "a nonzero u32" | "a nonzero u16" => "an integer of at least 1",
        "i32" | "i64" => "an integer",
        "f32" | "f64" => "a number",
        "a string" | "str" | "a borrowed string" => "a string",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        "a map" | "any value" => "an object",
        _ if expected.starts_with("struct ") || expected.starts_with("internally tagged enum ") => {
            "an object"
        }
        _ => expected,
    }
}

#[cfg(test)]
mod tests {
    use super::describe_json_error;

    // Fails under: a Rust type, a backquote, or `struct` in the message for the caller.
    #[test]
    fn serde_errors_are_rewritten_for_users() {
        for (message, expected) in [
            (
                "invalid type: string \"x\", expected u16 at line 1 column 41",
                "expected an integer from 0 to 65535, found \"x\" (line 1, column 41)",
            ),
            (
                "invalid type: string \"a, expected b\", expected f64",
                "expected a number, found \"a, expected b\"",
            ),
            ("invalid value: integer `-1`, expected u16", "expected an integer from 0 to 65535, found -1"),
            (
                "invalid type: floating point `1000.0`, expected u16",
                "expected an integer from 0 to 65535, found 1000.0",
            ),
            ("invalid type: sequence, expected struct MessageIn", "expected an object, found an array"),
            ("invalid type: null, expected a string", "expected a string, found null"),
            (
                "unknown variant `x`, expected `durable` or `ephemeral`",
                "expected durable or ephemeral, found \"x\"",
            ),
            ("unknown variant `x`, expected one of `a`, `b`", "expected one of a, b, found \"x\""),
            ("unknown field `n`, expected one of `id`, `to`", "unknown field n, expected one of id, to"),
            ("unknown field `n`, there are no fields", "unknown field n, expected no fields"),
            ("missing field `to` at line 1 column 2", "missing field to (line 1, column 2)"),
            ("trailing comma at line 1 column 13", "trailing comma (line 1, column 13)"),
            ("an agent, a list of agents or *", "an agent, a list of agents or *"),
        ] {
            assert_eq!(describe_json_error(message), expected);
        }
    }
}
