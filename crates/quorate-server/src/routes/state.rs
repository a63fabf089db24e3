//! `GET /v1/state`: state as of a record, to be continued with `GET /v1/events?from=SEQ+1`.

use std::collections::HashMap;
use std::sync::Arc;

use quorate_api::approval::Approval;
use quorate_api::lock::Lock;
use quorate_api::state::{State as StateJson, StateList, StateQuery};
use quorate_api::stats::task_counts;
use quorate_api::task::Task;
use quorate_core::{
    AgentId, AgentRegistry, Code, DeliveryStateCounts, Item, ItemKind, Refused, ReplayedSpace, Seq, SpaceId,
    TaskCounts, Timestamp,
};
use quorate_engine::{Error, Yielder};

use crate::api::{Route, get};
use crate::call::{ApiResult, Call, ok_response};
use crate::wire::visibility;

/// Maximum number of records to replay for `/v1/state?at=`. Older history is available in the audit export.
const REPLAYED_MAX: u64 = 1_000_000;
/// Records per read.
const PAGE: usize = 64;
/// Maximum number of items per list of `/v1/state`.
const ITEMS_MAX: usize = 1_000;
/// Listed kinds of items.
const LISTED_KINDS: [ItemKind; 5] =
    [ItemKind::Session, ItemKind::Lock, ItemKind::Task, ItemKind::Procedure, ItemKind::Approval];

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get(
            "/v1/state",
            "state.get",
            "Get the state of the space, optionally as of a past record. Continue with the events after it.",
        )
        .query_parameters::<StateQuery>()
        .returns::<StateJson>(200, "At most 1,000 items per list; `more` names the truncated lists.")
        .handled_in_bulk_by(state),
    ]
}

/// State as of a record.
struct State {
    seq: Seq,
    at: Timestamp,
    agents: Arc<AgentRegistry>,
    counts: DeliveryStateCounts,
    tasks: TaskCounts,
    /// By kind; one more item than the maximum if a list is truncated.
    items: HashMap<ItemKind, Vec<Item>>,
}

pub(crate) async fn state(call: Call) -> ApiResult {
    let query: StateQuery = call.query()?;
    let head = call.space.published().head.seq;
    let state = match call.as_of(query.at.as_deref(), query.time.as_deref()).await? {
        None => current_state(&call).await?,
        Some(at) if at == head => current_state(&call).await?,
        Some(at) => replay(&call, at).await?,
    };
    ok_response(&render(&state))
}

/// Returns the current state. Items may be newer than the stated record. That is safe: later events carry the full
/// state of an item, so applying them again changes nothing.
async fn current_state(call: &Call) -> Result<State, Error> {
    let published = call.space.published();
    let mut items = HashMap::new();
    for kind in LISTED_KINDS {
        let visible = |item: Item| is_visible(&item, call.calling_agent(), &published.agents).then_some(item);
        let mut page = call.space.items(kind, None, ITEMS_MAX + 1, visible).await?;
        while page.items.len() <= ITEMS_MAX
            && let Some(after) = page.cursor.take()
        {
            // The page contained many items that have ended.
            let missing = ITEMS_MAX + 1 - page.items.len();
            let more = call.space.items(kind, Some(after), missing, visible).await?;
            page.items.extend(more.items);
            page.cursor = more.cursor;
        }
        items.insert(kind, page.items);
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

/// Whether the item is open and visible to the reader.
fn is_visible(item: &Item, viewer: Option<&AgentId>, agents: &AgentRegistry) -> bool {
    let is_open = match item {
        Item::Task(task) => !task.status().has_ended(),
        Item::Procedure(procedure) => !procedure.status.has_ended(),
        Item::Approval(approval) => approval.state.ended_in().is_none(),
        _ => true,
    };
    is_open
        && viewer.is_none_or(|viewer| {
            visibility::is_item_public(item)
                || visibility::item_concerns_agent(item, viewer, agents.number(viewer))
        })
}

/// Returns the state as of a record by replaying the log from the first record.
async fn replay(call: &Call, at: Seq) -> Result<State, Error> {
    if at.0 > REPLAYED_MAX {
        return Err(Refused::new(
            Code::LimitExceeded,
            format!("record {at} exceeds the maximum number of records to replay"),
        )
        .limit(REPLAYED_MAX)
        .hint("get the current state, and follow the events from there")
        .into());
    }
    let busy = || {
        Refused::new(Code::Overloaded, "another as-of read of this space is already running")
            .hint("retry later")
    };
    // A replay holds the whole state of the space in memory.
    let _job = call.app.exclusive_jobs().try_start("state.get", call.space.number()).ok_or_else(busy)?;
    let mut replayed = ReplayedSpace::new(id_of(call)?);
    let (mut next, mut replayed_at, mut yielder) = (Seq(1), Timestamp::default(), Yielder::default());
    while next <= at {
        let limit = PAGE.min((at.0 - next.0) as usize + 1);
        let records = call.space.log(next, limit).await?;
        let Some(last) = records.last() else { break };
        (next, replayed_at) = (Seq(last.seq.0 + 1), last.at);
        for record in &records {
            let unreadable =
                |error| Refused::new(Code::Unavailable, format!("failed to read the log: {error}"));
            replayed.apply(record).map_err(unreadable)?;
            yielder.after_record(record).await;
        }
    }
    let agents = Arc::clone(replayed.working.agents());
    let items_of = |kind: ItemKind| {
        let all = replayed.items.iter().filter(|(key, _)| key.kind == kind).map(|(_, item)| item);
        all.filter(|item| is_visible(item, call.calling_agent(), &agents))
            .take(ITEMS_MAX + 1)
            .cloned()
            .collect()
    };
    Ok(State {
        seq: at,
        at: replayed_at,
        counts: replayed.working.counts(),
        tasks: replayed.working.task_counts(),
        items: LISTED_KINDS.into_iter().map(|kind| (kind, items_of(kind))).collect(),
        agents,
    })
}

fn id_of(call: &Call) -> Result<SpaceId, Refused> {
    let spaces = call.app.engine().store().spaces();
    let found = spaces.into_iter().find(|info| info.number == call.space.number());
    found
        .map(|info| info.id)
        .ok_or_else(|| Refused::new(Code::Unavailable, "the store has no id for this space"))
}

fn render(state: &State) -> StateJson {
    let agents = &*state.agents;
    let mut more = Vec::new();
    let mut summaries: Vec<_> = { agents.iter() }
        .filter(|(_, agent)| !agent.removed)
        .take(ITEMS_MAX + 1)
        .map(|(_, agent)| agent.into())
        .collect();
    if summaries.len() > ITEMS_MAX {
        summaries.truncate(ITEMS_MAX);
        more.push(StateList::Agents);
    }
    let mut list = |kind, list| -> &[Item] {
        let items = state.items.get(&kind).map_or(&[][..], Vec::as_slice);
        if items.len() > ITEMS_MAX {
            more.push(list);
        }
        &items[..items.len().min(ITEMS_MAX)]
    };
    macro_rules! all {
        ($kind:ident, $list:ident, $noun:ident => $render:expr) => {{ list(ItemKind::$kind, StateList::$list).iter() }
            .filter_map(|item| match item {
                Item::$kind($noun) => Some($render),
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
