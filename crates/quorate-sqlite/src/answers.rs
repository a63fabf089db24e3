//! Telling callers and consumers what a batch came to, beside the writer: waking hundreds of tasks takes longer than
//! deciding their commits, and the writer has the next batch to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use quorate_core::SpaceNo;
use quorate_store::{Handover, Outcome, Sink, StoreError};
use tokio::sync::oneshot;

/// A batch that is told where it was written: the way through the other thread would cost more.
const TELL_AT_ONCE: usize = 4;

/// Batches that may wait to be told; then the writer waits, too.
const UNTOLD_MAX: usize = 64;

/// What a job came to.
pub(crate) enum Answer {
    Transact(oneshot::Sender<Result<Vec<Outcome>, StoreError>>, Vec<Outcome>),
    Space(oneshot::Sender<Result<SpaceNo, StoreError>>, SpaceNo),
}

impl Answer {
    /// Tells the caller. One that no longer listens is fine: with a key it may ask again.
    pub(crate) fn tell(self, failure: Option<&StoreError>) {
        match (self, failure) {
            (Self::Transact(to, outcomes), None) => drop(to.send(Ok(outcomes))),
            (Self::Space(to, number), None) => drop(to.send(Ok(number))),
            (Self::Transact(to, _), Some(error)) => drop(to.send(Err(error.clone()))),
            (Self::Space(to, _), Some(error)) => drop(to.send(Err(error.clone()))),
        }
    }
}

/// What there is to tell of a batch that is on disk.
pub(crate) struct Written {
    pub(crate) handovers: Vec<Handover>,
    pub(crate) answers: Vec<Answer>,
}

impl Written {
    /// Consumers first: whoever reads the answer to a send may rely on the delivery being under way.
    fn tell(self, sink: &Sink) {
        for handover in self.handovers {
            sink(handover);
        }
        self.answers.into_iter().for_each(|answer| answer.tell(None));
    }
}

/// The thread that tells.
pub(crate) struct Answers {
    sink: Sink,
    sender: Option<SyncSender<Written>>,
    /// Batches on their way through the thread. While there is one, none may overtake it.
    under_way: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Answers {
    pub(crate) fn start(sink: Sink) -> Self {
        let (sender, receiver) = sync_channel::<Written>(UNTOLD_MAX);
        let under_way = Arc::new(AtomicUsize::new(0));
        let (count, to) = (Arc::clone(&under_way), Arc::clone(&sink));
        let run = move || {
            while let Ok(written) = receiver.recv() {
                written.tell(&to);
                count.fetch_sub(1, Ordering::Release);
            }
        };
        let thread = thread::Builder::new().name("quorate-answers".into()).spawn(run);
        let thread = Some(thread.expect("the system gives us a thread"));
        Self { sink, sender: Some(sender), under_way, thread }
    }

    pub(crate) fn tell(&self, written: Written) {
        if written.answers.len() <= TELL_AT_ONCE && self.under_way.load(Ordering::Acquire) == 0 {
            return written.tell(&self.sink);
        }
        self.under_way.fetch_add(1, Ordering::Release);
        if let Some(sender) = &self.sender
            && let Err(unsent) = sender.send(written)
        {
            // The thread is gone only if it panicked; callers are still told.
            unsent.0.tell(&self.sink);
        }
    }
}

impl Drop for Answers {
    /// Everything is told before the writer ends.
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
