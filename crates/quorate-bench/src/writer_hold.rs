//! HOLD: how long costly commits of one space occupy the shared writer. Measures the latency of sequential writes in
//! another space meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::limits::{ACKS_MAX, CLAIM_MAX, COMMIT_BYTES_MAX, LEASE_MS_MAX, OPS_MAX, PAYLOAD_BYTES_MAX};
use quorate_core::{
    AgentId, CancelTask, Commit, CreateTasks, DeleteEntry, DeliveryId, Dependency, Destination, Generation,
    Key, LeaseRef, Message, NewTask, Op, OpResult, OpenSession, Payload, Policy, Principal, PutEntry,
    RegisterAgent, Rollback, RollbackScope, RollbackTarget, Seq, SessionId, SpaceNo, TaskId, WaitMode,
};
use quorate_sqlite::{Options, SqliteStore};
use quorate_store::{Entropy, Store as _, StoreContext, SystemClock};

use crate::Scale;
use crate::embedded_hub::new_directory;
use crate::measure::{Latencies, Meter};
use crate::report::Measurement;

/// Entries that are written and deleted before the rollbacks.
const ENTRIES: u64 = 100_000;
/// Duration of the measurement for each kind of load.
const DURATION: Duration = Duration::from_secs(3);
/// Target for the 99th percentile of the time that a transaction occupies the writer.
const HOLD_P99_MS: f64 = 50.0;

/// Load of the busy space.
#[derive(Clone, Copy)]
enum Load {
    Nothing,
    Rollbacks,
    Acks,
    Graph,
    FanOut,
    Sessions,
    Payloads,
}

impl Load {
    const ALL: [Self; 7] = [
        Self::Nothing,
        Self::Rollbacks,
        Self::Acks,
        Self::Graph,
        Self::FanOut,
        Self::Sessions,
        Self::Payloads,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "no load",
            Self::Rollbacks => "load: 8 rollbacks of a prefix",
            Self::Acks => "load: 4 × 4,096 repeated acks",
            Self::Graph => "load: graphs of 10,000 tasks",
            Self::FanOut => "load: 4,096 deliveries per commit",
            Self::Sessions => "load: 128 sessions of 1,000",
            Self::Payloads => "load: 2 payloads of 4 MB",
        }
    }
}

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for load in Load::ALL {
        lines.push(measure_load(scale, load).await?);
    }
    Ok(lines)
}

async fn measure_load(scale: &Scale, load: Load) -> anyhow::Result<Measurement> {
    let directory = new_directory(scale.data.as_deref())?;
    let context =
        StoreContext { clock: SystemClock::new(), entropy: Entropy::system(), sink: Arc::new(|_| {}) };
    let store = SqliteStore::open(&directory.path().join("data"), Options::default(), context)?;
    let hub = Arc::new(Hub { space: store.space("busy".parse()?).await?, store: Arc::clone(&store) });
    let quiet = store.space("quiet".parse()?).await?;
    let leases = hub.fill(scale, load).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let load_task = {
        let (hub, stop) = (Arc::clone(&hub), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) && hub.round(load, round, &leases).await? {
                round += 1;
            }
            anyhow::Ok(round)
        })
    };
    let mut latencies = Latencies::new();
    let meter = Meter::start(&store);
    let run_start = Instant::now();
    let duration = DURATION / u32::try_from(scale.divisor.min(10)).unwrap_or(1);
    let mut n = 0;
    while run_start.elapsed() < duration {
        let start = Instant::now();
        commit(&store, quiet, vec![put(&format!("k/{}", n % 100), 8)?]).await?;
        latencies.record(start.elapsed());
        n += 1;
    }
    let usage = meter.stop(&store);
    stop.store(true, Ordering::Relaxed);
    let rounds = load_task.await??;
    let stats = store.stats();
    store.close().await;
    let p99_ms = stats.hold_ns_p99 as f64 / 1e6;
    let mut line = Measurement::new("HOLD", load.name(), latencies.count(), usage)
        .latencies(&latencies)
        .set("commitsBeside", rounds)
        .set("holdP99Us", stats.hold_ns_p99 / 1000)
        .set("holdMaxUs", stats.hold_ns_max / 1000)
        .set("workMax", stats.work_max);
    // The target is a duration, not a rate, so it is converted: the goal equals the rate if the duration is within
    // target.
    let goal = if p99_ms <= HOLD_P99_MS { line.per_second } else { line.per_second * p99_ms / HOLD_P99_MS };
    line = line.target(goal, "writer hold p99 ≤ 50 ms");
    Ok(line)
}

struct Hub {
    store: Arc<SqliteStore>,
    space: SpaceNo,
}

async fn commit(store: &SqliteStore, space: SpaceNo, ops: Vec<Op>) -> anyhow::Result<Vec<OpResult>> {
    let outcomes = store.transact(space, vec![Commit::new(Principal::System, ops)]).await?;
    Ok(outcomes.into_iter().next().transpose()?.map(|receipt| receipt.results).unwrap_or_default())
}

fn agent(number: usize) -> anyhow::Result<AgentId> {
    Ok(AgentId::new(format!("agent-{number}"))?)
}

fn put(key: &str, bytes: usize) -> anyhow::Result<Op> {
    Ok(Op::Put(PutEntry {
        key: Key::new(key)?,
        entry_type: "note".into(),
        content: Payload::seal(Bytes::from(format!("\"{}\"", "x".repeat(bytes))), [7; 16]),
        content_type: None,
        expect: None,
        depends_on: Vec::new(),
        fence: None,
    }))
}

impl Hub {
    async fn commit(&self, ops: Vec<Op>) -> anyhow::Result<Vec<OpResult>> {
        commit(&self.store, self.space, ops).await
    }

    async fn commit_all(&self, ops: Vec<Op>) -> anyhow::Result<()> {
        for chunk in ops.chunks(OPS_MAX) {
            self.commit(chunk.to_vec()).await?;
        }
        Ok(())
    }

    /// Prepares the data that the load operates on. Returns ended leases for the load of repeated acks.
    async fn fill(&self, scale: &Scale, load: Load) -> anyhow::Result<Vec<LeaseRef>> {
        let register = |number| Ok(Op::RegisterAgent(RegisterAgent::named(agent(number)?)));
        self.commit_all((0..1_000).map(register).collect::<anyhow::Result<_>>()?).await?;
        match load {
            Load::Rollbacks => {
                let keys: Vec<_> =
                    (0..scale.count(ENTRIES).max(100)).map(|number| format!("p/{number:06}")).collect();
                self.commit_all(keys.iter().map(|key| put(key, 8)).collect::<anyhow::Result<_>>()?).await?;
                let delete = |key: &String| {
                    Ok(Op::Delete(DeleteEntry { key: Key::new(key.as_str())?, expect: None, fence: None }))
                };
                self.commit_all(keys.iter().map(delete).collect::<anyhow::Result<_>>()?).await?;
                Ok(Vec::new())
            }
            Load::Acks => self.ended_leases().await,
            Load::Payloads => {
                let (payload, commit) = (PAYLOAD_BYTES_MAX as u32, COMMIT_BYTES_MAX as u32);
                let policy =
                    Policy { payload_bytes_max: payload, commit_bytes_max: commit, ..Policy::default() };
                self.commit(vec![Op::SetPolicy(policy)]).await?;
                Ok(Vec::new())
            }
            Load::Nothing | Load::Graph | Load::FanOut | Load::Sessions => Ok(Vec::new()),
        }
    }

    fn fan_out(&self) -> anyhow::Result<Vec<Op>> {
        let to = (0..16).map(agent).collect::<anyhow::Result<Vec<_>>>()?;
        let payload = Payload::seal(Bytes::from_static(b"1"), [1; 16]);
        let message = Message::new(Destination::Agents(to), "work", payload);
        Ok((0..OPS_MAX).map(|_| Op::send(message.clone())).collect())
    }

    /// Sends 4,096 deliveries, claims and acks all of them, and returns their leases.
    async fn ended_leases(&self) -> anyhow::Result<Vec<LeaseRef>> {
        self.commit(self.fan_out()?).await?;
        let mut leases = Vec::new();
        for number in 0..16 {
            let (max, lease_ms, wait) = (CLAIM_MAX, LEASE_MS_MAX, WaitMode::NoWait);
            let results = self.commit(vec![Op::Claim { agent: agent(number)?, max, lease_ms, wait }]).await?;
            for result in results {
                if let OpResult::Claimed(leased) = result {
                    leases.extend(leased.into_iter().map(|lease| LeaseRef {
                        delivery: DeliveryId { generation: Generation(0), number: lease.delivery },
                        token: lease.token,
                    }));
                }
            }
        }
        anyhow::ensure!(leases.len() == ACKS_MAX, "claimed {} deliveries", leases.len());
        self.commit(vec![Op::AckMany(leases.clone())]).await?;
        // Write enough to evict the ended leases from memory.
        for round in 0..40 {
            let keys = (0..OPS_MAX).map(|number| put(&format!("fill/{round}/{number}"), 8));
            self.commit(keys.collect::<anyhow::Result<_>>()?).await?;
        }
        Ok(leases)
    }

    /// Submits one costly commit, which may be refused. Returns `false` if there is no load to run.
    async fn round(&self, load: Load, round: u64, leases: &[LeaseRef]) -> anyhow::Result<bool> {
        let ops = match load {
            Load::Nothing => return Ok(false),
            Load::Rollbacks => {
                let scope = RollbackScope::Prefix("p/".into());
                vec![Op::Rollback(Rollback { scope, target: RollbackTarget::Seq(Seq(5)), fence: None }); 8]
            }
            Load::Acks => vec![Op::AckMany(leases.to_vec()); 4],
            Load::Graph => vec![graph(round)?],
            Load::FanOut => self.fan_out()?,
            Load::Sessions => vec![session(round)?; 128],
            // The quotes are part of the payload.
            Load::Payloads => vec![put("p/large", PAYLOAD_BYTES_MAX - 2)?; 2],
        };
        // A refused commit occupies the writer as well.
        let _refused = self.commit(ops).await;
        if let Load::Graph = load {
            let cancel = CancelTask { task: TaskId::new(format!("t-{round}-0"))?, reason: String::new() };
            self.commit(vec![Op::CancelTask(cancel)]).await?;
        }
        if let Load::FanOut = load {
            let purge = |number| Ok(Op::Purge { agent: agent(number)? });
            self.commit((0..16).map(purge).collect::<anyhow::Result<_>>()?).await?;
        }
        Ok(true)
    }
}

/// Builds a graph of one task with 9,999 dependents.
fn graph(round: u64) -> anyhow::Result<Op> {
    let id = |number: usize| Ok::<_, anyhow::Error>(TaskId::new(format!("t-{round}-{number}"))?);
    let task = |number: usize| {
        let depends_on = if number == 0 { vec![] } else { vec![Dependency::Task(id(0)?)] };
        anyhow::Ok(NewTask { id: Some(id(number)?), depends_on, ..NewTask::new("x") })
    };
    let tasks = (0..10_000).map(task).collect::<anyhow::Result<_>>()?;
    Ok(Op::CreateTasks(CreateTasks { tasks, inputs: None }))
}

fn session(round: u64) -> anyhow::Result<Op> {
    Ok(Op::OpenSession(OpenSession {
        id: Some(SessionId::new(format!("s-{round}"))?),
        coordinator: None,
        participants: (0..1_000).map(agent).collect::<anyhow::Result<_>>()?,
        title: "work".into(),
        task: None,
    }))
}
