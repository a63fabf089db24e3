//! Locks: acquired all or none, granted to the next waiter when released, and validated by fencing tokens.

use std::fmt::Display;

use crate::commit::{ConsumerEvent, GrantedLocks, OpResult, Principal, WaitMode};
use crate::decide::{DecideError, Draft};
use crate::ids::{AgentNo, ConsumerId, DeliveryId, DeliveryNo, Fence, LockName};
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::{LOCK_QUEUE_MAX, LOCK_WAITS_PER_AGENT_MAX, LOCKS_PER_AGENT_MAX};
use crate::lock::{AcquireLocks, FenceRef, Grant, Lock, RenewLocks};
use crate::refused::{Code, Refused};
use crate::working::LockWaiter;

impl Draft<'_> {
    pub(super) fn acquire_locks(&mut self, acquire: &AcquireLocks) -> Result<OpResult, DecideError> {
        self.require_self(&acquire.agent, "acquire locks for")?;
        let agent = self.require_agent(&acquire.agent)?;
        let waiter = LockWaiter {
            agent,
            names: acquire.sorted(),
            ttl_ms: acquire.ttl_ms,
            priority: acquire.priority,
            capacity: acquire.capacity,
            within: acquire.within.and_then(|delivery| self.leased_by(agent, delivery)),
            ticket: self.working.next_ticket(),
            since: self.wait_since(),
            at: self.now.wall,
        };
        if self.working.locks().count_held_by(agent) + waiter.names.len() > LOCKS_PER_AGENT_MAX {
            let detail = format!("agent {} has reached its maximum number of locks", acquire.agent);
            return Err(Refused::new(Code::LimitExceeded, detail)
                .limit(LOCKS_PER_AGENT_MAX as u64)
                .retryable()
                .into());
        }
        let mut locks = Vec::with_capacity(waiter.names.len());
        for name in &waiter.names {
            locks.push(self.lock_with_capacity(name, acquire.capacity)?);
        }
        let busy = locks.iter().find(|lock| {
            !lock.has_capacity() || self.working.locks().has_waiter_ahead(&lock.name, waiter.priority)
        });
        match (busy, acquire.wait) {
            (None, _) => Ok(OpResult::LocksGranted(self.grant_locks(&waiter, locks))),
            (Some(busy), WaitMode::NoWait) => Err(not_available(busy).into()),
            (Some(_), WaitMode::Once(id) | WaitMode::Standing(id)) => {
                self.wait_for_locks(id, waiter)?;
                Ok(OpResult::Queued)
            }
        }
    }

    fn wait_for_locks(&mut self, id: ConsumerId, waiter: LockWaiter) -> Result<(), Refused> {
        self.cancel_lock_wait(id);
        if self.working.locks().count_waits_of(waiter.agent) >= LOCK_WAITS_PER_AGENT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "the agent has too many pending lock requests")
                .limit(LOCK_WAITS_PER_AGENT_MAX as u64)
                .retryable()
                .hint("wait for locks in fewer places concurrently"));
        }
        for name in &waiter.names {
            if self.working.locks().queue_length(name) >= LOCK_QUEUE_MAX {
                return Err(Refused::new(
                    Code::QueueFull,
                    format!("the wait queue of the lock {name} is full"),
                )
                .limit(LOCK_QUEUE_MAX as u64)
                .hint("retry later; no lock was acquired, and the request is not queued"));
            }
        }
        self.working.set_lock_waiter(id, Some(waiter), self.now);
        Ok(())
    }

    /// Removes a waiter from the lock queues. The waiters behind it may be granted their locks.
    pub(super) fn cancel_lock_wait(&mut self, id: ConsumerId) {
        if let Some(waiter) = self.working.locks().waiter(id) {
            self.freed_locks.extend(waiter.names.iter().cloned());
            self.working.set_lock_waiter(id, None, self.now);
        }
    }

    /// Grants locks that have free capacity.
    fn grant_locks(&mut self, waiter: &LockWaiter, locks: Vec<Lock>) -> GrantedLocks {
        let generation = self.working.head.generation;
        let epoch = self.working.agents().get(waiter.agent).map(|agent| agent.epoch).unwrap_or_default();
        let mut granted = Vec::with_capacity(locks.len());
        for mut lock in locks {
            let fence = lock.next_fence(generation);
            lock.last_fence = fence;
            lock.grants.push(Grant {
                fence,
                holder: waiter.agent,
                epoch,
                ttl_ms: waiter.ttl_ms,
                at: self.now.wall,
                seq: self.seq,
                within: waiter.within,
            });
            granted.push(FenceRef { lock: lock.name.clone(), fence });
            self.change_item(Verb::LockGranted, Item::Lock(lock));
        }
        GrantedLocks { locks: granted, ttl_ms: waiter.ttl_ms }
    }

    pub(super) fn renew_locks(&mut self, renew: &RenewLocks) -> Result<OpResult, DecideError> {
        for held in self.held_locks(&renew.locks)? {
            let (lock, fence) = held;
            let Some(grant) = lock.grant(fence) else { continue };
            let key = ItemKey::new(ItemKind::Lock, lock.name.as_str());
            self.working.extend_item_deadline(&key, fence.0, renew.ttl_ms.unwrap_or(grant.ttl_ms), self.now);
        }
        Ok(OpResult::Done)
    }

    pub(super) fn release_locks(&mut self, locks: &[FenceRef]) -> Result<OpResult, DecideError> {
        for (lock, fence) in self.held_locks(locks)? {
            // A grant may be listed twice: read the lock again.
            let lock = self.working.locks().get(&lock.name).filter(|lock| lock.grant(fence).is_some());
            let Some(lock) = lock.cloned() else { continue };
            self.end_grant(lock, fence, Verb::LockReleased);
        }
        Ok(OpResult::Done)
    }

    /// Returns the locks, if the caller holds all of them under these fencing tokens. A refusal lists all stale ones.
    fn held_locks(&self, locks: &[FenceRef]) -> Result<Vec<(Lock, Fence)>, DecideError> {
        let mut held = Vec::with_capacity(locks.len());
        let mut stale: Option<Refused> = None;
        for fence_ref in locks {
            let lock = self.lock(&fence_ref.lock)?.ok_or_else(|| not_found(&fence_ref.lock))?;
            let Some(grant) = lock.grant(fence_ref.fence) else {
                match &mut stale {
                    Some(first) => first
                        .detail
                        .push_str(&format!("; the same applies to {}", describe_lock(&fence_ref.lock))),
                    None => stale = Some(stale_fence(&lock, fence_ref.fence)),
                }
                continue;
            };
            self.require_holder(grant.holder, &lock.name)?;
            held.push((lock, fence_ref.fence));
        }
        stale.map_or(Ok(held), |refused| Err(refused.into()))
    }

    fn require_holder(&self, holder: AgentNo, name: &LockName) -> Result<(), Refused> {
        match &self.commit.principal {
            Principal::Agent(actor) if self.actor != Some(holder) => {
                Err(Refused::new(Code::Forbidden, format!("agent {actor} does not hold the lock {name}"))
                    .hint("only the holder of a lock may renew or release it"))
            }
            Principal::Agent(_) | Principal::System | Principal::Holder { .. } => Ok(()),
        }
    }

    /// Refuses an operation whose fencing token is stale: its grant has ended, and the lock was granted again.
    pub(super) fn check_fence(&self, fence: Option<&FenceRef>) -> Result<(), DecideError> {
        let Some(fence_ref) = fence else { return Ok(()) };
        let lock = self.lock(&fence_ref.lock)?.ok_or_else(|| not_found(&fence_ref.lock))?;
        if lock.accepts(fence_ref.fence, self.working.head.generation) {
            return Ok(());
        }
        Err(stale_fence(&lock, fence_ref.fence).into())
    }

    /// Expires one grant of a lock.
    pub(super) fn expire_lock(&mut self, key: &ItemKey, part: u64) {
        if let Some(Item::Lock(lock)) = self.working.items().get(key) {
            self.end_grant(lock, Fence(part), Verb::LockExpired);
        }
    }

    /// Ends all lock grants and lock waits of an agent.
    pub(super) fn revoke_locks_of(&mut self, agent: AgentNo) {
        let waiting = self.working.locks().waiters().filter(|(_, waiter)| waiter.agent == agent);
        let mut waiting: Vec<_> = waiting.map(|(id, _)| id).collect();
        waiting.sort_unstable();
        for id in waiting {
            self.cancel_lock_wait(id);
            self.dismissed_consumers.push(id);
        }
        for name in self.working.locks().held_by(agent) {
            let fences: Vec<_> = self
                .working
                .locks()
                .get(&name)
                .into_iter()
                .flat_map(|lock| lock.grants.iter().filter(|grant| grant.holder == agent))
                .map(|grant| grant.fence)
                .collect();
            for fence in fences {
                if let Some(lock) = self.working.locks().get(&name).cloned() {
                    self.end_grant(lock, fence, Verb::LockReturned);
                }
            }
        }
    }

    fn end_grant(&mut self, mut lock: Lock, fence: Fence, verb: Verb) {
        lock.grants.retain(|grant| grant.fence != fence);
        self.freed_locks.insert(lock.name.clone());
        self.change_item(verb, Item::Lock(lock));
    }

    /// Grants locks that were released during this commit to the next waiters.
    pub(super) fn grant_freed_locks(&mut self) -> Result<(), DecideError> {
        while let Some(name) = self.freed_locks.pop_first() {
            let Some(id) = self.working.locks().first_waiter(&name) else { continue };
            let Some(waiter) = self.working.locks().waiter(id).cloned() else { continue };
            let Some(locks) = self.locks_with_capacity(id, &waiter)? else { continue };
            // The next waiter may fit as well, if a lock has capacity left.
            self.cancel_lock_wait(id);
            let granted = self.grant_locks(&waiter, locks);
            self.consumer_events.push((id, ConsumerEvent::LocksGranted(granted)));
        }
        Ok(())
    }

    /// Returns all locks of a waiter, if it is first in every queue and every lock has free capacity.
    fn locks_with_capacity(
        &self,
        id: ConsumerId,
        waiter: &LockWaiter,
    ) -> Result<Option<Vec<Lock>>, DecideError> {
        let mut locks = Vec::with_capacity(waiter.names.len());
        for name in &waiter.names {
            if self.working.locks().first_waiter(name) != Some(id) {
                return Ok(None);
            }
            let mut lock = match self.lock(name)? {
                Some(lock) => lock,
                None => Lock::new(name.clone(), 1),
            };
            if let (true, Some(capacity)) = (lock.is_free(), waiter.capacity) {
                lock.capacity = capacity;
            }
            if !lock.has_capacity() {
                return Ok(None);
            }
            locks.push(lock);
        }
        Ok(Some(locks))
    }

    /// Returns a lock, including the effects of this commit.
    fn lock(&self, name: &LockName) -> Result<Option<Lock>, DecideError> {
        if let Some(lock) = self.working.locks().get(name) {
            return Ok(Some(lock.clone()));
        }
        match self.item(&ItemKey::new(ItemKind::Lock, name.as_str()))? {
            Some(Item::Lock(lock)) => Ok(Some(lock)),
            _ => Ok(None),
        }
    }

    /// Returns a lock with the requested capacity, which can only change while the lock is free and has no waiters.
    fn lock_with_capacity(&self, name: &LockName, capacity: Option<u32>) -> Result<Lock, DecideError> {
        let Some(mut lock) = self.lock(name)? else {
            return Ok(Lock::new(name.clone(), capacity.unwrap_or(1)));
        };
        match capacity {
            Some(capacity) if capacity != lock.capacity => {
                if !lock.is_free() || self.working.locks().queue_length(name) > 0 {
                    let detail = format!("the lock {name} is in use with capacity {}", lock.capacity);
                    return Err(Refused::new(Code::Conflict, detail)
                        .limit(u64::from(lock.capacity))
                        .hint("omit the capacity, or change it when the lock is free")
                        .into());
                }
                lock.capacity = capacity;
                Ok(lock)
            }
            _ => Ok(lock),
        }
    }

    /// Returns the delivery, if it is leased to the agent. A false claim must not influence deadlock detection.
    pub(super) fn leased_by(&self, agent: AgentNo, delivery: DeliveryId) -> Option<DeliveryNo> {
        let number = self.working.generations().resolve(delivery).ok()?;
        let open = self.working.open(number)?;
        (open.to.agent_no() == Some(agent) && open.token().is_some()).then_some(number)
    }
}

fn describe_lock(name: impl Display) -> String {
    format!("the lock {name}")
}

fn not_found(name: &LockName) -> Refused {
    Refused::new(Code::NotFound, format!("{} does not exist", describe_lock(name)))
        .hint("check the name; a lock is created when it is first acquired")
}

fn not_available(lock: &Lock) -> Refused {
    let detail = format!("{} is not available", describe_lock(&lock.name));
    Refused::new(Code::Timeout, detail).hint("retry, or wait longer; none of the locks was acquired")
}

fn stale_fence(lock: &Lock, fence: Fence) -> Refused {
    let detail = if fence > lock.last_fence {
        format!("{} never issued fence {fence}", describe_lock(&lock.name))
    } else if fence == lock.last_fence {
        // There is no newer grant: this one was released or expired, or a restore ended it.
        format!("fence {fence} of {} is stale", describe_lock(&lock.name))
    } else {
        format!("fence {fence} of {} is stale; the newest is {}", describe_lock(&lock.name), lock.last_fence)
    };
    let mut refused = Refused::new(Code::StaleFence, detail)
        .hint("another agent may hold the lock: discard this work, or acquire the lock again and redo it");
    refused.facts.current_fence = Some(lock.last_fence.0);
    refused
}
