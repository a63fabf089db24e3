//! Lock operations of a client.

use quorate_core::{
    AcquireLocks, AgentId, Fence, FenceRef, LockName, Op, Payload, Priority, PutEntry, WaitMode,
};
use serde::{Deserialize, Serialize};

/// Lock operation of a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum LockOp {
    /// Acquire all of these locks without waiting.
    Acquire {
        /// Lock names.
        names: Vec<String>,
        /// Time to live in milliseconds.
        ttl_ms: u64,
    },
    /// Release a lock.
    Release {
        /// Lock name.
        lock: String,
        /// Fence of the lock.
        fence: u64,
    },
    /// Write an entry under a lock.
    Write {
        /// Lock name.
        lock: String,
        /// Fence of the lock.
        fence: u64,
        /// Key of the entry.
        key: String,
        /// Bytes of padding.
        size: usize,
    },
}

impl LockOp {
    pub(super) fn op(&self, by: &AgentId, content: Option<Payload>) -> Op {
        match (self, content) {
            (Self::Acquire { names, ttl_ms }, _) => Op::AcquireLocks(AcquireLocks {
                agent: by.clone(),
                names: names.iter().map(|text| name(text)).collect(),
                ttl_ms: *ttl_ms,
                priority: Priority::NORMAL,
                capacity: None,
                wait: WaitMode::NoWait,
                within: None,
            }),
            (Self::Write { lock, fence, key, .. }, Some(content)) => {
                let fence = Some(FenceRef { lock: name(lock), fence: Fence(*fence) });
                Op::Put(PutEntry { expect: None, fence, ..super::put(key, 0, content) })
            }
            (Self::Release { lock, fence } | Self::Write { lock, fence, .. }, _) => {
                Op::ReleaseLocks(vec![FenceRef { lock: name(lock), fence: Fence(*fence) }])
            }
        }
    }
}

fn name(text: &str) -> LockName {
    LockName::new(text).expect("valid lock name")
}
