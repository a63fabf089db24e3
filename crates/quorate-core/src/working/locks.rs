//! Held locks, and the queues of their waiters. Waits exist in memory only; clients wait again after a restart.
//!
//! A waiter holds none of the locks that it waits for. All waiters have one global order, by priority and then by age,
//! and no waiter overtakes another at a lock that both request. The first waiter is therefore blocked only by holders.
//! So waiters cannot deadlock each other, and a request for several locks cannot starve.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::{AgentNo, ConsumerId, DeliveryNo, LockName, Seq};
use crate::lock::Lock;
use crate::message::Priority;
use crate::time::{Now, Timestamp};
use crate::working::{Map, Undo, WorkingState};

/// A pending request for locks.
#[derive(Clone, Debug)]
pub(crate) struct LockWaiter {
    pub(crate) agent: AgentNo,
    /// The requested locks, sorted, without duplicates.
    pub(crate) names: Vec<LockName>,
    pub(crate) ttl_ms: u64,
    pub(crate) priority: Priority,
    /// Requested capacity; applied if the lock is free when it is granted.
    pub(crate) capacity: Option<u32>,
    /// The delivery that its agent is processing, if stated.
    pub(crate) within: Option<DeliveryNo>,
    /// Ticket number, which orders waiters of equal priority.
    pub(crate) ticket: u64,
    /// The newest record when the wait began.
    pub(crate) since: Seq,
    /// The time at which the wait began.
    pub(crate) at: Timestamp,
}

type QueuePosition = (Reverse<Priority>, u64, ConsumerId);

impl LockWaiter {
    fn queue_position(&self, id: ConsumerId) -> QueuePosition {
        (Reverse(self.priority), self.ticket, id)
    }
}

/// Held locks, and the waiters for held and free locks.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Map<Arc<str>, Lock>,
    by_holder: Map<AgentNo, BTreeSet<LockName>>,
    waiters: Map<ConsumerId, LockWaiter>,
    queues: Map<LockName, BTreeSet<QueuePosition>>,
    /// Number of pending requests of each agent.
    waits: Map<AgentNo, usize>,
}

impl Locks {
    /// Replaces a lock and returns the previous one; `None` stands for a free lock.
    pub(super) fn replace(&mut self, id: &Arc<str>, new: Option<Lock>) -> Option<Lock> {
        let old = self.held.remove(id);
        for (lock, grant) in old.iter().flat_map(|lock| lock.grants.iter().map(move |grant| (lock, grant))) {
            if let Some(names) = self.by_holder.get_mut(&grant.holder) {
                names.remove(&lock.name);
                if names.is_empty() {
                    self.by_holder.remove(&grant.holder);
                }
            }
        }
        if let Some(lock) = new {
            for grant in &lock.grants {
                self.by_holder.entry(grant.holder).or_default().insert(lock.name.clone());
            }
            self.held.insert(Arc::clone(id), lock);
        }
        old
    }

    /// Returns a held lock.
    pub(crate) fn get(&self, name: &LockName) -> Option<&Lock> {
        self.held.get(name.as_str())
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&Lock> {
        self.held.get(id)
    }

    /// Returns the locks that an agent holds, sorted by name.
    pub(crate) fn held_by(&self, agent: AgentNo) -> Vec<LockName> {
        self.by_holder.get(&agent).into_iter().flatten().cloned().collect()
    }

    pub(crate) fn waiter(&self, id: ConsumerId) -> Option<&LockWaiter> {
        self.waiters.get(&id)
    }

    /// Returns all waiters.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = (ConsumerId, &LockWaiter)> {
        self.waiters.iter().map(|(id, waiter)| (*id, waiter))
    }

    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Returns the number of pending lock requests of an agent.
    pub(crate) fn count_waits_of(&self, agent: AgentNo) -> usize {
        self.waits.get(&agent).copied().unwrap_or(0)
    }

    /// Returns the number of locks that an agent holds.
    pub(crate) fn count_held_by(&self, agent: AgentNo) -> usize {
        self.by_holder.get(&agent).map_or(0, BTreeSet::len)
    }

    /// Returns the number of waiters of a lock.
    pub(crate) fn queue_length(&self, name: &LockName) -> usize {
        self.queues.get(name).map_or(0, BTreeSet::len)
    }

    /// Returns the locks that have waiters.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = &LockName> {
        self.queues.keys()
    }

    /// Returns the waiters of a lock, first to last.
    pub(crate) fn queue(&self, name: &LockName) -> impl Iterator<Item = ConsumerId> {
        self.queues.get(name).into_iter().flatten().map(|(_, _, id)| *id)
    }

    /// Returns the first waiter of a lock.
    pub(crate) fn first_waiter(&self, name: &LockName) -> Option<ConsumerId> {
        self.queue(name).next()
    }

    /// Whether a lock has a waiter that precedes a new request of this priority.
    pub(crate) fn has_waiter_ahead(&self, name: &LockName, priority: Priority) -> bool {
        let first = self.queues.get(name).and_then(BTreeSet::first);
        first.is_some_and(|(Reverse(other), _, _)| *other >= priority)
    }

    pub(super) fn put_waiter(&mut self, id: ConsumerId, new: Option<LockWaiter>) -> Option<LockWaiter> {
        let position = new.as_ref().map(|waiter| (waiter.queue_position(id), waiter.names.clone()));
        if let Some(waiter) = &new {
            *self.waits.entry(waiter.agent).or_default() += 1;
        }
        let old = match new {
            Some(waiter) => self.waiters.insert(id, waiter),
            None => self.waiters.remove(&id),
        };
        if let Some(old) = &old {
            if let Some(count) = self.waits.get_mut(&old.agent) {
                *count -= 1;
            }
            for name in &old.names {
                if let Some(queue) = self.queues.get_mut(name) {
                    queue.remove(&old.queue_position(id));
                    if queue.is_empty() {
                        self.queues.remove(name);
                    }
                }
            }
        }
        if let Some((position, names)) = position {
            for name in names {
                self.queues.entry(name).or_default().insert(position);
            }
        }
        old
    }
}

impl WorkingState {
    /// Returns the held locks and the waiters.
    pub(crate) fn locks(&self) -> &Locks {
        &self.items.locks
    }

    /// Adds, replaces or removes a waiter.
    pub(crate) fn set_lock_waiter(&mut self, id: ConsumerId, new: Option<LockWaiter>, now: Now) {
        self.schedule_deadlock_check(now.mono);
        let ends = new.is_none();
        let before = self.items.locks.put_waiter(id, new);
        let agent = before.as_ref().filter(|_| ends).map(|waiter| waiter.agent);
        self.journal.push(Undo::Waiter(Box::new((id, before))));
        // Waiting counts as activity of the agent until now.
        if let Some(agent) = agent {
            self.record_activity(agent, now);
        }
    }
}
