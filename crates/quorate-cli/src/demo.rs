//! `quorate demo`: agents review a contract, vote, and ask a person for approval. Options select other scenarios.

mod accuracy;
mod contract;
mod crash_recovery;
mod directory;
mod pages;
mod review;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::run::ApprovalMode;
use contract::SeedRange;

pub(crate) use crash_recovery::{DemoHubArgs, run_hub as hub};

/// Arguments of `quorate demo`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate demo
         quorate demo --seed 7            review a generated contract
         quorate demo --seeds 1..200      measure the accuracy
         quorate demo crash-recovery      kill a hub with kill -9
         quorate demo --headless --approve auto --json

On a terminal, it pauses after each phase. It ends with a summary and the path of the report as an HTML page. The same seed gives the same contract and result. --seeds measures how often the agents are right, alone \
and as a group, on contracts with a known answer.")]
pub(crate) struct DemoArgs {
    /// Scenario to run.
    #[arg(value_enum, default_value = "contract-review")]
    scenario: Scenario,
    /// Review a contract generated from this seed instead of the bundled one.
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// With --seed: use phrasings that the heuristics were not written for.
    #[arg(long, requires = "seed")]
    unseen: bool,
    /// Measure accuracy on many generated contracts: FROM..TO, inclusive.
    #[arg(long, value_name = "FROM..TO", conflicts_with_all = ["data", "resume", "approve", "headless"])]
    seeds: Option<SeedRange>,
    /// Data directory. By default quorate-demo, which each run replaces; for crash-recovery a temporary directory. A directory given
    /// here must be new, except with --resume.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Resume an interrupted demo.
    #[arg(long, conflicts_with_all = ["seed", "seeds"])]
    resume: bool,
    /// Run without prompts; without --approve, the letter stays pending.
    #[arg(long)]
    headless: bool,
    /// How the approval of the letter is decided [default: `ask` on a terminal, otherwise `later`].
    #[arg(long, value_name = "MODE")]
    approve: Option<ApprovalMode>,
    /// For `crash-recovery`: number of documents to process.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(20..=20_000))]
    documents: u32,
    /// Print one JSON document instead of progress lines.
    #[arg(long)]
    json: bool,
}

/// Scenarios of the demo.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Scenario {
    /// Five agents review a contract, discuss, vote, and request approval before a letter is sent.
    ContractReview,
    /// Two agents process a queue; one crashes, the hub is killed with kill -9; no document is lost, and none has two results.
    CrashRecovery,
}

pub(crate) async fn run(args: DemoArgs) -> anyhow::Result<()> {
    match (args.scenario, &args.seeds) {
        (Scenario::CrashRecovery, _) => crash_recovery::run(args.data, args.documents, args.json).await,
        (Scenario::ContractReview, Some(seeds)) => accuracy::run(seeds, args.json).await,
        (Scenario::ContractReview, None) => review::run(args).await,
    }
}
