//! The backend of the library: an embedded hub, or a remote one (crate `quorate-client`). Everything else in this
//! crate is written against the [`Backend`] trait.
//!
//! Applications do not need this module.

mod reads;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_api::Error;
use quorate_api::received::MemoryEntryChange;
use quorate_api::rollback::RollbackResult;
use quorate_api::task::TaskContext;
use quorate_core::{
    AcquireLocks, AgentId, AgentStatus, Code, Commit, CreateTasks, DeliveryId, Epoch, GrantedLocks, Health,
    History, Message, MessageId, NewTask, Op, Pattern, Payload, Principal, Receipt, Refused, RegisterAgent,
    Rollback, SendRequest, Seq, TaskId, TaskLeaseRef,
};
use quorate_env::Clock;

use crate::task::{Task, TaskWithPayloads};

pub use quorate_api::entry::Entry;
pub use quorate_api::query::TaskClaimQuery;
pub use quorate_api::received::{Answer, MessageRef, ReceivedDelivery};
pub use quorate_core::{AsOf, TimelinePage};
#[cfg(feature = "embedded")]
pub use quorate_engine::Space;
pub use reads::BackendReads;

/// Future returned by a backend call.
pub type BackendFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// An agent and the epoch under which it acts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentIdentity {
    /// Id of the agent.
    pub agent: AgentId,
    /// Epoch assigned at registration.
    pub epoch: Epoch,
}

impl AgentIdentity {
    /// Returns the principal to use in a commit.
    #[must_use]
    pub fn principal(&self) -> Principal {
        Principal::Agent(self.agent.clone())
    }
}

/// A task leased by an agent.
#[derive(Clone, Debug)]
pub struct HeldTask {
    /// Task id and lease token.
    pub lease: TaskLeaseRef,
    /// Duration of the lease. Each heartbeat restarts it.
    pub lease_ms: u64,
    /// The leased task.
    pub task: Task,
    /// Input exactly as it was submitted; empty if there is none.
    pub input: Bytes,
    /// What earlier attempts and dependencies left.
    pub context: TaskContext,
}

/// Event received by a consumer of tasks.
#[derive(Clone, Debug)]
pub enum TaskEvent {
    /// A task to work on.
    Task(Box<HeldTask>),
    /// The lease of a task was lost. Stop working on it.
    Lost(TaskLeaseRef),
}

/// Work that an agent holds under a lease.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum HeldWork {
    /// A delivery. It has one lease at a time.
    Delivery(DeliveryId),
    /// A task, with its lease token.
    Task(TaskLeaseRef),
}

/// Event for an agent as the holder of leases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeaseEvent {
    /// The lease has ended, because the work is not needed any more. Stop working on it.
    Ended(HeldWork),
    /// Events may have been missed: extend the leases to learn which have ended.
    Interrupted,
}

/// Operations that the library needs from a hub.
pub trait Backend: BackendReads {
    /// Returns the space, if the hub is embedded.
    #[cfg(feature = "embedded")]
    fn space(&self) -> Option<&Space> {
        None
    }
    /// Returns the clock of this backend.
    fn clock(&self) -> Arc<dyn Clock>;
    /// Returns a new random salt.
    fn salt(&self) -> [u8; 16];
    /// Wraps bytes as a payload that is ready to commit.
    fn seal(&self, bytes: Bytes) -> Payload;

    /// Registers an agent and returns its new epoch.
    fn register(&self, principal: Principal, agent: RegisterAgent) -> BackendFuture<'_, Epoch>;
    /// Commits atomically. The commit is on disk when the future resolves.
    fn commit(&self, commit: Commit) -> BackendFuture<'_, Receipt>;
    /// Submits commits on a best-effort basis: the outcome is not awaited.
    fn submit(&self, commits: Vec<Commit>);
    /// Claims deliveries, waiting for the first one if there is none.
    fn claim(
        &self,
        identity: AgentIdentity,
        max: u32,
        lease_ms: u64,
        wait: Duration,
    ) -> BackendFuture<'_, Vec<ReceivedDelivery>>;
    /// Opens a consumer of deliveries with this credit.
    fn consume(
        &self,
        identity: AgentIdentity,
        credit: u32,
        lease_ms: u64,
    ) -> BackendFuture<'_, Box<dyn DeliveryStream>>;
    /// Opens the stream of events about the leases of an agent. If the agent also consumes deliveries, open it after
    /// [`Backend::consume`], to share the connection.
    fn lease_events(&self, identity: AgentIdentity) -> BackendFuture<'_, Box<dyn LeaseEventStream>>;
    /// Sends an ephemeral message: in memory only.
    fn send_ephemeral(&self, identity: AgentIdentity, message: Message) -> BackendFuture<'_, MessageRef>;
    /// Sends a request. The request is on disk when the future resolves; its answers arrive through the returned
    /// stream.
    fn request(
        &self,
        identity: AgentIdentity,
        request: SendRequest,
    ) -> BackendFuture<'_, Box<dyn ReplyStream>>;
    /// Sends a request to one recipient and waits for its answer.
    fn ask(&self, identity: AgentIdentity, request: SendRequest) -> BackendFuture<'_, Answer>;
    /// Resumes waiting for the answers to an earlier request.
    fn await_request(
        &self,
        identity: AgentIdentity,
        request: MessageId,
    ) -> BackendFuture<'_, Box<dyn ReplyStream>>;
    /// Sends an ephemeral request and waits for its answer.
    fn request_ephemeral(
        &self,
        identity: AgentIdentity,
        message: Message,
        timeout: Option<Duration>,
    ) -> BackendFuture<'_, Answer>;
    /// Sends a heartbeat.
    fn heartbeat(
        &self,
        identity: AgentIdentity,
        status: AgentStatus,
        health: Health,
    ) -> BackendFuture<'_, ()>;
    /// Creates tasks. The commit contains only that operation.
    fn create_tasks(&self, commit: Commit) -> BackendFuture<'_, Vec<TaskId>>;
    /// Claims tasks, waiting for the first one if there is none.
    fn claim_tasks(
        &self,
        claim: TaskClaimQuery,
        max: u32,
        wait: Duration,
    ) -> BackendFuture<'_, Vec<HeldTask>>;
    /// Opens a consumer of tasks with this credit.
    fn consume_tasks(&self, claim: TaskClaimQuery, credit: u32) -> BackendFuture<'_, Box<dyn TaskStream>>;
    /// Waits until a task has ended. The wait is part of the wait-for graph, so deadlocks are detected.
    fn wait_for_task_as_agent(
        &self,
        identity: AgentIdentity,
        task: TaskId,
        wait: Duration,
    ) -> BackendFuture<'_, TaskWithPayloads>;
    /// Rolls entries back to an earlier state, and returns the entries derived from the versions that were undone.
    fn rollback(
        &self,
        principal: Principal,
        epoch: Option<Epoch>,
        rollback: Rollback,
    ) -> BackendFuture<'_, RollbackResult>;
    /// Watches the entries with a key prefix, starting at a sequence number.
    fn watch(&self, prefix: String, from: Seq) -> Box<dyn ChangeStream>;
    /// Acquires locks, waiting for them if necessary.
    fn lock(
        &self,
        identity: AgentIdentity,
        acquire: AcquireLocks,
        wait: Duration,
    ) -> BackendFuture<'_, GrantedLocks>;
    /// Subscribes an agent to topics.
    fn subscribe(
        &self,
        identity: AgentIdentity,
        pattern: Pattern,
        history: Option<History>,
    ) -> BackendFuture<'_, Seq>;
    /// Ends a subscription.
    fn unsubscribe(&self, identity: AgentIdentity, pattern: Pattern) -> BackendFuture<'_, ()>;
    /// Closes the hub or the connection to it.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Stream of deliveries.
pub trait DeliveryStream: Send {
    /// Waits for the next delivery. Cancel safe. Returns `None` at the end of the stream.
    fn next(&mut self) -> BackendFuture<'_, Option<ReceivedDelivery>>;
    /// Returns the [`CreditReturn`] of the last delivery.
    fn credit_return(&self) -> CreditReturn;
    /// Releases unread deliveries without counting an attempt, and stops consuming.
    fn close(self: Box<Self>) -> BackendFuture<'static, ()>;
}

/// Stream of tasks.
pub trait TaskStream: Send {
    /// Waits for the next event. Cancel safe. Returns `None` at the end of the stream.
    fn next(&mut self) -> BackendFuture<'_, Option<TaskEvent>>;
    /// Returns the [`CreditReturn`] of the last task.
    fn credit_return(&self) -> CreditReturn;
    /// Releases unread tasks, and stops consuming.
    fn close(self: Box<Self>) -> BackendFuture<'static, ()>;
}

/// Stream of events for an agent as the holder of leases. Dropping it ends the stream.
pub trait LeaseEventStream: Send {
    /// Waits for the next event. Cancel safe. Returns `None` at the end of the stream.
    fn next(&mut self) -> BackendFuture<'_, Option<LeaseEvent>>;
}

/// Stream of changes of memory entries.
pub trait ChangeStream: Send {
    /// Waits for the next change. Cancel safe.
    fn next(&mut self) -> BackendFuture<'_, MemoryEntryChange>;
}

/// Stream of the answers to a request. Dropping it before the end cancels the request.
pub trait ReplyStream: Send {
    /// Returns the id of the request, which is the id of its message.
    fn id(&self) -> MessageId;
    /// Waits for the next answer. Returns `None` when all expected answers have arrived.
    fn next(&mut self) -> BackendFuture<'_, Option<Answer>>;
    /// Cancels the request.
    fn cancel(self: Box<Self>) -> BackendFuture<'static, ()>;
}

/// How the credit for one delivery or task is returned.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation per delivery")]
pub enum CreditReturn {
    /// By an operation in the commit that ends the delivery or task.
    InCommit(Op),
    /// By a callback that is called once with the outcome.
    Callback(Arc<dyn Fn(WorkOutcome) + Send + Sync>),
}

/// Outcome of a delivery or task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkOutcome {
    /// Ended by a commit that took effect.
    Settled,
    /// Not ended by a commit: it can be redelivered.
    Unsettled,
}

impl CreditReturn {
    /// Returns the operation to add to the commit that ends the delivery or task, if there is one.
    pub(crate) fn commit_op(&self) -> Option<Op> {
        match self {
            Self::InCommit(op) => Some(op.clone()),
            Self::Callback(_) => None,
        }
    }

    /// Reports the outcome. Must be called exactly once.
    pub(crate) fn report(&self, outcome: WorkOutcome) {
        match self {
            Self::InCommit(_) => {}
            Self::Callback(notify) => notify(outcome),
        }
    }
}

impl dyn ReplyStream {
    /// Waits for the only answer of a request with one recipient.
    pub(crate) async fn answer(&mut self) -> Result<Answer, Error> {
        let ended = || Refused::new(Code::Cancelled, "the request ended without an answer");
        self.next().await?.ok_or_else(|| ended().into())
    }
}

impl dyn Backend {
    /// Packs tasks and their inputs into one operation.
    pub(crate) fn create_tasks_op(&self, tasks: impl IntoIterator<Item = (NewTask, Option<Vec<u8>>)>) -> Op {
        Op::CreateTasks(CreateTasks::pack(tasks, self.salt()))
    }

    /// Sleeps on the clock of the backend.
    pub(crate) async fn sleep(&self, duration: Duration) {
        quorate_env::sleep(&*self.clock(), duration).await;
    }
}
