//! Context memory: what is known of an entry without its history.

use crate::ids::{Generation, Seq, Version};

/// The newest version of a memory entry, deleted or not. A deleted entry keeps its version, so none is ever reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryHead {
    /// The newest version.
    pub version: Version,
    /// The generation in which it was written.
    pub generation: Generation,
    /// The record that wrote it.
    pub seq: Seq,
    /// Whether it is a tombstone.
    pub deleted: bool,
}

impl EntryHead {
    /// What a writer must expect to overwrite it: its version, or 0 when there is nothing.
    #[must_use]
    pub fn expected(head: Option<&Self>) -> u64 {
        head.filter(|head| !head.deleted).map_or(0, |head| head.version.0)
    }

    /// The version that the next write gets. The first one after a restore jumps over what the lost history may have
    /// used.
    #[must_use]
    pub fn next_version(head: Option<&Self>, generation: Generation) -> Version {
        let next = head.map_or(1, |head| head.version.0 + 1);
        let same = head.map_or(Generation(0), |head| head.generation) == generation;
        Version(if same { next } else { next.max(generation.0 << 24) })
    }
}
