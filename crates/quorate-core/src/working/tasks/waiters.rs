//! Waiters for the end of tasks. In memory only; clients wait again after a restart.

use std::collections::BTreeSet;

use crate::ids::{AgentNo, ConsumerId, DeliveryNo, Seq, TaskId};
use crate::time::Now;
use crate::working::tasks::TaskUndo;
use crate::working::{Map, Undo, WorkingState};

/// A wait for the end of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TaskWaiter {
    pub(crate) agent: AgentNo,
    pub(crate) task: TaskId,
    /// The delivery that the agent is processing, if stated.
    pub(crate) within: Option<DeliveryNo>,
    /// Ticket number, which orders all waits.
    pub(crate) ticket: u64,
    /// The newest record when the wait began.
    pub(crate) since: Seq,
}

/// All waits for the end of tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskWaiters {
    waits: Map<ConsumerId, TaskWaiter>,
    by_task: Map<TaskId, BTreeSet<ConsumerId>>,
    /// Number of waits of each agent.
    counts: Map<AgentNo, usize>,
}

impl TaskWaiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    pub(crate) fn get(&self, id: ConsumerId) -> Option<&TaskWaiter> {
        self.waits.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConsumerId, &TaskWaiter)> {
        self.waits.iter().map(|(id, wait)| (*id, wait))
    }

    /// Returns the number of waits of an agent.
    pub(crate) fn count_of(&self, agent: AgentNo) -> usize {
        self.counts.get(&agent).copied().unwrap_or(0)
    }

    /// Returns the waiters of a task, sorted by consumer id.
    pub(crate) fn of_task(&self, task: &TaskId) -> Vec<ConsumerId> {
        self.by_task.get(task).into_iter().flatten().copied().collect()
    }

    /// Returns the waits of an agent, sorted by consumer id.
    pub(crate) fn of_agent(&self, agent: AgentNo) -> Vec<ConsumerId> {
        let mut ids: Vec<_> = self.iter().filter(|(_, wait)| wait.agent == agent).map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn put(&mut self, id: ConsumerId, new: Option<TaskWaiter>) -> Option<TaskWaiter> {
        let old = self.waits.remove(&id);
        if let Some(old) = &old {
            super::decrement(&mut self.counts, &old.agent);
            if let Some(ids) = self.by_task.get_mut(&old.task) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_task.remove(&old.task);
                }
            }
        }
        if let Some(new) = new {
            *self.counts.entry(new.agent).or_default() += 1;
            self.by_task.entry(new.task.clone()).or_default().insert(id);
            self.waits.insert(id, new);
        }
        old
    }
}

impl WorkingState {
    /// Adds, replaces or removes a waiter.
    pub(crate) fn set_task_waiter(&mut self, id: ConsumerId, new: Option<TaskWaiter>, now: Now) {
        self.schedule_deadlock_check(now.mono);
        let ends = new.is_none();
        let before = self.items.tasks.waiters.put(id, new);
        let agent = before.as_ref().filter(|_| ends).map(|wait| wait.agent);
        self.journal.push(Undo::Task(TaskUndo::Waiter(id, before)));
        // Waiting counts as activity of the agent until now.
        if let Some(agent) = agent {
            self.record_activity(agent, now);
        }
    }
}
