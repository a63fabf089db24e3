//! Sessions: open, change, add, look back.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_core::{
    AddKind, AddToSession, AgentId, ChangeSession, Code, Op, OpResult, OpenSession, Refused, Seq, Session,
    SessionChange, SessionId,
};
use quorate_engine::{Happening, Page as Span, TimelineLine};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Page, checked_limit, number_in};
use crate::body;
use crate::call::{Answer, Call, Listed, answer, ok};
use crate::wire::message::MessageOut;
use crate::wire::{self, time};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpenIn<'a> {
    id: Option<String>,
    coordinator: Option<String>,
    #[serde(default)]
    participants: Vec<String>,
    title: String,
    #[serde(borrow)]
    task: Option<&'a RawValue>,
}

pub(crate) async fn open(call: Call) -> Answer {
    let asked: OpenIn<'_> = body::parse(&call.body)?;
    let named = asked.coordinator.map(AgentId::new).transpose()?;
    let open = OpenSession {
        id: asked.id.map(SessionId::new).transpose()?,
        coordinator: named.or_else(|| call.by().cloned()),
        participants: asked.participants.into_iter().map(AgentId::new).collect::<Result<_, _>>()?,
        title: asked.title,
        task: asked.task.map(|raw| call.sealing().payload(Some(raw), None)).transpose()?,
    };
    let receipt = call.commit(vec![Op::OpenSession(open)]).await?;
    match receipt.results.first() {
        Some(OpResult::SessionOpened { id }) => shown(&call, StatusCode::CREATED, id).await,
        _ => Err(Refused::new(Code::Unavailable, "the session was not answered").into()),
    }
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    shown(&call, StatusCode::OK, &SessionId::new(id)?).await
}

async fn shown(call: &Call, status: StatusCode, id: &SessionId) -> Answer {
    let session = call.space.session(id).await?;
    let task = call.space.session_task(&session).await?;
    let task = task.map(|task| wire::shown(&task, None));
    answer(status, &SessionOut { session: of(&session), task })
}

/// A session with what it is to do, as that came.
#[derive(Serialize)]
struct SessionOut {
    #[serde(flatten)]
    session: Value,
    task: Option<Box<RawValue>>,
}

fn of(session: &Session) -> Value {
    let participants = session.participants.iter().map(|one| {
        json!({
            "agent": one.agent.to_string(),
            "joinedAt": time::shown(one.joined_at),
            "leftAt": one.left_at.map(time::shown),
        })
    });
    let counts: serde_json::Map<_, _> =
        AddKind::ALL.into_iter().map(|kind| (kind.as_str().to_owned(), session.count(kind).into())).collect();
    json!({
        "id": session.id.to_string(),
        "title": session.title,
        "coordinator": session.coordinator.as_ref().map(ToString::to_string),
        "participants": participants.collect::<Vec<_>>(),
        "status": session.status.as_str(),
        "since": time::shown(session.since),
        "reason": session.reason,
        "openedAt": time::shown(session.opened_at),
        "added": counts,
    })
}

pub(crate) async fn list(call: Call) -> Answer {
    let page: Page = call.query()?;
    let limit = checked_limit(page.limit)?;
    let after = page.cursor.map(SessionId::new).transpose()?;
    let sessions = call.space.sessions(after.as_ref(), limit).await?;
    let cursor = sessions.last().filter(|_| sessions.len() == limit).map(|last| last.id.to_string());
    ok(&json!({"sessions": sessions.iter().map(of).collect::<Vec<_>>(), "cursor": cursor}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeIn {
    #[serde(default)]
    reason: String,
    agent: Option<String>,
}

/// `pause`, `resume`, `complete`, `fail`, `join`, `leave`.
pub(crate) async fn change(Path((id, verb)): Path<(String, String)>, call: Call) -> Answer {
    let session = SessionId::new(id)?;
    let ChangeIn { reason, agent } = body::parse(&call.body)?;
    let change = match verb.as_str() {
        "pause" => SessionChange::Pause,
        "resume" => SessionChange::Resume,
        "complete" => SessionChange::Complete,
        "fail" => SessionChange::Fail,
        "join" => SessionChange::Join(call.acting(agent)?),
        "leave" => SessionChange::Leave(call.acting(agent)?),
        other => {
            return Err(Refused::new(Code::NotFound, format!("a session cannot {other}"))
                .hint("it can pause, resume, complete, fail, join and leave; add adds to it")
                .into());
        }
    };
    call.commit(vec![Op::ChangeSession(ChangeSession { session: session.clone(), change, reason })]).await?;
    shown(&call, StatusCode::OK, &session).await
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AddIn<'a> {
    kind: KindIn,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    content_type: Option<String>,
    #[serde(default)]
    rationale: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindIn {
    Decision,
    Artifact,
    Finding,
    Blocker,
    Note,
}

pub(crate) async fn add(Path(id): Path<String>, call: Call) -> Answer {
    let asked: AddIn<'_> = body::parse(&call.body)?;
    let add = AddToSession {
        session: SessionId::new(id)?,
        kind: match asked.kind {
            KindIn::Decision => AddKind::Decision,
            KindIn::Artifact => AddKind::Artifact,
            KindIn::Finding => AddKind::Finding,
            KindIn::Blocker => AddKind::Blocker,
            KindIn::Note => AddKind::Note,
        },
        body: call.sealing().payload(asked.content, asked.content_type.as_deref())?,
        content_type: asked.content_type,
        rationale: asked.rationale,
    };
    let receipt = call.commit(vec![Op::AddToSession(add)]).await?;
    let n = call.results(&receipt).first().map(|result| result["n"].clone());
    answer(StatusCode::CREATED, &json!({"n": n, "seq": receipt.seq.map(|seq| seq.0)}))
}

/// What happened, oldest first.
pub(crate) async fn timeline(Path(id): Path<String>, call: Call) -> Answer {
    let page: Page = call.query()?;
    let after = Seq(number_in(page.cursor.as_deref())?);
    let limit = checked_limit(page.limit)?;
    let lines = call.space.timeline(&SessionId::new(id)?, None, Span::After(after), limit).await?;
    let cursor = lines.last().map(|last| last.seq.0.to_string());
    ok(&Listed { name: "timeline", items: lines.iter().map(LineOut::new).collect(), cursor: Some(cursor) })
}

/// Something that happened.
#[derive(Serialize)]
struct LineOut {
    seq: u64,
    at: String,
    by: String,
    #[serde(flatten)]
    what: HappeningOut,
}

#[derive(Serialize)]
#[serde(untagged)]
enum HappeningOut {
    Message { kind: &'static str, message: Box<MessageOut> },
    Changed { kind: &'static str, verb: &'static str, status: &'static str, reason: String },
    Added { kind: &'static str, n: u64, content: Box<RawValue>, rationale: String },
}

impl LineOut {
    fn new(line: &TimelineLine) -> Self {
        let what = match &line.what {
            Happening::Message { id, message } => {
                let message = Box::new(MessageOut::new(id.to_string(), line.at, message));
                HappeningOut::Message { kind: "message", message }
            }
            Happening::Changed { verb, session } => HappeningOut::Changed {
                kind: "changed",
                verb: verb.as_str(),
                status: session.status.as_str(),
                reason: session.reason.clone(),
            },
            Happening::Added(added) => HappeningOut::Added {
                kind: added.kind.as_str(),
                n: added.n,
                content: wire::shown(&added.body, added.content_type.as_deref()),
                rationale: added.rationale.clone(),
            },
        };
        Self { seq: line.seq.0, at: time::shown(line.at), by: line.by.clone(), what }
    }
}
