//! Shortens sentences without changing what they state: removes openings that only connect, remarks in brackets, and subordinate
//! clauses at the end. A passage with a number, a name or an identifier is never removed.

use super::concept::{ConceptKind, concepts};

/// Openings that connect a sentence with the one before it.
const OPENINGS: [&str; 34] = [
    "However, ",
    "In addition, ",
    "In addition ",
    "Additionally, ",
    "Moreover, ",
    "Furthermore, ",
    "Therefore, ",
    "Thus, ",
    "Hence, ",
    "Hence ",
    "Consequently, ",
    "Still, ",
    "Also, ",
    "So, ",
    "And ",
    "But ",
    "Then ",
    "First, ",
    "Second, ",
    "Third, ",
    "Finally, ",
    "In the end ",
    "In general, ",
    "In practical terms ",
    "As a result, ",
    "In our opinion ",
    "It has to be said that ",
    "It is worth noting that ",
    "It was agreed that ",
    "Note that ",
    "Please note that ",
    "I think that ",
    "We believe that ",
    "In fact, ",
];

/// Words that begin a clause that can be left out.
const CLAUSES: [&str; 12] = [
    ", which ",
    ", although ",
    ", even though ",
    ", even if ",
    ", though ",
    ", while ",
    ", since ",
    ", because ",
    ", as ",
    ", where ",
    ", and nobody ",
    ", so that ",
];

/// A clause is removed only if so many words remain.
const WORDS_MIN: usize = 5;
/// Maximum length of a remark in brackets that is removed.
const REMARK_BYTES_MAX: usize = 80;

/// Shortens a sentence.
pub(super) fn trimmed(sentence: &str) -> String {
    let text = without_opening(sentence);
    let text = without_remarks(&text);
    without_last_clause(&text)
}

fn without_opening(sentence: &str) -> String {
    let opening = OPENINGS.iter().find(|opening| sentence.starts_with(**opening));
    let rest = opening.map_or(sentence, |opening| &sentence[opening.len()..]);
    let mut chars = rest.chars();
    match chars.next() {
        Some(first) if opening.is_some() => first.to_uppercase().chain(chars).collect(),
        _ => rest.to_owned(),
    }
}

fn without_remarks(sentence: &str) -> String {
    let mut text = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some(start) = rest.find(" (") {
        let close = rest[start..].find(')').map(|length| start + length + 1);
        match close.filter(|close| close - start <= REMARK_BYTES_MAX && is_dispensable(&rest[start..*close]))
        {
            Some(close) => {
                text.push_str(&rest[..start]);
                rest = &rest[close..];
            }
            None => {
                text.push_str(&rest[..start + 2]);
                rest = &rest[start + 2..];
            }
        }
    }
    text.push_str(rest);
    text
}

fn without_last_clause(sentence: &str) -> String {
    let start = CLAUSES.iter().filter_map(|clause| sentence.rfind(clause)).max();
    let Some(start) = start else { return sentence.to_owned() };
    let (head, clause) = sentence.split_at(start);
    let has_other_clause = clause[1..].contains([',', ':', ';', '"']);
    if has_other_clause || head.split_whitespace().count() < WORDS_MIN || !is_dispensable(clause) {
        return sentence.to_owned();
    }
    let stop = sentence.chars().next_back().filter(|ch| ".!".contains(*ch));
    head.chars().chain(stop).collect()
}

/// Whether a passage has nothing but ordinary words.
fn is_dispensable(passage: &str) -> bool {
    let is_word = |kind| matches!(kind, ConceptKind::Word);
    // The first word is that of the clause or bracket, so a name is recognised from the second on.
    concepts(&format!("x {passage}")).iter().skip(1).all(|concept| is_word(concept.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a removed passage that has a number, a name or an identifier; a clause in the middle; a sentence that is cut to nothing.
    #[test]
    fn only_passages_without_facts_are_removed() {
        for (sentence, expected) in [
            ("However, the limit is 5 (as usual).", "The limit is 5."),
            ("The limit is 5 (Priya asked for it).", "The limit is 5 (Priya asked for it)."),
            ("The job fails at night, because the disk is full.", "The job fails at night."),
            ("The job fails at night, because of 4 disks.", "The job fails at night, because of 4 disks."),
            ("The job, which is old, fails.", "The job, which is old, fails."),
            ("It fails, because the disk is full.", "It fails, because the disk is full."),
        ] {
            assert_eq!(trimmed(sentence), expected);
        }
    }
}
