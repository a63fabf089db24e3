//! Parses numbers as contracts write them: digits, words, or both.

use crate::generator::numerals::{SMALL, TENS};
use crate::months::month_index;

/// Amounts of money, in whole units.
pub(crate) fn amounts(text: &str) -> Vec<u64> {
    let words = split(text);
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if is_currency(word) {
            let figures = words.get(index + 1).and_then(|word| figures(word));
            let scale = words.get(index + 2).map_or(1, |word| scale(word));
            let scaled = figures.map(|number| scaled(number, scale));
            let amount = scaled.or_else(|| number_before(&words[..index]));
            if let Some(amount) = amount.filter(|amount| !found.contains(amount)) {
                found.push(amount);
            }
        }
    }
    found
}

/// Percentages, in hundredths of a percent.
pub(crate) fn percents(text: &str) -> Vec<u64> {
    let spaced = text.replace('%', " percent ").replace("per cent", "percent");
    let words = split(&spaced);
    let mut found = Vec::new();
    for (index, _) in words.iter().enumerate().filter(|(_, word)| **word == "percent") {
        let hundredths =
            words[..index].last().and_then(|word| figures(word)).map(|number| scaled(number, 100));
        found.extend(hundredths.or_else(|| hundredths_in_words(&words[..index])));
    }
    found
}

/// Parses number words with an optional half, in hundredths: `one and a half`, `two`.
fn hundredths_in_words(words: &[&str]) -> Option<u64> {
    match words {
        [before @ .., "and", "a", "half"]
        | [before @ .., "and", "one", "half"]
        | [before @ .., "and", "one-half"] => Some(number_before(before)? * 100 + 50),
        _ => Some(number_before(words)? * 100),
    }
}

fn split(text: &str) -> Vec<&str> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ';' | ':' | '"' | '/'))
        .map(|word| word.trim_matches(['.', ',']))
        .filter(|word| !word.is_empty())
        .collect()
}

fn is_currency(word: &str) -> bool {
    matches!(word, "usd" | "eur" | "gbp" | "chf" | "dollars" | "euros" | "pounds" | "euro" | "francs")
}

/// Parses a number in digits into its digits and the number of decimals.
fn figures(word: &str) -> Option<(u64, u32)> {
    let word = word.replace(',', "");
    let (whole, fraction) = word.split_once('_').unwrap_or((&word, ""));
    let digits = format!("{whole}{fraction}");
    let is_numeric = !whole.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    is_numeric
        .then(|| digits.parse().ok())
        .flatten()
        .map(|number| (number, u32::try_from(fraction.len()).unwrap_or(0)))
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

/// Parses the number at the end of a word list: in digits, or in as many words as belong to it.
fn number_before(words: &[&str]) -> Option<u64> {
    if let Some(number) = words.last().and_then(|word| figures(word)) {
        return Some(scaled(number, 1));
    }
    let is_number = |word: &&str| word.split('-').all(|part| value(part).is_some()) || *word == "and";
    let start = words.iter().rposition(|word| !is_number(word)).map_or(0, |index| index + 1);
    let parts: Vec<u64> = words[start..].iter().flat_map(|word| word.split('-')).filter_map(value).collect();
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
    let index = |list: &[&str]| list.iter().position(|numeral| *numeral == word).map(|index| index as u64);
    match word {
        "hundred" => Some(100),
        "thousand" => Some(1_000),
        "million" => Some(1_000_000),
        _ => index(&SMALL).or_else(|| index(&TENS).map(|index| index * 10)),
    }
}

/// Dates, as year, month and day.
pub(crate) fn dates(text: &str) -> Vec<(u64, u64, u64)> {
    let words = split(text);
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let iso: Vec<u64> = word.split('-').filter_map(|part| part.parse().ok()).collect();
        if let [year @ 1900..=2200, month @ 1..=12, day @ 1..=31] = iso[..] {
            found.push((year, month, day));
        }
        let Some(month) = month_index(word) else { continue };
        let day_of = |word: &&str| {
            word.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok().filter(|day| *day <= 31)
        };
        let before = words[..index].iter().rev().find(|word| !matches!(**word, "day" | "of"));
        let after = words.get(index + 1);
        let year = words[index..]
            .iter()
            .skip(1)
            .take(3)
            .find_map(|word| word.parse().ok().filter(|year| *year > 1900));
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

/// Whether a word is a numeric date: `2026-03-01`, `01/03/2026`, `01.03.2026` (its points are `_` in normalised text).
pub(crate) fn is_iso_date(word: &str) -> bool {
    let parts: Vec<&str> = word.split(['-', '/', '_']).collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let year = |part: &str| part.len() == 4;
    matches!(parts[..], [first, _, last] if (year(first) || year(last)) && parts.iter().all(digits))
}

/// Number of leading words that form a date.
pub(crate) fn leading_date_len(words: &[&str]) -> Option<usize> {
    let month = |word: &str| month_index(word).is_some();
    let day = |word: &str| {
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        digits.len() <= 2 && digits.parse::<u64>().is_ok_and(|day| (1..=31).contains(&day))
    };
    let year =
        |word: &str| word.len() == 4 && word.parse::<u64>().is_ok_and(|year| (1900..2200).contains(&year));
    match words {
        [first, second, third, ..] if month(first) && day(second) && year(third) => Some(3),
        [first, second, third, ..] if day(first) && month(second) && year(third) => Some(3),
        [first, "of", second, third, ..] if day(first) && month(second) && year(third) => Some(4),
        [first, "day", "of", second, third, ..] if day(first) && month(second) && year(third) => Some(5),
        ["@date", ..] => Some(1),
        _ => None,
    }
}

/// Number of leading words that form an amount with its currency in front.
pub(crate) fn leading_amount_len(words: &[&str]) -> Option<usize> {
    let code = |word: &&str| matches!(*word, "usd" | "eur" | "gbp" | "chf" | "us");
    let codes = words.iter().take(2).take_while(|word| code(word)).count();
    let number = leading_number_len(words.get(codes..)?)?;
    (codes > 0).then_some(codes + number)
}

/// Number of leading words that form a number.
pub(crate) fn leading_number_len(words: &[&str]) -> Option<usize> {
    let is_number = |word: &str| figures(word).is_some() || value(word).is_some();
    let first = words.first().filter(|word| is_number(word))?;
    let mut end = 1;
    while let Some(word) = words.get(end) {
        let is_joined =
            matches!(*word, "and" | "point" | "of") && words.get(end + 1).is_some_and(|next| is_number(next));
        let is_joined = is_joined && (*word != "of" || words[end - 1] == "half");
        let is_half = *word == "half" || is_joined && words.get(end + 1) == Some(&"half");
        if !(is_number(word) || is_joined || is_half) {
            break;
        }
        end += 1;
    }
    // `no one`, `one Party`: "one" is a number only before another number word or a unit.
    let is_unit = |word: &&str| {
        let stems = [
            "day", "month", "year", "week", "hour", "percent", "per", "calendar", "business", "full",
            "twelfth",
        ];
        stems.iter().any(|stem| word.starts_with(stem))
    };
    (*first != "one" || end > 1 || words.get(1).is_some_and(is_unit)).then_some(end)
}

/// Periods in days, in the order of the text: `six months` is 180, `72 hours` is 3.
pub(crate) fn periods(text: &str) -> Vec<u64> {
    let words = split(text);
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let days = match word.trim_end_matches(['\'', 's']) {
            "day" => 1,
            "week" => 7,
            "fortnight" => 14,
            "month" => 30,
            "year" => 365,
            "hour" => 0,
            _ => continue,
        };
        let mut end = index;
        while end > 0
            && matches!(
                words[end - 1],
                "calendar"
                    | "business"
                    | "working"
                    | "consecutive"
                    | "further"
                    | "prior"
                    | "full"
                    | "clear"
                    | "whole"
            )
        {
            end -= 1;
        }
        let number = number_before(&words[..end]).or_else(|| {
            (end > 0 && matches!(words[end - 1], "a" | "one" | "single" | "last" | "preceding")).then_some(1)
        });
        if let Some(number) = number {
            found.push(if days == 0 { number.div_ceil(24) } else { number * days });
        }
    }
    found
}

/// Number of occurrences of a whole word.
pub(crate) fn count_word(text: &str, word: &str) -> usize {
    let is_word_char = |c: char| c.is_ascii_alphanumeric();
    let is_whole_word = |offset: &usize| {
        !text[..*offset].ends_with(is_word_char) && !text[offset + word.len()..].starts_with(is_word_char)
    };
    text.match_indices(word).map(|(offset, _)| offset).filter(is_whole_word).count()
}

/// Monthly rates in hundredths of a percent; each rate is converted by the nearest unit of time.
pub(crate) fn monthly_rates(text: &str) -> Vec<u64> {
    let spaced = text.replace('%', " percent ").replace("per cent", "percent");
    let words = split(&spaced);
    let mut found = Vec::new();
    let per_month = |word: &&str, rate: u64| match *word {
        "day" | "daily" | "diem" => Some(rate * 30),
        "week" | "weekly" => Some(rate * 4),
        "month" | "monthly" => Some(rate),
        "annum" | "year" | "annual" | "annually" | "yearly" | "p.a" => Some(rate / 12),
        _ => None,
    };
    for (index, _) in words.iter().enumerate().filter(|(_, word)| **word == "percent") {
        let in_figures =
            words[..index].last().and_then(|word| figures(word)).map(|number| scaled(number, 100));
        let Some(rate) = in_figures.or_else(|| hundredths_in_words(&words[..index])) else { continue };
        let after = words[index + 1..].iter().take(12).find_map(|word| per_month(word, rate));
        let before = || words[..index].iter().rev().take(14).find_map(|word| per_month(word, rate));
        found.extend(after.or_else(before));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_in_words_and_digits() {
        assert_eq!(
            periods("within forty-five (45) days after; one hundred twenty calendar days'"),
            [45, 120]
        );
        assert_eq!(periods("the one (1) month preceding; a week; 72 hours; two years"), [30, 7, 3, 730]);
        assert_eq!(amounts("one million seven hundred four thousand euros (eur 1,704,000)"), [1_704_000]);
        assert_eq!(amounts("usd 1_5 million and 20,000 dollars"), [1_500_000, 20_000]);
        assert_eq!(
            percents("1_5 per cent, 3%, one and a half percent, two percent (2%)"),
            [150, 300, 150, 200, 200]
        );
    }

    #[test]
    fn a_rate_uses_the_nearest_unit_of_time() {
        assert_eq!(monthly_rates("18% per annum, compounded monthly"), [150]);
        assert_eq!(monthly_rates("accruing daily at two percent (2%) per month"), [200, 200]);
        assert_eq!(monthly_rates("0_2% per day; for each month a charge of 5%"), [600, 500]);
    }

    #[test]
    fn dates_are_parsed_in_each_style() {
        let text = "november 23, 2026; 1 december 2026; 2027-01-05; the 3rd day of may, 2028";
        assert_eq!(dates(text), [(2026, 11, 23), (2026, 12, 1), (2027, 1, 5), (2028, 5, 3)]);
    }
}
