//! I11: versions have no gaps and are unique, no update is lost, history never changes.

use std::collections::HashMap;

use crate::check::{ClientIndex, LogTrace, StoreContents, ViolationReport};
use crate::history::{CallOp, Event, digest};

pub(super) fn check(
    clients: &ClientIndex<'_>,
    found: &StoreContents,
    trails: &LogTrace,
    report: &mut ViolationReport<'_>,
) {
    dense(found, trails, report);
    written(clients, trails, report);
    seen(clients, trails, report);
}

/// Each version is the previous one plus 1, and the tables contain the same history as the log.
fn dense(found: &StoreContents, trails: &LogTrace, report: &mut ViolationReport<'_>) {
    for (key, writings) in &trails.writes {
        for (index, writing) in writings.iter().enumerate() {
            let expected = index as u64 + 1;
            report.require(writing.version == expected, "I11 version = previous + 1", || {
                format!("{key}: record {} wrote version {} after {index}", writing.seq, writing.version)
            });
        }
        let in_log: Vec<(u64, String)> =
            writings.iter().map(|writing| (writing.version, writing.digest.clone())).collect();
        let in_tables = found.entries.get(key);
        report.require(in_tables == Some(&in_log), "I11 the tables match the log", || {
            format!("{key}: the log has {in_log:?}, the tables have {in_tables:?}")
        });
    }
}

/// Each acknowledged write is stored with its version and content, directly after the version it expected.
fn written(clients: &ClientIndex<'_>, trails: &LogTrace, report: &mut ViolationReport<'_>) {
    let mut versions: HashMap<(&str, u64), &str> = HashMap::new();
    for (id, answer) in &clients.done {
        let Some(call) = clients.calls.get(id) else { continue };
        let (CallOp::Put { key, expect, .. } | CallOp::Step { key, expect, .. }) = &call.act else {
            continue;
        };
        let version = answer.versions.first().copied().unwrap_or_default();
        report.require(version == expect + 1, "I11 no lost update", || {
            format!("{id} wrote {key} expecting {expect} and got version {version}")
        });
        if let Some(other) = versions.insert((key, version), id) {
            report.add(
                "I11 versions are unique",
                format!("{id} and {other} both wrote version {version} of {key}"),
            );
        }
        let list = trails.writes.get(key).map_or(&[][..], Vec::as_slice);
        let writing = list.iter().find(|writing| writing.version == version);
        let same = writing.is_some_and(|one| one.call == *id && one.digest == digest(&call.payloads()[0]));
        report.require(same, "I11 an acknowledged write is durable", || {
            format!("{id} wrote version {version} of {key}, the log has {writing:?}")
        });
    }
}

/// An observed version never changes, and a read sees every write acknowledged before it started.
fn seen(clients: &ClientIndex<'_>, trails: &LogTrace, report: &mut ViolationReport<'_>) {
    for event in clients.history {
        let Event::EntryRead { key, version, digest, at_least } = event else { continue };
        report.require(version >= at_least, "I11 reads are linearizable", || {
            format!("{key}: version {at_least} was acknowledged, then a read saw {version}")
        });
        let list = trails.writes.get(key).map_or(&[][..], Vec::as_slice);
        let found = list.iter().find(|writing| writing.version == *version);
        let same =
            if *version == 0 { found.is_none() } else { found.is_some_and(|one| one.digest == *digest) };
        report.require(same, "I11 history never changes", || {
            format!("{key}: version {version} was read as {digest}, the log has {found:?}")
        });
    }
}
