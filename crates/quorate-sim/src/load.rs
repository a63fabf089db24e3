//! A load of many callers at once: senders, workers that ack, nack and make whole steps, writers that compare and set.
//! Everything they do is noted.

mod locks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quorate_core::{Commit, Key, Op, Principal, RegisterAgent};
use quorate_engine::{Consumer, Error, Space};
use quorate_store::When;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::history::{Act, Call, Event, Lease, Once, Received, agent, digest, perform};
use crate::seed::Dice;

/// Where events are written down, in the order in which they happen.
pub type Note = Arc<dyn Fn(Event) + Send + Sync>;

/// How long the leases last: longer than a run, so that none ends by itself while its holder still works.
const LEASE_MS: u64 = 120_000;
/// The entries that writers and steps fight over.
const KEYS: usize = 4;

/// What a load looks like.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The same seed makes the same choices; which of them meet is up to the machine.
    pub seed: u64,
    /// The number of the run, part of the name of each call.
    pub run: u64,
    /// Agents, each with a standing consumer.
    pub agents: usize,
    /// Senders of each agent.
    pub senders: usize,
    /// Workers of each agent.
    pub workers: usize,
    /// Writers of entries.
    pub writers: usize,
    /// Callers that take locks.
    pub lockers: usize,
    /// Sends, puts and locks in all; then the load ends.
    pub calls: u64,
    /// Bytes of padding at most.
    pub size_max: u64,
    /// How many of a hundred payloads are large.
    pub large_percent: u64,
}

impl Load {
    /// The names of its agents.
    #[must_use]
    pub fn agent_names(&self) -> Vec<String> {
        (0..self.agents).map(|index| format!("a{index}")).collect()
    }
}

struct Shared {
    space: Space,
    note: Note,
    load: Load,
    names: Vec<String>,
    left: AtomicU64,
    /// The newest acknowledged version of each entry, as far as this run knows.
    newest: [AtomicU64; KEYS],
    stop: watch::Sender<bool>,
}

/// Makes calls again whose end is unknown. Nothing may happen to their leases before, so this comes first after a start.
pub async fn repeat(space: &Space, calls: Vec<Call>, note: &Note) {
    for call in calls {
        let end = perform(space, &call).await;
        note(end);
    }
}

/// Runs a load until its calls are made or the storage fails.
pub async fn run(space: &Space, load: Load, note: &Note) {
    let names = load.agent_names();
    let shared = Arc::new(Shared {
        space: space.clone(),
        note: Arc::clone(note),
        load,
        names: names.clone(),
        left: AtomicU64::new(load.calls),
        newest: Default::default(),
        stop: watch::Sender::new(false),
    });
    // An agent sends to others, so all are known before the first is at work.
    for name in &names {
        if shared.register(name).await.is_err() {
            return;
        }
    }
    let mut workers = JoinSet::new();
    let mut callers = JoinSet::new();
    if shared.put_to_work(&mut workers).await.is_some() {
        for name in &names {
            for index in 0..load.senders {
                callers.spawn(Arc::clone(&shared).send(name.clone(), index));
            }
        }
        for index in 0..load.lockers {
            callers.spawn(Arc::clone(&shared).lock(index));
        }
        for index in 0..load.writers {
            callers.spawn(Arc::clone(&shared).write(index));
        }
    }
    while callers.join_next().await.is_some() {}
    // Nobody is in the middle of a call when this returns: what comes next may close the store.
    shared.stop.send_replace(true);
    while workers.join_next().await.is_some() {}
}

impl Shared {
    fn dice(&self, task: &str) -> Dice {
        Dice::seeded(self.load.seed, &format!("{}-{task}", self.load.run))
    }

    /// Makes an agent known, or starts it again, which gives back what its last start held. Now and then not: then its
    /// leases stay with nobody, as after a crash of the hub alone.
    async fn register(&self, name: &str) -> Result<(), Error> {
        let id = agent(name);
        let known = self.space.published().agents.number(&id).is_some();
        if known && self.dice(name).percent(25) {
            return Ok(());
        }
        let op = Op::RegisterAgent(RegisterAgent::named(id.clone()));
        self.space.commit(Commit::new(Principal::Agent(id), vec![op])).await.map(drop)
    }

    /// Opens a consumer for each agent and lets its workers wait. `None` when the storage failed meanwhile.
    async fn put_to_work(self: &Arc<Self>, workers: &mut JoinSet<()>) -> Option<()> {
        for name in &self.names {
            if !self.is_known(name).await {
                return None;
            }
            let (id, credit) = (agent(name), 2 * self.load.workers as u32);
            let principal = Principal::Agent(id.clone());
            let consumer = self.space.consume(&principal, None, &id, credit, LEASE_MS).await.ok()?;
            let consumer = Arc::new(Mutex::new(consumer));
            for index in 0..self.load.workers {
                workers.spawn(Arc::clone(self).work(name.clone(), index, Arc::clone(&consumer)));
            }
        }
        Some(())
    }

    /// Whether an agent that was registered can be seen. It must be at once; if not, that is noted, and the load goes on
    /// when it can, so that it also shows what else is wrong.
    async fn is_known(&self, name: &str) -> bool {
        let id = agent(name);
        let mut follow = self.space.follow();
        if follow.borrow_and_update().agents.number(&id).is_some() {
            return true;
        }
        (self.note)(Event::Late { what: format!("agent {name} was registered and is not known") });
        let failure = self.space.engine().failure();
        tokio::select! {
            seen = follow.wait_for(|published| published.agents.number(&id).is_some()) => seen.is_ok(),
            _ = failure => false,
        }
    }

    /// Makes a call and notes it. `None` when the storage failed: this caller is done.
    async fn call(&self, call: Call) -> Option<Event> {
        (self.note)(Event::Started(call.clone()));
        let end = perform(&self.space, &call).await;
        if let (Event::Done { answer, .. }, Act::Put { key, .. } | Act::Step { key, .. }) = (&end, &call.act)
        {
            let versions = answer.versions.first().copied().unwrap_or_default();
            self.newest[index_of(key)].fetch_max(versions, Ordering::SeqCst);
        }
        (self.note)(end.clone());
        (!matches!(end, Event::Unknown { .. })).then_some(end)
    }

    /// Takes one call from the budget.
    fn take(&self) -> bool {
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    async fn send(self: Arc<Self>, by: String, index: usize) {
        let task = format!("{by}s{index}");
        let dice = self.dice(&task);
        let mut count = 0;
        while self.take() {
            count += 1;
            let mut to = vec![dice.pick(&self.names).clone()];
            if dice.percent(15) {
                to.push(dice.pick(&self.names).clone());
            }
            if dice.percent(3) {
                to.push("nobody".into());
            }
            let act = Act::Send {
                to,
                level: 1 + dice.below(2) as u8,
                tries: if dice.percent(15) { 2 } else { 100 },
                size: self.size(&dice),
                once: if dice.percent(50) { Once::ClientId } else { Once::Key },
            };
            let id = format!("{}-{task}-{count}", self.load.run);
            if self.call(Call { id, by: by.clone(), act }).await.is_none() {
                return;
            }
        }
    }

    fn size(&self, dice: &Dice) -> usize {
        // Mostly small; now and then more than a page of the database holds.
        let bound = if dice.percent(self.load.large_percent) {
            self.load.size_max
        } else {
            self.load.size_max.min(200)
        };
        dice.below(bound + 1) as usize
    }

    async fn write(self: Arc<Self>, index: usize) {
        let task = format!("w{index}");
        let dice = self.dice(&task);
        let mut count = 0;
        while self.take() {
            count += 1;
            let key = format!("k{}", dice.below(KEYS as u64));
            let Some(expect) = self.look(&key).await else { return };
            let act = Act::Put { key, expect, size: self.size(&dice) };
            let id = format!("{}-{task}-{count}", self.load.run);
            let by = dice.pick(&self.names).clone();
            if self.call(Call { id, by, act }).await.is_none() {
                return;
            }
        }
    }

    /// Reads an entry, notes it, and says its version.
    async fn look(&self, name: &str) -> Option<u64> {
        let at_least = self.newest[index_of(name)].load(Ordering::SeqCst);
        let key = Key::new(name).expect("a short key");
        let found = self.space.entry(&key, When::Now).await.ok()?;
        let version = found.as_ref().map_or(0, |entry| entry.version.head.version.0);
        let content = found.and_then(|entry| entry.content);
        let digest = content.map_or(String::new(), |content| digest(&content.bytes));
        (self.note)(Event::Saw { key: name.to_owned(), version, digest, at_least });
        Some(version)
    }

    async fn work(self: Arc<Self>, by: String, index: usize, consumer: Arc<Mutex<Consumer>>) {
        let task = format!("{by}r{index}");
        let dice = self.dice(&task);
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
                let Some(received) = Received::of(&by, &delivery) else { continue };
                // Noted before the next one is taken, so that the order is the one of the hand-over.
                (self.note)(Event::Received(received.clone()));
                (received, consumer.grant(1))
            };
            count += 1;
            let id = format!("{}-{task}-{count}", self.load.run);
            if self.handle(&dice, &by, id, received.lease).await.is_none() {
                return;
            }
            let more = Commit::new(Principal::Agent(agent(&by)), vec![grant]);
            if self.space.commit(more).await.is_err() {
                return;
            }
        }
    }

    /// Does something with a delivery. `None` when the storage failed.
    async fn handle(&self, dice: &Dice, by: &str, id: String, lease: Lease) -> Option<()> {
        let by = by.to_owned();
        if dice.percent(5) {
            let lease = Lease { token: lease.token - 1, ..lease };
            let act = Act::Ack { lease, stale: true };
            self.call(Call { id: format!("{id}x"), by: by.clone(), act }).await?;
        }
        let act = match dice.below(100) {
            0..3 => return Some(()),
            3..12 => Act::Nack { lease, retry_ms: Some(dice.below(2) * 20) },
            12..14 => Act::Nack { lease, retry_ms: None },
            14..34 => {
                let key = format!("k{}", dice.below(KEYS as u64));
                let expect = self.look(&key).await?;
                let to = [dice.pick(&self.names).clone(), dice.pick(&self.names).clone()];
                Act::Step { lease, key, expect, to, size: self.size(dice) }
            }
            _ => Act::Ack { lease, stale: false },
        };
        let end = self.call(Call { id: id.clone(), by: by.clone(), act }).await?;
        if let Event::Refused { .. } = end {
            // Somebody else wrote the entry first. The delivery is still held; a plain ack ends it.
            let act = Act::Ack { lease, stale: false };
            self.call(Call { id: format!("{id}y"), by, act }).await?;
        }
        Some(())
    }
}

fn index_of(key: &str) -> usize {
    key[1..].parse().expect("keys are k0, k1 and so on")
}
