//! What holds wherever the hub is, with a hub in this process.

use quorate::Hub;
use tempfile::TempDir;

use crate::scenarios::Stage;

async fn here() -> (Stage, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = Hub::open(directory.path().join("team")).await.expect("the hub opens");
    (Stage { inside: hub.clone(), hub }, directory)
}

crate::scenarios!(here);
