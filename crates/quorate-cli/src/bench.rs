//! `quorate bench`: runs the workloads of `quorate-bench` and prints the results.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use quorate_bench::{Scale, WORKLOADS};

use crate::exit::{CommandError, USAGE};
use crate::terminal;

/// Arguments of `quorate bench`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate bench W0 W1 --quick

Workloads:

  W0          baseline: the SQL statements of W1 in a plain loop
  W1          durable cycle: send, claim, ack
  W2          the same over WebSocket
  W3          request and response
  W4          topic with 30 subscribers
  W5          compare-and-set
  W6          task graphs
  W7          atomic step
  W8          growth of the log, and restart
  W9          durable cycle with 4 KiB payloads over WebSocket
  HTTP        sends over plain HTTP
  IDLE        cost of 10,000 idle connections
  LOAD        cost of 1,000 messages per second
  READY       startup time
  BEATS       cost of 3,000 agents with a heartbeat every 10 s
  WAITS       deadlock detection in a wait-for graph of 10,000 waits
  HOLD        latency of a caller while another space commits large batches,
              and how long those occupy the writer (holdP99Us, holdMaxUs)
  DELIBERATE  one deliberation of agents that answer immediately, and 200 in
              parallel
  TOURNAMENT  one tournament of 50 contestants and 500 matches, with judges
              that answer immediately
  NEIGHBOUR   round trip of an agent while other clients request large
              responses and do not read them, stall, or fill quotas, in
              another space and in its own

Network workloads run against a hub in a separate process; memory and CPU are the hub's. In JSON, commits \
is the number of store transactions, each with one fsync, perCommit the operations per transaction, and \
syncUs the duration of an fsync.")]
pub(crate) struct BenchArgs {
    /// Workloads to run; by default all.
    workloads: Vec<String>,
    /// Limit each workload to 5 s.
    #[arg(long)]
    quick: bool,
    /// Run the smallest possible size, for tests.
    #[arg(long, hide = true)]
    tiny: bool,
    /// Parent of the data directories, one per run; by default a temporary directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
    /// Binary that the network workloads and W8 start; by default this one. Use it to compare releases.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// For W8: maximum number of acked messages in the log, in millions.
    #[arg(long, default_value_t = 10, value_name = "N")]
    millions: u64,
}

pub(crate) async fn run(args: BenchArgs) -> anyhow::Result<()> {
    let names: Vec<String> = match args.workloads.as_slice() {
        [] => WORKLOADS.map(String::from).to_vec(),
        given => given.iter().map(|name| name.to_uppercase()).collect(),
    };
    if let Some(unknown) = names.iter().find(|name| !WORKLOADS.contains(&name.as_str())) {
        let message = format!("there is no workload {}", terminal::sanitize_line(unknown));
        return Err(CommandError::new(
            USAGE,
            message,
            format!("the workloads are {}; omit them to run all", WORKLOADS.join(" ")),
        )
        .into());
    }
    let divisor = match (args.tiny, args.quick) {
        (true, _) => 500,
        (false, true) => 20,
        (false, false) => 1,
    };
    let scale = Scale {
        divisor,
        data: args.data,
        acked_millions_max: args.millions,
        binary: args.binary.map_or_else(std::env::current_exe, Ok)?,
    };
    if !args.json {
        terminal::print(quorate_bench::table_header());
    }
    let mut w0_per_second = None;
    for name in &names {
        let lines =
            quorate_bench::measure(name, &scale).await.with_context(|| format!("workload {name} failed"))?;
        for line in lines {
            if line.workload == "W0" {
                w0_per_second = Some(line.per_second);
            }
            terminal::print(if args.json { line.to_json().to_string() } else { line.to_row(w0_per_second) });
        }
    }
    Ok(())
}

/// One measurement of W8, in a separate process so that its memory can be measured. Opens a directory, prints how long that
/// took, runs cycles, and with `until_killed` keeps running until it is killed.
#[derive(Args, Debug)]
pub(crate) struct BenchChildArgs {
    directory: PathBuf,
    #[arg(long)]
    agents: usize,
    #[arg(long)]
    cycles: u64,
    #[arg(long)]
    until_killed: bool,
}

pub(crate) async fn child(args: BenchChildArgs) -> anyhow::Result<()> {
    quorate_bench::growth_child(&args.directory, args.agents, args.cycles, args.until_killed).await
}
