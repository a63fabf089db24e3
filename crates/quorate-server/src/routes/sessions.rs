//! Sessions: open, change, add, timeline.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::payload;
use quorate_api::session::{
    NewSession, Session, SessionAdded, SessionAddition, SessionChange, SessionTask, SessionVerb,
    SessionWithTask, TimelineLine,
};
use quorate_core::{Code, LineKind, Op, OpResult, Refused, Seq, Session as CoreSession, SessionId};
use quorate_engine::{Happening, Page as Span, TimelineLine as Line, views};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::messages::visible;
use super::{Listing, Past, checked_limit, number_in};
use crate::api::{Operation, Route, get, post, schema};
use crate::call::{Answer, Call, answer, ok};
use crate::{body, bulk};

pub(crate) fn routes() -> Vec<Route> {
    let changes = |path, id, about| -> Operation {
        post(path, id, about)
            .path::<schema::Id>("id")
            .body::<SessionChange>()
            .answers::<SessionWithTask>(200, "The session.")
    };
    vec![
        post("/v1/sessions", "sessions.open", "Open a session.")
            .body::<NewSession<'_>>()
            .answers::<SessionWithTask>(201, "The session is open.")
            .to(open),
        get("/v1/sessions", "sessions.list", "List sessions, newest first.")
            .query::<Listing>()
            .lists::<Session>("sessions")
            .bulk(list),
        get(
            "/v1/sessions/{id}",
            "sessions.get",
            "Get a session and its task, optionally as of a past record.",
        )
        .path::<schema::Id>("id")
        .query::<Past>()
        .answers::<SessionWithTask>(200, "The session.")
        .to(show),
        post("/v1/sessions/{id}/add", "sessions.add", "Add a decision, artifact, finding, blocker or note.")
            .path::<schema::Id>("id")
            .body::<SessionAddition<'_>>()
            .answers::<SessionAdded>(201, "The addition is stored.")
            .to(add),
        get("/v1/sessions/{id}/timeline", "sessions.timeline", "List the timeline of a session.")
            .path::<schema::Id>("id")
            .query::<TimelineQuery>()
            .lists::<TimelineLine>("timeline")
            .bulk_of(timeline),
        changes("/v1/sessions/{id}/pause", "sessions.pause", "Pause a session. Its deliveries are held.")
            .to(pause),
        changes(
            "/v1/sessions/{id}/resume",
            "sessions.resume",
            "Resume a session. Its held deliveries are released.",
        )
        .to(resume),
        changes("/v1/sessions/{id}/complete", "sessions.complete", "Complete a session.").to(complete),
        changes("/v1/sessions/{id}/fail", "sessions.fail", "Fail a session.").to(fail),
        changes("/v1/sessions/{id}/join", "sessions.join", "Join a session.").to(join),
        changes("/v1/sessions/{id}/leave", "sessions.leave", "Leave a session.").to(leave),
    ]
}

pub(crate) async fn open(call: Call) -> Answer {
    let open = body::parse::<NewSession<'_>>(&call.body)?.read(&call.reading())?;
    let receipt = call.commit(vec![Op::OpenSession(open)]).await?;
    match receipt.results.first() {
        Some(OpResult::SessionOpened { id }) => respond(&call, StatusCode::CREATED, id, receipt.seq).await,
        _ => Err(Refused::new(Code::Unavailable, "opening the session returned no result").into()),
    }
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let Past { at, time } = call.query()?;
    let at = call.past(at.as_deref(), time.as_deref()).await?;
    let id = SessionId::new(id)?;
    if at.is_none() {
        return respond(&call, StatusCode::OK, &id, None).await;
    }
    bulk::answer(call, move |call| async move { respond(&call, StatusCode::OK, &id, at).await }).await
}

/// Returns the session as of a record. After a change that is the record of the change, so that an idempotent replay
/// returns the same response.
async fn respond(call: &Call, status: StatusCode, id: &SessionId, at: Option<Seq>) -> Answer {
    let session = match at {
        Some(at) => call.space.item_at(id, at).await?,
        None => call.space.item::<CoreSession>(id).await?,
    };
    let task = call.space.session_task(&session).await?;
    let task = task.map(|task| payload::shown(&task, None));
    answer(status, &SessionWithTask { session: (&session).into(), more: SessionTask { task } })
}

pub(crate) async fn list(call: Call) -> Answer {
    super::list(&call, "sessions", call.query()?, |_| true, |one: &CoreSession| Session::from(one)).await
}

pub(crate) async fn pause(Path(id): Path<String>, call: Call) -> Answer {
    change(&id, &call, SessionVerb::Pause).await
}

pub(crate) async fn resume(Path(id): Path<String>, call: Call) -> Answer {
    change(&id, &call, SessionVerb::Resume).await
}

pub(crate) async fn complete(Path(id): Path<String>, call: Call) -> Answer {
    change(&id, &call, SessionVerb::Complete).await
}

pub(crate) async fn fail(Path(id): Path<String>, call: Call) -> Answer {
    change(&id, &call, SessionVerb::Fail).await
}

pub(crate) async fn join(Path(id): Path<String>, call: Call) -> Answer {
    change(&id, &call, SessionVerb::Join).await
}

pub(crate) async fn leave(Path(id): Path<String>, call: Call) -> Answer {
    change(&id, &call, SessionVerb::Leave).await
}

async fn change(id: &str, call: &Call, verb: SessionVerb) -> Answer {
    let change =
        body::parse::<SessionChange>(&call.body)?.read(verb, &call.reading(), Some(SessionId::new(id)?))?;
    let session = change.session.clone();
    let receipt = call.commit(vec![Op::ChangeSession(change)]).await?;
    respond(call, StatusCode::OK, &session, receipt.seq).await
}

pub(crate) async fn add(Path(id): Path<String>, call: Call) -> Answer {
    let add =
        body::parse::<SessionAddition<'_>>(&call.body)?.read(&call.reading(), Some(SessionId::new(id)?))?;
    let receipt = call.commit(vec![Op::AddToSession(add)]).await?;
    let n = receipt.results.iter().find_map(|result| match result {
        OpResult::SessionAdded { n } => Some(*n),
        _ => None,
    });
    answer(StatusCode::CREATED, &SessionAdded { n, seq: receipt.seq })
}

/// Filter and page of a timeline.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TimelineQuery {
    /// Only lines of this kind.
    #[schemars(extend("enum" = ["message", "changed", "decision", "artifact", "finding", "blocker", "note", null]))]
    kind: Option<String>,
    /// Newest first instead of oldest first.
    newest: Option<bool>,
    #[schemars(with = "Option<schema::Limit>")]
    limit: Option<usize>,
    #[schemars(with = "Option<schema::Cursor>")]
    cursor: Option<String>,
}

fn kind_of(word: &str) -> Result<LineKind, Refused> {
    let known = LineKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    known.ok_or_else(|| {
        Refused::new(Code::Invalid, format!("kind: unknown timeline kind {word:?}"))
            .hint("use one of message, changed, decision, artifact, finding, blocker, note")
    })
}

/// Lists the timeline, oldest first by default.
pub(crate) async fn timeline(Path(id): Path<String>, call: Call) -> Answer {
    let query: TimelineQuery = call.query()?;
    let from = query.cursor.as_deref().map(|cursor| number_in(Some(cursor)).map(Seq)).transpose()?;
    let span = match query.newest {
        Some(true) => Span::Before(from.unwrap_or(Seq(u64::MAX))),
        Some(false) | None => Span::After(from.unwrap_or(Seq(0))),
    };
    let (kind, limit) = (query.kind.as_deref().map(kind_of).transpose()?, checked_limit(query.limit)?);
    let id = SessionId::new(id)?;
    let (lines, rest) = call.space.timeline(&id, kind, span, limit).await?;
    let lines = visible_lines(&call, &id, lines).await?;
    // A record may have several lines; the cursor is a position between records, so no line is skipped.
    ok(&TimelineOut {
        timeline: lines.iter().map(views::timeline_line).collect(),
        cursor: rest.map(|seq| seq.0.to_string()),
    })
}

/// Restricts a timeline: participants see all of it, other agents no messages except their own.
async fn visible_lines(
    call: &Call,
    id: &SessionId,
    lines: Vec<Line>,
) -> Result<Vec<Line>, crate::problem::Problem> {
    let Some(by) = call.by() else { return Ok(lines) };
    // A session id that was never opened has no participants.
    let is_participant = call.space.item::<CoreSession>(id).await.is_ok_and(|session| {
        let mut active = session.participants.iter().filter(|one| one.left_at.is_none());
        session.coordinator.as_ref() == Some(by) || active.any(|one| one.agent == *by)
    });
    if is_participant {
        return Ok(lines);
    }
    let mut visible_lines = Vec::with_capacity(lines.len());
    for line in lines {
        match &line.what {
            Happening::Message { id, .. } if visible(call, call.space.message(*id).await?).is_none() => {}
            _ => visible_lines.push(line),
        }
    }
    Ok(visible_lines)
}

#[derive(Serialize)]
struct TimelineOut {
    timeline: Vec<TimelineLine>,
    cursor: Option<String>,
}
