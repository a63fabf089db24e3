//! Pipelines with scripted agents, without a hub.

mod failures;
mod handoffs;
mod phases;

use serde_json::{Value, json};

use super::PipelineMachine;
use crate::machine::RequestOutput;
use crate::scripted_run::{Reply, ScriptedRun};

type Run = ScriptedRun<PipelineMachine>;

/// A plan, subtasks that are worked on in parallel, and a review.
fn delivery() -> Value {
    json!({
        "objective": "Limit the retries",
        "input": { "request": "The fetcher must stop after three attempts." },
        "phases": [
            { "name": "plan", "agents": ["planner"], "hands_over": ["risks"] },
            { "name": "split", "agents": ["splitter"], "requires": ["plan"] },
            {
                "name": "build",
                "agents": ["w1", "w2"],
                "requires": ["split"],
                "each": { "phase": "split", "field": "subtasks" },
                "hands_over": ["files"],
            },
            { "name": "review", "agents": ["reviewer"], "requires": ["plan", "build"] },
        ],
    })
}

/// Agents that do their phases well.
fn good(request: &RequestOutput, payload: &Value) -> Reply {
    Reply::Answer(match request.action.as_str() {
        "plan" => json!({
            "summary": "Count attempts in the fetcher.",
            "key_findings": ["the loop is in fetch.py"],
            "next_action": "Split the plan into subtasks.",
            "risks": ["timeouts"],
            "reasoning": "I read everything twice.",
        }),
        "split" => json!({
            "summary": "Two subtasks.",
            "next_action": "Write the files.",
            "subtasks": [
                { "id": "t1", "title": "count" },
                { "id": "t2", "title": "test", "requires": ["t1"] },
            ],
        }),
        "build" => {
            let id = payload["item"]["id"].as_str().expect("an id");
            json!({
                "summary": format!("{id} is written."),
                "next_action": "Review the files.",
                "files": [format!("{id}.py")],
            })
        }
        "review" => json!({ "summary": "All tests pass." }),
        other => panic!("unexpected action {other}"),
    })
}

fn payload(request: &RequestOutput) -> Value {
    serde_json::from_str(&request.payload).expect("JSON")
}
