//! Tasks: creating and claiming them.

mod consumer;
mod reads;
mod wait;

use std::time::Duration;

use bytes::Bytes;
use quorate_core::{
    ClaimTasks, Commit, CreateTasks, NewTask, Op, OpResult, Task, TaskHanded, TaskId, TaskLeaseRef, Told,
    Waiting,
};
use quorate_store::{PartBytes, Read, Rows, StoreError};

use crate::error::Error;
use crate::post::Mail;
use crate::reads::unexpected;
use crate::space::{Closing, Space};

pub use quorate_api::query::TaskClaim;

pub use consumer::{TaskConsumer, TaskEvent};
pub use reads::{PartialResult, TaskFilter, TaskView};

/// Task leased to the agent that works on it.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskInHand {
    /// Lease under which it is held.
    pub lease: TaskLeaseRef,
    /// The task. Its state is `Leased`.
    pub task: Task,
    /// Input, byte for byte as it was sent; empty if the task has none, zeros if it was erased.
    pub input: Bytes,
}

/// Creates the commit of a claim.
pub(crate) fn claim_commit(claim: &TaskClaim, max: u32, waiting: Waiting) -> Commit {
    let op = Op::ClaimTasks(ClaimTasks {
        agent: claim.agent.clone(),
        types: claim.types.clone(),
        max,
        lease_ms: claim.lease_ms,
        waiting,
    });
    Commit { epoch: claim.epoch, ..Commit::new(claim.principal.clone(), vec![op]) }
}

impl Space {
    /// Packs tasks and their inputs into a single operation that creates them atomically.
    #[must_use]
    pub fn task_op(&self, tasks: impl IntoIterator<Item = (NewTask, Option<Vec<u8>>)>) -> Op {
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
                let assigned = |n| TaskId::made_by_hub(generation, seq, first + n);
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
        claim: &TaskClaim,
        max: u32,
        wait: Duration,
    ) -> Result<Vec<TaskInHand>, Error> {
        let (id, mut mail) = self.post().wait(self.number());
        let waits = !wait.is_zero();
        let waiting = if waits { Waiting::Once(id) } else { Waiting::No };
        let mut closing = Closing { space: self, id, waits, mailbox: true };
        let receipt = self.commit(claim_commit(claim, max, waiting)).await?;
        let mut handed = claimed(receipt.results);
        closing.waits = closing.waits && handed.is_empty();
        if closing.waits {
            let first = tokio::select! {
                first = mail.recv() => first,
                () = self.pass(wait) => None,
            };
            if first.is_none() {
                // Anything dispatched before the wait ended is in the mailbox once this commit returns.
                self.commit_system(vec![Op::Close { consumer: id }]).await?;
            }
            closing.waits = false;
            for mail in first.into_iter().chain(std::iter::from_fn(|| mail.try_recv().ok())) {
                if let Mail::Told(Told::TaskHanded(task)) = mail {
                    handed.push(*task);
                }
            }
        }
        drop(closing);
        let mut tasks = Vec::with_capacity(handed.len());
        for task in handed {
            tasks.push(self.with_input(task).await?);
        }
        Ok(tasks)
    }

    /// Adds the input to a dispatched task: from memory if available, otherwise from the log.
    pub(crate) async fn with_input(&self, handed: TaskHanded) -> Result<TaskInHand, Error> {
        let lease = handed.lease_ref();
        let TaskHanded { task, input } = handed;
        let input = match (input, task.spec.input) {
            (Some(input), _) => input,
            (None, Some(range)) if range.length > 0 => {
                let seq = task.spec.no.seq;
                self.part(seq, range.part, (range.start, range.length)).await?.bytes
            }
            (None, _) => Bytes::new(),
        };
        Ok(TaskInHand { lease, task, input })
    }

    pub(crate) async fn part(
        &self,
        seq: quorate_core::Seq,
        part: u32,
        (start, length): (u64, u64),
    ) -> Result<PartBytes, Error> {
        match self.read_one(Read::Part { seq, part, start, length }).await? {
            Rows::Part(Some(found)) => Ok(found),
            Rows::Part(None) => {
                Err(StoreError::Damaged(format!("record {seq} has no part {part}").into()).into())
            }
            other => Err(unexpected(&other)),
        }
    }
}

fn claimed(results: Vec<OpResult>) -> Vec<TaskHanded> {
    match results.into_iter().next() {
        Some(OpResult::TasksClaimed(handed)) => handed,
        _ => Vec::new(),
    }
}
