//! Locks: acquire, renew, release, get, list.

use axum::extract::Path;
use quorate_api::lock::{AcquiredLocks, FencingToken, Lock, LockRenewal, LockRequest, RenewedLock};
use quorate_api::page::invalid_cursor;
use quorate_api::result::Changed;
use quorate_core::{FenceRef, ItemRange, Lock as CoreLock, LockName, Op, RenewLocks};

use super::inbox::checked_wait;
use super::{Page, checked_limit, page_of};
use crate::api::{Route, get, post, schema};
use crate::body;
use crate::call::{Answer, Call, ok};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/locks", "locks.list", "List locks by name.")
            .query::<Page>()
            .lists::<Lock>("locks")
            .bulk(list),
        get("/v1/locks/{name}", "locks.get", "Get a lock and its holders.")
            .path::<schema::LongId>("name")
            .answers::<Lock>(200, "The lock. A lock that was never held is free.")
            .to(show),
        post(
            "/v1/locks/{name}/acquire",
            "locks.acquire",
            "Acquire one or several locks atomically. Set `waitMs` to wait for them.",
        )
        .path::<schema::LongId>("name")
        .body::<LockRequest>()
        .answers::<AcquiredLocks>(200, "The locks are held.")
        .to(acquire),
        post("/v1/locks/{name}/renew", "locks.renew", "Renew a lock, starting from now.")
            .path::<schema::LongId>("name")
            .body::<LockRenewal>()
            .without_key("Renewals are not recorded; repeating one renews the lock again.")
            .answers::<RenewedLock>(200, "The lock is held.")
            .to(renew),
        post("/v1/locks/{name}/release", "locks.release", "Release a lock.")
            .path::<schema::LongId>("name")
            .body::<FencingToken>()
            .answers::<Changed>(200, "The lock is released.")
            .to(release),
    ]
}

pub(crate) async fn acquire(Path(name): Path<String>, call: Call) -> Answer {
    let request: LockRequest = body::parse(&call.body)?;
    let wait = checked_wait(call.times(), request.wait_ms)?;
    let acquire_op = request.read(&call.reading(), Some(LockName::new(name)?))?;
    let (locked, since) = match &call.key {
        Some(_) => {
            let make_commit = |ops| call.as_commit(ops);
            call.waiting(call.space.lock_once(&make_commit, acquire_op, wait)).await?
        }
        None => {
            let locked = call.waiting(call.space.lock(&call.principal, call.epoch, acquire_op, wait)).await?;
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
    let request: Page = call.query()?;
    let limit = checked_limit(request.limit)?;
    let after = request.cursor.map(LockName::new).transpose().map_err(|_| invalid_cursor())?;
    let range = ItemRange::ById(after.map(|name| name.as_str().into()));
    let found = call.space.list(range, limit, |_: &CoreLock| true).await?;
    let agents = &call.space.published().agents;
    page_of("locks", &found, |lock| Lock::new(agents, lock))
}

pub(crate) async fn show(Path(name): Path<String>, call: Call) -> Answer {
    let name = LockName::new(name)?;
    let lock = call.space.find(&name).await?;
    // A lock that was never held is free.
    let lock = lock.unwrap_or_else(|| CoreLock::new(name, 1));
    ok(&Lock::new(&call.space.published().agents, &lock))
}
