//! Native fields without a counterpart in a dialect: `metadata.quorate` of a dialect's message, with native field
//! names.

use quorate_core::{
    AgentId, ClientId, Destination, Durability, IfUnavailable, Message, MessageType, Priority, Timestamp,
};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::Envelope;
use super::field_reader::{FieldError, FieldReader};
use super::writer::{ObjectWriter, to_raw_json};
use crate::wire::time;

/// Payload fields that may wrap a payload which the dialect cannot represent directly.
const WRAPPER_FIELDS: [&str; 3] = ["data", "content", "question"];

pub(super) const KINDS: [(&str, MessageType); 4] = [
    ("command", MessageType::Command),
    ("query", MessageType::Query),
    ("event", MessageType::Event),
    ("response", MessageType::Response),
];
pub(super) const DURABILITIES: [(&str, Durability); 2] =
    [("durable", Durability::Durable), ("ephemeral", Durability::Ephemeral)];
pub(super) const IF_UNAVAILABLE: [(&str, IfUnavailable); 3] =
    [("queue", IfUnavailable::Queue), ("redirect", IfUnavailable::Redirect), ("fail", IfUnavailable::Fail)];
const PRIORITIES: [(&str, Priority); 4] = [
    ("low", Priority::LOW),
    ("normal", Priority::NORMAL),
    ("high", Priority::HIGH),
    ("urgent", Priority::URGENT),
];

/// A destination as JSON: a string, or a list of strings.
pub(super) struct DestinationJson<'a>(pub(super) &'a Destination);

impl Serialize for DestinationJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Destination::Agents(agents) => serializer.collect_seq(agents.iter().map(AgentId::as_str)),
            other => serializer.collect_str(other),
        }
    }
}

/// Parses a destination: a string or a list of strings.
pub(super) fn parse_destination(
    fields: &mut FieldReader<'_>,
    name: &str,
) -> Result<Option<Destination>, FieldError> {
    let path = fields.path_of(name);
    let Some(raw) = fields.value(name) else { return Ok(None) };
    let error = |refused: quorate_core::Refused| FieldError::new(&path, refused.detail).hint(refused.hint);
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        return text.parse().map(Some).map_err(error);
    }
    let Ok(texts) = serde_json::from_str::<Vec<String>>(raw.get()) else {
        return Err(FieldError::new(path, "expected a string or a list of strings"));
    };
    if texts.is_empty() {
        return Err(FieldError::new(path, "the list of recipients is empty")
            .hint("omit the field to use the default recipient"));
    }
    // A list of one stays a list, so that it is rendered as a list.
    match Destination::from_texts(texts).map_err(error)? {
        Destination::Agent(agent) => Ok(Some(Destination::Agents(vec![agent]))),
        other => Ok(Some(other)),
    }
}

/// Renders a priority that a dialect may not be able to represent.
fn priority_json(priority: Priority) -> Box<RawValue> {
    let Priority { level, rank } = priority;
    match rank {
        0 => to_raw_json(priority.as_str()),
        _ if Priority::from_ten_scale(rank) == Ok(priority) => to_raw_json(&rank),
        _ => ObjectWriter::default().with("level", level).with("rank", rank).to_raw(),
    }
}

fn priority(fields: &mut FieldReader<'_>) -> Result<Option<Priority>, FieldError> {
    const NAME: &str = "priority";
    let path = fields.path_of(NAME);
    let Some(raw) = fields.value(NAME) else { return Ok(None) };
    let priority = match raw.get().as_bytes().first() {
        Some(b'"') => {
            let name: String = serde_json::from_str(raw.get()).unwrap_or_default();
            PRIORITIES.iter().find(|(known_name, _)| *known_name == name).map(|(_, priority)| *priority)
        }
        Some(b'{') => {
            let mut fields = FieldReader::parse(&*path, raw)?;
            let parts = (fields.integer("level")?, fields.integer("rank")?);
            fields.finish("a priority object has level and rank")?;
            match parts {
                (Some(level @ 0..=3), Some(rank @ 0..=255)) => {
                    Some(Priority { level: level as u8, rank: rank as u8 })
                }
                _ => None,
            }
        }
        _ => raw.get().parse().ok().and_then(|value| Priority::from_ten_scale(value).ok()),
    };
    let error = || {
        FieldError::new(path, format!("invalid priority {}", raw.get()))
            .hint("use low, normal, high, urgent, or 1 to 10")
    };
    priority.map(Some).ok_or_else(error)
}

/// Returns the native fields that the rendered dialect message lacks.
pub(super) fn native_extras(envelope: &Envelope, bare: &Envelope) -> ObjectWriter {
    let (message, parsed) = (&envelope.message, &bare.message);
    let mut differences = Differences(ObjectWriter::default());
    let id_text = |id: &Option<AgentId>| id.as_ref().map(ToString::to_string);
    let client_id = |message: &Message| message.client_id.as_ref().map(ClientId::to_string);
    let time = |time: Option<Timestamp>| time.map(time::format);
    differences.add("from", &id_text(&message.from), &id_text(&parsed.from));
    differences.add("clientId", &client_id(message), &client_id(parsed));
    if message.to != parsed.to {
        differences.put("to", DestinationJson(&message.to));
    }
    // A message with `inReplyTo` is parsed as a response by default, so the type is stated with it.
    if message.kind != parsed.kind || message.in_reply_to != parsed.in_reply_to {
        differences.put("type", message.kind.as_str());
    }
    differences.add("action", &message.action, &parsed.action);
    if message.priority != parsed.priority {
        differences.put("priority", priority_json(message.priority));
    }
    differences.add(
        "durability",
        &name_of(&DURABILITIES, message.durability),
        &name_of(&DURABILITIES, parsed.durability),
    );
    differences.add("expiresAt", &time(message.expires_at), &time(parsed.expires_at));
    differences.add("deliverAt", &time(message.deliver_at), &time(parsed.deliver_at));
    differences.add("maxAttempts", &message.attempts_max, &parsed.attempts_max);
    differences.add("replyTo", &id_text(&message.reply_to), &id_text(&parsed.reply_to));
    let (mut message_copy, mut parsed_copy) = (message.clone(), parsed.clone());
    for (name, get) in OPTIONAL_TEXTS {
        differences.add(name, get(&mut message_copy), get(&mut parsed_copy));
    }
    differences.add("hops", &message.hops, &parsed.hops);
    differences.add("maxHops", &message.max_hops, &parsed.max_hops);
    differences.add("confidence", &message.confidence, &parsed.confidence);
    differences.add("ifUnavailable", message.if_unavailable.as_str(), parsed.if_unavailable.as_str());
    if envelope.payload.get() != bare.payload.get() {
        match wrapper_field(&bare.payload, &envelope.payload) {
            Some(name) => differences.put("payloadIn", name),
            None => differences.put("payload", &envelope.payload),
        }
    }
    differences.0
}

/// Returns the payload field that wraps the actual payload.
fn wrapper_field(fields: &RawValue, payload: &RawValue) -> Option<&'static str> {
    let mut fields = FieldReader::parse("", fields).ok()?;
    WRAPPER_FIELDS.into_iter().find(|name| fields.raw(name).is_some_and(|raw| raw.get() == payload.get()))
}

/// Returns the name of a value.
pub(super) fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, named)| *named == value).map_or("", |(name, _)| name)
}

/// An optional text field of a message: its name and accessor.
type Text = (&'static str, fn(&mut Message) -> &mut Option<String>);

/// Optional text fields of a message.
pub(super) const OPTIONAL_TEXTS: [Text; 9] = [
    ("inReplyTo", |message| &mut message.in_reply_to),
    ("correlationId", |message| &mut message.correlation_id),
    ("causationId", |message| &mut message.causation_id),
    ("sessionId", |message| &mut message.session_id),
    ("budget", |message| &mut message.budget),
    ("traceparent", |message| &mut message.traceparent),
    ("origin", |message| &mut message.origin),
    ("rationale", |message| &mut message.rationale),
    ("contentType", |message| &mut message.content_type),
];

struct Differences(ObjectWriter);

impl Differences {
    fn add<T: PartialEq + Serialize + ?Sized>(&mut self, name: &str, value: &T, parsed: &T) {
        if value != parsed {
            self.put(name, value);
        }
    }

    fn put(&mut self, name: &str, value: impl Serialize) {
        self.0 = std::mem::take(&mut self.0).with(name, value);
    }
}

/// Applies native extras to a parsed message. Returns the native metadata if it was given as a whole.
pub(super) fn apply_extras(
    mut fields: FieldReader<'_>,
    envelope: &mut Envelope,
) -> Result<Option<Box<RawValue>>, FieldError> {
    let message = &mut envelope.message;
    if fields.has("from") {
        message.from = fields.agent("from")?;
    }
    if let Some(id) = fields.text("clientId")? {
        let id = ClientId::new(id)
            .map_err(|refused| FieldError::new(fields.path_of("clientId"), refused.detail))?;
        message.client_id = Some(id);
        envelope.id = None;
    }
    if let Some(to) = parse_destination(&mut fields, "to")? {
        message.to = to;
    }
    let is_reply = fields.has("inReplyTo");
    match fields.choice("type", &KINDS)? {
        Some(kind) => message.kind = kind,
        None if is_reply => message.kind = MessageType::Response,
        None => {}
    }
    if let Some(action) = fields.text("action")? {
        message.action = action;
    }
    if let Some(priority) = priority(&mut fields)? {
        message.priority = priority;
    }
    apply_common_fields(&mut fields, message)?;
    if let Some(payload) = fields.raw("payload") {
        envelope.payload = payload.to_owned();
    }
    if let Some(name) = fields.text("payloadIn")? {
        let inner = FieldReader::parse("", &envelope.payload)
            .ok()
            .and_then(|mut fields| fields.raw(&name).map(ToOwned::to_owned));
        let path = fields.path_of("payloadIn");
        envelope.payload =
            inner.ok_or_else(|| FieldError::new(path, format!("unknown payload field {name:?}")))?;
    }
    let metadata = fields.raw("metadata").map(ToOwned::to_owned);
    fields.finish("the object `quorate` is reserved for fields of the native message; use another name for your own fields")?;
    Ok(metadata)
}

/// Applies the fields that need no special rule.
pub(super) fn apply_common_fields(
    fields: &mut FieldReader<'_>,
    message: &mut Message,
) -> Result<(), FieldError> {
    if let Some(durability) = fields.choice("durability", &DURABILITIES)? {
        message.durability = durability;
    }
    if fields.has("expiresAt") {
        message.expires_at = fields.time("expiresAt")?.map(|(time, _)| time);
    }
    if fields.has("deliverAt") {
        message.deliver_at = fields.time("deliverAt")?.map(|(time, _)| time);
    }
    if let Some(attempts) = small_integer(fields, "maxAttempts")? {
        message.attempts_max = attempts;
    }
    if fields.has("replyTo") {
        message.reply_to = fields.agent("replyTo")?;
    }
    for (name, get) in OPTIONAL_TEXTS {
        if fields.has(name) {
            *get(message) = fields.text(name)?;
        }
    }
    if let Some(hops) = small_integer(fields, "hops")? {
        message.hops = hops;
    }
    if fields.has("maxHops") {
        message.max_hops = small_integer(fields, "maxHops")?;
    }
    if fields.has("confidence") {
        message.confidence = fields.confidence("confidence")?;
    }
    if let Some(choice) = fields.choice("ifUnavailable", &IF_UNAVAILABLE)? {
        message.if_unavailable = choice;
    }
    Ok(())
}

fn small_integer(fields: &mut FieldReader<'_>, name: &str) -> Result<Option<u16>, FieldError> {
    let path = fields.path_of(name);
    let number = fields.integer(name)?.map(u16::try_from).transpose();
    number.map_err(|_| FieldError::new(path, "the number is too large"))
}
