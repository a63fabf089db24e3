//! Locks with fencing tokens.

use std::borrow::Cow;

use quorate_core::{
    AcquireLocks, AgentId, Code, DeliveryId, Fence as FenceNumber, FenceRef, GrantedLocks, Lock as CoreLock,
    LockName, LockWait, Priority, Refused, RenewLocks, Timestamp, WaitMode,
};
use serde::{Deserialize, Serialize};

use crate::id_resolver::AgentIds;
use crate::parse_context::ParseContext;
use crate::priority::MessagePriority;
#[cfg(feature = "schema")]
use crate::schema;

/// Lock together with the fencing token under which it is held.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LockFence {
    /// Lock name.
    pub lock: LockName,
    /// Fencing token.
    pub fence: FenceNumber,
}

impl From<LockFence> for FenceRef {
    fn from(fence: LockFence) -> Self {
        Self { lock: fence.lock, fence: fence.fence }
    }
}

impl From<&FenceRef> for LockFence {
    fn from(fence: &FenceRef) -> Self {
        Self { lock: fence.lock.clone(), fence: fence.fence }
    }
}

/// Request to acquire one or more locks atomically: either all of them or none.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockRequest {
    /// Agent that will hold the locks; the agent of the access token by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Lock name. Required in a commit; in other calls it is part of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<LockName>,
    /// Additional locks to acquire atomically with the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 15)))]
    pub names: Vec<LockName>,
    /// How long the locks are held without renewal; 30 s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub ttl_ms: Option<u64>,
    /// How long to wait for the locks. Not allowed in a commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub wait_ms: Option<u64>,
    /// Priority in the queue of waiting agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<MessagePriority>,
    /// Maximum number of concurrent holders. Set by the first request for the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 256)))]
    pub capacity: Option<u32>,
    /// Delivery whose processing needs the locks. Used only for deadlock detection: the wait blocks this delivery, not
    /// everything that the agent works on. The locks are not released when the lease of the delivery ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<DeliveryId>,
}

impl LockRequest {
    /// Converts the request into an operation on the lock of the path and those of the body.
    ///
    /// # Errors
    /// `INVALID` if the holder is missing.
    pub fn into_core(
        self,
        context: &ParseContext<'_>,
        path: Option<LockName>,
    ) -> Result<AcquireLocks, Refused> {
        Ok(AcquireLocks {
            agent: context.agent(self.agent)?,
            names: path.or(self.name).into_iter().chain(self.names).collect(),
            ttl_ms: self.ttl_ms.unwrap_or(context.defaults.lease_ms),
            priority: self.priority.map_or(Priority::NORMAL, |priority| priority.0),
            capacity: self.capacity,
            wait: WaitMode::NoWait,
            within: self.within,
        })
    }

    /// Rejects a wait, which a commit does not support.
    ///
    /// # Errors
    /// `INVALID` if `waitMs` is greater than 0.
    pub fn reject_wait(self) -> Result<Self, Refused> {
        match self.wait_ms {
            None | Some(0) => Ok(self),
            Some(_) => Err(Refused::new(Code::Invalid, "waitMs: a commit cannot wait for a lock")
                .hint("omit waitMs, or acquire the lock with POST /v1/locks/{name}/acquire")),
        }
    }
}

impl From<&AcquireLocks> for LockRequest {
    fn from(acquire: &AcquireLocks) -> Self {
        Self {
            agent: Some(acquire.agent.clone()),
            name: None,
            names: acquire.names.clone(),
            ttl_ms: Some(acquire.ttl_ms),
            wait_ms: None,
            priority: Some(MessagePriority(acquire.priority)),
            capacity: acquire.capacity,
            within: acquire.within,
        }
    }
}

/// Request to release locks: a list, or a single lock by its name and fencing token.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LockRelease {
    /// Locks to release.
    #[serde(default, deserialize_with = "crate::strict::objects", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub locks: Vec<LockFence>,
    /// Single lock to release; requires `fence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<LockName>,
    /// Fencing token of the single lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<FenceNumber>,
}

impl LockRelease {
    /// Returns the locks to release.
    ///
    /// # Errors
    /// `INVALID` if no lock is given, or a lock without its fencing token.
    pub fn into_core(self) -> Result<Vec<FenceRef>, Refused> {
        collect_locks(self.locks, self.name, self.fence)
    }

    /// Creates the request body that a client sends.
    #[must_use]
    pub fn new(locks: &[FenceRef]) -> Self {
        Self { locks: locks.iter().map(Into::into).collect(), name: None, fence: None }
    }
}

fn collect_locks(
    locks: Vec<LockFence>,
    name: Option<LockName>,
    fence: Option<FenceNumber>,
) -> Result<Vec<FenceRef>, Refused> {
    let single = match (name, fence) {
        (Some(lock), Some(fence)) => Some(FenceRef { lock, fence }),
        (None, None) => None,
        _ => {
            return Err(Refused::new(Code::Invalid, "name and fence must be given together")
                .hint("send both, or send a list of locks"));
        }
    };
    let all: Vec<_> = single.into_iter().chain(locks.into_iter().map(Into::into)).collect();
    if all.is_empty() {
        return Err(
            Refused::new(Code::Invalid, "no lock is given").hint("send name and fence, or a list of locks")
        );
    }
    Ok(all)
}

/// Request to renew locks: a list, or a single lock by its name and fencing token.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockRenewalBatch {
    /// Locks to renew.
    #[serde(default, deserialize_with = "crate::strict::objects", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub locks: Vec<LockFence>,
    /// Single lock to renew; requires `fence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<LockName>,
    /// Fencing token of the single lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<FenceNumber>,
    /// New hold time, counted from now. Defaults to the one given when the locks were acquired.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub ttl_ms: Option<u64>,
}

impl LockRenewalBatch {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if no lock is given, or a lock without its fencing token.
    pub fn into_core(self) -> Result<RenewLocks, Refused> {
        Ok(RenewLocks { locks: collect_locks(self.locks, self.name, self.fence)?, ttl_ms: self.ttl_ms })
    }
}

impl From<&RenewLocks> for LockRenewalBatch {
    fn from(renew: &RenewLocks) -> Self {
        let locks = renew.locks.iter().map(Into::into).collect();
        Self { locks, name: None, fence: None, ttl_ms: renew.ttl_ms }
    }
}

/// Request to renew the lock in the path.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockRenewal {
    /// Fencing token under which the lock is held.
    pub fence: FenceNumber,
    /// New hold time, counted from now. Defaults to the one given when the lock was acquired.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub ttl_ms: Option<u64>,
}

/// Fencing token of the lock in the path.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FencingToken {
    /// Fencing token under which the lock is held.
    pub fence: FenceNumber,
}

/// Locks that were acquired.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcquiredLocks {
    /// Fencing token of the first lock, ordered by name.
    pub fence: Option<FenceNumber>,
    /// Time at which the locks expire unless renewed.
    pub until: Timestamp,
    /// All acquired locks with their fencing tokens.
    pub locks: Vec<LockFence>,
}

impl AcquiredLocks {
    /// Creates the response for locks that are held since `since`.
    #[must_use]
    pub fn new(granted: &GrantedLocks, since: Timestamp) -> Self {
        Self {
            fence: granted.locks.first().map(|lock| lock.fence),
            until: since.plus_ms(granted.ttl_ms),
            locks: granted.locks.iter().map(Into::into).collect(),
        }
    }
}

/// Lock that was renewed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RenewedLock {
    /// Fencing token, unchanged by the renewal.
    pub fence: FenceNumber,
    /// Time at which the lock expires unless renewed again.
    pub until: Option<Timestamp>,
}

/// A lock and its current holders.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Lock {
    /// Lock name.
    pub name: LockName,
    /// Maximum number of concurrent holders.
    pub capacity: u32,
    /// Most recently issued fencing token.
    pub last_fence: FenceNumber,
    /// Current holders.
    pub holders: Vec<LockHolder>,
}

/// Holder of a lock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LockHolder {
    /// Agent that holds the lock.
    pub agent: Option<AgentId>,
    /// Fencing token of this holder.
    pub fence: FenceNumber,
    /// Time at which the lock was acquired.
    pub since: Timestamp,
    /// How long the lock is held without renewal.
    pub ttl_ms: u64,
}

/// A lock of a list, with its holders and the length of its queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListedLock {
    /// The lock.
    #[serde(flatten)]
    pub lock: Lock,
    /// Number of agents that wait for the lock.
    pub waiting_count: usize,
}

/// A lock with its holders and its queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockWithQueue {
    /// The lock.
    #[serde(flatten)]
    pub lock: Lock,
    /// Agents that wait for the lock, first to last; at most 1,000.
    pub waiting: Vec<LockWaiter>,
}

/// Agent that waits for a lock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockWaiter {
    /// The waiting agent.
    pub agent: AgentId,
    /// Name of its priority in the queue.
    #[cfg_attr(feature = "schema", schemars(with = "schema::PriorityName"))]
    pub priority: Cow<'static, str>,
    /// All locks that it acquires together, sorted by name.
    pub locks: Vec<LockName>,
    /// Time at which the wait began.
    pub since: Timestamp,
}

impl From<&LockWait> for LockWaiter {
    fn from(wait: &LockWait) -> Self {
        Self {
            agent: wait.agent.clone(),
            priority: wait.priority.as_str().into(),
            locks: wait.names.clone(),
            since: wait.since,
        }
    }
}

impl Lock {
    /// Creates the API representation of a lock.
    #[must_use]
    pub fn new(agents: &dyn AgentIds, lock: &CoreLock) -> Self {
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
