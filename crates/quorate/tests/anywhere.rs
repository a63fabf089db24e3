//! What holds wherever the hub is, with a hub in this process.
#![allow(missing_docs)]

mod scenarios;

use quorate::Hub;
use scenarios::Stage;
use tempfile::TempDir;

async fn here() -> (Stage, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = Hub::open(directory.path().join("team")).await.expect("the hub opens");
    (Stage { inside: hub.clone(), hub }, directory)
}

scenarios!(here);
