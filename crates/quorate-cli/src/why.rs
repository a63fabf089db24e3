//! Renders the hub's explanation of the state of a message, task or approval.

use serde_json::Value;

use crate::shape::{Facts, Shape, field, plain, read, time};

/// Prints an explanation.
pub(crate) fn show(answer: &str, shape: &Shape) -> anyhow::Result<()> {
    shape.one(answer, || Ok(facts(&read(answer)?)))
}

fn facts(why: &Value) -> Facts {
    let parts = why["parts"].as_array().map_or(&[][..], Vec::as_slice);
    let parts = parts
        .iter()
        .map(|part| format!("{} {}: {}", field(part, "id"), field(part, "whose"), field(part, "sentence")));
    Facts::default()
        .add("id", field(why, "id"))
        .add("state", field(why, "state"))
        .add("since", time(&why["since"]))
        .add("waiting for", waits_for(&why["waitsFor"]))
        .add("next", field(why, "next"))
        .add("at", time(&why["nextAt"]))
        .add("summary", field(why, "sentence"))
        .add("parts", parts.collect::<Vec<_>>().join("\n"))
}

fn waits_for(what: &Value) -> String {
    let named = ["agent", "agents", "tasks", "approval"].iter().map(|name| plain(&what[*name]));
    let named = named.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
    format!("{} {named}", field(what, "kind")).trim().to_owned()
}
