//! Ready tasks by target, and the order in which they are dispatched.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::message::Priority;
use crate::task::{Task, TaskNo, TaskState, TaskTarget};
use crate::time::Timestamp;
use crate::working::Map;
use crate::working::inbox::Fairness;

/// All ready tasks.
#[derive(Debug, Default)]
pub(super) struct ReadyTasks {
    ready: Map<TaskTarget, PriorityQueue>,
    /// Starvation protection by target; only for targets with a non-default value.
    fairness: Map<TaskTarget, Fairness>,
}

/// Highest priority first; within a priority the oldest task first, also after a retry.
type PriorityQueue = BTreeMap<Reverse<Priority>, BTreeSet<TaskNo>>;

/// The next task to dispatch.
pub(crate) struct NextTask {
    pub(crate) number: TaskNo,
    pub(crate) target: TaskTarget,
    /// The fairness state of its queue after this dispatch.
    pub(crate) fairness: Fairness,
}

/// The next task of one queue, and the time since which it has been ready.
struct Candidate {
    number: TaskNo,
    priority: Priority,
    since: Timestamp,
    fairness: Fairness,
}

impl ReadyTasks {
    pub(super) fn insert(&mut self, target: TaskTarget, priority: Priority, number: TaskNo) {
        self.ready.entry(target).or_default().entry(Reverse(priority)).or_default().insert(number);
    }

    pub(super) fn remove(&mut self, target: &TaskTarget, priority: Priority, number: TaskNo) {
        let Some(queue) = self.ready.get_mut(target) else { return };
        if let Some(level) = queue.get_mut(&Reverse(priority)) {
            level.remove(&number);
            if level.is_empty() {
                queue.remove(&Reverse(priority));
            }
        }
        if queue.is_empty() {
            self.ready.remove(target);
        }
    }

    pub(super) fn of_target(&self, target: &TaskTarget) -> Option<(usize, TaskNo)> {
        let queue = self.ready.get(target)?;
        let count = queue.values().map(BTreeSet::len).sum();
        let oldest = queue.values().filter_map(BTreeSet::first).min()?;
        Some((count, *oldest))
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

    /// Returns the next task for one of these targets: the oldest of the highest priority. Starvation protection:
    /// within a target, a lower priority is preferred once after 64 tasks of higher priority or 60 s of waiting;
    /// between targets, a task that has waited for 60 s is preferred.
    pub(super) fn next_of<'a>(
        &self,
        targets: impl IntoIterator<Item = &'a TaskTarget>,
        open: &Map<TaskNo, Task>,
        now: Timestamp,
    ) -> Option<NextTask> {
        let candidate = |target| Some((target, self.candidate(target, open, now)?));
        let candidates: Vec<(&TaskTarget, Candidate)> = targets.into_iter().filter_map(candidate).collect();
        let (target, first) =
            candidates.iter().min_by_key(|(_, candidate)| (Reverse(candidate.priority), candidate.number))?;
        let lower = candidates.iter().filter(|(_, candidate)| candidate.priority < first.priority);
        let longest = lower.min_by_key(|(_, candidate)| (candidate.since, candidate.number));
        if let Some((target, longest)) = longest
            && self.fairness_of(target).is_starved(longest.since, now)
        {
            let fairness = Fairness { lower_served_at: now, ..longest.fairness };
            return Some(NextTask { number: longest.number, target: (*target).clone(), fairness });
        }
        Some(NextTask { number: first.number, target: (*target).clone(), fairness: first.fairness })
    }

    fn fairness_of(&self, target: &TaskTarget) -> Fairness {
        self.fairness.get(target).copied().unwrap_or_default()
    }

    /// Returns the next task of one queue.
    fn candidate(&self, target: &TaskTarget, open: &Map<TaskNo, Task>, now: Timestamp) -> Option<Candidate> {
        let queue = self.ready.get(target)?;
        let previous = self.fairness_of(target);
        let since = |number: TaskNo| match open.get(&number).map(|task| &task.state) {
            Some(TaskState::Ready { since }) => *since,
            _ => now,
        };
        let mut candidates =
            queue.iter().filter_map(|(Reverse(priority), level)| Some((*priority, *level.first()?)));
        let (priority, top) = candidates.next()?;
        let lower = candidates.min_by_key(|(_, number)| (since(*number), *number));
        let (priority, number, fairness) = match lower {
            None => (priority, top, Fairness { passed_over: 0, ..previous }),
            Some((lower, number)) if previous.prefers_lower(since(number), now) => {
                (lower, number, Fairness { passed_over: 0, lower_served_at: now })
            }
            Some(_) => (priority, top, Fairness { passed_over: previous.passed_over + 1, ..previous }),
        };
        Some(Candidate { number, priority, since: since(number), fairness })
    }
}
