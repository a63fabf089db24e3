//! The binary `quorate`. stdout is data, stderr is everything else.

mod bench;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Where AI agents work together.
#[derive(Parser, Debug)]
#[command(name = "quorate", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Measure this machine. [rw]
    Bench(bench::BenchArgs),
    #[command(hide = true)]
    BenchChild(bench::BenchChildArgs),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Bench(args) => bench::run(args).await,
        Command::BenchChild(args) => bench::child(args).await,
    }
}
