//! What a deliberation has to say, in commits that fit. The state goes with the first of them, the end with the last: what is
//! between is in the state, so whoever goes on after a stop knows what is missing.

use quorate_core::{
    AgentId, Ask as AskOp, Code, Destination, Message, MessageType, Op, OpResult, Payload, ProcedureStatus,
    Receipt, Refused, Topic, Version,
};
use quorate_engine::{Delivery, Error};
use serde::Serialize;
use serde_json::json;

use super::course::{Course, End, Unsent, client_id, step};
use super::{KIND, notice_ops, passes};
use crate::deliberation::{Ask, AskId, Event};

/// How many questions and messages a commit is tried with first; what is refused as too much is halved.
const AT_ONCE: usize = 200;

/// What is to be done about a refused commit.
enum Then {
    /// It is tried again without what was refused.
    Again,
    /// It is tried again later.
    Wait,
    /// Somebody else goes on with it.
    LeaveIt,
    /// This is its end.
    GiveUp,
}

impl Course<'_> {
    /// Brings on record what changed, and all that has to go out. `false` if the deliberation is over with it.
    pub(super) async fn go_out(
        &mut self,
        notice: &mut Option<(Delivery, Op)>,
        changed: bool,
    ) -> Result<bool, Error> {
        let mut first = notice_ops(notice.as_ref());
        let (mut unstored, mut at_once, mut backoff) = (changed, AT_ONCE, super::backoff());
        while unstored || !self.unsent.is_empty() || self.end.is_some() {
            let count = at_once.min(self.unsent.len());
            let (ops, asks) = self.ops(&first, count, unstored)?;
            let space = &self.driving.space;
            match space.commit(self.driving.commit(ops)).await {
                Ok(receipt) => {
                    backoff.reset();
                    first.clear();
                    *notice = None;
                    unstored = false;
                    self.went_out_with(&receipt, count, asks);
                }
                Err(Error::Refused(refused)) => {
                    match self.refused(&refused, &mut first, count, &mut at_once) {
                        Then::Again => {}
                        Then::Wait => {
                            self.report_retry(refused.code);
                            self.driving.wait(&mut backoff).await;
                        }
                        Then::LeaveIt => return Err(refused.into()),
                        Then::GiveUp => {
                            let code = refused.code.as_str();
                            tracing::warn!(procedure = %self.id, code, "a deliberation was given up: its next step was refused");
                            let ops = [first, vec![self.given_up(&refused)]].concat();
                            return space.commit(self.driving.commit(ops)).await.map(|_| false);
                        }
                    }
                }
                Err(error) if passes(&error) => {
                    self.report_retry(error.code());
                    self.driving.wait(&mut backoff).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn report_retry(&self, code: Code) {
        let code = code.as_str();
        tracing::warn!(procedure = %self.id, code, "a step of a deliberation failed and is retried");
    }

    /// The operations of the next commit, with the questions among them, in their order.
    fn ops(&self, first: &[Op], count: usize, unstored: bool) -> Result<(Vec<Op>, Vec<AskId>), Error> {
        let mut ops = first.to_vec();
        let mut asks = Vec::new();
        for unsent in &self.unsent[..count] {
            match unsent {
                Unsent::Ask(ask) => {
                    ops.push(self.question(ask)?);
                    asks.push(ask.id.clone());
                }
                Unsent::Publish(message) => ops.push(self.publication(message)?),
            }
        }
        let end = self.end.as_ref().filter(|_| count == self.unsent.len());
        if unstored || end.is_some() {
            let state = unstored.then(|| self.seal(&self.state)).transpose()?;
            let (status, result) = match end {
                None => (ProcedureStatus::Running, None),
                Some(End::Finished(outcome)) => (ProcedureStatus::Done, Some(self.seal(outcome)?)),
                Some(End::Failed(failure)) => (ProcedureStatus::Failed, Some(self.seal(failure)?)),
            };
            ops.push(step(&self.id, self.version, self.state.phase.as_str(), status, (state, result)));
        }
        Ok((ops, asks))
    }

    fn went_out_with(&mut self, receipt: &Receipt, count: usize, asks: Vec<AskId>) {
        if count == self.unsent.len() {
            self.end = None;
        }
        self.unsent.drain(..count);
        if let Some(version) = stepped(receipt) {
            self.version = version;
        }
        let requested = receipt.results.iter().filter_map(|result| match result {
            OpResult::Requested { id, .. } => Some(*id),
            _ => None,
        });
        for (ask, message) in asks.into_iter().zip(requested) {
            self.listen(ask, message);
        }
    }

    /// What concerns one question or message only is taken out, and the rest goes on.
    fn refused(&mut self, refused: &Refused, first: &mut Vec<Op>, count: usize, at_once: &mut usize) -> Then {
        let why = || refused.detail.clone();
        let place = refused.facts.op.and_then(|op| op.checked_sub(first.len())).filter(|at| *at < count);
        match (refused.code, place) {
            (Code::LimitExceeded | Code::TooLarge, _) if count > 1 => *at_once = count / 2,
            // It lapsed while the hub could not take anything; whoever got it since acked it.
            (Code::StaleLease, None) if first.iter().any(|op| matches!(op, Op::Ack(_))) => {
                first.retain(|op| !matches!(op, Op::Ack(_)));
            }
            (Code::StaleEpoch | Code::VersionConflict | Code::Conflict, _) => return Then::LeaveIt,
            (code, None) if code.retryable() => return Then::Wait,
            (_, None) => return Then::GiveUp,
            (code, Some(place)) => match (self.unsent.remove(place), code) {
                (Unsent::Ask(ask), code) if code.retryable() || code == Code::LimitExceeded => {
                    self.hold(ask, why());
                }
                (Unsent::Ask(ask), Code::UnknownRecipient | Code::NotFound | Code::PolicyViolation) => {
                    self.events.push(Event::Failed { ask: ask.id, why: why() });
                }
                // Somebody who listens has no room. Whoever took part is not held up by that, and the result has it.
                (Unsent::Publish(_), code) if code.retryable() || code == Code::LimitExceeded => {
                    tracing::warn!(procedure = %self.id, code = code.as_str(), "a publication was dropped");
                }
                _ => return Then::GiveUp,
            },
        }
        Then::Again
    }

    /// Ends a deliberation whose next step is refused: what it wants to say holds a secret, is too large, or the rules of
    /// the space forbid it. What was gathered stays in its state.
    fn given_up(&self, refused: &Refused) -> Op {
        let reason = format!("the next step was refused: {}: {}", refused.code, refused.detail);
        let result = self.driving.space.seal(json!({ "reason": reason, "hint": refused.hint }).to_string());
        step(&self.id, self.version, "failed", ProcedureStatus::Failed, (None, Some(result)))
    }

    fn question(&self, ask: &Ask) -> Result<Op, Error> {
        let payload = self.driving.space.seal(ask.payload.clone());
        let to = Destination::Agent(AgentId::new(&ask.agent)?);
        let mut question = self.message(to, ask.action, payload, &ask.id.0)?;
        question.kind = MessageType::Query;
        Ok(Op::Request(AskOp::new(question, Some(ask.within_ms), None)))
    }

    fn publication(&self, message: &crate::deliberation::Message) -> Result<Op, Error> {
        let topic = format!("deliberation.{}", message.message_type.as_str());
        let to = Destination::Topic(Topic::new(topic)?);
        let mut published = self.message(to, KIND, self.seal(message)?, &message.id)?;
        published.kind = MessageType::Event;
        Ok(Op::send(published))
    }

    fn message(&self, to: Destination, action: &str, payload: Payload, name: &str) -> Result<Message, Error> {
        let mut message = Message::new(to, action, payload);
        message.from = Some(self.driving.agent.clone());
        message.correlation_id = Some(self.id.to_string());
        message.client_id = Some(client_id(&self.id, name)?);
        Ok(message)
    }

    fn seal(&self, value: &impl Serialize) -> Result<Payload, Error> {
        let bytes = serde_json::to_vec(value);
        let bytes = bytes.map_err(|error| Refused::new(Code::Invalid, error.to_string()))?;
        Ok(self.driving.space.seal(bytes))
    }
}

fn stepped(receipt: &Receipt) -> Option<Version> {
    receipt.results.iter().find_map(|result| match result {
        OpResult::ProcedureStepped { version } => Some(*version),
        _ => None,
    })
}
