//! Lock steps: acquire, renew, release, and fences of writes.

use std::fmt;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use quorate_core::{
    AcquireLocks, ConsumerEvent, ConsumerId, Fence, FenceRef, GrantedLocks, LockName, Op, Priority, WaitMode,
};

use super::plan::{AGENTS, Actor, PlannedOp};
use super::resolve::{SLOTS, SeenResults, agent_id};

/// The locks of a plan.
pub(super) const LOCKS: [&str; 3] = ["x", "y", "z"];

/// First consumer slot for lock waits; lower slots are for deliveries.
const FIRST_SLOT: u64 = 5;

/// Parameters of a lock acquisition.
#[derive(Clone, Debug)]
pub(super) struct LockRequest {
    pub(super) agent: usize,
    pub(super) locks: Vec<usize>,
    pub(super) ttl_ms: u64,
    pub(super) level: u8,
    pub(super) capacity: Option<u32>,
    /// Consumer slot to wait in.
    pub(super) wait: Option<u64>,
}

/// Selects fences, counted back from the newest granted one.
#[derive(Clone, Copy, Debug)]
pub(super) struct FenceSelector {
    /// Only fences of the actor.
    pub(super) own: bool,
    pub(super) back: usize,
    /// Number of fences.
    pub(super) count: usize,
    /// Offset added to the fence.
    pub(super) off: i64,
}

impl fmt::Display for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.locks.iter().map(|lock| LOCKS[*lock]).collect();
        write!(f, "locks {} of {} for {}ms", names.join(","), AGENTS[self.agent], self.ttl_ms)?;
        write!(f, " level {}", self.level)?;
        if let Some(capacity) = self.capacity {
            write!(f, " capacity {capacity}")?;
        }
        self.wait.map_or(Ok(()), |slot| write!(f, " as {slot}"))
    }
}

impl fmt::Display for FenceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = if self.own { "own" } else { "any" };
        write!(f, "{} {owner} fence -{} {:+}", self.count, self.back, self.off)
    }
}

/// Generates lock operations of an agent.
pub(super) fn agent_ops(agent: usize) -> BoxedStrategy<PlannedOp> {
    prop_oneof![
        6 => lock_request(Just(agent).boxed()).prop_map(PlannedOp::Lock),
        3 => fence_selector().prop_map(PlannedOp::Unlock),
        1 => renew_op(),
        1 => (0..2u64).prop_map(move |slot| PlannedOp::Close { agent, slot: FIRST_SLOT + slot }),
    ]
    .boxed()
}

/// Generates renewals with or without a time to live.
fn renew_op() -> BoxedStrategy<PlannedOp> {
    let ttl_ms = prop_oneof![4 => Just(60_000u64), 4 => Just(1_000), 2 => Just(5_000)];
    (fence_selector(), weighted(0.6, ttl_ms))
        .prop_map(|(selector, ttl_ms)| PlannedOp::Renew { selector, ttl_ms })
        .boxed()
}

pub(super) fn lock_request(agent: BoxedStrategy<usize>) -> BoxedStrategy<LockRequest> {
    let locks = prop_oneof![4 => vec(0..LOCKS.len(), 1..=1), 2 => vec(0..LOCKS.len(), 2..=3)];
    let ttl = prop_oneof![3 => Just(30_000u64), 1 => Just(1_000), 1 => Just(60_000)];
    let level = prop_oneof![4 => Just(1u8), 1 => 0..4u8];
    let wait = weighted(0.6, 0..2u64);
    (agent, locks, ttl, level, weighted(0.15, 1..=3u32), wait)
        .prop_map(|(agent, locks, ttl_ms, level, capacity, wait)| LockRequest {
            agent,
            locks,
            ttl_ms,
            level,
            capacity,
            wait,
        })
        .boxed()
}

pub(super) fn fence_selector() -> BoxedStrategy<FenceSelector> {
    let back = prop_oneof![5 => Just(0usize), 2 => 1..4usize];
    let off = prop_oneof![20 => Just(0i64), 1 => Just(-1), 1 => Just(1)];
    (proptest::bool::weighted(0.9), back, prop_oneof![4 => Just(1usize), 1 => Just(2)], off)
        .prop_map(|(own, back, count, off)| FenceSelector { own, back, count, off })
        .boxed()
}

impl SeenResults {
    /// Records granted locks.
    pub(super) fn record_locks(&mut self, agent: usize, granted: &GrantedLocks) {
        self.fences.extend(granted.locks.iter().map(|fence| (agent, fence.clone())));
    }

    /// Records locks granted to a waiting consumer.
    pub(super) fn record_lock_event(&mut self, consumer: ConsumerId, event: &ConsumerEvent) {
        if let ConsumerEvent::LocksGranted(granted) = event {
            self.record_locks((consumer.0 / SLOTS) as usize, granted);
        }
    }

    pub(super) fn acquire_op(&self, request: &LockRequest) -> Op {
        let consumer = |slot| ConsumerId(request.agent as u64 * SLOTS + FIRST_SLOT + slot);
        Op::AcquireLocks(AcquireLocks {
            agent: agent_id(request.agent),
            names: request.locks.iter().map(|lock| lock_name(*lock)).collect(),
            ttl_ms: request.ttl_ms,
            priority: Priority { level: request.level, rank: 0 },
            capacity: request.capacity,
            wait: request.wait.map_or(WaitMode::NoWait, |slot| WaitMode::Once(consumer(slot))),
            within: self.newest_lease(request.agent).filter(|_| request.level == 2),
        })
    }

    /// Resolves to fences; fence 1 of the first lock if none was granted yet.
    pub(super) fn fence_refs(&self, actor: Actor, selector: FenceSelector) -> Vec<FenceRef> {
        let is_selected =
            |holder: usize| !selector.own || !matches!(actor, Actor::Agent(agent) if agent != holder);
        let selected =
            self.fences.iter().rev().filter(|(holder, _)| is_selected(*holder)).skip(selector.back);
        let off = |fence_ref: &FenceRef| {
            let fence = Fence(fence_ref.fence.0.saturating_add_signed(selector.off));
            FenceRef { lock: fence_ref.lock.clone(), fence }
        };
        let mut found: Vec<_> = selected.take(selector.count).map(|(_, fence_ref)| off(fence_ref)).collect();
        if found.is_empty() {
            found.push(FenceRef { lock: lock_name(0), fence: Fence(1) });
        }
        found
    }
}

pub(super) fn lock_name(lock: usize) -> LockName {
    LockName::new(LOCKS[lock]).expect("valid lock name")
}
