//! Sending, with what may be said of a message.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use quorate_api::Error;
use quorate_api::received::MessageRef;
use quorate_core::{
    AgentId, ClientId, Destination, Durability, IdempotencyKey, IfUnavailable, Message, MessageType, Op,
    OpResult, Payload, Priority, Seq,
};

use crate::agent::{Agent, Received};
use crate::link::Link;

/// A message that is about to be sent. Await it.
#[must_use = "a message is sent when it is awaited"]
pub struct Sending {
    agent: Agent,
    draft: Draft,
    key: Option<String>,
}

/// What is to be sent, before it is checked.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) to: Vec<String>,
    pub(crate) action: String,
    pub(crate) payload: Result<Vec<u8>, Error>,
    pub(crate) id: Option<String>,
    pub(crate) kind: MessageType,
    pub(crate) priority: Priority,
    pub(crate) expires_in: Option<Duration>,
    pub(crate) delay: Option<Duration>,
    pub(crate) attempts: Option<u16>,
    pub(crate) correlation: Option<String>,
    /// The message that led to this one.
    pub(crate) cause: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) hops: u16,
    pub(crate) durability: Durability,
    pub(crate) budget: Option<String>,
    pub(crate) traceparent: Option<String>,
    pub(crate) if_unavailable: IfUnavailable,
}

/// A message that is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Its id; [`MessageRef::Flag`] if it was raised as a conduct flag.
    pub id: MessageRef,
    /// Its record; `None` if it lives in memory only.
    pub seq: Option<Seq>,
    /// How many deliveries it has; `None` if it lives in memory only. A topic may have no subscriber.
    pub deliveries: Option<u32>,
}

impl Sending {
    pub(crate) fn new(
        agent: Agent,
        to: Vec<String>,
        action: String,
        payload: Result<Vec<u8>, Error>,
    ) -> Self {
        Self { agent, draft: Draft::new(to, action, payload), key: None }
    }

    /// An id of your own: sending the same message with the same id again sends nothing and gives the same answer.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.draft.id = Some(id.into());
        self
    }

    /// An idempotency key: for a day, the same call with the same key has one effect and one answer.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// What the message is; a command if nothing is said.
    pub fn kind(mut self, kind: MessageType) -> Self {
        self.draft.kind = kind;
        self
    }

    /// Which goes first.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.draft.priority = priority;
        self
    }

    /// Not to be handed out after this time.
    pub fn expires_in(mut self, time: Duration) -> Self {
        self.draft.expires_in = Some(time);
        self
    }

    /// Not to be handed out before this time.
    pub fn delay(mut self, time: Duration) -> Self {
        self.draft.delay = Some(time);
        self
    }

    /// The session that it belongs to. A session that is over refuses it.
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.draft.session = Some(id.into());
        self
    }

    /// How often it is tried before it becomes a dead letter; four times if nothing is said.
    pub fn attempts(mut self, attempts: u16) -> Self {
        self.draft.attempts = Some(attempts);
        self
    }

    /// The budget that it spends one message of; so does what follows from it.
    pub fn budget(mut self, id: impl Into<String>) -> Self {
        self.draft.budget = Some(id.into());
        self
    }

    /// What to do when the recipient cannot be reached: it waits if nothing is said.
    pub fn if_unavailable(mut self, choice: IfUnavailable) -> Self {
        self.draft.if_unavailable = choice;
        self
    }

    /// In memory only, at most once: fast, and gone if the recipient or the hub is.
    pub fn ephemeral(mut self) -> Self {
        self.draft.durability = Durability::Ephemeral;
        self
    }

    async fn go(self) -> Result<Sent, Error> {
        let Self { agent, draft, key } = self;
        let ephemeral = draft.durability == Durability::Ephemeral;
        let message = draft.message(&*agent.link, &agent.id)?;
        if ephemeral {
            let id = agent.link.send_ephemeral(agent.who(), message).await?;
            return Ok(Sent { id, seq: None, deliveries: None });
        }
        let mut commit = agent.commit_of(vec![Op::send(message)]);
        if let Some(key) = key {
            commit = commit.keyed(IdempotencyKey::new(key)?);
        }
        let receipt = agent.link.commit(commit).await?;
        match receipt.results.first() {
            Some(OpResult::Sent { id, count, .. }) => {
                Ok(Sent { id: MessageRef::Durable(*id), seq: Some(id.seq), deliveries: Some(*count) })
            }
            Some(OpResult::Received) => Ok(Sent { id: MessageRef::Flag, seq: None, deliveries: None }),
            _ => Err(quorate_core::StoreError::Read("a send was not answered".into()).into()),
        }
    }
}

impl IntoFuture for Sending {
    type Output = Result<Sent, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.go())
    }
}

impl Draft {
    pub(crate) fn new(to: Vec<String>, action: String, payload: Result<Vec<u8>, Error>) -> Self {
        Self {
            to,
            action,
            payload,
            id: None,
            kind: MessageType::default(),
            priority: Priority::default(),
            expires_in: None,
            delay: None,
            attempts: None,
            correlation: None,
            cause: None,
            session: None,
            hops: 0,
            durability: Durability::default(),
            budget: None,
            traceparent: None,
            if_unavailable: IfUnavailable::default(),
        }
    }

    /// Belongs to the conversation of a message, one hop further.
    pub(crate) fn follow(&mut self, cause: &Received) {
        let message = cause.message();
        self.correlation = message.correlation_id.clone().or_else(|| Some(cause.id().to_string()));
        self.cause = Some(cause.id().to_string());
        self.session.clone_from(&message.session_id);
        self.hops = message.hops.saturating_add(1);
        self.budget.clone_from(&message.budget);
        self.traceparent = cause.trace().map(|span| span.to_string());
    }

    /// The message, with times counted from now.
    pub(crate) fn message(self, link: &dyn Link, from: &AgentId) -> Result<Message, Error> {
        let to = Destination::of_texts(self.to)?;
        let payload = match self.durability {
            Durability::Durable => link.seal(self.payload?.into()),
            Durability::Ephemeral => Payload::unsealed(self.payload?.into()),
        };
        let mut message = Message::new(to, self.action, payload);
        let now = link.clock().now().wall;
        let from_now = |time: Duration| now.plus_ms(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        message.from = Some(from.clone());
        message.client_id = self.id.map(ClientId::new).transpose()?;
        message.kind = self.kind;
        message.priority = self.priority;
        message.expires_at = self.expires_in.map(from_now);
        message.deliver_at = self.delay.map(from_now);
        message.attempts_max = self.attempts.unwrap_or(message.attempts_max);
        message.correlation_id = self.correlation;
        if self.kind == MessageType::Response {
            message.in_reply_to.clone_from(&self.cause);
        }
        message.causation_id = self.cause;
        message.if_unavailable = self.if_unavailable;
        message.session_id = self.session;
        message.hops = self.hops;
        message.durability = self.durability;
        message.budget = self.budget;
        message.traceparent = self.traceparent;
        Ok(message)
    }
}
