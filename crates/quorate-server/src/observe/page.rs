//! `GET /metrics` in the text format of Prometheus.
//!
//! Written by hand: most figures are read from what is published or from the fold when somebody looks, so a registry of
//! live counters would hold nothing but copies of them. See `docs/decisions/0016-watching-without-the-writer.md`.

use std::fmt::Write as _;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use quorate_core::{AgentNo, MessageType, TaskStatus};
use quorate_engine::{Error, Space};

use super::Observed;
use super::fold::{CAUSES, ENDS, Fold};
use super::histogram::Histogram;
use crate::call::Call;

/// Types of messages, in the order in which they are counted.
const TYPES: [MessageType; 4] =
    [MessageType::Command, MessageType::Query, MessageType::Event, MessageType::Response];
/// Levels of priority, in the order in which they are counted.
const LEVELS: [&str; 4] = ["low", "normal", "high", "urgent"];

/// Labels and their values.
type Labels<'a> = &'a [(&'a str, &'a str)];

/// The text as it grows.
#[derive(Default)]
struct Page(String);

impl Page {
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

/// The figures of the caller's space; those of the hub, too, for who is of the space that runs it: what happens in one
/// space is not to be seen from another.
pub(crate) async fn page(call: &Call, of_hub: bool) -> Result<String, Error> {
    let observed = call.app.observed();
    let mut page = observed
        .look(&call.space, |fold| {
            let mut page = Page::default();
            messages(&mut page, fold);
            deliveries(&mut page, fold);
            page.gauge(
                "quorate_observed_lag_records",
                "Records that these figures do not know of yet.",
                (call.space.published().head.seq.0 + 1).saturating_sub(fold.next().0),
            );
            page.gauge("quorate_trace_spans", "Messages that traces can show.", fold.spans.len());
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

fn messages(page: &mut Page, fold: &Fold) {
    let counted = &fold.counted;
    page.begin("messages_sent_total", "counter", "Durable messages that were sent.");
    for (kind, levels) in TYPES.iter().zip(&counted.sent) {
        for (level, count) in LEVELS.iter().zip(levels) {
            page.value("messages_sent_total", &[("type", kind.as_str()), ("priority", level)], count);
        }
    }
    page.begin("messages_received_total", "counter", "Deliveries that were handed over for the first time.");
    for (kind, count) in TYPES.iter().zip(&counted.received) {
        page.value("messages_received_total", &[("type", kind.as_str())], count);
    }
    page.begin("message_latency_ms", "histogram", "From sending to the ack of a delivery, in milliseconds.");
    for (kind, histogram) in TYPES.iter().zip(&counted.latency_ms) {
        page.histogram("message_latency_ms", "type", kind.as_str(), histogram);
    }
    page.begin("queue_time_ms", "histogram", "From sending to the first hand-over, in milliseconds.");
    for (level, histogram) in LEVELS.iter().zip(&counted.queue_ms) {
        page.histogram("queue_time_ms", "priority", level, histogram);
    }
}

fn deliveries(page: &mut Page, fold: &Fold) {
    let counted = &fold.counted;
    page.counter("quorate_records_total", "Records that were written to the log.", counted.records);
    page.counter("quorate_sweeps_total", "Records that time alone led to.", counted.sweeps);
    page.counter("quorate_leases_total", "Times that a delivery was taken under a lease.", counted.leased);
    page.counter(
        "quorate_redeliveries_total",
        "Times that a delivery was handed over again.",
        counted.redelivered,
    );
    page.begin("quorate_leases_returned_total", "counter", "Leased deliveries that came back, by cause.");
    for (cause, count) in CAUSES.iter().zip(&counted.returned) {
        page.value("quorate_leases_returned_total", &[("cause", cause.as_str())], count);
    }
    page.begin("quorate_deliveries_ended_total", "counter", "Deliveries that ended, by how.");
    for ((_, how), count) in ENDS.iter().zip(&counted.ended) {
        page.value("quorate_deliveries_ended_total", &[("state", how)], count);
    }
}

fn errors(page: &mut Page, observed: &Observed, space: &Space, of_hub: bool) {
    page.begin("errors_total", "counter", "Refusals and failures, by code and agent.");
    let nobody = if of_hub { observed.doors.errors.list(None) } else { Vec::new() };
    let mut listed = observed.doors.errors.list(Some(space.number()));
    for (code, agent, count) in nobody {
        // Whoever is not known is counted with those who are no agents.
        match listed.iter_mut().find(|(other, by, _)| *other == code && *by == agent) {
            Some((_, _, sum)) => *sum += count,
            None => listed.push((code, agent, count)),
        }
    }
    for (code, agent, count) in listed {
        page.value("errors_total", &[("type", code), ("agent", &agent)], count);
    }
}

/// What is there now.
fn state(page: &mut Page, space: &Space) {
    let published = space.published();
    let there = |(_, agent): &(AgentNo, &quorate_core::Agent)| !agent.removed && agent.presence.available;
    page.gauge("active_agents", "Agents that can be reached.", published.agents.iter().filter(there).count());
    page.begin("queue_depth", "gauge", "Deliveries that wait to be taken.");
    for (level, count) in LEVELS.iter().zip(published.ready_by_level) {
        page.value("queue_depth", &[("priority", level)], count);
    }
    let counts = published.counts;
    page.begin("quorate_deliveries", "gauge", "Deliveries that have not ended, and dead letters, by state.");
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
        page.value("quorate_tasks", &[("state", status.as_str())], published.tasks.of(status));
    }
    page.gauge("quorate_head_seq", "The newest record.", published.head.seq.0);
}

fn store(page: &mut Page, call: &Call) {
    let figures = call.app.engine().store().figures();
    let seconds = |ns: u64| ns as f64 / 1e9;
    page.counter(
        "quorate_commits_total",
        "Commits that were decided, refused ones included.",
        figures.commits,
    );
    page.counter("quorate_batches_total", "Transactions that carried them.", figures.batches);
    page.counter("quorate_syncs_total", "Syncs that commits waited for.", figures.syncs);
    page.counter(
        "quorate_sync_seconds_total",
        "Time spent in these syncs, in seconds.",
        seconds(figures.sync_ns_total),
    );
    page.gauge("quorate_sync_seconds_max", "The longest sync, in seconds.", seconds(figures.sync_ns_max));
    page.counter(
        "quorate_wal_written_bytes_total",
        "Bytes written to the write-ahead log.",
        figures.wal_written_bytes,
    );
    page.gauge("quorate_wal_bytes", "Bytes that the write-ahead log takes on disk.", figures.wal_bytes);
    page.gauge("quorate_write_queue_ops", "Operations that wait for the writer.", figures.waiting_ops);
    page.gauge("quorate_spaces", "Spaces of this hub.", call.app.spaces().len());
}

fn doors(page: &mut Page, observed: &Observed) {
    let doors = &observed.doors;
    let connections = doors.connections.load(Ordering::Relaxed);
    page.gauge("quorate_connections", "Connections that are open, WebSockets included.", connections);
    page.gauge("quorate_websockets", "WebSockets that are open.", doors.sockets.load(Ordering::Relaxed));
    page.begin(
        "quorate_http_requests_total",
        "counter",
        "Requests that were answered, by method and status.",
    );
    for ((method, status), count) in doors.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let labels = [("method", *method), ("status", &status.to_string())];
        page.value("quorate_http_requests_total", &labels, count);
    }
    page.begin(
        "quorate_http_request_ms",
        "histogram",
        "How long requests took, waits included, in milliseconds.",
    );
    for (method, histogram) in doors.request_ms.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        page.histogram("quorate_http_request_ms", "method", method, histogram);
    }
}

fn bulk(page: &mut Page, call: &Call) {
    let figures = call.app.bulk().figures();
    page.gauge("quorate_bulk_reads", "Lists, exports and event streams that are open.", figures.open);
    page.counter(
        "quorate_bulk_refused_total",
        "Calls refused because their principal had too many of them open.",
        figures.refused,
    );
}

fn spans(page: &mut Page, observed: &Observed) {
    let Some(exporter) = &observed.exporter else { return };
    let figures = exporter.figures();
    page.counter("quorate_spans_exported_total", "Spans that the collector took.", figures.exported);
    page.counter("quorate_spans_dropped_total", "Spans that were given up.", figures.dropped);
    page.counter("quorate_span_export_failures_total", "Tries that failed.", figures.failures);
    page.gauge("quorate_span_queue", "Spans that wait for the collector.", figures.waiting);
}
