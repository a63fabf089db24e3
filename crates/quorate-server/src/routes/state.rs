//! `GET /v1/state`: what is there after a record, to show it and to go on from with `GET /v1/events?from=SEQ+1`.

use std::collections::HashMap;
use std::sync::Arc;

use quorate_api::approval::Approval;
use quorate_api::lock::Lock;
use quorate_api::state::{State as StateJson, StateList};
use quorate_api::stats::task_counts;
use quorate_api::task::Task;
use quorate_core::{
    AgentId, Agents, Code, Counts, Item, ItemKind, Refused, Seq, SpaceId, TaskCounts, Timestamp, World,
};
use quorate_engine::{Error, Pace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::{Route, get, words};
use crate::call::{Answer, Call, ok};
use crate::wire::effect;

/// Records that are folded for one answer. What is older is in the audit.
const FOLDED_MAX: u64 = 1_000_000;
/// Records read at once.
const PAGE: usize = 64;
/// How many of each noun are shown.
const SHOWN_MAX: usize = 1_000;
/// The items that are shown.
const SHOWN: [ItemKind; 5] =
    [ItemKind::Session, ItemKind::Lock, ItemKind::Task, ItemKind::Procedure, ItemKind::Approval];

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/state", "state.get", "What is there, now or after a record, to go on from with the events.")
            .query::<Wanted>()
            .answers::<StateJson>(200, "At most 1,000 of each noun; `more` says of which there are more.")
            .bulk(state),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// The record; the newest one if nothing is said.
    at: Option<String>,
    /// The newest record at a time.
    #[schemars(with = "Option<words::Time>")]
    time: Option<String>,
}

/// What is there, whatever the way it was found.
struct State {
    seq: Seq,
    at: Timestamp,
    agents: Arc<Agents>,
    counts: Counts,
    tasks: TaskCounts,
    /// Of each of [`SHOWN`] one more than is shown, if there are more.
    items: HashMap<ItemKind, Vec<Item>>,
}

pub(crate) async fn state(call: Call) -> Answer {
    let wanted: Wanted = call.query()?;
    let head = call.space.published().head.seq;
    let state = match call.past(wanted.at.as_deref(), wanted.time.as_deref()).await? {
        None => at_the_head(&call).await?,
        Some(at) if at == head => at_the_head(&call).await?,
        Some(at) => folded(&call, at).await?,
    };
    ok(&shown(&state))
}

/// What is current. Items may be newer than the record that is named: what is told of them again from there on is their whole
/// state, so that nothing is counted twice.
async fn at_the_head(call: &Call) -> Result<State, Error> {
    let published = call.space.published();
    let mut items = HashMap::new();
    for kind in SHOWN {
        let wanted = |item: Item| may_show(&item, call.by(), &published.agents).then_some(item);
        let mut found = call.space.items(kind, None, SHOWN_MAX + 1, wanted).await?;
        while found.items.len() <= SHOWN_MAX
            && let Some(after) = found.cursor.take()
        {
            // It looked at many that are over.
            let missing = SHOWN_MAX + 1 - found.items.len();
            let more = call.space.items(kind, Some(after), missing, wanted).await?;
            found.items.extend(more.items);
            found.cursor = more.cursor;
        }
        items.insert(kind, found.items);
    }
    Ok(State {
        seq: published.head.seq,
        at: published.head.at,
        agents: Arc::clone(&published.agents),
        counts: published.counts,
        tasks: published.tasks,
        items,
    })
}

/// Whether it goes on, and concerns whoever looks.
fn may_show(item: &Item, viewer: Option<&AgentId>, agents: &Agents) -> bool {
    let is_open = match item {
        Item::Task(task) => !task.status().is_over(),
        Item::Procedure(procedure) => !procedure.status.is_over(),
        Item::Approval(approval) => approval.state.over_since().is_none(),
        _ => true,
    };
    is_open
        && viewer.is_none_or(|viewer| {
            effect::item_is_for_all(item) || effect::item_names(item, viewer, agents.number(viewer))
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
    let busy = || {
        Refused::new(Code::Overloaded, "another look at the past is under way").hint("ask again in a moment")
    };
    // It holds the whole state of the space.
    let _underway = call.app.exclusive().begin("state.get", call.space.number()).ok_or_else(busy)?;
    let mut world = World::new(id_of(call)?);
    let (mut next, mut when, mut pace) = (Seq(1), Timestamp::default(), Pace::default());
    while next <= at {
        let wanted = PAGE.min((at.0 - next.0) as usize + 1);
        let records = call.space.log(next, wanted).await?;
        let Some(last) = records.last() else { break };
        (next, when) = (Seq(last.seq.0 + 1), last.at);
        for record in &records {
            let unreadable = |why| Refused::new(Code::Unavailable, format!("the log is not readable: {why}"));
            world.apply(record).map_err(unreadable)?;
            pace.after(record).await;
        }
    }
    let agents = Arc::clone(world.working.agents());
    let of = |kind: ItemKind| {
        let all = world.items.iter().filter(|(key, _)| key.kind == kind).map(|(_, item)| item);
        all.filter(|item| may_show(item, call.by(), &agents)).take(SHOWN_MAX + 1).cloned().collect()
    };
    Ok(State {
        seq: at,
        at: when,
        counts: world.working.counts(),
        tasks: world.working.task_counts(),
        items: SHOWN.into_iter().map(|kind| (kind, of(kind))).collect(),
        agents,
    })
}

fn id_of(call: &Call) -> Result<SpaceId, Refused> {
    let spaces = call.app.engine().store().spaces();
    let found = spaces.into_iter().find(|info| info.number == call.space.number());
    found.map(|info| info.id).ok_or_else(|| Refused::new(Code::Unavailable, "the space has no identity"))
}

fn shown(state: &State) -> StateJson {
    let agents = &*state.agents;
    let mut more = Vec::new();
    let mut summaries: Vec<_> = { agents.iter() }
        .filter(|(_, agent)| !agent.removed)
        .take(SHOWN_MAX + 1)
        .map(|(_, agent)| agent.into())
        .collect();
    if summaries.len() > SHOWN_MAX {
        summaries.truncate(SHOWN_MAX);
        more.push(StateList::Agents);
    }
    let mut list = |kind, list| -> &[Item] {
        let items = state.items.get(&kind).map_or(&[][..], Vec::as_slice);
        if items.len() > SHOWN_MAX {
            more.push(list);
        }
        &items[..items.len().min(SHOWN_MAX)]
    };
    macro_rules! all {
        ($kind:ident, $list:ident, $noun:ident => $shown:expr) => {{ list(ItemKind::$kind, StateList::$list).iter() }
            .filter_map(|item| match item {
                Item::$kind($noun) => Some($shown),
                _ => None,
            })
            .collect()};
    }
    StateJson {
        seq: state.seq,
        at: state.at,
        agents: summaries,
        deliveries: (&state.counts).into(),
        tasks: task_counts(&state.tasks),
        sessions: all!(Session, Sessions, session => session.into()),
        locks: all!(Lock, Locks, lock => Lock::new(agents, lock)),
        open_tasks: all!(Task, OpenTasks, task => Task::new(agents, task)),
        running_procedures: all!(Procedure, RunningProcedures, procedure => procedure.into()),
        pending_approvals: all!(Approval, PendingApprovals, approval => Approval::new(agents, approval)),
        more,
    }
}
