//! Power cuts at any disk operation. Unsynced data may be lost, kept or torn; acknowledged commits are durable, and
//! every commit is atomic.
//!
//! `QUORATE_POWER_CUTS` sets the number of cuts, `QUORATE_SEED` reproduces the choices of a run.

use quorate_sim::check::{CheckStats, InvariantViolation};
use quorate_sim::load::Load;
use quorate_sim::power::{NO_CHECKPOINT, PowerCut, PowerCutOutcome};
use quorate_sim::seed::{self, Rng};
use quorate_sqlite::UnsyncedData;

const CUTS: u64 = 100;
/// Minimum average of acknowledged calls per cut for a meaningful run.
const ACKNOWLEDGED_MIN: u64 = 20;

const LOAD: Load = Load {
    seed: 0,
    run: 0,
    agents: 3,
    senders: 3,
    workers: 2,
    writers: 2,
    lockers: 2,
    calls: 80,
    size_max: 9000,
    large_percent: 10,
};
/// A few sequential calls, so that the power can be cut at every single disk operation.
const SMALL: Load = Load {
    seed: 0,
    run: 0,
    agents: 1,
    senders: 1,
    workers: 1,
    writers: 0,
    lockers: 0,
    calls: 2,
    size_max: 100,
    large_percent: 0,
};
/// Enough bytes to trigger a checkpoint and a restart of the write-ahead log during the load.
const LARGE: Load = Load {
    seed: 0,
    run: 0,
    agents: 2,
    senders: 4,
    workers: 2,
    writers: 1,
    lockers: 1,
    calls: 280,
    size_max: 500_000,
    large_percent: 100,
};

#[test]
fn acknowledged_calls_survive_a_power_cut_at_a_random_operation() {
    let seed = seed::run_seed();
    let cuts = seed::env_number("QUORATE_POWER_CUTS").unwrap_or(CUTS);
    let rerun = format!(
        "QUORATE_SEED={seed} QUORATE_POWER_CUTS={cuts} \
         cargo test -p quorate-sim --test it a_power_cut_at_a_random_operation"
    );
    println!("rerun: {rerun}");
    let rng = Rng::seeded(seed, "power");
    let mut totals = Totals::default();
    for number in 0..cuts {
        let cut = PowerCut {
            at_op: 1 + rng.below(1000),
            unsynced: *rng.pick(&[
                UnsyncedData::LoseAll,
                UnsyncedData::KeepAll,
                UnsyncedData::Random,
                UnsyncedData::Random,
            ]),
            seed: rng.below(u64::MAX),
            starts: 3,
            load: Load { seed: seed.wrapping_add(number), ..LOAD },
            sabotage: None,
            checkpoint_bytes: NO_CHECKPOINT,
        };
        totals.add(cut, run(cut), &rerun);
    }
    println!("{totals:?}");
    assert!(totals.interrupted * 4 >= cuts, "too few power cuts during the load: {totals:?}; {rerun}");
    assert!(
        totals.acknowledged >= cuts * ACKNOWLEDGED_MIN,
        "too little was acknowledged: {totals:?}; {rerun}"
    );
}

#[test]
fn acknowledged_calls_survive_a_power_cut_at_every_disk_operation() {
    let seed = 7;
    let cut = |op, unsynced| PowerCut {
        at_op: op,
        unsynced,
        seed: op,
        starts: 2,
        load: Load { seed, ..SMALL },
        sabotage: None,
        checkpoint_bytes: NO_CHECKPOINT,
    };
    let mut totals = Totals::default();
    let mut op = 0;
    loop {
        op += 1;
        // In turn, so that every part of the run meets every kind of loss.
        let unsynced =
            [UnsyncedData::LoseAll, UnsyncedData::Random, UnsyncedData::KeepAll][(op % 3) as usize];
        let outcome = run(cut(op, unsynced));
        let interrupted = outcome.interrupted;
        totals.add(
            cut(op, unsynced),
            outcome,
            "cargo test -p quorate-sim --test it a_power_cut_at_every_disk_operation",
        );
        if !interrupted {
            break;
        }
    }
    println!("{op} operations: {totals:?}");
    assert!((50..1000).contains(&op), "a small run has {op} operations");
    assert!(totals.acknowledged > op, "too little was acknowledged: {totals:?}");
}

#[test]
fn a_power_cut_during_a_checkpoint_loses_nothing() {
    let seed = seed::run_seed();
    let rerun =
        format!("QUORATE_SEED={seed} cargo test -p quorate-sim --test it a_power_cut_during_a_checkpoint");
    println!("rerun: {rerun}");
    let rng = Rng::seeded(seed, "carry");
    let cuts = seed::env_number("QUORATE_POWER_CUTS").unwrap_or(CUTS).div_ceil(25).max(2);
    let mut totals = Totals::default();
    for number in 0..cuts {
        // Starts roughly where the log reaches the checkpoint threshold.
        let op = 700 + rng.below(6_000);
        let unsynced = *rng.pick(&[UnsyncedData::LoseAll, UnsyncedData::Random]);
        let load = Load { seed: seed.wrapping_add(number), ..LARGE };
        let cut = PowerCut {
            at_op: op,
            unsynced,
            seed: rng.below(u64::MAX),
            starts: 1,
            load,
            sabotage: None,
            checkpoint_bytes: 1 << 20,
        };
        totals.add(cut, run(cut), &rerun);
    }
    println!("{totals:?}");
    assert!(totals.interrupted > 0, "no power cut during the load: {totals:?}; {rerun}");
    assert!(totals.checkpointed > 0, "no checkpoint ran: {totals:?}; {rerun}");
    assert!(totals.acknowledged > 20 * cuts, "too little was acknowledged: {totals:?}; {rerun}");
}

fn run(cut: PowerCut) -> PowerCutOutcome {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(cut.run(directory.path()))
}

#[derive(Debug, Default)]
struct Totals {
    interrupted: u64,
    acknowledged: u64,
    unknown: u64,
    ops: u64,
    /// Cuts before which a checkpoint ran, completely or in part.
    checkpointed: u64,
}

impl Totals {
    fn add(&mut self, cut: PowerCut, outcome: PowerCutOutcome, rerun: &str) {
        match outcome.result {
            Ok(CheckStats { acknowledged, unknown, .. }) => {
                self.interrupted += u64::from(outcome.interrupted);
                self.acknowledged += acknowledged as u64;
                self.unknown += unknown as u64;
                self.ops += outcome.ops;
                self.checkpointed += u64::from(outcome.checkpointed_bytes > 1_000_000);
            }
            Err(violations) => {
                let first: Vec<String> =
                    violations.iter().take(20).map(InvariantViolation::to_string).collect();
                panic!(
                    "{cut:?}: {} violations, the first:\n{}\nrerun: {rerun}",
                    violations.len(),
                    first.join("\n")
                );
            }
        }
    }
}
