//! Lock-step execution: SQLite and the reference model under the same clock.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::{
    Commit, Item, ItemKind, LeaseToken, Op, OpenDeliveryState, Principal, Seq, SpaceName, SpaceNo, TaskInput,
};
use quorate_sqlite::{Options, SqliteStore};
use quorate_store::{
    AsOf, BatchDispatch, Clock as _, Entropy, ManualClock, PartBytes, PublishedState, ReadQuery, ReadResult,
    ReferenceStore, Store, StoreContext, StoredDeliveryState,
};
use tempfile::TempDir;

use super::comparable::{
    ComparableEvent, Dispatches, Inputs, claimed_inputs, comparable_outcome, comparable_state,
    creation_order_reads, long_reads, normalized, short_reads,
};
use super::plan::{AGENTS, KEYS, Plan, SPACES, Step};
use super::resolve::{SeenResults, SpaceView, entry_key};
use super::tasks;
use super::topics::registration;
use super::{plan::PlannedCommit, replay, replay::PublishedStates, requests};

/// Initial time: noon, so that a plan of a few hours stays within a day.
const START_MS: u64 = 1_799_971_200_000 + 43_200_000;
const HALF_DAY_MS: u64 = 43_200_000;

/// Dispatches collected from one store.
type Collected = Arc<Mutex<Vec<BatchDispatch>>>;

struct Pair {
    directory: TempDir,
    clock: Arc<ManualClock>,
    real: Option<Arc<SqliteStore>>,
    context: StoreContext,
    model: Arc<ReferenceStore>,
    real_dispatched: Collected,
    model_dispatched: Collected,
    spaces: [SpaceNo; SPACES.len()],
    seen: [SeenResults; SPACES.len()],
    /// Published states of each space, by sequence number.
    published_states: [PublishedStates; SPACES.len()],
    latest_ms: u64,
    tail_rows: usize,
}

/// Runs a plan on both stores.
///
/// # Errors
/// The first difference, and the step after which it was found.
pub fn run(plan: &Plan) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime builds");
    runtime.block_on(async {
        // Flush immediately, after a few rows, or never (the memtable is rebuilt from the log at a restart).
        let tail_rows = [1, 5, usize::MAX][plan.0.len() % 3];
        let mut pair = Pair::new(tail_rows).await;
        for (index, step) in plan.0.iter().enumerate() {
            pair.step(step).await.map_err(|error| format!("after step {}, {step}:\n{error}", index + 1))?;
        }
        pair.end().await.map_err(|error| format!("at the end:\n{error}"))
    })
}

fn collector() -> (Collected, quorate_store::Sink) {
    let dispatched: Collected = Arc::default();
    let output = Arc::clone(&dispatched);
    (dispatched, Arc::new(move |batch| output.lock().unwrap_or_else(PoisonError::into_inner).push(batch)))
}

fn take(dispatched: &Collected) -> (Dispatches, Inputs) {
    Dispatches::of(std::mem::take(&mut *dispatched.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl Pair {
    async fn new(tail_rows: usize) -> Self {
        let directory = crate::data_directory();
        let clock = ManualClock::at(START_MS);
        let (real_dispatched, real_sink) = collector();
        let (model_dispatched, model_sink) = collector();
        let context_with = |sink| StoreContext { clock: clock.clone(), entropy: Entropy::seeded(1), sink };
        let context = context_with(real_sink);
        let model = ReferenceStore::new(context_with(model_sink));
        let real = open(&directory, &context, tail_rows);
        let mut spaces = [SpaceNo(0); SPACES.len()];
        for (number, name) in spaces.iter_mut().zip(SPACES) {
            let name = SpaceName::new(name).expect("valid space name");
            *number = real.space(name.clone()).await.expect("storage works");
            assert_eq!(model.space(name).await.expect("model works"), *number);
        }
        let mut pair = Self {
            directory,
            clock,
            real: Some(real),
            context,
            model,
            real_dispatched,
            model_dispatched,
            spaces,
            seen: Default::default(),
            published_states: Default::default(),
            latest_ms: START_MS,
            tail_rows,
        };
        for space in 0..SPACES.len() {
            let register = |agent| Op::RegisterAgent(requests::initial_registration(registration(agent, 0)));
            let registrations = (0..AGENTS.len() - 1).map(register).collect();
            let commits =
                vec![Commit::new(Principal::System, registrations), super::sessions::initial_session()];
            pair.transact(space, commits).await.expect("both stores have the same initial state");
        }
        pair
    }

    fn real(&self) -> &Arc<SqliteStore> {
        self.real.as_ref().expect("store is open")
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Commit { space, planned } => {
                let commits = self.commits(*space, planned).await;
                self.transact(*space, commits).await?;
            }
            Step::RepeatKeyed { space, back } => {
                let repeated = self.seen[*space].keyed.iter().rev().nth(*back).cloned();
                self.transact(*space, repeated.into_iter().collect()).await?;
            }
            Step::ReuseLeases { space, back, extra } => {
                let repeated = self.seen[*space].reuse_leases(*back, extra);
                self.transact(*space, repeated.into_iter().collect()).await?;
            }
            Step::AdvanceClock { ms } => self.clock.advance(Duration::from_millis(*ms)),
            Step::MoveWallClock { ms } => {
                self.clock.jump_wall_to(self.clock.now().wall.0.saturating_add_signed(*ms));
            }
            Step::Restart => {
                self.restart().await;
                for space in self.spaces {
                    self.compare_reads(space, short_reads(self.published(space).counts)).await?;
                }
            }
        }
        self.spaces.iter().try_for_each(|space| self.compare_published(*space))
    }

    /// Resolves commits, and remembers those with an idempotency key for later repeats.
    async fn commits(&mut self, space: usize, planned: &[PlannedCommit]) -> Vec<Commit> {
        let view = self.observe(space).await;
        let commits: Vec<_> = planned.iter().map(|commit| self.seen[space].commit(commit, &view)).collect();
        self.seen[space].keyed.extend(commits.iter().filter(|commit| commit.key.is_some()).cloned());
        commits
    }

    async fn observe(&mut self, space: usize) -> SpaceView {
        let now = self.clock.now().wall;
        let half_day = now.0.max(self.latest_ms) / HALF_DAY_MS;
        if half_day > self.latest_ms / HALF_DAY_MS {
            self.seen.iter_mut().for_each(|seen| seen.keyed.clear());
        }
        self.latest_ms = self.latest_ms.max(now.0);
        let published = self.published(self.spaces[space]);
        let mut reads: Vec<_> =
            (0..KEYS.len()).map(|key| ReadQuery::Entry { key: entry_key(key), when: AsOf::Latest }).collect();
        reads.extend(short_reads(published.counts));
        reads.push(ReadQuery::items(ItemKind::Subscription, 1000));
        let rows = self.model.read(self.spaces[space], reads).await.expect("model works");
        let mut versions = [0; KEYS.len()];
        let (mut dead, mut held, mut held_tasks) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let mut subscriptions = Vec::new();
        for (index, rows) in rows.into_iter().enumerate() {
            match rows {
                ReadResult::Entry(Some(entry)) if !entry.version.head.deleted => {
                    versions[index] = entry.version.head.version.0;
                }
                ReadResult::DeadLetters(dead_letters) => {
                    dead = dead_letters.iter().map(|letter| letter.delivery).collect()
                }
                ReadResult::Deliveries(states) => held = states.into_iter().filter_map(token).collect(),
                ReadResult::Items(items)
                    if items.iter().any(|listed| matches!(listed.item, Item::Task(_))) =>
                {
                    held_tasks = tasks::leased_tokens(items.iter().filter_map(|listed| match &listed.item {
                        Item::Task(task) => Some(task),
                        _ => None,
                    }));
                }
                ReadResult::Items(items) => {
                    let items = items.into_iter().map(|listed| listed.item);
                    subscriptions.extend(items.filter(|item| matches!(item, Item::Subscription(_))));
                }
                _ => {}
            }
        }
        let agents = (*published.agents).clone();
        SpaceView {
            now,
            half_day,
            head: published.head.seq,
            agents,
            versions,
            dead,
            subscriptions,
            held,
            held_tasks,
        }
    }

    async fn transact(&mut self, space: usize, commits: Vec<Commit>) -> Result<(), String> {
        let number = self.spaces[space];
        let real = self.real().transact(number, commits.clone()).await.map_err(|error| error.to_string())?;
        let model = self.model.transact(number, commits.clone()).await.expect("model works");
        let real_outcomes: Vec<_> = real.iter().map(comparable_outcome).collect();
        let model_outcomes: Vec<_> = model.iter().map(comparable_outcome).collect();
        check_same("outcomes", &real_outcomes, &model_outcomes)?;
        let (dispatches, mut inputs) = take(&self.real_dispatched);
        check_same("dispatches", &dispatches, &take(&self.model_dispatched).0)?;
        for (commit, outcome) in commits.iter().zip(&real) {
            if let Ok(receipt) = outcome {
                inputs.extend(claimed_inputs(receipt));
                self.seen[space].record(commit, receipt);
            }
        }
        dispatches
            .deliveries
            .iter()
            .for_each(|(_, consumer, delivery)| self.seen[space].record_delivery(*consumer, delivery));
        for (_, consumer, event) in &dispatches.events {
            if let ComparableEvent::Event(event) = event {
                self.seen[space].record_lock_event(*consumer, event);
            }
        }
        for (_, consumer, event) in &dispatches.events {
            if let ComparableEvent::Event(event) = event {
                self.seen[space].record_task_event(*consumer, event);
            }
        }
        // A later commit of the same batch may erase an input that was already dispatched.
        if !commits.iter().flat_map(|commit| &commit.ops).any(|op| matches!(op, Op::ErasePayload(_))) {
            self.compare_inputs(number, inputs).await?;
        }
        let published = self.published(number);
        self.published_states[space].insert(published.head.seq, published);
        let mut reads = short_reads(self.published(number).counts);
        reads.extend(creation_order_reads(None, 1000));
        self.compare_reads(number, reads).await
    }

    fn published(&self, space: SpaceNo) -> Arc<PublishedState> {
        let published = self.model.published(space).expect("space exists");
        let state = published.borrow();
        Arc::clone(&state)
    }

    fn compare_published(&self, space: SpaceNo) -> Result<(), String> {
        let real = self.real().published(space).expect("space exists");
        let real = comparable_state(&real.borrow());
        check_same(
            &format!("published state of space {space}"),
            &real,
            &comparable_state(&self.published(space)),
        )
    }

    /// Checks that each input dispatched with a task equals the stored input and is not erased.
    async fn compare_inputs(&self, space: SpaceNo, inputs: Inputs) -> Result<(), String> {
        for (spec, input) in inputs {
            let TaskInput { part, start, length } = spec.input.ok_or("an input of a task without input")?;
            let read = ReadQuery::Part { seq: spec.number.seq, part, start, length };
            let rows = self.model.read(space, vec![read]).await.expect("model works");
            let dispatched = ReadResult::Part(Some(PartBytes { bytes: input, erased: false }));
            check_same(&format!("the input of {}", spec.id), &dispatched, &rows[0])?;
        }
        Ok(())
    }

    async fn compare_reads(&self, space: SpaceNo, reads: Vec<ReadQuery>) -> Result<(), String> {
        let real = self.real().read(space, reads.clone()).await.map_err(|error| error.to_string())?;
        let model = self.model.read(space, reads.clone()).await.expect("model works");
        check_same("the number of results", &real.len(), &reads.len())?;
        for ((read, real), model) in reads.into_iter().zip(real).zip(model) {
            check_same(&format!("{read:?} in space {space}"), &normalized(real), &normalized(model))?;
        }
        Ok(())
    }

    async fn restart(&mut self) {
        self.real().close().await;
        self.real = None;
        self.real = Some(open(&self.directory, &self.context, self.tail_rows));
        self.model.restart();
    }

    /// Verifies the data directory, as `quorate verify` does.
    async fn verify(&mut self) -> Result<(), String> {
        self.real().close().await;
        self.real = None;
        let report =
            quorate_sqlite::verify(self.directory.path(), None).map_err(|error| error.to_string())?;
        report.first_defect.map_or(Ok(()), |defect| Err(format!("verify: {defect:?}")))
    }

    /// Compares all reads, the log, and the result of replaying the log.
    async fn end(&mut self) -> Result<(), String> {
        for ((space, seen), states) in self.spaces.into_iter().zip(&self.seen).zip(&self.published_states) {
            self.compare_reads(space, long_reads(&self.published(space), seen)).await?;
            let real = self.real().log(space, Seq(1), 100_000).await.map_err(|error| error.to_string())?;
            let model = self.model.log(space, Seq(1), 100_000).await.expect("model works");
            let header = |record: &quorate_core::Record| {
                (record.seq, record.at, record.format, record.kind, record.principal.clone())
            };
            let (real_headers, model_headers): (Vec<_>, Vec<_>) =
                (real.iter().map(header).collect(), model.iter().map(header).collect());
            check_same("the log", &real_headers, &model_headers)?;
            let info = self.real().spaces().into_iter().find(|info| info.number == space);
            let info = info.ok_or("a space is missing")?;
            replay::compare(&**self.real(), &info, &real, states).await?;
        }
        self.verify().await
    }
}

fn open(directory: &TempDir, context: &StoreContext, tail_rows: usize) -> Arc<SqliteStore> {
    let options = Options { flush_rows: tail_rows, ..Options::default() };
    SqliteStore::open(directory.path(), options, context.clone()).expect("store opens")
}

fn token(state: Option<StoredDeliveryState>) -> Option<LeaseToken> {
    match state {
        Some(StoredDeliveryState::Open { state: OpenDeliveryState::Leased { token }, .. }) => Some(token),
        _ => None,
    }
}

/// Returns an error if the two values differ.
pub(super) fn check_same<T: PartialEq + Debug>(subject: &str, real: &T, model: &T) -> Result<(), String> {
    if real == model {
        return Ok(());
    }
    Err(format!("{subject} differ:\n  SQLite: {real:?}\n  model:  {model:?}"))
}
