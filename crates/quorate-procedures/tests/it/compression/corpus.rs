//! The corpus in `corpus/`: documents of our own, and the key facts that a reader who takes over the work must know.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use quorate_procedures::tokens::count_o200k;
use serde::Deserialize;

/// A document with its key facts.
pub(super) struct Document {
    /// File name without its extension.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) facts: Vec<Fact>,
}

#[derive(Debug)]
/// A key fact: terms that must all occur, each a list of alternatives.
pub(super) struct Fact(Vec<Vec<String>>);

/// The documents with which the compressor was developed, and those that were held out.
pub(super) struct Corpus {
    pub(super) seen: Vec<Document>,
    pub(super) unseen: Vec<Document>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FactFile {
    seen: BTreeMap<String, Vec<Vec<String>>>,
    unseen: BTreeMap<String, Vec<Vec<String>>>,
}

impl Corpus {
    pub(super) fn load() -> Self {
        let facts = fs::read_to_string(directory().join("facts.yaml")).expect("the facts are readable");
        let facts: FactFile = serde_saphyr::from_str(&facts).expect("the facts are valid");
        Self { seen: documents(facts.seen), unseen: documents(facts.unseen) }
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn documents(facts: BTreeMap<String, Vec<Vec<String>>>) -> Vec<Document> {
    let document = |(file, facts): (String, Vec<Vec<String>>)| Document {
        text: fs::read_to_string(directory().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}")),
        name: file.trim_end_matches(".md").to_owned(),
        facts: facts.into_iter().map(|terms| Fact::new(&terms)).collect(),
    };
    facts.into_iter().map(document).collect()
}

impl Fact {
    fn new(terms: &[String]) -> Self {
        Self(terms.iter().map(|term| term.split(" | ").map(normalised).collect()).collect())
    }

    /// Whether a normalised text contains every term.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.0.iter().all(|alternatives| alternatives.iter().any(|term| contains_words(text, term)))
    }
}

/// Lower case, without Markdown emphasis, and with single spaces.
pub(super) fn normalised(text: &str) -> String {
    let lower = text.replace(['*', '`'], "").to_lowercase();
    lower.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the term occurs without being part of a longer word or number.
fn contains_words(text: &str, term: &str) -> bool {
    let joins = |inner: Option<char>, outer: Option<char>| {
        inner.is_some_and(char::is_alphanumeric) && outer.is_some_and(char::is_alphanumeric)
    };
    text.match_indices(term).any(|(start, _)| {
        let (before, after) = (text[..start].chars().next_back(), text[start + term.len()..].chars().next());
        !joins(term.chars().next(), before) && !joins(term.chars().next_back(), after)
    })
}

// Fails under: a fact that its document does not state; a document that is too short or too long; facts of a missing file.
#[test]
fn b5_every_key_fact_occurs_in_its_document() {
    let corpus = Corpus::load();
    let all = || corpus.seen.iter().chain(&corpus.unseen);
    for document in all() {
        let (text, tokens) = (normalised(&document.text), count_o200k(&document.text));
        assert!((1_200..=4_000).contains(&tokens), "{} has {tokens} tokens", document.name);
        assert!(document.facts.len() >= 10, "{} has {} facts", document.name, document.facts.len());
        for fact in &document.facts {
            assert!(!fact.0.is_empty() && fact.is_in(&text), "{}: {:?} is missing", document.name, fact.0);
        }
    }
    let facts: usize = all().map(|document| document.facts.len()).sum();
    assert!(all().count() >= 24 && facts >= 240, "{} documents, {facts} facts", all().count());
    assert!(corpus.unseen.len() * 3 >= all().count(), "{} documents are held out", corpus.unseen.len());
    let files = fs::read_dir(directory()).expect("a directory");
    assert_eq!(files.count(), all().count() + 1, "each file but facts.yaml is a document with facts");
}

// Fails under: a match within a longer number; emphasis or a line break that hides a term; one of two terms that suffices.
#[test]
fn b5_a_fact_needs_all_of_its_terms_as_whole_words() {
    let fact = Fact::new(&["12 attempts".to_owned(), "30 hours | 1,800 minutes".to_owned()]);
    assert!(fact.is_in(&normalised("**12\nattempts** over 30 Hours")));
    assert!(fact.is_in(&normalised("12 attempts, 1,800 minutes")));
    assert!(!fact.is_in(&normalised("112 attempts over 30 hours")));
    assert!(!fact.is_in(&normalised("12 attempts over 30 hoursx")));
    assert!(!fact.is_in(&normalised("30 hours")));
}
