//! Token counts of texts, and truncation at sentence boundaries.

/// Function that counts tokens. A plain function pointer, so that tests can count words instead.
pub type TokenCounter = fn(&str) -> usize;

/// Marks the position where a text was truncated.
pub const TRUNCATION_MARK: &str = " […]";

/// Counts tokens of OpenAI's `o200k_base`, used for all models; other vendors' counts differ by about 10 to 30 %. The
/// first call loads the vocabulary.
#[must_use]
pub fn count_o200k(text: &str) -> usize {
    tiktoken_rs::o200k_base_singleton().count_ordinary(text)
}

/// Loads the vocabulary ahead of the first count. It takes a few tenths of a second and about 46 MB.
pub fn preload() {
    let _ = count_o200k("");
}

/// Whether a text has at most `limit` tokens. A token has at least one byte, so short texts need not be counted.
#[must_use]
pub fn fits(text: &str, limit: usize, count: TokenCounter) -> bool {
    text.len() <= limit || count(text) <= limit
}

/// Returns `None` if the text has at most `limit` tokens. Otherwise returns as many of its first sentences as fit,
/// followed by [`TRUNCATION_MARK`]; if not even one sentence fits, as many words.
#[must_use]
pub fn truncate(text: &str, limit: usize, count: TokenCounter) -> Option<String> {
    if fits(text, limit, count) {
        return None;
    }
    let fits = |end: &usize| fits(&marked(&text[..*end]), limit, count);
    let ends = sentence_ends(text);
    // The token count grows with the length, so binary search finds the last boundary that fits.
    let sentences = ends.partition_point(fits);
    if sentences > 0 {
        return Some(marked(&text[..ends[sentences - 1]]));
    }
    let word_ends: Vec<usize> =
        text.char_indices().filter(|(_, ch)| ch.is_whitespace()).map(|(offset, _)| offset).collect();
    let fitting = word_ends.partition_point(fits);
    let end = if fitting > 0 { word_ends[fitting - 1] } else { 0 };
    Some(marked(&text[..end]))
}

fn marked(text: &str) -> String {
    format!("{}{TRUNCATION_MARK}", text.trim_end())
}

/// Byte offsets of sentence ends: after a full stop or similar that whitespace follows, and at line ends.
fn sentence_ends(text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((offset, ch)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let is_stop = matches!(ch, '.' | '!' | '?' | '…') && next.is_none_or(char::is_whitespace);
        if is_stop || next == Some('\n') && ch != '\n' {
            ends.push(offset + ch.len_utf8());
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    #[test]
    fn a6_a_long_text_is_cut_at_a_sentence_and_marked() {
        let text = "One two three. Four five! Six seven eight nine";
        assert_eq!(truncate(text, 9, words), None);
        assert_eq!(truncate(text, 8, words).as_deref(), Some("One two three. Four five! […]"));
        assert_eq!(truncate(text, 5, words).as_deref(), Some("One two three. […]"));
        assert_eq!(truncate(text, 3, words).as_deref(), Some("One two […]"), "not even a sentence fits");
        assert_eq!(truncate("1.5 is no end. Two\nthree", 6, words), None);
        assert_eq!(truncate("1.5 is no end. Two\nthree", 5, words).as_deref(), Some("1.5 is no end. […]"));
    }

    #[test]
    fn a6_tokens_are_those_of_a_real_tokenizer() {
        assert_eq!(count_o200k("hello world"), 2);
        let text = "The supplier shall indemnify the customer. ".repeat(200);
        let cut = truncate(&text, 500, count_o200k).expect("it is too long");
        assert!(count_o200k(&cut) <= 500 && count_o200k(&cut) > 480, "{}", count_o200k(&cut));
        assert!(cut.ends_with("customer. […]"), "{cut}");
    }
}
