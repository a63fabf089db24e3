//! Child process of the crash test: runs a workload on a data directory and prints its history until it is killed with
//! SIGKILL.
//!
//! Standard input contains the calls with an unknown outcome, one JSON document per line. They are repeated first.

// The history is written to standard output for the parent process.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use quorate_sim::history::{Call, Event};
use quorate_sim::load::{self, Load, Recorder};
use quorate_sim::recovery;

/// Effectively unlimited: the parent kills this process long before.
const CALLS_MAX: u64 = 1_000_000;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().expect("crash-child DIRECTORY SEED RUN");
    let directory = PathBuf::from(next());
    let seed: u64 = next().parse().expect("a seed");
    let run: u64 = next().parse().expect("a run number");
    let lines = std::io::stdin().lock().lines();
    let unknown: Vec<Call> =
        lines.map(|line| serde_json::from_str(&line.expect("a line")).expect("a call")).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("runtime builds").block_on(work(directory, seed, run, unknown));
    eprintln!("crash-child: the workload ended before the process was killed");
    std::process::exit(3);
}

async fn work(directory: PathBuf, seed: u64, run: u64, unknown: Vec<Call>) {
    // One event per line, written under a lock and flushed before the next step.
    let record: Recorder = Arc::new(|event: Event| {
        let mut line = serde_json::to_vec(&event).expect("event serializes");
        line.push(b'\n');
        let mut out = std::io::stdout().lock();
        out.write_all(&line).and_then(|()| out.flush()).expect("parent reads stdout");
    });
    let space = match recovery::open(
        &directory,
        quorate_sqlite::Options { flush_rows: 100, ..quorate_sqlite::Options::default() },
    )
    .await
    {
        Ok(space) => space,
        Err(error) => return eprintln!("crash-child: {error}"),
    };
    record(recovery::opened_event(&space));
    load::repeat_calls(&space, unknown, &record).await;
    let load = Load {
        seed,
        run,
        agents: 4,
        senders: 4,
        workers: 3,
        writers: 3,
        lockers: 3,
        calls: CALLS_MAX,
        size_max: 9000,
        large_percent: 10,
    };
    load::run(&space, load, &record).await;
}
