//! Harness for procedures of any kind: a run, killed after each of its records and resumed, has the outcome of a run that
//! was not disturbed.

use std::fmt::Debug;
use std::future::Future;

use quorate::Hub;
use quorate_core::{Code, Commit, Op, Refused, Seq};
use quorate_sim::data_directory;
use quorate_sim::fault_store::{FaultRule, InjectedFault};

use crate::deliberation::fixture::hub_with_faults;

/// Maximum number of records after which a run is killed. A longer run is sampled evenly.
const KILLS_MAX: u64 = 60;

/// Size of the commits that the hub accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Commits {
    /// As large as the limits.
    Whole,
    /// At most two outputs, so that each step takes several commits.
    Small,
}

fn rule(kill_after: Seq, commits: Commits) -> FaultRule {
    Box::new(move |commit: &Commit, head: Seq| {
        if head >= kill_after {
            return Some(InjectedFault::Killed);
        }
        let is_output = |op: &&Op| matches!(op, Op::Request(_) | Op::Send { .. } | Op::CreateTasks(_));
        let is_large = commit.ops.iter().filter(is_output).count() > 2;
        let refused = Refused::new(Code::LimitExceeded, "too many messages in one commit");
        (commits == Commits::Small && is_large).then_some(InjectedFault::Refused(refused))
    })
}

/// Runs a procedure undisturbed, then once per record with a kill after that record and a restart. `run` starts the
/// procedure in a hub, or continues it, and returns its outcome without times; `None` if the hub failed. Returns the
/// outcome.
///
/// # Panics
/// If the outcome of an interrupted run differs.
pub(crate) async fn kill_after_each_record<T, F>(commits: Commits, run: impl Fn(Hub) -> F) -> T
where
    T: PartialEq + Debug,
    F: Future<Output = Option<T>>,
{
    let (directory, never) = (data_directory(), Seq(u64::MAX));
    let hub = hub_with_faults(&directory.path().join("whole"), rule(never, commits)).await;
    let space = hub.space().expect("embedded hub").clone();
    let outcome = run(hub).await.expect("no kill");
    let records = space.published().head.seq.0;
    let (mut kills, mut interrupted) = (0, 0);
    for record in (1..=records).step_by(records.div_ceil(KILLS_MAX) as usize) {
        let data = directory.path().join(record.to_string());
        let first = run(hub_with_faults(&data, rule(Seq(record), commits)).await).await;
        (kills, interrupted) = (kills + 1, interrupted + u64::from(first.is_none()));
        let resumed = run(hub_with_faults(&data, rule(never, commits)).await).await;
        assert_eq!(resumed.as_ref(), Some(&outcome), "killed after record {record}");
        std::fs::remove_dir_all(&data).expect("it can be removed");
    }
    println!("{records} records, {kills} kills");
    // The last records may be written after the end of the procedure.
    assert!(interrupted * 10 >= kills * 8, "{interrupted} of {kills}");
    outcome
}
