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
use quorate_core::{
    AcquireLocks, AgentId, AgentStatus, Code, Commit, CreateTasks, Epoch, GrantedLocks, Health, History,
    Message, MessageId, NewTask, Op, Pattern, Payload, Principal, Receipt, Refused, RegisterAgent, Rollback,
    SendRequest, Seq, TaskId, TaskLeaseRef,
};
use quorate_env::Clock;

use crate::task::{Task, TaskWithPayloads};

pub use quorate_api::entry::Entry;
pub use quorate_api::query::TaskClaimQuery;
pub use quorate_api::received::{Answer, Delivery, MessageRef};
pub use quorate_core::{AsOf, TimelinePage};
#[cfg(feature = "embedded")]
pub use quorate_engine::Space;
pub use reads::Reads;

/// Future returned by a backend call.
pub type Promise<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// An agent and the epoch under which it acts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Who {
    /// Id of the agent.
    pub agent: AgentId,
    /// Epoch assigned at registration.
    pub epoch: Epoch,
}

impl Who {
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
}

/// Event received by a consumer of tasks.
#[derive(Clone, Debug)]
pub enum TaskEvent {
    /// A task to work on.
    Task(Box<HeldTask>),
    /// The lease of a task was lost. Stop working on it.
    Lost(TaskLeaseRef),
}

/// Operations that the library needs from a hub.
pub trait Link: Reads {
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
    fn join(&self, principal: Principal, agent: RegisterAgent) -> Promise<'_, Epoch>;
    /// Commits atomically. The commit is on disk when the future resolves.
    fn commit(&self, commit: Commit) -> Promise<'_, Receipt>;
    /// Submits commits on a best-effort basis: the outcome is not awaited.
    fn submit(&self, commits: Vec<Commit>);
    /// Claims deliveries, waiting for the first one if there is none.
    fn claim(&self, who: Who, max: u32, lease_ms: u64, wait: Duration) -> Promise<'_, Vec<Delivery>>;
    /// Opens a consumer of deliveries with this credit.
    fn consume(&self, who: Who, credit: u32, lease_ms: u64) -> Promise<'_, Box<dyn Inbox>>;
    /// Sends an ephemeral message: in memory only.
    fn send_ephemeral(&self, who: Who, message: Message) -> Promise<'_, MessageRef>;
    /// Sends a request. The request is on disk when the future resolves; its answers arrive through the returned
    /// stream.
    fn request(&self, who: Who, ask: SendRequest) -> Promise<'_, Box<dyn Asked>>;
    /// Sends a request to one recipient and waits for its answer.
    fn ask(&self, who: Who, ask: SendRequest) -> Promise<'_, Answer>;
    /// Resumes waiting for the answers to an earlier request.
    fn await_request(&self, who: Who, question: MessageId) -> Promise<'_, Box<dyn Asked>>;
    /// Sends an ephemeral request and waits for its answer.
    fn request_ephemeral(&self, who: Who, message: Message, within: Option<Duration>) -> Promise<'_, Answer>;
    /// Sends a heartbeat.
    fn heartbeat(&self, who: Who, status: AgentStatus, health: Health) -> Promise<'_, ()>;
    /// Creates tasks. The commit contains only that operation.
    fn create_tasks(&self, commit: Commit) -> Promise<'_, Vec<TaskId>>;
    /// Claims tasks, waiting for the first one if there is none.
    fn claim_tasks(&self, claim: TaskClaimQuery, max: u32, wait: Duration) -> Promise<'_, Vec<HeldTask>>;
    /// Opens a consumer of tasks with this credit.
    fn consume_tasks(&self, claim: TaskClaimQuery, credit: u32) -> Promise<'_, Box<dyn TaskInbox>>;
    /// Waits until a task has ended. The wait is part of the wait-for graph, so deadlocks are detected.
    fn await_task(&self, who: Who, task: TaskId, wait: Duration) -> Promise<'_, TaskWithPayloads>;
    /// Rolls entries back to an earlier state, and returns the entries derived from the versions that were undone.
    fn rollback(
        &self,
        principal: Principal,
        epoch: Option<Epoch>,
        rollback: Rollback,
    ) -> Promise<'_, RollbackResult>;
    /// Watches the entries with a key prefix, starting at a sequence number.
    fn watch(&self, prefix: String, from: Seq) -> Box<dyn Changes>;
    /// Acquires locks, waiting for them if necessary.
    fn lock(&self, who: Who, ask: AcquireLocks, wait: Duration) -> Promise<'_, GrantedLocks>;
    /// Subscribes an agent to topics.
    fn subscribe(&self, who: Who, pattern: Pattern, history: Option<History>) -> Promise<'_, Seq>;
    /// Ends a subscription.
    fn unsubscribe(&self, who: Who, pattern: Pattern) -> Promise<'_, ()>;
    /// Closes the hub or the connection to it.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Stream of deliveries.
pub trait Inbox: Send {
    /// Waits for the next delivery. Cancel safe. Returns `None` at the end of the stream.
    fn next(&mut self) -> Promise<'_, Option<Delivery>>;
    /// Returns how to return the credit of the last delivery.
    fn room(&self) -> Room;
    /// Releases unread deliveries without counting an attempt, and stops consuming.
    fn close(self: Box<Self>) -> Promise<'static, ()>;
}

/// Stream of tasks.
pub trait TaskInbox: Send {
    /// Waits for the next event. Cancel safe. Returns `None` at the end of the stream.
    fn next(&mut self) -> Promise<'_, Option<TaskEvent>>;
    /// Returns how to return the credit of the last task.
    fn room(&self) -> Room;
    /// Releases unread tasks, and stops consuming.
    fn close(self: Box<Self>) -> Promise<'static, ()>;
}

/// Stream of changes of memory entries.
pub trait Changes: Send {
    /// Waits for the next change. Cancel safe.
    fn next(&mut self) -> Promise<'_, MemoryEntryChange>;
}

/// Stream of the answers to a request. Dropping it before the end cancels the request.
pub trait Asked: Send {
    /// Returns the id of the request, which is the id of its message.
    fn id(&self) -> MessageId;
    /// Waits for the next answer. Returns `None` when all expected answers have arrived.
    fn next(&mut self) -> Promise<'_, Option<Answer>>;
    /// Cancels the request.
    fn cancel(self: Box<Self>) -> Promise<'static, ()>;
}

/// How the credit for one delivery or task is returned.
#[derive(Clone)]
pub enum Room {
    /// By an operation in the commit that ends the delivery or task.
    InCommit(Op),
    /// By a callback that is called once with the outcome.
    Apart(Arc<dyn Fn(Over) + Send + Sync>),
}

/// Outcome of a delivery or task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// Ended by a commit that took effect.
    Settled,
    /// Not ended by a commit: it can be redelivered.
    LetGo,
}

impl Room {
    /// Returns the operation to add to the commit that ends the delivery or task, if there is one.
    pub(crate) fn op(&self) -> Option<Op> {
        match self {
            Self::InCommit(op) => Some(op.clone()),
            Self::Apart(_) => None,
        }
    }

    /// Reports the outcome. Must be called exactly once.
    pub(crate) fn made(&self, over: Over) {
        match self {
            Self::InCommit(_) => {}
            Self::Apart(notify) => notify(over),
        }
    }
}

impl dyn Asked {
    /// Waits for the only answer of a request with one recipient.
    pub(crate) async fn answer(&mut self) -> Result<Answer, Error> {
        let ended = || Refused::new(Code::Cancelled, "the request ended without an answer");
        self.next().await?.ok_or_else(|| ended().into())
    }
}

impl dyn Link {
    /// Packs tasks and their inputs into one operation.
    pub(crate) fn task_op(&self, tasks: impl IntoIterator<Item = (NewTask, Option<Vec<u8>>)>) -> Op {
        Op::CreateTasks(CreateTasks::pack(tasks, self.salt()))
    }

    /// Sleeps on the clock of the backend.
    pub(crate) async fn pass(&self, wait: Duration) {
        quorate_env::sleep(&*self.clock(), wait).await;
    }
}
