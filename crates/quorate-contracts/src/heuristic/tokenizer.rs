//! Tokeniser: splits a text into sentences and a sentence into normalised words: lower case, no articles, one token for
//! each number and date.
//!
//! `thirty (30) days` and `30 days` become `@n days`, an amount becomes `@money`, a rate `@percent`, a date `@date`, so
//! that a pattern needs only one form of each. The values themselves are parsed by `numbers.rs` from the text.

use super::numbers;

/// Longer sentences are split into chunks of this many words.
pub(crate) const SENTENCE_WORDS_MAX: usize = 250;

/// Normalises to lower-case ASCII. A point between digits becomes `_`, so that points end sentences.
pub(crate) fn normalise(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let chars: Vec<char> = text.chars().collect();
    for (index, &c) in chars.iter().enumerate() {
        let digit =
            |index: Option<usize>| index.and_then(|index| chars.get(index)).is_some_and(char::is_ascii_digit);
        match c {
            '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{ab}' | '\u{bb}' => out.push('"'),
            '\u{2018}' | '\u{2019}' => out.push('\''),
            '\u{2010}'..='\u{2015}' => out.push('-'),
            '\u{a0}' => out.push(' '),
            '\u{a7}' => out.push_str("sect"),
            '\u{20ac}' => out.push_str("eur "),
            '\u{a3}' => out.push_str("gbp "),
            '$' => out.push_str("usd "),
            '.' if digit(index.checked_sub(1)) && digit(Some(index + 1)) => out.push('_'),
            _ if c.is_ascii() => out.push(c.to_ascii_lowercase()),
            _ => out.push('?'),
        }
    }
    out
}

/// Abbreviations after which a point does not end a sentence.
const ABBREVIATIONS: &[&str] = &[
    "inc", "ltd", "corp", "co", "no", "nos", "e.g", "i.e", "eg", "ie", "art", "sec", "approx", "u.s", "mr",
    "ms", "dr", "vs", "st", "cf", "p.a", "a.m", "p.m",
];

/// Splits a paragraph into sentences, unchanged.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let (mut sentences, mut start) = (Vec::new(), 0);
    for (offset, c) in text.char_indices() {
        let rest = &text[offset + c.len_utf8()..];
        if !matches!(c, '.' | '?' | '!')
            || !(rest.is_empty() || rest.starts_with([' ', '"', '\u{201d}', ')']))
        {
            continue;
        }
        let last_word = text[start..offset].rsplit([' ', '(']).next().unwrap_or_default().to_lowercase();
        let is_label =
            offset - start < 6 && text[start..offset].trim().chars().all(|c| c.is_ascii_digit() || c == '.');
        if ABBREVIATIONS.contains(&last_word.as_str()) && !rest.is_empty() || is_label {
            continue;
        }
        sentences.push(text[start..=offset].trim());
        start = offset + c.len_utf8();
    }
    sentences.push(text[start..].trim());
    sentences.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    sentences
}

/// Splits a normalised sentence into tokens.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let pieces =
        text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '\'' | '_' | ',' | '%' | '-' | '/')));
    let mut words: Vec<&str> = Vec::new();
    for piece in pieces {
        let piece = piece.trim_matches(|c| matches!(c, ',' | '\'' | '-' | '/' | '_'));
        if numbers::is_iso_date(piece) {
            words.push("@date");
            continue;
        }
        let parts = piece.split(['-', '/']).flat_map(|part| match part.strip_suffix('%') {
            Some(number) => [number, "percent"],
            None => [part, ""],
        });
        words.extend(parts.map(strip_possessive).filter(|word| !word.is_empty()));
    }
    merge_tokens(&words)
}

/// Removes a possessive ending and a comma.
fn strip_possessive(word: &str) -> &str {
    let word = word.trim_end_matches([',', '\'']);
    word.strip_suffix("'s").unwrap_or(word)
}

fn is_stop_word(word: &str) -> bool {
    matches!(word, "the" | "a" | "an" | "hereby" | "such" | "said" | "then" | "respective" | "thereby")
}

/// Merges numbers, amounts, rates and dates into one token each and drops stop words.
fn merge_tokens(words: &[&str]) -> Vec<String> {
    let mut out: Vec<String> = Vec::with_capacity(words.len());
    let mut index = 0;
    while index < words.len() {
        let rest = &words[index..];
        let (word, consumed) = if let Some(consumed) = numbers::leading_date_len(rest) {
            ("@date", consumed)
        } else if let Some(consumed) = numbers::leading_amount_len(rest) {
            ("@money", consumed)
        } else if let Some(consumed) = numbers::leading_number_len(rest) {
            let (next, unit) = unit_after(&rest[consumed..]);
            (next, consumed + unit)
        } else if let ["sub", next, ..] = rest {
            out.push(format!("sub{}", american(next)));
            index += 2;
            continue;
        } else {
            (american(rest[0]), 1)
        };
        index += consumed;
        // `five thousand dollars (USD 5,000)` is one amount, `thirty (30)` one number.
        if word.starts_with('@') && out.last().is_some_and(|last| last == word) || is_stop_word(word) {
            continue;
        }
        out.push(word.to_owned());
    }
    out
}

/// Token and length of the unit after a number: money, a rate, or none.
fn unit_after(rest: &[&str]) -> (&'static str, usize) {
    match rest {
        ["percent" | "pct", ..] => ("@percent", 1),
        ["per", "cent", ..] | ["percentage", "points" | "point", ..] => ("@percent", 2),
        ["us" | "u.s", "dollars", ..] | ["pounds", "sterling", ..] => ("@money", 2),
        ["united", "states", "dollars", ..] => ("@money", 3),
        ["dollars" | "euros" | "euro" | "pounds" | "francs" | "usd" | "eur" | "gbp" | "chf", ..] => {
            ("@money", 1)
        }
        _ => ("@n", 0),
    }
}

/// Maps British to American spelling.
fn american(word: &str) -> &str {
    match word {
        "licence" | "licences" => "license",
        "favourable" => "favorable",
        "favoured" => "favored",
        "favour" => "favor",
        "wilful" => "willful",
        "programme" => "program",
        "centre" => "center",
        "organisational" => "organizational",
        "authorised" => "authorized",
        "cancelled" => "canceled",
        "behaviour" => "behavior",
        "honour" => "honor",
        word => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_variants_become_one_token() {
        let words = |text: &str| tokens(&normalise(text)).join(" ");
        assert_eq!(words("within thirty (30) days' notice"), "within @n days notice");
        assert_eq!(words("one and one-half percent (1.5%) per month"), "@percent per month");
        assert_eq!(words("five thousand United States dollars ($5,000)"), "@money");
        assert_eq!(words("on the 3rd day of March, 2025 or 2025-03-03"), "on @date or @date");
        assert_eq!(words("The Supplier\u{2019}s non-exclusive licence"), "supplier non exclusive license");
        assert_eq!(words("no one may, on one hundred twenty days"), "no one may on @n days");
    }

    #[test]
    fn a_point_in_a_name_or_a_number_does_not_end_a_sentence() {
        let text = "A Inc. pays 1.5% p.a. on it. Section 4.2 holds!";
        assert_eq!(sentences(text), ["A Inc. pays 1.5% p.a. on it.", "Section 4.2 holds!"]);
    }
}
