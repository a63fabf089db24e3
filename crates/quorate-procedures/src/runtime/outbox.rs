//! Commits the outputs of a procedure in batches that fit. Each commit contains a step, so that none is applied to a
//! procedure that someone else has changed. The first one stores the state, the last one the final result. The state
//! describes everything in between, so a resumed run knows which outputs are missing.

use quorate_core::limits::OPS_MAX;
use quorate_core::{
    AgentId, Code, CreateTasks, Dependency, Destination, Message, MessageType, NewTask, Op, OpResult,
    Priority, ProcedureStatus, PutEntry, Receipt, Refused, RequestApproval, SendRequest, StartProcedure,
    StepProcedure, Timestamp, Version,
};
use quorate_engine::{Error, action_document};

use super::drive::RunError;
use super::inbox::{ack_ops, grant_op};
use super::lookup::client_id;
use super::run::{FinalResult, Run};
use super::{commit_backoff, is_retryable};
use crate::machine::{
    ApprovalOutput, ChildOutput, EntryWrite, OPS_PER_COMMIT_MAX, OutgoingMessage, ProcedureEvent,
    RequestKind, RequestOutput, TaskOutput,
};

/// An output that has not been committed yet.
pub(super) enum Unsent {
    Request(UnsentRequest),
    Message(OutgoingMessage),
    Task(TaskOutput),
    Approval(ApprovalOutput),
    Child(ChildOutput),
}

/// A request that has not been committed yet.
pub(super) struct UnsentRequest {
    pub(super) request: RequestOutput,
    /// Time after which it is no longer sent.
    pub(super) due: Timestamp,
}

/// Longest time for which a refused step is retried before it counts as failed.
const RETRY_MS_MAX: u64 = 60_000;

/// Reaction to a refused commit.
enum RefusalAction {
    /// Retry immediately, without the part that was refused.
    RetryNow,
    /// Retry after a backoff.
    RetryLater,
    /// Stop: the procedure was changed, or another runtime has taken over.
    Stop,
    /// The step cannot be committed.
    GiveUp,
}

/// A commit of a step: its operations, and where its parts are.
struct Batch {
    ops: Vec<Op>,
    /// Index of the first cancellation.
    cancels_at: usize,
    /// Index of the first output.
    outputs_at: usize,
    /// Number of outputs.
    outputs: usize,
}

impl Run<'_> {
    /// Commits a changed state and all unsent outputs.
    pub(super) async fn flush_outputs(&mut self, changed: bool) -> Result<(), RunError> {
        let with_state = self.writes.len() + self.cancels.len();
        if with_state > OPS_PER_COMMIT_MAX {
            let reason = format!(
                "{with_state} memory writes and cancellations in one step, at most {OPS_PER_COMMIT_MAX} are possible"
            );
            return Err(RunError::Step(reason));
        }
        let (mut state_changed, mut batch_max, mut backoff) = (changed, OPS_PER_COMMIT_MAX, commit_backoff());
        let (mut grant_only, mut retried_since) = (false, None);
        while state_changed || !self.unsent.is_empty() || self.final_result.is_some() || self.taken > 0 {
            let with_state = self.writes.len() + self.cancels.len();
            let count = batch_max.saturating_sub(with_state).max(1).min(self.unsent.len());
            let batch = self.batch(count, state_changed, grant_only)?;
            let commit = self.context.commit(batch.ops.clone());
            match self.context.space.commit(commit).await {
                Ok(receipt) => {
                    backoff.reset();
                    (state_changed, grant_only, retried_since) = (false, false, None);
                    self.apply_receipt(&receipt, &batch).await?;
                }
                Err(Error::Refused(refused)) => {
                    match self.on_refusal(&refused, &batch, &mut grant_only, &mut batch_max) {
                        RefusalAction::RetryNow => {}
                        RefusalAction::RetryLater => {
                            let now = self.context.space.engine().clock().now().mono;
                            if now >= retried_since.get_or_insert(now).plus_ms(RETRY_MS_MAX) {
                                return Err(refused.into());
                            }
                            self.report_retry(refused.code);
                            self.context.wait_backoff(&mut backoff).await;
                        }
                        RefusalAction::Stop if refused.code == Code::StaleEpoch => {
                            return Err(Error::from(refused).into());
                        }
                        RefusalAction::Stop if refused.code == Code::StaleLease => {
                            return Err(RunError::StaleLease);
                        }
                        RefusalAction::Stop => return Err(RunError::Changed),
                        RefusalAction::GiveUp => return Err(refused.into()),
                    }
                }
                Err(error) if is_retryable(&error) => {
                    self.report_retry(error.code());
                    self.context.wait_backoff(&mut backoff).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn report_retry(&self, code: Code) {
        let code = code.as_str();
        tracing::warn!(procedure = %self.id, code, "procedure step failed; retrying");
    }

    /// Builds the operations of the next commit.
    fn batch(&self, count: usize, state_changed: bool, grant_only: bool) -> Result<Batch, RunError> {
        let held = &self.link.held[..self.taken];
        let mut ops: Vec<_> = match grant_only {
            true => grant_op(held).into_iter().collect(),
            false => ack_ops(held).collect(),
        };
        let acks = ops.len();
        ops.extend(self.writes.iter().cloned().map(Op::Put));
        let cancels_at = ops.len();
        ops.extend(self.cancels.iter().cloned());
        let outputs_at = ops.len();
        for output in self.unsent.iter().take(count) {
            ops.push(self.output_op(output)?);
        }
        let final_result = self.final_result.as_ref().filter(|_| count == self.unsent.len());
        if state_changed || final_result.is_some() || ops.len() > acks {
            let state = state_changed.then(|| self.instance.state()).transpose();
            let state = state.map_err(|error| RunError::Step(format!("the state is not JSON: {error}")))?;
            let (status, result) = match final_result {
                None => (ProcedureStatus::Running, None),
                Some(FinalResult::Finished(result)) => (ProcedureStatus::Done, Some(result)),
                Some(FinalResult::Failed(result)) => (ProcedureStatus::Failed, Some(result)),
            };
            let space = &self.context.space;
            ops.push(Op::StepProcedure(StepProcedure {
                status,
                state: state.map(|state| space.seal(state)),
                result: result.map(|result| space.seal(result.clone())),
                ..StepProcedure::new(self.id.clone(), self.version, &self.instance.phase())
            }));
        }
        // Two for the deliveries, one for the step.
        const { assert!(OPS_PER_COMMIT_MAX + 3 <= OPS_MAX) };
        Ok(Batch { ops, cancels_at, outputs_at, outputs: count })
    }

    async fn apply_receipt(&mut self, receipt: &Receipt, batch: &Batch) -> Result<(), RunError> {
        if batch.outputs == self.unsent.len() {
            self.final_result = None;
        }
        self.link.failures = 0;
        self.link.backoff.reset();
        self.link.held.drain(..self.taken);
        self.taken = 0;
        self.remember_record(receipt.seq);
        self.writes.clear();
        self.finish_cancels(receipt, batch).await?;
        if let Some(version) = stepped_version(receipt) {
            self.version = version;
        }
        let sent: Vec<_> = self.unsent.drain(..batch.outputs).collect();
        for (output, result) in sent.into_iter().zip(receipt.results.iter().skip(batch.outputs_at)) {
            match (output, result) {
                (Unsent::Request(request), OpResult::Requested { id, .. }) => {
                    self.track_answer(request.request.id, *id);
                }
                (Unsent::Task(task), _) => self.wait_for_task(&task.id).await?,
                (Unsent::Approval(approval), _) => self.wait_for_approval(&approval.id).await?,
                (Unsent::Child(child), _) => {
                    // It ends only with the runtime.
                    let _ = self.context.children.send(self.child_id(&child.id)?);
                    self.wait_for_child(&child.id).await?;
                }
                (Unsent::Request(_) | Unsent::Message(_), _) => {}
            }
        }
        Ok(())
    }

    /// Continues the cancellation of children whose work exceeds the limit of one operation.
    async fn finish_cancels(&mut self, receipt: &Receipt, batch: &Batch) -> Result<(), RunError> {
        let cancels = std::mem::take(&mut self.cancels);
        for (op, result) in cancels.into_iter().zip(receipt.results.iter().skip(batch.cancels_at)) {
            if let (Op::ControlProcedure(control), OpResult::ProcedureChanged { remaining: 1.., .. }) =
                (op, result)
            {
                let (principal, epoch) = (self.context.principal(), Some(self.context.epoch));
                self.context
                    .space
                    .cancel_procedure(&principal, epoch, &control.procedure, &control.reason)
                    .await?;
            }
        }
        Ok(())
    }

    /// Decides how to react to a refusal. If it concerns a single request or message, that one is removed and the rest
    /// retried.
    fn on_refusal(
        &mut self,
        refused: &Refused,
        batch: &Batch,
        grant_only: &mut bool,
        batch_max: &mut usize,
    ) -> RefusalAction {
        let reason = || refused.detail.clone();
        let cancel = refused.facts.op.and_then(|op| op.checked_sub(batch.cancels_at));
        let cancel = cancel.filter(|cancel| *cancel < self.cancels.len());
        if let (Some(cancel), Code::Conflict | Code::NotFound | Code::Cancelled) = (cancel, refused.code) {
            // It has ended already, or was never sent.
            self.cancels.remove(cancel);
            return RefusalAction::RetryNow;
        }
        let index = refused.facts.op.and_then(|op| op.checked_sub(batch.outputs_at));
        let index = index.filter(|index| *index < batch.outputs);
        let is_step = refused.facts.op.is_some_and(|op| op + 1 == batch.ops.len());
        match (refused.code, index) {
            (Code::LimitExceeded | Code::TooLarge, _) if batch.outputs > 1 => *batch_max = batch.outputs / 2,
            // The lease expired while the hub could not commit. A notice is redelivered and acked there; another
            // delivery brings its event again, so the step is repeated without it.
            (Code::StaleLease, None) if !*grant_only => {
                let has_events = self.link.held[..self.taken].iter().any(|held| held.event().is_some());
                *grant_only = true;
                if has_events {
                    return RefusalAction::Stop;
                }
            }
            (Code::StaleEpoch, _) => return RefusalAction::Stop,
            (Code::VersionConflict | Code::Conflict, _) if is_step => return RefusalAction::Stop,
            (code, None) if code.retryable() => return RefusalAction::RetryLater,
            (_, None) => return RefusalAction::GiveUp,
            (code, Some(index)) => {
                let is_busy = code.retryable() || code == Code::LimitExceeded;
                let is_unreachable =
                    matches!(code, Code::UnknownRecipient | Code::NotFound | Code::PolicyViolation);
                match self.unsent.get(index) {
                    Some(Unsent::Request(_)) if is_busy || is_unreachable => {
                        let Some(Unsent::Request(request)) = self.unsent.remove(index) else {
                            return RefusalAction::GiveUp;
                        };
                        match is_busy {
                            true => self.defer(request, reason()),
                            false => self.events.push(ProcedureEvent::RequestUnsent {
                                request: request.request.id,
                                reason: reason(),
                            }),
                        }
                    }
                    // A subscriber's inbox is full. The procedure does not wait for it.
                    Some(Unsent::Message(message))
                        if is_busy && matches!(message.to, Destination::Topic(_)) =>
                    {
                        tracing::warn!(procedure = %self.id, code = code.as_str(), "publication dropped");
                        self.unsent.remove(index);
                    }
                    Some(_) if is_busy => return RefusalAction::RetryLater,
                    Some(_) | None => return RefusalAction::GiveUp,
                }
            }
        }
        RefusalAction::RetryNow
    }

    fn output_op(&self, output: &Unsent) -> Result<Op, RunError> {
        Ok(match output {
            Unsent::Request(request) => self.request_op(&request.request)?,
            Unsent::Message(message) => self.message_op(message)?,
            Unsent::Task(task) => self.task_op(task)?,
            Unsent::Approval(approval) => self.approval_op(approval)?,
            Unsent::Child(child) => Op::StartProcedure(StartProcedure {
                id: Some(self.child_id(&child.id)?),
                kind: child.kind.clone(),
                driver: child.driver.clone(),
                spec: Some(self.context.space.seal(child.spec.clone())),
                parent: Some(self.id.clone()),
            }),
        })
    }

    fn request_op(&self, request: &RequestOutput) -> Result<Op, RunError> {
        let to = Destination::Agent(AgentId::new(&request.agent)?);
        let payload = self.context.space.seal(request.payload.clone());
        let kind = match request.kind {
            RequestKind::Query => MessageType::Query,
            RequestKind::Command => MessageType::Command,
        };
        let metadata = request.metadata.clone();
        let message = Message { kind, metadata, ..Message::new(to, &request.action, payload) };
        let message = self.addressed(message, &request.id)?;
        Ok(Op::Request(SendRequest::new(message, Some(request.timeout_ms), None)))
    }

    fn message_op(&self, output: &OutgoingMessage) -> Result<Op, RunError> {
        let payload = self.context.space.seal(output.payload.clone());
        let message =
            Message { kind: output.kind, ..Message::new(output.to.clone(), &output.action, payload) };
        Ok(Op::send(self.addressed(message, &output.id)?))
    }

    fn addressed(&self, message: Message, name: &str) -> Result<Message, RunError> {
        Ok(Message {
            from: Some(self.context.agent.clone()),
            correlation_id: Some(self.id.to_string()),
            client_id: Some(client_id(&self.id, name)?),
            ..message
        })
    }

    fn task_op(&self, task: &TaskOutput) -> Result<Op, RunError> {
        let depends_on = task.depends_on.iter().map(|name| self.task_id(name).map(Dependency::Task));
        let defaults = NewTask::new(&task.task_type);
        let new = NewTask {
            id: Some(self.task_id(&task.id)?),
            agent: task.agent.clone(),
            input: Some((0, task.input.len() as u64)).filter(|_| !task.input.is_empty()),
            priority: task.priority,
            depends_on: depends_on.collect::<Result<_, _>>()?,
            timeout_ms: task.timeout_ms,
            attempts_max: task.attempts_max.unwrap_or(defaults.attempts_max),
            session: Some(self.id.to_string()),
            ..defaults
        };
        let inputs = (!task.input.is_empty()).then(|| self.context.space.seal(task.input.clone()));
        Ok(Op::CreateTasks(CreateTasks { tasks: vec![new], inputs }))
    }

    fn approval_op(&self, approval: &ApprovalOutput) -> Result<Op, RunError> {
        let document = action_document(&approval.action, approval.payload.to_string().as_bytes())?;
        Ok(Op::RequestApproval(Box::new(RequestApproval {
            id: Some(self.approval_id(&approval.id)?),
            agent: Some(self.context.agent.clone()),
            action: approval.action.clone(),
            document: self.context.space.seal(document),
            rationale: approval.rationale.clone(),
            confidence: approval.confidence,
            priority: Priority::default(),
            timeout_ms: approval.timeout_ms,
            default: approval.default.clone(),
            session: Some(self.id.to_string()),
            follow_ups: Vec::new(),
        })))
    }

    pub(super) fn put(&self, write: EntryWrite) -> Result<PutEntry, RunError> {
        Ok(PutEntry {
            key: quorate_core::Key::new(write.key)?,
            entry_type: write.entry_type,
            content: self.context.space.seal(write.content),
            content_type: None,
            expect: write.expect,
            depends_on: Vec::new(),
            fence: None,
        })
    }
}

fn stepped_version(receipt: &Receipt) -> Option<Version> {
    receipt.results.iter().find_map(|result| match result {
        OpResult::ProcedureStepped { version } => Some(*version),
        _ => None,
    })
}
