//! Locks in plain lists. Grants are stored in the items; deadlines and waiters are in-memory state.

use quorate_core::{
    AcquireLocks, AgentNo, Code, ConsumerEvent, ConsumerId, DeliveryNo, Fence, FenceRef, Grant, GrantedLocks,
    Item, ItemKey, ItemKind, Lock, LockName, Mono, OpResult, Principal, Priority, Refused, RenewLocks, Seq,
    Timestamp, WaitMode, limits,
};

use crate::reference::space::Space;
use crate::reference::transaction::Transaction;

/// Deadline of a granted lock.
#[derive(Clone)]
pub(super) struct LockHold {
    pub(super) name: LockName,
    pub(super) fence: Fence,
    pub(super) ttl_ms: u64,
    pub(super) deadline: Mono,
}

/// Waiter for one or more locks. The list of waiters is in order of arrival.
#[derive(Clone)]
pub(super) struct LockWaiter {
    pub(super) id: ConsumerId,
    pub(super) agent: AgentNo,
    pub(super) names: Vec<LockName>,
    pub(super) ttl_ms: u64,
    pub(super) priority: Priority,
    pub(super) capacity: Option<u32>,
    pub(super) within: Option<DeliveryNo>,
    /// Newest record when the wait began.
    pub(super) since: Seq,
    /// Ordinal of this wait among all waits for locks and tasks.
    pub(super) ordinal: u64,
    /// Time at which the wait began.
    pub(super) at: Timestamp,
}

impl Space {
    pub(super) fn lock(&self, name: &LockName) -> Option<Lock> {
        match self.items.get(&ItemKey::new(ItemKind::Lock, name.as_str())) {
            Some(Item::Lock(lock)) => Some(lock.clone()),
            _ => None,
        }
    }

    pub(super) fn locks(&self) -> Vec<Lock> {
        let held = self.items.values().filter_map(|item| match item {
            Item::Lock(lock) => Some(lock.clone()),
            _ => None,
        });
        held.collect()
    }

    /// Returns the lock waiters in the order in which they are served.
    pub(super) fn lock_queue(&self) -> Vec<LockWaiter> {
        let mut queue = self.lock_waiters.clone();
        // The sort is stable: waiters of the same priority stay in order of arrival.
        queue.sort_by_key(|waiter| std::cmp::Reverse(waiter.priority));
        queue
    }

    fn waiting_for(&self, name: &LockName) -> usize {
        self.lock_waiters.iter().filter(|waiter| waiter.names.contains(name)).count()
    }
}

impl Transaction<'_> {
    pub(super) fn acquire(&mut self, acquire: &AcquireLocks) -> Result<OpResult, Refused> {
        let agent = self.require_own_agent(&acquire.agent)?;
        let mut names = acquire.names.clone();
        names.sort();
        names.dedup();
        let holds = |name: &&LockName| self.grants_of(name).iter().any(|grant| grant.holder == agent);
        let all: Vec<_> = self.all_locks();
        if all.iter().filter(holds).count() + names.len() > limits::LOCKS_PER_AGENT_MAX {
            return Err(too_many_waits(limits::LOCKS_PER_AGENT_MAX));
        }
        for name in &names {
            if let (Some(lock), Some(capacity)) = (self.space.lock(name), acquire.capacity) {
                let in_use = !lock.grants.is_empty() || self.space.waiting_for(name) > 0;
                if in_use && lock.capacity != capacity {
                    return Err(Refused::new(Code::Conflict, "the lock has another capacity")
                        .limit(u64::from(lock.capacity)));
                }
            }
        }
        let waiter = LockWaiter {
            id: ConsumerId(0),
            agent,
            names,
            ttl_ms: acquire.ttl_ms,
            priority: acquire.priority,
            capacity: acquire.capacity,
            within: acquire.within.and_then(|id| self.leased_by(agent, id)),
            since: self.wait_start_seq(),
            ordinal: self.next_wait_ordinal(),
            at: self.now.wall,
        };
        let ahead = |other: &LockWaiter| {
            other.priority >= acquire.priority && other.names.iter().any(|name| waiter.names.contains(name))
        };
        let free = waiter.names.iter().all(|name| self.has_room(name, acquire.capacity));
        if free && !self.space.lock_waiters.iter().any(ahead) {
            return Ok(OpResult::LocksGranted(self.hold_all(&waiter)));
        }
        match acquire.wait {
            WaitMode::NoWait => Err(Refused::new(Code::Timeout, "not all locks are free")),
            WaitMode::Once(id) | WaitMode::Standing(id) => self.enqueue(LockWaiter { id, ..waiter }),
        }
    }

    fn enqueue(&mut self, waiter: LockWaiter) -> Result<OpResult, Refused> {
        self.cancel_lock_wait(waiter.id);
        let own_count = self.space.lock_waiters.iter().filter(|other| other.agent == waiter.agent).count();
        if own_count >= limits::LOCK_WAITS_PER_AGENT_MAX {
            return Err(too_many_waits(limits::LOCK_WAITS_PER_AGENT_MAX));
        }
        if waiter.names.iter().any(|name| self.space.waiting_for(name) >= limits::LOCK_QUEUE_MAX) {
            return Err(Refused::new(Code::QueueFull, "too many waiters for a lock")
                .limit(limits::LOCK_QUEUE_MAX as u64));
        }
        self.schedule_deadlock_check();
        self.space.lock_waiters.push(waiter);
        Ok(OpResult::Queued)
    }

    pub(super) fn cancel_lock_wait(&mut self, id: ConsumerId) {
        for agent in self
            .space
            .lock_waiters
            .iter()
            .filter(|waiter| waiter.id == id)
            .map(|waiter| waiter.agent)
            .collect::<Vec<_>>()
        {
            self.record_activity(agent);
        }
        self.space.lock_waiters.retain(|waiter| waiter.id != id);
    }

    fn all_locks(&self) -> Vec<LockName> {
        let lock = |item: &Item| match item {
            Item::Lock(lock) => Some(lock.name.clone()),
            _ => None,
        };
        self.space.items.values().filter_map(lock).collect()
    }

    fn grants_of(&self, name: &LockName) -> Vec<Grant> {
        self.space.lock(name).map(|lock| lock.grants).unwrap_or_default()
    }

    /// Whether the lock has room for another holder that requests this capacity.
    fn has_room(&self, name: &LockName, capacity: Option<u32>) -> bool {
        let lock = self.space.lock(name);
        let grants = lock.as_ref().map_or(0, |lock| lock.grants.len());
        let current = lock.map_or(1, |lock| lock.capacity);
        let capacity = if grants == 0 { capacity.unwrap_or(current) } else { current };
        grants < capacity as usize
    }

    fn hold_all(&mut self, waiter: &LockWaiter) -> GrantedLocks {
        let mut locks = Vec::new();
        for name in &waiter.names {
            let mut lock = self.space.lock(name).unwrap_or(Lock {
                name: name.clone(),
                capacity: 1,
                last_fence: Fence(0),
                grants: Vec::new(),
            });
            if lock.grants.is_empty() {
                lock.capacity = waiter.capacity.unwrap_or(lock.capacity);
            }
            let fence = Fence((lock.last_fence.0 + 1).max(self.space.number_floor()));
            lock.last_fence = fence;
            lock.grants.push(Grant {
                fence,
                holder: waiter.agent,
                epoch: self.space.agent(waiter.agent).epoch,
                ttl_ms: waiter.ttl_ms,
                at: self.now.wall,
                seq: self.seq,
                within: waiter.within,
            });
            let deadline = self.now.mono.plus_ms(waiter.ttl_ms);
            self.space.holds.push(LockHold { name: name.clone(), fence, ttl_ms: waiter.ttl_ms, deadline });
            self.set_item(Item::Lock(lock));
            locks.push(FenceRef { lock: name.clone(), fence });
        }
        GrantedLocks { locks, ttl_ms: waiter.ttl_ms }
    }

    pub(super) fn renew(&mut self, renew: &RenewLocks) -> Result<OpResult, Refused> {
        self.must_hold(&renew.locks)?;
        let now = self.now.mono;
        for fence_ref in &renew.locks {
            let hold = self
                .space
                .holds
                .iter_mut()
                .find(|hold| hold.name == fence_ref.lock && hold.fence == fence_ref.fence);
            if let Some(hold) = hold {
                hold.deadline = now.plus_ms(renew.ttl_ms.unwrap_or(hold.ttl_ms));
            }
        }
        Ok(OpResult::Done)
    }

    pub(super) fn release(&mut self, locks: &[FenceRef]) -> Result<OpResult, Refused> {
        self.must_hold(locks)?;
        for fence_ref in locks {
            self.end_hold(&fence_ref.lock, fence_ref.fence);
        }
        Ok(OpResult::Done)
    }

    fn must_hold(&self, locks: &[FenceRef]) -> Result<(), Refused> {
        let mut lost = None;
        for fence_ref in locks {
            let lock = self.space.lock(&fence_ref.lock).ok_or_else(|| no_lock(&fence_ref.lock))?;
            match lock.grants.iter().find(|grant| grant.fence == fence_ref.fence) {
                None => lost = lost.or(Some(stale(lock.last_fence))),
                Some(grant) => {
                    if matches!(self.commit.principal, Principal::Agent(_))
                        && self.actor != Some(grant.holder)
                    {
                        return Err(Refused::new(Code::Forbidden, "the lock is held by another agent"));
                    }
                }
            }
        }
        lost.map_or(Ok(()), Err)
    }

    fn end_hold(&mut self, name: &LockName, fence: Fence) {
        if let Some(mut lock) = self.space.lock(name)
            && lock.grants.iter().any(|grant| grant.fence == fence)
        {
            lock.grants.retain(|grant| grant.fence != fence);
            self.space.holds.retain(|hold| hold.name != *name || hold.fence != fence);
            self.set_item(Item::Lock(lock));
        }
    }

    /// Checks a fencing token. It is valid while the lock is held with it, or while it is the newest one. Tokens from
    /// before a restore are not known to be the newest.
    pub(super) fn check_fence(&self, fence_ref: Option<&FenceRef>) -> Result<(), Refused> {
        let Some(fence_ref) = fence_ref else { return Ok(()) };
        let lock = self.space.lock(&fence_ref.lock).ok_or_else(|| no_lock(&fence_ref.lock))?;
        let held = lock.grants.iter().any(|grant| grant.fence == fence_ref.fence);
        let newest = fence_ref.fence == lock.last_fence && fence_ref.fence.0 >= self.space.number_floor();
        if held || newest { Ok(()) } else { Err(stale(lock.last_fence)) }
    }

    pub(super) fn expire_holds(&mut self) {
        let now = self.now.mono;
        let expired: Vec<_> = self.space.holds.iter().filter(|hold| hold.deadline <= now).cloned().collect();
        for hold in expired {
            self.end_hold(&hold.name, hold.fence);
        }
    }

    /// Releases the locks of an agent and dismisses its lock waiters.
    pub(super) fn revoke_locks_of(&mut self, agent: AgentNo) {
        let waiters = self.space.lock_waiters.iter().filter(|waiter| waiter.agent == agent);
        let mut dismissed: Vec<_> = waiters.map(|waiter| waiter.id).collect();
        dismissed.sort_unstable();
        self.space.lock_waiters.retain(|waiter| waiter.agent != agent);
        self.dismissed_consumers.append(&mut dismissed);
        for name in self.all_locks() {
            for grant in self.grants_of(&name) {
                if grant.holder == agent {
                    self.end_hold(&name, grant.fence);
                }
            }
        }
    }

    /// Grants locks to every waiter that is first in the queue of all its locks, once all of them have room.
    pub(super) fn grant_free_locks(&mut self) {
        loop {
            let queue = self.space.lock_queue();
            let ready = queue.iter().enumerate().find(|(index, waiter)| {
                waiter.names.iter().all(|name| {
                    let first = queue[..*index].iter().all(|other| !other.names.contains(name));
                    first && self.has_room(name, waiter.capacity)
                })
            });
            let Some((_, waiter)) = ready else { return };
            self.cancel_lock_wait(waiter.id);
            let granted = self.hold_all(waiter);
            self.consumer_events.push((waiter.id, ConsumerEvent::LocksGranted(granted)));
        }
    }
}

fn no_lock(name: &LockName) -> Refused {
    Refused::new(Code::NotFound, format!("unknown lock {name}"))
}

fn stale(newest: Fence) -> Refused {
    let mut refused = Refused::new(Code::StaleFence, "the fencing token is stale");
    refused.facts.current_fence = Some(newest.0);
    refused
}

fn too_many_waits(limit: usize) -> Refused {
    Refused::new(Code::LimitExceeded, "too many waits for locks").limit(limit as u64)
}
