//! The power goes at any operation of the disk. Whatever was not synced may be lost, kept or torn; what was acknowledged
//! is there, and nothing is half.
//!
//! `QUORATE_POWER_CUTS` sets how many, `QUORATE_SEED` repeats the choices of a run.

use quorate_sim::check::{Tally, Violation};
use quorate_sim::load::Load;
use quorate_sim::power::{Cut, Cutting, NOT_CARRIED_OVER};
use quorate_sim::seed::{self, Dice};
use quorate_sqlite::How;

const CUTS: u64 = 100;
/// Acknowledged calls for each cut on average, below which a run proves nothing.
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
/// A few calls, one at a time, so that each operation of the disk can be the last.
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
/// Enough bytes that the write-ahead log is carried over and started anew while the load goes on.
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
fn acknowledged_work_survives_a_power_cut_at_any_moment() {
    let seed = seed::of_run();
    let cuts = seed::number("QUORATE_POWER_CUTS").unwrap_or(CUTS);
    let again = format!(
        "QUORATE_SEED={seed} QUORATE_POWER_CUTS={cuts} \
         cargo test -p quorate-sim --test it power::acknowledged"
    );
    println!("again: {again}");
    let dice = Dice::seeded(seed, "power");
    let mut sum = Sum::default();
    for number in 0..cuts {
        let cut = Cut {
            op: 1 + dice.below(1000),
            how: *dice.pick(&[How::LoseAll, How::KeepAll, How::Random, How::Random]),
            seed: dice.below(u64::MAX),
            starts: 3,
            load: Load { seed: seed.wrapping_add(number), ..LOAD },
            sabotage: None,
            carry_over_bytes: NOT_CARRIED_OVER,
        };
        sum.add(cut, run(cut), &again);
    }
    println!("{sum:?}");
    assert!(sum.happened * 4 >= cuts, "the power seldom went during the load: {sum:?}; {again}");
    assert!(sum.acknowledged >= cuts * ACKNOWLEDGED_MIN, "too little was acknowledged: {sum:?}; {again}");
}

#[test]
fn every_single_operation_of_the_disk_may_be_the_last() {
    let seed = 7;
    let cut = |op, how| Cut {
        op,
        how,
        seed: op,
        starts: 2,
        load: Load { seed, ..SMALL },
        sabotage: None,
        carry_over_bytes: NOT_CARRIED_OVER,
    };
    let mut sum = Sum::default();
    let mut op = 0;
    loop {
        op += 1;
        // In turn, so that each place in the run meets each kind of loss somewhere near.
        let how = [How::LoseAll, How::Random, How::KeepAll][(op % 3) as usize];
        let cutting = run(cut(op, how));
        let happened = cutting.happened;
        sum.add(cut(op, how), cutting, "cargo test -p quorate-sim --test it power::every_single");
        if !happened {
            break;
        }
    }
    println!("{op} operations: {sum:?}");
    assert!((50..1000).contains(&op), "a small run has {op} operations");
    assert!(sum.acknowledged > op, "too little was acknowledged: {sum:?}");
}

#[test]
fn a_power_cut_while_the_log_is_carried_over_loses_nothing() {
    let seed = seed::of_run();
    let again = format!("QUORATE_SEED={seed} cargo test -p quorate-sim --test it power::a_power_cut");
    println!("again: {again}");
    let dice = Dice::seeded(seed, "carry");
    let cuts = seed::number("QUORATE_POWER_CUTS").unwrap_or(CUTS).div_ceil(25).max(2);
    let mut sum = Sum::default();
    for number in 0..cuts {
        // From about where the log has grown to the length at which it is carried over.
        let op = 700 + dice.below(6_000);
        let how = *dice.pick(&[How::LoseAll, How::Random]);
        let load = Load { seed: seed.wrapping_add(number), ..LARGE };
        let cut = Cut {
            op,
            how,
            seed: dice.below(u64::MAX),
            starts: 1,
            load,
            sabotage: None,
            carry_over_bytes: 1 << 20,
        };
        sum.add(cut, run(cut), &again);
    }
    println!("{sum:?}");
    assert!(sum.happened > 0, "the power never went during the load: {sum:?}; {again}");
    assert!(sum.carried_over > 0, "the log was never carried over: {sum:?}; {again}");
    assert!(sum.acknowledged > 20 * cuts, "too little was acknowledged: {sum:?}; {again}");
}

fn run(cut: Cut) -> Cutting {
    let place = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(cut.run(place.path()))
}

#[derive(Debug, Default)]
struct Sum {
    happened: u64,
    acknowledged: u64,
    unknown: u64,
    ops: u64,
    /// Cuts before which the write-ahead log was carried over, wholly or in part.
    carried_over: u64,
}

impl Sum {
    fn add(&mut self, cut: Cut, cutting: Cutting, again: &str) {
        match cutting.verdict {
            Ok(Tally { acknowledged, unknown, .. }) => {
                self.happened += u64::from(cutting.happened);
                self.acknowledged += acknowledged as u64;
                self.unknown += unknown as u64;
                self.ops += cutting.ops;
                self.carried_over += u64::from(cutting.carried_bytes > 1_000_000);
            }
            Err(violations) => {
                let first: Vec<String> = violations.iter().take(20).map(Violation::to_string).collect();
                panic!(
                    "{cut:?}: {} violations, the first:\n{}\nagain: {again}",
                    violations.len(),
                    first.join("\n")
                );
            }
        }
    }
}
