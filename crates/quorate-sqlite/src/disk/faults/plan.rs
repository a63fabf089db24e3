//! What is to go wrong, and when: power, space, errors.

use std::ffi::c_int;

use rusqlite::ffi;

use crate::disk::FileKind;

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Only one operation fails.
    Once,
    /// All that follow fail too.
    Forever,
}

/// The power, and the count of operations by which it can be cut.
#[derive(Debug, Default)]
pub(super) struct Supply {
    ops: u64,
    cut_at: Option<u64>,
    cut: bool,
}

/// The power during one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Power {
    On,
    /// It goes while the operation is under way.
    Going,
    Off,
}

impl Power {
    /// Whether an operation with this outcome may have changed what is on the disk.
    pub(super) fn reaches_disk(self, code: c_int) -> bool {
        match self {
            Power::On => code == ffi::SQLITE_OK,
            Power::Going => true,
            Power::Off => false,
        }
    }
}

impl Supply {
    pub(super) fn ops(&self) -> u64 {
        self.ops
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    pub(super) fn cut(&mut self) {
        self.cut = true;
    }

    pub(super) fn cut_at(&mut self, op: u64) {
        self.cut_at = Some(op);
    }

    pub(super) fn next_op(&mut self) -> Power {
        if self.cut {
            return Power::Off;
        }
        self.ops += 1;
        self.cut = self.cut_at.is_some_and(|op| self.ops >= op);
        if self.cut { Power::Going } else { Power::On }
    }
}

/// The errors to come.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// By how much files may still grow; nothing is no limit.
    pub(super) space: Option<u64>,
    write: Option<Failure>,
    sync: Option<Failure>,
}

impl Plan {
    pub(super) fn fail_write(&mut self, on: Option<FileKind>, nth: u64, repeat: Repeat) {
        self.write = Some(Failure { on, left: nth, repeat });
    }

    pub(super) fn fail_sync(&mut self, on: Option<FileKind>, nth: u64, repeat: Repeat) {
        self.sync = Some(Failure { on, left: nth, repeat });
    }

    pub(super) fn heal(&mut self) {
        self.write = None;
        self.sync = None;
    }

    pub(super) fn write_fails(&mut self, kind: FileKind) -> bool {
        strikes(&mut self.write, kind)
    }

    pub(super) fn sync_fails(&mut self, kind: FileKind) -> bool {
        strikes(&mut self.sync, kind)
    }

    /// Takes the space for a write, if there is enough.
    pub(super) fn has_space_for(&mut self, offset: u64, length: u64, size: impl FnOnce() -> u64) -> bool {
        let Some(space) = &mut self.space else { return true };
        let growth = (offset + length).saturating_sub(size().max(offset));
        if growth > *space {
            return false;
        }
        *space -= growth;
        true
    }
}

#[derive(Debug)]
struct Failure {
    on: Option<FileKind>,
    left: u64,
    repeat: Repeat,
}

fn strikes(failure: &mut Option<Failure>, kind: FileKind) -> bool {
    let Some(plan) = failure.as_mut().filter(|plan| plan.on.is_none_or(|on| on == kind)) else {
        return false;
    };
    plan.left = plan.left.saturating_sub(1);
    if plan.left > 0 {
        return false;
    }
    if plan.repeat == Repeat::Once {
        *failure = None;
    }
    true
}
