//! Reuse of ended leases: by a client that lost a response, or by one that processes a delivery twice.

use std::fmt;

use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use quorate_core::{Commit, CompleteTask, Op, PutEntry};

use super::plan::KEYS;
use super::resolve::{SeenResults, entry_key, payload};

/// Additional content of a commit that ends leases again.
#[derive(Clone, Debug)]
pub(super) enum ReuseExtra {
    /// Nothing: only the operations that end leases.
    Nothing,
    /// A write of an entry.
    Put { key: usize, content: u8 },
    /// The leases of another earlier commit.
    Earlier { back: usize },
    /// Completion of the task that was leased last.
    Task,
    /// Different task results.
    OtherResult { content: u8 },
}

pub(super) fn reuse_extra() -> BoxedStrategy<ReuseExtra> {
    prop_oneof![
        3 => Just(ReuseExtra::Nothing),
        3 => (0..KEYS.len(), 0..3u8).prop_map(|(key, content)| ReuseExtra::Put { key, content }),
        1 => (0..4usize).prop_map(|back| ReuseExtra::Earlier { back }),
        2 => Just(ReuseExtra::Task),
        1 => (0..3u8).prop_map(|content| ReuseExtra::OtherResult { content }),
    ]
    .boxed()
}

/// Accepted commits that ended leases, reduced to those operations.
#[derive(Default)]
pub(super) struct EndedLeases(Vec<Commit>);

impl EndedLeases {
    pub(super) fn record(&mut self, commit: &Commit) {
        let ends =
            |op: &&Op| matches!(op, Op::Ack(_) | Op::AckMany(_) | Op::CompleteTask(_) | Op::FailTask(_));
        let ops: Vec<_> = commit.ops.iter().filter(ends).cloned().collect();
        if !ops.is_empty() {
            self.0.push(Commit::new(commit.principal.clone(), ops));
        }
    }

    fn nth(&self, back: usize) -> Option<&Commit> {
        self.0.iter().rev().nth(back)
    }
}

impl SeenResults {
    /// Returns a commit that ends leases again, if any have ended.
    pub(super) fn reuse_leases(&self, back: usize, extra: &ReuseExtra) -> Option<Commit> {
        let mut commit = self.ended_leases.nth(back)?.clone();
        match extra {
            ReuseExtra::Nothing => {}
            ReuseExtra::Put { key, content } => {
                commit.ops.push(Op::Put(PutEntry {
                    key: entry_key(*key),
                    entry_type: "note".into(),
                    content: payload(&content.to_string()),
                    content_type: None,
                    expect: None,
                    depends_on: Vec::new(),
                    fence: None,
                }));
            }
            ReuseExtra::Earlier { back } => {
                commit.ops.extend(self.ended_leases.nth(*back)?.ops.iter().cloned())
            }
            ReuseExtra::Task => {
                let lease = self.tasks.newest_lease()?;
                commit.ops.push(Op::CompleteTask(CompleteTask::done(lease, None)));
            }
            ReuseExtra::OtherResult { content } => {
                for op in &mut commit.ops {
                    if let Op::CompleteTask(complete) = op {
                        complete.result = Some(payload(&content.to_string()));
                    }
                }
            }
        }
        Some(commit)
    }
}

impl fmt::Display for ReuseExtra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Put { key, content } => write!(f, " & puts {}={content}", KEYS[*key]),
            Self::Earlier { back } => write!(f, " & the leases of -{back}"),
            Self::Task => f.write_str(" & completes the newest task"),
            Self::OtherResult { content } => write!(f, " with result {content}"),
        }
    }
}
