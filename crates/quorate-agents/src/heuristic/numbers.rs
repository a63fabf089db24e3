//! Numbers as contracts write them: in figures, in words, or both.

use crate::contracts::numerals::{SMALL, TENS};

/// How many units of the word after it a number counts: `forty-five (45) days`, `90 calendar days`.
pub(crate) fn counted(plain: &str, unit: &str) -> Vec<u64> {
    let words = split(plain);
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if word.trim_end_matches(['\'', 's']) != unit {
            continue;
        }
        let mut end = at;
        while end > 0
            && matches!(
                words[end - 1],
                "calendar" | "business" | "working" | "consecutive" | "further" | "prior" | "full"
            )
        {
            end -= 1;
        }
        found.extend(number_before(&words[..end]));
    }
    found
}

/// Amounts of money, in whole units.
pub(crate) fn amounts(plain: &str) -> Vec<u64> {
    let words = split(plain);
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if is_currency(word) {
            let figures = words.get(at + 1).and_then(|word| figures(word));
            let scale = words.get(at + 2).map_or(1, |word| scale(word));
            let scaled = figures.map(|number| scaled(number, scale));
            let amount = scaled.or_else(|| number_before(&words[..at]));
            if let Some(amount) = amount.filter(|amount| !found.contains(amount)) {
                found.push(amount);
            }
        }
    }
    found
}

/// Percentages, in hundredths of a percent.
pub(crate) fn percents(plain: &str) -> Vec<u64> {
    let spaced = plain.replace('%', " percent ").replace("per cent", "percent");
    let words = split(&spaced);
    let mut found = Vec::new();
    for (at, _) in words.iter().enumerate().filter(|(_, word)| **word == "percent") {
        let hundredths = words[..at].last().and_then(|word| figures(word)).map(|number| scaled(number, 100));
        found.extend(hundredths.or_else(|| in_words_with_half(&words[..at])));
    }
    found
}

/// `one and a half`, `two`.
fn in_words_with_half(words: &[&str]) -> Option<u64> {
    match words {
        [before @ .., "and", "a", "half"]
        | [before @ .., "and", "one", "half"]
        | [before @ .., "and", "one-half"] => Some(number_before(before)? * 100 + 50),
        _ => Some(number_before(words)? * 100),
    }
}

fn split(plain: &str) -> Vec<&str> {
    plain
        .split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ';' | ':' | '"' | '/'))
        .map(|word| word.trim_matches(['.', ',']))
        .filter(|word| !word.is_empty())
        .collect()
}

fn is_currency(word: &str) -> bool {
    matches!(word, "usd" | "eur" | "gbp" | "chf" | "dollars" | "euros" | "pounds" | "euro" | "francs")
}

/// A number in figures as its digits and how many stand behind the point.
fn figures(word: &str) -> Option<(u64, u32)> {
    let word = word.replace(',', "");
    let (whole, part) = word.split_once('_').unwrap_or((&word, ""));
    let digits = format!("{whole}{part}");
    let all = !whole.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    all.then(|| digits.parse().ok()).flatten().map(|number| (number, u32::try_from(part.len()).unwrap_or(0)))
}

fn scaled((number, decimals): (u64, u32), scale: u64) -> u64 {
    number.saturating_mul(scale) / 10_u64.saturating_pow(decimals)
}

fn scale(word: &str) -> u64 {
    match word {
        "million" => 1_000_000,
        "thousand" => 1_000,
        _ => 1,
    }
}

/// The number that ends right there: in figures, or in as many words as belong to it.
fn number_before(words: &[&str]) -> Option<u64> {
    if let Some(number) = words.last().and_then(|word| figures(word)) {
        return Some(scaled(number, 1));
    }
    let is_number = |word: &&str| word.split('-').all(|part| value(part).is_some()) || *word == "and";
    let begin = words.iter().rposition(|word| !is_number(word)).map_or(0, |at| at + 1);
    let parts: Vec<u64> = words[begin..].iter().flat_map(|word| word.split('-')).filter_map(value).collect();
    if parts.is_empty() {
        return None;
    }
    let (mut total, mut group) = (0_u64, 0_u64);
    for part in parts {
        match part {
            100 => group = group.max(1) * 100,
            1_000 | 1_000_000 => {
                total += group.max(1) * part;
                group = 0;
            }
            small => group += small,
        }
    }
    Some(total + group)
}

fn value(word: &str) -> Option<u64> {
    let place = |list: &[&str]| list.iter().position(|known| *known == word).map(|at| at as u64);
    match word {
        "hundred" => Some(100),
        "thousand" => Some(1_000),
        "million" => Some(1_000_000),
        _ => place(&SMALL).or_else(|| place(&TENS).map(|at| at * 10)),
    }
}

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

/// Dates, as year, month and day.
pub(crate) fn dates(plain: &str) -> Vec<(u64, u64, u64)> {
    let words = split(plain);
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let iso: Vec<u64> = word.split('-').filter_map(|part| part.parse().ok()).collect();
        if let [year @ 1900..=2200, month @ 1..=12, day @ 1..=31] = iso[..] {
            found.push((year, month, day));
        }
        let Some(month) = MONTHS.iter().position(|month| month == word) else { continue };
        let day_of = |word: &&str| {
            word.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok().filter(|day| *day <= 31)
        };
        let before = words[..at].iter().rev().find(|word| !matches!(**word, "day" | "of"));
        let after = words.get(at + 1);
        let year =
            words[at..].iter().skip(1).take(3).find_map(|word| word.parse().ok().filter(|year| *year > 1900));
        let day = after
            .and_then(day_of)
            .filter(|_| after.is_some_and(|w| w.len() <= 4 && w.parse::<u64>().is_ok_and(|d| d <= 31)));
        if let (Some(year), Some(day)) = (year, day.or_else(|| before.and_then(day_of))) {
            found.push((year, month as u64 + 1, day));
        }
    }
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_words_and_figures() {
        assert_eq!(
            counted("within forty-five (45) days after; one hundred twenty calendar days'", "day"),
            [45, 120]
        );
        assert_eq!(counted("the one (1) month preceding", "month"), [1]);
        assert_eq!(amounts("one million seven hundred four thousand euros (eur 1,704,000)"), [1_704_000]);
        assert_eq!(amounts("usd 1_5 million and 20,000 dollars"), [1_500_000, 20_000]);
        assert_eq!(
            percents("1_5 per cent, 3%, one and a half percent, two percent (2%)"),
            [150, 300, 150, 200, 200]
        );
    }

    #[test]
    fn dates_are_read_in_each_style() {
        let all = "november 23, 2026; 1 december 2026; 2027-01-05; the 3rd day of may, 2028";
        assert_eq!(dates(all), [(2026, 11, 23), (2026, 12, 1), (2027, 1, 5), (2028, 5, 3)]);
    }
}
