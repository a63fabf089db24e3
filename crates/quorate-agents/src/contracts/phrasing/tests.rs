//! The files are right, and wrong ones are refused by file and line.

use super::*;

const SEEN_TEXT: &str = include_str!("../seen.yaml");
const UNSEEN_TEXT: &str = include_str!("../unseen.yaml");

fn all_texts(phrasings: &Phrasings) -> Vec<(&str, &Template)> {
    let lists = phrasings.clauses.values().chain(phrasings.provisions.values());
    let told = lists.chain(phrasings.problems.values()).flatten();
    let asides = phrasings.near_misses.iter().chain(&phrasings.filler).map(|aside| &aside.phrasing);
    let all = told.chain(asides);
    all.flat_map(|one| std::iter::once(one).chain(one.second.as_deref()))
        .map(|one| (one.id.as_str(), &one.text))
        .collect()
}

#[test]
fn both_halves_are_read() {
    for (file, text) in [("seen.yaml", SEEN_TEXT), ("unseen.yaml", UNSEEN_TEXT)] {
        let read = Phrasings::read(file, text).map_err(|refused| refused.detail);
        let phrasings = read.unwrap();
        assert!(phrasings.near_misses.len() >= 30, "{file}");
        assert!(phrasings.near_misses.iter().all(|aside| !aside.about.is_empty()), "{file}");
        assert!(phrasings.filler.len() >= 30, "{file}");
        assert!(phrasings.problems.len() >= 20, "{file}");
    }
}

/// A phrasing that is in both files measures nothing. Headings may be the same by chance; whole texts may not.
#[test]
fn no_text_is_in_both_halves_or_twice_in_one() {
    let halves = [Half::Seen.phrasings(), Half::Unseen.phrasings()];
    let mut texts: Vec<_> = halves.into_iter().flat_map(all_texts).collect();
    texts.retain(|(_, text)| text.pieces.len() > 1 || format!("{text:?}").len() > 80);
    for (at, (id, text)) in texts.iter().enumerate() {
        for (other, same) in &texts[at + 1..] {
            assert_ne!(text, same, "{id} and {other}");
        }
    }
}

#[test]
fn a_wrong_file_is_refused_by_file_and_line() {
    let line_of = |needle: &str| SEEN_TEXT.lines().position(|line| line.contains(needle)).unwrap() + 1;
    let cases = [
        ("fact", "exceed {cap}.", "exceed {capp}.", "`{capp}` is no fact"),
        ("key", "  governing_law:\n", "  governing_laws:\n", "governing_laws"),
        ("field", "      title: Governing Law\n", "      titel: Governing Law\n", "titel"),
        ("twice", "  governing_law:\n", "  parties:\n", "parties"),
        ("holds", "holds: [agreement_date]", "holds: [agreement_data]", "agreement_data"),
    ];
    for (what, right, wrong, why) in cases {
        assert!(SEEN_TEXT.contains(right), "{what}");
        let refused = Phrasings::read("mine.yaml", &SEEN_TEXT.replacen(right, wrong, 1)).unwrap_err();
        assert!(refused.detail.starts_with("mine.yaml:"), "{what}: {}", refused.detail);
        assert!(refused.detail.contains(why), "{what}: {}", refused.detail);
    }
    let refused = Phrasings::read("mine.yaml", &SEEN_TEXT.replacen("exceed {cap}.", "{cap", 1)).unwrap_err();
    let near = line_of("exceed {cap}.");
    let at: usize = refused.detail.split(':').nth(1).unwrap().parse().unwrap();
    assert!(near.abs_diff(at) <= 3, "{} is far from line {near}", refused.detail);
}

#[test]
fn a_clause_with_too_few_phrasings_is_refused() {
    let begin = SEEN_TEXT.find("  document_name:\n").unwrap();
    let end = SEEN_TEXT.find("  parties:\n").unwrap();
    let few = format!(
        "{}  document_name:\n    - text: \"{{DOCUMENT}}\"\n{}",
        &SEEN_TEXT[..begin],
        &SEEN_TEXT[end..]
    );
    let refused = Phrasings::read("mine.yaml", &few).unwrap_err();
    assert_eq!(refused.detail, "mine.yaml: document_name has 1 phrasings, and needs 3 or more");
}

#[test]
fn a_contradiction_without_its_second_place_is_refused() {
    let right = "      second:\n        text: \"End of the Initial Term: {other_expiration}.\"\n        holds: [expiration_date]\n";
    assert!(SEEN_TEXT.contains(right));
    let refused = Phrasings::read("mine.yaml", &SEEN_TEXT.replacen(right, "", 1)).unwrap_err();
    assert!(refused.detail.contains("term_conflict needs a `second` place"), "{}", refused.detail);
}
