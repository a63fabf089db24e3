//! Tasks as callers see them: made, claimed, worked on.

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

/// A task in the hands of somebody who works on it.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskInHand {
    /// The lease under which it is held.
    pub lease: TaskLeaseRef,
    /// The task. Its state is the lease.
    pub task: Task,
    /// Its input, byte for byte as it was given; empty if it has none, zeros if it was erased.
    pub input: Bytes,
}

/// The commit of a claim.
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
    /// Packs tasks and their inputs into the operation that makes them all at once.
    #[must_use]
    pub fn task_op(&self, tasks: impl IntoIterator<Item = (NewTask, Option<Vec<u8>>)>) -> Op {
        Op::CreateTasks(CreateTasks::pack(tasks, self.salt()))
    }

    /// Makes one task or a whole graph: all of it, or nothing. The ids come in the order of the tasks.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn create_tasks(&self, commit: Commit) -> Result<Vec<TaskId>, Error> {
        let chosen: Vec<Vec<Option<TaskId>>> = commit
            .ops
            .iter()
            .map(|op| match op {
                Op::CreateTasks(create) => create.tasks.iter().map(|task| task.id.clone()).collect(),
                _ => Vec::new(),
            })
            .collect();
        let receipt = self.commit(commit).await?;
        let mut ids = Vec::new();
        for (chosen, result) in chosen.into_iter().zip(receipt.results) {
            if let OpResult::TasksCreated { generation, seq, first, .. } = result {
                let made = |n| TaskId::made_by_hub(generation, seq, first + n);
                let id = |(n, id): (usize, Option<TaskId>)| id.unwrap_or_else(|| made(n as u32));
                ids.extend(chosen.into_iter().enumerate().map(id));
            }
        }
        Ok(ids)
    }

    /// Takes tasks; waits for the first if there is none.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
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
            let came = tokio::select! {
                came = mail.recv() => came,
                () = self.pass(wait) => None,
            };
            if came.is_none() {
                // Whatever was handed over before the wait ended lies in the mailbox by the time this is answered.
                self.commit_system(vec![Op::Close { consumer: id }]).await?;
            }
            closing.waits = false;
            for mail in came.into_iter().chain(std::iter::from_fn(|| mail.try_recv().ok())) {
                if let Mail::Told(Told::TaskHanded(one)) = mail {
                    handed.push(*one);
                }
            }
        }
        drop(closing);
        let mut tasks = Vec::with_capacity(handed.len());
        for one in handed {
            tasks.push(self.with_input(one).await?);
        }
        Ok(tasks)
    }

    /// Adds the input to a handed task: from memory if it is at hand, else from the log.
    pub(crate) async fn with_input(&self, handed: TaskHanded) -> Result<TaskInHand, Error> {
        let lease = handed.lease_ref();
        let TaskHanded { task, input } = handed;
        let input = match (input, task.spec.input) {
            (Some(input), _) => input,
            (None, Some(place)) if place.length > 0 => {
                let seq = task.spec.no.seq;
                self.part(seq, place.part, (place.start, place.length)).await?.bytes
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
