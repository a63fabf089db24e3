//! What is heard: each frame is put in line before the next one is looked at.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use quorate_api::message::NewMessage;
use quorate_api::op::{self, Commit};
use quorate_core::{Ask, Code, Durability, Epoch, LeaseRef, Message as Letter, Op, Refused};
use quorate_engine::{Answer, Asking, Error, MessageRef, Pending, is_flag, is_marked_private};
use serde_json::json;

use super::Session;
use super::frame::{self, Asked, REQUESTS_MAX, Unread};
use super::ledger::{Range, ToAck};
use super::talk::{End, Line, Over, Question, Talk, What};
use crate::body::Fields;
use crate::deliberations;
use crate::observe;
use crate::problem::Problem;

/// Ranges that one frame may name.
const RANGES_MAX: usize = 1_024;
/// Payloads above this are looked through elsewhere; whoever sends one waits, so that the order is kept.
const LARGE_BYTES: usize = 32 * 1024;

/// What a frame is answered with, before or after it was in line.
enum Said {
    Now(String),
    Later(Pending, What),
    /// It was put in line already, or is answered out of turn.
    Elsewhere,
}

impl Talk {
    /// Does what a frame asks for.
    pub(super) async fn hear(&mut self, bytes: Bytes) -> Result<(), Over> {
        let (n, said) = match frame::read(&bytes) {
            Ok((n, asked)) => (n, self.numbered(n, asked, &bytes).await),
            Err(Unread { n: Some(n), refused }) => {
                let is_flag = is_marked_private(&bytes);
                (n, Err(if is_flag { turned_away(refused) } else { refused }.into()))
            }
            // Whom to answer is not known, nor what was meant.
            Err(Unread { n: None, refused }) => return Err(refused.into()),
        };
        self.line.push_back(match said {
            Ok(Said::Now(text)) => Line::Ready(text),
            Ok(Said::Later(pending, what)) => Line::Pending(n, pending, what),
            Ok(Said::Elsewhere) => return Ok(()),
            Err(problem) => {
                // What could not be read and is for moderators only leaves no trace.
                if problem.code() != Code::Invalid || !is_marked_private(&bytes) {
                    self.session.refused(&problem);
                }
                Line::Ready(frame::problem(Some(n), &problem))
            }
        });
        Ok(())
    }

    async fn numbered(&mut self, n: u64, asked: Asked<'_>, bytes: &Bytes) -> Result<Said, Problem> {
        if self.last.is_some_and(|last| n <= last) {
            let refused = Refused::new(
                Code::Invalid,
                format!("n is {n}, and was at {} before", self.last.unwrap_or(0)),
            )
            .hint("number frames upwards: answers are told apart by n");
            return Err(refused.into());
        }
        self.last = Some(n);
        let session = &self.session;
        let now = session.app.engine().clock().now().mono;
        session.app.rates().call(self.home, &session.principal, now)?;
        self.act(n, asked, bytes).await
    }

    async fn act(&mut self, n: u64, asked: Asked<'_>, bytes: &Bytes) -> Result<Said, Problem> {
        match asked {
            Asked::Commit(commit) => self.commit(commit, bytes).await,
            Asked::Credit(credit) => {
                self.ledger.check(credit)?;
                // Told before anything is sent for it.
                self.line.push_back(Line::Ready(frame::ok(n, &json!({}))));
                self.ledger.credit(credit);
                self.grant().await;
                Ok(Said::Elsewhere)
            }
            Asked::Ack(ranges) => {
                check_ranges(&ranges)?;
                let ToAck { leases, acked_by } = self.ledger.to_ack(&ranges)?;
                if leases.is_empty() {
                    let acked_by = acked_by.map(|seq| seq.0);
                    return Ok(Said::Now(frame::ok(n, &json!({"seq": acked_by}))));
                }
                let resumed = self.resumed_among(&leases);
                self.finish(vec![Op::AckMany(leases)], End::Acked { ranges, resumed }).await
            }
            Asked::Nack(nack) => {
                check_ranges(&nack.deliveries)?;
                let leases = self.ledger.held(&nack.deliveries)?;
                let ops = leases.into_iter().map(|lease| nack.op(lease)).collect();
                self.finish(ops, End::Returned { ranges: nack.deliveries }).await
            }
            Asked::Extend(extend) => {
                check_ranges(&extend.deliveries)?;
                let leases = self.ledger.held(&extend.deliveries)?;
                let times = &self.session.app.settings().times;
                let ops = leases.into_iter().map(|lease| extend.op(lease, times)).collect();
                let pending = self.session.space.enqueue(self.session.commit(ops)).await?;
                Ok(Said::Later(pending, What::Extend))
            }
            Asked::Send(message) => self.send(n, *message, bytes).await,
            Asked::Request(fields) => self.request(n, fields, bytes).await,
        }
    }

    async fn commit(&mut self, asked: Commit<'_>, bytes: &Bytes) -> Result<Said, Problem> {
        let session = &self.session;
        let key = asked.idempotency_key.ok_or_else(|| {
            Refused::new(Code::Invalid, "idempotencyKey is missing")
                .hint("give every commit a key: after a break it can be repeated without a second effect")
        })?;
        let reading = session.reading(bytes);
        let read =
            |(index, fields)| op::read(fields, &reading).map_err(|refused: Refused| refused.at_op(index));
        let mut ops = asked.ops.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        observe::continued(&session.app, &session.space, &mut ops, None).await;
        deliberations::driven(&session.app, &session.space, &mut ops).await?;
        let resumed = self.resumed_among(ops.iter().flat_map(Op::ended_leases));
        let mut commit = session.commit(ops).keyed(key);
        commit.epoch = asked.epoch.map(Epoch).or(commit.epoch);
        Ok(Said::Later(session.space.enqueue(commit).await?, What::Commit { resumed }))
    }

    /// Ends deliveries. What they made room for goes with it.
    async fn finish(&mut self, mut ops: Vec<Op>, end: End) -> Result<Said, Problem> {
        let granted = self.ledger.grant();
        let credit = granted.as_ref().map_or(0, |(_, credit)| *credit);
        ops.extend(granted.map(|(op, _)| op));
        match self.session.space.enqueue(self.session.commit(ops)).await {
            Ok(pending) => Ok(Said::Later(pending, What::End { end, credit })),
            Err(error) => {
                self.ledger.take_back(u64::from(credit));
                Err(error.into())
            }
        }
    }

    /// Those of these leases whose deliveries are still to be sent again on this connection.
    fn resumed_among<'a>(&self, leases: impl IntoIterator<Item = &'a LeaseRef>) -> Vec<LeaseRef> {
        self.consumer.as_ref().map(|consumer| consumer.resumed_among(leases)).unwrap_or_default()
    }

    /// Lets the head hand out what there is credit for. What fails here is tried again at the next look.
    pub(super) async fn grant(&mut self) {
        let Some((op, credit)) = self.ledger.grant() else { return };
        match self.session.space.enqueue(self.session.commit(vec![op])).await {
            Ok(pending) => self.line.push_back(Line::Pending(0, pending, What::Grant { credit })),
            Err(_) => self.ledger.take_back(u64::from(credit)),
        }
    }

    /// A message that lives in memory only. Whatever is to last goes into a commit.
    async fn send(&mut self, n: u64, message: NewMessage<'_>, bytes: &Bytes) -> Result<Said, Problem> {
        let letter = self.letter(message, bytes)?;
        if letter.durability != Durability::Ephemeral && !is_flag(&letter) {
            return Err(Refused::new(Code::Invalid, "only an ephemeral message is sent by itself")
                .hint("send it in a commit, or say durability: ephemeral")
                .into());
        }
        let session = &self.session;
        let id = session.space.send_ephemeral(&session.principal, session.epoch, letter).await?;
        let told = match id {
            MessageRef::Flag => json!({"received": true}),
            id => json!({"id": id.to_string()}),
        };
        Ok(Said::Now(frame::ok(n, &told)))
    }

    fn letter(&self, message: NewMessage<'_>, bytes: &Bytes) -> Result<Letter, Refused> {
        message.read(&self.session.reading(bytes))
    }

    /// Asks somebody. The question is in line when this returns; the answer comes when it comes.
    async fn request(&mut self, n: u64, mut fields: Fields<'_>, bytes: &Bytes) -> Result<Said, Problem> {
        if self.asking.len() >= REQUESTS_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many requests of this connection wait")
                .limit(REQUESTS_MAX as u64)
                .passes()
                .hint("wait for some of the answers")
                .into());
        }
        let timeout_ms = fields.take_number("timeoutMs")?;
        let mut letter = self.letter(fields.read::<NewMessage<'_>>()?, bytes)?;
        observe::one_continued(&self.session.app, &self.session.space, &mut letter, None).await;
        let is_known = self.session.space.recall_cause(&letter).await;
        let is_large = letter.payload.bytes.len() > LARGE_BYTES;
        let session = Arc::clone(&self.session);
        // Either may take more than one poll to get into line, and what follows comes after it.
        if (is_large || !is_known) && letter.durability == Durability::Durable {
            let mut asking = durably(&session, letter, timeout_ms).await?;
            self.asking.push(Box::pin(async move { (n, asking.answer().await) }));
            return Ok(Said::Elsewhere);
        }
        let mut asking: Question = Box::pin(async move { (n, ask(&session, letter, timeout_ms).await) });
        // Once it was polled it is in line, so what follows comes after it.
        let answered = (&mut asking).now_or_never();
        self.asking.push(match answered {
            Some(answered) => Box::pin(std::future::ready(answered)),
            None => asking,
        });
        Ok(Said::Elsewhere)
    }
}

fn check_ranges(ranges: &[Range]) -> Result<(), Refused> {
    if ranges.len() > RANGES_MAX {
        return Err(Refused::new(Code::LimitExceeded, format!("the frame names {} ranges", ranges.len()))
            .limit(RANGES_MAX as u64)
            .hint("name fewer at a time"));
    }
    Ok(())
}

/// A frame that holds a conduct flag in a shape that no frame has.
fn turned_away(refused: Refused) -> Refused {
    refused.hint("raise it with POST /v1/flags, or give it as the payload of a message").private()
}

async fn ask(session: &Session, letter: Letter, timeout_ms: Option<u64>) -> Result<Answer, Error> {
    if letter.durability == Durability::Ephemeral {
        let within = timeout_ms.map(Duration::from_millis);
        return session.space.request_ephemeral(&session.principal, session.epoch, letter, within).await;
    }
    durably(session, letter, timeout_ms).await?.answer().await
}

/// A question that lasts: it returns once that is in the log.
async fn durably(session: &Session, letter: Letter, timeout_ms: Option<u64>) -> Result<Asking, Error> {
    let named = letter.client_id.is_some();
    let ask = Ask::new(letter, timeout_ms, None);
    let mut asking = session.space.request(&session.principal, session.epoch, ask).await?;
    // With an id it can be asked again after a break, and waits for the same answer.
    if named {
        asking.stays();
    }
    Ok(asking)
}
