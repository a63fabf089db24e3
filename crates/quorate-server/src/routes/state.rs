//! `GET /v1/state`: what is there after a record, to show it and to go on from with `GET /v1/events?from=SEQ+1`.

use std::sync::Arc;

use quorate_core::{
    Agent, AgentNo, Agents, Code, Counts, Item, Refused, Seq, SpaceId, TaskCounts, TaskStatus, Timestamp,
    World, describe,
};
use quorate_engine::{Error, Space};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::call::{Answer, Call, ok};
use crate::wire::{effect, time};

/// Records that are folded for one answer. What is older is in the audit.
const FOLDED_MAX: u64 = 1_000_000;
/// Records read at once.
const PAGE: usize = 1_000;
/// How many of each noun are shown.
const SHOWN_MAX: usize = 1_000;
/// Folding takes a core for a while: one at a time.
static FOLDING: Semaphore = Semaphore::const_new(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    at: Option<u64>,
}

/// What is there, whatever the way it was found.
struct State {
    seq: Seq,
    at: Timestamp,
    agents: Arc<Agents>,
    counts: Counts,
    tasks: TaskCounts,
    sessions: Vec<Item>,
    locks: Vec<Item>,
}

pub(crate) async fn state(call: Call) -> Answer {
    let wanted: Wanted = call.query()?;
    let head = call.space.published().head.seq;
    let state = match wanted.at {
        None => at_the_head(&call.space).await?,
        Some(at) if at == head.0 => at_the_head(&call.space).await?,
        Some(at) if at == 0 || at > head.0 => {
            return Err(Refused::new(Code::NotFound, format!("there is no record {at} yet"))
                .hint(format!("the newest one is {head}"))
                .into());
        }
        Some(at) => folded(&call, Seq(at)).await?,
    };
    ok(&shown(&state))
}

/// What is current. Sessions and locks may be newer than the record that is named: what is told of them again from there on
/// is their whole state, so that nothing is counted twice.
async fn at_the_head(space: &Space) -> Result<State, Error> {
    let published = space.published();
    let sessions = space.sessions(None, SHOWN_MAX).await?.into_iter().map(Item::Session).collect();
    let locks = space.locks(None, SHOWN_MAX).await?.into_iter().map(Item::Lock).collect();
    Ok(State {
        seq: published.head.seq,
        at: published.head.at,
        agents: Arc::clone(&published.agents),
        counts: published.counts,
        tasks: published.tasks,
        sessions,
        locks,
    })
}

/// What was there after a record: everything since the first one, once more.
async fn folded(call: &Call, at: Seq) -> Result<State, Error> {
    if at.0 > FOLDED_MAX {
        return Err(Refused::new(Code::LimitExceeded, format!("record {at} is too far from the first one"))
            .limit(FOLDED_MAX)
            .hint("ask for the state at the head, and follow the events from there")
            .into());
    }
    let busy = |_| {
        Refused::new(Code::Overloaded, "another look at the past is under way").hint("ask again in a moment")
    };
    let _permit = FOLDING.try_acquire().map_err(busy)?;
    let mut world = World::new(id_of(call)?);
    let (mut next, mut when) = (Seq(1), Timestamp::default());
    while next <= at {
        let wanted = PAGE.min((at.0 - next.0) as usize + 1);
        let records = call.space.log(next, wanted).await?;
        let Some(last) = records.last() else { break };
        (next, when) = (Seq(last.seq.0 + 1), last.at);
        let read = |why| Refused::new(Code::Unavailable, format!("the log is not readable: {why}"));
        world = tokio::task::spawn_blocking(move || {
            records.iter().try_for_each(|record| world.apply(record)).map(|()| world)
        })
        .await
        .map_err(|_| Refused::new(Code::Unavailable, "the hub is stopping"))?
        .map_err(read)?;
    }
    let of =
        |is: fn(&Item) -> bool| world.items.values().filter(move |item| is(item)).take(SHOWN_MAX).cloned();
    Ok(State {
        seq: at,
        at: when,
        agents: Arc::clone(world.working.agents()),
        counts: world.working.counts(),
        tasks: world.working.task_counts(),
        sessions: of(|item| matches!(item, Item::Session(_))).collect(),
        locks: of(|item| matches!(item, Item::Lock(_))).collect(),
    })
}

fn id_of(call: &Call) -> Result<SpaceId, Refused> {
    let spaces = call.app.engine().store().spaces();
    let found = spaces.into_iter().find(|info| info.number == call.space.number());
    found.map(|info| info.id).ok_or_else(|| Refused::new(Code::Unavailable, "the space has no identity"))
}

fn shown(state: &State) -> Value {
    let counts = state.counts;
    let name = |number: AgentNo| state.agents.get(number).map_or_else(String::new, |one| one.id.to_string());
    let items = |items: &[Item]| -> Vec<Value> {
        items.iter().map(|item| Value::Object(effect::fields(describe::item(item, &name)))).collect()
    };
    let agents: Vec<Value> = { state.agents.iter() }
        .filter(|(_, agent)| !agent.removed)
        .take(SHOWN_MAX)
        .map(|(_, one)| agent(one))
        .collect();
    let tasks: serde_json::Map<_, _> = TaskStatus::ALL
        .iter()
        .map(|status| (status.as_str().to_owned(), state.tasks.of(*status).into()))
        .collect();
    json!({
        "seq": state.seq.0,
        "at": time::shown(state.at),
        "agents": agents,
        "deliveries": {
            "ready": counts.ready, "scheduled": counts.scheduled, "leased": counts.leased,
            "acked": counts.acked, "dead": counts.dead, "expired": counts.expired, "purged": counts.purged,
        },
        "tasks": tasks,
        "sessions": items(&state.sessions),
        "locks": items(&state.locks),
    })
}

fn agent(agent: &Agent) -> Value {
    json!({
        "id": agent.id.to_string(),
        "name": agent.name,
        "role": agent.role.as_str(),
        "capabilities": agent.capabilities,
        "epoch": agent.epoch.0,
        "status": agent.presence.status.as_str(),
        "health": agent.presence.health.as_str(),
        "available": agent.presence.available,
    })
}
