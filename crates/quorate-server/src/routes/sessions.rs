//! Sessions: open, change, add, look back.

use std::collections::BTreeMap;

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_core::{
    AddKind, AddToSession, AgentId, ChangeSession, Code, LineKind, Op, OpResult, OpenSession, Refused, Seq,
    Session, SessionChange, SessionId,
};
use quorate_engine::{Happening, Page as Span, TimelineLine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::messages::visible;
use super::{Page, Past, checked_limit, number_in};
use crate::api::{Operation, Route, get, post, words};
use crate::call::{Answer, Call, answer, ok, page};
use crate::wire::message::MessageOut;
use crate::wire::{self, Raw, Sealing, time};
use crate::{body, bulk};

pub(crate) fn routes() -> Vec<Route> {
    let changes = |path, id, about| -> Operation {
        post(path, id, about)
            .path::<words::Id>("id")
            .body::<ChangeIn>()
            .answers::<SessionOut>(200, "The session.")
    };
    vec![
        post("/v1/sessions", "sessions.open", "Begins a piece of common work.")
            .body::<OpenIn<'_>>()
            .answers::<SessionOut>(201, "It is open.")
            .to(open),
        get("/v1/sessions", "sessions.list", "The sessions, by id.")
            .query::<Page>()
            .lists::<SessionFields>("sessions")
            .bulk(list),
        get("/v1/sessions/{id}", "sessions.get", "A session and what it is to do, as it is or as it was.")
            .path::<words::Id>("id")
            .query::<Past>()
            .answers::<SessionOut>(200, "The session.")
            .to(show),
        post(
            "/v1/sessions/{id}/add",
            "sessions.add",
            "Adds a decision, an artifact, a finding, a blocker or a note.",
        )
        .path::<words::Id>("id")
        .body::<AddIn<'_>>()
        .answers::<AddedOut>(201, "It is added.")
        .to(add),
        get("/v1/sessions/{id}/timeline", "sessions.timeline", "What happened in a session, in order.")
            .path::<words::Id>("id")
            .query::<Wanted>()
            .lists::<LineOut>("timeline")
            .bulk_of(timeline),
        changes("/v1/sessions/{id}/pause", "sessions.pause", "Holds its messages back.").to(pause),
        changes("/v1/sessions/{id}/resume", "sessions.resume", "Lets them go.").to(resume),
        changes("/v1/sessions/{id}/complete", "sessions.complete", "It is done.").to(complete),
        changes("/v1/sessions/{id}/fail", "sessions.fail", "It came to nothing.").to(fail),
        changes("/v1/sessions/{id}/join", "sessions.join", "One more takes part.").to(join),
        changes("/v1/sessions/{id}/leave", "sessions.leave", "One fewer takes part.").to(leave),
    ]
}

/// A session as a caller opens it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NewSession")]
pub(crate) struct OpenIn<'a> {
    /// The caller's own id; the hub makes one if nothing is said.
    #[schemars(with = "Option<words::Id>")]
    id: Option<String>,
    /// Whoever asks, if nothing is said.
    #[schemars(with = "Option<words::Id>")]
    coordinator: Option<String>,
    #[serde(default)]
    #[schemars(length(max = 1000), with = "Vec<words::Id>")]
    participants: Vec<String>,
    /// What people call it; its id if nothing is said.
    #[schemars(length(min = 1, max = 200))]
    title: Option<String>,
    /// What is to be done: any JSON, kept byte for byte.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    task: Option<&'a RawValue>,
}

impl OpenIn<'_> {
    pub(crate) fn read(self, sealing: &Sealing<'_>, by: Option<&AgentId>) -> Result<OpenSession, Refused> {
        let named = self.coordinator.map(AgentId::new).transpose()?;
        let title = self.title.or_else(|| self.id.clone());
        Ok(OpenSession {
            id: self.id.map(SessionId::new).transpose()?,
            coordinator: named.or_else(|| by.cloned()),
            participants: self.participants.into_iter().map(AgentId::new).collect::<Result<_, _>>()?,
            title: title.unwrap_or_else(|| "untitled".into()),
            task: self.task.map(|raw| sealing.payload(Some(raw), None)).transpose()?,
        })
    }
}

pub(crate) async fn open(call: Call) -> Answer {
    let open = body::parse::<OpenIn<'_>>(&call.body)?.read(&call.sealing(), call.by())?;
    let receipt = call.commit(vec![Op::OpenSession(open)]).await?;
    match receipt.results.first() {
        Some(OpResult::SessionOpened { id }) => shown(&call, StatusCode::CREATED, id, receipt.seq).await,
        _ => Err(Refused::new(Code::Unavailable, "the session was not answered").into()),
    }
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let Past { at, time } = call.query()?;
    let at = call.past(at.as_deref(), time.as_deref()).await?;
    let id = SessionId::new(id)?;
    if at.is_none() {
        return shown(&call, StatusCode::OK, &id, None).await;
    }
    bulk::answer(call, move |call| async move { shown(&call, StatusCode::OK, &id, at).await }).await
}

/// After a change it is shown as its record left it: asked again under the same key, the answer is the same.
async fn shown(call: &Call, status: StatusCode, id: &SessionId, at: Option<Seq>) -> Answer {
    let session = match at {
        Some(at) => call.space.session_at(id, at).await?,
        None => call.space.session(id).await?,
    };
    let task = call.space.session_task(&session).await?;
    let task = task.map(|task| wire::shown(&task, None));
    answer(status, &SessionOut { session: of(&session), task })
}

/// A session with what it is to do, as that came.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SessionWithTask")]
struct SessionOut {
    #[serde(flatten)]
    session: SessionFields,
    task: Option<Raw>,
}

/// A session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
struct SessionFields {
    id: String,
    title: String,
    /// `null`: whoever runs the hub.
    coordinator: Option<String>,
    participants: Vec<ParticipantOut>,
    #[schemars(with = "words::SessionWord")]
    status: &'static str,
    #[schemars(with = "words::Time")]
    since: String,
    /// Why it is as it is.
    reason: String,
    #[schemars(with = "words::Time")]
    opened_at: String,
    /// How many of each kind were added.
    added: BTreeMap<&'static str, u64>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Participant")]
struct ParticipantOut {
    agent: String,
    #[schemars(with = "words::Time")]
    joined_at: String,
    #[schemars(with = "Option<words::Time>")]
    left_at: Option<String>,
}

fn of(session: &Session) -> SessionFields {
    let participants = session.participants.iter().map(|one| ParticipantOut {
        agent: one.agent.to_string(),
        joined_at: time::shown(one.joined_at),
        left_at: one.left_at.map(time::shown),
    });
    SessionFields {
        id: session.id.to_string(),
        title: session.title.clone(),
        coordinator: session.coordinator.as_ref().map(ToString::to_string),
        participants: participants.collect(),
        status: session.status.as_str(),
        since: time::shown(session.since),
        reason: session.reason.clone(),
        opened_at: time::shown(session.opened_at),
        added: AddKind::ALL.into_iter().map(|kind| (kind.as_str(), session.count(kind))).collect(),
    }
}

pub(crate) async fn list(call: Call) -> Answer {
    let asked: Page = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let after = asked.cursor.map(SessionId::new).transpose()?;
    let sessions = call.space.sessions(after.as_ref(), limit).await?;
    let cursor = sessions.last().filter(|_| sessions.len() == limit).map(|last| last.id.to_string());
    page("sessions", sessions.iter().map(|one| (one.id.to_string(), of(one))), cursor)
}

/// How a session changes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SessionChange")]
pub(crate) struct ChangeIn {
    /// In a commit, also as `id`; in a call of its own it stands in the path.
    #[serde(alias = "id")]
    #[schemars(with = "Option<words::Id>")]
    session: Option<String>,
    #[serde(default)]
    #[schemars(with = "words::Sentence")]
    reason: String,
    /// Who joins or leaves; whoever asks, if nothing is said.
    #[schemars(with = "Option<words::Id>")]
    agent: Option<String>,
}

/// What becomes of a session.
#[derive(Clone, Copy)]
pub(crate) enum Verb {
    Pause,
    Resume,
    Complete,
    Fail,
    Join,
    Leave,
}

impl ChangeIn {
    pub(crate) fn read(
        self,
        verb: Verb,
        path: Option<&str>,
        by: Option<&AgentId>,
    ) -> Result<ChangeSession, Refused> {
        let session = named(path, self.session)?;
        let agent = self.agent.map(AgentId::new).transpose()?;
        let whose = || {
            let missing = || Refused::new(Code::Invalid, "agent is missing").hint("say which agent");
            agent.or_else(|| by.cloned()).ok_or_else(missing)
        };
        let change = match verb {
            Verb::Pause => SessionChange::Pause,
            Verb::Resume => SessionChange::Resume,
            Verb::Complete => SessionChange::Complete,
            Verb::Fail => SessionChange::Fail,
            Verb::Join => SessionChange::Join(whose()?),
            Verb::Leave => SessionChange::Leave(whose()?),
        };
        Ok(ChangeSession { session, change, reason: self.reason })
    }
}

/// The session of the path, or of the body in a commit.
fn named(path: Option<&str>, body: Option<String>) -> Result<SessionId, Refused> {
    match (path, body) {
        (Some(path), Some(body)) if path != body => {
            Err(Refused::new(Code::Invalid, format!("the path names {path}, the body {body}"))
                .hint("name it in the path only"))
        }
        (Some(path), _) => SessionId::new(path),
        (None, body) => SessionId::new(body.unwrap_or_default()),
    }
}

pub(crate) async fn pause(Path(id): Path<String>, call: Call) -> Answer {
    change(&id, &call, Verb::Pause).await
}

pub(crate) async fn resume(Path(id): Path<String>, call: Call) -> Answer {
    change(&id, &call, Verb::Resume).await
}

pub(crate) async fn complete(Path(id): Path<String>, call: Call) -> Answer {
    change(&id, &call, Verb::Complete).await
}

pub(crate) async fn fail(Path(id): Path<String>, call: Call) -> Answer {
    change(&id, &call, Verb::Fail).await
}

pub(crate) async fn join(Path(id): Path<String>, call: Call) -> Answer {
    change(&id, &call, Verb::Join).await
}

pub(crate) async fn leave(Path(id): Path<String>, call: Call) -> Answer {
    change(&id, &call, Verb::Leave).await
}

async fn change(id: &str, call: &Call, verb: Verb) -> Answer {
    let change = body::parse::<ChangeIn>(&call.body)?.read(verb, Some(id), call.by())?;
    let session = change.session.clone();
    let receipt = call.commit(vec![Op::ChangeSession(change)]).await?;
    shown(call, StatusCode::OK, &session, receipt.seq).await
}

/// Something that is added to a session.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SessionAddition")]
pub(crate) struct AddIn<'a> {
    /// In a commit, also as `id`; in a call of its own it stands in the path.
    #[serde(alias = "id")]
    #[schemars(with = "Option<words::Id>")]
    session: Option<String>,
    kind: KindIn,
    /// Any JSON, kept byte for byte; with a `contentType`, a text in base64.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    body: Option<&'a RawValue>,
    #[schemars(length(max = 128))]
    content_type: Option<String>,
    #[serde(default)]
    #[schemars(with = "words::Sentence")]
    rationale: String,
}

impl AddIn<'_> {
    pub(crate) fn read(self, sealing: &Sealing<'_>, path: Option<&str>) -> Result<AddToSession, Refused> {
        Ok(AddToSession {
            session: named(path, self.session)?,
            kind: match self.kind {
                KindIn::Decision => AddKind::Decision,
                KindIn::Artifact => AddKind::Artifact,
                KindIn::Finding => AddKind::Finding,
                KindIn::Blocker => AddKind::Blocker,
                KindIn::Note => AddKind::Note,
            },
            body: sealing.payload(self.body, self.content_type.as_deref())?,
            content_type: self.content_type,
            rationale: self.rationale,
        })
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Added")]
struct AddedOut {
    /// The how many-th of its kind it is, from 1.
    n: Option<u64>,
    seq: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum KindIn {
    Decision,
    Artifact,
    Finding,
    Blocker,
    Note,
}

pub(crate) async fn add(Path(id): Path<String>, call: Call) -> Answer {
    let add = body::parse::<AddIn<'_>>(&call.body)?.read(&call.sealing(), Some(&id))?;
    let receipt = call.commit(vec![Op::AddToSession(add)]).await?;
    let n = receipt.results.iter().find_map(|result| match result {
        OpResult::SessionAdded { n } => Some(*n),
        _ => None,
    });
    answer(StatusCode::CREATED, &AddedOut { n, seq: receipt.seq.map(|seq| seq.0) })
}

/// Which lines of a timeline.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Only lines of this kind.
    #[schemars(extend("enum" = ["message", "changed", "decision", "artifact", "finding", "blocker", "note", null]))]
    kind: Option<String>,
    /// The newest first, instead of the oldest.
    newest: Option<bool>,
    #[schemars(with = "Option<words::Limit>")]
    limit: Option<usize>,
    #[schemars(with = "Option<words::Cursor>")]
    cursor: Option<String>,
}

fn kind_of(word: &str) -> Result<LineKind, Refused> {
    let known = LineKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    known.ok_or_else(|| {
        Refused::new(Code::Invalid, format!("kind: a timeline has no lines of kind {word:?}"))
            .hint("the kinds are message, changed, decision, artifact, finding, blocker, note")
    })
}

/// What happened, oldest first unless the newest is wanted.
pub(crate) async fn timeline(Path(id): Path<String>, call: Call) -> Answer {
    let wanted: Wanted = call.query()?;
    let from = wanted.cursor.as_deref().map(|cursor| number_in(Some(cursor)).map(Seq)).transpose()?;
    let span = match wanted.newest {
        Some(true) => Span::Before(from.unwrap_or(Seq(u64::MAX))),
        Some(false) | None => Span::After(from.unwrap_or(Seq(0))),
    };
    let (kind, limit) = (wanted.kind.as_deref().map(kind_of).transpose()?, checked_limit(wanted.limit)?);
    let id = SessionId::new(id)?;
    let (lines, rest) = call.space.timeline(&id, kind, span, limit).await?;
    let lines = seen(&call, &id, lines).await?;
    // A record may have several lines, and the cursor stands between records: none of it is left out.
    ok(&TimelineOut {
        timeline: lines.iter().map(LineOut::new).collect(),
        cursor: rest.map(|seq| seq.0.to_string()),
    })
}

/// What an agent may see of a timeline: whoever takes part sees all of it, others no messages but their own.
async fn seen(
    call: &Call,
    id: &SessionId,
    lines: Vec<TimelineLine>,
) -> Result<Vec<TimelineLine>, crate::problem::Problem> {
    let Some(by) = call.by() else { return Ok(lines) };
    // A name that nobody opened has no participants.
    let takes_part = call.space.session(id).await.is_ok_and(|session| {
        let mut there = session.participants.iter().filter(|one| one.left_at.is_none());
        session.coordinator.as_ref() == Some(by) || there.any(|one| one.agent == *by)
    });
    if takes_part {
        return Ok(lines);
    }
    let mut seen = Vec::with_capacity(lines.len());
    for line in lines {
        match &line.what {
            Happening::Message { id, .. } if visible(call, call.space.message(*id).await?).is_none() => {}
            _ => seen.push(line),
        }
    }
    Ok(seen)
}

#[derive(Serialize)]
struct TimelineOut {
    timeline: Vec<LineOut>,
    cursor: Option<String>,
}

/// Something that happened in a session.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TimelineLine")]
struct LineOut {
    seq: u64,
    #[schemars(with = "words::Time")]
    at: String,
    by: String,
    #[serde(flatten)]
    what: HappeningOut,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum HappeningOut {
    Message {
        kind: &'static str,
        message: Box<MessageOut>,
    },
    Changed {
        kind: &'static str,
        verb: &'static str,
        /// Who joined or left.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        status: &'static str,
        reason: String,
    },
    Added {
        kind: &'static str,
        n: u64,
        body: Raw,
        #[serde(skip_serializing_if = "Option::is_none")]
        content_type: Option<String>,
        rationale: String,
    },
}

impl LineOut {
    fn new(line: &TimelineLine) -> Self {
        let what = match &line.what {
            Happening::Message { id, message } => {
                let message = Box::new(MessageOut::new(*id, line.at, message));
                HappeningOut::Message { kind: LineKind::Message.as_str(), message }
            }
            Happening::Changed { verb, session } => HappeningOut::Changed {
                kind: LineKind::Change.as_str(),
                verb: verb.as_str(),
                agent: session.moved_by(*verb).map(ToString::to_string),
                status: session.status.as_str(),
                reason: session.reason.clone(),
            },
            Happening::Added(added) => HappeningOut::Added {
                kind: added.kind.as_str(),
                n: added.n,
                body: wire::shown(&added.body, added.content_type.as_deref()),
                content_type: added.content_type.clone(),
                rationale: added.rationale.clone(),
            },
        };
        Self { seq: line.seq.0, at: time::shown(line.at), by: line.by.clone(), what }
    }
}
