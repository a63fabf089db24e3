//! The five kinds of conflict, counterexamples, and their order.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::finding::{Finding, Vocabulary};

fn vocabulary() -> Vocabulary {
    let recommendations =
        ["sign as is", "minor revisions", "negotiate key terms", "do not sign"].map(str::to_owned).to_vec();
    Vocabulary { recommendations, ..Vocabulary::default() }
}

fn finding(value: serde_json::Value) -> Finding {
    crate::finding::parse(value.to_string().as_bytes(), &vocabulary()).expect("a valid finding")
}

fn detect_conflicts(findings: &[(&str, serde_json::Value)]) -> Vec<Conflict> {
    let findings: Vec<(&str, Finding)> =
        findings.iter().map(|(agent, value)| (*agent, finding(value.clone()))).collect();
    let findings: Vec<(&str, &Finding)> = findings.iter().map(|(agent, finding)| (*agent, finding)).collect();
    detect(&ConflictRule::contract(), &vocabulary(), &findings)
}

fn check(findings: &[(&str, serde_json::Value)], expected: &Expect) {
    let line = |conflict: &Conflict| {
        let positions: Vec<String> = conflict
            .positions
            .iter()
            .map(|position| {
                format!(
                    "{} {} {}",
                    position.agent,
                    position.position,
                    position.confidence.unwrap_or(f64::NAN)
                )
            })
            .collect();
        format!(
            "{:.3} {} [{}] {}\n",
            conflict.criticality,
            conflict.key,
            conflict.topic,
            positions.join(", ")
        )
    };
    expected.assert_eq(&detect_conflicts(findings).iter().map(line).collect::<String>());
}

#[test]
fn a3_scores_more_than_20_apart_are_a_conflict() {
    let finding_with_score =
        |score: f64| json!({"summary":"s","confidence":0.5,"scores":{"overall_risk_score":score}});
    check(&[("a", finding_with_score(30.0)), ("b", finding_with_score(50.0))], &expect![""]);
    check(
        &[("a", finding_with_score(30.0)), ("b", finding_with_score(50.5)), ("c", json!({"summary":"s"}))],
        &expect![[r#"
        0.231 numeric:overall risk score [overall_risk_score: 30 to 50.5] a 30 0.5, b 50.5 0.5
    "#]],
    );
}

#[test]
fn a3_an_item_relied_on_but_not_found_is_a_conflict() {
    let extractor = json!({"summary":"s","confidence":0.9,"found":["Governing Law"]});
    let relies = json!({"summary":"s","confidence":0.6,"relies_on":["indemnification","governing_law"]});
    check(
        &[("clause_extractor", extractor), ("a", relies.clone()), ("b", relies.clone())],
        &expect![[r#"
            0.360 presence:indemnification [is "indemnification" there?] clause_extractor absent 0.9, a present 0.6, b present 0.6
        "#]],
    );
    // Without a search result the rule cannot be applied; the missing agent is reported.
    assert!(detect_conflicts(&[("a", relies.clone())]).is_empty());
    let relies = finding(relies);
    assert_eq!(missing_checkers(&ConflictRule::contract(), &[("a", &relies)]), ["clause_extractor"]);
}

#[test]
fn a3_the_same_issue_of_different_severity_is_a_conflict() {
    let issue = |topic: &str, severity: &str| json!({"summary":"s","confidence":0.8,"issues":[{"topic":topic,"severity":severity,"detail":"d"}]});
    check(
        &[
            ("a", issue("Liability cap", "critical")),
            ("b", issue("liability_cap", "low")),
            ("c", issue("term", "low")),
        ],
        &expect![[r#"
            0.640 severity:liability cap [how severe is "Liability cap"?] a critical 0.8, b low 0.8
        "#]],
    );
    check(&[("a", issue("term", "high")), ("b", issue("Term", "High"))], &expect![""]);
}

#[test]
fn a3_different_recommendations_are_a_conflict_and_distance_raises_its_size() {
    let recommends =
        |recommendation: &str| json!({"summary":"s","confidence":0.8,"recommendation":recommendation});
    check(
        &[("a", recommends("sign as is")), ("b", recommends("do_not_sign")), ("c", recommends("Sign as is"))],
        &expect![[r#"
            0.800 categorical:recommendation [what to do] a sign as is 0.8, b do not sign 0.8, c sign as is 0.8
        "#]],
    );
    check(
        &[("a", recommends("sign as is")), ("b", recommends("minor revisions"))],
        &expect![[r#"
            0.533 categorical:recommendation [what to do] a sign as is 0.8, b minor revisions 0.8
        "#]],
    );
}

#[test]
fn a3_different_facts_are_a_conflict_but_formats_are_not() {
    let stated =
        |fee: serde_json::Value, start: &str| json!({"summary":"s","facts":{"fee":fee,"Start date":start}});
    check(
        &[("a", stated(json!("$1,200.00"), "1 Jan 2027")), ("b", stated(json!(1200), "2027-01-01"))],
        &expect![""],
    );
    check(
        &[
            ("a", stated(json!("$1,200.00"), "1 Jan 2027")),
            ("b", stated(json!("1300 USD"), "2027-01-01")),
            ("c", stated(json!(1200), "1 Feb 2027")),
        ],
        &expect![[r#"
            0.700 factual:fee [fee] a $1,200.00 NaN, b 1300 USD NaN, c $1,200.00 NaN
            0.700 factual:start date [Start date] a 1 Jan 2027 NaN, b 1 Jan 2027 NaN, c 1 Feb 2027 NaN
        "#]],
    );
}

#[test]
fn a3_a_later_finding_replaces_the_earlier_one() {
    let recommends = |recommendation: &str| json!({"summary":"s","recommendation":recommendation});
    check(&[("a", recommends("sign as is")), ("a", recommends("do not sign"))], &expect![""]);
    check(
        &[
            ("a", recommends("sign as is")),
            ("b", recommends("do not sign")),
            ("a", recommends("do not sign")),
        ],
        &expect![""],
    );
}

#[test]
fn a3_the_most_critical_come_first() {
    let low = json!({"summary":"s","confidence":0.9,"recommendation":"sign as is","scores":{"overall_risk_score":10},
        "issues":[{"topic":"cap","severity":"low"}],"facts":{"term":"24 months"}});
    let high = json!({"summary":"s","confidence":0.7,"recommendation":"do not sign","scores":{"overall_risk_score":80},
        "issues":[{"topic":"cap","severity":"critical"}],"facts":{"term":"12 months"}});
    check(
        &[("a", low), ("b", high)],
        &expect![[r#"
        0.700 categorical:recommendation [what to do] a sign as is 0.9, b do not sign 0.7
        0.630 numeric:overall risk score [overall_risk_score: 10 to 80] a 10 0.9, b 80 0.7
        0.560 severity:cap [how severe is "cap"?] a low 0.9, b critical 0.7
        0.490 factual:term [term] a 24 months 0.9, b 12 months 0.7
    "#]],
    );
}

#[test]
fn a3_rules_are_data_and_strict() {
    let rules = r#"[{"numeric":{"score":"cost","spread":5}},{"severity":{}},{"factual":{"weight":0.1}}]"#;
    let rules: Vec<ConflictRule> = serde_json::from_str(rules).expect("rules");
    assert_eq!(rules.iter().map(ConflictRule::weight).collect::<Vec<_>>(), [0.9, 0.8, 0.1]);
    for invalid in [r#"{"numeric":{"score":"cost"}}"#, r#"{"severity":{"wieght":1}}"#, r#"{"loud":{}}"#] {
        assert!(serde_json::from_str::<ConflictRule>(invalid).is_err(), "{invalid}");
    }
    let contract = serde_json::to_string(&ConflictRule::contract()).expect("JSON");
    assert_eq!(
        serde_json::from_str::<Vec<ConflictRule>>(&contract).expect("the same"),
        ConflictRule::contract()
    );
}
