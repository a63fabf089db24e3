//! The vote and its record.

use super::*;
use crate::tally::{Agreement, PivotalVoters, TieBreak, VotingRule};

fn decision(spec: &Spec, votes: &[(&str, f64)]) -> ConflictResolution {
    let run = run_script(spec, |ask| {
        let index = spec.agent_index(&ask.agent);
        if ask.action == ANALYSE {
            Reaction::Answer(recommends(votes[index].0, votes[index].1))
        } else {
            Reaction::Answer(stay(ask))
        }
    });
    run.outcome().decisions[0].clone()
}

#[test]
fn a5_open_conflicts_are_decided_by_confidence_and_the_minority_is_recorded() {
    let decision =
        decision(&spec(&["a", "b", "c"]), &[("do not sign", 0.9), ("sign as is", 0.5), ("sign as is", 0.3)]);
    assert_eq!((decision.how, decided(&decision)), (ResolutionMethod::Voted, "do not sign".to_owned()));
    assert_eq!(decision.share, 0.529_412);
    assert_eq!(decision.resolution, "\"do not sign\" won the vote with a share of 0.53 (confidence)");
    let minority: Vec<(&str, &str)> = decision
        .minority
        .iter()
        .map(|position| (position.agent.as_str(), position.reason.as_str()))
        .collect();
    assert_eq!(minority, [("b", "I stay."), ("c", "I stay.")]);
    assert_eq!(decision.ballots.len(), 3, "all ballots are recorded");
    let pivotal = PivotalVoters { to: "sign as is".into(), voters: vec!["a".into()], smallest: true };
    assert_eq!(decision.would_change, Some(pivotal));
}

#[test]
fn n18_a_tie_has_no_position_no_minority_and_no_confidence() {
    let spec = spec(&["a", "b"]);
    let decision = decision(&spec, &[("do not sign", 0.5), ("sign as is", 0.5)]);
    assert_eq!((decision.how, &decision.position, &decision.before), (ResolutionMethod::Tied, &None, &None));
    assert_eq!(
        decision.resolution,
        "no decision: tied between \"do not sign\" and \"sign as is\" (confidence)"
    );
    assert_eq!(decision.minority, []);
    let run = run_script(&spec, |ask| match (ask.action, ask.agent.as_str()) {
        (ANALYSE, "a") => Reaction::Answer(recommends("do not sign", 0.5)),
        (ANALYSE, _) => Reaction::Answer(recommends("sign as is", 0.5)),
        _ => Reaction::Answer(stay(ask)),
    });
    let synthesis = &run.outcome().synthesis;
    let text = "No decision: tied between \"do not sign\" and \"sign as is\" (confidence).";
    assert_eq!(synthesis.summary[0].text, text);
    let between = vec!["do not sign".to_owned(), "sign as is".to_owned()];
    assert_eq!(synthesis.agreement, Agreement::Tied { between, of: 2 });
    assert_eq!((&synthesis.recommendation, synthesis.confidence), (&None, None));
    assert!(!run.outcome().is_decided());
}

#[test]
fn n18_a_declared_tie_break_decides_and_is_reported() {
    let mut spec = spec(&["a", "b"]);
    spec.tie_break = Some(TieBreak::LastListed);
    let decision = decision(&spec, &[("do not sign", 0.5), ("sign as is", 0.5)]);
    assert_eq!((decision.how, decided(&decision)), (ResolutionMethod::Voted, "do not sign".to_owned()));
    assert_eq!(decision.before, Some("do not sign".into()), "without the discussion by the same tie-break");
    let text = "\"do not sign\" won a tie between \"do not sign\" and \"sign as is\" (confidence) by the declared tie-break last-listed";
    assert_eq!(decision.resolution, text);
    let agreement = decision.agreement.expect("choices");
    assert_eq!(agreement.to_string(), "contested: 1 of 2, by tie-break last-listed");
}

#[test]
fn n2_recommendations_are_tallied_without_a_categorical_rule() {
    let mut spec = spec(&["a", "b", "c"]);
    spec.conflicts = Vec::new();
    let votes = [("do not sign", 0.9), ("sign as is", 0.5), ("sign as is", 0.3)];
    let run = run_script(&spec, |ask| {
        let (recommendation, confidence) = votes[spec.agent_index(&ask.agent)];
        Reaction::Answer(recommends(recommendation, confidence))
    });
    let synthesis = &run.outcome().synthesis;
    assert_eq!(synthesis.recommendation.as_deref(), Some("do not sign"));
    assert_eq!(synthesis.agreement.to_string(), "contested: 1 of 3, by weight");
}

#[test]
fn n2_agents_without_a_recommendation_are_listed_and_not_counted() {
    let run = run_script(&spec(&["a", "b", "c"]), |ask| match ask.agent.as_str() {
        "c" => Reaction::Answer(json!({"summary": "I cannot say."})),
        _ => Reaction::Answer(recommends("sign as is", 0.5)),
    });
    let synthesis = &run.outcome().synthesis;
    assert_eq!(synthesis.agreement, Agreement::Unanimous { held: 2, of: 2 });
    let text: Vec<&str> = synthesis.summary.iter().map(|sentence| sentence.text.as_str()).collect();
    assert_eq!(text[0], "Recommendation: sign as is, by all 2 agents that gave one.");
    assert_eq!(text[1], "Without a recommendation: c.");
}

#[test]
fn a5_the_voting_rule_is_configurable() {
    let votes = [("do not sign", 0.9), ("sign as is", 0.5), ("sign as is", 0.3)];
    let mut spec = spec(&["a", "b", "c"]);
    let winner = |spec: &Spec| decided(&decision(spec, &votes));
    spec.rule = VotingRule::Majority;
    assert_eq!(winner(&spec), "sign as is");
    spec.rule = VotingRule::LogOdds;
    assert_eq!(winner(&spec), "do not sign");
    spec.rule = VotingRule::Reliability;
    assert_eq!(winner(&spec), "sign as is");
}

#[test]
fn a5_borda_uses_the_rankings_from_the_discussion() {
    let mut spec = spec(&["a", "b", "c", "d", "e"]);
    spec.rule = VotingRule::Borda;
    spec.limits.rounds = 1;
    let votes = ["sign as is", "sign as is", "sign as is", "minor revisions", "minor revisions"];
    let run = run_script(&spec, |ask| {
        let index = spec.agent_index(&ask.agent);
        if ask.action == ANALYSE {
            return Reaction::Answer(recommends(votes[index], 0.5));
        }
        let mut answer = stay(ask);
        answer["ranking"] = if index < 3 {
            json!(["sign as is", "minor revisions", "do not sign"])
        } else {
            json!(["minor revisions", "do not sign", "sign as is"])
        };
        Reaction::Answer(answer)
    });
    let decision = &run.outcome().decisions[0];
    assert_eq!(decision.before, Some("sign as is".into()));
    assert_eq!(decided(decision), "minor revisions");
}
