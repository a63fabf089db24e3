//! `quorate audit` against a running hub.

use serde_json::{Value, json};

use super::erase::EraseArgs;
use super::{AuditVerb, LogArgs, LogFormat, proof};
use crate::exit::{CommandError, VERIFICATION_FAILED};
use crate::hub::{DryRunArgs, Hub, HubArgs, JsonFields, Method, until_interrupted};
use crate::output::{OutputArgs, field, format_time, truncated};
use crate::terminal;

/// Characters of a hash that are printed.
const HASH_SHOWN: usize = 17;
/// Characters of a record's effects that are printed.
const EFFECTS_MAX: usize = 100;

pub(super) async fn run(hub: HubArgs, verb: AuditVerb) -> anyhow::Result<()> {
    let hub = match &verb {
        AuditVerb::Erase(args) => hub.open_with_output(&args.output)?,
        _ => hub.open()?,
    };
    match verb {
        AuditVerb::Verify(args) => verify(&hub, &args.output).await,
        AuditVerb::Log(args) => {
            let rendering = rendering(&args);
            lines(&hub, args.from, Some(args.limit), args.format, rendering).await
        }
        AuditVerb::Export { from } => lines(&hub, from, None, LogFormat::Jsonl, Rendering::Lines).await,
        AuditVerb::Checkpoint => {
            terminal::print(terminal::sanitize_json(&hub.get("/v1/audit/checkpoint", &[]).await?));
            Ok(())
        }
        AuditVerb::Proof(args) => {
            let head = hub.get_json("/v1/audit/checkpoint", &[]).await?;
            let last = args.last(head["seq"].as_u64().unwrap_or(0))?;
            lines(&hub, args.seq, Some(last - args.seq + 1), LogFormat::Jsonl, Rendering::Lines).await?;
            proof::print_note(args.seq, last);
            Ok(())
        }
        AuditVerb::Erase(args) => erase(&hub, args).await,
    }
}

/// Verifies the whole log, in as many calls as needed.
async fn verify(hub: &Hub, output: &OutputArgs) -> anyhow::Result<()> {
    let (mut from, mut records) = (None, 0);
    let report = loop {
        let mut report = hub.get_json("/v1/audit/verify", &[("from", from.take())]).await?;
        records += report["spaces"][0]["records"].as_u64().unwrap_or(0);
        match report["next"].as_u64() {
            Some(next) if report["ok"] == true => from = Some(next.to_string()),
            _ => {
                report["spaces"][0]["records"] = records.into();
                report["spaces"][0]["from"] = 1.into();
                break report;
            }
        }
    };
    let (space, defect) = (&report["spaces"][0], &report["firstBad"]);
    let is_intact = report["ok"] == true;
    if output.is_json() {
        terminal::print(terminal::sanitize_json(&report.to_string()));
    } else {
        let (mark, name, hash) =
            (if is_intact { '✓' } else { '✗' }, field(space, "space"), field(space, "hash"));
        let head = truncated(&hash, HASH_SHOWN);
        terminal::print(terminal::sanitize_line(&format!(
            "{mark} {name}: {records} records   head {head}   record {}",
            space["seq"]
        )));
        terminal::note("to verify payloads and tables too, stop the hub and run: quorate verify --data DIR");
    }
    if is_intact {
        return Ok(());
    }
    let message = format!("the log is damaged: {} at record {}", field(defect, "damage"), defect["seq"]);
    let hint = "stop the hub, keep its data directory, and run `quorate verify --data DIR`";
    Err(CommandError::new(VERIFICATION_FAILED, message, hint).into())
}

/// Output format of records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rendering {
    /// One line of text per record.
    Table,
    /// Lines exactly as the hub sends them.
    Lines,
    /// All records in one JSON document.
    Document,
}

fn rendering(args: &LogArgs) -> Rendering {
    if args.is_document() {
        return Rendering::Document;
    }
    match args.format {
        LogFormat::Table if !args.jsonl => Rendering::Table,
        _ => Rendering::Lines,
    }
}

/// Prints lines of the log until the limit is reached or the reader closes the pipe.
async fn lines(
    hub: &Hub,
    from: u64,
    limit: Option<u64>,
    format: LogFormat,
    rendering: Rendering,
) -> anyhow::Result<()> {
    let query = [
        ("format", Some(format.rendered_by_hub().unwrap_or("jsonl").to_owned())),
        ("from", Some(from.to_string())),
        ("limit", limit.map(|limit| limit.to_string())),
    ];
    let mut lines = hub.lines("/v1/audit", &query).await?;
    // The limit counts records; in a format that the hub renders, a record may have several lines, and the hub applies the limit.
    let mut remaining = limit.filter(|_| format.rendered_by_hub().is_none());
    let mut documents = Vec::new();
    while remaining != Some(0) {
        let Some(line) = until_interrupted(async { Ok(lines.next().await?) }).await? else { break };
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.trim().is_empty() {
            continue;
        }
        let rendered = match (rendering, format) {
            (Rendering::Table, _) => record_line(&serde_json::from_str(&line)?),
            (Rendering::Document, LogFormat::Text) => terminal::sanitize_json(&Value::from(line).to_string()),
            (_, LogFormat::Text) => terminal::sanitize_line(&line),
            _ => terminal::sanitize_json(&line),
        };
        if rendering == Rendering::Document {
            documents.push(rendered);
        } else if !terminal::print_streaming(rendered)? {
            break;
        }
        remaining = remaining.map(|remaining| remaining - 1);
    }
    if rendering == Rendering::Document {
        terminal::print(format!("{{\"records\":[{}]}}", documents.join(",")));
    }
    Ok(())
}

/// Renders a record on one line: sequence number, time, principal, kind and effects.
pub(super) fn record_line(record: &Value) -> String {
    let effects = record["effects"].as_array().map_or(&[][..], Vec::as_slice);
    let effects = effects.iter().map(|effect| field(effect, "effect")).collect::<Vec<_>>().join(", ");
    let columns =
        [field(record, "seq"), format_time(&record["at"]), field(record, "principal"), field(record, "kind")];
    terminal::sanitize_line(&format!("{}  {}", columns.join("  "), truncated(&effects, EFFECTS_MAX)))
}

/// Erases a payload through the hub, which requires the permission to set policies.
async fn erase(hub: &Hub, args: EraseArgs) -> anyhow::Result<()> {
    let EraseArgs { seq, part, dry_run, output } = args;
    let op = json!({"op": "payload.erase", "seq": seq, "part": part});
    let body = JsonFields::default().set("ops", [op])?;
    let response =
        hub.write(DryRunArgs::new(dry_run), (Method::Post, "/v1/commit"), Some(body.to_json())).await?;
    let Some(response) = response else { return Ok(()) };
    let outcome: Value = serde_json::from_str(&response)?;
    let payload = format!("part {part} of record {seq}");
    output.done(
        &response,
        &match outcome["seq"].as_u64() {
            Some(record) => format!("erased {payload}, noted in record {record}; the chain still verifies"),
            None => format!("{payload}: already erased"),
        },
    );
    Ok(())
}
