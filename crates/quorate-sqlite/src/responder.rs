//! Sends the outcomes of a batch to callers and consumers on a separate thread: waking hundreds of tasks takes longer
//! than deciding their commits, and the writer should continue with the next batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use quorate_core::SpaceNo;
use quorate_store::{BatchDispatch, CommitResult, Sink, StoreError};
use tokio::sync::oneshot;

/// Largest batch whose responses are sent from the writer thread itself: passing it to the other thread would cost more.
const INLINE_RESPONSES_MAX: usize = 4;

/// Capacity of the channel to the responder thread, in batches. When it is full, the writer blocks.
const PENDING_BATCHES_MAX: usize = 64;

/// Response to one job.
pub(crate) enum JobResponse {
    Transact(oneshot::Sender<Result<Vec<CommitResult>, StoreError>>, Vec<CommitResult>),
    Space(oneshot::Sender<Result<SpaceNo, StoreError>>, SpaceNo),
}

impl JobResponse {
    /// Sends the outcome, or `failure` if there is one. A caller that no longer waits is ignored: with an idempotency
    /// key it can retry safely.
    pub(crate) fn send(self, failure: Option<&StoreError>) {
        match (self, failure) {
            (Self::Transact(sender, outcomes), None) => drop(sender.send(Ok(outcomes))),
            (Self::Space(sender, number), None) => drop(sender.send(Ok(number))),
            (Self::Transact(sender, _), Some(error)) => drop(sender.send(Err(error.clone()))),
            (Self::Space(sender, _), Some(error)) => drop(sender.send(Err(error.clone()))),
        }
    }
}

/// Responses and deliveries of a batch that is durable.
pub(crate) struct CommittedBatch {
    pub(crate) dispatches: Vec<BatchDispatch>,
    pub(crate) responses: Vec<JobResponse>,
}

impl CommittedBatch {
    /// Notifies consumers before callers, so that a caller whose send was acknowledged can rely on the delivery being
    /// on its way.
    fn notify(self, sink: &Sink) {
        for dispatch in self.dispatches {
            sink(dispatch);
        }
        self.responses.into_iter().for_each(|response| response.send(None));
    }
}

/// Thread that sends responses, and its channel.
pub(crate) struct Responder {
    sink: Sink,
    sender: Option<SyncSender<CommittedBatch>>,
    /// Batches that the thread has not finished. While there are any, later batches must go through the thread too, to
    /// keep the order.
    in_flight: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    pub(crate) fn start(sink: Sink) -> Self {
        let (sender, receiver) = sync_channel::<CommittedBatch>(PENDING_BATCHES_MAX);
        let in_flight = Arc::new(AtomicUsize::new(0));
        let (unfinished, thread_sink) = (Arc::clone(&in_flight), Arc::clone(&sink));
        let run = move || {
            while let Ok(batch) = receiver.recv() {
                batch.notify(&thread_sink);
                unfinished.fetch_sub(1, Ordering::Release);
            }
        };
        let thread = thread::Builder::new().name("quorate-answers".into()).spawn(run);
        let thread = Some(thread.expect("failed to spawn the responder thread"));
        Self { sink, sender: Some(sender), in_flight, thread }
    }

    pub(crate) fn respond(&self, batch: CommittedBatch) {
        if batch.responses.len() <= INLINE_RESPONSES_MAX && self.in_flight.load(Ordering::Acquire) == 0 {
            return batch.notify(&self.sink);
        }
        self.in_flight.fetch_add(1, Ordering::Release);
        if let Some(sender) = &self.sender
            && let Err(unsent) = sender.send(batch)
        {
            // The thread is gone only if it panicked; callers still get their responses.
            unsent.0.notify(&self.sink);
        }
    }
}

impl Drop for Responder {
    /// Waits until all responses are sent.
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}
