//! The trait [`Store`] and the types of its interface.

use std::path::Path;
use std::sync::Arc;

use quorate_core::{
    AccessTokens, ActivePolicy, AgentNo, AgentRegistry, Commit, ConsumerEvent, ConsumerId,
    DeliveryStateCounts, Generations, Head, HolderEvent, LeasedDelivery, NextWake, Receipt, Record, Refused,
    Seq, SpaceId, SpaceName, SpaceNo, StoreError, SubscriptionTree, TaskCounts,
};
use tokio::sync::watch;

use quorate_env::{BoxFuture, Clock, Entropy};

use crate::read::{ReadQuery, ReadResult};

/// Result of one commit: its receipt, or the refusal.
pub type CommitResult = Result<Receipt, Refused>;

/// Dependencies of a store, injected when it is opened.
#[derive(Clone)]
pub struct StoreContext {
    /// Wall clock and monotonic clock.
    pub clock: Arc<dyn Clock>,
    /// Source of random bytes.
    pub entropy: Arc<Entropy>,
    /// Receiver of deliveries and events for waiting consumers.
    pub sink: Sink,
}

/// Callback that receives the dispatch of a batch, after the fsync and before the commits of the batch return.
/// Runs on a thread of the store that serves all spaces, so it must not block.
pub type Sink = Arc<dyn Fn(BatchDispatch) + Send + Sync>;

/// Deliveries and events for the waiting consumers of one space, produced by one batch, and the next wake-up time.
#[derive(Debug)]
pub struct BatchDispatch {
    /// Space of the batch.
    pub space: SpaceNo,
    /// New deliveries, each with its consumer, in order.
    pub dispatched: Vec<(ConsumerId, LeasedDelivery)>,
    /// Consumers that were closed because their agent was removed or began a new epoch.
    pub dismissed_consumers: Vec<ConsumerId>,
    /// Events for consumers that wait for locks, tasks or answers.
    pub consumer_events: Vec<(ConsumerId, ConsumerEvent)>,
    /// Events for agents that hold leases, for all their connections.
    pub holder_events: Vec<(AgentNo, HolderEvent)>,
    /// Time of the next timer in the space.
    pub wake: NextWake,
}

impl BatchDispatch {
    /// Creates an empty dispatch for a space.
    #[must_use]
    pub fn new(space: SpaceNo) -> Self {
        Self {
            space,
            dispatched: Vec::new(),
            dismissed_consumers: Vec::new(),
            consumer_events: Vec::new(),
            holder_events: Vec::new(),
            wake: NextWake::default(),
        }
    }

    /// Whether no consumer is affected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dispatched.is_empty()
            && self.dismissed_consumers.is_empty()
            && self.consumer_events.is_empty()
            && self.holder_events.is_empty()
    }
}

/// State of a space as of the last fsync, as far as it is needed outside the writer.
#[derive(Clone, Debug)]
pub struct PublishedState {
    /// Sequence number, hash and time of the newest record.
    pub head: Head,
    /// Registered agents.
    pub agents: Arc<AgentRegistry>,
    /// Generations of the space, needed to parse and build ids.
    pub generations: Arc<Generations>,
    /// Number of deliveries by state.
    pub counts: DeliveryStateCounts,
    /// Number of ready deliveries by priority level, lowest first.
    pub ready_by_priority: [u64; 4],
    /// Number of tasks by state.
    pub tasks: TaskCounts,
    /// Opaque counter that changes whenever an approval changes. Lets callers wait for approvals.
    pub approval_changes: u64,
    /// Opaque counter that changes whenever a procedure changes. Lets callers wait for procedures.
    pub procedure_changes: u64,
    /// Time of the next timer.
    pub wake: NextWake,
    /// Topic subscriptions.
    pub topics: Arc<SubscriptionTree>,
    /// Policy in force.
    pub policy: Arc<ActivePolicy>,
    /// Access tokens, indexed by the digest of their secret.
    pub tokens: Arc<AccessTokens>,
}

/// Statistics of a store since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StoreStats {
    /// Commits decided, including refused ones.
    pub commits: u64,
    /// Transactions (batches) that contained them.
    pub batches: u64,
    /// Highest cost of a single transaction, in work units.
    pub work_max: u64,
    /// Longest time that a single transaction occupied the writer.
    pub hold_ns_max: u64,
    /// 99th percentile of the time that a transaction occupied the writer, rounded up by at most 20 %.
    pub hold_ns_p99: u64,
    /// fsyncs that commits waited for.
    pub syncs: u64,
    /// Total time of these fsyncs.
    pub sync_ns_total: u64,
    /// Longest of these fsyncs.
    pub sync_ns_max: u64,
    /// Bytes written to the write-ahead log.
    pub wal_written_bytes: u64,
    /// Size of the write-ahead log on disk.
    pub wal_bytes: u64,
    /// Operations queued for the writer.
    pub queued_ops: u64,
}

/// Identity of a space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceInfo {
    /// Number of the space within this store.
    pub number: SpaceNo,
    /// Unique name, chosen by its creator.
    pub name: SpaceName,
    /// Random id, unique across stores.
    pub id: SpaceId,
}

/// Position up to which a backup contains one space. Everything acknowledged up to this position is included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupPosition {
    /// Name of the space.
    pub space: SpaceName,
    /// Newest record of the space in the backup.
    pub seq: Seq,
    /// Hash chain value at this record, usable as a checkpoint for verification.
    pub hash: [u8; 32],
}

/// Durable storage of spaces. [`Store::transact`] is the only write path.
pub trait Store: Send + Sync {
    /// Returns the space of this name, creating it if it does not exist.
    fn space(&self, name: SpaceName) -> BoxFuture<'_, Result<SpaceNo, StoreError>>;

    /// Returns all spaces, ordered by number.
    fn spaces(&self) -> Vec<SpaceInfo>;

    /// Decides commits at the head of a space, in order and independently of each other, and writes their effects.
    /// Returns after the fsync. The store may batch them with commits of other callers.
    fn transact(
        &self,
        space: SpaceNo,
        commits: Vec<Commit>,
    ) -> BoxFuture<'static, Result<Vec<CommitResult>, StoreError>>;

    /// Performs lookups of a commit that would occupy the writer for too long, on a reader thread. A caller that must
    /// preserve the order of its commits awaits this before [`Store::transact`], which otherwise does it itself.
    fn prepare(&self, _space: SpaceNo, commit: Commit) -> BoxFuture<'static, Result<Commit, StoreError>> {
        Box::pin(std::future::ready(Ok(commit)))
    }

    /// Runs queries on one snapshot that contains everything acknowledged before the call. Returns one result per
    /// query, in order.
    fn read(
        &self,
        space: SpaceNo,
        queries: Vec<ReadQuery>,
    ) -> BoxFuture<'_, Result<Vec<ReadResult>, StoreError>>;

    /// Returns up to `max` records, starting at `from`. May return fewer if the payloads are large, but at least one if there
    /// is one.
    fn log(&self, space: SpaceNo, from: Seq, max: usize) -> BoxFuture<'_, Result<Vec<Record>, StoreError>>;

    /// Returns up to `max` records, starting at `from`, without payloads and salts if the store can omit them. May
    /// return fewer if the records are large, but at least one if there is one.
    fn log_bodies(
        &self,
        space: SpaceNo,
        from: Seq,
        max: usize,
    ) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        self.log(space, from, max)
    }

    /// Returns operational statistics.
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }

    /// Returns a receiver of the state as of the last fsync, or `None` if the space does not exist.
    fn published(&self, space: SpaceNo) -> Option<watch::Receiver<Arc<PublishedState>>>;

    /// Writes an online backup to `to` and returns the position of each space in it.
    fn backup<'a>(&'a self, to: &'a Path) -> BoxFuture<'a, Result<Vec<BackupPosition>, StoreError>>;

    /// Resolves when the storage has failed permanently. The hub must then shut down.
    fn failure(&self) -> BoxFuture<'static, StoreError>;

    /// Drains the write queue and stops. Later calls return `StoreError::Closed`.
    fn close(&self) -> BoxFuture<'_, ()>;
}
