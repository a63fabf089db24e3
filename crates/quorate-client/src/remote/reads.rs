//! Read operations over the network, retried while the hub is unavailable.

use std::time::Duration;

use quorate::backend::{AsOf, BackendFuture, BackendReads, Entry, TimelinePage};
use quorate::{
    AgentFilter, AgentInfo, Approval, ApprovalId, ApprovalInfo, Budget, Code, ConsistencyReport, DeadLetter,
    DeliveryStateCounts, Error, InboxDelivery, MessageCursor, MessageFilter, MessageWithDeliveries,
    MessagesPage, OutboxPage, Page, PageQuery, Pattern, Policy, Procedure, ProcedureId, ProcedureInfo,
    ProcedureStatus, Seq, SessionInfo, Snapshot, Task, TaskCounts, TaskFilter, TaskId, TaskWithPayloads,
    TimelineEntry, Version, Violation, Why,
};
use quorate_api::approval::ApprovalWithAction;
use quorate_api::inbox::OutboxMessage;
use quorate_api::policy::{Policy as PolicyJson, Violation as ViolationJson};
use quorate_api::procedure::ProcedureWithState;
use quorate_api::session::SessionWithTask;
use quorate_api::stats::Stats;
use quorate_api::subscription::Subscription;
use quorate_api::why::Explanation as WhyJson;
use quorate_core::{AgentId, BudgetId, Key, Payload, SessionId, TimelineKind};
use serde::de::DeserializeOwned;

use super::RemoteHub;
use super::commit_and_claim::{LONG_POLL_WAIT, RESPONSE_GRACE, with_epoch};
use crate::http::{HttpClient, HttpRequest, percent_encode};
use crate::wire;
use crate::wire::message::convert_page;

/// Maximum page size of the API.
const LIMIT_MAX: usize = 1_000;

impl RemoteHub {
    /// Sends a GET request and parses the response.
    async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        with_query: impl Fn(HttpRequest) -> HttpRequest,
    ) -> Result<T, Error> {
        let http = &self.caller.http;
        self.retrier.retry(|| with_query(http.get(path)).send()).await?.json()
    }

    /// Returns an approval after one long poll for its decision.
    async fn approval_within(&self, id: &ApprovalId, wait: Duration) -> Result<ApprovalInfo, Error> {
        let path = format!("/v1/approvals/{}", percent_encode(id.as_str()));
        let with_query =
            |call: HttpRequest| call.query("waitMs", wait.as_millis()).timeout(wait + RESPONSE_GRACE);
        Ok(self.get::<ApprovalWithAction>(&path, with_query).await?.into())
    }

    /// Returns a task after one long poll for its end.
    pub(super) async fn task_within(
        &self,
        http: &HttpClient,
        epoch: Option<quorate_core::Epoch>,
        id: &TaskId,
        wait: Duration,
    ) -> Result<TaskWithPayloads, Error> {
        let path = format!("/v1/tasks/{}", percent_encode(id.as_str()));
        let call = || {
            let call = http.get(&path).query("waitMs", wait.as_millis()).timeout(wait + RESPONSE_GRACE);
            with_epoch(call, epoch).send()
        };
        self.retrier.retry(call).await?.json()
    }

    /// Returns a task once it has ended or `wait` has elapsed.
    pub(super) async fn task_until(
        &self,
        http: &HttpClient,
        epoch: Option<quorate_core::Epoch>,
        id: &TaskId,
        wait: Duration,
    ) -> Result<TaskWithPayloads, Error> {
        let until = self.clock().now().plus(wait).mono;
        loop {
            let view = self.task_within(http, epoch, id, self.time_left(until).min(LONG_POLL_WAIT)).await?;
            if view.task.status.has_ended() || self.time_left(until).is_zero() {
                return Ok(view);
            }
        }
    }
}

/// Adds an optional query parameter.
fn with_param<T: std::fmt::Display>(call: HttpRequest, name: &str, value: Option<T>) -> HttpRequest {
    match value {
        Some(value) => call.query(name, value),
        None => call,
    }
}

fn with_limit(call: HttpRequest, limit: usize) -> HttpRequest {
    call.query("limit", limit.clamp(1, LIMIT_MAX))
}

/// Converts `NOT_FOUND` to `None`.
fn optional<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == Code::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl RemoteHub {
    /// Reads pages of a list until `limit` items are read or the list ends. The hub can return short pages with a
    /// cursor.
    async fn read_list<T: DeserializeOwned>(
        &self,
        path: &str,
        with_query: impl Fn(HttpRequest) -> HttpRequest,
        mut cursor: Option<String>,
        limit: usize,
    ) -> Result<Page<T>, Error> {
        let mut items = Vec::new();
        loop {
            let left = limit - items.len();
            let with_query = |call| with_param(with_limit(with_query(call), left), "cursor", cursor.as_ref());
            let page: Page<T> = self.get(path, with_query).await?;
            items.extend(page.items);
            // A cursor that does not advance would loop forever.
            if items.len() >= limit || page.cursor.is_none() || page.cursor == cursor {
                return Ok(Page { items, cursor: page.cursor });
            }
            cursor = page.cursor;
        }
    }

    /// Reads a page of a list ordered by creation.
    async fn page<T: DeserializeOwned>(
        &self,
        path: &str,
        with_query: impl Fn(HttpRequest) -> HttpRequest,
        page: PageQuery,
    ) -> Result<Page<T>, Error> {
        let PageQuery { order, cursor, limit } = page;
        self.read_list(path, |call| with_query(call).query("order", order.as_str()), cursor, limit).await
    }
}

impl BackendReads for RemoteHub {
    fn entry(&self, key: Key, as_of: AsOf) -> BackendFuture<'_, Option<Entry>> {
        Box::pin(async move {
            let path = format!("/v1/context/{}", percent_encode(key.as_str()));
            let found = self.get(&path, |call| match as_of {
                AsOf::Latest => call,
                AsOf::Version(version) => call.query("version", version.0),
                AsOf::Seq(seq) => call.query("at", seq.0),
                AsOf::Time(time) => call.query("time", time),
            });
            optional(found.await)
        })
    }

    fn history(&self, key: Key, after: Version, limit: usize) -> BackendFuture<'_, Vec<Entry>> {
        Box::pin(async move {
            let path = format!("/v1/context/{}/history", percent_encode(key.as_str()));
            let found = self.read_list(&path, |call| call, Some(after.0.to_string()), limit).await;
            Ok(optional(found)?.map(|page| page.items).unwrap_or_default())
        })
    }

    fn entries(&self, prefix: String, after: Option<Key>, limit: usize) -> BackendFuture<'_, Vec<Entry>> {
        Box::pin(async move {
            let after = after.map(|key| key.to_string());
            let with_query = |call: HttpRequest| call.query("prefix", &prefix);
            Ok(self.read_list("/v1/context", with_query, after, limit).await?.items)
        })
    }

    fn snapshots(&self, page: PageQuery) -> BackendFuture<'_, Page<Snapshot>> {
        Box::pin(self.page("/v1/context:snapshot", |call| call, page))
    }

    fn check(&self) -> BackendFuture<'_, ConsistencyReport> {
        Box::pin(self.get("/v1/context:check", |call| call))
    }

    fn agents(&self, filter: AgentFilter) -> BackendFuture<'_, Vec<AgentInfo>> {
        Box::pin(async move {
            let AgentFilter { id, capability, action, role, status } = filter;
            let with_query = |call: HttpRequest| {
                let call = with_param(call, "capability", capability.as_ref());
                let call = with_param(call, "action", action.as_ref());
                let call = with_param(call, "role", role.map(|role| role.as_str()));
                with_param(call, "status", status.map(|status| status.as_str()))
            };
            let mut agents = self.read_list("/v1/agents", with_query, None, usize::MAX).await?.items;
            agents.retain(|agent: &AgentInfo| id.as_ref().is_none_or(|id| *id == agent.id));
            Ok(agents)
        })
    }

    fn agent(&self, id: AgentId) -> BackendFuture<'_, AgentInfo> {
        Box::pin(async move {
            let path = format!("/v1/agents/{}", percent_encode(id.as_str()));
            self.get(&path, |call| call).await
        })
    }

    fn subscriptions(&self, agent: AgentId) -> BackendFuture<'_, Vec<Pattern>> {
        Box::pin(async move {
            let path = format!("/v1/agents/{}/subscriptions", percent_encode(agent.as_str()));
            let found = self.read_list::<Subscription>(&path, |call| call, None, usize::MAX).await?;
            Ok(found.items.into_iter().map(|subscription| subscription.topic).collect())
        })
    }

    fn inbox(&self, agent: AgentId, limit: usize) -> BackendFuture<'_, Vec<InboxDelivery>> {
        Box::pin(async move {
            let path = format!("/v1/agents/{}/inbox", percent_encode(agent.as_str()));
            Ok(self.read_list(&path, |call| call, None, limit).await?.items)
        })
    }

    fn outbox(
        &self,
        agent: AgentId,
        before: Option<MessageCursor>,
        limit: usize,
    ) -> BackendFuture<'_, OutboxPage> {
        Box::pin(async move {
            let path = format!("/v1/agents/{}/outbox", percent_encode(agent.as_str()));
            let with_query = |call| with_param(with_limit(call, limit), "cursor", before);
            let found: Page<OutboxMessage> = self.get(&path, with_query).await?;
            let messages = found.items.into_iter().map(|message| message.message_id).collect();
            Ok(OutboxPage { messages, cursor: found.cursor.map(|cursor| cursor.parse()).transpose()? })
        })
    }

    fn dead_letters(&self, agent: Option<AgentId>, limit: usize) -> BackendFuture<'_, Vec<DeadLetter>> {
        Box::pin(async move {
            let with_query = |call| with_param(call, "agent", agent.as_ref());
            Ok(self.read_list("/v1/dead-letters", with_query, None, limit).await?.items)
        })
    }

    fn message(&self, id: String) -> BackendFuture<'_, MessageWithDeliveries> {
        Box::pin(async move { self.get(&format!("/v1/messages/{}", percent_encode(&id)), |call| call).await })
    }

    fn messages(
        &self,
        filter: MessageFilter,
        before: Option<MessageCursor>,
        limit: usize,
    ) -> BackendFuture<'_, MessagesPage> {
        Box::pin(async move {
            let MessageFilter { from, to, kind, session, participant } = filter;
            let with_query = |call: HttpRequest| {
                let call = with_param(with_limit(call, limit), "cursor", before);
                let call = with_param(call, "from", from.as_ref());
                let call = with_param(call, "to", to.as_ref());
                let call = with_param(call, "type", kind.map(|kind| kind.as_str()));
                let call = with_param(call, "session", session.as_ref());
                with_param(call, "agent", participant.as_ref())
            };
            convert_page(self.get("/v1/messages", with_query).await?)
        })
    }

    fn why(&self, id: String) -> BackendFuture<'_, Why> {
        Box::pin(async move {
            // The same endpoint explains tasks and procedures.
            let path = format!("/v1/messages/{}/why", percent_encode(&id));
            Ok(self.get::<WhyJson>(&path, |call| call).await?.into())
        })
    }

    fn task(&self, id: TaskId) -> BackendFuture<'_, TaskWithPayloads> {
        Box::pin(async move { self.task_within(&self.caller.http, None, &id, Duration::ZERO).await })
    }

    fn wait_for_task(&self, id: TaskId, wait: Duration) -> BackendFuture<'_, TaskWithPayloads> {
        Box::pin(async move { self.task_until(&self.caller.http, None, &id, wait).await })
    }

    fn tasks(&self, filter: TaskFilter, page: PageQuery) -> BackendFuture<'_, Page<Task>> {
        Box::pin(async move {
            let with_query = |call: HttpRequest| {
                let call = with_param(call, "status", filter.status.map(|status| status.as_str()));
                let call = with_param(call, "type", filter.task_type.as_ref());
                with_param(call, "agent", filter.agent.as_ref())
            };
            self.page("/v1/tasks", with_query, page).await
        })
    }

    fn session(&self, id: SessionId) -> BackendFuture<'_, SessionInfo> {
        Box::pin(async move {
            Ok(self.get::<SessionWithTask>(&session_path(&id, ""), |call| call).await?.session)
        })
    }

    fn session_task(&self, id: SessionId) -> BackendFuture<'_, Option<Payload>> {
        Box::pin(async move {
            let found: SessionWithTask = self.get(&session_path(&id, ""), |call| call).await?;
            Ok(found.more.task.map(|task| Payload::unsealed(task.0)))
        })
    }

    fn sessions(&self, page: PageQuery) -> BackendFuture<'_, Page<SessionInfo>> {
        Box::pin(self.page("/v1/sessions", |call| call, page))
    }

    fn timeline(
        &self,
        id: SessionId,
        kind: Option<TimelineKind>,
        page: TimelinePage,
        limit: usize,
    ) -> BackendFuture<'_, (Vec<TimelineEntry>, Option<Seq>)> {
        Box::pin(async move {
            let with_query = |call: HttpRequest| {
                let call = with_param(with_limit(call, limit), "kind", kind.map(TimelineKind::as_str));
                match page {
                    TimelinePage::After(seq) => call.query("cursor", seq.0),
                    TimelinePage::Before(Seq(u64::MAX)) => call.query("newest", true),
                    TimelinePage::Before(seq) => call.query("newest", true).query("cursor", seq.0),
                }
            };
            let found: Page<TimelineEntry> = self.get(&session_path(&id, "/timeline"), with_query).await?;
            let next = found.cursor.map(|cursor| cursor.parse().map(Seq)).transpose();
            Ok((found.items, next.map_err(|error| wire::unexpected_response(&error))?))
        })
    }

    fn procedure(&self, id: ProcedureId, at: Option<Seq>) -> BackendFuture<'_, ProcedureInfo> {
        Box::pin(async move {
            let path = format!("/v1/procedures/{}", percent_encode(id.as_str()));
            Ok(self.get::<ProcedureWithState>(&path, |call| with_param(call, "at", at)).await?.into())
        })
    }

    fn wait_for_procedure(
        &self,
        id: ProcedureId,
        after: Option<Version>,
        wait: Duration,
    ) -> BackendFuture<'_, ProcedureInfo> {
        Box::pin(async move {
            let path = format!("/v1/procedures/{}", percent_encode(id.as_str()));
            let until = self.clock().now().plus(wait).mono;
            loop {
                let poll = self.time_left(until).min(LONG_POLL_WAIT);
                let with_query = |call: HttpRequest| {
                    let call = call.query("waitMs", poll.as_millis()).timeout(poll + RESPONSE_GRACE);
                    with_param(call, "afterVersion", after)
                };
                let info: ProcedureInfo = self.get::<ProcedureWithState>(&path, with_query).await?.into();
                let status = info.procedure().status;
                let is_over = match after {
                    Some(after) => info.version() > after || status.has_ended(),
                    None => status != ProcedureStatus::Running,
                };
                if is_over || self.time_left(until).is_zero() {
                    return Ok(info);
                }
            }
        })
    }

    fn procedures(
        &self,
        status: Option<ProcedureStatus>,
        page: PageQuery,
    ) -> BackendFuture<'_, Page<Procedure>> {
        let with_query = move |call| with_param(call, "status", status.map(ProcedureStatus::as_str));
        Box::pin(self.page("/v1/procedures", with_query, page))
    }

    fn approval(&self, id: ApprovalId, wait: Duration) -> BackendFuture<'_, ApprovalInfo> {
        Box::pin(async move {
            let until = self.clock().now().plus(wait).mono;
            loop {
                let approval = self.approval_within(&id, self.time_left(until).min(LONG_POLL_WAIT)).await?;
                if !approval.is_pending() || self.time_left(until).is_zero() {
                    return Ok(approval);
                }
            }
        })
    }

    fn pending_approvals(&self, page: PageQuery) -> BackendFuture<'_, Page<Approval>> {
        Box::pin(self.page("/v1/approvals", |call| call.query("state", "pending"), page))
    }

    fn budget(&self, id: BudgetId) -> BackendFuture<'_, Option<Budget>> {
        Box::pin(async move {
            let path = format!("/v1/budgets/{}", percent_encode(id.as_str()));
            optional(self.get(&path, |call| call).await)
        })
    }

    fn policy(&self) -> BackendFuture<'_, Policy> {
        Box::pin(async move { Ok(self.get::<PolicyJson>("/v1/policy", |call| call).await?.into()) })
    }

    fn violations(&self) -> BackendFuture<'_, Vec<Violation>> {
        Box::pin(async move {
            let found =
                self.read_list::<ViolationJson>("/v1/violations", |call| call, None, usize::MAX).await?;
            Ok(found.items.into_iter().map(ViolationJson::into_core).collect::<Result<_, _>>()?)
        })
    }

    fn counts(&self) -> BackendFuture<'_, (DeliveryStateCounts, TaskCounts)> {
        Box::pin(async move {
            let stats: Stats = self.get("/v1/admin/stats", |call| call).await?;
            let tasks = stats
                .task_counts()
                .ok_or_else(|| wire::unexpected_response(&"a task state without a count"))?;
            Ok((stats.deliveries.into(), tasks))
        })
    }
}

fn session_path(id: &SessionId, rest: &str) -> String {
    format!("/v1/sessions/{}{rest}", percent_encode(id.as_str()))
}
