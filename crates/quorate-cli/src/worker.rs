//! `quorate worker`: runs declared agents in a hub until it is stopped.

mod show;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use quorate_agents::worker::{Worker, WorkerConfig, WorkerError, check_declared};
use quorate_agents::{AgentContext, AgentSettings, CheckOutcome, DeclaredAgent};
use quorate_core::{AgentId, RegisterAgent};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{CONFLICT, CommandError, FAILED, INTERRUPTED, USAGE};
use crate::hub::HubArgs;
use crate::playbook::{AccessArgs, read_playbook_agents};
use crate::run::{PrintedCheck, ProgramTokens};
use crate::terminal::{self, note};

use show::Shown;

/// Interval in which a lost hub is looked for at another address.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(2);

/// Run the agents of a playbook, or one agent, in a hub until stopped. [rw]
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("agents").args(["playbook", "declared"]).required(true))]
#[command(after_help = "Example: quorate worker playbook.yaml --out letters
         quorate worker --name ada --use 'cmd:python3 ada.py' --types review

The agents answer requests, and work on tasks of the types in `tasks:` or --types. A hub must be running. If another worker runs an \
agent from the same declaration, the agent stands by, and takes over when the other one ends. The worker reconnects after a restart of \
the hub.

SIGTERM and ^C stop the worker when its work in progress is done; a second one stops it at once, and the hub gives the work to another \
attempt. Events are printed to stderr, with --json to stdout.

Exit codes: 0 stopped; 130 stopped at once; 1 an agent cannot run, or no hub is running; 2 the playbook or an option is invalid; \
3 the playbook or the data directory does not exist; 4 the token is missing or invalid; 5 another process runs an agent of this name from another declaration.

More: docs/guides/workers.md")]
pub(crate) struct WorkerArgs {
    /// Playbook that declares the agents. It may have no procedure.
    playbook: Option<PathBuf>,
    /// Declaration of one agent, like `use:` in a playbook: cmd:COMMAND, http://…, llm:PROVIDER/MODEL.
    #[arg(long = "use", value_name = "USE", requires = "name", conflicts_with = "playbook")]
    declared: Option<String>,
    /// Name of the agent.
    #[arg(long, value_name = "NAME", requires = "declared")]
    name: Option<String>,
    /// Types of tasks that the agent works on, separated by commas.
    #[arg(long, value_name = "T1,T2", value_delimiter = ',', requires = "declared")]
    types: Vec<String>,
    /// Write approved letters to this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Check the agents, without running them.
    #[arg(long)]
    dry_run: bool,
    /// Print events as JSON Lines to stdout.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    hub: HubArgs,
}

pub(crate) async fn run(args: WorkerArgs) -> anyhow::Result<()> {
    let agents = declared_agents(&args)?;
    // Installed first, so that a signal during the start ends the worker with its own exit code.
    let mut signals = Signals::new()?;
    let (library, url) = args.hub.connect_library().await?;
    check(&agents, args.json).await?;
    if args.dry_run {
        note("dry run: no agent was started");
        return Ok(());
    }
    let shown = Arc::new(Shown::new(args.json));
    let tokens = ProgramTokens::issue(&args.hub, &library, &agents).await?;
    let agents: Vec<Arc<DeclaredAgent>> = agents.into_iter().map(Arc::new).collect();
    let session = Session { args: &args, agents: &agents, shown: &shown };
    let ended = match &tokens {
        Some(tokens) => {
            tokio::select! {
                ended = session.run(library, url, &mut signals) => ended,
                never = tokens.renew(&agents) => match never {},
            }
        }
        None => session.run(library, url, &mut signals).await,
    };
    if let Some(tokens) = tokens {
        tokens.revoke().await;
    }
    ended
}

/// Returns the agents of the playbook, or the one that the options declare.
fn declared_agents(args: &WorkerArgs) -> anyhow::Result<Vec<DeclaredAgent>> {
    if let (Some(line), Some(name)) = (&args.declared, &args.name) {
        return Ok(vec![declare(name, line, &args.types, args.access)?]);
    }
    let file = args.playbook.as_ref().context("a playbook is required")?;
    let playbook = read_playbook_agents(file, args.access)?;
    if let (Some(approval), None) = (&playbook.approval, &args.out) {
        let message =
            format!("letters of the approval \"{}\" are not written by this worker", approval.action);
        terminal::print_warning(
            &message,
            "to write them when they are approved, pass a directory: --out DIR",
        );
    }
    Ok(playbook.agents)
}

fn declare(name: &str, line: &str, types: &[String], access: AccessArgs) -> anyhow::Result<DeclaredAgent> {
    let mut context = AgentContext::new(".");
    context.env_inheritance = access.env_inheritance();
    let settings = AgentSettings { tasks: types.to_vec(), ..AgentSettings::default() };
    let declared = AgentId::new(name).and_then(|id| {
        RegisterAgent { capabilities: types.to_vec(), ..RegisterAgent::named(id) }.check()?;
        DeclaredAgent::declare(name, line, &settings, &context)
    });
    if types.iter().any(|task_type| task_type.trim().is_empty()) {
        return Err(
            CommandError::new(USAGE, "--types: a type is empty", "name the types: --types T1,T2").into()
        );
    }
    declared.map_err(|refused| CommandError::new(USAGE, refused.detail, refused.hint).into())
}

/// Checks that the agents can run: a program that does not exist or a missing API key will not appear by itself.
async fn check(agents: &[DeclaredAgent], json: bool) -> anyhow::Result<()> {
    let width = agents.iter().map(|agent| agent.name.chars().count()).max().unwrap_or(0);
    let mut failed = Vec::new();
    for agent in agents {
        let Some(check) = PrintedCheck::new(&agent.name, check_declared(agent).await)? else { continue };
        if check.outcome == CheckOutcome::Failed {
            failed.push(agent.name.as_str());
        }
        if !json || check.outcome == CheckOutcome::Failed {
            check.print(&agent.name, width);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let message = format!("cannot run {}: no agent was started", failed.join(", "));
    Err(CommandError::new(FAILED, message, "fix the agents that are marked ✗, then start the worker again")
        .into())
}

/// Signals that stop the worker.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The worker, connected to one hub after the other.
struct Session<'a> {
    args: &'a WorkerArgs,
    agents: &'a [Arc<DeclaredAgent>],
    shown: &'a Arc<Shown>,
}

impl Session<'_> {
    /// Runs until a signal. If the hub is restarted at another address, the worker follows.
    async fn run(
        &self,
        mut library: quorate::Hub,
        mut url: String,
        signals: &mut Signals,
    ) -> anyhow::Result<()> {
        loop {
            self.shown.starting(self.agents.len(), &url);
            let config = WorkerConfig { agents: self.agents.to_vec(), letters: self.args.out.clone() };
            let started = tokio::select! {
                started = Worker::start(&library, config, self.shown.sink()) => started,
                () = signals.next() => return Ok(()),
            };
            let worker = started.map_err(worker_error)?;
            tokio::select! {
                () = signals.next() => {
                    self.drain(worker, signals).await?;
                    library.close().await;
                    self.shown.stopped();
                    return Ok(());
                }
                (moved, new_url) = self.hub_at_another_address(&url) => {
                    drop(worker);
                    (library, url) = (moved, new_url);
                }
            }
        }
    }

    /// Waits until the work in progress is done, or until another signal.
    async fn drain(&self, worker: Worker, signals: &mut Signals) -> anyhow::Result<()> {
        self.shown.stopping();
        tokio::select! {
            () = worker.stop() => Ok(()),
            () = signals.next() => Err(CommandError::new(INTERRUPTED, "interrupted", "").into()),
        }
    }

    /// Waits until the hub is lost and found at another address.
    async fn hub_at_another_address(&self, url: &str) -> (quorate::Hub, String) {
        loop {
            self.shown.hub_lost().await;
            tokio::time::sleep(LOOKUP_INTERVAL).await;
            let is_moved = self.args.hub.current_url().is_ok_and(|current| current != url);
            if is_moved && let Ok(connected) = self.args.hub.connect_library().await {
                return connected;
            }
        }
    }
}

/// Converts an error of a worker, with its exit code.
pub(crate) fn worker_error(error: WorkerError) -> anyhow::Error {
    let hint = error.hint();
    match error {
        WorkerError::Hub(error) => error.into(),
        WorkerError::OtherDeclaration { .. } => CommandError::new(CONFLICT, error.to_string(), hint).into(),
        WorkerError::Letters { .. } => {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            CommandError::new(USAGE, format!("{error}{cause}"), hint).into()
        }
    }
}
