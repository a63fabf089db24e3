//! I12: the fences of a lock strictly increase forever, a lock has at most `capacity` holders, and a write with a stale
//! fence is refused.

use std::collections::{BTreeMap, HashMap};

use quorate_core::{Effect, Item, Lock, Verb, codec};

use crate::check::{ClientIndex, StoreContents, ViolationReport};
use crate::history::{CallOp, Event, LockOp, parse_origin};

pub(super) fn check(clients: &ClientIndex<'_>, contents: &StoreContents, report: &mut ViolationReport<'_>) {
    check_log(clients, contents, report);
    check_history(clients, report);
}

/// Checks the grants and the fenced writes in the log.
fn check_log(clients: &ClientIndex<'_>, contents: &StoreContents, report: &mut ViolationReport<'_>) {
    let mut locks: BTreeMap<String, Lock> = BTreeMap::new();
    let mut granted: HashMap<(String, u64), String> = HashMap::new();
    for record in &contents.records {
        // Unreadable records are reported by another check.
        let Ok(body) = codec::read_body(record) else { continue };
        for effect in &body.effects {
            match effect {
                Effect::Changed { verb, item: Item::Lock(lock) } => {
                    let before = locks.insert(lock.name.to_string(), lock.clone());
                    let last = before.map_or(0, |before| before.last_fence.0);
                    let seq = record.seq;
                    if *verb == Verb::LockGranted {
                        report.require(lock.last_fence.0 > last, "I12 fences always increase", || {
                            format!(
                                "record {seq} grants fence {} of {} after {last}",
                                lock.last_fence, lock.name
                            )
                        });
                        let holder =
                            lock.grants.last().and_then(|grant| contents.published.agents.get(grant.holder));
                        let holder = holder.map_or(String::new(), |agent| agent.id.to_string());
                        granted.insert((lock.name.to_string(), lock.last_fence.0), holder);
                    }
                    let within_capacity = lock.grants.len() <= lock.capacity as usize;
                    report.require(within_capacity, "I12 a lock has at most `capacity` holders", || {
                        format!("after record {seq}: {lock:?}")
                    });
                    report.require(lock.last_fence.0 >= last, "I12 fences never decrease", || {
                        format!("after record {seq}: {lock:?}, the previous fence was {last}")
                    });
                }
                Effect::Written { part, .. } => {
                    let content = codec::payload_part(record, *part).ok().flatten();
                    let call_id = content.map_or(String::new(), |content| parse_origin(&content.bytes).0);
                    let op = clients.calls.get(call_id.as_str()).map(|call| &call.op);
                    if let Some(CallOp::Lock(LockOp::Write { lock, fence, .. })) = op {
                        let is_current = locks.get(lock).is_some_and(|lock| {
                            lock.last_fence.0 == *fence
                                || lock.grants.iter().any(|grant| grant.fence.0 == *fence)
                        });
                        report.require(is_current, "I12 a stale fence is refused", || {
                            format!(
                                "record {} has a write under fence {fence} of {:?}",
                                record.seq,
                                locks.get(lock)
                            )
                        });
                    }
                }
                _ => {}
            }
        }
    }
    for (id, response) in &clients.done {
        let by = clients.calls.get(id).map_or("", |call| call.by.as_str());
        for fence in &response.fences {
            let holder = granted.get(fence).map(String::as_str);
            report.require(holder == Some(by), "I12 an acknowledged lock was granted", || {
                format!("{id} by {by} got {fence:?}, the log grants it to {holder:?}")
            });
        }
    }
}

/// Checks the client history without the log: a fence granted to a call is greater than every fence acknowledged
/// before the call started, and a successful write never uses a lower fence.
fn check_history(clients: &ClientIndex<'_>, report: &mut ViolationReport<'_>) {
    let mut highest: HashMap<&str, u64> = HashMap::new();
    let mut at_start: HashMap<&str, HashMap<&str, u64>> = HashMap::new();
    let mut granted_to: HashMap<(&str, u64), &str> = HashMap::new();
    for event in clients.history {
        match event {
            Event::Started(call) if matches!(call.op, CallOp::Lock(_)) => {
                at_start.insert(&call.id, highest.clone());
            }
            Event::Done { call: call_id, response } => {
                let Some(before) = at_start.get(call_id.as_str()) else { continue };
                for (name, fence) in &response.fences {
                    let earlier = before.get(name.as_str()).copied().unwrap_or(0);
                    report.require(*fence > earlier, "I12 fences always increase", || {
                        format!("{call_id} got fence {fence} of {name}, after {earlier} was granted")
                    });
                    let other = granted_to.insert((name, *fence), call_id);
                    report.require(
                        other.is_none_or(|other| other == call_id),
                        "I12 fences are unique",
                        || format!("{call_id} and {other:?} both got fence {fence} of {name}"),
                    );
                    let high = highest.entry(name).or_default();
                    *high = (*high).max(*fence);
                }
                if let Some(CallOp::Lock(LockOp::Write { lock, fence, .. })) =
                    clients.calls.get(call_id.as_str()).map(|call| &call.op)
                {
                    let earlier = before.get(lock.as_str()).copied().unwrap_or(0);
                    report.require(*fence >= earlier, "I12 a stale fence is refused", || {
                        format!("{call_id} wrote under fence {fence} of {lock}, after {earlier} was granted")
                    });
                }
            }
            _ => {}
        }
    }
}
