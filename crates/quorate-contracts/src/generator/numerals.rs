//! Formats numbers as number words and as digits.

pub(crate) const SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
pub(crate) const TENS: [&str; 10] =
    ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

/// Spells out a number: `forty-five`, `one hundred twenty`, `two million five hundred thousand`.
pub(super) fn spell_out(number: u64) -> String {
    let join = |count: u64, unit: &str, rest: u64| match rest {
        0 => format!("{} {unit}", spell_out(count)),
        rest => format!("{} {unit} {}", spell_out(count), spell_out(rest)),
    };
    match number {
        0..20 => SMALL[number as usize].to_owned(),
        20..100 if number.is_multiple_of(10) => TENS[number as usize / 10].to_owned(),
        20..100 => format!("{}-{}", TENS[number as usize / 10], SMALL[number as usize % 10]),
        100..1_000 => join(number / 100, "hundred", number % 100),
        1_000..1_000_000 => join(number / 1_000, "thousand", number % 1_000),
        _ => join(number / 1_000_000, "million", number % 1_000_000),
    }
}

/// Formats a number with thousands separators: `1,250,000`.
pub(crate) fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats an ordinal: `3rd`, `11th`, `21st`.
pub(super) fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// Formats a Roman numeral: `XIV`.
pub(super) fn roman(mut number: usize) -> String {
    let mut letters = String::new();
    for (value, letter) in [(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")] {
        while number >= value {
            letters.push_str(letter);
            number -= value;
        }
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_in_words_and_digits() {
        for (number, words, figures) in [
            (0, "zero", "0"),
            (14, "fourteen", "14"),
            (45, "forty-five", "45"),
            (120, "one hundred twenty", "120"),
            (7_500, "seven thousand five hundred", "7,500"),
            (500_000, "five hundred thousand", "500,000"),
            (2_513_000, "two million five hundred thirteen thousand", "2,513,000"),
        ] {
            assert_eq!((spell_out(number).as_str(), group_digits(number).as_str()), (words, figures));
        }
        let ordinals: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 22, 28].into_iter().map(ordinal).collect();
        assert_eq!(ordinals.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 28th");
        assert_eq!([4, 9, 14, 20].map(roman).join(" "), "IV IX XIV XX");
    }
}
