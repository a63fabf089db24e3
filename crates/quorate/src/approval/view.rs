//! Approvals as every caller sees them.

use quorate_api::approval::ApprovalWithAction;
use quorate_api::{Error, Raw};
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
    /// The approval without its action.
    #[must_use]
    pub fn approval(&self) -> &Approval {
        &self.0.approval
    }

    /// Its state.
    #[must_use]
    pub fn status(&self) -> ApprovalStatus {
        self.0.approval.state
    }

    /// Whether it is still to be decided.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.status() == ApprovalStatus::Pending
    }

    /// The canonical bytes of the proposed action, of which `digest` is the SHA-256; empty if they were erased.
    #[must_use]
    pub fn document(&self) -> &[u8] {
        self.0.more.document.as_ref().map_or(&[], bytes)
    }

    /// The canonical bytes of the action that may happen; `None` unless it was approved, or if they were erased.
    #[must_use]
    pub fn approved_document(&self) -> Option<&[u8]> {
        self.0.approved_document().map(bytes)
    }

    /// The proposed payload, typed.
    ///
    /// # Errors
    /// `INVALID` if it does not fit the type, or was erased.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json::<Document<T>>(self.document()).map(|document| document.payload)
    }

    /// The payload that may happen, typed; `None` unless it was approved.
    ///
    /// # Errors
    /// `INVALID` if it does not fit the type.
    pub fn approved_payload<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let read = |bytes| from_json::<Document<T>>(bytes).map(|document| document.payload);
        self.approved_document().map(read).transpose()
    }
}

fn bytes(raw: &Raw) -> &[u8] {
    &raw.0
}
