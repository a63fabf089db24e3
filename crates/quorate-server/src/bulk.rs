//! Bulk reads: calls that scan or render a lot of data. They run on a few threads of the blocking pool, never on the
//! workers that serve other requests.
//!
//! A read is a future, and a turn is one poll of it: the work up to its next await or yield point
//! (`quorate_engine::Yielder`). After each turn the next read is polled, fair between spaces and principals, so a read
//! waits for at most one turn of each other principal. A principal may have [`crate::Limits::bulk_reads`] reads open.
//! A read stays open until its response is written to the connection, so a client that does not read soon reaches its
//! limit.

mod chunks;
mod permit;
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

use crate::call::{ApiResult, Call};
pub(crate) use chunks::{ChunkSender, RECORD_CHUNK_BYTES, ReaderGone};
pub(crate) use permit::BulkPermit;
use queue::FairQueue;
pub(crate) use queue::Owner;

/// Maximum number of threads; at most half of the processors are used.
const THREADS_MAX: usize = 4;
/// Suggested delay for a principal with too many open reads. A page is usually read much sooner.
const RETRY_AFTER_MS: u64 = 1_000;

/// Executor of bulk reads.
#[derive(Clone)]
pub(crate) struct BulkReads(Arc<Shared>);

struct Shared {
    /// Maximum number of open reads per principal; 0 disables the limit.
    limit: usize,
    threads: usize,
    runtime: Handle,
    state: Mutex<State>,
    refused: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Number of open reads by principal.
    open: HashMap<Owner, usize>,
    ready: FairQueue<Arc<Task>>,
    /// Number of running threads.
    running: usize,
}

/// Statistics for `/metrics`.
pub(crate) struct BulkStats {
    pub(crate) open: usize,
    pub(crate) refused: u64,
}

impl BulkReads {
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
    /// `LIMIT_EXCEEDED` if it has too many open reads, with the time to wait.
    pub(crate) fn open(&self, owner: Owner) -> Result<BulkPermit, Refused> {
        let mut state = self.0.state();
        let open = state.open.entry(owner.clone()).or_default();
        if self.0.limit > 0 && *open >= self.0.limit {
            drop(state);
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            return Err(too_many(&owner.principal, self.0.limit));
        }
        *open += 1;
        Ok(BulkPermit { shared: Arc::clone(&self.0), owner })
    }

    /// Runs a future in turns, on behalf of its owner.
    pub(crate) fn spawn(&self, owner: &Owner, work: impl Future<Output = ()> + Send + 'static) {
        let task = Task {
            owner: owner.clone(),
            shared: Arc::clone(&self.0),
            stage: Mutex::new(Stage::Ready),
            work: Mutex::new(Some(Box::pin(work))),
        };
        self.0.push(Arc::new(task));
    }

    pub(crate) fn stats(&self) -> BulkStats {
        BulkStats {
            open: self.0.state().open.values().sum(),
            refused: self.0.refused.load(Ordering::Relaxed),
        }
    }
}

/// Handles a call as a bulk read. The read is cancelled if the client disconnects.
///
/// # Errors
/// Those of the handler, and `LIMIT_EXCEEDED` if the principal has too many bulk reads open.
pub(crate) async fn run_as_bulk_read<F, A>(call: Call, handler: F) -> ApiResult
where
    F: FnOnce(Call) -> A + Send + 'static,
    A: Future<Output = ApiResult> + Send + 'static,
{
    let bulk = call.app.bulk().clone();
    let permit = bulk.open(Owner::of_call(&call))?;
    let (mut sender, receiver) = oneshot::channel();
    bulk.spawn(permit.owner(), async move {
        tokio::select! {
            biased;
            () = sender.closed() => {}
            // The receiver may have been dropped during the last turn.
            result = handler(call) => drop(sender.send(result)),
        }
    });
    let no_response = |_| Refused::new(Code::Unavailable, "the call ended without a response");
    let response = receiver.await.map_err(no_response)??;
    Ok(response.map(|body| permit.attach_to(body)))
}

fn too_many(principal: &Principal, limit: usize) -> Refused {
    let detail = format!(
        "too many open lists, exports or event streams of {}: the limit is {limit}",
        principal.to_text()
    );
    let mut refused = Refused::new(Code::LimitExceeded, detail)
        .limit(limit as u64)
        .hint("finish reading the open responses or close them, then retry after retryAfterMs");
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

    /// Enqueues a task, and starts a thread for it unless all threads are running.
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

    /// Returns the next task. If there is none, the calling thread must end.
    fn next(&self) -> Option<Arc<Task>> {
        let mut state = self.state();
        let next = state.ready.pop();
        if next.is_none() {
            state.running -= 1;
        }
        next
    }
}

/// A future polled in turns.
struct Task {
    owner: Owner,
    shared: Arc<Shared>,
    stage: Mutex<Stage>,
    /// `None` once it has completed.
    work: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Enqueued.
    Ready,
    /// Being polled.
    Running,
    /// Being polled, and woken in the meantime: it is enqueued again.
    Woken,
    /// Waiting to be woken.
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
        // The panic hook has reported the panic; it ends this read, not the thread.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        if !matches!(polled, Ok(poll) if poll.is_pending()) {
            *work = None;
            return;
        }
        drop(work);
        let mut stage = self.stage();
        let is_woken = *stage == Stage::Woken;
        *stage = if is_woken { Stage::Ready } else { Stage::Waiting };
        drop(stage);
        if is_woken {
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
