//! What a reader of JSON says of something that has another shape than it should, in words that need no knowledge of the
//! language this is written in.

/// In plain words. What is said in none of the known ways stays as it is.
#[must_use]
pub fn misread(said: &str) -> String {
    let (what, place) = split_place(said);
    format!("{}{place}", in_words(what).unwrap_or_else(|| what.to_owned()))
}

/// ` at line 1 column 8` → ` (line 1, column 8)`.
fn split_place(said: &str) -> (&str, String) {
    let place = said.rsplit_once(" at line ").and_then(|(what, place)| {
        let (line, column) = place.split_once(" column ")?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(line) && is_number(column)).then(|| (what, format!(" (line {line}, column {column})")))
    });
    place.unwrap_or((said, String::new()))
}

fn in_words(what: &str) -> Option<String> {
    if let Some(name) = what.strip_prefix("missing field ") {
        return Some(format!("{} is missing", name.trim_matches('`')));
    }
    if let Some(rest) = what.strip_prefix("unknown field ") {
        let (name, known) = rest.split_once(", ")?;
        let known = known.strip_prefix("expected ").map_or_else(|| "none".to_owned(), names);
        return Some(format!("there is no field {}; there are {known}", name.trim_matches('`')));
    }
    if let Some(rest) = what.strip_prefix("unknown variant ") {
        let (word, known) = rest.split_once(", expected ")?;
        return Some(format!("is {}, not {}", quoted(word), names(known)));
    }
    let rest = what.strip_prefix("invalid type: ").or_else(|| what.strip_prefix("invalid value: "))?;
    let (found, wanted) = rest.rsplit_once(", expected ")?;
    Some(format!("is {}, not {}", of_found(found), of_wanted(wanted)))
}

/// `one of `a`, `b`` → `a, b`.
fn names(known: &str) -> String {
    known.trim_start_matches("one of ").replace('`', "")
}

fn quoted(word: &str) -> String {
    format!("\"{}\"", word.trim_matches('`'))
}

fn of_found(found: &str) -> &str {
    match found {
        "sequence" => "a list",
        "map" => "an object",
        "unit value" => "nothing",
        _ => ["string ", "integer ", "floating point ", "boolean ", "number "]
            .iter()
            .find_map(|kind| found.strip_prefix(kind))
            .map_or(found, |value| value.trim_matches('`')),
    }
}

fn of_wanted(wanted: &str) -> &str {
    match wanted {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0 on",
        "a nonzero u64" | "a nonzero u32" | "a nonzero u16" => "a whole number from 1 on",
        "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "str" | "a borrowed string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" | "any value" => "an object",
        _ if wanted.starts_with("struct ") || wanted.starts_with("internally tagged enum ") => "an object",
        _ => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::misread;

    // Fails under: a type of Rust, a backquote, or `struct` in what a caller reads.
    #[test]
    fn what_was_misread_is_said_in_plain_words() {
        for (said, words) in [
            (
                "invalid type: string \"x\", expected u16 at line 1 column 41",
                "is \"x\", not a whole number from 0 to 65535 (line 1, column 41)",
            ),
            ("invalid type: string \"a, expected b\", expected f64", "is \"a, expected b\", not a number"),
            ("invalid value: integer `-1`, expected u16", "is -1, not a whole number from 0 to 65535"),
            (
                "invalid type: floating point `1000.0`, expected u16",
                "is 1000.0, not a whole number from 0 to 65535",
            ),
            ("invalid type: sequence, expected struct MessageIn", "is a list, not an object"),
            ("invalid type: null, expected a string", "is null, not a text"),
            ("unknown variant `x`, expected `durable` or `ephemeral`", "is \"x\", not durable or ephemeral"),
            ("unknown variant `x`, expected one of `a`, `b`", "is \"x\", not a, b"),
            ("unknown field `n`, expected one of `id`, `to`", "there is no field n; there are id, to"),
            ("unknown field `n`, there are no fields", "there is no field n; there are none"),
            ("missing field `to` at line 1 column 2", "to is missing (line 1, column 2)"),
            ("trailing comma at line 1 column 13", "trailing comma (line 1, column 13)"),
            ("an agent, a list of agents or *", "an agent, a list of agents or *"),
        ] {
            assert_eq!(misread(said), words);
        }
    }
}
