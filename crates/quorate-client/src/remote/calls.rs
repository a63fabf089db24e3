//! Calls that several verbs share: commits and claims.

use std::time::Duration;

use quorate::Error;
use quorate::link::{Delivery, HeldTask, TaskClaim, Who};
use quorate_core::{Commit, Epoch, Mono, Receipt, Seq};
use serde::Deserialize;
use serde_json::json;

use super::{Connection, Seat};
use crate::http::{Http, Request};
use crate::patience::Patience;
use crate::wire::message::DeliveryIn;
use crate::wire::op::CommittedIn;
use crate::wire::task::TakenIn;
use crate::wire::{self, op};

/// How long one call waits for something to come. Longer waits are several calls.
pub(super) const WAIT: Duration = Duration::from_secs(20);
/// What the hub may take longer than it was asked to wait.
pub(super) const GRACE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct DeliveriesIn<'a> {
    #[serde(borrow)]
    deliveries: Vec<DeliveryIn<'a>>,
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
            // Said again under the same key, a claim whose answer was lost has the same answer.
            let key = self.key();
            let call = || {
                let call = seat.http.post(&path).key(&key).json(body.clone()).within(wait + GRACE);
                as_of(call, who.epoch).send()
            };
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

    pub(super) fn rest(&self, until: Mono) -> Duration {
        Duration::from_millis(until.0.saturating_sub(self.clock().now().mono.0))
    }

    pub(super) async fn claim_tasks_once(
        &self,
        claim: &TaskClaim,
        max: u32,
        wait: Duration,
    ) -> Result<Vec<HeldTask>, Error> {
        let seat = self.seat_of(&claim.agent);
        claim_tasks(&seat, &self.patience, &self.key(), claim, max, wait).await
    }

    pub(super) async fn claim_tasks_until(
        &self,
        claim: TaskClaim,
        max: u32,
        wait: Duration,
    ) -> Result<Vec<HeldTask>, Error> {
        let until = self.clock().now().plus(wait).mono;
        loop {
            let taken = self.claim_tasks_once(&claim, max, self.rest(until).min(WAIT)).await?;
            if !taken.is_empty() || self.rest(until).is_zero() {
                return Ok(taken);
            }
        }
    }
}

/// Takes tasks once; waits for the first, but not for long. The same call under the same key has the same answer.
pub(super) async fn claim_tasks(
    seat: &Seat,
    patience: &Patience,
    key: &str,
    claim: &TaskClaim,
    max: u32,
    wait: Duration,
) -> Result<Vec<HeldTask>, Error> {
    let body = json!({
        "agent": claim.agent.to_string(),
        "types": claim.types,
        "max": max,
        "waitMs": wait.as_millis() as u64,
        "leaseMs": claim.lease_ms,
    });
    let body = body.to_string();
    let call = || {
        let call = seat.http.post("/v1/tasks/claim").key(key).json(body.clone()).within(wait + GRACE);
        as_of(call, claim.epoch).send()
    };
    let answer = patience.persist(call).await?;
    let taken: TakenIn<'_> = wire::read(text(&answer.body)?)?;
    let now = patience.clock.now().wall;
    taken.tasks.into_iter().map(|one| one.read(now, claim.lease_ms)).collect()
}
