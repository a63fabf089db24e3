//! Messages: seed D's envelope in JSON.

use crate::wire::Raw;
use quorate_core::{
    AgentId, ClientId, Code, Destination, Durability, IfUnavailable, Message, MessageType, Priority, Refused,
    TraceContext,
};
use quorate_engine::{MessageRef, MessageView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Sealing, delivery, shown, time};
use crate::api::words;

/// A message as a caller writes it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NewMessage")]
pub(crate) struct MessageIn<'a> {
    /// The caller's own id: sent again with the same content it is one message.
    #[schemars(with = "Option<words::Id>")]
    id: Option<String>,
    /// Of the envelope: 1.0.
    #[schemars(with = "Option<words::EnvelopeVersion>")]
    version: Option<String>,
    /// When the sender wrote it. The hub's own time is the one that is told.
    #[schemars(with = "Option<words::Time>")]
    timestamp: Option<String>,
    /// The token's agent if nothing is said; operators and admins may name one.
    #[schemars(with = "Option<words::Id>")]
    from: Option<String>,
    to: OneOrList,
    #[serde(rename = "type", default)]
    kind: KindIn,
    /// What is to be done, as a word.
    #[serde(default)]
    #[schemars(length(max = 128))]
    action: String,
    /// Any JSON, kept byte for byte; with a `contentType` that is not JSON, a text: as it is for `text/…`, else in base64.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    payload: Option<&'a RawValue>,
    /// What the bytes are, if they are no JSON.
    #[schemars(length(max = 128))]
    content_type: Option<String>,
    priority: Option<PriorityIn>,
    #[serde(default)]
    durability: DurabilityIn,
    #[schemars(with = "Option<words::Time>")]
    expires_at: Option<String>,
    #[schemars(with = "Option<words::Time>")]
    deliver_at: Option<String>,
    #[schemars(range(min = 1, max = 100))]
    max_attempts: Option<u16>,
    /// The agent that answers go to.
    #[schemars(with = "Option<words::Id>")]
    reply_to: Option<String>,
    /// The message that this one answers.
    #[schemars(length(max = 128))]
    in_reply_to: Option<String>,
    #[schemars(length(max = 128))]
    correlation_id: Option<String>,
    #[schemars(length(max = 128))]
    causation_id: Option<String>,
    #[schemars(length(max = 128))]
    session_id: Option<String>,
    /// The budget that its chain spends from.
    #[schemars(length(max = 128))]
    budget: Option<String>,
    /// How many messages led to it.
    hops: Option<u16>,
    /// W3C trace context.
    #[schemars(length(max = 128))]
    traceparent: Option<String>,
    #[schemars(length(max = 128))]
    origin: Option<String>,
    #[schemars(range(min = 0, max = 1))]
    confidence: Option<f64>,
    #[schemars(with = "Option<words::Sentence>")]
    rationale: Option<String>,
    /// An object of at most 16 KB.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    metadata: Option<&'a RawValue>,
    #[serde(default)]
    if_unavailable: IfUnavailableIn,
}

/// An agent, a list of agents, `topic:…`, `role:…`, `can:…` or `*`.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "takes an agent, a list of agents, topic:…, role:…, can:… or *")]
#[schemars(rename = "Destination")]
enum OneOrList {
    One(#[schemars(with = "words::Id")] String),
    List(#[schemars(length(min = 1), with = "Vec<words::Id>")] Vec<String>),
}

#[derive(Deserialize, Default, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum KindIn {
    #[default]
    Command,
    Query,
    Event,
    Response,
}

impl KindIn {
    pub(crate) fn read(self) -> MessageType {
        match self {
            Self::Command => MessageType::Command,
            Self::Query => MessageType::Query,
            Self::Event => MessageType::Event,
            Self::Response => MessageType::Response,
        }
    }
}

#[derive(Deserialize, Default, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum DurabilityIn {
    #[default]
    Durable,
    Ephemeral,
}

#[derive(Deserialize, Default, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum IfUnavailableIn {
    #[default]
    Queue,
    Redirect,
    Fail,
}

/// How urgent something is: a word (`medium` is `normal`), or seed D's number from 0 to 3.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "takes low, normal, high, urgent, or a number from 0 to 3")]
#[schemars(rename = "Priority")]
pub(crate) enum PriorityIn {
    Word(PriorityWord),
    Level(#[schemars(range(max = 3))] u8),
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum PriorityWord {
    Low,
    Normal,
    Medium,
    High,
    Urgent,
}

impl PriorityWord {
    pub(crate) fn read(&self) -> Priority {
        match self {
            Self::Low => Priority::LOW,
            Self::Normal | Self::Medium => Priority::NORMAL,
            Self::High => Priority::HIGH,
            Self::Urgent => Priority::URGENT,
        }
    }
}

impl PriorityIn {
    pub(crate) fn read(&self) -> Result<Priority, Refused> {
        match self {
            Self::Word(word) => Ok(word.read()),
            Self::Level(level @ 0..=3) => Ok(Priority { level: *level, rank: 0 }),
            Self::Level(other) => Err(Refused::new(Code::Invalid, format!("priority: {other} is none"))
                .hint("say 0 to 3, or low, normal, high, urgent")),
        }
    }
}

impl MessageIn<'_> {
    /// The message, from this agent unless it names one itself, which the kernel allows only to those who may.
    pub(crate) fn read(self, sealing: &Sealing<'_>, from: Option<&AgentId>) -> Result<Message, Refused> {
        if let Some(other) = self.version.filter(|version| version != "1.0") {
            return Err(Refused::new(Code::Invalid, format!("version: {other:?} is not known here"))
                .hint("the version of the envelope is 1.0"));
        }
        self.timestamp.map(|text| time::read("timestamp", &text)).transpose()?;
        let to = match self.to {
            OneOrList::One(to) => to.parse()?,
            OneOrList::List(list) => Destination::of_texts(list)?,
        };
        let from = match self.from {
            Some(named) => Some(AgentId::new(named)?),
            None => from.cloned(),
        };
        let ephemeral = matches!(self.durability, DurabilityIn::Ephemeral);
        let payload = sealing.of_message(
            (&self.action, self.metadata.map(RawValue::get)),
            self.payload,
            self.content_type.as_deref(),
        )?;
        let mut message = Message::new(to, self.action, payload);
        message.from = from;
        message.client_id = self.id.map(ClientId::new).transpose()?;
        message.kind = self.kind.read();
        message.content_type = self.content_type;
        message.priority = self.priority.map_or(Ok(Priority::NORMAL), |priority| priority.read())?;
        message.durability = if ephemeral { Durability::Ephemeral } else { Durability::Durable };
        message.expires_at = self.expires_at.map(|text| time::read("expiresAt", &text)).transpose()?;
        message.deliver_at = self.deliver_at.map(|text| time::read("deliverAt", &text)).transpose()?;
        message.attempts_max = self.max_attempts.unwrap_or(message.attempts_max);
        message.reply_to = self.reply_to.map(AgentId::new).transpose()?;
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
        message.metadata = self.metadata.map(|raw| raw.get().to_owned());
        message.if_unavailable = match self.if_unavailable {
            IfUnavailableIn::Queue => IfUnavailable::Queue,
            IfUnavailableIn::Redirect => IfUnavailable::Redirect,
            IfUnavailableIn::Fail => IfUnavailable::Fail,
        };
        Ok(message)
    }
}

/// A message as it is shown.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Message")]
pub(crate) struct MessageOut {
    id: String,
    /// Of the envelope: 1.0.
    version: &'static str,
    #[schemars(with = "words::Time")]
    timestamp: String,
    /// `null`: the hub itself.
    from: Option<String>,
    to: ToOut,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["command", "query", "event", "response"]))]
    kind: &'static str,
    action: String,
    /// As it came in; `null` if it was erased.
    payload: Raw,
    /// Said if the payload was erased since: then `null` is not what was sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    erased: bool,
    /// From 0, low, to 3, urgent.
    #[schemars(range(max = 3))]
    priority: u8,
    #[schemars(extend("enum" = ["durable", "ephemeral"]))]
    durability: &'static str,
    max_attempts: u16,
    hops: u16,
    if_unavailable: &'static str,
    #[serde(flatten)]
    more: MoreOut,
}

/// To whom: a text, or the list that it was sent to.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "SentTo")]
enum ToOut {
    One(String),
    List(Vec<String>),
}

/// What most messages leave out.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct MoreOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<words::Time>")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<words::Time>")]
    deliver_at: Option<String>,
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
}

impl MessageOut {
    pub(crate) fn new(id: impl Into<MessageRef>, at: quorate_core::Timestamp, message: &Message) -> Self {
        let id = id.into();
        let text = |id: &Option<AgentId>| id.as_ref().map(ToString::to_string);
        let to = match &message.to {
            Destination::Agents(agents) => ToOut::List(agents.iter().map(ToString::to_string).collect()),
            one => ToOut::One(one.to_string()),
        };
        // Whoever gets it goes on from its own span; one in memory only has none.
        let context = match id {
            MessageRef::Durable(id) => TraceContext::of(id, message),
            MessageRef::Ephemeral(_) | MessageRef::Flag => None,
        };
        let traceparent = context.map(|context| context.to_string()).or_else(|| message.traceparent.clone());
        Self {
            id: id.to_string(),
            version: "1.0",
            timestamp: time::shown(at),
            from: text(&message.from),
            to,
            kind: message.kind.as_str(),
            action: message.action.clone(),
            payload: shown(&message.payload, message.content_type.as_deref()),
            erased: message.payload.is_erased(),
            priority: message.priority.level,
            durability: match message.durability {
                Durability::Durable => "durable",
                Durability::Ephemeral => "ephemeral",
            },
            max_attempts: message.attempts_max,
            hops: message.hops,
            if_unavailable: message.if_unavailable.as_str(),
            more: MoreOut {
                client_id: message.client_id.as_ref().map(ToString::to_string),
                content_type: message.content_type.clone(),
                expires_at: message.expires_at.map(time::shown),
                deliver_at: message.deliver_at.map(time::shown),
                reply_to: text(&message.reply_to),
                in_reply_to: message.in_reply_to.clone(),
                correlation_id: message.correlation_id.clone(),
                causation_id: message.causation_id.clone(),
                session_id: message.session_id.clone(),
                budget: message.budget.clone(),
                traceparent,
                origin: message.origin.clone(),
                confidence: message.confidence,
                rationale: message.rationale.clone(),
                metadata: message.metadata.clone().and_then(|text| RawValue::from_string(text).ok()),
            },
        }
    }
}

/// A message with where each of its deliveries is.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MessageWithDeliveries")]
pub(crate) struct MessageStateOut {
    #[serde(flatten)]
    message: MessageOut,
    deliveries: Vec<delivery::StateOut>,
}

impl MessageStateOut {
    pub(crate) fn new(view: &MessageView) -> Self {
        let deliveries = view.deliveries.iter().map(delivery::StateOut::new);
        Self { message: MessageOut::new(view.id, view.at, &view.message), deliveries: deliveries.collect() }
    }
}
