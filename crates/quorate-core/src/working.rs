//! The working state: the in-memory state at the head of a space that decisions need.
//!
//! Durable state changes only through [`WorkingState::apply`], which applies an effect. Deliveries, agents and
//! consumers each have one setter that maintains all indexes and pushes an undo entry, so that a refused commit can be
//! undone.

mod activity;
mod apply;
mod approvals;
mod consumers;
mod crowded_inboxes;
mod inbox;
mod item_counts;
mod items;
mod locks;
mod message_chains;
mod pause_scopes;
mod pools;
mod procedures;
mod ready_queue;
mod replay;
mod requests;
mod sessions;
mod subscriptions;
mod tasks;
mod tokens;
mod wait_graph;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::effect::DeliveryOrigin;
use crate::ids::{
    AgentNo, ConsumerId, DeliveryNo, Epoch, Generation, Generations, LeaseToken, PoolNo, ScopeNo, Seq,
    SpaceId,
};
use crate::item::ItemKey;
use crate::message::{IfUnavailable, Priority};
use crate::policy::BroadcastQuota;
use crate::recipient::{QueueId, Recipient};
use crate::registry::{Agent, AgentRegistry};
use crate::time::{Mono, Now, Timestamp};

pub(crate) use activity::LastActivity;
pub(crate) use consumers::Consumer;
pub(crate) use inbox::Inbox;
pub(crate) use locks::LockWaiter;
pub use replay::ReplayedRecord;
pub(crate) use requests::ReplyListeners;
pub use subscriptions::SubscriptionTree;
pub(crate) use tasks::{NextTask, TaskClaimer, TaskDispatch, TaskWaiter};
pub use tokens::{AccessTokens, TokenLookup};
pub(crate) use wait_graph::WaitId;

pub(crate) type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// The newest record of a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Sequence number.
    pub seq: Seq,
    /// Head of the hash chain.
    pub hash: [u8; 32],
    /// Time of the decision. Later records are never earlier than this.
    pub at: Timestamp,
    /// The current generation.
    pub generation: Generation,
}

/// Number of deliveries in each state. The sum is the number of all deliveries ever created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeliveryStateCounts {
    /// Ready for dispatch.
    pub ready: u64,
    /// Scheduled for a later time, or held by a paused session or procedure.
    pub scheduled: u64,
    /// Leased to an agent.
    pub leased: u64,
    /// Acknowledged.
    pub acked: u64,
    /// Dead letters.
    pub dead: u64,
    /// Expired before they were acknowledged.
    pub expired: u64,
    /// Purged.
    pub purged: u64,
}

/// The state of an open delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenDeliveryState {
    /// Ready for dispatch.
    Ready {
        /// Time at which it became ready.
        since: Timestamp,
    },
    /// Scheduled for a later time.
    Scheduled {
        /// Time at which it becomes ready.
        due: Timestamp,
    },
    /// Held until its paused session or procedure resumes; counted as scheduled. Its row keeps the state it would have otherwise.
    Held {
        /// Time at which it would have become ready.
        since: Timestamp,
    },
    /// Leased to an agent. The deadline is stored separately, see [`WorkingState::lease`].
    Leased {
        /// Token of the current lease.
        token: LeaseToken,
    },
}

/// A delivery that has not ended. The type is kept small: there may be a million of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenDelivery {
    /// The record that contains the message.
    pub seq: Seq,
    /// The current state.
    pub state: OpenDeliveryState,
    /// Expiry time of the message; [`OpenDelivery::NEVER`] if it does not expire.
    pub expires: Timestamp,
    /// Number of the scope that the delivery belongs to; 0 if none.
    scope: ScopeNo,
    /// The recipient, or the agent that holds the lease.
    pub to: Recipient,
    n: u32,
    /// Priority of the message.
    pub priority: Priority,
    /// Number of attempts so far.
    pub attempt: u16,
    /// Maximum number of attempts.
    pub attempts_max: u16,
    /// Handling of a waiting delivery whose recipient goes offline.
    pub if_unavailable: IfUnavailable,
}

impl OpenDelivery {
    /// Expiry time of a message that does not expire.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

    /// Creates a delivery without attempts, with default limits.
    #[must_use]
    pub fn new(to: impl Into<Recipient>, seq: Seq, n: u32, state: OpenDeliveryState) -> Self {
        Self {
            seq,
            state,
            expires: Self::NEVER,
            scope: ScopeNo(0),
            to: to.into(),
            n,
            priority: Priority::NORMAL,
            attempt: 0,
            attempts_max: crate::limits::ATTEMPTS_DEFAULT,
            if_unavailable: IfUnavailable::Queue,
        }
    }

    /// Returns the recipient and the position of the message.
    #[must_use]
    pub fn origin(&self) -> DeliveryOrigin {
        DeliveryOrigin { to: self.to, seq: self.seq, n: self.n }
    }

    /// Returns the scope that the delivery belongs to: its pause holds the delivery.
    #[must_use]
    pub fn scope(&self) -> Option<ScopeNo> {
        Some(self.scope).filter(|scope| scope.0 > 0)
    }

    /// Sets the scope that the delivery belongs to.
    #[must_use]
    pub fn with_scope(self, scope: Option<ScopeNo>) -> Self {
        Self { scope: scope.unwrap_or_default(), ..self }
    }

    /// Returns the index of the message within its record, starting at 0.
    #[must_use]
    pub fn n(&self) -> u32 {
        self.n
    }

    /// Returns the current lease token, if the delivery is leased.
    #[must_use]
    pub fn token(&self) -> Option<LeaseToken> {
        match self.state {
            OpenDeliveryState::Leased { token } => Some(token),
            OpenDeliveryState::Ready { .. }
            | OpenDeliveryState::Scheduled { .. }
            | OpenDeliveryState::Held { .. } => None,
        }
    }
}

/// Duration and deadline of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lease {
    pub(crate) lease_ms: u64,
    pub(crate) deadline: Mono,
    /// Start of the lease; `None` if it began before the hub's start.
    pub(crate) since: Option<Timestamp>,
    /// The record that granted it; 0 if it began before the hub's start.
    pub(crate) seq: Seq,
}

impl Lease {
    fn new(lease_ms: u64, seq: Seq, now: Now) -> Self {
        Self { lease_ms, deadline: now.mono.plus_ms(lease_ms), since: Some(now.wall), seq }
    }
}

/// The next time at which a sweep has something to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NextWake {
    /// The next due or expiry time, by the wall clock.
    pub wall: Option<Timestamp>,
    /// The next lease deadline or check, by the monotonic clock.
    pub mono: Option<Mono>,
}

impl NextWake {
    /// Whether a sweep is due.
    #[must_use]
    pub fn is_due(&self, now: Now) -> bool {
        self.wall.is_some_and(|at| at <= now.wall) || self.mono.is_some_and(|at| at <= now.mono)
    }
}

/// An entry of the undo journal: the previous value of one part of the state.
#[derive(Debug)]
enum Undo {
    Delivery(DeliveryNo, Option<(OpenDelivery, Option<Lease>)>),
    // Boxed, because it is rare and large: most entries are deliveries.
    Agent(AgentNo, Option<Box<Agent>>),
    Consumer(ConsumerId, Option<Consumer>),
    Fairness(AgentNo, inbox::Fairness),
    Item(Box<items::ItemUndo>),
    Deadline(Box<(ItemKey, u64, Mono)>),
    Waiter(Box<(ConsumerId, Option<LockWaiter>)>),
    Task(tasks::TaskUndo),
    Chain(Option<message_chains::Digests>),
    Broadcasts(AgentNo, Option<BroadcastQuota>),
    CrowdedSends(QueueId, AgentNo, Option<u32>),
    Numbers {
        next_delivery: u64,
        last_token: u64,
        last_epoch: u64,
        deadlock_check_at: Option<Mono>,
        presence_check_at: Option<Mono>,
    },
    Activity(AgentNo, activity::LastActivity),
    Disconnected(AgentNo, Option<Mono>),
    Listener(requests::MessagePosition, Option<ReplyListeners>),
}

/// The state at the head of one space.
#[derive(Debug)]
pub struct WorkingState {
    /// The newest record.
    pub head: Head,
    /// Id of the space.
    pub id: SpaceId,
    /// Units of work of the last decision, even if it was refused; see [`crate::limits::COMMIT_WORK_MAX`].
    pub spent: u64,
    generations: Arc<Generations>,
    next_delivery: u64,
    last_token: u64,
    /// The highest epoch ever issued, so that none is issued twice.
    last_epoch: u64,
    agents: Arc<AgentRegistry>,
    inboxes: Vec<Inbox>,
    pools: pools::Pools,
    open: Map<DeliveryNo, OpenDelivery>,
    leases: Map<DeliveryNo, Lease>,
    due: BTreeSet<(Timestamp, DeliveryNo)>,
    message_expiries: BTreeSet<(Timestamp, DeliveryNo)>,
    lease_deadlines: BTreeSet<(Mono, DeliveryNo)>,
    consumers: Map<ConsumerId, Consumer>,
    items: items::Items,
    chains: message_chains::RecentMessages,
    /// Time of the next deadlock check, if there are waits.
    deadlock_check_at: Option<Mono>,
    /// Broadcast quota usage of each sender.
    broadcast_quotas: Map<AgentNo, BroadcastQuota>,
    activity: activity::ActivityTracker,
    /// Last queue ticket issued. Tickets order waiting consumers: a later one has a higher ticket.
    last_ticket: u64,
    /// Inboxes and pools with ready deliveries and waiting consumers. They are dispatched before the commit ends.
    scheduled_dispatch: Vec<QueueId>,
    counts: DeliveryStateCounts,
    /// Number of ready deliveries by priority level.
    ready_by_level: [u64; 4],
    /// Undo journal since the last [`WorkingState::mark_durable`].
    journal: Vec<Undo>,
    /// Length of the journal at the start of the current commit.
    mark: usize,
    /// Number of scheduled dispatches at the start of the current commit.
    scheduled_mark: usize,
    /// State at the last [`WorkingState::mark_durable`] that the journal does not cover.
    durable: DurableState,
}

/// The part of the state that changes with every record and is saved as a whole.
#[derive(Clone, Debug)]
struct DurableState {
    head: Head,
    generations: Arc<Generations>,
    counts: DeliveryStateCounts,
}

impl WorkingState {
    /// Creates the state of a space before its first record.
    #[must_use]
    pub fn new(id: SpaceId) -> Self {
        let head = Head {
            seq: Seq(0),
            hash: crate::hash_chain::genesis_hash(id),
            at: Timestamp(0),
            generation: Generation(0),
        };
        Self {
            head,
            id,
            spent: 0,
            generations: Arc::default(),
            next_delivery: 1,
            last_token: 0,
            last_epoch: 0,
            agents: Arc::default(),
            inboxes: Vec::new(),
            pools: pools::Pools::default(),
            open: Map::default(),
            leases: Map::default(),
            due: BTreeSet::new(),
            message_expiries: BTreeSet::new(),
            lease_deadlines: BTreeSet::new(),
            consumers: Map::default(),
            items: items::Items::default(),
            chains: message_chains::RecentMessages::default(),
            deadlock_check_at: None,
            broadcast_quotas: Map::default(),
            activity: activity::ActivityTracker::default(),
            last_ticket: 0,
            scheduled_dispatch: Vec::new(),
            counts: DeliveryStateCounts::default(),
            ready_by_level: [0; 4],
            journal: Vec::new(),
            mark: 0,
            scheduled_mark: 0,
            durable: DurableState {
                head,
                generations: Arc::default(),
                counts: DeliveryStateCounts::default(),
            },
        }
    }

    /// Restores a space from storage, except its open deliveries, which [`WorkingState::load`] adds.
    #[must_use]
    pub fn restore(
        id: SpaceId,
        head: Head,
        generations: Generations,
        agents: Vec<Agent>,
        counters: StoredCounters,
    ) -> Self {
        let mut working = Self::new(id);
        working.head = head;
        working.generations = Arc::new(generations);
        working.next_delivery = counters.next_delivery;
        working.last_token = counters.last_token;
        working.counts = DeliveryStateCounts { ready: 0, scheduled: 0, leased: 0, ..counters.counts };
        for agent in agents {
            let number = working.agents.next_number();
            working.set_agent(number, Some(agent));
        }
        working.mark_durable();
        working
    }

    /// Adds a stored open delivery. A lease restarts with its full duration, and a delivery of a paused scope is held
    /// again. Items must be loaded before.
    pub fn load(&mut self, number: DeliveryNo, open: OpenDelivery, lease_ms: u64, now: Now) {
        let state = match open.state {
            OpenDeliveryState::Ready { since } => self.waiting_state(open.scope(), since),
            other => other,
        };
        let open = OpenDelivery { state, ..open };
        let deadline = now.mono.plus_ms(lease_ms);
        let lease = open.token().map(|_| Lease { lease_ms, deadline, since: None, seq: Seq(0) });
        self.put_delivery(number, Some((open, lease)));
        self.durable.counts = self.counts;
    }

    /// Reserves memory for this many open deliveries.
    pub fn reserve(&mut self, count: usize) {
        self.open.reserve(count);
    }

    /// Returns the registered agents.
    #[must_use]
    pub fn agents(&self) -> &Arc<AgentRegistry> {
        &self.agents
    }

    /// Returns the generations of the space.
    #[must_use]
    pub fn generations(&self) -> &Arc<Generations> {
        &self.generations
    }

    /// Returns the number of deliveries in each state.
    #[must_use]
    pub fn counts(&self) -> DeliveryStateCounts {
        self.counts
    }

    /// Returns the number of ready deliveries by priority level, lowest level first.
    #[must_use]
    pub fn ready_by_level(&self) -> [u64; 4] {
        self.ready_by_level
    }

    /// Returns the counters that a store has to persist.
    #[must_use]
    pub fn stored_counters(&self) -> StoredCounters {
        StoredCounters { next_delivery: self.next_delivery, last_token: self.last_token, counts: self.counts }
    }

    /// Returns an open delivery.
    #[must_use]
    pub fn open(&self, number: DeliveryNo) -> Option<&OpenDelivery> {
        self.open.get(&number)
    }

    /// Returns the lease duration of a delivery, if it is leased.
    #[must_use]
    pub fn lease_ms(&self, number: DeliveryNo) -> Option<u64> {
        self.leases.get(&number).map(|lease| lease.lease_ms)
    }

    /// Returns the lease of a delivery, if it is leased.
    pub(crate) fn lease(&self, number: DeliveryNo) -> Option<Lease> {
        self.leases.get(&number).copied()
    }

    /// Returns all open deliveries, sorted by number. For comparisons; not for hot paths.
    #[must_use]
    pub fn all_open(&self) -> Vec<(DeliveryNo, OpenDelivery)> {
        let mut all: Vec<_> = self.open.iter().map(|(number, open)| (*number, *open)).collect();
        all.sort_by_key(|(number, _)| *number);
        all
    }

    /// Returns the next time at which a sweep has something to do.
    #[must_use]
    pub fn next_wake(&self) -> NextWake {
        let due = self.due.first().map(|(at, _)| *at);
        let expiry = self.message_expiries.first().map(|(at, _)| *at);
        // A dispatch that was scheduled by a refused commit is done by the next sweep, immediately.
        let dispatch = (!self.scheduled_dispatch.is_empty()).then_some(Timestamp(0));
        let (item_time, item_deadline) = self.items.wake();
        NextWake {
            wall: [due, expiry, dispatch, item_time].into_iter().flatten().min(),
            mono: [
                self.lease_deadlines.first().map(|(at, _)| *at),
                item_deadline,
                self.next_deadlock_check(),
                self.activity.wake(),
            ]
            .into_iter()
            .flatten()
            .min(),
        }
    }

    /// Starts a commit: makes due deliveries ready, and marks the undo journal.
    pub(crate) fn begin(&mut self, now: Now) {
        while let Some((due, number)) = self.due.first().copied()
            && due <= now.wall
        {
            let before = self.open[&number];
            let state = self.waiting_state(before.scope(), due);
            self.set_delivery(number, Some((OpenDelivery { state, ..before }, None)));
            self.schedule_dispatch(before.to.queue());
        }
        self.mark = self.journal.len();
        self.scheduled_mark = self.scheduled_dispatch.len();
        self.items.tasks.mark();
        self.journal.push(Undo::Numbers {
            next_delivery: self.next_delivery,
            last_token: self.last_token,
            last_epoch: self.last_epoch,
            deadlock_check_at: self.deadlock_check_at,
            presence_check_at: self.activity.check_at,
        });
    }

    /// Undoes the current commit. Deliveries that became due stay ready.
    pub(crate) fn undo(&mut self) {
        self.undo_to(self.mark);
        self.scheduled_dispatch.truncate(self.scheduled_mark);
        self.items.tasks.reset_to_mark();
    }

    /// Marks all commits so far as durable: they can no longer be undone.
    pub fn mark_durable(&mut self) {
        self.journal.clear();
        self.mark = 0;
        self.durable =
            DurableState { head: self.head, generations: Arc::clone(&self.generations), counts: self.counts };
    }

    /// Whether there are records that are not marked as durable yet.
    #[must_use]
    pub fn has_unsaved_records(&self) -> bool {
        self.head.seq != self.durable.head.seq
    }

    /// Undoes all commits since [`WorkingState::mark_durable`], because they could not be written.
    pub fn revert_to_durable(&mut self) {
        self.undo_to(0);
        let DurableState { head, generations, counts } = self.durable.clone();
        self.head = head;
        self.generations = generations;
        self.counts = counts;
        // Undone dispatches have to be repeated: both the deliveries and the consumers wait again.
        self.scheduled_dispatch.clear();
        for number in 1..=self.inboxes.len() as u64 {
            self.schedule_dispatch(QueueId::Agent(AgentNo(number)));
        }
        for number in 1..=self.pools.len() as u64 {
            self.schedule_dispatch(QueueId::Pool(PoolNo(number)));
        }
        self.items.tasks.schedule_all_dispatch();
    }

    fn undo_to(&mut self, mark: usize) {
        while self.journal.len() > mark
            && let Some(undo) = self.journal.pop()
        {
            match undo {
                Undo::Delivery(number, before) => self.put_delivery(number, before),
                Undo::Agent(number, before) => {
                    self.put_agent(number, before.map(|agent| *agent));
                }
                Undo::Consumer(id, before) => self.put_consumer(id, before),
                Undo::Fairness(agent, before) => self.inbox_mut(agent).fairness = before,
                Undo::Item(before) => self.undo_item(*before),
                Undo::Deadline(before) => self.undo_deadline(&before.0, before.1, before.2),
                Undo::Chain(oldest) => self.chains.undo_push(oldest),
                Undo::Waiter(before) => drop(self.items.locks.put_waiter(before.0, before.1)),
                Undo::Task(before) => self.undo_task(before),
                Undo::Broadcasts(agent, Some(before)) => drop(self.broadcast_quotas.insert(agent, before)),
                Undo::Broadcasts(agent, None) => drop(self.broadcast_quotas.remove(&agent)),
                Undo::CrowdedSends(queue, sender, before) => self.undo_crowded_sends(queue, sender, before),
                Undo::Numbers {
                    next_delivery,
                    last_token,
                    last_epoch,
                    deadlock_check_at,
                    presence_check_at,
                } => {
                    self.deadlock_check_at = deadlock_check_at;
                    self.next_delivery = next_delivery;
                    self.last_token = last_token;
                    self.last_epoch = last_epoch;
                    self.activity.check_at = presence_check_at;
                }
                Undo::Activity(agent, last_seen) => self.activity.set_last_seen(agent, last_seen),
                Undo::Disconnected(agent, at) => self.activity.set_disconnected(agent, at),
                Undo::Listener(position, before) => drop(self.items.requests.put_listener(position, before)),
            }
        }
    }

    /// Schedules the dispatch of an inbox or pool, if it has ready deliveries and waiting consumers.
    pub(crate) fn schedule_dispatch(&mut self, queue: QueueId) {
        let inbox = self.inbox_at(queue);
        if inbox.has_waiting_consumers() && inbox.has_ready() && !self.scheduled_dispatch.contains(&queue) {
            self.scheduled_dispatch.push(queue);
        }
    }

    /// Schedules the dispatch of the inbox and all pools of an agent, because it has capacity or credit again.
    pub(crate) fn schedule_dispatch_to(&mut self, agent: AgentNo) {
        self.schedule_dispatch(QueueId::Agent(agent));
        for index in 0..self.inbox(agent).pools().len() {
            let pool = self.inbox(agent).pools()[index];
            self.schedule_dispatch(QueueId::Pool(pool));
        }
    }

    /// Returns the broadcast quota usage of an agent.
    pub(crate) fn broadcasts(&self, agent: AgentNo) -> BroadcastQuota {
        self.broadcast_quotas.get(&agent).copied().unwrap_or_default()
    }

    pub(crate) fn set_broadcasts(&mut self, agent: AgentNo, new: BroadcastQuota) {
        let before = self.broadcast_quotas.insert(agent, new);
        self.journal.push(Undo::Broadcasts(agent, before));
    }

    pub(crate) fn take_scheduled_dispatch(&mut self) -> Vec<QueueId> {
        std::mem::take(&mut self.scheduled_dispatch)
    }

    pub(crate) fn next_delivery(&self) -> DeliveryNo {
        DeliveryNo(self.next_delivery)
    }

    /// Returns the next epoch. It exceeds all earlier epochs of the space, including those of removed agents and of a
    /// history that a restore replaced.
    pub(crate) fn next_epoch(&self, seq: Seq) -> Epoch {
        Epoch((self.last_epoch + 1).max(seq.0).max(self.head.generation.0 << 24))
    }

    /// Returns the next lease token. It exceeds all earlier ones, including those of a history that a restore replaced.
    pub(crate) fn next_token(&mut self) -> LeaseToken {
        self.last_token = (self.last_token + 1).max(self.head.generation.0 << 24);
        LeaseToken(self.last_token)
    }

    pub(crate) fn inbox(&self, agent: AgentNo) -> &Inbox {
        &self.inboxes[agent.0 as usize - 1]
    }

    fn inbox_mut(&mut self, agent: AgentNo) -> &mut Inbox {
        &mut self.inboxes[agent.0 as usize - 1]
    }

    /// Returns up to `max` deliveries with an expired lease, earliest deadline first.
    pub(crate) fn expired_leases(&self, now: Mono, max: usize) -> Vec<DeliveryNo> {
        self.lease_deadlines
            .iter()
            .take_while(|(at, _)| *at <= now)
            .take(max)
            .map(|(_, number)| *number)
            .collect()
    }

    /// Returns up to `max` waiting deliveries with an expired message, earliest expiry first.
    pub(crate) fn expired_messages(&self, now: Timestamp, max: usize) -> Vec<DeliveryNo> {
        self.message_expiries
            .iter()
            .take_while(|(at, _)| *at <= now)
            .take(max)
            .map(|(_, number)| *number)
            .collect()
    }

    fn set_delivery(&mut self, number: DeliveryNo, new: Option<(OpenDelivery, Option<Lease>)>) {
        let before = self.open.get(&number).map(|open| (*open, self.leases.get(&number).copied()));
        self.journal.push(Undo::Delivery(number, before));
        self.put_delivery(number, new);
    }

    /// Replaces a delivery and updates every index over deliveries. No other function changes deliveries.
    fn put_delivery(&mut self, number: DeliveryNo, new: Option<(OpenDelivery, Option<Lease>)>) {
        let old = match new {
            Some((open, _)) => self.open.insert(number, open),
            None => self.open.remove(&number),
        };
        if let Some(old) = old {
            let inbox = inbox_of(&mut self.inboxes, &mut self.pools, old.to);
            inbox.open -= 1;
            match old.state {
                OpenDeliveryState::Ready { .. } => {
                    self.counts.ready -= 1;
                    self.ready_by_level[level_of(old.priority)] -= 1;
                    inbox.remove_ready(old.priority, number);
                }
                OpenDeliveryState::Scheduled { due } => {
                    self.counts.scheduled -= 1;
                    self.due.remove(&(due, number));
                }
                OpenDeliveryState::Held { .. } => self.counts.scheduled -= 1,
                OpenDeliveryState::Leased { .. } => {
                    self.counts.leased -= 1;
                    if let Some(agent) = old.to.agent_no() {
                        self.inbox_mut(agent).remove_leased(number, old.to);
                    }
                    if let Some(lease) = self.leases.remove(&number) {
                        self.lease_deadlines.remove(&(lease.deadline, number));
                    }
                }
            }
            if old.expires != OpenDelivery::NEVER && old.token().is_none() {
                self.message_expiries.remove(&(old.expires, number));
            }
            self.track_delivery(&old, number, false);
        }
        self.items.pause_scopes.update(
            number,
            old.and_then(|old| old.scope()),
            new.and_then(|(open, _)| open.scope()),
        );
        let Some((open, lease)) = new else { return };
        let inbox = inbox_of(&mut self.inboxes, &mut self.pools, open.to);
        inbox.open += 1;
        match open.state {
            OpenDeliveryState::Ready { since } => {
                self.counts.ready += 1;
                self.ready_by_level[level_of(open.priority)] += 1;
                inbox.insert_ready(open.priority, number, since);
            }
            OpenDeliveryState::Scheduled { due } => {
                self.counts.scheduled += 1;
                self.due.insert((due, number));
            }
            OpenDeliveryState::Held { .. } => self.counts.scheduled += 1,
            OpenDeliveryState::Leased { .. } => {
                self.counts.leased += 1;
                if let Some(agent) = open.to.agent_no() {
                    self.inbox_mut(agent).insert_leased(number, open.to);
                }
                if let Some(lease) = lease {
                    self.leases.insert(number, lease);
                    self.lease_deadlines.insert((lease.deadline, number));
                }
            }
        }
        if open.expires != OpenDelivery::NEVER && open.token().is_none() {
            self.message_expiries.insert((open.expires, number));
        }
        self.track_delivery(&open, number, true);
    }

    fn set_agent(&mut self, number: AgentNo, new: Option<Agent>) {
        self.journal.push(Undo::Agent(number, self.agents.get(number).cloned().map(Box::new)));
        if self.put_agent(number, new) {
            self.requeue_consumers(number);
        }
    }

    /// Replaces an agent. Returns whether the set of pools that it serves changed.
    fn put_agent(&mut self, number: AgentNo, new: Option<Agent>) -> bool {
        let exists = new.is_some();
        let count = match &new {
            Some(_) => self.inboxes.len().max(number.0 as usize),
            None => number.0 as usize - 1,
        };
        self.inboxes.resize_with(count, Inbox::default);
        self.track_agent(number, new.as_ref(), count);
        self.last_epoch = self.last_epoch.max(new.as_ref().map_or(0, |agent| agent.epoch.0));
        Arc::make_mut(&mut self.agents).set(number, new);
        exists && self.join_pools(number)
    }
}

/// Returns the index of a priority in [`WorkingState::ready_by_level`].
fn level_of(priority: Priority) -> usize {
    usize::from(priority.level.min(3))
}

/// Returns the inbox or pool that a delivery belongs to.
fn inbox_of<'a>(inboxes: &'a mut [Inbox], pools: &'a mut pools::Pools, to: Recipient) -> &'a mut Inbox {
    match to.queue() {
        QueueId::Agent(agent) => &mut inboxes[agent.0 as usize - 1],
        QueueId::Pool(pool) => pools.inbox_mut(pool),
    }
}

/// Decrements a counter, and removes it at zero.
pub(super) fn decrement<K: std::hash::Hash + Eq>(counts: &mut Map<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// Counters that a store persists in addition to rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredCounters {
    /// The number of the next delivery.
    pub next_delivery: u64,
    /// The last lease token that was issued.
    pub last_token: u64,
    /// Number of deliveries in each state.
    pub counts: DeliveryStateCounts,
}

impl WorkingState {
    /// Returns all leased deliveries, sorted by number. Scans all leases.
    pub(crate) fn all_leased(&self) -> Vec<DeliveryNo> {
        let mut leased: Vec<_> = self.leases.keys().copied().collect();
        leased.sort_unstable();
        leased
    }

    /// Returns the scheduled deliveries, earliest first.
    pub(crate) fn scheduled_deliveries(&self) -> impl Iterator<Item = DeliveryNo> {
        self.due.iter().map(|(_, number)| *number)
    }
}
