//! `quorate memory check`: prints the inconsistencies of the shared memory.

use quorate_api::rollback::{ConsistencyCounts, ConsistencyReport};
use serde_json::Value;

use crate::hub::Hub;
use crate::output::{Column, OutputArgs, field, format_time, to_text};
use crate::terminal;

const COLUMNS: &[Column] = &[
    ("KIND", |finding| field(finding, "kind")),
    ("WHAT", |finding| match field(finding, "kind").as_str() {
        "cycle" => field(finding, "keys"),
        "resultless" => format!("task {}", field(finding, "task")),
        _ => versioned(finding, "key", "version"),
    }),
    ("BECAUSE", |finding| match field(finding, "kind").as_str() {
        "cycle" => "they depend on each other".to_owned(),
        "resultless" => format!("{} without a result", field(finding, "status")),
        "stale" => {
            let current = to_text(&finding["currentVersion"]);
            format!("depends on {}, which is at version {current}", versioned(finding, "on", "onVersion"))
        }
        _ => format!("depends on {}, which was deleted", versioned(finding, "on", "onVersion")),
    }),
];

fn versioned(finding: &Value, key: &str, version: &str) -> String {
    format!("{} version {}", field(finding, key), to_text(&finding[version]))
}

pub(super) async fn run(hub: &Hub, output: &OutputArgs, last: bool) -> anyhow::Result<()> {
    let query = [("last", last.then(|| "true".to_owned()))];
    let response = hub.get("/v1/context:check", &query).await?;
    output.rows(&response, "findings", COLUMNS)?;
    let report: ConsistencyReport = serde_json::from_str(&response)?;
    let found = inconsistencies(&report.counts);
    let found = if found.is_empty() { "consistent".to_owned() } else { found };
    let ConsistencyCounts { entries, tasks, .. } = report.counts;
    let checked = format!("checked {entries} entries and {tasks} ended tasks");
    let rest = if report.complete { "" } else { "; there are more, which were not checked" };
    let at = format_time(&serde_json::to_value(report.at)?);
    terminal::note(format!("{found}; {checked} at {at}{rest}"));
    Ok(())
}

/// Describes how many inconsistencies a check found; empty if there are none.
pub(crate) fn inconsistencies(counts: &ConsistencyCounts) -> String {
    let ConsistencyCounts { dangling, stale, cyclic, resultless, .. } = *counts;
    let counted = |count: u64, one: &str, several: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {several}")),
    };
    let found = [
        counted(cyclic, "cycle of dependencies", "cycles of dependencies"),
        counted(dangling, "entry depends on a deleted one", "entries depend on deleted ones"),
        counted(stale, "entry depends on an outdated version", "entries depend on outdated versions"),
        counted(resultless, "task is done without a result", "tasks are done without a result"),
    ];
    found.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
