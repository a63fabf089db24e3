//! I11: versions are dense and unique, no update is lost, history never changes.

use std::collections::HashMap;

use crate::check::{Found, Report, Told, Trails};
use crate::history::{Act, Event, digest};

pub(super) fn check(told: &Told<'_>, found: &Found, trails: &Trails, report: &mut Report<'_>) {
    dense(found, trails, report);
    written(told, trails, report);
    seen(told, trails, report);
}

/// Version = previous + 1; the tables show the same history as the log.
fn dense(found: &Found, trails: &Trails, report: &mut Report<'_>) {
    for (key, writings) in &trails.writings {
        for (index, writing) in writings.iter().enumerate() {
            let expected = index as u64 + 1;
            report.require(writing.version == expected, "I11 version = previous + 1", || {
                format!("{key}: record {} wrote version {} after {index}", writing.seq, writing.version)
            });
        }
        let in_log: Vec<(u64, String)> =
            writings.iter().map(|writing| (writing.version, writing.digest.clone())).collect();
        let shown = found.entries.get(key);
        report.require(shown == Some(&in_log), "I11 the history is the one in the log", || {
            format!("{key}: the log has {in_log:?}, the tables show {shown:?}")
        });
    }
}

/// Each acknowledged write is there under its version with its content, and was made on the version it expected.
fn written(told: &Told<'_>, trails: &Trails, report: &mut Report<'_>) {
    let mut versions: HashMap<(&str, u64), &str> = HashMap::new();
    for (id, answer) in &told.done {
        let Some(call) = told.calls.get(id) else { continue };
        let (Act::Put { key, expect, .. } | Act::Step { key, expect, .. }) = &call.act else { continue };
        let version = answer.versions.first().copied().unwrap_or_default();
        report.require(version == expect + 1, "I11 no lost update", || {
            format!("{id} wrote {key} expecting {expect} and was told version {version}")
        });
        if let Some(other) = versions.insert((key, version), id) {
            report.add(
                "I11 no version twice",
                format!("{id} and {other} both wrote version {version} of {key}"),
            );
        }
        let list = trails.writings.get(key).map_or(&[][..], Vec::as_slice);
        let writing = list.iter().find(|writing| writing.version == version);
        let same = writing.is_some_and(|one| one.call == *id && one.digest == digest(&call.bodies()[0]));
        report.require(same, "I11 an acknowledged write is kept", || {
            format!("{id} wrote version {version} of {key}, the log has {writing:?}")
        });
    }
}

/// What was read once is still so, and a read sees every write that was acknowledged before it began.
fn seen(told: &Told<'_>, trails: &Trails, report: &mut Report<'_>) {
    for event in told.history {
        let Event::Saw { key, version, digest, at_least } = event else { continue };
        report.require(version >= at_least, "I11 linearizable", || {
            format!("{key}: version {at_least} was acknowledged, then a read saw {version}")
        });
        let list = trails.writings.get(key).map_or(&[][..], Vec::as_slice);
        let found = list.iter().find(|writing| writing.version == *version);
        let same =
            if *version == 0 { found.is_none() } else { found.is_some_and(|one| one.digest == *digest) };
        report.require(same, "I11 history never changes", || {
            format!("{key}: version {version} was read as {digest}, the log has {found:?}")
        });
    }
}
