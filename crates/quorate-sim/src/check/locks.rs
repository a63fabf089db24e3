//! I12: fences strictly increase per name for ever, at most `capacity` hold a lock, and a write that names a lower fence
//! than one already seen is refused.

use std::collections::{BTreeMap, HashMap};

use quorate_core::{Effect, Item, Lock, Verb, codec};

use crate::check::{Found, Report, Told};
use crate::history::{Act, Event, LockAct, origin};

pub(super) fn check(told: &Told<'_>, found: &Found, report: &mut Report<'_>) {
    in_the_log(told, found, report);
    in_the_history(told, report);
}

/// What the log says of each lock, and which writes it let through.
fn in_the_log(told: &Told<'_>, found: &Found, report: &mut Report<'_>) {
    let mut locks: BTreeMap<String, Lock> = BTreeMap::new();
    let mut given: HashMap<(String, u64), String> = HashMap::new();
    for record in &found.records {
        // That every record is readable is checked elsewhere.
        let Ok(body) = codec::read_body(record) else { continue };
        for effect in &body.effects {
            match effect {
                Effect::Changed { verb, item: Item::Lock(lock) } => {
                    let before = locks.insert(lock.name.to_string(), lock.clone());
                    let last = before.map_or(0, |before| before.last_fence.0);
                    let seq = record.seq;
                    if *verb == Verb::LockGranted {
                        report.require(lock.last_fence.0 > last, "I12 fences rise for ever", || {
                            format!(
                                "record {seq} gives fence {} of {} after {last}",
                                lock.last_fence, lock.name
                            )
                        });
                        let holder =
                            lock.grants.last().and_then(|grant| found.published.agents.get(grant.holder));
                        let holder = holder.map_or(String::new(), |agent| agent.id.to_string());
                        given.insert((lock.name.to_string(), lock.last_fence.0), holder);
                    }
                    let fits = lock.grants.len() <= lock.capacity as usize && lock.last_fence.0 >= last;
                    report.require(fits, "I12 at most so many hold a lock", || {
                        format!("after record {seq}: {lock:?}, and the last fence before was {last}")
                    });
                }
                Effect::Written { part, .. } => {
                    let content = codec::part(record, *part).ok().flatten();
                    let call = content.map_or(String::new(), |content| origin(&content.bytes).0);
                    let act = told.calls.get(call.as_str()).map(|call| &call.act);
                    if let Some(Act::Lock(LockAct::Write { lock, fence, .. })) = act {
                        let good = locks.get(lock).is_some_and(|lock| {
                            lock.last_fence.0 == *fence || lock.grants.iter().any(|one| one.fence.0 == *fence)
                        });
                        report.require(good, "I12 a stale fence is refused", || {
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
    for (id, answer) in &told.done {
        let by = told.calls.get(id).map_or("", |call| call.by.as_str());
        for fence in &answer.fences {
            let holder = given.get(fence).map(String::as_str);
            report.require(holder == Some(by), "I12 an acknowledged lock was given", || {
                format!("{id} by {by} was told {fence:?}, the log gives it to {holder:?}")
            });
        }
    }
}

/// What clients saw, without the log: a fence that was told before a call began is lower than one that the call is told,
/// and higher than none under which it writes.
fn in_the_history(told: &Told<'_>, report: &mut Report<'_>) {
    let mut highest: HashMap<&str, u64> = HashMap::new();
    let mut at_start: HashMap<&str, HashMap<&str, u64>> = HashMap::new();
    let mut seen: HashMap<(&str, u64), &str> = HashMap::new();
    for event in told.history {
        match event {
            Event::Started(call) if matches!(call.act, Act::Lock(_)) => {
                at_start.insert(&call.id, highest.clone());
            }
            Event::Done { call, answer } => {
                let Some(before) = at_start.get(call.as_str()) else { continue };
                for (name, fence) in &answer.fences {
                    let earlier = before.get(name.as_str()).copied().unwrap_or(0);
                    report.require(*fence > earlier, "I12 fences rise for ever", || {
                        format!(
                            "{call} was told fence {fence} of {name}, and {earlier} was told before it began"
                        )
                    });
                    let other = seen.insert((name, *fence), call);
                    report.require(other.is_none_or(|other| other == call), "I12 no fence twice", || {
                        format!("{call} and {other:?} were told fence {fence} of {name}")
                    });
                    let high = highest.entry(name).or_default();
                    *high = (*high).max(*fence);
                }
                if let Some(Act::Lock(LockAct::Write { lock, fence, .. })) =
                    told.calls.get(call.as_str()).map(|call| &call.act)
                {
                    let earlier = before.get(lock.as_str()).copied().unwrap_or(0);
                    report.require(*fence >= earlier, "I12 a stale fence is refused", || {
                        format!("{call} wrote under fence {fence} of {lock}, and {earlier} was told before it began")
                    });
                }
            }
            _ => {}
        }
    }
}
