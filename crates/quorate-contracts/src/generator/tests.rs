//! Invariants of generated contracts.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::phrasing::{Phrasing, Phrasings};
use super::template::Piece;
use super::*;

/// Number of seeds for statistical properties.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=200;
/// Number of seeds for properties of each contract.
const FEW_SEEDS: std::ops::RangeInclusive<u64> = 1..=60;

fn both() -> impl Iterator<Item = Contract> {
    FEW_SEEDS.flat_map(|seed| [generate(seed, PhrasingSet::Seen), generate(seed, PhrasingSet::Unseen)])
}

fn name(contract: &Contract) -> String {
    format!("seed {} {:?}", contract.truth.seed, contract.truth.set)
}

fn spans(truth: &GroundTruth) -> impl Iterator<Item = &TextSpan> {
    let clauses = truth.clauses.iter().map(|label| &label.span);
    let provisions = truth.provisions.iter().map(|label| &label.span);
    let problems = truth.problems.iter().flat_map(|planted| &planted.spans);
    clauses.chain(provisions).chain(problems).chain(truth.near_misses.iter().map(|near_miss| &near_miss.span))
}

fn by_id(phrasings: &Phrasings) -> BTreeMap<&str, &Phrasing> {
    let lists = phrasings.clauses.values().chain(phrasings.provisions.values());
    let labelled = lists.chain(phrasings.problems.values()).flatten();
    let labelled = labelled.chain(phrasings.near_misses.iter().map(|text| &text.phrasing));
    labelled
        .flat_map(|phrasing| std::iter::once(phrasing).chain(phrasing.second.as_deref()))
        .map(|phrasing| (phrasing.id.as_str(), phrasing))
        .collect()
}

/// Whether the words of a phrasing occur in a span in order, from its first byte to its last.
fn holds(span: &str, phrasing: &Phrasing) -> bool {
    let span = span.replace('\n', " ");
    let mut rest = span.as_str();
    for (index, piece) in phrasing.text.pieces.iter().enumerate() {
        if let Piece::Words(words) = piece {
            let words = words.replace('\n', " ");
            match rest.find(&words) {
                Some(0) if index == 0 => rest = &rest[words.len()..],
                Some(offset) if index > 0 => rest = &rest[offset + words.len()..],
                _ => return false,
            }
        }
    }
    rest.is_empty() || matches!(phrasing.text.pieces.last(), Some(Piece::Fact(..)))
}

#[test]
fn every_span_contains_its_phrasing() {
    for contract in both() {
        let phrasings = by_id(contract.truth.set.phrasings());
        for span in spans(&contract.truth) {
            let text = contract.text.get(span.start..span.end).unwrap_or_default();
            assert!(holds(text, phrasings[span.phrasing.as_str()]), "{}: {span:?}\n{text}", name(&contract));
        }
    }
}

#[test]
fn every_stated_fact_is_in_its_spans() {
    for contract in both() {
        for stated in &contract.truth.facts {
            for span in &stated.spans {
                let text = contract.text[span.clone()].replace('\n', " ").to_lowercase();
                let is_stated = match &stated.value {
                    Value::Role(words) | Value::Text(words) => text.contains(&words.to_lowercase()),
                    Value::Date(date) => text.contains(&date.year.to_string()),
                    Value::Money { amount, .. } => text.contains(&numerals::group_digits(*amount)),
                    Value::Count(count) => {
                        text.contains(&numerals::group_digits(*count)) || text == numerals::spell_out(*count)
                    }
                    Value::PercentTenths(tenths) => text.contains(&(tenths / 10).to_string()),
                };
                assert!(is_stated, "{}: {} is written {text:?}", name(&contract), stated.fact.name());
            }
        }
    }
}

/// Reporting a topic that a near-miss resembles must be a false positive.
#[test]
fn a_near_miss_excludes_its_topics() {
    for contract in both() {
        let truth = &contract.truth;
        for near_miss in &truth.near_misses {
            for topic in &near_miss.about {
                let is_present = match topic {
                    ContractTopic::Clause(clause) => truth.has_clause(*clause),
                    ContractTopic::Provision(provision) => {
                        truth.provisions.iter().any(|present| present.topic == *provision)
                    }
                    ContractTopic::Problem(problem) => truth.has_problem(*problem),
                };
                assert!(!is_present, "{}: {topic:?} and its near-miss", name(&contract));
            }
        }
    }
}

#[test]
fn topics_replaced_by_a_problem_are_absent() {
    for contract in both() {
        let truth = &contract.truth;
        for planted in &truth.problems {
            let starts: BTreeSet<usize> = planted.spans.iter().map(|span| span.start).collect();
            assert_eq!(starts.is_empty(), planted.problem.is_absence(), "{}", name(&contract));
            assert_eq!(starts.len() == 2, planted.problem.is_contradiction(), "{}", name(&contract));
            let clauses = truth.clauses.iter().filter(|label| !starts.contains(&label.span.start));
            for label in clauses {
                let replaced = planted.problem.replaces_clause(label.topic);
                assert!(!replaced, "{}: {:?} and {:?}", name(&contract), planted.problem, label);
            }
            for label in &truth.provisions {
                let replaced = planted.problem.replaces_provision(label.topic);
                assert!(!replaced, "{}: {:?} and {:?}", name(&contract), planted.problem, label);
            }
        }
    }
}

#[test]
fn contracts_are_three_to_ten_pages_long() {
    let words: Vec<usize> = both().map(|contract| contract.text.split_whitespace().count()).collect();
    let (least, most) = (words.iter().min().unwrap(), words.iter().max().unwrap());
    assert!(*least >= 3 * 450 && *most <= 10 * 450, "{least} to {most} words");
    assert!(most - least > 3 * 450, "{least} to {most} words: too little variation");
}

#[test]
fn every_recommendation_has_its_share_and_follows_from_the_problems() {
    let mut shares = BTreeMap::new();
    for seed in SEEDS {
        let truth = generate(seed, PhrasingSet::Seen).truth;
        let problems = truth.problems.iter().map(|planted| planted.problem);
        assert_eq!(truth.risk_score, risk_score(problems), "seed {seed}");
        assert_eq!(truth.recommendation, Recommendation::for_score(truth.risk_score), "seed {seed}");
        *shares.entry(truth.recommendation).or_insert(0) += 1;
    }
    assert!(shares.len() == 4 && shares.values().all(|share| *share >= 20), "{shares:?}");
}

#[test]
fn every_clause_and_problem_occurs_and_no_topic_is_ubiquitous() {
    for set in [PhrasingSet::Seen, PhrasingSet::Unseen] {
        let truths: Vec<GroundTruth> = SEEDS.map(|seed| generate(seed, set).truth).collect();
        for clause in Clause::all() {
            assert!(truths.iter().any(|truth| truth.has_clause(clause)), "{set:?}: {}", clause.name());
        }
        for problem in Problem::all() {
            assert!(truths.iter().any(|truth| truth.has_problem(problem)), "{set:?}: {}", problem.name());
        }
        let on =
            |topic: fn(&Activation) -> bool| truths.iter().filter(|truth| topic(&truth.activation)).count();
        for (topic, count) in [
            ("personal data", on(|activation| activation.personal_data)),
            ("eu", on(|activation| activation.eu)),
            ("california", on(|activation| activation.california)),
            ("health", on(|activation| activation.health)),
            ("ip", on(|activation| activation.ip)),
        ] {
            assert!((20..=190).contains(&count), "{set:?}: {topic} in {count} of {}", truths.len());
        }
    }
}

#[test]
fn every_phrasing_is_used() {
    for set in [PhrasingSet::Seen, PhrasingSet::Unseen] {
        let truths: Vec<GroundTruth> = (1..=400).map(|seed| generate(seed, set).truth).collect();
        let used: BTreeSet<&str> = truths.iter().flat_map(spans).map(|span| span.phrasing.as_str()).collect();
        let unused: Vec<&str> = by_id(set.phrasings()).into_keys().filter(|id| !used.contains(id)).collect();
        assert!(unused.is_empty(), "{set:?}: {unused:?}");
    }
}

#[test]
fn both_sets_of_a_seed_describe_the_same_case() {
    for seed in FEW_SEEDS {
        let (seen, unseen) = (generate(seed, PhrasingSet::Seen), generate(seed, PhrasingSet::Unseen));
        let problems = |truth: &GroundTruth| -> Vec<Problem> {
            truth.problems.iter().map(|planted| planted.problem).collect()
        };
        assert_eq!(problems(&seen.truth), problems(&unseen.truth), "seed {seed}");
        assert_eq!(seen.truth.risk_score, unseen.truth.risk_score, "seed {seed}");
        let parties = |contract: &Contract| {
            let facts = contract.truth.facts.iter();
            facts.filter(|stated| stated.fact == Fact::CustomerName).map(|stated| stated.value.clone()).next()
        };
        assert_eq!(parties(&seen), parties(&unseen), "seed {seed}");
        assert_ne!(seen.text, unseen.text, "seed {seed}");
    }
}

#[test]
fn contracts_differ_by_seed_and_are_deterministic() {
    let texts: BTreeSet<String> = both().map(|contract| contract.text).collect();
    assert_eq!(texts.len(), 2 * FEW_SEEDS.count());
    assert_eq!(generate(7, PhrasingSet::Seen), generate(7, PhrasingSet::Seen));
}

/// A change here invalidates all results measured on these contracts: mention it in the changelog.
#[test]
fn the_same_seed_gives_the_same_bytes_in_every_version() {
    let digest = |seed, set| {
        let contract = generate(seed, set);
        let truth = serde_json::to_vec(&contract.truth).unwrap();
        let digest = Sha256::new().chain_update(contract.text).chain_update(truth).finalize();
        digest[..8].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let cases = [
        (1, PhrasingSet::Seen),
        (1, PhrasingSet::Unseen),
        (42, PhrasingSet::Seen),
        (200, PhrasingSet::Unseen),
        (u64::MAX, PhrasingSet::Seen),
    ];
    let digests = cases.map(|(seed, set)| digest(seed, set));
    assert_eq!(
        digests,
        ["7610bbe3b54c4ec7", "7e16c1f20eb0c9f2", "cb3a5060e28abae6", "d21f99eb4f687fa6", "94c14c7e97a7dd24"]
    );
}
