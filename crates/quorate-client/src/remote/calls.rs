//! Calls shared by several operations: commits and claims.

use std::time::Duration;

use quorate::Error;
use quorate::link::{Delivery, HeldTask, TaskClaimQuery, Who};
use quorate_api::RawJson;
use quorate_api::claim::{ClaimedDeliveries, ClaimedTasks, InboxClaim, TaskClaim as TaskClaimJson};
use quorate_api::result::CommitReceipt;
use quorate_core::{Commit, Epoch, Mono, Receipt};

use super::{Connection, Seat};
use crate::http::{Http, Request};
use crate::patience::Patience;
use crate::wire::message::delivery;
use crate::wire::task::held;
use crate::wire::{self, op};

/// Maximum duration of one long poll. Longer waits are split into several calls.
pub(super) const WAIT: Duration = Duration::from_secs(20);
/// Additional time that the hub gets to respond after the requested wait.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// Adds the epoch of an agent to a request.
pub(super) fn as_of(request: Request, epoch: impl Into<Option<Epoch>>) -> Request {
    match epoch.into() {
        Some(epoch) => request.header("quorate-epoch", &epoch.0.to_string()),
        None => request,
    }
}

/// Converts a duration to milliseconds.
pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn text(body: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(body).map_err(|error| wire::strange(&error))
}

impl Connection {
    /// Commits with an idempotency key, and retries until the outcome is known or the retry timeout has elapsed.
    pub(super) async fn commit_surely(&self, commit: Commit) -> Result<Receipt, Error> {
        let key = commit.key.as_ref().map_or_else(|| self.key(), |(key, _)| key.to_string());
        let seat = self.seat(&commit.principal);
        let body = op::commit(&commit.ops, &key, commit.epoch)?;
        let response = match seat.socket() {
            Some(socket) => socket.ask("commit", &body, true).await?,
            None => self.commit_by_http(&seat.http, body).await?,
        };
        let receipt: CommitReceipt<RawJson> = wire::read(&response)?;
        let results = op::results(&receipt, &commit.ops)?;
        Ok(Receipt { seq: receipt.seq, at: self.clock().now().wall, results })
    }

    async fn commit_by_http(&self, http: &Http, body: String) -> Result<String, Error> {
        let response = self.patience.persist(|| http.post("/v1/commit").json(body.clone()).send()).await?;
        Ok(text(&response.body)?.to_owned())
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
            let claim = InboxClaim { max: Some(max), wait_ms: Some(ms(wait)), lease_ms: Some(lease_ms) };
            let body = wire::write(&claim)?;
            // Retried with the same key, a claim whose response was lost returns the same deliveries.
            let key = self.key();
            let call = || {
                let call = seat.http.post(&path).key(&key).json(body.clone()).within(wait + GRACE);
                as_of(call, who.epoch).send()
            };
            let claimed: ClaimedDeliveries = self.patience.persist(call).await?.json()?;
            let deliveries = claimed.deliveries.into_iter().map(|one| delivery(one, lease_ms));
            let deliveries = deliveries.collect::<Result<Vec<_>, _>>()?;
            if !deliveries.is_empty() || self.rest(until).is_zero() {
                if let Some(socket) = seat.socket() {
                    deliveries
                        .iter()
                        .filter_map(|one| one.lease.as_ref())
                        .for_each(|one| socket.taken_elsewhere(one));
                }
                return Ok(deliveries);
            }
        }
    }

    pub(super) fn rest(&self, until: Mono) -> Duration {
        Duration::from_millis(until.0.saturating_sub(self.clock().now().mono.0))
    }

    pub(super) async fn claim_tasks_once(
        &self,
        claim: &TaskClaimQuery,
        max: u32,
        wait: Duration,
    ) -> Result<Vec<HeldTask>, Error> {
        let seat = self.seat_of(&claim.agent);
        claim_tasks(&seat, &self.patience, &self.key(), claim, max, wait).await
    }

    pub(super) async fn claim_tasks_until(
        &self,
        claim: TaskClaimQuery,
        max: u32,
        wait: Duration,
    ) -> Result<Vec<HeldTask>, Error> {
        let until = self.clock().now().plus(wait).mono;
        loop {
            let claimed = self.claim_tasks_once(&claim, max, self.rest(until).min(WAIT)).await?;
            if !claimed.is_empty() || self.rest(until).is_zero() {
                return Ok(claimed);
            }
        }
    }
}

/// Claims tasks with one long poll. The same call with the same key returns the same tasks.
pub(super) async fn claim_tasks(
    seat: &Seat,
    patience: &Patience,
    key: &str,
    claim: &TaskClaimQuery,
    max: u32,
    wait: Duration,
) -> Result<Vec<HeldTask>, Error> {
    let body = wire::write(&TaskClaimJson {
        agent: Some(claim.agent.clone()),
        types: claim.types.clone(),
        max: Some(max),
        wait_ms: Some(ms(wait)),
        lease_ms: claim.lease_ms,
    })?;
    let call = || {
        let call = seat.http.post("/v1/tasks/claim").key(key).json(body.clone()).within(wait + GRACE);
        as_of(call, claim.epoch).send()
    };
    let claimed: ClaimedTasks = patience.persist(call).await?.json()?;
    let now = patience.clock.now().wall;
    claimed.tasks.into_iter().map(|one| held(one, now, claim.lease_ms)).collect()
}
