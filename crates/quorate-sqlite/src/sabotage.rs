//! Deliberate bugs, compiled for tests only. Each must make a test fail; otherwise the tests prove nothing.

use quorate_core::{Commit, Op, WorkingState};

/// A deliberate bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// Acknowledge commits before the fsync.
    AcknowledgeBeforeSync,
    /// Use `synchronous=NORMAL`: a commit is acknowledged while it is only in the page cache.
    SyncNormal,
    /// Keep the row of an acked delivery, so that it is redelivered after a restart.
    RedeliverAfterAck,
    /// Accept any lease token as the current one.
    AcceptStaleToken,
    /// Ignore the expected version of a compare-and-set.
    LoseUpdate,
    /// Write the witness of a batch before its sync: after a power loss it states data that never was durable.
    WitnessBeforeSync,
}

impl Sabotage {
    /// All variants.
    pub const ALL: [Self; 6] = [
        Self::AcknowledgeBeforeSync,
        Self::SyncNormal,
        Self::RedeliverAfterAck,
        Self::AcceptStaleToken,
        Self::LoseUpdate,
        Self::WitnessBeforeSync,
    ];
}

/// Modifies a commit before it is decided, for the bugs that are injected there.
pub(crate) fn tamper(sabotage: Option<Sabotage>, mut commit: Commit, working: &WorkingState) -> Commit {
    for op in &mut commit.ops {
        match (sabotage, op) {
            (Some(Sabotage::AcceptStaleToken), Op::Ack(lease)) => {
                let current = working.open(lease.delivery.number).and_then(quorate_core::OpenDelivery::token);
                lease.token = current.unwrap_or(lease.token);
            }
            (Some(Sabotage::LoseUpdate), Op::Put(put)) => put.expect = None,
            _ => {}
        }
    }
    commit
}
