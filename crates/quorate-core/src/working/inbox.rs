//! One recipient's waiting deliveries and the rule for which goes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{ConsumerId, DeliveryNo, PoolNo};
use crate::limits::{STARVATION_COUNT, STARVATION_MS};
use crate::message::Priority;
use crate::time::Timestamp;
use crate::working::line::Line;
use crate::working::queue::Queue;

/// How long lower priorities have been passed over. Counted since the hub's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fairness {
    /// Deliveries of higher priority that went out while a lower one waited.
    pub(crate) passed_over: u32,
    /// When a lower one last had its turn.
    pub(crate) turn_at: Timestamp,
}

impl Fairness {
    /// Whether a lower one that has waited since then has its turn now.
    pub(super) fn is_lower_turn(self, since: Timestamp, now: Timestamp) -> bool {
        self.passed_over >= STARVATION_COUNT || self.has_waited(since, now)
    }

    /// Whether what has waited since then, and since the last turn of a lower one, has waited long enough.
    pub(super) fn has_waited(self, since: Timestamp, now: Timestamp) -> bool {
        since.max(self.turn_at).plus_ms(STARVATION_MS) <= now
    }
}

/// One recipient's deliveries.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Deliveries that have not ended.
    pub(crate) open: usize,
    /// Deliveries that are held.
    pub(crate) leased: BTreeSet<DeliveryNo>,
    pub(crate) fairness: Fairness,
    /// Highest priority first; within one, the oldest number first, also after a redelivery.
    ready: BTreeMap<Reverse<Priority>, Queue>,
    /// Consumers that wait for this.
    pub(super) line: Line,
    /// All consumers of this recipient, with credit or without.
    pub(super) consumers: usize,
    /// The pools that this recipient may take from; none for a pool.
    pub(super) pools: Vec<PoolNo>,
    /// Deliveries that wait and do not want to, should this recipient go offline.
    pub(super) restless: BTreeSet<DeliveryNo>,
}

/// Which delivery goes out next.
pub(crate) struct Choice {
    pub(crate) number: DeliveryNo,
    /// What the inbox remembers once it has gone out.
    pub(crate) fairness: Fairness,
}

impl Inbox {
    pub(super) fn insert_ready(&mut self, priority: Priority, number: DeliveryNo, since: Timestamp) {
        self.ready.entry(Reverse(priority)).or_default().insert(number, since);
    }

    pub(super) fn remove_ready(&mut self, priority: Priority, number: DeliveryNo) {
        if let Some(queue) = self.ready.get_mut(&Reverse(priority)) {
            queue.remove(number);
            if queue.is_empty() {
                self.ready.remove(&Reverse(priority));
            }
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether somebody waits in line.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.line.is_empty()
    }

    /// Who is first in line.
    pub(crate) fn first_in_line(&self) -> Option<ConsumerId> {
        self.line.first().map(|(_, id)| *id)
    }

    pub(crate) fn consumers(&self) -> usize {
        self.consumers
    }

    /// The oldest ready deliveries, whatever their priority.
    pub(crate) fn ready_numbers(&self) -> impl Iterator<Item = DeliveryNo> {
        self.ready.values().flat_map(Queue::numbers)
    }

    /// How many ready deliveries go out from here before this one, if it is ready and no lower one has its turn.
    pub(crate) fn ahead_of(&self, priority: Priority, number: DeliveryNo) -> Option<usize> {
        let same = self.ready.get(&Reverse(priority))?;
        let higher: usize = self.ready.range(..Reverse(priority)).map(|(_, queue)| queue.len()).sum();
        Some(higher + same.place_of(number)?)
    }

    /// The pools that this recipient may take from.
    pub(crate) fn pools(&self) -> &[PoolNo] {
        &self.pools
    }

    /// The delivery that goes out next from here: the highest priority, the oldest first; but after 64 of higher
    /// priority, or 60 s of waiting, one lower: the one that has waited longest.
    pub(crate) fn choose(&self, now: Timestamp) -> Option<Choice> {
        let mut queues = self.ready.values();
        let top = queues.next()?.first()?;
        Some(Choice::between(top, queues.filter_map(Queue::longest).min(), self.fairness, now))
    }

    /// The same, from here and from pools.
    pub(crate) fn choose_with<'a>(
        &'a self,
        pools: impl Iterator<Item = &'a Inbox>,
        now: Timestamp,
    ) -> Option<Choice> {
        let inboxes: Vec<&Inbox> = std::iter::once(self).chain(pools).collect();
        let queues = || inboxes.iter().flat_map(|inbox| inbox.ready.iter());
        let highest = queues().map(|(priority, _)| *priority).min()?;
        let top = queues().filter(|(priority, _)| **priority == highest);
        let top = top.filter_map(|(_, queue)| queue.first()).min()?;
        let lower = queues().filter(|(priority, _)| **priority != highest);
        let lower = lower.filter_map(|(_, queue)| queue.longest()).min();
        Some(Choice::between(top, lower, self.fairness, now))
    }
}

impl Choice {
    /// The oldest of the highest priority, or the one of a lower that has waited longest, if it has its turn.
    fn between(
        top: DeliveryNo,
        lower: Option<(Timestamp, DeliveryNo)>,
        remembered: Fairness,
        now: Timestamp,
    ) -> Self {
        let Some((since, lower)) = lower else {
            return Self { number: top, fairness: Fairness { passed_over: 0, ..remembered } };
        };
        if remembered.is_lower_turn(since, now) {
            return Self { number: lower, fairness: Fairness { passed_over: 0, turn_at: now } };
        }
        let fairness = Fairness { passed_over: remembered.passed_over + 1, ..remembered };
        Self { number: top, fairness }
    }
}
