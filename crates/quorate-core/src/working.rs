//! The state at the head of a space: what decisions need and what is small enough to hold in memory.
//!
//! It changes in one way only: [`Working::apply`] carries out an effect. Deliveries, agents and consumers are each set
//! by one function that keeps every index in step and remembers what was there, so that a refused commit is undone.

mod apply;
mod approvals;
mod chains;
mod inbox;
mod items;
mod line;
mod locks;
mod pools;
mod presence;
mod queue;
mod replay;
mod requests;
mod sessions;
mod tasks;
mod tokens;
mod topics;
mod waits;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::effect::Origin;
use crate::ids::{
    AgentNo, ConsumerId, DeliveryNo, Epoch, Eras, Generation, PoolNo, Seq, SessionNo, SpaceId, Token,
};
use crate::item::ItemKey;
use crate::message::{IfUnavailable, Priority};
use crate::policy::Broadcasts;
use crate::recipient::{Home, Recipient};
use crate::registry::{Agent, Agents};
use crate::time::{Mono, Now, Timestamp};

pub(crate) use inbox::Inbox;
pub(crate) use line::Consumer;
pub(crate) use locks::Waiter;
pub use replay::Replayed;
pub(crate) use requests::Listener;
pub(crate) use tasks::{Awaiting, Claimer, Next, Taker};
pub use tokens::{Found, Tokens};
pub use topics::Topics;
pub(crate) use waits::WaitId;

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// The newest record of a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Its position.
    pub seq: Seq,
    /// The chain up to it.
    pub hash: [u8; 32],
    /// When it was decided; the next one is not earlier.
    pub at: Timestamp,
    /// The current generation.
    pub generation: Generation,
}

/// How many deliveries are in each state. They add up to all that were ever made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Waiting to be taken.
    pub ready: u64,
    /// Waiting for their time.
    pub scheduled: u64,
    /// Held by somebody.
    pub leased: u64,
    /// Done.
    pub acked: u64,
    /// Dead letters.
    pub dead: u64,
    /// Past their time.
    pub expired: u64,
    /// Ended by an operator.
    pub purged: u64,
}

/// Where an open delivery is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenState {
    /// Waiting to be taken.
    Ready {
        /// Since when.
        since: Timestamp,
    },
    /// Waiting for its time.
    Scheduled {
        /// Until when.
        due: Timestamp,
    },
    /// Waiting for its session to be resumed; counted as scheduled. Its row says what it would be otherwise.
    Held {
        /// Since when it would be ready.
        since: Timestamp,
    },
    /// Held by its recipient. The deadline is kept beside, see [`Working::lease`].
    Leased {
        /// The current lease.
        token: Token,
    },
}

/// A delivery that has not ended. Kept small: there may be a million of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    /// The record that holds the message.
    pub seq: Seq,
    /// Where it is.
    pub state: OpenState,
    /// When the message expires; [`Open::NEVER`] if it does not.
    pub expires: Timestamp,
    /// The number of the session that the message belongs to; 0 if to none.
    session: SessionNo,
    /// Whom it is for, or who holds it.
    pub to: Recipient,
    n: u32,
    /// Which goes first.
    pub priority: Priority,
    /// How often it was taken.
    pub attempt: u16,
    /// How often it may be taken.
    pub attempts_max: u16,
    /// What becomes of it if its recipient goes offline while it waits.
    pub if_unavailable: IfUnavailable,
}

impl Open {
    /// The time of expiry of what does not expire.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

    /// An open delivery that was not taken yet.
    #[must_use]
    pub fn new(to: impl Into<Recipient>, seq: Seq, n: u32, state: OpenState) -> Self {
        Self {
            seq,
            state,
            expires: Self::NEVER,
            session: SessionNo(0),
            to: to.into(),
            n,
            priority: Priority::NORMAL,
            attempt: 0,
            attempts_max: crate::limits::ATTEMPTS_DEFAULT,
            if_unavailable: IfUnavailable::Queue,
        }
    }

    /// Whose it is, and of which message.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin { to: self.to, seq: self.seq, n: self.n }
    }

    /// The session that the message belongs to.
    #[must_use]
    pub fn session(&self) -> Option<SessionNo> {
        Some(self.session).filter(|session| session.0 > 0)
    }

    /// The same delivery, of a message that belongs to this session.
    #[must_use]
    pub fn of_session(self, session: Option<SessionNo>) -> Self {
        Self { session: session.unwrap_or_default(), ..self }
    }

    /// Which message of the record it is, counted from 0.
    #[must_use]
    pub fn n(&self) -> u32 {
        self.n
    }

    /// The current token, if it is held.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        match self.state {
            OpenState::Leased { token } => Some(token),
            OpenState::Ready { .. } | OpenState::Scheduled { .. } | OpenState::Held { .. } => None,
        }
    }
}

/// How long a lease lasts and when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lease {
    pub(crate) lease_ms: u64,
    pub(crate) deadline: Mono,
    /// When it was taken; `None` if that was before the hub's start.
    pub(crate) since: Option<Timestamp>,
    /// The record that gave it; 0 if that was before the hub's start.
    pub(crate) seq: Seq,
}

impl Lease {
    fn new(lease_ms: u64, seq: Seq, now: Now) -> Self {
        Self { lease_ms, deadline: now.mono.plus_ms(lease_ms), since: Some(now.wall), seq }
    }
}

/// When time alone will next change something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wake {
    /// A delivery falls due or expires at this time.
    pub wall: Option<Timestamp>,
    /// A lease ends at this reading.
    pub mono: Option<Mono>,
}

impl Wake {
    /// Whether it is time.
    #[must_use]
    pub fn is_due(&self, now: Now) -> bool {
        self.wall.is_some_and(|at| at <= now.wall) || self.mono.is_some_and(|at| at <= now.mono)
    }
}

/// What to put back if the commit is refused.
#[derive(Debug)]
enum Undo {
    Delivery(DeliveryNo, Option<(Open, Option<Lease>)>),
    // Boxed: rare and large, while most of the journal is deliveries.
    Agent(AgentNo, Option<Box<Agent>>),
    Consumer(ConsumerId, Option<Consumer>),
    Fairness(AgentNo, inbox::Fairness),
    Item(Box<items::ItemBefore>),
    Deadline(Box<(ItemKey, u64, Mono)>),
    Waiter(Box<(ConsumerId, Option<Waiter>)>),
    Task(tasks::TaskUndo),
    Chain(Option<u64>),
    Broadcasts(AgentNo, Option<Broadcasts>),
    Numbers {
        next_delivery: u64,
        last_token: u64,
        last_epoch: u64,
        look_at: Option<Mono>,
        presence_at: Option<Mono>,
    },
    Seen(AgentNo, Mono),
    Listener(requests::Place, Option<Listener>),
}

/// The state at the head of one space.
#[derive(Debug)]
pub struct Working {
    /// The newest record.
    pub head: Head,
    /// The identity of the space.
    pub id: SpaceId,
    /// Units of work that the last decision cost, also if it was refused; see [`crate::limits::COMMIT_WORK_MAX`].
    pub spent: u64,
    eras: Arc<Eras>,
    next_delivery: u64,
    last_token: u64,
    /// The highest epoch ever given out, so that none is given out twice.
    last_epoch: u64,
    agents: Arc<Agents>,
    inboxes: Vec<Inbox>,
    pools: pools::Pools,
    open: Map<DeliveryNo, Open>,
    leases: Map<DeliveryNo, Lease>,
    due: BTreeSet<(Timestamp, DeliveryNo)>,
    expiring: BTreeSet<(Timestamp, DeliveryNo)>,
    lapsing: BTreeSet<(Mono, DeliveryNo)>,
    consumers: Map<ConsumerId, Consumer>,
    items: items::Items,
    chains: chains::Chains,
    /// When to look who waits for whom, if anybody does.
    look_at: Option<Mono>,
    /// Who sent how often to everybody of late.
    broadcasts: Map<AgentNo, Broadcasts>,
    watched: presence::Watched,
    /// Turns given out so far; whoever comes later has a higher one.
    turns: u64,
    /// Inboxes and pools in which something became ready, to be looked at before the commit ends.
    stirred: Vec<Home>,
    counts: Counts,
    /// Those that are ready, by the level of their priority.
    ready_by_level: [u64; 4],
    /// What to put back, since the last [`Working::settle`].
    journal: Vec<Undo>,
    /// Where in the journal the current commit begins.
    mark: usize,
    /// How many inboxes were stirred by then.
    stirred_mark: usize,
    /// What was true at the last [`Working::settle`] and is not in the journal.
    settled: Settled,
}

/// The part of the state that changes with every record.
#[derive(Clone, Debug)]
struct Settled {
    head: Head,
    eras: Arc<Eras>,
    counts: Counts,
}

impl Working {
    /// The state of a space before its first record.
    #[must_use]
    pub fn new(id: SpaceId) -> Self {
        let head = Head {
            seq: Seq(0),
            hash: crate::chain::first_previous(id),
            at: Timestamp(0),
            generation: Generation(0),
        };
        Self {
            head,
            id,
            spent: 0,
            eras: Arc::default(),
            next_delivery: 1,
            last_token: 0,
            last_epoch: 0,
            agents: Arc::default(),
            inboxes: Vec::new(),
            pools: pools::Pools::default(),
            open: Map::default(),
            leases: Map::default(),
            due: BTreeSet::new(),
            expiring: BTreeSet::new(),
            lapsing: BTreeSet::new(),
            consumers: Map::default(),
            items: items::Items::default(),
            chains: chains::Chains::default(),
            look_at: None,
            broadcasts: Map::default(),
            watched: presence::Watched::default(),
            turns: 0,
            stirred: Vec::new(),
            counts: Counts::default(),
            ready_by_level: [0; 4],
            journal: Vec::new(),
            mark: 0,
            stirred_mark: 0,
            settled: Settled { head, eras: Arc::default(), counts: Counts::default() },
        }
    }

    /// Takes up what a store kept of a space: everything but the open deliveries, which [`Working::load`] adds.
    #[must_use]
    pub fn restore(id: SpaceId, head: Head, eras: Eras, agents: Vec<Agent>, kept: Kept) -> Self {
        let mut working = Self::new(id);
        working.head = head;
        working.eras = Arc::new(eras);
        working.next_delivery = kept.next_delivery;
        working.last_token = kept.last_token;
        working.counts = Counts { ready: 0, scheduled: 0, leased: 0, ..kept.counts };
        for agent in agents {
            let number = working.agents.next_number();
            working.set_agent(number, Some(agent));
        }
        working.settle();
        working
    }

    /// Adds an open delivery as it was stored. A lease runs its full length again from now; what a paused session
    /// holds is held again. Items are loaded first.
    pub fn load(&mut self, number: DeliveryNo, open: Open, lease_ms: u64, now: Now) {
        let state = match open.state {
            OpenState::Ready { since } => self.waiting(open.session(), since),
            other => other,
        };
        let open = Open { state, ..open };
        let deadline = now.mono.plus_ms(lease_ms);
        let lease = open.token().map(|_| Lease { lease_ms, deadline, since: None, seq: Seq(0) });
        self.put_delivery(number, Some((open, lease)));
        self.settled.counts = self.counts;
    }

    /// Makes room for this many open deliveries at once.
    pub fn reserve(&mut self, count: usize) {
        self.open.reserve(count);
    }

    /// The agents, as they are now.
    #[must_use]
    pub fn agents(&self) -> &Arc<Agents> {
        &self.agents
    }

    /// The eras, as they are now.
    #[must_use]
    pub fn eras(&self) -> &Arc<Eras> {
        &self.eras
    }

    /// How many deliveries are in each state.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many deliveries wait to be taken, by the level of their priority, low first.
    #[must_use]
    pub fn ready_by_level(&self) -> [u64; 4] {
        self.ready_by_level
    }

    /// What a store keeps of the state besides rows.
    #[must_use]
    pub fn kept(&self) -> Kept {
        Kept { next_delivery: self.next_delivery, last_token: self.last_token, counts: self.counts }
    }

    /// An open delivery.
    #[must_use]
    pub fn open(&self, number: DeliveryNo) -> Option<&Open> {
        self.open.get(&number)
    }

    /// How long the lease of a delivery lasts, if it is held.
    #[must_use]
    pub fn lease_ms(&self, number: DeliveryNo) -> Option<u64> {
        self.leases.get(&number).map(|lease| lease.lease_ms)
    }

    /// The lease of a delivery, if it is held.
    pub(crate) fn lease(&self, number: DeliveryNo) -> Option<Lease> {
        self.leases.get(&number).copied()
    }

    /// All open deliveries in the order of their numbers. For comparisons; not for hot paths.
    #[must_use]
    pub fn all_open(&self) -> Vec<(DeliveryNo, Open)> {
        let mut all: Vec<_> = self.open.iter().map(|(number, open)| (*number, *open)).collect();
        all.sort_by_key(|(number, _)| *number);
        all
    }

    /// When time alone will next change something.
    #[must_use]
    pub fn wake(&self) -> Wake {
        let due = self.due.first().map(|(at, _)| *at);
        let expiry = self.expiring.first().map(|(at, _)| *at);
        // What was found due by a commit that could not hand it out is handed out by the next sweep, at once.
        let stirred = (!self.stirred.is_empty()).then_some(Timestamp(0));
        let (alarm, deadline) = self.items.wake();
        Wake {
            wall: [due, expiry, stirred, alarm].into_iter().flatten().min(),
            mono: [self.lapsing.first().map(|(at, _)| *at), deadline, self.next_look(), self.watched.wake()]
                .into_iter()
                .flatten()
                .min(),
        }
    }

    /// Starts a commit: brings the clock up to date and marks what to put back if the commit is refused.
    pub(crate) fn begin(&mut self, now: Now) {
        while let Some((due, number)) = self.due.first().copied()
            && due <= now.wall
        {
            let before = self.open[&number];
            let state = self.waiting(before.session(), due);
            self.set_delivery(number, Some((Open { state, ..before }, None)));
            self.stir(before.to.home());
        }
        self.mark = self.journal.len();
        self.stirred_mark = self.stirred.len();
        self.items.tasks.mark();
        self.journal.push(Undo::Numbers {
            next_delivery: self.next_delivery,
            last_token: self.last_token,
            last_epoch: self.last_epoch,
            look_at: self.look_at,
            presence_at: self.watched.look_at,
        });
    }

    /// The commit is refused: puts back everything since it began. That time has passed stays true.
    pub(crate) fn undo(&mut self) {
        self.undo_to(self.mark);
        self.stirred.truncate(self.stirred_mark);
        self.items.tasks.back_to_mark();
    }

    /// The commits since the last call are on disk: from here on they are not put back.
    pub fn settle(&mut self) {
        self.journal.clear();
        self.mark = 0;
        self.settled = Settled { head: self.head, eras: Arc::clone(&self.eras), counts: self.counts };
    }

    /// Whether there is a record that [`Working::settle`] was not told of.
    #[must_use]
    pub fn has_moved(&self) -> bool {
        self.head.seq != self.settled.head.seq
    }

    /// The commits since [`Working::settle`] could not be written: puts back everything.
    pub fn revert(&mut self) {
        self.undo_to(0);
        let Settled { head, eras, counts } = self.settled.clone();
        self.head = head;
        self.eras = eras;
        self.counts = counts;
        // What was handed out is waiting again, and so are those who were to get it.
        self.stirred.clear();
        for number in 1..=self.inboxes.len() as u64 {
            self.stir(Home::Agent(AgentNo(number)));
        }
        for number in 1..=self.pools.len() as u64 {
            self.stir(Home::Pool(PoolNo(number)));
        }
        self.items.tasks.stir_all();
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
                Undo::Item(before) => self.put_back(*before),
                Undo::Deadline(before) => self.put_deadline_back(&before.0, before.1, before.2),
                Undo::Chain(oldest) => self.chains.pop(oldest),
                Undo::Waiter(before) => drop(self.items.locks.put_waiter(before.0, before.1)),
                Undo::Task(before) => self.put_task_back(before),
                Undo::Broadcasts(agent, Some(before)) => drop(self.broadcasts.insert(agent, before)),
                Undo::Broadcasts(agent, None) => drop(self.broadcasts.remove(&agent)),
                Undo::Numbers { next_delivery, last_token, last_epoch, look_at, presence_at } => {
                    self.look_at = look_at;
                    self.next_delivery = next_delivery;
                    self.last_token = last_token;
                    self.last_epoch = last_epoch;
                    self.watched.look_at = presence_at;
                }
                Undo::Seen(agent, at) => self.watched.set_seen(agent, at),
                Undo::Listener(place, before) => drop(self.items.requests.put_listener(place, before)),
            }
        }
    }

    /// Notes an inbox or a pool in which something is ready and somebody is waiting.
    pub(crate) fn stir(&mut self, home: Home) {
        let inbox = self.inbox_at(home);
        if inbox.is_awaited() && inbox.has_ready() && !self.stirred.contains(&home) {
            self.stirred.push(home);
        }
    }

    /// Notes everything from which an agent may take: it has room or credit for more.
    pub(crate) fn stir_all(&mut self, agent: AgentNo) {
        self.stir(Home::Agent(agent));
        for index in 0..self.inbox(agent).pools().len() {
            let pool = self.inbox(agent).pools()[index];
            self.stir(Home::Pool(pool));
        }
    }

    /// How often an agent sent to everybody of late.
    pub(crate) fn broadcasts(&self, agent: AgentNo) -> Broadcasts {
        self.broadcasts.get(&agent).copied().unwrap_or_default()
    }

    pub(crate) fn set_broadcasts(&mut self, agent: AgentNo, new: Broadcasts) {
        let before = self.broadcasts.insert(agent, new);
        self.journal.push(Undo::Broadcasts(agent, before));
    }

    pub(crate) fn take_stirred(&mut self) -> Vec<Home> {
        std::mem::take(&mut self.stirred)
    }

    pub(crate) fn next_delivery(&self) -> DeliveryNo {
        DeliveryNo(self.next_delivery)
    }

    /// The next epoch: above every earlier one of this space, also of an agent that was removed and of a history that a
    /// restore undid.
    pub(crate) fn next_epoch(&self, seq: Seq) -> Epoch {
        Epoch((self.last_epoch + 1).max(seq.0).max(self.head.generation.0 << 24))
    }

    /// The next token: greater than every earlier one, also those of a history that a restore undid.
    pub(crate) fn next_token(&mut self) -> Token {
        self.last_token = (self.last_token + 1).max(self.head.generation.0 << 24);
        Token(self.last_token)
    }

    pub(crate) fn inbox(&self, agent: AgentNo) -> &Inbox {
        &self.inboxes[agent.0 as usize - 1]
    }

    fn inbox_mut(&mut self, agent: AgentNo) -> &mut Inbox {
        &mut self.inboxes[agent.0 as usize - 1]
    }

    /// The first deliveries, by number, whose lease is over.
    pub(crate) fn lapsed(&self, now: Mono, max: usize) -> Vec<DeliveryNo> {
        self.lapsing.iter().take_while(|(at, _)| *at <= now).take(max).map(|(_, number)| *number).collect()
    }

    /// The first waiting deliveries, by time, whose message expired.
    pub(crate) fn expired(&self, now: Timestamp, max: usize) -> Vec<DeliveryNo> {
        self.expiring.iter().take_while(|(at, _)| *at <= now).take(max).map(|(_, number)| *number).collect()
    }

    fn set_delivery(&mut self, number: DeliveryNo, new: Option<(Open, Option<Lease>)>) {
        let before = self.open.get(&number).map(|open| (*open, self.leases.get(&number).copied()));
        self.journal.push(Undo::Delivery(number, before));
        self.put_delivery(number, new);
    }

    /// The one place where a delivery changes and where every index over deliveries is kept in step.
    fn put_delivery(&mut self, number: DeliveryNo, new: Option<(Open, Option<Lease>)>) {
        let old = match new {
            Some((open, _)) => self.open.insert(number, open),
            None => self.open.remove(&number),
        };
        if let Some(old) = old {
            let home = home_of(&mut self.inboxes, &mut self.pools, old.to);
            home.open -= 1;
            match old.state {
                OpenState::Ready { .. } => {
                    self.counts.ready -= 1;
                    self.ready_by_level[level_of(old.priority)] -= 1;
                    home.remove_ready(old.priority, number);
                }
                OpenState::Scheduled { due } => {
                    self.counts.scheduled -= 1;
                    self.due.remove(&(due, number));
                }
                OpenState::Held { .. } => self.counts.scheduled -= 1,
                OpenState::Leased { .. } => {
                    self.counts.leased -= 1;
                    if let Some(agent) = old.to.agent_no() {
                        self.inbox_mut(agent).leased.remove(&number);
                    }
                    if let Some(lease) = self.leases.remove(&number) {
                        self.lapsing.remove(&(lease.deadline, number));
                    }
                }
            }
            if old.expires != Open::NEVER && old.token().is_none() {
                self.expiring.remove(&(old.expires, number));
            }
            self.watch_delivery(&old, number, false);
        }
        self.put_in_session(
            number,
            old.and_then(|old| old.session()),
            new.and_then(|(open, _)| open.session()),
        );
        let Some((open, lease)) = new else { return };
        let home = home_of(&mut self.inboxes, &mut self.pools, open.to);
        home.open += 1;
        match open.state {
            OpenState::Ready { since } => {
                self.counts.ready += 1;
                self.ready_by_level[level_of(open.priority)] += 1;
                home.insert_ready(open.priority, number, since);
            }
            OpenState::Scheduled { due } => {
                self.counts.scheduled += 1;
                self.due.insert((due, number));
            }
            OpenState::Held { .. } => self.counts.scheduled += 1,
            OpenState::Leased { .. } => {
                self.counts.leased += 1;
                if let Some(agent) = open.to.agent_no() {
                    self.inbox_mut(agent).leased.insert(number);
                }
                if let Some(lease) = lease {
                    self.leases.insert(number, lease);
                    self.lapsing.insert((lease.deadline, number));
                }
            }
        }
        if open.expires != Open::NEVER && open.token().is_none() {
            self.expiring.insert((open.expires, number));
        }
        self.watch_delivery(&open, number, true);
    }

    fn set_agent(&mut self, number: AgentNo, new: Option<Agent>) {
        self.journal.push(Undo::Agent(number, self.agents.get(number).cloned().map(Box::new)));
        if self.put_agent(number, new) {
            self.requeue(number);
        }
    }

    /// Says whether the agent may take from other pools now.
    fn put_agent(&mut self, number: AgentNo, new: Option<Agent>) -> bool {
        let known = new.is_some();
        let count = match &new {
            Some(_) => self.inboxes.len().max(number.0 as usize),
            None => number.0 as usize - 1,
        };
        self.inboxes.resize_with(count, Inbox::default);
        self.watch_agent(number, new.as_ref(), count);
        self.last_epoch = self.last_epoch.max(new.as_ref().map_or(0, |agent| agent.epoch.0));
        Arc::make_mut(&mut self.agents).set(number, new);
        known && self.join_pools(number)
    }
}

/// Which count of [`Working::ready_by_level`].
fn level_of(priority: Priority) -> usize {
    usize::from(priority.level.min(3))
}

/// Where a delivery waits, or waited before it was taken.
fn home_of<'a>(inboxes: &'a mut [Inbox], pools: &'a mut pools::Pools, to: Recipient) -> &'a mut Inbox {
    match to.home() {
        Home::Agent(agent) => &mut inboxes[agent.0 as usize - 1],
        Home::Pool(pool) => pools.inbox_mut(pool),
    }
}

/// What a store keeps of the state besides rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The number of the next delivery.
    pub next_delivery: u64,
    /// The last token given out.
    pub last_token: u64,
    /// Deliveries by state.
    pub counts: Counts,
}

impl Working {
    /// Deliveries that are leased to anybody, in the order of their numbers. Looks at all of them.
    pub(crate) fn all_leased(&self) -> Vec<DeliveryNo> {
        let mut leased: Vec<_> = self.leases.keys().copied().collect();
        leased.sort_unstable();
        leased
    }

    /// Deliveries that wait for their time, soonest first.
    pub(crate) fn scheduled(&self) -> impl Iterator<Item = DeliveryNo> {
        self.due.iter().map(|(_, number)| *number)
    }
}
