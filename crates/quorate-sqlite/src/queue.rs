//! What waits to be written: a bounded queue that is fair between spaces.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use quorate_core::{Commit, SpaceName, SpaceNo};
use quorate_store::{Outcome, StoreError};
use tokio::sync::oneshot;

/// Operations that may wait in one space.
const WAITING_MAX: usize = 16_384;
/// Operations that one transaction carries: more would only add latency.
pub(crate) const BATCH_OPS_MAX: usize = 512;

/// Work for the writer.
pub(crate) enum Job {
    /// Commits of one caller, decided in order.
    Transact {
        space: SpaceNo,
        commits: Vec<Commit>,
        answer: oneshot::Sender<Result<Vec<Outcome>, StoreError>>,
    },
    /// Make a space, or find it.
    Space { name: SpaceName, answer: oneshot::Sender<Result<SpaceNo, StoreError>> },
}

impl Job {
    fn space(&self) -> SpaceNo {
        match self {
            Self::Transact { space, .. } => *space,
            Self::Space { .. } => SpaceNo(0),
        }
    }

    /// Commits that it asks for.
    pub(crate) fn commits(&self) -> usize {
        match self {
            Self::Transact { commits, .. } => commits.len(),
            Self::Space { .. } => 1,
        }
    }

    fn ops(&self) -> usize {
        match self {
            Self::Transact { commits, .. } => commits.iter().map(|commit| commit.ops.len()).sum(),
            Self::Space { .. } => 1,
        }
    }
}

/// How the writer waits. A caller that sends one commit after the other comes back a moment after its answer: to look
/// out for it is a third faster than to sleep and be woken. Where nobody comes back so soon, looking out would only
/// burn the processor; so it is done again only while it paid the last time, and tried now and then.
#[derive(Default)]
pub(crate) struct Patience {
    paid: bool,
    batches: u32,
}

impl Patience {
    /// Looks, about 80 µs long: to wake a caller takes half of that.
    const LOOKS: u32 = 6_000;
    const TRY_EVERY: u32 = 64;

    fn look_out(&mut self, is_filled: &AtomicBool) {
        self.batches = self.batches.wrapping_add(1);
        if is_filled.load(Ordering::Relaxed) || !(self.paid || self.batches.is_multiple_of(Self::TRY_EVERY)) {
            return;
        }
        self.paid = (0..Self::LOOKS).any(|_| {
            std::hint::spin_loop();
            is_filled.load(Ordering::Relaxed)
        });
    }
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    ops: usize,
}

#[derive(Default)]
struct State {
    spaces: BTreeMap<SpaceNo, Waiting>,
    /// Where the next round starts, so that no space is always first.
    turn: SpaceNo,
    closed: bool,
}

/// The queue. Callers push, the one writer takes.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    /// Whether anything waits, to be looked at without the lock.
    is_filled: AtomicBool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds work, or says why not and gives it back.
    pub(crate) fn push(&self, job: Job) -> Result<(), (Job, StoreError)> {
        let mut state = self.lock();
        if state.closed {
            return Err((job, StoreError::Closed));
        }
        let was_empty = state.spaces.is_empty();
        let waiting = state.spaces.entry(job.space()).or_default();
        let ops = job.ops();
        // A caller that is alone gets in, however much it brings: it is bounded at the door.
        if waiting.ops > 0 && waiting.ops + ops > WAITING_MAX {
            return Err((job, StoreError::Busy));
        }
        waiting.ops += ops;
        waiting.jobs.push_back(job);
        self.is_filled.store(true, Ordering::Relaxed);
        drop(state);
        if was_empty {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Takes all that waits, at most a batch, one job of each space in turn. Waits for the first; `None` once closed
    /// and empty.
    pub(crate) fn take(&self, patience: &mut Patience) -> Option<Vec<Job>> {
        patience.look_out(&self.is_filled);
        let mut state = self.lock();
        while state.spaces.is_empty() {
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut batch = Vec::new();
        let mut ops = 0;
        while ops < BATCH_OPS_MAX {
            let turn = state.turn;
            let next = state.spaces.range(turn..).next().or_else(|| state.spaces.iter().next());
            let Some(space) = next.map(|(space, _)| *space) else { break };
            let Some(waiting) = state.spaces.get_mut(&space) else { break };
            if let Some(job) = waiting.jobs.pop_front() {
                waiting.ops -= job.ops();
                ops += job.ops();
                batch.push(job);
            }
            if waiting.jobs.is_empty() {
                state.spaces.remove(&space);
            }
            state.turn = SpaceNo(space.0.wrapping_add(1));
        }
        self.is_filled.store(!state.spaces.is_empty(), Ordering::Relaxed);
        Some(batch)
    }

    /// Operations that wait.
    pub(crate) fn waiting_ops(&self) -> usize {
        self.lock().spaces.values().map(|waiting| waiting.ops).sum()
    }

    /// Lets nothing more in. What waits is still taken.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }
}
