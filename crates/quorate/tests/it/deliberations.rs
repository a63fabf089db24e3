//! Deliberations in an embedded hub: the driver, agents with handlers, and outcomes.

use std::time::Duration;

use quorate::deliberation::{Member, Spec};
use quorate::{Failure, Hub, ProcedureDraft, ProcedureInfo, RunningAgent, Work};
use serde_json::{Value, json};

/// Upper bound of every wait in these tests.
const SOON: Duration = Duration::from_secs(30);

fn spec(agents: &[&str]) -> Spec {
    let members = agents.iter().map(|id| Member { id: (*id).to_owned(), provider: None }).collect();
    Spec::new("Shall we?", json!({"text": "what to look at"}), members)
}

/// Runs an agent that recommends this and never changes its position.
async fn run_steadfast_agent(hub: &Hub, name: &'static str, recommendation: &'static str) -> RunningAgent {
    let analyse = move |_: Work<Value>| async move {
        let summary = format!("{name} looked.");
        Ok::<_, Failure>(json!({"summary": summary, "confidence": 0.7, "recommendation": recommendation}))
    };
    let discuss = move |work: Work<Value>| async move {
        let position = &work.payload["your_position"]["position"];
        Ok::<_, Failure>(
            json!({"revised_position": position, "agrees_with_peer": false, "reasoning": "I am sure."}),
        )
    };
    hub.agent(name).on("analyse", analyse).on("discuss", discuss).concurrency(8).run().await.expect("it runs")
}

async fn wait_until_ended(hub: &Hub, id: &str) -> ProcedureInfo {
    let waiting = async {
        loop {
            let procedure = hub.procedure(id).await.expect("it is there");
            if procedure.procedure().status.has_ended() {
                return procedure;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.expect("in time")
}

async fn open() -> (tempfile::TempDir, Hub) {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = Hub::open(directory.path().join("hub")).await.expect("it opens");
    (directory, hub)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_findings_and_the_discussion_are_published() {
    let (_directory, hub) = open().await;
    let _agents =
        (run_steadfast_agent(&hub, "ada", "yes").await, run_steadfast_agent(&hub, "ben", "no").await);
    let watcher = hub.agent("watcher").join().await.expect("it joins");
    watcher.subscribe("deliberation.>").await.expect("it subscribes");
    let driver = hub.drive_procedures().await.expect("it drives");
    let id =
        hub.start_procedure(ProcedureDraft::deliberation(&spec(&["ada", "ben"]))).await.expect("started");
    let ended = wait_until_ended(&hub, id.as_str()).await;
    let outcome: Value = ended.result().expect("JSON").expect("a result");
    assert_eq!(outcome["decisions"][0]["how"], "tied");
    let mut message_types = Vec::new();
    while let Some(received) = watcher.receive(Duration::ZERO).await.expect("it receives") {
        assert_eq!(received.message().correlation_id.as_deref(), Some(id.as_str()));
        let message: Value = received.payload().expect("JSON");
        message_types.push(message["messageType"].as_str().expect("a word").to_owned());
        watcher.step(&received).commit().await.expect("acked");
    }
    assert_eq!(&message_types[..2], ["finding", "finding"]);
    assert_eq!(message_types.len(), outcome["messages"].as_array().expect("a list").len());
    driver.stop().await;
    hub.close().await;
}

// Fails under: waiting for an agent that does not exist; one rejected request that ends the whole deliberation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_an_unknown_agent_is_missing_immediately() {
    let (_directory, hub) = open().await;
    let _agents =
        (run_steadfast_agent(&hub, "ada", "yes").await, run_steadfast_agent(&hub, "ben", "yes").await);
    let _driver = hub.drive_procedures().await.expect("it drives");
    let spec = spec(&["ada", "ben", "unknown"]);
    let id = hub.start_procedure(ProcedureDraft::deliberation(&spec)).await.expect("started");
    let outcome: Value = wait_until_ended(&hub, id.as_str()).await.result().expect("JSON").expect("a result");
    assert_eq!(outcome["missing"][0]["agent"], "unknown");
    assert_eq!(outcome["synthesis"]["recommendation"], "yes");
}

// Fails under: a deliberation that runs forever after a rejected step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_step_fails_the_deliberation_with_its_reason() {
    let (_directory, hub) = open().await;
    let _ada = run_steadfast_agent(&hub, "ada", "yes").await;
    let _driver = hub.drive_procedures().await.expect("it drives");
    // As large as a payload can be, which leaves no space for the rest of a request.
    let spec = Spec { input: json!({"text": "a".repeat(523_500)}), ..spec(&["ada"]) };
    let id = hub.start_procedure(ProcedureDraft::deliberation(&spec)).await.expect("started");
    let ended = wait_until_ended(&hub, id.as_str()).await;
    let result: Value = ended.result().expect("JSON").expect("a result");
    assert_eq!(ended.procedure().status, quorate::ProcedureStatus::Failed);
    assert!(result["reason"].as_str().is_some_and(|reason| reason.contains("TOO_LARGE")), "{result}");
    let invalid = ProcedureDraft::new("deliberation", json!({"subject": 1})).driver("deliberations");
    let refused = hub.start_procedure(invalid).await.expect_err("an invalid specification");
    assert!(refused.to_string().contains("spec.subject: "), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_concurrent_deliberations_all_end() {
    let (_directory, hub) = open().await;
    let _agents = (
        run_steadfast_agent(&hub, "ada", "yes").await,
        run_steadfast_agent(&hub, "ben", "no").await,
        run_steadfast_agent(&hub, "cleo", "yes").await,
    );
    let _driver = hub.drive_procedures().await.expect("it drives");
    let mut ids = Vec::new();
    for _ in 0..20 {
        let draft = ProcedureDraft::deliberation(&spec(&["ada", "ben", "cleo"]));
        ids.push(hub.start_procedure(draft).await.expect("started"));
    }
    for id in ids {
        let outcome: Value =
            wait_until_ended(&hub, id.as_str()).await.result().expect("JSON").expect("a result");
        assert_eq!(outcome["synthesis"]["recommendation"], "yes");
    }
}
