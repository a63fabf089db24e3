//! Looks at a hub: nothing is changed by any of them.

use std::time::Duration;

use quorate_api::entry::Entry;
use quorate_api::page::{Page, PageQuery};
use quorate_api::query::{Before, MessageFilter, MessagesPage, OutboxPage, TaskFilter};
use quorate_api::rollback::Check;
use quorate_core::{
    AgentFilter, AgentId, ApprovalId, BudgetId, Counts, Key, LineKind, Page as Span, Pattern, Payload,
    Policy, ProcedureId, ProcedureStatus, Seq, SessionId, TaskCounts, TaskId, Version, Violation, When, Why,
};

use super::Promise;
use crate::approval::{Approval, ApprovalInfo};
use crate::procedure::{Procedure, ProcedureInfo};
use crate::session::{SessionInfo, TimelineLine};
use crate::task::{Task, TaskWithPayloads};
use crate::view::{AgentInfo, Budget, DeadLetter, InboxDelivery, MessageWithDeliveries, Snapshot};

/// Looks at a hub. What is not there is `NOT_FOUND`, or `None` where it says so.
pub trait Reads: Send + Sync {
    /// One version of an entry, tombstones included.
    fn entry(&self, key: Key, when: When) -> Promise<'_, Option<Entry>>;
    /// The versions of an entry after this one, oldest first.
    fn history(&self, key: Key, after: Version, limit: usize) -> Promise<'_, Vec<Entry>>;
    /// The live entries whose key begins so, by key.
    fn entries(&self, prefix: String, after: Option<Key>, limit: usize) -> Promise<'_, Vec<Entry>>;
    /// Snapshots.
    fn snapshots(&self, page: PageQuery) -> Promise<'_, Page<Snapshot>>;
    /// Whether all entries fit together.
    fn check(&self) -> Promise<'_, Check>;

    /// Agents with their load.
    fn agents(&self, filter: AgentFilter) -> Promise<'_, Vec<AgentInfo>>;
    /// One agent.
    fn agent(&self, id: AgentId) -> Promise<'_, AgentInfo>;
    /// The patterns of an agent's subscriptions.
    fn subscriptions(&self, agent: AgentId) -> Promise<'_, Vec<Pattern>>;
    /// What lies in an agent's inbox and has not ended.
    fn inbox(&self, agent: AgentId, limit: usize) -> Promise<'_, Vec<InboxDelivery>>;
    /// What an agent sent before a record, newest first.
    fn outbox(&self, agent: AgentId, before: Option<Before>, limit: usize) -> Promise<'_, OutboxPage>;
    /// The first dead letters of an agent, or of all.
    fn dead_letters(&self, agent: Option<AgentId>, limit: usize) -> Promise<'_, Vec<DeadLetter>>;

    /// A message by its id, or by the one that its sender gave it.
    fn message(&self, id: String) -> Promise<'_, MessageWithDeliveries>;
    /// Messages before a record, newest first.
    fn messages(
        &self,
        filter: MessageFilter,
        before: Option<Before>,
        limit: usize,
    ) -> Promise<'_, MessagesPage>;
    /// Why a message or a task is where it is.
    fn why(&self, id: String) -> Promise<'_, Why>;

    /// A task.
    fn task(&self, id: TaskId) -> Promise<'_, TaskWithPayloads>;
    /// A task, as soon as it is over or the time is.
    fn task_over(&self, id: TaskId, wait: Duration) -> Promise<'_, TaskWithPayloads>;
    /// Tasks.
    fn tasks(&self, filter: TaskFilter, page: PageQuery) -> Promise<'_, Page<Task>>;

    /// A session.
    fn session(&self, id: SessionId) -> Promise<'_, SessionInfo>;
    /// What a session is to do; `None` if nobody said.
    fn session_task(&self, id: SessionId) -> Promise<'_, Option<Payload>>;
    /// Sessions.
    fn sessions(&self, page: PageQuery) -> Promise<'_, Page<SessionInfo>>;
    /// A page of the timeline of a session, all or of one kind.
    fn timeline(
        &self,
        id: SessionId,
        kind: Option<LineKind>,
        page: Span,
        limit: usize,
    ) -> Promise<'_, (Vec<TimelineLine>, Option<Seq>)>;

    /// A procedure as it is, or as it was after a record.
    fn procedure(&self, id: ProcedureId, at: Option<Seq>) -> Promise<'_, ProcedureInfo>;
    /// Procedures.
    fn procedures(&self, status: Option<ProcedureStatus>, page: PageQuery) -> Promise<'_, Page<Procedure>>;

    /// An approval, as soon as it is over or the time is.
    fn approval(&self, id: ApprovalId, wait: Duration) -> Promise<'_, ApprovalInfo>;
    /// Approvals that wait for a decision.
    fn pending_approvals(&self, page: PageQuery) -> Promise<'_, Page<Approval>>;

    /// A budget; `None` if there is none.
    fn budget(&self, id: BudgetId) -> Promise<'_, Option<Budget>>;
    /// The rules of the space.
    fn policy(&self) -> Promise<'_, Policy>;
    /// What the rules refused lately.
    fn violations(&self) -> Promise<'_, Vec<Violation>>;
    /// How many deliveries and how many tasks are in each state.
    fn counts(&self) -> Promise<'_, (Counts, TaskCounts)>;
}
