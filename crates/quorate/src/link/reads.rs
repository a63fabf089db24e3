//! Read operations of a backend.

use std::time::Duration;

use quorate_api::entry::Entry;
use quorate_api::page::{Page, PageQuery};
use quorate_api::query::{MessageCursor, MessageFilter, MessagesPage, OutboxPage, TaskFilter};
use quorate_api::rollback::ConsistencyReport;
use quorate_core::{
    AgentFilter, AgentId, ApprovalId, AsOf, BudgetId, DeliveryStateCounts, Key, Pattern, Payload, Policy,
    ProcedureId, ProcedureStatus, Seq, SessionId, TaskCounts, TaskId, TimelineKind, TimelinePage as Span,
    Version, Violation, Why,
};

use super::Promise;
use crate::approval::{Approval, ApprovalInfo};
use crate::procedure::{Procedure, ProcedureInfo};
use crate::session::{SessionInfo, TimelineEntry};
use crate::task::{Task, TaskWithPayloads};
use crate::view::{AgentInfo, Budget, DeadLetter, InboxDelivery, MessageWithDeliveries, Snapshot};

/// Read operations of a hub. A missing item is a `NOT_FOUND` error, or `None` where the return type is an `Option`.
pub trait Reads: Send + Sync {
    /// Returns one version of a memory entry; tombstones included.
    fn entry(&self, key: Key, when: AsOf) -> Promise<'_, Option<Entry>>;
    /// Returns the versions of an entry after the given one, oldest first.
    fn history(&self, key: Key, after: Version, limit: usize) -> Promise<'_, Vec<Entry>>;
    /// Returns the live entries with a key prefix, ordered by key.
    fn entries(&self, prefix: String, after: Option<Key>, limit: usize) -> Promise<'_, Vec<Entry>>;
    /// Returns a page of snapshots.
    fn snapshots(&self, page: PageQuery) -> Promise<'_, Page<Snapshot>>;
    /// Checks the consistency of all entries.
    fn check(&self) -> Promise<'_, ConsistencyReport>;

    /// Returns the agents that match a filter, with their load.
    fn agents(&self, filter: AgentFilter) -> Promise<'_, Vec<AgentInfo>>;
    /// Returns one agent.
    fn agent(&self, id: AgentId) -> Promise<'_, AgentInfo>;
    /// Returns the patterns of an agent's subscriptions.
    fn subscriptions(&self, agent: AgentId) -> Promise<'_, Vec<Pattern>>;
    /// Returns the open deliveries of an agent's inbox.
    fn inbox(&self, agent: AgentId, limit: usize) -> Promise<'_, Vec<InboxDelivery>>;
    /// Returns a page of the messages that an agent sent, newest first.
    fn outbox(&self, agent: AgentId, before: Option<MessageCursor>, limit: usize) -> Promise<'_, OutboxPage>;
    /// Returns the first dead letters of one agent, or of all agents.
    fn dead_letters(&self, agent: Option<AgentId>, limit: usize) -> Promise<'_, Vec<DeadLetter>>;

    /// Returns a message by its id, or by the id chosen by its sender.
    fn message(&self, id: String) -> Promise<'_, MessageWithDeliveries>;
    /// Returns a page of messages, newest first.
    fn messages(
        &self,
        filter: MessageFilter,
        before: Option<MessageCursor>,
        limit: usize,
    ) -> Promise<'_, MessagesPage>;
    /// Explains the current state of a message, task or procedure.
    fn why(&self, id: String) -> Promise<'_, Why>;

    /// Returns a task.
    fn task(&self, id: TaskId) -> Promise<'_, TaskWithPayloads>;
    /// Returns a task once it has ended or `wait` has elapsed.
    fn task_over(&self, id: TaskId, wait: Duration) -> Promise<'_, TaskWithPayloads>;
    /// Returns a page of tasks.
    fn tasks(&self, filter: TaskFilter, page: PageQuery) -> Promise<'_, Page<Task>>;

    /// Returns a session.
    fn session(&self, id: SessionId) -> Promise<'_, SessionInfo>;
    /// Returns the task description of a session; `None` if it has none.
    fn session_task(&self, id: SessionId) -> Promise<'_, Option<Payload>>;
    /// Returns a page of sessions.
    fn sessions(&self, page: PageQuery) -> Promise<'_, Page<SessionInfo>>;
    /// Returns a page of a session's timeline, optionally of one kind only, and the position to continue from.
    fn timeline(
        &self,
        id: SessionId,
        kind: Option<TimelineKind>,
        page: Span,
        limit: usize,
    ) -> Promise<'_, (Vec<TimelineEntry>, Option<Seq>)>;

    /// Returns a procedure: its latest state, or its state as of a sequence number.
    fn procedure(&self, id: ProcedureId, at: Option<Seq>) -> Promise<'_, ProcedureInfo>;
    /// Returns a page of procedures.
    fn procedures(&self, status: Option<ProcedureStatus>, page: PageQuery) -> Promise<'_, Page<Procedure>>;

    /// Returns an approval once it is decided or expired, or `wait` has elapsed.
    fn approval(&self, id: ApprovalId, wait: Duration) -> Promise<'_, ApprovalInfo>;
    /// Returns a page of the approvals that await a decision.
    fn pending_approvals(&self, page: PageQuery) -> Promise<'_, Page<Approval>>;

    /// Returns a budget; `None` if it does not exist.
    fn budget(&self, id: BudgetId) -> Promise<'_, Option<Budget>>;
    /// Returns the policy of the space.
    fn policy(&self) -> Promise<'_, Policy>;
    /// Returns the most recent policy violations.
    fn violations(&self) -> Promise<'_, Vec<Violation>>;
    /// Returns the number of deliveries and the number of tasks in each state.
    fn counts(&self) -> Promise<'_, (DeliveryStateCounts, TaskCounts)>;
}
