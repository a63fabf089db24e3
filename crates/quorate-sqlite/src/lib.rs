//! SQLite backend of the [`Store`](quorate_store::Store): WAL mode, `synchronous=FULL`, one writer thread, group commit.
//!
//! Path of a commit: it is pushed to the write queue; the writer thread takes a batch, lets quorate-core decide each
//! commit, appends the records to the `log` table and runs one SQLite COMMIT for the whole batch; then it responds to
//! the callers. A message becomes durable in `commit_batch` in `writer.rs`.
//!
//! All other tables are derived from the log. Changes to their rows are collected in a memtable and flushed in bulk.

mod backup;
mod baseline;
mod checkpoint;
mod checksum;
mod directory;
mod directory_lock;
mod disk;
mod ended_index;
mod export;
mod flush;
mod hold_histogram;
mod incomplete;
mod load;
mod lookup;
mod memtable;
mod offline;
mod queue;
mod read;
mod readers;
mod responder;
mod rollback_planner;
mod schema;
mod sqlite_store;
mod symlinks;
mod verify;
mod witness;
mod write_statements;
mod writer;

#[cfg(feature = "sabotage")]
mod sabotage;

pub use backup::{BackupError, RestoreError, backup, backup_dry_run, restore, restore_dry_run};
pub use baseline::{Baseline, run_baseline};
pub use directory::{OpenError, database_bytes, private_directory};
pub use directory_lock::{DirectoryLock, lock_holder};
#[cfg(feature = "faults")]
pub use disk::faults::{Faults, Repeat, UnsyncedData};
pub use disk::{Counters, Disk, FileCounters, FileKind};
pub use export::{ExportError, ExportLine, SpaceIds, checkpoints, export};
#[cfg(feature = "sabotage")]
pub use sabotage::Sabotage;
pub use sqlite_store::{Options, SqliteStore};
pub use verify::{Damage, Defect, LogCheckpoint, SpaceReport, VerifyReport, verify, verify_locked};
