//! Tournaments with scripted judges, without a hub.

mod quality;
mod rounds;

use serde_json::{Value, json};

use super::TournamentMachine;
use crate::machine::RequestOutput;
use crate::scripted_run::{Reply, ScriptedRun};

type Play = ScriptedRun<TournamentMachine>;

fn spec(contestants: usize, extra: Value) -> Value {
    let contestant =
        |n: usize| json!({ "id": format!("h{n}"), "content": { "text": format!("idea {n}"), "n": n } });
    let mut spec = json!({
        "subject": "Which idea is better?",
        "contestants": (0..contestants).map(contestant).collect::<Vec<_>>(),
        "judges": ["ann", "ben"],
    });
    for (key, value) in extra.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    spec
}

/// Ids of the contestants, the best one first.
fn ranked(play: &Play) -> Vec<&str> {
    let ranking = play.result()["ranking"].as_array().expect("a list");
    ranking.iter().map(|standing| standing["contestant"].as_str().expect("a text")).collect()
}

/// A judge that prefers the contestant with the greater number.
fn by_number(_: &RequestOutput, payload: &Value) -> Reply {
    let number = |side: &str| payload[side]["n"].as_u64();
    let winner = if number("a") > number("b") { "a" } else { "b" };
    Reply::Answer(json!({ "winner": winner, "confidence": 0.9, "reasoning": "greater" }))
}
