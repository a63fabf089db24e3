//! Tasks: creating and claiming them.

mod consumer;
mod context;
mod reads;
mod wait;

use std::time::Duration;

use bytes::Bytes;
use quorate_core::{
    ClaimTasks, Commit, ConsumerEvent, CreateTasks, LeasedTask, NewTask, Op, OpResult, Task, TaskId,
    TaskLeaseRef, WaitMode,
};
use quorate_store::{PartBytes, ReadQuery, ReadResult, StoreError};

use crate::error::Error;
use crate::mailboxes::MailboxItem;
use crate::reads::unexpected_result;
use crate::space::{ConsumerGuard, Space};

pub use quorate_api::query::TaskClaimQuery;
use quorate_api::task::{DependencyResult, TaskContext};

pub use consumer::{TaskConsumer, TaskConsumerEvent};
pub use reads::{PartialResult, TaskFilter, TaskView};

/// Maximum size of the partial results, failure details and results of dependencies in one claim.
const CONTEXT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Task leased to the agent that works on it.
#[derive(Clone, PartialEq, Debug)]
pub struct LeasedTaskWithInput {
    /// Lease under which it is held.
    pub lease: TaskLeaseRef,
    /// The task. Its state is `Leased`.
    pub task: Task,
    /// Input, byte for byte as it was sent; empty if the task has none, zeros if it was erased.
    pub input: Bytes,
    /// What earlier attempts and dependencies left.
    pub context: TaskContext,
}

/// Creates the commit of a claim.
pub(crate) fn claim_commit(claim: &TaskClaimQuery, max: u32, wait: WaitMode) -> Commit {
    let op = Op::ClaimTasks(ClaimTasks {
        agent: claim.agent.clone(),
        types: claim.types.clone(),
        max,
        lease_ms: claim.lease_ms,
        wait,
    });
    let commit = Commit::new(claim.principal.clone(), vec![op]);
    Commit { epoch: claim.epoch, token: claim.token, ..commit }
}

impl Space {
    /// Packs tasks and their inputs into a single operation that creates them atomically.
    #[must_use]
    pub fn create_tasks_op(&self, tasks: impl IntoIterator<Item = (NewTask, Option<Vec<u8>>)>) -> Op {
        Op::CreateTasks(CreateTasks::pack(tasks, self.salt()))
    }

    /// Creates a task or a graph of tasks atomically. Returns the IDs in the order of the tasks.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn create_tasks(&self, commit: Commit) -> Result<Vec<TaskId>, Error> {
        let given_ids: Vec<Vec<Option<TaskId>>> = commit
            .ops
            .iter()
            .map(|op| match op {
                Op::CreateTasks(create) => create.tasks.iter().map(|task| task.id.clone()).collect(),
                _ => Vec::new(),
            })
            .collect();
        let receipt = self.commit(commit).await?;
        let mut ids = Vec::new();
        for (given_ids, result) in given_ids.into_iter().zip(receipt.results) {
            if let OpResult::TasksCreated { generation, seq, first, .. } = result {
                let assigned = |n| TaskId::generated(generation, seq, first + n);
                let id = |(n, id): (usize, Option<TaskId>)| id.unwrap_or_else(|| assigned(n as u32));
                ids.extend(given_ids.into_iter().enumerate().map(id));
            }
        }
        Ok(ids)
    }

    /// Claims tasks; waits for the first one if there is none.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn claim_tasks(
        &self,
        claim: &TaskClaimQuery,
        max: u32,
        wait: Duration,
    ) -> Result<Vec<LeasedTaskWithInput>, Error> {
        let (id, mut mailbox) = self.mailboxes().open_waiter(self.number());
        let waits = !wait.is_zero();
        let mode = if waits { WaitMode::Once(id) } else { WaitMode::NoWait };
        let mut guard = ConsumerGuard { space: self, id, registered: waits, owns_mailbox: true };
        let receipt = self.commit(claim_commit(claim, max, mode)).await?;
        let mut leased = claimed_tasks(receipt.results);
        guard.registered = guard.registered && leased.is_empty();
        if guard.registered {
            let first = tokio::select! {
                first = mailbox.recv() => first,
                () = self.sleep(wait) => None,
            };
            if first.is_none() {
                // Anything dispatched before the wait ended is in the mailbox once this commit returns.
                self.commit_system(vec![Op::CloseConsumer { consumer: id }]).await?;
            }
            guard.registered = false;
            for item in first.into_iter().chain(std::iter::from_fn(|| mailbox.try_recv().ok())) {
                if let MailboxItem::Event(ConsumerEvent::TaskLeased(task)) = item {
                    leased.push(*task);
                }
            }
        }
        drop(guard);
        self.with_inputs(leased).await
    }

    /// Adds the inputs to claimed tasks, and what earlier attempts and dependencies left, up to a size for all of them.
    pub(crate) async fn with_inputs(
        &self,
        leased: Vec<LeasedTask>,
    ) -> Result<Vec<LeasedTaskWithInput>, Error> {
        let mut capacity = CONTEXT_BYTES_MAX;
        let mut tasks = Vec::with_capacity(leased.len());
        for task in leased {
            tasks.push(self.with_input(task, &mut capacity).await?);
        }
        Ok(tasks)
    }

    /// Adds the input to a dispatched task: from memory if available, otherwise from the log.
    async fn with_input(&self, leased: LeasedTask, capacity: &mut u64) -> Result<LeasedTaskWithInput, Error> {
        let lease = leased.lease_ref();
        let LeasedTask { task, input } = leased;
        let input = match (input, task.spec.input) {
            (Some(input), _) => input,
            (None, Some(range)) if range.length > 0 => {
                let seq = task.spec.number.seq;
                self.payload_range(seq, range.part, (range.start, range.length)).await?.bytes
            }
            (None, _) => Bytes::new(),
        };
        let context = self.task_context(&task, capacity).await?;
        Ok(LeasedTaskWithInput { lease, task, input, context })
    }

    pub(crate) async fn payload_range(
        &self,
        seq: quorate_core::Seq,
        part: u32,
        (start, length): (u64, u64),
    ) -> Result<PartBytes, Error> {
        match self.read_one(ReadQuery::Part { seq, part, start, length }).await? {
            ReadResult::Part(Some(found)) => Ok(found),
            ReadResult::Part(None) => {
                Err(StoreError::Corrupt(format!("record {seq} has no part {part}").into()).into())
            }
            other => Err(unexpected_result(&other)),
        }
    }
}

fn claimed_tasks(results: Vec<OpResult>) -> Vec<LeasedTask> {
    match results.into_iter().next() {
        Some(OpResult::TasksClaimed(leased)) => leased,
        _ => Vec::new(),
    }
}
