//! Schedule of injected faults: power loss, disk full, I/O errors.

use std::ffi::c_int;

use rusqlite::ffi;

use crate::disk::FileKind;

/// Duration of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// One operation fails.
    Once,
    /// The operation and all later ones fail.
    Forever,
}

/// Power supply, with the operation counter that determines when it is cut.
#[derive(Debug, Default)]
pub(super) struct PowerSupply {
    ops: u64,
    cut_at: Option<u64>,
    cut: bool,
}

/// Power during one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Power {
    On,
    /// Cut during the operation.
    Failing,
    Off,
}

impl Power {
    /// Whether an operation with this result code may have changed the disk.
    pub(super) fn reaches_disk(self, code: c_int) -> bool {
        match self {
            Power::On => code == ffi::SQLITE_OK,
            Power::Failing => true,
            Power::Off => false,
        }
    }
}

impl PowerSupply {
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
        if self.cut { Power::Failing } else { Power::On }
    }
}

/// Scheduled errors.
#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    /// Free space in bytes; `None` means unlimited.
    pub(super) space: Option<u64>,
    write: Option<Failure>,
    sync: Option<Failure>,
}

impl FaultPlan {
    pub(super) fn fail_write(&mut self, kind_filter: Option<FileKind>, nth: u64, repeat: Repeat) {
        self.write = Some(Failure { kind_filter, remaining: nth, repeat });
    }

    pub(super) fn fail_sync(&mut self, kind_filter: Option<FileKind>, nth: u64, repeat: Repeat) {
        self.sync = Some(Failure { kind_filter, remaining: nth, repeat });
    }

    pub(super) fn clear_errors(&mut self) {
        self.write = None;
        self.sync = None;
    }

    pub(super) fn write_fails(&mut self, kind: FileKind) -> bool {
        should_fail(&mut self.write, kind)
    }

    pub(super) fn sync_fails(&mut self, kind: FileKind) -> bool {
        should_fail(&mut self.sync, kind)
    }

    /// Reserves the space for a write. Returns whether there is enough.
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
    kind_filter: Option<FileKind>,
    remaining: u64,
    repeat: Repeat,
}

fn should_fail(failure: &mut Option<Failure>, kind: FileKind) -> bool {
    let Some(plan) = failure.as_mut().filter(|plan| plan.kind_filter.is_none_or(|filter| filter == kind))
    else {
        return false;
    };
    plan.remaining = plan.remaining.saturating_sub(1);
    if plan.remaining > 0 {
        return false;
    }
    if plan.repeat == Repeat::Once {
        *failure = None;
    }
    true
}
