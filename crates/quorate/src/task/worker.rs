//! The task loop of a running agent: claims tasks, runs handlers, ends each task with one commit.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use quorate_api::Error;
use quorate_core::{Code, CompleteTask, Op};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::agent::Agent;
use crate::backend::{CreditReturn, HeldWork, TaskEvent, TaskStream};
use crate::handler::{self, Failure, SharedEffects};
use crate::held_leases::{HeldLease, HeldLeases};
use crate::running::AbortOnDrop;
use crate::task::work::{ResultMetadata, SharedMetadata};
use crate::task::{ClaimedTask, TaskHandler, fail_op};

/// Handles the tasks of one agent.
pub(crate) struct TaskWorker {
    agent: Agent,
    handlers: HashMap<String, Arc<dyn TaskHandler>>,
    permits: Arc<Semaphore>,
    leases: Arc<HeldLeases>,
}

impl TaskWorker {
    pub(crate) fn new(
        agent: Agent,
        handlers: HashMap<String, Arc<dyn TaskHandler>>,
        permits: Arc<Semaphore>,
        leases: Arc<HeldLeases>,
    ) -> Arc<Self> {
        Arc::new(Self { agent, handlers, permits, leases })
    }

    /// Handles tasks until stopped, or until the stream ends.
    pub(crate) async fn run(
        self: Arc<Self>,
        mut inbox: Box<dyn TaskStream>,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let mut running = JoinSet::new();
        loop {
            let next = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => break,
                next = inbox.next() => next?,
            };
            match next {
                Some(TaskEvent::Task(task)) => {
                    let claimed = ClaimedTask(*task);
                    let held = self.leases.hold(HeldWork::Task(claimed.lease()));
                    let (worker, credit) = (Arc::clone(&self), inbox.credit_return());
                    running.spawn(async move { worker.handle_task(claimed, held, credit).await });
                }
                Some(TaskEvent::Lost(lease)) => self.leases.end(HeldWork::Task(lease)),
                None => break,
            }
            while running.try_join_next().is_some() {}
        }
        while running.join_next().await.is_some() {}
        inbox.close().await
    }

    /// Handles one task and ends it with one commit, which also returns its credit.
    async fn handle_task(&self, claimed: ClaimedTask, mut held: HeldLease, credit: CreditReturn) {
        let effects = handler::no_effects();
        let metadata = SharedMetadata::default();
        let checks = held.checks();
        let result = tokio::select! {
            biased;
            () = held.ended() => return self.agent.return_credit(&credit).await,
            result = self.run_handler(&claimed, Arc::clone(&effects), Arc::clone(&metadata)) => result,
            () = self.keep_lease(&claimed, checks) => return self.agent.return_credit(&credit).await,
        };
        drop(held);
        let ops = result.and_then(|result| self.completion(&claimed, result, &effects, &metadata));
        let error = match ops {
            Ok(ops) => self.agent.commit_end(ops, &credit).await.err(),
            Err(failure) => return self.fail(&claimed, &failure, &credit).await,
        };
        match error {
            None => {}
            Some(error) if is_lost(&error) => self.agent.return_credit(&credit).await,
            // The commit was rejected atomically, so the task can be retried.
            Some(error) => self.fail(&claimed, &Failure::retry(error.to_string()), &credit).await,
        }
    }

    /// Runs the handler once a permit is available. A panic counts as a retryable failure.
    async fn run_handler(
        &self,
        claimed: &ClaimedTask,
        effects: SharedEffects,
        metadata: SharedMetadata,
    ) -> Result<Vec<u8>, Failure> {
        let Ok(_permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return Err(Failure::retry("the agent is stopped"));
        };
        let task_type = &claimed.task().task_type;
        let Some(handler) = self.handlers.get(task_type) else {
            let reason = format!("agent {} has no handler for tasks of type {task_type:?}", self.agent.id());
            return Err(Failure::permanent(reason));
        };
        let work = tokio::spawn(handler.handle(self.agent.clone(), claimed.clone(), effects, metadata));
        // Dropping this future aborts the handler, which happens when the lease is lost.
        AbortOnDrop(work).await
    }

    /// Extends the lease while the handler runs. Returns when the lease is lost.
    async fn keep_lease(&self, claimed: &ClaimedTask, mut checks: watch::Receiver<()>) {
        loop {
            self.agent.wait_to_extend(claimed.lease_ms(), &mut checks).await;
            if self.agent.heartbeat_task(claimed).await.is_err_and(|error| is_lost(&error)) {
                return;
            }
        }
    }

    /// Returns the operations that complete a task: its result, and the operations added by the handler.
    fn completion(
        &self,
        claimed: &ClaimedTask,
        result: Vec<u8>,
        effects: &SharedEffects,
        metadata: &SharedMetadata,
    ) -> Result<Vec<Op>, Failure> {
        let ResultMetadata { status, confidence, rationale } =
            metadata.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let result = Some(self.agent.backend.seal(result.into()));
        let complete =
            CompleteTask { status, confidence, rationale, ..CompleteTask::done(claimed.lease(), result) };
        let mut ops = vec![Op::CompleteTask(complete)];
        let collected =
            handler::collected_effects(effects).map_err(|error| Failure::permanent(error.to_string()))?;
        ops.extend(collected.ops);
        Ok(ops)
    }

    async fn fail(&self, claimed: &ClaimedTask, failure: &Failure, credit: &CreditReturn) {
        // The reason is not logged because it can contain payload data. It is stored with the task.
        let (agent, task) = (self.agent.id(), claimed.lease().task);
        tracing::warn!(%agent, %task, retried = failure.retryable, "task attempt failed");
        // If this commit fails, the lease expires and the task is retried.
        if self.agent.commit_end(vec![fail_op(claimed.lease(), failure)], credit).await.is_err() {
            self.agent.return_credit(credit).await;
        }
    }
}

/// Whether the lease of a task is lost. All other errors are treated as transient.
fn is_lost(error: &Error) -> bool {
    matches!(error.code(), Code::StaleLease | Code::StaleEpoch | Code::NotFound | Code::Cancelled)
}
