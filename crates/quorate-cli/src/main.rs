//! The `quorate` binary. Data goes to stdout, everything else to stderr.

mod agent;
mod approval;
mod ascii;
mod audit;
mod backup;
mod bench;
mod budget;
mod cert;
mod compress;
mod config;
mod deliberate;
mod deliberation;
mod demo;
mod doctor;
mod exit;
mod explain;
mod flag;
mod hints;
mod hub;
mod init;
mod lock;
mod man;
mod memory;
mod metrics;
mod msg;
mod output;
mod playbook;
mod policy;
mod procedure;
mod prompt;
mod report;
mod request;
mod run;
mod serve;
mod session;
mod status;
mod tail;
mod task;
mod terminal;
mod token;
mod trace;
mod verify;
mod version;
mod vote;
mod why;
mod worker;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

/// Durable messages, tasks, shared memory and decisions for AI agents, with a verifiable log.
///
/// [ro] marks a command that only reads, [rw] one that writes.
#[derive(Parser, Debug)]
#[command(name = "quorate", version, arg_required_else_help = true)]
struct Cli {
    /// Print ASCII instead of symbols; in JSON, escape non-ASCII characters.
    #[arg(long, global = true, help_heading = "Output")]
    ascii: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a demo: agents review a contract, vote, and ask for your approval. [rw]
    Demo(Box<demo::DemoArgs>),
    /// Start a hub that agents connect to over HTTP and WebSocket. [rw]
    Serve(Box<serve::ServeArgs>),
    /// Create a commented quorate.yaml in the current directory. [rw]
    Init(init::InitArgs),
    /// Show what needs attention, active sessions, agents and queues. [ro]
    Status(status::StatusArgs),
    /// Follow events as they happen, as text or JSON. [ro]
    Tail(tail::TailArgs),
    /// Send, receive, answer and inspect messages, and redrive dead letters.
    Msg(msg::MsgArgs),
    /// Send requests, and read their answers.
    Request(request::RequestArgs),
    /// Add, claim, complete, inspect, retry and cancel tasks.
    Task(task::TaskArgs),
    /// Acquire, renew, release and inspect locks.
    Lock(lock::LockArgs),
    /// Read and write shared memory, and roll back to earlier content.
    Memory(memory::MemoryArgs),
    Compress(compress::CompressArgs),
    /// Open, pause, resume, end and inspect sessions.
    Session(session::SessionArgs),
    /// Register, inspect, test and remove agents.
    Agent(agent::AgentArgs),
    /// Tally ballots with the rules that deliberations use.
    Vote(vote::VoteArgs),
    /// Approve, modify or reject actions that agents propose.
    Approval(approval::ApprovalArgs),
    Run(run::RunArgs),
    Worker(worker::WorkerArgs),
    Deliberate(deliberate::DeliberateArgs),
    /// Start, follow, pause, resume, cancel and signal procedures.
    Procedure(procedure::ProcedureArgs),
    /// Inspect deliberations: outcomes, votes, and results under other rules.
    Deliberation(deliberation::DeliberationArgs),
    /// Report conduct concerns to the moderators only.
    Flag(flag::FlagArgs),
    /// Show and set the policy of a space, and list violations of it.
    Policy(policy::PolicyArgs),
    /// Set and show limits of message chains.
    Budget(budget::BudgetArgs),
    /// Create, list and revoke access tokens.
    Token(token::TokenArgs),
    /// Verify, print and export the log, and erase payloads.
    Audit(audit::AuditArgs),
    /// Show and export traces: which message caused which.
    Trace(trace::TraceArgs),
    /// Print the hub's metrics in Prometheus format. [ro]
    Metrics(metrics::MetricsArgs),
    /// Print the effective configuration and its sources.
    Config(config::ConfigArgs),
    /// Check the installation for problems and suggest fixes. [ro]
    Doctor(doctor::DoctorArgs),
    /// Create, restore and verify backups, also of a running hub.
    #[command(subcommand)]
    Backup(backup::BackupCommand),
    /// Verify the integrity of a data directory. [ro]
    Verify(verify::VerifyArgs),
    /// Run benchmarks on this machine. [rw]
    Bench(bench::BenchArgs),
    /// Explain an error code and how to resolve it. [ro]
    Explain(explain::ExplainArgs),
    /// Create a TLS certificate for development.
    #[command(subcommand)]
    Cert(cert::CertCommand),
    /// Print a shell completion script. [ro]
    Completions(man::CompletionsArgs),
    /// Print a man page, or write all of them to a directory. [rw]
    Man(man::ManArgs),
    /// Print the version. [ro]
    Version(version::VersionArgs),
    #[command(hide = true)]
    DemoHub(demo::DemoHubArgs),
    #[command(hide = true)]
    BenchChild(bench::BenchChildArgs),
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            return match error.kind() {
                // `--help` and `--version` are reported by clap as errors, but are normal output.
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                    terminal::print(terminal::styled(&error.render()).trim_end());
                    terminal::stdout_error()
                        .map_or(ExitCode::SUCCESS, |write_error| exit::report(&write_error.into()))
                }
                // The command line may contain text that an agent wrote, so it is sanitized.
                _ => {
                    let rendered = error.render().to_string();
                    let rendered = rendered.replacen("error: ", "error[INVALID]: ", 1);
                    let help = format!("help: see `{} --help`", hints::CommandLine::from_env().command());
                    let rendered = rendered.replace("For more information, try '--help'.", &help);
                    terminal::note(terminal::sanitize_error(rendered.trim_end()));
                    exit::usage()
                }
            };
        }
    };
    if cli.ascii {
        ascii::enable();
    }
    let result = run(cli.command).await;
    // A command that succeeded still fails if its output could not be written. An earlier error takes precedence.
    match (result, terminal::stdout_error()) {
        (Ok(()), None) => ExitCode::SUCCESS,
        (Ok(()), Some(write_error)) => exit::report(&write_error.into()),
        (Err(error), _) => exit::report(&error),
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(args) => demo::run(*args).await,
        Command::Serve(args) => serve::run(*args).await,
        Command::Init(args) => init::run(&args),
        Command::Status(args) => status::run(args).await,
        Command::Tail(args) => tail::run(args).await,
        Command::Msg(args) => msg::run(args).await,
        Command::Request(args) => request::run(args).await,
        Command::Task(args) => task::run(args).await,
        Command::Lock(args) => lock::run(args).await,
        Command::Memory(args) => memory::run(args).await,
        Command::Compress(args) => compress::run(args).await,
        Command::Session(args) => session::run(args).await,
        Command::Agent(args) => agent::run(args).await,
        Command::Vote(args) => vote::run(args),
        Command::Approval(args) => approval::run(args).await,
        Command::Run(args) => run::run(args).await,
        Command::Worker(args) => worker::run(args).await,
        Command::Deliberate(args) => deliberate::run(args).await,
        Command::Procedure(args) => procedure::run(args).await,
        Command::Deliberation(args) => deliberation::run(args).await,
        Command::Flag(args) => flag::run(args).await,
        Command::Policy(args) => policy::run(args).await,
        Command::Budget(args) => budget::run(args).await,
        Command::Token(args) => token::run(args).await,
        Command::Audit(args) => audit::run(args).await,
        Command::Trace(args) => trace::run(args).await,
        Command::Metrics(args) => metrics::run(args).await,
        Command::Config(args) => config::run(args),
        Command::Doctor(args) => doctor::run(args).await,
        Command::Backup(command) => backup::run(command),
        Command::Verify(args) => verify::run(&args),
        Command::Bench(args) => bench::run(args).await,
        Command::Explain(args) => explain::run(&args),
        Command::Completions(args) => {
            man::completions(&args);
            Ok(())
        }
        Command::Man(args) => man::run(&args),
        Command::Version(args) => version::run(&args),
        Command::Cert(command) => cert::run(command),
        Command::DemoHub(args) => demo::hub(args).await,
        Command::BenchChild(args) => bench::child(args).await,
    }
}

#[cfg(test)]
mod malformed_files;
#[cfg(test)]
mod tests;
