//! Renders deliberations without an outcome: the progress of a running one, or the reason of a failed one.

use quorate::ProcedureInfo;
use quorate::deliberation::{Failure, Phase, Spec, State};
use serde_json::{Value, json};

use crate::audit;
use crate::report::Format;
use crate::text::{self, clean_line};

/// Returns the fields that running and failed deliberations share.
fn head(info: &ProcedureInfo) -> Value {
    let head = info.procedure();
    json!({
        "id": head.id.as_str(),
        "status": head.status.as_str(),
        "phase": head.phase,
        "subject": info.spec::<Spec>().map(|spec| spec.subject).ok(),
        "startedAt": audit::time(head.started_at.0),
        "since": audit::time(head.since.0),
    })
}

/// Prints labelled lines; for Markdown and HTML as a Markdown list.
fn print(subject: &Value, lines: &[(&str, String)], format: Format) {
    let subject = clean_line(subject.as_str().unwrap_or("(question erased)"));
    text::print(if format == Format::Text { subject } else { format!("# {subject}\n") });
    for (name, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        let value = clean_line(value);
        match format {
            Format::Text => {
                for (at, line) in text::wrap(&value, 66).iter().enumerate() {
                    text::print(format!("{:<12}  {line}", if at == 0 { name } else { "" }));
                }
            }
            _ => text::print(format!("- {name}: {}", value.replace('<', "&lt;"))),
        }
    }
}

pub(super) fn running(info: &ProcedureInfo, state: &State, format: Format) -> anyhow::Result<()> {
    let round = match state.phase() {
        Phase::Discussion { round } => Some(round),
        Phase::New | Phase::Analysis | Phase::Finished | Phase::Failed => None,
    };
    let pending: Vec<(&str, &str)> = state.waits_for().map(|(ask, agent)| (agent, ask.0.as_str())).collect();
    let found: Vec<&str> = state.found().collect();
    let conflicts: Vec<&str> = state.conflicts().collect();
    let mut document = head(info);
    if format == Format::Json {
        let pending = pending.iter().map(|(agent, ask)| json!({ "agent": agent, "asked": ask }));
        document["round"] = json!(round);
        document["waitsFor"] = pending.collect();
        document["found"] = json!(found);
        document["conflicts"] = json!(conflicts);
        text::print(text::clean_json(&document.to_string()));
        return Ok(());
    }
    let phase = match round {
        Some(round) => format!("discussion, round {round}"),
        None => state.phase().as_str().to_owned(),
    };
    let pending: Vec<String> = pending.iter().map(|(agent, ask)| format!("{agent} ({ask})")).collect();
    let since = document["since"].as_str().unwrap_or_default().to_owned();
    let lines = [
        ("running", format!("{phase}, since {since}")),
        ("waiting for", pending.join(", ")),
        ("findings", found.join(", ")),
        ("conflicts", conflicts.join("; ")),
        ("id", info.procedure().id.to_string()),
    ];
    print(&document["subject"], &lines, format);
    Ok(())
}

pub(super) fn failed(info: &ProcedureInfo, failure: Failure, format: Format) -> anyhow::Result<()> {
    let mut document = head(info);
    if format == Format::Json {
        if let (Value::Object(all), Value::Object(more)) = (&mut document, serde_json::to_value(&failure)?) {
            all.extend(more);
        }
        text::print(text::clean_json(&document.to_string()));
        return Ok(());
    }
    let mut lines = vec![("✗ failed", failure.reason)];
    for missing in &failure.gathered.missing {
        lines.push(("missing", format!("{}: {}", missing.agent, missing.why.join("; then: "))));
    }
    for (agent, finding) in &failure.gathered.findings {
        lines.push(("finding", format!("{agent}: {}", finding.summary)));
    }
    lines.push(("id", info.procedure().id.to_string()));
    print(&document["subject"], &lines, format);
    Ok(())
}
