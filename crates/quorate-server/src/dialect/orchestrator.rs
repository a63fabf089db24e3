//! Handoffs, broadcasts and queries between workflow phases, and lines of the communication log.

use quorate_core::{AgentId, Destination, MessageType, Priority};
use serde_json::value::RawValue;

use super::beyond::word;
use super::deliberation::{HUB, texts_of};
use super::kept::Kept;
use super::letter::NOBODY;
use super::said::{Said, Wrong};
use super::shape::{Shape, raw_of};
use super::{Heard, Letter};

/// Recipient of a message to all agents.
const ALL_ACTIVE: &str = "all_active_agents";
const SEQUENTIAL: &str = "sequential";
const QUESTION: &str = "question";
const COMMUNICATION: &str = "agent_communication";
const BROADCASTS: [&str; 4] = ["context_update", "priority_change", "abort_signal", "checkpoint_reached"];
const PROTOCOLS: [(&str, ()); 3] = [("handoff", ()), ("broadcast", ()), ("query", ())];
const URGENCIES: [(&str, Priority); 3] =
    [("high", Priority::HIGH), ("medium", Priority::NORMAL), ("low", Priority::LOW)];
const ELSEWHERE: &str = "put additional fields into metadata or the content itself";

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
    fn usual_type(self) -> MessageType {
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
    fn of(fields: &Said<'_>) -> Result<Self, Wrong> {
        let has = |names: &[&str]| names.iter().any(|name| fields.has(name));
        match () {
            () if has(&["handoff_type", "from_agent", "to_agent", "context"]) => Ok(Self::Handoff),
            () if has(&["broadcast_type", "message"]) => Ok(Self::Broadcast),
            () if has(&["answer"]) => Ok(Self::Response),
            () if has(&["query", "query_type"]) => Ok(Self::Request),
            () if has(&["protocol"]) => Ok(Self::Communication),
            () => Err(Wrong::new(fields.path(), "not a handoff, broadcast, query, response or log line").hint(
                "set context for a handoff, message for a broadcast, query, answer for a response, or protocol for a log line",
            )),
        }
    }

    /// Returns the form for rendering a message: its original form, else the nearest one.
    fn for_rendering(envelope: &Letter, stored: &Kept) -> Self {
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

/// Returns the messages of a document. The protocol's examples put a message under `structure`, next to a `pattern`,
/// and the answer under `response`; both are unwrapped.
pub(super) fn unwrapped(path: &str, raw: &RawValue) -> Result<Vec<(String, Box<RawValue>)>, Wrong> {
    let mut fields = Said::read(path, raw)?;
    if !fields.has("structure") {
        return Ok(vec![(path.to_owned(), raw.to_owned())]);
    }
    let pattern = fields.text("pattern")?;
    let mut messages = Vec::new();
    for name in ["structure", "response"] {
        let inner_path = fields.at(name);
        let Some(inner) = fields.value(name) else { continue };
        let fields = Said::read(inner_path.as_str(), inner)?.rest();
        let pattern = pattern.as_ref().filter(|_| name == "structure");
        let message = Shape::default().maybe("pattern", pattern);
        let message = fields.into_iter().fold(message, |message, (name, value)| message.with(&name, value));
        messages.push((inner_path, message.to_raw()));
    }
    fields.end("an example consists of pattern, structure and response")?;
    Ok(messages)
}

pub(super) fn hear(mut fields: Said<'_>) -> Result<Heard<'_>, Wrong> {
    let form = Form::of(&fields)?;
    let mut own = Vec::new();
    let (from, to) = match form {
        Form::Handoff => ("from_agent", "to_agent"),
        _ => ("from", "to"),
    };
    let from = fields.agent(from)?;
    let to = parse_recipients(form, &mut fields, to)?;
    let action = parse_action(form, &mut fields, &mut own)?;
    let payload = match form {
        Form::Communication => log_fields(&mut fields)?,
        _ => {
            let raw = fields.raw(form.body()).ok_or_else(|| fields.missing(form.body()))?;
            raw.to_owned()
        }
    };
    let mut envelope = Letter::new(to, action, payload);
    envelope.message.from = from;
    envelope.message.kind = form.usual_type();
    envelope.message.priority = check_content(form, &fields.at(form.body()), &envelope.payload)?;
    let id = fields.text("id")?;
    envelope.take_id(fields.at("id"), id)?;
    if let Some((_, text)) = fields.time("timestamp")? {
        envelope.stamp = Some(raw_of(&text));
    }
    for name in ["pattern", "state_snapshot"] {
        if name == "pattern" || form == Form::Handoff {
            own.extend(fields.text(name)?.map(|text| (name.to_owned(), raw_of(&text))));
        }
    }
    let (metadata, metadata_path) = (fields.value("metadata"), fields.at("metadata"));
    fields.end(ELSEWHERE)?;
    if differs_in_type(metadata, form) {
        own.push(("form".to_owned(), raw_of(word(&FORMS, form))));
    }
    Ok(Heard { envelope, own, metadata, metadata_path })
}

/// Whether the message states another type than the default of its form. The form must then be stored.
fn differs_in_type(metadata: Option<&RawValue>, form: Form) -> bool {
    let kind = metadata.and_then(|metadata| {
        let mut fields = Said::read("", metadata).ok()?;
        let mut extras = fields.object(super::kept::BEYOND).ok()??;
        match extras.text("type").ok()? {
            None if extras.has("inReplyTo") => Some("response".to_owned()),
            fields => fields,
        }
    });
    kind.is_some_and(|kind| kind != form.usual_type().as_str())
}

/// Parses the recipients: a list for a broadcast, one text otherwise.
fn parse_recipients(form: Form, fields: &mut Said<'_>, name: &str) -> Result<Destination, Wrong> {
    let path = fields.at(name);
    let error = |refused: quorate_core::Refused| Wrong::new(&*path, refused.detail).hint(refused.hint);
    if form != Form::Broadcast {
        return fields.text(name)?.map_or(Ok(NOBODY), |text| text.parse().map_err(error));
    }
    let texts = fields.texts(name)?.unwrap_or_else(|| vec![ALL_ACTIVE.to_owned()]);
    match texts.as_slice() {
        [] => Err(Wrong::new(&*path, "the list of recipients is empty")),
        [all] if all == ALL_ACTIVE => Ok(Destination::Everybody),
        _ => Destination::of_texts(texts).map_err(error),
    }
}

/// Parses the native action, and dialect fields related to it.
fn parse_action(
    form: Form,
    fields: &mut Said<'_>,
    own: &mut Vec<(String, Box<RawValue>)>,
) -> Result<&'static str, Wrong> {
    match form {
        Form::Handoff => {
            let kind = fields.text("handoff_type")?.filter(|kind| kind != SEQUENTIAL);
            own.extend(kind.map(|kind| ("handoff_type".to_owned(), raw_of(&kind))));
            Ok("handoff")
        }
        Form::Broadcast => {
            let words = BROADCASTS.map(|word| (word, word));
            Ok(fields.word("broadcast_type", &words)?.unwrap_or(BROADCASTS[0]))
        }
        Form::Request => fields.word("query_type", &[("request", QUESTION)]).map(|_| QUESTION),
        Form::Response => fields.word("query_type", &[("response", "answer")]).map(|_| "answer"),
        Form::Communication => fields.word("type", &[(COMMUNICATION, COMMUNICATION)]).map(|_| COMMUNICATION),
    }
}

/// Content fields of a log line, in order.
const LOG_FIELDS: [&str; 4] = ["protocol", "tokensTransferred", "compressionRatio", "success"];

fn log_fields(fields: &mut Said<'_>) -> Result<Box<RawValue>, Wrong> {
    if !fields.has("protocol") {
        return Err(fields.missing("protocol"));
    }
    let fields = LOG_FIELDS.into_iter().map(|name| (name, fields.value(name)));
    Ok(fields.fold(Shape::default(), |shape, (name, value)| shape.maybe(name, value)).to_raw())
}

/// Validates the known fields of the content. Returns its urgency.
fn check_content(form: Form, path: &str, body: &RawValue) -> Result<Priority, Wrong> {
    if form == Form::Response {
        return Ok(Priority::NORMAL);
    }
    let mut fields = Said::read(path.trim_end_matches('.'), body)?;
    let urgency = match form {
        Form::Handoff => {
            for name in ["summary", "output_ref", "next_action"] {
                fields.text(name)?;
            }
            fields.whole("tokens_used")?;
            fields.texts("key_findings")?;
            None
        }
        Form::Broadcast => {
            fields.text("type")?;
            fields.yes("action_required")?;
            fields.word("priority", &URGENCIES)?
        }
        Form::Request => {
            fields.text("question")?.ok_or_else(|| fields.missing("question"))?;
            fields.word("urgency", &URGENCIES)?
        }
        Form::Communication => {
            fields.word("protocol", &PROTOCOLS)?.ok_or_else(|| fields.missing("protocol"))?;
            fields.whole("tokensTransferred")?;
            fields.number("compressionRatio")?;
            fields.yes("success")?;
            fields.end(ELSEWHERE)?;
            None
        }
        Form::Response => None,
    };
    Ok(urgency.unwrap_or(Priority::NORMAL))
}

pub(super) fn tell(envelope: &Letter, stored: &Kept, metadata: Option<&RawValue>) -> Shape {
    let form = Form::for_rendering(envelope, stored);
    let message = &envelope.message;
    let from = message.from.as_ref().map_or(HUB, AgentId::as_str);
    let shape = Shape::default().maybe("pattern", stored.own_text("pattern"));
    let shape = match form {
        Form::Handoff => shape
            .with("from_agent", from)
            .maybe("to_agent", single_text(&message.to))
            .with("handoff_type", stored.own_text("handoff_type").unwrap_or_else(|| SEQUENTIAL.to_owned())),
        Form::Broadcast => {
            let to = match &message.to {
                Destination::Everybody => vec![ALL_ACTIVE.to_owned()],
                to => texts_of(to),
            };
            let known = BROADCASTS.into_iter().find(|word| *word == message.action);
            shape.with("from", from).with("to", to).with("broadcast_type", known.unwrap_or(BROADCASTS[0]))
        }
        Form::Request | Form::Response => shape
            .with("from", from)
            .maybe("to", single_text(&message.to))
            .with("query_type", word(&FORMS, form)),
        Form::Communication => {
            let shape = shape.maybe("timestamp", envelope.stamp.as_ref()).with("type", COMMUNICATION);
            shape.with("from", from).maybe("to", single_text(&message.to))
        }
    };
    let shape = match form {
        Form::Communication => with_log_fields(shape, &envelope.payload),
        _ => shape.with(form.body(), body(form, envelope)).maybe("timestamp", envelope.stamp.as_ref()),
    };
    let snapshot = stored.own_text("state_snapshot").filter(|_| form == Form::Handoff);
    shape.maybe("state_snapshot", snapshot).maybe("id", envelope.known_as()).maybe("metadata", metadata)
}

/// Renders a destination as one text. Only a broadcast can represent a list; the exact list is in the metadata.
fn single_text(to: &Destination) -> Option<String> {
    (*to != NOBODY).then(|| to.to_string())
}

fn with_log_fields(shape: Shape, payload: &RawValue) -> Shape {
    let Ok(mut fields) = Said::read("", payload) else { return shape };
    LOG_FIELDS.into_iter().fold(shape, |shape, name| shape.maybe(name, fields.value(name)))
}

/// Returns the payload if it is valid for the form, else wraps it.
fn body(form: Form, envelope: &Letter) -> Box<RawValue> {
    if check_content(form, "", &envelope.payload).is_ok() {
        return envelope.payload.clone();
    }
    let message = &envelope.message;
    let urgency = match message.priority.level {
        0 => "low",
        1 => "medium",
        _ => "high",
    };
    let shape = match form {
        Form::Broadcast => Shape::default()
            .with("type", &message.action)
            .with("content", &envelope.payload)
            .with("priority", urgency)
            .with("action_required", false),
        // A text is the question; otherwise the action is the question.
        Form::Request if envelope.payload.get().starts_with('"') => {
            Shape::default().with("question", &envelope.payload).with("urgency", urgency)
        }
        Form::Request => Shape::default()
            .with("question", &message.action)
            .with("data", &envelope.payload)
            .with("urgency", urgency),
        _ => Shape::default().with("summary", &message.action).with("data", &envelope.payload),
    };
    shape.to_raw()
}
