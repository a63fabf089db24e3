//! `quorate run`: runs a playbook, prints the report, and requests the approval if the playbook has one.

mod approval;
mod hub_access;
mod progress;
mod watch;
pub(crate) mod workers;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use quorate::deliberation::{Outcome, estimate};
use quorate::{Hub, ProcedureDraft, ProcedureStatus};
use quorate_procedures::tally::Agreement;
use quorate_procedures::tokens;
use serde_json::Value;

use crate::exit::{CommandError, FAILED, NO_DECISION};
use crate::hub::{HubArgs, until_interrupted};
use crate::playbook::{AccessArgs, InputSource, Playbook};
use crate::report::{self, ReportFormat, ReportFormatArgs};
use crate::terminal;

use hub_access::ProgramTokens;

pub(crate) use approval::{ApprovalMode, ApprovalResult, PendingApproval};
pub(crate) use progress::note_line;
pub(crate) use watch::print_header;

/// Run a playbook: ask agents a question, let them discuss, and report their decision. [rw]
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate run playbook.yaml --input contract.txt

Runs in the hub given by --url, or in the hub running on the data directory. If no hub is running, an \
embedded hub is used, which stores everything in that directory. The exit code is 8 if there is no \
decision: a tie, or no recommendations.

How to write a playbook: docs/guides/your-first-playbook.md")]
#[command(mut_arg("data", |arg| arg.help(crate::hub::EMBEDDED_DATA_HELP)))]
pub(crate) struct RunArgs {
    /// Playbook file.
    file: PathBuf,
    /// Text file that the agents read, instead of the one in the playbook.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Print the estimated calls, tokens and cost, without asking any agent.
    #[arg(long = "estimate", visible_alias = "dry-run")]
    dry_run: bool,
    #[command(flatten)]
    format: ReportFormatArgs,
    /// How the approval that the playbook requests is decided [default: `ask` on a terminal, otherwise `later`].
    #[arg(long, value_name = "MODE")]
    approve: Option<ApprovalMode>,
    /// Directory for the approved file.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    hub: HubArgs,
}

pub(crate) async fn run(args: RunArgs) -> anyhow::Result<()> {
    let format = args.format.selected();
    let input = args.input.as_deref().map_or(InputSource::FromPlaybook, InputSource::File);
    let mut playbook = Playbook::read(&args.file, input, args.access)?;
    if args.dry_run {
        return report::print_estimate(&estimate(&playbook.spec, tokens::count_o200k), format);
    }
    let mode = args.approve.unwrap_or_else(|| ApprovalMode::default_for(format));
    let hub = args.hub.open_library().await?;
    let result = match ProgramTokens::issue(&args.hub, &hub, &mut playbook).await {
        Ok(None) => run_playbook(&hub, playbook, format, mode, &args.out).await,
        Ok(Some(tokens)) => {
            // Interrupted as well, the run revokes the tokens of its programs.
            let result = until_interrupted(run_playbook(&hub, playbook, format, mode, &args.out)).await;
            tokens.revoke().await;
            result
        }
        Err(error) => Err(error),
    };
    hub.close().await;
    result
}

async fn run_playbook(
    hub: &Hub,
    mut playbook: Playbook,
    format: ReportFormat,
    mode: ApprovalMode,
    out: &Path,
) -> anyhow::Result<()> {
    let approval_spec = playbook.approval.take();
    let (id, outcome) = deliberate(hub, playbook).await?;
    let pending = match &approval_spec {
        Some(approval_spec) => PendingApproval::request(hub, approval_spec, &id, &outcome, out).await?,
        None => None,
    };
    let Some(pending) = pending else {
        report::print(&outcome, &id, format, None)?;
        return require_decision(&outcome);
    };
    // An embedded hub cannot be reached by other commands.
    let hub_options = hub.space().is_none().then_some("");
    if format == ReportFormat::Json {
        let result = pending.resolve(hub, mode, hub_options).await?;
        report::print(&outcome, &id, format, Some(&result))?;
        return require_decision(&outcome);
    }
    // The report is printed before the decision, so that it can be read first.
    report::print(&outcome, &id, format, None)?;
    let result = pending.resolve(hub, mode, hub_options).await?;
    result.print(&format!("quorate approval approve {}", result.id));
    require_decision(&outcome)
}

/// Why there is no decision, if it is not a tie.
pub(crate) const NO_RECOMMENDATION: &str = "no agent gave a recommendation";

/// Fails with a separate exit code if a deliberation has no decision.
pub(crate) fn require_decision(outcome: &Outcome) -> anyhow::Result<()> {
    if outcome.is_decided() {
        return Ok(());
    }
    let agreement = &outcome.synthesis.agreement;
    let (message, hint) = match agreement {
        Agreement::Tied { between, .. } => (
            format!("no decision: tied between {}", between.join(" and ")),
            "set `tie_break:` or --tie-break, or ask one more agent",
        ),
        _ => (
            format!("no decision: {NO_RECOMMENDATION}"),
            "agents must answer with a `recommendation`: see docs/guides/deliberation.md",
        ),
    };
    Err(CommandError::new(NO_DECISION, message, hint).into())
}

/// Runs the deliberation of a playbook in a hub. Returns its id and the outcome.
pub(crate) async fn deliberate(hub: &Hub, playbook: Playbook) -> anyhow::Result<(String, Outcome)> {
    print_header(&playbook.path.display().to_string(), &playbook.spec, &playbook.agents);
    terminal::note("");
    let draft = ProcedureDraft::deliberation(&playbook.spec);
    let (id, outcome) = run_procedure(hub, playbook, draft).await?;
    terminal::note("");
    Ok((id, outcome))
}

/// Starts the agents of a playbook and the procedure, and prints progress until it is done.
pub(crate) async fn run_procedure(
    hub: &Hub,
    playbook: Playbook,
    draft: ProcedureDraft,
) -> anyhow::Result<(String, Outcome)> {
    let Playbook { spec, agents, .. } = playbook;
    let _running = workers::start(hub, agents, &spec).await?;
    // A remote hub drives deliberations itself.
    let driver = if hub.space().is_some() { Some(hub.drive_deliberations().await?) } else { None };
    let id = hub.start_procedure(draft).await?;
    let info = watch::wait_until_done(hub, id.as_str(), &spec).await?;
    if let Some(driver) = driver {
        driver.stop().await;
    }
    let result: Value = info.result()?.unwrap_or(Value::Null);
    match info.procedure().status {
        ProcedureStatus::Done => {
            let outcome: Outcome = serde_json::from_value(result)?;
            watch::print_outcome(&outcome);
            Ok((id.to_string(), outcome))
        }
        _ => Err(failed(id.as_str(), &result).into()),
    }
}

fn failed(id: &str, result: &Value) -> CommandError {
    let reason = result["reason"].as_str().unwrap_or("there is no result");
    let mut message = format!("deliberation {id} failed: {reason}");
    for missing in result["missing"].as_array().into_iter().flatten() {
        let reasons: Vec<&str> =
            missing["why"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        message.push_str(&format!(
            "\n  {}: {}",
            missing["agent"].as_str().unwrap_or_default(),
            reasons.join("; then: ")
        ));
    }
    CommandError::new(
        FAILED,
        terminal::sanitize(&message),
        "the findings are stored; to test one agent: quorate agent test NAME --playbook FILE",
    )
}

impl ApprovalMode {
    /// Returns the default: ask on a terminal, otherwise leave the approval pending.
    pub(crate) fn default_for(format: ReportFormat) -> Self {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if is_terminal && format != ReportFormat::Json { Self::Ask } else { Self::Later }
    }
}

/// Polling interval for state that is not pushed.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);
