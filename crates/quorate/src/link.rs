//! The seam between the library and a hub: one in this process (`here.rs`), or one that is reached over the network
//! (the crate `quorate-client`). Everything above it is written once.
//!
//! For users of the library there is nothing to do here.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::{
    AcquireLocks, AgentId, Ask, Code, Commit, CreateTasks, Epoch, Health, History, Key, Locked, Message,
    MessageId, NewTask, Op, Pattern, Payload, Principal, Receipt, Refused, RegisterAgent, Seq, Status,
    TaskId, Version,
};
use quorate_engine::Error;
use quorate_store::Clock;

pub use quorate_engine::{Answer, Delivery, MessageRef, Space, TaskClaim, TaskEvent, TaskInHand};
pub use quorate_store::{Entry, When};

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

/// A hub, wherever it is: what the library needs of it.
pub trait Link: Send + Sync {
    /// The space, if it is in this process.
    fn space(&self) -> Option<&Space>;
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
    /// Asks; the answers come through what this returns.
    fn request(&self, who: Who, ask: Ask) -> Promise<'_, Box<dyn Asked>>;
    /// Asks in memory only.
    fn request_ephemeral(&self, who: Who, message: Message, within: Option<Duration>) -> Promise<'_, Answer>;
    /// Gives a sign of life.
    fn heartbeat(&self, who: Who, status: Status, health: Health) -> Promise<'_, ()>;
    /// One version of an entry, tombstones included.
    fn entry(&self, key: Key, when: When) -> Promise<'_, Option<Entry>>;
    /// The versions of an entry after this one, oldest first.
    fn history(&self, key: Key, after: Version, limit: usize) -> Promise<'_, Vec<Entry>>;
    /// The live entries whose key begins so, by key.
    fn entries(&self, prefix: String, after: Option<Key>, limit: usize) -> Promise<'_, Vec<Entry>>;
    /// Makes tasks. The commit holds that operation only.
    fn create_tasks(&self, commit: Commit) -> Promise<'_, Vec<TaskId>>;
    /// Takes tasks; waits for the first if there is none.
    fn claim_tasks(&self, claim: TaskClaim, max: u32, wait: Duration) -> Promise<'_, Vec<TaskInHand>>;
    /// Takes tasks as they come, within this credit.
    fn consume_tasks(&self, claim: TaskClaim, credit: u32) -> Promise<'_, Box<dyn TaskInbox>>;
    /// Takes locks; waits for them.
    fn lock(&self, who: Who, ask: AcquireLocks, wait: Duration) -> Promise<'_, Locked>;
    /// Subscribes to topics.
    fn subscribe(&self, who: Who, pattern: Pattern, history: Option<History>) -> Promise<'_, Seq>;
    /// Ends a subscription.
    fn unsubscribe(&self, who: Who, pattern: Pattern) -> Promise<'_, ()>;
    /// The patterns of an agent's subscriptions.
    fn subscriptions(&self, agent: AgentId) -> Promise<'_, Vec<Pattern>>;
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

/// Where answers come in. Whoever lets go of it before the end wants none any more.
pub trait Asked: Send {
    /// The id of the question, if the hub has told it.
    fn id(&self) -> Option<MessageId>;
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

impl dyn Link {
    /// The space, for what has no verb over the network.
    pub(crate) fn here(&self) -> Result<&Space, Error> {
        self.space().ok_or_else(|| {
            Refused::new(Code::Invalid, "a hub that is reached over the network does not do this yet")
                .hint("use its HTTP interface for this")
                .into()
        })
    }

    /// Packs tasks and their inputs into the operation that makes them all at once.
    pub(crate) fn task_op(&self, tasks: impl IntoIterator<Item = (NewTask, Option<Vec<u8>>)>) -> Op {
        Op::CreateTasks(CreateTasks::pack(tasks, self.salt()))
    }

    /// Waits until that much time has passed.
    pub(crate) async fn pass(&self, wait: Duration) {
        let clock = self.clock();
        let mut now = clock.now();
        let until = now.plus(wait).mono;
        while now.mono < until {
            clock.pass(Duration::from_millis(until.0 - now.mono.0)).await;
            now = clock.now();
        }
    }
}
