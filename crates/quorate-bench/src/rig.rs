//! A hub to measure: a data directory, the store and one space.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate_engine::{Engine, Space};
use quorate_sqlite::{OpenError, Options, SqliteStore};
use quorate_store::{Chance, Store as _, SystemClock};
use tempfile::TempDir;

/// A hub to measure.
pub(crate) struct Rig {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) space: Space,
    /// Removed with the rig, when the rig made it.
    _directory: Option<TempDir>,
}

impl Rig {
    /// A hub in a new directory.
    pub(crate) async fn new(data: Option<&Path>) -> anyhow::Result<Self> {
        let directory = new_directory(data)?;
        let rig = Self::open(&directory.path().join("data")).await?;
        Ok(Self { _directory: Some(directory), ..rig })
    }

    /// A hub in a directory that stays.
    pub(crate) async fn open(path: &Path) -> anyhow::Result<Self> {
        let mut opened = None;
        let engine = Engine::start(SystemClock::new(), Chance::system(), |wiring| {
            let store = SqliteStore::open(path, Options::default(), wiring)?;
            opened = Some(Arc::clone(&store));
            Ok::<_, OpenError>(store as _)
        })?;
        let store = opened.ok_or_else(|| anyhow::anyhow!("the store was not opened"))?;
        let space = engine.space("default".parse()?).await?;
        Ok(Self { store, space, _directory: None })
    }

    pub(crate) async fn close(self) {
        self.store.close().await;
    }
}

/// A directory that is removed when it is dropped.
pub(crate) fn new_directory(data: Option<&Path>) -> anyhow::Result<TempDir> {
    let base = data.map_or_else(std::env::temp_dir, PathBuf::from);
    std::fs::create_dir_all(&base)?;
    Ok(tempfile::Builder::new().prefix("quorate-bench-").tempdir_in(base)?)
}
