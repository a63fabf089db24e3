//! Tasks in the library: made by agents, worked on by handlers or by hand, looked at by anybody.

mod draft;
mod run;
mod view;
mod work;

use std::time::Duration;

use quorate_api::Error;
use quorate_api::page::{Page, PageQuery};
use quorate_api::query::{TaskClaim, TaskFilter};
use quorate_core::{CancelTask, CompleteTask, FailTask, HeartbeatTask, Op, TaskCounts, TaskId, TaskLeaseRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::{Agent, from_json, to_json};
use crate::handler::Failure;
use crate::hub::Hub;
use crate::link::HeldTask;
use crate::step::Step;

pub use draft::TaskDraft;
pub(crate) use run::work_on_tasks;
pub use view::{Task, TaskWithPayloads};
pub use work::TaskWork;
pub(crate) use work::{TaskHandler, task_handler};

/// A task in this agent's hands, under a lease.
#[derive(Clone, Debug)]
pub struct TakenTask(pub(crate) HeldTask);

impl TakenTask {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        &self.0.lease.task
    }

    /// The input, typed; what has no input is `null`.
    ///
    /// # Errors
    /// `INVALID` if it is not of that shape.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json(self.json())
    }

    /// The input, byte for byte as it was given.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0.input
    }

    /// The task with all that is known of it.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.0.task
    }

    /// The how many-th try this is, counted from 1.
    #[must_use]
    pub fn attempt(&self) -> u16 {
        self.0.task.attempt
    }

    /// How long its lease lasts, and each heartbeat anew.
    pub(crate) fn lease_ms(&self) -> u64 {
        self.0.lease_ms
    }

    /// The lease under which it is held.
    #[must_use]
    pub fn lease(&self) -> TaskLeaseRef {
        self.0.lease.clone()
    }

    fn json(&self) -> &[u8] {
        if self.0.input.is_empty() { b"null" } else { &self.0.input }
    }
}

impl Agent {
    /// Makes tasks: all of them or, if one is refused, none. They may depend on each other. The ids come in their order.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn create_tasks(
        &self,
        tasks: impl IntoIterator<Item = TaskDraft>,
    ) -> Result<Vec<TaskId>, Error> {
        let drafts = tasks.into_iter().map(TaskDraft::into_parts).collect::<Result<Vec<_>, _>>()?;
        let commit = self.commit_of(vec![self.link.task_op(drafts)]);
        self.link.create_tasks(commit).await
    }

    /// Makes a task. If it bears an id, making the very same one again makes none and gives the same answer.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn create_task(&self, task: TaskDraft) -> Result<TaskId, Error> {
        let ids = self.create_tasks([task]).await?;
        ids.into_iter().next().ok_or_else(|| quorate_core::StoreError::Read("no task was made".into()).into())
    }

    /// Takes the next task of these types; of all that the agent said it can do if none is named. Waits for it, but not
    /// longer than this.
    ///
    /// # Errors
    /// `STALE_EPOCH` if the agent was started again, or a failure of the storage.
    pub async fn take_task(&self, types: &[&str], wait: Duration) -> Result<Option<TakenTask>, Error> {
        let types = types.iter().map(|word| (*word).to_owned()).collect();
        let taken = self.link.claim_tasks(self.task_claim(types), 1, wait).await?;
        Ok(taken.into_iter().next().map(TakenTask))
    }

    pub(crate) fn task_claim(&self, types: Vec<String>) -> TaskClaim {
        TaskClaim {
            principal: self.principal(),
            epoch: Some(self.epoch),
            agent: self.id.clone(),
            types,
            // Whoever made a task knows best how long its worker may be silent.
            lease_ms: None,
        }
    }

    /// Says that this agent still works on a task: its lease begins anew.
    ///
    /// # Errors
    /// `STALE_LEASE` or `CANCELLED` if it is not its task any more, or a failure of the storage.
    pub async fn heartbeat(&self, task: &TakenTask) -> Result<(), Error> {
        self.beat(task.lease(), None).await
    }

    /// As a heartbeat, and keeps what there is of the result, also if the try comes to nothing.
    ///
    /// # Errors
    /// As [`Agent::heartbeat`].
    pub async fn progress(&self, task: &TakenTask, partial: impl Serialize) -> Result<(), Error> {
        self.beat(task.lease(), Some(to_json(partial)?)).await
    }

    pub(crate) async fn beat(&self, lease: TaskLeaseRef, partial: Option<Vec<u8>>) -> Result<(), Error> {
        let partial = partial.map(|bytes| self.link.seal(bytes.into()));
        let op = Op::HeartbeatTask(HeartbeatTask { lease, partial });
        self.link.commit(self.commit_of(vec![op])).await.map(drop)
    }

    /// Ends a task with a result. More in the same commit: `agent.commit().complete(…)`.
    ///
    /// # Errors
    /// `STALE_LEASE` or `CANCELLED` if it is not its task any more, or a failure of the storage.
    pub async fn complete(&self, task: &TakenTask, result: impl Serialize) -> Result<(), Error> {
        self.commit().complete(task, result).commit().await.map(drop)
    }

    /// Says that this try came to nothing, and whether another one may help.
    ///
    /// # Errors
    /// `STALE_LEASE` or `CANCELLED` if it is not its task any more, or a failure of the storage.
    pub async fn fail(&self, task: &TakenTask, failure: Failure) -> Result<(), Error> {
        let op = fail_op(task.lease(), &failure);
        self.link.commit(self.commit_of(vec![op])).await.map(drop)
    }

    /// Waits until a task is over, but not longer than this. This agent is waiting meanwhile: if the task in turn waits for
    /// what this agent has, one of them is told so.
    ///
    /// # Errors
    /// `TIMEOUT`, `DEADLOCK` with the circle, `NOT_FOUND`, or a failure of the storage.
    pub async fn wait_for_task(&self, task: &TaskId, wait: Duration) -> Result<TaskWithPayloads, Error> {
        self.link.await_task(self.who(), task.clone(), wait).await
    }

    /// Calls a task off. Only for whoever made it, coordinators and the hub.
    ///
    /// # Errors
    /// `FORBIDDEN`, `CONFLICT` if it is over, or a failure of the storage.
    pub async fn cancel_task(&self, task: &TaskId, reason: &str) -> Result<(), Error> {
        let op = Op::CancelTask(CancelTask { task: task.clone(), reason: reason.to_owned() });
        self.link.commit(self.commit_of(vec![op])).await.map(drop)
    }
}

impl Step {
    /// Ends a task with a result.
    pub fn complete(self, task: &TakenTask, result: impl Serialize) -> Self {
        let lease = task.lease();
        let result = to_json(result).map(|bytes| self.agent.link.seal(bytes.into()));
        let op = result.map(|result| Op::CompleteTask(CompleteTask::done(lease, Some(result))));
        self.add(op)
    }

    /// Makes tasks. Their ids are known if they bear ids of their own.
    pub fn create_tasks(self, tasks: impl IntoIterator<Item = TaskDraft>) -> Self {
        let drafts = tasks.into_iter().map(TaskDraft::into_parts).collect::<Result<Vec<_>, _>>();
        let op = drafts.map(|drafts| self.agent.link.task_op(drafts));
        self.add(op)
    }
}

impl Hub {
    /// A task, open or over, with its result and what it waits for.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn task(&self, id: &TaskId) -> Result<TaskWithPayloads, Error> {
        self.link.task(id.clone()).await
    }

    /// Waits until a task is over, but not longer than this; then the task as it is.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn task_over(&self, id: &TaskId, wait: Duration) -> Result<TaskWithPayloads, Error> {
        self.link.task_over(id.clone(), wait).await
    }

    /// A page of tasks.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn tasks(&self, filter: &TaskFilter, page: PageQuery) -> Result<Page<Task>, Error> {
        self.link.tasks(filter.clone(), page).await
    }

    /// How many tasks are in each state.
    ///
    /// # Errors
    /// `FORBIDDEN` for who does not run the hub, or a failure of the storage.
    pub async fn task_counts(&self) -> Result<TaskCounts, Error> {
        Ok(self.link.counts().await?.1)
    }
}

pub(crate) fn fail_op(lease: TaskLeaseRef, failure: &Failure) -> Op {
    let reason = failure.reason.chars().take(quorate_core::limits::REASON_CHARS_MAX).collect();
    Op::FailTask(FailTask { lease, reason, details: None, recoverable: failure.again })
}
