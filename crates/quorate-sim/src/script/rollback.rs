//! Statements about snapshots and rollbacks.

use quorate_core::{
    MakeSnapshot, Op, Rollback, RollbackScope, RollbackTarget, Seq, SnapshotName, Timestamp, Version,
};

use super::asked::{Words, expecting, key, span};
use super::stage::{START_MS, Stage};

fn name(text: &str) -> SnapshotName {
    SnapshotName::new(text).expect("valid snapshot name")
}

/// Parses `snapshots NAME [of PREFIX]`.
pub(super) fn make(words: &mut Words<'_>) -> Op {
    let name = name(words.must("a name"));
    Op::MakeSnapshot(MakeSnapshot { name, prefix: words.after("of").unwrap_or("").into() })
}

/// Parses `forgets NAME`.
pub(super) fn forget(words: &mut Words<'_>) -> Op {
    Op::DropSnapshot { name: name(words.must("a name")) }
}

/// Parses `restores K to …` or `restores PREFIX* to …`, where `…` is `v2`, `#7`, `10s` or the name of a snapshot.
pub(super) fn restore(stage: &Stage, words: &mut Words<'_>) -> Op {
    let target = words.must("a key");
    let to = words.after("to").expect("`to` with a target");
    let what = match target.strip_suffix('*') {
        Some(prefix) => RollbackScope::Prefix(prefix.into()),
        None => RollbackScope::Key { key: key(target), expect: expecting(words) },
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let to = if let Some(version) = to.strip_prefix('v').and_then(number) {
        RollbackTarget::Version(Version(version))
    } else if let Some(seq) = to.strip_prefix('#').and_then(number) {
        RollbackTarget::Seq(Seq(seq))
    } else if to.starts_with(|c: char| c.is_ascii_digit()) {
        RollbackTarget::Time(Timestamp(START_MS + span(to)))
    } else {
        RollbackTarget::Snapshot(name(to))
    };
    Op::Rollback(Rollback { scope: what, target: to, fence: stage.under(words) })
}
