//! Commits the outputs of a deliberation in batches that fit. The first commit stores the state, the last one the final
//! result. The state describes everything in between, so a resumed run knows which outputs are missing.

use quorate_core::{
    AgentId, Code, Destination, Message, MessageType, Op, OpResult, Payload, ProcedureStatus, Receipt,
    Refused, SendRequest as AskOp, Topic, Version,
};
use quorate_engine::{Error, ReceivedDelivery};
use serde::Serialize;
use serde_json::json;

use super::run::{FinalResult, Run, UnsentOutput, client_id, step_op};
use super::{DELIBERATION_KIND, is_retryable, notice_ops};
use crate::deliberation::{Ask, AskId, Input};

/// Maximum number of requests and messages in a commit; halved when a commit is refused as too large.
const BATCH_MAX: usize = 200;

/// Reaction to a refused commit.
enum RefusalAction {
    /// Retry immediately, without the part that was refused.
    RetryNow,
    /// Retry after a backoff.
    RetryLater,
    /// Stop: another driver has taken over.
    Stop,
    /// End the deliberation as failed.
    Abandon,
}

impl Run<'_> {
    /// Commits a changed state and all unsent outputs. Returns `false` if the deliberation was abandoned.
    pub(super) async fn flush_outputs(
        &mut self,
        notice: &mut Option<(ReceivedDelivery, Op)>,
        changed: bool,
    ) -> Result<bool, Error> {
        let mut ack_ops = notice_ops(notice.as_ref());
        let (mut state_changed, mut batch_size, mut backoff) = (changed, BATCH_MAX, super::commit_backoff());
        while state_changed || !self.unsent.is_empty() || self.final_result.is_some() {
            let count = batch_size.min(self.unsent.len());
            let (ops, asks) = self.ops(&ack_ops, count, state_changed)?;
            let space = &self.context.space;
            match space.commit(self.context.commit(ops)).await {
                Ok(receipt) => {
                    backoff.reset();
                    ack_ops.clear();
                    *notice = None;
                    state_changed = false;
                    self.apply_receipt(&receipt, count, asks);
                }
                Err(Error::Refused(refused)) => {
                    match self.on_refusal(&refused, &mut ack_ops, count, &mut batch_size) {
                        RefusalAction::RetryNow => {}
                        RefusalAction::RetryLater => {
                            self.report_retry(refused.code);
                            self.context.wait_backoff(&mut backoff).await;
                        }
                        RefusalAction::Stop => return Err(refused.into()),
                        RefusalAction::Abandon => {
                            let code = refused.code.as_str();
                            tracing::warn!(procedure = %self.id, code, "deliberation abandoned: next step refused");
                            let ops = [ack_ops, vec![self.abandon(&refused)]].concat();
                            return space.commit(self.context.commit(ops)).await.map(|_| false);
                        }
                    }
                }
                Err(error) if is_retryable(&error) => {
                    self.report_retry(error.code());
                    self.context.wait_backoff(&mut backoff).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn report_retry(&self, code: Code) {
        let code = code.as_str();
        tracing::warn!(procedure = %self.id, code, "deliberation step failed; retrying");
    }

    /// Builds the operations of the next commit. Also returns the ids of the requests among them, in order.
    fn ops(&self, ack_ops: &[Op], count: usize, state_changed: bool) -> Result<(Vec<Op>, Vec<AskId>), Error> {
        let mut ops = ack_ops.to_vec();
        let mut asks = Vec::new();
        for output in &self.unsent[..count] {
            match output {
                UnsentOutput::Ask(ask) => {
                    ops.push(self.request(ask)?);
                    asks.push(ask.id.clone());
                }
                UnsentOutput::Publish(message) => ops.push(self.publication(message)?),
            }
        }
        let final_result = self.final_result.as_ref().filter(|_| count == self.unsent.len());
        if state_changed || final_result.is_some() {
            let state = state_changed.then(|| self.seal(&self.state)).transpose()?;
            let (status, result) = match final_result {
                None => (ProcedureStatus::Running, None),
                Some(FinalResult::Finished(outcome)) => (ProcedureStatus::Done, Some(self.seal(outcome)?)),
                Some(FinalResult::Failed(failure)) => (ProcedureStatus::Failed, Some(self.seal(failure)?)),
            };
            ops.push(step_op(&self.id, self.version, self.state.phase.as_str(), status, (state, result)));
        }
        Ok((ops, asks))
    }

    fn apply_receipt(&mut self, receipt: &Receipt, count: usize, asks: Vec<AskId>) {
        if count == self.unsent.len() {
            self.final_result = None;
        }
        self.unsent.drain(..count);
        if let Some(version) = stepped_version(receipt) {
            self.version = version;
        }
        let requested = receipt.results.iter().filter_map(|result| match result {
            OpResult::Requested { id, .. } => Some(*id),
            _ => None,
        });
        for (ask, message) in asks.into_iter().zip(requested) {
            self.track_answer(ask, message);
        }
    }

    /// Decides how to react to a refusal. If it concerns a single request or message, that one is removed and the rest
    /// retried.
    fn on_refusal(
        &mut self,
        refused: &Refused,
        ack_ops: &mut Vec<Op>,
        count: usize,
        batch_size: &mut usize,
    ) -> RefusalAction {
        let reason = || refused.detail.clone();
        let index =
            refused.facts.op.and_then(|op| op.checked_sub(ack_ops.len())).filter(|index| *index < count);
        match (refused.code, index) {
            (Code::LimitExceeded | Code::TooLarge, _) if count > 1 => *batch_size = count / 2,
            // The lease expired while the hub could not commit; the notice has been redelivered and is acked there.
            (Code::StaleLease, None) if ack_ops.iter().any(|op| matches!(op, Op::Ack(_))) => {
                ack_ops.retain(|op| !matches!(op, Op::Ack(_)));
            }
            (Code::StaleEpoch | Code::VersionConflict | Code::Conflict, _) => return RefusalAction::Stop,
            (code, None) if code.retryable() => return RefusalAction::RetryLater,
            (_, None) => return RefusalAction::Abandon,
            (code, Some(index)) => match (self.unsent.remove(index), code) {
                (UnsentOutput::Ask(ask), code) if code.retryable() || code == Code::LimitExceeded => {
                    self.defer(ask, reason());
                }
                (UnsentOutput::Ask(ask), Code::UnknownRecipient | Code::NotFound | Code::PolicyViolation) => {
                    self.events.push(Input::Unsent { ask: ask.id, why: reason() });
                }
                // A subscriber's inbox is full. The participants do not wait for it: the result contains the message
                // anyway.
                (UnsentOutput::Publish(_), code) if code.retryable() || code == Code::LimitExceeded => {
                    tracing::warn!(procedure = %self.id, code = code.as_str(), "publication dropped");
                }
                _ => return RefusalAction::Abandon,
            },
        }
        RefusalAction::RetryNow
    }

    /// Builds the operation that ends a deliberation whose next step is refused: an output contains a secret, is too
    /// large, or violates the policy of the space. The state keeps the collected answers.
    fn abandon(&self, refused: &Refused) -> Op {
        let reason = format!("the next step was refused: {}: {}", refused.code, refused.detail);
        let result = self.context.space.seal(json!({ "reason": reason, "hint": refused.hint }).to_string());
        step_op(&self.id, self.version, "failed", ProcedureStatus::Failed, (None, Some(result)))
    }

    fn request(&self, ask: &Ask) -> Result<Op, Error> {
        let payload = self.context.space.seal(ask.payload.clone());
        let to = Destination::Agent(AgentId::new(&ask.agent)?);
        let mut request = self.message(to, ask.action, payload, &ask.id.0)?;
        request.kind = MessageType::Query;
        Ok(Op::Request(AskOp::new(request, Some(ask.timeout_ms), None)))
    }

    fn publication(&self, message: &crate::deliberation::DeliberationMessage) -> Result<Op, Error> {
        let topic = format!("deliberation.{}", message.message_type.as_str());
        let to = Destination::Topic(Topic::new(topic)?);
        let mut event = self.message(to, DELIBERATION_KIND, self.seal(message)?, &message.id)?;
        event.kind = MessageType::Event;
        Ok(Op::send(event))
    }

    fn message(&self, to: Destination, action: &str, payload: Payload, name: &str) -> Result<Message, Error> {
        let mut message = Message::new(to, action, payload);
        message.from = Some(self.context.agent.clone());
        message.correlation_id = Some(self.id.to_string());
        message.client_id = Some(client_id(&self.id, name)?);
        Ok(message)
    }

    fn seal(&self, value: &impl Serialize) -> Result<Payload, Error> {
        let bytes = serde_json::to_vec(value);
        let bytes = bytes.map_err(|error| Refused::new(Code::Invalid, error.to_string()))?;
        Ok(self.context.space.seal(bytes))
    }
}

fn stepped_version(receipt: &Receipt) -> Option<Version> {
    receipt.results.iter().find_map(|result| match result {
        OpResult::ProcedureStepped { version } => Some(*version),
        _ => None,
    })
}
