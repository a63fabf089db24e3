//! A hub under load is killed with -9, again and again, and started again on the same directory. Its clients' own history
//! says what must be there.
//!
//! `QUORATE_CRASH_CYCLES` sets how often, `QUORATE_SEED` repeats the choices of a run.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use quorate_sim::aftermath;
use quorate_sim::check::{Tally, Violation};
use quorate_sim::history::{Event, unknown};
use quorate_sim::seed::{self, Dice};

const CYCLES: u64 = 50;
/// Acknowledged calls for each cycle on average, below which a run proves nothing.
const ACKNOWLEDGED_MIN: u64 = 20;
/// Cycles from which on chance no longer explains that nothing was interrupted.
const MANY: u64 = 10;

#[test]
fn acknowledged_work_survives_kill_9() {
    let seed = seed::of_run();
    let cycles = seed::number("QUORATE_CRASH_CYCLES").unwrap_or(CYCLES);
    let again = format!(
        "QUORATE_SEED={seed} QUORATE_CRASH_CYCLES={cycles} \
         cargo test -p quorate-sim --test it crash::"
    );
    println!("again: {again}");
    let dice = Dice::seeded(seed, "crash");
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("data");
    let mut history = Vec::new();
    for cycle in 0..cycles {
        // Now and then at once, so that the start and the repetition of what is unknown are interrupted too.
        let lines = if dice.percent(20) { dice.below(20) } else { 20 + dice.below(600) };
        run_and_kill(&directory, seed, cycle, lines, &mut history);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match runtime.block_on(aftermath::check(&directory, history)) {
        Ok(tally) => enough(&tally, cycles, &again),
        Err(violations) => panic!("{}\nagain: {again}", listed(&violations)),
    }
}

/// Starts the hub, reads so many lines of its history, and kills it.
fn run_and_kill(directory: &Path, seed: u64, cycle: u64, lines: u64, history: &mut Vec<Event>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_crash-child"))
        .arg(directory)
        .args([seed.to_string(), cycle.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for call in unknown(history) {
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
        // What the kill cut off was not said.
        if line.last() != Some(&b'\n') {
            break;
        }
        count += 1;
        history.push(serde_json::from_slice(&line).unwrap());
    }
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "the hub ended by itself in cycle {cycle}: {status}; seed {seed}");
    for call in unknown(history) {
        history.push(Event::Unknown { call: call.id });
    }
}

fn enough(tally: &Tally, cycles: u64, again: &str) {
    println!("{cycles} cycles: {tally:?}");
    let acknowledged = tally.acknowledged as u64;
    assert!(
        acknowledged >= cycles * ACKNOWLEDGED_MIN,
        "too little was acknowledged to prove anything: {tally:?}; {again}"
    );
    if cycles >= MANY {
        assert!(tally.unknown > 0, "nothing was interrupted: {tally:?}; {again}");
        assert!(tally.again > 0, "nothing was delivered again: {tally:?}; {again}");
        assert!(tally.fences > 0 && tally.stale > 0, "no lock, or none that was lost: {tally:?}; {again}");
        assert!(tally.refused > 0 && tally.dead > 0, "no refusal or no dead letter: {tally:?}; {again}");
    }
}

fn listed(violations: &[Violation]) -> String {
    let first: Vec<String> = violations.iter().take(20).map(Violation::to_string).collect();
    format!("{} violations, the first:\n{}", violations.len(), first.join("\n"))
}
