//! The analysts on the agreement of the contract review playbook, compared with its labels.

use std::collections::{BTreeMap, BTreeSet};

use quorate_contracts::Heuristic;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

const AGREEMENT: &str = include_str!("../../../../playbooks/contract-review/agreement.txt");
const TRUTH: &str = include_str!("../../../../playbooks/contract-review/agreement.truth.yaml");

#[derive(Deserialize)]
struct Truth {
    clauses: BTreeMap<String, IgnoredAny>,
    issues: Vec<Issue>,
}

#[derive(Deserialize)]
struct Issue {
    problem: String,
}

#[test]
fn the_extractor_finds_the_clauses_with_few_errors() -> Result<(), Box<dyn std::error::Error>> {
    let truth: Truth = serde_saphyr::from_str(TRUTH)?;
    let body = Heuristic::Clauses.analyse(AGREEMENT);
    let found: BTreeSet<&str> =
        body["found"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let labelled: BTreeSet<&str> = truth.clauses.keys().map(String::as_str).collect();
    let (false_positives, missed): (Vec<_>, Vec<_>) =
        (found.difference(&labelled).collect(), labelled.difference(&found).collect());
    assert!(false_positives.len() <= 3 && missed.len() <= 3, "wrong {false_positives:?}, missed {missed:?}");
    Ok(())
}

#[test]
fn a3_the_analysts_disagree_and_together_find_most_problems() -> Result<(), Box<dyn std::error::Error>> {
    let truth: Truth = serde_saphyr::from_str(TRUTH)?;
    let (mut topics, mut recommendations) = (BTreeSet::new(), BTreeSet::new());
    for analyst in Heuristic::ALL {
        let body = analyst.analyse(AGREEMENT);
        let issues = body["issues"].as_array().into_iter().flatten();
        topics
            .extend(issues.filter_map(|issue| issue["topic"].as_str()).map(|topic| topic.replace(' ', "_")));
        recommendations.insert(body["recommendation"].to_string());
    }
    let found = truth.issues.iter().filter(|issue| topics.contains(&issue.problem)).count();
    assert!(found * 4 >= truth.issues.len() * 3, "{found} of {}: {topics:?}", truth.issues.len());
    assert!(recommendations.len() >= 2, "{recommendations:?}");
    // The provider keeps its own materials, and the client gets the deliverables.
    assert!(!topics.contains("ip_to_vendor"), "{topics:?}");
    Ok(())
}
