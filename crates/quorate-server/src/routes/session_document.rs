//! A session as one document, `/v1/sessions/{id}/document`: read it, open a session from it, or add to a session.

use axum::extract::Path;
use quorate_api::dialect::{SessionDocument, SessionDocumentChange};
use quorate_api::state::AsOfQuery;
use quorate_core::{
    AddToSession, AgentId, ChangeSession, Code, ContributionKind, Op, OpenSession, Refused, Seq,
    Session as CoreSession, SessionChange, SessionId, SessionStatus, TimelineKind, Timestamp,
};
use quorate_engine::{SessionEvent, TimelinePage as MessageSpan};
use serde_json::value::RawValue;

use super::sessions::visible_lines;
use crate::api::{Route, get, put, schema};
use crate::call::{ApiResult, Call, ok_response};
use crate::dialect::ObjectWriter;
use crate::dialect::session_document::{self, Entry, LISTS, SubmittedDocument};
use crate::problem::Problem;
use crate::{body, bulk, wire};

/// Maximum number of entries per list of a session's document.
const ENTRIES_MAX: usize = 10_000;
/// Maximum number of messages in a session's document: the newest.
const MESSAGES_MAX: usize = 1_000;
/// Maximum length of a session title derived from a task.
const TITLE_CHARS: usize = 200;

pub(crate) fn routes() -> Vec<Route> {
    const DOCUMENT: &str = "/v1/sessions/{id}/document";
    vec![
        get(
            DOCUMENT,
            "sessions.document",
            "Get a session as one document, with its contributions and messages.",
        )
        .path_parameter::<schema::Id>("id", "Session ID.")
        .query_parameters::<AsOfQuery>()
        .returns::<SessionDocument>(200, "The document.")
        .handled_by(show),
        put(
            DOCUMENT,
            "sessions.putDocument",
            "Open a session from a document, or add the new entries of the document to it.",
        )
        .path_parameter::<schema::Id>("id", "Session ID.")
        .request_body::<SessionDocumentChange>()
        .returns::<SessionDocument>(200, "The document after the change.")
        .handled_by(change),
    ]
}

/// The parts of a document.
struct Document {
    session: CoreSession,
    task: Option<Box<RawValue>>,
    lists: [Vec<Entry>; 3],
    last_activity: Timestamp,
    /// Oldest first.
    messages: Vec<ObjectWriter>,
}

impl Document {
    fn respond(&self) -> ApiResult {
        let Self { session, task, lists, last_activity, messages } = self;
        ok_response(&session_document::render(session, task.as_deref(), lists, *last_activity, messages))
    }
}

async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    let (id, AsOfQuery { at, time }) = (SessionId::new(id)?, call.query()?);
    let at = call.as_of(at.as_deref(), time.as_deref()).await?;
    bulk::run_as_bulk_read(call, move |call| async move {
        read(&call, &id, at.unwrap_or(call.space.published().head.seq)).await?.respond()
    })
    .await
}

/// Reads the document as of a record. All parts are read at the same position, so that the result is consistent.
async fn read(call: &Call, id: &SessionId, at: Seq) -> Result<Document, Problem> {
    let session: CoreSession = call.space.item_at(id, at).await?;
    let task = call.space.session_task(&session).await?;
    let task = task.map(|task| wire::render(&task, None).to_raw_value());
    let mut lists = [const { Vec::new() }; 3];
    for ((_, kind, field), list) in LISTS.into_iter().zip(&mut lists) {
        *list = entries(call, id, (kind, field), at).await?;
    }
    let end = Seq(at.0 + 1);
    let (newest, _) = call.space.timeline(id, None, MessageSpan::Before(end), 1).await?;
    let last_activity = newest.first().map_or(session.since, |line| line.at);
    let messages = messages(call, id, end).await?;
    Ok(Document { session, task, lists, last_activity, messages })
}

/// Returns the contributions of one kind, oldest first.
async fn entries(
    call: &Call,
    id: &SessionId,
    (kind, field): (ContributionKind, &str),
    at: Seq,
) -> Result<Vec<Entry>, Problem> {
    let (mut entries, mut after) = (Vec::new(), Seq(0));
    let kind = Some(TimelineKind::Contribution(kind));
    while entries.len() < ENTRIES_MAX && after < at {
        let (lines, _) = call.space.timeline(id, kind, MessageSpan::After(after), 256).await?;
        let Some(last) = lines.last() else { break };
        after = last.seq;
        for line in lines.iter().filter(|line| line.seq <= at) {
            let SessionEvent::Added(added) = &line.event else { continue };
            let author = line.by.strip_prefix("agent:").unwrap_or(&line.by);
            let body = wire::render(&added.body, added.content_type.as_deref()).to_raw_value();
            entries.push(Entry::new(field, body, &added.rationale, author, line.at));
        }
    }
    Ok(entries)
}

/// Returns the newest messages that the caller may see, oldest first.
async fn messages(call: &Call, id: &SessionId, end: Seq) -> Result<Vec<ObjectWriter>, Problem> {
    let (mut messages, mut before) = (Vec::new(), end);
    while messages.len() < MESSAGES_MAX {
        let kind = Some(TimelineKind::Message);
        let (lines, rest) = call.space.timeline(id, kind, MessageSpan::Before(before), 256).await?;
        for line in visible_lines(call, id, lines).await? {
            if let SessionEvent::Message { id, message } = &line.event {
                messages.push(session_document::message_summary(&id.to_string(), message, line.at));
            }
        }
        let Some(rest) = rest else { break };
        before = rest;
    }
    messages.truncate(MESSAGES_MAX);
    messages.reverse();
    Ok(messages)
}

async fn change(Path(id): Path<String>, call: Call) -> ApiResult {
    let id = SessionId::new(id)?;
    let raw: &RawValue = body::parse(&call.body)?;
    let submitted = SubmittedDocument::parse(id.as_str(), raw).map_err(Refused::from)?;
    let head = || call.space.published().head.seq;
    if let Some(receipt) = call.replayed_receipt().await? {
        return read(&call, &id, receipt.seq.unwrap_or_else(head)).await?.respond();
    }
    let ops = match read(&call, &id, head()).await {
        Ok(current) => change_ops(&call, &submitted, &current)?,
        Err(problem) if problem.code() == Code::NotFound => open_ops(&call, &id, &submitted)?,
        Err(problem) => return Err(problem),
    };
    let seq = if ops.is_empty() { None } else { call.commit_for_request(ops).await?.seq };
    read(&call, &id, seq.unwrap_or_else(head)).await?.respond()
}

/// Returns the operations that open a session with the content of the document.
fn open_ops(call: &Call, id: &SessionId, submitted: &SubmittedDocument) -> Result<Vec<Op>, Problem> {
    let title = session_document::title_of(submitted.task.as_deref());
    let title: String = title.unwrap_or_default().chars().take(TITLE_CHARS).collect();
    let task = submitted.task.as_deref();
    let task = task.map(|task| call.parse_context().payload(Some(&task.into()), None)).transpose()?;
    let mut ops = vec![Op::OpenSession(OpenSession {
        id: Some(id.clone()),
        coordinator: submitted.coordinator.clone().or_else(|| call.calling_agent().cloned()),
        participants: submitted.participants.clone(),
        title: if title.trim().is_empty() { id.to_string() } else { title },
        task,
    })];
    for ((_, kind, _), entries) in LISTS.into_iter().zip(&submitted.lists) {
        for entry in entries {
            ops.push(add_op(call, id, kind, entry)?);
        }
    }
    ops.extend(status_op(id, SessionStatus::Active, submitted.status));
    Ok(ops)
}

/// Returns the operations that add what the document contains and the session does not.
fn change_ops(call: &Call, submitted: &SubmittedDocument, current: &Document) -> Result<Vec<Op>, Problem> {
    let session = &current.session;
    let id = &session.id;
    let fixed = |field: &str| {
        Refused::new(Code::Conflict, format!("{field} of session {id} cannot be changed"))
            .hint("omit the field, or send its current value")
    };
    if submitted.coordinator.is_some() && submitted.coordinator != session.coordinator {
        return Err(fixed("coordinator").into());
    }
    if let Some(task) = &submitted.task
        && !session_document::is_same(task, current.task.as_deref())
    {
        return Err(fixed("context.task").into());
    }
    let joins = submitted.participants.iter().filter(|agent| !session.has_participant(agent));
    let change =
        |change| Op::ChangeSession(ChangeSession { session: id.clone(), change, reason: String::new() });
    let mut ops: Vec<_> = joins.map(|agent: &AgentId| change(SessionChange::Join(agent.clone()))).collect();
    for (((_, kind, _), list), entries) in LISTS.into_iter().zip(&current.lists).zip(&submitted.lists) {
        for entry in session_document::new_entries(list, entries) {
            ops.push(add_op(call, id, kind, entry)?);
        }
    }
    ops.extend(status_op(id, session.status, submitted.status));
    Ok(ops)
}

fn add_op(call: &Call, id: &SessionId, kind: ContributionKind, entry: &RawValue) -> Result<Op, Refused> {
    Ok(Op::AddToSession(AddToSession {
        session: id.clone(),
        kind,
        body: call.parse_context().payload(Some(&entry.into()), None)?,
        content_type: None,
        rationale: session_document::rationale_of(entry),
    }))
}

/// Returns the operation that changes the status, if it differs.
fn status_op(id: &SessionId, current: SessionStatus, submitted: Option<SessionStatus>) -> Option<Op> {
    let change = match submitted.filter(|status| *status != current)? {
        SessionStatus::Active => SessionChange::Resume,
        SessionStatus::Paused => SessionChange::Pause,
        SessionStatus::Completed => SessionChange::Complete,
        SessionStatus::Failed => SessionChange::Fail,
    };
    Some(Op::ChangeSession(ChangeSession { session: id.clone(), change, reason: String::new() }))
}
