//! A collaboration session as one document: `id, coordinator, participants, startedAt, lastActivity, status, context
//! {task, decisions, artifacts, findings}, messageLog`. The entries of the lists are contributions to the session, which
//! are never changed or removed.

use std::collections::HashMap;

use quorate_core::{AgentId, ContributionKind, Session, SessionStatus, Timestamp};
use serde_json::value::RawValue;

use super::field_reader::{FieldError, FieldReader};
use super::merge::canonical;
use super::writer::{ObjectWriter, to_raw_json};
use crate::wire::time;

/// Lists of the context, the kind of their entries in a session, and the field of an entry that is not an object.
pub(crate) const LISTS: [(&str, ContributionKind, &str); 3] = [
    ("decisions", ContributionKind::Decision, "decision"),
    ("artifacts", ContributionKind::Artifact, "artifact"),
    ("findings", ContributionKind::Finding, "finding"),
];
const STATUSES: [(&str, SessionStatus); 4] = [
    ("active", SessionStatus::Active),
    ("paused", SessionStatus::Paused),
    ("completed", SessionStatus::Completed),
    ("failed", SessionStatus::Failed),
];

/// A document as submitted.
pub(crate) struct SubmittedDocument {
    pub(crate) coordinator: Option<AgentId>,
    pub(crate) participants: Vec<AgentId>,
    pub(crate) status: Option<SessionStatus>,
    pub(crate) task: Option<Box<RawValue>>,
    /// In the order of [`LISTS`].
    pub(crate) lists: [Vec<Box<RawValue>>; 3],
}

impl SubmittedDocument {
    /// Parses the document of the session with this id. Times and the message log are set by the hub; submitted ones are
    /// only validated.
    pub(crate) fn parse(id: &str, raw: &RawValue) -> Result<Self, FieldError> {
        let mut fields = FieldReader::parse("", raw)?;
        if let Some(other) = fields.text("id")?.filter(|other| other != id) {
            return Err(FieldError::new("id", format!("{other:?} does not match the id in the path")));
        }
        let coordinator = fields.agent("coordinator")?;
        let participants = fields.text_list("participants")?.unwrap_or_default().into_iter().enumerate();
        let participants = participants.map(|(index, agent)| {
            AgentId::new(agent)
                .map_err(|refused| FieldError::new(format!("participants[{index}]"), refused.detail))
        });
        let participants = participants.collect::<Result<_, _>>()?;
        fields.time("startedAt")?;
        fields.time("lastActivity")?;
        let status = fields.choice("status", &STATUSES)?;
        list(&mut fields, "messageLog")?;
        let context = fields.object("context")?;
        fields.finish(
            "a session consists of id, coordinator, participants, startedAt, lastActivity, status, context and messageLog",
        )?;
        let (mut task, mut lists) = (None, [const { Vec::new() }; 3]);
        if let Some(mut context) = context {
            task = context.value("task").map(ToOwned::to_owned);
            for ((name, _, _), entries) in LISTS.iter().zip(&mut lists) {
                *entries = list(&mut context, name)?;
            }
            context.finish("the context consists of task, decisions, artifacts and findings")?;
        }
        Ok(Self { coordinator, participants, status, task, lists })
    }
}

fn list(fields: &mut FieldReader<'_>, name: &str) -> Result<Vec<Box<RawValue>>, FieldError> {
    let path = fields.path_of(name);
    let Some(raw) = fields.value(name) else { return Ok(Vec::new()) };
    serde_json::from_str(raw.get()).map_err(|_| FieldError::new(path, "not a list"))
}

/// An entry of a list: a contribution as it was sent, and as it is rendered.
pub(crate) struct Entry {
    body: Box<RawValue>,
    rendered: Box<RawValue>,
}

impl Entry {
    /// Creates the entry of a contribution. Author, time and rationale are added if the contribution does not state them.
    pub(crate) fn new(
        field: &str,
        body: Box<RawValue>,
        rationale: &str,
        author: &str,
        at: Timestamp,
    ) -> Self {
        Self { rendered: render_entry((field, &body), rationale, author, at), body }
    }
}

fn render_entry(
    (field, body): (&str, &RawValue),
    rationale: &str,
    author: &str,
    at: Timestamp,
) -> Box<RawValue> {
    let fields = FieldReader::parse("", body).map(FieldReader::remaining);
    let fields = fields.unwrap_or_else(|_| vec![(field.into(), body)]);
    let has = |name: &str| fields.iter().any(|(other, _)| other.as_ref() == name);
    let entry = fields.iter().fold(ObjectWriter::default(), |entry, (name, value)| entry.with(name, value));
    let entry = entry.with_optional("by", Some(author).filter(|_| !has("by")));
    let stated = Some(rationale).filter(|text| !text.is_empty() && !has("rationale"));
    let entry = entry.with_optional("rationale", stated);
    entry.with_optional("timestamp", Some(time::format(at)).filter(|_| !has("timestamp"))).to_raw()
}

/// Returns the submitted entries that a list does not contain yet, as they were sent or as they are rendered.
pub(crate) fn new_entries<'a>(list: &[Entry], submitted: &'a [Box<RawValue>]) -> Vec<&'a RawValue> {
    let mut known: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, entry) in list.iter().enumerate() {
        let (body, rendered) = (canonical(&entry.body), canonical(&entry.rendered));
        if body != rendered {
            known.entry(body).or_default().push(index);
        }
        known.entry(rendered).or_default().push(index);
    }
    let mut used = vec![false; list.len()];
    let is_new = |entry: &&RawValue| {
        let found =
            known.get(&canonical(entry)).and_then(|indexes| indexes.iter().find(|index| !used[**index]));
        found.inspect(|index| used[**index] = true).is_none()
    };
    submitted.iter().map(AsRef::as_ref).filter(is_new).collect()
}

/// Returns the `rationale` of a submitted entry.
pub(crate) fn rationale_of(entry: &RawValue) -> String {
    let rationale = FieldReader::parse("", entry).ok().and_then(|mut fields| fields.text("rationale").ok());
    rationale.flatten().unwrap_or_default()
}

/// Renders a session as a document.
pub(crate) fn render(
    session: &Session,
    task: Option<&RawValue>,
    lists: &[Vec<Entry>; 3],
    last_activity: Timestamp,
    messages: &[ObjectWriter],
) -> ObjectWriter {
    let participants = session.participants.iter().filter(|participant| participant.left_at.is_none());
    let participants: Vec<_> = participants.map(|participant| participant.agent.as_str()).collect();
    let context = ObjectWriter::default().with("task", task);
    let context = LISTS.iter().zip(lists).fold(context, |context, ((name, _, _), list)| {
        context.with(name, list.iter().map(|entry| &entry.rendered).collect::<Vec<_>>())
    });
    ObjectWriter::default()
        .with("id", session.id.as_str())
        .with("coordinator", session.coordinator.as_ref().map(AgentId::as_str))
        .with("participants", participants)
        .with("startedAt", time::format(session.opened_at))
        .with("lastActivity", time::format(last_activity))
        .with("status", session.status.as_str())
        .with("context", context)
        .with("messageLog", messages)
}

/// Renders a message of the log, without its payload.
pub(crate) fn message_summary(id: &str, message: &quorate_core::Message, at: Timestamp) -> ObjectWriter {
    ObjectWriter::default()
        .with("id", id)
        .with("from", message.from.as_ref().map(AgentId::as_str))
        .with("to", message.to.to_string())
        .with("type", message.kind.as_str())
        .with("action", &message.action)
        .with("timestamp", time::format(at))
        .with_optional("inReplyTo", message.in_reply_to.as_ref())
}

/// JSON of a title: the text of a task that is a string.
pub(crate) fn title_of(task: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(task?.get()).ok()
}

/// Whether a task is the one of the session.
pub(crate) fn is_same(task: &RawValue, stored: Option<&RawValue>) -> bool {
    canonical(task) == stored.map_or_else(|| canonical(&to_raw_json(&())), canonical)
}
