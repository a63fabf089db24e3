//! `quorate run`: a playbook, from the first question to the report, and to the decision of a person where it asks for one.

mod approval;
pub(crate) mod members;
mod progress;
mod watch;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use quorate::deliberation::{Outcome, estimate};
use quorate::{Hub, ProcedureDraft, ProcedureStatus};
use quorate_procedures::count::Agreement;
use quorate_procedures::tokens;
use serde_json::Value;

use crate::exit::{Ended, FAILED, NO_DECISION};
use crate::hub::HubArgs;
use crate::playbook::{Input, Playbook};
use crate::report::{self, Format, FormatArgs};
use crate::text;

pub(crate) use approval::{Approve, Pending, Settled};
pub(crate) use progress::plain_line;
pub(crate) use watch::begin;

/// Run a playbook: put a question to agents, let them discuss, and tell what they decided. [rw]
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate run playbook.yaml --input contract.txt

It runs in the hub that --url names or that runs on the data directory; if none
does, in a hub of this process on that directory, where everything is kept.
The exit code is 8 if there is no decision: a tie, or no recommendation given.
How to write a playbook: docs/guides/your-first-playbook.md")]
pub(crate) struct RunArgs {
    /// The playbook.
    file: PathBuf,
    /// What agents read, instead of what the playbook names.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Say what it would take, and ask nobody.
    #[arg(long = "estimate", visible_alias = "dry-run")]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
    /// Who decides what the playbook asks approval for: ask (whoever is at this terminal), wait (for somebody elsewhere),
    /// later (it stays pending), auto (approved unseen). Without it: ask on a terminal, later elsewhere.
    #[arg(long, value_name = "HOW")]
    approve: Option<Approve>,
    /// Where what was approved is written.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    #[command(flatten)]
    hub: HubArgs,
}

pub(crate) async fn run(args: RunArgs) -> anyhow::Result<()> {
    let format = args.format.wanted();
    let input = args.input.as_deref().map_or(Input::Named, Input::File);
    let playbook = Playbook::read(&args.file, input)?;
    if args.dry_run {
        return report::print_estimate(&estimate(&playbook.spec, tokens::o200k), format);
    }
    let approve = args.approve.unwrap_or_else(|| Approve::usual(format));
    let hub = args.hub.library().await?;
    let ran = whole(&hub, playbook, format, approve, &args.out).await;
    hub.close().await;
    ran
}

async fn whole(
    hub: &Hub,
    mut playbook: Playbook,
    format: Format,
    approve: Approve,
    out: &Path,
) -> anyhow::Result<()> {
    let asked = playbook.approval.take();
    let (id, outcome) = deliberate(hub, playbook).await?;
    let pending = match &asked {
        Some(asked) => Pending::ask(hub, asked, &id, &outcome, out).await?,
        None => None,
    };
    let Some(pending) = pending else {
        report::print(&outcome, &id, format, None)?;
        return decided(&outcome);
    };
    // Nobody else reaches a hub that is in this process.
    let elsewhere = hub.space().is_none().then_some("");
    if format == Format::Json {
        let settled = pending.settle(hub, approve, elsewhere).await?;
        report::print(&outcome, &id, format, Some(&settled))?;
        return decided(&outcome);
    }
    // Whoever decides has read the report.
    report::print(&outcome, &id, format, None)?;
    let settled = pending.settle(hub, approve, elsewhere).await?;
    settled.tell(&format!("quorate approval approve {}   (reject, modify)", settled.id));
    decided(&outcome)
}

/// Ends with an exit code of its own where a deliberation came to no decision.
pub(crate) fn decided(outcome: &Outcome) -> anyhow::Result<()> {
    if outcome.is_decided() {
        return Ok(());
    }
    let agreement = &outcome.synthesis.agreement;
    let (what, hint) = match agreement {
        Agreement::Tied { between, .. } => (
            format!("no decision: tied between {}", between.join(" and ")),
            "break ties with `tie_break:` or --tie-break, or ask one more agent",
        ),
        _ => (
            format!("no decision: {agreement}"),
            "have agents answer with a `recommendation`: docs/guides/deliberation.md",
        ),
    };
    Err(Ended::new(NO_DECISION, what, hint).into())
}

/// Runs a playbook in a hub; gives the id under which it is on record, and what came of it.
pub(crate) async fn deliberate(hub: &Hub, playbook: Playbook) -> anyhow::Result<(String, Outcome)> {
    begin(&playbook.path.display().to_string(), &playbook.spec, &playbook.agents);
    text::say("");
    let draft = ProcedureDraft::deliberation(&playbook.spec);
    let (id, outcome) = procedure(hub, playbook, draft).await?;
    text::say("");
    Ok((id, outcome))
}

/// Lets the agents of a playbook work until the procedure is over, and tells of its phases.
pub(crate) async fn procedure(
    hub: &Hub,
    playbook: Playbook,
    draft: ProcedureDraft,
) -> anyhow::Result<(String, Outcome)> {
    let Playbook { spec, agents, .. } = playbook;
    let _running = members::start(hub, agents, &spec).await?;
    // A hub that is reached over the network drives it itself.
    let driver = if hub.space().is_some() { Some(hub.drive_deliberations().await?) } else { None };
    let id = hub.start_procedure(draft).await?;
    let ended = watch::until_over(hub, id.as_str(), &spec).await?;
    if let Some(driver) = driver {
        driver.stop().await;
    }
    let result: Value = ended.result()?.unwrap_or(Value::Null);
    match ended.procedure().status {
        ProcedureStatus::Done => {
            let outcome: Outcome = serde_json::from_value(result)?;
            watch::outcome(&outcome);
            Ok((id.to_string(), outcome))
        }
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

impl Approve {
    /// On a terminal somebody is there to ask.
    pub(crate) fn usual(format: Format) -> Self {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if is_terminal && format != Format::Json { Self::Ask } else { Self::Later }
    }
}

/// How often whoever watches looks, where nothing tells it sooner.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
