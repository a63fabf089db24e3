//! What a client does with locks.

use quorate_core::{
    AcquireLocks, AgentId, Fence, FenceRef, LockName, Op, Payload, Priority, PutEntry, Waiting,
};
use serde::{Deserialize, Serialize};

/// What a call asks of locks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum LockAct {
    /// All of these locks, now or not at all.
    Take {
        /// Which ones.
        names: Vec<String>,
        /// How long.
        ttl_ms: u64,
    },
    /// A lock is given back.
    Give {
        /// Which one.
        lock: String,
        /// Its fence.
        fence: u64,
    },
    /// A write under a lock.
    Write {
        /// Which lock.
        lock: String,
        /// Its fence.
        fence: u64,
        /// Which entry.
        key: String,
        /// Bytes of padding.
        size: usize,
    },
}

impl LockAct {
    pub(super) fn op(&self, by: &AgentId, content: Option<Payload>) -> Op {
        match (self, content) {
            (Self::Take { names, ttl_ms }, _) => Op::AcquireLocks(AcquireLocks {
                agent: by.clone(),
                names: names.iter().map(|text| name(text)).collect(),
                ttl_ms: *ttl_ms,
                priority: Priority::NORMAL,
                capacity: None,
                waiting: Waiting::No,
                within: None,
            }),
            (Self::Write { lock, fence, key, .. }, Some(content)) => {
                let fence = Some(FenceRef { lock: name(lock), fence: Fence(*fence) });
                Op::Put(PutEntry { expect: None, fence, ..super::put(key, 0, content) })
            }
            (Self::Give { lock, fence } | Self::Write { lock, fence, .. }, _) => {
                Op::ReleaseLocks(vec![FenceRef { lock: name(lock), fence: Fence(*fence) }])
            }
        }
    }
}

fn name(text: &str) -> LockName {
    LockName::new(text).expect("a short name")
}
