//! Read operations of a backend.

use std::time::Duration;

use quorate_api::entry::Entry;
use quorate_api::page::{Page, PageQuery};
use quorate_api::query::{MessageCursor, MessageFilter, MessagesPage, OutboxPage, TaskFilter};
use quorate_api::rollback::ConsistencyReport;
use quorate_core::{
    AgentFilter, AgentId, ApprovalId, AsOf, BudgetId, DeliveryStateCounts, Key, Pattern, Payload, Policy,
    ProcedureId, ProcedureStatus, Seq, SessionId, TaskCounts, TaskId, TimelineKind, TimelinePage, Version,
    Violation, Why,
};

use super::BackendFuture;
use crate::approval::{Approval, ApprovalInfo};
use crate::procedure::{Procedure, ProcedureInfo};
use crate::read_models::{AgentInfo, Budget, DeadLetter, InboxDelivery, MessageWithDeliveries, Snapshot};
use crate::session::{SessionInfo, TimelineEntry};
use crate::task::{Task, TaskWithPayloads};

/// Read operations of a hub. A missing item is a `NOT_FOUND` error, or `None` where the return type is an `Option`.
pub trait BackendReads: Send + Sync {
    /// Returns one version of a memory entry; tombstones included.
    fn entry(&self, key: Key, as_of: AsOf) -> BackendFuture<'_, Option<Entry>>;
    /// Returns the versions of an entry after the given one, oldest first.
    fn history(&self, key: Key, after: Version, limit: usize) -> BackendFuture<'_, Vec<Entry>>;
    /// Returns the live entries with a key prefix, ordered by key.
    fn entries(&self, prefix: String, after: Option<Key>, limit: usize) -> BackendFuture<'_, Vec<Entry>>;
    /// Returns a page of snapshots.
    fn snapshots(&self, page: PageQuery) -> BackendFuture<'_, Page<Snapshot>>;
    /// Checks the consistency of all entries.
    fn check(&self) -> BackendFuture<'_, ConsistencyReport>;

    /// Returns the agents that match a filter, with their load.
    fn agents(&self, filter: AgentFilter) -> BackendFuture<'_, Vec<AgentInfo>>;
    /// Returns one agent.
    fn agent(&self, id: AgentId) -> BackendFuture<'_, AgentInfo>;
    /// Returns the patterns of an agent's subscriptions.
    fn subscriptions(&self, agent: AgentId) -> BackendFuture<'_, Vec<Pattern>>;
    /// Returns the open deliveries of an agent's inbox.
    fn inbox(&self, agent: AgentId, limit: usize) -> BackendFuture<'_, Vec<InboxDelivery>>;
    /// Returns a page of the messages that an agent sent, newest first.
    fn outbox(
        &self,
        agent: AgentId,
        before: Option<MessageCursor>,
        limit: usize,
    ) -> BackendFuture<'_, OutboxPage>;
    /// Returns the first dead letters of one agent, or of all agents.
    fn dead_letters(&self, agent: Option<AgentId>, limit: usize) -> BackendFuture<'_, Vec<DeadLetter>>;

    /// Returns a message by its id, or by the id chosen by its sender.
    fn message(&self, id: String) -> BackendFuture<'_, MessageWithDeliveries>;
    /// Returns a page of messages, newest first.
    fn messages(
        &self,
        filter: MessageFilter,
        before: Option<MessageCursor>,
        limit: usize,
    ) -> BackendFuture<'_, MessagesPage>;
    /// Explains the current state of a message, task or procedure.
    fn why(&self, id: String) -> BackendFuture<'_, Why>;

    /// Returns a task.
    fn task(&self, id: TaskId) -> BackendFuture<'_, TaskWithPayloads>;
    /// Returns a task once it has ended or `wait` has elapsed.
    fn wait_for_task(&self, id: TaskId, wait: Duration) -> BackendFuture<'_, TaskWithPayloads>;
    /// Returns a page of tasks.
    fn tasks(&self, filter: TaskFilter, page: PageQuery) -> BackendFuture<'_, Page<Task>>;

    /// Returns a session.
    fn session(&self, id: SessionId) -> BackendFuture<'_, SessionInfo>;
    /// Returns the task description of a session; `None` if it has none.
    fn session_task(&self, id: SessionId) -> BackendFuture<'_, Option<Payload>>;
    /// Returns a page of sessions.
    fn sessions(&self, page: PageQuery) -> BackendFuture<'_, Page<SessionInfo>>;
    /// Returns a page of a session's timeline, optionally of one kind only, and the position to continue from.
    fn timeline(
        &self,
        id: SessionId,
        kind: Option<TimelineKind>,
        page: TimelinePage,
        limit: usize,
    ) -> BackendFuture<'_, (Vec<TimelineEntry>, Option<Seq>)>;

    /// Returns a procedure: its latest state, or its state as of a sequence number.
    fn procedure(&self, id: ProcedureId, at: Option<Seq>) -> BackendFuture<'_, ProcedureInfo>;
    /// Returns a procedure once it no longer runs, or once `wait` has elapsed. With `after`, once its version is greater or
    /// it has ended.
    fn wait_for_procedure(
        &self,
        id: ProcedureId,
        after: Option<Version>,
        wait: Duration,
    ) -> BackendFuture<'_, ProcedureInfo>;
    /// Returns a page of procedures.
    fn procedures(
        &self,
        status: Option<ProcedureStatus>,
        page: PageQuery,
    ) -> BackendFuture<'_, Page<Procedure>>;

    /// Returns an approval once it is decided or expired, or `wait` has elapsed.
    fn approval(&self, id: ApprovalId, wait: Duration) -> BackendFuture<'_, ApprovalInfo>;
    /// Returns a page of the approvals that await a decision.
    fn pending_approvals(&self, page: PageQuery) -> BackendFuture<'_, Page<Approval>>;

    /// Returns a budget; `None` if it does not exist.
    fn budget(&self, id: BudgetId) -> BackendFuture<'_, Option<Budget>>;
    /// Returns the policy of the space.
    fn policy(&self) -> BackendFuture<'_, Policy>;
    /// Returns the most recent policy violations.
    fn violations(&self) -> BackendFuture<'_, Vec<Violation>>;
    /// Returns the number of deliveries and the number of tasks in each state.
    fn counts(&self) -> BackendFuture<'_, (DeliveryStateCounts, TaskCounts)>;
}
