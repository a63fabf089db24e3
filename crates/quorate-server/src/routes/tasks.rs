//! Tasks: make, claim, work on, look at.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_core::{AgentId, Code, Refused, TaskId, TaskStatus};
use quorate_engine::{TaskClaim, TaskFilter};
use serde::Deserialize;
use serde_json::json;

use super::checked_limit;
use super::inbox::checked_wait;
use crate::body::{self, Fields};
use crate::call::{Answer, Call, Listed, answer, ok};
use crate::wire::task::{GraphIn, HolderIn, InHandOut, Say, TaskIn, TaskOut};

/// One task or a graph: all of it or nothing.
pub(crate) async fn create(call: Call) -> Answer {
    let fields: Fields<'_> = body::parse(&call.body)?;
    let tasks = if fields.has("tasks") { fields.read::<GraphIn<'_>>()?.tasks } else { vec![fields.read()?] };
    let tasks = tasks.into_iter();
    let times = call.times();
    let tasks = tasks.map(|task: TaskIn<'_>| task.read(times)).collect::<Result<Vec<_>, _>>()?;
    let commit = call.as_commit(vec![call.space.task_op(tasks)]);
    let ids = call.space.create_tasks(commit).await?;
    let ids: Vec<_> = ids.iter().map(|id| json!({"id": id.to_string()})).collect();
    answer(StatusCode::CREATED, &json!({"tasks": ids}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClaimIn {
    agent: Option<String>,
    #[serde(default)]
    types: Vec<String>,
    max: Option<u32>,
    wait_ms: Option<u64>,
    lease_ms: Option<u64>,
}

pub(crate) async fn claim(call: Call) -> Answer {
    let asked: ClaimIn = body::parse(&call.body)?;
    let wait = checked_wait(call.times(), asked.wait_ms)?;
    let claim = TaskClaim {
        principal: call.principal.clone(),
        epoch: call.epoch,
        agent: call.acting(asked.agent)?,
        types: asked.types,
        lease_ms: asked.lease_ms,
    };
    let held = call.waiting(call.space.claim_tasks(&claim, asked.max.unwrap_or(1), wait)).await?;
    let items = held.iter().map(|task| InHandOut::new(&call.space, task)).collect();
    ok(&Listed { name: "tasks", items, cursor: None })
}

pub(crate) async fn heartbeat(Path(id): Path<String>, call: Call) -> Answer {
    say(&id, &call, Say::Heartbeat).await
}

pub(crate) async fn complete(Path(id): Path<String>, call: Call) -> Answer {
    say(&id, &call, Say::Complete).await
}

pub(crate) async fn fail(Path(id): Path<String>, call: Call) -> Answer {
    say(&id, &call, Say::Fail).await
}

pub(crate) async fn release(Path(id): Path<String>, call: Call) -> Answer {
    say(&id, &call, Say::Release).await
}

pub(crate) async fn cancel(Path(id): Path<String>, call: Call) -> Answer {
    say(&id, &call, Say::Cancel).await
}

async fn say(id: &str, call: &Call, what: Say) -> Answer {
    let op = body::parse::<HolderIn<'_>>(&call.body)?.read(what, &call.sealing(), Some(id))?;
    call.commit(vec![op]).await?;
    whole(call, &TaskId::new(id)?).await
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    whole(&call, &TaskId::new(id)?).await
}

async fn whole(call: &Call, id: &TaskId) -> Answer {
    let view = call.space.task(id).await?;
    ok(&TaskOut::whole(&call.space.published().agents, &view))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    status: Option<String>,
    r#type: Option<String>,
    agent: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

pub(crate) async fn list(call: Call) -> Answer {
    let filter: Filter = call.query()?;
    let status = filter.status.map(|word| {
        let known = TaskStatus::ALL.into_iter().find(|status| status.as_str() == word);
        known.ok_or_else(|| Refused::new(Code::Invalid, format!("there is no task status {word:?}")))
    });
    let meant = TaskFilter {
        status: status.transpose()?,
        task_type: filter.r#type,
        agent: filter.agent.map(AgentId::new).transpose()?,
    };
    let after = filter.cursor.map(TaskId::new).transpose()?;
    let page = call.space.tasks(&meant, after.as_ref(), checked_limit(filter.limit)?).await?;
    let agents = &call.space.published().agents;
    let items = page.tasks.iter().map(|task| TaskOut::new(agents, task)).collect();
    ok(&Listed { name: "tasks", items, cursor: Some(page.cursor.map(|id| id.to_string())) })
}
