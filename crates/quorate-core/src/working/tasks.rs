//! Open tasks, with all indexes over them: dependencies, ready queues, leases, and waiting consumers. One function
//! replaces a task and maintains all indexes.

mod claimers;
mod ready_tasks;
mod waiters;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::ids::{AgentNo, ConsumerId, Seq, TaskId};
use crate::task::{Task, TaskCounts, TaskNo, TaskState, TaskStatus, TaskTarget};
use crate::time::Timestamp;
use crate::working::inbox::Fairness;
use crate::working::{Map, Undo, WorkingState, decrement};

pub(crate) use claimers::TaskClaimer;
pub(crate) use ready_tasks::NextTask;
pub(crate) use waiters::{TaskWaiter, TaskWaiters};

/// The task part of the working state.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    open: Map<TaskNo, Task>,
    numbers: Map<TaskId, TaskNo>,
    /// For each blocked task, the number of its open dependencies.
    pending: Map<TaskNo, usize>,
    /// For each task, open or ended, the blocked tasks that depend on it.
    dependents: Map<TaskId, BTreeSet<TaskNo>>,
    queues: ready_tasks::ReadyTasks,
    /// The tasks leased to each agent.
    held: Map<AgentNo, BTreeSet<TaskNo>>,
    /// The tasks that stay blocked until cancelled, by the first of their dependencies that did not succeed.
    held_back: BTreeMap<TaskId, BTreeSet<TaskNo>>,
    /// Number of open tasks that are assigned to each agent by name.
    assigned: Map<AgentNo, usize>,
    /// Number of open tasks that each agent created.
    created: Map<AgentNo, usize>,
    /// Open tasks by session.
    by_session: Map<String, BTreeSet<TaskNo>>,
    counts: TaskCounts,
    claimers: claimers::TaskClaimers,
    /// The dispatch of each leased task, since the hub's start.
    dispatches: Map<TaskNo, TaskDispatch>,
    waiters: TaskWaiters,
    /// Cache of short inputs of open tasks; the log contains all inputs.
    inputs: Map<TaskNo, Bytes>,
    /// Targets with ready tasks and waiting consumers. They are dispatched before the commit ends.
    scheduled_dispatch: Vec<TaskTarget>,
    /// Number of scheduled targets at the start of the current commit.
    scheduled_mark: usize,
}

/// The dispatch of a leased task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskDispatch {
    /// The record that granted the lease.
    pub(crate) seq: Seq,
    /// The waiting consumer that received the task; notified if the lease is lost.
    pub(crate) consumer: Option<ConsumerId>,
}

/// An entry of the undo journal that concerns tasks.
#[derive(Debug)]
pub(super) enum TaskUndo {
    Claimer(ConsumerId, Option<TaskClaimer>),
    Dispatch(TaskNo, Option<TaskDispatch>),
    Waiter(ConsumerId, Option<TaskWaiter>),
    Fairness(TaskTarget, Fairness),
    Ended(TaskStatus),
}

impl Tasks {
    /// Replaces a task, or removes an ended one, and returns the previous one.
    pub(super) fn replace(&mut self, id: &TaskId, new: Option<Task>) -> Option<Task> {
        let old = self.numbers.get(id).and_then(|number| self.open.remove(number));
        // The dependencies of a task that stays blocked are unchanged. There may be thousands.
        let stays_blocked = matches!(
            (old.as_ref().map(|task| &task.state), new.as_ref().map(|task| &task.state)),
            (Some(TaskState::Blocked { .. }), Some(TaskState::Blocked { .. }))
        );
        if let Some(old) = &old {
            self.remove_from_indexes(old);
            if !stays_blocked {
                self.remove_dependencies(old);
            }
        }
        match (&old, &new) {
            (None, Some(new)) => self.opened(new),
            (Some(old), None) => self.closed(old),
            (Some(_), Some(_)) | (None, None) => {}
        }
        if let Some(new) = new {
            self.add_to_indexes(&new);
            if !stays_blocked {
                self.index_dependencies(&new);
            }
            self.open.insert(new.spec.number, new);
        }
        old
    }

    fn opened(&mut self, task: &Task) {
        self.numbers.insert(task.spec.id.clone(), task.spec.number);
        if let Some(agent) = task.spec.agent {
            *self.assigned.entry(agent).or_default() += 1;
        }
        if let Some(creator) = task.spec.creator {
            *self.created.entry(creator).or_default() += 1;
        }
        if let Some(session) = &task.spec.session {
            self.by_session.entry(session.clone()).or_default().insert(task.spec.number);
        }
        self.recount_dependents(&task.spec.id, |pending| pending + 1);
    }

    fn closed(&mut self, task: &Task) {
        self.numbers.remove(&task.spec.id);
        self.inputs.remove(&task.spec.number);
        if let Some(agent) = task.spec.agent {
            decrement(&mut self.assigned, &agent);
        }
        if let Some(creator) = task.spec.creator {
            decrement(&mut self.created, &creator);
        }
        if let Some(session) = &task.spec.session
            && let Some(tasks) = self.by_session.get_mut(session)
        {
            tasks.remove(&task.spec.number);
            if tasks.is_empty() {
                self.by_session.remove(session);
            }
        }
        self.recount_dependents(&task.spec.id, |pending| pending - 1);
    }

    fn recount_dependents(&mut self, id: &TaskId, change: impl Fn(usize) -> usize) {
        for dependent in self.dependents.get(id).into_iter().flatten() {
            if let Some(pending) = self.pending.get_mut(dependent) {
                *pending = change(*pending);
            }
        }
    }

    fn add_to_indexes(&mut self, task: &Task) {
        let number = task.spec.number;
        self.counts.add(task.status());
        match &task.state {
            TaskState::Ready { .. } => self.queues.insert(task.spec.target(), task.spec.priority, number),
            TaskState::Leased(lease) => drop(self.held.entry(lease.by).or_default().insert(number)),
            TaskState::Blocked { held_by } => {
                if let Some(dependency) = held_by.first() {
                    self.held_back.entry(dependency.clone()).or_default().insert(number);
                }
            }
            _ => {}
        }
    }

    fn remove_from_indexes(&mut self, task: &Task) {
        let number = task.spec.number;
        self.counts.subtract(task.status());
        match &task.state {
            TaskState::Ready { .. } => self.queues.remove(&task.spec.target(), task.spec.priority, number),
            TaskState::Leased(lease) => {
                if let Some(held) = self.held.get_mut(&lease.by) {
                    held.remove(&number);
                    if held.is_empty() {
                        self.held.remove(&lease.by);
                    }
                }
            }
            TaskState::Blocked { held_by } => {
                if let Some(dependency) = held_by.first()
                    && let Some(blocked) = self.held_back.get_mut(dependency)
                {
                    blocked.remove(&number);
                    if blocked.is_empty() {
                        self.held_back.remove(dependency);
                    }
                }
            }
            _ => {}
        }
    }

    /// Indexes the dependencies of a blocked task. They may be loaded later than the task itself.
    fn index_dependencies(&mut self, task: &Task) {
        if !matches!(task.state, TaskState::Blocked { .. }) {
            return;
        }
        let number = task.spec.number;
        let mut pending = 0;
        for id in &task.spec.depends_on {
            pending += usize::from(self.numbers.contains_key(id));
            self.dependents.entry(id.clone()).or_default().insert(number);
        }
        self.pending.insert(number, pending);
    }

    fn remove_dependencies(&mut self, task: &Task) {
        if self.pending.remove(&task.spec.number).is_none() {
            return;
        }
        for id in &task.spec.depends_on {
            if let Some(dependents) = self.dependents.get_mut(id) {
                dependents.remove(&task.spec.number);
                if dependents.is_empty() {
                    self.dependents.remove(id);
                }
            }
        }
    }

    fn reserve(&mut self, count: usize) {
        self.open.reserve(count);
        self.numbers.reserve(count);
        self.pending.reserve(count);
    }

    /// Returns an open task by id.
    pub(crate) fn get(&self, id: &TaskId) -> Option<&Task> {
        self.open.get(self.numbers.get(id)?)
    }

    /// Returns an open task by number.
    pub(crate) fn by_number(&self, number: TaskNo) -> Option<&Task> {
        self.open.get(&number)
    }

    /// Returns the number of open dependencies of a blocked task.
    pub(crate) fn pending(&self, number: TaskNo) -> usize {
        self.pending.get(&number).copied().unwrap_or(0)
    }

    /// Returns the blocked tasks that depend on this one, oldest first.
    pub(crate) fn dependents(&self, id: &TaskId) -> Vec<TaskNo> {
        self.dependents.get(id).into_iter().flatten().copied().collect()
    }

    /// Returns the tasks leased to an agent, oldest first.
    pub(crate) fn held(&self, agent: AgentNo) -> Vec<TaskNo> {
        self.held.get(&agent).into_iter().flatten().copied().collect()
    }

    /// Returns the tasks that stay blocked until cancelled, by the first of their dependencies that did not succeed.
    pub(crate) fn held_back(&self) -> impl Iterator<Item = (&TaskId, &BTreeSet<TaskNo>)> {
        self.held_back.iter()
    }

    /// Returns the number of tasks leased to an agent.
    pub(crate) fn held_count(&self, agent: AgentNo) -> usize {
        self.held.get(&agent).map_or(0, BTreeSet::len)
    }

    /// Returns the number of open tasks that are assigned to an agent by name.
    pub(crate) fn assigned_count(&self, agent: AgentNo) -> usize {
        self.assigned.get(&agent).copied().unwrap_or(0)
    }

    /// Returns the number of open tasks that an agent created.
    pub(crate) fn created_count(&self, agent: AgentNo) -> usize {
        self.created.get(&agent).copied().unwrap_or(0)
    }

    /// Returns the open tasks of a session that an agent created, oldest first.
    pub(crate) fn of_session(&self, session: &str, creator: AgentNo) -> Vec<TaskId> {
        let tasks = self.by_session.get(session).into_iter().flatten();
        let tasks = tasks.filter_map(|number| self.open.get(number));
        tasks.filter(|task| task.spec.creator == Some(creator)).map(|task| task.spec.id.clone()).collect()
    }

    /// Returns the waiters for the end of tasks.
    pub(crate) fn waiters(&self) -> &TaskWaiters {
        &self.waiters
    }

    /// Returns the dispatch of a leased task; `None` if it was before the hub's start.
    pub(crate) fn dispatch(&self, number: TaskNo) -> Option<TaskDispatch> {
        self.dispatches.get(&number).copied()
    }

    /// Returns the targets that have ready tasks.
    pub(crate) fn ready_targets(&self) -> impl Iterator<Item = &TaskTarget> {
        self.queues.targets()
    }

    /// Returns the number of ready tasks of a target, and the one that was created first; `None` if there are none.
    pub(crate) fn ready_of(&self, target: &TaskTarget) -> Option<(usize, TaskNo)> {
        self.queues.of_target(target)
    }

    /// Returns the input of an open task, if it is cached.
    pub(crate) fn input(&self, number: TaskNo) -> Option<Bytes> {
        self.inputs.get(&number).cloned()
    }

    pub(crate) fn claimers(&self) -> &claimers::TaskClaimers {
        &self.claimers
    }

    /// Returns the next task to dispatch for one of these targets.
    pub(crate) fn next_of<'a>(
        &self,
        targets: impl IntoIterator<Item = &'a TaskTarget>,
        now: Timestamp,
    ) -> Option<NextTask> {
        self.queues.next_of(targets, &self.open, now)
    }

    /// Whether a dispatch is scheduled, left over from a batch that could not be written.
    pub(super) fn has_scheduled_dispatch(&self) -> bool {
        !self.scheduled_dispatch.is_empty()
    }

    pub(super) fn mark(&mut self) {
        self.scheduled_mark = self.scheduled_dispatch.len();
    }

    pub(super) fn reset_to_mark(&mut self) {
        self.scheduled_dispatch.truncate(self.scheduled_mark);
    }

    /// Schedules the dispatch of all targets, after a batch that could not be written: its dispatches were undone.
    pub(super) fn schedule_all_dispatch(&mut self) {
        self.scheduled_dispatch =
            self.queues.targets().filter(|target| self.claimers.has_waiting(target)).cloned().collect();
    }
}

impl WorkingState {
    /// Returns the open tasks.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.items.tasks
    }

    /// Allocates memory for new tasks at once. Growing step by step would copy a large graph several times.
    pub(crate) fn reserve_tasks(&mut self, count: usize) {
        self.items.tasks.reserve(count);
        self.journal.reserve(count);
    }

    /// Returns the number of tasks in each state.
    #[must_use]
    pub fn task_counts(&self) -> TaskCounts {
        self.items.tasks.counts
    }

    /// Updates the last lease token and the count of ended tasks after a task change.
    pub(super) fn update_task_counters(&mut self, task: &Task) {
        if let Some(lease) = task.lease() {
            self.last_token = self.last_token.max(lease.token.0);
        }
        let status = task.status();
        if status.has_ended() {
            self.items.tasks.counts.add(status);
            self.journal.push(Undo::Task(TaskUndo::Ended(status)));
        }
    }

    /// Counts a task that had ended before the space was loaded.
    pub(super) fn load_ended_task(&mut self, task: &Task) {
        self.items.tasks.counts.add(task.status());
    }

    /// Caches a short input until its task ends.
    pub(crate) fn cache_input(&mut self, number: TaskNo, input: Bytes) {
        self.items.tasks.inputs.insert(number, input);
    }

    /// Removes erased inputs from the cache.
    pub(super) fn drop_cached_inputs(&mut self, seq: Seq, part: u32) {
        let Tasks { inputs, open, .. } = &mut self.items.tasks;
        let is_erased = |number: &TaskNo| {
            let input = open.get(number).and_then(|task| task.spec.input);
            number.seq == seq && input.is_none_or(|input| input.part == part)
        };
        inputs.retain(|number, _| !is_erased(number));
    }

    pub(crate) fn set_task_dispatch(&mut self, number: TaskNo, new: Option<TaskDispatch>) {
        let before = self.put_dispatch(number, new);
        if before != new {
            self.journal.push(Undo::Task(TaskUndo::Dispatch(number, before)));
        }
    }

    fn put_dispatch(&mut self, number: TaskNo, new: Option<TaskDispatch>) -> Option<TaskDispatch> {
        match new {
            Some(dispatch) => self.items.tasks.dispatches.insert(number, dispatch),
            None => self.items.tasks.dispatches.remove(&number),
        }
    }

    pub(crate) fn set_task_fairness(&mut self, target: &TaskTarget, fairness: Fairness) {
        let before = self.items.tasks.queues.set_fairness(target, fairness);
        if before != fairness {
            self.journal.push(Undo::Task(TaskUndo::Fairness(target.clone(), before)));
        }
    }

    /// Schedules the dispatch of a target, if it has ready tasks and waiting consumers.
    pub(crate) fn schedule_task_dispatch(&mut self, target: &TaskTarget) {
        let tasks = &mut self.items.tasks;
        if tasks.claimers.has_waiting(target)
            && tasks.queues.has_ready(target)
            && !tasks.scheduled_dispatch.contains(target)
        {
            tasks.scheduled_dispatch.push(target.clone());
        }
    }

    /// Schedules the dispatch of all targets that an agent's consumers wait for.
    pub(crate) fn schedule_task_dispatch_to(&mut self, agent: AgentNo) {
        for id in self.items.tasks.claimers.of_agent(agent) {
            if let Some(claimer) = self.items.tasks.claimers.get(id).cloned() {
                claimer.targets.iter().for_each(|target| self.schedule_task_dispatch(target));
            }
        }
    }

    pub(crate) fn take_scheduled_task_dispatch(&mut self) -> Vec<TaskTarget> {
        std::mem::take(&mut self.items.tasks.scheduled_dispatch)
    }

    pub(super) fn undo_task(&mut self, undo: TaskUndo) {
        match undo {
            TaskUndo::Claimer(id, before) => drop(self.items.tasks.claimers.put(id, before)),
            TaskUndo::Dispatch(number, before) => drop(self.put_dispatch(number, before)),
            TaskUndo::Waiter(id, before) => drop(self.items.tasks.waiters.put(id, before)),
            TaskUndo::Fairness(target, before) => {
                self.items.tasks.queues.set_fairness(&target, before);
            }
            TaskUndo::Ended(status) => self.items.tasks.counts.subtract(status),
        }
    }
}
