//! Bulk reads: calls that scan or render a lot. They run on a few threads of the blocking pool, never on the workers that
//! serve everyone else.
//!
//! A read is a future, and one turn is one poll of it: what it computes between two waits, or up to where it yields
//! (`quorate_engine::Pace`). After each turn the next read comes, fair between spaces and principals, so that nobody waits
//! for more than one turn of each other principal. A principal may have [`crate::Limits::bulk_reads`] of them open; one
//! stays open until its response has been taken by the connection, so a caller that does not read soon has no more.

mod lease;
mod pieces;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::thread::available_parallelism;

use quorate_core::{Code, Principal, Refused};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::call::{Answer, Call};
pub(crate) use lease::Lease;
pub(crate) use pieces::{Gone, PIECE_BYTES, Pieces};
use queue::FairQueue;
pub(crate) use queue::Owner;

/// Threads that render at once: half of the processors, so that the other half is left for everyone else.
const THREADS_MAX: usize = 4;
/// When a principal with too many open reads may try again. A page is usually taken much sooner.
const RETRY_AFTER_MS: u64 = 1_000;

/// Runs bulk reads.
#[derive(Clone)]
pub(crate) struct Bulk(Arc<Shared>);

struct Shared {
    /// Reads that one principal may have open; 0 is without a limit.
    limit: usize,
    threads: usize,
    runtime: Handle,
    state: Mutex<State>,
    refused: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Open reads of each principal that has any.
    open: HashMap<Owner, usize>,
    ready: FairQueue<Arc<Task>>,
    /// Threads that take turns now.
    running: usize,
}

/// Figures for `/metrics`.
pub(crate) struct Figures {
    pub(crate) open: usize,
    pub(crate) refused: u64,
}

impl Bulk {
    /// Must be called within a Tokio runtime, whose blocking pool it uses.
    pub(crate) fn new(limit: usize) -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self::with_threads(limit, (processors / 2).clamp(1, THREADS_MAX))
    }

    fn with_threads(limit: usize, threads: usize) -> Self {
        Self(Arc::new(Shared {
            limit,
            threads,
            runtime: Handle::current(),
            state: Mutex::default(),
            refused: AtomicU64::new(0),
        }))
    }

    /// Opens a read for a principal.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if it has too many open, with the time after which to try again.
    pub(crate) fn open(&self, owner: Owner) -> Result<Lease, Refused> {
        let mut state = self.0.state();
        let open = state.open.entry(owner.clone()).or_default();
        if self.0.limit > 0 && *open >= self.0.limit {
            drop(state);
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            return Err(too_many(&owner.principal, self.0.limit));
        }
        *open += 1;
        Ok(Lease { shared: Arc::clone(&self.0), owner })
    }

    /// Runs a future in turns, as part of what its owner does.
    pub(crate) fn spawn(&self, owner: &Owner, work: impl Future<Output = ()> + Send + 'static) {
        let task = Task {
            owner: owner.clone(),
            shared: Arc::clone(&self.0),
            stage: Mutex::new(Stage::Ready),
            work: Mutex::new(Some(Box::pin(work))),
        };
        self.0.push(Arc::new(task));
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures { open: self.0.state().open.values().sum(), refused: self.0.refused.load(Ordering::Relaxed) }
    }
}

/// Answers a call as a bulk read. A caller that goes away ends it.
///
/// # Errors
/// Those of the handler, and `LIMIT_EXCEEDED` if the principal has too many bulk reads open.
pub(crate) async fn answer<F, A>(call: Call, handler: F) -> Answer
where
    F: FnOnce(Call) -> A + Send + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let bulk = call.app.bulk().clone();
    let lease = bulk.open(Owner::of(&call))?;
    let (mut sender, receiver) = oneshot::channel();
    bulk.spawn(lease.owner(), async move {
        tokio::select! {
            biased;
            () = sender.closed() => {}
            // The receiver may have gone during the last turn.
            answered = handler(call) => drop(sender.send(answered)),
        }
    });
    let lost = |_| Refused::new(Code::Unavailable, "the call ended without an answer");
    let response = receiver.await.map_err(lost)??;
    Ok(response.map(|body| lease.held_by(body)))
}

fn too_many(principal: &Principal, limit: usize) -> Refused {
    let detail = format!(
        "{} has {limit} lists, exports or event streams open, and may have no more",
        principal.to_text()
    );
    let mut refused = Refused::new(Code::LimitExceeded, detail)
        .limit(limit as u64)
        .hint("read the open responses to their end or close them, then try again after retryAfterMs");
    refused.facts.retry_after_ms = Some(RETRY_AFTER_MS);
    refused
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, owner: &Owner) {
        let mut state = self.state();
        if let Some(open) = state.open.get_mut(owner) {
            *open -= 1;
            if *open == 0 {
                state.open.remove(owner);
            }
        }
    }

    /// Lines up a task, and starts a thread for it unless all of them run.
    fn push(self: &Arc<Self>, task: Arc<Task>) {
        let mut state = self.state();
        let owner = task.owner.clone();
        state.ready.push(&owner, task);
        if state.running == self.threads {
            return;
        }
        state.running += 1;
        drop(state);
        let shared = Arc::clone(self);
        self.runtime.spawn_blocking(move || {
            while let Some(task) = shared.next() {
                task.take_turn();
            }
        });
    }

    /// The task whose turn it is. If there is none, the thread that asks ends.
    fn next(&self) -> Option<Arc<Task>> {
        let mut state = self.state();
        let next = state.ready.pop();
        if next.is_none() {
            state.running -= 1;
        }
        next
    }
}

/// A future that is polled in turns.
struct Task {
    owner: Owner,
    shared: Arc<Shared>,
    stage: Mutex<Stage>,
    /// Taken out at its end.
    work: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// In the queue.
    Ready,
    /// On a thread.
    Running,
    /// On a thread, and woken meanwhile: it gets another turn.
    Woken,
    /// Until it is woken.
    Waiting,
}

impl Task {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_turn(self: Arc<Self>) {
        *self.stage() = Stage::Running;
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(future) = work.as_mut() else { return };
        let waker = Waker::from(Arc::clone(&self));
        let mut context = Context::from_waker(&waker);
        // A panic was reported when it happened; it costs one read, not the thread.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        if !matches!(polled, Ok(poll) if poll.is_pending()) {
            *work = None;
            return;
        }
        drop(work);
        let mut stage = self.stage();
        let again = *stage == Stage::Woken;
        *stage = if again { Stage::Ready } else { Stage::Waiting };
        drop(stage);
        if again {
            self.shared.push(Arc::clone(&self));
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let mut stage = self.stage();
        match *stage {
            Stage::Waiting => *stage = Stage::Ready,
            Stage::Running => {
                *stage = Stage::Woken;
                return;
            }
            Stage::Ready | Stage::Woken => return,
        }
        drop(stage);
        self.shared.push(Arc::clone(&self));
    }
}
