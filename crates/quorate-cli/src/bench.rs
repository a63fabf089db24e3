//! `quorate bench`: runs the workloads of quorate-bench and prints what they measured.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use quorate_bench::{Scale, WORKLOADS};

use crate::exit::{Ended, USAGE};
use crate::text;

/// Measures this machine.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate bench W0 W1 --quick

W0 is the yardstick: the statements of W1 in a bare loop, without the kernel.
W1 durable cycle, W2 the same over WebSocket, W3 request and response, W4 topic
with 30 subscribers, W5 compare and set, W6 graphs of tasks, W7 atomic step, W8
growth and restart, W9 the durable cycle of 4 KiB over WebSocket. HTTP is sends
over plain HTTP, IDLE what 10,000 silent connections cost, LOAD what 1,000
messages a second cost, READY how long a start takes; what goes over sockets
goes to a hub in a process of its own, and memory and processor are the hub's.
BEATS is what 3,000 agents cost that say every 10 s that they are there, WAITS
what a look at 10,000 waits for a deadlock takes. HOLD is what a caller waits
beside costly commits of another space, and for how long they hold the writer
(holdP99Us, holdMaxUs). DELIBERATE is a deliberation of agents that answer at
once, and 200 of them at once. NEIGHBOUR is the round trip of an agent beside
readers of large pages in another space and in its own.
In JSON, commits counts the transactions of the store, each with one sync, and
perCommit is what one of them carried; syncUs is what the disk took for a sync.")]
pub(crate) struct BenchArgs {
    /// Which workloads, by name; all if none is named.
    workloads: Vec<String>,
    /// Keep each workload under 5 s.
    #[arg(long)]
    quick: bool,
    /// Just enough to see that it works: for tests.
    #[arg(long, hide = true)]
    tiny: bool,
    /// Where to put the data; a temporary directory if not given. A new directory is made in it for each run.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    /// For W8: how many acked messages the log holds at most, in millions.
    #[arg(long, default_value_t = 10, value_name = "N")]
    millions: u64,
}

pub(crate) async fn run(args: BenchArgs) -> anyhow::Result<()> {
    let wanted: Vec<String> = match args.workloads.as_slice() {
        [] => WORKLOADS.map(String::from).to_vec(),
        some => some.iter().map(|name| name.to_uppercase()).collect(),
    };
    if let Some(unknown) = wanted.iter().find(|name| !WORKLOADS.contains(&name.as_str())) {
        let message = format!("there is no workload {}", text::clean_line(unknown));
        return Err(Ended::new(
            USAGE,
            message,
            format!("there are {}; without a name, all run", WORKLOADS.join(" ")),
        )
        .into());
    }
    let part = match (args.tiny, args.quick) {
        (true, _) => 500,
        (false, true) => 20,
        (false, false) => 1,
    };
    let scale = Scale { part, data: args.data, millions: args.millions, binary: std::env::current_exe()? };
    if !args.json {
        text::print(quorate_bench::header());
    }
    let mut w0_per_second = None;
    for name in &wanted {
        let lines =
            quorate_bench::measure(name, &scale).await.with_context(|| format!("workload {name} failed"))?;
        for line in lines {
            if line.workload == "W0" {
                w0_per_second = Some(line.per_second);
            }
            text::print(if args.json { line.to_json().to_string() } else { line.row(w0_per_second) });
        }
    }
    Ok(())
}

/// One measurement of W8, in a process of its own so that its memory is its own: opens a directory, says how long that
/// took, runs cycles, and with `until_killed` goes on until somebody ends it.
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
    quorate_bench::child(&args.directory, args.agents, args.cycles, args.until_killed).await
}
