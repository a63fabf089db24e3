//! Messages: the envelope, its payload, and the state of its deliveries.

use quorate_core::{
    AgentId, ClientId, Code, Destination, Durability, IfUnavailable, Message as CoreMessage, MessageId,
    MessageType, Priority, Refused, Timestamp, TraceContext,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::delivery::DeliveryState;
use crate::json::{Json, RawJson, deserialize_in_two_passes};
use crate::parse_context::ParseContext;
use crate::payload;
use crate::priority::MessagePriority;
#[cfg(feature = "schema")]
use crate::schema;

/// Version of the message envelope.
pub const ENVELOPE_VERSION: &str = "1.0";

/// Message to send.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMessage<'a> {
    /// Client-assigned ID. Sending the same ID with the same content again returns the same message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ClientId>,
    /// Envelope version: 1.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::EnvelopeVersion>"))]
    pub version: Option<String>,
    /// Accepted and ignored: the hub sets the timestamp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// Sender. Defaults to the agent of the access token; operators and admins can set another agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentId>,
    /// Destination: an agent, a list of agents, `topic:NAME`, `role:ROLE`, `can:CAPABILITY`, or `*` for a broadcast.
    pub to: Destination,
    /// Message type; `command` by default.
    #[serde(rename = "type", default)]
    pub kind: MessageType,
    /// Name of the action that the message requests or reports.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub action: String,
    /// Any JSON, stored byte for byte. With a `contentType` other than JSON, a string: plain text for `text/…`,
    /// base64 otherwise.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json<'a>>,
    /// Media type of the payload. Omit it for JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub content_type: Option<String>,
    /// Priority; `normal` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<MessagePriority>,
    /// `durable` by default. `ephemeral` messages are held in memory and delivered at most once.
    #[serde(default)]
    pub durability: Durability,
    /// Time at which the message expires unless it is acked before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Earliest time of delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver_at: Option<Timestamp>,
    /// Maximum number of delivery attempts. After the last one the message is dead-lettered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    pub max_attempts: Option<u16>,
    /// Agent that receives the answer; the sender by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<AgentId>,
    /// ID of the message that this one answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub in_reply_to: Option<String>,
    /// Correlation ID shared by all messages of a conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub correlation_id: Option<String>,
    /// ID of the message that caused this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub causation_id: Option<String>,
    /// Session that this belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub session_id: Option<String>,
    /// Budget that the message chain spends from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub budget: Option<String>,
    /// Hop count: number of messages before this one in the chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hops: Option<u16>,
    /// Hop limit of the chain that this message starts; 100 by default. All messages of the chain inherit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub max_hops: Option<u16>,
    /// W3C trace context of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub traceparent: Option<String>,
    /// External system that the message came from. `webhook:…` is reserved for webhooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub origin: Option<String>,
    /// Confidence of the sender, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    pub confidence: Option<f64>,
    /// Reason for sending the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::ReasonText>"))]
    pub rationale: Option<String>,
    /// Custom metadata: a JSON object of at most 16 KB.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json<'a>>,
    /// Handling while the recipient is offline; `queue` by default.
    #[serde(default)]
    pub if_unavailable: IfUnavailable,
}

impl NewMessage<'_> {
    /// Converts the request into a message. The sender defaults to the calling agent; the commit is refused if the
    /// caller may not set another one.
    ///
    /// # Errors
    /// `INVALID` if the version is unknown, or the payload does not match its content type.
    pub fn into_core(self, context: &ParseContext<'_>) -> Result<CoreMessage, Refused> {
        if let Some(version) = self.version.filter(|version| version != ENVELOPE_VERSION) {
            return Err(Refused::new(Code::Invalid, format!("version: {version:?} is not supported"))
                .hint("omit version, or set it to 1.0"));
        }
        let metadata = self.metadata.as_ref().map(Json::get);
        let bytes = context.bytes(self.payload.as_ref(), self.content_type.as_deref())?;
        let payload = context.seal.seal_message(&self.action, metadata, bytes);
        let metadata = metadata.map(str::to_owned);
        let mut message = CoreMessage::new(self.to, self.action, payload);
        message.from = self.from.or_else(|| context.agent.cloned());
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
        message.max_hops = self.max_hops;
        message.traceparent = self.traceparent;
        message.origin = self.origin;
        message.confidence = self.confidence;
        message.rationale = self.rationale;
        message.metadata = metadata;
        message.if_unavailable = self.if_unavailable;
        Ok(message)
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the payload does not match its content type.
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
            payload: Some(payload::encode(&message.payload.bytes, message.content_type.as_deref())?),
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
            max_hops: message.max_hops,
            traceparent: message.traceparent.clone(),
            origin: message.origin.clone(),
            confidence: message.confidence,
            rationale: message.rationale.clone(),
            metadata: metadata.map(|text| payload::encode(text.as_bytes(), None)).transpose()?,
            if_unavailable: message.if_unavailable,
        })
    }
}

/// Declares a representation of a sent message: the fields of the envelope, and optionally those of the payload. Both
/// are plain structs, because serde parses a flattened struct in two passes, and messages are on the hot path.
macro_rules! envelope {
    ($(#[$doc:meta])* $name:ident |$message:ident| {
        $($(#[$meta:meta])* $field:ident: $type:ty = $value:expr;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// Unique identifier, assigned by the hub. The ID of a durable message identifies its record.
            pub id: String,
            /// Envelope version: 1.0.
            pub version: String,
            /// Time at which the hub accepted the message.
            pub timestamp: Timestamp,
            /// Sender; `null` for the hub itself.
            pub from: Option<AgentId>,
            /// Destination: an agent, a list of agents, `topic:NAME`, `role:ROLE`, `can:CAPABILITY`, or `*` for a
            /// broadcast.
            pub to: Destination,
            /// Message type.
            #[serde(rename = "type")]
            pub kind: MessageType,
            /// Name of the action that the message requests or reports.
            pub action: String,
            $($(#[$meta])* pub $field: $type,)*
            /// Priority, from 0 (low) to 3 (urgent).
            #[cfg_attr(feature = "schema", schemars(range(max = 3)))]
            pub priority: u8,
            /// Whether the message is stored on disk (`durable`) or held in memory (`ephemeral`).
            pub durability: Durability,
            /// Maximum number of delivery attempts. After the last one the message is dead-lettered.
            pub max_attempts: u16,
            /// Hop count: number of messages before this one in the chain.
            pub hops: u16,
            /// Handling while the recipient is offline.
            pub if_unavailable: IfUnavailable,
            /// ID assigned by the sender.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub client_id: Option<ClientId>,
            /// Media type of the payload. Omitted for JSON.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub content_type: Option<String>,
            /// Time at which the message expires unless it is acked before.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub expires_at: Option<Timestamp>,
            /// Earliest time of delivery.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub deliver_at: Option<Timestamp>,
            /// Agent that receives the answer.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub reply_to: Option<AgentId>,
            /// ID of the message that this one answers.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub in_reply_to: Option<String>,
            /// Correlation ID shared by all messages of a conversation.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub correlation_id: Option<String>,
            /// ID of the message that caused this one.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub causation_id: Option<String>,
            /// Session that this belongs to.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub session_id: Option<String>,
            /// Budget that the message chain spends from.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub budget: Option<String>,
            /// Hop limit of the chain, if its first message set one.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub max_hops: Option<u16>,
            /// W3C trace context of the message itself.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub traceparent: Option<String>,
            /// External system that the message came from.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub origin: Option<String>,
            /// Confidence of the sender, from 0 to 1.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub confidence: Option<f64>,
            /// Reason for sending the message.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub rationale: Option<String>,
            /// Custom metadata set by the sender: a JSON object.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub metadata: Option<RawJson>,
        }

        impl $name {
            /// Creates the API representation of a message. `durable_id` is its ID if the message is on disk.
            #[must_use]
            pub fn new(
                id: String,
                durable_id: Option<MessageId>,
                at: Timestamp,
                $message: &CoreMessage,
            ) -> Self {
                // Recipients continue the trace from the span of the message. Ephemeral messages have no span.
                let context = durable_id.and_then(|id| TraceContext::of_message(id, $message));
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
                    max_hops: $message.max_hops,
                    traceparent,
                    origin: $message.origin.clone(),
                    confidence: $message.confidence,
                    rationale: $message.rationale.clone(),
                    metadata: $message.metadata.clone().map(|text| RawJson(text.into())),
                    $($field: $value,)*
                }
            }
        }
    };
}

envelope!(
    /// A sent message.
    Message |message| {
        /// Payload as it was sent; `null` if it was erased.
        payload: RawJson = payload::render(&message.payload, message.content_type.as_deref());
        /// Present and true if the payload was erased. Distinguishes an erased payload from a `null` that was sent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        erased: bool = message.payload.is_erased();
    }
);

envelope!(
    /// A sent message, without its payload.
    Envelope |message| {}
);

impl Message {
    /// Converts the message into the core type.
    ///
    /// # Errors
    /// `INVALID` if the payload does not match its content type.
    pub fn into_core(self) -> Result<CoreMessage, Refused> {
        let payload = payload::decode_received(&self.payload, self.content_type.as_deref())?;
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
        message.max_hops = self.max_hops;
        message.traceparent = self.traceparent;
        message.origin = self.origin;
        message.confidence = self.confidence;
        message.rationale = self.rationale;
        message.metadata = self.metadata.map(|raw| raw.as_str().to_owned());
        message.if_unavailable = self.if_unavailable;
        Ok(message)
    }

    /// Returns the metadata as a `RawValue`.
    #[must_use]
    pub fn metadata(&self) -> Option<Box<RawValue>> {
        self.metadata.as_ref().map(RawJson::to_raw_value)
    }
}

/// Sent message with the state of each of its deliveries.
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

/// Deliveries of a message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Deliveries {
    /// One delivery per recipient.
    pub deliveries: Vec<DeliveryState>,
}

deserialize_in_two_passes!(MessageWithDeliveries { message, more });

/// One message or a list of messages.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum NewMessages<'a> {
    One(Box<NewMessage<'a>>),
    List(#[cfg_attr(feature = "schema", schemars(length(min = 1, max = 256)))] Vec<NewMessage<'a>>),
}

/// Filter and page of a list of messages.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MessageListQuery {
    /// Only messages sent by this agent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub from: Option<String>,
    /// Only messages delivered to this agent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub to: Option<String>,
    /// Only messages sent by or delivered to this agent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub agent: Option<String>,
    /// Only messages of this type.
    pub r#type: Option<MessageType>,
    /// Only messages of this session.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub session: Option<String>,
    /// Maximum number of items in a page; 100 by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Limit>"))]
    pub limit: Option<usize>,
    /// Cursor of the previous page. A page may be short or empty and still have a cursor.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
}
