//! When a discussion settles a conflict.

use super::*;

fn contrary_findings(ask: &Ask) -> Option<Reaction> {
    match ask.id.0.as_str() {
        "analyse:a" => Some(Reaction::Answer(recommends("do not sign", 0.8))),
        "analyse:b" => Some(Reaction::Answer(recommends("sign as is", 0.7))),
        _ => None,
    }
}

fn first_decision(run: &ScriptedRun) -> &ConflictResolution {
    &run.outcome().decisions[0]
}

#[test]
fn a4_agents_are_asked_with_their_own_position_and_their_peers() {
    let run = run_script(&spec(&["a", "b"]), |ask| {
        contrary_findings(ask).unwrap_or_else(|| Reaction::Answer(stay(ask)))
    });
    let payload = run.payload("discuss:1:C1:b");
    assert_eq!(
        payload["your_position"],
        json!({"agent": "b", "position": "sign as is", "confidence": 0.7, "reason": "I say sign as is."})
    );
    assert_eq!(
        payload["other_positions"],
        json!([{"agent": "a", "position": "do not sign", "confidence": 0.8, "reason": "I say do not sign."}])
    );
    assert_eq!(payload["conflict"], json!({"id": "C1", "kind": "categorical", "topic": "what to do"}));
    assert_eq!(payload["answer"]["properties"]["revised_position"]["enum"][3], "do not sign");
    let second = run.payload("discuss:2:C1:b");
    assert_eq!(second["other_positions"][0]["reason"], "I stay.", "the next round includes the reason");
}

#[test]
fn a4_a_conflict_is_resolved_when_all_but_one_agree_and_the_resolution_names_the_position() {
    let run = run_script(&spec(&["a", "b"]), |ask| {
        contrary_findings(ask).unwrap_or_else(|| match ask.id.0.as_str() {
            "discuss:1:C1:b" => Reaction::Answer(reply("Do not sign", 0.9, true, "You are right.")),
            _ => Reaction::Answer(stay(ask)),
        })
    });
    let decision = first_decision(&run);
    assert_eq!(
        (decision.how, decision.rounds),
        (ResolutionMethod::Agreed { round: 1 }, 1),
        "there is no second round"
    );
    assert_eq!(decision.resolution, "agreed on \"do not sign\" in round 1");
    assert_eq!(decision.minority, []);
    assert_eq!((decision.changes.len(), decision.changes[0].confidence_to), (1, Some(0.9)));
    assert_eq!(decision.changes[0].from, "sign as is");
    assert_eq!(decision.changes[0].message, "M2");
}

#[test]
fn a4_revised_positions_and_confidences_count_in_the_vote() {
    // b keeps its position but lowers its confidence; c joins a without stating that it agrees.
    let spec = spec(&["a", "b", "c"]);
    let run = run_script(&spec, |ask| match ask.id.0.as_str() {
        "analyse:a" => Reaction::Answer(recommends("do not sign", 0.5)),
        "analyse:b" => Reaction::Answer(recommends("sign as is", 0.9)),
        "analyse:c" => Reaction::Answer(recommends("minor revisions", 0.3)),
        "discuss:1:C1:b" => Reaction::Answer(reply("sign as is", 0.4, false, "I am less sure.")),
        "discuss:1:C1:c" => Reaction::Answer(reply("do not sign", 0.3, false, "By myself.")),
        _ => Reaction::Answer(stay(ask)),
    });
    let decision = first_decision(&run);
    assert_eq!(
        (decision.before.clone(), decided(decision)),
        (Some("sign as is".into()), "do not sign".to_owned())
    );
    assert_eq!(decision.how, ResolutionMethod::Voted);
    assert_eq!(decision.share, 0.666_667, "0.8 of 1.2");
    assert_eq!(decision.minority.len(), 1);
    assert_eq!((decision.minority[0].agent.as_str(), decision.minority[0].reason.as_str()), ("b", "I stay."));
    let changed: Vec<&str> = decision.changes.iter().map(|change| change.agent.as_str()).collect();
    assert_eq!(changed, ["c"], "b only lowered its confidence: not a change of position");
}

#[test]
fn a4_one_answer_settles_nothing() {
    let run = run_script(&spec(&["a", "b"]), |ask| {
        contrary_findings(ask).unwrap_or_else(|| match ask.agent.as_str() {
            "b" => Reaction::Answer(reply("do not sign", 0.9, true, "You are right.")),
            _ => Reaction::Silence,
        })
    });
    assert_eq!(first_decision(&run).how, ResolutionMethod::Voted, "a did not reply in the discussion");
    assert_eq!((decided(first_decision(&run)), first_decision(&run).share), ("do not sign".to_owned(), 1.0));
}

#[test]
fn a4_swapping_positions_is_not_an_agreement() {
    let run = run_script(&spec(&["a", "b"]), |ask| {
        contrary_findings(ask).unwrap_or_else(|| {
            let payload: Value = serde_json::from_str(&ask.payload).expect("JSON");
            let other = payload["other_positions"][0]["position"].clone();
            Reaction::Answer(reply(other, 0.5, true, "You are right."))
        })
    });
    assert_eq!(
        first_decision(&run).how,
        ResolutionMethod::Tied,
        "both agree twice, but never hold the same position"
    );
}

#[test]
fn a4_an_agreement_must_state_a_position_of_a_peer() {
    let run = run_script(&spec(&["a", "b"]), |ask| {
        contrary_findings(ask).unwrap_or_else(|| match ask.id.0.as_str() {
            "discuss:1:C1:b" => Reaction::Answer(reply("sign as is", 0.9, true, "You are right.")),
            "discuss:1:C1:b:again" => Reaction::Answer(reply("do not sign", 0.9, true, "You are right.")),
            _ => Reaction::Answer(stay(ask)),
        })
    });
    let error =
        "agrees_with_peer: is true, but no peer holds `sign as is`: state the position that you agree with";
    assert_eq!(run.payload("discuss:1:C1:b:again")["wrong"], error);
    assert_eq!(first_decision(&run).how, ResolutionMethod::Agreed { round: 1 });
}

#[test]
fn a4_numbers_are_agreed_on_within_the_allowed_spread() {
    let scored =
        |score: f64| json!({"summary": "s", "confidence": 0.5, "scores": {"overall_risk_score": score}});
    let react = |ask: &Ask, revised: f64| match ask.id.0.as_str() {
        "analyse:a" => Reaction::Answer(scored(80.0)),
        "analyse:b" => Reaction::Answer(scored(20.0)),
        "discuss:1:C1:b" => Reaction::Answer(reply(revised, 0.5, true, "Riskier than I thought.")),
        _ => Reaction::Answer(stay(ask)),
    };
    let near = run_script(&spec(&["a", "b"]), |ask| react(ask, 60.0));
    assert_eq!(
        (first_decision(&near).how, decided(first_decision(&near))),
        (ResolutionMethod::Agreed { round: 1 }, "70".to_owned())
    );
    let far = run_script(&spec(&["a", "b"]), |ask| react(ask, 50.0));
    assert_eq!(
        (first_decision(&far).how, decided(first_decision(&far))),
        (ResolutionMethod::Merged, "65".to_owned())
    );
    assert_eq!(
        first_decision(&far).resolution,
        "merged to 65, the median of 50 to 80 weighted by confidence"
    );
}
