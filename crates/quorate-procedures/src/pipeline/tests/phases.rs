//! Order of phases and items, context of each request, results, restarts, and specifications.

use serde_json::{Value, json};

use super::{Run, delivery, good, payload};
use crate::machine::{Machine as _, RequestKind};
use crate::pipeline::{PipelineMachine, Protocol, Scenario};

// Fails under: phases that do not wait for what they require; items in the wrong order; an output that is not stored.
#[test]
fn b1_phases_run_in_the_order_of_their_requirements() {
    let run = Run::start(&delivery()).finish(good);
    assert!(run.has_succeeded());
    let order: Vec<_> =
        run.sent.iter().map(|request| (request.action.as_str(), request.agent.as_str())).collect();
    assert_eq!(
        order,
        [
            ("plan", "planner"),
            ("split", "splitter"),
            ("build", "w1"),
            ("build", "w2"),
            ("review", "reviewer")
        ]
    );
    assert_eq!(run.entries["pipelines/p/plan"]["reasoning"], json!("I read everything twice."));
    assert_eq!(run.entries["pipelines/p/build/1"]["files"], json!(["t2.py"]));
    let phases = run.result()["phases"].as_array().expect("a list");
    assert_eq!(phases[2]["jobs"][1]["item"], json!("t2"));
    assert!(
        phases.iter().flat_map(|phase| phase["jobs"].as_array()).flatten().all(|job| job["status"] == "done")
    );
}

// Fails under: a handoff without summary, findings, next action, references or snapshot; reasoning that is transferred.
#[test]
fn b1_a_handoff_has_what_the_next_agent_needs() {
    let run = Run::start(&delivery()).finish(good);
    let split = payload(&run.sent[1]);
    assert_eq!(split["summary"], json!("Count attempts in the fetcher."));
    assert_eq!(split["key_findings"], json!(["the loop is in fetch.py"]));
    assert_eq!(split["next_action"], json!("Split the plan into subtasks."));
    assert_eq!(split["output_ref"], json!("pipelines/p/plan"));
    assert_eq!(split["requires"], json!(["plan"]));
    assert_eq!(split["fields"], json!({ "plan": { "risks": ["timeouts"] } }));
    assert!(split["tokens_used"].as_u64() > Some(20), "{split}");
    assert!(!run.sent[1].payload.contains("I read everything twice"), "{split}");
    assert!(split.get("input").is_none(), "only the first phase gets the input");
    assert_eq!(run.sent[1].kind, RequestKind::Command);
    let metadata: Value =
        serde_json::from_str(run.sent[1].metadata.as_deref().expect("metadata")).expect("JSON");
    assert_eq!(metadata["state_snapshot"], json!("pipelines/p/state"));
    assert!(metadata["tokensTransferred"].as_u64() > Some(0), "{metadata}");
    let review = payload(&run.sent[4]);
    assert_eq!(review["fields"]["build"]["files"], json!(["t1.py", "t2.py"]));
    assert_eq!(review["output_refs"].as_array().map(Vec::len), Some(3));
}

// Fails under: a shared state that misses an agent, or names another phase.
#[test]
fn b4_the_shared_state_has_the_shape_of_the_dialect() {
    let run = Run::start(&delivery()).finish(good);
    let state = &run.entries["pipelines/p/state"];
    assert_eq!((state["taskId"].as_str(), state["currentPhase"].as_u64()), (Some("p"), Some(4)));
    assert_eq!(state["sharedContext"]["objective"], json!("Limit the retries"));
    assert_eq!(state["sharedContext"]["artifacts"].as_array().map(Vec::len), Some(5));
    assert_eq!(state["agentStates"]["w2"]["status"], json!("completed"));
}

// Fails under: another protocol for a scenario of the table.
#[test]
fn b6_the_protocol_of_each_scenario_is_that_of_the_table() {
    let table = [
        (Scenario::SequentialPhases, Protocol::Handoff),
        (Scenario::ParallelAgents, Protocol::Broadcast),
        (Scenario::MissingInformation, Protocol::Query),
        (Scenario::PreferenceChange, Protocol::Broadcast),
        (Scenario::AgentError, Protocol::Handoff),
    ];
    for (scenario, protocol) in table {
        assert_eq!(scenario.protocol(), protocol, "{scenario:?}");
    }
    // The pipeline itself broadcasts the common context to parallel agents.
    let run = Run::start(&delivery()).finish(good);
    let [message] = run.messages.as_slice() else { panic!("{:?}", run.messages) };
    assert_eq!(message.action, "context_update");
    let content: Value = serde_json::from_slice(&message.payload).expect("JSON");
    assert_eq!(content["context"]["summary"], json!("Two subtasks."));
}

// Fails under: pending requests that differ after a restart; a result that depends on the point of the restart.
#[test]
fn c2_a_pipeline_that_is_resumed_at_any_point_has_the_same_result() {
    let expected = Run::start(&delivery()).finish(good);
    let resumed = Run::start(&delivery()).finish_with_restarts(good);
    assert_eq!((resumed.result(), &resumed.entries), (expected.result(), &expected.entries));
}

// Fails under: more open requests than allowed; items that wait for nothing and are not started.
#[test]
fn b7_at_most_the_allowed_number_of_requests_is_open() {
    let mut spec = delivery();
    spec["limits"] = json!({ "parallel": 2 });
    let mut run = Run::start(&spec);
    let mut agent = |request: &_, payload: &Value| match payload["phase"].as_str() {
        Some("split") => {
            let items: Vec<_> = (0..7).map(|n| json!({ "id": format!("t{n}") })).collect();
            crate::scripted_run::Reply::Answer(
                json!({ "summary": "Seven.", "next_action": "Write.", "subtasks": items }),
            )
        }
        _ => good(request, payload),
    };
    while run.result.is_none() {
        assert!(run.pending.len() <= 2, "{:?}", run.pending.keys());
        run.answer_next(&mut agent);
    }
    assert_eq!(run.sent.iter().filter(|request| request.action == "build").count(), 7);
}

// Fails under: a requirement that is not checked; an error that names another path.
#[test]
fn b7_an_invalid_specification_is_an_error_with_its_path() {
    let error = |change: &dyn Fn(&mut Value)| {
        let mut spec = delivery();
        change(&mut spec);
        PipelineMachine::parse(spec.to_string().as_bytes()).map(|_| ()).expect_err("invalid").to_string()
    };
    assert_eq!(error(&|spec| spec["objective"] = json!("")), "objective: must not be empty");
    assert_eq!(error(&|spec| spec["phases"] = json!([])), "phases: expected 1 to 64, found 0");
    assert_eq!(
        error(&|spec| spec["phases"][1]["requires"] = json!(["plans"])),
        "phases[1].requires[0]: there is no phase \"plans\""
    );
    assert!(
        error(&|spec| drop(spec["phases"][1].as_object_mut().expect("an object").remove("requires")))
            .starts_with("phases[1].requires: missing (explicit dependencies)")
    );
    assert_eq!(
        error(&|spec| spec["phases"][0]["requires"] = json!(["review"])),
        "phases[0].requires: circular: plan, split, build, review"
    );
    assert_eq!(
        error(&|spec| spec["phases"][1]["name"] = json!("plan")),
        "phases[1].name: \"plan\" occurs twice"
    );
    assert_eq!(
        error(&|spec| spec["phases"][2]["each"]["phase"] = json!("plan")),
        "phases[2].each.phase: \"plan\" must be one of the required phases"
    );
    assert_eq!(
        error(&|spec| spec["limits"] = json!({ "handoff_tokens": 10 })),
        "limits.handoff_tokens: expected 100 to 32000, found 10"
    );
}
