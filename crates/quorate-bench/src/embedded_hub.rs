//! Embedded hub under test: a data directory, the SQLite store and one space.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate_engine::{Engine, Space};
use quorate_sqlite::{OpenError, Options, SqliteStore};
use quorate_store::{Entropy, Store as _, SystemClock};
use tempfile::TempDir;

/// Embedded hub under test.
pub(crate) struct EmbeddedHub {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) space: Space,
    /// Temporary data directory, removed on drop; `None` if the caller owns the directory.
    _directory: Option<TempDir>,
}

impl EmbeddedHub {
    /// Opens a hub in a new temporary directory.
    pub(crate) async fn new(data: Option<&Path>) -> anyhow::Result<Self> {
        let directory = new_directory(data)?;
        let hub = Self::open(&directory.path().join("data")).await?;
        Ok(Self { _directory: Some(directory), ..hub })
    }

    /// Opens a hub in a directory that is not removed.
    pub(crate) async fn open(path: &Path) -> anyhow::Result<Self> {
        let mut opened = None;
        let engine = Engine::start(SystemClock::new(), Entropy::system(), |context| {
            let store = SqliteStore::open(path, Options::default(), context)?;
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

/// Creates a temporary directory that is removed on drop.
pub(crate) fn new_directory(data: Option<&Path>) -> anyhow::Result<TempDir> {
    let base = data.map_or_else(std::env::temp_dir, PathBuf::from);
    std::fs::create_dir_all(&base)?;
    Ok(tempfile::Builder::new().prefix("quorate-bench-").tempdir_in(base)?)
}
