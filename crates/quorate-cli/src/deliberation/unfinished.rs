//! Renders deliberations without an outcome: the progress of one that runs, is paused, stuck or cancelled, or the reason
//! of a failed one.

use quorate::ProcedureInfo;
use quorate::deliberation::{DeliberationState, FailedDeliberation, Phase, Spec};
use serde_json::{Value, json};

use crate::audit;
use crate::report::ReportFormat;
use crate::terminal::{self, sanitize_line};

/// Returns the fields that running and failed deliberations share.
fn base_document(info: &ProcedureInfo) -> Value {
    let procedure = info.procedure();
    json!({
        "id": procedure.id.as_str(),
        "status": procedure.status.as_str(),
        "phase": procedure.phase,
        "subject": info.spec::<Spec>().map(|spec| spec.subject).ok(),
        "startedAt": audit::format_time(procedure.started_at.0),
        "since": audit::format_time(procedure.since.0),
    })
}

/// Prints labelled lines; for Markdown and HTML as a Markdown list.
fn print(subject: &Value, lines: &[(&str, String)], format: ReportFormat) {
    let subject = sanitize_line(subject.as_str().unwrap_or("(question erased)"));
    terminal::print(if format == ReportFormat::Text { subject } else { format!("# {subject}\n") });
    for (name, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        let value = sanitize_line(value);
        match format {
            ReportFormat::Text => {
                for (index, line) in terminal::wrap(&value, 66).iter().enumerate() {
                    terminal::print(format!("{:<12}  {line}", if index == 0 { name } else { "" }));
                }
            }
            _ => terminal::print(format!("- {name}: {}", value.replace('<', "&lt;"))),
        }
    }
}

pub(super) fn print_unfinished(
    info: &ProcedureInfo,
    state: &DeliberationState,
    format: ReportFormat,
) -> anyhow::Result<()> {
    let round = match state.phase() {
        Phase::Discussion { round } => Some(round),
        Phase::New | Phase::Analysis | Phase::Finished | Phase::Failed => None,
    };
    let pending: Vec<(&str, &str)> =
        state.pending_asks().map(|(ask, agent)| (agent, ask.0.as_str())).collect();
    let reported: Vec<&str> = state.agents_with_findings().collect();
    let conflicts: Vec<&str> = state.conflict_topics().collect();
    let mut document = base_document(info);
    if format == ReportFormat::Json {
        let pending = pending.iter().map(|(agent, ask)| json!({ "agent": agent, "asked": ask }));
        document["round"] = json!(round);
        document["waitsFor"] = pending.collect();
        document["found"] = json!(reported);
        document["conflicts"] = json!(conflicts);
        terminal::print(terminal::sanitize_json(&document.to_string()));
        return Ok(());
    }
    let phase = match round {
        Some(round) => format!("discussion, round {round}"),
        None => state.phase().as_str().to_owned(),
    };
    let pending: Vec<String> = pending.iter().map(|(agent, ask)| format!("{agent} ({ask})")).collect();
    let since = document["since"].as_str().unwrap_or_default().to_owned();
    let procedure = info.procedure();
    let waiting = if procedure.status.has_ended() { String::new() } else { pending.join(", ") };
    let lines = [
        (procedure.status.as_str(), format!("{phase}, since {since}")),
        ("reason", procedure.reason.clone()),
        ("waiting for", waiting),
        ("findings", reported.join(", ")),
        ("conflicts", conflicts.join("; ")),
        ("id", info.procedure().id.to_string()),
    ];
    print(&document["subject"], &lines, format);
    Ok(())
}

pub(super) fn print_failed(
    info: &ProcedureInfo,
    failure: FailedDeliberation,
    format: ReportFormat,
) -> anyhow::Result<()> {
    let mut document = base_document(info);
    if format == ReportFormat::Json {
        if let (Value::Object(all), Value::Object(fields)) = (&mut document, serde_json::to_value(&failure)?)
        {
            all.extend(fields);
        }
        terminal::print(terminal::sanitize_json(&document.to_string()));
        return Ok(());
    }
    let mut lines = vec![("✗ failed", failure.reason)];
    for missing in &failure.record.missing {
        lines.push(("missing", format!("{}: {}", missing.agent, missing.reason())));
    }
    for (agent, finding) in &failure.record.findings {
        lines.push(("finding", format!("{agent}: {}", finding.summary)));
    }
    lines.push(("id", info.procedure().id.to_string()));
    print(&document["subject"], &lines, format);
    Ok(())
}
