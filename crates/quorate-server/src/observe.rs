//! Observability: metrics, spans, and request logs.
//!
//! The writer does no extra work for it. Metrics of the log are aggregated by reading records after they were
//! acknowledged (`log_metrics.rs`), at most four times a second or on demand; requests are counted by a middleware
//! (`middleware.rs`).

mod errors;
mod histogram;
mod log_metrics;
mod middleware;
mod prometheus;
pub(crate) mod span_index;
mod trace_cache;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use quorate_core::{Code, Principal, Seq, SpaceName, SpaceNo};
use quorate_engine::{Error, Space};
use tokio::sync::Mutex as AsyncMutex;

use crate::app::App;
use crate::otlp::Exporter;
use errors::ErrorCounters;
use histogram::Histogram;
use log_metrics::LogMetrics;
pub(crate) use middleware::{CallerSlot, ObservedRequest, Unobserved, mark_unobserved};
pub(crate) use prometheus::render_metrics;
pub(crate) use trace_cache::{TraceCache, propagate_trace, propagate_traces};

/// Delay between two reads of the log, so that records are read in batches.
const READ_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of pages read for one metrics request; the rest is read in the background.
const PAGES_PER_REQUEST_MAX: usize = 20;

/// Counters of requests and connections.
#[derive(Default)]
struct RequestStats {
    /// By method and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    request_ms: Mutex<BTreeMap<&'static str, Histogram>>,
    errors: ErrorCounters,
    connections: AtomicU64,
    sockets: AtomicU64,
}

/// Telemetry of a hub.
#[derive(Default)]
pub(crate) struct Telemetry {
    http: RequestStats,
    spaces: RwLock<BTreeMap<SpaceNo, Arc<ObservedSpace>>>,
    /// Trace contexts of recent deliveries.
    pub(crate) trace_cache: TraceCache,
    pub(crate) exporter: Option<Exporter>,
}

/// Telemetry of one space.
struct ObservedSpace {
    metrics: AsyncMutex<LogMetrics>,
    /// Serializes reading the log and exporting finished spans.
    read_lock: AsyncMutex<()>,
}

impl ObservedSpace {
    fn new(metrics: LogMetrics) -> Self {
        Self { metrics: AsyncMutex::new(metrics), read_lock: AsyncMutex::default() }
    }
}

/// Counts something while it exists.
pub(crate) struct CountGuard(App, fn(&Telemetry) -> &AtomicU64);

impl Drop for CountGuard {
    fn drop(&mut self) {
        (self.1)(self.0.telemetry()).fetch_sub(1, Ordering::Relaxed);
    }
}

impl CountGuard {
    fn new(app: &App, counter: fn(&Telemetry) -> &AtomicU64) -> Self {
        counter(app.telemetry()).fetch_add(1, Ordering::Relaxed);
        Self(app.clone(), counter)
    }

    /// Counts an open connection.
    pub(crate) fn for_connection(app: &App) -> Self {
        Self::new(app, |telemetry| &telemetry.http.connections)
    }

    /// Counts an open WebSocket.
    pub(crate) fn for_websocket(app: &App) -> Self {
        Self::new(app, |telemetry| &telemetry.http.sockets)
    }
}

impl Telemetry {
    pub(crate) fn new(exporter: Option<Exporter>) -> Self {
        Self { exporter, ..Self::default() }
    }

    /// Counts a refusal or failure.
    pub(crate) fn count_error(&self, caller: Option<(SpaceNo, &Principal)>, code: Code) {
        self.http.errors.count(caller, code);
    }

    fn observed_space(&self, space: SpaceNo) -> Option<Arc<ObservedSpace>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner).get(&space).cloned()
    }

    /// Calls `read` with the aggregate of the log, after reading all records acknowledged so far, within
    /// [`PAGES_PER_LOOK_MAX`].
    pub(crate) async fn with_log_metrics<T>(
        &self,
        space: &Space,
        read: impl FnOnce(&LogMetrics) -> T,
    ) -> Result<T, Error> {
        let Some(observed_space) = self.observed_space(space.number()) else {
            let head = space.published().head.seq;
            return Ok(read(&LogMetrics::new(head, false)));
        };
        let mut metrics = observed_space.metrics.lock().await;
        let head = space.published().head.seq;
        for _ in 0..PAGES_PER_REQUEST_MAX {
            if metrics.read_page(space, head).await? {
                break;
            }
        }
        Ok(read(&metrics))
    }
}

/// Starts to observe a space, until the hub is dropped.
pub(crate) fn observe_space(app: &App, name: &SpaceName, space: &Space) {
    let telemetry = app.telemetry();
    let number = space.number();
    let mut published = space.follow();
    let head = published.borrow().head.seq;
    let observed_space = Arc::new(ObservedSpace::new(LogMetrics::new(head, telemetry.exporter.is_some())));
    let mut spaces = telemetry.spaces.write().unwrap_or_else(PoisonError::into_inner);
    if spaces.contains_key(&number) {
        return;
    }
    spaces.insert(number, Arc::clone(&observed_space));
    drop(spaces);
    let (app, name) = (app.downgrade(), name.clone());
    tokio::spawn(async move {
        loop {
            // Weak, so that observing does not keep the app alive.
            let Some((app, space)) = app.upgrade().and_then(|app| Some((app.clone(), app.space(&name)?)))
            else {
                return;
            };
            let to = published.borrow_and_update().head.seq;
            // A failed read is retried in the next round.
            if let Err(error) = catch_up(&app, &space, &observed_space, to).await {
                if is_closed(&error) {
                    return;
                }
                tracing::warn!(code = error.code().as_str(), "failed to read the log for metrics and spans");
            }
            drop((app, space));
            tokio::time::sleep(READ_INTERVAL).await;
            if published.changed().await.is_err() {
                return;
            }
        }
    });
}

async fn catch_up(app: &App, space: &Space, observed_space: &ObservedSpace, to: Seq) -> Result<(), Error> {
    // A concurrent caller must find these spans in the exporter, not in transit.
    let _guard = observed_space.read_lock.lock().await;
    loop {
        let mut metrics = observed_space.metrics.lock().await;
        let is_complete = metrics.read_page(space, to).await?;
        let finished = metrics.take_finished();
        drop(metrics);
        if let (Some(exporter), false) = (&app.telemetry().exporter, finished.is_empty()) {
            export(exporter, space, observed_space, finished).await?;
        }
        if is_complete {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

/// Whether the store is closed.
fn is_closed(error: &Error) -> bool {
    error.code() == Code::Unavailable
}

/// Passes finished spans to the exporter, with the properties of their messages.
async fn export(
    exporter: &Exporter,
    space: &Space,
    observed_space: &ObservedSpace,
    positions: Vec<span_index::MessagePosition>,
) -> Result<(), Error> {
    for position in positions {
        let span = observed_space.metrics.lock().await.spans.get_mut(position).map(|span| span.clone());
        let Some(span) = span else { continue };
        let id = space.published().generations.message_id(position.0, position.1);
        let view = match space.message(id).await {
            Ok(view) => view,
            Err(error) if is_closed(&error) => return Err(error),
            // Skip a message that cannot be read; the others are exported.
            Err(_) => continue,
        };
        exporter.push(crate::otlp::span::message_spans(space, &span, &view));
    }
    Ok(())
}

impl App {
    /// Exports pending spans, within a short timeout. Call it before closing the hub.
    pub async fn flush_telemetry(&self) {
        if self.telemetry().exporter.is_none() {
            return;
        }
        let spaces: Vec<Space> = self.spaces().values().cloned().collect();
        for space in &spaces {
            let head = space.published().head.seq;
            if let Some(observed_space) = self.telemetry().observed_space(space.number()) {
                // Spans that are not exported now can still be derived from the log.
                let _ = catch_up(self, space, &observed_space, head).await;
            }
        }
        if let Some(exporter) = &self.telemetry().exporter {
            exporter.flush().await;
        }
    }
}
