//! State of a space in plain lists, and simple queries on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::{
    Agent, AgentId, AgentNo, ConsumerId, Counts, Created, DeliveryNo, EndState, EntryVersion, Era, Eras,
    Generation, Head, Home, IdempotencyKey, IfUnavailable, Item, ItemKey, Key, Message, MessageId, Mono, Now,
    OpResult, Payload, Principal, Priority, Receipt, Recipient, RecordKind, Seq, SpaceId, SpaceName,
    Timestamp, Token, Wake,
};

use crate::reference::locks::{Hold, LockWaiter};
use crate::reference::requests::Listener;
use crate::reference::sessions::{Line, Opening};
use crate::reference::tasks::{TaskMemory, TaskWaiter};
use crate::store::Published;

/// State of a space. Cloned before each commit, to restore it after a refusal.
#[derive(Clone)]
pub(super) struct Space {
    pub(super) name: SpaceName,
    pub(super) id: SpaceId,
    /// Log, starting with record 1.
    pub(super) records: Vec<Noted>,
    /// Agents by number, starting at 1, including removed ones.
    pub(super) agents: Vec<Agent>,
    /// Starvation protection of each agent's inbox, parallel to `agents`.
    pub(super) fairness: Vec<Fairness>,
    /// All messages ever sent.
    pub(super) messages: Vec<Sent>,
    /// All deliveries ever created, by number, starting at 1.
    pub(super) deliveries: Vec<Delivery>,
    /// All versions of all entries, oldest first.
    pub(super) entries: BTreeMap<Key, Vec<EntryVersion>>,
    /// Receipts stored under idempotency keys.
    pub(super) answers: Vec<Answer>,
    /// Waiting consumers, in queue order: the first one with credit is served next.
    pub(super) consumers: Vec<Consumer>,
    /// Inboxes and pools with ready deliveries and a waiting consumer, in the order in which they became so.
    pub(super) stirred: Vec<Home>,
    /// Generations of the space: the initial one and one per restore.
    pub(super) eras: Vec<Era>,
    pub(super) last_token: u64,
    /// Stored items.
    pub(super) items: BTreeMap<ItemKey, Item>,
    /// Creation position of each item, oldest first.
    pub(super) creations: Vec<(ItemKey, Created)>,
    /// Deadlines of granted locks.
    pub(super) holds: Vec<Hold>,
    /// Lock waiters, in order of arrival.
    pub(super) lock_waiters: Vec<LockWaiter>,
    /// Messages with a cause, sent since the last restart. Used for loop detection.
    pub(super) said: Vec<Message>,
    /// Time of the next deadlock check.
    pub(super) look_at: Option<Mono>,
    /// Requests that opened the sessions.
    pub(super) openings: Vec<Opening>,
    /// Timeline entries of all sessions.
    pub(super) lines: Vec<Line>,
    pub(super) task_memory: TaskMemory,
    /// Broadcast rate limit: start of the current minute and number of broadcasts, by sender.
    pub(super) broadcasts: BTreeMap<AgentNo, (Timestamp, u32)>,
    /// Time of the last activity of each agent, parallel to `agents`.
    pub(super) heard: Vec<Mono>,
    /// Time of the next presence check.
    pub(super) presence_at: Option<Mono>,
    /// Deadline of each open request.
    pub(super) deadlines: BTreeMap<MessageId, Mono>,
    /// Waiters of open requests.
    pub(super) waiters: BTreeMap<MessageId, Listener>,
    /// Waiters for the end of tasks, in order of arrival.
    pub(super) task_waiters: Vec<TaskWaiter>,
    /// Number of waits for locks and tasks so far.
    pub(super) turns: u64,
}

/// Record of the log, without its effects.
#[derive(Clone)]
pub(super) struct Noted {
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
    pub(super) turn_at: Timestamp,
}

#[derive(Clone)]
pub(super) struct Sent {
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
    /// Session of its message.
    pub(super) session: Option<String>,
    /// Number of times it was leased.
    pub(super) attempt: u16,
    pub(super) place: Place,
    pub(super) if_unavailable: IfUnavailable,
}

/// State of a delivery.
#[derive(Clone)]
pub(super) enum Place {
    Ready {
        since: Timestamp,
        /// Whether it became ready by a timer, which leaves no record.
        by_time: bool,
    },
    Scheduled {
        due: Timestamp,
    },
    Leased {
        token: Token,
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
        token: Token,
        seq: Seq,
        at: Timestamp,
        reason: String,
    },
}

#[derive(Clone)]
pub(super) struct Answer {
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
    /// Whether it is due and not leased. A paused session may still hold it.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.place, Place::Ready { .. })
    }

    pub(super) fn is_leased(&self) -> bool {
        matches!(self.place, Place::Leased { .. })
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self.place, Place::Ended { .. })
    }

    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Returns the token of the current lease, or 0 if it is not leased.
    pub(super) fn token(&self) -> Token {
        match self.place {
            Place::Leased { token, .. } => token,
            Place::Ready { .. } | Place::Scheduled { .. } | Place::Ended { .. } => Token(0),
        }
    }
}

impl Space {
    /// Creates a space with its genesis record.
    pub(super) fn new(name: SpaceName, id: SpaceId, at: Timestamp) -> Self {
        let genesis = Noted { at, kind: RecordKind::Genesis, principal: "system".into(), parts: Vec::new() };
        Self {
            name,
            id,
            records: vec![genesis],
            agents: Vec::new(),
            fairness: Vec::new(),
            messages: Vec::new(),
            deliveries: Vec::new(),
            entries: BTreeMap::new(),
            answers: Vec::new(),
            consumers: Vec::new(),
            stirred: Vec::new(),
            items: BTreeMap::new(),
            creations: Vec::new(),
            openings: Vec::new(),
            lines: Vec::new(),
            task_memory: TaskMemory::default(),
            broadcasts: BTreeMap::new(),
            heard: Vec::new(),
            presence_at: None,
            deadlines: BTreeMap::new(),
            waiters: BTreeMap::new(),
            task_waiters: Vec::new(),
            turns: 0,
            eras: vec![Era { generation: Generation(0), first_seq: Seq(1), first_delivery: DeliveryNo(1) }],
            last_token: 0,
            holds: Vec::new(),
            lock_waiters: Vec::new(),
            said: Vec::new(),
            look_at: None,
        }
    }

    pub(super) fn restart(&mut self, now: Now) {
        self.consumers.clear();
        self.stirred.clear();
        self.fairness.fill(Fairness::default());
        self.restart_tasks(now.mono);
        let newest_at = self.newest_at();
        self.lock_waiters.clear();
        self.said.clear();
        self.holds.iter_mut().for_each(|hold| hold.deadline = now.mono.plus_ms(hold.ttl_ms));
        self.broadcasts.clear();
        for delivery in &mut self.deliveries {
            match &mut delivery.place {
                Place::Leased { lease_ms, deadline, since, .. } => {
                    *deadline = now.mono.plus_ms(*lease_ms);
                    *since = None;
                }
                // A transition after the last record left no trace in the log, so it is undone.
                Place::Ready { since, by_time: true } if *since > newest_at => {
                    delivery.place = Place::Scheduled { due: *since };
                }
                Place::Ready { .. } | Place::Scheduled { .. } | Place::Ended { .. } => {}
            }
        }
        self.waiters.clear();
        self.task_waiters.clear();
        for request in self.open_requests() {
            self.deadlines.insert(request.id, now.mono.plus_ms(request.length_ms));
        }
        self.heard.fill(now.mono);
        let agents = (1..=self.agents.len() as u64).map(AgentNo);
        let silences = agents.filter_map(|agent| self.silence_ms(agent));
        self.presence_at = silences.min().map(|silence_ms| now.mono.plus_ms(silence_ms));
    }

    pub(super) fn newest(&self) -> Seq {
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
        self.deliveries_where(|one| one.is_leased() && one.to.agent_no() == Some(agent))
    }

    /// Returns the numbers of the deliveries that match a predicate, in order.
    pub(super) fn deliveries_where(&self, matches: impl Fn(&Delivery) -> bool) -> Vec<DeliveryNo> {
        let numbered = self.deliveries.iter().enumerate();
        numbered.filter(|(_, one)| matches(one)).map(|(index, _)| DeliveryNo(index as u64 + 1)).collect()
    }

    /// Whether a delivery can be claimed.
    pub(super) fn is_ready(&self, delivery: &Delivery) -> bool {
        delivery.is_waiting() && !self.is_kept_back(delivery)
    }

    pub(super) fn has_ready(&self, home: Home) -> bool {
        self.deliveries.iter().any(|delivery| delivery.to.home() == home && self.is_ready(delivery))
    }

    pub(super) fn leased_count(&self, agent: AgentNo) -> usize {
        self.held_by(agent).len()
    }

    pub(super) fn open_count(&self, home: Home) -> usize {
        self.deliveries.iter().filter(|delivery| delivery.to.home() == home && delivery.is_open()).count()
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for delivery in &self.deliveries {
            let count = match delivery.place {
                Place::Ready { .. } if self.is_kept_back(delivery) => &mut counts.scheduled,
                Place::Ready { .. } => &mut counts.ready,
                Place::Scheduled { .. } => &mut counts.scheduled,
                Place::Leased { .. } => &mut counts.leased,
                Place::Ended { state: EndState::Acked, .. } => &mut counts.acked,
                Place::Ended { state: EndState::Dead, .. } => &mut counts.dead,
                Place::Ended { state: EndState::Expired, .. } => &mut counts.expired,
                Place::Ended { state: EndState::Purged, .. } => &mut counts.purged,
            };
            *count += 1;
        }
        counts
    }

    fn ready_by_level(&self) -> [u64; 4] {
        let mut levels = [0; 4];
        for delivery in &self.deliveries {
            if matches!(delivery.place, Place::Ready { .. }) && !self.is_kept_back(delivery) {
                levels[usize::from(delivery.priority.level)] += 1;
            }
        }
        levels
    }

    /// Returns the time of the next timer, without those of tasks.
    fn wake(&self) -> Wake {
        let mut wake = Wake::default();
        let sooner = |old: Option<Timestamp>, at| Some(old.map_or(at, |old: Timestamp| old.min(at)));
        for delivery in &self.deliveries {
            match delivery.place {
                Place::Scheduled { due } => wake.wall = sooner(wake.wall, due),
                Place::Leased { deadline, .. } => {
                    wake.mono = Some(wake.mono.map_or(deadline, |old| old.min(deadline)));
                }
                Place::Ready { .. } | Place::Ended { .. } => {}
            }
            if let (true, false, Some(at)) = (delivery.is_open(), delivery.is_leased(), delivery.expires_at) {
                wake.wall = sooner(wake.wall, at);
            }
        }
        for hold in &self.holds {
            wake.mono = Some(wake.mono.map_or(hold.deadline, |old| old.min(hold.deadline)));
        }
        if let (Some(check_at), true) = (self.look_at, self.anybody_waits()) {
            wake.mono = Some(wake.mono.map_or(check_at, |old| old.min(check_at)));
        }
        let soonest = [wake.mono, self.presence_at, self.deadlines.values().min().copied()];
        wake.mono = soonest.into_iter().flatten().min();
        if !self.displaced().is_empty() {
            wake.mono = Some(Mono(0));
        }
        for at in [self.next_expiry(), self.next_approval_expiry()].into_iter().flatten() {
            wake.wall = sooner(wake.wall, at);
        }
        // Deliveries that became ready during a refused commit are dispatched by the next one, which should run
        // immediately.
        if !self.stirred.is_empty() {
            wake.wall = Some(Timestamp(0));
        }
        wake
    }

    pub(super) fn published(&self) -> Published {
        let (seq, at) = (self.newest(), self.newest_at());
        Published {
            head: Head { seq, hash: [0; 32], at, generation: self.generation() },
            agents: Arc::new(self.agents.iter().cloned().collect()),
            eras: Arc::new(Eras(self.eras.clone())),
            counts: self.counts(),
            ready_by_level: self.ready_by_level(),
            tasks: self.task_counts(),
            approval_changes: self.approval_changes(),
            wake: self.wake_for_tasks(self.wake()),
            topics: Arc::new(self.subscriptions().map(|one| (one.number, one.pattern.clone())).collect()),
            policy: Arc::new(self.policy()),
            tokens: Arc::new(self.tokens().cloned().collect()),
        }
    }
}
