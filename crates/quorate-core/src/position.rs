//! Positions in the history: of an entry, and of the timeline of a session.

use crate::ids::{Seq, Version};
use crate::time::Timestamp;

/// Which version of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// The newest.
    Now,
    /// This very version.
    Version(Version),
    /// The newest one after this record.
    Seq(Seq),
    /// The newest one at this time.
    Time(Timestamp),
}

/// Which part of a timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// What came after this record, oldest first.
    After(Seq),
    /// What came before this record, newest first.
    Before(Seq),
}
