//! Calls that wait, made under an idempotency key: whatever the wait brings is taken by a commit that bears the key, so
//! that the same call again has the same answer, also after a restart.
//!
//! Without a key a waiting call stands in line, and what it waits for is handed over by somebody else's commit. That
//! commit cannot bear the key. So a call with a key does not stand in line: it looks, and looks again whenever something
//! has changed.

use std::time::Duration;

use quorate_core::{
    AcquireLocks, AgentId, Ask, Code, Commit, Locked, Op, OpResult, Receipt, Timestamp, Waiting,
};
use quorate_store::StoreError;

use crate::error::Error;
use crate::post::Delivery;
use crate::request::Asking;
use crate::space::Space;
use crate::task::{TaskClaim, TaskInHand};

/// How soon a call looks again after something has changed.
const LOOK: Duration = Duration::from_millis(20);

/// Makes a commit of operations: by whom, of which start, under which key.
pub type Asker<'a> = &'a (dyn Fn(Vec<Op>) -> Commit + Sync);

impl Space {
    /// Takes deliveries under a key, and tells when. Ephemeral messages are not taken: they come once.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn claim_once(
        &self,
        asker: Asker<'_>,
        agent: &AgentId,
        max: u32,
        lease_ms: u64,
        wait: Duration,
    ) -> Result<(Vec<Delivery>, Timestamp), Error> {
        let op = Op::Claim { agent: agent.clone(), max, lease_ms, waiting: Waiting::No };
        let commit = asker(vec![op]);
        let receipt = self.until(
            commit,
            wait,
            |result| matches!(result, OpResult::Claimed(handed) if !handed.is_empty()),
        );
        let receipt = receipt.await?;
        let mut deliveries = Vec::new();
        if let Some(OpResult::Claimed(handed)) = receipt.results.into_iter().next() {
            for one in handed {
                deliveries.push(self.open_letter(one).await?);
            }
        }
        Ok((deliveries, receipt.at))
    }

    /// Takes tasks under a key, and tells when.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn claim_tasks_once(
        &self,
        asker: Asker<'_>,
        claim: &TaskClaim,
        max: u32,
        wait: Duration,
    ) -> Result<(Vec<TaskInHand>, Timestamp), Error> {
        let commit = asker(claim.commit(max, Waiting::No).ops);
        let receipt = self.until(
            commit,
            wait,
            |result| matches!(result, OpResult::TasksClaimed(handed) if !handed.is_empty()),
        );
        let receipt = receipt.await?;
        let mut tasks = Vec::new();
        if let Some(OpResult::TasksClaimed(handed)) = receipt.results.into_iter().next() {
            for one in handed {
                tasks.push(self.with_input(one).await?);
            }
        }
        Ok((tasks, receipt.at))
    }

    /// Takes locks under a key, and tells when. Whoever waits like this has no place in the line.
    ///
    /// # Errors
    /// `TIMEOUT` if they could not be had in time, another refusal, or a failure of the storage.
    pub async fn lock_once(
        &self,
        asker: Asker<'_>,
        ask: AcquireLocks,
        wait: Duration,
    ) -> Result<(Locked, Timestamp), Error> {
        let commit = asker(vec![Op::AcquireLocks(AcquireLocks { waiting: Waiting::No, ..ask })]);
        let receipt = self.until(commit, wait, |result| matches!(result, OpResult::Locked(_))).await?;
        match receipt.results.into_iter().next() {
            Some(OpResult::Locked(locked)) => Ok((locked, receipt.at)),
            _ => Err(StoreError::Read("a lock was not answered".into()).into()),
        }
    }

    /// Asks under a key. A caller that goes away may come back and wait for the same answer, so the question is not called
    /// off with it.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn request_once(&self, asker: Asker<'_>, ask: Ask) -> Result<Asking, Error> {
        let commit = asker(vec![Op::Request(Ask { waiting: None, ..ask })]);
        let (principal, epoch) = (commit.principal.clone(), commit.epoch);
        let receipt = self.commit(commit).await?;
        let Some(OpResult::Requested { id, .. }) = receipt.results.first() else {
            return Err(StoreError::Read("a request was not answered".into()).into());
        };
        let mut asking = self.await_request(&principal, epoch, *id).await?;
        asking.stays();
        Ok(asking)
    }

    /// Commits, and again whenever something has changed, until it took what it is after or the time is over.
    async fn until(
        &self,
        commit: Commit,
        wait: Duration,
        took: impl Fn(&OpResult) -> bool,
    ) -> Result<Receipt, Error> {
        let clock = self.engine().clock();
        let until = clock.now().plus(wait).mono;
        let mut published = self.follow();
        loop {
            published.borrow_and_update();
            let outcome = self.commit(commit.clone()).await;
            let now = clock.now().mono;
            let goes_on = match &outcome {
                Ok(receipt) => !receipt.results.first().is_some_and(&took),
                Err(error) => error.code() == Code::Timeout,
            };
            if !goes_on || now >= until {
                return outcome;
            }
            let rest = Duration::from_millis(until.0 - now.0);
            tokio::select! {
                changed = published.changed() => {
                    changed.map_err(|_| StoreError::Closed)?;
                    self.pass(LOOK.min(rest)).await;
                }
                () = self.pass(rest) => {}
            }
        }
    }
}
