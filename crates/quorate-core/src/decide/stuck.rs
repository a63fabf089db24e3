//! Detection of work that waits for agents that are gone. Read-only.

use crate::decide::Draft;
use crate::ids::{AgentNo, LockName, PoolNo};
use crate::item::{ItemKey, ItemKind};
use crate::limits::REFUSAL_NAMES_MAX;
use crate::presence::AgentStatus;
use crate::recipient::QueueId;
use crate::stuck::{AbsentAgent, StuckSubject, StuckWork};
use crate::task::{Task, TaskState, TaskTarget};

impl Draft<'_> {
    /// Returns up to `limit` groups of work that no agent will do soon: tasks, then messages, then locks.
    pub(super) fn stuck_work(&self, limit: usize) -> Vec<StuckWork> {
        let mut targets: Vec<_> = self.working.tasks().ready_targets().collect();
        targets.sort_unstable();
        let tasks = targets.into_iter().filter_map(|target| self.stuck_tasks(target));
        let pools = (1..=self.working.pools().len() as u64).map(PoolNo);
        let pools = pools.filter_map(|pool| self.stuck_pool(pool));
        let agents = self.working.agents().iter().filter(|(_, agent)| !agent.removed);
        let inboxes = agents.filter_map(|(number, _)| self.stuck_inbox(number));
        let mut names: Vec<_> = self.working.locks().awaited().collect();
        names.sort_unstable();
        let locks = names.into_iter().filter_map(|name| self.stuck_lock(name));
        tasks.chain(pools).chain(inboxes).chain(locks).take(limit).collect()
    }

    fn stuck_tasks(&self, target: &TaskTarget) -> Option<StuckWork> {
        let tasks = self.working.tasks();
        if tasks.claimers().has_waiting(target) {
            return None;
        }
        let (waiting, oldest) = tasks.ready_of(target)?;
        let task = tasks.by_number(oldest)?;
        let first = task.spec.id.clone();
        let (subject, absent) = match target {
            TaskTarget::Can(capability) => {
                let absent = self.absent_among(self.working.agents().capable(capability))?;
                (StuckSubject::TaskType { capability: capability.to_string(), first }, absent)
            }
            TaskTarget::Agent(number) => {
                let absent = vec![self.absent(*number)?];
                let agent = self.working.agents().get(*number)?.id.clone();
                (StuckSubject::TasksOfAgent { agent, first }, absent)
            }
        };
        Some(StuckWork { subject, waiting, since: ready_since(task), absent })
    }

    fn stuck_pool(&self, number: PoolNo) -> Option<StuckWork> {
        let waiting = self.working.inbox_at(QueueId::Pool(number)).ready_numbers().count();
        let pool = self.working.pools().get(number).filter(|_| waiting > 0)?;
        let agents = self.working.agents();
        let capable = agents.capable(pool.capability.as_str()).iter();
        let capable: Vec<_> = capable
            .filter(|number| agents.get(**number).is_some_and(|agent| pool.is_open_to(agent)))
            .copied()
            .collect();
        let absent = self.absent_among(&capable)?;
        let subject = StuckSubject::Capability(pool.capability.to_string());
        Some(StuckWork { subject, waiting, since: None, absent })
    }

    fn stuck_inbox(&self, number: AgentNo) -> Option<StuckWork> {
        let inbox = self.working.inbox(number);
        if !inbox.has_ready() {
            return None;
        }
        let absent = self.absent(number)?;
        let subject = StuckSubject::Inbox(absent.agent.clone());
        Some(StuckWork { subject, waiting: inbox.ready_numbers().count(), since: None, absent: vec![absent] })
    }

    fn stuck_lock(&self, name: &LockName) -> Option<StuckWork> {
        let locks = self.working.locks();
        let lock = locks.get(name)?;
        let holders: Vec<_> = lock.grants.iter().map(|grant| grant.holder).collect();
        let absent = self.absent_among(&holders).filter(|absent| !absent.is_empty())?;
        let key = ItemKey::new(ItemKind::Lock, name.as_str());
        let ends = lock.grants.iter().filter_map(|grant| self.working.items().deadline(&key, grant.fence.0));
        let until = ends.min().map(|at| self.wall_at(at));
        let first = locks.first_waiter(name).and_then(|id| locks.waiter(id));
        Some(StuckWork {
            subject: StuckSubject::Lock { name: name.clone(), until },
            waiting: locks.queue_length(name),
            since: first.map(|waiter| waiter.at),
            absent,
        })
    }

    /// Returns how these agents are gone, up to a number of names; `None` if one of them is present.
    fn absent_among(&self, agents: &[AgentNo]) -> Option<Vec<AbsentAgent>> {
        let mut absent = Vec::new();
        for number in agents {
            let found = self.absent(*number)?;
            if absent.len() < REFUSAL_NAMES_MAX {
                absent.push(found);
            }
        }
        Some(absent)
    }

    /// Returns how an agent is gone: offline, or disconnected. `None` if it is present.
    fn absent(&self, number: AgentNo) -> Option<AbsentAgent> {
        let agent = self.working.agents().get(number)?;
        let is_offline = agent.removed || agent.presence.status == AgentStatus::Offline;
        let disconnected_at = self.disconnected_at(number).filter(|_| !is_offline);
        let is_absent = (is_offline || disconnected_at.is_some()) && !self.working.has_waiting_client(number);
        is_absent.then(|| AbsentAgent { agent: agent.id.clone(), disconnected_at })
    }
}

fn ready_since(task: &Task) -> Option<crate::time::Timestamp> {
    match task.state {
        TaskState::Ready { since } => Some(since),
        _ => None,
    }
}
