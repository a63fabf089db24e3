//! `GET /metrics` in the Prometheus text format.
//!
//! Written by hand: most values are read at scrape time from published state or from the log aggregate, so a registry
//! of live counters would only hold copies. See `docs/decisions/0016-metrics-from-the-log.md`.

use std::fmt::Write as _;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use quorate_core::{AgentNo, MessageType, TaskStatus};
use quorate_engine::{Error, Space};

use super::Telemetry;
use super::histogram::Histogram;
use super::log_metrics::{END_STATES, LogMetrics, RETURN_CAUSES};
use crate::call::Call;

/// Message types, in counter order.
const TYPES: [MessageType; 4] =
    [MessageType::Command, MessageType::Query, MessageType::Event, MessageType::Response];
/// Priority levels, in counter order.
const LEVELS: [&str; 4] = ["low", "normal", "high", "urgent"];

/// Label names and values.
type Labels<'a> = &'a [(&'a str, &'a str)];

/// Output buffer.
#[derive(Default)]
struct MetricsText(String);

impl MetricsText {
    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: Labels<'_>, value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.begin(name, "gauge", help);
        self.value(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.begin(name, "counter", help);
        self.value(name, &[], value);
    }

    fn histogram(&mut self, name: &str, label: &str, value: &str, histogram: &Histogram) {
        let bucket = format!("{name}_bucket");
        for (bound, count) in histogram.cumulative() {
            self.value(&bucket, &[(label, value), ("le", &bound.to_string())], count);
        }
        self.value(&bucket, &[(label, value), ("le", "+Inf")], histogram.count);
        self.value(&format!("{name}_sum"), &[(label, value)], histogram.sum_ms);
        self.value(&format!("{name}_count"), &[(label, value)], histogram.count);
    }
}

/// Renders the metrics of the caller's space, and those of the hub if `of_hub`. Activity in one space must not be
/// visible from another.
pub(crate) async fn render_metrics(call: &Call, of_hub: bool) -> Result<String, Error> {
    let observed = call.app.telemetry();
    let mut page = observed
        .with_log_metrics(&call.space, |fold| {
            let mut page = MetricsText::default();
            messages(&mut page, fold);
            deliveries(&mut page, fold);
            page.gauge(
                "quorate_observed_lag_records",
                "Records not included in these metrics yet.",
                (call.space.published().head.seq.0 + 1).saturating_sub(fold.next().0),
            );
            page.gauge("quorate_trace_spans", "Messages in the span index.", fold.spans.len());
            page
        })
        .await?;
    errors(&mut page, observed, &call.space, of_hub);
    state(&mut page, &call.space);
    if of_hub {
        store(&mut page, call);
        doors(&mut page, observed);
        bulk(&mut page, call);
        spans(&mut page, observed);
    }
    Ok(page.0)
}

fn messages(page: &mut MetricsText, fold: &LogMetrics) {
    let counted = &fold.counters;
    page.begin("messages_sent_total", "counter", "Durable messages sent.");
    for (kind, levels) in TYPES.iter().zip(&counted.sent) {
        for (level, count) in LEVELS.iter().zip(levels) {
            page.value("messages_sent_total", &[("type", kind.as_str()), ("priority", level)], count);
        }
    }
    page.begin("messages_received_total", "counter", "Deliveries delivered for the first time.");
    for (kind, count) in TYPES.iter().zip(&counted.received) {
        page.value("messages_received_total", &[("type", kind.as_str())], count);
    }
    page.begin("message_latency_ms", "histogram", "Time from send to ack of a delivery, in milliseconds.");
    for (kind, histogram) in TYPES.iter().zip(&counted.latency_ms) {
        page.histogram("message_latency_ms", "type", kind.as_str(), histogram);
    }
    page.begin("queue_time_ms", "histogram", "Time from send to first delivery, in milliseconds.");
    for (level, histogram) in LEVELS.iter().zip(&counted.queue_ms) {
        page.histogram("queue_time_ms", "priority", level, histogram);
    }
}

fn deliveries(page: &mut MetricsText, fold: &LogMetrics) {
    let counted = &fold.counters;
    page.counter("quorate_records_total", "Records written to the log.", counted.records);
    page.counter("quorate_sweeps_total", "Records written by timers.", counted.sweeps);
    page.counter("quorate_leases_total", "Leases granted.", counted.leased);
    page.counter("quorate_redeliveries_total", "Redeliveries.", counted.redelivered);
    page.begin(
        "quorate_leases_returned_total",
        "counter",
        "Leased deliveries returned to the queue, by cause.",
    );
    for (cause, count) in RETURN_CAUSES.iter().zip(&counted.returned) {
        page.value("quorate_leases_returned_total", &[("cause", cause.as_str())], count);
    }
    page.begin("quorate_deliveries_ended_total", "counter", "Ended deliveries, by state.");
    for ((_, how), count) in END_STATES.iter().zip(&counted.ended) {
        page.value("quorate_deliveries_ended_total", &[("state", how)], count);
    }
}

fn errors(page: &mut MetricsText, observed: &Telemetry, space: &Space, of_hub: bool) {
    page.begin("errors_total", "counter", "Refusals and failures, by code and agent.");
    let unauthenticated = if of_hub { observed.http.errors.list(None) } else { Vec::new() };
    let mut listed = observed.http.errors.list(Some(space.number()));
    for (code, agent, count) in unauthenticated {
        // Unauthenticated callers are counted with callers that are not agents.
        match listed.iter_mut().find(|(other, by, _)| *other == code && *by == agent) {
            Some((_, _, sum)) => *sum += count,
            None => listed.push((code, agent, count)),
        }
    }
    for (code, agent, count) in listed {
        page.value("errors_total", &[("type", code), ("agent", &agent)], count);
    }
}

/// Renders gauges of the current state.
fn state(page: &mut MetricsText, space: &Space) {
    let published = space.published();
    let is_available =
        |(_, agent): &(AgentNo, &quorate_core::Agent)| !agent.removed && agent.presence.available;
    page.gauge("active_agents", "Available agents.", published.agents.iter().filter(is_available).count());
    page.begin("queue_depth", "gauge", "Deliveries ready to be leased.");
    for (level, count) in LEVELS.iter().zip(published.ready_by_priority) {
        page.value("queue_depth", &[("priority", level)], count);
    }
    let counts = published.counts;
    page.begin("quorate_deliveries", "gauge", "Open deliveries and dead letters, by state.");
    for (state, count) in [
        ("ready", counts.ready),
        ("scheduled", counts.scheduled),
        ("leased", counts.leased),
        ("dead", counts.dead),
    ] {
        page.value("quorate_deliveries", &[("state", state)], count);
    }
    page.begin("quorate_tasks", "gauge", "Tasks, by state.");
    for status in TaskStatus::ALL {
        page.value("quorate_tasks", &[("state", status.as_str())], published.tasks.get(status));
    }
    page.gauge("quorate_head_seq", "Sequence number of the newest record.", published.head.seq.0);
}

fn store(page: &mut MetricsText, call: &Call) {
    let figures = call.app.engine().store().stats();
    let seconds = |ns: u64| ns as f64 / 1e9;
    page.counter("quorate_commits_total", "Commits decided, including refused ones.", figures.commits);
    page.counter(
        "quorate_batches_total",
        "Transactions that committed them (group commit).",
        figures.batches,
    );
    page.counter("quorate_syncs_total", "fsync calls that commits waited for.", figures.syncs);
    page.counter(
        "quorate_sync_seconds_total",
        "Time spent in these fsync calls, in seconds.",
        seconds(figures.sync_ns_total),
    );
    page.gauge("quorate_sync_seconds_max", "Longest fsync, in seconds.", seconds(figures.sync_ns_max));
    page.counter(
        "quorate_wal_written_bytes_total",
        "Bytes written to the write-ahead log.",
        figures.wal_written_bytes,
    );
    page.gauge("quorate_wal_bytes", "Size of the write-ahead log on disk, in bytes.", figures.wal_bytes);
    page.gauge("quorate_write_queue_ops", "Operations in the write queue.", figures.queued_ops);
    page.gauge("quorate_spaces", "Spaces of this hub.", call.app.spaces().len());
}

fn doors(page: &mut MetricsText, observed: &Telemetry) {
    let doors = &observed.http;
    let connections = doors.connections.load(Ordering::Relaxed);
    page.gauge("quorate_connections", "Open connections, including WebSockets.", connections);
    page.gauge("quorate_websockets", "Open WebSockets.", doors.sockets.load(Ordering::Relaxed));
    page.begin("quorate_http_requests_total", "counter", "HTTP requests, by method and status.");
    for ((method, status), count) in doors.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let labels = [("method", *method), ("status", &status.to_string())];
        page.value("quorate_http_requests_total", &labels, count);
    }
    page.begin(
        "quorate_http_request_ms",
        "histogram",
        "Duration of HTTP requests, including long polls, in milliseconds.",
    );
    for (method, histogram) in doors.request_ms.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        page.histogram("quorate_http_request_ms", "method", method, histogram);
    }
}

fn bulk(page: &mut MetricsText, call: &Call) {
    let figures = call.app.bulk().stats();
    page.gauge("quorate_bulk_reads", "Open lists, exports and event streams.", figures.open);
    page.counter(
        "quorate_bulk_refused_total",
        "Calls refused because the principal had too many bulk reads open.",
        figures.refused,
    );
}

fn spans(page: &mut MetricsText, observed: &Telemetry) {
    let Some(exporter) = &observed.exporter else { return };
    let figures = exporter.stats();
    page.counter("quorate_spans_exported_total", "Spans accepted by the collector.", figures.exported);
    page.counter("quorate_spans_dropped_total", "Spans dropped.", figures.dropped);
    page.counter("quorate_span_export_failures_total", "Failed export attempts.", figures.failures);
    page.gauge("quorate_span_queue", "Spans waiting to be exported.", figures.queued);
}
