//! Locks: acquire, renew, release, get, list.

use std::collections::HashMap;

use axum::extract::Path;
use quorate_api::lock::{
    AcquiredLocks, FencingToken, ListedLock, Lock, LockRenewal, LockRequest, LockWithQueue, RenewedLock,
};
use quorate_api::page::{CursorQuery, invalid_cursor};
use quorate_api::result::ChangeReceipt;
use quorate_core::{FenceRef, ItemRange, Lock as CoreLock, LockName, Op, RenewLocks};

use super::inbox::check_wait;
use super::{check_limit, item_page};
use crate::api::{Route, get, post, schema};
use crate::body;
use crate::call::{ApiResult, Call, ok_response};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/locks", "locks.list", "List locks by name.")
            .query_parameters::<CursorQuery>()
            .returns_page::<ListedLock>("locks")
            .handled_in_bulk_by(list),
        get("/v1/locks/{name}", "locks.get", "Get a lock, its holders and the agents that wait for it.")
            .path_parameter::<schema::LongId>("name", "Name of the lock.")
            .returns::<LockWithQueue>(200, "The lock. A lock that was never held is free.")
            .handled_by(show),
        post(
            "/v1/locks/{name}/acquire",
            "locks.acquire",
            "Acquire one or several locks atomically. Set `waitMs` to wait for them.",
        )
        .path_parameter::<schema::LongId>("name", "Name of the lock.")
        .request_body::<LockRequest>()
        .returns::<AcquiredLocks>(200, "The locks are held.")
        .handled_by(acquire),
        post("/v1/locks/{name}/renew", "locks.renew", "Renew a lock, starting from now.")
            .path_parameter::<schema::LongId>("name", "Name of the lock.")
            .request_body::<LockRenewal>()
            .without_key("Renewals are not recorded; repeating one renews the lock again.")
            .returns::<RenewedLock>(200, "The lock is held.")
            .handled_by(renew),
        post("/v1/locks/{name}/release", "locks.release", "Release a lock.")
            .path_parameter::<schema::LongId>("name", "Name of the lock.")
            .request_body::<FencingToken>()
            .returns::<ChangeReceipt>(200, "The lock is released.")
            .handled_by(release),
    ]
}

pub(crate) async fn acquire(Path(name): Path<String>, call: Call) -> ApiResult {
    let request: LockRequest = body::parse(&call.body)?;
    let wait = check_wait(call.durations(), request.wait_ms)?;
    let acquire_op = request.into_core(&call.parse_context(), Some(LockName::new(name)?))?;
    let make_commit = |ops| call.new_commit(ops);
    let (locked, since) = call.wait(call.space.lock_idempotent(&make_commit, acquire_op, wait)).await?;
    ok_response(&AcquiredLocks::new(&locked, since))
}

pub(crate) async fn renew(Path(name): Path<String>, call: Call) -> ApiResult {
    let LockRenewal { fence, ttl_ms } = body::parse(&call.body)?;
    let held = FenceRef { lock: LockName::new(name)?, fence };
    call.commit(vec![Op::RenewLocks(RenewLocks { locks: vec![held.clone()], ttl_ms })]).await?;
    let lock: Option<CoreLock> = call.space.find(&held.lock).await?;
    let grant = lock.as_ref().and_then(|lock| lock.grant(held.fence));
    let now = call.app.engine().clock().now().wall;
    let until = grant.map(|grant| now.plus_ms(ttl_ms.unwrap_or(grant.ttl_ms)));
    ok_response(&RenewedLock { fence, until })
}

pub(crate) async fn release(Path(name): Path<String>, call: Call) -> ApiResult {
    let FencingToken { fence } = body::parse(&call.body)?;
    let locks = vec![FenceRef { lock: LockName::new(name)?, fence }];
    let receipt = call.commit(vec![Op::ReleaseLocks(locks)]).await?;
    ok_response(&ChangeReceipt::from(&receipt))
}

pub(crate) async fn list(call: Call) -> ApiResult {
    let request: CursorQuery = call.query()?;
    let limit = check_limit(request.limit)?;
    let after = request.cursor.map(LockName::new).transpose().map_err(|_| invalid_cursor())?;
    let range = ItemRange::ById(after.map(|name| name.as_str().into()));
    let page = call.space.list(range, limit, |_: &CoreLock| true).await?;
    let names: Vec<_> = page.items.iter().map(|(_, lock)| lock.name.clone()).collect();
    let lengths = call.space.lock_queue_lengths(names.clone()).await?;
    let waiting: HashMap<_, _> = names.into_iter().zip(lengths).collect();
    let agents = &call.space.published().agents;
    item_page("locks", &page, |lock| ListedLock {
        lock: Lock::new(agents, lock),
        waiting_count: waiting.get(&lock.name).copied().unwrap_or(0),
    })
}

pub(crate) async fn show(Path(name): Path<String>, call: Call) -> ApiResult {
    let name = LockName::new(name)?;
    let waiting = call.space.lock_queue(&name).await?.iter().map(Into::into).collect();
    let lock = call.space.find(&name).await?;
    // A lock that was never held is free.
    let lock = lock.unwrap_or_else(|| CoreLock::new(name, 1));
    let lock = Lock::new(&call.space.published().agents, &lock);
    ok_response(&LockWithQueue { lock, waiting })
}
