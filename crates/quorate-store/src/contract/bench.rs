//! A store under test, with a clock that stands still and short words for what the cases do to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::{
    Code, Commit, ConsumerId, Counts, DeliveryNo, Epoch, Handed, Message, MessageId, Op, OpResult, Principal,
    Receipt, Refused, RegisterAgent, Seq, SpaceName, SpaceNo, Told, Waiting, limits,
};

use super::words::{agent, deliver_to, id};
use crate::{
    Chance, DeadLetter, DeliveryState, Handover, Outcome, Published, Read, Rows, SetClock, Store, Wiring,
};

/// Opens the store under test. Called again, it opens the same store again: what was kept must be there.
pub type Open = Box<dyn Fn(Wiring, From) -> Arc<dyn Store> + Send>;

/// What a store is opened from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// What it holds itself.
    Itself,
    /// A backup of it, restored to another place.
    Backup,
}

/// A store under test.
pub struct Bench {
    /// The clock of the store.
    pub(super) clock: Arc<SetClock>,
    /// The space in which the cases work.
    pub(super) space: SpaceNo,
    /// The store; not there while it is closed.
    store: Option<Arc<dyn Store>>,
    wiring: Wiring,
    handed: Arc<Mutex<Vec<Handover>>>,
    open: Open,
}

/// A message that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    /// Its id.
    pub(super) id: MessageId,
    /// Its first delivery.
    pub(super) first: DeliveryNo,
    /// How many it has.
    pub(super) count: u32,
}

/// Where the clock stands at the start.
pub(super) const START_MS: u64 = 1_800_000_000_000;

impl Bench {
    /// Opens a store for one case.
    pub(super) async fn new(open: Open) -> Self {
        let handed: Arc<Mutex<Vec<Handover>>> = Arc::default();
        let clock = SetClock::at(START_MS);
        let sink = {
            let handed = Arc::clone(&handed);
            Arc::new(move |one| handed.lock().unwrap_or_else(PoisonError::into_inner).push(one))
        };
        let wiring = Wiring { clock: clock.clone(), chance: Chance::seeded(1), sink };
        let store = open(wiring.clone(), From::Itself);
        let name = SpaceName::new("default").expect("a good name");
        let space = store.space(name).await.expect("a space can be made");
        Self { clock, space, store: Some(store), wiring, handed, open }
    }

    /// Closes the store and opens it again.
    pub(super) async fn reopen(&mut self) {
        self.open_from(From::Itself).await;
    }

    /// Closes the store, and goes on with what is restored from a backup of it.
    pub(super) async fn restore(&mut self) {
        self.open_from(From::Backup).await;
    }

    async fn open_from(&mut self, from: From) {
        self.store().close().await;
        // A store that locks its files lets go of them before it is opened again.
        self.store = None;
        self.store = Some((self.open)(self.wiring.clone(), from));
    }

    /// The store itself.
    pub(super) fn store(&self) -> &Arc<dyn Store> {
        self.store.as_ref().expect("the store is open")
    }

    /// Lets time pass on both clocks.
    pub(super) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// One commit; its outcome.
    pub(super) async fn commit(&self, commit: Commit) -> Outcome {
        let outcomes = self.store().transact(self.space, vec![commit]).await.expect("the storage works");
        outcomes.into_iter().next().expect("one outcome for each commit")
    }

    /// A commit that must be accepted.
    pub(super) async fn ok(&self, principal: Principal, ops: Vec<Op>) -> Receipt {
        self.commit(Commit::new(principal, ops)).await.expect("it is accepted")
    }

    /// A commit that must be refused, and change nothing that can be seen.
    pub(super) async fn refused(&self, principal: Principal, ops: Vec<Op>) -> Refused {
        let before = self.published();
        let refused = self.commit(Commit::new(principal, ops)).await.expect_err("it is refused");
        let after = self.published();
        assert_eq!(before.head, after.head, "a refusal leaves no record");
        assert_eq!(before.agents, after.agents, "a refusal changes no agent");
        assert_eq!(before.tasks, after.tasks, "a refusal moves no task");
        assert_eq!(
            open_and_ended(before.counts),
            open_and_ended(after.counts),
            "a refusal moves no delivery"
        );
        refused
    }

    /// A commit that must be refused with this code.
    pub(super) async fn refused_with(&self, code: Code, principal: Principal, ops: Vec<Op>) {
        assert_eq!(self.refused(principal, ops).await.code, code);
    }

    /// Starts an agent, also again.
    pub(super) async fn start(&self, name: &str) -> Epoch {
        let receipt = self.ok(agent(name), vec![Op::RegisterAgent(RegisterAgent::named(id(name)))]).await;
        match receipt.results[..] {
            [OpResult::Registered { epoch }] => epoch,
            ref other => panic!("not a registration: {other:?}"),
        }
    }

    /// Starts several agents.
    pub(super) async fn start_all(&self, names: &[&str]) {
        for name in names {
            self.start(name).await;
        }
    }

    /// Sends a plain message.
    pub(super) async fn send(&self, from: &str, to: &str) -> Sent {
        self.send_as(from, deliver_to(to)).await
    }

    /// Sends a message.
    pub(super) async fn send_as(&self, from: &str, message: Message) -> Sent {
        let message = Message { from: Some(id(from)), ..message };
        sent(&self.ok(agent(from), vec![Op::send(message)]).await, 0)
    }

    /// Takes up to so many deliveries for 30 s.
    pub(super) async fn claim(&self, name: &str, max: u32) -> Vec<Handed> {
        let claim =
            Op::Claim { agent: id(name), max, lease_ms: limits::LEASE_MS_DEFAULT, waiting: Waiting::No };
        claimed(&self.ok(agent(name), vec![claim]).await)
    }

    /// Takes the one delivery that must be there.
    pub(super) async fn claim_one(&self, name: &str) -> Handed {
        let mut taken = self.claim(name, 1).await;
        assert_eq!(taken.len(), 1, "{name} has something to claim");
        taken.remove(0)
    }

    /// A claim that waits; nothing must be there yet.
    pub(super) async fn wait(&self, name: &str, max: u32, waiting: Waiting) {
        let claim = Op::Claim { agent: id(name), max, lease_ms: limits::LEASE_MS_DEFAULT, waiting };
        let receipt = self.ok(agent(name), vec![claim]).await;
        assert_eq!(claimed(&receipt), vec![], "nothing is there yet");
    }

    /// What time alone brings about.
    pub(super) async fn sweep(&self) -> Receipt {
        self.ok(Principal::System, vec![Op::Sweep]).await
    }

    /// What went to consumers since the last look.
    pub(super) fn handed(&self) -> Vec<(ConsumerId, Handed)> {
        let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        handed.iter_mut().flat_map(|one| std::mem::take(&mut one.handed)).collect()
    }

    /// What others who wait were told since the last look.
    pub(super) fn told(&self) -> Vec<(ConsumerId, Told)> {
        let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        handed.iter_mut().flat_map(|one| std::mem::take(&mut one.told)).collect()
    }

    /// Who was sent away since the last look.
    pub(super) fn dismissed(&self) -> Vec<ConsumerId> {
        let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        handed.iter_mut().flat_map(|one| std::mem::take(&mut one.dismissed)).collect()
    }

    /// The state after the last sync.
    pub(super) fn published(&self) -> Arc<Published> {
        let published = self.store().published(self.space).expect("the space is there");
        let now = published.borrow();
        Arc::clone(&now)
    }

    /// The newest record.
    pub(super) fn head(&self) -> Seq {
        self.published().head.seq
    }

    /// Deliveries by state.
    pub(super) fn counts(&self) -> Counts {
        let published = self.published();
        assert_eq!(published.ready_by_level.iter().sum::<u64>(), published.counts.ready);
        published.counts
    }

    /// Reads one thing.
    pub(super) async fn read(&self, what: Read) -> Rows {
        let mut rows = self.store().read(self.space, vec![what]).await.expect("reads work");
        assert_eq!(rows.len(), 1, "one answer for each question");
        rows.remove(0)
    }

    /// Where a delivery is.
    pub(super) async fn state(&self, number: DeliveryNo) -> Option<DeliveryState> {
        match self.read(Read::Deliveries { first: number, count: 1 }).await {
            Rows::Deliveries(states) => states[0],
            other => panic!("not a delivery: {other:?}"),
        }
    }

    /// All dead letters.
    pub(super) async fn dead_letters(&self) -> Vec<DeadLetter> {
        match self.read(Read::DeadLetters { agent: None, after: DeliveryNo(0), limit: 100 }).await {
            Rows::DeadLetters(letters) => letters,
            other => panic!("not dead letters: {other:?}"),
        }
    }

    /// Makes another space, or finds it.
    pub(super) async fn other_space(&self, name: &str) -> SpaceNo {
        let name = SpaceName::new(name).expect("a good name");
        self.store().space(name).await.expect("a space can be made")
    }

    /// The same store, seen from another space.
    pub(super) fn enter(&mut self, space: SpaceNo) {
        self.space = space;
    }
}

/// Deliveries that time alone may move count as one.
fn open_and_ended(counts: Counts) -> Counts {
    Counts { ready: counts.ready + counts.scheduled, scheduled: 0, ..counts }
}

/// What a send was answered.
pub(super) fn sent(receipt: &Receipt, op: usize) -> Sent {
    match receipt.results[op] {
        OpResult::Sent { id, first, count } => Sent { id, first, count },
        ref other => panic!("not a send: {other:?}"),
    }
}

/// What a claim was answered.
pub(super) fn claimed(receipt: &Receipt) -> Vec<Handed> {
    let all = receipt.results.iter().filter_map(|result| match result {
        OpResult::Claimed(taken) => Some(taken.clone()),
        _ => None,
    });
    all.flatten().collect()
}
