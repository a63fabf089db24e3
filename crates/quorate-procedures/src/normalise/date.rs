//! Calendar dates as people write them.

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Parses a lower-case date to `YYYY-MM-DD`; `None` if day and month are ambiguous.
pub(super) fn parse_date(text: &str) -> Option<String> {
    let parts: Vec<&str> = text
        .split(|ch: char| ch.is_whitespace() || matches!(ch, ',' | '-' | '/' | '.'))
        .filter(|part| !part.is_empty() && !matches!(*part, "of" | "the"))
        .collect();
    let [first, second, third] = parts[..] else { return None };
    let (year, month, day) = if first.len() == 4 {
        (first, numeric_month(second).or_else(|| month(second))?, third)
    } else if let Some(month) = month(second) {
        (third, month, first)
    } else {
        (third, month(first)?, second)
    };
    let (year, day) = (whole(year).filter(|_| year.len() == 4)?, day_of(day)?);
    (1..=days(year, month)).contains(&day).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

fn whole(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn numeric_month(text: &str) -> Option<u32> {
    whole(text).filter(|month| (1..=12).contains(month))
}

/// Parses a month name or an abbreviation of at least three letters.
fn month(text: &str) -> Option<u32> {
    let index = MONTHS.iter().position(|name| {
        text.len() >= 3 && name.starts_with(text) || text == "sept" && name.starts_with("sept")
    })?;
    u32::try_from(index + 1).ok()
}

fn day_of(text: &str) -> Option<u32> {
    let bare = ["st", "nd", "rd", "th"].iter().find_map(|suffix| text.strip_suffix(suffix)).unwrap_or(text);
    whole(bare)
}

fn days(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
