//! Thread that writes the witness behind the sync. The writer only leaves the position of its newest durable batch, and
//! never waits for the thread: awaiting a second sync would double the latency of a commit.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quorate_store::StoreError;

use super::{Position, WitnessFile};
use crate::lookup::error_text;
use crate::sqlite_store::Shared;

/// Delay after which a write that failed for lack of space is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Position that the writer leaves for the thread.
pub(crate) struct WitnessSignal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Newest durable position.
    durable: Position,
    /// Batch that the witness states.
    stated: u64,
    /// Whether to write without delay: the store is being closed, or a test waits for it.
    hurry: bool,
    stop: bool,
    /// Whether the thread has ended.
    ended: bool,
}

impl State {
    fn is_pending(&self) -> bool {
        self.durable.batch > self.stated
    }
}

impl WitnessSignal {
    /// Creates the signal of a store that was opened at this durable position.
    pub(crate) fn starting_at(durable: Position, file: &WitnessFile) -> Self {
        let state = State { durable, stated: file.stated, ..State::default() };
        Self { state: Mutex::new(state), changed: Condvar::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(
        &self,
        state: MutexGuard<'s, State>,
        condition: impl Fn(&State) -> bool,
    ) -> MutexGuard<'s, State> {
        self.changed.wait_while(state, |state| condition(state)).unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the position of a batch that is durable. Wakes the thread only if it does not know of one already.
    pub(crate) fn advance(&self, position: Position) {
        let mut state = self.lock();
        let was_pending = state.is_pending();
        state.durable = position;
        drop(state);
        if !was_pending {
            self.changed.notify_all();
        }
    }

    /// Waits until the witness states the newest durable position, or the thread has ended.
    #[cfg(any(feature = "faults", feature = "sabotage"))]
    pub(crate) fn flush(&self) {
        let mut state = self.lock();
        state.hurry = state.is_pending();
        self.changed.notify_all();
        drop(self.wait(state, |state| state.is_pending() && !state.ended));
    }

    fn stop(&self) {
        let mut state = self.lock();
        (state.hurry, state.stop) = (true, true);
        self.changed.notify_all();
    }

    /// Returns the next position to state, `delay` after there is one; `None` at the end.
    fn next(&self, delay: Duration) -> Option<Position> {
        let state = self.wait(self.lock(), |state| !state.is_pending() && !state.stop);
        let waited = self.changed.wait_timeout_while(state, delay, |state| !state.hurry);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_pending().then_some(state.durable)
    }

    fn stated(&self, batch: u64) {
        let mut state = self.lock();
        state.stated = batch;
        state.hurry = state.stop;
        self.changed.notify_all();
    }

    /// Ends the hurry after a failed write: the next one is tried after a delay.
    fn postpone(&self) {
        let mut state = self.lock();
        state.hurry = state.stop;
    }

    fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    fn is_stopping(&self) -> bool {
        self.lock().stop
    }
}

/// The running thread. Dropping it writes the newest position, if it is not stated yet, and ends the thread.
pub(crate) struct WitnessThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl WitnessThread {
    /// Starts the thread. `delay` is the time between the sync of a batch and the write of the witness.
    pub(crate) fn start(shared: Arc<Shared>, file: WitnessFile, delay: Duration) -> Self {
        // Log events go to the tracing subscriber of the thread that opened the store.
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let thread_shared = Arc::clone(&shared);
        let run = move || {
            let _subscriber = tracing::dispatcher::set_default(&dispatch);
            run(&thread_shared, file, delay);
            thread_shared.witness.end();
        };
        let thread = thread::Builder::new().name("quorate-witness".into()).spawn(run);
        Self { shared, thread: Some(thread.expect("failed to spawn the witness thread")) }
    }
}

impl Drop for WitnessThread {
    fn drop(&mut self) {
        self.shared.witness.stop();
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, mut file: WitnessFile, normal_delay: Duration) {
    let signal = &shared.witness;
    let mut delay = normal_delay;
    while let Some(position) = signal.next(delay) {
        match file.write(&position) {
            Ok(()) => {
                signal.stated(position.batch);
                delay = normal_delay;
            }
            // Lost data would be detected less promptly. That is no reason to refuse commits.
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => {
                if signal.is_stopping() {
                    tracing::warn!("the witness was not updated: the disk is full");
                    return;
                }
                signal.postpone();
                delay = RETRY_DELAY;
            }
            // The disk fails, as it would for a commit.
            Err(error) => {
                let text = format!("failed to write the witness: {}", error_text(&error));
                return shared.fail(StoreError::Failed(text.into()));
            }
        }
    }
}
