//! Fairness of the write queue: a busy space does not delay the commits of another one.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quorate_core::{Commit, Mono, Now, Op, Principal, SpaceName, SpaceNo, Timestamp, limits};
use quorate_sqlite::{Options, SqliteStore};
use quorate_store::{BoxFuture, Clock, CommitResult, Entropy, Store, StoreContext, StoreError};

/// Clock that is read once per batch, so that the time of each receipt identifies its batch. While it is closed, reading
/// it blocks.
#[derive(Default)]
struct Turnstile {
    closed: Mutex<bool>,
    opened: Condvar,
    reads: AtomicU64,
}

impl Turnstile {
    fn set_closed(&self, closed: bool) {
        *self.closed.lock().expect("the lock is not poisoned") = closed;
        self.opened.notify_all();
    }
}

impl Clock for Turnstile {
    fn now(&self) -> Now {
        let closed = self.closed.lock().expect("the lock is not poisoned");
        drop(self.opened.wait_while(closed, |closed| *closed).expect("the lock is not poisoned"));
        let reads = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        Now { wall: Timestamp(reads), mono: Mono(reads) }
    }

    fn wait(&self, _wait: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

type PendingCommit = BoxFuture<'static, Result<Vec<CommitResult>, StoreError>>;

/// Returns a commit with the maximum number of operations.
fn large() -> Commit {
    Commit::new(Principal::System, vec![Op::Sweep; limits::OPS_MAX])
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// Returns the number of the batch in which a commit was written.
fn batch(pending: PendingCommit) -> u64 {
    let outcomes = block_on(pending).expect("the storage works");
    outcomes[0].as_ref().expect("it is accepted").at.0
}

fn is_refused(pending: &mut PendingCommit) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(pin!(pending).poll(&mut context), Poll::Ready(Err(StoreError::Busy)))
}

// Fails under: a FIFO queue, or a scheduler that keeps serving the same space.
#[test]
fn i16_a_busy_space_does_not_starve_another() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(Turnstile::default());
    let context = StoreContext {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        entropy: Entropy::seeded(1),
        sink: Arc::new(|_| {}),
    };
    let store = SqliteStore::open(directory.path(), Options::default(), context).expect("it opens");
    let space = |name: &str| -> SpaceNo {
        block_on(store.space(SpaceName::new(name).expect("a valid name"))).expect("the storage works")
    };
    let (busy, quiet) = (space("busy"), space("quiet"));

    clock.set_closed(true);
    let mut many: Vec<PendingCommit> = Vec::new();
    loop {
        let mut pending = store.transact(busy, vec![large()]);
        if is_refused(&mut pending) {
            break;
        }
        many.push(pending);
    }
    assert!(many.len() > 50, "{} commits are enough to be busy", many.len());
    // The queue of the busy space is full; that of the other space is not.
    let few: Vec<PendingCommit> = (0..3).map(|_| store.transact(quiet, vec![large()])).collect();
    clock.set_closed(false);

    let few: Vec<u64> = few.into_iter().map(batch).collect();
    let many: Vec<u64> = many.into_iter().map(batch).collect();
    let first = many[0];
    // One batch may have been taken already; each later one serves both spaces.
    for (index, batch) in few.iter().enumerate() {
        assert!(
            *batch <= first + 2 + index as u64,
            "commit {index} is in batch {batch}, the first of the busy space in {first}"
        );
    }
    let behind = many.iter().filter(|batch| **batch > few[0]).count();
    assert!(behind > many.len() / 2, "most of the busy space is written later: {behind} of {}", many.len());
    assert!(many.is_sorted(), "each space keeps its own order");
    block_on(store.close());
}
