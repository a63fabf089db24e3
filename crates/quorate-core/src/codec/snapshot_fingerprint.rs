//! Fingerprints of the operations on snapshots and rollbacks.

use crate::codec::Writer;
use crate::ids::SnapshotName;
use crate::snapshot::{MakeSnapshot, Rollback, RollbackScope, RollbackTarget};

pub(super) fn write_make(out: &mut Writer, make: &MakeSnapshot) {
    out.number(52);
    out.text(&make.name);
    out.text(&make.prefix);
}

pub(super) fn write_drop(out: &mut Writer, name: &SnapshotName) {
    out.number(53);
    out.text(name);
}

pub(super) fn write_rollback(out: &mut Writer, rollback: &Rollback) {
    out.number(54);
    match &rollback.scope {
        RollbackScope::Key { key, expect } => {
            out.number(0);
            out.text(key);
            out.option(expect.map(|version| version.0));
        }
        RollbackScope::Prefix(prefix) => {
            out.number(1);
            out.text(prefix);
        }
    }
    match &rollback.target {
        RollbackTarget::Version(version) => out.numbers(&[0, version.0]),
        RollbackTarget::Seq(seq) => out.numbers(&[1, seq.0]),
        RollbackTarget::Time(time) => out.numbers(&[2, time.0]),
        RollbackTarget::Snapshot(name) => {
            out.number(3);
            out.text(name);
        }
    }
}
