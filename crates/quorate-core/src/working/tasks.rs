//! Open tasks, with every index over them: who needs whom, what is ready for whom, who holds what, who waits for work.
//! One function changes a task and keeps all of it in step.

mod awaited;
mod line;
mod queue;

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::ids::{AgentNo, ConsumerId, Seq, TaskId};
use crate::task::{Task, TaskCounts, TaskNo, TaskState, TaskStatus, TaskTarget};
use crate::time::Timestamp;
use crate::working::inbox::Fairness;
use crate::working::{Map, Undo, Working};

pub(crate) use awaited::{Awaited, Awaiting};
pub(crate) use line::Claimer;
pub(crate) use queue::Next;

/// What the working state holds of tasks.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    open: Map<TaskNo, Task>,
    numbers: Map<TaskId, TaskNo>,
    /// For each blocked task, how many of those that it needs are open.
    pending: Map<TaskNo, usize>,
    /// For each task, open or not, the blocked ones that need it.
    dependents: Map<TaskId, BTreeSet<TaskNo>>,
    queues: queue::Queues,
    /// What each agent holds.
    held: Map<AgentNo, BTreeSet<TaskNo>>,
    /// Open tasks that are for an agent by name.
    named: Map<AgentNo, usize>,
    counts: TaskCounts,
    line: line::Line,
    /// Who took each task that is held, since the hub's start.
    takers: Map<TaskNo, Taker>,
    awaited: Awaited,
    /// Short inputs of open tasks. Only a memory of what the log holds: not all are here.
    inputs: Map<TaskNo, Bytes>,
    /// Targets for which something is ready and somebody waits, to be looked at before the commit ends.
    stirred: Vec<TaskTarget>,
    /// How many were stirred when the current commit began.
    stirred_mark: usize,
}

/// How a task came into its holder's hands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taker {
    /// The record that gave it.
    pub(crate) seq: Seq,
    /// Who was handed it while it waited, and is told if it loses it.
    pub(crate) told: Option<ConsumerId>,
}

/// What to put back if the commit is refused.
#[derive(Debug)]
pub(super) enum TaskUndo {
    Claimer(ConsumerId, Option<Claimer>),
    Taker(TaskNo, Option<Taker>),
    Awaiting(ConsumerId, Option<Awaiting>),
    Fairness(TaskTarget, Fairness),
    Over(TaskStatus),
}

impl Tasks {
    /// Puts a task in its place, or takes it away because it is over, and returns what was there.
    pub(super) fn place(&mut self, id: &TaskId, new: Option<Task>) -> Option<Task> {
        let old = self.numbers.get(id).and_then(|no| self.open.remove(no));
        // A blocked task that stays blocked needs what it needed. There may be thousands.
        let stays_blocked = matches!(
            (old.as_ref().map(|task| &task.state), new.as_ref().map(|task| &task.state)),
            (Some(TaskState::Blocked { .. }), Some(TaskState::Blocked { .. }))
        );
        if let Some(old) = &old {
            self.take_out(old);
            if !stays_blocked {
                self.forget_needs(old);
            }
        }
        match (&old, &new) {
            (None, Some(new)) => self.opened(new),
            (Some(old), None) => self.closed(old),
            (Some(_), Some(_)) | (None, None) => {}
        }
        if let Some(new) = new {
            self.put_in(&new);
            if !stays_blocked {
                self.note_needs(&new);
            }
            self.open.insert(new.spec.no, new);
        }
        old
    }

    /// How many tasks an agent holds.
    pub(super) fn count_held_by(&self, agent: AgentNo) -> usize {
        self.held.get(&agent).map_or(0, BTreeSet::len)
    }

    fn opened(&mut self, task: &Task) {
        self.numbers.insert(task.spec.id.clone(), task.spec.no);
        if let Some(agent) = task.spec.agent {
            *self.named.entry(agent).or_default() += 1;
        }
        self.recount_dependents(&task.spec.id, |pending| pending + 1);
    }

    fn closed(&mut self, task: &Task) {
        self.numbers.remove(&task.spec.id);
        self.inputs.remove(&task.spec.no);
        if let Some(agent) = task.spec.agent {
            take_one(&mut self.named, agent);
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

    fn put_in(&mut self, task: &Task) {
        let no = task.spec.no;
        self.counts.add(task.status());
        match &task.state {
            TaskState::Ready { .. } => self.queues.insert(task.spec.target(), task.spec.priority, no),
            TaskState::Leased(lease) => drop(self.held.entry(lease.by).or_default().insert(no)),
            _ => {}
        }
    }

    fn take_out(&mut self, task: &Task) {
        let no = task.spec.no;
        self.counts.take(task.status());
        match &task.state {
            TaskState::Ready { .. } => self.queues.remove(&task.spec.target(), task.spec.priority, no),
            TaskState::Leased(lease) => {
                if let Some(held) = self.held.get_mut(&lease.by) {
                    held.remove(&no);
                    if held.is_empty() {
                        self.held.remove(&lease.by);
                    }
                }
            }
            _ => {}
        }
    }

    /// A task that is blocked waits for each open one that it needs. Those may be taken up later than itself.
    fn note_needs(&mut self, task: &Task) {
        if !matches!(task.state, TaskState::Blocked { .. }) {
            return;
        }
        let no = task.spec.no;
        let mut pending = 0;
        for id in &task.spec.depends_on {
            pending += usize::from(self.numbers.contains_key(id));
            self.dependents.entry(id.clone()).or_default().insert(no);
        }
        self.pending.insert(no, pending);
    }

    fn forget_needs(&mut self, task: &Task) {
        if self.pending.remove(&task.spec.no).is_none() {
            return;
        }
        for id in &task.spec.depends_on {
            if let Some(dependents) = self.dependents.get_mut(id) {
                dependents.remove(&task.spec.no);
                if dependents.is_empty() {
                    self.dependents.remove(id);
                }
            }
        }
    }

    /// An open task.
    pub(crate) fn get(&self, id: &TaskId) -> Option<&Task> {
        self.open.get(self.numbers.get(id)?)
    }

    /// An open task by its place.
    pub(crate) fn by_number(&self, no: TaskNo) -> Option<&Task> {
        self.open.get(&no)
    }

    /// How many open tasks a blocked one still waits for.
    pub(crate) fn pending(&self, no: TaskNo) -> usize {
        self.pending.get(&no).copied().unwrap_or(0)
    }

    /// The blocked tasks that need this one, oldest first.
    pub(crate) fn dependents(&self, id: &TaskId) -> Vec<TaskNo> {
        self.dependents.get(id).into_iter().flatten().copied().collect()
    }

    /// What an agent holds, oldest first.
    pub(crate) fn held(&self, agent: AgentNo) -> Vec<TaskNo> {
        self.held.get(&agent).into_iter().flatten().copied().collect()
    }

    /// How many tasks an agent holds.
    pub(crate) fn held_count(&self, agent: AgentNo) -> usize {
        self.held.get(&agent).map_or(0, BTreeSet::len)
    }

    /// How many open tasks are for an agent by name.
    pub(crate) fn named_count(&self, agent: AgentNo) -> usize {
        self.named.get(&agent).copied().unwrap_or(0)
    }

    /// Who waits for tasks to be over.
    pub(crate) fn awaited(&self) -> &Awaited {
        &self.awaited
    }

    /// How a task came into its holder's hands; `None` if that was before the hub's start.
    pub(crate) fn taker(&self, no: TaskNo) -> Option<Taker> {
        self.takers.get(&no).copied()
    }

    /// The input of an open task, if it is at hand.
    pub(crate) fn input(&self, no: TaskNo) -> Option<Bytes> {
        self.inputs.get(&no).cloned()
    }

    pub(crate) fn line(&self) -> &line::Line {
        &self.line
    }

    /// The task that goes out next for one of these targets, and what its queue remembers once it has gone.
    pub(crate) fn next_of<'a>(
        &self,
        targets: impl IntoIterator<Item = &'a TaskTarget>,
        now: Timestamp,
    ) -> Option<Next> {
        self.queues.next_of(targets, &self.open, now)
    }

    /// Whether something is ready that somebody waits for, left over from a batch that could not be written.
    pub(super) fn is_stirred(&self) -> bool {
        !self.stirred.is_empty()
    }

    pub(super) fn mark(&mut self) {
        self.stirred_mark = self.stirred.len();
    }

    pub(super) fn back_to_mark(&mut self) {
        self.stirred.truncate(self.stirred_mark);
    }

    /// After a batch that could not be written: what was handed out is ready again, and so are those who wait.
    pub(super) fn stir_all(&mut self) {
        self.stirred = self.queues.targets().filter(|target| self.line.is_awaited(target)).cloned().collect();
    }
}

fn take_one<K: std::hash::Hash + Eq + Copy>(counts: &mut Map<K, usize>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

impl Working {
    /// The open tasks.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.items.tasks
    }

    /// How many tasks are in each state.
    #[must_use]
    pub fn task_counts(&self) -> TaskCounts {
        self.items.tasks.counts
    }

    /// Takes note of what the new state of a task says beyond its place: the newest token, or that it is over.
    pub(super) fn note_task(&mut self, task: &Task) {
        if let Some(lease) = task.lease() {
            self.last_token = self.last_token.max(lease.token.0);
        }
        let status = task.status();
        if status.is_over() {
            self.items.tasks.counts.add(status);
            self.journal.push(Undo::Task(TaskUndo::Over(status)));
        }
    }

    /// Counts a task that was over when the space was taken up.
    pub(super) fn load_over(&mut self, task: &Task) {
        self.items.tasks.counts.add(task.status());
    }

    /// Keeps a short input in memory until its task is over.
    pub(crate) fn keep_input(&mut self, no: TaskNo, input: Bytes) {
        self.items.tasks.inputs.insert(no, input);
    }

    /// Inputs that were erased are not handed out from memory either.
    pub(super) fn forget_inputs(&mut self, seq: Seq, part: u32) {
        let Tasks { inputs, open, .. } = &mut self.items.tasks;
        let erased = |no: &TaskNo| {
            let input = open.get(no).and_then(|task| task.spec.input);
            no.seq == seq && input.is_none_or(|input| input.part == part)
        };
        inputs.retain(|no, _| !erased(no));
    }

    pub(crate) fn set_taker(&mut self, no: TaskNo, new: Option<Taker>) {
        let before = self.put_taker(no, new);
        if before != new {
            self.journal.push(Undo::Task(TaskUndo::Taker(no, before)));
        }
    }

    fn put_taker(&mut self, no: TaskNo, new: Option<Taker>) -> Option<Taker> {
        match new {
            Some(taker) => self.items.tasks.takers.insert(no, taker),
            None => self.items.tasks.takers.remove(&no),
        }
    }

    pub(crate) fn set_task_fairness(&mut self, target: &TaskTarget, fairness: Fairness) {
        let before = self.items.tasks.queues.set_fairness(target, fairness);
        if before != fairness {
            self.journal.push(Undo::Task(TaskUndo::Fairness(target.clone(), before)));
        }
    }

    /// Notes a target for which something is ready and somebody waits.
    pub(crate) fn stir_task(&mut self, target: &TaskTarget) {
        let tasks = &mut self.items.tasks;
        if tasks.line.is_awaited(target) && tasks.queues.has_ready(target) && !tasks.stirred.contains(target)
        {
            tasks.stirred.push(target.clone());
        }
    }

    /// Notes everything that an agent waits for.
    pub(crate) fn stir_tasks_of(&mut self, agent: AgentNo) {
        for id in self.items.tasks.line.of_agent(agent) {
            if let Some(claimer) = self.items.tasks.line.get(id).cloned() {
                claimer.targets.iter().for_each(|target| self.stir_task(target));
            }
        }
    }

    pub(crate) fn take_stirred_tasks(&mut self) -> Vec<TaskTarget> {
        std::mem::take(&mut self.items.tasks.stirred)
    }

    pub(super) fn put_task_back(&mut self, undo: TaskUndo) {
        match undo {
            TaskUndo::Claimer(id, before) => drop(self.items.tasks.line.put(id, before)),
            TaskUndo::Taker(no, before) => drop(self.put_taker(no, before)),
            TaskUndo::Awaiting(id, before) => drop(self.items.tasks.awaited.put(id, before)),
            TaskUndo::Fairness(target, before) => {
                self.items.tasks.queues.set_fairness(&target, before);
            }
            TaskUndo::Over(status) => self.items.tasks.counts.take(status),
        }
    }
}
