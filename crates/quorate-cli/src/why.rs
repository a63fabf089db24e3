//! Renders the hub's explanation of the state of a message, task or approval.

use serde_json::Value;

use crate::output::{Details, OutputArgs, field, format_time, parse_response, to_text};

/// Prints an explanation.
pub(crate) fn show(answer: &str, shape: &OutputArgs) -> anyhow::Result<()> {
    shape.item(answer, || Ok(facts(&parse_response(answer)?)))
}

fn facts(why: &Value) -> Details {
    let parts = why["parts"].as_array().map_or(&[][..], Vec::as_slice);
    let parts = parts
        .iter()
        .map(|part| format!("{} {}: {}", field(part, "id"), field(part, "whose"), field(part, "sentence")));
    Details::default()
        .add("id", field(why, "id"))
        .add("state", field(why, "state"))
        .add("since", format_time(&why["since"]))
        .add("waiting for", waits_for(&why["waitsFor"]))
        .add("next", field(why, "next"))
        .add("at", format_time(&why["nextAt"]))
        .add("summary", field(why, "sentence"))
        .add("parts", parts.collect::<Vec<_>>().join("\n"))
}

fn waits_for(what: &Value) -> String {
    let named = ["agent", "agents", "tasks", "approval"].iter().map(|name| to_text(&what[*name]));
    let named = named.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
    format!("{} {named}", field(what, "kind")).trim().to_owned()
}
