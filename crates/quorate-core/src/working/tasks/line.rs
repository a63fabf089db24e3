//! Who waits for tasks: claims and streams, each with its credit and the targets it takes. In memory only; after a
//! restart they ask again.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::{AgentNo, ConsumerId};
use crate::task::TaskTarget;
use crate::working::tasks::TaskUndo;
use crate::working::{Map, Undo, Working};

/// Somebody who waits for tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Claimer {
    pub(crate) agent: AgentNo,
    /// What it takes, each once.
    pub(crate) targets: Arc<[TaskTarget]>,
    /// How many more tasks it takes.
    pub(crate) credit: u32,
    /// How long its leases last; `None` = as each task says.
    pub(crate) lease_ms: Option<u64>,
    /// Leaves after the first hand-over.
    pub(crate) once: bool,
    /// Its place in line.
    pub(crate) turn: u64,
}

/// Everybody who waits for tasks.
#[derive(Debug, Default)]
pub(crate) struct Line {
    claimers: Map<ConsumerId, Claimer>,
    /// For each target those who have credit, by turn.
    waiting: Map<TaskTarget, BTreeSet<(u64, ConsumerId)>>,
    /// All of each agent, with credit or without.
    of_agent: Map<AgentNo, BTreeSet<ConsumerId>>,
}

impl Line {
    pub(crate) fn get(&self, id: ConsumerId) -> Option<&Claimer> {
        self.claimers.get(&id)
    }

    /// How many of an agent there are.
    pub(crate) fn count_of(&self, agent: AgentNo) -> usize {
        self.of_agent.get(&agent).map_or(0, BTreeSet::len)
    }

    /// All of an agent.
    pub(crate) fn of_agent(&self, agent: AgentNo) -> Vec<ConsumerId> {
        self.of_agent.get(&agent).into_iter().flatten().copied().collect()
    }

    /// Whether somebody with credit waits for this.
    pub(crate) fn is_awaited(&self, target: &TaskTarget) -> bool {
        self.waiting.contains_key(target)
    }

    /// Those with credit who wait for this, first in line first.
    pub(crate) fn waiting_for(&self, target: &TaskTarget) -> impl Iterator<Item = (ConsumerId, &Claimer)> {
        let waiting = self.waiting.get(target).into_iter().flatten();
        waiting.filter_map(|(_, id)| Some((*id, self.claimers.get(id)?)))
    }

    pub(super) fn put(&mut self, id: ConsumerId, new: Option<Claimer>) -> Option<Claimer> {
        let old = self.claimers.remove(&id);
        // Most changes are of the credit alone, and leave the line as it is.
        let stays = matches!(
            (&old, &new),
            (Some(old), Some(new)) if (old.agent, old.turn, old.credit > 0) == (new.agent, new.turn, new.credit > 0)
                && old.targets == new.targets
        );
        if let Some(old) = old.as_ref().filter(|_| !stays) {
            self.leave(id, old);
        }
        if let Some(new) = new {
            if !stays {
                self.enter(id, &new);
            }
            self.claimers.insert(id, new);
        }
        old
    }

    fn enter(&mut self, id: ConsumerId, claimer: &Claimer) {
        self.of_agent.entry(claimer.agent).or_default().insert(id);
        if claimer.credit == 0 {
            return;
        }
        for target in &*claimer.targets {
            self.waiting.entry(target.clone()).or_default().insert((claimer.turn, id));
        }
    }

    fn leave(&mut self, id: ConsumerId, claimer: &Claimer) {
        if let Some(all) = self.of_agent.get_mut(&claimer.agent) {
            all.remove(&id);
            if all.is_empty() {
                self.of_agent.remove(&claimer.agent);
            }
        }
        for target in &*claimer.targets {
            if let Some(waiting) = self.waiting.get_mut(target) {
                waiting.remove(&(claimer.turn, id));
                if waiting.is_empty() {
                    self.waiting.remove(target);
                }
            }
        }
    }
}

impl Working {
    pub(crate) fn set_claimer(&mut self, id: ConsumerId, new: Option<Claimer>) {
        let before = self.items.tasks.line.put(id, new);
        self.journal.push(Undo::Task(TaskUndo::Claimer(id, before)));
    }

    /// Takes one credit from a claimer for a task that goes to it; it goes to the end of the line.
    pub(crate) fn spend_task_credit(&mut self, id: ConsumerId) {
        let Some(claimer) = self.items.tasks.line.get(id).cloned() else { return };
        let turn = self.next_turn();
        let credit = claimer.credit.saturating_sub(1);
        self.set_claimer(id, Some(Claimer { credit, turn, ..claimer }));
    }

    /// Sends away everybody who waits for tasks in the name of this agent.
    pub(in crate::working) fn dismiss_claimers(&mut self, agent: AgentNo) -> Vec<ConsumerId> {
        let gone = self.items.tasks.line.of_agent(agent);
        gone.iter().for_each(|id| self.set_claimer(*id, None));
        gone
    }
}
