//! Fixture: a deliberation with deterministic agents, so that every run has the same result.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use quorate::deliberation::{Member, Spec};
use quorate::{
    Clock, Entropy, Failure, Hub, ProcedureDraft, ProcedureStatus, RunningAgent, SystemClock, Work,
};
use quorate_core::SpaceName;
use quorate_engine::Engine;
use quorate_sim::fault_store::{FaultRule, FaultStore};
use quorate_sqlite::{OpenError, Options, SqliteStore};
use serde_json::{Value, json};

/// Upper bound on a run. It only prevents a hanging test.
const WAIT_MAX: Duration = Duration::from_secs(60);
const AGENTS: [(&str, f64, &str, f64); 3] = [
    ("ada", 80.0, "do not sign", 0.9),
    ("ben", 30.0, "minor revisions", 0.6),
    ("cleo", 40.0, "minor revisions", 0.7),
];

/// Agents of the deliberation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AgentSet {
    /// Three agents that answer.
    Three,
    /// The same, but ben sends an invalid answer until the error is returned to him.
    OneRetry,
    /// The same, with emil, who only sends invalid answers, and dora, who is not registered.
    TwoMissing,
}

pub(crate) fn spec(agent_set: AgentSet) -> Spec {
    let mut names = AGENTS.map(|(id, ..)| id).to_vec();
    if agent_set == AgentSet::TwoMissing {
        names.extend(["dora", "emil"]);
    }
    let members = names.into_iter().map(|id| Member { id: id.to_owned(), provider: None }).collect();
    Spec::contract("Shall we sign?", json!({"text": "a contract"}), members)
}

/// Returns the fixed answer of an agent. Only ben changes his position, to that of the most confident peer.
fn answer(agent_set: AgentSet, name: &str, action: &str, question: &Value) -> Value {
    if name == "emil" || name == "ben" && agent_set == AgentSet::OneRetry && question["wrong"].is_null() {
        return json!("what?");
    }
    let (_, score, recommendation, confidence) =
        AGENTS.into_iter().find(|agent| agent.0 == name).expect("agent of the fixture");
    if action == "analyse" {
        return json!({
            "summary": format!("{name} has read it."),
            "confidence": confidence,
            "scores": {"overall_risk_score": score},
            "recommendation": recommendation,
        });
    }
    let own = question["your_position"]["position"].clone();
    let most_confident = question["other_positions"].as_array().expect("a list").iter().max_by(|a, b| {
        let confidence = |position: &Value| position["confidence"].as_f64().unwrap_or(0.0);
        confidence(a).total_cmp(&confidence(b))
    });
    let convinced = name == "ben";
    let position = if convinced { most_confident.expect("a peer")["position"].clone() } else { own };
    json!({
        "revised_position": position,
        "confidence": confidence,
        "agrees_with_peer": convinced,
        "reasoning": format!("{name} thought again."),
    })
}

async fn agents(hub: &Hub, agent_set: AgentSet) -> Result<Vec<RunningAgent>, quorate::Error> {
    let mut running = Vec::new();
    let emil = (agent_set == AgentSet::TwoMissing).then_some("emil");
    for name in AGENTS.map(|(name, ..)| name).into_iter().chain(emil) {
        let handler = move |action: &'static str| {
            move |work: Work<Value>| async move {
                Ok::<_, Failure>(answer(agent_set, name, action, &work.payload))
            }
        };
        let agent = hub.agent(name).on("analyse", handler("analyse")).on("discuss", handler("discuss"));
        running.push(agent.concurrency(8).run().await?);
    }
    Ok(running)
}

/// Returns the client ids of all messages that the driver sent, sorted.
async fn sent(hub: &Hub) -> Vec<String> {
    let space = hub.space().expect("embedded hub");
    let mut names = Vec::new();
    for id in hub.outbox("deliberations", None, 1000).await.expect("an outbox").messages {
        let message = space.message(id).await.expect("message exists").message;
        names.extend(message.client_id.as_ref().map(ToString::to_string));
    }
    names.sort();
    names
}

/// Runs the deliberation until it ends or the hub fails. Returns the result and the client ids of all messages, which
/// show that no message was repeated or omitted.
pub(crate) async fn run_deliberation(
    hub: Hub,
    agent_set: AgentSet,
    spec: &Spec,
) -> Option<(Value, Vec<String>)> {
    let work = async {
        let _agents = agents(&hub, agent_set).await.ok()?;
        let driver = hub.drive_procedures().await.ok()?;
        hub.start_procedure(ProcedureDraft::deliberation(spec).id("p")).await.ok()?;
        let mut published = hub.space().expect("embedded hub").follow();
        loop {
            published.borrow_and_update();
            let procedure = hub.procedure("p").await.ok()?;
            match procedure.procedure().status {
                ProcedureStatus::Running => published.changed().await.ok()?,
                ProcedureStatus::Done => {
                    driver.stop().await;
                    // A read may briefly be ahead of the published state.
                    let seq = procedure.procedure().seq;
                    published.wait_for(|published| published.head.seq >= seq).await.ok()?;
                    let sent = sent(&hub).await;
                    return Some((procedure.result::<Value>().ok()??, sent));
                }
                status => panic!("{status:?} {:?}", procedure.result::<Value>()),
            }
        }
    };
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(WAIT_MAX, work) => outcome.expect("run ends before the timeout"),
        _ = hub.space().expect("embedded hub").engine().failure() => None,
    };
    hub.close().await;
    outcome
}

/// Opens a hub with fault injection.
pub(crate) async fn hub_with_faults(data: &Path, rule: FaultRule) -> Hub {
    hub_with_read_faults(data, SystemClock::new(), rule, Arc::default()).await
}

/// Opens a hub with fault injection, also for reads of the log, on this clock.
pub(crate) async fn hub_with_read_faults(
    data: &Path,
    clock: Arc<dyn Clock>,
    rule: FaultRule,
    log_failures: Arc<AtomicU32>,
) -> Hub {
    let options = quorate_engine::Options::default();
    let engine = Engine::start_with(options, clock, Entropy::system(), |context| {
        let store = SqliteStore::open(data, Options::default(), context)?;
        Ok::<_, OpenError>(FaultStore::with_log_failures(store, rule, log_failures) as Arc<_>)
    });
    let engine = engine.expect("engine starts");
    let space = engine.space(SpaceName::new("default").expect("a name")).await.expect("a space");
    Hub::from_backend(Arc::new(space))
}

/// Removes the fields that differ between runs: timestamps and durations.
pub(crate) fn without_times(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, _| !["timestamp", "actual"].contains(&name.as_str()));
            fields.values_mut().for_each(|field| *field = without_times(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_times(item.take())),
        _ => {}
    }
    value
}
