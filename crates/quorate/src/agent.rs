//! Agents: registration, sending, receiving and leases.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_api::Error;
use quorate_api::received::{MessageRef, ReceivedDelivery};
use quorate_core::limits::LEASE_MS_DEFAULT;
use quorate_core::{
    AgentId, AgentRole, AgentStatus, Code, Commit, DeclarationDigest, Epoch, Health, LeaseRef, Message, Op,
    Principal, Receipt, Refused, RegisterAgent, Timestamp, TraceContext,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::backend::{AgentIdentity, Backend, CreditReturn, WorkOutcome};
use crate::handler::{Failure, Handler, OTHER_ACTIONS, Work, erase_handler};
use crate::hub::Hub;
use crate::memory::Memory;
use crate::running::{self, RunningAgent};
use crate::send::SendBuilder;
use crate::session::Session;
use crate::step::Step;
use crate::task::{TaskHandler, TaskWork, erase_task_handler};

/// Default heartbeat interval of a running agent.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Builder for an agent. Finish it with [`join`](AgentBuilder::join) or [`run`](AgentBuilder::run).
#[must_use]
pub struct AgentBuilder {
    backend: Arc<dyn Backend>,
    id: String,
    name: Option<String>,
    role: AgentRole,
    capabilities: Vec<String>,
    handlers: HashMap<String, Arc<dyn Handler>>,
    supported_actions: Vec<String>,
    task_handlers: HashMap<String, Arc<dyn TaskHandler>>,
    concurrency: u32,
    lease: Duration,
    heartbeat: Option<Duration>,
    declaration: Option<DeclarationDigest>,
}

impl AgentBuilder {
    pub(crate) fn new(backend: Arc<dyn Backend>, id: String) -> Self {
        Self {
            backend,
            id,
            name: None,
            role: AgentRole::default(),
            capabilities: Vec::new(),
            handlers: HashMap::new(),
            supported_actions: Vec::new(),
            task_handlers: HashMap::new(),
            concurrency: 1,
            lease: Duration::from_millis(LEASE_MS_DEFAULT),
            heartbeat: None,
            declaration: None,
        }
    }

    /// Sets the display name. Defaults to the id.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the role. Defaults to [`AgentRole::Worker`].
    pub fn role(mut self, role: AgentRole) -> Self {
        self.role = role;
        self
    }

    /// Adds a capability.
    pub fn capability(mut self, capability: impl Into<String>) -> Self {
        self.capabilities.push(capability.into());
        self
    }

    /// Registers a handler for messages with this action.
    ///
    /// A handler is an async function with a typed payload. Its return value is sent to the requester in the same
    /// commit that acknowledges the delivery. It is dropped when the answer is not needed any more: the request was
    /// cancelled, timed out, or was answered by another agent.
    pub fn on<P, R, F, Fut>(mut self, action: impl Into<String>, function: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(Work<P>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        self.handlers.insert(action.into(), erase_handler(function));
        self
    }

    /// Registers a handler for messages with an action that no other handler has.
    pub fn on_other<P, R, F, Fut>(mut self, function: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(Work<P>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        self.handlers.insert(OTHER_ACTIONS.to_owned(), erase_handler(function));
        self
    }

    /// Adds an action to those that the agent supports, without a handler of its own: see
    /// [`AgentBuilder::on_other`].
    pub fn supports(mut self, action: impl Into<String>) -> Self {
        self.supported_actions.push(action.into());
        self
    }

    /// Sets the digest of what the agent is declared to be. It is stored with the registration.
    pub fn declaration(mut self, declaration: DeclarationDigest) -> Self {
        self.declaration = Some(declaration);
        self
    }

    /// Registers a handler for tasks of this type, and adds the type to the agent's capabilities.
    ///
    /// A handler is an async function with a typed input. Its return value becomes the result of the task, in the
    /// same commit that completes it. It is dropped when the task is cancelled or its lease is lost.
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
        self.task_handlers.insert(task_type, erase_task_handler(function));
        self
    }

    /// Sets the number of deliveries and tasks that are handled concurrently. Defaults to 1.
    pub fn concurrency(mut self, count: u32) -> Self {
        self.concurrency = count.max(1);
        self
    }

    /// Sets the lease duration of deliveries. Defaults to 30 s.
    ///
    /// A delivery whose lease expires is redelivered. While a handler runs, its lease is extended automatically.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the heartbeat interval.
    ///
    /// An agent that misses three heartbeats is considered offline, and its leases are revoked. A running agent sends
    /// a heartbeat every 10 s by default. An agent that only joined is not monitored by default.
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.heartbeat = Some(interval);
        self
    }

    /// Registers the agent under a new epoch. Commits of earlier epochs of the same agent are rejected from then on.
    ///
    /// # Errors
    /// Returns an error if the registration is rejected or the storage fails.
    pub async fn join(self) -> Result<Agent, Error> {
        self.register().await
    }

    /// Registers the agent and handles incoming deliveries and tasks in the background until it is stopped.
    ///
    /// # Errors
    /// See [`AgentBuilder::join`].
    pub async fn run(mut self) -> Result<RunningAgent, Error> {
        self.heartbeat.get_or_insert(HEARTBEAT_INTERVAL);
        let agent = self.register().await?;
        running::start_agent(agent, self.handlers, self.task_handlers, self.concurrency).await
    }

    /// Registers the agent and starts its heartbeat.
    async fn register(&self) -> Result<Agent, Error> {
        let id = AgentId::for_registration(&self.id)?;
        let register = RegisterAgent {
            name: self.name.clone().unwrap_or_else(|| self.id.clone()),
            role: self.role,
            capabilities: self.capabilities.clone(),
            supported_actions: self.supported_actions(),
            heartbeat_ms: self.heartbeat.map_or(0, to_millis),
            declaration: self.declaration,
            ..RegisterAgent::named(id.clone())
        };
        let epoch = self.backend.register(registrar(self.role, &id), register).await?;
        let backend = Arc::clone(&self.backend);
        let identity = AgentIdentity { agent: id.clone(), epoch };
        let heartbeats = self
            .heartbeat
            .map(|interval| Arc::new(HeartbeatLoop::start(Arc::clone(&backend), identity, interval)));
        Ok(Agent { backend, id, epoch, lease_ms: to_millis(self.lease), heartbeats })
    }

    /// Returns the supported actions in alphabetical order, so that the same builder gives the same registration.
    fn supported_actions(&self) -> Vec<String> {
        let handled = self.handlers.keys().filter(|action| *action != OTHER_ACTIONS);
        let actions: BTreeSet<&String> = handled.chain(&self.supported_actions).collect();
        actions.into_iter().cloned().collect()
    }
}

/// Returns the principal that registers an agent. A coordinator is registered by the hub itself: under a supervised policy an
/// agent may not assign that role to itself.
fn registrar(role: AgentRole, id: &AgentId) -> Principal {
    match role {
        AgentRole::Coordinator => Principal::System,
        AgentRole::Worker | AgentRole::Specialist | AgentRole::Observer => Principal::Agent(id.clone()),
    }
}

impl Hub {
    /// Returns an agent that is registered already, under its current epoch: nothing changes for its process. Calls are refused
    /// with `STALE_EPOCH` once it is registered again.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, `FORBIDDEN` if the caller may not act as this agent, or a storage error.
    pub async fn registered_agent(&self, id: &str) -> Result<Agent, Error> {
        let id = AgentId::new(id)?;
        let info = self.backend.agent(id.clone()).await?;
        // An update with the same content changes nothing. Over the network it provides the agent's credentials.
        let register = RegisterAgent {
            id: id.clone(),
            name: info.name,
            role: info.role,
            capabilities: info.capabilities,
            supported_actions: info.supported_actions,
            epoch: Some(info.epoch),
            heartbeat_ms: info.heartbeat_ms,
            declaration: info.declaration,
        };
        let epoch = self.backend.register(registrar(info.role, &id), register).await?;
        let backend = Arc::clone(&self.backend);
        Ok(Agent { backend, id, epoch, lease_ms: LEASE_MS_DEFAULT, heartbeats: None })
    }
}

/// A registered agent. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) id: AgentId,
    pub(crate) epoch: Epoch,
    pub(crate) lease_ms: u64,
    /// Sends heartbeats until the last clone of this agent is dropped.
    heartbeats: Option<Arc<HeartbeatLoop>>,
}

/// Background task that sends heartbeats until it is dropped.
struct HeartbeatLoop {
    /// Status and health that the agent reported last.
    reported: Arc<Mutex<(AgentStatus, Health)>>,
    task: JoinHandle<()>,
}

impl HeartbeatLoop {
    fn start(backend: Arc<dyn Backend>, identity: AgentIdentity, interval: Duration) -> Self {
        let reported = Arc::new(Mutex::new((AgentStatus::Idle, Health::Healthy)));
        let shared = Arc::clone(&reported);
        let latest = move || shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let send_heartbeats = async move {
            loop {
                backend.sleep(interval).await;
                let (status, health) = latest();
                match backend.heartbeat(identity.clone(), status, health).await {
                    Err(error) if matches!(error.code(), Code::StaleEpoch | Code::NotFound) => return,
                    // Other errors are transient, and the agent stays online until three heartbeats are missed.
                    Err(error) => {
                        let (agent, code) = (&identity.agent, error.code().as_str());
                        tracing::warn!(%agent, code, "heartbeat failed");
                    }
                    Ok(_) => {}
                }
            }
        };
        Self { reported, task: tokio::spawn(send_heartbeats) }
    }
}

impl Drop for HeartbeatLoop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Agent {
    /// Returns the agent id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    pub(crate) fn principal(&self) -> Principal {
        Principal::Agent(self.id.clone())
    }

    pub(crate) fn identity(&self) -> AgentIdentity {
        AgentIdentity { agent: self.id.clone(), epoch: self.epoch }
    }

    pub(crate) fn new_commit(&self, ops: Vec<Op>) -> Commit {
        Commit { epoch: Some(self.epoch), ..Commit::new(self.principal(), ops) }
    }

    /// Commits the operations that end a delivery or task, and returns its credit.
    pub(crate) async fn commit_end(&self, mut ops: Vec<Op>, credit: &CreditReturn) -> Result<Receipt, Error> {
        ops.extend(credit.commit_op());
        let receipt = self.backend.commit(self.new_commit(ops)).await?;
        credit.report(WorkOutcome::Settled);
        Ok(receipt)
    }

    /// Returns the credit of a delivery or task that ended without a commit.
    pub(crate) async fn return_credit(&self, credit: &CreditReturn) {
        if let Some(op) = credit.commit_op() {
            let _ = self.backend.commit(self.new_commit(vec![op])).await;
        }
        credit.report(WorkOutcome::Unsettled);
    }

    /// Sends a message. Await the returned builder; when it resolves, the message is on disk.
    ///
    /// Recipients are:
    ///
    /// - an agent id
    /// - `topic:NAME`: all subscribers of a topic
    /// - `role:NAME`: all agents with a role
    /// - `can:CAPABILITY`: one agent with a capability
    /// - `*`: all other agents
    pub fn send(
        &self,
        to: impl Into<String>,
        action: impl Into<String>,
        payload: impl Serialize,
    ) -> SendBuilder {
        SendBuilder::new(self.clone(), vec![to.into()], action.into(), to_json(payload))
    }

    /// Sends one message to several agents atomically: if one recipient is unknown, the message is sent to none.
    pub fn send_all<T: Into<String>>(
        &self,
        to: impl IntoIterator<Item = T>,
        action: impl Into<String>,
        payload: impl Serialize,
    ) -> SendBuilder {
        SendBuilder::new(
            self.clone(),
            to.into_iter().map(Into::into).collect(),
            action.into(),
            to_json(payload),
        )
    }

    /// Claims the next delivery of the inbox, waiting up to `wait` for one to arrive.
    ///
    /// # Errors
    /// Returns `STALE_EPOCH` if the agent was registered again elsewhere, or a storage error.
    pub async fn receive(&self, wait: Duration) -> Result<Option<ReceivedMessage>, Error> {
        let deliveries = self.backend.claim(self.identity(), 1, self.lease_ms, wait).await?;
        Ok(deliveries.into_iter().next().map(ReceivedMessage))
    }

    /// Starts a commit that acknowledges a delivery. Everything added to the [`Step`] takes effect atomically with
    /// the ack.
    pub fn step(&self, delivery: &ReceivedMessage) -> Step {
        Step::new(self.clone(), delivery.0.lease)
    }

    /// Starts a commit that acknowledges no delivery.
    pub fn commit(&self) -> Step {
        Step::new(self.clone(), None)
    }

    /// Negatively acknowledges a delivery: it is redelivered after `delay`, or dead-lettered after its last attempt.
    ///
    /// # Errors
    /// Returns `STALE_LEASE` if the lease has expired and the delivery was redelivered, or a storage error.
    pub async fn nack(&self, delivery: &ReceivedMessage, delay: Duration, reason: &str) -> Result<(), Error> {
        let Some(lease) = delivery.0.lease else { return Ok(()) };
        let delay_ms = to_millis(delay);
        let action = quorate_core::NackAction::Retry { delay_ms: Some(delay_ms) };
        let nack = quorate_core::Nack { lease, action, reason: reason.to_owned() };
        self.backend.commit(self.new_commit(vec![Op::Nack(nack)])).await.map(drop)
    }

    /// Extends the lease of a delivery to `lease` from now.
    ///
    /// # Errors
    /// Returns `STALE_LEASE` if the lease has expired and the delivery was redelivered, or a storage error.
    pub async fn extend_lease(&self, delivery: &ReceivedMessage, lease: Duration) -> Result<(), Error> {
        let Some(held) = delivery.0.lease else { return Ok(()) };
        self.commit_extend(held, to_millis(lease)).await
    }

    pub(crate) async fn commit_extend(&self, lease: LeaseRef, lease_ms: u64) -> Result<(), Error> {
        let extend = quorate_core::Extend { lease, lease_ms };
        self.backend.commit(self.new_commit(vec![Op::Extend(extend)])).await.map(drop)
    }

    /// Reports the status and health of the agent. Also counts as a heartbeat.
    ///
    /// # Errors
    /// Returns `STALE_EPOCH` if the agent was registered again elsewhere, or a storage error.
    pub async fn report_status(&self, status: AgentStatus, health: Health) -> Result<(), Error> {
        if let Some(heartbeats) = &self.heartbeats {
            *heartbeats.reported.lock().unwrap_or_else(PoisonError::into_inner) = (status, health.clone());
        }
        self.backend.heartbeat(self.identity(), status, health).await
    }

    /// Returns a handle to a session, accessed as this agent. The agent that opens a session is its coordinator.
    #[must_use]
    pub fn session(&self, id: impl Into<String>) -> Session {
        Session::new(Arc::clone(&self.backend), self.principal(), Some(self.epoch), id.into())
    }

    /// Returns the shared memory, accessed as this agent.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory::new(Arc::clone(&self.backend), self.principal(), Some(self.epoch))
    }
}

/// A delivery claimed by this agent: a message under a lease.
#[derive(Clone, Debug)]
pub struct ReceivedMessage(pub(crate) ReceivedDelivery);

impl ReceivedMessage {
    /// Deserializes the payload.
    ///
    /// # Errors
    /// Returns `INVALID` if the payload does not match the type.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json(&self.0.message.payload.bytes)
    }

    /// Returns the payload exactly as it was sent.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0.message.payload.bytes
    }

    /// Returns the message with all its fields.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.0.message
    }

    /// Returns the id of the sender; empty if the hub sent the message.
    #[must_use]
    pub fn sender(&self) -> &str {
        self.0.message.from.as_ref().map_or("", AgentId::as_str)
    }

    /// Returns the requested action.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.0.message.action
    }

    /// Returns the message id.
    #[must_use]
    pub fn id(&self) -> MessageRef {
        self.0.id
    }

    /// Returns the trace context of the message, to propagate to spans caused by it. `None` for an ephemeral message
    /// without a trace.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        self.0.trace()
    }

    /// Returns the attempt number, starting at 1.
    #[must_use]
    pub fn attempt(&self) -> u16 {
        self.0.attempt
    }

    /// Returns the time at which the message was sent, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn sent_at(&self) -> Timestamp {
        self.0.sent_at
    }
}

pub(crate) fn to_json(value: impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(&value).map_err(|error| {
        Refused::new(Code::Invalid, format!("the payload cannot be serialized as JSON: {error}")).into()
    })
}

pub(crate) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        let kind = std::any::type_name::<T>();
        Refused::new(Code::Invalid, format!("the payload cannot be parsed as {kind}: {error}")).into()
    })
}
