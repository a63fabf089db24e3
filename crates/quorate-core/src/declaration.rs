//! Digest of the declaration of an agent. It identifies the declaration, without its content, which may be confidential.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::hex;
use crate::refused::{Code, Refused};

/// SHA-256 of what an agent is declared to be: its program or model, prompt and settings. Agents with the same digest can stand
/// in for each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeclarationDigest(pub [u8; 32]);

impl DeclarationDigest {
    /// Computes the digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the first digits, for messages to people.
    #[must_use]
    pub fn short(&self) -> String {
        hex::encode(&self.0[..4])
    }
}

impl fmt::Display for DeclarationDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for DeclarationDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

crate::text_serde::serde_text!(DeclarationDigest, { "type": "string", "pattern": "^[0-9a-fA-F]{64}$" });

impl FromStr for DeclarationDigest {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        hex::decode(text).map(Self).ok_or_else(|| {
            Refused::new(Code::Invalid, "invalid declaration: expected a SHA-256 in hexadecimal")
                .hint("use the 64 hexadecimal digits of the SHA-256 of the declaration")
        })
    }
}
