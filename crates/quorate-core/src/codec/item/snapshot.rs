//! Encoding of snapshots.

use crate::codec::{Reader, Unreadable, Writer};
use crate::ids::Seq;
use crate::snapshot::{Snapshot, SnapshotState};
use crate::time::Timestamp;

pub(super) fn write(out: &mut Writer, snapshot: &Snapshot) {
    out.text(&snapshot.name);
    out.text(&snapshot.prefix);
    out.numbers(&[snapshot.seq.0, snapshot.at.0]);
    out.text(&snapshot.by);
    out.number(match snapshot.state {
        SnapshotState::Kept => 0,
        SnapshotState::Dropped => 1,
    });
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Snapshot, Unreadable> {
    Ok(Snapshot {
        name: input.id()?,
        prefix: input.text()?.into(),
        seq: Seq(input.number()?),
        at: Timestamp(input.number()?),
        by: input.text()?.into(),
        state: match input.number()? {
            0 => SnapshotState::Kept,
            1 => SnapshotState::Dropped,
            _ => return input.wrong("the state of a snapshot"),
        },
    })
}
