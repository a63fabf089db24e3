//! Detection of work that waits for agents that are gone, from plain lists.

use std::collections::BTreeMap;

use quorate_core::{
    AbsentAgent, AgentNo, AgentStatus, QueueId, StuckSubject, StuckWork, Task, TaskState, TaskTarget,
};

use crate::reference::transaction::Transaction;

/// Names in one description.
const NAMES_MAX: usize = 16;

impl Transaction<'_> {
    pub(super) fn stuck_work(&self, limit: usize) -> Vec<StuckWork> {
        let mut all = self.stuck_tasks();
        all.extend(self.stuck_pools());
        for number in (1..=self.space.agents.len() as u64).map(AgentNo) {
            let waiting = self.ready_in(QueueId::Agent(number));
            let agent = self.space.agent(number);
            if let Some(absent) = self.absent(number).filter(|_| waiting > 0 && !agent.removed) {
                let subject = StuckSubject::Inbox(agent.id.clone());
                all.push(StuckWork { subject, waiting, since: None, absent: vec![absent] });
            }
        }
        all.extend(self.stuck_locks());
        all.truncate(limit);
        all
    }

    fn stuck_tasks(&self) -> Vec<StuckWork> {
        let mut by_target: BTreeMap<TaskTarget, Vec<&Task>> = BTreeMap::new();
        for task in self.space.tasks() {
            if matches!(task.state, TaskState::Ready { .. }) {
                by_target.entry(task.spec.target()).or_default().push(task);
            }
        }
        let mut all = Vec::new();
        for (target, mut tasks) in by_target {
            tasks.sort_by_key(|task| task.spec.number);
            let first = tasks[0].spec.id.clone();
            let able: Vec<AgentNo> = match &target {
                TaskTarget::Agent(number) => vec![*number],
                TaskTarget::Can(capability) => (1..=self.space.agents.len() as u64)
                    .map(AgentNo)
                    .filter(|number| {
                        let agent = self.space.agent(*number);
                        !agent.removed && agent.capabilities.iter().any(|name| **name == **capability)
                    })
                    .collect(),
            };
            let Some(absent) = self.absent_among(&able) else { continue };
            if self.space.task_runtime.claimers.iter().any(|claimer| claimer.awaits(&target)) {
                continue;
            }
            let TaskState::Ready { since } = tasks[0].state else { continue };
            let subject = match target {
                TaskTarget::Agent(number) => {
                    StuckSubject::TasksOfAgent { agent: self.space.agent(number).id.clone(), first }
                }
                TaskTarget::Can(capability) => {
                    StuckSubject::TaskType { capability: capability.to_string(), first }
                }
            };
            all.push(StuckWork { subject, waiting: tasks.len(), since: Some(since), absent });
        }
        all
    }

    fn stuck_pools(&self) -> Vec<StuckWork> {
        let mut pools = self.space.pools();
        pools.sort_by_key(|pool| pool.number);
        let mut all = Vec::new();
        for pool in pools {
            let waiting = self.ready_in(QueueId::Pool(pool.number));
            let numbers = (1..=self.space.agents.len() as u64).map(AgentNo);
            let able: Vec<_> =
                numbers.filter(|number| self.space.pools_of(*number).contains(&pool.number)).collect();
            if let Some(absent) = self.absent_among(&able).filter(|_| waiting > 0) {
                let subject = StuckSubject::Capability(pool.capability.to_string());
                all.push(StuckWork { subject, waiting, since: None, absent });
            }
        }
        all
    }

    fn stuck_locks(&self) -> Vec<StuckWork> {
        let queue = self.space.lock_queue();
        let mut names: Vec<_> = queue.iter().flat_map(|waiter| waiter.names.clone()).collect();
        names.sort();
        names.dedup();
        let mut all = Vec::new();
        for name in names {
            let Some(lock) = self.space.lock(&name) else { continue };
            let holders: Vec<_> = lock.grants.iter().map(|grant| grant.holder).collect();
            let absent = self.absent_among(&holders).filter(|absent| !absent.is_empty());
            let Some(absent) = absent else { continue };
            let ends = self.space.holds.iter().filter(|hold| hold.name == name).map(|hold| hold.deadline);
            let until = ends.min().map(|at| self.wall(at));
            let waiting: Vec<_> = queue.iter().filter(|waiter| waiter.names.contains(&name)).collect();
            all.push(StuckWork {
                subject: StuckSubject::Lock { name, until },
                waiting: waiting.len(),
                since: waiting.first().map(|waiter| waiter.at),
                absent,
            });
        }
        all
    }

    fn ready_in(&self, queue: QueueId) -> usize {
        self.space
            .deliveries_where(|delivery| self.space.is_ready(delivery) && delivery.to.queue() == queue)
            .len()
    }

    /// Returns how these agents are gone; `None` if one of them is present.
    fn absent_among(&self, agents: &[AgentNo]) -> Option<Vec<AbsentAgent>> {
        let mut absent: Vec<_> = agents.iter().map(|number| self.absent(*number)).collect::<Option<_>>()?;
        absent.truncate(NAMES_MAX);
        Some(absent)
    }

    fn absent(&self, number: AgentNo) -> Option<AbsentAgent> {
        let agent = self.space.agent(number);
        let is_offline = agent.removed || agent.presence.status == AgentStatus::Offline;
        let disconnected = self.space.disconnected.get(&number).map(|at| self.wall(*at));
        if self.space.has_open_wait(number) || (!is_offline && disconnected.is_none()) {
            return None;
        }
        let disconnected_at = if is_offline { None } else { disconnected };
        Some(AbsentAgent { agent: agent.id.clone(), disconnected_at })
    }
}
