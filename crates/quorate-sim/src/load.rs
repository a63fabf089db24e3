//! Concurrent workload: senders; workers that ack, nack and commit multi-operation steps; writers that use
//! compare-and-set; lock holders. All calls and responses are recorded.

mod locks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quorate_core::{Commit, Key, Op, Principal, RegisterAgent};
use quorate_engine::{Consumer, Error, Space};
use quorate_store::AsOf;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::history::{Call, CallOp, DedupBy, Event, Lease, ObservedDelivery, agent_id, digest, send_call};
use crate::seed::Rng;

/// Recorder of events, called in the order in which they happen.
pub type Recorder = Arc<dyn Fn(Event) + Send + Sync>;

/// Lease duration: longer than a run, so that no lease expires while its holder still works.
const LEASE_MS: u64 = 120_000;
/// Number of entries that writers and steps compete for.
const KEYS: usize = 4;

/// Parameters of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Seed of all random choices. The interleaving of the callers is not deterministic.
    pub seed: u64,
    /// Number of the run; part of every call id.
    pub run: u64,
    /// Number of agents, each with a standing consumer.
    pub agents: usize,
    /// Senders per agent.
    pub senders: usize,
    /// Workers per agent.
    pub workers: usize,
    /// Callers that write entries.
    pub writers: usize,
    /// Callers that acquire locks.
    pub lockers: usize,
    /// Total number of sends, puts and lock acquisitions.
    pub calls: u64,
    /// Maximum bytes of padding.
    pub size_max: u64,
    /// Percentage of large payloads.
    pub large_percent: u64,
}

impl Load {
    /// Returns the ids of the agents.
    #[must_use]
    pub fn agent_names(&self) -> Vec<String> {
        (0..self.agents).map(|index| format!("a{index}")).collect()
    }
}

struct Shared {
    space: Space,
    record: Recorder,
    load: Load,
    names: Vec<String>,
    remaining: AtomicU64,
    /// Newest version of each entry acknowledged in this run.
    newest: [AtomicU64; KEYS],
    stop: watch::Sender<bool>,
}

/// Repeats calls with an unknown outcome. Must run first after a start, before anything changes their leases.
pub async fn repeat_calls(space: &Space, calls: Vec<Call>, record: &Recorder) {
    for call in calls {
        let outcome = send_call(space, &call).await;
        record(outcome);
    }
}

/// Runs a workload until all calls are done or the storage fails.
pub async fn run(space: &Space, load: Load, record: &Recorder) {
    let names = load.agent_names();
    let shared = Arc::new(Shared {
        space: space.clone(),
        record: Arc::clone(record),
        load,
        names: names.clone(),
        remaining: AtomicU64::new(load.calls),
        newest: Default::default(),
        stop: watch::Sender::new(false),
    });
    // Agents send to each other, so all are registered before the first one starts.
    for name in &names {
        if shared.register(name).await.is_err() {
            return;
        }
    }
    let mut workers = JoinSet::new();
    let mut callers = JoinSet::new();
    if shared.start_workers(&mut workers).await.is_some() {
        for name in &names {
            for index in 0..load.senders {
                callers.spawn(Arc::clone(&shared).send(name.clone(), index));
            }
        }
        for index in 0..load.lockers {
            callers.spawn(Arc::clone(&shared).run_locker(index));
        }
        for index in 0..load.writers {
            callers.spawn(Arc::clone(&shared).write(index));
        }
    }
    while callers.join_next().await.is_some() {}
    // No call is in flight when this returns: the caller may close the store.
    shared.stop.send_replace(true);
    while workers.join_next().await.is_some() {}
}

impl Shared {
    fn rng(&self, task: &str) -> Rng {
        Rng::seeded(self.load.seed, &format!("{}-{task}", self.load.run))
    }

    /// Registers an agent. A repeated registration releases the leases of the previous epoch. In 25 % of the restarts
    /// it is skipped: the leases stay open without a consumer, as after a crash of the hub alone.
    async fn register(&self, name: &str) -> Result<(), Error> {
        let id = agent_id(name);
        let is_registered = self.space.published().agents.number(&id).is_some();
        if is_registered && self.rng(name).percent(25) {
            return Ok(());
        }
        let op = Op::RegisterAgent(RegisterAgent::named(id.clone()));
        self.space.commit(Commit::new(Principal::Agent(id), vec![op])).await.map(drop)
    }

    /// Opens a consumer for each agent and spawns its workers. `None` if the storage failed.
    async fn start_workers(self: &Arc<Self>, workers: &mut JoinSet<()>) -> Option<()> {
        for name in &self.names {
            if !self.is_visible(name).await {
                return None;
            }
            let (id, credit) = (agent_id(name), 2 * self.load.workers as u32);
            let principal = Principal::Agent(id.clone());
            let consumer = self.space.consume(&principal, None, &id, credit, LEASE_MS).await.ok()?;
            let consumer = Arc::new(Mutex::new(consumer));
            for index in 0..self.load.workers {
                workers.spawn(Arc::clone(self).work(name.clone(), index, Arc::clone(&consumer)));
            }
        }
        Some(())
    }

    /// Waits until a registered agent is visible. It must be visible immediately; otherwise the delay is recorded as a
    /// violation, and the workload continues afterwards to find further ones.
    async fn is_visible(&self, name: &str) -> bool {
        let id = agent_id(name);
        let mut published = self.space.follow();
        if published.borrow_and_update().agents.number(&id).is_some() {
            return true;
        }
        (self.record)(Event::NotVisible {
            change: format!("agent {name} was registered and is not visible"),
        });
        let failure = self.space.engine().failure();
        tokio::select! {
            result = published.wait_for(|published| published.agents.number(&id).is_some()) => result.is_ok(),
            _ = failure => false,
        }
    }

    /// Sends a call and records it. `None` if its outcome is unknown because the storage failed: the caller stops.
    async fn call(&self, call: Call) -> Option<Event> {
        (self.record)(Event::Started(call.clone()));
        let outcome = send_call(&self.space, &call).await;
        if let (Event::Done { response, .. }, CallOp::Put { key, .. } | CallOp::Step { key, .. }) =
            (&outcome, &call.op)
        {
            let version = response.versions.first().copied().unwrap_or_default();
            self.newest[index_of(key)].fetch_max(version, Ordering::SeqCst);
        }
        (self.record)(outcome.clone());
        (!matches!(outcome, Event::Unknown { .. })).then_some(outcome)
    }

    /// Takes one call from the remaining number of calls.
    fn take_call(&self) -> bool {
        self.remaining
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |remaining| remaining.checked_sub(1))
            .is_ok()
    }

    async fn send(self: Arc<Self>, by: String, index: usize) {
        let task = format!("{by}s{index}");
        let rng = self.rng(&task);
        let mut count = 0;
        while self.take_call() {
            count += 1;
            let mut to = vec![rng.pick(&self.names).clone()];
            if rng.percent(15) {
                to.push(rng.pick(&self.names).clone());
            }
            if rng.percent(3) {
                to.push("nobody".into());
            }
            let op = CallOp::Send {
                to,
                level: 1 + rng.below(2) as u8,
                attempts_max: if rng.percent(15) { 2 } else { 100 },
                size: self.size(&rng),
                dedup: if rng.percent(50) { DedupBy::ClientId } else { DedupBy::Key },
            };
            let id = format!("{}-{task}-{count}", self.load.run);
            if self.call(Call { id, by: by.clone(), op }).await.is_none() {
                return;
            }
        }
    }

    fn size(&self, rng: &Rng) -> usize {
        // Mostly small, sometimes larger than a database page.
        let bound = if rng.percent(self.load.large_percent) {
            self.load.size_max
        } else {
            self.load.size_max.min(200)
        };
        rng.below(bound + 1) as usize
    }

    async fn write(self: Arc<Self>, index: usize) {
        let task = format!("w{index}");
        let rng = self.rng(&task);
        let mut count = 0;
        while self.take_call() {
            count += 1;
            let key = format!("k{}", rng.below(KEYS as u64));
            let Some(expect) = self.read_entry(&key).await else { return };
            let op = CallOp::Put { key, expect, size: self.size(&rng) };
            let id = format!("{}-{task}-{count}", self.load.run);
            let by = rng.pick(&self.names).clone();
            if self.call(Call { id, by, op }).await.is_none() {
                return;
            }
        }
    }

    /// Reads an entry, records the read, and returns the version.
    async fn read_entry(&self, name: &str) -> Option<u64> {
        let at_least = self.newest[index_of(name)].load(Ordering::SeqCst);
        let key = Key::new(name).expect("valid key");
        let found = self.space.entry(&key, AsOf::Latest).await.ok()?;
        let version = found.as_ref().map_or(0, |entry| entry.version.head.version.0);
        let content = found.and_then(|entry| entry.content);
        let digest = content.map_or(String::new(), |content| digest(&content.bytes));
        (self.record)(Event::EntryRead { key: name.to_owned(), version, digest, at_least });
        Some(version)
    }

    async fn work(self: Arc<Self>, by: String, index: usize, consumer: Arc<Mutex<Consumer>>) {
        let task = format!("{by}r{index}");
        let rng = self.rng(&task);
        let mut stop = self.stop.subscribe();
        let mut count = 0;
        loop {
            let (received, grant) = {
                let mut consumer = consumer.lock().await;
                let next = tokio::select! {
                    next = consumer.next() => next,
                    _ = stop.wait_for(|stop| *stop) => return,
                };
                let Ok(Some(delivery)) = next else { return };
                let Some(received) = ObservedDelivery::from_delivery(&by, &delivery) else { continue };
                // Recorded before the next delivery is received, so that the history has the order of delivery.
                (self.record)(Event::Received(received.clone()));
                (received, consumer.grant_credit_op(1))
            };
            count += 1;
            let id = format!("{}-{task}-{count}", self.load.run);
            if self.handle(&rng, &by, id, received.lease).await.is_none() {
                return;
            }
            let commit = Commit::new(Principal::Agent(agent_id(&by)), vec![grant]);
            if self.space.commit(commit).await.is_err() {
                return;
            }
        }
    }

    /// Handles a delivery with a random operation. `None` if the storage failed.
    async fn handle(&self, rng: &Rng, by: &str, id: String, lease: Lease) -> Option<()> {
        let by = by.to_owned();
        if rng.percent(5) {
            let lease = Lease { token: lease.token - 1, ..lease };
            let op = CallOp::Ack { lease, stale: true };
            self.call(Call { id: format!("{id}x"), by: by.clone(), op }).await?;
        }
        let op = match rng.below(100) {
            0..3 => return Some(()),
            3..12 => CallOp::Nack { lease, retry_ms: Some(rng.below(2) * 20) },
            12..14 => CallOp::Nack { lease, retry_ms: None },
            14..34 => {
                let key = format!("k{}", rng.below(KEYS as u64));
                let expect = self.read_entry(&key).await?;
                let to = [rng.pick(&self.names).clone(), rng.pick(&self.names).clone()];
                CallOp::Step { lease, key, expect, to, size: self.size(rng) }
            }
            _ => CallOp::Ack { lease, stale: false },
        };
        let outcome = self.call(Call { id: id.clone(), by: by.clone(), op }).await?;
        if let Event::Refused { .. } = outcome {
            // Another caller wrote the entry first. The delivery is still leased; a plain ack ends it.
            let op = CallOp::Ack { lease, stale: false };
            self.call(Call { id: format!("{id}y"), by, op }).await?;
        }
        Some(())
    }
}

fn index_of(key: &str) -> usize {
    key[1..].parse().expect("keys are k0, k1 and so on")
}
