//! Waiting calls under an idempotency key. The awaited result is acquired by a commit that carries the key, so that a
//! retry returns the same result, even after a restart.
//!
//! Without a key, a waiting call registers with the writer, and the result is dispatched to it by the commit of
//! another caller, which cannot carry the key. Therefore a claim with a key does not register: it polls whenever the
//! state has changed. Locks need a position in a queue, see `lock_wait.rs`.

use std::time::Duration;

use quorate_core::{
    AgentFilter, AgentId, AgentNo, Code, Commit, Inspect, Op, OpResult, Receipt, Refused, SendRequest,
    Timestamp, WaitMode,
};
use quorate_store::StoreError;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::ephemeral::EphemeralMessage;
use crate::error::Error;
use crate::flag_screening::flag_has_no_answer;
use crate::mailboxes::{MailboxItem, ReceivedDelivery};
use crate::request::RequestWaiter;
use crate::space::{ConsumerGuard, Space};
use crate::task::{LeasedTaskWithInput, TaskClaimQuery};

/// Minimum interval between polls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Builds a commit from operations, with the principal, epoch and idempotency key of the caller.
pub type CommitBuilder<'a> = &'a (dyn Fn(Vec<Op>) -> Commit + Sync);

impl Space {
    /// Claims deliveries under an idempotency key. Returns them with the time of the claim. Ephemeral messages are
    /// returned only if there are no durable ones; a retry does not return them again.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn claim_idempotent(
        &self,
        build_commit: CommitBuilder<'_>,
        agent: &AgentId,
        max: u32,
        lease_ms: u64,
        wait: Duration,
    ) -> Result<(Vec<ReceivedDelivery>, Timestamp), Error> {
        let number = self.published().agents.number(agent).ok_or_else(|| {
            Refused::new(Code::NotFound, format!("there is no agent {agent}")).hint("register it first")
        })?;
        let (id, mut mailbox) = self.mailboxes().open_consumer(self.number(), number);
        let guard = ConsumerGuard { space: self, id, registered: false, owns_mailbox: true };
        let op = Op::Claim { agent: agent.clone(), max, lease_ms, wait: WaitMode::NoWait };
        let is_acquired =
            |result: &OpResult| matches!(result, OpResult::Claimed(leased) if !leased.is_empty());
        let polled = self.poll_until(build_commit(vec![op]), wait, is_acquired, Some(&mut mailbox)).await;
        drop(guard);
        let (receipt, received) = polled?;
        let mut deliveries = Vec::new();
        if let Some(OpResult::Claimed(leased)) = receipt.results.into_iter().next() {
            deliveries = self.load_messages(leased).await?;
        }
        let mut ephemeral: Vec<_> = received
            .into_iter()
            .chain(std::iter::from_fn(|| mailbox.try_recv().ok()))
            .filter_map(|item| match item {
                MailboxItem::Ephemeral(message) => Some(message.take()),
                // Nothing else is dispatched to an unregistered consumer.
                MailboxItem::Leased(_) | MailboxItem::Event(_) => None,
            })
            .collect();
        let capacity = if deliveries.is_empty() { max as usize } else { 0 };
        let excess = ephemeral.split_off(ephemeral.len().min(capacity));
        if !excess.is_empty() {
            self.mailboxes().return_ephemeral(self.number(), number, excess);
        }
        deliveries.extend(ephemeral.into_iter().map(EphemeralMessage::into_delivery));
        Ok((deliveries, receipt.at))
    }

    /// Claims tasks, under an idempotency key if the commit has one. Returns them with the time of the claim.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn claim_tasks_idempotent(
        &self,
        build_commit: CommitBuilder<'_>,
        claim: &TaskClaimQuery,
        max: u32,
        wait: Duration,
    ) -> Result<(Vec<LeasedTaskWithInput>, Timestamp), Error> {
        let commit = build_commit(crate::task::claim_commit(claim, max, WaitMode::NoWait).ops);
        if commit.key.is_none() {
            let tasks = self.claim_tasks(claim, max, wait).await?;
            return Ok((tasks, self.engine().clock().now().wall));
        }
        let receipt = self.poll_until(
            commit,
            wait,
            |result| matches!(result, OpResult::TasksClaimed(leased) if !leased.is_empty()),
            None,
        );
        let (receipt, _) = receipt.await?;
        let leased = match receipt.results.into_iter().next() {
            Some(OpResult::TasksClaimed(leased)) => leased,
            _ => Vec::new(),
        };
        Ok((self.with_inputs(leased).await?, receipt.at))
    }

    /// Sends a request under an idempotency key. A caller that disconnects can retry and await the same answer, so
    /// the request is not cancelled with it.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn request_idempotent(
        &self,
        build_commit: CommitBuilder<'_>,
        request: SendRequest,
    ) -> Result<RequestWaiter, Error> {
        let commit = build_commit(vec![Op::Request(SendRequest { consumer: None, ..request })]);
        let (principal, epoch) = (commit.principal.clone(), commit.epoch);
        let receipt = self.commit(commit).await?;
        if receipt.results.first() == Some(&OpResult::Received) {
            return Err(flag_has_no_answer().into());
        }
        let Some(OpResult::Requested { id, .. }) = receipt.results.first() else {
            return Err(StoreError::Read("unexpected result of a request".into()).into());
        };
        let mut waiter = self.await_request(&principal, epoch, *id).await?;
        waiter.keep_open();
        Ok(waiter)
    }

    /// Returns the stored receipt of a commit under the same key, if there is one. For calls that need it before
    /// reading the current state.
    ///
    /// # Errors
    /// `DUPLICATE` if the key was used for another commit, or a storage failure.
    pub async fn stored_receipt(&self, commit: Commit) -> Result<Option<Receipt>, Error> {
        // An inspection does not consume the key, and the key is looked up before anything else.
        let inspect = Inspect::Agents { filter: AgentFilter::default(), after: AgentNo(0), limit: 0 };
        match self.commit(Commit { ops: vec![Op::Inspect(inspect)], ..commit }).await {
            Ok(receipt) => {
                Ok(Some(receipt).filter(|receipt| !matches!(receipt.results[..], [OpResult::Inspected(_)])))
            }
            // A caller without permission to inspect cannot have a stored receipt.
            Err(error) if error.code() == Code::Forbidden => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Commits repeatedly whenever the state has changed, until the commit has acquired a result, mail has arrived,
    /// or the time is up.
    async fn poll_until(
        &self,
        commit: Commit,
        wait: Duration,
        is_acquired: impl Fn(&OpResult) -> bool,
        mut mailbox: Option<&mut UnboundedReceiver<MailboxItem>>,
    ) -> Result<(Receipt, Option<MailboxItem>), Error> {
        let clock = self.engine().clock();
        let deadline = clock.now().plus(wait).mono;
        let mut published = self.follow();
        loop {
            published.borrow_and_update();
            let next_poll = clock.now().plus(POLL_INTERVAL).mono;
            let outcome = self.commit(commit.clone()).await;
            let now = clock.now().mono;
            let keeps_waiting = match &outcome {
                Ok(receipt) => !receipt.results.first().is_some_and(&is_acquired),
                Err(error) => error.code() == Code::Timeout,
            };
            let received =
                mailbox.as_mut().filter(|_| keeps_waiting).and_then(|mailbox| mailbox.try_recv().ok());
            if !keeps_waiting || received.is_some() || now >= deadline {
                return outcome.map(|receipt| (receipt, received));
            }
            let remaining = Duration::from_millis(deadline.0 - now.0);
            let change = async {
                published.changed().await.map_err(|_| StoreError::Closed)?;
                // Limits the polling rate in a busy space; in a quiet one the poll is immediate.
                self.sleep(
                    Duration::from_millis(next_poll.0.saturating_sub(clock.now().mono.0)).min(remaining),
                )
                .await;
                Ok::<_, Error>(())
            };
            let received = async {
                match &mut mailbox {
                    Some(mailbox) => mailbox.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = change => changed?,
                received = received => return outcome.map(|receipt| (receipt, received)),
                () = self.sleep(remaining) => {}
            }
        }
    }
}
