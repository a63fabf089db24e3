//! The main handle to a space: commit, claim and consume.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::limits::PAYLOAD_BYTES_DEFAULT;
use quorate_core::{
    AgentId, Code, Commit, ConsumerId, Epoch, LeaseRef, LeasedDelivery, Nack, NackAction, Op, OpResult,
    Payload, Principal, Receipt, Refused, Seq, SpaceNo, WaitMode,
};
use quorate_store::{PublishedState, ReadQuery, ReadResult, StoreError};
use tokio::sync::watch;

use crate::engine::Engine;
use crate::ephemeral::{EphemeralCounters, EphemeralMessage};
use crate::error::Error;
use crate::flag_screening::is_marked;
use crate::heartbeats::HeartbeatBuffer;
use crate::mailboxes::{Consumer, LoadedMessage, MailboxItem, Mailboxes, ReceivedDelivery, message_position};

/// Bytes of payloads that are read from the log together for one claim or consumer, in a space with large payloads.
const LOADED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Number of messages that are read from the log together in such a space.
const LARGE_PER_READ: usize = 8;

/// Handle to a space of a hub. Cheap to clone.
#[derive(Clone)]
pub struct Space {
    engine: Arc<Engine>,
    number: SpaceNo,
    published: watch::Receiver<Arc<PublishedState>>,
    mailboxes: Arc<Mailboxes>,
    heartbeats: Arc<HeartbeatBuffer>,
    ephemeral: Arc<EphemeralCounters>,
}

impl Space {
    pub(crate) fn new(
        engine: Arc<Engine>,
        number: SpaceNo,
        published: watch::Receiver<Arc<PublishedState>>,
        mailboxes: Arc<Mailboxes>,
        heartbeats: Arc<HeartbeatBuffer>,
        ephemeral: Arc<EphemeralCounters>,
    ) -> Self {
        Self { engine, number, published, mailboxes, heartbeats, ephemeral }
    }

    pub(crate) fn ephemeral_counters(&self) -> &EphemeralCounters {
        &self.ephemeral
    }

    pub(crate) fn heartbeats(&self) -> &HeartbeatBuffer {
        &self.heartbeats
    }

    /// Returns the number of the space.
    #[must_use]
    pub fn number(&self) -> SpaceNo {
        self.number
    }

    /// Returns the underlying engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the state after the last durable batch.
    #[must_use]
    pub fn published(&self) -> Arc<PublishedState> {
        Arc::clone(&self.published.borrow())
    }

    /// Follows the state after each durable batch.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Arc<PublishedState>> {
        self.published.clone()
    }

    pub(crate) fn mailboxes(&self) -> &Mailboxes {
        &self.mailboxes
    }

    /// Seals the bytes of a message or an entry.
    #[must_use]
    pub fn seal(&self, bytes: impl Into<Bytes>) -> Payload {
        let bytes = bytes.into();
        match is_marked(&bytes) {
            true => self.seal_private(bytes),
            false => Payload::seal(bytes, self.salt()),
        }
    }

    /// Seals bytes that will not be public. The salt comes from the private engine, so that it does not affect the
    /// random sequence of public payloads.
    #[must_use]
    pub fn seal_private(&self, bytes: impl Into<Bytes>) -> Payload {
        let salt =
            self.engine.private_engine().map_or_else(|| self.salt(), |private| private.entropy.bytes_16());
        Payload::seal(bytes.into(), salt)
    }

    /// Generates a random salt.
    #[must_use]
    pub fn salt(&self) -> [u8; 16] {
        self.engine.entropy.bytes_16()
    }

    /// Commits operations atomically. The commit is durable when this returns.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn commit(&self, commit: Commit) -> Result<Receipt, Error> {
        self.enqueue(commit).await?.receipt().await
    }

    /// Records a violation if a rule of the space refused the operation.
    pub(crate) fn record_violation<T>(
        &self,
        principal: &Principal,
        outcome: Result<T, Refused>,
    ) -> Result<T, Refused> {
        if let Err(refused) = &outcome {
            self.note_refusal(principal, refused);
        }
        outcome
    }

    /// Records a violation if operators should know of the refusal.
    pub(crate) fn note_refusal(&self, principal: &Principal, refused: &Refused) {
        let now = self.engine.clock.now().wall;
        if self.engine.violations.record(self.number, principal, refused, now) {
            self.spawn_violation_writer();
        }
    }

    /// Records a wait that was aborted to break a deadlock: the first edge of the cycle is the aborted wait.
    pub(crate) fn record_aborted_wait(&self, refused: Refused) -> Refused {
        let agent = refused.facts.cycle.first().and_then(|edge| AgentId::new(edge.agent.as_str()).ok());
        if let Some(agent) = agent {
            self.note_refusal(&Principal::Agent(agent), &refused);
        }
        refused
    }

    pub(crate) async fn commit_system(&self, ops: Vec<Op>) -> Result<Receipt, Error> {
        self.commit(Commit::new(Principal::System, ops)).await
    }

    /// Claims deliveries from an inbox; waits for the first one if there is none.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn claim(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        agent: &AgentId,
        max: u32,
        lease_ms: u64,
        wait: Duration,
    ) -> Result<Vec<ReceivedDelivery>, Error> {
        let number = self.published().agents.number(agent).ok_or_else(|| {
            Refused::new(Code::NotFound, format!("there is no agent {agent}")).hint("register it first")
        })?;
        let (id, mut mailbox) = self.mailboxes.open_consumer(self.number, number);
        let mode = if wait.is_zero() { WaitMode::NoWait } else { WaitMode::Once(id) };
        let mut guard = ConsumerGuard { space: self, id, registered: !wait.is_zero(), owns_mailbox: true };
        let op = Op::Claim { agent: agent.clone(), max, lease_ms, wait: mode };
        let receipt = self.commit(Commit { epoch, ..Commit::new(principal.clone(), vec![op]) }).await?;
        let mut leased = match receipt.results.into_iter().next() {
            Some(OpResult::Claimed(leased)) => leased,
            _ => Vec::new(),
        };
        guard.registered = guard.registered && leased.is_empty();
        let mut ephemeral = Vec::new();
        let mut collect = |item| match item {
            MailboxItem::Leased(deliveries) => leased.extend(deliveries),
            MailboxItem::Ephemeral(message) => ephemeral.push(message.take()),
            // A claim of deliveries receives no other events.
            MailboxItem::Event(_) => {}
        };
        if guard.registered {
            let received = tokio::select! {
                received = mailbox.recv() => received,
                () = self.sleep(wait) => None,
            };
            // The writer does not see ephemeral messages, so this claim is still registered.
            if !matches!(received, Some(MailboxItem::Leased(_))) {
                // Anything dispatched before the wait ended is in the mailbox once this commit returns.
                self.commit_system(vec![Op::CloseConsumer { consumer: id }]).await?;
            }
            guard.registered = false;
            received.into_iter().for_each(&mut collect);
        }
        drop(guard);
        std::iter::from_fn(|| mailbox.try_recv().ok()).for_each(collect);
        let excess = ephemeral.split_off(ephemeral.len().min((max as usize).saturating_sub(leased.len())));
        if !excess.is_empty() {
            self.mailboxes.return_ephemeral(self.number, number, excess);
        }
        let mut deliveries: Vec<_> = ephemeral.into_iter().map(EphemeralMessage::into_delivery).collect();
        deliveries.extend(self.load_messages(leased).await?);
        Ok(deliveries)
    }

    /// Sleeps for this duration on the hub's clock.
    pub async fn sleep(&self, wait: Duration) {
        quorate_store::sleep(&*self.engine.clock, wait).await;
    }

    /// Opens a standing consumer with an initial credit.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn consume(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        agent: &AgentId,
        credit: u32,
        lease_ms: u64,
    ) -> Result<Consumer, Error> {
        let number = self.published().agents.number(agent).ok_or_else(|| {
            Refused::new(Code::NotFound, format!("there is no agent {agent}")).hint("register it first")
        })?;
        let (id, mailbox) = self.mailboxes.open_consumer(self.number, number);
        let mut guard = ConsumerGuard { space: self, id, registered: true, owns_mailbox: true };
        let op = Op::Claim { agent: agent.clone(), max: credit, lease_ms, wait: WaitMode::Standing(id) };
        let receipt = self.commit(Commit { epoch, ..Commit::new(principal.clone(), vec![op]) }).await?;
        let ready = match receipt.results.into_iter().next() {
            Some(OpResult::Claimed(leased)) => leased,
            _ => Vec::new(),
        };
        // From here on the consumer closes itself when dropped.
        guard.registered = false;
        guard.owns_mailbox = false;
        Ok(Consumer::new(self.clone(), id, mailbox, ready))
    }

    /// Returns the lease of a dispatched delivery.
    pub(crate) fn lease_of(&self, delivery: &LeasedDelivery) -> LeaseRef {
        LeaseRef {
            delivery: self.published.borrow().generations.delivery_id(delivery.delivery),
            token: delivery.token,
        }
    }

    /// Adds the messages to dispatched deliveries: from memory if they were just sent, otherwise from the log in a
    /// single read. In a space with large payloads the deliveries end with the one that brings them to
    /// [`LOADED_BYTES_MAX`]; the others are released.
    pub(crate) async fn load_messages(
        &self,
        mut deliveries: Vec<LeasedDelivery>,
    ) -> Result<Vec<ReceivedDelivery>, Error> {
        if !self.allows_large_payloads() {
            return self.load_all_messages(deliveries).await;
        }
        let (mut loaded, mut bytes) = (Vec::with_capacity(deliveries.len()), 0);
        while !deliveries.is_empty() && bytes < LOADED_BYTES_MAX {
            let rest = deliveries.split_off(deliveries.len().min(LARGE_PER_READ));
            let found = self.load_all_messages(std::mem::replace(&mut deliveries, rest)).await?;
            bytes += found.iter().map(|delivery| delivery.message.payload.bytes.len()).sum::<usize>();
            loaded.extend(found);
        }
        self.release(deliveries.iter().map(|delivery| self.lease_of(delivery)).collect()).await?;
        Ok(loaded)
    }

    /// Whether the policy allows payloads above the default limit.
    fn allows_large_payloads(&self) -> bool {
        self.published.borrow().policy.policy.payload_bytes_max as usize > PAYLOAD_BYTES_DEFAULT
    }

    async fn load_all_messages(
        &self,
        mut deliveries: Vec<LeasedDelivery>,
    ) -> Result<Vec<ReceivedDelivery>, Error> {
        let missing: Vec<_> =
            deliveries.iter().filter(|delivery| delivery.message.is_none()).map(message_position).collect();
        if !missing.is_empty() {
            let mut messages = self.read_messages(missing).await?.into_iter();
            deliveries.retain_mut(|delivery| self.attach_message(delivery, &mut messages));
        }
        Ok(deliveries.into_iter().filter_map(|delivery| self.delivery_from(delivery)).collect())
    }

    /// Reads the messages at the first of these positions of the log, at least one: in a space with large payloads until
    /// they reach [`LOADED_BYTES_MAX`].
    pub(crate) async fn read_some_messages(
        &self,
        positions: Vec<(Seq, u32)>,
    ) -> Result<Vec<LoadedMessage>, Error> {
        if !self.allows_large_payloads() {
            return self.read_messages(positions).await;
        }
        let (mut loaded, mut bytes) = (Vec::new(), 0);
        for positions in positions.chunks(LARGE_PER_READ) {
            let messages = self.read_messages(positions.to_vec()).await?;
            bytes += messages.iter().flatten().map(|(_, message)| message.payload.bytes.len()).sum::<usize>();
            loaded.extend(messages);
            if bytes >= LOADED_BYTES_MAX {
                break;
            }
        }
        Ok(loaded)
    }

    /// Reads the messages at these positions of the log. A damaged message does not fail the others.
    pub(crate) async fn read_messages(
        &self,
        positions: Vec<(Seq, u32)>,
    ) -> Result<Vec<LoadedMessage>, Error> {
        let read = |positions: &[(Seq, u32)]| {
            let reads = positions.iter().map(|(seq, n)| ReadQuery::Message { seq: *seq, n: *n }).collect();
            self.engine.store.read(self.number, reads)
        };
        let rows = match read(&positions).await {
            Err(StoreError::Corrupt(_)) => {
                let mut rows = Vec::with_capacity(positions.len());
                for position in &positions {
                    match read(std::slice::from_ref(position)).await {
                        Ok(found) => rows.extend(found.into_iter().map(Ok)),
                        Err(error @ StoreError::Corrupt(_)) => rows.push(Err(error)),
                        Err(other) => return Err(other.into()),
                    }
                }
                rows
            }
            rows => rows?.into_iter().map(Ok).collect(),
        };
        let found = positions.into_iter().zip(rows).map(|((seq, n), row)| match row? {
            ReadResult::Message(Some(stored)) => Ok((stored.at, stored.message)),
            _ => {
                let id = self.published.borrow().generations.message_id(seq, n);
                Err(StoreError::Corrupt(format!("message {id} is missing in the log").into()))
            }
        });
        Ok(found.collect())
    }

    /// Attaches the next message to a delivery that has none. Returns false if the message is damaged; the delivery
    /// is then dead-lettered with that reason, because its content can never be delivered.
    pub(crate) fn attach_message(
        &self,
        delivery: &mut LeasedDelivery,
        messages: &mut impl Iterator<Item = LoadedMessage>,
    ) -> bool {
        if delivery.message.is_some() {
            return true;
        }
        match messages.next() {
            None => true,
            Some(Ok(message)) => {
                delivery.message = Some(message);
                true
            }
            Some(Err(error)) => {
                let reason = format!("{error}; run `quorate verify`");
                let nack = Nack { lease: self.lease_of(delivery), action: NackAction::DeadLetter, reason };
                self.submit(vec![Commit::new(Principal::System, vec![Op::Nack(nack)])]);
                false
            }
        }
    }

    /// Converts a dispatched delivery into the form that its recipient receives; `None` without a message.
    pub(crate) fn delivery_from(&self, delivery: LeasedDelivery) -> Option<ReceivedDelivery> {
        let lease = self.lease_of(&delivery);
        let (seq, n) = message_position(&delivery);
        let id = self.published.borrow().generations.message_id(seq, n);
        let LeasedDelivery { lease_ms, attempt, message: Some((sent_at, message)), .. } = delivery else {
            return None;
        };
        self.engine.causes.insert(self.number, id, Some(lease.delivery), &message);
        Some(ReceivedDelivery { lease: Some(lease), lease_ms, attempt, id: id.into(), sent_at, message })
    }

    /// Releases deliveries without counting the attempt. Leases that have expired meanwhile are skipped.
    pub(crate) async fn release(&self, leases: Vec<LeaseRef>) -> Result<(), Error> {
        for lease in leases {
            let nack = Nack { lease, action: NackAction::Release, reason: String::new() };
            match self.commit_system(vec![Op::Nack(nack)]).await {
                Err(error) if error.code() != Code::StaleLease => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Submits commits without awaiting the outcome (best effort).
    pub fn submit(&self, commits: Vec<Commit>) {
        drop(self.engine.store.transact(self.number, commits));
    }

    /// Closes a consumer without awaiting the outcome.
    pub(crate) fn close_consumer_detached(&self, id: ConsumerId) {
        // If the queue is full or closed, its leases expire and the deliveries are redelivered.
        self.submit_after_heartbeats(Op::CloseConsumer { consumer: id });
    }

    /// Submits the end of a connection. An earlier heartbeat that is still buffered comes first: it must not hide that the
    /// connection was closed.
    pub(crate) fn submit_after_heartbeats(&self, op: Op) {
        let commit = Commit::new(Principal::System, vec![op]);
        self.submit(self.heartbeats().take_commit().into_iter().chain([commit]).collect());
    }
}

/// Closes a consumer on drop while it is being created or waits: the calling future can be dropped at any await
/// point.
pub(crate) struct ConsumerGuard<'a> {
    pub(crate) space: &'a Space,
    pub(crate) id: ConsumerId,
    /// Whether the consumer is registered with the writer.
    pub(crate) registered: bool,
    /// Whether the mailbox has to be closed here.
    pub(crate) owns_mailbox: bool,
}

impl Drop for ConsumerGuard<'_> {
    fn drop(&mut self) {
        if self.owns_mailbox {
            self.space.mailboxes.close(self.id);
        }
        if self.registered {
            self.space.close_consumer_detached(self.id);
        }
    }
}
