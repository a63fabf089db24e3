//! Sessions: open, change, add, timeline.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::page::ListQuery;
use quorate_api::payload;
use quorate_api::session::{
    AddedToSession, NewSession, Session, SessionAction, SessionChange, SessionContribution, SessionTask,
    SessionWithTask, Timeline, TimelineEntry, TimelineQuery,
};
use quorate_api::state::AsOfQuery;
use quorate_core::{Code, Op, OpResult, Refused, Seq, Session as CoreSession, SessionId, TimelineKind};
use quorate_engine::{RecordedSessionEvent as Line, SessionEvent, TimelinePage as MessageSpan, views};

use super::messages::visible;
use super::{check_limit, numeric_cursor};
use crate::api::{Operation, Route, get, post, schema};
use crate::call::{ApiResult, Call, json_response, ok_response};
use crate::problem::Problem;
use crate::{body, bulk};

pub(crate) fn routes() -> Vec<Route> {
    let change = |path, id, summary| -> Operation {
        post(path, id, summary)
            .path_parameter::<schema::Id>("id", "Session ID.")
            .request_body::<SessionChange>()
            .returns::<SessionWithTask>(200, "The session.")
    };
    vec![
        post("/v1/sessions", "sessions.open", "Open a session.")
            .request_body::<NewSession<'_>>()
            .returns::<SessionWithTask>(201, "The session is open.")
            .handled_by(open),
        get("/v1/sessions", "sessions.list", "List sessions, newest first.")
            .query_parameters::<ListQuery>()
            .returns_page::<Session>("sessions")
            .handled_in_bulk_by(list),
        get(
            "/v1/sessions/{id}",
            "sessions.get",
            "Get a session and its task, optionally as of a past record.",
        )
        .path_parameter::<schema::Id>("id", "Session ID.")
        .query_parameters::<AsOfQuery>()
        .returns::<SessionWithTask>(200, "The session.")
        .handled_by(show),
        post("/v1/sessions/{id}/add", "sessions.add", "Add a decision, artifact, finding, blocker or note.")
            .path_parameter::<schema::Id>("id", "Session ID.")
            .request_body::<SessionContribution<'_>>()
            .returns::<AddedToSession>(201, "The contribution is stored.")
            .handled_by(add),
        get("/v1/sessions/{id}/timeline", "sessions.timeline", "List the timeline of a session.")
            .path_parameter::<schema::Id>("id", "Session ID.")
            .query_parameters::<TimelineQuery>()
            .returns_page::<TimelineEntry>("timeline")
            .handled_with_id_in_bulk_by(timeline),
        change("/v1/sessions/{id}/pause", "sessions.pause", "Pause a session. Its deliveries are held.")
            .handled_by(pause),
        change(
            "/v1/sessions/{id}/resume",
            "sessions.resume",
            "Resume a session. Its held deliveries are released.",
        )
        .handled_by(resume),
        change("/v1/sessions/{id}/complete", "sessions.complete", "Complete a session.").handled_by(complete),
        change("/v1/sessions/{id}/fail", "sessions.fail", "Fail a session.").handled_by(fail),
        change("/v1/sessions/{id}/join", "sessions.join", "Join a session.").handled_by(join),
        change("/v1/sessions/{id}/leave", "sessions.leave", "Leave a session.").handled_by(leave),
    ]
}

pub(crate) async fn open(call: Call) -> ApiResult {
    let open = body::parse::<NewSession<'_>>(&call.body)?.into_core(&call.parse_context())?;
    let receipt = call.commit(vec![Op::OpenSession(open)]).await?;
    match receipt.results.first() {
        Some(OpResult::SessionOpened { id }) => respond(&call, StatusCode::CREATED, id, receipt.seq).await,
        _ => Err(Problem::unknown_outcome("opening the session returned no result")),
    }
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    let AsOfQuery { at, time } = call.query()?;
    let at = call.as_of(at.as_deref(), time.as_deref()).await?;
    let id = SessionId::new(id)?;
    if at.is_none() {
        return respond(&call, StatusCode::OK, &id, None).await;
    }
    bulk::run_as_bulk_read(call, move |call| async move { respond(&call, StatusCode::OK, &id, at).await })
        .await
}

/// Returns the session as of a record. After a change that is the record of the change, so that an idempotent replay
/// returns the same response.
async fn respond(call: &Call, status: StatusCode, id: &SessionId, at: Option<Seq>) -> ApiResult {
    let session = match at {
        Some(at) => call.space.item_at(id, at).await?,
        None => call.space.item::<CoreSession>(id).await?,
    };
    let task = call.space.session_task(&session).await?;
    let task = task.map(|task| payload::render(&task, None));
    json_response(status, &SessionWithTask { session: (&session).into(), more: SessionTask { task } })
}

pub(crate) async fn list(call: Call) -> ApiResult {
    super::list(&call, "sessions", call.query()?, |_| true, |session: &CoreSession| Session::from(session))
        .await
}

pub(crate) async fn pause(Path(id): Path<String>, call: Call) -> ApiResult {
    change(&id, &call, SessionAction::Pause).await
}

pub(crate) async fn resume(Path(id): Path<String>, call: Call) -> ApiResult {
    change(&id, &call, SessionAction::Resume).await
}

pub(crate) async fn complete(Path(id): Path<String>, call: Call) -> ApiResult {
    change(&id, &call, SessionAction::Complete).await
}

pub(crate) async fn fail(Path(id): Path<String>, call: Call) -> ApiResult {
    change(&id, &call, SessionAction::Fail).await
}

pub(crate) async fn join(Path(id): Path<String>, call: Call) -> ApiResult {
    change(&id, &call, SessionAction::Join).await
}

pub(crate) async fn leave(Path(id): Path<String>, call: Call) -> ApiResult {
    change(&id, &call, SessionAction::Leave).await
}

async fn change(id: &str, call: &Call, action: SessionAction) -> ApiResult {
    let change = body::parse::<SessionChange>(&call.body)?.into_core(
        action,
        &call.parse_context(),
        Some(SessionId::new(id)?),
    )?;
    let session = change.session.clone();
    let receipt = call.commit(vec![Op::ChangeSession(change)]).await?;
    respond(call, StatusCode::OK, &session, receipt.seq).await
}

pub(crate) async fn add(Path(id): Path<String>, call: Call) -> ApiResult {
    let add = body::parse::<SessionContribution<'_>>(&call.body)?
        .into_core(&call.parse_context(), Some(SessionId::new(id)?))?;
    let receipt = call.commit(vec![Op::AddToSession(add)]).await?;
    let n = receipt.results.iter().find_map(|result| match result {
        OpResult::ContributionAdded { n } => Some(*n),
        _ => None,
    });
    json_response(StatusCode::CREATED, &AddedToSession { n, seq: receipt.seq })
}

fn kind_of(name: &str) -> Result<TimelineKind, Refused> {
    let known = TimelineKind::ALL.into_iter().find(|kind| kind.as_str() == name);
    known.ok_or_else(|| {
        Refused::new(Code::Invalid, format!("kind: unknown timeline kind {name:?}"))
            .hint("use one of message, changed, decision, artifact, finding, blocker, note")
    })
}

/// Lists the timeline, oldest first by default.
pub(crate) async fn timeline(Path(id): Path<String>, call: Call) -> ApiResult {
    let query: TimelineQuery = call.query()?;
    let from = query.cursor.as_deref().map(|cursor| numeric_cursor(Some(cursor)).map(Seq)).transpose()?;
    let span = match query.newest {
        Some(true) => MessageSpan::Before(from.unwrap_or(Seq(u64::MAX))),
        Some(false) | None => MessageSpan::After(from.unwrap_or(Seq(0))),
    };
    let (kind, limit) = (query.kind.as_deref().map(kind_of).transpose()?, check_limit(query.limit)?);
    let id = SessionId::new(id)?;
    let (lines, rest) = call.space.timeline(&id, kind, span, limit).await?;
    let lines = visible_lines(&call, &id, lines).await?;
    // A record may have several lines; the cursor is a position between records, so no line is skipped.
    ok_response(&Timeline {
        timeline: lines.iter().map(views::timeline_entry).collect(),
        cursor: rest.map(|seq| seq.0.to_string()),
    })
}

/// Restricts a timeline: participants see all of it, other agents no messages except their own.
pub(super) async fn visible_lines(
    call: &Call,
    id: &SessionId,
    lines: Vec<Line>,
) -> Result<Vec<Line>, crate::problem::Problem> {
    let Some(caller) = call.calling_agent() else { return Ok(lines) };
    // A session id that was never opened has no participants.
    let is_participant = call.space.item::<CoreSession>(id).await.is_ok_and(|session| {
        let mut active = session.participants.iter().filter(|participant| participant.left_at.is_none());
        session.coordinator.as_ref() == Some(caller) || active.any(|participant| participant.agent == *caller)
    });
    if is_participant {
        return Ok(lines);
    }
    let mut visible_lines = Vec::with_capacity(lines.len());
    for line in lines {
        match &line.event {
            SessionEvent::Message { id, .. } if visible(call, call.space.message(*id).await?).is_none() => {}
            _ => visible_lines.push(line),
        }
    }
    Ok(visible_lines)
}
