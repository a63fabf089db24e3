//! Creation of task graphs.

use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    Code, CreateTasks, Dependency, EscalateTo, EscalationTarget, Generation, NewTask, OnDependencyFailure,
    OpResult, Refused, Task, TaskId, TaskInput, TaskNo, TaskSpec, TaskState, TaskStatus, Timestamp, WaitEdge,
    limits,
};

use super::no_such_task;
use crate::reference::agents::unknown_agent;
use crate::reference::transaction::Transaction;

impl Transaction<'_> {
    pub(in crate::reference) fn create_tasks(&mut self, create: &CreateTasks) -> Result<OpResult, Refused> {
        if let Some(index) = create.tasks.iter().position(|new| new.id.is_some())
            && let Some(id) = &create.tasks[index].id
            && let Some(existing) = self.space.task(id)
        {
            let number = existing.spec.number;
            return self.replay(create, number, index as u32).ok_or_else(|| used_id(id));
        }
        let count = create.tasks.len();
        let open_tasks_max = u64::from(self.space.policy().policy.open_tasks_max);
        if self.space.task_counts().open() + count as u64 > open_tasks_max {
            return Err(Refused::new(Code::QueueFull, "too many open tasks").limit(open_tasks_max));
        }
        let max = limits::OPEN_TASKS_PER_AGENT_MAX;
        if self.actor.is_some_and(|creator| self.space.count_created_tasks(creator) + count > max) {
            return Err(Refused::new(Code::QueueFull, "too many open tasks of the agent").limit(max as u64));
        }
        create.tasks.iter().try_for_each(|new| self.check_task_routing(new))?;
        let first = TaskNo { seq: self.seq, n: self.tasks };
        let ids = ids(create, first, self.space.generation());
        for (index, id) in ids.iter().enumerate() {
            if ids[..index].contains(id) || self.space.task(id).is_some() {
                return Err(used_id(id));
            }
        }
        let dependencies: Vec<Vec<TaskId>> =
            create.tasks.iter().map(|new| dependencies_of(new, &ids)).collect();
        let unknown = |id: &&TaskId| !ids.contains(id) && self.space.task(id).is_none();
        if let Some(id) = dependencies.iter().flatten().find(unknown) {
            return Err(no_such_task(id));
        }
        if let Some(cycle) = find_cycle(&ids, &dependencies) {
            let mut refused = Refused::new(Code::Invalid, "the dependencies contain a cycle");
            refused.facts.cycle = cycle.windows(2).map(waits).collect();
            return Err(refused);
        }
        let (part, at) = (self.parts.len() as u32, self.now.wall);
        let mut specs = Vec::new();
        for (index, new) in create.tasks.iter().enumerate() {
            let number = TaskNo { n: first.n + index as u32, ..first };
            self.check_session(new.session.as_deref())?;
            specs.push(self.spec(
                new,
                (ids[index].clone(), dependencies[index].clone()),
                number,
                (part, at),
            )?);
        }
        self.parts.extend(create.inputs.clone());
        self.tasks += count as u32;
        for (spec, new) in specs.iter().zip(&create.tasks) {
            self.insert_task(spec, create.input_of(new));
        }
        for spec in specs {
            self.resolve_ended_dependencies(&spec);
        }
        Ok(OpResult::TasksCreated {
            generation: self.space.generation(),
            seq: first.seq,
            first: first.n,
            count: count as u32,
        })
    }

    fn insert_task(&mut self, spec: &TaskSpec, input: Option<Bytes>) {
        if let Some(input) = input.filter(|input| input.len() <= limits::INPUT_IN_MEMORY_BYTES_MAX) {
            self.space.task_runtime.inputs.insert(spec.id.clone(), input);
        }
        let all_done = spec.depends_on.iter().all(|id| self.space.status_of(id) == Some(TaskStatus::Done));
        let state = match all_done {
            true => TaskState::Ready { since: self.now.wall },
            false => TaskState::Blocked { held_by: Vec::new() },
        };
        let spec = Arc::new(spec.clone());
        let (partials, missing) = (Vec::new(), Vec::new());
        self.set_task(Task { spec, attempt: 0, state, last_failure: None, partials, missing });
    }

    /// Resolves a new task whose dependencies have already ended.
    fn resolve_ended_dependencies(&mut self, spec: &TaskSpec) {
        let blocked = self.space.status_of(&spec.id) == Some(TaskStatus::Blocked);
        if !blocked {
            return;
        }
        let has_ended = |id: &&TaskId| self.space.status_of(id).is_some_and(TaskStatus::has_ended);
        let not_done = |id: &&TaskId| has_ended(id) && self.space.status_of(id) != Some(TaskStatus::Done);
        let failed = spec.depends_on.iter().find(not_done).cloned();
        match failed {
            Some(id) if spec.on_dependency_failure == OnDependencyFailure::Fail => {
                self.fail_dependent(&spec.id, &id);
            }
            _ if spec.depends_on.iter().all(|id| has_ended(&id)) => self.unblock(&spec.id),
            _ => {}
        }
    }

    fn spec(
        &self,
        new: &NewTask,
        (id, depends_on): (TaskId, Vec<TaskId>),
        number: TaskNo,
        (part, created_at): (u32, Timestamp),
    ) -> Result<TaskSpec, Refused> {
        let agent_number = |agent| self.space.agent_number(agent).ok_or_else(|| unknown_agent(agent));
        Ok(TaskSpec {
            id,
            number,
            created_at,
            creator: self.actor,
            escalate: match &new.escalate_to {
                EscalateTo::Nobody => EscalationTarget::Nobody,
                EscalateTo::Coordinators => EscalationTarget::Coordinators,
                EscalateTo::Agent(agent) => EscalationTarget::Agent(agent_number(agent)?),
            },
            task_type: new.task_type.as_str().into(),
            agent: new.agent.as_ref().map(agent_number).transpose()?,
            input: new.input.map(|(start, length)| TaskInput { part, start, length }),
            content_type: new.content_type.clone(),
            priority: new.priority,
            depends_on,
            timeout_ms: new.timeout_ms.and_then(NonZeroU64::new),
            lease_ms: NonZeroU64::new(new.lease_ms).expect("validated by Commit::check"),
            attempts_max: new.attempts_max,
            backoff_ms: new.backoff_ms,
            on_dependency_failure: new.on_dependency_failure,
            session: new.session.clone(),
        })
    }

    /// Returns the original result if the operation repeats an earlier one.
    fn replay(&self, create: &CreateTasks, number: TaskNo, index: u32) -> Option<OpResult> {
        let first = TaskNo { n: number.n.checked_sub(index)?, ..number };
        let ids = ids(create, first, self.space.generation_of(first.seq));
        let mut part = None;
        for (index, new) in create.tasks.iter().enumerate() {
            let task = self.space.task(&ids[index])?;
            part = part.or(task.spec.input.map(|input| input.part));
            let task_number = TaskNo { n: first.n + index as u32, ..first };
            let id_and_dependencies = (ids[index].clone(), dependencies_of(new, &ids));
            let requested = self
                .spec(new, id_and_dependencies, task_number, (part.unwrap_or(0), task.spec.created_at))
                .ok()?;
            if requested != *task.spec {
                return None;
            }
        }
        if let (Some(inputs), Some(part)) = (&create.inputs, part) {
            let parts = match first.seq == self.seq {
                true => &self.parts,
                false => &self.space.records[first.seq.0 as usize - 1].parts,
            };
            let stored = parts.get(part as usize)?;
            if stored.is_erased() || stored.bytes != inputs.bytes {
                return None;
            }
        }
        let count = create.tasks.len() as u32;
        let generation = self.space.generation_of(first.seq);
        Some(OpResult::TasksCreated { generation, seq: first.seq, first: first.n, count })
    }
}

fn ids(create: &CreateTasks, first: TaskNo, generation: Generation) -> Vec<TaskId> {
    let id = |(index, new): (usize, &NewTask)| match &new.id {
        Some(id) => id.clone(),
        None => TaskId::generated(generation, first.seq, first.n + index as u32),
    };
    create.tasks.iter().enumerate().map(id).collect()
}

/// Returns the dependencies of a task without duplicates.
fn dependencies_of(new: &NewTask, ids: &[TaskId]) -> Vec<TaskId> {
    let mut dependencies = Vec::new();
    for dependency in &new.depends_on {
        let id = match dependency {
            Dependency::Task(id) => id.clone(),
            Dependency::Index(n) => ids[*n as usize].clone(),
        };
        if !dependencies.contains(&id) {
            dependencies.push(id);
        }
    }
    dependencies
}

/// Finds a dependency cycle. Repeatedly removes tasks without remaining dependencies; the rest is on a cycle or depends
/// on one.
fn find_cycle(ids: &[TaskId], dependencies: &[Vec<TaskId>]) -> Option<Vec<String>> {
    let mut remaining: Vec<usize> = (0..ids.len()).collect();
    loop {
        let waits = |index: &usize| {
            dependencies[*index].iter().any(|id| remaining.iter().any(|other| ids[*other] == *id))
        };
        let waiting: Vec<usize> = remaining.iter().copied().filter(waits).collect();
        if waiting.len() == remaining.len() {
            break;
        }
        remaining = waiting;
    }
    let first = *remaining.first()?;
    // Follow dependencies until a task repeats.
    let mut path = vec![first];
    loop {
        let last = path[path.len() - 1];
        let next = remaining.iter().copied().find(|other| dependencies[last].contains(&ids[*other]))?;
        path.push(next);
        if let Some(begin) =
            path.iter().position(|seen| *seen == next).filter(|begin| *begin + 1 < path.len())
        {
            return Some(path[begin..].iter().map(|index| ids[*index].to_string()).collect());
        }
    }
}

fn waits(pair: &[String]) -> WaitEdge {
    WaitEdge { agent: pair[0].clone(), waits_for: pair[1].clone() }
}

fn used_id(id: &TaskId) -> Refused {
    Refused::new(Code::Duplicate, format!("the task id {id} was used for another task"))
}
