//! Converts a trace to Chrome trace events, which Perfetto opens. Each agent is a process; concurrent spans of an agent get
//! separate lanes, since slices on one lane must not overlap. Flow arrows connect each span to its children.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::output::field;

/// A span with its duration.
struct Slice<'a> {
    span: String,
    /// Id of the parent span.
    parent: String,
    agent: String,
    name: String,
    start: i64,
    end: i64,
    details: &'a Value,
}

/// Returns the trace event document.
pub(super) fn to_trace_events(trace: &Value) -> Value {
    let slices = slices(list(&trace["spans"]));
    let mut processes: BTreeMap<&str, Vec<i64>> =
        slices.iter().map(|slice| (slice.agent.as_str(), Vec::new())).collect();
    let pids: BTreeMap<&str, usize> = processes.keys().zip(1..).map(|(agent, pid)| (*agent, pid)).collect();
    let mut events: Vec<Value> = { pids.iter() }
        .map(|(agent, pid)| json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": agent}}))
        .collect();
    let mut positions = BTreeMap::new();
    for slice in &slices {
        let pid = pids[slice.agent.as_str()];
        let lane = processes.get_mut(slice.agent.as_str()).map_or(0, |lanes| lane(lanes, slice));
        positions.insert(slice.span.as_str(), (pid, lane, slice.start));
        events.push(json!({
            "ph": "X", "cat": "quorate", "name": slice.name, "pid": pid, "tid": lane,
            "ts": slice.start, "dur": slice.end - slice.start, "args": slice.details,
        }));
    }
    for (slice, number) in slices.iter().zip(1..) {
        let Some((from, to)) = positions.get(slice.parent.as_str()).zip(positions.get(slice.span.as_str()))
        else {
            continue;
        };
        for (ph, (pid, tid, ts)) in [("s", from), ("f", to)] {
            events.push(json!({
                "ph": ph, "bp": "e", "cat": "quorate", "name": "led to", "id": number,
                "pid": pid, "tid": tid, "ts": ts,
            }));
        }
    }
    json!({"traceEvents": events, "displayTimeUnit": "ms"})
}

/// Returns the first free lane at the start of the slice, starting at 1.
fn lane(lanes: &mut Vec<i64>, slice: &Slice<'_>) -> usize {
    let free = lanes.iter().position(|end| *end < slice.start);
    let lane = free.unwrap_or_else(|| {
        lanes.push(0);
        lanes.len() - 1
    });
    lanes[lane] = slice.end;
    lane + 1
}

/// Returns the slices of messages and of leased deliveries, by start time.
fn slices(spans: &[Value]) -> Vec<Slice<'_>> {
    // An open span extends to the newest time in the trace.
    let times = spans.iter().flat_map(|span| list(&span["logs"])).filter_map(|log| micros(&log["at"]));
    let newest = times.max().unwrap_or(0);
    let slice = |details, [span, parent, agent, name]: [String; 4], start: &Value, end: &Value| {
        let start = micros(start)?;
        let end = micros(end).unwrap_or(newest).max(start);
        Some(Slice { span, parent, agent, name, start, end, details })
    };
    let mut found = Vec::new();
    for span in spans {
        let (id, to) = (field(span, "spanId"), field(span, "to"));
        let from = span["from"].as_str().unwrap_or("the hub").to_owned();
        let names = [id.clone(), field(span, "parentSpanId"), from, title("send", span)];
        found.extend(slice(span, names, &span["startTime"], &span["endTime"]));
        for delivery in list(&span["deliveries"]) {
            let agent = delivery["agent"].as_str().unwrap_or(&to).to_owned();
            let names = [field(delivery, "spanId"), id.clone(), agent, title("process", span)];
            found.extend(slice(delivery, names, &delivery["deliveredAt"], &delivery["endedAt"]));
        }
    }
    found.sort_by_key(|slice| slice.start);
    found
}

/// Returns the title of a slice, with the action or else the recipient.
fn title(verb: &str, span: &Value) -> String {
    let action = field(span, "action");
    format!("{verb} {}", if action.is_empty() { field(span, "to") } else { action })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn micros(time: &Value) -> Option<i64> {
    time.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_microsecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, parent: Option<&str>, start: &str, end: Option<&str>) -> Value {
        let time = |second: &str| format!("2026-01-31T09:30:0{second}Z");
        json!({
            "spanId": id, "parentSpanId": parent, "from": "alice", "to": "bob", "action": "review",
            "startTime": time(start), "endTime": end.map(time), "logs": [{"at": time(start)}],
            "deliveries": [{
                "agent": "bob", "spanId": format!("{id}-bob"), "deliveredAt": time(start), "endedAt": end.map(time),
            }],
        })
    }

    // Fails under: a lane that is reused while it is occupied, or flow arrows without a start.
    #[test]
    fn d11_overlapping_slices_get_separate_lanes() {
        let trace = json!({"spans": [
            message("a", None, "0.000", Some("2.000")),
            message("b", Some("a"), "1.000", None),
            message("c", Some("elsewhere"), "3.000", Some("3.000")),
        ]});
        let document = to_trace_events(&trace);
        let events = document["traceEvents"].as_array().expect("events");
        let of_kind = |ph: &str| events.iter().filter(|event| event["ph"] == ph).collect::<Vec<_>>();
        let names: Vec<_> = of_kind("M").iter().map(|event| event["args"]["name"].clone()).collect();
        assert_eq!(names, ["alice", "bob"]);
        let mut positions: Vec<_> = { of_kind("X").into_iter() }
            .map(|event| {
                [&event["pid"], &event["tid"], &event["dur"]].map(|number| number.as_i64().expect("a number"))
            })
            .collect();
        positions.sort_unstable();
        // b extends to the newest time, which is that of c.
        let expected = |pid| [[pid, 1, 0], [pid, 1, 2_000_000], [pid, 2, 2_000_000]];
        assert_eq!(positions, [expected(1), expected(2)].concat());
        // From a to b, and from each message to its delivery.
        assert_eq!((of_kind("s").len(), of_kind("f").len()), (4, 4));
    }
}
