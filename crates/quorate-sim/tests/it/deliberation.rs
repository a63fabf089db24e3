//! Durability of a deliberation: if the hub is killed, loses power, is full or overloaded at any point, the
//! deliberation resumes, repeats no recorded question, and reaches the same result.

pub(crate) mod fixture;
mod kill_each_record;
mod transient_refusals;

use std::path::Path;
use std::sync::Arc;

use fixture::{AgentSet, spec, without_times};
use quorate::{Hub, HubOptions};
use quorate_sqlite::{Disk, Options, UnsyncedData};
use serde_json::Value;

/// Runs the deliberation on a disk whose power may fail.
async fn deliberate(data: &Path, disk: Option<Arc<Disk>>) -> Option<(Value, Vec<String>)> {
    let store = Options { disk, ..Options::default() };
    let hub = Hub::open_with(data, HubOptions { store, ..HubOptions::default() }).await.ok()?;
    fixture::run_deliberation(hub, AgentSet::Three, &spec(AgentSet::Three)).await
}

// Fails under: a state that is stored in another commit than its questions; a question without a client id; an answer
// that is not received after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_a_deliberation_resumes_after_a_power_cut_at_any_disk_operation() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    disk.faults().track();
    let reference = deliberate(&directory.path().join("reference"), Some(Arc::clone(&disk))).await;
    let (reference, messages) = reference.expect("no power cut");
    let reference = without_times(reference);
    assert_eq!(reference["synthesis"]["recommendation"], "do not sign", "{reference:#}");
    let ops = disk.faults().ops();
    let mut interrupted = 0;
    // A record takes several writes and a sync, so every second operation hits each record at least once.
    for op in (1..=ops).step_by(2) {
        let disk = Disk::new();
        disk.faults().track();
        disk.faults().cut_power_at(op);
        let (before, after) =
            (directory.path().join(format!("{op}")), directory.path().join(format!("{op}-recovered")));
        if deliberate(&before, Some(Arc::clone(&disk))).await.is_none() {
            interrupted += 1;
        }
        disk.faults().image(op, &after, UnsyncedData::KeepAll).unwrap();
        let (result, sent) = deliberate(&after, None).await.expect("no power cut");
        assert_eq!(without_times(result), reference, "cut at {op}");
        assert_eq!(sent, messages, "cut at {op}");
        std::fs::remove_dir_all(&after).unwrap();
    }
    assert!(interrupted * 3 > ops, "{interrupted} of {ops}");
}
