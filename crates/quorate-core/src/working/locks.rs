//! Locks that are held, and who waits for locks. Waiting is in memory only; after a restart whoever waited asks again.
//!
//! Nobody holds anything while it waits. All who wait have one order, the higher priority first, then the older, and
//! nobody overtakes another at a lock that both want. So the first of all is kept waiting by holders only: no two waits
//! can keep each other up, and no wait for several locks is passed over for ever.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::{AgentNo, ConsumerId, DeliveryNo, LockName, Seq};
use crate::lock::Lock;
use crate::message::Priority;
use crate::time::Now;
use crate::working::{Map, Undo, Working};

/// Somebody who waits for locks.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) agent: AgentNo,
    /// What it wants, by name, each once.
    pub(crate) names: Vec<LockName>,
    pub(crate) ttl_ms: u64,
    pub(crate) priority: Priority,
    /// What it said about the capacity; heeded if the lock is free by then.
    pub(crate) capacity: Option<u32>,
    /// The delivery that its agent works on meanwhile, if it said so.
    pub(crate) within: Option<DeliveryNo>,
    /// Its place in the order of all who wait.
    pub(crate) turn: u64,
    /// The newest record when it began to wait.
    pub(crate) since: Seq,
}

type Place = (Reverse<Priority>, u64, ConsumerId);

impl Waiter {
    fn place(&self, id: ConsumerId) -> Place {
        (Reverse(self.priority), self.turn, id)
    }
}

/// Locks at hand, and who waits for locks, at hand or not.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Map<Arc<str>, Lock>,
    by_holder: Map<AgentNo, BTreeSet<LockName>>,
    waiters: Map<ConsumerId, Waiter>,
    queues: Map<LockName, BTreeSet<Place>>,
    /// How many waits each agent has.
    waits: Map<AgentNo, usize>,
}

impl Locks {
    /// Puts a lock in its place and returns what was there; `None` is a lock that nobody holds.
    pub(super) fn place(&mut self, id: &Arc<str>, new: Option<Lock>) -> Option<Lock> {
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

    /// A lock that somebody holds.
    pub(crate) fn get(&self, name: &LockName) -> Option<&Lock> {
        self.held.get(name.as_str())
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&Lock> {
        self.held.get(id)
    }

    /// The locks that an agent holds, by name.
    pub(crate) fn held_by(&self, agent: AgentNo) -> Vec<LockName> {
        self.by_holder.get(&agent).into_iter().flatten().cloned().collect()
    }

    pub(crate) fn waiter(&self, id: ConsumerId) -> Option<&Waiter> {
        self.waiters.get(&id)
    }

    /// Everybody who waits for locks.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = (ConsumerId, &Waiter)> {
        self.waiters.iter().map(|(id, waiter)| (*id, waiter))
    }

    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// How many waits for locks an agent has.
    pub(crate) fn waits_of(&self, agent: AgentNo) -> usize {
        self.waits.get(&agent).copied().unwrap_or(0)
    }

    /// How many locks an agent holds.
    pub(crate) fn count_held_by(&self, agent: AgentNo) -> usize {
        self.by_holder.get(&agent).map_or(0, BTreeSet::len)
    }

    /// How many wait for a lock.
    pub(crate) fn queue_length(&self, name: &LockName) -> usize {
        self.queues.get(name).map_or(0, BTreeSet::len)
    }

    /// The locks that somebody waits for.
    pub(super) fn awaited(&self) -> impl Iterator<Item = &LockName> {
        self.queues.keys()
    }

    /// Who waits for a lock, first to last.
    pub(crate) fn queue(&self, name: &LockName) -> impl Iterator<Item = ConsumerId> {
        self.queues.get(name).into_iter().flatten().map(|(_, _, id)| *id)
    }

    /// Who is first in line for a lock.
    pub(crate) fn first(&self, name: &LockName) -> Option<ConsumerId> {
        self.queue(name).next()
    }

    /// Whether somebody waits for a lock who goes before a newcomer of this priority.
    pub(crate) fn is_wanted(&self, name: &LockName, priority: Priority) -> bool {
        let first = self.queues.get(name).and_then(BTreeSet::first);
        first.is_some_and(|(Reverse(other), _, _)| *other >= priority)
    }

    pub(super) fn put_waiter(&mut self, id: ConsumerId, new: Option<Waiter>) -> Option<Waiter> {
        let place = new.as_ref().map(|waiter| (waiter.place(id), waiter.names.clone()));
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
                    queue.remove(&old.place(id));
                    if queue.is_empty() {
                        self.queues.remove(name);
                    }
                }
            }
        }
        if let Some((place, names)) = place {
            for name in names {
                self.queues.entry(name).or_default().insert(place);
            }
        }
        old
    }
}

impl Working {
    /// The locks at hand and who waits for locks.
    pub(crate) fn locks(&self) -> &Locks {
        &self.items.locks
    }

    /// Lets somebody wait for locks, or wait no longer.
    pub(crate) fn set_waiter(&mut self, id: ConsumerId, new: Option<Waiter>, now: Now) {
        self.wait_begins(now.mono);
        let ends = new.is_none();
        let before = self.items.locks.put_waiter(id, new);
        let waited = before.as_ref().filter(|_| ends).map(|waiter| waiter.agent);
        self.journal.push(Undo::Waiter(Box::new((id, before))));
        // Whoever waited until now was there until now.
        if let Some(agent) = waited {
            self.hear_of(agent, now);
        }
    }
}
