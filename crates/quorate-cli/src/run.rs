//! `quorate run`: runs a playbook, prints the report, and requests the approval if the playbook has one.

mod active;
mod agents;
mod approval;
mod hub_access;
mod pauses;
mod preflight;
mod progress;
mod watch;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use quorate::deliberation::{FailedDeliberation, Outcome, Spec, estimate};
use quorate::proposal::PROPOSAL_KIND;
use quorate::{Code, Hub};
use quorate_agents::DeclaredAgent;
use quorate_agents::playbook::{InputSource, Playbook};
use quorate_procedures::tally::Agreement;
use quorate_procedures::tokens;

use crate::deliberation;
use crate::exit::{CONFLICT, CommandError, FAILED, NO_DECISION, USAGE, error_with_code};
use crate::hints::CommandLine;
use crate::hub::{HubArgs, until_interrupted};
use crate::playbook::{AccessArgs, read_playbook};
use crate::report::{self, ReportFormat, ReportFormatArgs};
use crate::terminal;

pub(crate) use active::{ActiveRun, ProcedureStart};
pub(crate) use approval::{ApprovalMode, ApprovalResult};
pub(crate) use hub_access::ProgramTokens;
pub(crate) use pauses::Pauses;
pub(crate) use preflight::PrintedCheck;

pub(crate) use watch::print_header;

/// Run a playbook: ask agents a question, let them discuss, and report their decision. [rw]
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate run playbook.yaml --input contract.txt

Runs in the hub given by --url, or in the hub running on the data directory. If no hub is running, an \
embedded hub is used, which stores everything in that directory. The exit code is 8 if there is no \
decision: a tie, or no recommendations.

Before the first question, every agent is checked: its program exists, its API key is set, its server is listening, or it is connected to the hub. If the quorum cannot be reached, no agent is asked.

--resume continues an interrupted run. If its deliberation is done, only the approval is left: it is decided, and the approved letter is written.

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
    /// Continue the run with this deliberation id, a unique prefix of it, or @last.
    #[arg(long, value_name = "ID", conflicts_with = "dry_run")]
    resume: Option<String>,
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
    let playbook = read_playbook(&args.file, input, args.access)?;
    if args.dry_run {
        return report::print_estimate(&estimate(&playbook.spec, tokens::count_o200k), format);
    }
    let mode = args.approve.unwrap_or_else(|| ApprovalMode::default_for(format));
    let hub = args.hub.open_library().await?;
    if mode == ApprovalMode::Wait && playbook.approval.is_some() && hub.space().is_some() {
        hub.close().await;
        let message = "--approve wait: no hub is running in which the approval could be decided";
        let hint = "start one with `quorate serve`, or use --approve ask or later";
        return Err(CommandError::new(USAGE, message, hint).into());
    }
    let members = &playbook.spec.agents;
    let takes_part = |agent: &&DeclaredAgent| members.iter().any(|member| member.id == agent.name);
    let issued = ProgramTokens::issue(&args.hub, &hub, playbook.agents.iter().filter(takes_part)).await;
    let run = Run { playbook, format, mode, out: &args.out, resume: args.resume.as_deref() };
    // Interrupted as well, the run stops its programs and revokes their tokens.
    let result = match issued {
        Ok(None) => until_interrupted(run.run_in(&hub)).await,
        Ok(Some(tokens)) => {
            let result = until_interrupted(run.run_in(&hub)).await;
            tokens.revoke().await;
            result
        }
        Err(error) => Err(error),
    };
    hub.close().await;
    result
}

/// One run of a playbook.
struct Run<'a> {
    playbook: Playbook,
    format: ReportFormat,
    mode: ApprovalMode,
    /// Directory for the approved file.
    out: &'a Path,
    /// Deliberation to continue.
    resume: Option<&'a str>,
}

impl Run<'_> {
    async fn run_in(self, hub: &Hub) -> anyhow::Result<()> {
        let Run { playbook, format, mode, out, resume } = self;
        // A continued run writes the letter also if the approval was decided in the meantime.
        let writes_letter = mode != ApprovalMode::Later || resume.is_some();
        let out = Some(out).filter(|_| playbook.approval.is_some() && writes_letter);
        if let Some(out) = out {
            agents::check_letters(hub, out).await?;
        }
        let start = match resume {
            Some(reference) => resumed(hub, &playbook, reference).await?,
            None => ProcedureStart::New(None),
        };
        if !start.has_deliberated() {
            print_header(&playbook.path.display().to_string(), &playbook.spec, &playbook.agents);
            terminal::note("");
        }
        let command_line = CommandLine::from_env();
        let run = ActiveRun::start(hub, playbook, start, out, command_line.connection_options()).await?;
        let result = settle(&run, format, mode, &command_line).await;
        run.stop().await;
        require_decision(&result?)
    }
}

/// Waits for the deliberation and its approval, and prints the report. Returns the outcome.
async fn settle(
    run: &ActiveRun<'_>,
    format: ReportFormat,
    mode: ApprovalMode,
    command_line: &CommandLine,
) -> anyhow::Result<Outcome> {
    let (id, outcome) = run.deliberated(&mut Pauses::none()).await?;
    if format == ReportFormat::Json {
        let approval = run.settled(mode).await?;
        report::print(&outcome, &id, format, approval.as_ref())?;
        return Ok(outcome);
    }
    // The report is printed before the decision, so that it can be read first.
    report::print(&outcome, &id, format, None)?;
    if let Some(approval) = run.settled(mode).await? {
        // It also writes the letter, if the approval was decided elsewhere in the meantime.
        let resume = format!("--resume {id} --approve ask");
        approval.print(&command_line.again_with(&["--approve", "--resume"], &resume));
    }
    Ok(outcome)
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
    let options = CommandLine::from_env().connection_options();
    let run = ActiveRun::start(hub, playbook, ProcedureStart::New(None), None, options).await?;
    let result = run.deliberated(&mut Pauses::none()).await;
    run.stop().await;
    result
}

/// Finds the procedure of an earlier run of the playbook.
async fn resumed(hub: &Hub, playbook: &Playbook, reference: &str) -> anyhow::Result<ProcedureStart> {
    let id = deliberation::find_id(hub, reference).await?;
    let info = hub.procedure(&id).await?;
    // Erased parts cannot be compared.
    if let Ok(spec) = info.spec::<Spec>()
        && spec.subject != playbook.spec.subject
    {
        let message = format!("deliberation {id} has another question than {}", playbook.path.display());
        let hint = "resume it with its own playbook; to list the deliberations: quorate deliberation list";
        return Err(CommandError::new(CONFLICT, message, hint).into());
    }
    let has_deliberated = info.procedure().status.has_ended();
    if playbook.approval.is_none() {
        return Ok(ProcedureStart::Resume { id, has_deliberated });
    }
    match proposal_of(hub, &id).await? {
        Some(id) => Ok(ProcedureStart::Resume { id, has_deliberated }),
        None => {
            let message = format!("deliberation {id} was started without an approval");
            let hint = "remove `approval` from the playbook to continue it, or run the playbook again without --resume";
            Err(CommandError::new(CONFLICT, message, hint).into())
        }
    }
}

/// Returns the proposal that a deliberation is part of.
async fn proposal_of(hub: &Hub, deliberation: &str) -> anyhow::Result<Option<String>> {
    let suffix = quorate::proposal::deliberation_id("");
    let Some(parent) = deliberation.strip_suffix(&suffix) else { return Ok(None) };
    match hub.procedure(parent).await {
        Ok(info) if info.procedure().kind == PROPOSAL_KIND => Ok(Some(parent.to_owned())),
        Err(error) if error.code() != Code::NotFound => Err(error.into()),
        _ => Ok(None),
    }
}

fn cancelled(id: &str, reason: &str) -> quorate::Error {
    let reason =
        if reason.is_empty() { String::new() } else { format!(": {}", terminal::sanitize_line(reason)) };
    let message = format!("deliberation {id} was cancelled{reason}");
    error_with_code(Code::Cancelled, message, format!("to see how far it came: quorate procedure show {id}"))
}

fn failed(id: &str, failure: Option<FailedDeliberation>) -> CommandError {
    let (reason, missing) = match &failure {
        Some(failure) => (failure.reason.as_str(), failure.record.missing.as_slice()),
        None => ("there is no result", &[][..]),
    };
    let mut message = format!("deliberation {id} failed: {reason}");
    missing.iter().for_each(|answer| message.push_str(&format!("\n  {}: {}", answer.agent, answer.reason())));
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
