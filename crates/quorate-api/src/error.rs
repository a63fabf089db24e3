//! The public error of the engine, the library and the network client.

use quorate_core::{Code, Refused, StoreError};

/// A refusal by the domain, or a failure.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The operation was refused and nothing was changed; or a wait timed out while the request remains open.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A remote hub did not respond, or its response leaves the outcome unknown.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

/// Failure of a call to a hub over the network that is not a refusal.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct RemoteError {
    /// Stable error code: `UNAVAILABLE` if there was no response.
    pub code: Code,
    /// Human-readable description of the problem.
    pub detail: String,
    /// Suggested next step; may be empty.
    pub hint: String,
    /// Whether it is certain that nothing was changed.
    pub nothing_applied: bool,
}

impl Error {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Refused(refused) => refused.code,
            Self::Remote(remote) => remote.code,
            Self::Store(StoreError::Busy) => Code::Overloaded,
            Self::Store(StoreError::DiskFull) => Code::StorageFull,
            Self::Store(StoreError::Closed) => Code::Unavailable,
            Self::Store(StoreError::UnknownSpace) => Code::NotFound,
            Self::Store(StoreError::Failed(_) | StoreError::Corrupt(_) | StoreError::Read(_)) => {
                Code::StorageFailed
            }
        }
    }

    /// Returns the suggested next step; may be empty.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Refused(refused) => &refused.hint,
            Self::Remote(remote) => &remote.hint,
            Self::Store(StoreError::Busy) => "retry in a moment; nothing was changed",
            Self::Store(StoreError::DiskFull) => {
                "free some disk space; nothing was changed, and writes resume automatically"
            }
            Self::Store(StoreError::UnknownSpace) => "create the space first",
            Self::Store(StoreError::Closed) => "the hub is shutting down; reconnect to it",
            Self::Store(StoreError::Corrupt(_)) => {
                "run `quorate verify` to list the damage, then restore a backup"
            }
            Self::Store(StoreError::Failed(_)) => "restart the hub, then retry with the same idempotency key",
            Self::Store(StoreError::Read(_)) => "retry; if the error persists, run `quorate verify`",
        }
    }

    /// Whether it is certain that nothing was changed. If not, the outcome is unknown: retry with the same
    /// idempotency key.
    #[must_use]
    pub fn nothing_applied(&self) -> bool {
        match self {
            Self::Refused(refused) => refused.facts.sent_request.is_none(),
            Self::Store(error) => error.is_not_applied(),
            Self::Remote(remote) => remote.nothing_applied,
        }
    }

    /// Returns the refusal, if the domain refused the operation.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refused> {
        match self {
            Self::Refused(refused) => Some(refused),
            Self::Store(_) | Self::Remote(_) => None,
        }
    }
}
