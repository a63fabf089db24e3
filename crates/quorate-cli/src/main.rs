//! The binary `quorate`. stdout is data, stderr is everything else.

mod advice;
mod agent;
mod approval;
mod ascii;
mod audit;
mod backup;
mod bench;
mod cert;
mod config;
mod deliberate;
mod deliberation;
mod demo;
mod doctor;
mod exit;
mod explain;
mod flag;
mod hub;
mod init;
mod man;
mod memory;
mod metrics;
mod msg;
mod playbook;
mod report;
mod run;
mod serve;
mod session;
mod shape;
mod status;
mod tail;
mod task;
mod text;
mod token;
mod trace;
mod verify;
mod version;
mod vote;
mod why;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Where AI agents work together: durable messages and shared memory, with everything on record.
///
/// Each command is tagged [ro] if it only reads or [rw] if it writes.
#[derive(Parser, Debug)]
#[command(name = "quorate", version, arg_required_else_help = true)]
struct Cli {
    /// Plain letters instead of signs; in JSON escapes instead of letters.
    #[arg(long, global = true, help_heading = "Output")]
    ascii: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// See it work: agents read a contract, disagree, decide, and ask you. [rw]
    Demo(Box<demo::DemoArgs>),
    /// Run a hub that agents talk to over HTTP. [rw]
    Serve(Box<serve::ServeArgs>),
    /// Write a commented quorate.yaml here. [rw]
    Init(init::InitArgs),
    /// One screen: what is stuck, what moves, who is there. [ro]
    Status(status::StatusArgs),
    /// Follow what happens, as lines or JSON. [ro]
    Tail(tail::TailArgs),
    /// Send messages, look where they are, give out again what was given up. [rw]
    Msg(msg::MsgArgs),
    /// Tasks: add, look at, cancel; what depends on what. [rw]
    Task(task::TaskArgs),
    /// The shared memory: read, write, look back, go back. [rw]
    Memory(memory::MemoryArgs),
    /// Sessions: open, pause, resume, end, look back. [rw]
    Session(session::SessionArgs),
    /// Agents: who is there; let one in, forget one. [rw]
    Agent(agent::AgentArgs),
    /// Count ballots by the rules that deliberations use. [ro]
    Vote(vote::VoteArgs),
    /// Approvals: what agents may do only if a person lets them. [rw]
    Approval(approval::ApprovalArgs),
    Run(run::RunArgs),
    Deliberate(deliberate::DeliberateArgs),
    /// Deliberations: what was decided, who voted how, what other rules would have decided. [ro]
    Deliberation(deliberation::DeliberationArgs),
    /// Flags: tell the moderators of a concern, and nobody else. [rw]
    Flag(flag::FlagArgs),
    /// Tokens: who is let in. [rw]
    Token(token::TokenArgs),
    /// The log, to be checked without us: verify, read, take along; erase a payload in it. [rw]
    Audit(audit::AuditArgs),
    /// How one thing led to another. [ro]
    Trace(trace::TraceArgs),
    /// The hub's figures, as Prometheus reads them. [ro]
    Metrics(metrics::MetricsArgs),
    /// What holds for commands here, and where that was said. [ro]
    Config(config::ConfigArgs),
    /// Look for what could be wrong, and what to do about it. [ro]
    Doctor(doctor::DoctorArgs),
    /// Copy a data directory, also while a hub works in it, or bring a copy back. [rw]
    #[command(subcommand)]
    Backup(backup::BackupCommand),
    /// Check that a data directory holds what was written. [ro]
    Verify(verify::VerifyArgs),
    /// Measure this machine. [rw]
    Bench(bench::BenchArgs),
    /// Say what an error code means and what to do about it. [ro]
    Explain(explain::ExplainArgs),
    /// Make a certificate for development. [rw]
    #[command(subcommand)]
    Cert(cert::CertCommand),
    /// Print what a shell needs to complete commands. [ro]
    Completions(man::CompletionsArgs),
    /// Print a manual page, or write all of them. [rw]
    Man(man::ManArgs),
    /// Print the version. [ro]
    Version(version::VersionArgs),
    #[command(hide = true)]
    DemoHub(demo::HubArgs),
    #[command(hide = true)]
    BenchChild(bench::BenchChildArgs),
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            return match error.kind() {
                // Help and version are answers, not errors.
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                    text::print(text::painted(&error.render()).trim_end());
                    text::lost().map_or(ExitCode::SUCCESS, |lost| exit::report(&lost.into()))
                }
                // What was typed may be what an agent wrote.
                _ => {
                    let said = error.render().to_string();
                    let said = said.replacen("error: ", "error[INVALID]: ", 1);
                    text::say(text::clean(said.replace("For more information, try", "help: try").trim_end()));
                    exit::usage()
                }
            };
        }
    };
    if cli.ascii {
        ascii::turn_on();
    }
    let done = run(cli.command).await;
    // Data that did not get out is a failure, also of a command whose work is done; what failed before that counts more.
    match (done, text::lost()) {
        (Ok(()), None) => ExitCode::SUCCESS,
        (Ok(()), Some(lost)) => exit::report(&lost.into()),
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
        Command::Task(args) => task::run(args).await,
        Command::Memory(args) => memory::run(args).await,
        Command::Session(args) => session::run(args).await,
        Command::Agent(args) => agent::run(args).await,
        Command::Vote(args) => vote::run(args),
        Command::Approval(args) => approval::run(args).await,
        Command::Run(args) => run::run(args).await,
        Command::Deliberate(args) => deliberate::run(args).await,
        Command::Deliberation(args) => deliberation::run(args).await,
        Command::Flag(args) => flag::run(args).await,
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
mod broken_files;
#[cfg(test)]
mod tests;
