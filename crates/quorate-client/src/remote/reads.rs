//! Looks at a hub over the network: one call each, repeated while the hub is out of reach.

use std::time::Duration;

use quorate::link::{Entry, Page, Promise, Reads, When};
use quorate::{
    AgentFilter, AgentInfo, ApprovalId, ApprovalInfo, ApprovalPage, Before, BudgetInfo, Check, Code, Counts,
    DeadLetter, Error, Letter, MessageFilter, MessageInfo, MessagesPage, OutboxPage, Pattern, Policy,
    ProcedureId, ProcedureInfo, ProcedurePage, ProcedureStatus, Seq, SessionInfo, Snapshot, TaskCounts,
    TaskFilter, TaskId, TaskPage, TaskView, TimelineLine, Version, Violation, Why,
};
use quorate_core::{AgentId, BudgetId, Key, LineKind, Payload, SessionId};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Connection;
use super::calls::{GRACE, WAIT, as_of, text};
use crate::http::{Answer, Http, Request, segment};
use crate::wire::approval::{ApprovalIn, ApprovalsIn};
use crate::wire::entry::{EntriesIn, EntryIn};
use crate::wire::going_back::{CheckIn, SnapshotIn, SnapshotsIn};
use crate::wire::message::MessagesIn;
use crate::wire::procedure::{ProcedureIn, ProceduresIn};
use crate::wire::rules::{PolicyIn, StatsIn, ViolationIn, ViolationsIn};
use crate::wire::session::{LineIn, SessionIn, SessionsIn, TimelineIn};
use crate::wire::task::{PageIn, WholeIn};
use crate::wire::view::{
    AgentIn, AgentsIn, BudgetIn, DeadIn, DeadLettersIn, InboxIn, LetterIn, MessageStateIn, OutboxIn,
};
use crate::wire::why::WhyIn;
use crate::wire::{self, Text, all, time_out};

/// How many a list shows at most.
const LIMIT_MAX: usize = 1_000;

/// Some of a list, and where it goes on.
type Part<T> = (Vec<T>, Option<String>);

#[derive(Deserialize)]
struct SubscriptionsIn {
    subscriptions: Vec<TopicIn>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct TopicIn {
    topic: Text<Pattern>,
}

impl Connection {
    /// The answer to a look.
    async fn look(&self, path: &str, ask: impl Fn(Request) -> Request) -> Result<Answer, Error> {
        let http = &self.own.http;
        self.patience.persist(|| ask(http.get(path)).send()).await
    }

    /// The same, read.
    async fn seen<T: DeserializeOwned>(
        &self,
        path: &str,
        ask: impl Fn(Request) -> Request,
    ) -> Result<T, Error> {
        self.look(path, ask).await?.json()
    }

    /// An approval; waits until it is over, but not for long.
    async fn approval_within(&self, id: &ApprovalId, wait: Duration) -> Result<ApprovalInfo, Error> {
        let path = format!("/v1/approvals/{}", segment(id.as_str()));
        let ask = |call: Request| call.query("waitMs", wait.as_millis()).within(wait + GRACE);
        let answer = self.look(&path, ask).await?;
        wire::read::<ApprovalIn<'_>>(text(&answer.body)?)?.read()
    }

    /// A task; waits until it is over, but not for long.
    pub(super) async fn task_within(
        &self,
        http: &Http,
        epoch: Option<quorate_core::Epoch>,
        id: &TaskId,
        wait: Duration,
    ) -> Result<TaskView, Error> {
        let path = format!("/v1/tasks/{}", segment(id.as_str()));
        let call = || {
            let call = http.get(&path).query("waitMs", wait.as_millis()).within(wait + GRACE);
            as_of(call, epoch).send()
        };
        let answer = self.patience.persist(call).await?;
        wire::read::<WholeIn<'_>>(text(&answer.body)?)?.read()
    }

    /// A task as soon as it is over, or the time is.
    pub(super) async fn task_until(
        &self,
        http: &Http,
        epoch: Option<quorate_core::Epoch>,
        id: &TaskId,
        wait: Duration,
    ) -> Result<TaskView, Error> {
        let until = self.clock().now().plus(wait).mono;
        loop {
            let view = self.task_within(http, epoch, id, self.rest(until).min(WAIT)).await?;
            if view.task.status.is_over() || self.rest(until).is_zero() {
                return Ok(view);
            }
        }
    }
}

/// With a value that may be there.
fn with<T: std::fmt::Display>(call: Request, name: &str, value: Option<T>) -> Request {
    match value {
        Some(value) => call.query(name, value),
        None => call,
    }
}

fn limited(call: Request, limit: usize) -> Request {
    call.query("limit", limit.clamp(1, LIMIT_MAX))
}

/// `None` for what is not there.
fn there<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == Code::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Connection {
    /// As much of a list as is wanted: the hub ends a page when it is full, however few it holds, and says where it goes on.
    async fn listed<T>(
        &self,
        path: &str,
        ask: impl Fn(Request) -> Request,
        mut from: Option<String>,
        limit: usize,
        read: impl Fn(&str) -> Result<Part<T>, Error>,
    ) -> Result<Part<T>, Error> {
        let mut all = Vec::new();
        loop {
            let left = limit - all.len();
            let ask = |call| with(limited(ask(call), left), "cursor", from.as_ref());
            let answer = self.look(path, ask).await?;
            let (came, rest) = read(text(&answer.body)?)?;
            all.extend(came);
            // A place that does not move would lead nowhere.
            if all.len() >= limit || rest.is_none() || rest == from {
                return Ok((all, rest));
            }
            from = rest;
        }
    }

    /// Entries of a list, or versions of one.
    async fn entries_at(
        &self,
        path: &str,
        prefix: Option<&str>,
        from: Option<String>,
        limit: usize,
    ) -> Result<Vec<Entry>, Error> {
        let read = |body: &str| {
            let found: EntriesIn<'_> = wire::read(body)?;
            let entries = found.entries.into_iter().map(EntryIn::read).collect::<Result<_, _>>()?;
            Ok((entries, found.cursor))
        };
        Ok(self.listed(path, |call| with(call, "prefix", prefix), from, limit, read).await?.0)
    }
}

impl Reads for Connection {
    fn entry(&self, key: Key, when: When) -> Promise<'_, Option<Entry>> {
        Box::pin(async move {
            let path = format!("/v1/context/{}", segment(key.as_str()));
            let found = self.look(&path, |call| match when {
                When::Now => call,
                When::Version(version) => call.query("version", version.0),
                When::Seq(seq) => call.query("at", seq.0),
                When::Time(time) => call.query("time", time_out(time)),
            });
            let Some(answer) = there(found.await)? else { return Ok(None) };
            wire::read::<EntryIn<'_>>(text(&answer.body)?)?.read().map(Some)
        })
    }

    fn history(&self, key: Key, after: Version, limit: usize) -> Promise<'_, Vec<Entry>> {
        Box::pin(async move {
            let path = format!("/v1/context/{}/history", segment(key.as_str()));
            let found = self.entries_at(&path, None, Some(after.0.to_string()), limit).await;
            Ok(there(found)?.unwrap_or_default())
        })
    }

    fn entries(&self, prefix: String, after: Option<Key>, limit: usize) -> Promise<'_, Vec<Entry>> {
        Box::pin(async move {
            let after = after.map(|key| key.to_string());
            self.entries_at("/v1/context", Some(&prefix), after, limit).await
        })
    }

    fn snapshots(&self, limit: usize) -> Promise<'_, Vec<Snapshot>> {
        Box::pin(async move {
            let read = |body: &str| {
                let found: SnapshotsIn = wire::read(body)?;
                Ok((found.snapshots.into_iter().map(SnapshotIn::read).collect(), found.cursor))
            };
            Ok(self.listed("/v1/context:snapshot", |call| call, None, limit, read).await?.0)
        })
    }

    fn check(&self) -> Promise<'_, Check> {
        Box::pin(async move { self.seen::<CheckIn>("/v1/context:check", |call| call).await?.read() })
    }

    fn agents(&self, filter: AgentFilter) -> Promise<'_, Vec<AgentInfo>> {
        Box::pin(async move {
            let AgentFilter { id, capability, action, role, status } = filter;
            let ask = |call: Request| {
                let call = with(call, "capability", capability.as_ref());
                let call = with(call, "action", action.as_ref());
                let call = with(call, "role", role.map(|role| role.as_str()));
                with(call, "status", status.map(|status| status.as_str()))
            };
            let read = |body: &str| {
                let found: AgentsIn = wire::read(body)?;
                let agents = found.agents.into_iter().map(AgentIn::read).collect::<Result<_, _>>()?;
                Ok((agents, found.cursor))
            };
            let (mut agents, _) = self.listed("/v1/agents", ask, None, usize::MAX, read).await?;
            agents.retain(|agent: &AgentInfo| id.as_ref().is_none_or(|id| *id == agent.id));
            Ok(agents)
        })
    }

    fn agent(&self, id: AgentId) -> Promise<'_, AgentInfo> {
        Box::pin(async move {
            let path = format!("/v1/agents/{}", segment(id.as_str()));
            self.seen::<AgentIn>(&path, |call| call).await?.read()
        })
    }

    fn subscriptions(&self, agent: AgentId) -> Promise<'_, Vec<Pattern>> {
        Box::pin(async move {
            let path = format!("/v1/agents/{}/subscriptions", segment(agent.as_str()));
            let read = |body: &str| {
                let found: SubscriptionsIn = wire::read(body)?;
                Ok((all(found.subscriptions.into_iter().map(|one| one.topic).collect()), found.cursor))
            };
            Ok(self.listed(&path, |call| call, None, usize::MAX, read).await?.0)
        })
    }

    fn inbox(&self, agent: AgentId, limit: usize) -> Promise<'_, Vec<Letter>> {
        Box::pin(async move {
            let path = format!("/v1/agents/{}/inbox", segment(agent.as_str()));
            let read = |body: &str| {
                let found: InboxIn = wire::read(body)?;
                Ok((found.deliveries.into_iter().map(LetterIn::read).collect(), found.cursor))
            };
            Ok(self.listed(&path, |call| call, None, limit, read).await?.0)
        })
    }

    fn outbox(&self, agent: AgentId, before: Option<Before>, limit: usize) -> Promise<'_, OutboxPage> {
        Box::pin(async move {
            let path = format!("/v1/agents/{}/outbox", segment(agent.as_str()));
            let found: OutboxIn =
                self.seen(&path, |call| with(limited(call, limit), "cursor", before)).await?;
            let messages = all(found.messages.into_iter().map(|one| one.message_id).collect());
            Ok(OutboxPage { messages, cursor: found.cursor.map(|before| before.0) })
        })
    }

    fn dead_letters(&self, agent: Option<AgentId>, limit: usize) -> Promise<'_, Vec<DeadLetter>> {
        Box::pin(async move {
            let ask = |call| with(call, "agent", agent.as_ref());
            let read = |body: &str| {
                let found: DeadLettersIn = wire::read(body)?;
                Ok((found.dead_letters.into_iter().map(DeadIn::read).collect(), found.cursor))
            };
            Ok(self.listed("/v1/dead-letters", ask, None, limit, read).await?.0)
        })
    }

    fn message(&self, id: String) -> Promise<'_, MessageInfo> {
        Box::pin(async move {
            let answer = self.look(&format!("/v1/messages/{}", segment(&id)), |call| call).await?;
            MessageStateIn::read(text(&answer.body)?)
        })
    }

    fn messages(
        &self,
        filter: MessageFilter,
        before: Option<Before>,
        limit: usize,
    ) -> Promise<'_, MessagesPage> {
        Box::pin(async move {
            let MessageFilter { from, to, kind, session, of } = filter;
            let ask = |call: Request| {
                let call = with(limited(call, limit), "cursor", before);
                let call = with(call, "from", from.as_ref());
                let call = with(call, "to", to.as_ref());
                let call = with(call, "type", kind.map(|kind| kind.as_str()));
                let call = with(call, "session", session.as_ref());
                with(call, "agent", of.as_ref())
            };
            let answer = self.look("/v1/messages", ask).await?;
            wire::read::<MessagesIn<'_>>(text(&answer.body)?)?.read()
        })
    }

    fn why(&self, id: String) -> Promise<'_, Why> {
        Box::pin(async move {
            // The hub tells of a task under this address, too.
            let path = format!("/v1/messages/{}/why", segment(&id));
            self.seen::<WhyIn>(&path, |call| call).await?.read()
        })
    }

    fn task(&self, id: TaskId) -> Promise<'_, TaskView> {
        Box::pin(async move { self.task_within(&self.own.http, None, &id, Duration::ZERO).await })
    }

    fn task_over(&self, id: TaskId, wait: Duration) -> Promise<'_, TaskView> {
        Box::pin(async move { self.task_until(&self.own.http, None, &id, wait).await })
    }

    fn tasks(&self, filter: TaskFilter, after: Option<TaskId>, limit: usize) -> Promise<'_, TaskPage> {
        Box::pin(async move {
            let ask = |call: Request| {
                let call = with(call, "status", filter.status.map(|status| status.as_str()));
                let call = with(call, "type", filter.task_type.as_ref());
                with(call, "agent", filter.agent.as_ref())
            };
            let read = |body: &str| {
                let page = wire::read::<PageIn>(body)?.read()?;
                Ok((page.tasks, page.cursor.map(|id| id.to_string())))
            };
            let after = after.map(|id| id.to_string());
            let (tasks, rest) = self.listed("/v1/tasks", ask, after, limit, read).await?;
            Ok(TaskPage { tasks, cursor: rest.map(TaskId::new).transpose()? })
        })
    }

    fn session(&self, id: SessionId) -> Promise<'_, SessionInfo> {
        Box::pin(async move {
            let answer = self.look(&session_path(&id, ""), |call| call).await?;
            wire::read::<SessionIn<'_>>(text(&answer.body)?)?.read()
        })
    }

    fn session_task(&self, id: SessionId) -> Promise<'_, Option<Payload>> {
        Box::pin(async move {
            let answer = self.look(&session_path(&id, ""), |call| call).await?;
            wire::read::<SessionIn<'_>>(text(&answer.body)?)?.task()
        })
    }

    fn sessions(&self, after: Option<SessionId>, limit: usize) -> Promise<'_, Vec<SessionInfo>> {
        Box::pin(async move {
            let read = |body: &str| {
                let found: SessionsIn<'_> = wire::read(body)?;
                let sessions = found.sessions.into_iter().map(SessionIn::read).collect::<Result<_, _>>()?;
                Ok((sessions, found.cursor))
            };
            let after = after.map(|id| id.to_string());
            Ok(self.listed("/v1/sessions", |call| call, after, limit, read).await?.0)
        })
    }

    fn timeline(
        &self,
        id: SessionId,
        kind: Option<LineKind>,
        page: Page,
        limit: usize,
    ) -> Promise<'_, (Vec<TimelineLine>, Option<Seq>)> {
        Box::pin(async move {
            let ask = |call: Request| {
                let call = with(limited(call, limit), "kind", kind.map(LineKind::as_str));
                match page {
                    Page::After(seq) => call.query("cursor", seq.0),
                    Page::Before(Seq(u64::MAX)) => call.query("newest", true),
                    Page::Before(seq) => call.query("newest", true).query("cursor", seq.0),
                }
            };
            let answer = self.look(&session_path(&id, "/timeline"), ask).await?;
            let found: TimelineIn<'_> = wire::read(text(&answer.body)?)?;
            let rest = found.cursor.map(|seq| Seq(seq.0));
            Ok((found.timeline.into_iter().map(LineIn::read).collect::<Result<_, _>>()?, rest))
        })
    }

    fn procedure(&self, id: ProcedureId, at: Option<Seq>) -> Promise<'_, ProcedureInfo> {
        Box::pin(async move {
            let path = format!("/v1/procedures/{}", segment(id.as_str()));
            let answer = self.look(&path, |call| with(call, "at", at)).await?;
            wire::read::<ProcedureIn<'_>>(text(&answer.body)?)?.read()
        })
    }

    fn procedures(
        &self,
        status: Option<ProcedureStatus>,
        after: Option<ProcedureId>,
        limit: usize,
    ) -> Promise<'_, ProcedurePage> {
        Box::pin(async move {
            let ask = |call| with(call, "status", status.map(ProcedureStatus::as_str));
            let read = |body: &str| {
                let page = wire::read::<ProceduresIn<'_>>(body)?.read()?;
                Ok((page.procedures, page.cursor.map(|id| id.to_string())))
            };
            let after = after.map(|id| id.to_string());
            let (procedures, rest) = self.listed("/v1/procedures", ask, after, limit, read).await?;
            Ok(ProcedurePage { procedures, cursor: rest.map(ProcedureId::new).transpose()? })
        })
    }

    fn approval(&self, id: ApprovalId, wait: Duration) -> Promise<'_, ApprovalInfo> {
        Box::pin(async move {
            let until = self.clock().now().plus(wait).mono;
            loop {
                let approval = self.approval_within(&id, self.rest(until).min(WAIT)).await?;
                if !approval.is_pending() || self.rest(until).is_zero() {
                    return Ok(approval);
                }
            }
        })
    }

    fn pending_approvals(&self, after: Option<ApprovalId>, limit: usize) -> Promise<'_, ApprovalPage> {
        Box::pin(async move {
            let ask = |call: Request| call.query("state", "pending");
            let read = |body: &str| {
                let page = wire::read::<ApprovalsIn<'_>>(body)?.read()?;
                Ok((page.approvals, page.cursor.map(|id| id.to_string())))
            };
            let after = after.map(|id| id.to_string());
            let (approvals, rest) = self.listed("/v1/approvals", ask, after, limit, read).await?;
            Ok(ApprovalPage { approvals, cursor: rest.map(ApprovalId::new).transpose()? })
        })
    }

    fn budget(&self, id: BudgetId) -> Promise<'_, Option<BudgetInfo>> {
        Box::pin(async move {
            let path = format!("/v1/budgets/{}", segment(id.as_str()));
            Ok(there(self.seen::<BudgetIn>(&path, |call| call).await)?.map(BudgetIn::read))
        })
    }

    fn policy(&self) -> Promise<'_, Policy> {
        Box::pin(async move { self.seen::<PolicyIn>("/v1/policy", |call| call).await?.read() })
    }

    fn violations(&self) -> Promise<'_, Vec<Violation>> {
        Box::pin(async move {
            let read = |body: &str| {
                let found: ViolationsIn = wire::read(body)?;
                let violations = found.violations.into_iter().map(ViolationIn::read);
                Ok((violations.collect::<Result<_, _>>()?, found.cursor))
            };
            Ok(self.listed("/v1/violations", |call| call, None, usize::MAX, read).await?.0)
        })
    }

    fn counts(&self) -> Promise<'_, (Counts, TaskCounts)> {
        Box::pin(async move { self.seen::<StatsIn>("/v1/admin/stats", |call| call).await?.read() })
    }
}

fn session_path(id: &SessionId, rest: &str) -> String {
    format!("/v1/sessions/{}{rest}", segment(id.as_str()))
}
