//! Calls that wait, made under an idempotency key: whatever the wait brings is taken by a commit that bears the key, so
//! that the same call again has the same answer, also after a restart.
//!
//! Without a key a waiting call stands in line, and what it waits for is handed over by somebody else's commit. That
//! commit cannot bear the key. So a claim with a key does not stand in line: it looks, and looks again whenever something
//! has changed. For locks, where the place in line counts, see `line.rs`.

use std::time::Duration;

use quorate_core::{
    AgentFilter, AgentId, AgentNo, Ask, Code, Commit, Inspect, Op, OpResult, Receipt, Refused, Timestamp,
    Waiting,
};
use quorate_store::StoreError;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::ephemeral::Ephemeral;
use crate::error::Error;
use crate::flagged::nobody_answers;
use crate::post::{Delivery, Mail};
use crate::request::Asking;
use crate::space::{Closing, Space};
use crate::task::{TaskClaim, TaskInHand};

/// How soon a call looks again after something has changed.
const LOOK: Duration = Duration::from_millis(20);

/// Makes a commit of operations: by whom, of which start, under which key.
pub type Asker<'a> = &'a (dyn Fn(Vec<Op>) -> Commit + Sync);

impl Space {
    /// Takes deliveries under a key, and tells when. Ephemeral messages come if there is nothing else: they come once, so
    /// the same call again does not bring them again.
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
        let number = self.published().agents.number(agent).ok_or_else(|| {
            Refused::new(Code::NotFound, format!("there is no agent {agent}")).hint("register it first")
        })?;
        let (id, mut mail) = self.post().open(self.number(), number);
        let closing = Closing { space: self, id, waits: false, mailbox: true };
        let op = Op::Claim { agent: agent.clone(), max, lease_ms, waiting: Waiting::No };
        let took = |result: &OpResult| matches!(result, OpResult::Claimed(handed) if !handed.is_empty());
        let waited = self.until(asker(vec![op]), wait, took, Some(&mut mail)).await;
        drop(closing);
        let (receipt, came) = waited?;
        let mut deliveries = Vec::new();
        if let Some(OpResult::Claimed(handed)) = receipt.results.into_iter().next() {
            deliveries = self.open_letters(handed).await?;
        }
        let mut ephemeral: Vec<_> = came
            .into_iter()
            .chain(std::iter::from_fn(|| mail.try_recv().ok()))
            .filter_map(|mail| match mail {
                Mail::Ephemeral(message) => Some(message.take()),
                // Nothing else is handed over to somebody who does not stand in line.
                Mail::Handed(_) | Mail::Told(_) => None,
            })
            .collect();
        let room = if deliveries.is_empty() { max as usize } else { 0 };
        let more = ephemeral.split_off(ephemeral.len().min(room));
        if !more.is_empty() {
            self.post().put_back(self.number(), number, more);
        }
        deliveries.extend(ephemeral.into_iter().map(Ephemeral::into_delivery));
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
        let commit = asker(crate::task::claim_commit(claim, max, Waiting::No).ops);
        let receipt = self.until(
            commit,
            wait,
            |result| matches!(result, OpResult::TasksClaimed(handed) if !handed.is_empty()),
            None,
        );
        let (receipt, _) = receipt.await?;
        let mut tasks = Vec::new();
        if let Some(OpResult::TasksClaimed(handed)) = receipt.results.into_iter().next() {
            for one in handed {
                tasks.push(self.with_input(one).await?);
            }
        }
        Ok((tasks, receipt.at))
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
        if receipt.results.first() == Some(&OpResult::Received) {
            return Err(nobody_answers().into());
        }
        let Some(OpResult::Requested { id, .. }) = receipt.results.first() else {
            return Err(StoreError::Read("a request was not answered".into()).into());
        };
        let mut asking = self.await_request(&principal, epoch, *id).await?;
        asking.stays();
        Ok(asking)
    }

    /// What was answered to a commit under the same key, if there was one: for calls that have to know before they look at
    /// what is there.
    ///
    /// # Errors
    /// `DUPLICATE` if it was another commit, or a failure of the storage.
    pub async fn answered(&self, commit: Commit) -> Result<Option<Receipt>, Error> {
        // A look uses up no key; and the key is looked up before anything else.
        let nobody = Inspect::Agents { filter: AgentFilter::default(), after: AgentNo(0), limit: 0 };
        match self.commit(Commit { ops: vec![Op::Inspect(nobody)], ..commit }).await {
            Ok(receipt) => {
                Ok(Some(receipt).filter(|told| !matches!(told.results[..], [OpResult::Inspected(_)])))
            }
            // Whoever may not look was not answered before, or it would not have come to that.
            Err(error) if error.code() == Code::Forbidden => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Commits, and again whenever something has changed, until it took what it is after, mail came, or the time is over.
    async fn until(
        &self,
        commit: Commit,
        wait: Duration,
        took: impl Fn(&OpResult) -> bool,
        mut mail: Option<&mut UnboundedReceiver<Mail>>,
    ) -> Result<(Receipt, Option<Mail>), Error> {
        let clock = self.engine().clock();
        let until = clock.now().plus(wait).mono;
        let mut published = self.follow();
        loop {
            published.borrow_and_update();
            let next_look = clock.now().plus(LOOK).mono;
            let outcome = self.commit(commit.clone()).await;
            let now = clock.now().mono;
            let goes_on = match &outcome {
                Ok(receipt) => !receipt.results.first().is_some_and(&took),
                Err(error) => error.code() == Code::Timeout,
            };
            let came = mail.as_mut().filter(|_| goes_on).and_then(|mail| mail.try_recv().ok());
            if !goes_on || came.is_some() || now >= until {
                return outcome.map(|receipt| (receipt, came));
            }
            let rest = Duration::from_millis(until.0 - now.0);
            let change = async {
                published.changed().await.map_err(|_| StoreError::Closed)?;
                // A busy space is looked at no more often than that; a quiet one at once.
                self.pass(Duration::from_millis(next_look.0.saturating_sub(clock.now().mono.0)).min(rest))
                    .await;
                Ok::<_, Error>(())
            };
            let came = async {
                match &mut mail {
                    Some(mail) => mail.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = change => changed?,
                came = came => return outcome.map(|receipt| (receipt, came)),
                () = self.pass(rest) => {}
            }
        }
    }
}
