//! Locks: take, keep, give back, look at.

use axum::extract::Path;
use quorate_core::{AcquireLocks, DeliveryId, Fence, FenceRef, Lock, LockName, Op, Priority, Waiting};
use serde::Deserialize;
use serde_json::{Value, json};

use super::inbox::checked_wait;
use super::{Page, checked_limit};
use crate::body;
use crate::call::{Answer, Call, ok};
use crate::wire::message::PriorityIn;
use crate::wire::time;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AcquireIn {
    agent: Option<String>,
    /// More locks, to be had all at once.
    #[serde(default)]
    names: Vec<String>,
    ttl_ms: Option<u64>,
    wait_ms: Option<u64>,
    priority: Option<PriorityIn>,
    capacity: Option<u32>,
    within: Option<String>,
}

pub(crate) async fn acquire(Path(name): Path<String>, call: Call) -> Answer {
    let asked: AcquireIn = body::parse(&call.body)?;
    let wait = checked_wait(call.times(), asked.wait_ms)?;
    let names = std::iter::once(name).chain(asked.names).map(LockName::new);
    let ask = AcquireLocks {
        agent: call.acting(asked.agent)?,
        names: names.collect::<Result<_, _>>()?,
        ttl_ms: asked.ttl_ms.unwrap_or(call.times().lease_ms()),
        priority: asked.priority.map_or(Ok(Priority::NORMAL), |priority| priority.read())?,
        capacity: asked.capacity,
        waiting: Waiting::No,
        within: asked.within.map(|id| id.parse::<DeliveryId>()).transpose()?,
    };
    let locked = call.waiting(call.space.lock(&call.principal, call.epoch, ask, wait)).await?;
    let until = call.app.engine().clock().now().wall.plus_ms(locked.ttl_ms);
    let locks: Vec<_> = locked.locks.iter().map(fence_shown).collect();
    let first = locked.locks.first().map(|lock| lock.fence.0);
    ok(&json!({"fence": first, "until": time::shown(until), "locks": locks}))
}

fn fence_shown(lock: &FenceRef) -> Value {
    json!({"lock": lock.lock.to_string(), "fence": lock.fence.0})
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FenceOnly {
    fence: u64,
}

impl FenceOnly {
    fn read(call: &Call, name: String) -> Result<Vec<FenceRef>, quorate_core::Refused> {
        let Self { fence } = body::parse(&call.body)?;
        Ok(vec![FenceRef { lock: LockName::new(name)?, fence: Fence(fence) }])
    }
}

pub(crate) async fn renew(Path(name): Path<String>, call: Call) -> Answer {
    let locks = FenceOnly::read(&call, name)?;
    call.commit(vec![Op::RenewLocks(locks.clone())]).await?;
    let lock = call.space.lock_state(&locks[0].lock).await?;
    let grant = lock.as_ref().and_then(|lock| lock.grant(locks[0].fence));
    let now = call.app.engine().clock().now().wall;
    let until = grant.map(|grant| time::shown(now.plus_ms(grant.ttl_ms)));
    ok(&json!({"fence": locks[0].fence.0, "until": until}))
}

pub(crate) async fn release(Path(name): Path<String>, call: Call) -> Answer {
    let locks = FenceOnly::read(&call, name)?;
    let receipt = call.commit(vec![Op::ReleaseLocks(locks)]).await?;
    ok(&json!({"seq": receipt.seq.map(|seq| seq.0)}))
}

pub(crate) async fn list(call: Call) -> Answer {
    let page: Page = call.query()?;
    let limit = checked_limit(page.limit)?;
    let after = page.cursor.map(LockName::new).transpose()?;
    let locks = call.space.locks(after.as_ref(), limit).await?;
    let cursor = locks.last().filter(|_| locks.len() == limit).map(|last| last.name.to_string());
    let shown: Vec<_> = locks.iter().map(|lock| lock_shown(&call, lock)).collect();
    ok(&json!({"locks": shown, "cursor": cursor}))
}

pub(crate) async fn show(Path(name): Path<String>, call: Call) -> Answer {
    let name = LockName::new(name)?;
    let lock = call.space.lock_state(&name).await?;
    // One that nobody ever held is as free as any other.
    ok(&lock_shown(&call, &lock.unwrap_or_else(|| Lock::new(name, 1))))
}

fn lock_shown(call: &Call, lock: &Lock) -> Value {
    let published = call.space.published();
    let holders = lock.grants.iter().map(|grant| {
        let agent = published.agents.get(grant.holder).map(|agent| agent.id.to_string());
        json!({"agent": agent, "fence": grant.fence.0, "since": time::shown(grant.at), "ttlMs": grant.ttl_ms})
    });
    json!({
        "name": lock.name.to_string(),
        "capacity": lock.capacity,
        "lastFence": lock.last_fence.0,
        "holders": holders.collect::<Vec<_>>(),
    })
}
