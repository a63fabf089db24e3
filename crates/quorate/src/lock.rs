//! Locks: named leases with fencing tokens and an optional capacity.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use quorate_api::Error;
use quorate_core::limits::LEASE_MS_DEFAULT;
use quorate_core::{
    AcquireLocks, Code, Commit, DeliveryId, Fence, FenceRef, GrantedLocks, LockName, Op, Priority, Refused,
    RenewLocks, WaitMode,
};

use crate::agent::Agent;

/// Default timeout for acquiring locks.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);

impl Agent {
    /// Acquires one or more locks atomically: all of them or none.
    ///
    /// Await the returned builder. The locks are held until the guard is released or dropped, or until their lease
    /// expires.
    pub fn lock<T: Into<String>>(&self, names: impl IntoIterator<Item = T>) -> LockBuilder {
        LockBuilder {
            agent: self.clone(),
            names: names.into_iter().map(Into::into).collect(),
            ttl: Duration::from_millis(LEASE_MS_DEFAULT),
            wait: WAIT_DEFAULT,
            priority: Priority::default(),
            capacity: None,
            work: None,
        }
    }
}

/// Builder for acquiring locks. Await it to acquire them.
#[must_use = "locks are acquired when the builder is awaited"]
pub struct LockBuilder {
    agent: Agent,
    names: Vec<String>,
    ttl: Duration,
    wait: Duration,
    priority: Priority,
    capacity: Option<u32>,
    pub(crate) work: Option<DeliveryId>,
}

impl LockBuilder {
    /// Sets the duration of the lock lease. Defaults to 30 s. Call [`LockGuard::renew`] to hold the locks for longer.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets how long to wait for the locks. Defaults to 30 s. With zero, the call fails immediately if a lock is
    /// held.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.wait = timeout;
        self
    }

    /// Sets the priority among waiters.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Sets how many holders each lock admits at the same time. By default a lock keeps its current capacity; a new
    /// lock has capacity 1.
    pub fn capacity(mut self, capacity: u32) -> Self {
        self.capacity = Some(capacity);
        self
    }

    async fn acquire(self) -> Result<LockGuard, Error> {
        let Self { agent, names, ttl, wait, priority, capacity, work } = self;
        let acquire = AcquireLocks {
            agent: agent.id.clone(),
            names: names.iter().map(LockName::new).collect::<Result<_, _>>()?,
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            priority,
            capacity,
            wait: WaitMode::NoWait,
            within: work,
        };
        let granted = agent.backend.lock(agent.identity(), acquire, wait).await?;
        Ok(LockGuard { agent, granted, held: true })
    }
}

impl IntoFuture for LockBuilder {
    type Output = Result<LockGuard, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

/// Guard of acquired locks.
///
/// Dropping it releases the locks on a best-effort basis: if the hub cannot be reached, they are released when their
/// lease expires.
#[must_use = "the locks are released when the guard is dropped"]
pub struct LockGuard {
    agent: Agent,
    granted: GrantedLocks,
    held: bool,
}

impl LockGuard {
    /// Returns the fencing token of a lock, to guard writes with. Each grant of a lock has a greater fencing token
    /// than the previous ones.
    ///
    /// # Errors
    /// Returns `NOT_FOUND` if this guard does not hold the lock.
    pub fn fence(&self, name: &str) -> Result<FenceRef, Error> {
        let found = self.granted.locks.iter().find(|fence| fence.lock.as_str() == name);
        found.cloned().ok_or_else(|| {
            Refused::new(Code::NotFound, format!("this guard does not hold the lock {name}"))
                .hint("use the name of a lock that was acquired with this guard")
                .into()
        })
    }

    /// Returns the held locks, each with its fencing token.
    #[must_use]
    pub fn fences(&self) -> Vec<(&str, Fence)> {
        self.granted.locks.iter().map(|fence| (fence.lock.as_str(), fence.fence)).collect()
    }

    /// Renews the leases of all locks, for their original duration from now.
    ///
    /// # Errors
    /// Returns `STALE_FENCE` if a lock was lost, or a storage error.
    pub async fn renew(&self) -> Result<(), Error> {
        self.commit(Op::RenewLocks(RenewLocks::with_granted_ttl(self.granted.locks.clone()))).await
    }

    /// Renews the leases of all locks once, for the given duration from now. A later [`LockGuard::renew`] uses the
    /// original duration again.
    ///
    /// # Errors
    /// Returns `STALE_FENCE` if a lock was lost, `INVALID` for a duration shorter than one second or longer than the
    /// maximum lease, or a storage error.
    pub async fn renew_for(&self, ttl: Duration) -> Result<(), Error> {
        let ttl_ms = Some(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        self.commit(Op::RenewLocks(RenewLocks { locks: self.granted.locks.clone(), ttl_ms })).await
    }

    /// Releases the locks.
    ///
    /// # Errors
    /// Returns `STALE_FENCE` if a lock was lost before, or a storage error.
    pub async fn release(mut self) -> Result<(), Error> {
        self.held = false;
        self.commit(Op::ReleaseLocks(self.granted.locks.clone())).await
    }

    async fn commit(&self, op: Op) -> Result<(), Error> {
        self.agent.backend.commit(self.agent.new_commit(vec![op])).await.map(drop)
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.held {
            // One commit for each lock: a lock that is already lost must not prevent the release of the others.
            let release =
                |fence: &FenceRef| self.agent.new_commit(vec![Op::ReleaseLocks(vec![fence.clone()])]);
            let commits: Vec<Commit> = self.granted.locks.iter().map(release).collect();
            self.agent.backend.submit(commits);
        }
    }
}
