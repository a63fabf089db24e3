//! Sending messages.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use quorate_api::Error;
use quorate_api::received::MessageRef;
use quorate_core::{
    AgentId, ClientId, Destination, Durability, IdempotencyKey, IfUnavailable, Message, MessageType, Op,
    OpResult, Payload, Priority, Seq,
};

use crate::agent::{Agent, ReceivedMessage};
use crate::backend::Backend;

/// Builder for a message. Await it to send the message.
#[must_use = "a message is sent when the builder is awaited"]
pub struct SendBuilder {
    agent: Agent,
    draft: MessageDraft,
    key: Option<String>,
}

/// Fields of a message before validation.
#[derive(Clone)]
pub(crate) struct MessageDraft {
    pub(crate) to: Vec<String>,
    pub(crate) action: String,
    pub(crate) payload: Result<Vec<u8>, Error>,
    pub(crate) id: Option<String>,
    pub(crate) kind: MessageType,
    pub(crate) priority: Priority,
    pub(crate) expires_in: Option<Duration>,
    pub(crate) delay: Option<Duration>,
    pub(crate) max_attempts: Option<u16>,
    pub(crate) correlation: Option<String>,
    /// Id of the message that caused this one.
    pub(crate) cause: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) hops: u16,
    pub(crate) max_hops: Option<u16>,
    pub(crate) durability: Durability,
    pub(crate) budget: Option<String>,
    pub(crate) traceparent: Option<String>,
    pub(crate) if_unavailable: IfUnavailable,
}

/// Receipt of a sent message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendReceipt {
    /// Message id; [`MessageRef::Flag`] if the message was handled as a conduct flag.
    pub id: MessageRef,
    /// Sequence number of the message; `None` for an ephemeral message.
    pub seq: Option<Seq>,
    /// Number of deliveries; `None` for an ephemeral message. It can be 0 for a topic without subscribers.
    pub deliveries: Option<u32>,
}

impl SendBuilder {
    pub(crate) fn new(
        agent: Agent,
        to: Vec<String>,
        action: String,
        payload: Result<Vec<u8>, Error>,
    ) -> Self {
        Self { agent, draft: MessageDraft::new(to, action, payload), key: None }
    }

    /// Sets the message id. Sending the same message again with the same id is idempotent and returns the same
    /// receipt.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.draft.id = Some(id.into());
        self
    }

    /// Sets an idempotency key. For 24 hours the same call with the same key takes effect once and returns the same
    /// receipt.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the message type. Defaults to a command.
    pub fn kind(mut self, kind: MessageType) -> Self {
        self.draft.kind = kind;
        self
    }

    /// Sets the delivery priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.draft.priority = priority;
        self
    }

    /// Sets the time after which the message is no longer delivered.
    pub fn expires_in(mut self, ttl: Duration) -> Self {
        self.draft.expires_in = Some(ttl);
        self
    }

    /// Delays the delivery by this time.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.draft.delay = Some(delay);
        self
    }

    /// Sets the session to which the message belongs. A closed session rejects it.
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.draft.session = Some(id.into());
        self
    }

    /// Sets the maximum number of delivery attempts before the message is dead-lettered. Defaults to 4.
    pub fn max_attempts(mut self, attempts: u16) -> Self {
        self.draft.max_attempts = Some(attempts);
        self
    }

    /// Charges the message, and all messages it causes, to a budget.
    pub fn budget(mut self, id: impl Into<String>) -> Self {
        self.draft.budget = Some(id.into());
        self
    }

    /// Sets the hop limit of the chain that this message starts. Defaults to 100.
    pub fn max_hops(mut self, hops: u16) -> Self {
        self.draft.max_hops = Some(hops);
        self
    }

    /// Sets what happens if the recipient is unavailable. By default the message is queued.
    pub fn if_unavailable(mut self, if_unavailable: IfUnavailable) -> Self {
        self.draft.if_unavailable = if_unavailable;
        self
    }

    /// Keeps the message in memory only: faster, delivered at most once, and lost if the recipient disconnects or the
    /// hub restarts.
    pub fn ephemeral(mut self) -> Self {
        self.draft.durability = Durability::Ephemeral;
        self
    }

    async fn send(self) -> Result<SendReceipt, Error> {
        let Self { agent, draft, key } = self;
        let ephemeral = draft.durability == Durability::Ephemeral;
        let message = draft.into_message(&*agent.backend, &agent.id)?;
        if ephemeral {
            let id = agent.backend.send_ephemeral(agent.identity(), message).await?;
            return Ok(SendReceipt { id, seq: None, deliveries: None });
        }
        let mut commit = agent.new_commit(vec![Op::send(message)]);
        if let Some(key) = key {
            commit = commit.keyed(IdempotencyKey::new(key)?);
        }
        let receipt = agent.backend.commit(commit).await?;
        match receipt.results.first() {
            Some(OpResult::Sent { id, count, .. }) => {
                Ok(SendReceipt { id: MessageRef::Durable(*id), seq: Some(id.seq), deliveries: Some(*count) })
            }
            Some(OpResult::Received) => Ok(SendReceipt { id: MessageRef::Flag, seq: None, deliveries: None }),
            _ => Err(quorate_core::StoreError::Read("the commit returned no receipt for the message".into())
                .into()),
        }
    }
}

impl IntoFuture for SendBuilder {
    type Output = Result<SendReceipt, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl MessageDraft {
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
            max_attempts: None,
            correlation: None,
            cause: None,
            session: None,
            hops: 0,
            max_hops: None,
            durability: Durability::default(),
            budget: None,
            traceparent: None,
            if_unavailable: IfUnavailable::default(),
        }
    }

    /// Makes the message part of the conversation of another one, one hop further.
    pub(crate) fn continue_from(&mut self, cause: &ReceivedMessage) {
        let message = cause.message();
        self.correlation = message.correlation_id.clone().or_else(|| Some(cause.id().to_string()));
        self.cause = Some(cause.id().to_string());
        self.session.clone_from(&message.session_id);
        self.hops = message.hops.saturating_add(1);
        self.max_hops = message.max_hops;
        self.budget.clone_from(&message.budget);
        self.traceparent = cause.trace().map(|trace| trace.to_string());
    }

    /// Validates the draft and builds the message. Relative times are counted from now.
    pub(crate) fn into_message(self, backend: &dyn Backend, from: &AgentId) -> Result<Message, Error> {
        let to = Destination::from_texts(self.to)?;
        let payload = match self.durability {
            Durability::Durable => backend.seal(self.payload?.into()),
            Durability::Ephemeral => Payload::unsealed(self.payload?.into()),
        };
        let mut message = Message::new(to, self.action, payload);
        let now = backend.clock().now().wall;
        let from_now =
            |duration: Duration| now.plus_ms(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        message.from = Some(from.clone());
        message.client_id = self.id.map(ClientId::new).transpose()?;
        message.kind = self.kind;
        message.priority = self.priority;
        message.expires_at = self.expires_in.map(from_now);
        message.deliver_at = self.delay.map(from_now);
        message.attempts_max = self.max_attempts.unwrap_or(message.attempts_max);
        message.correlation_id = self.correlation;
        if self.kind == MessageType::Response {
            message.in_reply_to.clone_from(&self.cause);
        }
        message.causation_id = self.cause;
        message.if_unavailable = self.if_unavailable;
        message.session_id = self.session;
        message.hops = self.hops;
        message.max_hops = self.max_hops;
        message.durability = self.durability;
        message.budget = self.budget;
        message.traceparent = self.traceparent;
        Ok(message)
    }
}
