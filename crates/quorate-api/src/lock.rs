//! Locks with fencing tokens.

use quorate_core::{
    AcquireLocks, AgentId, Code, DeliveryId, Fence as FenceNumber, FenceRef, Lock as CoreLock, LockName,
    Locked, Priority, Refused, RenewLocks, Timestamp, Waiting,
};
use serde::{Deserialize, Serialize};

use crate::names::AgentNames;
use crate::priority::MessagePriority;
use crate::reading::Reading;
#[cfg(feature = "schema")]
use crate::schema;

/// A lock and the fencing token under which it is held.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Fence {
    /// The name of the lock.
    pub lock: LockName,
    /// The fencing token.
    pub fence: FenceNumber,
}

impl From<Fence> for FenceRef {
    fn from(fence: Fence) -> Self {
        Self { lock: fence.lock, fence: fence.fence }
    }
}

impl From<&FenceRef> for Fence {
    fn from(fence: &FenceRef) -> Self {
        Self { lock: fence.lock.clone(), fence: fence.fence }
    }
}

/// Locks to acquire, all or none.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockRequest {
    /// The holder; the agent of the token by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// In a commit. In a call of its own the name is part of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<LockName>,
    /// More locks, acquired together with the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 15)))]
    pub names: Vec<LockName>,
    /// How long it is held without renewal; 30 s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub ttl_ms: Option<u64>,
    /// How long to wait for it. A commit does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub wait_ms: Option<u64>,
    /// Its place in the queue of those who wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<MessagePriority>,
    /// The number of holders that it may have at a time; set by the first request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 256)))]
    pub capacity: Option<u32>,
    /// The delivery whose work needs it: the lock is released with its lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<DeliveryId>,
}

impl LockRequest {
    /// The request, with the lock of the path and those of the body.
    ///
    /// # Errors
    /// `INVALID` if no holder is named.
    pub fn read(self, reading: &Reading<'_>, path: Option<LockName>) -> Result<AcquireLocks, Refused> {
        Ok(AcquireLocks {
            agent: reading.agent(self.agent)?,
            names: path.or(self.name).into_iter().chain(self.names).collect(),
            ttl_ms: self.ttl_ms.unwrap_or(reading.defaults.lease_ms),
            priority: self.priority.map_or(Priority::NORMAL, |priority| priority.0),
            capacity: self.capacity,
            waiting: Waiting::No,
            within: self.within,
        })
    }

    /// Refuses a wait, which a commit cannot have.
    ///
    /// # Errors
    /// `INVALID` if it asks for one.
    pub fn without_wait(self) -> Result<Self, Refused> {
        match self.wait_ms {
            None | Some(0) => Ok(self),
            Some(_) => Err(Refused::new(Code::Invalid, "waitMs: a commit does not wait for a lock")
                .hint("leave waitMs out, or acquire the lock with a call of its own")),
        }
    }
}

impl From<&AcquireLocks> for LockRequest {
    fn from(ask: &AcquireLocks) -> Self {
        Self {
            agent: Some(ask.agent.clone()),
            name: None,
            names: ask.names.clone(),
            ttl_ms: Some(ask.ttl_ms),
            wait_ms: None,
            priority: Some(MessagePriority(ask.priority)),
            capacity: ask.capacity,
            within: ask.within,
        }
    }
}

/// Locks to release: a list, or one by its name and fence.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LockRelease {
    /// The locks.
    #[serde(default, deserialize_with = "crate::strict::objects", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub locks: Vec<Fence>,
    /// One lock, together with `fence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<LockName>,
    /// Its fencing token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<FenceNumber>,
}

impl LockRelease {
    /// The locks.
    ///
    /// # Errors
    /// `INVALID` if none is named, or one without its fence.
    pub fn read(self) -> Result<Vec<FenceRef>, Refused> {
        all(self.locks, self.name, self.fence)
    }

    /// Locks as a client releases them.
    #[must_use]
    pub fn new(locks: &[FenceRef]) -> Self {
        Self { locks: locks.iter().map(Into::into).collect(), name: None, fence: None }
    }
}

fn all(
    locks: Vec<Fence>,
    name: Option<LockName>,
    fence: Option<FenceNumber>,
) -> Result<Vec<FenceRef>, Refused> {
    let one = match (name, fence) {
        (Some(lock), Some(fence)) => Some(FenceRef { lock, fence }),
        (None, None) => None,
        _ => {
            return Err(Refused::new(Code::Invalid, "name and fence go together")
                .hint("give the fence under which the lock is held, or a list of locks"));
        }
    };
    let all: Vec<_> = one.into_iter().chain(locks.into_iter().map(Into::into)).collect();
    if all.is_empty() {
        return Err(
            Refused::new(Code::Invalid, "no lock is named").hint("give name and fence, or a list of locks")
        );
    }
    Ok(all)
}

/// Locks to renew: a list, or one by its name and fence.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LocksRenewal {
    /// The locks.
    #[serde(default, deserialize_with = "crate::strict::objects", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub locks: Vec<Fence>,
    /// One lock, together with `fence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<LockName>,
    /// Its fencing token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<FenceNumber>,
    /// How long they are held from now on; by default as long as they were acquired for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub ttl_ms: Option<u64>,
}

impl LocksRenewal {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no lock is named, or one without its fence.
    pub fn read(self) -> Result<RenewLocks, Refused> {
        Ok(RenewLocks { locks: all(self.locks, self.name, self.fence)?, ttl_ms: self.ttl_ms })
    }
}

impl From<&RenewLocks> for LocksRenewal {
    fn from(renew: &RenewLocks) -> Self {
        let locks = renew.locks.iter().map(Into::into).collect();
        Self { locks, name: None, fence: None, ttl_ms: renew.ttl_ms }
    }
}

/// The renewal of the lock in the path.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockRenewal {
    /// The fencing token under which it is held.
    pub fence: FenceNumber,
    /// How long it is held from now on; by default as long as it was acquired for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub ttl_ms: Option<u64>,
}

/// The fencing token under which the lock in the path is held.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FencingToken {
    /// The fencing token.
    pub fence: FenceNumber,
}

/// Locks that were acquired.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcquiredLocks {
    /// The fencing token of the first lock by name.
    pub fence: Option<FenceNumber>,
    /// When they expire without renewal.
    pub until: Timestamp,
    /// All of them.
    pub locks: Vec<Fence>,
}

impl AcquiredLocks {
    /// Locks that are held since a time.
    #[must_use]
    pub fn new(locked: &Locked, since: Timestamp) -> Self {
        Self {
            fence: locked.locks.first().map(|lock| lock.fence),
            until: since.plus_ms(locked.ttl_ms),
            locks: locked.locks.iter().map(Into::into).collect(),
        }
    }
}

/// A lock that was renewed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RenewedLock {
    /// The fencing token.
    pub fence: FenceNumber,
    /// When it expires without another renewal.
    pub until: Option<Timestamp>,
}

/// A lock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Lock {
    /// Its name.
    pub name: LockName,
    /// The number of holders that it may have at a time.
    pub capacity: u32,
    /// The last fencing token that was issued.
    pub last_fence: FenceNumber,
    /// Its holders now.
    pub holders: Vec<LockHolder>,
}

/// A holder of a lock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LockHolder {
    /// The agent.
    pub agent: Option<AgentId>,
    /// Its fencing token.
    pub fence: FenceNumber,
    /// When it was acquired.
    pub since: Timestamp,
    /// How long it is held without renewal.
    pub ttl_ms: u64,
}

impl Lock {
    /// A lock as it is shown.
    #[must_use]
    pub fn new(agents: &dyn AgentNames, lock: &CoreLock) -> Self {
        let holders = lock.grants.iter().map(|grant| LockHolder {
            agent: agents.agent_id(grant.holder),
            fence: grant.fence,
            since: grant.at,
            ttl_ms: grant.ttl_ms,
        });
        Self {
            name: lock.name.clone(),
            capacity: lock.capacity,
            last_fence: lock.last_fence,
            holders: holders.collect(),
        }
    }
}
