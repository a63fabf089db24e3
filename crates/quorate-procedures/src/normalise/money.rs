//! Numbers and amounts of money as people write them.

const SYMBOLS: [(&str, &str); 6] =
    [("us$", "USD"), ("$", "USD"), ("€", "EUR"), ("£", "GBP"), ("¥", "JPY"), ("₹", "INR")];

/// Currency names; ISO codes are listed in [`CODES`].
const WORDS: [(&str, &str); 6] = [
    ("dollars", "USD"),
    ("dollar", "USD"),
    ("euros", "EUR"),
    ("euro", "EUR"),
    ("pounds", "GBP"),
    ("rupees", "INR"),
];

const CODES: [&str; 14] =
    ["USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "NZD", "INR", "CNY", "SEK", "NOK", "DKK", "SGD"];

const SCALES: [(&str, f64); 3] = [("thousand", 1e3), ("million", 1e6), ("billion", 1e9)];

/// Parses a number with comma-separated thousands, a decimal point and an optional scale (thousand, million or billion).
pub(super) fn parse_number(text: &str) -> Option<f64> {
    let text = text.trim();
    for (word, scale) in SCALES {
        if let Some(rest) = text.strip_suffix(word) {
            return digits(rest.trim()).map(|value| value * scale);
        }
    }
    digits(text)
}

fn digits(text: &str) -> Option<f64> {
    let bare = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = bare.split_once('.').unwrap_or((bare, "0"));
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let grouped = whole.contains(',');
    let is_valid = all_digits(first)
        && all_digits(fraction)
        && (!grouped || first.len() <= 3)
        && groups.all(|group| group.len() == 3 && all_digits(group));
    is_valid.then(|| text.replace(',', "").parse().ok()).flatten()
}

/// Parses an amount of money into currency code and amount.
pub(super) fn parse_money(text: &str) -> Option<(String, f64)> {
    let lower = text.to_lowercase();
    for (symbol, code) in SYMBOLS {
        let rest = lower.strip_prefix(symbol).or_else(|| lower.strip_suffix(symbol));
        if let Some(amount) =
            rest.and_then(|rest| parse_number(rest.trim().trim_end_matches(&code.to_lowercase())))
        {
            return Some((code.to_owned(), amount));
        }
    }
    let named = WORDS.iter().map(|(word, code)| ((*word).to_owned(), *code));
    let coded = CODES.iter().map(|code| (code.to_lowercase(), *code));
    for (name, code) in named.chain(coded) {
        let rest = lower.strip_prefix(&name).or_else(|| lower.strip_suffix(&name));
        if let Some(amount) = rest.and_then(parse_number) {
            return Some((code.to_owned(), amount));
        }
    }
    None
}
