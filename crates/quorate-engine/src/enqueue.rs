//! Enqueueing of commits, which keeps their order while receipts are pending, and consumers that resume after a
//! reconnect.

use quorate_core::{AgentId, Code, Commit, Epoch, Op, OpResult, Principal, Receipt, Refused, WaitMode};
use quorate_store::{BoxFuture, CommitResult, StoreError};

use crate::error::Error;
use crate::flag_screening::FlaggedOps;
use crate::mailboxes::Consumer;
use crate::space::{ConsumerGuard, Space};

/// Commit that is queued at the writer.
pub struct PendingCommit {
    space: Space,
    principal: Principal,
    results: BoxFuture<'static, Result<Vec<CommitResult>, StoreError>>,
    /// Operations that were raised as flags and are not part of the commit.
    flagged: FlaggedOps,
}

impl PendingCommit {
    /// Waits for the receipt. Cancel safe; the commit is applied or refused regardless.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn receipt(&mut self) -> Result<Receipt, Error> {
        let outcome = (&mut self.results).await?.into_iter().next().ok_or(StoreError::Closed)?;
        let outcome = outcome.map_err(|refused| self.flagged.restore_indexes(refused));
        Ok(self.flagged.restore_results(self.space.record_violation(&self.principal, outcome)?))
    }
}

impl Space {
    /// Enqueues a commit. Commits that a caller enqueues one after the other are decided in this order, even if it
    /// does not wait for the receipts in between.
    ///
    /// # Errors
    /// The refusal, if the commit is rejected before it is queued.
    pub async fn enqueue(&self, commit: Commit) -> Result<PendingCommit, Error> {
        let principal = commit.principal.clone();
        let pending = match Self::may_contain_flags(&commit) {
            false => self.enqueue_rest(commit, FlaggedOps::default()).await,
            // Boxed: such commits are rare, and inlining would increase the size of the future for all others.
            true => Box::pin(self.enqueue_flagged(commit)).await,
        };
        if let Err(Error::Refused(refused)) = &pending {
            self.note_refusal(&principal, refused);
        }
        pending
    }

    /// Enqueues the rest of a commit after its conduct flags were raised.
    async fn enqueue_flagged(&self, commit: Commit) -> Result<PendingCommit, Error> {
        let principal = commit.principal.clone();
        let (rest, flagged) = self.extract_flags(commit).await?;
        let Some(rest) = rest else {
            let receipt = Receipt { seq: None, at: self.engine().clock.now().wall, results: Vec::new() };
            let results = Box::pin(std::future::ready(Ok(vec![Ok(receipt)])));
            return Ok(PendingCommit { space: self.clone(), principal, results, flagged });
        };
        self.enqueue_rest(rest, flagged).await
    }

    /// Commits without screening for flags, for the private store.
    pub(crate) async fn commit_private(&self, commit: Commit) -> Result<Receipt, Error> {
        self.enqueue_rest(commit, FlaggedOps::default()).await?.receipt().await
    }

    async fn enqueue_rest(&self, mut commit: Commit, flagged: FlaggedOps) -> Result<PendingCommit, Error> {
        let principal = commit.principal.clone();
        if commit.ops.iter().any(|op| matches!(op, Op::StartProcedure(_))) {
            // Boxed: such commits are rare.
            Box::pin(self.admit_procedures(&mut commit)).await?;
        }
        self.apply_modifications(&mut commit).await?;
        self.propagate_causes(&mut commit).await?;
        let policy = std::sync::Arc::clone(&self.published().policy);
        let admitted = self.engine().admission.admit(commit, policy).await?;
        let mut commit = admitted.map_err(|refused| flagged.restore_indexes(refused))?;
        if commit.unplanned_rollbacks().next().is_some() {
            commit = self.engine().store.prepare(self.number(), commit).await?;
        }
        let results = self.engine().store.transact(self.number(), vec![commit]);
        Ok(PendingCommit { space: self.clone(), principal, results, flagged })
    }

    /// Opens a standing consumer without credit. If `resumes` is true, deliveries that the agent already holds are
    /// delivered first under the same lease tokens, and their leases are extended from now.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn open_stream(
        &self,
        principal: &Principal,
        epoch: Epoch,
        agent: &AgentId,
        lease_ms: u64,
        resumes: bool,
    ) -> Result<Consumer, Error> {
        let number = self.published().agents.number(agent).ok_or_else(|| {
            Refused::new(Code::NotFound, format!("there is no agent {agent}")).hint("register it first")
        })?;
        let (id, mailbox) = self.mailboxes().open_consumer(self.number(), number);
        let mut guard = ConsumerGuard { space: self, id, registered: true, owns_mailbox: true };
        let mut ops =
            vec![Op::Claim { agent: agent.clone(), max: 0, lease_ms, wait: WaitMode::Standing(id) }];
        if resumes {
            ops.push(Op::ResumeLeases { agent: agent.clone(), lease_ms });
        }
        let commit = Commit { epoch: Some(epoch), ..Commit::new(principal.clone(), ops) };
        let receipt = self.commit(commit).await?;
        let held = receipt.results.into_iter().filter_map(|result| match result {
            OpResult::Claimed(held) => Some(held),
            _ => None,
        });
        let held = held.flatten().collect();
        // From here on the consumer closes itself when dropped.
        guard.registered = false;
        guard.owns_mailbox = false;
        Ok(Consumer::new(self.clone(), id, mailbox, held).mark_resumed())
    }
}
