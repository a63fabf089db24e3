//! Going back: named positions in the history of the shared memory, and the way back to them. History is kept anyway, so a
//! snapshot is a name and a number, and going back is writing on.

use crate::ids::{Key, Seq, SnapshotName, Version};
use crate::limits::KEY_BYTES_MAX;
use crate::lock::FenceRef;
use crate::refused::{Code, Refused};
use crate::time::Timestamp;

/// A named position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Its name.
    pub name: SnapshotName,
    /// The entries that it is of: those whose key begins so.
    pub prefix: String,
    /// The last record that it holds.
    pub seq: Seq,
    /// When it was made.
    pub at: Timestamp,
    /// Who made it.
    pub by: String,
    /// Whether the name still stands for it.
    pub state: SnapshotState,
}

/// Whether a snapshot is still there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotState {
    /// It is.
    Kept,
    /// Its name is free again.
    Dropped,
}

/// Names the position before the commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MakeSnapshot {
    /// The name.
    pub name: SnapshotName,
    /// The entries that it is of: those whose key begins so; all if it is empty.
    pub prefix: String,
}

/// What goes back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RollbackWhat {
    /// One entry.
    Key {
        /// Which one.
        key: Key,
        /// The version it must have now; 0 = it must not exist; `None` = whatever it is.
        expect: Option<Version>,
    },
    /// Every entry whose key begins so.
    Prefix(String),
}

/// Where it goes back to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RollbackTo {
    /// A version of one entry.
    Version(Version),
    /// What was there after this record.
    Seq(Seq),
    /// What was there at this time.
    Time(Timestamp),
    /// What was there when the snapshot was made.
    Snapshot(SnapshotName),
}

/// Brings back what was there before, as new versions. An entry that was not there then is deleted, one that was deleted
/// since comes back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rollback {
    /// What.
    pub what: RollbackWhat,
    /// To where.
    pub to: RollbackTo,
    /// The lock under which it is written, and the fence of its grant; refused if that is over.
    pub fence: Option<FenceRef>,
}

impl MakeSnapshot {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        check_prefix(&self.prefix)
    }
}

impl Rollback {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        match (&self.what, &self.to) {
            (RollbackWhat::Prefix(_), RollbackTo::Version(_)) => {
                Err(Refused::new(Code::Invalid, "a version is of one entry, not of a prefix")
                    .hint("go back to a record, a time or a snapshot, or name one key"))
            }
            (RollbackWhat::Prefix(prefix), _) => check_prefix(prefix),
            (RollbackWhat::Key { .. }, _) => Ok(()),
        }
    }
}

fn check_prefix(prefix: &str) -> Result<(), Refused> {
    if prefix.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(Refused::new(Code::Invalid, format!("the prefix has {} bytes", prefix.len()))
        .limit(KEY_BYTES_MAX as u64)
        .hint("no key is that long"))
}

impl RollbackWhat {
    /// Whether it is of many entries.
    #[must_use]
    pub fn is_prefix(&self) -> bool {
        matches!(self, Self::Prefix(_))
    }

    /// Whether all of it lies within a prefix.
    pub(crate) fn is_within(&self, prefix: &str) -> bool {
        match self {
            Self::Key { key, .. } => key.as_str().starts_with(prefix),
            Self::Prefix(wanted) => wanted.starts_with(prefix),
        }
    }
}
