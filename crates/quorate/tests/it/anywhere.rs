//! Runs the shared scenarios against an embedded hub.

use quorate::Hub;
use tempfile::TempDir;

use crate::scenarios::Stage;

async fn embedded() -> (Stage, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = Hub::open(directory.path().join("team")).await.expect("the hub opens");
    (Stage { inside: hub.clone(), hub }, directory)
}

crate::scenarios!(embedded);
