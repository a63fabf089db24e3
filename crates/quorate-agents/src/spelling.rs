//! Suggestions for misspelt names, for hints.

/// Returns the most similar known word, if one is similar enough.
pub fn closest_match<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let closest = known.map(|candidate| (distance(word, candidate), candidate)).min()?;
    (closest.0 <= 1 + word.chars().count() / 3).then_some(closest.1)
}

/// Formats a list as `a, b and c`.
pub(crate) fn join_with_and(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the Levenshtein distance, ignoring case.
fn distance(word: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (row_index, ch) in word.to_lowercase().chars().enumerate() {
        let mut diagonal = row_index;
        row[0] = row_index + 1;
        for (column, other_ch) in other.iter().enumerate() {
            let changed = diagonal + usize::from(ch != *other_ch);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a distance that depends on case; a limit that accepts every word.
    #[test]
    fn the_nearest_word_is_found_and_a_far_one_is_not() {
        const KNOWN: [&str; 4] = ["url", "token_file", "space", "profile"];
        let closest = |word| closest_match(word, KNOWN.into_iter());
        assert_eq!(closest("tokenfile"), Some("token_file"));
        assert_eq!(closest("ulr"), Some("url"));
        assert_eq!(closest("Sapce"), Some("space"));
        assert_eq!(closest("confidence_floor"), None);
        assert_eq!(join_with_and(&KNOWN), "url, token_file, space and profile");
    }
}
