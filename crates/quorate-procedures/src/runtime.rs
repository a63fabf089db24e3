//! Drives the procedures of a space whose machines this release knows. The runtime acts as an ordinary agent: it sends
//! requests, creates tasks, and stores its state in procedures. Each step is one commit that contains the new state,
//! the outputs, and the acks of the deliveries that caused it. A restarted hub therefore resumes where it stopped and
//! repeats nothing that is already recorded. Procedures are independent: the failure of one does not affect another.

mod changes;
mod drive;
mod host;
mod inbox;
mod lookup;
mod outbox;
mod run;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::{
    AgentId, AgentRole, Code, Commit, Epoch, Op, OpResult, Principal, Procedure, ProcedureId,
    ProcedureStatus, Refused, RegisterAgent, StoreError,
};
use quorate_engine::{Error, Space};
use quorate_env::Backoff;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::registry::{Kind, Registry};
use changes::Changes;
use inbox::Incoming;

pub use host::ProcedureHost;

/// Agent that drives procedures, except for those of kinds that name another one.
pub const PROCEDURE_DRIVER: &str = "procedures";
/// Page size when listing running procedures at startup.
const PAGE: usize = 500;

/// Background task that drives the procedures of one agent in one space.
pub(crate) struct Runtime {
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Runtime {
    /// Resumes the running procedures of the agent, and drives those that are started later.
    ///
    /// # Errors
    /// If the registration is refused, or storage fails.
    pub(crate) async fn start(
        space: Space,
        registry: Arc<Registry>,
        driver: &'static str,
    ) -> Result<Self, Error> {
        let agent = AgentId::new(driver)?;
        let register = RegisterAgent {
            id: agent.clone(),
            name: display_name(driver),
            role: AgentRole::Coordinator,
            capabilities: Vec::new(),
            supported_actions: Vec::new(),
            epoch: None,
            heartbeat_ms: 0,
            declaration: None,
        };
        // As the hub: an agent may not register itself as coordinator in a supervised space.
        let commit = Commit::new(Principal::System, vec![Op::RegisterAgent(register)]);
        let epoch = match space.commit(commit).await?.results.first() {
            Some(OpResult::Registered { epoch }) => *epoch,
            _ => {
                let detail = "the driver of procedures was registered without an epoch";
                return Err(Refused::new(Code::Unavailable, detail).into());
            }
        };
        let changes = Changes::new(space.clone());
        let (children, started) = mpsc::unbounded_channel();
        let context = Context { space, registry, agent, epoch, changes, active: Arc::default(), children };
        let running = context.running_procedures().await?;
        let stop = Arc::new(Notify::new());
        let task = tokio::spawn(context.run(running, started, Arc::clone(&stop)));
        Ok(Self { stop, task })
    }

    /// Stops driving. Unfinished procedures are resumed by the next runtime.
    pub(crate) async fn stop(mut self) {
        self.stop.notify_one();
        // A panic of the task has already been reported by the async runtime.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Name of a driver with an upper-case initial.
fn display_name(driver: &str) -> String {
    let mut letters = driver.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What all runs of a runtime share.
#[derive(Clone)]
struct Context {
    space: Space,
    registry: Arc<Registry>,
    agent: AgentId,
    epoch: Epoch,
    changes: Arc<Changes>,
    /// Procedures that are currently driven, with the channel of their run; prevents driving one twice.
    active: Arc<Mutex<HashMap<ProcedureId, mpsc::UnboundedSender<Incoming>>>>,
    /// Started children. The hub notifies a driver only of what others start.
    children: mpsc::UnboundedSender<ProcedureId>,
}

impl Context {
    fn principal(&self) -> Principal {
        Principal::Agent(self.agent.clone())
    }

    fn commit(&self, ops: Vec<Op>) -> Commit {
        Commit { epoch: Some(self.epoch), ..Commit::new(self.principal(), ops) }
    }

    fn lock_active(&self) -> MutexGuard<'_, HashMap<ProcedureId, mpsc::UnboundedSender<Incoming>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next backoff delay.
    async fn wait_backoff(&self, backoff: &mut Backoff) {
        let engine = self.space.engine();
        backoff.wait(&**engine.clock(), engine.entropy()).await;
    }

    /// Returns the procedures that were running when the hub stopped.
    async fn running_procedures(&self) -> Result<Vec<Procedure>, Error> {
        let mut running = Vec::new();
        let mut after = None;
        loop {
            let page = self.space.procedures(Some(ProcedureStatus::Running), after.as_ref(), PAGE).await?;
            running.extend(page.procedures.into_iter().filter(|procedure| self.kind_of(procedure).is_some()));
            after = page.cursor;
            if after.is_none() {
                return Ok(running);
            }
        }
    }

    /// Returns the kind of a procedure, if this runtime drives it.
    fn kind_of(&self, procedure: &Procedure) -> Option<&Kind> {
        self.registry.kind_of(procedure).filter(|kind| kind.driver == self.agent.as_str())
    }
}

/// Backoff between attempts to commit a step.
const fn commit_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(100), Duration::from_secs(5))
}

/// Whether the runtime cannot continue: storage failed, the hub was closed, or a newer runtime took over. The next one
/// resumes the procedures.
fn ends_runtime(error: &Error) -> bool {
    match error {
        Error::Refused(refused) => refused.code == Code::StaleEpoch,
        Error::Store(error) => matches!(error, StoreError::Failed(_) | StoreError::Closed),
        Error::Remote(_) => true,
    }
}

/// Whether a retry may succeed without intervention.
fn is_retryable(error: &Error) -> bool {
    match error {
        Error::Refused(refused) => refused.code.retryable(),
        Error::Store(error) => matches!(error, StoreError::Busy | StoreError::DiskFull | StoreError::Read(_)),
        Error::Remote(_) => false,
    }
}
