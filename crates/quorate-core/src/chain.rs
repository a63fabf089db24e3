//! The hash chain of the log, byte for byte. `docs/audit.md` says the same in words; a Python script there checks it.

use sha2::{Digest, Sha256};

use crate::ids::{Seq, SpaceId};
use crate::time::Timestamp;

/// Says what is hashed, so that no other use of SHA-256 yields the same bytes.
const DOMAIN: &[u8] = b"quorate.log.1\0";

/// What the first record of a space is chained to.
#[must_use]
pub fn first_previous(id: SpaceId) -> [u8; 32] {
    Sha256::digest(id.0).into()
}

/// `SHA-256(salt ‖ bytes)`: what the body holds of a payload part.
#[must_use]
pub fn part_digest(salt: &[u8; 16], bytes: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(salt).chain_update(bytes).finalize().into()
}

/// What is chained of a record besides its body.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// Its position.
    pub seq: Seq,
    /// When it was decided.
    pub at: Timestamp,
    /// The format of its body.
    pub format: u8,
    /// The number of its kind.
    pub kind: u8,
    /// Who acted.
    pub principal: &'a str,
}

/// `SHA-256("quorate.log.1\0" ‖ previous hash ‖ header ‖ body)`. The header is `seq` and `at` as 8 bytes each, `format`
/// and `kind` as one byte each, the length of the principal as 2 bytes and the principal; integers big-endian.
#[must_use]
pub fn record_hash(previous: &[u8; 32], header: &Header<'_>, body: &[u8]) -> [u8; 32] {
    let principal = header.principal.as_bytes();
    let length = u16::try_from(principal.len()).expect("ids are at most 128 bytes");
    // One buffer for the fixed part: fewer and longer updates are faster than many short ones.
    let mut head = [0u8; 14 + 32 + 8 + 8 + 1 + 1 + 2];
    head[..14].copy_from_slice(DOMAIN);
    head[14..46].copy_from_slice(previous);
    head[46..54].copy_from_slice(&header.seq.0.to_be_bytes());
    head[54..62].copy_from_slice(&header.at.0.to_be_bytes());
    head[62] = header.format;
    head[63] = header.kind;
    head[64..66].copy_from_slice(&length.to_be_bytes());
    Sha256::new().chain_update(head).chain_update(principal).chain_update(body).finalize().into()
}
