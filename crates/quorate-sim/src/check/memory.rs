//! I11: versions have no gaps and are unique, no update is lost, history never changes.

use std::collections::HashMap;

use crate::check::{ClientIndex, LogTrace, StoreContents, ViolationReport};
use crate::history::{CallOp, Event, digest};

pub(super) fn check(
    clients: &ClientIndex<'_>,
    contents: &StoreContents,
    log: &LogTrace,
    report: &mut ViolationReport<'_>,
) {
    dense(contents, log, report);
    written(clients, log, report);
    seen(clients, log, report);
}

/// Each version is the previous one plus 1, and the tables contain the same history as the log.
fn dense(contents: &StoreContents, log: &LogTrace, report: &mut ViolationReport<'_>) {
    for (key, writes) in &log.writes {
        for (index, write) in writes.iter().enumerate() {
            let expected = index as u64 + 1;
            report.require(write.version == expected, "I11 version = previous + 1", || {
                format!("{key}: record {} wrote version {} after {index}", write.seq, write.version)
            });
        }
        let in_log: Vec<(u64, String)> =
            writes.iter().map(|write| (write.version, write.digest.clone())).collect();
        let in_tables = contents.entries.get(key);
        report.require(in_tables == Some(&in_log), "I11 the tables match the log", || {
            format!("{key}: the log has {in_log:?}, the tables have {in_tables:?}")
        });
    }
}

/// Each acknowledged write is stored with its version and content, directly after the version it expected.
fn written(clients: &ClientIndex<'_>, log: &LogTrace, report: &mut ViolationReport<'_>) {
    let mut versions: HashMap<(&str, u64), &str> = HashMap::new();
    for (id, response) in &clients.done {
        let Some(call) = clients.calls.get(id) else { continue };
        let (CallOp::Put { key, expect, .. } | CallOp::Step { key, expect, .. }) = &call.op else {
            continue;
        };
        let version = response.versions.first().copied().unwrap_or_default();
        report.require(version == expect + 1, "I11 no lost update", || {
            format!("{id} wrote {key} expecting {expect} and got version {version}")
        });
        if let Some(other) = versions.insert((key, version), id) {
            report.add(
                "I11 versions are unique",
                format!("{id} and {other} both wrote version {version} of {key}"),
            );
        }
        let list = log.writes.get(key).map_or(&[][..], Vec::as_slice);
        let write = list.iter().find(|write| write.version == version);
        let same =
            write.is_some_and(|write| write.call == *id && write.digest == digest(&call.payloads()[0]));
        report.require(same, "I11 an acknowledged write is durable", || {
            format!("{id} wrote version {version} of {key}, the log has {write:?}")
        });
    }
}

/// An observed version never changes, and a read sees every write acknowledged before it started.
fn seen(clients: &ClientIndex<'_>, log: &LogTrace, report: &mut ViolationReport<'_>) {
    for event in clients.history {
        let Event::EntryRead { key, version, digest, at_least } = event else { continue };
        report.require(version >= at_least, "I11 reads are linearizable", || {
            format!("{key}: version {at_least} was acknowledged, then a read saw {version}")
        });
        let list = log.writes.get(key).map_or(&[][..], Vec::as_slice);
        let write = list.iter().find(|write| write.version == *version);
        let same =
            if *version == 0 { write.is_none() } else { write.is_some_and(|write| write.digest == *digest) };
        report.require(same, "I11 history never changes", || {
            format!("{key}: version {version} was read as {digest}, the log has {write:?}")
        });
    }
}
