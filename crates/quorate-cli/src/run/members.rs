//! The agents of a playbook at work in a hub: each question that comes is put to the declared agent.

use std::sync::Arc;
use std::time::Duration;

use quorate::deliberation::Spec;
use quorate::{Failure, Hub, Running, Work};
use quorate_agents::{Agent, Question};
use serde_json::{Value, json};

/// Questions that one agent works on at once.
const AT_ONCE: u32 = 4;

pub(super) async fn start(hub: &Hub, agents: Vec<Agent>, spec: &Spec) -> anyhow::Result<Vec<Running>> {
    let mut running = Vec::with_capacity(agents.len());
    for agent in agents {
        let name = agent.name.clone();
        let agent = Arc::new(agent);
        let (analysis, message) = (spec.limits.analysis_ms, spec.limits.message_ms);
        let analyse = answering(Arc::clone(&agent), "analyse", Duration::from_millis(analysis));
        let discuss = answering(agent, "discuss", Duration::from_millis(message));
        let builder = hub.agent(name).on("analyse", analyse).on("discuss", discuss);
        running.push(builder.at_once(AT_ONCE).run().await?);
    }
    Ok(running)
}

type Answered = std::pin::Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>>;

fn answering(
    agent: Arc<Agent>,
    action: &'static str,
    within: Duration,
) -> impl Fn(Work<Value>) -> Answered + Send + Sync + 'static {
    move |work| {
        let agent = Arc::clone(&agent);
        Box::pin(async move {
            let schema = work.payload.get("answer").cloned();
            let question = Question { schema, within, ..Question::new(action, work.payload.clone()) };
            match agent.answer(&question).await {
                Ok(reply) => Ok(in_shape(action, reply.body)),
                // Whoever drives the deliberation asks once more, with this, if that makes sense.
                Err(failure) if failure.hint.is_empty() => Err(Failure::dead(failure.to_string())),
                Err(failure) => Err(Failure::dead(format!("{failure} ({})", failure.hint))),
            }
        })
    }
}

/// What an agent wrote as plain text is what it found, in its words.
fn in_shape(action: &str, body: Value) -> Value {
    match body.get("text").and_then(Value::as_str) {
        Some(text) if action == "analyse" && body.get("summary").is_none() => json!({ "summary": text }),
        _ => body,
    }
}
