//! Write queue: bounded per space, and fair between spaces.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use quorate_core::{Commit, SpaceName, SpaceNo};
use quorate_store::{CommitResult, StoreError};
use tokio::sync::oneshot;

/// Maximum number of queued operations per space.
const WAITING_MAX: usize = 16_384;
/// Maximum number of operations per batch: more would only add latency.
const BATCH_OPS_MAX: usize = 512;
/// Maximum weight of a batch: the number of rows that its operations name. Further cost is only known once they are
/// decided.
const BATCH_WEIGHT_MAX: usize = 4096;
/// Number of idle spaces whose virtual finish time is remembered before the expired ones are dropped.
const FINISH_TIMES_MAX: usize = 1024;

/// Job for the writer thread.
pub(crate) enum Job {
    /// Commits of one caller, decided in order.
    Transact {
        space: SpaceNo,
        commits: Vec<Commit>,
        sender: oneshot::Sender<Result<Vec<CommitResult>, StoreError>>,
    },
    /// Creates a space, or finds it by name.
    OpenSpace { name: SpaceName, sender: oneshot::Sender<Result<SpaceNo, StoreError>> },
}

impl Job {
    fn space(&self) -> SpaceNo {
        match self {
            Self::Transact { space, .. } => *space,
            Self::OpenSpace { .. } => SpaceNo(0),
        }
    }

    /// Number of commits.
    pub(crate) fn commits(&self) -> usize {
        match self {
            Self::Transact { commits, .. } => commits.len(),
            Self::OpenSpace { .. } => 1,
        }
    }

    fn ops(&self) -> usize {
        match self {
            Self::Transact { commits, .. } => commits.iter().map(|commit| commit.ops.len()).sum(),
            Self::OpenSpace { .. } => 1,
        }
    }

    /// Approximate number of rows that the job names.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Transact { commits, .. } => commits.iter().map(Commit::weight).sum(),
            Self::OpenSpace { .. } => 1,
        }
    }
}

/// Adaptive spinning of the writer. A caller that sends one commit after the other is back shortly after the response;
/// spinning for it is a third faster than blocking on the condition variable. Without such callers, spinning would waste
/// CPU time, so the writer only spins if that succeeded the last time, and tries again every 64 batches.
#[derive(Default)]
pub(crate) struct SpinWait {
    succeeded: bool,
    batches: u32,
}

impl SpinWait {
    /// Iterations, about 80 µs in total: waking a caller takes half of that.
    const SPINS: u32 = 6_000;
    const TRY_EVERY_BATCHES: u32 = 64;

    fn spin(&mut self, is_filled: &AtomicBool) {
        self.batches = self.batches.wrapping_add(1);
        if is_filled.load(Ordering::Relaxed)
            || !(self.succeeded || self.batches.is_multiple_of(Self::TRY_EVERY_BATCHES))
        {
            return;
        }
        self.succeeded = (0..Self::SPINS).any(|_| {
            std::hint::spin_loop();
            is_filled.load(Ordering::Relaxed)
        });
    }
}

/// Queued jobs of one space.
#[derive(Default)]
struct SpaceQueue {
    jobs: VecDeque<Job>,
    ops: usize,
    /// Virtual start time of the first job.
    start: u64,
}

/// Start-time fair queueing: the virtual time of a space advances by the cost of its jobs, and the space with the
/// earliest virtual start time is served first. A space that causes much work therefore waits while others are served,
/// no matter how the work is split into jobs.
#[derive(Default)]
struct State {
    spaces: BTreeMap<SpaceNo, SpaceQueue>,
    /// Spaces with queued jobs, ordered by virtual start time.
    order: BTreeSet<(u64, SpaceNo)>,
    /// Current virtual time: the start time of the space that was served last.
    now: u64,
    /// Virtual finish times of idle spaces. Only those later than `now` matter.
    finish_times: HashMap<SpaceNo, u64, foldhash::fast::RandomState>,
    closed: bool,
}

impl State {
    /// Adds a job. If the space was idle, it starts at its last virtual finish time.
    fn push(&mut self, space: SpaceNo, job: Job) {
        let Self { spaces, order, now, finish_times, .. } = self;
        let queue = spaces.entry(space).or_insert_with(|| {
            let start = finish_times.remove(&space).unwrap_or(0).max(*now);
            order.insert((start, space));
            SpaceQueue { start, ..SpaceQueue::default() }
        });
        queue.ops += job.ops();
        queue.jobs.push_back(job);
    }

    /// Takes the jobs of a batch. Each job advances the virtual time of its space by the weight of the job; the space is
    /// served until another one has an earlier start time.
    fn take(&mut self) -> Vec<Job> {
        let mut batch = Vec::new();
        let (mut ops, mut weight) = (0, 0);
        while ops < BATCH_OPS_MAX
            && weight < BATCH_WEIGHT_MAX
            && let Some((start, space)) = self.order.pop_first()
        {
            self.now = self.now.max(start);
            let next = self.order.first().copied();
            let Some(queue) = self.spaces.get_mut(&space) else { continue };
            while ops < BATCH_OPS_MAX
                && weight < BATCH_WEIGHT_MAX
                && next.is_none_or(|next| (queue.start, space) < next)
                && let Some(job) = queue.jobs.pop_front()
            {
                let (job_ops, job_weight) = (job.ops(), job.weight());
                queue.ops -= job_ops;
                queue.start += job_weight as u64;
                ops += job_ops;
                weight += job_weight;
                batch.push(job);
            }
            if queue.jobs.is_empty() {
                self.finish_times.insert(space, queue.start);
                self.spaces.remove(&space);
            } else {
                self.order.insert((queue.start, space));
            }
        }
        if self.finish_times.len() > FINISH_TIMES_MAX {
            let now = self.now;
            self.finish_times.retain(|_, finish| *finish > now);
        }
        batch
    }

    /// Adjusts the virtual time of a space.
    fn adjust(&mut self, space: SpaceNo, adjust: impl FnOnce(u64) -> u64) {
        match self.spaces.get_mut(&space) {
            Some(queue) => {
                self.order.remove(&(queue.start, space));
                queue.start = adjust(queue.start);
                self.order.insert((queue.start, space));
            }
            None => {
                let finish = self.finish_times.entry(space).or_insert(self.now);
                *finish = adjust((*finish).max(self.now));
            }
        }
    }
}

/// Queue between the callers and the writer thread.
#[derive(Default)]
pub(crate) struct WriteQueue {
    state: Mutex<State>,
    filled: Condvar,
    /// Whether there are jobs. Readable without the lock, for spinning.
    is_filled: AtomicBool,
}

impl WriteQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. On error, returns the job together with the reason.
    pub(crate) fn push(&self, job: Job) -> Result<(), (Job, StoreError)> {
        let mut state = self.lock();
        if state.closed {
            return Err((job, StoreError::Closed));
        }
        let was_empty = state.spaces.is_empty();
        let queued_ops = state.spaces.get(&job.space()).map_or(0, |queue| queue.ops);
        // A job for an empty queue is always accepted: its size is limited when the request is validated.
        if queued_ops > 0 && queued_ops + job.ops() > WAITING_MAX {
            return Err((job, StoreError::Busy));
        }
        state.push(job.space(), job);
        self.is_filled.store(true, Ordering::Relaxed);
        drop(state);
        if was_empty {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Takes the next batch; blocks until there is a job. Returns `None` once the queue is closed and empty.
    pub(crate) fn take(&self, spin_wait: &mut SpinWait) -> Option<Vec<Job>> {
        spin_wait.spin(&self.is_filled);
        let mut state = self.lock();
        while state.spaces.is_empty() {
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let batch = state.take();
        self.is_filled.store(!state.spaces.is_empty(), Ordering::Relaxed);
        Some(batch)
    }

    /// Charges spaces for work beyond the weight of their jobs. Puts jobs that were taken but not started back to the
    /// front of the queue and refunds their weight.
    pub(crate) fn settle(&self, charges: impl IntoIterator<Item = (SpaceNo, u64)>, jobs: Vec<Job>) {
        let mut state = self.lock();
        for (space, units) in charges {
            state.adjust(space, |finish| finish.saturating_add(units));
        }
        if jobs.is_empty() {
            return;
        }
        for job in jobs.into_iter().rev() {
            let (space, ops, weight) = (job.space(), job.ops(), job.weight() as u64);
            state.adjust(space, |finish| finish.saturating_sub(weight));
            if state.spaces.contains_key(&space) {
                if let Some(queue) = state.spaces.get_mut(&space) {
                    queue.ops += ops;
                    queue.jobs.push_front(job);
                }
            } else {
                state.push(space, job);
            }
        }
        self.is_filled.store(true, Ordering::Relaxed);
    }

    /// Number of queued operations.
    pub(crate) fn queued_ops(&self) -> usize {
        self.lock().spaces.values().map(|queue| queue.ops).sum()
    }

    /// Rejects further jobs. Queued jobs are still taken.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }
}

#[cfg(test)]
mod tests;
