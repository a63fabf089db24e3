//! What is ready, by who may take it, and the rule for which goes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::message::Priority;
use crate::task::{Task, TaskNo, TaskState, TaskTarget};
use crate::time::Timestamp;
use crate::working::Map;
use crate::working::inbox::Fairness;

/// Everything that is ready.
#[derive(Debug, Default)]
pub(super) struct Queues {
    ready: Map<TaskTarget, Queue>,
    /// What is remembered of passed-over tasks; only where there is something to remember.
    fairness: Map<TaskTarget, Fairness>,
}

/// Highest priority first; within one, the oldest first, also when it comes back.
type Queue = BTreeMap<Reverse<Priority>, BTreeSet<TaskNo>>;

/// The task that goes out next.
pub(crate) struct Next {
    pub(crate) no: TaskNo,
    pub(crate) target: TaskTarget,
    /// What its queue remembers once it has gone.
    pub(crate) fairness: Fairness,
}

/// What a queue would give out, and since when that waits.
struct Head {
    no: TaskNo,
    priority: Priority,
    since: Timestamp,
    fairness: Fairness,
}

impl Queues {
    pub(super) fn insert(&mut self, target: TaskTarget, priority: Priority, no: TaskNo) {
        self.ready.entry(target).or_default().entry(Reverse(priority)).or_default().insert(no);
    }

    pub(super) fn remove(&mut self, target: &TaskTarget, priority: Priority, no: TaskNo) {
        let Some(queue) = self.ready.get_mut(target) else { return };
        if let Some(level) = queue.get_mut(&Reverse(priority)) {
            level.remove(&no);
            if level.is_empty() {
                queue.remove(&Reverse(priority));
            }
        }
        if queue.is_empty() {
            self.ready.remove(target);
        }
    }

    pub(super) fn has_ready(&self, target: &TaskTarget) -> bool {
        self.ready.contains_key(target)
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = &TaskTarget> {
        self.ready.keys()
    }

    pub(super) fn set_fairness(&mut self, target: &TaskTarget, new: Fairness) -> Fairness {
        let before = if new == Fairness::default() {
            self.fairness.remove(target)
        } else {
            self.fairness.insert(target.clone(), new)
        };
        before.unwrap_or_default()
    }

    /// The task that goes out next for one of these targets: the highest priority, the oldest first. But within a
    /// target, after 64 of higher priority or 60 s of waiting, one lower; and between targets, one that waited 60 s.
    pub(super) fn next_of<'a>(
        &self,
        targets: impl IntoIterator<Item = &'a TaskTarget>,
        open: &Map<TaskNo, Task>,
        now: Timestamp,
    ) -> Option<Next> {
        let head = |target| Some((target, self.head(target, open, now)?));
        let heads: Vec<(&TaskTarget, Head)> = targets.into_iter().filter_map(head).collect();
        let (target, first) = heads.iter().min_by_key(|(_, head)| (Reverse(head.priority), head.no))?;
        let lower = heads.iter().filter(|(_, head)| head.priority < first.priority);
        let longest = lower.min_by_key(|(_, head)| (head.since, head.no));
        if let Some((target, longest)) = longest
            && self.remembered(target).has_waited(longest.since, now)
        {
            let fairness = Fairness { turn_at: now, ..longest.fairness };
            return Some(Next { no: longest.no, target: (*target).clone(), fairness });
        }
        Some(Next { no: first.no, target: (*target).clone(), fairness: first.fairness })
    }

    fn remembered(&self, target: &TaskTarget) -> Fairness {
        self.fairness.get(target).copied().unwrap_or_default()
    }

    /// What one queue would give out next.
    fn head(&self, target: &TaskTarget, open: &Map<TaskNo, Task>, now: Timestamp) -> Option<Head> {
        let queue = self.ready.get(target)?;
        let remembered = self.remembered(target);
        let since = |no: TaskNo| match open.get(&no).map(|task| &task.state) {
            Some(TaskState::Ready { since }) => *since,
            _ => now,
        };
        let mut heads =
            queue.iter().filter_map(|(Reverse(priority), level)| Some((*priority, *level.first()?)));
        let (priority, top) = heads.next()?;
        let lower = heads.min_by_key(|(_, no)| (since(*no), *no));
        let (priority, no, fairness) = match lower {
            None => (priority, top, Fairness { passed_over: 0, ..remembered }),
            Some((lower, no)) if remembered.is_lower_turn(since(no), now) => {
                (lower, no, Fairness { passed_over: 0, turn_at: now })
            }
            Some(_) => (priority, top, Fairness { passed_over: remembered.passed_over + 1, ..remembered }),
        };
        Some(Head { no, priority, since: since(no), fairness })
    }
}
