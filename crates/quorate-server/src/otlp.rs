//! Spans to a collector, by OTLP over HTTP in its JSON encoding. Nothing waits for the collector: spans that it does not
//! take in time are dropped and counted, and all of them are in the log anyway.

mod post;
pub(crate) mod span;
mod told;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_env::{Backoff, Chance, Clock};
use serde_json::{Value, json};
use tokio::sync::Notify;

use post::{Collector, Posted};

pub use told::otlp_of;

/// Spans that may wait for the collector.
const QUEUE_MAX: usize = 8_192;
/// Spans of one request.
const BATCH_MAX: usize = 512;
/// How long spans gather before they are sent.
const GATHER: Duration = Duration::from_millis(200);
/// How often one request is tried; the wait in between doubles.
const TRIES_MAX: u32 = 6;
/// How long the hub waits for the last spans to be taken when it stops.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// Where spans go.
#[derive(Clone)]
pub struct Otlp {
    /// The collector, such as `http://127.0.0.1:4318`; `/v1/traces` is added to it.
    pub endpoint: String,
    /// Headers that are sent along, such as a key of the collector.
    pub headers: Vec<(String, String)>,
    /// The name under which the hub is known there.
    pub service: String,
    /// How long to wait before a request is tried again; twice as long after each further try.
    pub retry_after: Duration,
}

impl Otlp {
    /// A collector without headers, for a hub that is called `quorate`.
    #[must_use]
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            headers: Vec::new(),
            service: "quorate".into(),
            retry_after: Duration::from_secs(1),
        }
    }

    /// Says why spans cannot be sent there, if so.
    ///
    /// # Errors
    /// In words, with what would do.
    pub fn check(&self) -> Result<(), String> {
        Collector::new(self).map(drop)
    }
}

impl fmt::Debug for Otlp {
    /// Without the headers: they hold keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Otlp").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// What became of the spans so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Figures {
    pub(crate) exported: u64,
    pub(crate) dropped: u64,
    pub(crate) failures: u64,
    pub(crate) waiting: u64,
}

#[derive(Default)]
struct Queue {
    spans: VecDeque<Value>,
    /// Spans that are being sent.
    under_way: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Notify,
    hurry: Notify,
    emptied: Notify,
    exported: AtomicU64,
    dropped: AtomicU64,
    failures: AtomicU64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes spans, and sends them in the background.
pub(crate) struct Exporter(Arc<Shared>);

impl Exporter {
    /// Starts to send. The endpoint was checked.
    pub(crate) fn start(otlp: &Otlp, clock: Arc<dyn Clock>, chance: Arc<Chance>) -> Option<Self> {
        let collector = Collector::new(otlp).ok()?;
        let shared = Arc::new(Shared::default());
        let sender = Sender {
            shared: Arc::clone(&shared),
            collector,
            service: otlp.service.clone(),
            // The wait doubles, so the last of them is the longest.
            backoff: Backoff::new(otlp.retry_after, otlp.retry_after.saturating_mul(1 << TRIES_MAX)),
            clock,
            chance,
        };
        tokio::spawn(sender.run());
        Some(Self(shared))
    }

    /// Adds spans. If too many wait already, these are dropped.
    pub(crate) fn push(&self, spans: Vec<Value>) {
        let mut queue = self.0.lock();
        for span in spans {
            if queue.spans.len() >= QUEUE_MAX {
                self.0.dropped.fetch_add(1, Ordering::Relaxed);
            } else {
                queue.spans.push_back(span);
            }
        }
        drop(queue);
        self.0.filled.notify_one();
    }

    pub(crate) fn figures(&self) -> Figures {
        let queue = self.0.lock();
        Figures {
            exported: self.0.exported.load(Ordering::Relaxed),
            dropped: self.0.dropped.load(Ordering::Relaxed),
            failures: self.0.failures.load(Ordering::Relaxed),
            waiting: (queue.spans.len() + queue.under_way) as u64,
        }
    }

    /// Waits until everything was taken, for a moment at most.
    pub(crate) async fn flush(&self) {
        let empty = async {
            loop {
                let emptied = self.0.emptied.notified();
                if self.figures().waiting == 0 {
                    return;
                }
                self.0.hurry.notify_one();
                emptied.await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_WITHIN, empty).await;
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.filled.notify_one();
        self.0.hurry.notify_one();
    }
}

struct Sender {
    shared: Arc<Shared>,
    collector: Collector,
    service: String,
    backoff: Backoff,
    clock: Arc<dyn Clock>,
    chance: Arc<Chance>,
}

impl Sender {
    async fn run(self) {
        loop {
            let (waiting, closed) = {
                let queue = self.shared.lock();
                (queue.spans.len(), queue.closed)
            };
            if waiting == 0 && closed {
                return;
            }
            if waiting == 0 {
                self.shared.filled.notified().await;
                continue;
            }
            if waiting < BATCH_MAX && !closed {
                tokio::select! {
                    () = tokio::time::sleep(GATHER) => {}
                    () = self.shared.hurry.notified() => {}
                }
            }
            let batch: Vec<Value> = {
                let mut queue = self.shared.lock();
                let count = queue.spans.len().min(BATCH_MAX);
                queue.under_way = count;
                queue.spans.drain(..count).collect()
            };
            self.send(batch).await;
            self.shared.lock().under_way = 0;
            self.shared.emptied.notify_waiters();
        }
    }

    async fn send(&self, batch: Vec<Value>) {
        let count = batch.len() as u64;
        let body = request(&self.service, batch).to_string();
        let mut backoff = self.backoff;
        for attempt in 1..=TRIES_MAX {
            match self.collector.post(body.clone()).await {
                Posted::Taken { rejected } => {
                    let rejected = rejected.min(count);
                    self.shared.exported.fetch_add(count - rejected, Ordering::Relaxed);
                    self.shared.dropped.fetch_add(rejected, Ordering::Relaxed);
                    return;
                }
                Posted::Refused(why) => {
                    self.failed(attempt, &why, true);
                    break;
                }
                Posted::Failed(why) => {
                    let is_last = attempt == TRIES_MAX || self.shared.lock().closed;
                    self.failed(attempt, &why, is_last);
                    if is_last {
                        break;
                    }
                    backoff.wait(&*self.clock, &self.chance).await;
                }
            }
        }
        self.shared.dropped.fetch_add(count, Ordering::Relaxed);
    }

    fn failed(&self, attempt: u32, why: &str, given_up: bool) {
        self.shared.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(why, attempt, givenUp = given_up, "spans not taken");
    }
}

/// What a collector takes.
fn request(service: &str, spans: Vec<Value>) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            span::text("service.name", service),
            span::text("service.version", version),
        ]},
        "scopeSpans": [{"scope": {"name": "quorate", "version": version}, "spans": spans}],
    }]})
}
