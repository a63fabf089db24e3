//! Runs the agents of a playbook in a hub: each incoming question is passed to the declared agent. The usage of an answer is in
//! its metadata. A failure is answered with `{"error": "…"}`, so that the calls made so far are accounted for as well.

use std::sync::Arc;
use std::time::Duration;

use quorate::deliberation::{ANALYSE, DISCUSS, ReportedUsage, Spec};
use quorate::{Failure, Hub, RunningAgent, Work};
use quorate_agents::{AgentQuestion, DeclaredAgent};
use serde_json::{Value, json};

/// Maximum number of concurrent questions per agent.
const CONCURRENCY: u32 = 4;

/// Instructions for LLM agents, in addition to the question.
const TO_ANALYSE: &str = "\
You are one of several analysts who examine the same input independently. Read `input` and answer the question in `subject` from the
perspective of your field. Answer with one finding: `summary` is your conclusion in two sentences, `confidence` the probability, from 0
to 1, that it is right. List in `issues` only problems that the text supports: quote the text in `evidence`, and state in `advice` what
to do about it. Put values that other analysts may read differently (numbers, dates, names) into `facts`. If the request contains `wrong`,
your previous answer was rejected for that reason: correct it.";
const TO_DISCUSS: &str = "\
Other analysts disagree with you about `conflict`. Compare `your_position` with `other_positions` and read `input` again. Change your
position if their reasons are better than yours, but not because more analysts hold theirs; keep it if the text supports it.
`revised_position` is your position now. Set `agrees_with_peer` to true only if another analyst holds exactly that position. Quote in
`reasoning` the words of the text that decide the question. Answer the `questions` to you in `clarification`. If the request contains
`wrong`, your previous answer was rejected for that reason: correct it.";

/// Starts the agents of a playbook that take part.
pub(super) async fn start(
    hub: &Hub,
    agents: Vec<DeclaredAgent>,
    spec: &Spec,
) -> anyhow::Result<Vec<RunningAgent>> {
    let mut running = Vec::with_capacity(agents.len());
    for agent in agents {
        if spec.agents.iter().all(|member| member.id != agent.name) {
            continue;
        }
        let name = agent.name.clone();
        let agent = Arc::new(agent);
        let analyse =
            answer_handler(Arc::clone(&agent), ANALYSE, Duration::from_millis(spec.limits.analysis_ms));
        let discuss = answer_handler(agent, DISCUSS, Duration::from_millis(spec.limits.message_ms));
        let builder = hub.agent(name).on(ANALYSE, analyse).on(DISCUSS, discuss);
        running.push(builder.concurrency(CONCURRENCY).run().await?);
    }
    Ok(running)
}

type AnswerFuture = std::pin::Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>>;

fn answer_handler(
    agent: Arc<DeclaredAgent>,
    action: &'static str,
    timeout: Duration,
) -> impl Fn(Work<Value>) -> AnswerFuture + Send + Sync + 'static {
    move |work| {
        let agent = Arc::clone(&agent);
        Box::pin(async move {
            let question = question(action, work.payload.clone(), timeout);
            match agent.answer(&question).await {
                Ok(reply) => {
                    work.answer_metadata("usage", to_usage(reply.usage));
                    if !reply.notes.is_empty() {
                        work.answer_metadata("notes", &reply.notes);
                    }
                    Ok(to_finding(action, reply.body))
                }
                Err(failure) => {
                    work.answer_metadata("usage", to_usage(*failure.usage));
                    let hint = Some(&failure.hint).filter(|hint| !hint.is_empty());
                    let hint = hint.map_or(String::new(), |hint| format!(" ({hint})"));
                    // The deliberation asks again, with this reason.
                    Ok(json!({ "error": format!("{failure}{hint}") }))
                }
            }
        })
    }
}

/// Converts a question of a deliberation to one for a declared agent.
pub(crate) fn question(action: &str, mut payload: Value, timeout: Duration) -> AgentQuestion {
    // The schema is passed separately, so that models and programs do not get it twice.
    let schema = payload.as_object_mut().and_then(|payload| payload.remove("answer"));
    let instructions = if action == DISCUSS { TO_DISCUSS } else { TO_ANALYSE };
    // Slightly less than the timeout of the deliberation, so that the failure is reported before it expires.
    let timeout = timeout - timeout / 20;
    let instructions = instructions.to_owned();
    AgentQuestion { schema, timeout, instructions, ..AgentQuestion::new(action, payload) }
}

fn to_usage(usage: quorate_agents::Usage) -> ReportedUsage {
    ReportedUsage {
        calls: usage.calls.into(),
        tokens_in: usage.input_tokens,
        tokens_out: usage.output_tokens,
        money_micros: usage.money_micros,
    }
}

/// Converts a plain-text answer to a finding with only a summary.
fn to_finding(action: &str, body: Value) -> Value {
    match body.get("text").and_then(Value::as_str) {
        Some(text) if action == ANALYSE && body.get("summary").is_none() => json!({ "summary": text }),
        _ => body,
    }
}
