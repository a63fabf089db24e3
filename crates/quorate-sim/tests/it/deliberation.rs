//! A deliberation in a hub that is killed, cut off, full or overloaded at any point: it goes on where it was, asks nobody again
//! for what is on record, and comes to the same result.

mod killed;
mod refused;
pub(crate) mod stage;

use std::path::Path;
use std::sync::Arc;

use quorate::{Hub, Settings};
use quorate_sqlite::{Disk, How, Options};
use serde_json::Value;
use stage::{Cast, spec, timeless};

/// On a disk whose power may go.
async fn deliberate(data: &Path, disk: Option<Arc<Disk>>) -> Option<(Value, Vec<String>)> {
    let store = Options { disk, ..Options::default() };
    let hub = Hub::open_with(data, Settings { store, ..Settings::default() }).await.ok()?;
    stage::deliberate(hub, Cast::Three, &spec(Cast::Three)).await
}

// Fails under: a state that is stored in another commit than what it asks; a question without an id of its own; an answer
// that is not heard after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_a_deliberation_goes_on_after_a_cut_at_any_operation_of_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    disk.faults().track();
    let whole = deliberate(&directory.path().join("whole"), Some(Arc::clone(&disk))).await;
    let (whole, messages) = whole.expect("nothing was cut");
    let whole = timeless(whole);
    assert_eq!(whole["synthesis"]["recommendation"], "do not sign", "{whole:#}");
    let ops = disk.faults().ops();
    let mut cut_in_time = 0;
    // A record is several writes and a sync: every second operation is at least one in each record.
    for op in (1..=ops).step_by(2) {
        let disk = Disk::new();
        disk.faults().track();
        disk.faults().cut_at(op);
        let (before, after) =
            (directory.path().join(format!("{op}")), directory.path().join(format!("{op}-on")));
        if deliberate(&before, Some(Arc::clone(&disk))).await.is_none() {
            cut_in_time += 1;
        }
        disk.faults().image(op, &after, How::KeepAll).unwrap();
        let (result, sent) = deliberate(&after, None).await.expect("nothing is cut");
        assert_eq!(timeless(result), whole, "cut at {op}");
        assert_eq!(sent, messages, "cut at {op}");
        std::fs::remove_dir_all(&after).unwrap();
    }
    assert!(cut_in_time * 3 > ops, "{cut_in_time} of {ops}");
}
