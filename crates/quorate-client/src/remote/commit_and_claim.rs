//! Calls shared by several operations: commits and claims.

use std::time::Duration;

use quorate::Error;
use quorate::backend::{AgentIdentity, HeldTask, ReceivedDelivery, TaskClaimQuery};
use quorate_api::RawJson;
use quorate_api::claim::{ClaimedDeliveries, ClaimedTasks, InboxClaim, TaskClaim as TaskClaimJson};
use quorate_api::result::CommitReceipt;
use quorate_core::{Commit, Epoch, Mono, Receipt};

use super::{PrincipalClient, RemoteHub};
use crate::http::{HttpClient, HttpRequest};
use crate::retry::Retrier;
use crate::wire::message::convert_delivery;
use crate::wire::task::convert_held_task;
use crate::wire::{self, op};

/// Maximum duration of one long poll. Longer waits are split into several calls.
pub(super) const LONG_POLL_WAIT: Duration = Duration::from_secs(20);
/// Additional time that the hub gets to respond after the requested wait.
pub(super) const RESPONSE_GRACE: Duration = Duration::from_secs(10);

/// Adds the epoch of an agent to a request.
pub(super) fn with_epoch(request: HttpRequest, epoch: impl Into<Option<Epoch>>) -> HttpRequest {
    match epoch.into() {
        Some(epoch) => request.header("quorate-epoch", &epoch.0.to_string()),
        None => request,
    }
}

/// Converts a duration to milliseconds.
pub(super) fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn parse_utf8(body: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(body).map_err(|error| wire::unexpected_response(&error))
}

impl RemoteHub {
    /// Commits with an idempotency key, and retries until the outcome is known or the retry timeout has elapsed.
    pub(super) async fn commit_with_retry(&self, commit: Commit) -> Result<Receipt, Error> {
        let key = commit.key.as_ref().map_or_else(|| self.new_key(), |(key, _)| key.to_string());
        let client = self.client_for(&commit.principal);
        let body = op::commit_json(&commit.ops, &key, commit.epoch)?;
        let response = match client.socket() {
            Some(socket) => socket.call("commit", &body, true).await?,
            None => self.commit_by_http(&client.http, body).await?,
        };
        let receipt: CommitReceipt<RawJson> = wire::parse_json(&response)?;
        let results = op::parse_results(&receipt, &commit.ops)?;
        Ok(Receipt { seq: receipt.seq, at: self.clock().now().wall, results })
    }

    async fn commit_by_http(&self, http: &HttpClient, body: String) -> Result<String, Error> {
        let response = self.retrier.retry(|| http.post("/v1/commit").json(body.clone()).send()).await?;
        Ok(parse_utf8(&response.body)?.to_owned())
    }

    pub(super) async fn claim_deliveries(
        &self,
        identity: AgentIdentity,
        max: u32,
        lease_ms: u64,
        wait: Duration,
    ) -> Result<Vec<ReceivedDelivery>, Error> {
        let (client, path) = (self.client_of(&identity.agent), Self::agent_path(&identity, "/inbox/claim"));
        let until = self.clock().now().plus(wait).mono;
        loop {
            let wait = self.time_left(until).min(LONG_POLL_WAIT);
            let claim =
                InboxClaim { max: Some(max), wait_ms: Some(to_millis(wait)), lease_ms: Some(lease_ms) };
            let body = wire::to_json(&claim)?;
            // Retried with the same key, a claim whose response was lost returns the same deliveries.
            let key = self.new_key();
            let call = || {
                let call = client
                    .http
                    .post(&path)
                    .idempotency_key(&key)
                    .json(body.clone())
                    .timeout(wait + RESPONSE_GRACE);
                with_epoch(call, identity.epoch).send()
            };
            let claimed: ClaimedDeliveries = self.retrier.retry(call).await?.json()?;
            let deliveries =
                claimed.deliveries.into_iter().map(|delivery| convert_delivery(delivery, lease_ms));
            let deliveries = deliveries.collect::<Result<Vec<_>, _>>()?;
            if !deliveries.is_empty() || self.time_left(until).is_zero() {
                if let Some(socket) = client.socket() {
                    deliveries
                        .iter()
                        .filter_map(|delivery| delivery.lease.as_ref())
                        .for_each(|lease| socket.mark_claimed(lease));
                }
                return Ok(deliveries);
            }
        }
    }

    pub(super) fn time_left(&self, until: Mono) -> Duration {
        Duration::from_millis(until.0.saturating_sub(self.clock().now().mono.0))
    }

    pub(super) async fn claim_tasks_poll(
        &self,
        claim: &TaskClaimQuery,
        max: u32,
        wait: Duration,
    ) -> Result<Vec<HeldTask>, Error> {
        let client = self.client_of(&claim.agent);
        claim_tasks_with_key(&client, &self.retrier, &self.new_key(), claim, max, wait).await
    }

    pub(super) async fn claim_tasks_before(
        &self,
        claim: TaskClaimQuery,
        max: u32,
        wait: Duration,
    ) -> Result<Vec<HeldTask>, Error> {
        let until = self.clock().now().plus(wait).mono;
        loop {
            let claimed =
                self.claim_tasks_poll(&claim, max, self.time_left(until).min(LONG_POLL_WAIT)).await?;
            if !claimed.is_empty() || self.time_left(until).is_zero() {
                return Ok(claimed);
            }
        }
    }
}

/// Claims tasks with one long poll. The same call with the same key returns the same tasks.
pub(super) async fn claim_tasks_with_key(
    client: &PrincipalClient,
    retrier: &Retrier,
    key: &str,
    claim: &TaskClaimQuery,
    max: u32,
    wait: Duration,
) -> Result<Vec<HeldTask>, Error> {
    let body = wire::to_json(&TaskClaimJson {
        agent: Some(claim.agent.clone()),
        types: claim.types.clone(),
        max: Some(max),
        wait_ms: Some(to_millis(wait)),
        lease_ms: claim.lease_ms,
    })?;
    let call = || {
        let call = client
            .http
            .post("/v1/tasks/claim")
            .idempotency_key(key)
            .json(body.clone())
            .timeout(wait + RESPONSE_GRACE);
        with_epoch(call, claim.epoch).send()
    };
    let claimed: ClaimedTasks = retrier.retry(call).await?.json()?;
    let now = retrier.clock.now().wall;
    claimed.tasks.into_iter().map(|task| convert_held_task(task, now, claim.lease_ms)).collect()
}
