//! A session as seed B's shared state: the document's own JSON, read from what the session, its additions and one entry of the
//! shared memory hold, and written to them in one commit. And guidance: a person's sentence that agents read on their
//! next run.

use std::collections::BTreeMap;

use axum::extract::Path;
use quorate_core::{
    AddKind, AddToSession, Code, Destination, Key, LineKind, Message, MessageType, Op, OpResult, PutEntry,
    Refused, Seq, Session, SessionId, Version,
};
use quorate_engine::{Error, Happening, Page, TIMELINE_MAX, TimelineLine, When};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::api::{Route, get, post, put, words};
use crate::body;
use crate::call::{Answer, Call, ok};
use crate::wire::{self, time};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/sessions/{id}/state", "sessions.state", "A session as the shared state of a task.")
            .path::<words::Id>("id")
            .answers::<StateOut>(200, "With the newest 256 of each kind of addition.")
            .to(show),
        put(
            "/v1/sessions/{id}/state",
            "sessions.write-state",
            "Writes the shared state: adds what is new, sets the rest.",
        )
        .path::<words::Id>("id")
        .body::<StateIn<'_>>()
        .answers::<StateOut>(200, "The state afterwards.")
        .to(write),
        post("/v1/sessions/{id}/guidance", "sessions.guide", "Tells agents what to heed from now on.")
            .path::<words::Id>("id")
            .body::<GuidanceIn>()
            .answers::<GuidanceOut>(200, "It is written down, and those whom it is for are told.")
            .to(guide),
    ]
}

/// The kinds of additions: what the document calls them, and the field that holds one which is no object.
const KINDS: [(AddKind, &str); 4] = [
    (AddKind::Decision, "decision"),
    (AddKind::Artifact, "artifact"),
    (AddKind::Blocker, "blocker"),
    (AddKind::Note, "note"),
];

/// Fields as they came.
type Fields = BTreeMap<String, Box<RawValue>>;

/// The shared state of a task.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SharedState")]
struct StateOut {
    /// The session.
    task_id: String,
    current_phase: Option<Box<RawValue>>,
    shared_context: ContextOut,
    /// What is known of each agent that takes part.
    #[schemars(with = "BTreeMap<String, Value>")]
    agent_states: Fields,
    /// Of phase, objective and the agents' states: to be named by whoever changes them. 0: nobody did yet.
    version: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SharedContext")]
struct ContextOut {
    objective: Box<RawValue>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    key_decisions: Vec<Fields>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    artifacts: Vec<Fields>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    blockers: Vec<Fields>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    notes: Vec<Fields>,
}

/// What the entry of the shared memory holds.
#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Kept {
    #[serde(skip_serializing_if = "Option::is_none")]
    current_phase: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objective: Option<Box<RawValue>>,
    agent_states: Fields,
}

fn place(session: &SessionId, what: &str) -> Result<Key, Refused> {
    Key::new(format!("sessions/{session}/{what}"))
}

async fn kept(call: &Call, session: &SessionId) -> Result<(Kept, u64), Error> {
    let entry = call.space.entry(&place(session, "state")?, When::Now).await?;
    let Some(entry) = entry else { return Ok((Kept::default(), 0)) };
    let content = entry.content.as_ref().map(|content| content.bytes.clone()).unwrap_or_default();
    // Somebody may have put something else there: then nothing of it is ours.
    let kept = serde_json::from_slice(&content).unwrap_or_default();
    Ok((kept, if entry.content.is_some() { entry.version.head.version.0 } else { 0 }))
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let session = call.space.session(&SessionId::new(id)?).await?;
    ok(&state(&call, &session).await?)
}

async fn state(call: &Call, session: &Session) -> Result<StateOut, Error> {
    let (kept, version) = kept(call, &session.id).await?;
    let mut lists: [Vec<Fields>; 4] = Default::default();
    for (list, (kind, name)) in lists.iter_mut().zip(KINDS) {
        let (kind, page) = (LineKind::Added(kind), Page::Before(Seq(u64::MAX >> 1)));
        let lines = call.space.timeline(&session.id, Some(kind), page, TIMELINE_MAX).await?;
        *list = lines.iter().rev().filter_map(|line| item(line, name)).collect();
    }
    let [key_decisions, artifacts, blockers, notes] = lists;
    let objective = match kept.objective {
        Some(objective) => objective,
        None => objective_of(call, session).await?,
    };
    let mut agent_states = kept.agent_states;
    let published = call.space.published();
    for one in session.participants.iter().filter(|one| one.left_at.is_none()) {
        let number = published.agents.number(&one.agent);
        if let Some(agent) = number.and_then(|number| published.agents.get(number)) {
            let status = Fields::from([("status".to_owned(), text(agent.presence.status.as_str()))]);
            agent_states.entry(one.agent.to_string()).or_insert_with(|| raw(&status));
        }
    }
    let shared_context = ContextOut { objective, key_decisions, artifacts, blockers, notes };
    let (task_id, current_phase) = (session.id.to_string(), kept.current_phase);
    Ok(StateOut { task_id, current_phase, shared_context, agent_states, version })
}

/// What is to be done: what the session's task says, or its title.
async fn objective_of(call: &Call, session: &Session) -> Result<Box<RawValue>, Error> {
    let task = call.space.session_task(session).await?;
    let task = task.map(|task| raw(&wire::shown(&task, None)));
    let objective = task.map(|task| {
        let fields = serde_json::from_str::<Fields>(task.get());
        fields.ok().and_then(|mut fields| fields.remove("objective")).unwrap_or(task)
    });
    Ok(objective.filter(|objective| objective.get() != "null").unwrap_or_else(|| text(&session.title)))
}

/// An addition in the document's shape: its fields, who added it and when.
fn item(line: &TimelineLine, name: &str) -> Option<Fields> {
    let Happening::Added(added) = &line.what else { return None };
    let content = raw(&wire::shown(&added.body, added.content_type.as_deref()));
    let mut fields = fields_of(content, name);
    let by = line.by.strip_prefix("agent:").unwrap_or(&line.by);
    fields.insert("by".to_owned(), text(by));
    fields.insert("timestamp".to_owned(), text(&time::shown(line.at)));
    if !added.rationale.is_empty() {
        fields.insert("rationale".to_owned(), text(&added.rationale));
    }
    Some(fields)
}

fn fields_of(content: Box<RawValue>, name: &str) -> Fields {
    serde_json::from_str(content.get()).unwrap_or_else(|_| Fields::from([(name.to_owned(), content)]))
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn text(text: &str) -> Box<RawValue> {
    raw(&text)
}

/// The shared state as somebody writes it. What is left out stays; what the lists hold and the session does not is added.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NewSharedState")]
struct StateIn<'a> {
    #[schemars(with = "Option<words::Id>")]
    task_id: Option<String>,
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    current_phase: Option<&'a RawValue>,
    #[serde(borrow)]
    shared_context: Option<ContextIn<'a>>,
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    agent_states: Option<Fields>,
    /// The version that phase, objective and the agents' states must have now.
    version: Option<u64>,
}

#[derive(Deserialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "NewSharedContext")]
struct ContextIn<'a> {
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    objective: Option<&'a RawValue>,
    #[serde(borrow)]
    #[schemars(with = "Vec<Value>", length(max = 255))]
    key_decisions: Vec<&'a RawValue>,
    #[serde(borrow)]
    #[schemars(with = "Vec<Value>", length(max = 255))]
    artifacts: Vec<&'a RawValue>,
    #[serde(borrow)]
    #[schemars(with = "Vec<Value>", length(max = 255))]
    blockers: Vec<&'a RawValue>,
    #[serde(borrow)]
    #[schemars(with = "Vec<Value>", length(max = 255))]
    notes: Vec<&'a RawValue>,
}

pub(crate) async fn write(Path(id): Path<String>, call: Call) -> Answer {
    let session = call.space.session(&SessionId::new(id)?).await?;
    let asked: StateIn<'_> = body::parse(&call.body)?;
    if asked.task_id.as_ref().is_some_and(|named| *named != session.id.as_str()) {
        return Err(Refused::new(Code::Invalid, format!("taskId names another session than {}", session.id))
            .hint("leave taskId out, or write to the session that it names")
            .into());
    }
    let context = asked.shared_context.unwrap_or_default();
    let now = state(&call, &session).await?.shared_context;
    let lists = [
        (context.key_decisions, now.key_decisions),
        (context.artifacts, now.artifacts),
        (context.blockers, now.blockers),
        (context.notes, now.notes),
    ];
    let mut ops = Vec::new();
    for ((said, there), (kind, name)) in lists.into_iter().zip(KINDS) {
        let there: Vec<Value> = there.into_iter().map(|fields| bare(fields).1).collect();
        for one in said {
            let (rationale, value) = bare(fields_of(one.to_owned(), name));
            if !there.contains(&value) {
                ops.push(Op::AddToSession(addition(&call, &session.id, kind, name, value, rationale)));
            }
        }
    }
    let (mut kept, _) = kept(&call, &session.id).await?;
    kept.current_phase = asked.current_phase.map(ToOwned::to_owned).or(kept.current_phase);
    kept.objective = context.objective.map(ToOwned::to_owned).or(kept.objective);
    kept.agent_states = asked.agent_states.unwrap_or(kept.agent_states);
    ops.push(Op::Put(entry(&call, place(&session.id, "state")?, "session.state", &kept, asked.version)));
    call.commit(ops).await?;
    ok(&state(&call, &session).await?)
}

/// An item without what the hub says of it: who, when, and why.
fn bare(mut fields: Fields) -> (String, Value) {
    fields.remove("by");
    fields.remove("timestamp");
    let rationale = fields.remove("rationale");
    let rationale = rationale.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    (rationale, serde_json::to_value(fields).unwrap_or_default())
}

fn addition(
    call: &Call,
    session: &SessionId,
    kind: AddKind,
    name: &str,
    value: Value,
    rationale: String,
) -> AddToSession {
    // A plain word is written as it is, not as an object with one field.
    let plain = value.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.get(name));
    let content = plain.unwrap_or(&value).to_string();
    AddToSession {
        session: session.clone(),
        kind,
        body: call.space.seal(content.into_bytes()),
        content_type: None,
        rationale,
    }
}

fn entry(call: &Call, key: Key, kind: &str, content: &impl Serialize, expect: Option<u64>) -> PutEntry {
    PutEntry {
        key,
        entry_type: kind.to_owned(),
        content: call.space.seal(raw(content).get().to_owned().into_bytes()),
        content_type: None,
        expect: expect.map(Version),
        depends_on: Vec::new(),
        fence: None,
    }
}

/// A person's sentence.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewGuidance")]
struct GuidanceIn {
    #[schemars(with = "words::Sentence")]
    text: String,
    /// For whom; everybody who takes part, if nothing is said.
    #[serde(default)]
    #[schemars(length(max = 256), with = "Vec<words::Id>")]
    to: Vec<String>,
}

/// What guidance came to.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Guidance")]
struct GuidanceOut {
    seq: Option<u64>,
    /// Where it is to be read: an entry of the shared memory, whose history is all guidance of the session.
    key: String,
    version: Option<u64>,
    /// The message that tells of it; `null` if there is nobody to be told.
    message: Option<String>,
}

/// What is written down.
#[derive(Serialize)]
struct Guidance<'a> {
    guidance: &'a str,
    to: &'a [String],
}

pub(crate) async fn guide(Path(id): Path<String>, call: Call) -> Answer {
    let session = call.space.session(&SessionId::new(id)?).await?;
    let GuidanceIn { text, mut to } = body::parse(&call.body)?;
    if to.is_empty() {
        let there = session.participants.iter().filter(|one| one.left_at.is_none());
        let others = there.map(|one| &one.agent).filter(|agent| call.by() != Some(agent));
        to = others.map(ToString::to_string).collect();
    }
    let said = Guidance { guidance: &text, to: &to };
    let key = place(&session.id, "guidance")?;
    let note = AddToSession {
        session: session.id.clone(),
        kind: AddKind::Note,
        body: call.space.seal(raw(&said).get().to_owned().into_bytes()),
        content_type: None,
        rationale: String::new(),
    };
    let mut ops = vec![Op::Put(entry(&call, key.clone(), "guidance", &said, None)), Op::AddToSession(note)];
    if !to.is_empty() {
        let payload = call.space.seal(raw(&said).get().to_owned().into_bytes());
        let mut message = Message::new(Destination::of_texts(to.clone())?, "guidance".to_owned(), payload);
        // A person speaks through whoever leads the session.
        message.from = call.by().cloned().or_else(|| session.coordinator.clone());
        message.kind = MessageType::Event;
        message.session_id = Some(session.id.to_string());
        ops.push(Op::send(message));
    }
    let receipt = call.commit(ops).await?;
    let (mut version, mut message) = (None, None);
    for result in &receipt.results {
        match result {
            OpResult::Written { version: now } => version = Some(now.0),
            OpResult::Sent { id, .. } => message = Some(id.to_string()),
            _ => {}
        }
    }
    ok(&GuidanceOut { seq: receipt.seq.map(|seq| seq.0), key: key.to_string(), version, message })
}
