//! Locks: take, keep, give back, look at.

use axum::extract::Path;
use quorate_api::lock::{AcquiredLocks, FencingToken, Lock, LockRenewal, LockRequest, RenewedLock};
use quorate_api::page::invalid_cursor;
use quorate_api::result::Changed;
use quorate_core::{FenceRef, ItemRange, Lock as CoreLock, LockName, Op, RenewLocks};

use super::inbox::checked_wait;
use super::{Page, checked_limit, page_of};
use crate::api::{Route, get, post, words};
use crate::body;
use crate::call::{Answer, Call, ok};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/locks", "locks.list", "List locks, by name.")
            .query::<Page>()
            .lists::<Lock>("locks")
            .bulk(list),
        get("/v1/locks/{name}", "locks.get", "A lock and who holds it.")
            .path::<words::LongId>("name")
            .answers::<Lock>(200, "The lock. One that nobody ever held is free.")
            .to(show),
        post(
            "/v1/locks/{name}/acquire",
            "locks.acquire",
            "Takes a lock, or several at once, and waits for them if asked to.",
        )
        .path::<words::LongId>("name")
        .body::<LockRequest>()
        .answers::<AcquiredLocks>(200, "It is held.")
        .to(acquire),
        post("/v1/locks/{name}/renew", "locks.renew", "Holds a lock for longer, counted from now.")
            .path::<words::LongId>("name")
            .body::<LockRenewal>()
            .without_key("It leaves no record: once more, and the lock is held from then on.")
            .answers::<RenewedLock>(200, "It is held.")
            .to(renew),
        post("/v1/locks/{name}/release", "locks.release", "Gives a lock back.")
            .path::<words::LongId>("name")
            .body::<FencingToken>()
            .answers::<Changed>(200, "It is free for the next one.")
            .to(release),
    ]
}

pub(crate) async fn acquire(Path(name): Path<String>, call: Call) -> Answer {
    let asked: LockRequest = body::parse(&call.body)?;
    let wait = checked_wait(call.times(), asked.wait_ms)?;
    let ask = asked.read(&call.reading(), Some(LockName::new(name)?))?;
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
    ok(&AcquiredLocks::new(&locked, since))
}

pub(crate) async fn renew(Path(name): Path<String>, call: Call) -> Answer {
    let LockRenewal { fence, ttl_ms } = body::parse(&call.body)?;
    let held = FenceRef { lock: LockName::new(name)?, fence };
    call.commit(vec![Op::RenewLocks(RenewLocks { locks: vec![held.clone()], ttl_ms })]).await?;
    let lock: Option<CoreLock> = call.space.find(&held.lock).await?;
    let grant = lock.as_ref().and_then(|lock| lock.grant(held.fence));
    let now = call.app.engine().clock().now().wall;
    let until = grant.map(|grant| now.plus_ms(ttl_ms.unwrap_or(grant.ttl_ms)));
    ok(&RenewedLock { fence, until })
}

pub(crate) async fn release(Path(name): Path<String>, call: Call) -> Answer {
    let FencingToken { fence } = body::parse(&call.body)?;
    let locks = vec![FenceRef { lock: LockName::new(name)?, fence }];
    let receipt = call.commit(vec![Op::ReleaseLocks(locks)]).await?;
    ok(&Changed::from(&receipt))
}

pub(crate) async fn list(call: Call) -> Answer {
    let asked: Page = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let after = asked.cursor.map(LockName::new).transpose().map_err(|_| invalid_cursor())?;
    let range = ItemRange::ById(after.map(|name| name.as_str().into()));
    let found = call.space.list(range, limit, |_: &CoreLock| true).await?;
    let agents = &call.space.published().agents;
    page_of("locks", &found, |lock| Lock::new(agents, lock))
}

pub(crate) async fn show(Path(name): Path<String>, call: Call) -> Answer {
    let name = LockName::new(name)?;
    let lock = call.space.find(&name).await?;
    // One that nobody ever held is as free as any other.
    let lock = lock.unwrap_or_else(|| CoreLock::new(name, 1));
    ok(&Lock::new(&call.space.published().agents, &lock))
}
