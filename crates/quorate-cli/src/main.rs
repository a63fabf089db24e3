//! The binary `quorate`. stdout is data, stderr is everything else.

mod audit;
mod backup;
mod bench;
mod cert;
mod demo;
mod exit;
mod explain;
mod hex;
mod serve;
mod text;
mod verify;

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
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// See it work: agents at a queue, one dies, the hub is killed with -9, nothing is lost. [rw]
    Demo(demo::DemoArgs),
    /// Run a hub that agents talk to over HTTP. [rw]
    Serve(Box<serve::ServeArgs>),
    /// Check that a data directory holds what was written. [ro]
    Verify(verify::VerifyArgs),
    /// Take the log along, to be checked without us; erase a payload in it. [rw]
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Copy a data directory while it is not in use, or bring a copy back. [rw]
    #[command(subcommand)]
    Backup(backup::BackupCommand),
    /// Measure this machine. [rw]
    Bench(bench::BenchArgs),
    /// Say what an error code means and what to do about it. [ro]
    Explain(explain::ExplainArgs),
    /// Make a certificate for development. [rw]
    #[command(subcommand)]
    Cert(cert::CertCommand),
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
            // Help and version are answers, not errors.
            let usage = !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let _ = error.print();
            return if usage { exit::usage() } else { ExitCode::SUCCESS };
        }
    };
    let result = match cli.command {
        Command::Demo(args) => demo::run(args).await,
        Command::Serve(args) => serve::run(*args).await,
        Command::Verify(args) => verify::run(&args),
        Command::Audit(command) => audit::run(command).await,
        Command::Backup(command) => backup::run(command).await,
        Command::Bench(args) => bench::run(args).await,
        Command::Explain(args) => explain::run(&args),
        Command::Cert(command) => cert::run(command),
        Command::DemoHub(args) => demo::hub(args).await,
        Command::BenchChild(args) => bench::child(args).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}
