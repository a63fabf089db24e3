//! `quorate run`: a playbook, from the first question to the report.

pub(crate) mod members;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quorate::deliberation::{Outcome, estimate};
use quorate::{Hub, ProcedureDraft, ProcedureStatus};
use quorate_procedures::tokens;
use serde_json::Value;

use crate::exit::{Ended, FAILED};
use crate::playbook::Playbook;
use crate::report::{self, Format};
use crate::text;

/// Run a playbook: put a question to agents, let them discuss, and tell what they decided. [rw]
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate run playbook.yaml --input contract.txt

How to write one: docs/guides/your-first-playbook.md")]
pub(crate) struct RunArgs {
    /// The playbook.
    file: PathBuf,
    /// What agents read, instead of what the playbook names.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Where it is kept on record. No hub may be running there.
    #[arg(long, value_name = "DIR", default_value = "quorate-data")]
    data: PathBuf,
    /// Say what it would take, and ask nobody.
    #[arg(long = "estimate", visible_alias = "dry-run")]
    dry_run: bool,
    /// The report: text, md, html or json.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// One JSON document, as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

pub(crate) async fn run(args: RunArgs) -> anyhow::Result<()> {
    let format = if args.json { Format::Json } else { args.format };
    let playbook = Playbook::read(&args.file, args.input.as_deref())?;
    if args.dry_run {
        return report::print_estimate(&estimate(&playbook.spec, tokens::o200k), format);
    }
    let hub = Hub::open(&args.data).await?;
    let ran = deliberate(&hub, playbook).await;
    hub.close().await;
    let (id, outcome) = ran?;
    report::print(&outcome, &id, format)
}

/// Runs a playbook in a hub of this process; gives the id under which it is on record, and what came of it.
pub(crate) async fn deliberate(hub: &Hub, playbook: Playbook) -> anyhow::Result<(String, Outcome)> {
    let Playbook { path, spec, agents } = playbook;
    watch::begin(&path, &spec, &agents);
    let _running = members::start(hub, agents, &spec).await?;
    let driver = hub.drive_deliberations().await?;
    let id = hub.start_procedure(ProcedureDraft::deliberation(&spec)).await?;
    let ended = watch::until_over(hub, id.as_str()).await?;
    driver.stop().await;
    let result: Value = ended.result()?.unwrap_or(Value::Null);
    match ended.procedure().status {
        ProcedureStatus::Done => Ok((id.to_string(), serde_json::from_value(result)?)),
        _ => Err(failed(id.as_str(), &result).into()),
    }
}

fn failed(id: &str, result: &Value) -> Ended {
    let reason = result["reason"].as_str().unwrap_or("it came to nothing");
    let mut what = format!("deliberation {id} failed: {reason}");
    for missing in result["missing"].as_array().into_iter().flatten() {
        let why: Vec<&str> =
            missing["why"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        what.push_str(&format!(
            "\n  {}: {}",
            missing["agent"].as_str().unwrap_or_default(),
            why.join("; then: ")
        ));
    }
    Ended::new(
        FAILED,
        text::clean(&what),
        "what was gathered is kept; try an agent alone: quorate agent test NAME --playbook FILE",
    )
}

/// How often whoever watches looks, where nothing tells it sooner.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
