//! Read operations of an embedded hub.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Named;
use std::sync::Arc;
use std::time::Duration;

use quorate_api::entry::Entry;
use quorate_api::page::{Page, PageQuery};
use quorate_api::procedure::ProcedureWithState;
use quorate_api::rollback::ConsistencyReport;
use quorate_core::limits::INSPECT_MAX;
use quorate_core::{
    AgentFilter, AgentId, AgentNo, Approval as CoreApproval, ApprovalId, BudgetId, ClientId, DeliveryNo,
    DeliveryStateCounts, ItemKind, Key, MessageId, Pattern, Payload, Policy, PoolNo,
    Procedure as CoreProcedure, ProcedureId, ProcedureStatus, QueueId, Seq, Session as CoreSession,
    SessionId, Snapshot as CoreSnapshot, TaskCounts, TaskId, TimelineKind, Version, Violation, Why,
};
use quorate_engine::{
    Error, MessageCursor, MessageFilter, MessagesPage, OutboxPage, ProcedureView, Space, StoredItem,
    TaskFilter, views,
};
use quorate_store::{AsOf, TimelinePage as Span};

use super::convert::{approval, task};

use crate::approval::{Approval, ApprovalInfo};
use crate::backend::{BackendFuture, BackendReads};
use crate::procedure::{Procedure, ProcedureInfo};
use crate::read_models::{AgentInfo, Budget, DeadLetter, InboxDelivery, MessageWithDeliveries, Snapshot};
use crate::session::{SessionInfo, TimelineEntry};
use crate::task::{Task, TaskWithPayloads};

impl BackendReads for Space {
    fn entry(&self, key: Key, when: AsOf) -> BackendFuture<'_, Option<Entry>> {
        Box::pin(async move { Ok(Self::entry(self, &key, when).await?.map(|entry| views::entry(&entry))) })
    }

    fn history(&self, key: Key, after: Version, limit: usize) -> BackendFuture<'_, Vec<Entry>> {
        Box::pin(async move {
            let found = Self::history(self, &key, after, limit).await?;
            Ok(found.iter().map(views::entry).collect())
        })
    }

    fn entries(&self, prefix: String, after: Option<Key>, limit: usize) -> BackendFuture<'_, Vec<Entry>> {
        Box::pin(async move {
            let found = Self::entries(self, &prefix, after, limit).await?;
            Ok(found.iter().map(views::entry).collect())
        })
    }

    fn snapshots(&self, page: PageQuery) -> BackendFuture<'_, Page<Snapshot>> {
        Box::pin(list(self, page, |_| true, |one: &CoreSnapshot| Snapshot::from(one)))
    }

    fn check(&self) -> BackendFuture<'_, ConsistencyReport> {
        Box::pin(async move { Ok(Arc::unwrap_or_clone(Self::check(self).await?)) })
    }

    fn agents(&self, filter: AgentFilter) -> BackendFuture<'_, Vec<AgentInfo>> {
        Box::pin(async move {
            let found = Self::agents(self, filter, AgentNo(0), INSPECT_MAX).await?;
            Ok(found.into_iter().map(|view| views::agent(self, &view)).collect())
        })
    }

    fn agent(&self, id: AgentId) -> BackendFuture<'_, AgentInfo> {
        Box::pin(async move { Ok(views::agent(self, &Self::agent(self, &id).await?)) })
    }

    fn subscriptions(&self, agent: AgentId) -> BackendFuture<'_, Vec<Pattern>> {
        Box::pin(async move {
            let all = Self::subscriptions(self, &agent).await?;
            Ok(all.into_iter().map(|one| one.pattern).collect())
        })
    }

    fn inbox(&self, agent: AgentId, limit: usize) -> BackendFuture<'_, Vec<InboxDelivery>> {
        Box::pin(async move {
            let found = Self::inbox(self, &agent, DeliveryNo(0), limit).await?;
            Ok(found.iter().map(views::inbox_delivery).collect())
        })
    }

    fn outbox(
        &self,
        agent: AgentId,
        before: Option<MessageCursor>,
        limit: usize,
    ) -> BackendFuture<'_, OutboxPage> {
        Box::pin(async move { Self::outbox(self, &agent, before, limit).await })
    }

    fn dead_letters(&self, agent: Option<AgentId>, limit: usize) -> BackendFuture<'_, Vec<DeadLetter>> {
        Box::pin(dead_letters(self, agent, limit))
    }

    fn message(&self, id: String) -> BackendFuture<'_, MessageWithDeliveries> {
        Box::pin(async move {
            let view = match id.parse::<MessageId>() {
                Ok(id) => Self::message(self, id).await?,
                Err(_) => self.message_by_client_id(&ClientId::new(id)?).await?,
            };
            Ok(views::message_with_deliveries(&view))
        })
    }

    fn messages(
        &self,
        filter: MessageFilter,
        before: Option<MessageCursor>,
        limit: usize,
    ) -> BackendFuture<'_, MessagesPage> {
        Box::pin(async move { Self::messages(self, &filter, before, limit).await })
    }

    fn why(&self, id: String) -> BackendFuture<'_, Why> {
        Box::pin(async move { Self::why(self, &id).await })
    }

    fn task(&self, id: TaskId) -> BackendFuture<'_, TaskWithPayloads> {
        Box::pin(async move { Ok(task(self, &Self::task(self, &id).await?)) })
    }

    fn wait_for_task(&self, id: TaskId, wait: Duration) -> BackendFuture<'_, TaskWithPayloads> {
        Box::pin(async move { Ok(task(self, &Self::wait_for_task(self, &id, wait).await?)) })
    }

    fn tasks(&self, filter: TaskFilter, page: PageQuery) -> BackendFuture<'_, Page<Task>> {
        Box::pin(async move {
            let found = Self::tasks(self, &filter, page.range(ItemKind::Task)?, page.limit).await?;
            let agents = &self.published().agents;
            Ok(found.render(|task| Task::new(agents, task)))
        })
    }

    fn session(&self, id: SessionId) -> BackendFuture<'_, SessionInfo> {
        Box::pin(async move { Ok((&self.item::<CoreSession>(&id).await?).into()) })
    }

    fn session_task(&self, id: SessionId) -> BackendFuture<'_, Option<Payload>> {
        Box::pin(async move { Self::session_task(self, &self.item(&id).await?).await })
    }

    fn sessions(&self, page: PageQuery) -> BackendFuture<'_, Page<SessionInfo>> {
        Box::pin(list(self, page, |_| true, |one: &CoreSession| SessionInfo::from(one)))
    }

    fn timeline(
        &self,
        id: SessionId,
        kind: Option<TimelineKind>,
        page: Span,
        limit: usize,
    ) -> BackendFuture<'_, (Vec<TimelineEntry>, Option<Seq>)> {
        Box::pin(async move {
            let (lines, rest) = Self::timeline(self, &id, kind, page, limit).await?;
            Ok((lines.iter().map(views::timeline_entry).collect(), rest))
        })
    }

    fn procedure(&self, id: ProcedureId, at: Option<Seq>) -> BackendFuture<'_, ProcedureInfo> {
        Box::pin(async move {
            let procedure = match at {
                Some(at) => self.procedure_at(&id, at).await?,
                None => Self::procedure(self, &id).await?,
            };
            let ProcedureView { procedure, spec, state, result } = self.procedure_view(procedure).await?;
            let whole = ProcedureWithState::new(&procedure, spec.as_ref(), state.as_ref(), result.as_ref());
            Ok(whole.into())
        })
    }

    fn procedures(
        &self,
        status: Option<ProcedureStatus>,
        page: PageQuery,
    ) -> BackendFuture<'_, Page<Procedure>> {
        let matches = move |one: &CoreProcedure| status.is_none_or(|status| status == one.status);
        Box::pin(list(self, page, matches, |one| Procedure::from(one)))
    }

    fn approval(&self, id: ApprovalId, wait: Duration) -> BackendFuture<'_, ApprovalInfo> {
        Box::pin(async move { approval(self, self.wait_for_approval(&id, wait).await?).await })
    }

    fn pending_approvals(&self, page: PageQuery) -> BackendFuture<'_, Page<Approval>> {
        let render = |one: &CoreApproval| Approval::new(&self.published().agents, one);
        Box::pin(list(self, page, CoreApproval::is_pending, render))
    }

    fn budget(&self, id: BudgetId) -> BackendFuture<'_, Option<Budget>> {
        Box::pin(async move {
            let found = self.find(&id).await?;
            Ok(found.map(|budget| Budget::new(&self.published().agents, &budget)))
        })
    }

    fn policy(&self) -> BackendFuture<'_, Policy> {
        Box::pin(std::future::ready(Ok(Self::policy(self).policy.clone())))
    }

    fn violations(&self) -> BackendFuture<'_, Vec<Violation>> {
        Box::pin(std::future::ready(Ok(Self::violations(self))))
    }

    fn counts(&self) -> BackendFuture<'_, (DeliveryStateCounts, TaskCounts)> {
        let published = self.published();
        Box::pin(std::future::ready(Ok((published.counts, published.tasks))))
    }
}

/// Returns a page of the stored items that match a predicate.
async fn list<T: StoredItem, U>(
    space: &Space,
    page: PageQuery,
    matches: impl Fn(&T) -> bool,
    render: impl Fn(&T) -> U,
) -> Result<Page<U>, Error> {
    Ok(space.list(page.range(T::KIND)?, page.limit, matches).await?.render(render))
}

/// Returns dead letters with the name of their recipient. The name of a pool is only stored in the messages sent to
/// it.
async fn dead_letters(space: &Space, agent: Option<AgentId>, limit: usize) -> Result<Vec<DeadLetter>, Error> {
    let letters = space.dead_letters(agent.as_ref(), DeliveryNo(0), limit).await?;
    let published = space.published();
    let mut pools: BTreeMap<PoolNo, String> = BTreeMap::new();
    let mut dead_letters = Vec::with_capacity(letters.len());
    for letter in letters {
        let message = published.generations.message_id(letter.seq, letter.n);
        let to = match letter.to.queue() {
            QueueId::Agent(number) => published.agents.get(number).map(|agent| agent.id.to_string()),
            QueueId::Pool(pool) => Some(match pools.entry(pool) {
                Named::Occupied(name) => name.get().clone(),
                Named::Vacant(slot) => slot.insert(space.destination(message).await?.to_string()).clone(),
            }),
        };
        dead_letters.push(DeadLetter {
            delivery_id: published.generations.delivery_id(letter.delivery),
            message_id: message,
            agent: to.unwrap_or_default(),
            attempts: letter.attempts,
            reason: letter.reason,
            at: letter.at,
        });
    }
    Ok(dead_letters)
}
