//! Fingerprints of the operations on snapshots and rollbacks.

use crate::codec::Writer;
use crate::ids::SnapshotName;
use crate::snapshot::{MakeSnapshot, Rollback, RollbackTo, RollbackWhat};

pub(super) fn print_make(out: &mut Writer, make: &MakeSnapshot) {
    out.number(52);
    out.text(&make.name);
    out.text(&make.prefix);
}

pub(super) fn print_drop(out: &mut Writer, name: &SnapshotName) {
    out.number(53);
    out.text(name);
}

pub(super) fn print_rollback(out: &mut Writer, rollback: &Rollback) {
    out.number(54);
    match &rollback.what {
        RollbackWhat::Key { key, expect } => {
            out.number(0);
            out.text(key);
            out.option(expect.map(|version| version.0));
        }
        RollbackWhat::Prefix(prefix) => {
            out.number(1);
            out.text(prefix);
        }
    }
    match &rollback.to {
        RollbackTo::Version(version) => out.numbers(&[0, version.0]),
        RollbackTo::Seq(seq) => out.numbers(&[1, seq.0]),
        RollbackTo::Time(time) => out.numbers(&[2, time.0]),
        RollbackTo::Snapshot(name) => {
            out.number(3);
            out.text(name);
        }
    }
}
