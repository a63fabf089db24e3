//! Tasks as they come: asked for one call after the other, as far as there is room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate::Error;
use quorate::link::{HeldTask, Over, Promise, Room, TaskClaim, TaskEvent, TaskInbox};
use quorate_core::Op;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::Seat;
use super::calls::claim_tasks;
use crate::patience::{Patience, backoff};
use crate::wire::op;

/// How long one call waits for a task.
const WAIT: Duration = Duration::from_secs(10);

/// Where tasks come in.
pub(super) struct TaskPoll {
    shared: Arc<Shared>,
    task: Option<JoinHandle<()>>,
}

struct Shared {
    seat: Arc<Seat>,
    patience: Patience,
    claim: TaskClaim,
    state: Mutex<State>,
    /// There is room, or nothing more is wanted.
    wanted: Notify,
    /// Something came, or it is over.
    came: Notify,
}

#[derive(Default)]
struct State {
    free: u32,
    closing: bool,
    ready: VecDeque<HeldTask>,
    failed: Option<Error>,
    /// The claim whose answer was not heard yet: its key, and how many it asks for.
    asked: Option<(String, u32)>,
}

impl Shared {
    /// Takes tasks. A claim whose answer was not heard is made again under the same key, and has the same answer.
    async fn take(&self, patience: &Patience, wait: Duration) -> Result<Vec<HeldTask>, Error> {
        let (key, max) = {
            let mut state = self.state();
            let free = state.free;
            let new = || (format!("tasks-{}", quorate_core::hex::encode(&patience.chance.sixteen())), free);
            state.asked.get_or_insert_with(new).clone()
        };
        let came = claim_tasks(&self.seat, patience, &key, &self.claim, max, wait).await?;
        let mut state = self.state();
        state.asked = None;
        state.free = state.free.saturating_sub(came.len() as u32);
        Ok(came)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskPoll {
    pub(super) fn start(seat: Arc<Seat>, patience: Patience, claim: TaskClaim, credit: u32) -> Self {
        let state = State { free: credit, ..State::default() };
        let (wanted, came) = (Notify::new(), Notify::new());
        let shared = Arc::new(Shared { seat, patience, claim, state: Mutex::new(state), wanted, came });
        let task = tokio::spawn(poll(Arc::clone(&shared)));
        Self { shared, task: Some(task) }
    }
}

async fn poll(shared: Arc<Shared>) {
    let patience = &shared.patience;
    let mut backoff = backoff();
    loop {
        let (free, closing) = {
            let state = shared.state();
            (state.free, state.closing)
        };
        if closing {
            return;
        }
        if free == 0 {
            shared.wanted.notified().await;
            continue;
        }
        // Called off when nobody wants tasks any more; what it may have taken is asked for once more then.
        let came = tokio::select! {
            came = shared.take(patience, WAIT) => came,
            () = shared.wanted.notified() => continue,
        };
        match came {
            Ok(came) => {
                backoff.reset();
                shared.state().ready.extend(came);
            }
            Err(error) if error.refused().is_none_or(|refused| refused.code.retryable()) => {
                // The hub is away for longer: tasks can wait.
                tracing::warn!(
                    code = error.code().as_str(),
                    "tasks could not be claimed; the claim is repeated"
                );
                backoff.wait(&*patience.clock, &patience.chance).await;
            }
            Err(error) => shared.state().failed = Some(error),
        }
        shared.came.notify_one();
        if shared.state().failed.is_some() {
            return;
        }
    }
}

impl TaskInbox for TaskPoll {
    fn next(&mut self) -> Promise<'_, Option<TaskEvent>> {
        Box::pin(async move {
            loop {
                let (ready, failed) = {
                    let mut state = self.shared.state();
                    (state.ready.pop_front(), state.failed.clone())
                };
                match (ready, failed) {
                    (Some(task), _) => return Ok(Some(TaskEvent::Task(Box::new(task)))),
                    (None, Some(error)) => return Err(error),
                    (None, None) => self.shared.came.notified().await,
                }
            }
        })
    }

    fn room(&self) -> Room {
        let shared = Arc::clone(&self.shared);
        Room::Apart(Arc::new(move |_: Over| {
            let mut state = shared.state();
            state.free += 1;
            // A claim that is under way stays: it is repeated with more room when it ends.
            let first = state.free == 1;
            drop(state);
            if first {
                shared.wanted.notify_one();
            }
        }))
    }

    fn close(mut self: Box<Self>) -> Promise<'static, ()> {
        Box::pin(async move {
            self.shared.state().closing = true;
            self.shared.wanted.notify_one();
            if let Some(task) = self.task.take() {
                let _ = task.await;
            }
            if self.shared.state().asked.is_some() {
                let once = Patience { keep_trying: Duration::ZERO, ..self.shared.patience.clone() };
                // If it cannot be known now, the leases lapse.
                let taken = self.shared.take(&once, Duration::ZERO).await.unwrap_or_default();
                self.shared.state().ready.extend(taken);
            }
            let untaken: Vec<_> = self.shared.state().ready.drain(..).collect();
            for held in untaken {
                let key = format!("untaken-{}-{}", held.lease.task, held.lease.token.0);
                let task = held.lease.task.clone();
                let body = op::commit(&[Op::ReleaseTask(held.lease)], &key, None)?;
                if let Err(error) = self.shared.seat.http.post("/v1/commit").json(body).send().await {
                    let code = error.code().as_str();
                    tracing::debug!(%task, code, "a task was not released; its lease expires");
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
