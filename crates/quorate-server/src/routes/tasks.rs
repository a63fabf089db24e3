//! Tasks: create, claim, work on, get, list.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::claim::{CreatedTasks, TaskClaim as NewClaim};
use quorate_api::page::ListQuery;
use quorate_api::result::TaskRef;
use quorate_api::task::{
    self, HeldTask, NewTasks, Task, TaskCancellation, TaskCompletion, TaskFailure, TaskGetQuery,
    TaskHeartbeat, TaskListQuery, TaskRelease, TaskWithPayloads,
};
use quorate_core::{AgentId, Code, ItemKind, Op, Seq, TaskId};
use quorate_engine::{TaskClaimQuery, TaskFilter, views};

use super::inbox::check_wait;
use super::{at_with_wait, item_page, page_query};
use crate::api::{Route, get, post, schema};
use crate::call::{ApiResult, Call, NamedList, json_response, ok_response};
use crate::{body, bulk};

pub(crate) fn routes() -> Vec<Route> {
    let change = |path, id, summary| {
        post(path, id, summary)
            .path_parameter::<schema::Id>("id", "Task ID.")
            .returns::<TaskWithPayloads>(200, "The task.")
    };
    vec![
        post("/v1/tasks", "tasks.create", "Create a task, or a graph of tasks atomically.")
            .request_body::<NewTasks<'_>>()
            .returns::<CreatedTasks>(201, "The tasks were created.")
            .handled_by(create),
        get("/v1/tasks", "tasks.list", "List tasks, newest first.")
            .query_parameters::<TaskListQuery>()
            .returns_page::<Task>("tasks")
            .handled_in_bulk_by(list),
        post("/v1/tasks/claim", "tasks.claim", "Claim tasks under a lease. Set `waitMs` to wait for one.")
            .request_body::<NewClaim>()
            .returns_list::<HeldTask>("tasks")
            .handled_by(claim),
        get(
            "/v1/tasks/{id}",
            "tasks.get",
            "Get a task with its payloads, optionally as of a past record. Set `waitMs` to wait for its end.",
        )
        .path_parameter::<schema::Id>("id", "Task ID.")
        .query_parameters::<TaskGetQuery>()
        .returns::<TaskWithPayloads>(200, "The task.")
        .handled_by(show),
        change(
            "/v1/tasks/{id}/heartbeat",
            "tasks.heartbeat",
            "Extend the lease of a task, optionally with a partial result.",
        )
        .request_body::<TaskHeartbeat<'_>>()
        .handled_by(heartbeat),
        change("/v1/tasks/{id}/complete", "tasks.complete", "Complete a task with its result.")
            .request_body::<TaskCompletion<'_>>()
            .handled_by(complete),
        change("/v1/tasks/{id}/fail", "tasks.fail", "Report a failed attempt.")
            .request_body::<TaskFailure<'_>>()
            .handled_by(fail),
        change("/v1/tasks/{id}/release", "tasks.release", "Release a task without counting an attempt.")
            .request_body::<TaskRelease>()
            .handled_by(release),
        change("/v1/tasks/{id}/cancel", "tasks.cancel", "Cancel a task.")
            .request_body::<TaskCancellation>()
            .handled_by(cancel),
    ]
}

/// Creates one task or a graph of tasks atomically.
pub(crate) async fn create(call: Call) -> ApiResult {
    let is_list = call.body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let op = match is_list {
        true => task::create_tasks_op(body::parse_one_or_list(&call.body)?, &call.parse_context())?,
        false => task::parse_create(body::parse(&call.body)?, &call.parse_context())?,
    };
    let commit = call.new_commit(vec![op]);
    let ids = call.space.create_tasks(commit).await?;
    let tasks = ids.into_iter().map(|id| TaskRef { id }).collect();
    json_response(StatusCode::CREATED, &CreatedTasks { tasks })
}

pub(crate) async fn claim(call: Call) -> ApiResult {
    let request: NewClaim = body::parse(&call.body)?;
    let wait = check_wait(call.durations(), request.wait_ms)?;
    let claim = TaskClaimQuery {
        principal: call.principal.clone(),
        epoch: call.epoch,
        token: call.agent_token,
        agent: call.acting_agent(request.agent)?,
        types: request.types,
        lease_ms: request.lease_ms,
    };
    let max = request.max.unwrap_or(1);
    let make_commit = |ops| call.new_commit(ops);
    let (held, since) = call.wait(call.space.claim_tasks_idempotent(&make_commit, &claim, max, wait)).await?;
    let agents = &call.space.published().agents;
    let items = held.iter().map(|task| views::held_task(agents, task, since)).collect();
    ok_response(&NamedList { name: "tasks", items })
}

pub(crate) async fn heartbeat(Path(id): Path<String>, call: Call) -> ApiResult {
    let id = TaskId::new(id)?;
    let op =
        body::parse::<TaskHeartbeat<'_>>(&call.body)?.into_core(&call.parse_context(), Some(id.clone()))?;
    change(id, &call, op).await
}

pub(crate) async fn complete(Path(id): Path<String>, call: Call) -> ApiResult {
    let id = TaskId::new(id)?;
    let op =
        body::parse::<TaskCompletion<'_>>(&call.body)?.into_core(&call.parse_context(), Some(id.clone()))?;
    change(id, &call, op).await
}

pub(crate) async fn fail(Path(id): Path<String>, call: Call) -> ApiResult {
    let id = TaskId::new(id)?;
    let op =
        body::parse::<TaskFailure<'_>>(&call.body)?.into_core(&call.parse_context(), Some(id.clone()))?;
    change(id, &call, op).await
}

pub(crate) async fn release(Path(id): Path<String>, call: Call) -> ApiResult {
    let id = TaskId::new(id)?;
    let op = body::parse::<TaskRelease>(&call.body)?.into_core(Some(id.clone()))?;
    change(id, &call, op).await
}

pub(crate) async fn cancel(Path(id): Path<String>, call: Call) -> ApiResult {
    let id = TaskId::new(id)?;
    let op = body::parse::<TaskCancellation>(&call.body)?.into_core(Some(id.clone()))?;
    change(id, &call, op).await
}

async fn change(id: TaskId, call: &Call, op: Op) -> ApiResult {
    // A heartbeat without a partial result leaves no record.
    let has_record = !matches!(&op, Op::HeartbeatTask(heartbeat) if heartbeat.partial.is_none());
    let receipt = call.commit(vec![op]).await?;
    match respond(call, &id, receipt.seq.filter(|_| has_record)).await {
        // The change is committed. If its record is too old to read as of, return the current state instead of an
        // error.
        Err(problem) if problem.code() == Code::LimitExceeded => respond(call, &id, None).await,
        response => response,
    }
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    let TaskGetQuery { at, time, wait_ms } = call.query()?;
    let (id, wait) = (TaskId::new(id)?, check_wait(call.durations(), wait_ms)?);
    let at = call.as_of(at.as_deref(), time.as_deref()).await?;
    if at.is_some() && !wait.is_zero() {
        return Err(at_with_wait().into());
    }
    if at.is_some() {
        return bulk::run_as_bulk_read(call, move |call| async move { respond(&call, &id, at).await }).await;
    }
    if wait.is_zero() {
        return respond(&call, &id, None).await;
    }
    let ended = async {
        let Some(caller) = call.calling_agent() else { return call.space.wait_for_task(&id, wait).await };
        match call.space.wait_for_task_as_agent(caller, call.epoch, &id, None, wait).await {
            Err(error) if error.code() == Code::Timeout => call.space.task(&id).await,
            other => other,
        }
    };
    let view = call.wait(ended).await?;
    ok_response(&views::task_with_payloads(&call.space.published().agents, &view))
}

/// Returns the task as of a record. After a change that is the record of the change, so that an idempotent replay
/// returns the same response.
async fn respond(call: &Call, id: &TaskId, at: Option<Seq>) -> ApiResult {
    let view = match at {
        Some(at) => call.space.task_at(id, at).await?,
        None => call.space.task(id).await?,
    };
    ok_response(&views::task_with_payloads(&call.space.published().agents, &view))
}

pub(crate) async fn list(call: Call) -> ApiResult {
    let filter: TaskListQuery = call.query()?;
    let status = filter.status.as_deref().map(task::parse_task_status);
    let task_filter = TaskFilter {
        status: status.transpose()?,
        task_type: filter.r#type,
        agent: filter.agent.map(AgentId::new).transpose()?,
    };
    let list_query = ListQuery { order: filter.order, limit: filter.limit, cursor: filter.cursor };
    let query = page_query(list_query)?;
    let page = call.space.tasks(&task_filter, query.range(ItemKind::Task)?, query.limit).await?;
    let agents = &call.space.published().agents;
    item_page("tasks", &page, |task| Task::new(agents, task))
}
