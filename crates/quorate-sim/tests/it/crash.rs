//! Crash test: a hub under load is killed with SIGKILL and restarted on the same directory many times. The history of
//! its clients determines the expected contents of the store.
//!
//! `QUORATE_CRASH_CYCLES` sets the number of cycles, `QUORATE_SEED` reproduces the choices of a run.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use quorate_sim::check::{CheckStats, InvariantViolation};
use quorate_sim::history::{Event, unresolved_calls};
use quorate_sim::recovery;
use quorate_sim::seed::{self, Rng};

const CYCLES: u64 = 50;
/// Minimum average of acknowledged calls per cycle for a meaningful run.
const ACKNOWLEDGED_MIN: u64 = 20;
/// Number of cycles above which interrupted calls are certain.
const CYCLES_SIGNIFICANT: u64 = 10;

#[test]
fn acknowledged_calls_survive_sigkill() {
    let seed = seed::run_seed();
    let cycles = seed::env_number("QUORATE_CRASH_CYCLES").unwrap_or(CYCLES);
    let rerun = format!(
        "QUORATE_SEED={seed} QUORATE_CRASH_CYCLES={cycles} \
         cargo test -p quorate-sim --test it crash::"
    );
    println!("rerun: {rerun}");
    let rng = Rng::seeded(seed, "crash");
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut history = Vec::new();
    for cycle in 0..cycles {
        // Sometimes early, so that the startup and the repeat of unknown calls are interrupted too.
        let lines = if rng.percent(20) { rng.below(20) } else { 20 + rng.below(600) };
        run_and_kill(&data, seed, cycle, lines, &mut history);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match runtime.block_on(recovery::check(&data, history)) {
        Ok(stats) => assert_significant(&stats, cycles, &rerun),
        Err(violations) => panic!("{}\nrerun: {rerun}", render(&violations)),
    }
}

/// Starts the hub, reads `lines` events of its history, and kills it.
fn run_and_kill(directory: &Path, seed: u64, cycle: u64, lines: u64, history: &mut Vec<Event>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_crash-child"))
        .arg(directory)
        .args([seed.to_string(), cycle.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for call in unresolved_calls(history) {
        writeln!(input, "{}", serde_json::to_string(&call).unwrap()).unwrap();
    }
    drop(input);
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = Vec::new();
    let mut count = 0;
    loop {
        if count == lines {
            child.kill().unwrap();
        }
        line.clear();
        output.read_until(b'\n', &mut line).unwrap();
        // A line without a newline was cut off by the kill and does not count.
        if line.last() != Some(&b'\n') {
            break;
        }
        count += 1;
        history.push(serde_json::from_slice(&line).unwrap());
    }
    let status = child.wait().unwrap();
    assert_eq!(
        status.signal(),
        Some(9),
        "the hub exited before the kill in cycle {cycle}: {status}; seed {seed}"
    );
    for call in unresolved_calls(history) {
        history.push(Event::Unknown { call: call.id });
    }
}

fn assert_significant(stats: &CheckStats, cycles: u64, rerun: &str) {
    println!("{cycles} cycles: {stats:?}");
    let acknowledged = stats.acknowledged as u64;
    assert!(
        acknowledged >= cycles * ACKNOWLEDGED_MIN,
        "too little was acknowledged to prove anything: {stats:?}; {rerun}"
    );
    if cycles >= CYCLES_SIGNIFICANT {
        assert!(stats.unknown > 0, "nothing was interrupted: {stats:?}; {rerun}");
        assert!(stats.redelivered > 0, "nothing was redelivered: {stats:?}; {rerun}");
        assert!(
            stats.fences > 0 && stats.stale_fences > 0,
            "no lock was granted, or none became stale: {stats:?}; {rerun}"
        );
        assert!(stats.refused > 0 && stats.dead > 0, "no refusal or no dead letter: {stats:?}; {rerun}");
    }
}

fn render(violations: &[InvariantViolation]) -> String {
    let first: Vec<String> = violations.iter().take(20).map(InvariantViolation::to_string).collect();
    format!("{} violations, the first:\n{}", violations.len(), first.join("\n"))
}
