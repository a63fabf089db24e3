//! Locks: named things that so many agents hold at a time.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use quorate_api::Error;
use quorate_core::limits::LEASE_MS_DEFAULT;
use quorate_core::{
    AcquireLocks, Code, Commit, DeliveryId, Fence, FenceRef, LockName, Locked, Op, Priority, Refused,
    RenewLocks, Waiting,
};

use crate::agent::Agent;

/// How long a lock is waited for if nothing is said.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);

impl Agent {
    /// Takes locks, all of them or none. Await it; the locks are held until the guard is released or dropped, or until
    /// their time is over.
    pub fn lock<T: Into<String>>(&self, names: impl IntoIterator<Item = T>) -> Locking {
        Locking {
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

/// Locks that are about to be taken. Await it.
#[must_use = "locks are taken when it is awaited"]
pub struct Locking {
    agent: Agent,
    names: Vec<String>,
    ttl: Duration,
    wait: Duration,
    priority: Priority,
    capacity: Option<u32>,
    pub(crate) work: Option<DeliveryId>,
}

impl Locking {
    /// How long the locks are held if they are not renewed; 30 s if nothing is said.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long to wait for them; 30 s if nothing is said. Zero is: now or not at all.
    pub fn within(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Who of several that wait goes first.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// How many may hold each of them at the same time; what was said before if nothing is said, else one.
    pub fn capacity(mut self, capacity: u32) -> Self {
        self.capacity = Some(capacity);
        self
    }

    async fn go(self) -> Result<Locks, Error> {
        let Self { agent, names, ttl, wait, priority, capacity, work } = self;
        let ask = AcquireLocks {
            agent: agent.id.clone(),
            names: names.iter().map(LockName::new).collect::<Result<_, _>>()?,
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            priority,
            capacity,
            waiting: Waiting::No,
            within: work,
        };
        let locked = agent.link.lock(agent.who(), ask, wait).await?;
        Ok(Locks { agent, locked, held: true })
    }
}

impl IntoFuture for Locking {
    type Output = Result<Locks, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.go())
    }
}

/// Locks that are held. Dropping them gives them back, if the hub can be reached; else their time ends them.
#[must_use = "the locks are given back when this is dropped"]
pub struct Locks {
    agent: Agent,
    locked: Locked,
    held: bool,
}

impl Locks {
    /// The fence of a lock, to write under it. It is greater than every earlier one of that lock.
    ///
    /// # Errors
    /// `NOT_FOUND` if this is not one of these locks.
    pub fn fence(&self, name: &str) -> Result<FenceRef, Error> {
        let found = self.locked.locks.iter().find(|one| one.lock.as_str() == name);
        found.cloned().ok_or_else(|| {
            Refused::new(Code::NotFound, format!("{name} is not one of these locks"))
                .hint("name one that was taken together with this guard")
                .into()
        })
    }

    /// All of them, each with its fence.
    #[must_use]
    pub fn fences(&self) -> Vec<(&str, Fence)> {
        self.locked.locks.iter().map(|one| (one.lock.as_str(), one.fence)).collect()
    }

    /// Holds them for their time again, counted from now.
    ///
    /// # Errors
    /// `STALE_FENCE` if one of them is lost, or a failure of the storage.
    pub async fn renew(&self) -> Result<(), Error> {
        self.commit(Op::RenewLocks(RenewLocks::again(self.locked.locks.clone()))).await
    }

    /// Holds them for so long, counted from now: this once, [`Locks::renew`] goes by their own time again.
    ///
    /// # Errors
    /// `STALE_FENCE` if one of them is lost, `INVALID` for less than a second or more than a lease may last, or a failure
    /// of the storage.
    pub async fn renew_for(&self, time: Duration) -> Result<(), Error> {
        let ttl_ms = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self.commit(Op::RenewLocks(RenewLocks { locks: self.locked.locks.clone(), ttl_ms })).await
    }

    /// Gives them back.
    ///
    /// # Errors
    /// `STALE_FENCE` if one of them was lost before, or a failure of the storage.
    pub async fn release(mut self) -> Result<(), Error> {
        self.held = false;
        self.commit(Op::ReleaseLocks(self.locked.locks.clone())).await
    }

    async fn commit(&self, op: Op) -> Result<(), Error> {
        self.agent.link.commit(self.agent.commit_of(vec![op])).await.map(drop)
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        if self.held {
            // One commit for each: one that is lost already does not keep the others.
            let release = |one: &FenceRef| self.agent.commit_of(vec![Op::ReleaseLocks(vec![one.clone()])]);
            let commits: Vec<Commit> = self.locked.locks.iter().map(release).collect();
            self.agent.link.submit(commits);
        }
    }
}
