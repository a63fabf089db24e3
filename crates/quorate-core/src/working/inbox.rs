//! The open deliveries of one recipient, and the order in which they are dispatched.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{AgentNo, ConsumerId, DeliveryNo, PoolNo};
use crate::limits::{STARVATION_COUNT, STARVATION_MS};
use crate::message::Priority;
use crate::recipient::Recipient;
use crate::time::Timestamp;
use crate::working::Map;
use crate::working::consumers::ConsumerQueue;
use crate::working::ready_queue::ReadyQueue;

/// Starvation protection: tracks how long lower priorities have been passed over since the hub's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fairness {
    /// Number of higher-priority deliveries dispatched while a lower one waited.
    pub(crate) passed_over: u32,
    /// Time at which a lower-priority delivery was last preferred.
    pub(crate) lower_served_at: Timestamp,
}

impl Fairness {
    /// Whether a lower-priority delivery that has waited since `since` is preferred now.
    pub(super) fn prefers_lower(self, since: Timestamp, now: Timestamp) -> bool {
        self.passed_over >= STARVATION_COUNT || self.is_starved(since, now)
    }

    /// Whether a lower-priority delivery has waited too long, counted from `since` or from the last preferred one.
    pub(super) fn is_starved(self, since: Timestamp, now: Timestamp) -> bool {
        since.max(self.lower_served_at).plus_ms(STARVATION_MS) <= now
    }
}

/// The deliveries of one agent or pool.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Number of open deliveries.
    pub(crate) open: usize,
    /// Number of deliveries that each sender added since there are many, counted since the hub's start.
    pub(super) crowded_sends: Map<AgentNo, u32>,
    /// Deliveries that the agent leases, of its inbox and of pools.
    pub(crate) leased: BTreeSet<DeliveryNo>,
    /// How many of these are of pools, and so not counted in `open`.
    pub(crate) leased_from_pools: usize,
    pub(crate) fairness: Fairness,
    /// Highest priority first; within a priority the lowest number first, also after a redelivery.
    ready: BTreeMap<Reverse<Priority>, ReadyQueue>,
    /// Consumers with credit that wait for deliveries.
    pub(super) waiting: ConsumerQueue,
    /// Number of consumers, with or without credit.
    pub(super) consumers: usize,
    /// The pools that this agent serves; empty for a pool.
    pub(super) pools: Vec<PoolNo>,
    /// Waiting deliveries that must be redirected or dead-lettered if this agent goes offline.
    pub(super) needs_online: BTreeSet<DeliveryNo>,
}

/// The next delivery to dispatch.
pub(crate) struct Choice {
    pub(crate) number: DeliveryNo,
    /// The fairness state of the inbox after this dispatch.
    pub(crate) fairness: Fairness,
}

impl Inbox {
    pub(super) fn insert_leased(&mut self, number: DeliveryNo, to: Recipient) {
        self.leased.insert(number);
        self.leased_from_pools += usize::from(to.pool_no().is_some());
    }

    pub(super) fn remove_leased(&mut self, number: DeliveryNo, to: Recipient) {
        self.leased.remove(&number);
        self.leased_from_pools -= usize::from(to.pool_no().is_some());
    }

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

    /// Whether a consumer with credit waits.
    pub(crate) fn has_waiting_consumers(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the first waiting consumer.
    pub(crate) fn first_waiting_consumer(&self) -> Option<ConsumerId> {
        self.waiting.first().map(|(_, id)| *id)
    }

    pub(crate) fn consumers(&self) -> usize {
        self.consumers
    }

    /// Returns the ready deliveries, by priority, then by number.
    pub(crate) fn ready_numbers(&self) -> impl Iterator<Item = DeliveryNo> {
        self.ready.values().flat_map(ReadyQueue::numbers)
    }

    /// Returns the number of ready deliveries ahead of this one, if it is ready. Ignores starvation protection.
    pub(crate) fn ahead_of(&self, priority: Priority, number: DeliveryNo) -> Option<usize> {
        let same = self.ready.get(&Reverse(priority))?;
        let higher: usize = self.ready.range(..Reverse(priority)).map(|(_, queue)| queue.len()).sum();
        Some(higher + same.position_of(number)?)
    }

    /// Returns the pools that this agent serves.
    pub(crate) fn pools(&self) -> &[PoolNo] {
        &self.pools
    }

    /// Returns the next delivery to dispatch: the lowest number of the highest priority. After 64 dispatches of higher
    /// priority, or 60 s of waiting, the longest-waiting delivery of a lower priority is preferred once.
    pub(crate) fn choose(&self, now: Timestamp) -> Option<Choice> {
        let mut queues = self.ready.values();
        let top = queues.next()?.first()?;
        Some(Choice::between(top, queues.filter_map(ReadyQueue::longest_waiting).min(), self.fairness, now))
    }

    /// Like [`Inbox::choose`], over this inbox and the given pools.
    pub(crate) fn choose_with_pools<'a>(
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
        let lower = lower.filter_map(|(_, queue)| queue.longest_waiting()).min();
        Some(Choice::between(top, lower, self.fairness, now))
    }
}

impl Choice {
    /// Chooses between the first delivery of the highest priority and the longest-waiting one of a lower priority.
    fn between(
        top: DeliveryNo,
        lower: Option<(Timestamp, DeliveryNo)>,
        fairness_before: Fairness,
        now: Timestamp,
    ) -> Self {
        let Some((since, lower)) = lower else {
            return Self { number: top, fairness: Fairness { passed_over: 0, ..fairness_before } };
        };
        if fairness_before.prefers_lower(since, now) {
            return Self { number: lower, fairness: Fairness { passed_over: 0, lower_served_at: now } };
        }
        let fairness = Fairness { passed_over: fairness_before.passed_over + 1, ..fairness_before };
        Self { number: top, fairness }
    }
}
