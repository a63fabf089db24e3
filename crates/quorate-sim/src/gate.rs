//! A store with somebody at the gate, who sees every commit before it goes in, one at a time, and may turn it away or close
//! the store for good: a hub that is full, overloaded or killed exactly where a test wants it.

use std::path::Path;
use std::sync::Arc;

use quorate_core::{Commit, Record, Refused, Seq, SpaceName, SpaceNo};
use quorate_store::{BoxFuture, Outcome, Position, Published, Read, Rows, SpaceInfo, Store, StoreError};
use tokio::sync::{mpsc, oneshot, watch};

/// What becomes of a commit that is not let in.
#[derive(Clone, Debug)]
pub enum TurnedAway {
    /// The domain says no.
    Refused(Refused),
    /// The storage cannot, this time.
    Failed(StoreError),
    /// The process is killed before it: nothing is written from here on.
    Killed,
}

/// Looks at a commit and at the newest record before it.
pub type Judge = Box<dyn Fn(&Commit, Seq) -> Option<TurnedAway> + Send + Sync>;

/// Commits in line, and where their answer goes.
type InLine = (SpaceNo, Vec<Commit>, oneshot::Sender<Result<Vec<Outcome>, StoreError>>);

/// The gate.
pub struct Gate {
    inner: Arc<dyn Store>,
    line: mpsc::UnboundedSender<InLine>,
    killed: watch::Receiver<bool>,
}

impl Gate {
    /// A gate before a store.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, judge: Judge) -> Arc<Self> {
        let (line, mut next) = mpsc::unbounded_channel::<InLine>();
        let (killing, killed) = watch::channel(false);
        let store = Arc::clone(&inner);
        // In the order in which they came, whether anybody waits for the answer or not.
        tokio::spawn(async move {
            while let Some((space, commits, answer)) = next.recv().await {
                let outcome = let_in(&store, &judge, &killing, space, commits).await;
                // Nobody may be waiting.
                let _ = answer.send(outcome);
            }
        });
        Arc::new(Self { inner, line, killed })
    }
}

async fn let_in(
    store: &Arc<dyn Store>,
    judge: &Judge,
    killed: &watch::Sender<bool>,
    space: SpaceNo,
    commits: Vec<Commit>,
) -> Result<Vec<Outcome>, StoreError> {
    let mut outcomes = Vec::with_capacity(commits.len());
    for commit in commits {
        if *killed.borrow() {
            return Err(gone());
        }
        let head = store.published(space).map_or(Seq(0), |published| published.borrow().head.seq);
        match judge(&commit, head) {
            None => outcomes.extend(store.transact(space, vec![commit]).await?),
            Some(TurnedAway::Refused(refused)) => outcomes.push(Err(refused)),
            Some(TurnedAway::Failed(error)) => return Err(error),
            Some(TurnedAway::Killed) => {
                killed.send_replace(true);
                return Err(gone());
            }
        }
    }
    Ok(outcomes)
}

fn gone() -> StoreError {
    StoreError::Failed("killed".into())
}

impl Store for Gate {
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
    ) -> BoxFuture<'static, Result<Vec<Outcome>, StoreError>> {
        let (answer, answered) = oneshot::channel();
        let in_line = self.line.send((space, commits, answer));
        Box::pin(async move {
            in_line.map_err(|_| StoreError::Closed)?;
            answered.await.unwrap_or(Err(StoreError::Closed))
        })
    }

    fn read(&self, space: SpaceNo, what: Vec<Read>) -> BoxFuture<'_, Result<Vec<Rows>, StoreError>> {
        self.inner.read(space, what)
    }

    fn log(&self, space: SpaceNo, from: Seq, max: usize) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        self.inner.log(space, from, max)
    }

    fn published(&self, space: SpaceNo) -> Option<watch::Receiver<Arc<Published>>> {
        self.inner.published(space)
    }

    fn backup<'a>(&'a self, to: &'a Path) -> BoxFuture<'a, Result<Vec<Position>, StoreError>> {
        self.inner.backup(to)
    }

    fn failure(&self) -> BoxFuture<'static, StoreError> {
        let (mut killed, inner) = (self.killed.clone(), self.inner.failure());
        Box::pin(async move {
            tokio::select! {
                _ = killed.wait_for(|killed| *killed) => gone(),
                error = inner => error,
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}
