//! I1 to I5 and I7: the outcome of each message.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quorate_core::EndState;
use quorate_store::StoredDeliveryState;

use crate::check::{ClientIndex, DeliveryTrace, LogTrace, StoreContents, ViolationReport};
use crate::history::{CallOp, Event, Lease, LockOp, ObservedDelivery, digest};

pub(super) fn check(
    clients: &ClientIndex<'_>,
    contents: &StoreContents,
    log: &LogTrace,
    report: &mut ViolationReport<'_>,
) {
    let received: Vec<&ObservedDelivery> = clients
        .history
        .iter()
        .filter_map(|event| if let Event::Received(received) = event { Some(received) } else { None })
        .collect();
    durable_sends(clients, log, report);
    call_outcomes(clients, report);
    ended_deliveries(contents, log, &received, report);
    no_invention(clients, log, &received, report);
    exactly_once(clients, log, report);
    final_acks(clients, log, &received, report);
    attempts(log, &received, report);
    order(clients, log, &received, report);
}

/// I1, I2: every acknowledged message is in the log unchanged, with a delivery for each recipient.
fn durable_sends(clients: &ClientIndex<'_>, log: &LogTrace, report: &mut ViolationReport<'_>) {
    for (id, response) in &clients.done {
        let Some(call) = clients.calls.get(id) else { continue };
        let payloads = call.payloads();
        let messages: Vec<u32> =
            (0..payloads.len() as u32).filter(|n| !call.recipients(*n).is_empty()).collect();
        report.require(messages.len() == response.sent.len(), "I1 durable send", || {
            format!("{id} sent {} messages, the response has {}", messages.len(), response.sent.len())
        });
        for (n, (message, first, count)) in messages.into_iter().zip(&response.sent) {
            let recipients: BTreeSet<String> = call.recipients(n).into_iter().collect();
            let mut reached = BTreeSet::new();
            for number in *first..first + u64::from(*count) {
                let Some(trace) = log.deliveries.get(&number) else {
                    report.add("I1 durable send", format!("{id}: delivery {number} of {message} is lost"));
                    continue;
                };
                let same = trace.origin == (call.id.clone(), n)
                    && trace.from == call.by
                    && trace.digest == digest(&payloads[n as usize]);
                report.require(same, "I2 byte for byte", || {
                    format!(
                        "{id}: delivery {number} contains {:?} by {}, not the payload that was sent",
                        trace.origin, trace.from
                    )
                });
                reached.insert(trace.agent.clone());
            }
            report.require(reached == recipients, "I1 one delivery for each recipient", || {
                format!("{id} named {recipients:?}, {message} has deliveries for {reached:?}")
            });
        }
    }
}

/// I3, I4: every call has an expected outcome. A repeat of a call with an unknown outcome succeeds, whether or not the
/// first one was applied; only a compare-and-set write or a lock operation may be refused.
fn call_outcomes(clients: &ClientIndex<'_>, report: &mut ViolationReport<'_>) {
    for (id, call) in &clients.calls {
        let refused = clients.refused.get(id).copied();
        let is_expected = match &call.op {
            CallOp::Ack { stale: true, .. } => {
                refused == Some("STALE_LEASE") && !clients.done.contains_key(id)
            }
            CallOp::Send { to, .. } if to.iter().any(|name| name == "nobody") => {
                refused == Some("UNKNOWN_RECIPIENT")
            }
            CallOp::Send { .. } | CallOp::Ack { .. } | CallOp::Nack { .. } => clients.done.contains_key(id),
            CallOp::Put { .. } | CallOp::Step { .. } => {
                clients.done.contains_key(id) != (refused == Some("VERSION_CONFLICT"))
            }
            CallOp::Lock(op) => {
                let code = if matches!(op, LockOp::Acquire { .. }) { "TIMEOUT" } else { "STALE_FENCE" };
                clients.done.contains_key(id) != (refused == Some(code))
            }
        };
        report.require(is_expected, "I3, I4 every call has an expected outcome", || {
            format!("{call:?} ended with {:?} and {refused:?}", clients.done.get(id))
        });
    }
}

/// I1, I7: after the drain every delivery has ended, and log and tables agree on its end.
fn ended_deliveries(
    contents: &StoreContents,
    log: &LogTrace,
    received: &[&ObservedDelivery],
    report: &mut ViolationReport<'_>,
) {
    let seen: BTreeSet<_> = received.iter().map(|received| received.lease).collect();
    let dead: BTreeSet<u64> = contents.dead.iter().map(|dead_letter| dead_letter.delivery.0).collect();
    for (number, trace) in &log.deliveries {
        let index = usize::try_from(*number).unwrap_or_default().wrapping_sub(1);
        let state = contents.states.get(index).copied().flatten();
        let in_table = match state {
            Some(StoredDeliveryState::Ended { state, seq }) => Some((state, seq.0)),
            _ => None,
        };
        let in_log = trace.end.map(|(state, _, seq)| (state, seq));
        report.require(in_log.is_some(), "I1 delivered or ended", || {
            format!("delivery {number} of {:?} is still {state:?}", trace.origin)
        });
        report.require(in_table == in_log, "I7 in exactly one state", || {
            format!("delivery {number}: the log has {in_log:?}, the tables have {state:?}")
        });
        let lease = Lease { delivery: *number, token: trace.tokens.last().copied().unwrap_or_default() };
        match trace.end {
            Some((EndState::Acked, ..)) => {
                report.require(seen.contains(&lease), "I1 delivered at least once", || {
                    format!("delivery {number} of {:?} is acked but was never received", trace.origin)
                });
            }
            Some((EndState::Dead, ..)) => {
                report.require(dead.contains(number), "I1 a dead delivery is listed", || {
                    format!("delivery {number} is dead but not listed as a dead letter")
                });
            }
            _ => {}
        }
    }
}

/// I2: every received message was sent by its stated sender, and no refused call left a trace in the log.
fn no_invention(
    clients: &ClientIndex<'_>,
    log: &LogTrace,
    received: &[&ObservedDelivery],
    report: &mut ViolationReport<'_>,
) {
    for delivery in received {
        let (id, n) = &delivery.origin;
        let Some(call) = clients.calls.get(id.as_str()) else {
            report.add("I2 no invention", format!("{delivery:?} was never sent"));
            continue;
        };
        let body = call.payloads().get(*n as usize).map(|body| digest(body));
        let same = body.as_ref() == Some(&delivery.digest) && call.by == delivery.from;
        report.require(same && call.recipients(*n).contains(&delivery.agent), "I2 byte for byte", || {
            format!("{delivery:?} is not what {call:?} sent")
        });
    }
    for id in clients.refused.keys() {
        report.require(
            clients.done.contains_key(id) || !log.calls.contains_key(*id),
            "I2 a refused call has no effect",
            || format!("{id} was refused, but record {:?} contains it", log.calls.get(*id)),
        );
    }
    for id in log.calls.keys() {
        report.require(clients.calls.contains_key(id.as_str()), "I2 no invention", || {
            format!("the log contains a payload of the unknown call {id:?}")
        });
    }
}

/// I3, I11: a call is in exactly one record however often it was repeated, and a step is applied completely or not at
/// all.
fn exactly_once(clients: &ClientIndex<'_>, log: &LogTrace, report: &mut ViolationReport<'_>) {
    for (id, records) in &log.calls {
        report.require(records.len() == 1, "I3 one effect", || format!("{id} is in the records {records:?}"));
    }
    let mut parts: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for trace in log.deliveries.values() {
        parts.entry(trace.origin.0.as_str()).or_default().insert(trace.origin.1);
    }
    for (id, call) in &clients.calls {
        let CallOp::Step { lease, key, .. } = &call.op else { continue };
        let sent = parts.get(id).map_or(0, BTreeSet::len);
        let written = log.writes.get(key).is_some_and(|list| list.iter().any(|write| write.call == *id));
        let end = log.deliveries.get(&lease.delivery).and_then(|trace| trace.end);
        let record = log.calls.get(*id).and_then(|records| records.first().copied());
        let acked = end.is_some_and(|(state, token, seq)| {
            state == EndState::Acked && token == lease.token && Some(seq) == record
        });
        let is_atomic = (sent == 2 && written && acked) || (sent == 0 && !written && !acked);
        report.require(is_atomic, "I11 a commit is atomic", || {
            format!("step {id} has {sent} messages, entry {written}, ack {acked}")
        });
        report.require(!clients.done.contains_key(id) || sent == 2, "I1 durable step", || {
            format!("step {id} was acknowledged and is lost")
        });
    }
}

/// I4: an acknowledged ack is final.
fn final_acks(
    clients: &ClientIndex<'_>,
    log: &LogTrace,
    received: &[&ObservedDelivery],
    report: &mut ViolationReport<'_>,
) {
    let mut last: HashMap<u64, u64> = HashMap::new();
    for delivery in received {
        let token = last.entry(delivery.lease.delivery).or_default();
        *token = (*token).max(delivery.lease.token);
    }
    for (id, response) in &clients.done {
        let lease = match clients.calls.get(id).map(|call| &call.op) {
            Some(CallOp::Ack { lease, .. } | CallOp::Step { lease, .. }) => lease,
            _ => continue,
        };
        let end = log.deliveries.get(&lease.delivery).and_then(|trace| trace.end);
        let expected = response.acked.first().map(|seq| (EndState::Acked, lease.token, *seq));
        report.require(end == expected, "I4 an acknowledged ack is durable", || {
            format!("{id} ended {lease:?} by {:?}; the log has {end:?}", response.acked)
        });
        let token = last.get(&lease.delivery).copied().unwrap_or_default();
        report.require(token <= lease.token, "I4 no redelivery after an ack", || {
            format!("{id} acked {lease:?}, and it was redelivered under token {token}")
        });
    }
}

/// I7: attempt numbers start at 1 and increase by one with each lease, also across restarts.
fn attempts(log: &LogTrace, received: &[&ObservedDelivery], report: &mut ViolationReport<'_>) {
    for delivery in received {
        let tokens = log.deliveries.get(&delivery.lease.delivery).map(|trace| trace.tokens.as_slice());
        let index = tokens.and_then(|tokens| tokens.iter().position(|token| *token == delivery.lease.token));
        let expected = index.map(|index| index as u64 + 1);
        report.require(expected == Some(u64::from(delivery.attempt)), "I7 attempts increase by one", || {
            format!("{delivery:?} is lease {expected:?} of its delivery")
        });
    }
}

/// Latest first delivery for one sender, recipient and priority.
#[derive(Clone, Copy, Default)]
struct Front {
    token: u64,
    /// Index in the received deliveries, if the first attempt was received.
    index: Option<usize>,
    delivery: u64,
}

/// I5: messages with the same sender, recipient and priority are delivered in order, if the first was acknowledged
/// before the second was sent.
fn order(
    clients: &ClientIndex<'_>,
    log: &LogTrace,
    received: &[&ObservedDelivery],
    report: &mut ViolationReport<'_>,
) {
    let by_call = deliveries_by_call(log);
    let first_attempts = received.iter().enumerate().filter(|(_, delivery)| delivery.attempt == 1);
    let indexes: HashMap<u64, usize> =
        first_attempts.map(|(index, delivery)| (delivery.lease.delivery, index)).collect();
    let mut fronts: HashMap<(&str, &str, u8), Front> = HashMap::new();
    for event in clients.history {
        let (id, is_start) = match event {
            Event::Started(call) => (call.id.as_str(), true),
            Event::Done { call, .. } => (call.as_str(), false),
            _ => continue,
        };
        for (number, trace) in by_call.get(id).into_iter().flatten() {
            let Some(token) = trace.tokens.first().copied() else { continue };
            let index = indexes.get(number).copied();
            let stream = (trace.from.as_str(), trace.agent.as_str(), trace.level);
            let front = fronts.entry(stream).or_default();
            if is_start {
                let Front { delivery, .. } = *front;
                report.require(token > front.token, "I5 order", || {
                    format!("delivery {number} of {id} overtook {delivery}: it has token {token}")
                });
                let in_order = index.is_none() || front.index.is_none() || index > front.index;
                report.require(in_order, "I5 order as received", || {
                    format!("delivery {number} of {id} was received before {delivery}")
                });
            } else if token > front.token {
                *front = Front { token, index: index.max(front.index), delivery: *number };
            }
        }
    }
}

fn deliveries_by_call(log: &LogTrace) -> HashMap<&str, Vec<(u64, &DeliveryTrace)>> {
    let mut by_call: HashMap<&str, Vec<_>> = HashMap::new();
    for (number, trace) in &log.deliveries {
        by_call.entry(trace.origin.0.as_str()).or_default().push((*number, trace));
    }
    by_call
}
