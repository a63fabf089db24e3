//! Checks payload parts: each matches the length and the digest in the body, or was erased (overwritten with zeros) by a
//! later record.

use std::collections::BTreeSet;

use quorate_core::hash_chain::verify_parts;
use quorate_core::{Effect, Record, Seq};

/// Blank parts for which no erasing record has been read yet.
#[derive(Default)]
pub(super) struct PayloadParts {
    blank: BTreeSet<(Seq, u32)>,
}

impl PayloadParts {
    /// Compares the stored payload of a record with the digests in its body.
    pub(super) fn check(&mut self, record: &Record) -> Result<(), String> {
        let blank = verify_parts(record)?;
        self.blank.extend(blank.into_iter().map(|part| (record.seq, part)));
        Ok(())
    }

    /// Applies the erasures of a record. Returns a part that was erased but is not blank.
    pub(super) fn apply_erasures(&mut self, effects: &[Effect]) -> Option<(Seq, u32)> {
        effects.iter().find_map(|effect| match effect {
            Effect::Erased { seq, part } if !self.blank.remove(&(*seq, *part)) => Some((*seq, *part)),
            _ => None,
        })
    }

    /// Returns the first blank part that no record erased.
    pub(super) fn first_unexplained(&self) -> Option<(Seq, u32)> {
        self.blank.first().copied()
    }
}
