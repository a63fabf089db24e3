//! Drives one procedure: loads it, runs it, and handles what a run cannot: changes by others, failed steps, and states
//! that this release cannot read.

use std::panic::AssertUnwindSafe;

use futures_util::future::FutureExt as _;
use quorate_core::{
    Code, ControlProcedure, Op, Procedure, ProcedureControl, ProcedureId, ProcedureStatus, StepProcedure,
    Version, truncate_reason,
};
use quorate_engine::Error;
use quorate_env::Backoff;
use serde_json::json;
use tokio::sync::mpsc;

use super::inbox::{HeldDelivery, Incoming};
use super::run::Run;
use super::{Context, commit_backoff, is_retryable};
use crate::machine::OnRefusal;
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

impl From<quorate_core::Refused> for RunError {
    fn from(refused: quorate_core::Refused) -> Self {
        Self::Hub(refused.into())
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
        let mut link = Link { sender, receiver, held: Vec::new(), failures: 0 };
        let mut backoff = commit_backoff();
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
                Err(RunError::Changed) => self.wait_backoff(&mut backoff).await,
                Err(RunError::StaleLease) => self.drop_held(&mut link).await,
                Err(RunError::Hub(error)) if is_retryable(&error) || is_changed(&error) => {
                    let code = error.code().as_str();
                    tracing::warn!(procedure = %id, code, "procedure step failed; retrying");
                    self.wait_backoff(&mut backoff).await;
                }
                Err(RunError::Hub(error)) => {
                    // Storage failed, or a newer runtime took over: the next runtime resumes the procedure.
                    let code = error.code().as_str();
                    tracing::warn!(procedure = %id, code, "procedure suspended until the hub restarts");
                    self.lock_active().remove(&id);
                    return;
                }
                Err(RunError::Step(reason)) => self.count_failure(&id, &mut link, reason, &mut backoff).await,
                Err(RunError::NoProgress(reason)) => self.park_or_retry(&id, reason, &mut backoff).await,
            }
        }
    }

    /// Forgets the deliveries of a run. They are redelivered when their leases have expired.
    async fn drop_held(&self, link: &mut Link) {
        self.settle(link.held.drain(..).map(|held| held.grant_op()).collect()).await;
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

    async fn count_failure(&self, id: &ProcedureId, link: &mut Link, reason: String, backoff: &mut Backoff) {
        link.failures += 1;
        tracing::warn!(procedure = %id, failures = link.failures, "procedure step failed");
        if link.failures < FAILURES_MAX {
            return self.wait_backoff(backoff).await;
        }
        link.failures = 0;
        let reason = format!("a step failed {FAILURES_MAX} times: {reason}");
        self.park_or_retry(id, reason, backoff).await;
    }

    /// Parks a procedure. If this fails, its step is repeated.
    async fn park_or_retry(&self, id: &ProcedureId, reason: String, backoff: &mut Backoff) {
        if let Err(error) = self.park(id, reason).await {
            tracing::warn!(procedure = %id, code = error.code().as_str(), "failed to park a procedure");
            self.wait_backoff(backoff).await;
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
                self.cancel_work(&procedure).await?;
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
        self.settle(link.held.drain(..).flat_map(|held| held.ack_ops().collect::<Vec<_>>()).collect()).await;
        Ok(RunEnd::Over)
    }

    /// Returns deliveries until the procedure is resumed, and acks notices.
    async fn wait_for_resume(&self, link: &mut Link) -> Result<RunEnd, RunError> {
        let settle = |held: HeldDelivery| match held.event() {
            Some(_) => held.return_ops().collect::<Vec<_>>(),
            None => held.ack_ops().collect(),
        };
        self.settle(link.held.drain(..).flat_map(settle).collect()).await;
        Ok(RunEnd::Over)
    }

    /// Cancels what is left of a cancelled procedure: requests and tasks beyond the limit of one commit, and its
    /// children.
    async fn cancel_work(&self, procedure: &Procedure) -> Result<(), Error> {
        self.space.cancel_procedure(&self.principal(), Some(self.epoch), &procedure.id, "").await?;
        let prefix = format!("{}:", procedure.id);
        let mut after = None;
        loop {
            let page = self.space.procedures(None, after.as_ref(), super::PAGE).await?;
            for child in page.procedures {
                let is_child = child.id.as_str().starts_with(&prefix)
                    && child.started_by == self.principal().to_text()
                    && !child.status.has_ended();
                if is_child {
                    let reason = format!("its parent {} was cancelled", procedure.id);
                    let op = Op::ControlProcedure(ControlProcedure {
                        procedure: child.id,
                        control: ProcedureControl::Cancel,
                        reason: truncate_reason(reason),
                    });
                    self.space.commit(self.commit(vec![op])).await?;
                }
            }
            after = page.cursor;
            if after.is_none() {
                return Ok(());
            }
        }
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
        let acks = link.held.iter().flat_map(|held| held.ack_ops().collect::<Vec<_>>());
        self.space.commit(self.commit(acks.chain([step]).collect())).await?;
        link.held.clear();
        Ok(())
    }
}

/// Whether an operation was refused because someone else changed the procedure.
fn is_changed(error: &Error) -> bool {
    matches!(error.code(), Code::VersionConflict | Code::Conflict)
}

/// How a run handles a refusal of its step.
pub(super) fn refusal_error(on_refusal: OnRefusal, refused: &quorate_core::Refused) -> Option<RunError> {
    match on_refusal {
        OnRefusal::Fail => None,
        OnRefusal::Park => Some(RunError::Step(format!("{}: {}", refused.code, refused.detail))),
    }
}
