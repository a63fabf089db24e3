//! Failures: retry, fallback, missing context, error handler.

use serde_json::{Value, json};

use super::{Run, delivery, good};
use crate::machine::RequestOutput;
use crate::scripted_run::Reply;

// Fails under: no retry; a fallback that is asked first or not at all.
#[test]
fn b8_an_agent_that_does_not_answer_is_asked_once_more_and_then_replaced() {
    let mut spec = delivery();
    spec["phases"][0]["fallback"] = json!("deputy");
    let run = Run::start(&spec).finish(|request, payload| match request.agent.as_str() {
        "planner" => Reply::Fail("no answer within 30 s"),
        _ => good(request, payload),
    });
    let asked: Vec<_> = run.sent.iter().take(3).map(|request| request.agent.as_str()).collect();
    assert_eq!(asked, ["planner", "planner", "deputy"]);
    assert!(run.has_succeeded());
    assert_eq!(run.result()["phases"][0]["jobs"][0]["agent"], json!("deputy"));
}

// Fails under: missing context that is not asked from the previous agent, or whose answer is not passed on.
#[test]
fn b8_missing_context_is_asked_from_the_previous_agent() {
    let agent = |clarification: Reply| {
        let mut clarification = Some(clarification);
        move |request: &RequestOutput, payload: &Value| match (
            request.action.as_str(),
            &payload["clarification"],
        ) {
            ("split", Value::Null) => Reply::Answer(json!({ "missing_context": "Which file has the loop?" })),
            ("clarify", _) => {
                assert_eq!(
                    (request.agent.as_str(), payload["question"].as_str()),
                    ("planner", Some("Which file has the loop?"))
                );
                clarification.take().expect("asked once")
            }
            _ => good(request, payload),
        }
    };
    let clarified = |run: &Run| {
        let split = run.sent.iter().filter(|request| request.action == "split").nth(1).expect("asked again");
        super::payload(split)["clarification"].as_str().expect("a text").to_owned()
    };
    let run = Run::start(&delivery()).finish(agent(Reply::Answer(json!({ "text": "fetch.py" }))));
    assert_eq!((clarified(&run).as_str(), run.has_succeeded()), ("fetch.py", true));
    // Without an answer the context is rebuilt from the state.
    let run = Run::start(&delivery()).finish(agent(Reply::Fail("it is offline")));
    assert!(clarified(&run).contains("Count attempts in the fetcher."), "{}", clarified(&run));
    assert!(run.has_succeeded());
}

// Fails under: a failure that no handler sees; a decision that is ignored; work that goes on after a failure.
#[test]
fn b8_a_failed_phase_reaches_the_error_handler() {
    let mut spec = delivery();
    spec["error_handler"] = json!("handler");
    let run = |decision: &'static str| {
        Run::start(&spec).finish(move |request, payload| match request.action.as_str() {
            "handle-error" => {
                assert_eq!(payload["reason"], json!("w1: out of memory"));
                Reply::Answer(json!({ "decision": decision, "summary": "I looked at it." }))
            }
            "build" if request.agent == "w1" => Reply::Answer(json!({ "error": "out of memory" })),
            _ => good(request, payload),
        })
    };
    let skipped = run("skip");
    assert!(skipped.has_succeeded());
    assert_eq!(skipped.result()["phases"][2]["jobs"][0]["status"], json!("skipped"));
    assert_eq!(
        skipped.entries["pipelines/p/state"]["sharedContext"]["blockers"].as_array().map(Vec::len),
        Some(1)
    );
    for decision in ["abort", "retry"] {
        let failed = run(decision);
        assert!(!failed.has_succeeded());
        assert_eq!(failed.result()["reason"], json!("phase build: w1: out of memory"));
        assert!(!failed.sent.iter().any(|request| request.action == "review"), "{decision}");
    }
}

// Fails under: a list that is missing, too long, or circular, and that looks like a result.
#[test]
fn b8_items_that_cannot_be_worked_on_are_a_failure_with_its_reason() {
    let reason = |subtasks: Value| {
        let run = Run::start(&delivery()).finish(|request, payload| match request.action.as_str() {
            "split" => {
                Reply::Answer(json!({ "summary": "Split.", "next_action": "Write.", "subtasks": subtasks }))
            }
            _ => good(request, payload),
        });
        assert!(!run.has_succeeded());
        run.result()["reason"].as_str().expect("a text").to_owned()
    };
    assert_eq!(reason(json!("none")), "phase build: split.subtasks is not a list");
    let many = json!((0..1_001).map(|n| json!({ "id": n.to_string() })).collect::<Vec<_>>());
    assert_eq!(reason(many), "phase build: split.subtasks has 1001 items, at most 1000 are possible");
    let circular = json!([{ "id": "a", "requires": ["b"] }, { "id": "b", "requires": ["a"] }]);
    assert!(reason(circular).starts_with("phase build: items wait for item "));
    // No item is no work.
    let run = Run::start(&delivery()).finish(|request, payload| match request.action.as_str() {
        "split" => Reply::Answer(json!({ "summary": "None.", "next_action": "Review.", "subtasks": [] })),
        _ => good(request, payload),
    });
    assert!(run.has_succeeded());
}
