//! State of a space in plain lists, and simple queries on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::{
    Agent, AgentId, AgentNo, ConsumerId, CreationPosition, DeliveryNo, DeliveryStateCounts, EndState,
    EntryVersion, Generation, GenerationStart, Generations, Head, IdempotencyKey, IfUnavailable, Item,
    ItemKey, Key, LeaseToken, Message, MessageId, Mono, NextWake, Now, OpResult, Payload, Principal,
    Priority, ProcedureId, QueueId, Receipt, Recipient, RecordKind, Seq, SpaceId, SpaceName, Timestamp,
};

use crate::reference::locks::{LockHold, LockWaiter};
use crate::reference::requests::RequestWaiters;
use crate::reference::sessions::{SessionOpening, TimelineEntry};
use crate::reference::tasks::{TaskRuntime, TaskWaiter};
use crate::store::PublishedState;

/// State of a space. Cloned before each commit, to restore it after a refusal.
#[derive(Clone)]
pub(super) struct Space {
    pub(super) name: SpaceName,
    pub(super) id: SpaceId,
    /// Log, starting with record 1.
    pub(super) records: Vec<LogRecord>,
    /// Agents by number, starting at 1, including removed ones.
    pub(super) agents: Vec<Agent>,
    /// Starvation protection of each agent's inbox, parallel to `agents`.
    pub(super) fairness: Vec<Fairness>,
    /// All messages ever sent.
    pub(super) messages: Vec<LoggedMessage>,
    /// All deliveries ever created, by number, starting at 1.
    pub(super) deliveries: Vec<Delivery>,
    /// All versions of all entries, oldest first.
    pub(super) entries: BTreeMap<Key, Vec<EntryVersion>>,
    /// Receipts stored under idempotency keys.
    pub(super) receipts: Vec<StoredReceipt>,
    /// Waiting consumers, in queue order: the first one with credit is served next.
    pub(super) consumers: Vec<Consumer>,
    /// Inboxes and pools with ready deliveries and a waiting consumer, in the order in which they became so.
    pub(super) dispatch_queue: Vec<QueueId>,
    /// Generations of the space: the initial one and one per restore.
    pub(super) generations: Vec<GenerationStart>,
    pub(super) last_token: u64,
    /// Stored items.
    pub(super) items: BTreeMap<ItemKey, Item>,
    /// Creation position of each item, oldest first.
    pub(super) creations: Vec<(ItemKey, CreationPosition)>,
    /// Deadlines of granted locks.
    pub(super) holds: Vec<LockHold>,
    /// Lock waiters, in order of arrival.
    pub(super) lock_waiters: Vec<LockWaiter>,
    /// Messages with a cause, sent since the last restart. Used for loop detection.
    pub(super) chain_messages: Vec<Message>,
    /// Time of the next deadlock check.
    pub(super) deadlock_check_at: Option<Mono>,
    /// Requests that opened the sessions.
    pub(super) openings: Vec<SessionOpening>,
    /// Timeline entries of all sessions.
    pub(super) timeline_entries: Vec<TimelineEntry>,
    pub(super) task_runtime: TaskRuntime,
    /// Broadcast rate limit: start of the current minute and number of broadcasts, by sender.
    pub(super) broadcasts: BTreeMap<AgentNo, (Timestamp, u32)>,
    /// Number of deliveries that each sender added to a crowded inbox or pool.
    pub(super) crowded_sends: BTreeMap<(QueueId, AgentNo), u32>,
    /// Last activity of each agent, parallel to `agents`.
    pub(super) last_seen: Vec<LastActivity>,
    /// Agents whose last connection was closed and that have not acted since.
    pub(super) disconnected: BTreeMap<AgentNo, Mono>,
    /// Time of the next presence check.
    pub(super) presence_check_at: Option<Mono>,
    /// Deadline of each open request.
    pub(super) request_deadlines: BTreeMap<MessageId, Mono>,
    /// Waiters of open requests.
    pub(super) request_waiters: BTreeMap<MessageId, RequestWaiters>,
    /// Waiters for the end of tasks, in order of arrival.
    pub(super) task_waiters: Vec<TaskWaiter>,
    /// Number of waits for locks and tasks so far.
    pub(super) wait_count: u64,
}

/// Last activity of an agent.
#[derive(Clone, Copy)]
pub(super) struct LastActivity {
    /// Its time, or the time of the restart if the agent has not acted since.
    pub(super) at: Mono,
    /// Whether the agent has acted since the restart.
    pub(super) since_restart: bool,
}

/// Record of the log, without its effects.
#[derive(Clone)]
pub(super) struct LogRecord {
    pub(super) at: Timestamp,
    pub(super) kind: RecordKind,
    pub(super) principal: String,
    /// Payloads of the record; zeros after an erasure.
    pub(super) parts: Vec<Payload>,
}

/// Starvation protection: how long lower priorities were passed over.
#[derive(Clone, Copy, Default)]
pub(super) struct Fairness {
    /// Deliveries of higher priority that were leased while a lower one waited.
    pub(super) passed_over: u32,
    /// Time at which a lower priority was last served.
    pub(super) lower_served_at: Timestamp,
}

#[derive(Clone)]
pub(super) struct LoggedMessage {
    pub(super) seq: Seq,
    pub(super) n: u32,
    pub(super) at: Timestamp,
    /// Index of its payload within the record.
    pub(super) part: u32,
    pub(super) message: Arc<Message>,
    pub(super) fingerprint: [u8; 32],
    /// Principal of the commit.
    pub(super) principal: Principal,
    pub(super) first: DeliveryNo,
    pub(super) recipients: Vec<Recipient>,
    /// Result that was returned to the sender.
    pub(super) result: OpResult,
}

#[derive(Clone)]
pub(super) struct Delivery {
    pub(super) to: Recipient,
    pub(super) seq: Seq,
    pub(super) n: u32,
    pub(super) priority: Priority,
    pub(super) attempts_max: u16,
    pub(super) expires_at: Option<Timestamp>,
    /// Session of its message, if it was open.
    pub(super) session: Option<String>,
    /// Procedure of its message, if the recipient drives it. Then a pause of the session does not hold it.
    pub(super) procedure: Option<ProcedureId>,
    /// Number of times it was leased.
    pub(super) attempt: u16,
    pub(super) phase: DeliveryPhase,
    pub(super) if_unavailable: IfUnavailable,
}

/// State of a delivery.
#[derive(Clone)]
pub(super) enum DeliveryPhase {
    Ready {
        since: Timestamp,
        /// Whether it became ready by a timer, which leaves no record.
        by_time: bool,
    },
    Scheduled {
        due: Timestamp,
    },
    Leased {
        token: LeaseToken,
        /// Longest duration granted to the holder, restored by a restart.
        lease_ms: u64,
        deadline: Mono,
        /// Start of the lease, if it was after the last restart.
        since: Option<Timestamp>,
        /// Record that leased it.
        seq: Seq,
    },
    Ended {
        state: EndState,
        /// Token of the lease that was ended; 0 if it was not leased.
        token: LeaseToken,
        seq: Seq,
        at: Timestamp,
        reason: String,
    },
}

#[derive(Clone)]
pub(super) struct StoredReceipt {
    pub(super) principal: Principal,
    pub(super) key: IdempotencyKey,
    pub(super) fingerprint: [u8; 32],
    pub(super) receipt: Receipt,
}

#[derive(Clone, Copy)]
pub(super) struct Consumer {
    pub(super) id: ConsumerId,
    pub(super) agent: AgentNo,
    pub(super) credit: u32,
    pub(super) lease_ms: u64,
    /// Whether it is closed after its first delivery.
    pub(super) once: bool,
}

impl Delivery {
    /// Whether it is due and not leased. A paused session or procedure may still hold it.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase, DeliveryPhase::Ready { .. })
    }

    pub(super) fn is_leased(&self) -> bool {
        matches!(self.phase, DeliveryPhase::Leased { .. })
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self.phase, DeliveryPhase::Ended { .. })
    }

    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Returns the token of the current lease, or 0 if it is not leased.
    pub(super) fn token(&self) -> LeaseToken {
        match self.phase {
            DeliveryPhase::Leased { token, .. } => token,
            DeliveryPhase::Ready { .. } | DeliveryPhase::Scheduled { .. } | DeliveryPhase::Ended { .. } => {
                LeaseToken(0)
            }
        }
    }
}

impl Space {
    /// Creates a space with its genesis record.
    pub(super) fn new(name: SpaceName, id: SpaceId, at: Timestamp) -> Self {
        let genesis =
            LogRecord { at, kind: RecordKind::Genesis, principal: "system".into(), parts: Vec::new() };
        Self {
            name,
            id,
            records: vec![genesis],
            agents: Vec::new(),
            fairness: Vec::new(),
            messages: Vec::new(),
            deliveries: Vec::new(),
            entries: BTreeMap::new(),
            receipts: Vec::new(),
            consumers: Vec::new(),
            dispatch_queue: Vec::new(),
            items: BTreeMap::new(),
            creations: Vec::new(),
            openings: Vec::new(),
            timeline_entries: Vec::new(),
            task_runtime: TaskRuntime::default(),
            broadcasts: BTreeMap::new(),
            crowded_sends: BTreeMap::new(),
            last_seen: Vec::new(),
            disconnected: BTreeMap::new(),
            presence_check_at: None,
            request_deadlines: BTreeMap::new(),
            request_waiters: BTreeMap::new(),
            task_waiters: Vec::new(),
            wait_count: 0,
            generations: vec![GenerationStart {
                generation: Generation(0),
                first_seq: Seq(1),
                first_delivery: DeliveryNo(1),
            }],
            last_token: 0,
            holds: Vec::new(),
            lock_waiters: Vec::new(),
            chain_messages: Vec::new(),
            deadlock_check_at: None,
        }
    }

    pub(super) fn restart(&mut self, now: Now) {
        self.consumers.clear();
        self.dispatch_queue.clear();
        self.fairness.fill(Fairness::default());
        self.restart_tasks(now.mono);
        let newest_at = self.newest_at();
        self.lock_waiters.clear();
        self.chain_messages.clear();
        self.holds.iter_mut().for_each(|hold| hold.deadline = now.mono.plus_ms(hold.ttl_ms));
        self.broadcasts.clear();
        for delivery in &mut self.deliveries {
            match &mut delivery.phase {
                DeliveryPhase::Leased { lease_ms, deadline, since, .. } => {
                    *deadline = now.mono.plus_ms(*lease_ms);
                    *since = None;
                }
                // A transition after the last record left no trace in the log, so it is undone.
                DeliveryPhase::Ready { since, by_time: true } if *since > newest_at => {
                    delivery.phase = DeliveryPhase::Scheduled { due: *since };
                }
                DeliveryPhase::Ready { .. }
                | DeliveryPhase::Scheduled { .. }
                | DeliveryPhase::Ended { .. } => {}
            }
        }
        self.request_waiters.clear();
        self.task_waiters.clear();
        for request in self.open_requests() {
            self.request_deadlines.insert(request.id, now.mono.plus_ms(request.timeout_ms));
        }
        self.last_seen.fill(LastActivity { at: now.mono, since_restart: false });
        self.disconnected.clear();
        let agents = (1..=self.agents.len() as u64).map(AgentNo);
        let offline_delays = agents.filter_map(|agent| self.offline_after_ms(agent));
        self.presence_check_at = offline_delays.min().map(|delay_ms| now.mono.plus_ms(delay_ms));
    }

    pub(super) fn newest_seq(&self) -> Seq {
        Seq(self.records.len() as u64)
    }

    pub(super) fn newest_at(&self) -> Timestamp {
        self.records.last().map_or(Timestamp(0), |record| record.at)
    }

    /// Returns the number of the agent that currently has this id.
    pub(super) fn agent_number(&self, id: &AgentId) -> Option<AgentNo> {
        let current = |agent: &Agent| agent.id == *id && !agent.removed;
        self.agents.iter().position(current).map(|index| AgentNo(index as u64 + 1))
    }

    pub(super) fn agent(&self, number: AgentNo) -> &Agent {
        &self.agents[number.0 as usize - 1]
    }

    pub(super) fn delivery(&self, number: DeliveryNo) -> Option<&Delivery> {
        self.deliveries.get(usize::try_from(number.0).ok()?.checked_sub(1)?)
    }

    pub(super) fn delivery_mut(&mut self, number: DeliveryNo) -> &mut Delivery {
        &mut self.deliveries[number.0 as usize - 1]
    }

    /// Returns the deliveries leased by an agent, ordered by number.
    pub(super) fn held_by(&self, agent: AgentNo) -> Vec<DeliveryNo> {
        self.deliveries_where(|delivery| delivery.is_leased() && delivery.to.agent_no() == Some(agent))
    }

    /// Returns the numbers of the deliveries that match a predicate, in order.
    pub(super) fn deliveries_where(&self, matches: impl Fn(&Delivery) -> bool) -> Vec<DeliveryNo> {
        let numbered = self.deliveries.iter().enumerate();
        numbered
            .filter(|(_, delivery)| matches(delivery))
            .map(|(index, _)| DeliveryNo(index as u64 + 1))
            .collect()
    }

    /// Whether a delivery can be claimed.
    pub(super) fn is_ready(&self, delivery: &Delivery) -> bool {
        delivery.is_waiting() && !self.is_paused(delivery)
    }

    pub(super) fn has_ready(&self, queue: QueueId) -> bool {
        self.deliveries.iter().any(|delivery| delivery.to.queue() == queue && self.is_ready(delivery))
    }

    pub(super) fn leased_count(&self, agent: AgentNo) -> usize {
        self.held_by(agent).len()
    }

    pub(super) fn open_count(&self, queue: QueueId) -> usize {
        self.deliveries.iter().filter(|delivery| delivery.to.queue() == queue && delivery.is_open()).count()
    }

    fn counts(&self) -> DeliveryStateCounts {
        let mut counts = DeliveryStateCounts::default();
        for delivery in &self.deliveries {
            let count = match delivery.phase {
                DeliveryPhase::Ready { .. } if self.is_paused(delivery) => &mut counts.scheduled,
                DeliveryPhase::Ready { .. } => &mut counts.ready,
                DeliveryPhase::Scheduled { .. } => &mut counts.scheduled,
                DeliveryPhase::Leased { .. } => &mut counts.leased,
                DeliveryPhase::Ended { state: EndState::Acked, .. } => &mut counts.acked,
                DeliveryPhase::Ended { state: EndState::Dead, .. } => &mut counts.dead,
                DeliveryPhase::Ended { state: EndState::Expired, .. } => &mut counts.expired,
                DeliveryPhase::Ended { state: EndState::Purged, .. } => &mut counts.purged,
            };
            *count += 1;
        }
        counts
    }

    fn ready_by_level(&self) -> [u64; 4] {
        let mut levels = [0; 4];
        for delivery in &self.deliveries {
            if matches!(delivery.phase, DeliveryPhase::Ready { .. }) && !self.is_paused(delivery) {
                levels[usize::from(delivery.priority.level)] += 1;
            }
        }
        levels
    }

    /// Returns the time of the next timer, without those of tasks.
    fn wake(&self) -> NextWake {
        let mut wake = NextWake::default();
        let earlier = |old: Option<Timestamp>, at| Some(old.map_or(at, |old: Timestamp| old.min(at)));
        for delivery in &self.deliveries {
            match delivery.phase {
                DeliveryPhase::Scheduled { due } => wake.wall = earlier(wake.wall, due),
                DeliveryPhase::Leased { deadline, .. } => {
                    wake.mono = Some(wake.mono.map_or(deadline, |old| old.min(deadline)));
                }
                DeliveryPhase::Ready { .. } | DeliveryPhase::Ended { .. } => {}
            }
            if let (true, false, Some(at)) = (delivery.is_open(), delivery.is_leased(), delivery.expires_at) {
                wake.wall = earlier(wake.wall, at);
            }
        }
        for hold in &self.holds {
            wake.mono = Some(wake.mono.map_or(hold.deadline, |old| old.min(hold.deadline)));
        }
        if let (Some(check_at), true) = (self.deadlock_check_at, self.has_waits()) {
            wake.mono = Some(wake.mono.map_or(check_at, |old| old.min(check_at)));
        }
        let timers = [wake.mono, self.presence_check_at, self.request_deadlines.values().min().copied()];
        wake.mono = timers.into_iter().flatten().min();
        if !self.undeliverable().is_empty() {
            wake.mono = Some(Mono(0));
        }
        for at in [self.earliest_token_expiry(), self.earliest_approval_expiry()].into_iter().flatten() {
            wake.wall = earlier(wake.wall, at);
        }
        // Deliveries that became ready during a refused commit are dispatched by the next one, which should run
        // immediately.
        if !self.dispatch_queue.is_empty() {
            wake.wall = Some(Timestamp(0));
        }
        wake
    }

    pub(super) fn published(&self) -> PublishedState {
        let (seq, at) = (self.newest_seq(), self.newest_at());
        PublishedState {
            head: Head { seq, hash: [0; 32], at, generation: self.generation() },
            agents: Arc::new(self.agents.iter().cloned().collect()),
            generations: Arc::new(Generations(self.generations.clone())),
            counts: self.counts(),
            ready_by_priority: self.ready_by_level(),
            tasks: self.task_counts(),
            approval_changes: self.approval_changes(),
            procedure_changes: self.procedure_changes(),
            wake: self.wake_for_tasks(self.wake()),
            topics: Arc::new(
                self.subscriptions()
                    .map(|subscription| (subscription.agent_number, subscription.pattern.clone()))
                    .collect(),
            ),
            policy: Arc::new(self.policy()),
            tokens: Arc::new(self.tokens().cloned().collect()),
        }
    }
}
