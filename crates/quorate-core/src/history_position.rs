//! Positions in history: of a memory entry (as-of reads) and of a session's timeline (pages).

use crate::ids::{Seq, Version};
use crate::time::Timestamp;

/// The version of an entry to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsOf {
    /// The current version.
    Latest,
    /// Exactly this version.
    Version(Version),
    /// The current version as of this record.
    Seq(Seq),
    /// The current version as of this time.
    Time(Timestamp),
}

/// A page of a timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimelinePage {
    /// Entries after this record, oldest first.
    After(Seq),
    /// Entries before this record, newest first.
    Before(Seq),
}
