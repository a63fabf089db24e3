//! `quorate demo`: agents read a contract, disagree, decide, and ask a person. What else there is to see is behind its flags.

mod accuracy;
mod contract;
mod killed;
mod place;
mod review;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::run::Approve;
use contract::SeedRange;

pub(crate) use killed::{HubArgs, run_hub as hub};

/// See it work.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate demo
         quorate demo --seed 7                 a contract made from a number: the same
                                               number, the same contract and result
         quorate demo --seeds 1..200           how often the agents are right, alone and
                                               together, on contracts whose truth is known
         quorate demo killed                   a queue, and a hub that is killed with -9
         quorate demo --headless --approve auto --json    for machines")]
pub(crate) struct DemoArgs {
    /// What to see.
    #[arg(value_enum, default_value = "contract-review")]
    scenario: Scenario,
    /// A contract made from this number, instead of the one that comes along.
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Of --seed: in words that whoever wrote the readers did not know.
    #[arg(long, requires = "seed")]
    unseen: bool,
    /// Measure on many contracts: FROM..TO, both included.
    #[arg(long, value_name = "FROM..TO", conflicts_with_all = ["data", "resume", "approve", "headless"])]
    seeds: Option<SeedRange>,
    /// Where it is kept on record. The usual directory is made anew each time, any other must be new.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Go on with the demo that is in that directory.
    #[arg(long, conflicts_with_all = ["seed", "seeds"])]
    resume: bool,
    /// Nobody is at the terminal: nothing is asked, and without --approve the letter stays pending.
    #[arg(long)]
    headless: bool,
    /// Who decides about the letter: ask, wait, later or auto, as for `quorate run`.
    #[arg(long, value_name = "HOW")]
    approve: Option<Approve>,
    /// Of `killed`: how many documents the agents work through.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(20..=20_000))]
    documents: u32,
    /// One JSON document instead of the story.
    #[arg(long)]
    json: bool,
}

/// What there is to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Scenario {
    /// Five readers of a contract disagree, discuss, vote, and ask before a letter goes out.
    ContractReview,
    /// Two agents at a queue: one dies, the hub is killed with -9, nothing is lost and nothing done twice.
    Killed,
}

pub(crate) async fn run(args: DemoArgs) -> anyhow::Result<()> {
    match (args.scenario, &args.seeds) {
        (Scenario::Killed, _) => killed::run(args.data, args.documents, args.json).await,
        (Scenario::ContractReview, Some(seeds)) => accuracy::run(seeds, args.json).await,
        (Scenario::ContractReview, None) => review::run(args).await,
    }
}
