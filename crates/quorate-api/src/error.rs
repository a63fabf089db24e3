//! The public error: of the engine, the library and the network client.

use quorate_core::{Code, Refused, StoreError};

/// The domain said no, or something broke.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The domain said no: definite, and nothing was changed; or a wait is over, and the question stands.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The hub is elsewhere, and does not answer, or does not know.
    #[error(transparent)]
    Remote(#[from] Remote),
}

/// What went wrong with a hub that is reached over the network: something that it did not refuse.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Remote {
    /// The stable code: `UNAVAILABLE` if there was no answer.
    pub code: Code,
    /// What is wrong and where, for people.
    pub detail: String,
    /// What to do next; may be empty.
    pub hint: String,
    /// Whether it is certain that nothing was changed.
    pub nothing_applied: bool,
}

impl Error {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Refused(refused) => refused.code,
            Self::Remote(remote) => remote.code,
            Self::Store(StoreError::Busy) => Code::Overloaded,
            Self::Store(StoreError::Full) => Code::StorageFull,
            Self::Store(StoreError::Closed) => Code::Unavailable,
            Self::Store(StoreError::NoSpace) => Code::NotFound,
            Self::Store(StoreError::Failed(_) | StoreError::Damaged(_) | StoreError::Read(_)) => {
                Code::StorageFailed
            }
        }
    }

    /// What to do next; may be empty.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Refused(refused) => &refused.hint,
            Self::Remote(remote) => &remote.hint,
            Self::Store(StoreError::Busy) => "try again in a moment; nothing was changed",
            Self::Store(StoreError::Full) => {
                "free some disk space; nothing was changed, and writes go on by themselves"
            }
            Self::Store(StoreError::NoSpace) => "make the space first",
            Self::Store(StoreError::Closed) => "the hub is shutting down; connect to it again",
            Self::Store(StoreError::Damaged(_)) => {
                "run `quorate verify`: it says what is damaged, and a backup has it as it was"
            }
            Self::Store(StoreError::Failed(_)) => {
                "start the hub again, then repeat the call with the same idempotency key"
            }
            Self::Store(StoreError::Read(_)) => "try again; if it stays, run `quorate verify`",
        }
    }

    /// Whether it is certain that nothing was changed. If not, the outcome is unknown: repeat with the same key.
    #[must_use]
    pub fn nothing_applied(&self) -> bool {
        match self {
            Self::Refused(refused) => refused.facts.asked.is_none(),
            Self::Store(error) => error.nothing_applied(),
            Self::Remote(remote) => remote.nothing_applied,
        }
    }

    /// The refusal, if the domain said no.
    #[must_use]
    pub fn refused(&self) -> Option<&Refused> {
        match self {
            Self::Refused(refused) => Some(refused),
            Self::Store(_) | Self::Remote(_) => None,
        }
    }
}
