//! OTLP exporter: sends spans to a collector over HTTP with JSON encoding. Nothing waits for the collector: spans
//! that it does not accept in time are dropped and counted. They can be derived from the log at any time.

mod send;
pub(crate) mod span;
mod trace_json;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_env::{Backoff, Clock, Entropy};
use serde_json::{Value, json};
use tokio::sync::Notify;

use send::{Collector, ExportOutcome};

pub use trace_json::trace_to_otlp;

/// Maximum number of spans waiting to be exported.
const QUEUE_MAX: usize = 8_192;
/// Maximum number of spans per request.
const BATCH_MAX: usize = 512;
/// How long spans are collected before they are sent.
const BATCH_DELAY: Duration = Duration::from_millis(200);
/// Maximum number of attempts per request, with exponential backoff.
const ATTEMPTS_MAX: u32 = 6;
/// Timeout for exporting the last spans when the hub stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Settings of the OTLP exporter.
#[derive(Clone)]
pub struct OtlpSettings {
    /// Base URL of the collector, such as `http://127.0.0.1:4318`; `/v1/traces` is appended.
    pub endpoint: String,
    /// Additional request headers, such as an API key.
    pub headers: Vec<(String, String)>,
    /// Service name of the hub.
    pub service: String,
    /// Delay before the first retry; doubled for each further one.
    pub retry_after: Duration,
}

impl OtlpSettings {
    /// Settings without headers and with service name `quorate`.
    #[must_use]
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            headers: Vec::new(),
            service: "quorate".into(),
            retry_after: Duration::from_secs(1),
        }
    }

    /// Validates the endpoint and headers.
    ///
    /// # Errors
    /// A description of what is invalid.
    pub fn check(&self) -> Result<(), String> {
        Collector::new(self).map(drop)
    }
}

impl fmt::Debug for OtlpSettings {
    /// Omits the headers: they may contain API keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpSettings").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Exporter statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExporterStats {
    pub(crate) exported: u64,
    pub(crate) dropped: u64,
    pub(crate) failures: u64,
    pub(crate) queued: u64,
}

#[derive(Default)]
struct Queue {
    spans: VecDeque<Value>,
    /// Spans being sent.
    in_flight: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    pushed: Notify,
    flush_now: Notify,
    batch_done: Notify,
    exported: AtomicU64,
    dropped: AtomicU64,
    failures: AtomicU64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Queues spans and sends them in the background.
pub(crate) struct Exporter(Arc<Shared>);

impl Exporter {
    /// Starts the background task. Returns `None` if the settings are invalid; check them first with
    /// [`OtlpSettings::check`].
    pub(crate) fn start(otlp: &OtlpSettings, clock: Arc<dyn Clock>, entropy: Arc<Entropy>) -> Option<Self> {
        let collector = Collector::new(otlp).ok()?;
        let shared = Arc::new(Shared::default());
        let sender = Sender {
            shared: Arc::clone(&shared),
            collector,
            service: otlp.service.clone(),
            // The maximum is above the last delay, so the delays always double.
            backoff: Backoff::new(otlp.retry_after, otlp.retry_after.saturating_mul(1 << ATTEMPTS_MAX)),
            clock,
            entropy,
        };
        tokio::spawn(sender.run());
        Some(Self(shared))
    }

    /// Enqueues spans. Spans that exceed the queue are dropped.
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
        self.0.pushed.notify_one();
    }

    pub(crate) fn stats(&self) -> ExporterStats {
        let queue = self.0.lock();
        ExporterStats {
            exported: self.0.exported.load(Ordering::Relaxed),
            dropped: self.0.dropped.load(Ordering::Relaxed),
            failures: self.0.failures.load(Ordering::Relaxed),
            queued: (queue.spans.len() + queue.in_flight) as u64,
        }
    }

    /// Waits until the queue is empty, with a timeout.
    pub(crate) async fn flush(&self) {
        let empty = async {
            loop {
                let batch_done = self.0.batch_done.notified();
                if self.stats().queued == 0 {
                    return;
                }
                self.0.flush_now.notify_one();
                batch_done.await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, empty).await;
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.pushed.notify_one();
        self.0.flush_now.notify_one();
    }
}

struct Sender {
    shared: Arc<Shared>,
    collector: Collector,
    service: String,
    backoff: Backoff,
    clock: Arc<dyn Clock>,
    entropy: Arc<Entropy>,
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
                self.shared.pushed.notified().await;
                continue;
            }
            if waiting < BATCH_MAX && !closed {
                tokio::select! {
                    () = tokio::time::sleep(BATCH_DELAY) => {}
                    () = self.shared.flush_now.notified() => {}
                }
            }
            let batch: Vec<Value> = {
                let mut queue = self.shared.lock();
                let count = queue.spans.len().min(BATCH_MAX);
                queue.in_flight = count;
                queue.spans.drain(..count).collect()
            };
            self.send(batch).await;
            self.shared.lock().in_flight = 0;
            self.shared.batch_done.notify_waiters();
        }
    }

    async fn send(&self, batch: Vec<Value>) {
        let count = batch.len() as u64;
        let body = request(&self.service, batch).to_string();
        let mut backoff = self.backoff;
        for attempt in 1..=ATTEMPTS_MAX {
            match self.collector.send(body.clone()).await {
                ExportOutcome::Accepted { rejected } => {
                    let rejected = rejected.min(count);
                    self.shared.exported.fetch_add(count - rejected, Ordering::Relaxed);
                    self.shared.dropped.fetch_add(rejected, Ordering::Relaxed);
                    return;
                }
                ExportOutcome::Rejected(reason) => {
                    self.failed(attempt, &reason, true);
                    break;
                }
                ExportOutcome::Failed(reason) => {
                    let is_last = attempt == ATTEMPTS_MAX || self.shared.lock().closed;
                    self.failed(attempt, &reason, is_last);
                    if is_last {
                        break;
                    }
                    backoff.wait(&*self.clock, &self.entropy).await;
                }
            }
        }
        self.shared.dropped.fetch_add(count, Ordering::Relaxed);
    }

    fn failed(&self, attempt: u32, reason: &str, given_up: bool) {
        self.shared.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(reason, attempt, givenUp = given_up, "failed to export spans");
    }
}

/// Builds an OTLP export request.
fn request(service: &str, spans: Vec<Value>) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            span::string_attribute("service.name", service),
            span::string_attribute("service.version", version),
        ]},
        "scopeSpans": [{"scope": {"name": "quorate", "version": version}, "spans": spans}],
    }]})
}
