//! The vote and its record.

use super::*;
use crate::tally::{Agreement, PivotalVoters, TieBreak, VotingRule};

fn decision(spec: &Spec, votes: &[(&str, f64)]) -> ConflictResolution {
    let played = play(spec, |ask| {
        let at = spec.agent_index(&ask.agent);
        if ask.action == ANALYSE {
            Act::Answer(recommends(votes[at].0, votes[at].1))
        } else {
            Act::Answer(stay(ask))
        }
    });
    played.outcome().decisions[0].clone()
}

#[test]
fn a5_open_conflicts_are_decided_by_confidence_and_the_minority_is_recorded() {
    let decision =
        decision(&spec(&["a", "b", "c"]), &[("do not sign", 0.9), ("sign as is", 0.5), ("sign as is", 0.3)]);
    assert_eq!((decision.how, decided(&decision)), (ResolutionMethod::Voted, "do not sign".to_owned()));
    assert_eq!(decision.share, 0.529_412);
    assert_eq!(decision.resolution, "\"do not sign\" won the vote with a share of 0.53 (confidence)");
    let minority: Vec<(&str, &str)> =
        decision.minority.iter().map(|one| (one.agent.as_str(), one.reason.as_str())).collect();
    assert_eq!(minority, [("b", "I stay."), ("c", "I stay.")]);
    assert_eq!(decision.positions.len(), 3, "all ballots are recorded");
    let flip = PivotalVoters { to: "sign as is".into(), voters: vec!["a".into()], smallest: true };
    assert_eq!(decision.would_change, Some(flip));
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
    let played = play(&spec, |ask| match (ask.action, ask.agent.as_str()) {
        (ANALYSE, "a") => Act::Answer(recommends("do not sign", 0.5)),
        (ANALYSE, _) => Act::Answer(recommends("sign as is", 0.5)),
        _ => Act::Answer(stay(ask)),
    });
    let synthesis = &played.outcome().synthesis;
    let text = "No decision: tied between \"do not sign\" and \"sign as is\" (confidence).";
    assert_eq!(synthesis.summary[0].text, text);
    let between = vec!["do not sign".to_owned(), "sign as is".to_owned()];
    assert_eq!(synthesis.agreement, Agreement::Tied { between, of: 2 });
    assert_eq!((&synthesis.recommendation, synthesis.confidence), (&None, None));
    assert!(!played.outcome().is_decided());
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
    let played = play(&spec, |ask| {
        let (what, sure) = votes[spec.agent_index(&ask.agent)];
        Act::Answer(recommends(what, sure))
    });
    let synthesis = &played.outcome().synthesis;
    assert_eq!(synthesis.recommendation.as_deref(), Some("do not sign"));
    assert_eq!(synthesis.agreement.to_string(), "contested: 1 of 3, by weight");
}

#[test]
fn n2_agents_without_a_recommendation_are_listed_and_not_counted() {
    let played = play(&spec(&["a", "b", "c"]), |ask| match ask.agent.as_str() {
        "c" => Act::Answer(json!({"summary": "I cannot say."})),
        _ => Act::Answer(recommends("sign as is", 0.5)),
    });
    let synthesis = &played.outcome().synthesis;
    assert_eq!(synthesis.agreement, Agreement::Unanimous { held: 2, of: 2 });
    let text: Vec<&str> = synthesis.summary.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(text[0], "Recommendation: sign as is, by all 2 agents that gave one.");
    assert_eq!(text[1], "Without a recommendation: c.");
}

#[test]
fn a5_the_voting_rule_is_configurable() {
    let votes = [("do not sign", 0.9), ("sign as is", 0.5), ("sign as is", 0.3)];
    let mut spec = spec(&["a", "b", "c"]);
    let won = |spec: &Spec| decided(&decision(spec, &votes));
    spec.rule = VotingRule::Majority;
    assert_eq!(won(&spec), "sign as is");
    spec.rule = VotingRule::LogOdds;
    assert_eq!(won(&spec), "do not sign");
    spec.rule = VotingRule::Reliability;
    assert_eq!(won(&spec), "sign as is");
}

#[test]
fn a5_borda_uses_the_rankings_from_the_discussion() {
    let mut spec = spec(&["a", "b", "c", "d", "e"]);
    spec.rule = VotingRule::Borda;
    spec.limits.rounds = 1;
    let votes = ["sign as is", "sign as is", "sign as is", "minor revisions", "minor revisions"];
    let played = play(&spec, |ask| {
        let at = spec.agent_index(&ask.agent);
        if ask.action == ANALYSE {
            return Act::Answer(recommends(votes[at], 0.5));
        }
        let mut answer = stay(ask);
        answer["ranking"] = if at < 3 {
            json!(["sign as is", "minor revisions", "do not sign"])
        } else {
            json!(["minor revisions", "do not sign", "sign as is"])
        };
        Act::Answer(answer)
    });
    let decision = &played.outcome().decisions[0];
    assert_eq!(decision.before, Some("sign as is".into()));
    assert_eq!(decided(decision), "minor revisions");
}
