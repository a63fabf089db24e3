//! Receiving: each frame is enqueued before the next one is read, so operations keep the order of their frames.

use bytes::Bytes;
use quorate_api::message::NewMessage;
use quorate_api::op::{self, Commit};
use quorate_core::{Code, Durability, Epoch, LeaseRef, Message as CoreMessage, Op, Refused};
use quorate_engine::{MessageRef, PendingCommit, is_flag, is_marked_private};
use serde_json::json;

use super::connection::{CloseReason, LeaseEnd, PendingOperation, Reply, WsConnection};
use super::frame::{self, FrameError, FrameRequest};
use super::ledger::{AckTargets, Range};
use crate::observe;
use crate::problem::Problem;

/// Maximum number of ranges of delivery numbers in one WebSocket frame.
const RANGES_MAX: usize = 1_024;

/// Outcome of receiving a frame.
pub(super) enum Outcome {
    Now(String),
    Later(PendingCommit, PendingOperation),
    /// The reply is already enqueued, or is sent out of order.
    Handled,
}

impl WsConnection {
    /// Handles one frame.
    pub(super) async fn receive(&mut self, bytes: Bytes) -> Result<(), CloseReason> {
        let (n, outcome) = match frame::parse(&bytes) {
            Ok((n, request)) => (n, self.check_and_apply(n, request, &bytes).await),
            Err(FrameError { n: Some(n), refused }) => {
                let is_flag = is_marked_private(&bytes);
                (n, Err(if is_flag { refuse_flag(refused) } else { refused }.into()))
            }
            // Without a number no reply can be addressed, so the connection ends.
            Err(FrameError { n: None, refused }) => return Err(refused.into()),
        };
        self.replies.push_back(match outcome {
            Ok(Outcome::Now(text)) => Reply::Ready(text),
            Ok(Outcome::Later(pending, operation)) => Reply::Pending(n, pending, operation),
            Ok(Outcome::Handled) => return Ok(()),
            Err(problem) => {
                // An unparsed frame that is meant for moderators must leave no trace.
                if problem.code() != Code::Invalid || !is_marked_private(&bytes) {
                    self.session.refused(&problem);
                }
                Reply::Ready(frame::problem(Some(n), &problem))
            }
        });
        Ok(())
    }

    async fn check_and_apply(
        &mut self,
        n: u64,
        request: FrameRequest<'_>,
        bytes: &Bytes,
    ) -> Result<Outcome, Problem> {
        if self.last_n.is_some_and(|last| n <= last) {
            let refused = Refused::new(
                Code::Invalid,
                format!("n is {n}, but the previous frame had {}", self.last_n.unwrap_or(0)),
            )
            .hint("use increasing numbers: replies are matched by n");
            return Err(refused.into());
        }
        self.last_n = Some(n);
        let session = &self.session;
        let now = session.app.engine().clock().now().mono;
        session.app.rates().check_call(self.token_space, &session.principal, now)?;
        self.apply(n, request, bytes).await
    }

    async fn apply(&mut self, n: u64, request: FrameRequest<'_>, bytes: &Bytes) -> Result<Outcome, Problem> {
        match request {
            FrameRequest::Commit(commit) => self.commit(commit, bytes).await,
            FrameRequest::Credit(credit) => {
                self.ledger.check_credit(credit)?;
                // The reply precedes the deliveries that this credit allows.
                self.replies.push_back(Reply::Ready(frame::ok(n, &json!({}))));
                self.ledger.set_credit(credit);
                self.grant().await;
                Ok(Outcome::Handled)
            }
            FrameRequest::Ack(ranges) => {
                check_ranges(&ranges)?;
                let AckTargets { leases, acked_by } = self.ledger.to_ack(&ranges)?;
                if leases.is_empty() {
                    let acked_by = acked_by.map(|seq| seq.0);
                    return Ok(Outcome::Now(frame::ok(n, &json!({"seq": acked_by}))));
                }
                let resumed = self.resumed_among(&leases);
                self.finish(vec![Op::AckMany(leases)], LeaseEnd::Acked { ranges, resumed }).await
            }
            FrameRequest::Nack(nack) => {
                check_ranges(&nack.deliveries)?;
                let leases = self.ledger.held_leases(&nack.deliveries)?;
                let ops = leases.into_iter().map(|lease| nack.op(lease)).collect();
                self.finish(ops, LeaseEnd::Returned { ranges: nack.deliveries }).await
            }
            FrameRequest::Extend(extend) => {
                check_ranges(&extend.deliveries)?;
                let leases = self.ledger.held_leases(&extend.deliveries)?;
                let durations = &self.session.app.settings().durations;
                let ops = leases.into_iter().map(|lease| extend.op(lease, durations)).collect();
                let pending = self.session.space.enqueue(self.session.commit(ops)).await?;
                Ok(Outcome::Later(pending, PendingOperation::Extend))
            }
            FrameRequest::Send(message) => self.send(n, *message, bytes).await,
            FrameRequest::Request(fields) => self.request(n, fields, bytes).await,
            FrameRequest::ClaimTasks(fields) => self.claim_tasks(n, fields),
            FrameRequest::AcquireLocks(fields) => self.acquire_locks(n, fields, bytes),
        }
    }

    async fn commit(&mut self, request: Commit<'_>, bytes: &Bytes) -> Result<Outcome, Problem> {
        let session = &self.session;
        let key = request.idempotency_key.ok_or_else(|| {
            Refused::new(Code::Invalid, "idempotencyKey is missing").hint(
                "set an idempotency key on every commit, so that it can be retried safely after a reconnect",
            )
        })?;
        let context = session.parse_context(bytes);
        let parse =
            |(index, fields)| op::parse_op(fields, &context).map_err(|refused: Refused| refused.at_op(index));
        let mut ops = request.ops.into_iter().enumerate().map(parse).collect::<Result<Vec<_>, _>>()?;
        observe::propagate_traces(&session.app, &session.space, &mut ops, None).await;
        let resumed = self.resumed_among(ops.iter().flat_map(Op::ended_leases));
        let mut commit = session.commit(ops).keyed(key);
        commit.epoch = request.epoch.map(Epoch).or(commit.epoch);
        Ok(Outcome::Later(session.space.enqueue(commit).await?, PendingOperation::Commit { resumed }))
    }

    /// Ends deliveries. The commit also grants the credit that they free.
    async fn finish(&mut self, mut ops: Vec<Op>, end: LeaseEnd) -> Result<Outcome, Problem> {
        let granted = self.ledger.grant();
        let credit = granted.as_ref().map_or(0, |(_, credit)| *credit);
        ops.extend(granted.map(|(op, _)| op));
        match self.session.space.enqueue(self.session.commit(ops)).await {
            Ok(pending) => Ok(Outcome::Later(pending, PendingOperation::EndLeases { end, credit })),
            Err(error) => {
                self.ledger.return_credit(u64::from(credit));
                Err(error.into())
            }
        }
    }

    /// Returns those of the leases whose deliveries are still to be redelivered on this connection.
    fn resumed_among<'a>(&self, leases: impl IntoIterator<Item = &'a LeaseRef>) -> Vec<LeaseRef> {
        self.consumer.as_ref().map(|consumer| consumer.resumed_among(leases)).unwrap_or_default()
    }

    /// Grants credit to the consumer, as far as the client allows. A failure is retried by the next periodic check.
    pub(super) async fn grant(&mut self) {
        let Some((op, credit)) = self.ledger.grant() else { return };
        match self.session.space.enqueue(self.session.commit(vec![op])).await {
            Ok(pending) => {
                self.replies.push_back(Reply::Pending(0, pending, PendingOperation::Grant { credit }))
            }
            Err(_) => self.ledger.return_credit(u64::from(credit)),
        }
    }

    /// Sends an ephemeral message. Durable messages are sent in a commit.
    async fn send(&mut self, n: u64, message: NewMessage<'_>, bytes: &Bytes) -> Result<Outcome, Problem> {
        let new_message = self.new_message(message, bytes)?;
        if new_message.durability != Durability::Ephemeral && !is_flag(&new_message) {
            return Err(Refused::new(Code::Invalid, "only ephemeral messages can be sent with send")
                .hint("send it in a commit, or set durability to ephemeral")
                .into());
        }
        let session = &self.session;
        let id = session.space.send_ephemeral(&session.principal, session.epoch, new_message).await?;
        let reply = match id {
            MessageRef::Flag => json!({"received": true}),
            id => json!({"id": id.to_string()}),
        };
        Ok(Outcome::Now(frame::ok(n, &reply)))
    }

    pub(super) fn new_message(&self, message: NewMessage<'_>, bytes: &Bytes) -> Result<CoreMessage, Refused> {
        message.into_core(&self.session.parse_context(bytes))
    }
}

fn check_ranges(ranges: &[Range]) -> Result<(), Refused> {
    if ranges.len() > RANGES_MAX {
        return Err(Refused::new(
            Code::LimitExceeded,
            format!("too many ranges in one frame: {}", ranges.len()),
        )
        .limit(RANGES_MAX as u64)
        .hint("split the ranges over several frames"));
    }
    Ok(())
}

/// Refuses a conduct flag that is not sent as a valid frame.
fn refuse_flag(refused: Refused) -> Refused {
    refused.hint("raise a conduct flag with POST /v1/flags, or as the payload of a message").private()
}
