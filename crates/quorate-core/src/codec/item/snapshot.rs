//! Encoding of snapshots.

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::Seq;
use crate::snapshot::{Snapshot, SnapshotState};
use crate::time::Timestamp;

pub(super) fn write(out: &mut Writer, snapshot: &Snapshot) {
    out.text(&snapshot.name);
    out.text(&snapshot.prefix);
    out.numbers(&[snapshot.seq.0, snapshot.at.0]);
    out.text(&snapshot.by);
    out.number(match snapshot.state {
        SnapshotState::Active => 0,
        SnapshotState::Dropped => 1,
    });
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Snapshot, DecodeError> {
    Ok(Snapshot {
        name: input.id()?,
        prefix: input.text()?.into(),
        seq: Seq(input.number()?),
        at: Timestamp(input.number()?),
        by: input.text()?.into(),
        state: match input.number()? {
            0 => SnapshotState::Active,
            1 => SnapshotState::Dropped,
            _ => return input.expected("the state of a snapshot"),
        },
    })
}
