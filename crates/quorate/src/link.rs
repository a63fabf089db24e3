//! The seam between the library and a hub: one in this process (`here.rs`), or one that is reached over the network
//! (the crate `quorate-client`). Everything above it is written once.
//!
//! For users of the library there is nothing to do here.

mod reads;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_api::Error;
use quorate_api::received::Change;
use quorate_api::rollback::RolledBack;
use quorate_core::{
    AcquireLocks, AgentId, Ask, Code, Commit, CreateTasks, Epoch, Health, History, Locked, Message,
    MessageId, NewTask, Op, Pattern, Payload, Principal, Receipt, Refused, RegisterAgent, Rollback, Seq,
    Status, TaskId, TaskLeaseRef,
};
use quorate_env::Clock;

use crate::task::{Task, TaskWithPayloads};

pub use quorate_api::entry::Entry;
pub use quorate_api::query::TaskClaim;
pub use quorate_api::received::{Answer, Delivery, MessageRef};
pub use quorate_core::{Page, When};
#[cfg(feature = "embedded")]
pub use quorate_engine::Space;
pub use reads::Reads;

/// What will come of a call.
pub type Promise<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// An agent that acts, and which start of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Who {
    /// Which agent.
    pub agent: AgentId,
    /// Its start.
    pub epoch: Epoch,
}

impl Who {
    /// As it stands in a commit.
    #[must_use]
    pub fn principal(&self) -> Principal {
        Principal::Agent(self.agent.clone())
    }
}

/// A task in somebody's hands, under a lease.
#[derive(Clone, Debug)]
pub struct HeldTask {
    /// The lease.
    pub lease: TaskLeaseRef,
    /// How long it lasts, and each heartbeat anew.
    pub lease_ms: u64,
    /// The task.
    pub task: Task,
    /// Its input, byte for byte as it was given; empty if it has none.
    pub input: Bytes,
}

/// What comes to whoever takes tasks.
#[derive(Clone, Debug)]
pub enum TaskEvent {
    /// A task to work on.
    Task(Box<HeldTask>),
    /// A task that it works on is not its own any more: it should stop.
    Lost(TaskLeaseRef),
}

/// A hub, wherever it is: what the library needs of it.
pub trait Link: Reads {
    /// The space, if the hub is embedded.
    #[cfg(feature = "embedded")]
    fn space(&self) -> Option<&Space> {
        None
    }
    /// What time it is.
    fn clock(&self) -> Arc<dyn Clock>;
    /// A fresh random salt.
    fn salt(&self) -> [u8; 16];
    /// Makes bytes ready to be handed over.
    fn seal(&self, bytes: Bytes) -> Payload;

    /// Makes an agent known, or starts it again.
    fn join(&self, principal: Principal, agent: RegisterAgent) -> Promise<'_, Epoch>;
    /// Commits: all or nothing, on disk before this returns.
    fn commit(&self, commit: Commit) -> Promise<'_, Receipt>;
    /// Commits without waiting for what comes of it: what need not happen, but should.
    fn submit(&self, commits: Vec<Commit>);
    /// Takes deliveries; waits for the first if there is none.
    fn claim(&self, who: Who, max: u32, lease_ms: u64, wait: Duration) -> Promise<'_, Vec<Delivery>>;
    /// Takes deliveries as they come, within this credit.
    fn consume(&self, who: Who, credit: u32, lease_ms: u64) -> Promise<'_, Box<dyn Inbox>>;
    /// Sends a message that lives in memory only.
    fn send_ephemeral(&self, who: Who, message: Message) -> Promise<'_, MessageRef>;
    /// Asks; the question is on disk when this returns, and the answers come through what it returns.
    fn request(&self, who: Who, ask: Ask) -> Promise<'_, Box<dyn Asked>>;
    /// Asks somebody alone, and waits for the answer.
    fn ask(&self, who: Who, ask: Ask) -> Promise<'_, Answer>;
    /// Waits again for the answers to what was asked before.
    fn await_request(&self, who: Who, question: MessageId) -> Promise<'_, Box<dyn Asked>>;
    /// Asks in memory only.
    fn request_ephemeral(&self, who: Who, message: Message, within: Option<Duration>) -> Promise<'_, Answer>;
    /// Gives a sign of life.
    fn heartbeat(&self, who: Who, status: Status, health: Health) -> Promise<'_, ()>;
    /// Makes tasks. The commit holds that operation only.
    fn create_tasks(&self, commit: Commit) -> Promise<'_, Vec<TaskId>>;
    /// Takes tasks; waits for the first if there is none.
    fn claim_tasks(&self, claim: TaskClaim, max: u32, wait: Duration) -> Promise<'_, Vec<HeldTask>>;
    /// Takes tasks as they come, within this credit.
    fn consume_tasks(&self, claim: TaskClaim, credit: u32) -> Promise<'_, Box<dyn TaskInbox>>;
    /// Waits until a task is over; this agent waits meanwhile, which counts in the search for circles.
    fn await_task(&self, who: Who, task: TaskId, wait: Duration) -> Promise<'_, TaskWithPayloads>;
    /// Brings back what entries were, and lists what was built on what that undid.
    fn rollback(
        &self,
        principal: Principal,
        epoch: Option<Epoch>,
        rollback: Rollback,
    ) -> Promise<'_, RolledBack>;
    /// The changes of entries whose key begins so, from a record on.
    fn watch(&self, prefix: String, from: Seq) -> Box<dyn Changes>;
    /// Takes locks; waits for them.
    fn lock(&self, who: Who, ask: AcquireLocks, wait: Duration) -> Promise<'_, Locked>;
    /// Subscribes to topics.
    fn subscribe(&self, who: Who, pattern: Pattern, history: Option<History>) -> Promise<'_, Seq>;
    /// Ends a subscription.
    fn unsubscribe(&self, who: Who, pattern: Pattern) -> Promise<'_, ()>;
    /// Lets go of the hub.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Where deliveries come in.
pub trait Inbox: Send {
    /// The next delivery. Nothing is lost if the wait for it is given up. `None` when nothing more comes.
    fn next(&mut self) -> Promise<'_, Option<Delivery>>;
    /// Room for one more.
    fn room(&self) -> Room;
    /// Gives what was not looked at back untouched, and takes nothing more.
    fn close(self: Box<Self>) -> Promise<'static, ()>;
}

/// Where tasks come in.
pub trait TaskInbox: Send {
    /// What comes next. Nothing is lost if the wait for it is given up. `None` when nothing more comes.
    fn next(&mut self) -> Promise<'_, Option<TaskEvent>>;
    /// Room for one more.
    fn room(&self) -> Room;
    /// Gives what was not looked at back untouched, and takes nothing more.
    fn close(self: Box<Self>) -> Promise<'static, ()>;
}

/// Where changes of entries come in.
pub trait Changes: Send {
    /// The next change; waits for it. Nothing is lost if the wait for it is given up.
    fn next(&mut self) -> Promise<'_, Change>;
}

/// Where answers come in. Whoever lets go of it before the end wants none any more.
pub trait Asked: Send {
    /// The id of the question and of the request.
    fn id(&self) -> MessageId;
    /// The next answer; `None` when all that could come came.
    fn next(&mut self) -> Promise<'_, Option<Answer>>;
    /// Wants no answer any more, and says so.
    fn cancel(self: Box<Self>) -> Promise<'static, ()>;
}

/// Room for one more delivery or task.
#[derive(Clone)]
pub enum Room {
    /// Made by an operation in the commit that ends the one before.
    InCommit(Op),
    /// Made by telling somebody, once, how the one before ended.
    Apart(Arc<dyn Fn(Over) + Send + Sync>),
}

/// How a piece of work ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// With a commit that took effect.
    Settled,
    /// Without one: it may come again.
    LetGo,
}

impl Room {
    /// Goes into the commit that ends the one before.
    pub(crate) fn op(&self) -> Option<Op> {
        match self {
            Self::InCommit(op) => Some(op.clone()),
            Self::Apart(_) => None,
        }
    }

    /// Called once, when the one before is over.
    pub(crate) fn made(&self, over: Over) {
        match self {
            Self::InCommit(_) => {}
            Self::Apart(tell) => tell(over),
        }
    }
}

impl dyn Asked {
    /// The one answer, of somebody who was asked alone.
    pub(crate) async fn answer(&mut self) -> Result<Answer, Error> {
        let nothing = || Refused::new(Code::Cancelled, "no answer can come any more");
        self.next().await?.ok_or_else(|| nothing().into())
    }
}

impl dyn Link {
    /// Packs tasks and their inputs into the operation that makes them all at once.
    pub(crate) fn task_op(&self, tasks: impl IntoIterator<Item = (NewTask, Option<Vec<u8>>)>) -> Op {
        Op::CreateTasks(CreateTasks::pack(tasks, self.salt()))
    }

    /// Waits until that much time has passed.
    pub(crate) async fn pass(&self, wait: Duration) {
        quorate_env::sleep(&*self.clock(), wait).await;
    }
}
