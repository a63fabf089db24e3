//! Messages.

use quorate_core::{
    AgentId, ClientId, Code, Destination, Durability, IfUnavailable, Message as CoreMessage, MessageId,
    MessageType, Priority, Refused, Timestamp, TraceContext,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::delivery::DeliveryState;
use crate::json::{Json, Raw, deserialize_in_two_passes};
use crate::payload;
use crate::priority::MessagePriority;
use crate::reading::Reading;
#[cfg(feature = "schema")]
use crate::schema;

/// The version of the envelope.
pub const ENVELOPE_VERSION: &str = "1.0";

/// A message to send.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMessage<'a> {
    /// The sender's own id. Sent again with the same content it is the same message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ClientId>,
    /// The version of the envelope: 1.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::EnvelopeVersion>"))]
    pub version: Option<String>,
    /// When the sender wrote it. The hub sets its own timestamp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// The sender. By default the agent of the token; operators and admins may name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentId>,
    /// An agent, a list of agents, `topic:NAME`, `role:ROLE`, `can:CAPABILITY`, or `*` for everybody.
    pub to: Destination,
    /// `command` by default.
    #[serde(rename = "type", default)]
    pub kind: MessageType,
    /// What the message asks for or reports.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub action: String,
    /// Any JSON, kept byte for byte. With a `contentType` other than JSON, a string: plain for `text/…`, otherwise base64.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json<'a>>,
    /// The media type of the payload, unless it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub content_type: Option<String>,
    /// `normal` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<MessagePriority>,
    /// `durable` by default; `ephemeral` messages live in memory and are delivered at most once.
    #[serde(default)]
    pub durability: Durability,
    /// The message is dropped if it is not acked by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The message is not delivered before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver_at: Option<Timestamp>,
    /// Delivery attempts before it becomes a dead letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    pub max_attempts: Option<u16>,
    /// The agent that replies go to; the sender by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<AgentId>,
    /// The message that this one answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub in_reply_to: Option<String>,
    /// The conversation that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub correlation_id: Option<String>,
    /// The message that caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub causation_id: Option<String>,
    /// The session that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub session_id: Option<String>,
    /// The budget that its chain spends from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub budget: Option<String>,
    /// The number of messages in the chain before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hops: Option<u16>,
    /// W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub traceparent: Option<String>,
    /// The system that the message came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub origin: Option<String>,
    /// How sure the sender is, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    pub confidence: Option<f64>,
    /// Why the sender sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Sentence>"))]
    pub rationale: Option<String>,
    /// An object of at most 16 KB.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json<'a>>,
    /// What to do while the recipient is offline; `queue` by default.
    #[serde(default)]
    pub if_unavailable: IfUnavailable,
}

impl NewMessage<'_> {
    /// The message, from the acting agent unless it names another one, which the kernel allows by its rights.
    ///
    /// # Errors
    /// `INVALID` for an unknown version, or a payload that is not what its content type promises.
    pub fn read(self, reading: &Reading<'_>) -> Result<CoreMessage, Refused> {
        if let Some(other) = self.version.filter(|version| version != ENVELOPE_VERSION) {
            return Err(Refused::new(Code::Invalid, format!("version: {other:?} is not supported"))
                .hint("the version of the envelope is 1.0"));
        }
        let metadata = self.metadata.as_ref().map(Json::get);
        let bytes = reading.bytes(self.payload.as_ref(), self.content_type.as_deref())?;
        let payload = reading.seal.seal_message(&self.action, metadata, bytes);
        let metadata = metadata.map(str::to_owned);
        let mut message = CoreMessage::new(self.to, self.action, payload);
        message.from = self.from.or_else(|| reading.agent.cloned());
        message.client_id = self.id;
        message.kind = self.kind;
        message.content_type = self.content_type;
        message.priority = self.priority.map_or(Priority::NORMAL, |priority| priority.0);
        message.durability = self.durability;
        message.expires_at = self.expires_at;
        message.deliver_at = self.deliver_at;
        message.attempts_max = self.max_attempts.unwrap_or(message.attempts_max);
        message.reply_to = self.reply_to;
        message.in_reply_to = self.in_reply_to;
        message.correlation_id = self.correlation_id;
        message.causation_id = self.causation_id;
        message.session_id = self.session_id;
        message.budget = self.budget;
        message.hops = self.hops.unwrap_or(0);
        message.traceparent = self.traceparent;
        message.origin = self.origin;
        message.confidence = self.confidence;
        message.rationale = self.rationale;
        message.metadata = metadata;
        message.if_unavailable = self.if_unavailable;
        Ok(message)
    }

    /// A message as a client sends it.
    ///
    /// # Errors
    /// `INVALID` if the payload is not what its content type promises.
    pub fn new(message: &CoreMessage) -> Result<NewMessage<'static>, Refused> {
        let metadata = message.metadata.as_ref();
        Ok(NewMessage {
            id: message.client_id.clone(),
            version: None,
            timestamp: None,
            from: message.from.clone(),
            to: message.to.clone(),
            kind: message.kind,
            action: message.action.clone(),
            payload: Some(payload::json_of(&message.payload.bytes, message.content_type.as_deref())?),
            content_type: message.content_type.clone(),
            priority: Some(MessagePriority(message.priority)),
            durability: message.durability,
            expires_at: message.expires_at,
            deliver_at: message.deliver_at,
            max_attempts: Some(message.attempts_max),
            reply_to: message.reply_to.clone(),
            in_reply_to: message.in_reply_to.clone(),
            correlation_id: message.correlation_id.clone(),
            causation_id: message.causation_id.clone(),
            session_id: message.session_id.clone(),
            budget: message.budget.clone(),
            hops: Some(message.hops),
            traceparent: message.traceparent.clone(),
            origin: message.origin.clone(),
            confidence: message.confidence,
            rationale: message.rationale.clone(),
            metadata: metadata.map(|text| payload::json_of(text.as_bytes(), None)).transpose()?,
            if_unavailable: message.if_unavailable,
        })
    }
}

/// Declares a form of a message that was sent: the fields of the envelope, and those of the payload if it has them. Both
/// forms are plain structs, because serde parses a flattened one in two passes, and messages are on the hot path.
macro_rules! envelope {
    ($(#[$doc:meta])* $name:ident |$message:ident| {
        $($(#[$meta:meta])* $field:ident: $type:ty = $value:expr;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// The hub's id; of a durable message it leads to its record.
            pub id: String,
            /// The version of the envelope: 1.0.
            pub version: String,
            /// When the hub took it.
            pub timestamp: Timestamp,
            /// The sender; `null` for the hub itself.
            pub from: Option<AgentId>,
            /// An agent, a list of agents, `topic:NAME`, `role:ROLE`, `can:CAPABILITY`, or `*` for everybody.
            pub to: Destination,
            /// What it is.
            #[serde(rename = "type")]
            pub kind: MessageType,
            /// What the message asks for or reports.
            pub action: String,
            $($(#[$meta])* pub $field: $type,)*
            /// From 0 (low) to 3 (urgent).
            #[cfg_attr(feature = "schema", schemars(range(max = 3)))]
            pub priority: u8,
            /// Whether it is on disk.
            pub durability: Durability,
            /// Delivery attempts before it becomes a dead letter.
            pub max_attempts: u16,
            /// The number of messages in the chain before it.
            pub hops: u16,
            /// What to do while the recipient is offline.
            pub if_unavailable: IfUnavailable,
            /// The sender's own id.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub client_id: Option<ClientId>,
            /// The media type of the payload, unless it is JSON.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub content_type: Option<String>,
            /// The message is dropped if it is not acked by then.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub expires_at: Option<Timestamp>,
            /// The message is not delivered before.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub deliver_at: Option<Timestamp>,
            /// The agent that replies go to.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub reply_to: Option<AgentId>,
            /// The message that this one answers.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub in_reply_to: Option<String>,
            /// The conversation that it belongs to.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub correlation_id: Option<String>,
            /// The message that caused it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub causation_id: Option<String>,
            /// The session that it belongs to.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub session_id: Option<String>,
            /// The budget that its chain spends from.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub budget: Option<String>,
            /// W3C trace context of the message itself.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub traceparent: Option<String>,
            /// The system that the message came from.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub origin: Option<String>,
            /// How sure the sender is, from 0 to 1.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub confidence: Option<f64>,
            /// Why the sender sent it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub rationale: Option<String>,
            /// An object of the sender.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub metadata: Option<Raw>,
        }

        impl $name {
            /// A message as it is shown. `durable` is its id if it is on disk.
            #[must_use]
            pub fn new(
                id: String,
                durable: Option<MessageId>,
                at: Timestamp,
                $message: &CoreMessage,
            ) -> Self {
                // A recipient continues from the span of the message; an ephemeral one has none.
                let context = durable.and_then(|id| TraceContext::of(id, $message));
                let traceparent =
                    context.map(|context| context.to_string()).or_else(|| $message.traceparent.clone());
                Self {
                    id,
                    version: ENVELOPE_VERSION.to_owned(),
                    timestamp: at,
                    from: $message.from.clone(),
                    to: $message.to.clone(),
                    kind: $message.kind,
                    action: $message.action.clone(),
                    priority: $message.priority.level,
                    durability: $message.durability,
                    max_attempts: $message.attempts_max,
                    hops: $message.hops,
                    if_unavailable: $message.if_unavailable,
                    client_id: $message.client_id.clone(),
                    content_type: $message.content_type.clone(),
                    expires_at: $message.expires_at,
                    deliver_at: $message.deliver_at,
                    reply_to: $message.reply_to.clone(),
                    in_reply_to: $message.in_reply_to.clone(),
                    correlation_id: $message.correlation_id.clone(),
                    causation_id: $message.causation_id.clone(),
                    session_id: $message.session_id.clone(),
                    budget: $message.budget.clone(),
                    traceparent,
                    origin: $message.origin.clone(),
                    confidence: $message.confidence,
                    rationale: $message.rationale.clone(),
                    metadata: $message.metadata.clone().map(|text| Raw(text.into())),
                    $($field: $value,)*
                }
            }
        }
    };
}

envelope!(
    /// A message that was sent.
    Message |message| {
        /// As it was sent; `null` if it was erased.
        payload: Raw = payload::shown(&message.payload, message.content_type.as_deref());
        /// Present if the payload was erased: then `null` is not what was sent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        erased: bool = message.payload.is_erased();
    }
);

envelope!(
    /// A message that was sent, without its payload.
    Envelope |message| {}
);

impl Message {
    /// The message as the core knows it.
    ///
    /// # Errors
    /// `INVALID` if the payload is not what its content type promises.
    pub fn read(self) -> Result<CoreMessage, Refused> {
        let payload = payload::received(&self.payload, self.content_type.as_deref())?;
        let mut message = CoreMessage::new(self.to, self.action, payload);
        message.from = self.from;
        message.client_id = self.client_id;
        message.kind = self.kind;
        message.content_type = self.content_type;
        message.priority = Priority { level: self.priority, rank: 0 };
        message.durability = self.durability;
        message.expires_at = self.expires_at;
        message.deliver_at = self.deliver_at;
        message.attempts_max = self.max_attempts;
        message.reply_to = self.reply_to;
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
        message.metadata = self.metadata.map(|raw| raw.as_str().to_owned());
        message.if_unavailable = self.if_unavailable;
        Ok(message)
    }

    /// The metadata as serde_json knows it.
    #[must_use]
    pub fn metadata(&self) -> Option<Box<RawValue>> {
        self.metadata.as_ref().map(Raw::parsed)
    }
}

/// A message with the state of each of its deliveries.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageWithDeliveries {
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// Its deliveries.
    #[serde(flatten)]
    pub more: Deliveries,
}

/// The deliveries of a message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Deliveries {
    /// One for each recipient.
    pub deliveries: Vec<DeliveryState>,
}

deserialize_in_two_passes!(MessageWithDeliveries { message, more });
