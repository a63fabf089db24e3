//! I1 to I5 and I7: what became of each message.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quorate_core::EndState;
use quorate_store::DeliveryState;

use crate::check::{Found, Report, Told, Trail, Trails};
use crate::history::{Act, Event, Lease, LockAct, Received, digest};

pub(super) fn check(told: &Told<'_>, found: &Found, trails: &Trails, report: &mut Report<'_>) {
    let received: Vec<&Received> = told
        .history
        .iter()
        .filter_map(|event| if let Event::Received(received) = event { Some(received) } else { None })
        .collect();
    kept(told, trails, report);
    ends(told, report);
    ended(found, trails, &received, report);
    invented(told, trails, &received, report);
    once(told, trails, report);
    acked(told, trails, &received, report);
    attempts(trails, &received, report);
    order(told, trails, &received, report);
}

/// I1, I2: every acknowledged message is in the log as it was accepted, with a delivery for each recipient.
fn kept(told: &Told<'_>, trails: &Trails, report: &mut Report<'_>) {
    for (id, answer) in &told.done {
        let Some(call) = told.calls.get(id) else { continue };
        let bodies = call.bodies();
        let messages: Vec<u32> =
            (0..bodies.len() as u32).filter(|n| !call.recipients(*n).is_empty()).collect();
        report.require(messages.len() == answer.sent.len(), "I1 durable send", || {
            format!("{id} sent {} messages and was told of {}", messages.len(), answer.sent.len())
        });
        for (n, (message, first, count)) in messages.into_iter().zip(&answer.sent) {
            let recipients: BTreeSet<String> = call.recipients(n).into_iter().collect();
            let mut reached = BTreeSet::new();
            for number in *first..first + u64::from(*count) {
                let Some(trail) = trails.deliveries.get(&number) else {
                    report.add("I1 durable send", format!("{id}: delivery {number} of {message} is lost"));
                    continue;
                };
                let same = trail.origin == (call.id.clone(), n)
                    && trail.from == call.by
                    && trail.digest == digest(&bodies[n as usize]);
                report.require(same, "I2 byte for byte", || {
                    format!(
                        "{id}: delivery {number} holds {:?} by {}, not what was sent",
                        trail.origin, trail.from
                    )
                });
                reached.insert(trail.agent.clone());
            }
            report.require(reached == recipients, "I1 one delivery for each recipient", || {
                format!("{id} named {recipients:?}, {message} has deliveries for {reached:?}")
            });
        }
    }
}

/// Which refusals there may be. A call that was unknown and is made again has happened, or happens now; only a write can
/// be overtaken meanwhile.
fn ends(told: &Told<'_>, report: &mut Report<'_>) {
    for (id, call) in &told.calls {
        let refused = told.refused.get(id).copied();
        let fine = match &call.act {
            Act::Ack { stale: true, .. } => refused == Some("STALE_LEASE") && !told.done.contains_key(id),
            Act::Send { to, .. } if to.iter().any(|name| name == "nobody") => {
                refused == Some("UNKNOWN_RECIPIENT")
            }
            Act::Send { .. } | Act::Ack { .. } | Act::Nack { .. } => told.done.contains_key(id),
            Act::Put { .. } | Act::Step { .. } => {
                told.done.contains_key(id) != (refused == Some("VERSION_CONFLICT"))
            }
            Act::Lock(act) => {
                let no = if matches!(act, LockAct::Take { .. }) { "TIMEOUT" } else { "STALE_FENCE" };
                told.done.contains_key(id) != (refused == Some(no))
            }
        };
        report.require(fine, "I3, I4 every call ends as it must", || {
            format!("{call:?} ended with {:?} and {refused:?}", told.done.get(id))
        });
    }
}

/// I1, I7: after the inboxes were emptied every delivery has ended, and visibly so.
fn ended(found: &Found, trails: &Trails, received: &[&Received], report: &mut Report<'_>) {
    let seen: BTreeSet<_> = received.iter().map(|received| received.lease).collect();
    let dead: BTreeSet<u64> = found.dead.iter().map(|letter| letter.delivery.0).collect();
    for (number, trail) in &trails.deliveries {
        let index = usize::try_from(*number).unwrap_or_default().wrapping_sub(1);
        let state = found.states.get(index).copied().flatten();
        let in_table = match state {
            Some(DeliveryState::Ended { state, seq }) => Some((state, seq.0)),
            _ => None,
        };
        let in_log = trail.end.map(|(state, _, seq)| (state, seq));
        report.require(in_log.is_some(), "I1 delivered, or visibly ended", || {
            format!("delivery {number} of {:?} is still {state:?}", trail.origin)
        });
        report.require(in_table == in_log, "I7 in exactly one state", || {
            format!("delivery {number}: the log says {in_log:?}, the tables say {state:?}")
        });
        let lease = Lease { delivery: *number, token: trail.tokens.last().copied().unwrap_or_default() };
        match trail.end {
            Some((EndState::Acked, ..)) => {
                report.require(seen.contains(&lease), "I1 delivered at least once", || {
                    format!("delivery {number} of {:?} is acked, and nobody received it", trail.origin)
                });
            }
            Some((EndState::Dead, ..)) => {
                report.require(dead.contains(number), "I1 visibly dead", || {
                    format!("delivery {number} is dead and not among the dead letters")
                });
            }
            _ => {}
        }
    }
}

/// I2: what was received was sent, by the one it names, and was never refused.
fn invented(told: &Told<'_>, trails: &Trails, received: &[&Received], report: &mut Report<'_>) {
    for one in received {
        let (id, n) = &one.origin;
        let Some(call) = told.calls.get(id.as_str()) else {
            report.add("I2 no invention", format!("{one:?} was never sent"));
            continue;
        };
        let body = call.bodies().get(*n as usize).map(|body| digest(body));
        let same = body.as_ref() == Some(&one.digest) && call.by == one.from;
        report.require(same && call.recipients(*n).contains(&one.agent), "I2 byte for byte", || {
            format!("{one:?} is not what {call:?} sent")
        });
    }
    for id in told.refused.keys() {
        report.require(
            told.done.contains_key(id) || !trails.calls.contains_key(*id),
            "I2 refused is refused",
            || format!("{id} was refused, and record {:?} holds it", trails.calls.get(*id)),
        );
    }
    for id in trails.calls.keys() {
        report.require(told.calls.contains_key(id.as_str()), "I2 no invention", || {
            format!("the log holds a payload of {id:?}, which was never called")
        });
    }
}

/// I3: however often a call was made, one record holds it, and all of it.
fn once(told: &Told<'_>, trails: &Trails, report: &mut Report<'_>) {
    for (id, records) in &trails.calls {
        report.require(records.len() == 1, "I3 one effect", || format!("{id} is in the records {records:?}"));
    }
    let mut parts: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for trail in trails.deliveries.values() {
        parts.entry(trail.origin.0.as_str()).or_default().insert(trail.origin.1);
    }
    for (id, call) in &told.calls {
        let Act::Step { lease, key, .. } = &call.act else { continue };
        let sent = parts.get(id).map_or(0, BTreeSet::len);
        let written = trails.writings.get(key).is_some_and(|list| list.iter().any(|one| one.call == *id));
        let end = trails.deliveries.get(&lease.delivery).and_then(|trail| trail.end);
        let record = trails.calls.get(*id).and_then(|records| records.first().copied());
        let acked = end.is_some_and(|(state, token, seq)| {
            state == EndState::Acked && token == lease.token && Some(seq) == record
        });
        let whole = (sent == 2 && written && acked) || (sent == 0 && !written && !acked);
        report.require(whole, "I11 a commit is all or nothing", || {
            format!("of the step {id} there are {sent} messages, entry {written}, ack {acked}")
        });
        report.require(!told.done.contains_key(id) || sent == 2, "I1 durable step", || {
            format!("the step {id} was acknowledged and is lost")
        });
    }
}

/// I4: an acknowledged ack is the end.
fn acked(told: &Told<'_>, trails: &Trails, received: &[&Received], report: &mut Report<'_>) {
    let mut last: HashMap<u64, u64> = HashMap::new();
    for one in received {
        let token = last.entry(one.lease.delivery).or_default();
        *token = (*token).max(one.lease.token);
    }
    for (id, answer) in &told.done {
        let lease = match told.calls.get(id).map(|call| &call.act) {
            Some(Act::Ack { lease, .. } | Act::Step { lease, .. }) => lease,
            _ => continue,
        };
        let end = trails.deliveries.get(&lease.delivery).and_then(|trail| trail.end);
        let expected = answer.acked.first().map(|seq| (EndState::Acked, lease.token, *seq));
        report.require(end == expected, "I4 an acknowledged ack is kept", || {
            format!("{id} was told that {lease:?} ended by {:?}; the log says {end:?}", answer.acked)
        });
        let token = last.get(&lease.delivery).copied().unwrap_or_default();
        report.require(token <= lease.token, "I4 never delivered again", || {
            format!("{id} acked {lease:?}, and it was delivered again under token {token}")
        });
    }
}

/// I7: attempts count from 1 and rise by one with each lease, over restarts too.
fn attempts(trails: &Trails, received: &[&Received], report: &mut Report<'_>) {
    for one in received {
        let tokens = trails.deliveries.get(&one.lease.delivery).map(|trail| trail.tokens.as_slice());
        let index = tokens.and_then(|tokens| tokens.iter().position(|token| *token == one.lease.token));
        let expected = index.map(|index| index as u64 + 1);
        report.require(expected == Some(u64::from(one.attempt)), "I7 attempts rise by one", || {
            format!("{one:?} is the lease number {expected:?} of its delivery")
        });
    }
}

/// The latest first delivery of a line: one sender, one recipient, one priority.
#[derive(Clone, Copy, Default)]
struct Front {
    token: u64,
    /// Where in the receipts it stands, if its first try was received.
    place: Option<usize>,
    delivery: u64,
}

/// I5: of two messages by one sender to one recipient with one priority, of which the first was acknowledged before the
/// second was sent, the first is delivered first.
fn order(told: &Told<'_>, trails: &Trails, received: &[&Received], report: &mut Report<'_>) {
    let of_call = deliveries_of(trails);
    let first_tries = received.iter().enumerate().filter(|(_, one)| one.attempt == 1);
    let places: HashMap<u64, usize> = first_tries.map(|(index, one)| (one.lease.delivery, index)).collect();
    let mut fronts: HashMap<(&str, &str, u8), Front> = HashMap::new();
    for event in told.history {
        let (id, is_start) = match event {
            Event::Started(call) => (call.id.as_str(), true),
            Event::Done { call, .. } => (call.as_str(), false),
            _ => continue,
        };
        for (number, trail) in of_call.get(id).into_iter().flatten() {
            let Some(token) = trail.tokens.first().copied() else { continue };
            let place = places.get(number).copied();
            let line = (trail.from.as_str(), trail.agent.as_str(), trail.level);
            let front = fronts.entry(line).or_default();
            if is_start {
                let Front { delivery, .. } = *front;
                report.require(token > front.token, "I5 order", || {
                    format!("delivery {number} of {id} overtook {delivery}: it has token {token}")
                });
                let in_place = place.is_none() || front.place.is_none() || place > front.place;
                report.require(in_place, "I5 order as received", || {
                    format!("delivery {number} of {id} was received before {delivery}")
                });
            } else if token > front.token {
                *front = Front { token, place: place.max(front.place), delivery: *number };
            }
        }
    }
}

fn deliveries_of(trails: &Trails) -> HashMap<&str, Vec<(u64, &Trail)>> {
    let mut of_call: HashMap<&str, Vec<_>> = HashMap::new();
    for (number, trail) in &trails.deliveries {
        of_call.entry(trail.origin.0.as_str()).or_default().push((*number, trail));
    }
    of_call
}
