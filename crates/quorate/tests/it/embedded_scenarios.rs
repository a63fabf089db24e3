//! Runs the shared scenarios against an embedded hub.

use quorate::Hub;
use tempfile::TempDir;

use crate::scenarios::TestHub;

async fn embedded() -> (TestHub, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = Hub::open(directory.path().join("team")).await.expect("the hub opens");
    (TestHub { embedded: hub.clone(), hub }, directory)
}

crate::scenarios!(embedded);
