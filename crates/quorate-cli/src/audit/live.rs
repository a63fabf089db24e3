//! The log of a hub that runs.

use serde_json::{Value, json};

use super::AuditVerb;
use super::erase::EraseArgs;
use crate::exit::{Ended, NOT_VERIFIED};
use crate::hub::{DryRun, Fields, Hub, HubArgs, Method, unless_interrupted};
use crate::shape::{Facts, Shape, field, plain, shortened, time};
use crate::text;

/// How much of what a record did is shown.
const EFFECTS_MAX: usize = 100;

pub(super) async fn run(hub: HubArgs, shape: Shape, verb: AuditVerb) -> anyhow::Result<()> {
    let hub = hub.open()?;
    match verb {
        AuditVerb::Verify => verify(&hub, &shape).await,
        AuditVerb::Log(span) => lines(&hub, span.from, Some(span.limit), !shape.is_json()).await,
        AuditVerb::Export { from } => lines(&hub, from, None, false).await,
        AuditVerb::Checkpoint => {
            text::print(text::clean_json(&hub.get("/v1/audit/checkpoint", &[]).await?));
            Ok(())
        }
        AuditVerb::Erase(args) => erase(&hub, &shape, args).await,
    }
}

async fn verify(hub: &Hub, shape: &Shape) -> anyhow::Result<()> {
    let answer = hub.get("/v1/audit/verify", &[]).await?;
    let report: Value = serde_json::from_str(&answer)?;
    shape.one(&answer, || {
        let mark = if report["ok"] == true { "✓" } else { "✗" };
        Ok(Facts::default().add(mark, plain(&report)))
    })?;
    if report["ok"] == true {
        return Ok(());
    }
    let bad = &report["firstBad"];
    let message =
        format!("the log is not what was written: {} at record {}", field(bad, "damage"), bad["seq"]);
    Err(Ended::new(
        NOT_VERIFIED,
        message,
        "stop the hub, keep its directory, and run `quorate verify --data DIR`",
    )
    .into())
}

/// Lines of the log, until there are enough or nobody reads.
async fn lines(hub: &Hub, from: u64, limit: Option<u64>, words: bool) -> anyhow::Result<()> {
    let query = [
        ("format", Some("jsonl".to_owned())),
        ("from", Some(from.to_string())),
        ("limit", limit.map(|limit| limit.to_string())),
    ];
    let mut lines = hub.lines("/v1/audit", &query).await?;
    let mut left = limit;
    while left != Some(0) {
        let Some(line) = unless_interrupted(async { Ok(lines.next().await?) }).await? else { break };
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.trim().is_empty() {
            continue;
        }
        let shown = if words { in_words(&serde_json::from_str(&line)?) } else { text::clean_json(&line) };
        if text::try_print(shown).is_err() {
            break;
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// A record on one line: which, when, who, and what it did.
pub(super) fn in_words(record: &Value) -> String {
    let effects = record["effects"].as_array().map_or(&[][..], Vec::as_slice);
    let effects = effects.iter().map(|effect| field(effect, "effect")).collect::<Vec<_>>().join(", ");
    let about =
        [field(record, "seq"), time(&record["at"]), field(record, "principal"), field(record, "kind")];
    text::clean_line(&format!("{}  {}", about.join("  "), shortened(&effects, EFFECTS_MAX)))
}

/// By the hub itself, under the right to lay down rules.
async fn erase(hub: &Hub, shape: &Shape, args: EraseArgs) -> anyhow::Result<()> {
    let EraseArgs { seq, part, dry_run } = args;
    let op = json!({"op": "payload.erase", "seq": seq, "part": part});
    let body = Fields::default().set("ops", [op])?;
    let answer = hub.change(DryRun::new(dry_run), (Method::Post, "/v1/commit"), Some(body.to_json())).await?;
    let Some(answer) = answer else { return Ok(()) };
    let done: Value = serde_json::from_str(&answer)?;
    let what = format!("part {part} of record {seq}");
    shape.done(
        &answer,
        &match done["seq"].as_u64() {
            Some(by) => format!("erased {what}; record {by} says so, and the chain still verifies"),
            None => format!("{what}: it was erased already"),
        },
    );
    Ok(())
}
