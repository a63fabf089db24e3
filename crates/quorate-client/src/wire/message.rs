//! Messages and deliveries.

use std::sync::Arc;

use quorate::link::{Answer, Delivery, MessageRef};
use quorate::{Before, Error, ListedMessage, MessagesPage};
use quorate_core::{
    AgentId, ClientId, Destination, Durability, IfUnavailable, LeaseRef, Message, MessageId, MessageType,
    Priority, Timestamp, Token,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Text, payload, raw, strange, time_in, time_out};

/// A message on its way out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) again: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    to: Vec<String>,
    #[serde(rename = "type")]
    kind: &'static str,
    action: String,
    payload: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    priority: u8,
    durability: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver_at: Option<String>,
    max_attempts: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_reply_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    causation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<String>,
    hops: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rationale: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
    if_unavailable: &'static str,
}

impl MessageOut {
    /// A message as it is; `timeout_ms` is for a question.
    pub(crate) fn new(message: &Message, timeout_ms: Option<u64>) -> Result<Self, Error> {
        let text = |id: &Option<AgentId>| id.as_ref().map(ToString::to_string);
        let to = match message.to.agents() {
            [] => vec![message.to.to_string()],
            agents => agents.iter().map(ToString::to_string).collect(),
        };
        let metadata = message.metadata.as_ref().map(|text| raw(text.as_bytes(), None)).transpose()?;
        Ok(Self {
            op: None,
            timeout_ms,
            again: None,
            id: message.client_id.as_ref().map(ToString::to_string),
            from: text(&message.from),
            to,
            kind: message.kind.as_str(),
            action: message.action.clone(),
            payload: raw(&message.payload.bytes, message.content_type.as_deref())?,
            content_type: message.content_type.clone(),
            priority: message.priority.level,
            durability: match message.durability {
                Durability::Durable => "durable",
                Durability::Ephemeral => "ephemeral",
            },
            expires_at: message.expires_at.map(time_out),
            deliver_at: message.deliver_at.map(time_out),
            max_attempts: message.attempts_max,
            reply_to: text(&message.reply_to),
            in_reply_to: message.in_reply_to.clone(),
            correlation_id: message.correlation_id.clone(),
            causation_id: message.causation_id.clone(),
            session_id: message.session_id.clone(),
            budget: message.budget.clone(),
            hops: message.hops,
            traceparent: message.traceparent.clone(),
            origin: message.origin.clone(),
            confidence: message.confidence,
            rationale: message.rationale.clone(),
            metadata,
            if_unavailable: message.if_unavailable.as_str(),
        })
    }

    /// As an operation of a commit.
    pub(crate) fn as_op(message: &Message) -> Result<Self, Error> {
        Ok(Self { op: Some("send"), ..Self::new(message, None)? })
    }
}

/// To whom a message went.
#[derive(Deserialize)]
#[serde(untagged)]
enum To {
    One(String),
    List(Vec<String>),
}

/// A message as it is shown.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageIn<'a> {
    id: String,
    timestamp: String,
    from: Option<String>,
    to: To,
    #[serde(rename = "type")]
    kind: String,
    action: String,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    content_type: Option<String>,
    priority: u8,
    durability: String,
    max_attempts: u16,
    hops: u16,
    if_unavailable: String,
    client_id: Option<String>,
    expires_at: Option<String>,
    deliver_at: Option<String>,
    reply_to: Option<String>,
    in_reply_to: Option<String>,
    correlation_id: Option<String>,
    causation_id: Option<String>,
    session_id: Option<String>,
    budget: Option<String>,
    traceparent: Option<String>,
    origin: Option<String>,
    confidence: Option<f64>,
    rationale: Option<String>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

impl MessageIn<'_> {
    /// The message, with its id and the time at which it was sent.
    pub(crate) fn read(self) -> Result<Answer, Error> {
        let id = ref_of(&self.id)?;
        let at = time_in(&self.timestamp)?;
        let to = match self.to {
            To::One(one) => one.parse::<Destination>()?,
            To::List(list) => Destination::of_texts(list)?,
        };
        let bytes = payload(self.payload, self.content_type.as_deref())?;
        let mut message = Message::new(to, self.action, bytes);
        message.from = self.from.map(AgentId::new).transpose()?;
        message.client_id = self.client_id.map(ClientId::new).transpose()?;
        message.kind = kind_of(&self.kind)?;
        message.content_type = self.content_type;
        message.priority = Priority { level: self.priority, rank: 0 };
        if self.durability == "ephemeral" {
            message.durability = Durability::Ephemeral;
        }
        message.expires_at = self.expires_at.as_deref().map(time_in).transpose()?;
        message.deliver_at = self.deliver_at.as_deref().map(time_in).transpose()?;
        message.attempts_max = self.max_attempts;
        message.reply_to = self.reply_to.map(AgentId::new).transpose()?;
        message.in_reply_to = self.in_reply_to;
        message.correlation_id = self.correlation_id;
        message.causation_id = self.causation_id;
        message.session_id = self.session_id;
        message.budget = self.budget;
        message.hops = self.hops;
        message.traceparent = self.traceparent;
        message.origin = self.origin;
        message.confidence = self.confidence;
        message.rationale = self.rationale;
        message.metadata = self.metadata.map(|raw| raw.get().to_owned());
        let choice = IfUnavailable::ALL.into_iter().find(|choice| choice.as_str() == self.if_unavailable);
        message.if_unavailable = choice.ok_or_else(|| strange(&self.if_unavailable))?;
        Ok(Answer { id, at, message: Arc::new(message) })
    }
}

/// A delivery as it is handed over.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryIn<'a> {
    delivery_id: Option<String>,
    lease_token: Option<u64>,
    attempt: u16,
    #[serde(borrow)]
    message: MessageIn<'a>,
}

impl DeliveryIn<'_> {
    pub(crate) fn read(self, lease_ms: u64) -> Result<Delivery, Error> {
        let lease = match (self.delivery_id, self.lease_token) {
            (Some(id), Some(token)) => Some(LeaseRef { delivery: id.parse()?, token: Token(token) }),
            _ => None,
        };
        let Answer { id, at, message } = self.message.read()?;
        Ok(Delivery { lease, lease_ms, attempt: self.attempt, id, sent_at: at, message })
    }
}

/// A message of the log, with its id and the time at which it was sent.
pub(crate) fn durable(answer: Answer) -> Result<(MessageId, Timestamp, Arc<Message>), Error> {
    match answer.id {
        MessageRef::Durable(id) => Ok((id, answer.at, answer.message)),
        MessageRef::Ephemeral(_) | MessageRef::Flag => Err(strange(&"a message in memory only")),
    }
}

/// The messages of a list, newest first.
#[derive(Deserialize)]
pub(crate) struct MessagesIn<'a> {
    #[serde(borrow)]
    messages: Vec<MessageIn<'a>>,
    cursor: Option<Text<Before>>,
}

impl MessagesIn<'_> {
    pub(crate) fn read(self) -> Result<MessagesPage, Error> {
        let listed = |one: MessageIn<'_>| {
            durable(one.read()?).map(|(id, at, message)| ListedMessage { id, at, message })
        };
        let messages = self.messages.into_iter().map(listed).collect::<Result<_, _>>()?;
        Ok(MessagesPage { messages, cursor: self.cursor.map(|before| before.0) })
    }
}

/// The id of a message, wherever it lives.
pub(crate) fn ref_of(text: &str) -> Result<MessageRef, Error> {
    match text.strip_prefix("eph_") {
        Some(number) => number.parse().map(MessageRef::Ephemeral).map_err(|error| strange(&error)),
        None => Ok(MessageRef::Durable(text.parse()?)),
    }
}

fn kind_of(word: &str) -> Result<MessageType, Error> {
    let all = [MessageType::Command, MessageType::Query, MessageType::Event, MessageType::Response];
    all.into_iter().find(|kind| kind.as_str() == word).ok_or_else(|| strange(&word))
}

pub(crate) fn priority_of(word: &str) -> Result<Priority, Error> {
    let words = ["low", "normal", "high", "urgent"];
    let level = words.iter().position(|known| *known == word).ok_or_else(|| strange(&word))?;
    Ok(Priority { level: level as u8, rank: 0 })
}
