//! The outcome matches the ballots: no agreement that the voting rule contradicts, no winner of a tie, and a headline
//! that matches its numbers.

use super::*;
use crate::tally::VotingRule;

/// Outcome as JSON, of agents that keep their positions. An agent agrees with a peer if a peer holds the same position.
fn outcome_of(rule: VotingRule, votes: &[(&str, f64)]) -> Value {
    let names: Vec<String> = (0..votes.len()).map(|index| format!("a{index}")).collect();
    let mut spec =
        Spec::new("Shall we?", Value::Null, members(&names.iter().map(String::as_str).collect::<Vec<_>>()));
    spec.rule = rule;
    let run = run_script(&spec, |ask| {
        let (choice, confidence) = votes[spec.agent_index(&ask.agent)];
        if ask.action == ANALYSE {
            return Reaction::Answer(recommends(choice, confidence));
        }
        let mut answer = stay(ask);
        let has_peer = votes.iter().filter(|(other, _)| *other == choice).count() > 1;
        answer["agrees_with_peer"] = json!(has_peer);
        Reaction::Answer(answer)
    });
    serde_json::to_value(run.outcome()).expect("JSON")
}

#[test]
fn v1_without_a_change_of_position_the_counting_rule_decides() {
    let outcome = outcome_of(VotingRule::Confidence, &[("no", 0.99), ("yes", 0.3), ("yes", 0.3)]);
    let decision = &outcome["decisions"][0];
    assert_eq!((&decision["how"], &decision["position"]), (&json!("voted"), &json!("no")));
    assert_eq!(outcome["synthesis"]["recommendation"], "no");
    assert_eq!(
        outcome["synthesis"]["agreement"],
        json!({"level": "contested", "held": 1, "of": 3, "rule": "confidence"})
    );
}

#[test]
fn v1_four_agreeing_agents_do_not_override_log_odds() {
    let votes = [("no", 0.97), ("yes", 0.55), ("yes", 0.55), ("yes", 0.55), ("yes", 0.55)];
    let outcome = outcome_of(VotingRule::LogOdds, &votes);
    let decision = &outcome["decisions"][0];
    assert_eq!((&decision["how"], &decision["position"]), (&json!("voted"), &json!("no")));
    assert_eq!(decision["share"], 0.935_44);
}

#[test]
fn v1_agents_that_agree_do_not_hide_a_tie() {
    let outcome = outcome_of(VotingRule::Confidence, &[("no", 0.6), ("yes", 0.3), ("yes", 0.3)]);
    let decision = &outcome["decisions"][0];
    assert_eq!((&decision["how"], &decision["position"]), (&json!("tied"), &Value::Null));
    assert_eq!(decision["minority"], json!([]), "without a decision there is no minority");
}

#[test]
fn v1_an_agreement_that_the_rule_contradicts_is_voted_on() {
    // b moves to c's position, and both agree; but a outweighs them.
    let run = run_script(&spec(&["a", "b", "c"]), |ask| match (ask.id.0.as_str(), ask.agent.as_str()) {
        ("analyse:a", _) => Reaction::Answer(recommends("do not sign", 0.99)),
        ("analyse:b", _) => Reaction::Answer(recommends("minor revisions", 0.3)),
        ("analyse:c", _) => Reaction::Answer(recommends("sign as is", 0.3)),
        ("discuss:1:C1:c", _) => Reaction::Answer(stay(ask)),
        (_, "a") => Reaction::Answer(stay(ask)),
        _ => Reaction::Answer(reply("sign as is", 0.3, true, "We agree.")),
    });
    let outcome = serde_json::to_value(run.outcome()).expect("JSON");
    let decision = &outcome["decisions"][0];
    assert_eq!((&decision["how"], &decision["position"]), (&json!("voted"), &json!("do not sign")));
}

#[test]
fn v1_numbers_are_not_agreed_on_without_a_change_of_position() {
    // a and b are close from the start; c, who outweighs both, does not answer.
    let scored = |score: f64, confidence: f64| json!({"summary": "s", "confidence": confidence, "scores": {"overall_risk_score": score}});
    let run = run_script(&spec(&["a", "b", "c"]), |ask| match (ask.action, ask.agent.as_str()) {
        (ANALYSE, "a") => Reaction::Answer(scored(10.0, 0.2)),
        (ANALYSE, "b") => Reaction::Answer(scored(12.0, 0.2)),
        (ANALYSE, _) => Reaction::Answer(scored(90.0, 0.9)),
        (_, "c") => Reaction::Fail("gone"),
        _ => Reaction::Answer(reply(if ask.agent == "a" { 10.0 } else { 12.0 }, 0.2, true, "We agree.")),
    });
    let outcome = serde_json::to_value(run.outcome()).expect("JSON");
    let decision = &outcome["decisions"][0];
    assert_eq!((&decision["how"], &decision["position"]), (&json!("merged"), &json!(90)));
}

#[test]
fn n2_findings_without_recommendations_are_not_comparable() {
    let run = run_script(&spec(&["a", "b"]), |ask| {
        let text = if ask.agent == "a" { "It looks fine to me." } else { "I would not do it." };
        Reaction::Answer(json!({"summary": text}))
    });
    let outcome = serde_json::to_value(run.outcome()).expect("JSON");
    let agreement = &outcome["synthesis"]["agreement"];
    assert_eq!(*agreement, json!({"level": "not_comparable", "reason": "no_recommendations"}));
    assert_eq!(outcome["synthesis"]["recommendation"], Value::Null);
}

#[test]
fn n2_a_winner_without_a_majority_is_contested() {
    let outcome = outcome_of(VotingRule::Confidence, &[("yes", 1.0), ("no", 0.4), ("no", 0.4)]);
    assert_eq!(outcome["synthesis"]["recommendation"], "yes");
    assert_eq!(
        outcome["synthesis"]["agreement"],
        json!({"level": "contested", "held": 1, "of": 3, "rule": "confidence"})
    );
}

#[test]
fn n18_a_tie_is_not_a_decision() {
    let outcome = outcome_of(VotingRule::Confidence, &[("no", 0.5), ("yes", 0.5)]);
    let (synthesis, decision) = (&outcome["synthesis"], &outcome["decisions"][0]);
    assert_eq!(synthesis["recommendation"], Value::Null);
    assert_eq!(synthesis["agreement"], json!({"level": "tied", "between": ["no", "yes"], "of": 2}));
    assert_eq!((&decision["position"], &decision["before"]), (&Value::Null, &Value::Null));
    assert!(!outcome.to_string().contains("stands by"), "{outcome}");
}

#[test]
fn n3_positions_in_numeric_conflicts_are_numbers() {
    let scored =
        |score: f64| json!({"summary": "s", "confidence": 0.5, "scores": {"overall_risk_score": score}});
    let spec = spec(&["a", "b"]);
    let run = run_script(&spec, |ask| match ask.id.0.as_str() {
        "analyse:a" => Reaction::Answer(scored(80.5)),
        "analyse:b" => Reaction::Answer(scored(35.0)),
        // Numbers in strings are accepted.
        "discuss:1:C1:b" => Reaction::Answer(reply("40", 0.5, false, "A little more.")),
        _ => Reaction::Answer(stay(ask)),
    });
    let payload = run.payload("discuss:1:C1:b");
    assert_eq!(
        (&payload["your_position"]["position"], &payload["other_positions"][0]["position"]),
        (&json!(35), &json!(80.5))
    );
    let outcome = serde_json::to_value(run.outcome()).expect("JSON");
    let decision = &outcome["decisions"][0];
    assert_eq!(decision["positions"][1]["position"], json!(35));
    assert_eq!(decision["ballots"][1]["position"], json!(40));
    assert_eq!((&decision["changes"][0]["from"], &decision["changes"][0]["to"]), (&json!(35), &json!(40)));
    assert!(decision["position"].is_number() && decision["before"].is_number(), "{decision}");
    let revision = &outcome["messages"].as_array().expect("messages")[3]["content"];
    assert_eq!((&revision["position"], &revision["before"]["position"]), (&json!(40), &json!(35)));
    assert_eq!(outcome["missing"], json!([]));
}

#[test]
fn n3_an_invalid_answer_in_one_conflict_does_not_exclude_the_agent_from_others() {
    let finding = |recommendation: &str, score: f64| {
        let mut finding = recommends(recommendation, 0.5);
        finding["scores"] = json!({"overall_risk_score": score});
        finding
    };
    let run = run_script(&spec(&["a", "b"]), |ask| match ask.id.0.as_str() {
        "analyse:a" => Reaction::Answer(finding("sign as is", 10.0)),
        "analyse:b" => Reaction::Answer(finding("do not sign", 80.0)),
        id if id.starts_with("discuss:1:C1:b") => {
            Reaction::Answer(reply("perhaps", 0.5, false, "I do not know."))
        }
        _ => Reaction::Answer(stay(ask)),
    });
    let request_ids: Vec<&str> =
        run.asks.iter().filter(|ask| ask.agent == "b").map(|ask| ask.id.0.as_str()).collect();
    assert!(request_ids.contains(&"discuss:2:C2:b"), "{request_ids:?}");
    let missing = &run.outcome().record.missing;
    assert_eq!(missing.len(), 1);
    assert_eq!((missing[0].agent.as_str(), missing[0].conflict.as_deref()), ("b", Some("C1")));
    assert!(missing[0].why[0].contains("perhaps"), "{:?}", missing[0].why);
}

#[test]
fn n3_calls_of_a_declining_agent_are_counted() {
    let spec = spec(&["a", "b"]);
    let run = run_script(&spec, |ask| match ask.id.0.as_str() {
        "analyse:a" => Reaction::Answer(recommends("sign as is", 0.5)),
        "analyse:b" => Reaction::Answer(recommends("do not sign", 0.5)),
        _ if ask.agent == "b" => Reaction::Answer(json!({"error": "the answer holds no JSON object"})),
        _ => Reaction::Answer(stay(ask)),
    });
    let record = &run.outcome().record;
    assert_eq!(record.missing[0].why, ["the answer holds no JSON object"; 2]);
    // Two findings, one reply of a in the only round with two participants, and two calls of b.
    assert_eq!(record.actual.calls(), 5);
}
