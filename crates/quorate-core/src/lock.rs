//! Locks: named semaphores with a capacity, held for a limited time under a fencing token.
//!
//! A fencing token is greater than every earlier one of its lock. A write under a fencing token is refused once a higher
//! one was granted, so a holder whose lock expired unnoticed cannot overwrite newer data.

use crate::commit::WaitMode;
use crate::ids::{AgentId, AgentNo, DeliveryId, DeliveryNo, Epoch, Fence, Generation, LockName, Seq};
use crate::item::ItemTimer;
use crate::limits::{LEASE_MS_MAX, LEASE_MS_MIN, LOCK_CAPACITY_MAX, LOCK_NAMES_MAX};
use crate::message::Priority;
use crate::refused::{Code, Refused};
use crate::time::Timestamp;

/// A lock. Its row is retained permanently, so that its fencing tokens never decrease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    /// Name of the lock.
    pub name: LockName,
    /// Maximum number of concurrent holders.
    pub capacity: u32,
    /// Highest fencing token issued so far; 0 if none.
    pub last_fence: Fence,
    /// Current grants, ordered by fencing token; at most `capacity`.
    pub grants: Vec<Grant>,
}

/// A grant of a lock to a holder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Fencing token of the grant.
    pub fence: Fence,
    /// The holder.
    pub holder: AgentNo,
    /// Epoch of the holder; a new registration ends the grant.
    pub epoch: Epoch,
    /// Duration, also of each renewal that does not specify another one.
    pub ttl_ms: u64,
    /// Time of the grant.
    pub at: Timestamp,
    /// The record of the grant.
    pub seq: Seq,
    /// The delivery that the lock is held for, if stated.
    pub within: Option<DeliveryNo>,
}

impl Lock {
    /// Creates a lock that was never held.
    #[must_use]
    pub fn new(name: LockName, capacity: u32) -> Self {
        Self { name, capacity, last_fence: Fence(0), grants: Vec::new() }
    }

    /// Whether it has no holder.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.grants.is_empty()
    }

    /// Whether another holder fits into its capacity.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        self.grants.len() < self.capacity as usize
    }

    /// The active grant with this fencing token.
    #[must_use]
    pub fn grant(&self, fence: Fence) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.fence == fence)
    }

    /// Whether a write under this fencing token is accepted: its grant is active, or no higher token was issued since.
    /// Tokens from before a restore are rejected, because later grants may have been lost.
    #[must_use]
    pub fn accepts(&self, fence: Fence, generation: Generation) -> bool {
        let is_newest = fence == self.last_fence && fence.0 > 0;
        self.grant(fence).is_some() || (is_newest && fence >= Self::first_fence(generation))
    }

    /// Lower bound of the fencing tokens of this generation, above all earlier ones.
    pub(crate) fn first_fence(generation: Generation) -> Fence {
        Fence(generation.0 << 24)
    }

    /// The next fencing token: greater than every earlier one, including those of a history discarded by a restore.
    pub(crate) fn next_fence(&self, generation: Generation) -> Fence {
        Fence(self.last_fence.0 + 1).max(Self::first_fence(generation))
    }

    /// One timer per grant: it expires unless renewed.
    pub(crate) fn timers(&self) -> Vec<ItemTimer> {
        let timer = |grant: &Grant| ItemTimer::After { part: grant.fence.0, length_ms: grant.ttl_ms };
        self.grants.iter().map(timer).collect()
    }
}

/// A lock and a fencing token of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FenceRef {
    /// Name of the lock.
    pub lock: LockName,
    /// Fencing token.
    pub fence: Fence,
}

/// `lock.acquire`: acquires several locks atomically.
#[derive(Clone, PartialEq, Debug)]
pub struct AcquireLocks {
    /// The agent that will hold them.
    pub agent: AgentId,
    /// Names of the locks, in any order: they are acquired in the order of their names.
    pub names: Vec<LockName>,
    /// Duration of each grant, also of each renewal that does not specify another one.
    pub ttl_ms: u64,
    /// Order among waiters.
    pub priority: Priority,
    /// Maximum number of concurrent holders. `None` keeps the current capacity, initially one.
    pub capacity: Option<u32>,
    /// Behaviour if not all locks are available.
    pub wait: WaitMode,
    /// The delivery on whose behalf the agent waits. For deadlock detection, only that delivery counts as blocked.
    pub within: Option<DeliveryId>,
}

impl AcquireLocks {
    /// The names in acquisition order, without duplicates.
    pub(crate) fn sorted(&self) -> Vec<LockName> {
        let mut names = self.names.clone();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        check_lock_count(self.names.len())?;
        check_ttl(self.ttl_ms)?;
        match self.capacity {
            Some(capacity) if !(1..=LOCK_CAPACITY_MAX).contains(&capacity) => {
                Err(Refused::new(Code::LimitExceeded, format!("invalid lock capacity {capacity}"))
                    .limit(u64::from(LOCK_CAPACITY_MAX))
                    .hint(format!("use a capacity of 1 to {LOCK_CAPACITY_MAX}")))
            }
            _ => Ok(()),
        }
    }
}

/// `lock.renew`: renews several locks atomically.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenewLocks {
    /// Locks with the fencing tokens of their grants.
    pub locks: Vec<FenceRef>,
    /// New duration from now on; `None` uses the duration of each grant. It applies to this renewal only and is not stored.
    pub ttl_ms: Option<u64>,
}

impl RenewLocks {
    /// Renews locks for the duration of their grants.
    #[must_use]
    pub fn with_granted_ttl(locks: Vec<FenceRef>) -> Self {
        Self { locks, ttl_ms: None }
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        check_lock_count(self.locks.len())?;
        self.ttl_ms.map_or(Ok(()), check_ttl)
    }
}

/// Refuses durations out of range.
fn check_ttl(ttl_ms: u64) -> Result<(), Refused> {
    if (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&ttl_ms) {
        return Ok(());
    }
    Err(Refused::new(Code::Invalid, format!("invalid lock duration: {ttl_ms} ms"))
        .hint(format!("use {LEASE_MS_MIN} to {LEASE_MS_MAX} ms; locks can be renewed")))
}

/// Refuses empty and too long lists of locks.
pub(crate) fn check_lock_count(count: usize) -> Result<(), Refused> {
    let hint = format!("name 1 to {LOCK_NAMES_MAX} locks");
    match count {
        0 => Err(Refused::new(Code::Invalid, "no locks are named").hint(hint)),
        1..=LOCK_NAMES_MAX => Ok(()),
        _ => Err(Refused::new(Code::LimitExceeded, format!("{count} locks are named"))
            .limit(LOCK_NAMES_MAX as u64)
            .hint(hint)),
    }
}
