//! Renders the hub's explanation of the state of a message, task or approval.

use quorate_api::why::NextTransition;
use serde::Deserialize as _;
use serde_json::Value;

use crate::output::{Details, OutputArgs, field, format_time, parse_response, to_text};

/// Prints an explanation.
pub(crate) fn show(answer: &str, shape: &OutputArgs) -> anyhow::Result<()> {
    shape.item(answer, || Ok(facts(&parse_response(answer)?)))
}

fn facts(why: &Value) -> Details {
    let parts = why["parts"].as_array().map_or(&[][..], Vec::as_slice);
    // A message consists of deliveries, a task waits for other tasks.
    let are_deliveries = parts.iter().all(|part| field(part, "id").starts_with("dlv_"));
    let label = if are_deliveries { "deliveries" } else { "dependencies" };
    let parts = parts
        .iter()
        .map(|part| format!("{} {}: {}", field(part, "id"), field(part, "whose"), field(part, "sentence")));
    Details::default()
        .add("id", field(why, "id"))
        .add("state", field(why, "state"))
        .add("since", format_time(&why["since"]))
        .add("waiting for", waits_for(&why["waitsFor"]))
        .add("next", next(why))
        .add("at", format_time(&why["nextAt"]))
        .add("summary", field(why, "sentence"))
        .add(label, parts.collect::<Vec<_>>().join("\n"))
}

/// Describes the condition that a resource waits for.
fn waits_for(what: &Value) -> String {
    let named = |name: &str| to_text(&what[name]);
    match what["kind"].as_str().unwrap_or_default() {
        "claim" => format!("{} to claim it", named("agent")),
        "ack" => format!("{} to ack it", named("agent")),
        "return" => format!("{} to come online", named("agent")),
        "resume" => "its session to be resumed".to_owned(),
        "answers" => format!("replies from {}", named("agents")),
        "redrive" => "a redrive of the dead letter".to_owned(),
        "tasks" => format!("the completion of {}", named("tasks")),
        "approval" => format!("the decision on {}", named("approval")),
        "step" => format!("the next step of {}", named("agent")),
        "time" => "time to pass".to_owned(),
        kind => kind.to_owned(),
    }
}

/// Describes the next automatic transition.
fn next(why: &Value) -> String {
    let text = match NextTransition::deserialize(&why["next"]) {
        Ok(NextTransition::Available) => "becomes available",
        Ok(NextTransition::Redelivered) => "is redelivered",
        Ok(NextTransition::DeadLetter) => "is dead-lettered",
        Ok(NextTransition::Abandoned) => "fails",
        _ => return field(why, "next"),
    };
    text.to_owned()
}
