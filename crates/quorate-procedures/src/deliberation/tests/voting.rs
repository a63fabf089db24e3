//! What the vote comes to, and what is kept of it.

use super::*;
use crate::count::{Flip, Rule};

fn decision(spec: &Spec, said: &[(&str, f64)]) -> Decision {
    let played = play(spec, |ask| {
        let at = spec.place(&ask.agent);
        if ask.action == ANALYSE {
            Act::Answer(recommends(said[at].0, said[at].1))
        } else {
            Act::Answer(stay(ask))
        }
    });
    played.outcome().decisions[0].clone()
}

#[test]
fn a5_what_is_still_open_is_decided_by_confidence_and_the_minority_is_kept() {
    let decision =
        decision(&spec(&["a", "b", "c"]), &[("do not sign", 0.9), ("sign as is", 0.5), ("sign as is", 0.3)]);
    assert_eq!((decision.how, decision.position.as_str()), (How::Voted, "do not sign"));
    assert_eq!(decision.share, 0.529_412);
    assert_eq!(decision.resolution, "\"do not sign\" won the vote with a share of 0.53 (confidence)");
    let minority: Vec<(&str, &str)> =
        decision.minority.iter().map(|one| (one.agent.as_str(), one.reason.as_str())).collect();
    assert_eq!(minority, [("b", "I stay."), ("c", "I stay.")]);
    assert_eq!(decision.positions.len(), 3, "every ballot is there");
    assert_eq!(decision.would_change, Some(Flip { to: "sign as is".into(), voters: vec!["a".into()] }));
}

#[test]
fn a5_a_tie_is_told_as_a_tie() {
    let decision = decision(&spec(&["a", "b"]), &[("do not sign", 0.5), ("sign as is", 0.5)]);
    assert_eq!((decision.how, decision.position.as_str()), (How::Tied, "do not sign"));
    assert!(
        decision.resolution.starts_with("a tie between \"do not sign\" and \"sign as is\""),
        "{}",
        decision.resolution
    );
    let played = play(&spec(&["a", "b"]), |ask| match (ask.action, ask.agent.as_str()) {
        (ANALYSE, "a") => Act::Answer(recommends("do not sign", 0.5)),
        (ANALYSE, _) => Act::Answer(recommends("sign as is", 0.5)),
        _ => Act::Answer(stay(ask)),
    });
    let synthesis = &played.outcome().synthesis;
    assert!(synthesis.summary[0].text.starts_with("The agents are split on what to do"));
    assert_eq!((synthesis.agreement.level.as_str(), synthesis.confidence), ("split", Some(0.25)));
}

#[test]
fn a5_the_rule_is_a_setting() {
    let said = [("do not sign", 0.9), ("sign as is", 0.5), ("sign as is", 0.3)];
    let mut spec = spec(&["a", "b", "c"]);
    let won = |spec: &Spec| decision(spec, &said).position;
    spec.rule = Rule::Majority;
    assert_eq!(won(&spec), "sign as is");
    spec.rule = Rule::LogOdds;
    assert_eq!(won(&spec), "do not sign");
    spec.rule = Rule::Reliability;
    assert_eq!(won(&spec), "sign as is");
}

#[test]
fn a5_borda_counts_the_rankings_that_were_given_in_the_discussion() {
    let mut spec = spec(&["a", "b", "c", "d", "e"]);
    spec.rule = Rule::Borda;
    spec.limits.rounds = 1;
    let said = ["sign as is", "sign as is", "sign as is", "minor revisions", "minor revisions"];
    let played = play(&spec, |ask| {
        let at = spec.place(&ask.agent);
        if ask.action == ANALYSE {
            return Act::Answer(recommends(said[at], 0.5));
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
    assert_eq!((decision.before.as_str(), decision.position.as_str()), ("sign as is", "minor revisions"));
}
