//! Read operations of an embedded hub.

use std::collections::{BTreeMap, btree_map};
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
use quorate_store::{AsOf, TimelinePage};

use super::convert::{approval, task};

use crate::approval::{Approval, ApprovalInfo};
use crate::backend::{BackendFuture, BackendReads};
use crate::procedure::{Procedure, ProcedureInfo};
use crate::read_models::{AgentInfo, Budget, DeadLetter, InboxDelivery, MessageWithDeliveries, Snapshot};
use crate::session::{SessionInfo, TimelineEntry};
use crate::task::{Task, TaskWithPayloads};

impl BackendReads for Space {
    fn entry(&self, key: Key, as_of: AsOf) -> BackendFuture<'_, Option<Entry>> {
        Box::pin(async move { Ok(Self::entry(self, &key, as_of).await?.map(|entry| views::entry(&entry))) })
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
        Box::pin(list(self, page, |_| true, |snapshot: &CoreSnapshot| Snapshot::from(snapshot)))
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
            let subscriptions = Self::subscriptions(self, &agent).await?;
            Ok(subscriptions.into_iter().map(|subscription| subscription.pattern).collect())
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
        Box::pin(list(self, page, |_| true, |session: &CoreSession| SessionInfo::from(session)))
    }

    fn timeline(
        &self,
        id: SessionId,
        kind: Option<TimelineKind>,
        page: TimelinePage,
        limit: usize,
    ) -> BackendFuture<'_, (Vec<TimelineEntry>, Option<Seq>)> {
        Box::pin(async move {
            let (entries, next) = Self::timeline(self, &id, kind, page, limit).await?;
            Ok((entries.iter().map(views::timeline_entry).collect(), next))
        })
    }

    fn procedure(&self, id: ProcedureId, at: Option<Seq>) -> BackendFuture<'_, ProcedureInfo> {
        Box::pin(async move {
            let procedure = match at {
                Some(at) => self.procedure_at(&id, at).await?,
                None => Self::procedure(self, &id).await?,
            };
            procedure_info(self, procedure).await
        })
    }

    fn wait_for_procedure(
        &self,
        id: ProcedureId,
        after: Option<Version>,
        wait: Duration,
    ) -> BackendFuture<'_, ProcedureInfo> {
        Box::pin(async move {
            let procedure = Self::wait_for_procedure(self, &id, after, wait).await?;
            procedure_info(self, procedure).await
        })
    }

    fn procedures(
        &self,
        status: Option<ProcedureStatus>,
        page: PageQuery,
    ) -> BackendFuture<'_, Page<Procedure>> {
        let matches = move |procedure: &CoreProcedure| status.is_none_or(|status| status == procedure.status);
        Box::pin(list(self, page, matches, |procedure| Procedure::from(procedure)))
    }

    fn approval(&self, id: ApprovalId, wait: Duration) -> BackendFuture<'_, ApprovalInfo> {
        Box::pin(async move { approval(self, self.wait_for_approval(&id, wait).await?).await })
    }

    fn pending_approvals(&self, page: PageQuery) -> BackendFuture<'_, Page<Approval>> {
        let render = |approval: &CoreApproval| Approval::new(&self.published().agents, approval);
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
    let found = space.dead_letters(agent.as_ref(), DeliveryNo(0), limit).await?;
    let published = space.published();
    let mut pools: BTreeMap<PoolNo, String> = BTreeMap::new();
    let mut dead_letters = Vec::with_capacity(found.len());
    for dead_letter in found {
        let message_id = published.generations.message_id(dead_letter.seq, dead_letter.n);
        let queue_name = match dead_letter.to.queue() {
            QueueId::Agent(number) => published.agents.get(number).map(|agent| agent.id.to_string()),
            QueueId::Pool(pool) => Some(match pools.entry(pool) {
                btree_map::Entry::Occupied(entry) => entry.get().clone(),
                btree_map::Entry::Vacant(entry) => {
                    entry.insert(space.destination(message_id).await?.to_string()).clone()
                }
            }),
        };
        dead_letters.push(DeadLetter {
            delivery_id: published.generations.delivery_id(dead_letter.delivery),
            message_id,
            agent: queue_name.unwrap_or_default(),
            attempts: dead_letter.attempts,
            reason: dead_letter.reason,
            at: dead_letter.at,
        });
    }
    Ok(dead_letters)
}

async fn procedure_info(space: &Space, procedure: CoreProcedure) -> Result<ProcedureInfo, Error> {
    let ProcedureView { procedure, spec, state, result } = space.procedure_view(procedure).await?;
    let [spec, state, result] = [&spec, &state, &result].map(Option::as_ref);
    Ok(ProcedureWithState::new(&procedure, spec, state, result).into())
}
