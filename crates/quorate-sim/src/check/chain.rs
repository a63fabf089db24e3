//! I17: the log has no gaps, its hash chain verifies, observed records never change, and replaying it gives the live
//! state.

use quorate_core::{ReplayedSpace, hash_chain};

use crate::check::{ClientIndex, StoreContents, ViolationReport};
use crate::history::Event;
use quorate_core::hex;

pub(super) fn check(clients: &ClientIndex<'_>, contents: &StoreContents, report: &mut ViolationReport<'_>) {
    links(contents, report);
    heads(clients, contents, report);
    responses(clients, contents, report);
    replay(contents, report);
}

fn links(contents: &StoreContents, report: &mut ViolationReport<'_>) {
    let mut previous = hash_chain::genesis_hash(contents.id);
    let mut at = 0;
    for (index, record) in contents.records.iter().enumerate() {
        let expected = index as u64 + 1;
        report.require(record.seq.0 == expected, "I17 no gaps", || {
            format!("found record {}, expected {expected}", record.seq)
        });
        report.require(record.at.0 >= at, "I17 timestamps never decrease", || {
            format!("record {} is earlier than its predecessor", record.seq)
        });
        let header = hash_chain::RecordHeader {
            seq: record.seq,
            at: record.at,
            format: record.format,
            kind: record.kind,
            principal: &record.principal,
        };
        let hash = hash_chain::record_hash(&previous, &header, &record.body);
        report.require(hash == record.hash, "I17 the hash chain verifies", || {
            format!("the hash of record {} does not match its predecessor", record.seq)
        });
        (previous, at) = (record.hash, record.at.0);
    }
    let head = contents.published.head;
    let last = contents.records.last().map(|record| (record.seq, record.hash));
    report.require(last == Some((head.seq, head.hash)), "I17 the head is the last record", || {
        format!("the head is {}, the log has {} records", head.seq, contents.records.len())
    });
}

/// Acknowledged records are present after the next start, and a record that was present never disappears.
fn heads(clients: &ClientIndex<'_>, contents: &StoreContents, report: &mut ViolationReport<'_>) {
    let mut acknowledged = 0;
    for event in clients.history {
        match event {
            Event::Done { response, .. } => acknowledged = acknowledged.max(response.seq.unwrap_or_default()),
            Event::Opened { head, hash } => {
                report.require(*head >= acknowledged, "I1 acknowledged means on disk", || {
                    format!("record {acknowledged} was acknowledged, the store reopened at {head}")
                });
                let index = usize::try_from(*head).unwrap_or_default().wrapping_sub(1);
                let stored = contents.records.get(index).map(|record| hex::encode(&record.hash));
                report.require(stored.as_ref() == Some(hash), "I17 history never changes", || {
                    format!("record {head} had the hash {hash}, now it has {stored:?}")
                });
            }
            _ => {}
        }
    }
}

/// Every acknowledged change is exactly one record, with the caller as its principal.
fn responses(clients: &ClientIndex<'_>, contents: &StoreContents, report: &mut ViolationReport<'_>) {
    let mut call_of_record = std::collections::HashMap::new();
    for (id, response) in &clients.done {
        let Some(seq) = response.seq else { continue };
        if let Some(other) = call_of_record.insert(seq, id) {
            report.add("I17 one change, one record", format!("{id} and {other} both got record {seq}"));
        }
        let record = usize::try_from(seq).ok().and_then(|seq| contents.records.get(seq.wrapping_sub(1)));
        let by = clients.calls.get(id).map(|call| format!("agent:{}", call.by));
        report.require(
            record.map(|record| &record.principal) == by.as_ref(),
            "I17 the principal of a record is the caller",
            || {
                format!(
                    "{id} by {by:?} got record {seq}, which is by {:?}",
                    record.map(|record| &record.principal)
                )
            },
        );
    }
}

/// Replaying the log gives the contents of the tables.
fn replay(contents: &StoreContents, report: &mut ViolationReport<'_>) {
    let mut space = ReplayedSpace::new(contents.id);
    for record in &contents.records {
        if let Err(error) = space.apply(record) {
            return report.add("I17 the log can be replayed", format!("record {}: {error}", record.seq));
        }
    }
    let (replayed, live) = (space.working.counts(), contents.published.counts);
    report.require(replayed == live, "I7 the counts add up", || {
        format!("the log gives {replayed:?}, the tables contain {live:?}")
    });
    let (replayed, live) = (space.working.agents(), &contents.published.agents);
    report.require(replayed == live, "the log and the tables have the same agents", || {
        format!("the log gives {replayed:?}, the tables contain {live:?}")
    });
    let created = space.working.stored_counters().next_delivery - 1;
    let in_tables = contents.states.iter().flatten().count() as u64;
    report.require(created == in_tables, "I7 every delivery is in exactly one state", || {
        format!("the log creates {created} deliveries, the tables contain {in_tables}")
    });
}
