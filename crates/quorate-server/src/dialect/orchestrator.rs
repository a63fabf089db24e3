//! Handoffs, broadcasts and queries between workflow phases, and lines of the communication log.

use quorate_core::{AgentId, Destination, MessageType, Priority};
use serde_json::value::RawValue;

use super::deliberation::{HUB_SENDER, recipient_list};
use super::envelope::NO_RECIPIENT;
use super::field_reader::{FieldError, FieldReader};
use super::metadata::DialectMetadata;
use super::native_extras::name_of;
use super::writer::{ObjectWriter, to_raw_json};
use super::{Envelope, ParsedMessage};

/// Recipient of a message to all agents.
const ALL_ACTIVE: &str = "all_active_agents";
const SEQUENTIAL: &str = "sequential";
const QUESTION: &str = "question";
const COMMUNICATION: &str = "agent_communication";
const BROADCASTS: [&str; 4] = ["context_update", "priority_change", "abort_signal", "checkpoint_reached"];
const PROTOCOLS: [(&str, ()); 3] = [("handoff", ()), ("broadcast", ()), ("query", ())];
const URGENCIES: [(&str, Priority); 3] =
    [("high", Priority::HIGH), ("medium", Priority::NORMAL), ("low", Priority::LOW)];
const UNKNOWN_FIELD_HINT: &str = "put additional fields into metadata or the content itself";

/// Form of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Handoff,
    Broadcast,
    Request,
    Response,
    Communication,
}

/// Forms by stored name.
const FORMS: [(&str, Form); 5] = [
    ("handoff", Form::Handoff),
    ("broadcast", Form::Broadcast),
    ("request", Form::Request),
    ("response", Form::Response),
    (COMMUNICATION, Form::Communication),
];

impl Form {
    fn default_type(self) -> MessageType {
        match self {
            Self::Handoff => MessageType::Command,
            Self::Broadcast | Self::Communication => MessageType::Event,
            Self::Request => MessageType::Query,
            Self::Response => MessageType::Response,
        }
    }

    /// Returns the field with the content of the message.
    fn body(self) -> &'static str {
        match self {
            Self::Handoff => "context",
            Self::Broadcast => "message",
            Self::Request => "query",
            Self::Response => "answer",
            Self::Communication => "",
        }
    }

    /// Determines the form by its distinctive fields.
    fn of(fields: &FieldReader<'_>) -> Result<Self, FieldError> {
        let has = |names: &[&str]| names.iter().any(|name| fields.has(name));
        match () {
            () if has(&["handoff_type", "from_agent", "to_agent", "context"]) => Ok(Self::Handoff),
            () if has(&["broadcast_type", "message"]) => Ok(Self::Broadcast),
            () if has(&["answer"]) => Ok(Self::Response),
            () if has(&["query", "query_type"]) => Ok(Self::Request),
            () if has(&["protocol"]) => Ok(Self::Communication),
            () => Err(FieldError::new(fields.path(), "not a handoff, broadcast, query, response or log line").hint(
                "set context for a handoff, message for a broadcast, query, answer for a response, or protocol for a log line",
            )),
        }
    }

    /// Returns the form for rendering a message: its original form, else the nearest one.
    fn for_rendering(envelope: &Envelope, stored: &DialectMetadata) -> Self {
        let stored =
            stored.own_text("form").and_then(|name| FORMS.into_iter().find(|(known, _)| *known == name));
        if let Some((_, form)) = stored
            && (form != Self::Communication || check_content(form, "", &envelope.payload).is_ok())
        {
            return form;
        }
        match envelope.message.kind {
            MessageType::Command => Self::Handoff,
            MessageType::Query => Self::Request,
            MessageType::Response => Self::Response,
            MessageType::Event if envelope.message.action == COMMUNICATION => {
                let is_valid = check_content(Self::Communication, "", &envelope.payload).is_ok();
                if is_valid { Self::Communication } else { Self::Broadcast }
            }
            MessageType::Event => Self::Broadcast,
        }
    }
}

/// Parts of a document of the protocol's examples: a message under `structure`, its answer under `response`.
const EXAMPLE_PARTS: [&str; 2] = ["structure", "response"];

/// Returns the messages of a document. The protocol's examples put a message under `structure`, next to a `pattern`,
/// and the answer under `response`; both are unwrapped.
pub(super) fn unwrap_examples(
    path: &str,
    raw: &RawValue,
) -> Result<Vec<(String, Box<RawValue>)>, FieldError> {
    let mut fields = FieldReader::parse(path, raw)?;
    if !EXAMPLE_PARTS.iter().any(|name| fields.has(name)) {
        return Ok(vec![(path.to_owned(), raw.to_owned())]);
    }
    let pattern = fields.text("pattern")?;
    let mut messages = Vec::new();
    for name in EXAMPLE_PARTS {
        let inner_path = fields.path_of(name);
        let Some(inner) = fields.value(name) else { continue };
        let fields = FieldReader::parse(inner_path.as_str(), inner)?.remaining();
        let pattern = pattern.as_ref().filter(|_| name == "structure");
        let message = ObjectWriter::default().with_optional("pattern", pattern);
        let message = fields.into_iter().fold(message, |message, (name, value)| message.with(&name, value));
        messages.push((inner_path, message.to_raw()));
    }
    fields.finish("an example consists of pattern, structure and response")?;
    Ok(messages)
}

pub(super) fn parse(mut fields: FieldReader<'_>) -> Result<ParsedMessage<'_>, FieldError> {
    let form = Form::of(&fields)?;
    let mut dialect_fields = Vec::new();
    let (from, to) = match form {
        Form::Handoff => ("from_agent", "to_agent"),
        _ => ("from", "to"),
    };
    let from = fields.agent(from)?;
    let to = parse_recipients(form, &mut fields, to)?;
    let action = parse_action(form, &mut fields, &mut dialect_fields)?;
    let payload = match form {
        Form::Communication => log_fields(&mut fields)?,
        _ => {
            let raw = fields.raw(form.body()).ok_or_else(|| fields.missing(form.body()))?;
            raw.to_owned()
        }
    };
    let mut envelope = Envelope::new(to, action, payload);
    envelope.message.from = from;
    envelope.message.kind = form.default_type();
    envelope.message.priority = check_content(form, &fields.path_of(form.body()), &envelope.payload)?;
    let id = fields.text("id")?;
    envelope.set_id(fields.path_of("id"), id)?;
    if let Some((_, text)) = fields.time("timestamp")? {
        envelope.timestamp = Some(to_raw_json(&text));
    }
    for name in ["pattern", "state_snapshot"] {
        if name == "pattern" || form == Form::Handoff {
            dialect_fields.extend(fields.text(name)?.map(|text| (name.to_owned(), to_raw_json(&text))));
        }
    }
    let (metadata, metadata_path) = (fields.value("metadata"), fields.path_of("metadata"));
    fields.finish(UNKNOWN_FIELD_HINT)?;
    if differs_in_type(metadata, form) {
        dialect_fields.push(("form".to_owned(), to_raw_json(name_of(&FORMS, form))));
    }
    Ok(ParsedMessage { envelope, dialect_fields, metadata, metadata_path })
}

/// Whether the message states another type than the default of its form. The form must then be stored.
fn differs_in_type(metadata: Option<&RawValue>, form: Form) -> bool {
    let kind = metadata.and_then(|metadata| {
        let mut fields = FieldReader::parse("", metadata).ok()?;
        let mut extras = fields.object(super::metadata::NATIVE_EXTRAS).ok()??;
        match extras.text("type").ok()? {
            None if extras.has("inReplyTo") => Some("response".to_owned()),
            stated => stated,
        }
    });
    kind.is_some_and(|kind| kind != form.default_type().as_str())
}

/// Parses the recipients: a list for a broadcast, one text otherwise.
fn parse_recipients(form: Form, fields: &mut FieldReader<'_>, name: &str) -> Result<Destination, FieldError> {
    let path = fields.path_of(name);
    let error = |refused: quorate_core::Refused| FieldError::new(&*path, refused.detail).hint(refused.hint);
    if form != Form::Broadcast {
        return fields.text(name)?.map_or(Ok(NO_RECIPIENT), |text| text.parse().map_err(error));
    }
    let texts = fields.text_list(name)?.unwrap_or_else(|| vec![ALL_ACTIVE.to_owned()]);
    match texts.as_slice() {
        [] => Err(FieldError::new(&*path, "the list of recipients is empty")),
        [all] if all == ALL_ACTIVE => Ok(Destination::Broadcast),
        _ => Destination::from_texts(texts).map_err(error),
    }
}

/// Parses the native action, and dialect fields related to it.
fn parse_action(
    form: Form,
    fields: &mut FieldReader<'_>,
    dialect_fields: &mut Vec<(String, Box<RawValue>)>,
) -> Result<&'static str, FieldError> {
    match form {
        Form::Handoff => {
            let kind = fields.text("handoff_type")?.filter(|kind| kind != SEQUENTIAL);
            dialect_fields.extend(kind.map(|kind| ("handoff_type".to_owned(), to_raw_json(&kind))));
            Ok("handoff")
        }
        Form::Broadcast => {
            let choices = BROADCASTS.map(|name| (name, name));
            Ok(fields.choice("broadcast_type", &choices)?.unwrap_or(BROADCASTS[0]))
        }
        Form::Request => fields.choice("query_type", &[("request", QUESTION)]).map(|_| QUESTION),
        Form::Response => fields.choice("query_type", &[("response", "answer")]).map(|_| "answer"),
        Form::Communication => {
            fields.choice("type", &[(COMMUNICATION, COMMUNICATION)]).map(|_| COMMUNICATION)
        }
    }
}

/// Content fields of a log line, in order.
const LOG_FIELDS: [&str; 4] = ["protocol", "tokensTransferred", "compressionRatio", "success"];

fn log_fields(fields: &mut FieldReader<'_>) -> Result<Box<RawValue>, FieldError> {
    if !fields.has("protocol") {
        return Err(fields.missing("protocol"));
    }
    let fields = LOG_FIELDS.into_iter().map(|name| (name, fields.value(name)));
    Ok(fields
        .fold(ObjectWriter::default(), |object, (name, value)| object.with_optional(name, value))
        .to_raw())
}

/// Validates the known fields of the content. Returns its urgency.
fn check_content(form: Form, path: &str, body: &RawValue) -> Result<Priority, FieldError> {
    if form == Form::Response {
        return Ok(Priority::NORMAL);
    }
    let mut fields = FieldReader::parse(path.trim_end_matches('.'), body)?;
    let urgency = match form {
        Form::Handoff => {
            for name in ["summary", "output_ref", "next_action"] {
                fields.text(name)?;
            }
            fields.integer("tokens_used")?;
            fields.text_list("key_findings")?;
            None
        }
        Form::Broadcast => {
            fields.text("type")?;
            fields.boolean("action_required")?;
            fields.choice("priority", &URGENCIES)?
        }
        Form::Request => {
            fields.text("question")?.ok_or_else(|| fields.missing("question"))?;
            fields.choice("urgency", &URGENCIES)?
        }
        Form::Communication => {
            fields.choice("protocol", &PROTOCOLS)?.ok_or_else(|| fields.missing("protocol"))?;
            fields.integer("tokensTransferred")?;
            fields.number("compressionRatio")?;
            fields.boolean("success")?;
            fields.finish(UNKNOWN_FIELD_HINT)?;
            None
        }
        Form::Response => None,
    };
    Ok(urgency.unwrap_or(Priority::NORMAL))
}

pub(super) fn render(
    envelope: &Envelope,
    stored: &DialectMetadata,
    metadata: Option<&RawValue>,
) -> ObjectWriter {
    let form = Form::for_rendering(envelope, stored);
    let message = &envelope.message;
    let from = message.from.as_ref().map_or(HUB_SENDER, AgentId::as_str);
    let object = ObjectWriter::default().with_optional("pattern", stored.own_text("pattern"));
    let object = match form {
        Form::Handoff => object
            .with("from_agent", from)
            .with_optional("to_agent", single_text(&message.to))
            .with("handoff_type", stored.own_text("handoff_type").unwrap_or_else(|| SEQUENTIAL.to_owned())),
        Form::Broadcast => {
            let to = match &message.to {
                Destination::Broadcast => vec![ALL_ACTIVE.to_owned()],
                to => recipient_list(to),
            };
            let broadcast_type = BROADCASTS.into_iter().find(|name| *name == message.action);
            object
                .with("from", from)
                .with("to", to)
                .with("broadcast_type", broadcast_type.unwrap_or(BROADCASTS[0]))
        }
        Form::Request | Form::Response => object
            .with("from", from)
            .with_optional("to", single_text(&message.to))
            .with("query_type", name_of(&FORMS, form)),
        Form::Communication => {
            let object =
                object.with_optional("timestamp", envelope.timestamp.as_ref()).with("type", COMMUNICATION);
            object.with("from", from).with_optional("to", single_text(&message.to))
        }
    };
    let object = match form {
        Form::Communication => with_log_fields(object, &envelope.payload),
        _ => object
            .with(form.body(), body(form, envelope))
            .with_optional("timestamp", envelope.timestamp.as_ref()),
    };
    let snapshot = stored.own_text("state_snapshot").filter(|_| form == Form::Handoff);
    object
        .with_optional("state_snapshot", snapshot)
        .with_optional("id", envelope.public_id())
        .with_optional("metadata", metadata)
}

/// Renders a destination as one text. Only a broadcast can represent a list; the exact list is in the metadata.
fn single_text(to: &Destination) -> Option<String> {
    (*to != NO_RECIPIENT).then(|| to.to_string())
}

fn with_log_fields(object: ObjectWriter, payload: &RawValue) -> ObjectWriter {
    let Ok(mut fields) = FieldReader::parse("", payload) else { return object };
    LOG_FIELDS.into_iter().fold(object, |object, name| object.with_optional(name, fields.value(name)))
}

/// Returns the payload if it is valid for the form, else wraps it.
fn body(form: Form, envelope: &Envelope) -> Box<RawValue> {
    if check_content(form, "", &envelope.payload).is_ok() {
        return envelope.payload.clone();
    }
    let message = &envelope.message;
    let urgency = match message.priority.level {
        0 => "low",
        1 => "medium",
        _ => "high",
    };
    let object = match form {
        Form::Broadcast => ObjectWriter::default()
            .with("type", &message.action)
            .with("content", &envelope.payload)
            .with("priority", urgency)
            .with("action_required", false),
        // A text is the question; otherwise the action is the question.
        Form::Request if envelope.payload.get().starts_with('"') => {
            ObjectWriter::default().with("question", &envelope.payload).with("urgency", urgency)
        }
        Form::Request => ObjectWriter::default()
            .with("question", &message.action)
            .with("data", &envelope.payload)
            .with("urgency", urgency),
        _ => ObjectWriter::default().with("summary", &message.action).with("data", &envelope.payload),
    };
    object.to_raw()
}
