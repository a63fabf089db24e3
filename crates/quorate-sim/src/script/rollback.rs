//! Statements about snapshots and rollbacks.

use quorate_core::{
    MakeSnapshot, Op, Rollback, RollbackScope, RollbackTarget, Seq, SnapshotName, Timestamp, Version,
};

use super::parse::{Words, duration_ms, entry_key, expected_version};
use super::runner::{START_MS, ScriptRunner};

fn name(text: &str) -> SnapshotName {
    SnapshotName::new(text).expect("valid snapshot name")
}

/// Parses `snapshots NAME [of PREFIX]`.
pub(super) fn parse_snapshot(words: &mut Words<'_>) -> Op {
    let name = name(words.require("a name"));
    Op::MakeSnapshot(MakeSnapshot { name, prefix: words.option("of").unwrap_or("").into() })
}

/// Parses `forgets NAME`.
pub(super) fn parse_drop_snapshot(words: &mut Words<'_>) -> Op {
    Op::DropSnapshot { name: name(words.require("a name")) }
}

/// Parses `restores K to …` or `restores PREFIX* to …`, where `…` is `v2`, `#7`, `10s` or the name of a snapshot.
pub(super) fn parse_rollback(runner: &ScriptRunner, words: &mut Words<'_>) -> Op {
    let target = words.require("a key");
    let to = words.option("to").expect("`to` with a target");
    let scope = match target.strip_suffix('*') {
        Some(prefix) => RollbackScope::Prefix(prefix.into()),
        None => RollbackScope::Key { key: entry_key(target), expect: expected_version(words) },
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let to = if let Some(version) = to.strip_prefix('v').and_then(number) {
        RollbackTarget::Version(Version(version))
    } else if let Some(seq) = to.strip_prefix('#').and_then(number) {
        RollbackTarget::Seq(Seq(seq))
    } else if to.starts_with(|c: char| c.is_ascii_digit()) {
        RollbackTarget::Time(Timestamp(START_MS + duration_ms(to)))
    } else {
        RollbackTarget::Snapshot(name(to))
    };
    Op::Rollback(Rollback { scope, target: to, fence: runner.parse_fence_option(words) })
}
