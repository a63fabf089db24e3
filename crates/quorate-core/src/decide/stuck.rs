//! Detection of work that waits for agents that are gone, or that they hold. Read-only.

use crate::decide::Draft;
use crate::ids::{AgentNo, LockName, PoolNo};
use crate::inspect::TaskInspection;
use crate::item::{ItemKey, ItemKind};
use crate::limits::{HELD_SCANNED_MAX, REFUSAL_NAMES_MAX};
use crate::lock::Grant;
use crate::presence::{Absence, AbsentAgent, AgentStatus, LastSeen};
use crate::procedure::{Procedure, ProcedureStatus};
use crate::recipient::QueueId;
use crate::stuck::{HeldCount, StuckSubject, StuckWork};
use crate::task::{Task, TaskNo, TaskState, TaskTarget};
use crate::time::{Mono, Timestamp};

impl Draft<'_> {
    /// Returns up to `limit` groups of work that no agent will do soon: tasks, messages, locks, blocked tasks, procedures,
    /// then what absent agents hold.
    pub(super) fn stuck_work(&self, limit: usize) -> Vec<StuckWork> {
        let mut targets: Vec<_> = self.working.tasks().ready_targets().collect();
        targets.sort_unstable();
        let tasks = targets.into_iter().filter_map(|target| self.stuck_tasks(target));
        let pools = (1..=self.working.pools().len() as u64).map(PoolNo);
        let pools = pools.filter_map(|pool| self.stuck_pool(pool));
        let agents = || self.working.agents().iter().filter(|(_, agent)| !agent.removed);
        let inboxes = agents().filter_map(|(number, _)| self.stuck_inbox(number));
        let mut names: Vec<_> = self.working.locks().awaited().collect();
        names.sort_unstable();
        let locks = names.into_iter().filter_map(|name| self.stuck_lock(name));
        let held = agents().filter_map(|(number, _)| self.held_by_absent(number));
        let waiting = tasks.chain(pools).chain(inboxes).chain(locks);
        let procedures = self.stuck_procedures().chain(self.stuck_waits());
        let waiting = waiting.chain(self.stuck_dependencies()).chain(procedures);
        waiting.chain(held).take(limit).collect()
    }

    fn stuck_tasks(&self, target: &TaskTarget) -> Option<StuckWork> {
        let tasks = self.working.tasks();
        let absent = self.absent_claimers(target)?;
        let (waiting, oldest) = tasks.ready_of(target)?;
        let task = tasks.by_number(oldest)?;
        let first = task.spec.id.clone();
        let subject = match target {
            TaskTarget::Can(capability) => {
                StuckSubject::TaskType { capability: capability.to_string(), first }
            }
            TaskTarget::Agent(number) => {
                let agent = self.working.agents().get(*number)?.id.clone();
                StuckSubject::TasksOfAgent { agent, first }
            }
        };
        Some(StuckWork { subject, waiting, since: ready_since(task), absent })
    }

    /// Returns how the agents are gone that could claim ready tasks of a target; `None` if one of them is present.
    fn absent_claimers(&self, target: &TaskTarget) -> Option<Vec<AbsentAgent>> {
        if self.working.tasks().claimers().has_waiting(target) {
            return None;
        }
        match target {
            TaskTarget::Can(capability) => self.absent_among(self.working.agents().capable(capability)),
            TaskTarget::Agent(number) => Some(vec![self.absent(*number)?]),
        }
    }

    fn stuck_pool(&self, number: PoolNo) -> Option<StuckWork> {
        let waiting = self.working.inbox_at(QueueId::Pool(number)).ready_numbers().count();
        let pool = self.working.pools().get(number).filter(|_| waiting > 0)?;
        let absent = self.absent_servers(number)?;
        let subject = StuckSubject::Capability(pool.capability.to_string());
        Some(StuckWork { subject, waiting, since: None, absent })
    }

    /// Returns how the agents are gone that could claim deliveries of a pool; `None` if one of them is present.
    pub(super) fn absent_servers(&self, number: PoolNo) -> Option<Vec<AbsentAgent>> {
        let pool = self.working.pools().get(number)?;
        let agents = self.working.agents();
        let capable = agents.capable(pool.capability.as_str()).iter();
        let capable: Vec<_> = capable
            .filter(|number| agents.get(**number).is_some_and(|agent| pool.is_open_to(agent)))
            .copied()
            .collect();
        self.absent_among(&capable)
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
        let absent = self.absent_holders(name)?;
        let ends = lock.grants.iter().filter_map(|grant| self.grant_end(name, grant));
        let until = ends.min().map(|at| self.wall_at(at));
        let first = locks.first_waiter(name).and_then(|id| locks.waiter(id));
        Some(StuckWork {
            subject: StuckSubject::Lock { name: name.clone(), until },
            waiting: locks.queue_length(name),
            since: first.map(|waiter| waiter.at),
            absent,
        })
    }

    /// Returns how the holders of a held lock are gone; `None` if one of them is present.
    fn absent_holders(&self, name: &LockName) -> Option<Vec<AbsentAgent>> {
        let lock = self.working.locks().get(name)?;
        let holders: Vec<_> = lock.grants.iter().map(|grant| grant.holder).collect();
        self.absent_among(&holders).filter(|absent| !absent.is_empty())
    }

    fn grant_end(&self, name: &LockName, grant: &Grant) -> Option<Mono> {
        self.working.items().deadline(&ItemKey::new(ItemKind::Lock, name.as_str()), grant.fence.0)
    }

    /// Returns the tasks that stay blocked until they are cancelled, by the first dependency that did not succeed.
    fn stuck_dependencies(&self) -> impl Iterator<Item = StuckWork> {
        let tasks = self.working.tasks();
        tasks.held_back().filter_map(|(dependency, blocked)| {
            let first = tasks.by_number(*blocked.first()?)?.spec.id.clone();
            let subject = StuckSubject::Dependency { task: dependency.clone(), first };
            Some(StuckWork { subject, waiting: blocked.len(), since: None, absent: Vec::new() })
        })
    }

    /// Returns the running procedures of absent drivers, by driver.
    fn stuck_procedures(&self) -> impl Iterator<Item = StuckWork> {
        let is_running = |procedure: &&Procedure| procedure.status == ProcedureStatus::Running;
        let mut running: Vec<_> = self.working.items().procedures.iter().filter(is_running).collect();
        running.sort_unstable_by(|a, b| (&a.driver, &a.id).cmp(&(&b.driver, &b.id)));
        let groups: Vec<_> = running
            .chunk_by(|a, b| a.driver == b.driver)
            .filter_map(|procedures| {
                let (first, driver) = (procedures.first()?, procedures.first()?.driver.clone()?);
                let absent = vec![self.absent_driver(first)?];
                let since = procedures.iter().map(|procedure| procedure.stepped_at).min();
                let subject = StuckSubject::Procedures { driver, first: first.id.clone() };
                Some(StuckWork { subject, waiting: procedures.len(), since, absent })
            })
            .collect();
        groups.into_iter()
    }

    /// Returns how the driver of a procedure is gone; `None` if it is present, or an operator.
    pub(super) fn absent_driver(&self, procedure: &Procedure) -> Option<AbsentAgent> {
        let driver = procedure.driver.as_ref()?;
        match self.working.agents().number(driver) {
            Some(number) => self.absent(number),
            None => Some(AbsentAgent { agent: driver.clone(), absence: Absence::Removed }),
        }
    }

    /// Returns what an absent agent holds: tasks, messages, and locks except those that [`Draft::stuck_lock`] returns.
    fn held_by_absent(&self, number: AgentNo) -> Option<StuckWork> {
        let (tasks, deliveries) = (self.working.tasks().held(number), &self.working.inbox(number).leased);
        let locks = self.working.locks().held_by(number);
        if tasks.is_empty() && deliveries.is_empty() && locks.is_empty() {
            return None;
        }
        let absent = self.absent(number)?;
        let has_queue = |name: &LockName| self.working.locks().queue_length(name) > 0;
        let is_listed = |name: &LockName| has_queue(name) && self.absent_holders(name).is_some();
        let locks: Vec<_> = locks.into_iter().filter(|name| !is_listed(name)).collect();
        let count = HeldCount { tasks: tasks.len(), messages: deliveries.len(), locks: locks.len() };
        if count.total() == 0 {
            return None;
        }
        let until = (count.total() <= HELD_SCANNED_MAX).then(|| {
            let tasks = tasks.iter().filter_map(|task| self.task_lease_end(*task));
            let deliveries = deliveries.iter().filter_map(|held| Some(self.working.lease(*held)?.deadline));
            let locks = locks.iter().flat_map(|name| self.grant_ends_of(name, number));
            tasks.chain(deliveries).chain(locks).min().map(|at| self.wall_at(at))
        });
        let first_task = tasks.first().and_then(|task| self.working.tasks().by_number(*task));
        let subject = StuckSubject::Held {
            agent: absent.agent.clone(),
            count,
            first_task: first_task.map(|task| task.spec.id.clone()),
            first_lock: locks.first().cloned(),
            until: until.flatten(),
        };
        Some(StuckWork { subject, waiting: count.total(), since: None, absent: vec![absent] })
    }

    fn grant_ends_of(&self, name: &LockName, holder: AgentNo) -> impl Iterator<Item = Mono> {
        let grants = self.working.locks().get(name).into_iter().flat_map(|lock| &lock.grants);
        let own = grants.filter(move |grant| grant.holder == holder);
        own.filter_map(|grant| self.grant_end(name, grant))
    }

    fn task_lease_end(&self, number: TaskNo) -> Option<Mono> {
        let task = self.working.tasks().by_number(number)?;
        let key = ItemKey::new(ItemKind::Task, task.spec.id.to_shared());
        self.working.items().deadline(&key, task.lease()?.token.0)
    }

    /// Returns the end of the lease of a task, and how the agents are gone that hold it or could claim it.
    pub(super) fn inspect_task(&self, task: &Task) -> TaskInspection {
        let absent = match &task.state {
            TaskState::Leased(lease) => self.absent(lease.by).map(|absent| vec![absent]),
            TaskState::Ready { .. } => self.absent_claimers(&task.spec.target()),
            _ => None,
        };
        let lease_until = self.task_lease_end(task.spec.number).map(|at| self.wall_at(at));
        TaskInspection { lease_until, absent }
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

    /// Returns how an agent is gone; `None` if it is present.
    pub(super) fn absent(&self, number: AgentNo) -> Option<AbsentAgent> {
        let agent = self.working.agents().get(number)?;
        let absence = self.absence(number)?;
        Some(AbsentAgent { agent: agent.id.clone(), absence })
    }

    fn absence(&self, number: AgentNo) -> Option<Absence> {
        let agent = self.working.agents().get(number)?;
        if agent.removed {
            return Some(Absence::Removed);
        }
        if self.working.has_waiting_client(number) {
            return None;
        }
        if agent.presence.status == AgentStatus::Offline {
            return Some(Absence::Offline);
        }
        let not_seen = || match self.last_seen(number) {
            LastSeen::At(_) => None,
            LastSeen::BeforeRestart(at) => Some(Absence::BeforeRestart(at)),
        };
        self.disconnected_at(number).map(Absence::Disconnected).or_else(not_seen)
    }
}

fn ready_since(task: &Task) -> Option<Timestamp> {
    match task.state {
        TaskState::Ready { since } => Some(since),
        _ => None,
    }
}
