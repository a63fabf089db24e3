//! Fault injection at the store interface: a wrapper that intercepts every commit, one at a time, and may refuse it,
//! fail it, or simulate a kill. Tests use it for a hub that is full, overloaded or killed at an exact commit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use quorate_core::{Commit, Record, Refused, Seq, SpaceName, SpaceNo};
use quorate_store::{
    BackupPosition, BoxFuture, CommitResult, PublishedState, ReadQuery, ReadResult, SpaceInfo, Store,
    StoreError,
};
use tokio::sync::{mpsc, oneshot, watch};

/// Fault injected instead of a commit.
#[derive(Clone, Debug)]
pub enum InjectedFault {
    /// The commit is refused.
    Refused(Refused),
    /// The storage fails for this call only.
    Failed(StoreError),
    /// The process is killed before the commit: nothing more is written.
    Killed,
}

/// Decides whether to inject a fault, given the commit and the head before it.
pub type FaultRule = Box<dyn Fn(&Commit, Seq) -> Option<InjectedFault> + Send + Sync>;

/// Queued commits with the channel for their outcome.
type QueuedCommits = (SpaceNo, Vec<Commit>, oneshot::Sender<Result<Vec<CommitResult>, StoreError>>);

/// Store wrapper that injects faults.
pub struct FaultStore {
    inner: Arc<dyn Store>,
    queue: mpsc::UnboundedSender<QueuedCommits>,
    killed: watch::Receiver<bool>,
    log_failures: Arc<AtomicU32>,
}

impl FaultStore {
    /// Wraps a store.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, rule: FaultRule) -> Arc<Self> {
        Self::with_log_failures(inner, rule, Arc::default())
    }

    /// Wraps a store whose next reads of the log fail, as many as the counter states.
    #[must_use]
    pub fn with_log_failures(
        inner: Arc<dyn Store>,
        rule: FaultRule,
        log_failures: Arc<AtomicU32>,
    ) -> Arc<Self> {
        let (queue, mut queue_receiver) = mpsc::unbounded_channel::<QueuedCommits>();
        let (killed_sender, killed) = watch::channel(false);
        let store = Arc::clone(&inner);
        // Commits are processed in order, even if the caller no longer waits for the outcome.
        tokio::spawn(async move {
            while let Some((space, commits, outcome_sender)) = queue_receiver.recv().await {
                let outcome = apply(&store, &rule, &killed_sender, space, commits).await;
                // The receiver may be dropped.
                let _ = outcome_sender.send(outcome);
            }
        });
        Arc::new(Self { inner, queue, killed, log_failures })
    }
}

async fn apply(
    store: &Arc<dyn Store>,
    rule: &FaultRule,
    killed: &watch::Sender<bool>,
    space: SpaceNo,
    commits: Vec<Commit>,
) -> Result<Vec<CommitResult>, StoreError> {
    let mut outcomes = Vec::with_capacity(commits.len());
    for commit in commits {
        if *killed.borrow() {
            return Err(killed_error());
        }
        let head = store.published(space).map_or(Seq(0), |published| published.borrow().head.seq);
        match rule(&commit, head) {
            None => outcomes.extend(store.transact(space, vec![commit]).await?),
            Some(InjectedFault::Refused(refused)) => outcomes.push(Err(refused)),
            Some(InjectedFault::Failed(error)) => return Err(error),
            Some(InjectedFault::Killed) => {
                killed.send_replace(true);
                return Err(killed_error());
            }
        }
    }
    Ok(outcomes)
}

fn killed_error() -> StoreError {
    StoreError::Failed("killed".into())
}

impl Store for FaultStore {
    fn space(&self, name: SpaceName) -> BoxFuture<'_, Result<SpaceNo, StoreError>> {
        self.inner.space(name)
    }

    fn spaces(&self) -> Vec<SpaceInfo> {
        self.inner.spaces()
    }

    fn transact(
        &self,
        space: SpaceNo,
        commits: Vec<Commit>,
    ) -> BoxFuture<'static, Result<Vec<CommitResult>, StoreError>> {
        let (outcome_sender, outcome_receiver) = oneshot::channel();
        let enqueued = self.queue.send((space, commits, outcome_sender));
        Box::pin(async move {
            enqueued.map_err(|_| StoreError::Closed)?;
            outcome_receiver.await.unwrap_or(Err(StoreError::Closed))
        })
    }

    fn read(
        &self,
        space: SpaceNo,
        queries: Vec<ReadQuery>,
    ) -> BoxFuture<'_, Result<Vec<ReadResult>, StoreError>> {
        self.inner.read(space, queries)
    }

    fn log(&self, space: SpaceNo, from: Seq, max: usize) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        let fails = |left: u32| left.checked_sub(1);
        if self.log_failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
            return Box::pin(async { Err(StoreError::Read("injected".into())) });
        }
        self.inner.log(space, from, max)
    }

    fn published(&self, space: SpaceNo) -> Option<watch::Receiver<Arc<PublishedState>>> {
        self.inner.published(space)
    }

    fn backup<'a>(&'a self, to: &'a Path) -> BoxFuture<'a, Result<Vec<BackupPosition>, StoreError>> {
        self.inner.backup(to)
    }

    fn failure(&self) -> BoxFuture<'static, StoreError> {
        let (mut killed, inner) = (self.killed.clone(), self.inner.failure());
        Box::pin(async move {
            tokio::select! {
                _ = killed.wait_for(|killed| *killed) => killed_error(),
                error = inner => error,
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}
