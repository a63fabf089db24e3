//! Detection of work that waits for agents that are gone, from plain lists.

use std::collections::BTreeMap;

use quorate_core::{
    Absence, AbsentAgent, AgentId, AgentNo, AgentStatus, Grant, HeldCount, Item, Lock, Mono, PoolNo,
    Procedure, ProcedureInspection, ProcedureStatus, ProcedureWait, ProcedureWaitSubject, QueueId,
    StuckSubject, StuckWork, Task, TaskId, TaskInspection, TaskState, TaskTarget,
};

use crate::reference::space::DeliveryPhase;
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
        all.extend(self.stuck_dependencies());
        all.extend(self.stuck_procedures());
        all.extend(self.stuck_waits());
        for number in (1..=self.space.agents.len() as u64).map(AgentNo) {
            all.extend(self.held_by_absent(number));
        }
        all.truncate(limit);
        all
    }

    /// Returns the state of a task that an explanation needs.
    pub(super) fn inspect_task(&self, id: &TaskId) -> TaskInspection {
        let Some(task) = self.space.task(id) else { return TaskInspection::default() };
        let lease_until = self.space.task_lease_end(task).map(|at| self.wall(at));
        let absent = match &task.state {
            TaskState::Leased(lease) => self.absent(lease.by).map(|absent| vec![absent]),
            TaskState::Ready { .. } => self.absent_claimers(&task.spec.target()),
            _ => None,
        };
        TaskInspection { lease_until, absent }
    }

    fn absent_claimers(&self, target: &TaskTarget) -> Option<Vec<AbsentAgent>> {
        if self.space.task_runtime.claimers.iter().any(|claimer| claimer.awaits(target)) {
            return None;
        }
        let able: Vec<AgentNo> = match target {
            TaskTarget::Agent(number) => vec![*number],
            TaskTarget::Can(capability) => (1..=self.space.agents.len() as u64)
                .map(AgentNo)
                .filter(|number| {
                    let agent = self.space.agent(*number);
                    !agent.removed && agent.capabilities.iter().any(|name| **name == **capability)
                })
                .collect(),
        };
        self.absent_among(&able)
    }

    pub(super) fn absent_servers(&self, pool: PoolNo) -> Option<Vec<AbsentAgent>> {
        let numbers = (1..=self.space.agents.len() as u64).map(AgentNo);
        let able: Vec<_> = numbers.filter(|number| self.space.pools_of(*number).contains(&pool)).collect();
        self.absent_among(&able)
    }

    pub(super) fn absent_driver(&self, procedure: &Procedure) -> Option<AbsentAgent> {
        let driver = procedure.driver.as_ref()?;
        match self.space.agent_number(driver) {
            Some(number) => self.absent(number),
            None => Some(AbsentAgent { agent: driver.clone(), absence: Absence::Removed }),
        }
    }

    pub(super) fn stuck_waits(&self) -> Vec<StuckWork> {
        let mut procedures: Vec<_> = self.space.procedures().collect();
        procedures.sort_by(|a, b| a.id.cmp(&b.id));
        let mut found: BTreeMap<String, StuckWork> = BTreeMap::new();
        for procedure in procedures.into_iter().filter(|found| found.status == ProcedureStatus::Running) {
            let mut names = Vec::new();
            for wait in self.awaited_work(procedure) {
                let Some(absent) = wait.absent else { continue };
                let (ProcedureWaitSubject::Answer { of } | ProcedureWaitSubject::Task { of, .. }) =
                    wait.subject
                else {
                    continue;
                };
                let subject = StuckSubject::ProcedureWaits { on: of.clone(), first: procedure.id.clone() };
                let first = StuckWork { subject, waiting: 0, since: None, absent };
                let work = found.entry(of.clone()).or_insert(first);
                if !names.contains(&of) {
                    work.waiting += 1;
                    names.push(of);
                }
            }
        }
        found.into_values().collect()
    }

    pub(super) fn inspect_procedure(&self, procedure: &Procedure) -> ProcedureInspection {
        let mut waits = self.awaited_work(procedure);
        waits.sort_by_key(|wait| wait.absent.is_none());
        let driver = procedure.driver.as_ref().and_then(|driver| self.space.agent_number(driver));
        let mut others = Vec::new();
        for item in self.space.items.values() {
            match item {
                Item::Approval(approval)
                    if approval.is_pending()
                        && driver.is_some()
                        && approval.agent == driver
                        && approval.session.as_deref() == Some(procedure.id.as_str()) =>
                {
                    others.push((
                        0,
                        approval.id.to_string(),
                        ProcedureWaitSubject::Decision(approval.id.clone()),
                    ));
                }
                Item::Procedure(child)
                    if !child.status.has_ended() && child.parent.as_ref() == Some(&procedure.id) =>
                {
                    let subject = ProcedureWaitSubject::Child(child.id.clone(), child.status);
                    others.push((1, child.id.to_string(), subject));
                }
                _ => {}
            }
        }
        others.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        waits.extend(others.into_iter().map(|(_, _, subject)| ProcedureWait { subject, absent: None }));
        let more = waits.len().saturating_sub(NAMES_MAX);
        waits.truncate(NAMES_MAX);
        ProcedureInspection { absent_driver: self.absent_driver(procedure), waits, more }
    }

    /// Returns the answers, then the tasks that a procedure waits for, oldest first.
    fn awaited_work(&self, procedure: &Procedure) -> Vec<ProcedureWait> {
        let driver = procedure.driver.as_ref().and_then(|driver| self.space.agent_number(driver));
        let Some(driver) = driver else { return Vec::new() };
        let mut requests = self.space.open_requests();
        requests.retain(|request| request.from == driver && request.correlation == procedure.id.as_str());
        requests.sort_by_key(|request| (request.id.seq, request.id.n));
        let mut waits = Vec::new();
        for to in requests.iter().flat_map(|request| request.missing()) {
            let queue = to.agent_no().map_or(to.queue(), QueueId::Agent);
            let absent = match queue {
                QueueId::Agent(agent) => self.absent(agent).map(|absent| vec![absent]),
                QueueId::Pool(pool) => self.absent_servers(pool),
            };
            waits.push(ProcedureWait {
                subject: ProcedureWaitSubject::Answer { of: self.space.queue_name(queue) },
                absent,
            });
        }
        let mut tasks = self.space.tasks();
        tasks.retain(|task| {
            !task.status().has_ended()
                && task.spec.creator == Some(driver)
                && task.spec.session.as_deref() == Some(procedure.id.as_str())
        });
        tasks.sort_by_key(|task| task.spec.number);
        for task in tasks {
            let of = match (&task.state, task.spec.target()) {
                (TaskState::Leased(lease), _) => self.space.agent(lease.by).id.to_string(),
                (_, TaskTarget::Agent(agent)) => self.space.agent(agent).id.to_string(),
                (_, TaskTarget::Can(capability)) => format!("can:{capability}"),
            };
            let task = task.spec.id.clone();
            let absent = self.inspect_task(&task).absent;
            waits.push(ProcedureWait { subject: ProcedureWaitSubject::Task { task, of }, absent });
        }
        waits
    }

    fn stuck_dependencies(&self) -> Vec<StuckWork> {
        let mut blocked: BTreeMap<&TaskId, Vec<&Task>> = BTreeMap::new();
        for task in self.space.tasks() {
            if let TaskState::Blocked { held_by } = &task.state
                && let Some(dependency) = held_by.first()
            {
                blocked.entry(dependency).or_default().push(task);
            }
        }
        let work = |(dependency, tasks): (&TaskId, Vec<&Task>)| StuckWork {
            subject: StuckSubject::Dependency { task: dependency.clone(), first: tasks[0].spec.id.clone() },
            waiting: tasks.len(),
            since: None,
            absent: Vec::new(),
        };
        blocked.into_iter().map(work).collect()
    }

    fn stuck_procedures(&self) -> Vec<StuckWork> {
        let mut by_driver: BTreeMap<AgentId, Vec<&Procedure>> = BTreeMap::new();
        for procedure in self.space.procedures() {
            if let (ProcedureStatus::Running, Some(driver)) = (procedure.status, &procedure.driver) {
                by_driver.entry(driver.clone()).or_default().push(procedure);
            }
        }
        let mut all = Vec::new();
        for (driver, mut procedures) in by_driver {
            procedures.sort_by(|a, b| a.id.cmp(&b.id));
            let Some(absent) = self.absent_driver(procedures[0]) else { continue };
            all.push(StuckWork {
                subject: StuckSubject::Procedures { driver, first: procedures[0].id.clone() },
                waiting: procedures.len(),
                since: procedures.iter().map(|procedure| procedure.stepped_at).min(),
                absent: vec![absent],
            });
        }
        all
    }

    /// Returns what an absent agent holds: tasks, messages, and locks that are not listed with their queue.
    fn held_by_absent(&self, number: AgentNo) -> Option<StuckWork> {
        let absent = self.absent(number).filter(|_| !self.space.agent(number).removed)?;
        let (tasks, deliveries) = (self.space.tasks_held_by(number), self.space.held_by(number));
        let listed: Vec<_> = self.stuck_locks().into_iter().map(|work| work.subject).collect();
        let is_listed = |lock: &Lock| {
            listed
                .iter()
                .any(|subject| matches!(subject, StuckSubject::Lock { name, .. } if *name == lock.name))
        };
        let mut locks = self.space.locks();
        locks.retain(|lock| lock.grants.iter().any(|grant| grant.holder == number) && !is_listed(lock));
        locks.sort_by(|a, b| a.name.cmp(&b.name));
        let count = HeldCount { tasks: tasks.len(), messages: deliveries.len(), locks: locks.len() };
        let mut ends: Vec<Mono> = tasks.iter().filter_map(|task| self.space.task_lease_end(task)).collect();
        for delivery in deliveries {
            if let Some(DeliveryPhase::Leased { deadline, .. }) =
                self.space.delivery(delivery).map(|delivery| &delivery.phase)
            {
                ends.push(*deadline);
            }
        }
        for hold in &self.space.holds {
            let is_own = |grant: &Grant| grant.fence == hold.fence && grant.holder == number;
            if locks.iter().any(|lock| lock.name == hold.name && lock.grants.iter().any(is_own)) {
                ends.push(hold.deadline);
            }
        }
        let subject = StuckSubject::Held {
            agent: absent.agent.clone(),
            count,
            first_task: tasks.first().map(|task| task.spec.id.clone()),
            first_lock: locks.first().map(|lock| lock.name.clone()),
            until: ends.into_iter().min().map(|at| self.wall(at)),
        };
        let work = StuckWork { subject, waiting: count.total(), since: None, absent: vec![absent] };
        (work.waiting > 0).then_some(work)
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
            let Some(absent) = self.absent_claimers(&target) else { continue };
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
            if let Some(absent) = self.absent_servers(pool.number).filter(|_| waiting > 0) {
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

    pub(super) fn absent(&self, number: AgentNo) -> Option<AbsentAgent> {
        let agent = self.space.agent(number);
        let (disconnected, last_seen) =
            (self.space.disconnected.get(&number), self.space.last_seen[number.0 as usize - 1]);
        let absence = if agent.removed {
            Absence::Removed
        } else if self.space.has_open_wait(number) {
            return None;
        } else if agent.presence.status == AgentStatus::Offline {
            Absence::Offline
        } else if let Some(at) = disconnected {
            Absence::Disconnected(self.wall(*at))
        } else if !last_seen.since_restart {
            Absence::BeforeRestart(self.wall(last_seen.at))
        } else {
            return None;
        };
        Some(AbsentAgent { agent: agent.id.clone(), absence })
    }
}
