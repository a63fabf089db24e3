//! Task consumer over the network: claims tasks by long polling while there is capacity.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate::Error;
use quorate::backend::{
    BackendFuture, CreditReturn, HeldTask, TaskClaimQuery, TaskEvent, TaskStream, WorkOutcome,
};
use quorate_core::Op;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::PrincipalClient;
use super::commit_and_claim::claim_tasks_with_key;
use crate::retry::{Retrier, reconnect_backoff};
use crate::wire::op;

/// Duration of one long poll.
const WAIT: Duration = Duration::from_secs(10);

/// Stream of tasks, fed by a background poll loop.
pub(super) struct TaskPoll {
    shared: Arc<Shared>,
    task: Option<JoinHandle<()>>,
}

struct Shared {
    client: Arc<PrincipalClient>,
    retrier: Retrier,
    claim: TaskClaimQuery,
    state: Mutex<State>,
    /// Signals the poll loop that capacity was freed or the stream is closing.
    poll_ready: Notify,
    /// Signals the consumer that tasks arrived or the poll loop failed.
    received: Notify,
}

#[derive(Default)]
struct State {
    free: u32,
    closing: bool,
    ready: VecDeque<HeldTask>,
    error: Option<Error>,
    /// Idempotency key and size of the claim whose response was not received yet.
    unanswered: Option<(String, u32)>,
}

impl Shared {
    /// Claims tasks. A claim without a response is repeated with the same key and returns the same tasks.
    async fn claim(&self, retrier: &Retrier, wait: Duration) -> Result<Vec<HeldTask>, Error> {
        let (key, max) = {
            let mut state = self.state();
            let free = state.free;
            let new_claim =
                || (format!("tasks-{}", quorate_core::hex::encode(&retrier.entropy.bytes_16())), free);
            state.unanswered.get_or_insert_with(new_claim).clone()
        };
        let claimed = claim_tasks_with_key(&self.client, retrier, &key, &self.claim, max, wait).await?;
        let mut state = self.state();
        state.unanswered = None;
        state.free = state.free.saturating_sub(claimed.len() as u32);
        Ok(claimed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskPoll {
    pub(super) fn start(
        client: Arc<PrincipalClient>,
        retrier: Retrier,
        claim: TaskClaimQuery,
        credit: u32,
    ) -> Self {
        let state = State { free: credit, ..State::default() };
        let (poll_ready, received) = (Notify::new(), Notify::new());
        let shared =
            Arc::new(Shared { client, retrier, claim, state: Mutex::new(state), poll_ready, received });
        let task = tokio::spawn(poll(Arc::clone(&shared)));
        Self { shared, task: Some(task) }
    }
}

async fn poll(shared: Arc<Shared>) {
    let retrier = &shared.retrier;
    let mut backoff = reconnect_backoff();
    loop {
        let (free, closing) = {
            let state = shared.state();
            (state.free, state.closing)
        };
        if closing {
            return;
        }
        if free == 0 {
            shared.poll_ready.notified().await;
            continue;
        }
        // Closing interrupts the poll. A claim that may have succeeded is repeated by `close`.
        let claimed = tokio::select! {
            claimed = shared.claim(retrier, WAIT) => claimed,
            () = shared.poll_ready.notified() => continue,
        };
        match claimed {
            Ok(claimed) => {
                backoff.reset();
                shared.state().ready.extend(claimed);
            }
            Err(error) if error.refusal().is_none_or(|refused| refused.code.retryable()) => {
                // The hub is unavailable beyond the retry timeout; keep polling.
                tracing::warn!(code = error.code().as_str(), "claiming tasks failed, retrying");
                backoff.wait(&*retrier.clock, &retrier.entropy).await;
            }
            Err(error) => shared.state().error = Some(error),
        }
        shared.received.notify_one();
        if shared.state().error.is_some() {
            return;
        }
    }
}

impl TaskStream for TaskPoll {
    fn next(&mut self) -> BackendFuture<'_, Option<TaskEvent>> {
        Box::pin(async move {
            loop {
                let (ready, error) = {
                    let mut state = self.shared.state();
                    (state.ready.pop_front(), state.error.clone())
                };
                match (ready, error) {
                    (Some(task), _) => return Ok(Some(TaskEvent::Task(Box::new(task)))),
                    (None, Some(error)) => return Err(error),
                    (None, None) => self.shared.received.notified().await,
                }
            }
        })
    }

    fn credit_return(&self) -> CreditReturn {
        let shared = Arc::clone(&self.shared);
        CreditReturn::Callback(Arc::new(move |_: WorkOutcome| {
            let mut state = shared.state();
            state.free += 1;
            // A claim in progress is not interrupted; the next one uses the additional capacity.
            let first = state.free == 1;
            drop(state);
            if first {
                shared.poll_ready.notify_one();
            }
        }))
    }

    fn close(mut self: Box<Self>) -> BackendFuture<'static, ()> {
        Box::pin(async move {
            self.shared.state().closing = true;
            self.shared.poll_ready.notify_one();
            if let Some(task) = self.task.take() {
                let _ = task.await;
            }
            if self.shared.state().unanswered.is_some() {
                let no_retry = Retrier { timeout: Duration::ZERO, ..self.shared.retrier.clone() };
                // If this fails, the leases expire.
                let claimed = self.shared.claim(&no_retry, Duration::ZERO).await.unwrap_or_default();
                self.shared.state().ready.extend(claimed);
            }
            let unread: Vec<_> = self.shared.state().ready.drain(..).collect();
            for held in unread {
                let key = format!("untaken-{}-{}", held.lease.task, held.lease.token.0);
                let task = held.lease.task.clone();
                let body = op::commit_json(&[Op::ReleaseTask(held.lease)], &key, None)?;
                if let Err(error) = self.shared.client.http.post("/v1/commit").json(body).send().await {
                    let code = error.code().as_str();
                    tracing::debug!(%task, code, "releasing a task failed, its lease will expire");
                }
            }
            Ok(())
        })
    }
}

impl Drop for TaskPoll {
    fn drop(&mut self) {
        self.task.iter().for_each(JoinHandle::abort);
    }
}
