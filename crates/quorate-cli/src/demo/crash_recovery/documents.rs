//! Documents of the demo, generated from their number, so that the expected results can be recomputed.

const WORDS: [&str; 16] = [
    "agreement",
    "party",
    "shall",
    "notice",
    "term",
    "the",
    "of",
    "liability",
    "and",
    "payment",
    "within",
    "thirty",
    "days",
    "to",
    "renewal",
    "either",
];

/// Returns the text of a document.
pub(crate) fn text(number: u32) -> String {
    let mut state = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let length = 50 + number % 150;
    let words = (0..length).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        WORDS[(state >> 60) as usize]
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Counts the words, which is the work of the agents.
pub(crate) fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}
