//! When a discussion settles a conflict.

use super::*;

fn two(ask: &Ask) -> Option<Act> {
    match ask.id.0.as_str() {
        "analyse:a" => Some(Act::Answer(recommends("do not sign", 0.8))),
        "analyse:b" => Some(Act::Answer(recommends("sign as is", 0.7))),
        _ => None,
    }
}

fn first(played: &Played) -> &ConflictResolution {
    &played.outcome().decisions[0]
}

#[test]
fn a4_agents_are_asked_with_their_own_position_and_their_peers() {
    let played = play(&spec(&["a", "b"]), |ask| two(ask).unwrap_or_else(|| Act::Answer(stay(ask))));
    let payload = played.payload("discuss:1:C1:b");
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
    let second = played.payload("discuss:2:C1:b");
    assert_eq!(second["other_positions"][0]["reason"], "I stay.", "the next round includes the reason");
}

#[test]
fn a4_a_conflict_is_resolved_when_all_but_one_agree_and_the_resolution_names_the_position() {
    let played = play(&spec(&["a", "b"]), |ask| {
        two(ask).unwrap_or_else(|| match ask.id.0.as_str() {
            "discuss:1:C1:b" => Act::Answer(reply("Do not sign", 0.9, true, "You are right.")),
            _ => Act::Answer(stay(ask)),
        })
    });
    let decision = first(&played);
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
    let played = play(&spec, |ask| match ask.id.0.as_str() {
        "analyse:a" => Act::Answer(recommends("do not sign", 0.5)),
        "analyse:b" => Act::Answer(recommends("sign as is", 0.9)),
        "analyse:c" => Act::Answer(recommends("minor revisions", 0.3)),
        "discuss:1:C1:b" => Act::Answer(reply("sign as is", 0.4, false, "I am less sure.")),
        "discuss:1:C1:c" => Act::Answer(reply("do not sign", 0.3, false, "By myself.")),
        _ => Act::Answer(stay(ask)),
    });
    let decision = first(&played);
    assert_eq!(
        (decision.before.clone(), decided(decision)),
        (Some("sign as is".into()), "do not sign".to_owned())
    );
    assert_eq!(decision.how, ResolutionMethod::Voted);
    assert_eq!(decision.share, 0.666_667, "0.8 of 1.2");
    assert_eq!(decision.minority.len(), 1);
    assert_eq!((decision.minority[0].agent.as_str(), decision.minority[0].reason.as_str()), ("b", "I stay."));
    let changed: Vec<&str> = decision.changes.iter().map(|one| one.agent.as_str()).collect();
    assert_eq!(changed, ["c"], "b only lowered its confidence: not a change of position");
}

#[test]
fn a4_one_answer_settles_nothing() {
    let played = play(&spec(&["a", "b"]), |ask| {
        two(ask).unwrap_or_else(|| match ask.agent.as_str() {
            "b" => Act::Answer(reply("do not sign", 0.9, true, "You are right.")),
            _ => Act::Silence,
        })
    });
    assert_eq!(first(&played).how, ResolutionMethod::Voted, "a did not reply in the discussion");
    assert_eq!((decided(first(&played)), first(&played).share), ("do not sign".to_owned(), 1.0));
}

#[test]
fn a4_swapping_positions_is_not_an_agreement() {
    let played = play(&spec(&["a", "b"]), |ask| {
        two(ask).unwrap_or_else(|| {
            let payload: Value = serde_json::from_str(&ask.payload).expect("JSON");
            let other = payload["other_positions"][0]["position"].clone();
            Act::Answer(reply(other, 0.5, true, "You are right."))
        })
    });
    assert_eq!(
        first(&played).how,
        ResolutionMethod::Tied,
        "both agree twice, but never hold the same position"
    );
}

#[test]
fn a4_an_agreement_must_state_a_position_of_a_peer() {
    let played = play(&spec(&["a", "b"]), |ask| {
        two(ask).unwrap_or_else(|| match ask.id.0.as_str() {
            "discuss:1:C1:b" => Act::Answer(reply("sign as is", 0.9, true, "You are right.")),
            "discuss:1:C1:b:again" => Act::Answer(reply("do not sign", 0.9, true, "You are right.")),
            _ => Act::Answer(stay(ask)),
        })
    });
    let wrong =
        "agrees_with_peer: is true, but no peer holds `sign as is`: state the position that you agree with";
    assert_eq!(played.payload("discuss:1:C1:b:again")["wrong"], wrong);
    assert_eq!(first(&played).how, ResolutionMethod::Agreed { round: 1 });
}

#[test]
fn a4_numbers_are_agreed_on_within_the_allowed_spread() {
    let scored =
        |score: f64| json!({"summary": "s", "confidence": 0.5, "scores": {"overall_risk_score": score}});
    let act = |ask: &Ask, close: f64| match ask.id.0.as_str() {
        "analyse:a" => Act::Answer(scored(80.0)),
        "analyse:b" => Act::Answer(scored(20.0)),
        "discuss:1:C1:b" => Act::Answer(reply(close, 0.5, true, "Riskier than I thought.")),
        _ => Act::Answer(stay(ask)),
    };
    let near = play(&spec(&["a", "b"]), |ask| act(ask, 60.0));
    assert_eq!(
        (first(&near).how, decided(first(&near))),
        (ResolutionMethod::Agreed { round: 1 }, "70".to_owned())
    );
    let far = play(&spec(&["a", "b"]), |ask| act(ask, 50.0));
    assert_eq!((first(&far).how, decided(first(&far))), (ResolutionMethod::Merged, "65".to_owned()));
    assert_eq!(first(&far).resolution, "merged to 65, the median of 50 to 80 weighted by confidence");
}
