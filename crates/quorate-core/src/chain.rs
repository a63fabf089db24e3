//! The hash chain of the log, byte for byte. `docs/audit.md` says the same in words; a Python script there checks it.

use sha2::{Digest, Sha256};

use crate::effect::Record;
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

/// How a log can be broken, as far as its chain shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// The record that belongs here is missing.
    Deleted,
    /// Stored bytes do not give the stored hash, or a payload not its digest.
    Edited,
    /// Its time is before that of the record before it.
    Reordered,
    /// The log ends before its head.
    Truncated,
    /// The chain is whole, but not the one that the head knows.
    Forked,
    /// It cannot be read.
    Unreadable,
}

impl Broken {
    /// The word in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Edited => "edited",
            Self::Reordered => "reordered",
            Self::Truncated => "truncated",
            Self::Forked => "forked",
            Self::Unreadable => "unreadable",
        }
    }
}

/// A walk over the log, one record after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    /// The record that must come next.
    pub next: Seq,
    /// The chain up to there.
    pub hash: [u8; 32],
    /// When the last one was decided.
    pub at: Timestamp,
}

impl Chain {
    /// Before this record, which is chained to this hash.
    #[must_use]
    pub fn before(next: Seq, hash: [u8; 32]) -> Self {
        Self { next, hash, at: Timestamp(0) }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// What is wrong with it; nothing is added then.
    pub fn add(&mut self, record: &Record) -> Result<(), Broken> {
        if record.seq != self.next {
            return Err(Broken::Deleted);
        }
        let Record { seq, at, format, kind, ref principal, ref body, .. } = *record;
        // No id is longer, so this is none that was written.
        if principal.len() > usize::from(u16::MAX) {
            return Err(Broken::Edited);
        }
        if record_hash(&self.hash, &Header { seq, at, format, kind, principal }, body) != record.hash {
            return Err(Broken::Edited);
        }
        if at < self.at {
            return Err(Broken::Reordered);
        }
        *self = Self { next: Seq(seq.0 + 1), hash: record.hash, at };
        Ok(())
    }
}

/// Holds the stored payload of a record against its body, and says which parts are blank because they were erased. A body
/// that cannot be read is not the business of this.
///
/// # Errors
/// How it differs, for a person.
pub fn check_parts(record: &Record) -> Result<Vec<u32>, String> {
    let Ok(parts) = crate::codec::parts_of(&record.body) else { return Ok(Vec::new()) };
    let (salts, odd) = record.salts.as_chunks::<16>();
    if salts.len() != parts.len() || !odd.is_empty() {
        return Err(format!("it has {} bytes of salts for {} parts", record.salts.len(), parts.len()));
    }
    let mut rest = &record.payload[..];
    let mut blank = Vec::new();
    for (index, ((length, digest), salt)) in parts.iter().zip(salts).enumerate() {
        let split = usize::try_from(*length).ok().and_then(|length| rest.split_at_checked(length));
        let Some((bytes, after)) = split else {
            return Err(format!("its payload ends in part {index}"));
        };
        rest = after;
        if *salt == [0; 16] {
            if bytes.iter().any(|byte| *byte != 0) {
                return Err(format!("the salt of part {index} of its payload is blank, but not its bytes"));
            }
            blank.push(index as u32);
        } else if part_digest(salt, bytes) != *digest {
            return Err(format!("part {index} of its payload does not give its digest; the chain is intact"));
        }
    }
    if rest.is_empty() { Ok(blank) } else { Err(format!("its payload has {} bytes too many", rest.len())) }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{Broken, Chain, Header, record_hash};
    use crate::effect::Record;
    use crate::ids::Seq;
    use crate::time::Timestamp;

    fn record(seq: u64, at: u64, previous: &[u8; 32], body: &[u8]) -> Record {
        let at = Timestamp(at);
        let header = Header { seq: Seq(seq), at, format: 1, kind: 2, principal: "system" };
        Record {
            seq: Seq(seq),
            at,
            format: 1,
            kind: 2,
            principal: "system".into(),
            hash: record_hash(previous, &header, body),
            body: body.to_vec(),
            salts: Vec::new(),
            payload: Bytes::new(),
        }
    }

    // Fails under: a check that takes the stored hash for the computed one.
    #[test]
    fn i17_a_changed_record_breaks_the_chain() {
        let first = record(1, 1, &[7; 32], b"a");
        let second = record(2, 2, &first.hash, b"b");
        let run = |records: &[&Record]| {
            let mut chain = Chain::before(Seq(1), [7; 32]);
            records.iter().try_for_each(|record| chain.add(record))
        };
        assert_eq!(run(&[&first, &second]), Ok(()));
        assert_eq!(run(&[&second]), Err(Broken::Deleted));
        let edited = Record { body: b"x".to_vec(), ..first.clone() };
        assert_eq!(run(&[&edited, &second]), Err(Broken::Edited));
        let edited = Record { principal: "agent:eve".into(), ..second.clone() };
        assert_eq!(run(&[&first, &edited]), Err(Broken::Edited));
        let edited = Record { principal: "e".repeat(70_000), ..second.clone() };
        assert_eq!(run(&[&first, &edited]), Err(Broken::Edited));
        let earlier = record(2, 0, &first.hash, b"b");
        assert_eq!(run(&[&first, &earlier]), Err(Broken::Reordered));
    }
}
