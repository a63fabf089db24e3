//! An agent that takes part.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_api::Error;
use quorate_api::received::{Delivery, MessageRef};
use quorate_core::limits::LEASE_MS_DEFAULT;
use quorate_core::{
    AgentId, Code, Commit, Epoch, Health, LeaseRef, Message, Op, Principal, Receipt, Refused, RegisterAgent,
    Role, Status, Timestamp, TraceContext,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::handler::{Failure, Handler, Work, handler};
use crate::link::{Link, Over, Room, Who};
use crate::memory::Memory;
use crate::run::{self, Running};
use crate::send::Sending;
use crate::session::Session;
use crate::step::Step;
use crate::task::{TaskHandler, TaskWork, task_handler};

/// How often an agent at work gives a sign of life.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Describes an agent before it joins.
#[must_use]
pub struct AgentBuilder {
    link: Arc<dyn Link>,
    id: String,
    name: Option<String>,
    role: Role,
    capabilities: Vec<String>,
    handlers: HashMap<String, Arc<dyn Handler>>,
    task_handlers: HashMap<String, Arc<dyn TaskHandler>>,
    at_once: u32,
    lease: Duration,
    heartbeat: Option<Duration>,
}

impl AgentBuilder {
    pub(crate) fn new(link: Arc<dyn Link>, id: String) -> Self {
        Self {
            link,
            id,
            name: None,
            role: Role::default(),
            capabilities: Vec::new(),
            handlers: HashMap::new(),
            task_handlers: HashMap::new(),
            at_once: 1,
            lease: Duration::from_millis(LEASE_MS_DEFAULT),
            heartbeat: None,
        }
    }

    /// What people call it; the id if nothing is said.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What it is in the group; a worker if nothing is said.
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Something it can do.
    pub fn can(mut self, capability: impl Into<String>) -> Self {
        self.capabilities.push(capability.into());
        self
    }

    /// How it answers an action: a plain async function with a typed payload. What it returns is sent back to whoever
    /// asked, in the same commit that ends the delivery.
    pub fn on<P, R, F, Fut>(mut self, action: impl Into<String>, function: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(Work<P>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        self.handlers.insert(action.into(), handler(function));
        self
    }

    /// How it does tasks of a type: a plain async function with a typed input. What it returns is the result, in the commit
    /// that ends the task. An agent that does tasks of a type has that capability.
    pub fn on_task<P, R, F, Fut>(mut self, task_type: impl Into<String>, function: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(TaskWork<P>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        let task_type = task_type.into();
        if !self.capabilities.contains(&task_type) {
            self.capabilities.push(task_type.clone());
        }
        self.task_handlers.insert(task_type, task_handler(function));
        self
    }

    /// How many deliveries and tasks it works on at once; one if nothing is said.
    pub fn at_once(mut self, count: u32) -> Self {
        self.at_once = count.max(1);
        self
    }

    /// How long it may be silent before its work is given to somebody else; 30 s if nothing is said. While a handler
    /// works, its lease is prolonged by itself.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How often it gives a sign of life; whoever misses three is offline, and what it held goes to others. An agent that
    /// runs does so every 10 s if nothing is said; one that only joins is not watched.
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.heartbeat = Some(every);
        self
    }

    /// Joins with a new epoch: an earlier start of the same agent can change nothing any more.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn join(self) -> Result<Agent, Error> {
        self.register().await
    }

    /// Joins, and works on what comes until it is stopped.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn run(mut self) -> Result<Running, Error> {
        self.heartbeat.get_or_insert(HEARTBEAT);
        let agent = self.register().await?;
        run::start(agent, self.handlers, self.task_handlers, self.at_once).await
    }

    /// Makes the agent known as it is described.
    async fn register(&self) -> Result<Agent, Error> {
        let id = AgentId::for_agent(&self.id)?;
        let register = RegisterAgent {
            name: self.name.clone().unwrap_or_else(|| self.id.clone()),
            role: self.role,
            capabilities: self.capabilities.clone(),
            supported_actions: self.handlers.keys().cloned().collect(),
            heartbeat_ms: self.heartbeat.map_or(0, millis),
            ..RegisterAgent::named(id.clone())
        };
        // Whoever holds the hub may say who leads; under supervision an agent may not say so of itself.
        let principal = match self.role {
            Role::Coordinator => Principal::System,
            Role::Worker | Role::Specialist | Role::Observer => Principal::Agent(id.clone()),
        };
        let epoch = self.link.join(principal, register).await?;
        let link = Arc::clone(&self.link);
        let who = Who { agent: id.clone(), epoch };
        let pulse = self.heartbeat.map(|every| Arc::new(Pulse::start(Arc::clone(&link), who, every)));
        Ok(Agent { link, id, epoch, lease_ms: millis(self.lease), pulse })
    }
}

/// An agent that joined. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    pub(crate) link: Arc<dyn Link>,
    pub(crate) id: AgentId,
    pub(crate) epoch: Epoch,
    pub(crate) lease_ms: u64,
    /// Beats for as long as anybody has this agent.
    pulse: Option<Arc<Pulse>>,
}

/// Signs of life, for as long as it is held.
struct Pulse {
    /// What the agent last said of itself.
    said: Arc<Mutex<(Status, Health)>>,
    task: JoinHandle<()>,
}

impl Pulse {
    fn start(link: Arc<dyn Link>, who: Who, every: Duration) -> Self {
        let said = Arc::new(Mutex::new((Status::Idle, Health::Healthy)));
        let says = Arc::clone(&said);
        let says = move || says.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let beat = async move {
            loop {
                link.pass(every).await;
                let (status, health) = says();
                match link.heartbeat(who.clone(), status, health).await {
                    Err(error) if matches!(error.code(), Code::StaleEpoch | Code::NotFound) => return,
                    // Anything else may pass; two more may be missed.
                    Err(error) => {
                        let (agent, code) = (&who.agent, error.code().as_str());
                        tracing::warn!(%agent, code, "a heartbeat was not delivered");
                    }
                    Ok(_) => {}
                }
            }
        };
        Self { said, task: tokio::spawn(beat) }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Agent {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    pub(crate) fn principal(&self) -> Principal {
        Principal::Agent(self.id.clone())
    }

    pub(crate) fn who(&self) -> Who {
        Who { agent: self.id.clone(), epoch: self.epoch }
    }

    pub(crate) fn commit_of(&self, ops: Vec<Op>) -> Commit {
        Commit { epoch: Some(self.epoch), ..Commit::new(self.principal(), ops) }
    }

    /// Ends a piece of work, and makes room for the next.
    pub(crate) async fn end(&self, mut ops: Vec<Op>, room: &Room) -> Result<Receipt, Error> {
        ops.extend(room.op());
        let receipt = self.link.commit(self.commit_of(ops)).await?;
        room.made(Over::Settled);
        Ok(receipt)
    }

    /// Makes room for the next when there was no commit to put that into.
    pub(crate) async fn go_on(&self, room: &Room) {
        if let Some(op) = room.op() {
            let _ = self.link.commit(self.commit_of(vec![op])).await;
        }
        room.made(Over::LetGo);
    }

    /// Sends a message to an agent, `topic:NAME`, `*` (everybody else), `role:NAME` or `can:CAPABILITY` (one who can).
    /// Await it: then it is on disk.
    pub fn send(&self, to: impl Into<String>, action: impl Into<String>, payload: impl Serialize) -> Sending {
        Sending::new(self.clone(), vec![to.into()], action.into(), to_json(payload))
    }

    /// Sends a message to several agents: to all of them or, if one is unknown, to none.
    pub fn send_all<T: Into<String>>(
        &self,
        to: impl IntoIterator<Item = T>,
        action: impl Into<String>,
        payload: impl Serialize,
    ) -> Sending {
        Sending::new(self.clone(), to.into_iter().map(Into::into).collect(), action.into(), to_json(payload))
    }

    /// Takes the next delivery from the inbox; waits for it, but not longer than this.
    ///
    /// # Errors
    /// `STALE_EPOCH` if the agent was started again, or a failure of the storage.
    pub async fn receive(&self, wait: Duration) -> Result<Option<Received>, Error> {
        let taken = self.link.claim(self.who(), 1, self.lease_ms, wait).await?;
        Ok(taken.into_iter().next().map(Received))
    }

    /// Ends a delivery, together with whatever is added: all of it in one commit.
    pub fn step(&self, done: &Received) -> Step {
        Step::new(self.clone(), done.0.lease)
    }

    /// A commit that ends no delivery.
    pub fn commit(&self) -> Step {
        Step::new(self.clone(), None)
    }

    /// Gives a delivery back to be tried again after a while; a dead letter after the last try.
    ///
    /// # Errors
    /// `STALE_LEASE` if it is somebody else's already, or a failure of the storage.
    pub async fn give_back(&self, delivery: &Received, delay: Duration, reason: &str) -> Result<(), Error> {
        let Some(lease) = delivery.0.lease else { return Ok(()) };
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let then = quorate_core::NackThen::Retry { delay_ms };
        let nack = quorate_core::Nack { lease, then, reason: reason.to_owned() };
        self.link.commit(self.commit_of(vec![Op::Nack(nack)])).await.map(drop)
    }

    /// Keeps a delivery for longer, counted from now.
    ///
    /// # Errors
    /// `STALE_LEASE` if it is somebody else's already, or a failure of the storage.
    pub async fn extend(&self, delivery: &Received, lease: Duration) -> Result<(), Error> {
        let Some(held) = delivery.0.lease else { return Ok(()) };
        self.prolong(held, u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)).await
    }

    pub(crate) async fn prolong(&self, lease: LeaseRef, lease_ms: u64) -> Result<(), Error> {
        let extend = quorate_core::Extend { lease, lease_ms };
        self.link.commit(self.commit_of(vec![Op::Extend(extend)])).await.map(drop)
    }

    /// Says what it is doing and how well it is, beyond what shows in what it holds.
    ///
    /// # Errors
    /// `STALE_EPOCH` if the agent was started again, or a failure of the storage.
    pub async fn report(&self, status: Status, health: Health) -> Result<(), Error> {
        if let Some(pulse) = &self.pulse {
            *pulse.said.lock().unwrap_or_else(PoisonError::into_inner) = (status, health.clone());
        }
        self.link.heartbeat(self.who(), status, health).await
    }

    /// A session, led or added to in this agent's name. Whoever opens it leads it.
    #[must_use]
    pub fn session(&self, id: impl Into<String>) -> Session {
        Session::new(Arc::clone(&self.link), self.principal(), Some(self.epoch), id.into())
    }

    /// Shared memory, read and written in this agent's name.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory::new(Arc::clone(&self.link), self.principal(), Some(self.epoch))
    }
}

/// A message in this agent's hands, under a lease.
#[derive(Clone, Debug)]
pub struct Received(pub(crate) Delivery);

impl Received {
    /// The payload, typed.
    ///
    /// # Errors
    /// `INVALID` if it is not of that shape.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json(&self.0.message.payload.bytes)
    }

    /// The payload, byte for byte as it was sent.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0.message.payload.bytes
    }

    /// The message with all its fields.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.0.message
    }

    /// Who sent it; empty for the hub itself.
    #[must_use]
    pub fn from(&self) -> &str {
        self.0.message.from.as_ref().map_or("", AgentId::as_str)
    }

    /// What it asks for.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.0.message.action
    }

    /// The id of the message.
    #[must_use]
    pub fn id(&self) -> MessageRef {
        self.0.id
    }

    /// Its span, for whoever records what it leads to. `None` for a message in memory only that has no trace.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        self.0.trace()
    }

    /// The how many-th try this is, counted from 1.
    #[must_use]
    pub fn attempt(&self) -> u16 {
        self.0.attempt
    }

    /// When it was sent, in milliseconds since 1970.
    #[must_use]
    pub fn sent_at(&self) -> Timestamp {
        self.0.sent_at
    }
}

pub(crate) fn to_json(value: impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(&value).map_err(|error| {
        Refused::new(Code::Invalid, format!("the payload cannot be written as JSON: {error}")).into()
    })
}

pub(crate) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        let kind = std::any::type_name::<T>();
        Refused::new(Code::Invalid, format!("the payload cannot be read as {kind}: {error}")).into()
    })
}
