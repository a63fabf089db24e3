//! Drives one procedure: loads it, runs it, and handles what a run cannot: changes by others, failed steps, and states
//! that this release cannot read.

use std::panic::AssertUnwindSafe;

use futures_util::future::FutureExt as _;
use quorate_core::{
    Code, Op, ProcedureId, ProcedureStatus, Refused, StepProcedure, Version, truncate_reason,
};
use quorate_engine::Error;
use quorate_env::Backoff;
use serde_json::json;
use tokio::sync::mpsc;

use super::inbox::{HeldDelivery, Incoming, ack_ops, grant_op};
use super::run::Run;
use super::{Context, commit_backoff, ends_runtime, is_retryable};
use crate::machine::{OPS_PER_COMMIT_MAX, OnRefusal};
use crate::registry::OpenError;

/// Number of failures of the same step after which its procedure is parked.
const FAILURES_MAX: u32 = 3;

/// The channel of a driven procedure, which outlives its runs.
pub(super) struct Link {
    pub(super) sender: mpsc::UnboundedSender<Incoming>,
    pub(super) receiver: mpsc::UnboundedReceiver<Incoming>,
    /// Deliveries that are not acked yet, oldest first.
    pub(super) held: Vec<HeldDelivery>,
    /// Failures of the current step.
    pub(super) failures: u32,
    /// Delays before the next run; reset by a commit.
    pub(super) backoff: Backoff,
}

/// How a run ended.
pub(super) enum RunEnd {
    /// The procedure has ended, or does not run at present.
    Over,
    /// Someone else changed the procedure.
    Reload,
}

/// Why a run ended without its procedure.
pub(super) enum RunError {
    /// The hub refused a commit or a read, or storage failed.
    Hub(Error),
    /// The step itself failed; repeating it may not help.
    Step(String),
    /// The hub refuses the step, or an output of it.
    Refused(Refused),
    /// The machine loops; repeating its steps does not help.
    NoProgress(String),
    /// Someone else changed the procedure.
    Changed,
    /// The lease of a delivery has expired: its event has to be received again.
    StaleLease,
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Hub(error)
    }
}

impl From<Refused> for RunError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl Context {
    /// Drives a procedure until it ends or stops running.
    pub(super) async fn drive(
        self,
        id: ProcedureId,
        sender: mpsc::UnboundedSender<Incoming>,
        receiver: mpsc::UnboundedReceiver<Incoming>,
    ) {
        let mut link = Link { sender, receiver, held: Vec::new(), failures: 0, backoff: commit_backoff() };
        loop {
            // A machine is deterministic, and its state is discarded after a panic.
            let run = AssertUnwindSafe(self.run_procedure(&id, &mut link)).catch_unwind();
            let end = run.await.unwrap_or_else(|_| Err(RunError::Step("the machine panicked".into())));
            match end {
                Ok(RunEnd::Over) => {
                    if self.detach(&id, &mut link) {
                        return;
                    }
                }
                Ok(RunEnd::Reload) => {}
                Err(RunError::Changed) => self.wait_backoff(&mut link.backoff).await,
                Err(RunError::StaleLease) => self.drop_held(&mut link).await,
                Err(RunError::Hub(error)) if is_retryable(&error) || is_changed(&error) => {
                    let code = error.code().as_str();
                    tracing::warn!(procedure = %id, code, "procedure step failed; retrying");
                    self.wait_backoff(&mut link.backoff).await;
                }
                Err(RunError::Hub(error)) if ends_runtime(&error) => {
                    let code = error.code().as_str();
                    tracing::warn!(procedure = %id, code, "procedure suspended until the hub restarts");
                    self.lock_active().remove(&id);
                    return;
                }
                Err(RunError::Hub(error)) => {
                    let reason = format!("{}: {error}", error.code());
                    self.count_failure(&id, &mut link, reason).await;
                }
                Err(RunError::Refused(refused)) => {
                    self.refuse_step(&id, &mut link, &refused).await;
                }
                Err(RunError::Step(reason)) => self.count_failure(&id, &mut link, reason).await,
                Err(RunError::NoProgress(reason)) => self.park_or_retry(&id, &mut link, reason).await,
            }
        }
    }

    /// Forgets the deliveries of a run. They are redelivered when their leases have expired.
    async fn drop_held(&self, link: &mut Link) {
        self.settle(grant_op(&link.held).into_iter().collect()).await;
        link.held.clear();
    }

    /// Ends the run of a procedure. Returns false if a delivery arrived meanwhile.
    fn detach(&self, id: &ProcedureId, link: &mut Link) -> bool {
        let mut active = self.lock_active();
        while let Ok(incoming) = link.receiver.try_recv() {
            if let Incoming::Delivery(held) = incoming {
                link.held.push(*held);
            }
        }
        let is_over = link.held.is_empty();
        if is_over {
            active.remove(id);
        }
        is_over
    }

    async fn count_failure(&self, id: &ProcedureId, link: &mut Link, reason: String) {
        link.failures += 1;
        tracing::warn!(procedure = %id, failures = link.failures, "procedure step failed");
        if link.failures < FAILURES_MAX {
            return self.wait_backoff(&mut link.backoff).await;
        }
        link.failures = 0;
        let reason = format!("a step failed {FAILURES_MAX} times: {reason}");
        self.park_or_retry(id, link, reason).await;
    }

    /// Ends a procedure whose step is refused, or counts a failure of the step. The stored state keeps what was collected.
    async fn refuse_step(&self, id: &ProcedureId, link: &mut Link, refused: &Refused) {
        let code = refused.code.as_str();
        tracing::warn!(procedure = %id, code, "procedure step refused");
        let procedure = self.space.procedure(id).await.ok();
        let on_refusal = procedure.as_ref().and_then(|found| self.kind_of(found)).map(|kind| kind.on_refusal);
        let reason = format!("{}: {}", refused.code, refused.detail);
        let (Some(procedure), Some(OnRefusal::Fail)) = (procedure, on_refusal) else {
            return self.count_failure(id, link, reason).await;
        };
        let result =
            json!({ "reason": format!("the next step was refused: {reason}"), "hint": refused.hint });
        if let Err(error) = self.fail(id, procedure.version, &result, link).await {
            tracing::warn!(procedure = %id, code = error.code().as_str(), "failed to end a procedure");
            self.wait_backoff(&mut link.backoff).await;
        }
    }

    /// Parks a procedure. If this fails, its step is repeated.
    async fn park_or_retry(&self, id: &ProcedureId, link: &mut Link, reason: String) {
        if let Err(error) = self.park(id, reason).await {
            tracing::warn!(procedure = %id, code = error.code().as_str(), "failed to park a procedure");
            self.wait_backoff(&mut link.backoff).await;
        }
    }

    /// Parks a procedure as stuck. Its requests and tasks continue, and `procedure.resume` continues it.
    async fn park(&self, id: &ProcedureId, reason: String) -> Result<(), Error> {
        let procedure = self.space.procedure(id).await?;
        if procedure.status != ProcedureStatus::Running {
            return Ok(());
        }
        let phase = if procedure.phase.is_empty() { "new" } else { &procedure.phase };
        let op = Op::StepProcedure(StepProcedure {
            reason: truncate_reason(reason),
            status: ProcedureStatus::Stuck,
            ..StepProcedure::new(id.clone(), procedure.version, phase)
        });
        self.space.commit(self.commit(vec![op])).await.map(drop)
    }

    /// Runs a procedure from its stored state.
    async fn run_procedure(&self, id: &ProcedureId, link: &mut Link) -> Result<RunEnd, RunError> {
        let procedure = match self.space.procedure(id).await {
            Ok(procedure) => procedure,
            // A message may name any correlation id.
            Err(error) if error.code() == Code::NotFound => return self.discard(link).await,
            Err(error) => return Err(error.into()),
        };
        let Some(kind) = self.kind_of(&procedure) else { return self.discard(link).await };
        match procedure.status {
            ProcedureStatus::Running => {}
            ProcedureStatus::Paused | ProcedureStatus::Stuck => return self.wait_for_resume(link).await,
            ProcedureStatus::Cancelled => {
                // One operation cancels a limited number of requests, tasks and children.
                let principal = self.principal();
                self.space.cancel_procedure(&principal, Some(self.epoch), &procedure.id, "").await?;
                return self.discard(link).await;
            }
            ProcedureStatus::Done | ProcedureStatus::Failed => return self.discard(link).await,
        }
        let version = procedure.version;
        let view = self.space.procedure_view(procedure).await?;
        let spec = view.spec.as_ref().map_or(&b"null"[..], |spec| &spec.bytes);
        let instance = match kind.open(spec, view.state.as_ref().map(|state| &state.bytes[..])) {
            Ok(instance) => instance,
            Err(error @ OpenError::Version { .. }) => {
                tracing::warn!(procedure = %id, "procedure parked: its state is of another version");
                self.park(id, error.to_string()).await?;
                return Ok(RunEnd::Reload);
            }
            Err(error) => {
                // The error text is not logged: it may quote the payload.
                tracing::warn!(procedure = %id, "procedure failed: invalid spec or state");
                self.fail(id, version, &json!({ "reason": error.to_string() }), link).await?;
                return Ok(RunEnd::Over);
            }
        };
        Run::new(self, view.procedure, instance, link).start().await
    }

    /// Acks deliveries that need no step.
    async fn discard(&self, link: &mut Link) -> Result<RunEnd, RunError> {
        self.settle(ack_ops(&link.held).collect()).await;
        link.held.clear();
        Ok(RunEnd::Over)
    }

    /// Returns deliveries until the procedure is resumed, and acks notices.
    async fn wait_for_resume(&self, link: &mut Link) -> Result<RunEnd, RunError> {
        let (events, notices): (Vec<_>, Vec<_>) =
            link.held.drain(..).partition(|held| held.event().is_some());
        self.settle(ack_ops(&notices).collect()).await;
        for events in events.chunks(OPS_PER_COMMIT_MAX) {
            let nacks = events.iter().filter_map(HeldDelivery::return_op);
            self.settle(nacks.chain(grant_op(events)).collect()).await;
        }
        Ok(RunEnd::Over)
    }

    /// Ends a procedure as failed, and acks its deliveries.
    pub(super) async fn fail(
        &self,
        id: &ProcedureId,
        version: Version,
        result: &serde_json::Value,
        link: &mut Link,
    ) -> Result<(), Error> {
        let step = Op::StepProcedure(StepProcedure {
            status: ProcedureStatus::Failed,
            result: Some(self.space.seal(result.to_string())),
            ..StepProcedure::new(id.clone(), version, "failed")
        });
        self.space.commit(self.commit(ack_ops(&link.held).chain([step]).collect())).await?;
        link.held.clear();
        Ok(())
    }
}

/// Whether an operation was refused because someone else changed the procedure.
fn is_changed(error: &Error) -> bool {
    matches!(error.code(), Code::VersionConflict | Code::Conflict)
}
