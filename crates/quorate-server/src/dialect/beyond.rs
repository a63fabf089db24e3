//! What the native message says and a dialect has no field for: `metadata.quorate` of a dialect's message, with the names
//! of the native message.

use quorate_core::{
    AgentId, ClientId, Destination, Durability, IfUnavailable, Message, MessageType, Priority, Timestamp,
};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::Letter;
use super::said::{Said, Wrong};
use super::shape::{Shape, raw_of};
use crate::wire::time;

/// The fields of the payload in which a payload of another shape may stand.
const INNER: [&str; 3] = ["data", "content", "question"];

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

/// A destination as it is read: a text, or a list of texts.
pub(super) struct To<'a>(pub(super) &'a Destination);

impl Serialize for To<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Destination::Agents(agents) => serializer.collect_seq(agents.iter().map(AgentId::as_str)),
            one => serializer.collect_str(one),
        }
    }
}

/// Reads a destination that is a text or a list.
pub(super) fn destination(said: &mut Said<'_>, name: &str) -> Result<Option<Destination>, Wrong> {
    let path = said.at(name);
    let Some(raw) = said.value(name) else { return Ok(None) };
    let wrong = |refused: quorate_core::Refused| Wrong::new(&path, refused.detail).hint(refused.hint);
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        return text.parse().map(Some).map_err(wrong);
    }
    let Ok(texts) = serde_json::from_str::<Vec<String>>(raw.get()) else {
        return Err(Wrong::new(path, "is neither a text nor a list of texts"));
    };
    if texts.is_empty() {
        return Err(
            Wrong::new(path, "names nobody").hint("leave it out for whoever the message is usually for")
        );
    }
    // A list of one stays a list, so that it is written as one.
    match Destination::of_texts(texts).map_err(wrong)? {
        Destination::Agent(one) => Ok(Some(Destination::Agents(vec![one]))),
        other => Ok(Some(other)),
    }
}

/// A priority that no dialect but the native one may have a word for.
fn priority_said(priority: Priority) -> Box<RawValue> {
    let Priority { level, rank } = priority;
    match rank {
        0 => raw_of(priority.as_str()),
        _ if Priority::from_ten(rank) == Ok(priority) => raw_of(&rank),
        _ => Shape::default().with("level", level).with("rank", rank).to_raw(),
    }
}

fn priority(said: &mut Said<'_>) -> Result<Option<Priority>, Wrong> {
    const NAME: &str = "priority";
    let path = said.at(NAME);
    let Some(raw) = said.value(NAME) else { return Ok(None) };
    let priority = match raw.get().as_bytes().first() {
        Some(b'"') => {
            let word: String = serde_json::from_str(raw.get()).unwrap_or_default();
            PRIORITIES.iter().find(|(known, _)| *known == word).map(|(_, priority)| *priority)
        }
        Some(b'{') => {
            let mut said = Said::read(&*path, raw)?;
            let parts = (said.whole("level")?, said.whole("rank")?);
            said.end("a priority is level and rank")?;
            match parts {
                (Some(level @ 0..=3), Some(rank @ 0..=255)) => {
                    Some(Priority { level: level as u8, rank: rank as u8 })
                }
                _ => None,
            }
        }
        _ => raw.get().parse().ok().and_then(|ten| Priority::from_ten(ten).ok()),
    };
    let wrong =
        || Wrong::new(path, format!("{} is no priority", raw.get())).hint("say low to urgent, or 1 to 10");
    priority.map(Some).ok_or_else(wrong)
}

/// What is to be added to what a dialect said, so that it says the whole message.
pub(super) fn between(letter: &Letter, plain: &Letter) -> Shape {
    let (message, heard) = (&letter.message, &plain.message);
    let mut differs = Differences(Shape::default());
    let text = |id: &Option<AgentId>| id.as_ref().map(ToString::to_string);
    let client_id = |message: &Message| message.client_id.as_ref().map(ClientId::to_string);
    let time = |time: Option<Timestamp>| time.map(time::shown);
    differs.add("from", &text(&message.from), &text(&heard.from));
    differs.add("clientId", &client_id(message), &client_id(heard));
    if message.to != heard.to {
        differs.say("to", To(&message.to));
    }
    // Whoever says what it answers is taken to answer; so the type is said with it.
    if message.kind != heard.kind || message.in_reply_to != heard.in_reply_to {
        differs.say("type", message.kind.as_str());
    }
    differs.add("action", &message.action, &heard.action);
    if message.priority != heard.priority {
        differs.say("priority", priority_said(message.priority));
    }
    differs.add(
        "durability",
        &word(&DURABILITIES, message.durability),
        &word(&DURABILITIES, heard.durability),
    );
    differs.add("expiresAt", &time(message.expires_at), &time(heard.expires_at));
    differs.add("deliverAt", &time(message.deliver_at), &time(heard.deliver_at));
    differs.add("maxAttempts", &message.attempts_max, &heard.attempts_max);
    differs.add("replyTo", &text(&message.reply_to), &text(&heard.reply_to));
    let (mut one, mut other) = (message.clone(), heard.clone());
    for (name, get) in TEXTS {
        differs.add(name, get(&mut one), get(&mut other));
    }
    differs.add("hops", &message.hops, &heard.hops);
    differs.add("confidence", &message.confidence, &heard.confidence);
    differs.add("ifUnavailable", message.if_unavailable.as_str(), heard.if_unavailable.as_str());
    if letter.payload.get() != plain.payload.get() {
        match inner_of(&plain.payload, &letter.payload) {
            Some(name) => differs.say("payloadIn", name),
            None => differs.say("payload", &letter.payload),
        }
    }
    differs.0
}

/// In which field of the payload that a dialect said the real one stands.
fn inner_of(said: &RawValue, payload: &RawValue) -> Option<&'static str> {
    let mut said = Said::read("", said).ok()?;
    INNER.into_iter().find(|name| said.raw(name).is_some_and(|raw| raw.get() == payload.get()))
}

/// The word for one of several.
pub(super) fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], meant: T) -> &'static str {
    words.iter().find(|(_, one)| *one == meant).map_or("", |(word, _)| word)
}

/// A text of a message that may be left out: its name, and where it is.
type Text = (&'static str, fn(&mut Message) -> &mut Option<String>);

/// The texts of a message that may be left out.
pub(super) const TEXTS: [Text; 9] = [
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

struct Differences(Shape);

impl Differences {
    fn add<T: PartialEq + Serialize + ?Sized>(&mut self, name: &str, meant: &T, heard: &T) {
        if meant != heard {
            self.say(name, meant);
        }
    }

    fn say(&mut self, name: &str, value: impl Serialize) {
        self.0 = std::mem::take(&mut self.0).with(name, value);
    }
}

/// Takes over what was said beyond a dialect. Gives back the whole metadata where that was said.
pub(super) fn apply(mut said: Said<'_>, letter: &mut Letter) -> Result<Option<Box<RawValue>>, Wrong> {
    let message = &mut letter.message;
    if said.has("from") {
        message.from = said.agent("from")?;
    }
    if let Some(id) = said.text("clientId")? {
        let id = ClientId::new(id).map_err(|refused| Wrong::new(said.at("clientId"), refused.detail))?;
        message.client_id = Some(id);
        letter.id = None;
    }
    if let Some(to) = destination(&mut said, "to")? {
        message.to = to;
    }
    let answers = said.has("inReplyTo");
    match said.word("type", &KINDS)? {
        Some(kind) => message.kind = kind,
        None if answers => message.kind = MessageType::Response,
        None => {}
    }
    if let Some(action) = said.text("action")? {
        message.action = action;
    }
    if let Some(priority) = priority(&mut said)? {
        message.priority = priority;
    }
    apply_rest(&mut said, message)?;
    if let Some(payload) = said.raw("payload") {
        letter.payload = payload.to_owned();
    }
    if let Some(name) = said.text("payloadIn")? {
        let inner =
            Said::read("", &letter.payload).ok().and_then(|mut said| said.raw(&name).map(ToOwned::to_owned));
        let path = said.at("payloadIn");
        letter.payload =
            inner.ok_or_else(|| Wrong::new(path, format!("{name:?} is no field of the payload")))?;
    }
    let metadata = said.raw("metadata").map(ToOwned::to_owned);
    said.end("quorate holds fields of the native message; choose another name for your own")?;
    Ok(metadata)
}

/// What has no rule of its own.
pub(super) fn apply_rest(said: &mut Said<'_>, message: &mut Message) -> Result<(), Wrong> {
    if let Some(durability) = said.word("durability", &DURABILITIES)? {
        message.durability = durability;
    }
    if said.has("expiresAt") {
        message.expires_at = said.time("expiresAt")?.map(|(time, _)| time);
    }
    if said.has("deliverAt") {
        message.deliver_at = said.time("deliverAt")?.map(|(time, _)| time);
    }
    if let Some(attempts) = small(said, "maxAttempts")? {
        message.attempts_max = attempts;
    }
    if said.has("replyTo") {
        message.reply_to = said.agent("replyTo")?;
    }
    for (name, get) in TEXTS {
        if said.has(name) {
            *get(message) = said.text(name)?;
        }
    }
    if let Some(hops) = small(said, "hops")? {
        message.hops = hops;
    }
    if said.has("confidence") {
        message.confidence = said.confidence("confidence")?;
    }
    if let Some(choice) = said.word("ifUnavailable", &IF_UNAVAILABLE)? {
        message.if_unavailable = choice;
    }
    Ok(())
}

fn small(said: &mut Said<'_>, name: &str) -> Result<Option<u16>, Wrong> {
    let path = said.at(name);
    let small = said.whole(name)?.map(u16::try_from).transpose();
    small.map_err(|_| Wrong::new(path, "is too large"))
}
