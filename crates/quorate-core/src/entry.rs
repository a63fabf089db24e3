//! The newest version of a memory entry, without its history.

use crate::ids::{Generation, Seq, Version};

/// The newest version of a memory entry, deleted or not. Deletion keeps the version, so that versions are never reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryHead {
    /// Newest version.
    pub version: Version,
    /// Generation in which it was written.
    pub generation: Generation,
    /// The record that wrote it.
    pub seq: Seq,
    /// Whether it is a tombstone.
    pub deleted: bool,
}

impl EntryHead {
    /// Returns the version that a compare-and-set must expect: the current version, or 0 if the entry does not exist.
    #[must_use]
    pub fn expected(head: Option<&Self>) -> u64 {
        head.filter(|head| !head.deleted).map_or(0, |head| head.version.0)
    }

    /// Returns the version of the next write. The first one after a restore skips versions that the discarded history may
    /// have used.
    #[must_use]
    pub fn next_version(head: Option<&Self>, generation: Generation) -> Version {
        let next = head.map_or(1, |head| head.version.0 + 1);
        let same = head.map_or(Generation(0), |head| head.generation) == generation;
        Version(if same { next } else { next.max(generation.0 << 24) })
    }
}
