//! The agents of a playbook at work in a hub: each question that comes is put to the declared agent.

use std::sync::Arc;
use std::time::Duration;

use quorate::deliberation::Spec;
use quorate::{Failure, Hub, Running, Work};
use quorate_agents::{Agent, Question};
use serde_json::Value;

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
            // Whoever drives the deliberation asks once more if that makes sense.
            agent
                .answer(&question)
                .await
                .map(|reply| reply.body)
                .map_err(|failure| Failure::dead(failure.to_string()))
        })
    }
}
