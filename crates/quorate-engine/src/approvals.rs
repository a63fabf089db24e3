//! Approvals: proposing an action, deciding about it, reading it. This is the only module that turns an action into
//! the canonical bytes that a decision is bound to, and a modification into new canonical bytes.

mod patch;

use std::time::Duration;

use bytes::Bytes;
use quorate_api::canonical;
use quorate_api::canonical::action_document_from_value;
use quorate_core::{
    Approval, ApprovalId, ApprovalState, Code, Commit, DecideApproval, Op, OpResult, Payload, Receipt,
    Refused, RequestApproval, Verdict, Why,
};
use quorate_store::StoreError;

use crate::error::Error;
use crate::space::Space;

/// Rejects a document that is not the canonical form of an action.
pub(crate) fn check_document(action: Option<&str>, document: &Payload) -> Result<(), Refused> {
    let value = canonical::parse_canonical("action", &document.bytes)?;
    let name = value["action"].as_str();
    let is_complete =
        value.as_object().is_some_and(|members| members.len() == 2 && members.contains_key("payload"));
    let is_expected = name.is_some() && (action.is_none() || action == name);
    if is_complete && is_expected && canonical::to_canonical_bytes(&value) == document.bytes {
        return Ok(());
    }
    Err(Refused::new(Code::Invalid, "the action is not in canonical form")
        .hint("send the payload unchanged; the hub creates the canonical form"))
}

/// Rejects a modification that is not JSON, and a modified document that is not an action.
pub(crate) fn check_verdict(verdict: &Verdict) -> Result<(), Refused> {
    let Verdict::Modify { patch, document } = verdict else { return Ok(()) };
    canonical::parse_canonical("modification", &patch.bytes)?;
    document.as_ref().map_or(Ok(()), |document| check_document(None, document))
}

/// Approval with its documents.
#[derive(Clone, PartialEq, Debug)]
pub struct ApprovalView {
    /// The approval.
    pub approval: Approval,
    /// Canonical bytes of the proposed action.
    pub action: Option<Payload>,
    /// JSON Patch of the approver.
    pub modification: Option<Payload>,
    /// Canonical bytes of the approved action, if it was modified.
    pub modified: Option<Payload>,
}

impl Space {
    /// Computes the modified documents of decisions before the commit is submitted. Decisions that no longer apply
    /// are left unchanged; the writer refuses them with a reason.
    pub(crate) async fn apply_modifications(&self, commit: &mut Commit) -> Result<(), Error> {
        for (index, op) in commit.ops.iter_mut().enumerate() {
            // Callers without permission to decide must not learn whether a patch applies.
            let is_allowed = commit.principal.check_allowed(op).is_ok();
            let Op::DecideApproval(decide) = op else { continue };
            let DecideApproval { approval, verdict, digest, .. } = &mut **decide;
            let Verdict::Modify { patch, document } = verdict else { continue };
            // Only the hub computes the modified document.
            *document = None;
            if !is_allowed {
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
            let modified = apply_modification(&pending.action, &action.bytes, &patch.bytes);
            *document = Some(self.seal(modified.map_err(|refused| refused.at_op(index))?));
        }
        Ok(())
    }

    /// Requests an approval and returns its ID.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn request_approval(
        &self,
        principal: &quorate_core::Principal,
        request: RequestApproval,
    ) -> Result<ApprovalId, Error> {
        let receipt =
            self.commit(Commit::new(principal.clone(), vec![Op::RequestApproval(Box::new(request))])).await?;
        match receipt.results.into_iter().next() {
            Some(OpResult::ApprovalRequested { id, .. }) => Ok(id),
            _ => Err(unexpected_result()),
        }
    }

    /// Decides about a proposed action.
    ///
    /// # Errors
    /// `CONFLICT` if the digest differs or the approval is already decided, `EXPIRED`, `FORBIDDEN`, or a storage
    /// failure.
    pub async fn decide_approval(
        &self,
        principal: &quorate_core::Principal,
        decide: DecideApproval,
    ) -> Result<Receipt, Error> {
        self.commit(Commit::new(principal.clone(), vec![Op::DecideApproval(Box::new(decide))])).await
    }

    /// Waits for at most this long until an approval is decided or expires, then returns its current state.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a storage failure.
    pub async fn wait_for_approval(&self, id: &ApprovalId, wait: Duration) -> Result<Approval, Error> {
        let mut published = self.follow();
        let decided = async {
            loop {
                let changes = published.borrow_and_update().approval_changes;
                let approval: Approval = self.item(id).await?;
                if !approval.is_pending() {
                    return Ok(approval);
                }
                // Check again only after some approval has changed.
                if published.wait_for(|published| published.approval_changes != changes).await.is_err() {
                    return Err(StoreError::Closed.into());
                }
            }
        };
        tokio::select! {
            decided = decided => decided,
            () = self.sleep(wait) => self.item(id).await,
        }
    }

    /// Returns an approval with its documents.
    ///
    /// # Errors
    /// Storage failures.
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

    /// Returns the display name of the requester.
    #[must_use]
    pub fn requester_name(&self, approval: &Approval) -> String {
        approval.agent.map_or_else(|| approval.requested_by.clone(), |agent| self.agent_name(agent))
    }

    pub(crate) async fn why_approval(&self, id: &ApprovalId) -> Result<Why, Error> {
        let approval = self.item(id).await?;
        let now = self.engine().clock().now().wall;
        Ok(Why::of_approval(&approval, &self.requester_name(&approval), now))
    }
}

/// Returns the canonical bytes of an action with a patched payload.
fn apply_modification(action: &str, document_bytes: &[u8], patch: &[u8]) -> Result<Bytes, Refused> {
    let mut original = canonical::parse_canonical("action", document_bytes)?;
    let patch = canonical::parse_canonical("modification", patch)?;
    let payload = patch::apply(original["payload"].take(), &patch)?;
    Ok(action_document_from_value(action, payload))
}

fn unexpected_result() -> Error {
    StoreError::Read("unexpected result of an approval operation".into()).into()
}
