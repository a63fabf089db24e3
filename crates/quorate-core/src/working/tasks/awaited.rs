//! Who waits for tasks to be over. In memory only; after a restart they ask again.

use std::collections::BTreeSet;

use crate::ids::{AgentNo, ConsumerId, DeliveryNo, Seq, TaskId};
use crate::time::Now;
use crate::working::tasks::TaskUndo;
use crate::working::{Map, Undo, Working};

/// Somebody who waits for a task to be over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Awaiting {
    pub(crate) agent: AgentNo,
    pub(crate) task: TaskId,
    /// The delivery that the agent works on meanwhile, if it said so.
    pub(crate) within: Option<DeliveryNo>,
    /// Its place in the order of all who wait.
    pub(crate) turn: u64,
    /// The newest record when it began to wait.
    pub(crate) since: Seq,
}

/// Everybody who waits for a task to be over.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    waits: Map<ConsumerId, Awaiting>,
    by_task: Map<TaskId, BTreeSet<ConsumerId>>,
    /// How many waits each agent has.
    counts: Map<AgentNo, usize>,
}

impl Awaited {
    pub(crate) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    pub(crate) fn get(&self, id: ConsumerId) -> Option<&Awaiting> {
        self.waits.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConsumerId, &Awaiting)> {
        self.waits.iter().map(|(id, wait)| (*id, wait))
    }

    /// How many waits an agent has.
    pub(crate) fn count_of(&self, agent: AgentNo) -> usize {
        self.counts.get(&agent).copied().unwrap_or(0)
    }

    /// Who waits for a task, in the order of their numbers.
    pub(crate) fn of_task(&self, task: &TaskId) -> Vec<ConsumerId> {
        self.by_task.get(task).into_iter().flatten().copied().collect()
    }

    /// The waits of an agent, in the order of their numbers.
    pub(crate) fn of_agent(&self, agent: AgentNo) -> Vec<ConsumerId> {
        let mut ids: Vec<_> = self.iter().filter(|(_, wait)| wait.agent == agent).map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn put(&mut self, id: ConsumerId, new: Option<Awaiting>) -> Option<Awaiting> {
        let old = self.waits.remove(&id);
        if let Some(old) = &old {
            super::take_one(&mut self.counts, old.agent);
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

impl Working {
    /// Lets somebody wait for a task to be over, or wait no longer.
    pub(crate) fn set_awaiting(&mut self, id: ConsumerId, new: Option<Awaiting>, now: Now) {
        self.wait_begins(now.mono);
        let ends = new.is_none();
        let before = self.items.tasks.awaited.put(id, new);
        let waited = before.as_ref().filter(|_| ends).map(|wait| wait.agent);
        self.journal.push(Undo::Task(TaskUndo::Awaiting(id, before)));
        // Whoever waited until now was there until now.
        if let Some(agent) = waited {
            self.hear_of(agent, now);
        }
    }
}
