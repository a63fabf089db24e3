//! Work of an agent on tasks: its answer is the result, a failure is a failed attempt, and what a program reports before its
//! answer is a partial result.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use quorate::{AgentBuilder, Failure, TaskWork};
use quorate_core::limits::REASON_CHARS_MAX;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::event::{EventSink, WorkItem, WorkKind, WorkReport};
use crate::agent::DeclaredAgent;
use crate::limits::CALL_TIMEOUT;
use crate::prompts;
use crate::question::{AgentFailure, AgentQuestion, AgentReply, FailureKind};

/// Adds a handler for each type of tasks that the agent works on.
pub(super) fn handle(
    mut builder: AgentBuilder,
    agent: &Arc<DeclaredAgent>,
    events: &EventSink,
) -> AgentBuilder {
    for task_type in &agent.tasks {
        let (agent, events) = (Arc::clone(agent), Arc::clone(events));
        builder = builder.on_task(task_type, move |work: TaskWork<Value>| {
            let (agent, events) = (Arc::clone(&agent), Arc::clone(&events));
            async move { work_on(&agent, &work, &events).await }
        });
    }
    builder
}

async fn work_on(
    agent: &DeclaredAgent,
    work: &TaskWork<Value>,
    events: &EventSink,
) -> Result<Value, Failure> {
    let task = work.task();
    let item = WorkItem {
        kind: WorkKind::Task,
        id: work.id().to_string(),
        action: task.task_type.clone(),
        attempt: task.attempt,
    };
    let report = WorkReport::start(&agent.name, item, events);
    // The limit includes the time that the task waited for another one of this agent, which is short.
    let timeout = task.timeout_ms.map_or(CALL_TIMEOUT, Duration::from_millis);
    let question = prompts::question(&task.task_type, work.input.clone(), timeout);
    let question = AgentQuestion { context: context(work), ..question };
    match answer(agent, &question, work).await {
        Ok(reply) => {
            set_metadata(work, &reply.body);
            report.done();
            Ok(reply.body)
        }
        Err(failure) => {
            let (reason, retryable) = (super::failure_reason(&failure), is_worth_a_retry(&failure));
            report.failed(reason.clone(), retryable);
            Err(if retryable { Failure::retry(reason) } else { Failure::permanent(reason) })
        }
    }
}

/// Whether another attempt may succeed. A program that crashes, or a model that does not answer in the schema, may do better; the
/// task says how often that is tried.
fn is_worth_a_retry(failure: &AgentFailure) -> bool {
    failure.retryable() || matches!(failure.kind, FailureKind::Exited | FailureKind::SchemaMismatch)
}

/// Asks the agent. Its partial results are stored while it works; if they come faster, only the newest.
async fn answer(
    agent: &DeclaredAgent,
    question: &AgentQuestion,
    work: &TaskWork<Value>,
) -> Result<AgentReply, AgentFailure> {
    let (sender, mut newest) = watch::channel(Value::Null);
    let on_partial = |partial| drop(sender.send_replace(partial));
    let result = tokio::select! {
        result = agent.answer_in_parts(question, &on_partial) => result,
        never = store_partials(work, &mut newest) => match never {},
    };
    // The next attempt can continue from the last partial result.
    if result.is_err() && newest.has_changed().unwrap_or(false) {
        store_newest(work, &mut newest).await;
    }
    result
}

async fn store_partials(work: &TaskWork<Value>, newest: &mut watch::Receiver<Value>) -> Infallible {
    while newest.changed().await.is_ok() {
        store_newest(work, newest).await;
    }
    std::future::pending().await
}

async fn store_newest(work: &TaskWork<Value>, newest: &mut watch::Receiver<Value>) {
    let partial = newest.borrow_and_update().clone();
    // If the task is lost, its lease is not extended either, which ends the work. Other errors lose only this partial result.
    if let Err(error) = work.progress(partial).await {
        let (agent, task, code) = (work.agent().id(), work.id(), error.code().as_str());
        tracing::warn!(%agent, %task, code, "storing a partial result failed");
    }
}

/// Returns what earlier attempts left and the results of dependencies, for the agent; `None` if there is nothing.
fn context(work: &TaskWork<Value>) -> Option<Value> {
    let context = work.context();
    let mut fields = Map::new();
    if !context.partials.is_empty() {
        fields.insert("partials".into(), json!(context.partials));
    }
    if let Some(reason) = work.task().reason.as_ref().filter(|_| work.task().attempt > 1) {
        fields.insert("last_failure".into(), json!(reason));
    }
    if !context.dependencies.is_empty() {
        let results = context.dependencies.iter();
        let results = results.map(|dependency| (dependency.task.to_string(), json!(dependency.result)));
        fields.insert("dependencies".into(), Value::Object(results.collect()));
    }
    if context.truncated {
        fields.insert("truncated".into(), json!(true));
    }
    (!fields.is_empty()).then_some(Value::Object(fields))
}

/// Passes confidence and rationale of the answer on to the completion of the task.
fn set_metadata(work: &TaskWork<Value>, answer: &Value) {
    let confidence = answer.get("confidence").and_then(Value::as_f64);
    if let Some(confidence) = confidence.filter(|confidence| (0.0..=1.0).contains(confidence)) {
        work.set_confidence(confidence);
    }
    if let Some(rationale) = answer.get("rationale").and_then(Value::as_str) {
        work.set_rationale(rationale.chars().take(REASON_CHARS_MAX).collect::<String>());
    }
}
