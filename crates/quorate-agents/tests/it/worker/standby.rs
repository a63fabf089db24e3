//! Two workers with one agent: one runs it, the other stands by.

use std::sync::Arc;

use quorate::{Failure, Work};
use quorate_agents::worker::{StandbyReason, Worker, WorkerConfig, WorkerError, WorkerEvent};
use serde_json::{Value, json};

use super::{TestHub, events, within};

const ECHO: &str = "print('{\"ok\": true}')";

fn standby_reason(event: &WorkerEvent) -> Option<StandbyReason> {
    match event {
        WorkerEvent::StandingBy { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}

// Fails under: a second worker that takes the agent; one that does not take over when the first has ended.
#[tokio::test(flavor = "multi_thread")]
async fn c2_a_second_worker_stands_by_and_takes_over() {
    let test = TestHub::new().await;
    let agent = || test.python("ada", ECHO, &["review"]);
    let (first, mut first_events) = test.worker([agent()]).await;
    first_events.connected("ada").await;
    let epoch = test.hub.agent_info("ada").await.unwrap().epoch;
    let (second, mut second_events) = test.worker([agent()]).await;
    assert_eq!(second_events.find(standby_reason).await, StandbyReason::SameDeclaration);
    assert_eq!(test.hub.agent_info("ada").await.unwrap().epoch, epoch, "the first one still runs it");
    first.stop().await;
    second_events.connected("ada").await;
    let answer = test.client.ask("ada", "anything", json!({})).await.unwrap();
    assert_eq!(answer.payload::<Value>().unwrap(), json!({ "ok": true }));
    second.stop().await;
}

// Fails under: a worker that starts some of its agents before it finds out that another cannot be started.
#[tokio::test(flavor = "multi_thread")]
async fn c2_an_agent_with_another_declaration_is_an_error() {
    let test = TestHub::new().await;
    let (worker, mut first_events) = test.worker([test.python("ada", ECHO, &[])]).await;
    first_events.connected("ada").await;
    let agents = [test.python("ben", ECHO, &[]), test.python("ada", "print(2)", &[])];
    let agents = agents.into_iter().map(Arc::new).collect();
    let (sink, _) = events();
    let config = WorkerConfig { agents, letters: None };
    let error = Worker::start(&test.hub, config, sink).await.err().unwrap();
    let WorkerError::OtherDeclaration { agent, theirs, ours } = &error else { panic!("{error}") };
    let registered = test.hub.agent_info("ada").await.unwrap().declaration;
    assert_eq!((agent.as_str(), *theirs), ("ada", registered));
    let text = error.to_string();
    for expected in ["ada", &theirs.unwrap().short(), &ours.short(), "another declaration"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(error.hint().contains("rename"), "{}", error.hint());
    assert!(test.hub.agent_info("ben").await.is_err(), "ben was not registered");
    worker.stop().await;
}

// Fails under: a worker that fights for an agent that a program registered, or that never runs it again.
#[tokio::test(flavor = "multi_thread")]
async fn c2_a_worker_that_loses_its_agent_stands_by() {
    let test = TestHub::new().await;
    let (worker, mut events) = test.worker([test.python("ada", ECHO, &[])]).await;
    events.connected("ada").await;
    let answer = |_: Work<Value>| async { Ok::<_, Failure>(json!({ "ok": "mine" })) };
    let program = test.hub.agent("ada").on("anything", answer).run().await.unwrap();
    assert_eq!(events.find(standby_reason).await, StandbyReason::RegisteredElsewhere);
    let reason = events.find(standby_reason).await;
    assert!(matches!(reason, StandbyReason::OtherDeclaration { theirs: None, .. }), "{reason:?}");
    let ask =
        async || test.client.ask("ada", "anything", json!({})).await.unwrap().payload::<Value>().unwrap();
    assert_eq!(ask().await, json!({ "ok": "mine" }));
    within(program.stop()).await.unwrap();
    events.connected("ada").await;
    assert_eq!(ask().await, json!({ "ok": true }));
    worker.stop().await;
}
