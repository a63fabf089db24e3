//! `quorate run`: runs a playbook, prints the report, and requests the approval if the playbook has one.

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
use quorate::deliberation::{Outcome, Spec, estimate};
use quorate::{Code, Hub, ProcedureDraft, ProcedureInfo, ProcedureStatus};
use quorate_agents::DeclaredAgent;
use quorate_agents::playbook::{InputSource, Playbook};
use quorate_procedures::deliberation::MissingAnswer;
use quorate_procedures::tally::Agreement;
use quorate_procedures::tokens;
use serde::Deserialize as _;
use serde_json::Value;

use crate::deliberation;
use crate::exit::{CONFLICT, CommandError, FAILED, NO_DECISION, USAGE, error_with_code};
use crate::hints::CommandLine;
use crate::hub::{HubArgs, until_interrupted};
use crate::playbook::{AccessArgs, read_playbook};
use crate::report::{self, ReportFormat, ReportFormatArgs};
use crate::terminal;

pub(crate) use approval::{ApprovalMode, ApprovalResult, PendingApproval};
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
    async fn run_in(mut self, hub: &Hub) -> anyhow::Result<()> {
        let (format, mode) = (self.format, self.mode);
        let approval_spec = self.playbook.approval.take();
        // A continued run writes the letter also if the approval was decided in the meantime.
        let writes_letter = mode != ApprovalMode::Later || self.resume.is_some();
        let out = Some(self.out).filter(|_| approval_spec.is_some() && writes_letter);
        if let Some(out) = out {
            agents::check_letters(hub, out).await?;
        }
        let (id, outcome) = match self.resume {
            Some(reference) => resume(hub, self.playbook, reference).await?,
            None => deliberate(hub, self.playbook).await?,
        };
        let pending = match &approval_spec {
            Some(approval_spec) => PendingApproval::request(hub, approval_spec, &id, &outcome, out).await?,
            None => None,
        };
        let Some(pending) = pending else {
            report::print(&outcome, &id, format, None)?;
            return require_decision(&outcome);
        };
        let command_line = CommandLine::from_env();
        let options = command_line.connection_options();
        // An embedded hub cannot be reached by other commands.
        let hub_options = hub.space().is_none().then_some(options.as_str());
        if format == ReportFormat::Json {
            let result = pending.resolve(hub, mode, hub_options).await?;
            report::print(&outcome, &id, format, Some(&result))?;
            return require_decision(&outcome);
        }
        // The report is printed before the decision, so that it can be read first.
        report::print(&outcome, &id, format, None)?;
        let result = pending.resolve(hub, mode, hub_options).await?;
        // It also writes the letter, if the approval was decided elsewhere in the meantime.
        let resume = format!("--resume {id} --approve ask");
        result.print(&command_line.again_with(&["--approve", "--resume"], &resume));
        require_decision(&outcome)
    }
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
    let options = CommandLine::from_env().connection_options();
    let (id, outcome) = run_procedure(hub, playbook, draft, (&options, &mut Pauses::none())).await?;
    terminal::note("");
    Ok((id, outcome))
}

/// Continues the deliberation of an earlier run of the playbook, unless it is done already.
async fn resume(hub: &Hub, playbook: Playbook, reference: &str) -> anyhow::Result<(String, Outcome)> {
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
    if info.procedure().status.has_ended() {
        return finished(&info);
    }
    print_header(&playbook.path.display().to_string(), &playbook.spec, &playbook.agents);
    terminal::note("");
    let options = CommandLine::from_env().connection_options();
    run_until_done(hub, playbook, ProcedureStart::Resume(&id), (&options, &mut Pauses::none())).await
}

/// Starts the agents of a playbook and the procedure, and prints progress until it is done. `hub_options` are the options with
/// which other commands can reach the hub.
pub(crate) async fn run_procedure(
    hub: &Hub,
    playbook: Playbook,
    draft: ProcedureDraft,
    progress: (&str, &mut Pauses),
) -> anyhow::Result<(String, Outcome)> {
    run_until_done(hub, playbook, ProcedureStart::New(Box::new(draft)), progress).await
}

/// How the procedure of a run begins.
enum ProcedureStart<'a> {
    New(Box<ProcedureDraft>),
    /// It exists already.
    Resume(&'a str),
}

async fn run_until_done(
    hub: &Hub,
    playbook: Playbook,
    start: ProcedureStart<'_>,
    progress: (&str, &mut Pauses),
) -> anyhow::Result<(String, Outcome)> {
    let Playbook { spec, agents, .. } = playbook;
    preflight::check(hub, &agents, &spec).await?;
    // Dropped at the end: a procedure that has ended waits for none of its agents.
    let _worker = agents::start(hub, agents, &spec).await?;
    let info = drive_and_watch(hub, &spec, start, progress).await?;
    let (id, outcome) = finished(&info)?;
    watch::print_outcome(&outcome);
    Ok((id, outcome))
}

/// Starts or continues the procedure, and prints progress until it has ended.
async fn drive_and_watch(
    hub: &Hub,
    spec: &Spec,
    start: ProcedureStart<'_>,
    (hub_options, pauses): (&str, &mut Pauses),
) -> anyhow::Result<ProcedureInfo> {
    // A remote hub drives deliberations itself.
    let driver = if hub.space().is_some() { Some(hub.drive_procedures().await?) } else { None };
    let id = match start {
        ProcedureStart::New(draft) => hub.start_procedure(*draft).await?.to_string(),
        ProcedureStart::Resume(id) => id.to_owned(),
    };
    // An embedded hub cannot be reached by other commands.
    let resume = driver.is_none().then(|| format!("quorate procedure resume {id}{hub_options}"));
    let ended = watch::wait_until_ended(hub, &id, spec, (resume.as_deref(), pauses)).await;
    if let Some(driver) = driver {
        driver.stop().await;
    }
    ended
}

/// Returns the outcome of a deliberation that has ended.
fn finished(info: &ProcedureInfo) -> anyhow::Result<(String, Outcome)> {
    let id = info.procedure().id.as_str();
    let result: Value = info.result()?.unwrap_or(Value::Null);
    match info.procedure().status {
        ProcedureStatus::Done => Ok((id.to_owned(), serde_json::from_value(result)?)),
        ProcedureStatus::Cancelled => Err(cancelled(id, &info.procedure().reason).into()),
        _ => Err(failed(id, &result).into()),
    }
}

fn cancelled(id: &str, reason: &str) -> quorate::Error {
    let reason =
        if reason.is_empty() { String::new() } else { format!(": {}", terminal::sanitize_line(reason)) };
    let message = format!("deliberation {id} was cancelled{reason}");
    error_with_code(Code::Cancelled, message, format!("to see how far it came: quorate procedure show {id}"))
}

fn failed(id: &str, result: &Value) -> CommandError {
    let reason = result["reason"].as_str().unwrap_or("there is no result");
    let mut message = format!("deliberation {id} failed: {reason}");
    let missing = Vec::<MissingAnswer>::deserialize(&result["missing"]).unwrap_or_default();
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
