//! Tasks: creating, claiming and completing them.

mod draft;
mod read_models;
mod work;
mod worker;

use std::time::Duration;

use quorate_api::Error;
use quorate_api::page::{Page, PageQuery};
use quorate_api::query::{TaskClaimQuery, TaskFilter};
use quorate_api::task::TaskContext;
use quorate_core::{CancelTask, CompleteTask, FailTask, HeartbeatTask, Op, TaskCounts, TaskId, TaskLeaseRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::{Agent, from_json, to_json};
use crate::backend::HeldTask;
use crate::handler::Failure;
use crate::hub::Hub;
use crate::step::Step;

pub use draft::TaskDraft;
pub use read_models::{Task, TaskWithPayloads};
pub use work::TaskWork;
pub(crate) use work::{TaskHandler, erase_task_handler};
pub(crate) use worker::TaskWorker;

/// A task claimed by this agent, under a lease.
#[derive(Clone, Debug)]
pub struct ClaimedTask(pub(crate) HeldTask);

impl ClaimedTask {
    /// Returns the task id.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        &self.0.lease.task
    }

    /// Deserializes the input. A task without input has the input `null`.
    ///
    /// # Errors
    /// Returns `INVALID` if the input does not match the type.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json(self.json())
    }

    /// Returns the input exactly as it was submitted.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0.input
    }

    /// Returns the task with all its fields.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.0.task
    }

    /// Returns the attempt number, starting at 1.
    #[must_use]
    pub fn attempt(&self) -> u16 {
        self.0.task.attempt
    }

    /// Returns the partial results and failure details of earlier attempts, and the results of the dependencies. The
    /// reason of the last failure is `reason` of [`ClaimedTask::task`].
    #[must_use]
    pub fn context(&self) -> &TaskContext {
        &self.0.context
    }

    /// Returns the duration of the lease. Each heartbeat restarts it.
    pub(crate) fn lease_ms(&self) -> u64 {
        self.0.lease_ms
    }

    /// Returns the task id and lease token.
    #[must_use]
    pub fn lease(&self) -> TaskLeaseRef {
        self.0.lease.clone()
    }

    fn json(&self) -> &[u8] {
        if self.0.input.is_empty() { b"null" } else { &self.0.input }
    }
}

impl Agent {
    /// Creates tasks atomically: if one is rejected, none is created. Tasks can depend on each other. Returns their
    /// ids in the same order.
    ///
    /// # Errors
    /// Returns an error if a task is rejected or the storage fails.
    pub async fn create_tasks(
        &self,
        tasks: impl IntoIterator<Item = TaskDraft>,
    ) -> Result<Vec<TaskId>, Error> {
        let drafts = tasks.into_iter().map(TaskDraft::into_parts).collect::<Result<Vec<_>, _>>()?;
        let commit = self.new_commit(vec![self.backend.create_tasks_op(drafts)]);
        self.backend.create_tasks(commit).await
    }

    /// Creates a task and returns its id. If the draft sets an id, creating the same task again is idempotent.
    ///
    /// # Errors
    /// Returns an error if the task is rejected or the storage fails.
    pub async fn create_task(&self, task: TaskDraft) -> Result<TaskId, Error> {
        let ids = self.create_tasks([task]).await?;
        ids.into_iter()
            .next()
            .ok_or_else(|| quorate_core::StoreError::Read("the commit returned no task id".into()).into())
    }

    /// Claims the next task of the given types, waiting up to `wait` for one to become ready. Without types, claims
    /// tasks that match any capability of the agent.
    ///
    /// # Errors
    /// Returns `STALE_EPOCH` if the agent was registered again elsewhere, or a storage error.
    pub async fn claim_task(&self, types: &[&str], wait: Duration) -> Result<Option<ClaimedTask>, Error> {
        let types = types.iter().map(|name| (*name).to_owned()).collect();
        let claimed = self.backend.claim_tasks(self.task_claim(types), 1, wait).await?;
        Ok(claimed.into_iter().next().map(ClaimedTask))
    }

    pub(crate) fn task_claim(&self, types: Vec<String>) -> TaskClaimQuery {
        TaskClaimQuery {
            principal: self.principal(),
            epoch: Some(self.epoch),
            token: None,
            agent: self.id.clone(),
            types,
            // The lease duration is a property of the task, set by its creator.
            lease_ms: None,
        }
    }

    /// Sends a heartbeat for a task, which restarts its lease.
    ///
    /// # Errors
    /// Returns `STALE_LEASE` or `CANCELLED` if the agent no longer holds the task, or a storage error.
    pub async fn heartbeat_task(&self, task: &ClaimedTask) -> Result<(), Error> {
        self.commit_task_heartbeat(task.lease(), None).await
    }

    /// Sends a heartbeat with a partial result, which is retained even if the attempt fails.
    ///
    /// # Errors
    /// See [`Agent::heartbeat_task`].
    pub async fn progress(&self, task: &ClaimedTask, partial: impl Serialize) -> Result<(), Error> {
        self.commit_task_heartbeat(task.lease(), Some(to_json(partial)?)).await
    }

    pub(crate) async fn commit_task_heartbeat(
        &self,
        lease: TaskLeaseRef,
        partial: Option<Vec<u8>>,
    ) -> Result<(), Error> {
        let partial = partial.map(|bytes| self.backend.seal(bytes.into()));
        let op = Op::HeartbeatTask(HeartbeatTask { lease, partial });
        self.backend.commit(self.new_commit(vec![op])).await.map(drop)
    }

    /// Completes a task with a result. To add more to the same commit, use [`Step::complete_task`].
    ///
    /// # Errors
    /// Returns `STALE_LEASE` or `CANCELLED` if the agent no longer holds the task, or a storage error.
    pub async fn complete_task(&self, task: &ClaimedTask, result: impl Serialize) -> Result<(), Error> {
        self.commit().complete_task(task, result).commit().await.map(drop)
    }

    /// Ends this attempt of a task with a failure, which states whether to retry.
    ///
    /// # Errors
    /// Returns `STALE_LEASE` or `CANCELLED` if the agent no longer holds the task, or a storage error.
    pub async fn fail_task(&self, task: &ClaimedTask, failure: Failure) -> Result<(), Error> {
        let op = fail_op(task.lease(), &failure);
        self.backend.commit(self.new_commit(vec![op])).await.map(drop)
    }

    /// Waits at most `wait` for a task to end. The wait takes part in deadlock detection.
    ///
    /// # Errors
    /// Returns `TIMEOUT`, `DEADLOCK` with the cycle of waits, `NOT_FOUND`, or a storage error.
    pub async fn wait_for_task(&self, task: &TaskId, wait: Duration) -> Result<TaskWithPayloads, Error> {
        self.backend.wait_for_task_as_agent(self.identity(), task.clone(), wait).await
    }

    /// Cancels a task. Allowed for its creator, coordinators and the hub.
    ///
    /// # Errors
    /// Returns `FORBIDDEN`, `CONFLICT` if the task has ended, or a storage error.
    pub async fn cancel_task(&self, task: &TaskId, reason: &str) -> Result<(), Error> {
        let op = Op::CancelTask(CancelTask { task: task.clone(), reason: reason.to_owned() });
        self.backend.commit(self.new_commit(vec![op])).await.map(drop)
    }
}

impl Step {
    /// Completes a task with a result.
    pub fn complete_task(self, task: &ClaimedTask, result: impl Serialize) -> Self {
        let lease = task.lease();
        let result = to_json(result).map(|bytes| self.agent.backend.seal(bytes.into()));
        let op = result.map(|result| Op::CompleteTask(CompleteTask::done(lease, Some(result))));
        self.add(op)
    }

    /// Creates tasks. Set ids in the drafts to refer to the tasks afterwards.
    pub fn create_tasks(self, tasks: impl IntoIterator<Item = TaskDraft>) -> Self {
        let drafts = tasks.into_iter().map(TaskDraft::into_parts).collect::<Result<Vec<_>, _>>();
        let op = drafts.map(|drafts| self.agent.backend.create_tasks_op(drafts));
        self.add(op)
    }
}

impl Hub {
    /// Returns a task with its result and pending dependencies.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, or a storage error.
    pub async fn task(&self, id: &TaskId) -> Result<TaskWithPayloads, Error> {
        self.backend.task(id.clone()).await
    }

    /// Waits at most `wait` for a task to end, and returns it in its current state, also if it has not ended.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, or a storage error.
    pub async fn wait_for_task(&self, id: &TaskId, wait: Duration) -> Result<TaskWithPayloads, Error> {
        self.backend.wait_for_task(id.clone(), wait).await
    }

    /// Returns a page of tasks.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn tasks(&self, filter: &TaskFilter, page: PageQuery) -> Result<Page<Task>, Error> {
        self.backend.tasks(filter.clone(), page).await
    }

    /// Returns the number of tasks in each state.
    ///
    /// # Errors
    /// Returns `FORBIDDEN` if the caller may not read statistics, or a storage error.
    pub async fn task_counts(&self) -> Result<TaskCounts, Error> {
        Ok(self.backend.counts().await?.1)
    }
}

pub(crate) fn fail_op(lease: TaskLeaseRef, failure: &Failure) -> Op {
    let reason = failure.reason.chars().take(quorate_core::limits::REASON_CHARS_MAX).collect();
    Op::FailTask(FailTask { lease, reason, details: None, recoverable: failure.retryable })
}
