//! Approvals as callers see them: proposing an action, deciding about it, reading. Here is the one place where an action
//! becomes the canonical bytes that a decision is bound to, and where a modification becomes new ones.

mod patch;

use std::time::Duration;

use bytes::Bytes;
use quorate_api::canonical;
use quorate_api::canonical::document;
use quorate_core::{
    Approval, ApprovalId, ApprovalState, Code, Commit, DecideApproval, Op, OpResult, Payload, Receipt,
    Refused, RequestApproval, Verdict, Why,
};
use quorate_store::StoreError;

use crate::error::Error;
use crate::space::Space;

/// Refuses what claims to be the canonical bytes of an action and is not.
pub(crate) fn check_document(action: Option<&str>, document: &Payload) -> Result<(), Refused> {
    let value = canonical::read("action", &document.bytes)?;
    let named = value["action"].as_str();
    let whole =
        value.as_object().is_some_and(|members| members.len() == 2 && members.contains_key("payload"));
    let meant = named.is_some() && (action.is_none() || action == named);
    if whole && meant && canonical::write(&value) == document.bytes {
        return Ok(());
    }
    Err(Refused::new(Code::Invalid, "the action is not written in its canonical form")
        .hint("send the payload as it is: the hub makes the canonical bytes"))
}

/// Refuses a change that is no JSON, and what claims to come of it and is no action.
pub(crate) fn check_verdict(verdict: &Verdict) -> Result<(), Refused> {
    let Verdict::Modify { patch, document } = verdict else { return Ok(()) };
    canonical::read("modification", &patch.bytes)?;
    document.as_ref().map_or(Ok(()), |document| check_document(None, document))
}

/// An approval with the actions themselves.
#[derive(Clone, PartialEq, Debug)]
pub struct ApprovalView {
    /// Where it is.
    pub approval: Approval,
    /// The canonical bytes that were proposed.
    pub action: Option<Payload>,
    /// The change that a person made.
    pub modification: Option<Payload>,
    /// The canonical bytes that may happen, if they are others than were proposed.
    pub modified: Option<Payload>,
}

impl Space {
    /// Works out what modifications come to, before the commit goes in. What does not fit any more is left as it is: the
    /// head says why.
    pub(crate) async fn work_out(&self, commit: &mut Commit) -> Result<(), Error> {
        for (index, op) in commit.ops.iter_mut().enumerate() {
            // Whoever may not decide learns nothing about what fits.
            let may = commit.principal.check_right(op).is_ok();
            let Op::DecideApproval(decide) = op else { continue };
            let DecideApproval { approval, verdict, digest, .. } = &mut **decide;
            let Verdict::Modify { patch, document } = verdict else { continue };
            // What comes of a change nobody else says.
            *document = None;
            if !may {
                continue;
            }
            let pending = match self.item::<Approval>(approval).await {
                Ok(found) if found.is_pending() && found.digest == *digest => found,
                Ok(_) => continue,
                Err(error) if error.code() == Code::NotFound => continue,
                Err(error) => return Err(error),
            };
            let Some(action) = self.payload_part(Some(pending.document)).await? else { continue };
            if action.is_erased() {
                continue;
            }
            let changed = changed(&pending.action, &action.bytes, &patch.bytes);
            *document = Some(self.seal(changed.map_err(|refused| refused.at_op(index))?));
        }
        Ok(())
    }

    /// Proposes an action. Gives what was answered: the id, the digest, and until when somebody may decide.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn request_approval(
        &self,
        principal: &quorate_core::Principal,
        ask: RequestApproval,
    ) -> Result<ApprovalId, Error> {
        let receipt =
            self.commit(Commit::new(principal.clone(), vec![Op::RequestApproval(Box::new(ask))])).await?;
        match receipt.results.into_iter().next() {
            Some(OpResult::ApprovalRequested { id, .. }) => Ok(id),
            _ => Err(unanswered()),
        }
    }

    /// Decides about a proposed action.
    ///
    /// # Errors
    /// `CONFLICT` for other bytes or what is decided, `EXPIRED`, `FORBIDDEN`, or a failure of the storage.
    pub async fn decide_approval(
        &self,
        principal: &quorate_core::Principal,
        decide: DecideApproval,
    ) -> Result<Receipt, Error> {
        self.commit(Commit::new(principal.clone(), vec![Op::DecideApproval(Box::new(decide))])).await
    }

    /// Waits until somebody decided or nobody did in time, but not longer than this; then the approval as it is.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn approval_over(&self, id: &ApprovalId, wait: Duration) -> Result<Approval, Error> {
        let mut follow = self.follow();
        let over = async {
            loop {
                let seen = follow.borrow_and_update().approval_changes;
                let approval: Approval = self.item(id).await?;
                if !approval.is_pending() {
                    return Ok(approval);
                }
                // Looked at again only when some approval moved.
                if follow.wait_for(|published| published.approval_changes != seen).await.is_err() {
                    return Err(StoreError::Closed.into());
                }
            }
        };
        tokio::select! {
            over = over => over,
            () = self.pass(wait) => self.item(id).await,
        }
    }

    /// An approval with the action itself.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn approval_view(&self, approval: Approval) -> Result<ApprovalView, Error> {
        let action = self.payload_part(Some(approval.document)).await?;
        let (modification, modified) = match &approval.state {
            ApprovalState::Modified { patch, action, .. } => {
                (self.payload_part(Some(*patch)).await?, self.payload_part(Some(*action)).await?)
            }
            _ => (None, None),
        };
        Ok(ApprovalView { approval, action, modification, modified })
    }

    /// Who asked, as people know it.
    #[must_use]
    pub fn asker_name(&self, approval: &Approval) -> String {
        approval.agent.map_or_else(|| approval.asked_by.clone(), |agent| self.agent_name(agent))
    }

    pub(crate) async fn why_approval(&self, id: &ApprovalId) -> Result<Why, Error> {
        let approval = self.item(id).await?;
        let now = self.engine().clock().now().wall;
        Ok(Why::of_approval(&approval, &self.asker_name(&approval), now))
    }
}

/// The canonical bytes of an action whose payload is changed.
fn changed(action: &str, document_bytes: &[u8], patch: &[u8]) -> Result<Bytes, Refused> {
    let mut whole = canonical::read("action", document_bytes)?;
    let patch = canonical::read("modification", patch)?;
    let payload = patch::apply(whole["payload"].take(), &patch)?;
    Ok(document(action, payload))
}

fn unanswered() -> Error {
    StoreError::Read("a question about an approval was not answered".into()).into()
}
