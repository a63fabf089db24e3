//! Deliberate bugs, compiled for tests only: each must turn a test red, or the tests prove nothing.

use quorate_core::{Commit, Op, Working};

/// A deliberate bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// Acknowledge before the sync.
    AnswerBeforeSync,
    /// `synchronous=NORMAL`: a commit is acknowledged while it is only in the page cache.
    SyncNormal,
    /// Keep the row of an acked delivery, so that it comes back after a restart.
    RedeliverAfterAck,
    /// Take any token for the current one.
    AcceptStaleToken,
    /// Do not look at the expected version.
    LoseUpdate,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::AnswerBeforeSync,
        Self::SyncNormal,
        Self::RedeliverAfterAck,
        Self::AcceptStaleToken,
        Self::LoseUpdate,
    ];
}

/// Changes what a caller asked for.
pub(crate) fn twist(sabotage: Option<Sabotage>, mut commit: Commit, working: &Working) -> Commit {
    for op in &mut commit.ops {
        match (sabotage, op) {
            (Some(Sabotage::AcceptStaleToken), Op::Ack(lease)) => {
                let current = working.open(lease.delivery.number).and_then(quorate_core::Open::token);
                lease.token = current.unwrap_or(lease.token);
            }
            (Some(Sabotage::LoseUpdate), Op::Put(put)) => put.expect = None,
            _ => {}
        }
    }
    commit
}
