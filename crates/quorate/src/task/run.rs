//! An agent at work on tasks: takes them, runs handlers, ends each with one commit.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use quorate_api::Error;
use quorate_core::{Code, CompleteTask, Op, TaskLeaseRef};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::agent::Agent;
use crate::handler::{self, Extra, Failure};
use crate::link::{Room, TaskEvent, TaskInbox};
use crate::run::AbortOnDrop;
use crate::task::work::{Said, Verdict};
use crate::task::{TakenTask, TaskHandler, fail_op};

/// Works on tasks until told to stop, or until nothing more comes.
pub(crate) async fn work_on_tasks(
    agent: Agent,
    handlers: HashMap<String, Arc<dyn TaskHandler>>,
    mut inbox: Box<dyn TaskInbox>,
    hands: Arc<Semaphore>,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), Error> {
    let bench = Arc::new(Bench { agent, handlers, hands });
    let mut running = JoinSet::new();
    let mut under_way: HashMap<TaskLeaseRef, AbortHandle> = HashMap::new();
    loop {
        let next = tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => break,
            next = inbox.next() => next?,
        };
        match next {
            Some(TaskEvent::Task(task)) => {
                let taken = TakenTask(*task);
                let (lease, more) = (taken.lease(), inbox.room());
                let bench = Arc::clone(&bench);
                let work = running.spawn(async move { bench.one(taken, more).await });
                under_way.insert(lease, work);
            }
            Some(TaskEvent::Lost(lease)) => {
                let lost = under_way.remove(&lease);
                if let Some(work) = lost.filter(|work| !work.is_finished()) {
                    // The work is nobody's any more, or somebody else's: this try is called off. What made room for the
                    // next task goes with it, so it is made here.
                    work.abort();
                    bench.agent.go_on(&inbox.room()).await;
                }
            }
            None => break,
        }
        while running.try_join_next().is_some() {}
        under_way.retain(|_, work| !work.is_finished());
    }
    while running.join_next().await.is_some() {}
    inbox.close().await
}

/// Where an agent works on tasks.
struct Bench {
    agent: Agent,
    handlers: HashMap<String, Arc<dyn TaskHandler>>,
    hands: Arc<Semaphore>,
}

impl Bench {
    /// Works on one task and ends it, in one commit that also makes room for the next.
    async fn one(&self, taken: TakenTask, more: Room) {
        let extra = handler::nothing();
        let said = Said::default();
        let done = tokio::select! {
            done = self.handle(&taken, Arc::clone(&extra), Arc::clone(&said)) => done,
            () = self.keep(&taken) => return self.agent.go_on(&more).await,
        };
        let ops = done.and_then(|result| self.ending(&taken, result, &extra, &said));
        let refusal = match ops {
            Ok(ops) => self.agent.end(ops, &more).await.err(),
            Err(failure) => return self.fail(&taken, &failure, &more).await,
        };
        match refusal {
            None => {}
            Some(error) if is_lost(&error) => self.agent.go_on(&more).await,
            // The step was refused as a whole: the task is tried again.
            Some(error) => self.fail(&taken, &Failure::retry(error.to_string()), &more).await,
        }
    }

    /// Runs the handler as soon as a hand is free. A panic is a failure that may pass.
    async fn handle(&self, taken: &TakenTask, extra: Extra, said: Said) -> Result<Vec<u8>, Failure> {
        let Ok(_hand) = Arc::clone(&self.hands).acquire_owned().await else {
            return Err(Failure::retry("the agent is stopped"));
        };
        let task_type = &taken.task().task_type;
        let Some(handler) = self.handlers.get(task_type) else {
            let reason = format!("agent {} has no handler for tasks of type {task_type:?}", self.agent.id());
            return Err(Failure::dead(reason));
        };
        let work = tokio::spawn(handler.work(self.agent.clone(), taken.clone(), extra, said));
        // Called off with us: a lost lease cancels the handler.
        AbortOnDrop(work).await
    }

    /// Keeps the lease for as long as the handler works; ends when it is lost.
    async fn keep(&self, taken: &TakenTask) {
        loop {
            self.agent.link.pass(Duration::from_millis(taken.lease_ms() / 3)).await;
            if self.agent.heartbeat(taken).await.is_err_and(|error| is_lost(&error)) {
                return;
            }
        }
    }

    /// The commit that ends a task: its result, and what the handler added.
    fn ending(
        &self,
        taken: &TakenTask,
        result: Vec<u8>,
        extra: &Extra,
        said: &Said,
    ) -> Result<Vec<Op>, Failure> {
        let Verdict { status, confidence, rationale } =
            said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let result = Some(self.agent.link.seal(result.into()));
        let done =
            CompleteTask { status, confidence, rationale, ..CompleteTask::done(taken.lease(), result) };
        let mut ops = vec![Op::CompleteTask(done)];
        let added = handler::added(extra).map_err(|error| Failure::dead(error.to_string()))?;
        ops.extend(added.ops);
        Ok(ops)
    }

    async fn fail(&self, taken: &TakenTask, failure: &Failure, more: &Room) {
        // Without the reason: it may quote the payload. The task has it.
        let (agent, task) = (self.agent.id(), taken.lease().task);
        tracing::warn!(%agent, %task, retried = failure.again, "a task failed");
        // If that cannot be said, its lease lapses and it comes back by itself.
        if self.agent.end(vec![fail_op(taken.lease(), failure)], more).await.is_err() {
            self.agent.go_on(more).await;
        }
    }
}

/// Whether a task is not this agent's any more. Anything else may pass.
fn is_lost(error: &Error) -> bool {
    matches!(error.code(), Code::StaleLease | Code::StaleEpoch | Code::NotFound | Code::Cancelled)
}
