//! Test bench of the conformance suite: a store under test, a manually advanced clock, and shorthands for common steps.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::{
    AgentNo, Code, Commit, ConsumerEvent, ConsumerId, DeliveryNo, DeliveryStateCounts, Epoch, HolderEvent,
    LeasedDelivery, Message, MessageId, Op, OpResult, Principal, Receipt, Refused, RegisterAgent, Seq,
    SpaceName, SpaceNo, WaitMode, limits,
};

use super::builders::{agent, id, message_to};
use crate::{
    BatchDispatch, CommitResult, Entropy, ManualClock, PublishedState, ReadQuery, ReadResult, Store,
    StoreContext, StoredDeadLetter, StoredDeliveryState,
};

/// Opens the store under test. Each further call reopens the same store with everything it has persisted.
pub type OpenStore = Box<dyn Fn(StoreContext, OpenFrom) -> Arc<dyn Store> + Send>;

/// Source of the data when a store is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenFrom {
    /// The store's own data.
    OwnData,
    /// A backup of it, restored to another location.
    Backup,
}

/// Test bench: a store under test with its clock and the events it has published.
pub struct TestBench {
    /// Clock of the store; advances only on request.
    pub(super) clock: Arc<ManualClock>,
    /// Space that the shorthands operate on.
    pub(super) space: SpaceNo,
    /// `None` while the store is closed.
    store: Option<Arc<dyn Store>>,
    context: StoreContext,
    dispatches: Arc<Mutex<Vec<BatchDispatch>>>,
    open: OpenStore,
}

/// Result of a send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    pub(super) id: MessageId,
    /// First of its consecutive deliveries.
    pub(super) first_delivery: DeliveryNo,
    /// Number of deliveries.
    pub(super) count: u32,
}

/// Initial wall-clock time, in milliseconds since the Unix epoch.
pub(super) const START_MS: u64 = 1_800_000_000_000;

impl TestBench {
    /// Opens a store with an empty space `default`.
    pub(super) async fn new(open: OpenStore) -> Self {
        let dispatches: Arc<Mutex<Vec<BatchDispatch>>> = Arc::default();
        let clock = ManualClock::at(START_MS);
        let sink = {
            let dispatches = Arc::clone(&dispatches);
            Arc::new(move |dispatch| dispatches.lock().unwrap_or_else(PoisonError::into_inner).push(dispatch))
        };
        let context = StoreContext { clock: clock.clone(), entropy: Entropy::seeded(1), sink };
        let store = open(context.clone(), OpenFrom::OwnData);
        let name = SpaceName::new("default").expect("valid name");
        let space = store.space(name).await.expect("the space is created");
        Self { clock, space, store: Some(store), context, dispatches, open }
    }

    /// Closes and reopens the store.
    pub(super) async fn reopen(&mut self) {
        self.open_from(OpenFrom::OwnData).await;
    }

    /// Closes the store and continues on one restored from its backup.
    pub(super) async fn restore(&mut self) {
        self.open_from(OpenFrom::Backup).await;
    }

    async fn open_from(&mut self, from: OpenFrom) {
        self.store().close().await;
        // Drops the old store first, so that it releases its file locks.
        self.store = None;
        self.store = Some((self.open)(self.context.clone(), from));
    }

    /// Returns the open store.
    pub(super) fn store(&self) -> &Arc<dyn Store> {
        self.store.as_ref().expect("the store is open")
    }

    /// Advances the wall clock and the monotonic clock.
    pub(super) fn advance_secs(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Submits one commit and returns its outcome.
    pub(super) async fn commit(&self, commit: Commit) -> CommitResult {
        let outcomes = self.store().transact(self.space, vec![commit]).await.expect("the storage works");
        outcomes.into_iter().next().expect("one outcome per commit")
    }

    /// Submits a commit that must be accepted.
    pub(super) async fn commit_ok(&self, principal: Principal, ops: Vec<Op>) -> Receipt {
        self.commit(Commit::new(principal, ops)).await.expect("the commit is accepted")
    }

    /// Submits a commit that must be refused without any observable change.
    pub(super) async fn commit_refused(&self, principal: Principal, ops: Vec<Op>) -> Refused {
        let before = self.published();
        let refused = self.commit(Commit::new(principal, ops)).await.expect_err("the commit is refused");
        let after = self.published();
        assert_eq!(before.head, after.head, "a refusal leaves no record");
        assert_eq!(before.agents, after.agents, "a refusal changes no agent");
        assert_eq!(before.tasks, after.tasks, "a refusal changes no task");
        assert_eq!(
            open_and_ended(before.counts),
            open_and_ended(after.counts),
            "a refusal changes no delivery"
        );
        refused
    }

    /// Submits a commit that must be refused with this code.
    pub(super) async fn commit_refused_with(&self, code: Code, principal: Principal, ops: Vec<Op>) {
        assert_eq!(self.commit_refused(principal, ops).await.code, code);
    }

    /// Registers an agent. A repeated call begins a new epoch.
    pub(super) async fn register(&self, name: &str) -> Epoch {
        let receipt =
            self.commit_ok(agent(name), vec![Op::RegisterAgent(RegisterAgent::named(id(name)))]).await;
        match receipt.results[..] {
            [OpResult::Registered { epoch }] => epoch,
            ref other => panic!("not a registration: {other:?}"),
        }
    }

    /// Registers several agents.
    pub(super) async fn register_all(&self, names: &[&str]) {
        for name in names {
            self.register(name).await;
        }
    }

    /// Sends a plain message.
    pub(super) async fn send(&self, from: &str, to: &str) -> Sent {
        self.send_as(from, message_to(to)).await
    }

    /// Sends a message.
    pub(super) async fn send_as(&self, from: &str, message: Message) -> Sent {
        let message = Message { from: Some(id(from)), ..message };
        sent(&self.commit_ok(agent(from), vec![Op::send(message)]).await, 0)
    }

    /// Claims up to `max` deliveries for 30 s.
    pub(super) async fn claim(&self, name: &str, max: u32) -> Vec<LeasedDelivery> {
        let claim =
            Op::Claim { agent: id(name), max, lease_ms: limits::LEASE_MS_DEFAULT, wait: WaitMode::NoWait };
        claimed(&self.commit_ok(agent(name), vec![claim]).await)
    }

    /// Claims one delivery, which must be available.
    pub(super) async fn claim_one(&self, name: &str) -> LeasedDelivery {
        let mut leased = self.claim(name, 1).await;
        assert_eq!(leased.len(), 1, "{name} has a delivery to claim");
        leased.remove(0)
    }

    /// Registers a waiting claim; no delivery may be available yet.
    pub(super) async fn claim_waiting(&self, name: &str, max: u32, wait: WaitMode) {
        let claim = Op::Claim { agent: id(name), max, lease_ms: limits::LEASE_MS_DEFAULT, wait };
        let receipt = self.commit_ok(agent(name), vec![claim]).await;
        assert_eq!(claimed(&receipt), vec![], "no delivery is available yet");
    }

    /// Runs a sweep: applies every timer that is due.
    pub(super) async fn sweep(&self) -> Receipt {
        self.commit_ok(Principal::System, vec![Op::Sweep]).await
    }

    /// Returns and clears the deliveries sent to consumers since the last call.
    pub(super) fn dispatched(&self) -> Vec<(ConsumerId, LeasedDelivery)> {
        let mut dispatches = self.dispatches.lock().unwrap_or_else(PoisonError::into_inner);
        dispatches.iter_mut().flat_map(|dispatch| std::mem::take(&mut dispatch.dispatched)).collect()
    }

    /// Returns and clears the notifications sent to other waiters since the last call.
    pub(super) fn consumer_events(&self) -> Vec<(ConsumerId, ConsumerEvent)> {
        let mut dispatches = self.dispatches.lock().unwrap_or_else(PoisonError::into_inner);
        dispatches.iter_mut().flat_map(|dispatch| std::mem::take(&mut dispatch.consumer_events)).collect()
    }

    /// Returns and clears the events for the holders of leases since the last call.
    pub(super) fn holder_events(&self) -> Vec<(AgentNo, HolderEvent)> {
        let mut dispatches = self.dispatches.lock().unwrap_or_else(PoisonError::into_inner);
        dispatches.iter_mut().flat_map(|dispatch| std::mem::take(&mut dispatch.holder_events)).collect()
    }

    /// Returns and clears the consumers dismissed since the last call.
    pub(super) fn dismissed_consumers(&self) -> Vec<ConsumerId> {
        let mut dispatches = self.dispatches.lock().unwrap_or_else(PoisonError::into_inner);
        dispatches.iter_mut().flat_map(|dispatch| std::mem::take(&mut dispatch.dismissed_consumers)).collect()
    }

    /// Returns the state as of the last fsync.
    pub(super) fn published(&self) -> Arc<PublishedState> {
        let published = self.store().published(self.space).expect("the space exists");
        let state = published.borrow();
        Arc::clone(&state)
    }

    /// Returns the sequence number of the newest record.
    pub(super) fn head(&self) -> Seq {
        self.published().head.seq
    }

    /// Returns the number of deliveries by state.
    pub(super) fn counts(&self) -> DeliveryStateCounts {
        let published = self.published();
        assert_eq!(published.ready_by_priority.iter().sum::<u64>(), published.counts.ready);
        published.counts
    }

    /// Runs one read query.
    pub(super) async fn read(&self, query: ReadQuery) -> ReadResult {
        let mut results = self.store().read(self.space, vec![query]).await.expect("reads work");
        assert_eq!(results.len(), 1, "one result per query");
        results.remove(0)
    }

    /// Returns the state of a delivery.
    pub(super) async fn delivery_state(&self, number: DeliveryNo) -> Option<StoredDeliveryState> {
        match self.read(ReadQuery::Deliveries { first: number, count: 1 }).await {
            ReadResult::Deliveries(states) => states[0],
            other => panic!("not a delivery: {other:?}"),
        }
    }

    /// Returns the first 100 dead letters.
    pub(super) async fn dead_letters(&self) -> Vec<StoredDeadLetter> {
        match self.read(ReadQuery::DeadLetters { agent: None, after: DeliveryNo(0), limit: 100 }).await {
            ReadResult::DeadLetters(dead_letters) => dead_letters,
            other => panic!("not dead letters: {other:?}"),
        }
    }

    /// Opens another space, creating it if it does not exist.
    pub(super) async fn open_space(&self, name: &str) -> SpaceNo {
        let name = SpaceName::new(name).expect("valid name");
        self.store().space(name).await.expect("the space is created")
    }

    /// Switches the shorthands to another space of the same store.
    pub(super) fn switch_space(&mut self, space: SpaceNo) {
        self.space = space;
    }
}

/// Merges the counts of scheduled and ready deliveries, which change with time alone.
fn open_and_ended(counts: DeliveryStateCounts) -> DeliveryStateCounts {
    DeliveryStateCounts { ready: counts.ready + counts.scheduled, scheduled: 0, ..counts }
}

/// Extracts the result of the send at index `op`.
pub(super) fn sent(receipt: &Receipt, op: usize) -> Sent {
    match receipt.results[op] {
        OpResult::Sent { id, first, count } => Sent { id, first_delivery: first, count },
        ref other => panic!("not a send: {other:?}"),
    }
}

/// Extracts the deliveries of all claims in a receipt.
pub(super) fn claimed(receipt: &Receipt) -> Vec<LeasedDelivery> {
    let all = receipt.results.iter().filter_map(|result| match result {
        OpResult::Claimed(leased) => Some(leased.clone()),
        _ => None,
    });
    all.flatten().collect()
}
