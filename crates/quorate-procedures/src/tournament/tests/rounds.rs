//! Rounds, matches and failures.

use serde_json::{Value, json};

use super::{Play, by_number, ranked, spec};
use crate::machine::{Machine as _, RequestOutput};
use crate::scripted_run::Reply;
use crate::tournament::{TournamentMachine, TournamentSpec};

// Fails under: pairs that ignore ratings; a score of the wrong contestant after the change of places.
#[test]
fn c6_contestants_are_ranked_by_the_results_of_their_matches() {
    let play =
        Play::start(&spec(8, json!({ "limits": { "matches": 20, "stable_rounds": 0 } }))).finish(by_number);
    let ranked = ranked(&play);
    assert_eq!((ranked[0], ranked[7]), ("h7", "h0"));
    for (place, contestant) in ranked.iter().rev().enumerate() {
        // Neighbours that met rarely may be in the other order.
        let number: usize = contestant[1..].parse().expect("a number");
        assert!(number.abs_diff(place) <= 1, "{ranked:?}");
    }
    let best = &play.result()["ranking"][0];
    assert_eq!((best["rank"].clone(), best["losses"].clone()), (json!(1), json!(0)));
    assert!(best["elo"].as_f64() > Some(1200.0) && best["rating"].as_f64() > Some(1200.0), "{best}");
    let debates = play.entries.keys().filter(|key| key.starts_with("tournaments/p/debates/"));
    assert_eq!(Some(debates.count() as u64), play.result()["matches"].as_u64());
    assert_eq!(play.entries["tournaments/p/ranking"]["ranking"], play.result()["ranking"]);
}

// Fails under: a ballot whose places are not changed back; a judge that votes only once.
#[test]
fn c6_a_preference_for_the_first_place_is_a_tie() {
    let first = |_: &RequestOutput, _: &Value| {
        Reply::Answer(json!({ "winner": "a", "confidence": 0.8, "reasoning": "it is first" }))
    };
    let play = Play::start(&spec(2, json!({ "limits": { "matches": 1 } }))).finish(first);
    let debate = &play.entries["tournaments/p/debates/1"];
    assert_eq!((debate["result"].as_str(), debate["winner_id"].clone()), (Some("tie"), Value::Null));
    assert_eq!(debate["confidence_score"], json!(0.5));
    assert_eq!(play.result()["ranking"][0]["ties"], json!(1));
    assert_eq!(play.result()["ranking"][0]["rating"], json!(1200.0));
    assert_eq!(play.result()["ranking"][1]["rank"], json!(1), "the intervals overlap");
    assert_eq!(play.result()["ranking"][0]["provisional"], json!(true));
}

// Fails under: a record without winner, loser, transcript or confidence.
#[test]
fn c6_the_record_of_a_match_has_winner_loser_transcript_and_confidence() {
    let extra = json!({
        "criteria": [{ "name": "novelty" }],
        "debate": { "debaters": ["dan", "eve"], "turns": 2 },
        "limits": { "matches": 1 },
    });
    let mut seen = Vec::new();
    let play = Play::start(&spec(2, extra)).finish(|request, payload| {
        if request.action == "argue" {
            seen.push((request.agent.clone(), payload["own"]["n"].as_u64(), payload["debate"].clone()));
            return Reply::Answer(json!({ "argument": format!("argument {}", seen.len()) }));
        }
        let greater = if payload["a"]["n"].as_u64() > payload["b"]["n"].as_u64() { "a" } else { "b" };
        let (high, low) = (json!({ "a": 9, "b": 2 }), json!({ "a": 2, "b": 9 }));
        let scores = json!({ "novelty": if greater == "a" { high } else { low } });
        assert_eq!(payload["debate"].as_array().map(Vec::len), Some(4));
        Reply::Answer(json!({ "winner": greater, "confidence": 0.7, "reasoning": "…", "scores": scores }))
    });
    let (agents, sides): (Vec<_>, Vec<_>) =
        seen.iter().map(|(agent, own, _)| (agent.as_str(), own.expect("a number"))).unzip();
    assert_eq!(agents, ["eve", "dan", "eve", "dan"], "each contestant has a debater");
    assert_eq!((sides[0] == sides[2], sides[0] == sides[1]), (true, false));
    assert_eq!(seen[1].2, json!([{ "for": "other", "text": "argument 1" }]));
    let debate = &play.entries["tournaments/p/debates/1"];
    assert_eq!(debate["debate_id"], json!("p:match-1"));
    assert_eq!((debate["winner_id"].clone(), debate["loser_id"].clone()), (json!("h1"), json!("h0")));
    assert_eq!(debate["confidence_score"], json!(0.7));
    let transcript = debate["debate_transcript"].as_array().expect("a list");
    assert_eq!(transcript.len(), 4);
    assert_eq!(transcript[3]["text"], json!("argument 4"));
    let sides = &debate["ballots"][0]["cast"]["scores"]["novelty"];
    assert_eq!(sides, &debate["ballots"][1]["cast"]["scores"]["novelty"], "the places were changed back");
}

// Fails under: a third winner that counts; a judge that is not asked again with the reason; endless attempts.
#[test]
fn c6_a_judge_that_names_a_third_winner_is_asked_again_and_then_replaced() {
    let mut asked = Vec::new();
    let play = Play::start(&spec(2, json!({ "limits": { "matches": 1 } }))).finish(|request, payload| {
        asked.push((request.agent.clone(), payload["wrong"].as_str().map(ToOwned::to_owned)));
        if request.agent == "ben" {
            return Reply::Answer(json!({ "winner": "c", "confidence": 1, "reasoning": "" }));
        }
        by_number(request, payload)
    });
    let wrong = asked.iter().find_map(|(_, wrong)| wrong.clone()).expect("asked again");
    assert!(wrong.starts_with("winner: ") && wrong.contains('c'), "{wrong}");
    assert_eq!(play.result()["matches"], json!(1));
    assert_eq!(play.entries["tournaments/p/debates/1"]["ballots"][0]["cast"]["judge"], json!("ann"));
}

// Fails under: a tournament that waits for judges that always fail; a failed one that looks like a result.
#[test]
fn c6_a_tournament_whose_judges_all_fail_fails_with_the_reason() {
    let play = Play::start(&spec(3, json!({ "limits": { "matches": 2 } })))
        .finish(|_, _| Reply::Fail("it is offline"));
    assert_eq!(play.result()["matches"], json!(0));
    assert!(play.result()["reason"].as_str().is_some_and(|reason| reason.contains("no judge")));
    assert_eq!(play.entries["tournaments/p/debates/1"]["ballots"][0], json!({ "failed": "it is offline" }));
}

// Fails under: a round that continues although nothing changes; an end while ranks are provisional.
#[test]
fn c6_a_tournament_ends_when_the_order_is_stable() {
    let limits = json!({ "limits": { "matches": 100, "provisional_below": 3, "stable_rounds": 2 } });
    let play = Play::start(&spec(4, limits)).finish(by_number);
    assert_eq!(play.result()["ended_early"], json!(true));
    let rounds = play.result()["rounds"].as_u64().expect("a number");
    assert!((3..40).contains(&rounds), "{rounds} rounds");
    let ranking = play.result()["ranking"].as_array().expect("a list").clone();
    assert!(ranking.iter().all(|standing| standing["provisional"] == json!(false)));
}

// Fails under: more open matches than allowed.
#[test]
fn c6_at_most_the_allowed_number_of_matches_is_open() {
    let play = Play::start(&spec(20, json!({ "limits": { "parallel": 3 } })));
    assert_eq!(play.pending.len(), 6, "two ballots for each of three matches");
}

// Fails under: pending requests that differ after a restart; a result that depends on the point of the restart.
#[test]
fn c6_a_tournament_that_is_resumed_at_any_point_has_the_same_result() {
    let extra = json!({ "debate": { "debaters": ["dan"], "turns": 1 }, "limits": { "matches": 3 } });
    let spec = spec(5, extra);
    let mut judge = |request: &RequestOutput, payload: &Value| match request.action.as_str() {
        "argue" => Reply::Answer(json!({ "argument": "because" })),
        _ => by_number(request, payload),
    };
    let expected = Play::start(&spec).finish(&mut judge);
    let resumed = Play::start(&spec).finish_with_restarts(&mut judge);
    assert_eq!(resumed.result(), expected.result());
}

// Fails under: a limit that is not checked; an error that names another path.
#[test]
fn c6_an_invalid_specification_is_an_error_with_its_path() {
    let error = |spec: Value| {
        TournamentMachine::parse(spec.to_string().as_bytes()).map(|_| ()).expect_err("invalid").to_string()
    };
    assert_eq!(error(spec(1, json!({}))), "contestants: expected 2 to 200, found 1");
    assert_eq!(error(spec(201, json!({}))), "contestants: expected 2 to 200, found 201");
    assert_eq!(error(spec(2, json!({ "judges": [] }))), "judges: expected 1 to 64, found 0");
    assert!(error(spec(2, json!({ "judges": ["ann", ""] }))).starts_with("judges[1]: "));
    assert_eq!(error(spec(2, json!({ "subject": " " }))), "subject: must not be empty");
    assert!(error(spec(2, json!({ "limits": { "matchs": 2 } }))).starts_with("limits.matchs: "));
    let twice = json!([{ "id": "x", "content": 1 }, { "id": "x", "content": 2 }]);
    assert_eq!(error(spec(2, json!({ "contestants": twice }))), "contestants[1].id: \"x\" occurs twice");
    let debate = json!({ "debate": { "debaters": ["d"], "turns": 11 } });
    assert_eq!(error(spec(2, debate)), "debate.turns: expected 1 to 10, found 11");
    assert!(TournamentSpec::parse(spec(2, json!({})).to_string().as_bytes()).is_ok());
}
