//! Tasks, implemented with plain loops over all of them.

mod claim;
mod create;
mod end;
mod wait_for_end;

use std::collections::BTreeMap;

use bytes::Bytes;
use quorate_core::{
    AgentNo, Code, ConsumerId, Item, ItemKey, ItemKind, Mono, NextWake, Refused, Seq, Task, TaskCounts,
    TaskId, TaskState, TaskStatus, TaskTarget, Timestamp,
};

use crate::reference::space::{Fairness, Space};
use crate::reference::transaction::Transaction;

pub(super) use wait_for_end::TaskWaiter;

/// In-memory state of tasks, in addition to their items. A restart clears it, except for the leases, which restart with
/// their full duration.
#[derive(Clone, Default)]
pub(super) struct TaskRuntime {
    /// Deadlines of leases and of attempts. The flag is true for an attempt.
    deadlines: BTreeMap<(TaskId, u64, bool), Mono>,
    /// Waiting claims, in queue order.
    pub(super) claimers: Vec<WaitingClaim>,
    /// Consumer that received each task through a waiting claim.
    receivers: BTreeMap<TaskId, ConsumerId>,
    /// Record that leased each task.
    pub(super) leased_in: BTreeMap<TaskId, Seq>,
    fairness: BTreeMap<TaskTarget, Fairness>,
    /// Small inputs, which are included in the claim result.
    inputs: BTreeMap<TaskId, Bytes>,
}

#[derive(Clone)]
pub(super) struct WaitingClaim {
    pub(super) id: ConsumerId,
    pub(super) agent: AgentNo,
    targets: Vec<TaskTarget>,
    credit: u32,
    lease_ms: Option<u64>,
    once: bool,
}

impl WaitingClaim {
    /// Whether it would receive a task of this target now.
    pub(super) fn awaits(&self, target: &TaskTarget) -> bool {
        self.credit > 0 && self.targets.contains(target)
    }
}

impl Space {
    /// Whether an agent has a waiting claim that would receive a task assigned to it.
    pub(super) fn has_claim_for_own_tasks(&self, agent: AgentNo) -> bool {
        let own = TaskTarget::Agent(agent);
        self.task_runtime.claimers.iter().any(|claimer| claimer.credit > 0 && claimer.targets.contains(&own))
    }

    /// Returns all tasks in creation order.
    pub(super) fn tasks(&self) -> Vec<&Task> {
        let mut tasks: Vec<&Task> = Vec::new();
        for item in self.items.values() {
            if let Item::Task(task) = item {
                tasks.push(task);
            }
        }
        tasks.sort_by_key(|task| task.spec.number);
        tasks
    }

    pub(super) fn task(&self, id: &TaskId) -> Option<&Task> {
        match self.items.get(&ItemKey::new(ItemKind::Task, id.to_shared())) {
            Some(Item::Task(task)) => Some(task),
            _ => None,
        }
    }

    fn status_of(&self, id: &TaskId) -> Option<TaskStatus> {
        self.task(id).map(Task::status)
    }

    pub(super) fn task_counts(&self) -> TaskCounts {
        let mut counts = TaskCounts::default();
        self.tasks().iter().for_each(|task| counts.add(task.status()));
        counts
    }

    /// Counts the open tasks assigned to an agent.
    pub(super) fn count_assigned_tasks(&self, agent: AgentNo) -> usize {
        let open = |task: &&&Task| !task.status().has_ended() && task.spec.agent == Some(agent);
        self.tasks().iter().filter(open).count()
    }

    /// Counts the open tasks that an agent created.
    pub(super) fn count_created_tasks(&self, agent: AgentNo) -> usize {
        let open = |task: &&&Task| !task.status().has_ended() && task.spec.creator == Some(agent);
        self.tasks().iter().filter(open).count()
    }

    pub(super) fn tasks_held_by(&self, agent: AgentNo) -> Vec<Task> {
        let held = |task: &&Task| task.lease().is_some_and(|lease| lease.by == agent);
        self.tasks().into_iter().filter(held).cloned().collect()
    }

    /// Returns the end of the lease of a task.
    pub(super) fn task_lease_end(&self, task: &Task) -> Option<Mono> {
        let key = (task.spec.id.clone(), task.lease()?.token.0, false);
        self.task_runtime.deadlines.get(&key).copied()
    }

    pub(super) fn restart_tasks(&mut self, now: Mono) {
        let mut runtime = TaskRuntime::default();
        for task in self.tasks() {
            runtime.deadlines.extend(deadlines_of(task, now));
        }
        self.task_runtime = runtime;
    }

    pub(super) fn wake_for_tasks(&self, mut wake: NextWake) -> NextWake {
        for task in self.tasks() {
            if let TaskState::Scheduled { due } = task.state {
                wake.wall = Some(wake.wall.map_or(due, |old: Timestamp| old.min(due)));
            }
        }
        for deadline in self.task_runtime.deadlines.values() {
            wake.mono = Some(wake.mono.map_or(*deadline, |old: Mono| old.min(*deadline)));
        }
        wake
    }

    /// Drops the cached inputs of a record after an erasure. Remaining inputs can be read from the record.
    pub(super) fn drop_cached_inputs(&mut self, seq: Seq) {
        let is_from_record = |id: &TaskId| self.task(id).is_none_or(|task| task.spec.number.seq == seq);
        let cached: Vec<TaskId> =
            self.task_runtime.inputs.keys().filter(|id| is_from_record(id)).cloned().collect();
        cached.iter().for_each(|id| drop(self.task_runtime.inputs.remove(id)));
    }

    /// Removes and returns the waiting claims of an agent.
    pub(super) fn remove_waiting_claims(&mut self, agent: AgentNo) -> Vec<ConsumerId> {
        let claimers = &mut self.task_runtime.claimers;
        let mut dismissed: Vec<_> =
            claimers.iter().filter(|claimer| claimer.agent == agent).map(|claimer| claimer.id).collect();
        dismissed.sort_unstable();
        claimers.retain(|claimer| claimer.agent != agent);
        dismissed
    }
}

/// Returns the deadlines of a lease and its attempt that begin now.
fn deadlines_of(task: &Task, now: Mono) -> Vec<((TaskId, u64, bool), Mono)> {
    let Some(lease) = task.lease() else { return Vec::new() };
    let (id, token) = (task.spec.id.clone(), lease.token.0);
    let mut deadlines = vec![((id.clone(), token, false), now.plus_ms(lease.length_ms.get()))];
    if let Some(timeout) = task.spec.timeout_ms {
        deadlines.push(((id, token, true), now.plus_ms(timeout.get())));
    }
    deadlines
}

impl Transaction<'_> {
    /// Stores the new state of a task. Timers that are already running continue.
    fn set_task(&mut self, task: Task) {
        let runtime = &mut self.space.task_runtime;
        let running = deadlines_of(&task, self.now.mono);
        runtime.deadlines.retain(|key, _| key.0 != task.spec.id || running.iter().any(|(new, _)| new == key));
        for (key, deadline) in running {
            runtime.deadlines.entry(key).or_insert(deadline);
        }
        if task.lease().is_none() {
            runtime.receivers.remove(&task.spec.id);
            runtime.leased_in.remove(&task.spec.id);
        }
        if task.status().has_ended() {
            runtime.inputs.remove(&task.spec.id);
        }
        let ended = task.status().has_ended().then(|| task.spec.id.clone());
        self.set_item(Item::Task(task));
        if let Some(id) = ended {
            self.notify_task_waiters(&id);
        }
    }
}

fn no_such_task(id: &TaskId) -> Refused {
    Refused::new(Code::NotFound, format!("unknown task {id}"))
}
