//! The wait-for graph: collects all waits for deadlock detection, and schedules the checks.

mod tasks;

use crate::deadlock::{AgentWorkload, Need, Source, Wait, WaitAge};
use crate::ids::{AgentNo, ConsumerId, DeliveryNo, Seq};
use crate::limits::DEADLOCK_CHECK_MS;
use crate::recipient::QueueId;
use crate::request::ReplyState;
use crate::time::{Mono, Timestamp};
use crate::working::{Map, OpenDeliveryState, WorkingState};

/// Offset in the age of waits that are not requests. A request begins within its record, all other waits after it.
pub(super) const AFTER_REQUESTS: u64 = 1 << 32;

/// Identifies a wait, to abort it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WaitId {
    /// A wait for locks.
    Locks(ConsumerId),
    /// A wait for the replies to a request, by record and message index.
    Replies(Seq, u32),
    /// A wait for the end of a task.
    Task(ConsumerId),
    /// A task that is blocked by its dependencies; no agent waits.
    Blocked,
    /// A wait for the decision of an approval.
    Approval,
}

impl WorkingState {
    /// Whether there are waits that could be part of a deadlock.
    fn has_waits(&self) -> bool {
        self.locks().has_waiters()
            || self.items.requests.has_listeners()
            || !self.tasks().waiters().is_empty()
    }

    /// Schedules the first deadlock check when a wait begins.
    pub(super) fn schedule_deadlock_check(&mut self, now: Mono) {
        if !self.has_waits() {
            self.deadlock_check_at = Some(now.plus_ms(DEADLOCK_CHECK_MS));
        }
    }

    /// Returns the time of the next deadlock check.
    pub(super) fn next_deadlock_check(&self) -> Option<Mono> {
        self.deadlock_check_at.filter(|_| self.has_waits())
    }

    /// Whether a deadlock check is due; if so, schedules the next one.
    pub(crate) fn deadlock_check_due(&mut self, now: Mono) -> bool {
        let due = self.next_deadlock_check().is_some_and(|at| at <= now);
        if due {
            self.deadlock_check_at = Some(now.plus_ms(DEADLOCK_CHECK_MS));
        }
        due
    }

    /// Returns all waits, oldest first.
    pub(crate) fn waits(&self, now: Timestamp) -> Vec<Wait<WaitId>> {
        let mut waits = Vec::new();
        self.lock_waits(&mut waits);
        self.request_waits(now, &mut waits);
        self.task_waits(now, &mut waits);
        self.approval_waits(&mut waits);
        sort_by_age(waits)
    }

    /// Returns the load of an agent.
    pub(crate) fn agent_load(&self, agent: AgentNo) -> AgentWorkload {
        let inbox = self.inbox(agent);
        let in_progress = inbox.leased.len() + self.items.tasks.held_count(agent);
        AgentWorkload { in_progress, accepts_more: inbox.has_waiting_consumers() }
    }

    /// Adds the waits for locks. A waiter needs every lock: from the waiter ahead of it, or else from any holder.
    fn lock_waits(&self, waits: &mut Vec<Wait<WaitId>>) {
        let locks = self.locks();
        let all: Vec<_> = locks.waiters().collect();
        let begin = waits.len();
        let index: Map<_, _> = all.iter().enumerate().map(|(at, (id, _))| (*id, begin + at)).collect();
        let mut ahead: Map<(ConsumerId, &str), usize> = Map::default();
        for name in locks.awaited() {
            let pairs = locks.queue(name).zip(locks.queue(name).skip(1));
            ahead.extend(pairs.map(|(first, next)| ((next, name.as_str()), index[&first])));
        }
        for (id, waiter) in all {
            let mut needs = Vec::new();
            for (resource, name) in waiter.names.iter().enumerate() {
                let sources = match ahead.get(&(id, name.as_str())) {
                    Some(other) => vec![Source::Wait(*other)],
                    None => locks.get(name).filter(|lock| !lock.has_capacity()).map_or(Vec::new(), |lock| {
                        let held = |grant: &crate::lock::Grant| Source::Held {
                            agent: grant.holder,
                            within: grant.within,
                            since: grant.seq,
                        };
                        lock.grants.iter().map(held).collect()
                    }),
                };
                if !sources.is_empty() {
                    needs.push(Need { resource, sources });
                }
            }
            waits.push(Wait {
                id: WaitId::Locks(id),
                agent: waiter.agent,
                within: waiter.within,
                age: (waiter.since, AFTER_REQUESTS + waiter.ticket),
                needs,
            });
        }
    }

    /// Adds the waits for replies. A request needs a reply from every recipient.
    fn request_waits(&self, now: Timestamp, waits: &mut Vec<Wait<WaitId>>) {
        for (request, listener) in self.items.requests.with_listeners() {
            let deliveries =
                request.recipients.iter().zip((request.first_delivery.0..).map(DeliveryNo)).enumerate();
            let pending = deliveries.filter(|(_, (outcome, _))| outcome.reply == ReplyState::Pending);
            let need = |(resource, (_, delivery)): (usize, (_, DeliveryNo))| {
                Some(Need { resource, sources: vec![self.reply_source(delivery, now)?] })
            };
            let (seq, n) = (request.id.seq, request.id.n);
            waits.push(Wait {
                id: WaitId::Replies(seq, n),
                agent: request.from,
                within: listener.within,
                age: (seq, u64::from(n)),
                needs: pending.filter_map(need).collect(),
            });
        }
    }

    /// Returns the source of an outstanding reply; `None` if it is not determined yet.
    fn reply_source(&self, delivery: DeliveryNo, now: Timestamp) -> Option<Source> {
        let open = self.open(delivery)?;
        match (open.state, open.to.queue()) {
            (OpenDeliveryState::Leased { .. }, _) => Some(Source::Held {
                agent: open.to.agent_no()?,
                within: Some(delivery),
                since: self.lease(delivery)?.seq,
            }),
            (OpenDeliveryState::Ready { since }, QueueId::Agent(agent)) if is_overdue(since, now) => {
                Some(Source::Inbox(agent))
            }
            (
                OpenDeliveryState::Ready { .. }
                | OpenDeliveryState::Scheduled { .. }
                | OpenDeliveryState::Held { .. },
                _,
            ) => None,
        }
    }
}

/// Whether an item has been ready for so long that a polling agent would have taken it.
fn is_overdue(since: Timestamp, now: Timestamp) -> bool {
    since.plus_ms(DEADLOCK_CHECK_MS) <= now
}

/// Sorts the waits by age and adjusts the indexes by which they refer to each other.
fn sort_by_age(mut waits: Vec<Wait<WaitId>>) -> Vec<Wait<WaitId>> {
    let mut order: Vec<(WaitAge, usize)> = waits.iter().map(|wait| wait.age).zip(0..).collect();
    order.sort_unstable();
    let mut new_indexes = vec![0; waits.len()];
    order.iter().enumerate().for_each(|(new, (_, old))| new_indexes[*old] = new);
    let sources = waits.iter_mut().flat_map(|wait| &mut wait.needs).flat_map(|need| &mut need.sources);
    for source in sources {
        if let Source::Wait(other) = source {
            *other = new_indexes[*other];
        }
    }
    let mut unordered: Vec<_> = waits.into_iter().map(Some).collect();
    order.into_iter().filter_map(|(_, old)| unordered[old].take()).collect()
}
