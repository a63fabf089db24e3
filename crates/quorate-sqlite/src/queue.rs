//! What waits to be written: a bounded queue that is fair between spaces.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use quorate_core::{Commit, SpaceName, SpaceNo};
use quorate_store::{Outcome, StoreError};
use tokio::sync::oneshot;

/// Operations that may wait in one space.
const WAITING_MAX: usize = 16_384;
/// Operations that one transaction carries: more would only add latency.
const BATCH_OPS_MAX: usize = 512;
/// Rows that the operations of one transaction name. What they cost beyond that is found out when they are decided.
const BATCH_WEIGHT_MAX: usize = 4096;
/// Spaces without anything waiting of which it is remembered until when they have paid, before those are dropped that owe
/// nothing.
const PAID_MAX: usize = 1024;

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

    /// About how many rows it names.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Transact { commits, .. } => commits.iter().map(Commit::weight).sum(),
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

/// What waits in one space.
#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    ops: usize,
    /// The virtual time at which its first job is due.
    due: u64,
}

/// Start-time fair queueing: a space pays for its jobs with virtual time, and the space that is due first is served first.
/// So a space that asks for much work waits while others are served, however its work is cut into jobs.
#[derive(Default)]
struct State {
    spaces: BTreeMap<SpaceNo, Waiting>,
    /// The spaces of `spaces`, in the order in which they are due.
    order: BTreeSet<(u64, SpaceNo)>,
    /// When the space that was served last was due.
    now: u64,
    /// Until when spaces that have nothing waiting have paid, if that is later than `now`.
    paid: HashMap<SpaceNo, u64, foldhash::fast::RandomState>,
    closed: bool,
}

impl State {
    /// Adds a job; the first of a space is due when the space has paid for those before it.
    fn push(&mut self, space: SpaceNo, job: Job) {
        let Self { spaces, order, now, paid, .. } = self;
        let waiting = spaces.entry(space).or_insert_with(|| {
            let due = paid.remove(&space).unwrap_or(0).max(*now);
            order.insert((due, space));
            Waiting { due, ..Waiting::default() }
        });
        waiting.ops += job.ops();
        waiting.jobs.push_back(job);
    }

    /// Jobs for a batch, from the spaces that are due first. A space pays what each job looks like it costs, and is served
    /// until another one is due.
    fn take(&mut self) -> Vec<Job> {
        let mut batch = Vec::new();
        let (mut ops, mut weight) = (0, 0);
        while ops < BATCH_OPS_MAX
            && weight < BATCH_WEIGHT_MAX
            && let Some((due, space)) = self.order.pop_first()
        {
            self.now = self.now.max(due);
            let next = self.order.first().copied();
            let Some(waiting) = self.spaces.get_mut(&space) else { continue };
            while ops < BATCH_OPS_MAX
                && weight < BATCH_WEIGHT_MAX
                && next.is_none_or(|next| (waiting.due, space) < next)
                && let Some(job) = waiting.jobs.pop_front()
            {
                let (job_ops, job_weight) = (job.ops(), job.weight());
                waiting.ops -= job_ops;
                waiting.due += job_weight as u64;
                ops += job_ops;
                weight += job_weight;
                batch.push(job);
            }
            if waiting.jobs.is_empty() {
                self.paid.insert(space, waiting.due);
                self.spaces.remove(&space);
            } else {
                self.order.insert((waiting.due, space));
            }
        }
        if self.paid.len() > PAID_MAX {
            let now = self.now;
            self.paid.retain(|_, until| *until > now);
        }
        batch
    }

    /// Moves the time until which a space has paid.
    fn pay(&mut self, space: SpaceNo, pay: impl FnOnce(u64) -> u64) {
        match self.spaces.get_mut(&space) {
            Some(waiting) => {
                self.order.remove(&(waiting.due, space));
                waiting.due = pay(waiting.due);
                self.order.insert((waiting.due, space));
            }
            None => {
                let until = self.paid.entry(space).or_insert(self.now);
                *until = pay((*until).max(self.now));
            }
        }
    }
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
        let waiting = state.spaces.get(&job.space()).map_or(0, |waiting| waiting.ops);
        // A caller that is alone gets in, however much it brings: it is bounded at the door.
        if waiting > 0 && waiting + job.ops() > WAITING_MAX {
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

    /// Takes all that waits, at most a batch. Waits for the first; `None` once closed and empty.
    pub(crate) fn take(&self, patience: &mut Patience) -> Option<Vec<Job>> {
        patience.look_out(&self.is_filled);
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

    /// Lets spaces pay for work that their jobs did not look like, and puts jobs that were taken and not begun back in front,
    /// with what their spaces paid for them.
    pub(crate) fn settle(&self, charges: impl IntoIterator<Item = (SpaceNo, u64)>, jobs: Vec<Job>) {
        let mut state = self.lock();
        for (space, units) in charges {
            state.pay(space, |until| until.saturating_add(units));
        }
        if jobs.is_empty() {
            return;
        }
        for job in jobs.into_iter().rev() {
            let (space, ops, weight) = (job.space(), job.ops(), job.weight() as u64);
            state.pay(space, |until| until.saturating_sub(weight));
            if state.spaces.contains_key(&space) {
                if let Some(waiting) = state.spaces.get_mut(&space) {
                    waiting.ops += ops;
                    waiting.jobs.push_front(job);
                }
            } else {
                state.push(space, job);
            }
        }
        self.is_filled.store(true, Ordering::Relaxed);
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

#[cfg(test)]
mod tests;
