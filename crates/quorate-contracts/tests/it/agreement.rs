//! The agreement of the contract review playbook, and its labels.

use std::collections::{BTreeMap, BTreeSet};

use quorate_contracts::{Clause, Problem, Recommendation, Severity};
use serde::Deserialize;

const AGREEMENT: &str = include_str!("../../../../playbooks/contract-review/agreement.txt");
const TRUTH: &str = include_str!("../../../../playbooks/contract-review/agreement.truth.yaml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Truth {
    clauses: BTreeMap<Clause, Vec<Quote>>,
    absent: BTreeMap<Clause, Vec<Quote>>,
    issues: Vec<Issue>,
    disagreements: Vec<Disagreement>,
    facts: Vec<StatedFact>,
    #[serde(rename = "activation")]
    _activation: BTreeMap<String, bool>,
    risk_score: u32,
    recommendation: Recommendation,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Quote {
    #[serde(rename = "in")]
    section: String,
    quote: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Issue {
    problem: Problem,
    severity: Severity,
    places: Vec<Quote>,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Disagreement {
    about: String,
    places: Vec<Quote>,
    one_side: String,
    other_side: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatedFact {
    name: String,
    value: String,
    #[serde(rename = "in")]
    section: String,
    quote: String,
}

fn truth() -> Truth {
    serde_saphyr::from_str(TRUTH).expect("valid labels")
}

/// Sections of the agreement, each on one line: `title`, `(C)`, `4.1`, `Schedule 2, 1`. A paragraph without a number of
/// its own belongs to the section that it is in.
fn sections() -> Vec<(String, String)> {
    let mut sections = vec![("title".to_owned(), String::new())];
    let mut schedule = None;
    for paragraph in AGREEMENT.split("\n\n") {
        let paragraph = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let (first, rest) = paragraph.split_once(' ').unwrap_or((&paragraph, ""));
        if first == "SCHEDULE" {
            schedule = rest.split(':').next().map(str::to_owned);
        }
        let number = first.trim_end_matches('.');
        let is_item = number.parse::<u32>().is_ok();
        let name = match &schedule {
            Some(schedule) if is_item => Some(format!("Schedule {schedule}, {number}")),
            None if !is_item && number.starts_with(|ch: char| ch.is_ascii_digit()) => Some(number.to_owned()),
            None if matches!(first, "(A)" | "(B)" | "(C)" | "(D)") => Some(first.to_owned()),
            _ => None,
        };
        sections.extend(name.map(|name| (name, String::new())));
        if let Some((_, text)) = sections.last_mut() {
            text.push_str(&paragraph);
            text.push(' ');
        }
    }
    sections
}

fn assert_quote_in(sections: &[(String, String)], section: &str, quote: &str) {
    let names: Vec<&str> =
        sections.iter().flat_map(|(name, text)| text.matches(quote).map(|_| name.as_str())).collect();
    assert_eq!(names, [section], "{quote:?}");
}

#[test]
fn every_labelled_quote_occurs_once_in_its_section() {
    let (truth, sections) = (truth(), sections());
    let quotes = truth.clauses.values().chain(truth.absent.values()).flatten();
    let issues = truth.issues.iter().flat_map(|issue| &issue.places);
    let disagreements = truth.disagreements.iter().flat_map(|disagreement| &disagreement.places);
    for Quote { section, quote } in quotes.chain(issues).chain(disagreements) {
        assert_quote_in(&sections, section, quote);
    }
    for StatedFact { name, value, section, quote } in &truth.facts {
        assert!(!name.is_empty() && !value.is_empty());
        let (_, text) = sections.iter().find(|(name, _)| name == section).unwrap();
        assert!(text.contains(quote.as_str()), "{name}: {quote:?} is not in {section}");
    }
}

#[test]
fn every_type_of_clause_is_labelled_and_the_score_follows_the_rule() {
    let truth = truth();
    let labelled: BTreeSet<Clause> = truth.clauses.keys().chain(truth.absent.keys()).copied().collect();
    assert_eq!(
        labelled.len(),
        truth.clauses.len() + truth.absent.len(),
        "a type is labelled as both present and absent"
    );
    assert!(Clause::all().all(|clause| labelled.contains(&clause)));
    assert!(truth.clauses.values().all(|quotes| !quotes.is_empty()));
    let score = 5 + truth.issues.iter().map(|issue| issue.severity.weight()).sum::<u32>();
    assert_eq!(truth.risk_score, score);
    assert_eq!(truth.recommendation, Recommendation::for_score(score));
    let kinds: BTreeSet<Problem> = truth.issues.iter().map(|issue| issue.problem).collect();
    assert_eq!(kinds.len(), truth.issues.len(), "an issue is listed twice");
    assert!(truth.issues.iter().all(|issue| !issue.places.is_empty() && !issue.why.is_empty()));
    let sides = |disagreement: &Disagreement| {
        [disagreement.about.len(), disagreement.one_side.len(), disagreement.other_side.len()]
    };
    assert!(
        truth
            .disagreements
            .iter()
            .all(|disagreement| sides(disagreement).into_iter().all(|length| length > 0))
    );
}

/// References to sections must resolve.
#[test]
fn every_referenced_section_exists() {
    let sections = sections();
    let names: BTreeSet<&str> = sections.iter().map(|(name, _)| name.as_str()).collect();
    let text = AGREEMENT.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = 0;
    for (offset, _) in text.match_indices("Section ") {
        let rest = &text[offset + "Section ".len()..];
        let number: String = rest.chars().take_while(|ch| ch.is_ascii_digit() || *ch == '.').collect();
        let number = number.trim_end_matches('.');
        let chapter = format!("{number}.1");
        assert!(
            number.is_empty() || names.contains(number) || names.contains(chapter.as_str()),
            "Section {number}"
        );
        found += usize::from(!number.is_empty());
    }
    assert!(found >= 10, "{found} references");
    let words = text.split(' ').count();
    assert!((3_000..=4_500).contains(&words), "{words} words");
}
