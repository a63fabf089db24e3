//! Payload parts: each has the length and the digest that the body says, or was blanked by a later record.

use std::collections::BTreeSet;

use quorate_core::chain::check_parts;
use quorate_core::{Effect, Record, Seq};

/// Parts that are blank and for which no record was found yet that erased them.
#[derive(Default)]
pub(super) struct Parts {
    blank: BTreeSet<(Seq, u32)>,
}

impl Parts {
    /// Holds the stored bytes of a record against its body. A body that cannot be read is not the business of this.
    pub(super) fn see(&mut self, record: &Record) -> Result<(), String> {
        let blank = check_parts(record)?;
        self.blank.extend(blank.into_iter().map(|part| (record.seq, part)));
        Ok(())
    }

    /// Notes what a record erased. Gives back a part that is not blank although it was erased.
    pub(super) fn erase(&mut self, effects: &[Effect]) -> Option<(Seq, u32)> {
        effects.iter().find_map(|effect| match effect {
            Effect::Erased { seq, part } if !self.blank.remove(&(*seq, *part)) => Some((*seq, *part)),
            _ => None,
        })
    }

    /// The first part that is blank and that no record erased.
    pub(super) fn unexplained(&self) -> Option<(Seq, u32)> {
        self.blank.first().copied()
    }
}
