//! A space as callers see it: commit, claim, consume.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::{
    AgentId, Code, Commit, ConsumerId, Epoch, Handed, LeaseRef, Nack, NackThen, Op, OpResult, Payload,
    Principal, Receipt, Refused, Seq, SpaceNo, Waiting,
};
use quorate_store::{Published, Read, Rows, StoreError};
use tokio::sync::watch;

use crate::engine::Engine;
use crate::ephemeral::Ephemeral;
use crate::error::Error;
use crate::flagged::is_marked;
use crate::post::{Consumer, Delivery, Letter, Mail, Post, place};
use crate::signs::Signs;

/// A space of a hub. Cheap to clone.
#[derive(Clone)]
pub struct Space {
    engine: Arc<Engine>,
    number: SpaceNo,
    published: watch::Receiver<Arc<Published>>,
    post: Arc<Post>,
    signs: Arc<Signs>,
}

impl Space {
    pub(crate) fn new(
        engine: Arc<Engine>,
        number: SpaceNo,
        published: watch::Receiver<Arc<Published>>,
        post: Arc<Post>,
        signs: Arc<Signs>,
    ) -> Self {
        Self { engine, number, published, post, signs }
    }

    pub(crate) fn signs(&self) -> &Signs {
        &self.signs
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> SpaceNo {
        self.number
    }

    /// The engine underneath.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The state after the last sync.
    #[must_use]
    pub fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published.borrow())
    }

    /// Follows the state after each sync.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Arc<Published>> {
        self.published.clone()
    }

    pub(crate) fn post(&self) -> &Post {
        &self.post
    }

    /// Seals bytes for a message or an entry.
    #[must_use]
    pub fn seal(&self, bytes: impl Into<Bytes>) -> Payload {
        let bytes = bytes.into();
        match is_marked(&bytes) {
            true => self.seal_private(bytes),
            false => Payload::seal(bytes, self.salt()),
        }
    }

    /// Seals bytes that will not be public: what is drawn for them must not change what is drawn for others.
    #[must_use]
    pub fn seal_private(&self, bytes: impl Into<Bytes>) -> Payload {
        let salt = self.engine.private().map_or_else(|| self.salt(), |private| private.chance.sixteen());
        Payload::seal(bytes.into(), salt)
    }

    /// A fresh random salt.
    #[must_use]
    pub fn salt(&self) -> [u8; 16] {
        self.engine.chance.sixteen()
    }

    /// Commits: all or nothing, on disk before this returns.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn commit(&self, commit: Commit) -> Result<Receipt, Error> {
        self.enqueue(commit).await?.answer().await
    }

    /// Notes what a rule of the space refused.
    pub(crate) fn noting<T>(&self, principal: &Principal, outcome: Result<T, Refused>) -> Result<T, Refused> {
        if let Err(refused) = &outcome {
            self.engine.guard.note(self.number, principal, refused, self.engine.clock.now().wall);
        }
        outcome
    }

    pub(crate) async fn commit_system(&self, ops: Vec<Op>) -> Result<Receipt, Error> {
        self.commit(Commit::new(Principal::System, ops)).await
    }

    /// Takes deliveries from an inbox; waits for the first if there is none.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn claim(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        agent: &AgentId,
        max: u32,
        lease_ms: u64,
        wait: Duration,
    ) -> Result<Vec<Delivery>, Error> {
        let number = self.published().agents.number(agent).ok_or_else(|| {
            Refused::new(Code::NotFound, format!("there is no agent {agent}")).hint("register it first")
        })?;
        let (id, mut mail) = self.post.open(self.number, number);
        let waiting = if wait.is_zero() { Waiting::No } else { Waiting::Once(id) };
        let mut closing = Closing { space: self, id, waits: !wait.is_zero(), mailbox: true };
        let op = Op::Claim { agent: agent.clone(), max, lease_ms, waiting };
        let receipt = self.commit(Commit { epoch, ..Commit::new(principal.clone(), vec![op]) }).await?;
        let mut handed = match receipt.results.into_iter().next() {
            Some(OpResult::Claimed(handed)) => handed,
            _ => Vec::new(),
        };
        closing.waits = closing.waits && handed.is_empty();
        let mut ephemeral = Vec::new();
        let mut sort = |mail| match mail {
            Mail::Handed(list) => handed.extend(list),
            Mail::Ephemeral(message) => ephemeral.push(message.take()),
            // A claim of deliveries waits for nothing else.
            Mail::Told(_) => {}
        };
        if closing.waits {
            let came = tokio::select! {
                came = mail.recv() => came,
                () = self.pass(wait) => None,
            };
            // The head does not know of an ephemeral message, and still counts on this claim.
            if !matches!(came, Some(Mail::Handed(_))) {
                // Whatever was handed over before the wait ended lies in the mailbox by the time this is answered.
                self.commit_system(vec![Op::Close { consumer: id }]).await?;
            }
            closing.waits = false;
            came.into_iter().for_each(&mut sort);
        }
        drop(closing);
        std::iter::from_fn(|| mail.try_recv().ok()).for_each(sort);
        let more = ephemeral.split_off(ephemeral.len().min((max as usize).saturating_sub(handed.len())));
        if !more.is_empty() {
            self.post.put_back(self.number, number, more);
        }
        let mut deliveries: Vec<_> = ephemeral.into_iter().map(Ephemeral::into_delivery).collect();
        deliveries.extend(self.open_letters(handed).await?);
        Ok(deliveries)
    }

    /// Waits until that much time has passed on the hub's clock.
    pub async fn pass(&self, wait: Duration) {
        quorate_store::sleep(&*self.engine.clock, wait).await;
    }

    /// Opens a standing consumer with this much credit.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
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
        let (id, mail) = self.post.open(self.number, number);
        let mut closing = Closing { space: self, id, waits: true, mailbox: true };
        let op = Op::Claim { agent: agent.clone(), max: credit, lease_ms, waiting: Waiting::Standing(id) };
        let receipt = self.commit(Commit { epoch, ..Commit::new(principal.clone(), vec![op]) }).await?;
        let ready = match receipt.results.into_iter().next() {
            Some(OpResult::Claimed(handed)) => handed,
            _ => Vec::new(),
        };
        // From here on the consumer looks after itself.
        closing.waits = false;
        closing.mailbox = false;
        Ok(Consumer::new(self.clone(), id, mail, ready))
    }

    /// The lease under which a handed delivery is held.
    pub(crate) fn lease_of(&self, handed: &Handed) -> LeaseRef {
        LeaseRef { delivery: self.published.borrow().eras.delivery_id(handed.delivery), token: handed.token }
    }

    /// Adds their messages to handed deliveries: from memory if they were just sent, else from the log, all at once.
    pub(crate) async fn open_letters(&self, mut handed: Vec<Handed>) -> Result<Vec<Delivery>, Error> {
        let missing: Vec<_> = handed.iter().filter(|one| one.message.is_none()).map(place).collect();
        if !missing.is_empty() {
            let mut letters = self.letters(missing).await?.into_iter();
            handed.retain_mut(|one| self.put_in(one, &mut letters));
        }
        Ok(handed.into_iter().filter_map(|one| self.opened(one)).collect())
    }

    /// The messages that lie at these places of the log. One that is damaged stands in the way of no other.
    pub(crate) async fn letters(&self, places: Vec<(Seq, u32)>) -> Result<Vec<Letter>, Error> {
        let read = |places: &[(Seq, u32)]| {
            let reads = places.iter().map(|(seq, n)| Read::Message { seq: *seq, n: *n }).collect();
            self.engine.store.read(self.number, reads)
        };
        let rows = match read(&places).await {
            Err(StoreError::Damaged(_)) => {
                let mut rows = Vec::with_capacity(places.len());
                for place in &places {
                    match read(std::slice::from_ref(place)).await {
                        Ok(found) => rows.extend(found.into_iter().map(Ok)),
                        Err(why @ StoreError::Damaged(_)) => rows.push(Err(why)),
                        Err(other) => return Err(other.into()),
                    }
                }
                rows
            }
            rows => rows?.into_iter().map(Ok).collect(),
        };
        let found = places.into_iter().zip(rows).map(|((seq, n), row)| match row? {
            Rows::Message(Some(stored)) => Ok((stored.at, stored.message)),
            _ => {
                let id = self.published.borrow().eras.message_id(seq, n);
                Err(StoreError::Damaged(format!("the log has no message {id}").into()))
            }
        });
        Ok(found.collect())
    }

    /// Gives a delivery its message if it has none and there is one left. Says no if the message is damaged: then it is a
    /// dead letter that says so, because nobody can be given what was sent.
    pub(crate) fn put_in(&self, one: &mut Handed, letters: &mut impl Iterator<Item = Letter>) -> bool {
        if one.message.is_some() {
            return true;
        }
        match letters.next() {
            None => true,
            Some(Ok(letter)) => {
                one.message = Some(letter);
                true
            }
            Some(Err(why)) => {
                let reason = format!("{why}; run `quorate verify`");
                let nack = Nack { lease: self.lease_of(one), then: NackThen::Dead, reason };
                self.submit(vec![Commit::new(Principal::System, vec![Op::Nack(nack)])]);
                false
            }
        }
    }

    /// A delivery as its recipient sees it, once it has its message.
    pub(crate) fn opened(&self, handed: Handed) -> Option<Delivery> {
        let lease = self.lease_of(&handed);
        let (seq, n) = place(&handed);
        let id = self.published.borrow().eras.message_id(seq, n);
        let Handed { lease_ms, attempt, message: Some((sent_at, message)), .. } = handed else { return None };
        self.engine.causes.note(self.number, id, &message);
        Some(Delivery { lease: Some(lease), lease_ms, attempt, id: id.into(), sent_at, message })
    }

    /// Gives deliveries back untouched. Those whose lease is over meanwhile are somebody else's already.
    pub(crate) async fn release(&self, leases: Vec<LeaseRef>) -> Result<(), Error> {
        for lease in leases {
            let nack = Nack { lease, then: NackThen::Release, reason: String::new() };
            match self.commit_system(vec![Op::Nack(nack)]).await {
                Err(error) if error.code() != Code::StaleLease => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Hands commits to the head without waiting for what comes of them. For what need not happen, but should.
    pub fn submit(&self, commits: Vec<Commit>) {
        drop(self.engine.store.transact(self.number, commits));
    }

    /// Tells the head that a consumer is gone, without waiting for it.
    pub(crate) fn forget_consumer(&self, id: ConsumerId) {
        let commit = Commit::new(Principal::System, vec![Op::Close { consumer: id }]);
        // If the queue is full or closed, its leases lapse: late, but not lost.
        self.submit(vec![commit]);
    }
}

/// Looks after a consumer while it is being made or waits: the caller may go away at any point.
pub(crate) struct Closing<'a> {
    pub(crate) space: &'a Space,
    pub(crate) id: ConsumerId,
    /// Whether the head may count on it.
    pub(crate) waits: bool,
    /// Whether it has a mailbox that nobody else will close.
    pub(crate) mailbox: bool,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if self.mailbox {
            self.space.post.close(self.id);
        }
        if self.waits {
            self.space.forget_consumer(self.id);
        }
    }
}
