//! Names of the months, for writing and parsing dates.

/// The months in order.
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

/// Returns the index of a month name, case-insensitively, starting at 0.
pub(crate) fn month_index(word: &str) -> Option<usize> {
    MONTHS.iter().position(|month| month.eq_ignore_ascii_case(word))
}
