//! Renders the hub's explanation of the state of a message, task or approval.

use quorate_api::why::NextTransition;
use serde::Deserialize as _;
use serde_json::Value;

use crate::output::{Details, OutputArgs, field, format_time, parse_response, to_text};

/// Prints an explanation.
pub(crate) fn show(response: &str, output: &OutputArgs) -> anyhow::Result<()> {
    output.item(response, || Ok(details(&parse_response(response)?)))
}

fn details(explanation: &Value) -> Details {
    let parts = explanation["parts"].as_array().map_or(&[][..], Vec::as_slice);
    // A message consists of deliveries, a task waits for other tasks.
    let are_deliveries = parts.iter().all(|part| field(part, "id").starts_with("dlv_"));
    let label = if are_deliveries { "deliveries" } else { "dependencies" };
    let parts = parts
        .iter()
        .map(|part| format!("{} {}: {}", field(part, "id"), field(part, "whose"), field(part, "sentence")));
    Details::default()
        .add("id", field(explanation, "id"))
        .add("state", field(explanation, "state"))
        .add("since", format_time(&explanation["since"]))
        .add("waiting for", waits_for(&explanation["waitsFor"]))
        .add("next", next(explanation))
        .add("at", format_time(&explanation["nextAt"]))
        .add("summary", field(explanation, "sentence"))
        .add(label, parts.collect::<Vec<_>>().join("\n"))
}

/// Describes the condition that a resource waits for.
fn waits_for(condition: &Value) -> String {
    let text = |name: &str| to_text(&condition[name]);
    match condition["kind"].as_str().unwrap_or_default() {
        "claim" => format!("{} to claim it", text("agent")),
        "ack" => format!("{} to ack it", text("agent")),
        "return" => format!("{} to come online", text("agent")),
        "resume" => "its session to be resumed".to_owned(),
        "answers" => format!("replies from {}", text("agents")),
        "redrive" => "a redrive of the dead letter".to_owned(),
        "tasks" => format!("the completion of {}", text("tasks")),
        "approval" => format!("the decision on {}", text("approval")),
        "step" => format!("the next step of {}", text("agent")),
        "time" => "time to pass".to_owned(),
        kind => kind.to_owned(),
    }
}

/// Describes the next automatic transition.
fn next(explanation: &Value) -> String {
    let text = match NextTransition::deserialize(&explanation["next"]) {
        Ok(NextTransition::Available) => "becomes available",
        Ok(NextTransition::Redelivered) => "is redelivered",
        Ok(NextTransition::DeadLetter) => "is dead-lettered",
        Ok(NextTransition::Abandoned) => "fails",
        _ => return field(explanation, "next"),
    };
    text.to_owned()
}
