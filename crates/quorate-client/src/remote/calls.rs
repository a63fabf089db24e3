//! Calls that several verbs share: commits, claims, questions.

use std::time::Duration;

use quorate::Error;
use quorate::link::{Answer, Asked, Delivery, Promise, TaskClaim, TaskInHand, Who};
use quorate_core::{Commit, Epoch, Message, MessageId, Mono, Receipt, Seq};
use serde::Deserialize;
use serde_json::json;

use super::{Connection, Seat};
use crate::http::{Http, Request};
use crate::patience::Patience;
use crate::socket::Socket;
use crate::wire::message::{DeliveryIn, MessageIn, MessageOut};
use crate::wire::op::CommittedIn;
use crate::wire::task::TakenIn;
use crate::wire::{self, op};

/// How long one call waits for something to come. Longer waits are several calls.
const WAIT: Duration = Duration::from_secs(20);
/// What the hub may take longer than it was asked to wait.
const GRACE: Duration = Duration::from_secs(10);
/// How long an answer is waited for if nothing is said.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct DeliveriesIn<'a> {
    #[serde(borrow)]
    deliveries: Vec<DeliveryIn<'a>>,
}

#[derive(Deserialize)]
struct AnsweredIn<'a> {
    #[serde(borrow)]
    message: MessageIn<'a>,
}

/// A call as this start of an agent.
pub(super) fn as_of(request: Request, epoch: impl Into<Option<Epoch>>) -> Request {
    match epoch.into() {
        Some(epoch) => request.header("quorate-epoch", &epoch.0.to_string()),
        None => request,
    }
}

pub(super) fn text(body: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(body).map_err(|error| wire::strange(&error))
}

impl Connection {
    /// Commits under a key, again and again until the outcome is known or there is no time left.
    pub(super) async fn commit_surely(&self, commit: Commit) -> Result<Receipt, Error> {
        let key = commit.key.as_ref().map_or_else(|| self.key(), |(key, _)| key.to_string());
        let seat = self.seat(&commit.principal);
        let body = op::commit(&commit.ops, &key, commit.epoch)?;
        let told = match seat.socket() {
            Some(socket) => socket.ask("commit", &body, true).await?,
            None => self.commit_by_http(&seat.http, body).await?,
        };
        let committed: CommittedIn = wire::read(&told)?;
        let (seq, at) = (committed.seq.map(Seq), self.clock().now().wall);
        Ok(Receipt { seq, at, results: committed.read(&commit.ops)? })
    }

    async fn commit_by_http(&self, http: &Http, body: String) -> Result<String, Error> {
        let answer = self.patience.persist(|| http.post("/v1/commit").json(body.clone()).send()).await?;
        Ok(text(&answer.body)?.to_owned())
    }

    pub(super) async fn claim_deliveries(
        &self,
        who: Who,
        max: u32,
        lease_ms: u64,
        wait: Duration,
    ) -> Result<Vec<Delivery>, Error> {
        let (seat, path) = (self.seat_of(&who.agent), Self::of(&who, "/inbox/claim"));
        let until = self.clock().now().plus(wait).mono;
        loop {
            let rest = self.rest(until);
            let wait = rest.min(WAIT);
            let body =
                json!({"max": max, "waitMs": wait.as_millis() as u64, "leaseMs": lease_ms}).to_string();
            // What a claim took whose answer was lost comes again when its lease is over.
            let call =
                || as_of(seat.http.post(&path), who.epoch).json(body.clone()).within(wait + GRACE).send();
            let answer = self.patience.persist(call).await?;
            let came: DeliveriesIn<'_> = wire::read(text(&answer.body)?)?;
            let came = came.deliveries.into_iter().map(|one| one.read(lease_ms));
            let came = came.collect::<Result<Vec<_>, _>>()?;
            if !came.is_empty() || self.rest(until).is_zero() {
                if let Some(socket) = seat.socket() {
                    came.iter()
                        .filter_map(|one| one.lease.as_ref())
                        .for_each(|one| socket.taken_elsewhere(one));
                }
                return Ok(came);
            }
        }
    }

    fn rest(&self, until: Mono) -> Duration {
        Duration::from_millis(until.0.saturating_sub(self.clock().now().mono.0))
    }

    pub(super) async fn claim_tasks_once(
        &self,
        claim: &TaskClaim,
        max: u32,
        wait: Duration,
    ) -> Result<Vec<TaskInHand>, Error> {
        let seat = self.seat_of(&claim.agent);
        claim_tasks(&seat, &self.patience, claim, max, wait).await
    }

    pub(super) async fn claim_tasks_until(
        &self,
        claim: TaskClaim,
        max: u32,
        wait: Duration,
    ) -> Result<Vec<TaskInHand>, Error> {
        let until = self.clock().now().plus(wait).mono;
        loop {
            let taken = self.claim_tasks_once(&claim, max, self.rest(until).min(WAIT)).await?;
            if !taken.is_empty() || self.rest(until).is_zero() {
                return Ok(taken);
            }
        }
    }

    /// Asks. A question that is to last has an id, so that it can be said again and waits for the same answer.
    pub(super) async fn ask(
        &self,
        who: Who,
        message: &Message,
        timeout: Option<Duration>,
        repeatable: bool,
    ) -> Result<Answer, Error> {
        let seat = self.seat_of(&who.agent);
        let asking = self.asking(seat, who, message, timeout, repeatable)?;
        asking.go().await
    }

    pub(super) fn asking(
        &self,
        seat: std::sync::Arc<Seat>,
        who: Who,
        message: &Message,
        timeout: Option<Duration>,
        repeatable: bool,
    ) -> Result<Question, Error> {
        let timeout_ms = timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let mut out = MessageOut::new(message, timeout_ms)?;
        if repeatable {
            out.id.get_or_insert_with(|| format!("ask-{}", self.key()));
        }
        let within = timeout.unwrap_or(ANSWER_WITHIN) + GRACE;
        let (http, socket) = (seat.http.clone(), seat.socket());
        let body = wire::write(&out)?;
        Ok(Question { http, socket, patience: self.patience.clone(), who, body, within, repeatable })
    }
}

/// Takes tasks once; waits for the first, but not for long.
pub(super) async fn claim_tasks(
    seat: &Seat,
    patience: &Patience,
    claim: &TaskClaim,
    max: u32,
    wait: Duration,
) -> Result<Vec<TaskInHand>, Error> {
    let body = json!({
        "agent": claim.agent.to_string(),
        "types": claim.types,
        "max": max,
        "waitMs": wait.as_millis() as u64,
        "leaseMs": claim.lease_ms,
    });
    let body = body.to_string();
    let call = || {
        let call = seat.http.post("/v1/tasks/claim").json(body.clone()).within(wait + GRACE);
        as_of(call, claim.epoch).send()
    };
    let answer = patience.persist(call).await?;
    let taken: TakenIn<'_> = wire::read(text(&answer.body)?)?;
    let now = patience.clock.now().wall;
    taken.tasks.into_iter().map(|one| one.read(now, claim.lease_ms)).collect()
}

/// A question that is to be asked.
pub(super) struct Question {
    http: Http,
    socket: Option<Socket>,
    patience: Patience,
    who: Who,
    body: String,
    within: Duration,
    repeatable: bool,
}

impl Question {
    async fn go(self) -> Result<Answer, Error> {
        if let Some(socket) = &self.socket {
            let told = socket.ask("request", &self.body, self.repeatable).await?;
            return wire::read::<AnsweredIn<'_>>(&told)?.message.read();
        }
        let call = || {
            as_of(self.http.post("/v1/request"), self.who.epoch)
                .json(self.body.clone())
                .within(self.within)
                .send()
        };
        let answer = if self.repeatable { self.patience.persist(call).await? } else { call().await? };
        wire::read::<MessageIn<'_>>(text(&answer.body)?)?.read()
    }
}

/// A question on its way. It is asked by a task of its own, so that it is on its way when this is made.
pub(super) struct OneAnswer(pub(super) Option<tokio::task::JoinHandle<Result<Answer, Error>>>);

impl OneAnswer {
    pub(super) fn new(question: Question) -> Self {
        Self(Some(tokio::spawn(question.go())))
    }
}

impl Asked for OneAnswer {
    fn id(&self) -> Option<MessageId> {
        None
    }

    fn next(&mut self) -> Promise<'_, Option<Answer>> {
        Box::pin(async move {
            let Some(task) = &mut self.0 else { return Ok(None) };
            let answer = task.await.map_err(|error| wire::strange(&error));
            self.0 = None;
            answer?.map(Some)
        })
    }

    fn cancel(self: Box<Self>) -> Promise<'static, ()> {
        drop(self);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Drop for OneAnswer {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
