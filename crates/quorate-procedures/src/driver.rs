//! Drives the deliberations of a space: an agent like any other, that asks by requests and keeps what it knows in its
//! procedures. Each step is one commit: the new state, and what it asks and publishes. So a hub that was killed goes on
//! where it was, and asks nobody again for what is on record. What cannot be written now is written later: whatever passes is
//! waited for, and nothing that happens to one agent ends the deliberation of the others.

mod course;
mod going_out;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::{
    AgentId, Code, Commit, Epoch, Op, OpResult, Principal, Procedure, ProcedureId, ProcedureStatus, Refused,
    RegisterAgent, Role,
};
use quorate_engine::{Delivery, Error, Space};
use quorate_env::Backoff;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

/// The agent that drives deliberations.
pub const DRIVER: &str = "deliberations";
/// The kind of procedure that it drives.
pub const KIND: &str = "deliberation";
/// Deliberations that are started at once; the rest wait in its inbox.
const CREDIT: u32 = 256;
const LEASE_MS: u64 = 30_000;
/// Procedures that are looked at in one page at the start.
const PAGE: usize = 500;

/// Drives the deliberations of a space until it is stopped.
pub struct Driver {
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Driver {
    /// Takes up the deliberations that are under way, and those that are started from now on.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn start(space: Space) -> Result<Self, Error> {
        let agent = AgentId::new(DRIVER)?;
        let register = RegisterAgent {
            id: agent.clone(),
            name: "Deliberations".into(),
            role: Role::Coordinator,
            capabilities: Vec::new(),
            supported_actions: Vec::new(),
            epoch: None,
            heartbeat_ms: 0,
        };
        let commit = Commit::new(Principal::Agent(agent.clone()), vec![Op::RegisterAgent(register)]);
        let epoch = match space.commit(commit).await?.results.first() {
            Some(OpResult::Registered { epoch }) => *epoch,
            _ => {
                return Err(
                    Refused::new(Code::Unavailable, "the driver of deliberations has no epoch").into()
                );
            }
        };
        let driving = Driving { space, agent, epoch, active: Arc::default() };
        let running = driving.running().await?;
        let stop = Arc::new(Notify::new());
        let task = tokio::spawn(driving.run(running, Arc::clone(&stop)));
        Ok(Self { stop, task })
    }

    /// Stops where it is; the next start goes on from there.
    pub async fn stop(mut self) {
        self.stop.notify_one();
        // A panic was reported when it happened.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Driving {
    space: Space,
    agent: AgentId,
    epoch: Epoch,
    /// What is driven now, so that nobody drives it twice.
    active: Arc<Mutex<HashSet<ProcedureId>>>,
}

impl Driving {
    fn principal(&self) -> Principal {
        Principal::Agent(self.agent.clone())
    }

    fn commit(&self, ops: Vec<Op>) -> Commit {
        Commit { epoch: Some(self.epoch), ..Commit::new(self.principal(), ops) }
    }

    /// Waits before the next attempt.
    async fn wait(&self, backoff: &mut Backoff) {
        let engine = self.space.engine();
        backoff.wait(&**engine.clock(), engine.chance()).await;
    }

    /// The deliberations that were under way when the hub stopped.
    async fn running(&self) -> Result<Vec<Procedure>, Error> {
        let mut running = Vec::new();
        let mut after = None;
        loop {
            let page = self.space.procedures(Some(ProcedureStatus::Running), after.as_ref(), PAGE).await?;
            running.extend(page.procedures.into_iter().filter(|one| self.drives(one)));
            after = page.cursor;
            if after.is_none() {
                return Ok(running);
            }
        }
    }

    fn drives(&self, procedure: &Procedure) -> bool {
        procedure.kind == KIND && procedure.driver.as_ref() == Some(&self.agent)
    }

    async fn run(self, running: Vec<Procedure>, stop: Arc<Notify>) {
        let mut driven = JoinSet::new();
        for procedure in running {
            driven.spawn(self.clone().drive(procedure.id, None));
        }
        let (principal, mut backoff) = (self.principal(), backoff());
        let mut consumer = loop {
            let opened = self.space.consume(&principal, Some(self.epoch), &self.agent, CREDIT, LEASE_MS);
            match opened.await {
                Ok(consumer) => break consumer,
                Err(error) if passes(&error) => self.wait(&mut backoff).await,
                Err(error) => {
                    let code = error.code().as_str();
                    tracing::error!(code, "the driver of deliberations stopped: it cannot receive");
                    return;
                }
            }
        };
        loop {
            tokio::select! {
                () = stop.notified() => break,
                Some(_) = driven.join_next() => {}
                delivery = consumer.next() => {
                    let delivery = match delivery {
                        Ok(Some(delivery)) => delivery,
                        Ok(None) => break,
                        Err(error) => {
                            let code = error.code().as_str();
                            tracing::error!(code, "the driver of deliberations stopped: its inbox failed");
                            break;
                        }
                    };
                    let again = consumer.grant(1);
                    match started(&delivery) {
                        Some(id) => {
                            driven.spawn(self.clone().drive(id, Some((delivery, again))));
                        }
                        None => self.done_with(Some((delivery, again))).await,
                    }
                }
            }
        }
        driven.shutdown().await;
    }

    /// Acks what needs no step, or was taken up by somebody else.
    async fn done_with(&self, notice: Option<(Delivery, Op)>) {
        let ops = notice_ops(notice.as_ref());
        if !ops.is_empty()
            && let Err(error) = self.space.commit(self.commit(ops)).await
        {
            tracing::debug!(code = error.code().as_str(), "a notice was not acked and will be redelivered");
        }
    }

    /// Drives one deliberation to its end.
    async fn drive(self, id: ProcedureId, mut notice: Option<(Delivery, Op)>) {
        let lock = || self.active.lock().unwrap_or_else(PoisonError::into_inner);
        if !lock().insert(id.clone()) {
            return self.done_with(notice).await;
        }
        let mut backoff = backoff();
        while let Err(error) = self.deliberate(&id, &mut notice).await {
            let code = error.code().as_str();
            if !passes(&error) {
                // A broken storage, or somebody else goes on: the next start takes it up.
                tracing::warn!(procedure = %id, code, "a deliberation is not driven until the next start");
                break;
            }
            tracing::warn!(procedure = %id, code, "a step of a deliberation failed and is retried");
            self.wait(&mut backoff).await;
        }
        lock().remove(&id);
    }
}

/// Waits between attempts to commit a step.
const fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(100), Duration::from_secs(5))
}

/// Whether the same may go through later, without anybody's doing.
fn passes(error: &Error) -> bool {
    match error {
        Error::Refused(refused) => refused.code.retryable(),
        Error::Store(_) => matches!(error.code(), Code::Overloaded | Code::StorageFull),
        Error::Remote(_) => false,
    }
}

/// The procedure whose start a delivery tells of.
fn started(delivery: &Delivery) -> Option<ProcedureId> {
    #[derive(serde::Deserialize)]
    struct Notice {
        procedure: String,
    }
    let told = delivery.message.from.is_none() && delivery.message.action == "procedure.started";
    let notice: Notice = serde_json::from_slice(&delivery.message.payload.bytes).ok().filter(|_| told)?;
    ProcedureId::new(notice.procedure).ok()
}

/// Acks a notice, and makes room for the next.
fn notice_ops(notice: Option<&(Delivery, Op)>) -> Vec<Op> {
    notice.map_or_else(Vec::new, |(delivery, again)| {
        delivery.lease.map(Op::Ack).into_iter().chain([again.clone()]).collect()
    })
}
