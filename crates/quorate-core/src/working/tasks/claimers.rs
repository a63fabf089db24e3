//! Consumers of tasks: claims and streams, with their credit and targets. In memory only; clients reconnect after a
//! restart.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::{AgentNo, ConsumerId};
use crate::task::TaskTarget;
use crate::working::tasks::TaskUndo;
use crate::working::{Map, Undo, WorkingState};

/// A consumer of tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TaskClaimer {
    pub(crate) agent: AgentNo,
    /// The targets that it serves, without duplicates.
    pub(crate) targets: Arc<[TaskTarget]>,
    /// Number of further tasks that it accepts.
    pub(crate) credit: u32,
    /// Lease duration; `None` = the duration of each task.
    pub(crate) lease_ms: Option<u64>,
    /// Whether it is closed after the first dispatch.
    pub(crate) once: bool,
    /// Ticket number, which determines its place in the queue.
    pub(crate) ticket: u64,
}

/// All consumers of tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskClaimers {
    claimers: Map<ConsumerId, TaskClaimer>,
    /// For each target the consumers with credit, by ticket.
    waiting: Map<TaskTarget, BTreeSet<(u64, ConsumerId)>>,
    /// All consumers of each agent, with or without credit.
    of_agent: Map<AgentNo, BTreeSet<ConsumerId>>,
}

impl TaskClaimers {
    pub(crate) fn get(&self, id: ConsumerId) -> Option<&TaskClaimer> {
        self.claimers.get(&id)
    }

    /// Returns the number of consumers of an agent.
    pub(crate) fn count_of(&self, agent: AgentNo) -> usize {
        self.of_agent.get(&agent).map_or(0, BTreeSet::len)
    }

    /// Returns all consumers of an agent.
    pub(crate) fn of_agent(&self, agent: AgentNo) -> Vec<ConsumerId> {
        self.of_agent.get(&agent).into_iter().flatten().copied().collect()
    }

    /// Whether a consumer with credit waits for the target.
    pub(crate) fn has_waiting(&self, target: &TaskTarget) -> bool {
        self.waiting.contains_key(target)
    }

    /// Returns the consumers with credit that wait for the target, in queue order.
    pub(crate) fn waiting_for(
        &self,
        target: &TaskTarget,
    ) -> impl Iterator<Item = (ConsumerId, &TaskClaimer)> {
        let waiting = self.waiting.get(target).into_iter().flatten();
        waiting.filter_map(|(_, id)| Some((*id, self.claimers.get(id)?)))
    }

    pub(super) fn put(&mut self, id: ConsumerId, new: Option<TaskClaimer>) -> Option<TaskClaimer> {
        let old = self.claimers.remove(&id);
        // Most changes only concern the credit and leave the queue position unchanged.
        let keeps_position = matches!(
            (&old, &new),
            (Some(old), Some(new)) if (old.agent, old.ticket, old.credit > 0) == (new.agent, new.ticket, new.credit > 0)
                && old.targets == new.targets
        );
        if let Some(old) = old.as_ref().filter(|_| !keeps_position) {
            self.dequeue(id, old);
        }
        if let Some(new) = new {
            if !keeps_position {
                self.enqueue(id, &new);
            }
            self.claimers.insert(id, new);
        }
        old
    }

    fn enqueue(&mut self, id: ConsumerId, claimer: &TaskClaimer) {
        self.of_agent.entry(claimer.agent).or_default().insert(id);
        if claimer.credit == 0 {
            return;
        }
        for target in &*claimer.targets {
            self.waiting.entry(target.clone()).or_default().insert((claimer.ticket, id));
        }
    }

    fn dequeue(&mut self, id: ConsumerId, claimer: &TaskClaimer) {
        if let Some(ids) = self.of_agent.get_mut(&claimer.agent) {
            ids.remove(&id);
            if ids.is_empty() {
                self.of_agent.remove(&claimer.agent);
            }
        }
        for target in &*claimer.targets {
            if let Some(waiting) = self.waiting.get_mut(target) {
                waiting.remove(&(claimer.ticket, id));
                if waiting.is_empty() {
                    self.waiting.remove(target);
                }
            }
        }
    }
}

impl WorkingState {
    pub(crate) fn set_task_claimer(&mut self, id: ConsumerId, new: Option<TaskClaimer>) {
        let before = self.items.tasks.claimers.put(id, new);
        self.journal.push(Undo::Task(TaskUndo::Claimer(id, before)));
    }

    /// Deducts one credit for a dispatched task. The consumer moves to the end of the queue.
    pub(crate) fn spend_task_credit(&mut self, id: ConsumerId) {
        let Some(claimer) = self.items.tasks.claimers.get(id).cloned() else { return };
        let ticket = self.next_ticket();
        let credit = claimer.credit.saturating_sub(1);
        self.set_task_claimer(id, Some(TaskClaimer { credit, ticket, ..claimer }));
    }

    /// Closes all task consumers of an agent.
    pub(in crate::working) fn dismiss_task_claimers(&mut self, agent: AgentNo) -> Vec<ConsumerId> {
        let closed = self.items.tasks.claimers.of_agent(agent);
        closed.iter().for_each(|id| self.set_task_claimer(*id, None));
        closed
    }
}
