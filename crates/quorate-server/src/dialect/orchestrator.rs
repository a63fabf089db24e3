//! Phases of a workflow that hand over, broadcast and query, and the line that their log has for each of that.

use quorate_core::{AgentId, Destination, MessageType, Priority};
use serde_json::value::RawValue;

use super::beyond::word;
use super::deliberation::{HUB, texts_of};
use super::kept::Kept;
use super::letter::NOBODY;
use super::said::{Said, Wrong};
use super::shape::{Shape, raw_of};
use super::{Heard, Letter};

/// All that is active.
const ALL_ACTIVE: &str = "all_active_agents";
const SEQUENTIAL: &str = "sequential";
const QUESTION: &str = "question";
const COMMUNICATION: &str = "agent_communication";
const BROADCASTS: [&str; 4] = ["context_update", "priority_change", "abort_signal", "checkpoint_reached"];
const PROTOCOLS: [(&str, ()); 3] = [("handoff", ()), ("broadcast", ()), ("query", ())];
const URGENCIES: [(&str, Priority); 3] =
    [("high", Priority::HIGH), ("medium", Priority::NORMAL), ("low", Priority::LOW)];
const ELSEWHERE: &str = "put what the dialect has no field for into metadata, or into the content itself";

/// Which of the dialect's shapes a message has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Handoff,
    Broadcast,
    Request,
    Response,
    Communication,
}

/// The shapes, by the names under which they are remembered.
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

    /// The field that holds what the message is about.
    fn body(self) -> &'static str {
        match self {
            Self::Handoff => "context",
            Self::Broadcast => "message",
            Self::Request => "query",
            Self::Response => "answer",
            Self::Communication => "",
        }
    }

    /// The shape of what somebody said, by the fields that only this one has.
    fn of(said: &Said<'_>) -> Result<Self, Wrong> {
        let has = |names: &[&str]| names.iter().any(|name| said.has(name));
        match () {
            () if has(&["handoff_type", "from_agent", "to_agent", "context"]) => Ok(Self::Handoff),
            () if has(&["broadcast_type", "message"]) => Ok(Self::Broadcast),
            () if has(&["answer"]) => Ok(Self::Response),
            () if has(&["query", "query_type"]) => Ok(Self::Request),
            () if has(&["protocol"]) => Ok(Self::Communication),
            () => Err(Wrong::new(said.path(), "is no handoff, broadcast, query, response or log line").hint(
                "a handoff has a context, a broadcast a message, a query a query, a response an answer, a log line a protocol",
            )),
        }
    }

    /// The shape in which a message is told: the one that it came in, else the nearest.
    fn for_telling(letter: &Letter, kept: &Kept) -> Self {
        let kept = kept.own_text("form").and_then(|name| FORMS.into_iter().find(|(known, _)| *known == name));
        if let Some((_, form)) = kept
            && (form != Self::Communication || checked(form, "", &letter.payload).is_ok())
        {
            return form;
        }
        match letter.message.kind {
            MessageType::Command => Self::Handoff,
            MessageType::Query => Self::Request,
            MessageType::Response => Self::Response,
            MessageType::Event if letter.message.action == COMMUNICATION => {
                let fits = checked(Self::Communication, "", &letter.payload).is_ok();
                if fits { Self::Communication } else { Self::Broadcast }
            }
            MessageType::Event => Self::Broadcast,
        }
    }
}

/// The messages of a document. The protocol's own examples put a message under `structure`, with a `pattern` beside it
/// and the answer under `response`; they are taken as what they stand for.
pub(super) fn unwrapped(path: &str, raw: &RawValue) -> Result<Vec<(String, Box<RawValue>)>, Wrong> {
    let mut said = Said::read(path, raw)?;
    if !said.has("structure") {
        return Ok(vec![(path.to_owned(), raw.to_owned())]);
    }
    let pattern = said.text("pattern")?;
    let mut messages = Vec::new();
    for name in ["structure", "response"] {
        let place = said.at(name);
        let Some(inner) = said.value(name) else { continue };
        let fields = Said::read(place.as_str(), inner)?.rest();
        let pattern = pattern.as_ref().filter(|_| name == "structure");
        let whole = Shape::default().maybe("pattern", pattern);
        let whole = fields.into_iter().fold(whole, |whole, (name, value)| whole.with(&name, value));
        messages.push((place, whole.to_raw()));
    }
    said.end("an example has pattern, structure and response")?;
    Ok(messages)
}

pub(super) fn hear(mut said: Said<'_>) -> Result<Heard<'_>, Wrong> {
    let form = Form::of(&said)?;
    let mut own = Vec::new();
    let (from, to) = match form {
        Form::Handoff => ("from_agent", "to_agent"),
        _ => ("from", "to"),
    };
    let from = said.agent(from)?;
    let to = heard_to(form, &mut said, to)?;
    let action = heard_action(form, &mut said, &mut own)?;
    let payload = match form {
        Form::Communication => log_fields(&mut said)?,
        _ => {
            let raw = said.raw(form.body()).ok_or_else(|| said.missing(form.body()))?;
            raw.to_owned()
        }
    };
    let mut letter = Letter::new(to, action, payload);
    letter.message.from = from;
    letter.message.kind = form.usual_type();
    letter.message.priority = checked(form, &said.at(form.body()), &letter.payload)?;
    let id = said.text("id")?;
    letter.take_id(said.at("id"), id)?;
    if let Some((_, text)) = said.time("timestamp")? {
        letter.stamp = Some(raw_of(&text));
    }
    for name in ["pattern", "state_snapshot"] {
        if name == "pattern" || form == Form::Handoff {
            own.extend(said.text(name)?.map(|text| (name.to_owned(), raw_of(&text))));
        }
    }
    let (metadata, metadata_path) = (said.value("metadata"), said.at("metadata"));
    said.end(ELSEWHERE)?;
    if differs_in_type(metadata, form) {
        own.push(("form".to_owned(), raw_of(word(&FORMS, form))));
    }
    Ok(Heard { letter, own, metadata, metadata_path })
}

/// Whether the message says of itself that it is of another type than messages of this shape are: then the shape has to
/// be remembered.
fn differs_in_type(metadata: Option<&RawValue>, form: Form) -> bool {
    let kind = metadata.and_then(|metadata| {
        let mut said = Said::read("", metadata).ok()?;
        let mut beyond = said.object(super::kept::BEYOND).ok()??;
        match beyond.text("type").ok()? {
            None if beyond.has("inReplyTo") => Some("response".to_owned()),
            said => said,
        }
    });
    kind.is_some_and(|kind| kind != form.usual_type().as_str())
}

/// Whom a message is for. A broadcast has a list, the others one text.
fn heard_to(form: Form, said: &mut Said<'_>, name: &str) -> Result<Destination, Wrong> {
    let path = said.at(name);
    let wrong = |refused: quorate_core::Refused| Wrong::new(&*path, refused.detail).hint(refused.hint);
    if form != Form::Broadcast {
        return said.text(name)?.map_or(Ok(NOBODY), |text| text.parse().map_err(wrong));
    }
    let texts = said.texts(name)?.unwrap_or_else(|| vec![ALL_ACTIVE.to_owned()]);
    match texts.as_slice() {
        [] => Err(Wrong::new(&*path, "names nobody")),
        [all] if all == ALL_ACTIVE => Ok(Destination::Everybody),
        _ => Destination::of_texts(texts).map_err(wrong),
    }
}

/// What the native message calls it, and what else is said about that.
fn heard_action(
    form: Form,
    said: &mut Said<'_>,
    own: &mut Vec<(String, Box<RawValue>)>,
) -> Result<&'static str, Wrong> {
    match form {
        Form::Handoff => {
            let kind = said.text("handoff_type")?.filter(|kind| kind != SEQUENTIAL);
            own.extend(kind.map(|kind| ("handoff_type".to_owned(), raw_of(&kind))));
            Ok("handoff")
        }
        Form::Broadcast => {
            let words = BROADCASTS.map(|word| (word, word));
            Ok(said.word("broadcast_type", &words)?.unwrap_or(BROADCASTS[0]))
        }
        Form::Request => said.word("query_type", &[("request", QUESTION)]).map(|_| QUESTION),
        Form::Response => said.word("query_type", &[("response", "answer")]).map(|_| "answer"),
        Form::Communication => said.word("type", &[(COMMUNICATION, COMMUNICATION)]).map(|_| COMMUNICATION),
    }
}

/// The fields of a log line that are about what was said, in its order.
const LOG_FIELDS: [&str; 4] = ["protocol", "tokensTransferred", "compressionRatio", "success"];

fn log_fields(said: &mut Said<'_>) -> Result<Box<RawValue>, Wrong> {
    if !said.has("protocol") {
        return Err(said.missing("protocol"));
    }
    let fields = LOG_FIELDS.into_iter().map(|name| (name, said.value(name)));
    Ok(fields.fold(Shape::default(), |shape, (name, value)| shape.maybe(name, value)).to_raw())
}

/// Checks what is known of a body; gives back how urgent it says that it is.
fn checked(form: Form, path: &str, body: &RawValue) -> Result<Priority, Wrong> {
    if form == Form::Response {
        return Ok(Priority::NORMAL);
    }
    let mut said = Said::read(path.trim_end_matches('.'), body)?;
    let urgency = match form {
        Form::Handoff => {
            for name in ["summary", "output_ref", "next_action"] {
                said.text(name)?;
            }
            said.whole("tokens_used")?;
            said.texts("key_findings")?;
            None
        }
        Form::Broadcast => {
            said.text("type")?;
            said.yes("action_required")?;
            said.word("priority", &URGENCIES)?
        }
        Form::Request => {
            said.text("question")?.ok_or_else(|| said.missing("question"))?;
            said.word("urgency", &URGENCIES)?
        }
        Form::Communication => {
            said.word("protocol", &PROTOCOLS)?.ok_or_else(|| said.missing("protocol"))?;
            said.whole("tokensTransferred")?;
            said.number("compressionRatio")?;
            said.yes("success")?;
            said.end(ELSEWHERE)?;
            None
        }
        Form::Response => None,
    };
    Ok(urgency.unwrap_or(Priority::NORMAL))
}

pub(super) fn tell(letter: &Letter, kept: &Kept, metadata: Option<&RawValue>) -> Shape {
    let form = Form::for_telling(letter, kept);
    let message = &letter.message;
    let from = message.from.as_ref().map_or(HUB, AgentId::as_str);
    let shape = Shape::default().maybe("pattern", kept.own_text("pattern"));
    let shape = match form {
        Form::Handoff => shape
            .with("from_agent", from)
            .maybe("to_agent", one_text(&message.to))
            .with("handoff_type", kept.own_text("handoff_type").unwrap_or_else(|| SEQUENTIAL.to_owned())),
        Form::Broadcast => {
            let to = match &message.to {
                Destination::Everybody => vec![ALL_ACTIVE.to_owned()],
                to => texts_of(to),
            };
            let known = BROADCASTS.into_iter().find(|word| *word == message.action);
            shape.with("from", from).with("to", to).with("broadcast_type", known.unwrap_or(BROADCASTS[0]))
        }
        Form::Request | Form::Response => {
            shape.with("from", from).maybe("to", one_text(&message.to)).with("query_type", word(&FORMS, form))
        }
        Form::Communication => {
            let shape = shape.maybe("timestamp", letter.stamp.as_ref()).with("type", COMMUNICATION);
            shape.with("from", from).maybe("to", one_text(&message.to))
        }
    };
    let shape = match form {
        Form::Communication => with_log_fields(shape, &letter.payload),
        _ => shape.with(form.body(), body(form, letter)).maybe("timestamp", letter.stamp.as_ref()),
    };
    let snapshot = kept.own_text("state_snapshot").filter(|_| form == Form::Handoff);
    shape.maybe("state_snapshot", snapshot).maybe("id", letter.known_as()).maybe("metadata", metadata)
}

/// A list, which only a broadcast can say, is written for people; what it is stands in the metadata.
fn one_text(to: &Destination) -> Option<String> {
    (*to != NOBODY).then(|| to.to_string())
}

fn with_log_fields(shape: Shape, payload: &RawValue) -> Shape {
    let Ok(mut said) = Said::read("", payload) else { return shape };
    LOG_FIELDS.into_iter().fold(shape, |shape, name| shape.maybe(name, said.value(name)))
}

/// The payload if it is what the shape expects, else something that is, with the payload inside.
fn body(form: Form, letter: &Letter) -> Box<RawValue> {
    if checked(form, "", &letter.payload).is_ok() {
        return letter.payload.clone();
    }
    let message = &letter.message;
    let urgency = match message.priority.level {
        0 => "low",
        1 => "medium",
        _ => "high",
    };
    let shape = match form {
        Form::Broadcast => Shape::default()
            .with("type", &message.action)
            .with("content", &letter.payload)
            .with("priority", urgency)
            .with("action_required", false),
        // A text is a question; of anything else the action says what is asked.
        Form::Request if letter.payload.get().starts_with('"') => {
            Shape::default().with("question", &letter.payload).with("urgency", urgency)
        }
        Form::Request => Shape::default()
            .with("question", &message.action)
            .with("data", &letter.payload)
            .with("urgency", urgency),
        _ => Shape::default().with("summary", &message.action).with("data", &letter.payload),
    };
    shape.to_raw()
}
