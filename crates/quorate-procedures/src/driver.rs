//! Drives the deliberations of a space. The driver is an ordinary agent: it sends requests to the participants and
//! stores its state in procedures. Each step is one commit that contains the new state, the requests and the
//! publications, so a restarted hub resumes where it stopped and does not repeat requests that are already recorded.
//! Retryable errors are retried with backoff, and the failure of one agent does not end the deliberation for the
//! others.

mod outbox;
mod run;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::{
    AgentId, AgentRole, Code, Commit, Epoch, Op, OpResult, Principal, Procedure, ProcedureId,
    ProcedureStatus, Refused, RegisterAgent,
};
use quorate_engine::{Error, ReceivedDelivery, Space};
use quorate_env::Backoff;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

/// Agent id of the deliberation driver.
pub const DELIBERATION_DRIVER: &str = "deliberations";
/// Kind of the procedures that the driver runs.
pub const DELIBERATION_KIND: &str = "deliberation";
/// Maximum number of deliberation starts in flight; further start notices wait in the inbox.
const CREDIT: u32 = 256;
const LEASE_MS: u64 = 30_000;
/// Page size when listing running procedures at startup.
const PAGE: usize = 500;

/// Background task that drives the deliberations of a space.
pub struct Driver {
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Driver {
    /// Resumes the running deliberations and drives those that are started later.
    ///
    /// # Errors
    /// If the registration is refused, or storage fails.
    pub async fn start(space: Space) -> Result<Self, Error> {
        let agent = AgentId::new(DELIBERATION_DRIVER)?;
        let register = RegisterAgent {
            id: agent.clone(),
            name: "Deliberations".into(),
            role: AgentRole::Coordinator,
            capabilities: Vec::new(),
            supported_actions: Vec::new(),
            epoch: None,
            heartbeat_ms: 0,
        };
        // As the hub: an agent may not register itself as coordinator in a supervised space.
        let commit = Commit::new(Principal::System, vec![Op::RegisterAgent(register)]);
        let epoch = match space.commit(commit).await?.results.first() {
            Some(OpResult::Registered { epoch }) => *epoch,
            _ => {
                return Err(Refused::new(
                    Code::Unavailable,
                    "the deliberation driver was registered without an epoch",
                )
                .into());
            }
        };
        let context = DriverContext { space, agent, epoch, active: Arc::default() };
        let running = context.running_procedures().await?;
        let stop = Arc::new(Notify::new());
        let task = tokio::spawn(context.run(running, Arc::clone(&stop)));
        Ok(Self { stop, task })
    }

    /// Stops the driver. Unfinished deliberations are resumed by the next driver.
    pub async fn stop(mut self) {
        self.stop.notify_one();
        // A panic of the task has already been reported by the runtime.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct DriverContext {
    space: Space,
    agent: AgentId,
    epoch: Epoch,
    /// Procedures that are currently driven; prevents driving one twice.
    active: Arc<Mutex<HashSet<ProcedureId>>>,
}

impl DriverContext {
    fn principal(&self) -> Principal {
        Principal::Agent(self.agent.clone())
    }

    fn commit(&self, ops: Vec<Op>) -> Commit {
        Commit { epoch: Some(self.epoch), ..Commit::new(self.principal(), ops) }
    }

    /// Waits for the next backoff delay.
    async fn wait_backoff(&self, backoff: &mut Backoff) {
        let engine = self.space.engine();
        backoff.wait(&**engine.clock(), engine.entropy()).await;
    }

    /// Returns the deliberations that were running when the hub stopped.
    async fn running_procedures(&self) -> Result<Vec<Procedure>, Error> {
        let mut running = Vec::new();
        let mut after = None;
        loop {
            let page = self.space.procedures(Some(ProcedureStatus::Running), after.as_ref(), PAGE).await?;
            running.extend(page.procedures.into_iter().filter(|procedure| self.drives(procedure)));
            after = page.cursor;
            if after.is_none() {
                return Ok(running);
            }
        }
    }

    fn drives(&self, procedure: &Procedure) -> bool {
        procedure.kind == DELIBERATION_KIND && procedure.driver.as_ref() == Some(&self.agent)
    }

    async fn run(self, running: Vec<Procedure>, stop: Arc<Notify>) {
        let mut deliberations = JoinSet::new();
        for procedure in running {
            deliberations.spawn(self.clone().drive(procedure.id, None));
        }
        let (principal, mut backoff) = (self.principal(), commit_backoff());
        let mut consumer = loop {
            let opened = self.space.consume(&principal, Some(self.epoch), &self.agent, CREDIT, LEASE_MS);
            match opened.await {
                Ok(consumer) => break consumer,
                Err(error) if is_retryable(&error) => self.wait_backoff(&mut backoff).await,
                Err(error) => {
                    let code = error.code().as_str();
                    tracing::error!(code, "deliberation driver stopped: cannot open its inbox");
                    return;
                }
            }
        };
        loop {
            tokio::select! {
                () = stop.notified() => break,
                Some(_) = deliberations.join_next() => {}
                delivery = consumer.next() => {
                    let delivery = match delivery {
                        Ok(Some(delivery)) => delivery,
                        Ok(None) => break,
                        Err(error) => {
                            let code = error.code().as_str();
                            tracing::error!(code, "deliberation driver stopped: inbox failed");
                            break;
                        }
                    };
                    let grant = consumer.grant_credit_op(1);
                    match parse_start_notice(&delivery) {
                        Some(id) => {
                            deliberations.spawn(self.clone().drive(id, Some((delivery, grant))));
                        }
                        None => self.ack_notice(Some((delivery, grant))).await,
                    }
                }
            }
        }
        deliberations.shutdown().await;
    }

    /// Acks a notice that needs no step, or whose deliberation is already driven.
    async fn ack_notice(&self, notice: Option<(ReceivedDelivery, Op)>) {
        let ops = notice_ops(notice.as_ref());
        if !ops.is_empty()
            && let Err(error) = self.space.commit(self.commit(ops)).await
        {
            tracing::debug!(code = error.code().as_str(), "failed to ack a notice; it will be redelivered");
        }
    }

    /// Drives one deliberation to its end.
    async fn drive(self, id: ProcedureId, mut notice: Option<(ReceivedDelivery, Op)>) {
        let lock = || self.active.lock().unwrap_or_else(PoisonError::into_inner);
        if !lock().insert(id.clone()) {
            return self.ack_notice(notice).await;
        }
        let mut backoff = commit_backoff();
        while let Err(error) = self.run_deliberation(&id, &mut notice).await {
            let code = error.code().as_str();
            if !is_retryable(&error) {
                // Storage failed, or a newer driver took over: the next driver resumes it.
                tracing::warn!(procedure = %id, code, "deliberation suspended until the driver restarts");
                break;
            }
            tracing::warn!(procedure = %id, code, "deliberation step failed; retrying");
            self.wait_backoff(&mut backoff).await;
        }
        lock().remove(&id);
    }
}

/// Backoff between attempts to commit a step.
const fn commit_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(100), Duration::from_secs(5))
}

/// Whether a retry may succeed without intervention.
fn is_retryable(error: &Error) -> bool {
    match error {
        Error::Refused(refused) => refused.code.retryable(),
        Error::Store(_) => matches!(error.code(), Code::Overloaded | Code::StorageFull),
        Error::Remote(_) => false,
    }
}

/// Parses a `procedure.started` notice; `None` for any other message.
fn parse_start_notice(delivery: &ReceivedDelivery) -> Option<ProcedureId> {
    #[derive(serde::Deserialize)]
    struct Notice {
        procedure: String,
    }
    let is_notice = delivery.message.from.is_none() && delivery.message.action == "procedure.started";
    let notice: Notice =
        serde_json::from_slice(&delivery.message.payload.bytes).ok().filter(|_| is_notice)?;
    ProcedureId::new(notice.procedure).ok()
}

/// Operations that ack a notice and grant credit for the next one.
fn notice_ops(notice: Option<&(ReceivedDelivery, Op)>) -> Vec<Op> {
    notice.map_or_else(Vec::new, |(delivery, grant)| {
        delivery.lease.map(Op::Ack).into_iter().chain([grant.clone()]).collect()
    })
}
