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
pub(crate) async fn render_metrics(call: &Call, include_hub: bool) -> Result<String, Error> {
    let telemetry = call.app.telemetry();
    let mut out = telemetry
        .with_log_metrics(&call.space, |metrics| {
            let mut out = MetricsText::default();
            messages(&mut out, metrics);
            deliveries(&mut out, metrics);
            out.gauge(
                "quorate_observed_lag_records",
                "Records not included in these metrics yet.",
                (call.space.published().head.seq.0 + 1).saturating_sub(metrics.next().0),
            );
            out.gauge("quorate_trace_spans", "Messages in the span index.", metrics.spans.len());
            out
        })
        .await?;
    errors(&mut out, telemetry, &call.space, include_hub);
    state(&mut out, &call.space);
    if include_hub {
        store(&mut out, call);
        http(&mut out, telemetry);
        bulk(&mut out, call);
        spans(&mut out, telemetry);
    }
    Ok(out.0)
}

fn messages(out: &mut MetricsText, metrics: &LogMetrics) {
    let counters = &metrics.counters;
    out.begin("messages_sent_total", "counter", "Durable messages sent.");
    for (kind, levels) in TYPES.iter().zip(&counters.sent) {
        for (level, count) in LEVELS.iter().zip(levels) {
            out.value("messages_sent_total", &[("type", kind.as_str()), ("priority", level)], count);
        }
    }
    out.begin("messages_received_total", "counter", "Deliveries delivered for the first time.");
    for (kind, count) in TYPES.iter().zip(&counters.received) {
        out.value("messages_received_total", &[("type", kind.as_str())], count);
    }
    out.begin("message_latency_ms", "histogram", "Time from send to ack of a delivery, in milliseconds.");
    for (kind, histogram) in TYPES.iter().zip(&counters.latency_ms) {
        out.histogram("message_latency_ms", "type", kind.as_str(), histogram);
    }
    out.begin("queue_time_ms", "histogram", "Time from send to first delivery, in milliseconds.");
    for (level, histogram) in LEVELS.iter().zip(&counters.queue_ms) {
        out.histogram("queue_time_ms", "priority", level, histogram);
    }
}

fn deliveries(out: &mut MetricsText, metrics: &LogMetrics) {
    let counters = &metrics.counters;
    out.counter("quorate_records_total", "Records written to the log.", counters.records);
    out.counter("quorate_sweeps_total", "Records written by timers.", counters.sweeps);
    out.counter("quorate_leases_total", "Leases granted.", counters.leased);
    out.counter("quorate_redeliveries_total", "Redeliveries.", counters.redelivered);
    out.begin(
        "quorate_leases_returned_total",
        "counter",
        "Leased deliveries returned to the queue, by cause.",
    );
    for (cause, count) in RETURN_CAUSES.iter().zip(&counters.returned) {
        out.value("quorate_leases_returned_total", &[("cause", cause.as_str())], count);
    }
    out.begin("quorate_deliveries_ended_total", "counter", "Ended deliveries, by state.");
    for ((_, state), count) in END_STATES.iter().zip(&counters.ended) {
        out.value("quorate_deliveries_ended_total", &[("state", state)], count);
    }
}

fn errors(out: &mut MetricsText, telemetry: &Telemetry, space: &Space, include_hub: bool) {
    out.begin("errors_total", "counter", "Refusals and failures, by code and agent.");
    let unauthenticated = if include_hub { telemetry.http.errors.list(None) } else { Vec::new() };
    let mut listed = telemetry.http.errors.list(Some(space.number()));
    for (code, agent, count) in unauthenticated {
        // Unauthenticated callers are counted with callers that are not agents.
        match listed
            .iter_mut()
            .find(|(listed_code, listed_agent, _)| *listed_code == code && *listed_agent == agent)
        {
            Some((_, _, sum)) => *sum += count,
            None => listed.push((code, agent, count)),
        }
    }
    for (code, agent, count) in listed {
        out.value("errors_total", &[("type", code), ("agent", &agent)], count);
    }
}

/// Renders gauges of the current state.
fn state(out: &mut MetricsText, space: &Space) {
    let published = space.published();
    let is_available =
        |(_, agent): &(AgentNo, &quorate_core::Agent)| !agent.removed && agent.presence.available;
    out.gauge("active_agents", "Available agents.", published.agents.iter().filter(is_available).count());
    out.begin("queue_depth", "gauge", "Deliveries ready to be leased.");
    for (level, count) in LEVELS.iter().zip(published.ready_by_priority) {
        out.value("queue_depth", &[("priority", level)], count);
    }
    let counts = published.counts;
    out.begin("quorate_deliveries", "gauge", "Open deliveries and dead letters, by state.");
    for (state, count) in [
        ("ready", counts.ready),
        ("scheduled", counts.scheduled),
        ("leased", counts.leased),
        ("dead", counts.dead),
    ] {
        out.value("quorate_deliveries", &[("state", state)], count);
    }
    out.begin("quorate_tasks", "gauge", "Tasks, by state.");
    for status in TaskStatus::ALL {
        out.value("quorate_tasks", &[("state", status.as_str())], published.tasks.get(status));
    }
    out.gauge("quorate_head_seq", "Sequence number of the newest record.", published.head.seq.0);
}

fn store(out: &mut MetricsText, call: &Call) {
    let stats = call.app.engine().store().stats();
    let seconds = |ns: u64| ns as f64 / 1e9;
    out.counter("quorate_commits_total", "Commits decided, including refused ones.", stats.commits);
    out.counter("quorate_batches_total", "Transactions that committed them (group commit).", stats.batches);
    out.counter("quorate_syncs_total", "fsync calls that commits waited for.", stats.syncs);
    out.counter(
        "quorate_sync_seconds_total",
        "Time spent in these fsync calls, in seconds.",
        seconds(stats.sync_ns_total),
    );
    out.gauge("quorate_sync_seconds_max", "Longest fsync, in seconds.", seconds(stats.sync_ns_max));
    out.counter(
        "quorate_wal_written_bytes_total",
        "Bytes written to the write-ahead log.",
        stats.wal_written_bytes,
    );
    out.gauge("quorate_wal_bytes", "Size of the write-ahead log on disk, in bytes.", stats.wal_bytes);
    out.gauge("quorate_write_queue_ops", "Operations in the write queue.", stats.queued_ops);
    out.gauge("quorate_spaces", "Spaces of this hub.", call.app.spaces().len());
}

fn http(out: &mut MetricsText, telemetry: &Telemetry) {
    let stats = &telemetry.http;
    let connections = stats.connections.load(Ordering::Relaxed);
    out.gauge("quorate_connections", "Open connections, including WebSockets.", connections);
    out.gauge("quorate_websockets", "Open WebSockets.", stats.sockets.load(Ordering::Relaxed));
    out.begin("quorate_http_requests_total", "counter", "HTTP requests, by method and status.");
    for ((method, status), count) in stats.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let labels = [("method", *method), ("status", &status.to_string())];
        out.value("quorate_http_requests_total", &labels, count);
    }
    out.begin(
        "quorate_http_request_ms",
        "histogram",
        "Duration of HTTP requests, including long polls, in milliseconds.",
    );
    for (method, histogram) in stats.request_ms.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        out.histogram("quorate_http_request_ms", "method", method, histogram);
    }
}

fn bulk(out: &mut MetricsText, call: &Call) {
    let stats = call.app.bulk().stats();
    out.gauge("quorate_bulk_reads", "Open lists, exports and event streams.", stats.open);
    out.counter(
        "quorate_bulk_refused_total",
        "Calls refused because the principal had too many bulk reads open.",
        stats.refused,
    );
}

fn spans(out: &mut MetricsText, telemetry: &Telemetry) {
    let Some(exporter) = &telemetry.exporter else { return };
    let stats = exporter.stats();
    out.counter("quorate_spans_exported_total", "Spans accepted by the collector.", stats.exported);
    out.counter("quorate_spans_dropped_total", "Spans dropped.", stats.dropped);
    out.counter("quorate_span_export_failures_total", "Failed export attempts.", stats.failures);
    out.gauge("quorate_span_queue", "Spans waiting to be exported.", stats.queued);
}
