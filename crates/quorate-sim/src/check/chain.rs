//! I17: the log is dense, its chain verifies, what was seen of it never changed, and folding it gives the live state.

use quorate_core::{World, chain};

use crate::check::{Found, Report, Told};
use crate::history::Event;
use quorate_core::hex;

pub(super) fn check(told: &Told<'_>, found: &Found, report: &mut Report<'_>) {
    links(found, report);
    heads(told, found, report);
    answers(told, found, report);
    fold(found, report);
}

fn links(found: &Found, report: &mut Report<'_>) {
    let mut previous = chain::first_previous(found.id);
    let mut at = 0;
    for (index, record) in found.records.iter().enumerate() {
        let expected = index as u64 + 1;
        report.require(record.seq.0 == expected, "I17 no gaps", || {
            format!("record {} stands where {expected} should", record.seq)
        });
        report.require(record.at.0 >= at, "I17 time never goes back", || {
            format!("record {} is earlier than the one before", record.seq)
        });
        let header = chain::Header {
            seq: record.seq,
            at: record.at,
            format: record.format,
            kind: record.kind,
            principal: &record.principal,
        };
        let hash = chain::record_hash(&previous, &header, &record.body);
        report.require(hash == record.hash, "I17 the chain verifies", || {
            format!("record {} does not follow from the one before", record.seq)
        });
        (previous, at) = (record.hash, record.at.0);
    }
    let head = found.published.head;
    let last = found.records.last().map(|record| (record.seq, record.hash));
    report.require(last == Some((head.seq, head.hash)), "I17 the head is the last record", || {
        format!("the head is {}, the log has {} records", head.seq, found.records.len())
    });
}

/// What was acknowledged is there at the next start, and what was there once is there for ever.
fn heads(told: &Told<'_>, found: &Found, report: &mut Report<'_>) {
    let mut acknowledged = 0;
    for event in told.history {
        match event {
            Event::Done { answer, .. } => acknowledged = acknowledged.max(answer.seq.unwrap_or_default()),
            Event::Opened { head, hash } => {
                report.require(*head >= acknowledged, "I1 acknowledged means on disk", || {
                    format!("record {acknowledged} was acknowledged, the store came back with {head}")
                });
                let index = usize::try_from(*head).unwrap_or_default().wrapping_sub(1);
                let now = found.records.get(index).map(|record| hex::encode(&record.hash));
                report.require(now.as_ref() == Some(hash), "I17 history never changes", || {
                    format!("record {head} had the hash {hash}, it has {now:?} now")
                });
            }
            _ => {}
        }
    }
}

/// Every acknowledged change is exactly one record, by the one who made the call.
fn answers(told: &Told<'_>, found: &Found, report: &mut Report<'_>) {
    let mut of_record = std::collections::HashMap::new();
    for (id, answer) in &told.done {
        let Some(seq) = answer.seq else { continue };
        if let Some(other) = of_record.insert(seq, id) {
            report.add("I17 one change, one record", format!("{id} and {other} were both told record {seq}"));
        }
        let record = usize::try_from(seq).ok().and_then(|seq| found.records.get(seq.wrapping_sub(1)));
        let by = told.calls.get(id).map(|call| format!("agent:{}", call.by));
        report.require(record.map(|record| &record.principal) == by.as_ref(), "I17 who acted", || {
            format!(
                "{id} by {by:?} was told record {seq}, which is by {:?}",
                record.map(|one| &one.principal)
            )
        });
    }
}

/// Replaying the log gives what the tables say.
fn fold(found: &Found, report: &mut Report<'_>) {
    let mut world = World::new(found.id);
    for record in &found.records {
        if let Err(error) = world.apply(record) {
            return report.add("I17 the log can be replayed", format!("record {}: {error}", record.seq));
        }
    }
    let (folded, live) = (world.working.counts(), found.published.counts);
    report.require(folded == live, "I7 the counts add up", || {
        format!("the log says {folded:?}, the tables say {live:?}")
    });
    let (folded, live) = (world.working.agents(), &found.published.agents);
    report.require(folded == live, "the log and the tables know the same agents", || {
        format!("the log says {folded:?}, the tables say {live:?}")
    });
    let made = world.working.kept().next_delivery - 1;
    let in_tables = found.states.iter().flatten().count() as u64;
    report.require(made == in_tables, "I7 every delivery is in exactly one state", || {
        format!("the log made {made} deliveries, the tables know {in_tables}")
    });
}
