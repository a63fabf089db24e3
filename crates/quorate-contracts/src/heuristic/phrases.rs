//! The analysts on additional phrases that are not part of the generator; each contains one topic, or only resembles it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{find_clauses, find_problems};
use crate::generator::{Clause, Problem};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Phrases {
    is: Vec<String>,
    #[serde(default)]
    not: Vec<String>,
}

type File = BTreeMap<String, Phrases>;

const CLAUSES: &str = include_str!("phrases/clauses.yaml");
const PROBLEMS: &str = include_str!("phrases/problems.yaml");
const HELD_OUT: &str = include_str!("phrases/held.yaml");

/// Held-out phrases with their labels.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeldOut {
    clauses: BTreeMap<String, Vec<String>>,
    problems: BTreeMap<String, Vec<String>>,
}

const ROLES: [(&str, &str); 6] = [
    ("Supplier", "Customer"),
    ("Vendor", "Buyer"),
    ("Licensor", "Licensee"),
    ("Contractor", "Company"),
    ("Service Provider", "Client"),
    ("Consultant", "Purchaser"),
];

/// Builds a contract around a phrase. The form in which the parties are introduced varies.
fn contract(phrase: &str, index: usize, has_confidentiality: bool) -> String {
    let (supplier, customer) = ROLES[index % ROLES.len()];
    let plain_language = !phrase.contains('{');
    let opening = match index % 4 {
        _ if plain_language => String::new(),
        0 => format!(
            "This Agreement is between Alder Ltd (the \"{supplier}\") and Birch Inc. (the \"{customer}\")."
        ),
        1 => format!(
            "Birch GmbH, hereinafter referred to as the {customer}, and Alder SA, hereinafter referred to as the {supplier}, agree as follows."
        ),
        2 => format!("(1) Alder Ltd, acting as {supplier}; and (2) Birch plc, acting as {customer}."),
        _ => format!(
            "Parties: Alder LLC (\u{201c}{supplier}\u{201d}), Birch LLC (\u{201c}{customer}\u{201d})."
        ),
    };
    let article = if index.is_multiple_of(2) { "the " } else { "" };
    let fill = |text: &str| {
        let text = text
            .replace("{S}", &format!("{article}{supplier}"))
            .replace("{C}", &format!("{article}{customer}"));
        let mut chars = text.trim().chars();
        chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect::<String>()
    };
    let (body, schedule) = phrase.split_once("//").unwrap_or((phrase, ""));
    let mut text = format!("SERVICES AGREEMENT\n\n{opening}\n\n");
    text.push_str(&format!("1. TERMS\n\n1.1 {}\n\n", fill(body)));
    if plain_language {
        text.push_str("1.2 We provide the services to you, and you pay our fees.\n\n");
    }
    if has_confidentiality {
        text.push_str(
            "2. SECRETS\n\n2.1 Each party shall keep the other's Confidential Information secret.\n\n",
        );
    }
    if !schedule.is_empty() {
        text.push_str(&format!("SCHEDULE A\n\n1. {}\n", fill(schedule)));
    }
    text
}

/// Correct results and errors.
struct Score {
    correct: usize,
    false_positives: Vec<String>,
    missed: Vec<String>,
}

impl Score {
    #[allow(clippy::cast_precision_loss, reason = "there are a few hundred")]
    fn recall(&self) -> f64 {
        self.correct as f64 / (self.correct + self.missed.len()) as f64
    }

    #[allow(clippy::cast_precision_loss, reason = "there are a few hundred")]
    fn precision(&self) -> f64 {
        self.correct as f64 / (self.correct + self.false_positives.len()) as f64
    }
}

fn score(file: &str, finds: impl Fn(&str, &str, usize) -> bool) -> Score {
    let file: File = serde_saphyr::from_str(file).unwrap();
    let mut score = Score { correct: 0, false_positives: Vec::new(), missed: Vec::new() };
    for (name, phrases) in &file {
        for (index, phrase) in phrases.is.iter().enumerate() {
            if finds(name, phrase, index) {
                score.correct += 1;
            } else {
                score.missed.push(format!("{name}: {phrase}"));
            }
        }
        for (index, phrase) in phrases.not.iter().enumerate() {
            if finds(name, phrase, index) {
                score.false_positives.push(format!("{name}: {phrase}"));
            }
        }
    }
    score
}

fn finds_clause(name: &str, phrase: &str, index: usize) -> bool {
    let clause = Clause::all().find(|clause| clause.name() == name).unwrap();
    let mut text = contract(phrase, index, true);
    match clause {
        // It is part of the opening.
        Clause::AgreementDate => text = format!("CONTRACT\n\n{phrase}\n\n1. TERMS\n\n1.1 Fees are due."),
        // An exception needs a restriction.
        Clause::CompetitiveRestrictionException => {
            text.push_str("3. MORE\n\n3.1 The Supplier shall not compete with the Customer.\n")
        }
        _ => {}
    }
    find_clauses(&text).contains(&clause)
}

fn finds_problem(name: &str, phrase: &str, index: usize) -> bool {
    let problem = Problem::all().find(|problem| problem.name() == name).unwrap();
    let text = contract(phrase, index, problem != Problem::MissingConfidentiality);
    find_problems(&text).contains(&problem)
}

#[test]
fn clauses_are_found_in_phrases_outside_the_generator() {
    let score = score(CLAUSES, finds_clause);
    let (missed, false_positives) = (&score.missed, &score.false_positives);
    assert!(
        score.recall() >= 0.9 && score.precision() >= 0.95,
        "missed {missed:#?}, false positives {false_positives:#?}"
    );
    let file: File = serde_saphyr::from_str(CLAUSES).unwrap();
    assert!(file.len() >= 38 && file.values().all(|phrases| phrases.is.len() >= 4));
}

#[test]
fn problems_are_found_in_phrases_outside_the_generator() {
    let score = score(PROBLEMS, finds_problem);
    let (missed, false_positives) = (&score.missed, &score.false_positives);
    assert!(
        score.recall() >= 0.9 && score.precision() >= 0.95,
        "missed {missed:#?}, false positives {false_positives:#?}"
    );
    let file: File = serde_saphyr::from_str(PROBLEMS).unwrap();
    assert_eq!(file.len(), Problem::all().count());
}

/// Boilerplate should trigger almost no rule.
#[test]
fn boilerplate_triggers_almost_no_rule() {
    let phrases: Vec<String> = serde_saphyr::from_str(include_str!("phrases/boilerplate.yaml")).unwrap();
    let mut false_positives = Vec::new();
    for (index, phrase) in phrases.iter().enumerate() {
        let text = contract(phrase, index * 4, true);
        let mut found: Vec<&str> = find_clauses(&text).into_iter().skip(2).map(Clause::name).collect();
        found.extend(find_problems(&text).into_iter().map(Problem::name));
        if !found.is_empty() {
            false_positives.push(format!("{phrase} {found:?}"));
        }
    }
    assert!(phrases.len() >= 40 && false_positives.len() <= 1, "{false_positives:#?}");
}

#[test]
fn held_out_phrases_are_recognised() {
    let held_out: HeldOut = serde_saphyr::from_str(HELD_OUT).unwrap();
    let (mut correct, mut missed) = (0, Vec::new());
    let mut count = |found: bool, name: &str, phrase: &str| {
        if found { correct += 1 } else { missed.push(format!("{name}: {phrase}")) }
    };
    for (name, phrases) in &held_out.clauses {
        for (index, phrase) in phrases.iter().enumerate() {
            count(finds_clause(name, phrase, index + 2), name, phrase);
        }
    }
    for (name, phrases) in &held_out.problems {
        for (index, phrase) in phrases.iter().enumerate() {
            count(finds_problem(name, phrase, index + 3), name, phrase);
        }
    }
    let total = correct + missed.len();
    assert!(correct * 100 >= total * 95, "{correct} of {total}: missed {missed:#?}");
}
