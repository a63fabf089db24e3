//! The seam.

use std::path::Path;
use std::sync::Arc;

use quorate_core::{
    Agents, Commit, ConsumerId, Counts, Eras, Handed, Head, InForce, Receipt, Record, Refused, Seq, SpaceId,
    SpaceName, SpaceNo, StoreError, TaskCounts, Tokens, Told, Topics, Wake,
};
use tokio::sync::watch;

use quorate_env::{BoxFuture, Chance, Clock};

use crate::read::{Read, Rows};

/// What a commit came to: its receipt, or the domain's no.
pub type Outcome = Result<Receipt, Refused>;

/// What a store is given at the start.
#[derive(Clone)]
pub struct Wiring {
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Random bytes.
    pub chance: Arc<Chance>,
    /// Where deliveries for waiting consumers go.
    pub sink: Sink,
}

/// Takes what became of a space in a batch, after it is on disk and before the commits that caused it are answered.
/// Called from the writer: it must not block.
pub type Sink = Arc<dyn Fn(Handover) + Send + Sync>;

/// What became of consumers in one batch, and when to look again.
#[derive(Debug)]
pub struct Handover {
    /// The space.
    pub space: SpaceNo,
    /// Deliveries, each with the consumer it is for, in order.
    pub handed: Vec<(ConsumerId, Handed)>,
    /// Consumers that were sent away, because their agent was started again or removed.
    pub dismissed: Vec<ConsumerId>,
    /// What others who wait are told.
    pub told: Vec<(ConsumerId, Told)>,
    /// When time brings about the next thing in the space.
    pub wake: Wake,
}

impl Handover {
    /// A batch in which nobody was handed or told anything yet.
    #[must_use]
    pub fn new(space: SpaceNo) -> Self {
        Self { space, handed: Vec::new(), dismissed: Vec::new(), told: Vec::new(), wake: Wake::default() }
    }

    /// Whether there is nothing to hand over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.handed.is_empty() && self.dismissed.is_empty() && self.told.is_empty()
    }
}

/// The state after the last sync, as far as anybody but the writer needs it.
#[derive(Clone, Debug)]
pub struct Published {
    /// The newest record.
    pub head: Head,
    /// The agents.
    pub agents: Arc<Agents>,
    /// The eras, to read and make ids.
    pub eras: Arc<Eras>,
    /// Deliveries by state.
    pub counts: Counts,
    /// Deliveries that wait to be taken, by the level of their priority, low first.
    pub ready_by_level: [u64; 4],
    /// Tasks by state.
    pub tasks: TaskCounts,
    /// A number that moves whenever an approval does, for those who wait for one; what it is means nothing.
    pub approval_changes: u64,
    /// When time alone will next change something.
    pub wake: Wake,
    /// Who subscribes to what.
    pub topics: Arc<Topics>,
    /// The rules of the space.
    pub policy: Arc<InForce>,
    /// Who is let in, by the digest of the secret.
    pub tokens: Arc<Tokens>,
}

/// What a store has done since it was opened, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Commits that were decided, refused ones included.
    pub commits: u64,
    /// Transactions that carried them.
    pub batches: u64,
    /// The most units of work that one transaction cost.
    pub work_max: u64,
    /// The longest time for which one transaction held the writer.
    pub hold_ns_max: u64,
    /// The time within which 99 of 100 transactions were done with the writer, rounded up by at most a fifth.
    pub hold_ns_p99: u64,
    /// Syncs that commits waited for.
    pub syncs: u64,
    /// Time spent in all of them.
    pub sync_ns_total: u64,
    /// The longest of them.
    pub sync_ns_max: u64,
    /// Bytes written to the write-ahead log.
    pub wal_written_bytes: u64,
    /// Bytes that the write-ahead log takes on disk.
    pub wal_bytes: u64,
    /// Operations that wait for the writer.
    pub waiting_ops: u64,
}

/// A space that exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceInfo {
    /// Its number.
    pub number: SpaceNo,
    /// Its name.
    pub name: SpaceName,
    /// Its identity.
    pub id: SpaceId,
}

/// How far a backup reaches in one space: everything acknowledged up to there is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    /// The space.
    pub space: SpaceName,
    /// Its newest record in the backup.
    pub seq: Seq,
    /// The chain up to there: also a checkpoint.
    pub hash: [u8; 32],
}

/// Keeps spaces. One write path: [`Store::transact`].
pub trait Store: Send + Sync {
    /// The space of this name; made if there is none.
    fn space(&self, name: SpaceName) -> BoxFuture<'_, Result<SpaceNo, StoreError>>;

    /// All spaces, by number.
    fn spaces(&self) -> Vec<SpaceInfo>;

    /// Decides commits at the head of a space, in order, each on its own, and writes what they did. The answer comes
    /// after the sync. Batching with the commits of others is the store's business.
    fn transact(
        &self,
        space: SpaceNo,
        commits: Vec<Commit>,
    ) -> BoxFuture<'static, Result<Vec<Outcome>, StoreError>>;

    /// Looks up what would take too long at the head, on a thread that reads: whoever keeps an order of commits waits for it
    /// before it calls [`Store::transact`], which else does it by itself.
    fn prepare(&self, _space: SpaceNo, commit: Commit) -> BoxFuture<'static, Result<Commit, StoreError>> {
        Box::pin(std::future::ready(Ok(commit)))
    }

    /// Reads rows, all from one snapshot that holds everything acknowledged before the call.
    fn read(&self, space: SpaceNo, what: Vec<Read>) -> BoxFuture<'_, Result<Vec<Rows>, StoreError>>;

    /// Records from a position on.
    fn log(&self, space: SpaceNo, from: Seq, max: usize) -> BoxFuture<'_, Result<Vec<Record>, StoreError>>;

    /// Records from a position on, without their payloads and salts where the store can leave them out. It may stop before
    /// `max` records if they are large; it returns at least one if there is one.
    fn bodies(
        &self,
        space: SpaceNo,
        from: Seq,
        max: usize,
    ) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        self.log(space, from, max)
    }

    /// What the store has done so far, for those who run it.
    fn figures(&self) -> Figures {
        Figures::default()
    }

    /// The state after the last sync; changes can be awaited. `None` if there is no such space.
    fn published(&self, space: SpaceNo) -> Option<watch::Receiver<Arc<Published>>>;

    /// Writes a copy of everything while work goes on, and says how far it reaches.
    fn backup<'a>(&'a self, to: &'a Path) -> BoxFuture<'a, Result<Vec<Position>, StoreError>>;

    /// Ends when the storage has failed for good: whoever runs the hub stops it.
    fn failure(&self) -> BoxFuture<'static, StoreError>;

    /// Writes what is queued, then stops. Later calls are `Closed`.
    fn close(&self) -> BoxFuture<'_, ()>;
}
