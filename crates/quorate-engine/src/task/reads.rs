//! Reads of tasks: a single task, a list, an explanation, and waiting for the end of a task.

use std::time::Duration;

use bytes::Bytes;
use quorate_core::{
    AgentNo, Inspect, InspectResult, Item, ItemKey, ItemKind, ItemRange, LeaseToken, OnDependencyFailure,
    PartRef, Seq, Task, TaskCounts, TaskId, TaskInput, TaskPartial, TaskState, TaskStatus, Timestamp, Why,
};
use quorate_store::{ReadQuery, ReadResult};

use crate::error::Error;
use crate::items::ItemPage;
use crate::registry::unexpected_inspection;
use crate::space::Space;

pub use quorate_api::query::TaskFilter;

/// Task with its payloads and current state.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskView {
    /// The task.
    pub task: Task,
    /// Dependencies that are not done.
    pub blocked_on: Vec<TaskId>,
    /// Time at which the lease expires, if the task is held.
    pub lease_until: Option<Timestamp>,
    /// Input, byte for byte as it was sent.
    pub input: Option<Bytes>,
    /// Result, byte for byte as it was sent.
    pub result: Option<Bytes>,
    /// Partial results, oldest first.
    pub partials: Vec<PartialResult>,
    /// Failure details of the last failed attempt.
    pub failure_details: Option<Bytes>,
}

/// Partial result that a holder reported during an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartialResult {
    /// Attempt and time of the report.
    pub partial: TaskPartial,
    /// The result.
    pub bytes: Bytes,
}

impl TaskView {
    /// Returns the lease token under which its end was accepted.
    #[must_use]
    pub fn accepted_token(&self) -> Option<LeaseToken> {
        self.task.accepted_token()
    }
}

impl Space {
    /// Returns the number of tasks in each state.
    #[must_use]
    pub fn task_counts(&self) -> TaskCounts {
        self.published().tasks
    }

    /// Returns a task, open or ended.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a storage failure.
    pub async fn task(&self, id: &TaskId) -> Result<TaskView, Error> {
        let task = self.item(id).await?;
        let blocked_on = self.blocked_on(&task).await?;
        let now = self.engine().clock().now().wall;
        self.task_view(task, blocked_on, now).await
    }

    /// Returns a task as of a record.
    ///
    /// # Errors
    /// `NOT_FOUND`, also if it was created later; or a storage failure.
    pub async fn task_at(&self, id: &TaskId, at: Seq) -> Result<TaskView, Error> {
        let key = |id: &TaskId| ItemKey::new(ItemKind::Task, id.to_shared());
        let task: Task = self.item_at(id, at).await?;
        let mut blocked_on = Vec::new();
        if task.status() == TaskStatus::Blocked {
            let keys: Vec<ItemKey> = task.spec.depends_on.iter().map(key).collect();
            let dependencies = self.items_at(&keys, at).await?;
            for (id, key) in task.spec.depends_on.iter().zip(&keys) {
                if let Some(Item::Task(dependency)) = dependencies.get(key)
                    && blocks(&task, dependency)
                {
                    blocked_on.push(id.clone());
                }
            }
        }
        self.task_view(task, blocked_on, self.time_of(at).await?).await
    }

    async fn task_view(
        &self,
        task: Task,
        blocked_on: Vec<TaskId>,
        now: Timestamp,
    ) -> Result<TaskView, Error> {
        let lease_until = task.lease_expires_at(now);
        let input = match task.spec.input {
            Some(TaskInput { part, start, length }) => {
                Some(self.payload_range(task.spec.number.seq, part, (start, length)).await?.bytes)
            }
            None => None,
        };
        let result = match &task.state {
            TaskState::Done(end) | TaskState::Partial(end) => end.result,
            _ => None,
        };
        let result = self.bytes_of(result).await?;
        let details = task.last_failure.as_ref().and_then(|failure| failure.details);
        let failure_details = self.bytes_of(details).await?;
        let mut partials = Vec::with_capacity(task.partials.len());
        for partial in &task.partials {
            let bytes = self.bytes_of(Some(partial.part)).await?.unwrap_or_default();
            partials.push(PartialResult { partial: *partial, bytes });
        }
        Ok(TaskView { task, blocked_on, lease_until, input, result, partials, failure_details })
    }

    pub(crate) async fn why_task(&self, id: &TaskId) -> Result<Why, Error> {
        let task = self.item(id).await?;
        let blocked_on = self.blocked_on(&task).await?;
        let inspection = match self.inspect(Inspect::Task(id.clone())).await? {
            InspectResult::Task(inspection) => inspection,
            other => return Err(unexpected_inspection(&other)),
        };
        let now = self.engine().clock().now().wall;
        Ok(Why::of_task(&task, &inspection, blocked_on, |agent| self.agent_name(agent), now))
    }

    /// Returns a page of tasks.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn tasks(
        &self,
        filter: &TaskFilter,
        range: ItemRange,
        limit: usize,
    ) -> Result<ItemPage<Task>, Error> {
        let agent = match &filter.agent {
            Some(id) => match self.published().agents.number(id) {
                Some(number) => Some(number),
                None => return Ok(ItemPage { items: Vec::new(), rest: None }),
            },
            None => None,
        };
        self.list(range, limit, |task| matches_filter(filter, task, agent)).await
    }

    /// Waits for at most this long until a task ends, then returns its current state. The wait takes no part in
    /// deadlock detection.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a storage failure.
    pub async fn wait_for_task(&self, id: &TaskId, wait: Duration) -> Result<TaskView, Error> {
        let mut published = self.follow();
        let ended = async {
            loop {
                let ended_count = published.borrow_and_update().tasks.ended();
                if self.item::<Task>(id).await?.status().has_ended() {
                    return Ok::<_, Error>(());
                }
                // Check again only after some task has ended.
                if published.wait_for(|published| published.tasks.ended() != ended_count).await.is_err() {
                    return Ok(());
                }
            }
        };
        tokio::select! {
            ended = ended => ended?,
            () = self.sleep(wait) => {}
        }
        self.task(id).await
    }

    /// Returns the dependencies that block a task. Failed dependencies that the task would proceed without do not
    /// block it.
    async fn blocked_on(&self, task: &Task) -> Result<Vec<TaskId>, Error> {
        if task.status() != TaskStatus::Blocked {
            return Ok(Vec::new());
        }
        let dependencies = &task.spec.depends_on;
        let reads = dependencies
            .iter()
            .map(|id| ReadQuery::Item(ItemKey::new(ItemKind::Task, id.to_shared())))
            .collect();
        let rows = self.engine().store().read(self.number(), reads).await?;
        let blocks = |row: &ReadResult| match row {
            ReadResult::Item(Some(Item::Task(dependency))) => blocks(task, dependency),
            _ => false,
        };
        Ok(dependencies.iter().zip(&rows).filter(|(_, row)| blocks(row)).map(|(id, _)| id.clone()).collect())
    }

    async fn bytes_of(&self, part: Option<PartRef>) -> Result<Option<Bytes>, Error> {
        match part {
            Some(PartRef { seq, part }) => {
                Ok(Some(self.payload_range(seq, part, (0, u64::MAX)).await?.bytes))
            }
            None => Ok(None),
        }
    }
}

fn matches_filter(filter: &TaskFilter, task: &Task, agent: Option<AgentNo>) -> bool {
    let holder = match &task.state {
        TaskState::Leased(lease) => Some(lease.by),
        TaskState::Done(end) | TaskState::Partial(end) => Some(end.by),
        _ => None,
    };
    filter.status.is_none_or(|status| status == task.status())
        && filter.task_type.as_deref().is_none_or(|task_type| *task_type == *task.spec.task_type)
        && agent.is_none_or(|agent| task.spec.agent == Some(agent) || holder == Some(agent))
}

/// Whether a dependency blocks a task.
fn blocks(task: &Task, dependency: &Task) -> bool {
    let waits = task.spec.on_dependency_failure == OnDependencyFailure::Wait;
    match dependency.status() {
        TaskStatus::Done => false,
        status => waits || !status.has_ended(),
    }
}
