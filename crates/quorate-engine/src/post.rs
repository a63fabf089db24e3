//! Handing deliveries to those who wait: claims and streams, each with a mailbox in memory.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::{
    AgentNo, ConsumerId, Handed, LeaseRef, Message, Op, Refused, Seq, SpaceNo, Timestamp, Told,
};
use quorate_store::{BoxFuture, Handover, StoreError};
use tokio::sync::mpsc;

use crate::ephemeral::{Ephemeral, Posted, Questions, Shelf, Untaken, no_room};
use crate::error::Error;
use crate::space::Space;

pub use quorate_api::received::{Delivery, MessageRef};

/// Messages that are read from the log at once for one consumer: a frame of them.
const READ_AHEAD: usize = 64;

/// A message, and when it was sent.
pub(crate) type Sent = (Timestamp, Arc<Message>);

/// A message as the log has it, or how it is damaged.
pub(crate) type Letter = Result<Sent, StoreError>;

/// What lies in a mailbox.
pub(crate) enum Mail {
    /// Deliveries under leases.
    Handed(Vec<Handed>),
    /// A message that lives in memory only.
    Ephemeral(Posted),
    /// What somebody is told who waits for something else.
    Told(Told),
}

struct Mailbox {
    space: SpaceNo,
    agent: AgentNo,
    sender: mpsc::UnboundedSender<Mail>,
    untaken: Arc<Untaken>,
}

#[derive(Default)]
struct State {
    boxes: HashMap<ConsumerId, Mailbox>,
    /// Who listens for an agent, so that ephemeral messages find somebody.
    listeners: HashMap<(SpaceNo, AgentNo), VecDeque<ConsumerId>>,
    shelves: HashMap<(SpaceNo, AgentNo), Shelf>,
}

/// All mailboxes of a hub. What a mailbox holds is bounded by the credit that its consumer gave.
#[derive(Default)]
pub(crate) struct Post {
    state: Mutex<State>,
    last: AtomicU64,
    /// Whose turn it is among several who could take an ephemeral message.
    turn: AtomicU64,
    /// Ephemeral questions that somebody waits with.
    pub(crate) questions: Questions,
}

impl Post {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a mailbox, with what lies on the shelf for the agent.
    pub(crate) fn open(&self, space: SpaceNo, agent: AgentNo) -> (ConsumerId, mpsc::UnboundedReceiver<Mail>) {
        let id = ConsumerId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, receiver) = mpsc::unbounded_channel();
        let untaken = Arc::default();
        let mut state = self.lock();
        if let Some(mut shelf) = state.shelves.remove(&(space, agent)) {
            while let Some(message) = shelf.take() {
                let _ = sender.send(Mail::Ephemeral(Posted::new(message, &untaken)));
            }
        }
        state.listeners.entry((space, agent)).or_default().push_back(id);
        state.boxes.insert(id, Mailbox { space, agent, sender, untaken });
        (id, receiver)
    }

    /// Opens a mailbox for somebody who waits for something else than deliveries.
    pub(crate) fn wait(&self, space: SpaceNo) -> (ConsumerId, mpsc::UnboundedReceiver<Mail>) {
        let id = ConsumerId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, receiver) = mpsc::unbounded_channel();
        self.lock().boxes.insert(id, Mailbox { space, agent: AgentNo(0), sender, untaken: Arc::default() });
        (id, receiver)
    }

    pub(crate) fn close(&self, id: ConsumerId) {
        self.lock().remove(id);
    }

    /// Takes what a batch brought. Called from the writer: only moves pointers.
    pub(crate) fn hand_over(&self, handover: Handover) {
        if handover.is_empty() {
            return;
        }
        let mut state = self.lock();
        let mut sorted: Vec<(ConsumerId, Vec<Handed>)> = Vec::new();
        let mut places: HashMap<ConsumerId, usize> = HashMap::new();
        for (id, handed) in handover.handed {
            let place = *places.entry(id).or_insert(sorted.len());
            match sorted.get_mut(place) {
                Some((_, list)) => list.push(handed),
                None => sorted.push((id, vec![handed])),
            }
        }
        for (id, list) in sorted {
            // A consumer that has gone: its leases lapse and the deliveries come back.
            if let Some(found) = state.boxes.get(&id) {
                let _ = found.sender.send(Mail::Handed(list));
            }
        }
        for (id, told) in handover.told {
            if let Some(found) = state.boxes.get(&id) {
                let _ = found.sender.send(Mail::Told(told));
            }
        }
        for id in handover.dismissed {
            state.remove(id);
        }
    }

    /// Gives an ephemeral message to each of these agents, or to none if there is no room for one of them.
    pub(crate) fn deliver_to_all(
        &self,
        space: SpaceNo,
        agents: &[AgentNo],
        message: &Ephemeral,
    ) -> Result<(), Refused> {
        let mut state = self.lock();
        if agents.iter().any(|agent| !state.has_room((space, *agent), message)) {
            return Err(no_room());
        }
        agents.iter().for_each(|agent| state.deliver((space, *agent), message));
        Ok(())
    }

    /// Gives an ephemeral message to those of these agents for whom there is room: who does not listen misses it.
    pub(crate) fn deliver_to_any(&self, space: SpaceNo, agents: &[AgentNo], message: &Ephemeral) {
        let mut state = self.lock();
        for agent in agents {
            if state.has_room((space, *agent), message) {
                state.deliver((space, *agent), message);
            }
        }
    }

    /// Gives an ephemeral message to one of these agents that listens, in turn. Says whether there is one.
    pub(crate) fn deliver_to_one(&self, space: SpaceNo, agents: &[AgentNo], message: Ephemeral) -> bool {
        let mut state = self.lock();
        let start = self.turn.fetch_add(1, Ordering::Relaxed) as usize % agents.len().max(1);
        let (before, from) = agents.split_at(start);
        let found = from.iter().chain(before).find(|agent| state.can_listen((space, **agent), &message));
        let Some(agent) = found else { return false };
        state.deliver((space, *agent), &message);
        true
    }

    /// Gives ephemeral messages that a claim had no use for to the next who listens, else back to the shelf, in front
    /// of what came there meanwhile.
    pub(crate) fn put_back(&self, space: SpaceNo, agent: AgentNo, messages: Vec<Ephemeral>) {
        let mut state = self.lock();
        let place = (space, agent);
        let (listens, waits): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| state.can_listen(place, message));
        listens.iter().for_each(|message| state.deliver(place, message));
        if !waits.is_empty() {
            let shelf = state.shelves.entry(place).or_default();
            waits.into_iter().rev().for_each(|message| shelf.put_back(message));
        }
    }

    pub(crate) fn dismiss_all(&self) {
        let mut state = self.lock();
        state.boxes.clear();
        state.listeners.clear();
    }
}

/// An agent of a space.
type Place = (SpaceNo, AgentNo);

impl State {
    /// Whether somebody listens and has room for it.
    fn can_listen(&self, place: Place, message: &Ephemeral) -> bool {
        let mut boxes = self.boxes_of(place);
        boxes.any(|found| found.untaken.has_room(message))
    }

    /// The mailboxes of those who listen for an agent.
    fn boxes_of(&self, place: Place) -> impl Iterator<Item = &Mailbox> {
        self.listeners.get(&place).into_iter().flatten().filter_map(|id| self.boxes.get(id))
    }

    /// Whether somebody who listens has room, or nobody listens and the message can wait on the shelf.
    fn has_room(&self, place: Place, message: &Ephemeral) -> bool {
        match self.boxes_of(place).next() {
            Some(_) => self.can_listen(place, message),
            None => self.shelves.get(&place).is_none_or(|shelf| shelf.has_room(message)),
        }
    }

    /// Gives an ephemeral message to somebody who listens for the agent, in turn, else puts it on the shelf.
    fn deliver(&mut self, place: Place, message: &Ephemeral) {
        let Self { boxes, listeners, shelves } = self;
        let line = listeners.entry(place).or_default();
        line.retain(|id| boxes.contains_key(id));
        for _ in 0..line.len() {
            line.rotate_left(1);
            let Some(found) = line.back().and_then(|id| boxes.get(id)) else { continue };
            if found.untaken.has_room(message) {
                // At most once: if the listener goes away this very moment, so does the message.
                let _ = found.sender.send(Mail::Ephemeral(Posted::new(message.clone(), &found.untaken)));
                return;
            }
        }
        shelves.entry(place).or_default().put(message.clone());
    }

    fn remove(&mut self, id: ConsumerId) {
        if let Some(Mailbox { space, agent, .. }) = self.boxes.remove(&id)
            && let Some(line) = self.listeners.get_mut(&(space, agent))
        {
            line.retain(|other| *other != id);
        }
    }
}

/// A standing consumer: deliveries come as they are sent, within its credit. Ends when its agent is started again.
pub struct Consumer {
    space: Space,
    id: ConsumerId,
    mail: mpsc::UnboundedReceiver<Mail>,
    ready: VecDeque<Handed>,
    ephemeral: VecDeque<Posted>,
    /// How many of those in front were in the agent's hands before: it goes on where it stopped.
    resumed: usize,
    /// The messages of the first of those that have none yet, on their way from the log.
    reading: Option<BoxFuture<'static, Result<Vec<Letter>, Error>>>,
}

impl Consumer {
    pub(crate) fn new(
        space: Space,
        id: ConsumerId,
        mail: mpsc::UnboundedReceiver<Mail>,
        ready: Vec<Handed>,
    ) -> Self {
        Self { space, id, mail, ready: ready.into(), ephemeral: VecDeque::new(), resumed: 0, reading: None }
    }

    /// A consumer that takes up what the agent held before.
    pub(crate) fn resuming(mut self) -> Self {
        self.resumed = self.ready.len();
        self
    }

    /// The operation that lets this many more deliveries come. Put it into the commit that ends some: it costs nothing
    /// extra there.
    #[must_use]
    pub fn grant(&self, credit: u32) -> Op {
        Op::Grant { consumer: self.id, credit }
    }

    /// Gives what came and was not looked at back untouched, and says how many they were. The consumer stays.
    ///
    /// # Errors
    /// When the storage fails; the leases then lapse by themselves.
    pub async fn give_back(&mut self) -> Result<usize, Error> {
        while let Ok(mail) = self.mail.try_recv() {
            self.sort(mail);
        }
        let leases: Vec<_> = self.ready.drain(..).map(|handed| self.space.lease_of(&handed)).collect();
        let count = leases.len();
        self.resumed = 0;
        self.reading = None;
        self.space.release(leases).await.map(|()| count)
    }

    /// Those of these leases that the agent held before and whose deliveries were not looked at yet.
    pub fn resumed_among<'a>(&self, leases: impl IntoIterator<Item = &'a LeaseRef>) -> Vec<LeaseRef> {
        if self.resumed == 0 {
            return Vec::new();
        }
        let resumed: HashSet<_> =
            self.ready.iter().take(self.resumed).map(|handed| self.space.lease_of(handed)).collect();
        leases.into_iter().filter(|lease| resumed.contains(lease)).copied().collect()
    }

    /// Drops what the agent held before and was not looked at, if its lease is among those that ended. Says how many they were.
    pub fn skip_resumed(&mut self, ended: &[LeaseRef]) -> usize {
        if ended.is_empty() || self.resumed == 0 {
            return 0;
        }
        let (mut seen, resumed, before) = (0, self.resumed, self.ready.len());
        let space = &self.space;
        self.ready.retain(|handed| {
            seen += 1;
            seen > resumed || !ended.contains(&space.lease_of(handed))
        });
        let skipped = before - self.ready.len();
        if skipped > 0 {
            self.resumed -= skipped;
            // What is being read was counted by position.
            self.reading = None;
        }
        skipped
    }

    /// How many deliveries under leases came and were not looked at.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// The next delivery. Nothing is lost if the wait for it is given up. `None` when the agent was started again elsewhere, or the hub is closed.
    ///
    /// # Errors
    /// When the message cannot be read.
    pub async fn next(&mut self) -> Result<Option<Delivery>, Error> {
        loop {
            if let Some(delivery) = self.at_hand().await? {
                return Ok(Some(delivery));
            }
            match self.mail.recv().await {
                Some(mail) => self.sort(mail),
                None => return Ok(None),
            }
        }
    }

    /// What has come already, without waiting.
    ///
    /// # Errors
    /// When the message cannot be read.
    pub async fn at_hand(&mut self) -> Result<Option<Delivery>, Error> {
        while let Ok(mail) = self.mail.try_recv() {
            self.sort(mail);
        }
        if let Some(message) = self.ephemeral.pop_front() {
            return Ok(Some(message.take().into_delivery()));
        }
        // What is read may be damaged; then it is not there any more.
        while matches!(self.ready.front(), Some(Handed { message: None, .. })) {
            self.read_ahead().await?;
        }
        self.resumed = self.resumed.saturating_sub(1);
        Ok(self.ready.pop_front().and_then(|handed| self.space.opened(handed)))
    }

    /// Reads messages that are not in memory, several at once. Whoever gives up the wait finds the read still under way, and
    /// the deliveries still in front.
    async fn read_ahead(&mut self) -> Result<(), Error> {
        let reading = self.reading.get_or_insert_with(|| {
            let missing = self.ready.iter().filter(|one| one.message.is_none());
            let (space, places) = (self.space.clone(), missing.take(READ_AHEAD).map(place).collect());
            Box::pin(async move { space.letters(places).await })
        });
        let letters = reading.await;
        self.reading = None;
        let (mut letters, mut seen, resumed) = (letters?.into_iter(), 0, self.resumed);
        self.ready.retain_mut(|one| {
            seen += 1;
            let stays = self.space.put_in(one, &mut letters);
            self.resumed -= usize::from(!stays && seen <= resumed);
            stays
        });
        Ok(())
    }

    fn sort(&mut self, mail: Mail) {
        match mail {
            Mail::Handed(list) => self.ready.extend(list),
            Mail::Ephemeral(message) => self.ephemeral.push_back(message),
            // A consumer of deliveries waits for nothing else.
            Mail::Told(_) => {}
        }
    }

    /// Takes no more. What came and was not looked at is given back untouched; what the agent held before stays held, since
    /// it may be at work on it.
    ///
    /// # Errors
    /// When the storage fails; the leases then lapse by themselves.
    pub async fn close(mut self) -> Result<(), Error> {
        self.space.commit_system(vec![Op::Close { consumer: self.id }]).await?;
        self.space.post().close(self.id);
        while let Some(mail) = self.mail.recv().await {
            self.sort(mail);
        }
        let untouched = self.ready.drain(..).skip(self.resumed);
        let leases: Vec<_> = untouched.map(|handed| self.space.lease_of(&handed)).collect();
        self.space.release(leases).await
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.space.post().close(self.id);
        self.space.forget_consumer(self.id);
    }
}

/// Where a handed delivery's message lies.
pub(crate) fn place(handed: &Handed) -> (Seq, u32) {
    (handed.seq, handed.n)
}
