//! What is kept, in the shapes of the dialects: the co-scientist's context entries, and the orchestrator's shared state of
//! a task.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_core::{
    AddToSession, AgentId, Code, Key, LineKind, Op, OpenSession, PutEntry, Refused, Seq, SessionId, Version,
};
use quorate_engine::{Entry, Happening, Page as Span, When};
use schemars::JsonSchema;
use serde_json::value::RawValue;

use crate::api::{Route, get, put, words};
use crate::call::{Answer, Call, answer, ok};
use crate::dialect::entry::{self, EntrySaid};
use crate::dialect::state::{self, LISTS, State};
use crate::dialect::{Wrong, raw_of};
use crate::problem::Problem;
use crate::routes::Past;
use crate::wire::{self, time};
use crate::{body, bulk};

/// Items of one list that the shared state shows.
const ITEMS_MAX: usize = 10_000;
/// Letters of an objective that name a session.
const TITLE_CHARS: usize = 200;

pub(crate) fn routes() -> Vec<Route> {
    const ENTRY: &str = "/v1/dialects/coscientist/entries/{key}";
    const SERVED: &str = "/v1/dialects/coscientist/entries/{*key}";
    const STATE: &str = "/v1/sessions/{id}/state";
    vec![
        get(ENTRY, "dialects.entry", "An entry of the shared memory, in the co-scientist's shape.")
            .path::<words::LongId>("key")
            .answers::<ContextEntry>(200, "The entry.")
            .answered_at(SERVED, show_entry),
        put(ENTRY, "dialects.putEntry", "Writes an entry that is in the co-scientist's shape.")
            .path::<words::LongId>("key")
            .body::<ContextEntry>()
            .answers::<ContextEntry>(200, "It has a new version.")
            .answers::<ContextEntry>(201, "It is new.")
            .answered_at(SERVED, put_entry),
        get(
            STATE,
            "sessions.state",
            "A session as the orchestrator's shared state of a task, as it is or was.",
        )
        .path::<words::Id>("id")
        .query::<Past>()
        .answers::<SharedState>(200, "The shared state.")
        .to(show_state),
        put(
            STATE,
            "sessions.putState",
            "Adds to a session what a shared state has more; opens it if need be.",
        )
        .path::<words::Id>("id")
        .body::<SharedState>()
        .answers::<SharedState>(200, "The shared state.")
        .to(put_state),
    ]
}

/// A context entry. Only described here.
#[derive(JsonSchema)]
#[schemars(rename = "ContextEntry")]
#[allow(dead_code)]
struct ContextEntry {
    #[schemars(with = "Option<words::LongId>")]
    entry_id: (),
    #[schemars(with = "Option<String>")]
    agent_id: (),
    #[schemars(with = "Option<String>")]
    entry_type: (),
    #[schemars(with = "words::Any")]
    content: (),
    #[schemars(with = "Option<words::Time>")]
    created_at: (),
    #[schemars(with = "Option<words::Time>")]
    updated_at: (),
    #[schemars(with = "Option<u64>", range(min = 1))]
    version: (),
    #[schemars(with = "Option<Vec<words::LongId>>")]
    dependencies: (),
}

/// The shared state of a task. Only described here.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SharedState")]
#[allow(dead_code)]
struct SharedState {
    #[schemars(with = "Option<words::Id>")]
    task_id: (),
    /// A number, or a text such as 3a.
    #[schemars(with = "words::Any")]
    current_phase: Option<()>,
    /// `objective`, and the lists `keyDecisions`, `artifacts`, `blockers` and `notes`.
    #[schemars(with = "std::collections::BTreeMap<String, words::Any>")]
    shared_context: (),
    #[schemars(with = "Option<std::collections::BTreeMap<String, words::Any>>")]
    agent_states: (),
}

pub(crate) async fn show_entry(Path(key): Path<String>, call: Call) -> Answer {
    shown(&call, StatusCode::OK, &Key::new(key)?).await
}

async fn shown(call: &Call, status: StatusCode, key: &Key) -> Answer {
    let found = call.space.entry(key, When::Now).await?.filter(|entry| entry.content.is_some());
    let missing = || {
        Refused::new(Code::NotFound, format!("there is no entry {key}"))
            .hint("write it first, or look at the list of entries")
    };
    let entry = found.ok_or_else(missing)?;
    let first = call.space.history(key, Version(0), 1).await?;
    let created_at = first.first().map_or(entry.version.at, |first| first.version.at);
    answer(status, &entry::written(&entry, created_at))
}

/// The version that stands there is the one that the entry is to have: so nobody writes over what it has not read.
pub(crate) async fn put_entry(Path(key): Path<String>, call: Call) -> Answer {
    let key = Key::new(key)?;
    let raw: &RawValue = body::parse(&call.body)?;
    let said = EntrySaid::read(&key, raw).map_err(Refused::from)?;
    if said.agent.is_some() && said.agent.as_ref() != call.by() {
        return Err(not_the_author(said.agent.as_ref()).into());
    }
    let put = PutEntry {
        key: key.clone(),
        entry_type: said.entry_type,
        content: call.sealing().payload(Some(&said.content), None)?,
        content_type: None,
        expect: said.version.map(|version| Version(version - 1)),
        depends_on: said.depends_on,
        fence: None,
    };
    let receipt = call.commit(vec![Op::Put(put)]).await?;
    let is_new = receipt.results.iter().any(
        |result| matches!(result, quorate_core::OpResult::Written { version } if *version == Version(1)),
    );
    shown(&call, if is_new { StatusCode::CREATED } else { StatusCode::OK }, &key).await
}

fn not_the_author(agent: Option<&AgentId>) -> Refused {
    let agent = agent.map(ToString::to_string).unwrap_or_default();
    Refused::new(Code::Forbidden, format!("agent_id: {agent} is not who writes"))
        .hint("an entry is of whoever writes it; leave agent_id out, or let that agent write it")
}

/// Where the part of the state is that a session has no place for.
fn rest_key(id: &SessionId) -> Result<Key, Refused> {
    Key::new(format!("sessions/{id}/state"))
}

pub(crate) async fn show_state(Path(id): Path<String>, call: Call) -> Answer {
    let (id, Past { at, time }) = (SessionId::new(id)?, call.query()?);
    let at = call.past(at.as_deref(), time.as_deref()).await?;
    bulk::answer(call, move |call| async move {
        let (state, _) = there(&call, &id, at).await?;
        ok(&state.written(id.as_str()))
    })
    .await
}

/// What a session and its entry say.
async fn there(call: &Call, id: &SessionId, at: Option<Seq>) -> Result<(State, Option<Entry>), Problem> {
    let session = match at {
        Some(at) => call.space.session_at(id, at).await?,
        None => call.space.session(id).await?,
    };
    let agents = session.participants.iter().filter(|one| one.left_at.is_none());
    let agents: serde_json::Map<_, _> =
        agents.map(|one| (one.agent.to_string(), serde_json::json!({"status": "in_progress"}))).collect();
    let mut state = State {
        objective: session.title.clone(),
        phase: raw_of(&0),
        lists: [const { Vec::new() }; 4],
        agents: raw_of(&agents),
    };
    for ((_, kind), list) in LISTS.iter().zip(&mut state.lists) {
        *list = items(call, id, *kind, at).await?;
    }
    let entry = call.space.entry(&rest_key(id)?, at.map_or(When::Now, When::Seq)).await?;
    if let Some(rest) = entry.as_ref().and_then(|entry| entry.content.as_ref()) {
        state.take_rest(&wire::shown(rest, None).parsed());
    }
    Ok((state, entry))
}

/// What was added of one kind, oldest first.
async fn items(
    call: &Call,
    id: &SessionId,
    kind: quorate_core::AddKind,
    at: Option<Seq>,
) -> Result<Vec<Box<RawValue>>, Problem> {
    let (mut items, mut after) = (Vec::new(), Seq(0));
    while items.len() < ITEMS_MAX {
        let kinds = Some(LineKind::Added(kind));
        let (lines, _) = call.space.timeline(id, kinds, Span::After(after), 256).await?;
        let Some(last) = lines.last() else { break };
        after = last.seq;
        for line in lines.iter().filter(|line| at.is_none_or(|at| line.seq <= at)) {
            let Happening::Added(added) = &line.what else { continue };
            let by = line.by.strip_prefix("agent:").unwrap_or(&line.by);
            let body = wire::shown(&added.body, added.content_type.as_deref()).parsed();
            items.push(state::item(kind, body, by, &time::shown(line.at)));
        }
    }
    Ok(items)
}

/// Adds what is new behind what is there, and writes the rest, in one commit.
pub(crate) async fn put_state(Path(id): Path<String>, call: Call) -> Answer {
    let id = SessionId::new(id)?;
    let raw: &RawValue = body::parse(&call.body)?;
    let state = State::read(id.as_str(), raw).map_err(Refused::from)?;
    let at = match call.answered().await? {
        Some(before) => before.seq,
        None => {
            add_state(&call, &id, &state).await?;
            None
        }
    };
    let (state, _) = there(&call, &id, at).await?;
    ok(&state.written(id.as_str()))
}

async fn add_state(call: &Call, id: &SessionId, state: &State) -> Result<(), Problem> {
    let mut ops = Vec::new();
    let before = match there(call, id, None).await {
        Ok(before) => Some(before),
        Err(problem) if problem.code() == Code::NotFound => None,
        Err(problem) => return Err(problem),
    };
    let expect = match &before {
        Some((_, entry)) => entry.as_ref().map_or(Version(0), |entry| entry.version.head.version),
        None => {
            ops.push(Op::OpenSession(opened(call, id, state)));
            Version(0)
        }
    };
    let added = state.beyond(before.as_ref().map(|(before, _)| before));
    for (kind, item) in added.map_err(conflict)? {
        let body = call.sealing().payload(Some(item), None)?;
        ops.push(Op::AddToSession(AddToSession {
            session: id.clone(),
            kind,
            body,
            content_type: None,
            rationale: String::new(),
        }));
    }
    ops.push(Op::Put(PutEntry {
        key: rest_key(id)?,
        entry_type: "sharedState".to_owned(),
        content: call.sealing().payload(Some(&state.rest()), None)?,
        content_type: None,
        expect: Some(expect),
        depends_on: Vec::new(),
        fence: None,
    }));
    call.commit_asked(ops).await?;
    Ok(())
}

fn conflict(wrong: Wrong) -> Refused {
    let refused = Refused::from(wrong);
    Refused { code: Code::Conflict, ..refused }
}

/// A session of whoever writes, with those agents that the state names and the hub knows.
fn opened(call: &Call, id: &SessionId, state: &State) -> OpenSession {
    let published = call.space.published();
    let named: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(state.agents.get()).unwrap_or_default();
    let known = named.keys().filter_map(|name| AgentId::new(name).ok());
    let known = known.filter(|agent| published.agents.number(agent).is_some() && Some(agent) != call.by());
    let title: String = state.objective.chars().take(TITLE_CHARS).collect();
    OpenSession {
        id: Some(id.clone()),
        coordinator: call.by().cloned(),
        participants: known.collect(),
        title: if title.is_empty() { id.to_string() } else { title },
        task: None,
    }
}
