//! The names of the months, for those who write dates and those who read them.

/// In their order.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Which month a word in any case is, counted from 0.
pub(crate) fn month_of(word: &str) -> Option<usize> {
    MONTHS.iter().position(|month| month.eq_ignore_ascii_case(word))
}
