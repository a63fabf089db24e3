//! The agents of a playbook at work in a hub: each question that comes is put to the declared agent. The usage of an answer is in its
//! metadata. An agent that cannot answer says so as `{"error": "…"}`, so that the calls that it made are counted as well.

use std::sync::Arc;
use std::time::Duration;

use quorate::deliberation::{ANALYSE, DISCUSS, Spec, Usage};
use quorate::{Failure, Hub, Running, Work};
use quorate_agents::{Agent, Question};
use serde_json::{Value, json};

/// Questions that one agent works on at once.
const AT_ONCE: u32 = 4;

/// What agents that read instructions are told besides the question.
const TO_ANALYSE: &str = "\
You are one of several who look at the same thing, each alone. Read `input` and answer the question in `subject` from your field.
Hand in a finding: a summary in two sentences, and how sure you are (`confidence`, 0 to 1: how often you would be right).
Report as `issues` only what the text supports, with its words as `evidence`; say what to ask for as `advice`. Put values that
others may read differently (terms, amounts, dates) into `facts`. If `wrong` is there, your last answer had that fault: mend it.";
const TO_DISCUSS: &str = "\
Others contradict you in `conflict`. Compare `your_position` with `other_positions` and read `input` again. Take another position
if their reasons are better than yours, not because they are more; keep yours if the text supports it. `revised_position` is what
you hold now, `agrees_with_peer` is true only if a peer holds just that, `reasoning` names the words of the text that decide.
Answer `questions` to you in `clarification`. If `wrong` is there, your last answer had that fault: mend it.";

/// Starts those agents of a playbook who take part.
pub(super) async fn start(hub: &Hub, agents: Vec<Agent>, spec: &Spec) -> anyhow::Result<Vec<Running>> {
    let mut running = Vec::with_capacity(agents.len());
    for agent in agents {
        if spec.agents.iter().all(|member| member.id != agent.name) {
            continue;
        }
        let name = agent.name.clone();
        let agent = Arc::new(agent);
        let analyse = answering(Arc::clone(&agent), ANALYSE, Duration::from_millis(spec.limits.analysis_ms));
        let discuss = answering(agent, DISCUSS, Duration::from_millis(spec.limits.message_ms));
        let builder = hub.agent(name).on(ANALYSE, analyse).on(DISCUSS, discuss);
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
            let question = question(action, work.payload.clone(), within);
            match agent.answer(&question).await {
                Ok(reply) => {
                    work.about_answer("usage", spent(reply.usage));
                    if !reply.notes.is_empty() {
                        work.about_answer("notes", &reply.notes);
                    }
                    Ok(in_shape(action, reply.body))
                }
                Err(failure) => {
                    work.about_answer("usage", spent(*failure.usage));
                    let hint = Some(&failure.hint).filter(|hint| !hint.is_empty());
                    let hint = hint.map_or(String::new(), |hint| format!(" ({hint})"));
                    // The deliberation asks once more, with this reason.
                    Ok(json!({ "error": format!("{failure}{hint}") }))
                }
            }
        })
    }
}

/// What a deliberation asks, as a declared agent is asked it.
pub(crate) fn question(action: &str, mut payload: Value, within: Duration) -> Question {
    // The schema has a place of its own: models and programs shall not read it twice.
    let schema = payload.as_object_mut().and_then(|payload| payload.remove("answer"));
    let instructions = if action == DISCUSS { TO_DISCUSS } else { TO_ANALYSE };
    // A little less than is waited for: so the reason arrives, and not a silence.
    let within = within - within / 20;
    let instructions = instructions.to_owned();
    Question { schema, within, instructions, ..Question::new(action, payload) }
}

fn spent(usage: quorate_agents::Usage) -> Usage {
    Usage {
        calls: usage.calls.into(),
        tokens_in: usage.input_tokens,
        tokens_out: usage.output_tokens,
        money_micros: usage.money_micros,
    }
}

/// What an agent wrote as plain text is what it found, in its words.
fn in_shape(action: &str, body: Value) -> Value {
    match body.get("text").and_then(Value::as_str) {
        Some(text) if action == ANALYSE && body.get("summary").is_none() => json!({ "summary": text }),
        _ => body,
    }
}
