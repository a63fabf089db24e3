//! Read models of approvals.

use quorate_api::approval::ApprovalWithAction;
use quorate_api::{Error, RawJson};
use serde::de::DeserializeOwned;

use crate::agent::from_json;

pub use quorate_api::approval::{Approval, ApprovalStatus};

/// An approval with the exact bytes of its action.
#[derive(Clone, PartialEq, Debug)]
pub struct ApprovalInfo(ApprovalWithAction);

#[derive(serde::Deserialize)]
struct Document<T> {
    payload: T,
}

impl From<ApprovalWithAction> for ApprovalInfo {
    fn from(approval: ApprovalWithAction) -> Self {
        Self(approval)
    }
}

impl ApprovalInfo {
    /// Returns the approval without its action.
    #[must_use]
    pub fn approval(&self) -> &Approval {
        &self.0.approval
    }

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> ApprovalStatus {
        self.0.approval.state
    }

    /// Whether the approval awaits a decision.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.status() == ApprovalStatus::Pending
    }

    /// Returns the canonical bytes of the proposed action; `digest` is their SHA-256. Empty if they were erased.
    #[must_use]
    pub fn document(&self) -> &[u8] {
        self.0.more.document.as_ref().map_or(&[], bytes)
    }

    /// Returns the canonical bytes of the approved action, with the approver's modifications. `None` if the action is
    /// not approved or the bytes were erased.
    #[must_use]
    pub fn approved_document(&self) -> Option<&[u8]> {
        self.0.approved_document().map(bytes)
    }

    /// Deserializes the proposed payload.
    ///
    /// # Errors
    /// Returns `INVALID` if the payload does not match the type or was erased.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json::<Document<T>>(self.document()).map(|document| document.payload)
    }

    /// Deserializes the approved payload; `None` if the action is not approved.
    ///
    /// # Errors
    /// Returns `INVALID` if the payload does not match the type.
    pub fn approved_payload<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let parse = |bytes| from_json::<Document<T>>(bytes).map(|document| document.payload);
        self.approved_document().map(parse).transpose()
    }
}

fn bytes(raw: &RawJson) -> &[u8] {
    &raw.0
}
