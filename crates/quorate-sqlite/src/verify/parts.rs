//! Payload parts: each has the length and the digest that the body says, or was blanked by a later record.

use std::collections::BTreeSet;

use quorate_core::chain::part_digest;
use quorate_core::{Effect, Record, Seq, codec};

/// Parts that are blank and for which no record was found yet that erased them.
#[derive(Default)]
pub(super) struct Parts {
    blank: BTreeSet<(Seq, u32)>,
}

impl Parts {
    /// Holds the stored bytes of a record against its body. A body that cannot be read is not the business of this.
    pub(super) fn see(&mut self, record: &Record) -> Result<(), String> {
        let Ok(parts) = codec::parts_of(&record.body) else { return Ok(()) };
        let (salts, odd) = record.salts.as_chunks::<16>();
        if salts.len() != parts.len() || !odd.is_empty() {
            return Err(format!("it has {} bytes of salts for {} parts", record.salts.len(), parts.len()));
        }
        let mut rest = &record.payload[..];
        for (index, ((length, digest), salt)) in parts.iter().zip(salts).enumerate() {
            let split = usize::try_from(*length).ok().and_then(|length| rest.split_at_checked(length));
            let Some((bytes, after)) = split else {
                return Err(format!("its payload ends in part {index}"));
            };
            rest = after;
            if *salt == [0; 16] {
                if bytes.iter().any(|byte| *byte != 0) {
                    return Err(format!(
                        "the salt of part {index} of its payload is blank, but not its bytes"
                    ));
                }
                self.blank.insert((record.seq, index as u32));
            } else if part_digest(salt, bytes) != *digest {
                return Err(format!(
                    "part {index} of its payload does not give its digest; the chain is intact"
                ));
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(format!("its payload has {} bytes too many", rest.len())) }
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
