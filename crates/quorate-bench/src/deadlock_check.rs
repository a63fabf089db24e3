//! WAITS: cost of a deadlock check with 10,000 waits in long chains of requests and locks, without a deadlock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_core::{
    AcquireLocks, AgentId, Commit, ConsumerId, Destination, LockName, Message, Op, Payload, Principal,
    Priority, RegisterAgent, SendRequest, SpaceNo, WaitMode, limits,
};
use quorate_sqlite::{Options, SqliteStore};
use quorate_store::{Entropy, ManualClock, Store as _, StoreContext};

use crate::Scale;
use crate::embedded_hub::new_directory;
use crate::measure::{Latencies, Meter};
use crate::report::Measurement;

const WAITS: u64 = 10_000;
const CHECKS: u64 = 200;

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let directory = new_directory(scale.data.as_deref())?;
    let clock = ManualClock::at(1_800_000_000_000);
    let context = StoreContext { clock: clock.clone(), entropy: Entropy::system(), sink: Arc::new(|_| {}) };
    let store = SqliteStore::open(&directory.path().join("data"), Options::default(), context)?;
    let space = store.space("default".parse()?).await?;
    let waits = scale.count(WAITS).max(4);
    chain_of_requests(&store, space, waits / 2).await?;
    chain_of_locks(&store, space, waits - waits / 2).await?;
    let before = store.published(space).map(|published| published.borrow().head.seq);
    let mut latencies = Latencies::new();
    let meter = Meter::start(&store);
    for _ in 0..scale.count(CHECKS).max(3) {
        clock.advance(Duration::from_millis(limits::DEADLOCK_CHECK_MS));
        let start = Instant::now();
        commit(&store, space, vec![Commit::new(Principal::System, vec![Op::Sweep])]).await?;
        latencies.record(start.elapsed());
    }
    let usage = meter.stop(&store);
    let after = store.published(space).map(|published| published.borrow().head.seq);
    anyhow::ensure!(before == after, "a wait was ended, although there is no deadlock");
    store.close().await;
    let line = Measurement::new("WAITS", format!("deadlock check, {waits} waits"), latencies.count(), usage);
    Ok(vec![line.latencies(&latencies).set("waits", waits).target(50.0, "check < 20 ms")])
}

async fn commit(store: &SqliteStore, space: SpaceNo, commits: Vec<Commit>) -> anyhow::Result<()> {
    for outcome in store.transact(space, commits).await? {
        outcome?;
    }
    Ok(())
}

/// Submits commits in batches.
async fn commit_all(store: &SqliteStore, space: SpaceNo, commits: Vec<Commit>) -> anyhow::Result<()> {
    let mut commits = commits.into_iter().peekable();
    while commits.peek().is_some() {
        commit(store, space, commits.by_ref().take(256).collect()).await?;
    }
    Ok(())
}

fn agent(kind: &str, index: u64) -> anyhow::Result<AgentId> {
    Ok(AgentId::new(format!("{kind}{index}"))?)
}

fn registration(id: &AgentId) -> Commit {
    let register = Op::RegisterAgent(RegisterAgent::named(id.clone()));
    Commit::new(Principal::Agent(id.clone()), vec![register])
}

/// Builds a chain of requests: each agent claims a request and sends one to the next agent.
async fn chain_of_requests(store: &SqliteStore, space: SpaceNo, count: u64) -> anyhow::Result<()> {
    let mut commits = Vec::new();
    for index in 0..=count {
        commits.push(registration(&agent("r", index)?));
    }
    for index in 0..count {
        let (from, to) = (agent("r", index)?, agent("r", index + 1)?);
        let payload = Payload::seal(bytes::Bytes::from_static(b"1"), [1; 16]);
        let mut message = Message::new(Destination::Agent(to.clone()), "ask", payload);
        message.from = Some(from.clone());
        let request = SendRequest::new(message, Some(limits::REQUEST_MS_MAX), Some(ConsumerId(index + 1)));
        commits.push(Commit::new(Principal::Agent(from), vec![Op::Request(request)]));
        let (lease_ms, wait) = (limits::LEASE_MS_MAX, WaitMode::NoWait);
        let claim = Op::Claim { agent: to.clone(), max: 1, lease_ms, wait };
        commits.push(Commit::new(Principal::Agent(to), vec![claim]));
    }
    commit_all(store, space, commits).await
}

/// Builds a chain of locks: each agent holds a lock and waits for that of the next agent.
async fn chain_of_locks(store: &SqliteStore, space: SpaceNo, count: u64) -> anyhow::Result<()> {
    let mut commits = Vec::new();
    let lock = |holder: &AgentId, index: u64, wait| -> anyhow::Result<Commit> {
        let acquire = Op::AcquireLocks(AcquireLocks {
            agent: holder.clone(),
            names: vec![LockName::new(format!("x{index}"))?],
            ttl_ms: limits::LEASE_MS_MAX,
            priority: Priority::NORMAL,
            capacity: None,
            wait,
            within: None,
        });
        Ok(Commit::new(Principal::Agent(holder.clone()), vec![acquire]))
    };
    for index in 0..=count {
        let id = agent("l", index)?;
        commits.push(registration(&id));
        commits.push(lock(&id, index, WaitMode::NoWait)?);
    }
    for index in 0..count {
        let wait = WaitMode::Once(ConsumerId(1_000_000 + index));
        commits.push(lock(&agent("l", index)?, index + 1, wait)?);
    }
    commit_all(store, space, commits).await
}
