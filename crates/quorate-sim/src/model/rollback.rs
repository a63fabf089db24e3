//! Snapshot and rollback steps.

use std::fmt;

use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use quorate_core::{
    ItemKind, MakeSnapshot, Op, Rollback, RollbackScope, RollbackTarget, Seq, SnapshotName, Timestamp,
    Version,
};
use quorate_store::ReadQuery;

use super::plan::{KEYS, VersionChoice};
use super::resolve::{SpaceView, entry_key, expected_version};

const NAMES: [&str; 2] = ["before", "after"];
const PREFIXES: [&str; 3] = ["", "plan", "plan/"];

/// Operation on snapshots or a rollback.
#[derive(Clone, Debug)]
pub(super) enum RollbackOp {
    Make { name: usize, prefix: usize },
    Drop { name: usize },
    Key { key: usize, expect: VersionChoice, to: RollbackPoint },
    Prefix { prefix: usize, to: RollbackPoint },
}

/// Target of a rollback, counted back from the current state.
#[derive(Clone, Copy, Debug)]
pub(super) enum RollbackPoint {
    Versions(u64),
    Records(u64),
    Ms(u64),
    Snapshot(usize),
}

pub(super) fn rollback_ops(expect: BoxedStrategy<VersionChoice>) -> BoxedStrategy<RollbackOp> {
    let name = || 0..NAMES.len();
    let prefix = || prop_oneof![2 => Just(0usize), 1 => Just(1), 3 => Just(2)];
    let point = || {
        prop_oneof![
            4 => (0..12u64).prop_map(RollbackPoint::Records),
            2 => prop_oneof![Just(0u64), Just(1), Just(5_000), Just(60_000)].prop_map(RollbackPoint::Ms),
            3 => name().prop_map(RollbackPoint::Snapshot),
        ]
    };
    let to = prop_oneof![4 => (0..4u64).prop_map(RollbackPoint::Versions), 5 => point()];
    prop_oneof![
        3 => (name(), prefix()).prop_map(|(name, prefix)| RollbackOp::Make { name, prefix }),
        1 => name().prop_map(|name| RollbackOp::Drop { name }),
        4 => (0..KEYS.len(), weighted(0.5, expect), to).prop_map(|(key, expect, to)| {
            RollbackOp::Key { key, expect: expect.unwrap_or(VersionChoice::Anything), to }
        }),
        4 => (prefix(), point()).prop_map(|(prefix, to)| RollbackOp::Prefix { prefix, to }),
    ]
    .boxed()
}

fn name(index: usize) -> SnapshotName {
    SnapshotName::new(NAMES[index]).expect("valid snapshot name")
}

impl RollbackOp {
    pub(super) fn op(&self, view: &SpaceView) -> Op {
        let to = |to: &RollbackPoint, version: u64| match to {
            RollbackPoint::Versions(back) => RollbackTarget::Version(Version(version.saturating_sub(*back))),
            RollbackPoint::Records(back) => RollbackTarget::Seq(Seq(view.head.0.saturating_sub(*back))),
            RollbackPoint::Ms(back) => RollbackTarget::Time(Timestamp(view.now.0.saturating_sub(*back))),
            RollbackPoint::Snapshot(index) => RollbackTarget::Snapshot(name(*index)),
        };
        match self {
            Self::Make { name: index, prefix } => {
                Op::MakeSnapshot(MakeSnapshot { name: name(*index), prefix: PREFIXES[*prefix].into() })
            }
            Self::Drop { name: index } => Op::DropSnapshot { name: name(*index) },
            Self::Key { key, expect, to: point } => {
                let version = view.versions[*key];
                let scope =
                    RollbackScope::Key { key: entry_key(*key), expect: expected_version(*expect, version) };
                Op::Rollback(Rollback { scope, target: to(point, version), fence: None })
            }
            Self::Prefix { prefix, to: point } => {
                let scope = RollbackScope::Prefix(PREFIXES[*prefix].into());
                Op::Rollback(Rollback { scope, target: to(point, 0), fence: None })
            }
        }
    }
}

impl fmt::Display for RollbackOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make { name, prefix } => write!(f, "snapshots {} of {:?}", NAMES[*name], PREFIXES[*prefix]),
            Self::Drop { name } => write!(f, "forgets {}", NAMES[*name]),
            Self::Key { key, expect, to } => write!(f, "restores {} {expect:?} to {to:?}", KEYS[*key]),
            Self::Prefix { prefix, to } => write!(f, "restores {}* to {to:?}", PREFIXES[*prefix]),
        }
    }
}

/// Returns all reads about snapshots.
pub(super) fn snapshot_reads() -> Vec<ReadQuery> {
    vec![
        ReadQuery::items(ItemKind::Snapshot, 1000),
        ReadQuery::Dependencies { after: None, limit: 1000 },
        ReadQuery::Dependencies { after: Some(entry_key(0)), limit: 1 },
    ]
}
