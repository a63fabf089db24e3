//! The orchestrator's shared state of a task, `/v1/sessions/{id}/state`. Writers state the version they read
//! (`If-Match`). Their changes are merged with concurrent changes and committed with optimistic concurrency.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse as _;
use quorate_api::dialect::{SharedState, SharedStateChange};
use quorate_api::state::AsOfQuery;
use quorate_core::{
    AddToSession, AgentId, AgentRole, Code, ContributionKind, Generation, Key, Op, OpenSession, PutEntry,
    Refused, Seq, Session, SessionId, TimelineKind, Version,
};
use quorate_engine::{AsOf, SessionEvent, StoredEntry, TimelinePage as MessageSpan};
use serde_json::value::RawValue;

use crate::api::{Route, get, put, schema};
use crate::call::{ApiResult, Call, ok_response};
use crate::dialect::merge;
use crate::dialect::shared_state::{self, LISTS, ListEntry, OrchestratorState, SubmittedState};
use crate::dialect::to_raw_json;
use crate::problem::Problem;
use crate::wire::{self, time};
use crate::{body, bulk};

/// Maximum number of entries per list of a session's shared state.
const ITEMS_MAX: usize = 10_000;
/// Maximum length of a session title derived from an objective.
const TITLE_CHARS: usize = 200;
/// Maximum number of merge attempts on the shared state when other writers commit concurrently.
const ATTEMPTS_MAX: usize = 64;

pub(crate) fn routes() -> Vec<Route> {
    const STATE: &str = "/v1/sessions/{id}/state";
    vec![
        get(STATE, "sessions.state", "Get a session as the orchestrator's shared state of a task.")
            .path_parameter::<schema::Id>("id", "Session ID.")
            .query_parameters::<AsOfQuery>()
            .header_parameter::<schema::Etag>("If-None-Match", "Answer 304 if the state still has this ETag.")
            .returns::<SharedState>(200, "The shared state. Send its `ETag` in `If-Match` to change it.")
            .returns_media(304, "The state still has the ETag of `If-None-Match`.", "")
            .handled_by(show),
        put(STATE, "sessions.putState", "Change the shared state of a task. Concurrent changes are merged.")
            .path_parameter::<schema::Id>("id", "Session ID.")
            .header_parameter::<schema::Etag>(
                "If-Match",
                "The `ETag` of the state that the change is based on. `*` replaces the current state. \
             If omitted, only additions are accepted.",
            )
            .request_body::<SharedStateChange>()
            .returns::<SharedState>(200, "The shared state after the change, with its `ETag`.")
            .returns_problem(412, "VERSION_CONFLICT: `If-Match` does not match a state of this session.")
            .returns_problem(428, "VERSION_CONFLICT: the body changes or removes a value without `If-Match`.")
            .handled_by(change),
    ]
}

/// Shared state as of one record.
struct Snapshot {
    session: Session,
    state: OrchestratorState,
    entry: Option<StoredEntry>,
    /// Last record that changed it.
    seq: Seq,
}

impl Snapshot {
    /// Whether the memory entry was written.
    fn is_written(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.content.is_some())
    }

    /// Returns the expected version for a write of the entry.
    fn expected(&self) -> Version {
        let written = self.entry.as_ref().filter(|_| self.is_written());
        written.map_or(Version(0), |entry| entry.version.head.version)
    }

    fn respond(&self, call: &Call) -> ApiResult {
        let mut response = ok_response(&self.state.render(self.session.id.as_str()))?;
        response.headers_mut().insert(header::ETAG, self.etag(call)?);
        Ok(response)
    }

    /// Identifies this state permanently: the record that created it, and the generation, which differs after a
    /// restore.
    fn etag(&self, call: &Call) -> Result<HeaderValue, Refused> {
        let generation = call.space.published().generations.at_seq(self.seq);
        HeaderValue::try_from(format!("\"{}-{}\"", generation.0, self.seq.0))
            .map_err(|_| Refused::new(Code::Unavailable, "failed to render the ETag"))
    }
}

async fn show(Path(id): Path<String>, headers: HeaderMap, call: Call) -> ApiResult {
    let (id, AsOfQuery { at, time }) = (SessionId::new(id)?, call.query()?);
    let at = call.as_of(at.as_deref(), time.as_deref()).await?;
    bulk::run_as_bulk_read(call, move |call| async move {
        let snapshot = snapshot(&call, &id, at.unwrap_or(call.space.published().head.seq)).await?;
        let etag = snapshot.etag(&call)?;
        if etag_matches(&headers, &etag) {
            return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
        }
        snapshot.respond(&call)
    })
    .await
}

/// Whether `If-None-Match` contains the ETag, by weak comparison (RFC 9110).
fn etag_matches(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut etags = values.flat_map(|value| value.split(',')).map(str::trim);
    etags.any(|other| other == "*" || other.trim_start_matches("W/").as_bytes() == etag.as_bytes())
}

/// Key of the memory entry with the part of the state that is not in the session.
fn entry_key(id: &SessionId) -> Result<Key, Refused> {
    Key::new(format!("sessions/{id}/state"))
}

/// Reads the state as of a record. All parts are read at the same position, so that the result is consistent.
async fn snapshot(call: &Call, id: &SessionId, at: Seq) -> Result<Snapshot, Problem> {
    let changes = Some(TimelineKind::Change);
    let (changes, _) = call.space.timeline(id, changes, MessageSpan::Before(Seq(at.0 + 1)), 1).await?;
    let latest = changes.into_iter().next().and_then(|line| match line.event {
        SessionEvent::Changed { session, .. } => Some((line.seq, *session)),
        _ => None,
    });
    let (changed_in, session) = latest.ok_or_else(|| {
        Refused::new(Code::NotFound, format!("there is no session {id}"))
            .hint("open the session first, or check the id")
    })?;
    let agents = session.participants.iter().filter(|participant| participant.left_at.is_none());
    let agents: serde_json::Map<_, _> = agents
        .map(|participant| (participant.agent.to_string(), serde_json::json!({"status": "in_progress"})))
        .collect();
    let mut state = OrchestratorState::new(session.title.clone(), to_raw_json(&agents));
    let entry = call.space.entry(&entry_key(id)?, AsOf::Seq(at)).await?;
    let rest = entry.as_ref().and_then(|entry| entry.content.as_ref());
    // Participants are shown until the entry is written.
    let mut seq = if rest.is_none() { changed_in } else { session.number.record() };
    if let Some(rest) = rest {
        state.apply_entry(&wire::render(rest, None).to_raw_value());
    }
    seq = seq.max(entry.as_ref().map_or(Seq(0), |entry| entry.version.head.seq));
    for (index, (_, kind)) in LISTS.into_iter().enumerate() {
        let (list, last) = items(call, id, kind, at, &state).await?;
        state.lists[index] = list;
        seq = seq.max(last);
    }
    Ok(Snapshot { session, state, entry, seq })
}

/// Returns the contributions of one kind that were not removed, oldest first, and the record of the last contribution.
async fn items(
    call: &Call,
    id: &SessionId,
    kind: ContributionKind,
    at: Seq,
    state: &OrchestratorState,
) -> Result<(Vec<ListEntry>, Seq), Problem> {
    let (mut items, mut after, mut latest) = (Vec::new(), Seq(0), Seq(0));
    while items.len() < ITEMS_MAX && after < at {
        let kinds = Some(TimelineKind::Contribution(kind));
        let (lines, _) = call.space.timeline(id, kinds, MessageSpan::After(after), 256).await?;
        let Some(last) = lines.last() else { break };
        after = last.seq;
        for line in lines.iter().filter(|line| line.seq <= at) {
            let SessionEvent::Added(added) = &line.event else { continue };
            latest = line.seq;
            let author = line.by.strip_prefix("agent:").unwrap_or(&line.by);
            let body = wire::render(&added.body, added.content_type.as_deref()).to_raw_value();
            let value = shared_state::list_value(kind, body, author, &time::format(line.at));
            let value = state.edits.apply(kind, added.n, value);
            items.extend(value.map(|value| ListEntry { n: added.n, value }));
        }
    }
    Ok((items, latest))
}

/// Precondition of a write.
enum Base {
    /// No `If-Match`: only additions are accepted.
    None,
    /// `*`: replaces the current state.
    Current,
    /// The state that the caller read.
    Of(Box<Snapshot>),
}

async fn change(Path(id): Path<String>, headers: HeaderMap, call: Call) -> ApiResult {
    let id = SessionId::new(id)?;
    let raw: &RawValue = body::parse(&call.body)?;
    let submitted = SubmittedState::parse(id.as_str(), raw).map_err(Refused::from)?;
    let head = || call.space.published().head.seq;
    if let Some(receipt) = call.replayed_receipt().await? {
        return snapshot(&call, &id, receipt.seq.unwrap_or_else(head)).await?.respond(&call);
    }
    let base = base(&call, &id, &headers).await?;
    for _ in 0..ATTEMPTS_MAX {
        let current = match snapshot(&call, &id, head()).await {
            Ok(current) => Some(current),
            Err(problem) if problem.code() == Code::NotFound => None,
            Err(problem) => return Err(problem),
        };
        let ops = match &current {
            Some(current) => ops(&call, &submitted, &base, current)?,
            None => open_ops(&call, &id, &submitted, &base)?,
        };
        let Some(ops) = ops else {
            return snapshot(&call, &id, head()).await?.respond(&call);
        };
        match call.commit_for_request(ops).await {
            Ok(receipt) => {
                return snapshot(&call, &id, receipt.seq.unwrap_or_else(head)).await?.respond(&call);
            }
            // A concurrent writer changed the state or opened the session: merge again.
            Err(error) if error.code() == Code::VersionConflict => {}
            Err(error) if error.code() == Code::Duplicate && current.is_none() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Refused::new(
        Code::Overloaded,
        format!(
            "too many concurrent changes: the state of {id} changed {ATTEMPTS_MAX} times during the call"
        ),
    )
    .hint("nothing was changed; retry the request")
    .into())
}

async fn base(call: &Call, id: &SessionId, headers: &HeaderMap) -> Result<Base, Problem> {
    let mut etags = headers.get_all(header::IF_MATCH).iter();
    let Some(etag) = etags.next() else { return Ok(Base::None) };
    let etag = etag.to_str().unwrap_or_default().trim();
    if etags.next().is_some() || etag.contains(',') {
        return Err(Refused::new(Code::Invalid, "If-Match contains several ETags")
            .hint("send the ETag of the state that the change is based on")
            .into());
    }
    if etag == "*" {
        return Ok(Base::Current);
    }
    let unknown = || {
        let refused =
            Refused::new(Code::VersionConflict, format!("If-Match does not match a state of session {id}"))
                .hint(format!(
                    "GET /v1/sessions/{id}/state, apply the change to it, and PUT it with its ETag"
                ));
        Problem::from(refused).with_status(StatusCode::PRECONDITION_FAILED)
    };
    let seq = etag_seq(call, etag).ok_or_else(unknown)?;
    match snapshot(call, id, seq).await {
        Ok(base) => Ok(Base::Of(Box::new(base))),
        Err(problem) if problem.code() == Code::NotFound => Err(unknown()),
        Err(problem) => Err(problem),
    }
}

/// Returns the record of an ETag created by [`Snapshot::etag`], if this log contains it.
fn etag_seq(call: &Call, etag: &str) -> Option<Seq> {
    let (generation, seq) = etag.strip_prefix('"')?.strip_suffix('"')?.split_once('-')?;
    let (generation, seq) = (Generation(generation.parse().ok()?), Seq(seq.parse().ok()?));
    let published = call.space.published();
    let exists = seq.0 > 0 && seq <= published.head.seq && published.generations.at_seq(seq) == generation;
    exists.then_some(seq)
}

/// Returns the operations that apply the change to the current state, if any.
fn ops(
    call: &Call,
    submitted: &SubmittedState,
    base: &Base,
    current: &Snapshot,
) -> Result<Option<Vec<Op>>, Problem> {
    let id = &current.session.id;
    check_writer(call, &current.session)?;
    let target = match base {
        Base::None => {
            let target = submitted.completed_from(&current.state);
            let written = current.is_written();
            let written = if written { current.state.document() } else { current.state.lists_only() };
            match merge::first_change(&written, &target) {
                Some(pointer) => return Err(if_match_required(id, &pointer)),
                None => target,
            }
        }
        Base::Current => submitted.completed_from(&current.state),
        Base::Of(base) => {
            let submitted_document = submitted.completed_from(&base.state);
            let merged = merge::merge(&base.state.document(), &current.state.document(), &submitted_document);
            if !merged.conflicts.is_empty() {
                return Err(conflict(id, merged.conflicts));
            }
            merged.document
        }
    };
    let changes = current.state.plan(id.as_str(), &target).map_err(Refused::from)?;
    // An idempotency key needs a record to be stored in.
    if changes.is_empty && call.key.is_none() {
        return Ok(None);
    }
    let mut ops = Vec::with_capacity(changes.added.len() + 1);
    for (kind, item) in &changes.added {
        ops.push(add_op(call, id, *kind, item)?);
    }
    ops.push(put_op(call, id, &changes.entry, current.expected())?);
    Ok(Some(ops))
}

/// Returns the operations that open a session led by the caller, with the known agents of the state as participants,
/// and write its first state.
fn open_ops(
    call: &Call,
    id: &SessionId,
    submitted: &SubmittedState,
    base: &Base,
) -> Result<Option<Vec<Op>>, Problem> {
    if !matches!(base, Base::None) {
        let refused = Refused::new(Code::VersionConflict, format!("there is no session {id}"))
            .hint("PUT without If-Match to open the session");
        return Err(Problem::from(refused).with_status(StatusCode::PRECONDITION_FAILED));
    }
    let published = call.space.published();
    let participants = submitted.agents().into_iter().filter_map(|name| AgentId::new(name).ok());
    let participants = participants
        .filter(|agent| published.agents.number(agent).is_some() && Some(agent) != call.calling_agent());
    let title: String = submitted.objective().chars().take(TITLE_CHARS).collect();
    let open = OpenSession {
        id: Some(id.clone()),
        coordinator: call.calling_agent().cloned(),
        participants: participants.collect(),
        title: if title.is_empty() { id.to_string() } else { title },
        task: None,
    };
    let empty = OrchestratorState::new(open.title.clone(), to_raw_json(&serde_json::Map::new()));
    let changes = empty.plan(id.as_str(), &submitted.completed_from(&empty)).map_err(Refused::from)?;
    let mut ops = vec![Op::OpenSession(open)];
    for (kind, item) in &changes.added {
        ops.push(add_op(call, id, *kind, item)?);
    }
    ops.push(put_op(call, id, &changes.entry, Version(0))?);
    Ok(Some(ops))
}

fn add_op(call: &Call, id: &SessionId, kind: ContributionKind, item: &RawValue) -> Result<Op, Refused> {
    Ok(Op::AddToSession(AddToSession {
        session: id.clone(),
        kind,
        body: call.parse_context().payload(Some(&item.into()), None)?,
        content_type: None,
        rationale: String::new(),
    }))
}

fn put_op(call: &Call, id: &SessionId, rest: &RawValue, expect: Version) -> Result<Op, Refused> {
    Ok(Op::Put(PutEntry {
        key: entry_key(id)?,
        entry_type: "sharedState".to_owned(),
        content: call.parse_context().payload(Some(&rest.into()), None)?,
        content_type: None,
        expect: Some(expect),
        depends_on: Vec::new(),
        fence: None,
    }))
}

/// Checks write access: participants, coordinators, and principals that are not agents.
fn check_writer(call: &Call, session: &Session) -> Result<(), Refused> {
    if session.status.is_closed() {
        let detail = format!("session {} is {}", session.id, session.status.as_str());
        return Err(
            Refused::new(Code::SessionClosed, detail).hint("open a new session; this one stays readable")
        );
    }
    let Some(caller) = call.calling_agent() else { return Ok(()) };
    let is_coordinator = || {
        call.space.published().agents.by_id(caller).is_some_and(|agent| agent.role == AgentRole::Coordinator)
    };
    if session.has_participant(caller) || session.coordinator.as_ref() == Some(caller) || is_coordinator() {
        return Ok(());
    }
    let detail =
        format!("agent {caller} is neither a participant of session {} nor a coordinator", session.id);
    Err(Refused::new(Code::Forbidden, detail).hint("ask the coordinator to add you to the session"))
}

fn if_match_required(id: &SessionId, pointer: &str) -> Problem {
    let detail = format!("{pointer} would be changed or removed, but the request has no If-Match");
    let refused = Refused::new(Code::VersionConflict, detail).hint(format!(
        "only additions are accepted without If-Match; GET /v1/sessions/{id}/state, and PUT with its ETag in If-Match"
    ));
    Problem::from(refused).with_status(StatusCode::PRECONDITION_REQUIRED)
}

fn conflict(id: &SessionId, conflicts: Vec<merge::Conflict>) -> Problem {
    let pointers: Vec<_> = conflicts.iter().take(3).map(|conflict| conflict.pointer.as_str()).collect();
    let more = if conflicts.len() > pointers.len() { ", …" } else { "" };
    let detail =
        format!("merge conflict at {}{more}: another writer has changed the same value", pointers.join(", "));
    let refused = Refused::new(Code::Conflict, detail).hint(format!(
        "compare yours with current in conflicts, GET /v1/sessions/{id}/state, and PUT the resolved state with its ETag"
    ));
    Problem::from(refused).with_conflicts(conflicts)
}
