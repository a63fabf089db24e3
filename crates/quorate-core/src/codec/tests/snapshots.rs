//! Golden tests of the encoding of snapshots and rollbacks.

use super::*;
use crate::commit::OpResult;
use crate::effect::RestoredVersion;
use crate::item::{Item, ItemKind, Verb};
use crate::snapshot::{Snapshot, SnapshotState};

fn snapshot(state: SnapshotState) -> Item {
    Item::Snapshot(Snapshot {
        name: "before the merge".parse().unwrap(),
        prefix: "plan/".into(),
        seq: Seq(300),
        at: Timestamp(1_800_000_000_000),
        by: "agent:alice".into(),
        state,
    })
}

fn effects() -> Vec<Effect> {
    vec![
        Effect::Changed { verb: Verb::SnapshotMade, item: snapshot(SnapshotState::Active) },
        Effect::Changed { verb: Verb::SnapshotDropped, item: snapshot(SnapshotState::Dropped) },
        Effect::Written {
            key: "plan/a".parse().unwrap(),
            version: Version(9),
            entry_type: "plan".into(),
            content_type: None,
            part: 3,
            depends_on: vec![("plan/b".parse().unwrap(), Version(2))],
            restores: Some(RestoredVersion { seq: Seq(200), version: Version(4) }),
        },
    ]
}

#[test]
fn the_bytes_of_snapshots_never_change() {
    expect!["00030f2e5a08106265666f726520746865206d6572676505706c616e2fac0280a0f1c2b1340b6167656e743a616c696365000f2e5b08106265666f726520746865206d6572676505706c616e2fac0280a0f1c2b1340b6167656e743a616c696365010c1b06706c616e2f610904706c616e00030106706c616e2f6202c80104"].assert_eq(&hex(&write_body(&[], &effects())));
}

#[test]
fn snapshots_round_trip() {
    assert_eq!(read_body(&record_of(&[], &effects())).unwrap().effects, effects());
    let item = snapshot(SnapshotState::Active);
    assert_eq!(read_item(ItemKind::Snapshot, &write_item(&item)).unwrap(), item);
    let results = vec![
        OpResult::SnapshotMade { seq: Seq(300) },
        OpResult::RolledBack { to: Seq(300), written: 4096, deleted: 1 },
    ];
    assert_eq!(read_results(&write_results(&results)).unwrap(), results);
    let numbers = (ItemKind::Snapshot.number(), Verb::SnapshotMade.number(), Verb::SnapshotDropped.number());
    assert_eq!(numbers, (8, 90, 91));
}

proptest! {
    #[test]
    fn corrupt_snapshots_do_not_panic(at in 0usize..200, with: u8, cut in 0usize..200) {
        let mut record = record_of(&[], &effects());
        if let Some(byte) = record.body.get_mut(at) {
            *byte = with;
        }
        record.body.truncate(cut);
        let _ = read_body(&record);
        let _ = read_item(ItemKind::Snapshot, &record.body);
    }
}
