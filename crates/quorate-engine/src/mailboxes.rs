//! Dispatch of deliveries to waiting claims and streams. Each has a mailbox in memory.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::limits::PAYLOAD_BYTES_DEFAULT;
use quorate_core::{
    AgentNo, ConsumerEvent, ConsumerId, DeliveryNo, HolderEvent, LeaseRef, LeasedDelivery, Message, Op,
    Refused, Seq, SpaceNo, Timestamp,
};
use quorate_store::{BatchDispatch, BoxFuture, StoreError};
use tokio::sync::mpsc;

use crate::ephemeral::{
    EphemeralBuffer, EphemeralMessage, EphemeralRequests, Full, MailboxUsage, QueuedEphemeral,
};
use crate::error::Error;
use crate::holder_events::HolderSenders;
use crate::space::Space;

pub use quorate_api::received::{MessageRef, ReceivedDelivery};

/// Number of messages read from the log together for one consumer.
const READ_AHEAD: usize = 64;

/// A message and the time at which it was sent.
pub(crate) type SentMessage = (Timestamp, Arc<Message>);

/// A message from the log, or its damage.
pub(crate) type LoadedMessage = Result<SentMessage, StoreError>;

/// Content of a mailbox.
pub(crate) enum MailboxItem {
    /// Deliveries under leases.
    Leased(Vec<LeasedDelivery>),
    /// Ephemeral message.
    Ephemeral(QueuedEphemeral),
    /// Event for a caller that waits for something other than deliveries.
    Event(ConsumerEvent),
}

struct Mailbox {
    space: SpaceNo,
    agent: AgentNo,
    sender: mpsc::UnboundedSender<MailboxItem>,
    usage: Arc<MailboxUsage>,
}

#[derive(Default)]
struct State {
    mailboxes: HashMap<ConsumerId, Mailbox>,
    /// Consumers of each agent, for ephemeral messages.
    consumers: HashMap<(SpaceNo, AgentNo), VecDeque<ConsumerId>>,
    buffers: HashMap<(SpaceNo, AgentNo), EphemeralBuffer>,
    holders: HolderSenders,
}

/// All mailboxes of a hub. The content of a mailbox is bounded by its consumer's credit.
#[derive(Default)]
pub(crate) struct Mailboxes {
    state: Mutex<State>,
    last: AtomicU64,
    /// Pending ephemeral requests.
    pub(crate) requests: EphemeralRequests,
}

impl Mailboxes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a mailbox and moves the buffered ephemeral messages of the agent into it.
    pub(crate) fn open_consumer(
        &self,
        space: SpaceNo,
        agent: AgentNo,
    ) -> (ConsumerId, mpsc::UnboundedReceiver<MailboxItem>) {
        let id = ConsumerId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, receiver) = mpsc::unbounded_channel();
        let usage = Arc::default();
        let mut state = self.lock();
        if let Some(mut buffer) = state.buffers.remove(&(space, agent)) {
            while let Some(message) = buffer.take() {
                let _ = sender.send(MailboxItem::Ephemeral(QueuedEphemeral::new(message, &usage)));
            }
        }
        state.consumers.entry((space, agent)).or_default().push_back(id);
        state.mailboxes.insert(id, Mailbox { space, agent, sender, usage });
        (id, receiver)
    }

    /// Opens a mailbox for a caller that waits for something other than deliveries.
    pub(crate) fn open_waiter(&self, space: SpaceNo) -> (ConsumerId, mpsc::UnboundedReceiver<MailboxItem>) {
        let id = ConsumerId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, receiver) = mpsc::unbounded_channel();
        let (agent, usage) = (AgentNo(0), Arc::default());
        self.lock().mailboxes.insert(id, Mailbox { space, agent, sender, usage });
        (id, receiver)
    }

    pub(crate) fn close(&self, id: ConsumerId) {
        self.lock().remove(id);
    }

    /// Subscribes to the events for an agent as the holder of leases.
    pub(crate) fn subscribe_holder(
        &self,
        space: SpaceNo,
        agent: AgentNo,
    ) -> mpsc::UnboundedReceiver<HolderEvent> {
        self.lock().holders.subscribe((space, agent))
    }

    /// Dispatches the results of a batch. Called from the writer thread: only moves pointers.
    pub(crate) fn dispatch(&self, dispatch: BatchDispatch) {
        if dispatch.is_empty() {
            return;
        }
        let mut state = self.lock();
        let mut by_consumer: Vec<(ConsumerId, Vec<LeasedDelivery>)> = Vec::new();
        let mut positions: HashMap<ConsumerId, usize> = HashMap::new();
        for (id, mut delivery) in dispatch.dispatched {
            drop_large_message(&mut delivery);
            let position = *positions.entry(id).or_insert(by_consumer.len());
            match by_consumer.get_mut(position) {
                Some((_, deliveries)) => deliveries.push(delivery),
                None => by_consumer.push((id, vec![delivery])),
            }
        }
        for (id, deliveries) in by_consumer {
            // If the consumer is gone, its leases expire and the deliveries are redelivered.
            if let Some(mailbox) = state.mailboxes.get(&id) {
                let _ = mailbox.sender.send(MailboxItem::Leased(deliveries));
            }
        }
        for (id, event) in dispatch.consumer_events {
            if let Some(mailbox) = state.mailboxes.get(&id) {
                let _ = mailbox.sender.send(MailboxItem::Event(event));
            }
        }
        for (agent, event) in dispatch.holder_events {
            state.holders.send((dispatch.space, agent), &event);
        }
        for id in dispatch.dismissed_consumers {
            state.remove(id);
        }
    }

    /// Delivers an ephemeral message to all of these agents, or to none if one of them has no capacity.
    pub(crate) fn deliver_to_all(
        &self,
        space: SpaceNo,
        agents: &[AgentNo],
        message: &EphemeralMessage,
    ) -> Result<(), Refused> {
        let mut state = self.lock();
        for agent in agents {
            state.check_capacity((space, *agent), message).map_err(Full::refusal)?;
        }
        agents.iter().for_each(|agent| state.deliver((space, *agent), message));
        Ok(())
    }

    /// Delivers an ephemeral message to those of these agents that have capacity. The others miss it.
    pub(crate) fn deliver_to_any(&self, space: SpaceNo, agents: &[AgentNo], message: &EphemeralMessage) {
        let mut state = self.lock();
        for agent in agents {
            if state.check_capacity((space, *agent), message).is_ok() {
                state.deliver((space, *agent), message);
            }
        }
    }

    /// Delivers an ephemeral message to one of these agents that has a consumer, in round-robin order: `turn` counts the
    /// calls of the space. Returns whether there is one.
    pub(crate) fn deliver_to_one(
        &self,
        space: SpaceNo,
        agents: &[AgentNo],
        turn: u64,
        message: EphemeralMessage,
    ) -> bool {
        let mut state = self.lock();
        let start = turn as usize % agents.len().max(1);
        let (before, from) = agents.split_at(start);
        let found = from.iter().chain(before).find(|agent| state.has_capacity((space, **agent), &message));
        let Some(agent) = found else { return false };
        state.deliver((space, *agent), &message);
        true
    }

    /// Returns ephemeral messages that a claim could not use: to the next consumer, otherwise to the front of the
    /// buffer.
    pub(crate) fn return_ephemeral(&self, space: SpaceNo, agent: AgentNo, messages: Vec<EphemeralMessage>) {
        let mut state = self.lock();
        let key = (space, agent);
        let (deliverable, buffered): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| state.has_capacity(key, message));
        deliverable.iter().for_each(|message| state.deliver(key, message));
        if !buffered.is_empty() {
            let buffer = state.buffers.entry(key).or_default();
            buffered.into_iter().rev().for_each(|message| buffer.put_back(message));
        }
    }

    pub(crate) fn close_all(&self) {
        let mut state = self.lock();
        state.mailboxes.clear();
        state.consumers.clear();
        state.holders.clear();
    }
}

/// Drops a message with a large payload. Its consumer reads it from the log when it takes the delivery, so that a slow
/// consumer with much credit does not occupy more memory than in a space with the default limits.
fn drop_large_message(delivery: &mut LeasedDelivery) {
    let is_large = |(_, message): &SentMessage| message.payload.bytes.len() > PAYLOAD_BYTES_DEFAULT;
    if delivery.message.as_ref().is_some_and(is_large) {
        delivery.message = None;
    }
}

/// An agent of a space.
pub(crate) type AgentKey = (SpaceNo, AgentNo);

impl State {
    /// Whether a consumer of the agent has capacity for the message.
    fn has_capacity(&self, key: AgentKey, message: &EphemeralMessage) -> bool {
        self.mailboxes_of(key).any(|mailbox| mailbox.usage.check(message).is_ok())
    }

    /// Returns the mailboxes of the consumers of an agent.
    fn mailboxes_of(&self, key: AgentKey) -> impl Iterator<Item = &Mailbox> {
        self.consumers.get(&key).into_iter().flatten().filter_map(|id| self.mailboxes.get(id))
    }

    /// Whether a consumer has capacity, or there is none and the message can be buffered.
    fn check_capacity(&self, key: AgentKey, message: &EphemeralMessage) -> Result<(), Full> {
        let mut full = None;
        for mailbox in self.mailboxes_of(key) {
            match mailbox.usage.check(message) {
                Ok(()) => return Ok(()),
                Err(error) => full = Some(error),
            }
        }
        match full {
            Some(full) => Err(full),
            None => self.buffers.get(&key).map_or(Ok(()), |buffer| buffer.check(message)),
        }
    }

    /// Delivers an ephemeral message to a consumer of the agent, in round-robin order, otherwise buffers it.
    fn deliver(&mut self, key: AgentKey, message: &EphemeralMessage) {
        let Self { mailboxes, consumers, buffers, .. } = self;
        let consumers = consumers.entry(key).or_default();
        consumers.retain(|id| mailboxes.contains_key(id));
        for _ in 0..consumers.len() {
            consumers.rotate_left(1);
            let Some(mailbox) = consumers.back().and_then(|id| mailboxes.get(id)) else { continue };
            if mailbox.usage.check(message).is_ok() {
                // At most once: if the consumer is dropped concurrently, the message is lost.
                let _ = mailbox
                    .sender
                    .send(MailboxItem::Ephemeral(QueuedEphemeral::new(message.clone(), &mailbox.usage)));
                return;
            }
        }
        buffers.entry(key).or_default().put(message.clone());
    }

    fn remove(&mut self, id: ConsumerId) {
        if let Some(Mailbox { space, agent, .. }) = self.mailboxes.remove(&id)
            && let Some(consumers) = self.consumers.get_mut(&(space, agent))
        {
            consumers.retain(|other| *other != id);
        }
    }
}

/// A delivery that a consumer received but did not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnreadDelivery {
    /// It used credit of the consumer.
    New,
    /// The agent held it before it resumed.
    Resumed,
}

/// A standing consumer: receives deliveries as they are sent, within its credit. Ends when a new epoch of its agent
/// starts.
pub struct Consumer {
    space: Space,
    id: ConsumerId,
    mailbox: mpsc::UnboundedReceiver<MailboxItem>,
    ready: VecDeque<LeasedDelivery>,
    ephemeral: VecDeque<QueuedEphemeral>,
    /// Number of deliveries at the front that the agent already held before it resumed.
    resumed: usize,
    /// Pending read of the messages of the first deliveries that have none.
    reading: Option<BoxFuture<'static, Result<Vec<LoadedMessage>, Error>>>,
}

impl Consumer {
    pub(crate) fn new(
        space: Space,
        id: ConsumerId,
        mailbox: mpsc::UnboundedReceiver<MailboxItem>,
        ready: Vec<LeasedDelivery>,
    ) -> Self {
        Self {
            space,
            id,
            mailbox,
            ready: ready.into(),
            ephemeral: VecDeque::new(),
            resumed: 0,
            reading: None,
        }
    }

    /// Marks the current deliveries as held by the agent before.
    pub(crate) fn mark_resumed(mut self) -> Self {
        self.resumed = self.ready.len();
        self
    }

    /// Returns its id, for `Op::GrantCredit` in a commit that acks some of its deliveries.
    #[must_use]
    pub fn id(&self) -> ConsumerId {
        self.id
    }

    /// Returns the operation that grants credit for more deliveries. Add it to the commit that acks some, where it
    /// costs nothing extra.
    #[must_use]
    pub fn grant_credit_op(&self, credit: u32) -> Op {
        Op::GrantCredit { consumer: self.id, credit }
    }

    /// Releases deliveries that were received but not yet read, and returns their number. The consumer stays open.
    ///
    /// # Errors
    /// Storage failures; the leases then expire.
    pub async fn release_unread(&mut self) -> Result<usize, Error> {
        while let Ok(item) = self.mailbox.try_recv() {
            self.enqueue(item);
        }
        let leases: Vec<_> = self.ready.drain(..).map(|delivery| self.space.lease_of(&delivery)).collect();
        let count = leases.len();
        self.resumed = 0;
        self.reading = None;
        self.space.release(leases).await.map(|()| count)
    }

    /// Returns those of these leases that the agent held before and whose deliveries were not read yet.
    pub fn resumed_among<'a>(&self, leases: impl IntoIterator<Item = &'a LeaseRef>) -> Vec<LeaseRef> {
        if self.resumed == 0 {
            return Vec::new();
        }
        let resumed: HashSet<_> =
            self.ready.iter().take(self.resumed).map(|delivery| self.space.lease_of(delivery)).collect();
        leases.into_iter().filter(|lease| resumed.contains(lease)).copied().collect()
    }

    /// Drops resumed deliveries that were not read yet if their leases are among those that ended. Returns their
    /// number.
    pub fn skip_resumed(&mut self, ended: &[LeaseRef]) -> usize {
        if ended.is_empty() || self.resumed == 0 {
            return 0;
        }
        let (mut seen, resumed, before) = (0, self.resumed, self.ready.len());
        let space = &self.space;
        self.ready.retain(|delivery| {
            seen += 1;
            seen > resumed || !ended.contains(&space.lease_of(delivery))
        });
        let skipped = before - self.ready.len();
        if skipped > 0 {
            self.resumed -= skipped;
            // The pending read refers to deliveries by position.
            self.reading = None;
        }
        skipped
    }

    /// Drops a delivery that has ended, unless it was read already.
    pub fn drop_ended(&mut self, delivery: DeliveryNo) -> Option<UnreadDelivery> {
        while let Ok(item) = self.mailbox.try_recv() {
            self.enqueue(item);
        }
        let position = self.ready.iter().position(|unread| unread.delivery == delivery)?;
        self.ready.remove(position);
        // The pending read refers to deliveries by position.
        self.reading = None;
        if position >= self.resumed {
            return Some(UnreadDelivery::New);
        }
        self.resumed -= 1;
        Some(UnreadDelivery::Resumed)
    }

    /// Returns the number of leased deliveries that were received but not yet read.
    #[must_use]
    pub fn unread_count(&self) -> usize {
        self.ready.len()
    }

    /// Returns the next delivery; `None` when a new epoch of the agent started elsewhere or the hub was closed.
    /// Cancel safe.
    ///
    /// # Errors
    /// If the message cannot be read.
    pub async fn next(&mut self) -> Result<Option<ReceivedDelivery>, Error> {
        loop {
            if let Some(delivery) = self.try_next().await? {
                return Ok(Some(delivery));
            }
            match self.mailbox.recv().await {
                Some(item) => self.enqueue(item),
                None => return Ok(None),
            }
        }
    }

    /// Returns a delivery that has already arrived, without waiting.
    ///
    /// # Errors
    /// If the message cannot be read.
    pub async fn try_next(&mut self) -> Result<Option<ReceivedDelivery>, Error> {
        while let Ok(item) = self.mailbox.try_recv() {
            self.enqueue(item);
        }
        if let Some(message) = self.ephemeral.pop_front() {
            return Ok(Some(message.take().into_delivery()));
        }
        // A damaged message removes its delivery, so check the front again.
        while matches!(self.ready.front(), Some(LeasedDelivery { message: None, .. })) {
            self.read_ahead().await?;
        }
        self.resumed = self.resumed.saturating_sub(1);
        Ok(self.ready.pop_front().and_then(|delivery| self.space.delivery_from(delivery)))
    }

    /// Reads several messages that are not in memory. Cancel safe: after a cancellation the read is still pending and
    /// the deliveries keep their position.
    async fn read_ahead(&mut self) -> Result<(), Error> {
        let reading = self.reading.get_or_insert_with(|| {
            let missing = self.ready.iter().filter(|delivery| delivery.message.is_none());
            let (space, positions) =
                (self.space.clone(), missing.take(READ_AHEAD).map(message_position).collect());
            Box::pin(async move { space.read_some_messages(positions).await })
        });
        let messages = reading.await;
        self.reading = None;
        let (mut messages, mut seen, resumed) = (messages?.into_iter(), 0, self.resumed);
        self.ready.retain_mut(|delivery| {
            seen += 1;
            let stays = self.space.attach_message(delivery, &mut messages);
            self.resumed -= usize::from(!stays && seen <= resumed);
            stays
        });
        Ok(())
    }

    fn enqueue(&mut self, item: MailboxItem) {
        match item {
            MailboxItem::Leased(deliveries) => self.ready.extend(deliveries),
            MailboxItem::Ephemeral(message) => self.ephemeral.push_back(message),
            // A consumer of deliveries receives no other events.
            MailboxItem::Event(_) => {}
        }
    }

    /// Closes the consumer. Deliveries that were received but not read are released; resumed ones stay leased, since
    /// the agent may still be processing them.
    ///
    /// # Errors
    /// Storage failures; the leases then expire.
    pub async fn close(mut self) -> Result<(), Error> {
        self.space.commit_system(vec![Op::CloseConsumer { consumer: self.id }]).await?;
        self.space.mailboxes().close(self.id);
        while let Some(item) = self.mailbox.recv().await {
            self.enqueue(item);
        }
        let unread = self.ready.drain(..).skip(self.resumed);
        let leases: Vec<_> = unread.map(|delivery| self.space.lease_of(&delivery)).collect();
        self.space.release(leases).await
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.space.mailboxes().close(self.id);
        self.space.close_consumer_detached(self.id);
    }
}

/// Returns the position of the message in the log.
pub(crate) fn message_position(delivery: &LeasedDelivery) -> (Seq, u32) {
    (delivery.seq, delivery.n)
}
