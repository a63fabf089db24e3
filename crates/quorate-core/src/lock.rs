//! Locks: named things of which so many agents may each hold one at a time, for a time, under a fence.
//!
//! A fence is greater than every earlier one of its lock. A holder that lost its lock without knowing it is found out by
//! whoever checks the fence: a write that names one is refused once somebody else was given a higher one.

use crate::commit::Waiting;
use crate::ids::{AgentId, AgentNo, DeliveryId, DeliveryNo, Epoch, Fence, Generation, LockName, Seq};
use crate::item::Alarm;
use crate::limits::{LEASE_MS_MAX, LEASE_MS_MIN, LOCK_CAPACITY_MAX, LOCK_NAMES_MAX};
use crate::message::Priority;
use crate::refused::{Code, Refused};
use crate::time::Timestamp;

/// A lock. Its row stays for ever, so that its fences never go back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    /// Its name.
    pub name: LockName,
    /// How many may hold it at the same time.
    pub capacity: u32,
    /// The highest fence that was ever given out; 0 if none was.
    pub last_fence: Fence,
    /// Who holds it, by fence; at most `capacity`.
    pub grants: Vec<Grant>,
}

/// One hold of a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Its fence.
    pub fence: Fence,
    /// Who holds it.
    pub holder: AgentNo,
    /// The start of the holder; a new one ends the hold.
    pub epoch: Epoch,
    /// How long it lasts, also after each renewal that says nothing else.
    pub ttl_ms: u64,
    /// When it was given.
    pub at: Timestamp,
    /// The record that gave it.
    pub seq: Seq,
    /// The delivery that the holder works on under this lock, if it said so.
    pub within: Option<DeliveryNo>,
}

impl Lock {
    /// A lock that was never held.
    #[must_use]
    pub fn new(name: LockName, capacity: u32) -> Self {
        Self { name, capacity, last_fence: Fence(0), grants: Vec::new() }
    }

    /// Whether nobody holds it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.grants.is_empty()
    }

    /// Whether one more may hold it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.grants.len() < self.capacity as usize
    }

    /// The hold with this fence, if it is not over.
    #[must_use]
    pub fn grant(&self, fence: Fence) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.fence == fence)
    }

    /// Whether a write may name this fence: its hold is not over, or nobody was given a higher one since. Of the history
    /// that a restore undid nobody knows that, so none of its fences is good.
    #[must_use]
    pub fn accepts(&self, fence: Fence, generation: Generation) -> bool {
        let newest = fence == self.last_fence && fence.0 > 0;
        self.grant(fence).is_some() || (newest && fence >= Self::first_fence(generation))
    }

    /// No fence that was given out before this generation began is as high.
    pub(crate) fn first_fence(generation: Generation) -> Fence {
        Fence(generation.0 << 24)
    }

    /// The next fence: greater than every earlier one, also those of a history that a restore undid.
    pub(crate) fn next_fence(&self, generation: Generation) -> Fence {
        Fence(self.last_fence.0 + 1).max(Self::first_fence(generation))
    }

    /// Each hold ends after its time, unless it is renewed.
    pub(crate) fn alarms(&self) -> Vec<Alarm> {
        let alarm = |grant: &Grant| Alarm::After { part: grant.fence.0, length_ms: grant.ttl_ms };
        self.grants.iter().map(alarm).collect()
    }
}

/// A lock and the fence under which it is or was held.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FenceRef {
    /// Which lock.
    pub lock: LockName,
    /// The fence.
    pub fence: Fence,
}

/// Asks for locks: all of them or none.
#[derive(Clone, PartialEq, Debug)]
pub struct AcquireLocks {
    /// Who is to hold them.
    pub agent: AgentId,
    /// Which ones. Their order does not matter: they are taken in the order of their names.
    pub names: Vec<LockName>,
    /// How long each hold lasts, also after each renewal that says nothing else.
    pub ttl_ms: u64,
    /// Who of several that wait goes first.
    pub priority: Priority,
    /// How many may hold each at the same time. `None`: what was said before, else one.
    pub capacity: Option<u32>,
    /// What to do when not all can be had.
    pub waiting: Waiting,
    /// The delivery that the agent works on meanwhile: an agent with several at once does not wait as a whole.
    pub within: Option<DeliveryId>,
}

impl AcquireLocks {
    /// The names in the order in which locks are taken, each once.
    pub(crate) fn sorted(&self) -> Vec<LockName> {
        let mut names = self.names.clone();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        check_count(self.names.len())?;
        check_length(self.ttl_ms)?;
        match self.capacity {
            Some(capacity) if !(1..=LOCK_CAPACITY_MAX).contains(&capacity) => {
                Err(Refused::new(Code::LimitExceeded, format!("a lock with the capacity {capacity}"))
                    .limit(u64::from(LOCK_CAPACITY_MAX))
                    .hint(format!("1 to {LOCK_CAPACITY_MAX} may hold a lock at the same time")))
            }
            _ => Ok(()),
        }
    }
}

/// Asks to keep locks: all of them or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenewLocks {
    /// Which ones, each under the fence that it is held with.
    pub locks: Vec<FenceRef>,
    /// How long they are held from now on. `None`: each as long as it was given for. The next renewal that says nothing
    /// goes by what was given again: a renewal is not remembered.
    pub ttl_ms: Option<u64>,
}

impl RenewLocks {
    /// Keeps locks for as long as they were given for.
    #[must_use]
    pub fn again(locks: Vec<FenceRef>) -> Self {
        Self { locks, ttl_ms: None }
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        check_count(self.locks.len())?;
        self.ttl_ms.map_or(Ok(()), check_length)
    }
}

/// Refuses holds that are too short or too long.
fn check_length(ttl_ms: u64) -> Result<(), Refused> {
    if (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&ttl_ms) {
        return Ok(());
    }
    Err(Refused::new(Code::Invalid, format!("a lock for {ttl_ms} ms"))
        .hint(format!("a lock is held {LEASE_MS_MIN} to {LEASE_MS_MAX} ms, and may be renewed")))
}

/// Refuses lists of locks that are empty or too long.
pub(crate) fn check_count(count: usize) -> Result<(), Refused> {
    if (1..=LOCK_NAMES_MAX).contains(&count) {
        return Ok(());
    }
    Err(Refused::new(Code::LimitExceeded, format!("{count} locks at once"))
        .limit(LOCK_NAMES_MAX as u64)
        .hint(format!("name 1 to {LOCK_NAMES_MAX} locks")))
}
