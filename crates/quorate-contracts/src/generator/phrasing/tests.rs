//! The embedded files are valid, and invalid ones are rejected with file and line.

use std::collections::BTreeSet;

use super::*;
use crate::generator::template::Piece;

const SEEN_TEXT: &str = include_str!("../seen.yaml");
const UNSEEN_TEXT: &str = include_str!("../unseen.yaml");

fn all_texts(phrasings: &Phrasings) -> Vec<(&str, &Template)> {
    let lists = phrasings.clauses.values().chain(phrasings.provisions.values());
    let labelled = lists.chain(phrasings.problems.values()).flatten();
    let unlabelled = phrasings.near_misses.iter().chain(&phrasings.filler).map(|text| &text.phrasing);
    let entries = labelled.chain(unlabelled);
    entries
        .flat_map(|phrasing| std::iter::once(phrasing).chain(phrasing.second.as_deref()))
        .map(|phrasing| (phrasing.id.as_str(), &phrasing.text))
        .collect()
}

#[test]
fn both_sets_are_valid() {
    for (file, text) in [("seen.yaml", SEEN_TEXT), ("unseen.yaml", UNSEEN_TEXT)] {
        let parsed = Phrasings::parse(file, text);
        let phrasings = parsed.unwrap();
        assert!(phrasings.near_misses.len() >= 30, "{file}");
        assert!(phrasings.near_misses.iter().all(|near_miss| !near_miss.about.is_empty()), "{file}");
        assert!(phrasings.filler.len() >= 30, "{file}");
        assert!(phrasings.problems.len() >= 20, "{file}");
    }
}

/// Longest run of words that a phrasing of one set may share with one of the other.
const COMMON_RUN_MAX: usize = 6;

/// All runs of words that are longer than the sets may share. A fact counts as a word.
fn runs(template: &Template) -> BTreeSet<Vec<String>> {
    let mut words = Vec::new();
    for piece in &template.pieces {
        match piece {
            Piece::Fact(fact, _) => words.push(format!("{{{}}}", fact.name())),
            Piece::Words(text) => {
                let split = text.split(|ch: char| !ch.is_alphanumeric()).filter(|word| !word.is_empty());
                words.extend(split.map(str::to_lowercase));
            }
        }
    }
    words.windows(COMMON_RUN_MAX + 1).map(<[String]>::to_vec).collect()
}

/// Synonyms in the same sentence would measure nothing: the sets use different words and a different order.
#[test]
fn the_sets_share_no_more_than_six_consecutive_words() {
    let (seen, unseen) = (PhrasingSet::Seen.phrasings(), PhrasingSet::Unseen.phrasings());
    let seen: Vec<_> = all_texts(seen).into_iter().map(|(id, text)| (id, runs(text))).collect();
    for (id, text) in all_texts(unseen) {
        let unseen_runs = runs(text);
        for (other, seen_runs) in &seen {
            let common: Vec<_> = unseen_runs.intersection(seen_runs).map(|run| run.join(" ")).collect();
            assert!(common.is_empty(), "unseen {id} and seen {other}: {common:?}");
        }
    }
}

#[test]
fn no_text_occurs_twice_in_one_set() {
    for set in [PhrasingSet::Seen, PhrasingSet::Unseen] {
        let texts = all_texts(set.phrasings());
        for (index, (id, text)) in texts.iter().enumerate() {
            for (other, same) in &texts[index + 1..] {
                assert_ne!(text, same, "{set:?}: {id} and {other}");
            }
        }
    }
}

#[test]
fn an_invalid_file_is_rejected_with_file_and_line() {
    let line_of = |needle: &str| SEEN_TEXT.lines().position(|line| line.contains(needle)).unwrap() + 1;
    let cases = [
        ("fact", "exceed {cap}.", "exceed {capp}.", "unknown fact `{capp}`"),
        ("key", "  governing_law:\n", "  governing_laws:\n", "governing_laws"),
        ("field", "      title: Governing Law\n", "      titel: Governing Law\n", "titel"),
        ("twice", "  governing_law:\n", "  parties:\n", "parties"),
        ("holds", "holds: [agreement_date]", "holds: [agreement_data]", "agreement_data"),
    ];
    for (case, valid, invalid, message) in cases {
        assert!(SEEN_TEXT.contains(valid), "{case}");
        let error = Phrasings::parse("mine.yaml", &SEEN_TEXT.replacen(valid, invalid, 1)).unwrap_err();
        assert!(error.starts_with("mine.yaml:"), "{case}: {error}");
        assert!(error.contains(message), "{case}: {error}");
    }
    let error = Phrasings::parse("mine.yaml", &SEEN_TEXT.replacen("exceed {cap}.", "{cap", 1)).unwrap_err();
    let expected_line = line_of("exceed {cap}.");
    let line: usize = error.split(':').nth(1).unwrap().parse().unwrap();
    assert!(expected_line.abs_diff(line) <= 3, "{error} is far from line {expected_line}");
}

#[test]
fn a_clause_with_too_few_phrasings_is_rejected() {
    let begin = SEEN_TEXT.find("  document_name:\n").unwrap();
    let end = SEEN_TEXT.find("  parties:\n").unwrap();
    let few = format!(
        "{}  document_name:\n    - text: \"{{DOCUMENT}}\"\n{}",
        &SEEN_TEXT[..begin],
        &SEEN_TEXT[end..]
    );
    let error = Phrasings::parse("mine.yaml", &few).unwrap_err();
    assert_eq!(error, "mine.yaml: document_name has 1 phrasings, needs at least 3");
}

#[test]
fn a_contradiction_without_a_second_phrasing_is_rejected() {
    let second = "      second:\n        text: \"End of the Initial Term: {other_expiration}.\"\n        holds: [expiration_date]\n";
    assert!(SEEN_TEXT.contains(second));
    let error = Phrasings::parse("mine.yaml", &SEEN_TEXT.replacen(second, "", 1)).unwrap_err();
    assert!(error.contains("term_conflict needs a `second` phrasing"), "{error}");
}
