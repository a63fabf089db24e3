//! Creation of tasks, individually or as a graph.

use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;

use crate::commit::OpResult;
use crate::decide::tasks::{cycle, no_such_task};
use crate::decide::{DecideError, Draft};
use crate::ids::TaskId;
use crate::item::{ItemKey, ItemKind, Verb};
use crate::limits::{INPUT_IN_MEMORY_BYTES_MAX, REFUSAL_NAMES_MAX};
use crate::refused::{Code, Refused, WaitEdge};
use crate::task::{
    CreateTasks, Dependency, EscalateTo, EscalationTarget, NewTask, OnDependencyFailure, PartRef, Task,
    TaskInput, TaskNo, TaskSpec, TaskState, TaskStatus,
};
use crate::time::Timestamp;
use crate::working::Map;

/// The tasks of one operation with their resolved ids and dependencies.
struct Graph {
    ids: Vec<TaskId>,
    /// The dependencies of each task, without duplicates.
    depends_on: Vec<Vec<TaskId>>,
    /// Status of the existing tasks that they depend on.
    earlier: Map<TaskId, TaskStatus>,
}

impl Draft<'_> {
    pub(in crate::decide) fn create_tasks(&mut self, create: &CreateTasks) -> Result<OpResult, DecideError> {
        // Charged up front: each task is visited several times before it is created or recognised as a repetition.
        let edges: usize = create.tasks.iter().map(|new| new.depends_on.len()).sum();
        self.lookup.add_units(create.tasks.len() as u64);
        self.lookup.add_steps(edges);
        self.lookup.check_limit()?;
        if let Some(result) = self.created_before(create)? {
            return Ok(result);
        }
        let count = create.tasks.len();
        let open = self.working.task_counts().open();
        let max = u64::from(self.working.policy().open_tasks_max);
        if open + count as u64 > max {
            return Err(Refused::new(
                Code::QueueFull,
                format!("the space has {open} open tasks, and {count} more would exceed the limit"),
            )
            .limit(max)
            .rule("openTasksMax", "tasks")
            .hint("wait until some tasks have ended, or cancel tasks; no task was created")
            .into());
        }
        if let Some(creator) = self.actor {
            self.check_task_share(creator, count)?;
        }
        create.tasks.iter().try_for_each(|new| self.check_task_routing(new))?;
        let first = TaskNo { seq: self.seq, n: self.tasks };
        let graph = self.graph(create, first)?;
        let part = self.parts.len() as u32;
        let mut specs = Vec::with_capacity(count);
        for (index, new) in create.tasks.iter().enumerate() {
            let number = TaskNo { n: first.n + index as u32, ..first };
            self.check_session(new.session.as_deref())?;
            specs.push(self.spec(new, &graph, index, number, (part, self.now.wall))?);
        }
        self.parts.extend(create.inputs.clone());
        self.tasks += count as u32;
        self.effects.reserve(count);
        self.working.reserve_tasks(count);
        for (spec, new) in specs.iter().zip(&create.tasks) {
            let satisfied = |id: &TaskId| graph.earlier.get(id) == Some(&TaskStatus::Done);
            let state = if spec.depends_on.iter().all(satisfied) {
                TaskState::Ready { since: self.now.wall }
            } else {
                TaskState::Blocked { held_by: Vec::new() }
            };
            self.create_task(spec, state, create.input_of(new));
        }
        for spec in specs {
            self.advance_new_task(&spec, &graph)?;
        }
        let generation = self.working.head.generation;
        Ok(OpResult::TasksCreated { generation, seq: first.seq, first: first.n, count: count as u32 })
    }

    fn create_task(&mut self, spec: &Arc<TaskSpec>, state: TaskState, input: Option<Bytes>) {
        self.set_task_state(
            Verb::TaskCreated,
            Task {
                spec: Arc::clone(spec),
                attempt: 0,
                state,
                last_failure: None,
                partials: Vec::new(),
                missing: Vec::new(),
            },
        );
        if let Some(input) = input.filter(|input| input.len() <= INPUT_IN_MEMORY_BYTES_MAX) {
            // A copy: a slice would keep the inputs of the whole graph in memory.
            self.working.cache_input(spec.number, Bytes::copy_from_slice(&input));
        }
    }

    /// Advances a new task whose dependencies have already ended.
    fn advance_new_task(&mut self, spec: &TaskSpec, graph: &Graph) -> Result<(), DecideError> {
        let Some(task) = self.working.tasks().by_number(spec.number) else { return Ok(()) };
        if !matches!(task.state, TaskState::Blocked { .. }) {
            return Ok(());
        }
        let not_done = |id: &&TaskId| {
            graph.earlier.get(*id).is_some_and(|status| status.has_ended() && *status != TaskStatus::Done)
        };
        if spec.on_dependency_failure == OnDependencyFailure::Fail
            && let Some(id) = spec.depends_on.iter().find(not_done)
        {
            return self.fail_dependent(task.clone(), id);
        }
        if self.working.tasks().pending(spec.number) == 0 {
            self.unblock(task.clone())?;
        }
        Ok(())
    }

    /// Resolves ids and dependencies. Refuses ids in use, unknown dependencies and cycles.
    fn graph(&self, create: &CreateTasks, first: TaskNo) -> Result<Graph, DecideError> {
        let generation = self.working.head.generation;
        let mut ids = Vec::with_capacity(create.tasks.len());
        let mut indexes = Map::with_capacity_and_hasher(create.tasks.len(), Default::default());
        let (mut chosen, mut repeated) = (Vec::new(), None);
        for (index, new) in create.tasks.iter().enumerate() {
            let generate = || TaskId::generated(generation, first.seq, first.n + index as u32);
            let id = new.id.clone().unwrap_or_else(generate);
            if indexes.insert(id.clone(), index as u32).is_some() {
                repeated = Some(id);
                break;
            }
            if new.id.is_some() {
                chosen.push(id.clone());
            }
            ids.push(id);
        }
        if let Some(id) = self.first_used(&chosen)?.or(repeated) {
            return Err(used_id(&id).into());
        }
        let mut graph = Graph { ids, depends_on: Vec::new(), earlier: Map::default() };
        let mut needs = Vec::with_capacity(create.tasks.len());
        let mut unknown = Vec::new();
        for new in &create.tasks {
            let mut depends_on = Vec::with_capacity(new.depends_on.len());
            let mut in_graph = Vec::new();
            for id in graph.dependency_ids(new) {
                match indexes.get(&id) {
                    Some(index) => in_graph.push(*index),
                    None if graph.earlier.contains_key(&id) => {}
                    None => match self.task(&id)? {
                        Some(task) => drop(graph.earlier.insert(id.clone(), task.status())),
                        None if unknown.len() < REFUSAL_NAMES_MAX && !unknown.contains(&id) => {
                            unknown.push(id.clone())
                        }
                        None => {}
                    },
                }
                depends_on.push(id);
            }
            needs.push(in_graph);
            graph.depends_on.push(depends_on);
        }
        if let Some(first) = unknown.first() {
            let names: Vec<&str> = unknown.iter().map(TaskId::as_str).collect();
            let mut refused = no_such_task(first);
            refused.detail = format!("unknown dependency: there is no task {}", names.join(", "));
            return Err(refused
                .hint("create it first, or in the same operation; no task was created")
                .into());
        }
        match cycle::find_cycle(&needs) {
            Some(cycle) => Err(dependency_cycle(&graph, &cycle).into()),
            None => Ok(graph),
        }
    }

    /// Returns the first of these ids that belongs to an existing task, open or ended.
    fn first_used(&self, ids: &[TaskId]) -> Result<Option<TaskId>, DecideError> {
        let mut used = None;
        let mut unknown = Vec::with_capacity(ids.len());
        for id in ids {
            let closed = self.closed_items.get(&ItemKey::new(ItemKind::Task, id.to_shared()));
            if self.working.tasks().get(id).is_some() || matches!(closed, Some(Some(_))) {
                used = Some(id);
                break;
            }
            // A task that this commit removed from storage has `Some(None)`.
            if closed.is_none() {
                unknown.push(id.to_shared());
            }
        }
        let stored = self.lookup.first_stored_item(ItemKind::Task, &unknown)?;
        Ok(stored.and_then(|index| ids.iter().find(|id| id.as_str() == &*unknown[index])).or(used).cloned())
    }

    fn spec(
        &self,
        new: &NewTask,
        graph: &Graph,
        index: usize,
        number: TaskNo,
        (part, created_at): (u32, Timestamp),
    ) -> Result<Arc<TaskSpec>, Refused> {
        let escalate = match &new.escalate_to {
            EscalateTo::Nobody => EscalationTarget::Nobody,
            EscalateTo::Coordinators => EscalationTarget::Coordinators,
            EscalateTo::Agent(agent) => EscalationTarget::Agent(self.require_agent(agent)?),
        };
        Ok(Arc::new(TaskSpec {
            id: graph.ids[index].clone(),
            number,
            created_at,
            creator: self.actor,
            task_type: new.task_type.as_str().into(),
            agent: new.agent.as_ref().map(|agent| self.require_agent(agent)).transpose()?,
            input: new.input.map(|(start, length)| TaskInput { part, start, length }),
            content_type: new.content_type.clone(),
            priority: new.priority,
            depends_on: graph.depends_on[index].clone(),
            timeout_ms: new.timeout_ms.and_then(NonZeroU64::new),
            lease_ms: NonZeroU64::new(new.lease_ms).unwrap_or(NonZeroU64::MIN),
            attempts_max: new.attempts_max,
            backoff_ms: new.backoff_ms,
            on_dependency_failure: new.on_dependency_failure,
            escalate,
            session: new.session.clone(),
        }))
    }

    /// Recognises a repeated operation by its client-assigned ids. Returns the same result if the content is identical.
    fn created_before(&self, create: &CreateTasks) -> Result<Option<OpResult>, DecideError> {
        let chosen = create.tasks.iter().enumerate().find_map(|(index, new)| Some((index, new.id.as_ref()?)));
        let Some((index, id)) = chosen else { return Ok(None) };
        let Some(found) = self.task(id)? else { return Ok(None) };
        let number = found.spec.number;
        let Some(n) = number.n.checked_sub(index as u32) else { return Err(used_id(id).into()) };
        let first = TaskNo { n, ..number };
        if !self.is_identical(create, first)? {
            return Err(used_id(id).into());
        }
        let generation = self.working.generations().at_seq(first.seq);
        let count = create.tasks.len() as u32;
        Ok(Some(OpResult::TasksCreated { generation, seq: first.seq, first: first.n, count }))
    }

    /// Whether the existing tasks starting at `first` are identical to the requested ones, including their inputs.
    fn is_identical(&self, create: &CreateTasks, first: TaskNo) -> Result<bool, DecideError> {
        let generation = self.working.generations().at_seq(first.seq);
        let generate = |index: usize| TaskId::generated(generation, first.seq, first.n + index as u32);
        let ids = create.tasks.iter().enumerate();
        let ids = ids.map(|(index, new)| new.id.clone().unwrap_or_else(|| generate(index))).collect();
        let mut graph = Graph { ids, depends_on: Vec::new(), earlier: Map::default() };
        graph.depends_on = create.tasks.iter().map(|new| graph.dependency_ids(new)).collect();
        let mut part = None;
        for (index, new) in create.tasks.iter().enumerate() {
            let Some(found) = self.task(&graph.ids[index])? else { return Ok(false) };
            let number = TaskNo { n: first.n + index as u32, ..first };
            part = part.or(found.spec.input.map(|input| input.part));
            let requested = self.spec(new, &graph, index, number, (part.unwrap_or(0), found.spec.created_at));
            // An agent in the specification may have been removed: then the tasks differ.
            if !requested.is_ok_and(|requested| requested == found.spec) {
                return Ok(false);
            }
        }
        // Input bytes that no task refers to are ignored.
        let (Some(inputs), Some(part)) = (&create.inputs, part) else { return Ok(true) };
        let stored = self.stored_part(PartRef { seq: first.seq, part })?;
        Ok(stored.is_some_and(|stored| !stored.is_erased() && stored.bytes == inputs.bytes))
    }
}

impl Graph {
    /// Returns the ids of a task's dependencies, in order, without duplicates.
    fn dependency_ids(&self, new: &NewTask) -> Vec<TaskId> {
        let id = |dependency: &Dependency| match dependency {
            Dependency::Task(id) => id.clone(),
            Dependency::Index(n) => self.ids[*n as usize].clone(),
        };
        if let [dependency] = &new.depends_on[..] {
            return vec![id(dependency)];
        }
        let mut seen = Map::default();
        new.depends_on.iter().map(id).filter(|id| seen.insert(id.clone(), ()).is_none()).collect()
    }
}

fn dependency_cycle(graph: &Graph, cycle: &[usize]) -> Refused {
    let names: Vec<String> = cycle.iter().chain(cycle.first()).map(|at| graph.ids[*at].to_string()).collect();
    let listed: Vec<&str> = names.iter().take(REFUSAL_NAMES_MAX).map(String::as_str).collect();
    let more = if names.len() > REFUSAL_NAMES_MAX { " → …" } else { "" };
    let detail = format!("the dependencies of the tasks form a cycle: {}{more}", listed.join(" → "));
    let mut refused =
        Refused::new(Code::Invalid, detail).hint("remove one of these dependencies; no task was created");
    let waits = |pair: &[String]| WaitEdge { agent: pair[0].clone(), waits_for: pair[1].clone() };
    refused.facts.cycle = names.windows(2).map(waits).collect();
    refused
}

fn used_id(id: &TaskId) -> Refused {
    Refused::new(Code::Duplicate, format!("the task id {id} was used for another task"))
        .hint("use a new id for each task; retry an operation only with identical content")
}
