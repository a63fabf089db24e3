//! Locks: take, keep, give back, look at.

use axum::extract::Path;
use quorate_core::{
    AcquireLocks, AgentId, Code, DeliveryId, Fence, FenceRef, Lock, LockName, Locked, Op, Priority, Refused,
    RenewLocks, Timestamp, Waiting,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inbox::checked_wait;
use super::{Page, checked_limit};
use crate::api::{Route, get, post, words};
use crate::body;
use crate::call::{Answer, Call, ok, page};
use crate::wire::entry::FenceIn;
use crate::wire::message::PriorityIn;
use crate::wire::result::Changed;
use crate::wire::time;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/locks", "locks.list", "The locks, by name.")
            .query::<Page>()
            .lists::<LockOut>("locks")
            .bulk(list),
        get("/v1/locks/{name}", "locks.get", "A lock and who holds it.")
            .path::<words::LongId>("name")
            .answers::<LockOut>(200, "The lock. One that nobody ever held is free.")
            .to(show),
        post(
            "/v1/locks/{name}/acquire",
            "locks.acquire",
            "Takes a lock, or several at once, and waits for them if asked to.",
        )
        .path::<words::LongId>("name")
        .body::<AcquireIn>()
        .answers::<HeldOut>(200, "It is held.")
        .to(acquire),
        post("/v1/locks/{name}/renew", "locks.renew", "Holds a lock for longer, counted from now.")
            .path::<words::LongId>("name")
            .body::<RenewOne>()
            .without_key("It leaves no record: once more, and the lock is held from then on.")
            .answers::<RenewedOut>(200, "It is held.")
            .to(renew),
        post("/v1/locks/{name}/release", "locks.release", "Gives a lock back.")
            .path::<words::LongId>("name")
            .body::<FenceOnly>()
            .answers::<Changed>(200, "It is free for the next one.")
            .to(release),
    ]
}

/// How to take a lock.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LockWish")]
pub(crate) struct AcquireIn {
    /// Whoever asks, if nothing is said.
    #[schemars(with = "Option<words::Id>")]
    agent: Option<String>,
    /// In a commit; in a call of its own it stands in the path.
    #[schemars(with = "Option<words::LongId>")]
    name: Option<String>,
    /// More locks, to be had all at once.
    #[serde(default)]
    #[schemars(length(max = 15), with = "Vec<words::LongId>")]
    names: Vec<String>,
    /// How long it is held; 30 s if nothing is said.
    #[schemars(with = "Option<words::LeaseMs>")]
    ttl_ms: Option<u64>,
    #[schemars(range(max = 60_000))]
    wait_ms: Option<u64>,
    priority: Option<PriorityIn>,
    /// How many may hold it at the same time; said by whoever takes it first.
    #[schemars(range(min = 1, max = 256))]
    capacity: Option<u32>,
    /// The delivery whose work needs it: the lock goes with its lease.
    #[schemars(with = "Option<words::DeliveryId>")]
    within: Option<String>,
}

impl AcquireIn {
    /// What is asked for; the lock of the path and those of the body. A commit does not wait.
    pub(crate) fn read(
        self,
        path: Option<String>,
        by: Option<&AgentId>,
        ttl_ms: u64,
    ) -> Result<AcquireLocks, Refused> {
        let named = self.agent.map(AgentId::new).transpose()?;
        let missing = || Refused::new(Code::Invalid, "agent is missing").hint("say for which agent");
        let names = path.or(self.name).into_iter().chain(self.names).map(LockName::new);
        Ok(AcquireLocks {
            agent: named.or_else(|| by.cloned()).ok_or_else(missing)?,
            names: names.collect::<Result<_, _>>()?,
            ttl_ms: self.ttl_ms.unwrap_or(ttl_ms),
            priority: self.priority.map_or(Ok(Priority::NORMAL), |priority| priority.read())?,
            capacity: self.capacity,
            waiting: Waiting::No,
            within: self.within.map(|id| id.parse::<DeliveryId>()).transpose()?,
        })
    }

    /// Refuses a wait, which a commit cannot have.
    pub(crate) fn without_wait(self) -> Result<Self, Refused> {
        match self.wait_ms {
            None | Some(0) => Ok(self),
            Some(_) => Err(Refused::new(Code::Invalid, "a commit waits for no lock")
                .hint("leave waitMs out, or take the lock with a call of its own")),
        }
    }
}

pub(crate) async fn acquire(Path(name): Path<String>, call: Call) -> Answer {
    let asked: AcquireIn = body::parse(&call.body)?;
    let wait = checked_wait(call.times(), asked.wait_ms)?;
    let ask = asked.read(Some(name), call.by(), call.times().lease_ms())?;
    let (locked, since) = match &call.key {
        Some(_) => {
            let asker = |ops| call.as_commit(ops);
            call.waiting(call.space.lock_once(&asker, ask, wait)).await?
        }
        None => {
            let locked = call.waiting(call.space.lock(&call.principal, call.epoch, ask, wait)).await?;
            (locked, call.app.engine().clock().now().wall)
        }
    };
    ok(&HeldOut::new(&locked, since))
}

impl HeldOut {
    pub(crate) fn new(locked: &Locked, since: Timestamp) -> Self {
        Self {
            fence: locked.locks.first().map(|lock| lock.fence.0),
            until: time::shown(since.plus_ms(locked.ttl_ms)),
            locks: locked.locks.iter().map(fence_shown).collect(),
        }
    }
}

/// Locks that are held.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LocksHeld")]
pub(crate) struct HeldOut {
    /// Of the first lock by name.
    fence: Option<u64>,
    #[schemars(with = "words::Time")]
    until: String,
    locks: Vec<FenceOut>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LockHeld")]
struct FenceOut {
    lock: String,
    fence: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LockRenewed")]
struct RenewedOut {
    fence: u64,
    #[schemars(with = "Option<words::Time>")]
    until: Option<String>,
}

fn fence_shown(lock: &FenceRef) -> FenceOut {
    FenceOut { lock: lock.lock.to_string(), fence: lock.fence.0 }
}

/// Locks that are held, in a commit: each with its fence.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HeldLocks")]
pub(crate) struct LocksIn {
    #[serde(default, deserialize_with = "crate::object::objects")]
    #[schemars(length(max = 16))]
    locks: Vec<FenceIn>,
    /// One of them, with its fence beside.
    #[schemars(with = "Option<words::LongId>")]
    name: Option<String>,
    fence: Option<u64>,
}

impl LocksIn {
    pub(crate) fn read(self) -> Result<Vec<FenceRef>, Refused> {
        let one = match (self.name, self.fence) {
            (Some(name), Some(fence)) => Some(FenceRef { lock: LockName::new(name)?, fence: Fence(fence) }),
            (None, None) => None,
            _ => {
                return Err(Refused::new(Code::Invalid, "name and fence go together")
                    .hint("say under which fence the lock is held, or give a list of locks"));
            }
        };
        let all: Vec<_> = one
            .into_iter()
            .map(Ok)
            .chain(self.locks.into_iter().map(FenceIn::read))
            .collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Err(Refused::new(Code::Invalid, "no lock is named")
                .hint("give name and fence, or a list of locks"));
        }
        Ok(all)
    }
}

/// Locks that are to be held for longer, in a commit.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LocksRenewal")]
pub(crate) struct RenewIn {
    #[serde(default, deserialize_with = "crate::object::objects")]
    #[schemars(length(max = 16))]
    locks: Vec<FenceIn>,
    /// One of them, with its fence beside.
    #[schemars(with = "Option<words::LongId>")]
    name: Option<String>,
    fence: Option<u64>,
    /// How long they are held from now on; as long as they were given for if nothing is said.
    #[schemars(with = "Option<words::LeaseMs>")]
    ttl_ms: Option<u64>,
}

impl RenewIn {
    pub(crate) fn read(self) -> Result<RenewLocks, Refused> {
        let locks = LocksIn { locks: self.locks, name: self.name, fence: self.fence }.read()?;
        Ok(RenewLocks { locks, ttl_ms: self.ttl_ms })
    }
}

/// How a lock is held for longer.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LockRenewal")]
struct RenewOne {
    /// The fence under which it is held.
    fence: u64,
    /// How long it is held from now on; as long as it was given for if nothing is said.
    #[schemars(with = "Option<words::LeaseMs>")]
    ttl_ms: Option<u64>,
}

/// The fence under which a lock is held.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FenceNumber")]
struct FenceOnly {
    fence: u64,
}

impl FenceOnly {
    fn read(call: &Call, name: String) -> Result<Vec<FenceRef>, Refused> {
        let Self { fence } = body::parse(&call.body)?;
        Ok(vec![FenceRef { lock: LockName::new(name)?, fence: Fence(fence) }])
    }
}

pub(crate) async fn renew(Path(name): Path<String>, call: Call) -> Answer {
    let RenewOne { fence, ttl_ms } = body::parse(&call.body)?;
    let held = FenceRef { lock: LockName::new(name)?, fence: Fence(fence) };
    call.commit(vec![Op::RenewLocks(RenewLocks { locks: vec![held.clone()], ttl_ms })]).await?;
    let lock = call.space.lock_state(&held.lock).await?;
    let grant = lock.as_ref().and_then(|lock| lock.grant(held.fence));
    let now = call.app.engine().clock().now().wall;
    let until = grant.map(|grant| time::shown(now.plus_ms(ttl_ms.unwrap_or(grant.ttl_ms))));
    ok(&RenewedOut { fence, until })
}

pub(crate) async fn release(Path(name): Path<String>, call: Call) -> Answer {
    let locks = FenceOnly::read(&call, name)?;
    let receipt = call.commit(vec![Op::ReleaseLocks(locks)]).await?;
    ok(&Changed::of(&receipt))
}

pub(crate) async fn list(call: Call) -> Answer {
    let asked: Page = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let after = asked.cursor.map(LockName::new).transpose()?;
    let locks = call.space.locks(after.as_ref(), limit).await?;
    let cursor = locks.last().filter(|_| locks.len() == limit).map(|last| last.name.to_string());
    page("locks", locks.iter().map(|lock| (lock.name.to_string(), lock_shown(&call, lock))), cursor)
}

pub(crate) async fn show(Path(name): Path<String>, call: Call) -> Answer {
    let name = LockName::new(name)?;
    let lock = call.space.lock_state(&name).await?;
    // One that nobody ever held is as free as any other.
    ok(&lock_shown(&call, &lock.unwrap_or_else(|| Lock::new(name, 1))))
}

/// A lock.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Lock")]
struct LockOut {
    name: String,
    capacity: u32,
    last_fence: u64,
    holders: Vec<HolderOut>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LockHolder")]
struct HolderOut {
    agent: Option<String>,
    fence: u64,
    #[schemars(with = "words::Time")]
    since: String,
    ttl_ms: u64,
}

fn lock_shown(call: &Call, lock: &Lock) -> LockOut {
    let published = call.space.published();
    let holders = lock.grants.iter().map(|grant| HolderOut {
        agent: published.agents.get(grant.holder).map(|agent| agent.id.to_string()),
        fence: grant.fence.0,
        since: time::shown(grant.at),
        ttl_ms: grant.ttl_ms,
    });
    LockOut {
        name: lock.name.to_string(),
        capacity: lock.capacity,
        last_fence: lock.last_fence.0,
        holders: holders.collect(),
    }
}
