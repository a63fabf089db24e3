//! SQLite backend of the [`Store`](quorate_store::Store): WAL mode, `synchronous=FULL`, one writer thread, group commit.
//!
//! Path of a commit: it is pushed to the write queue; the writer thread takes a batch, lets quorate-core decide each
//! commit, appends the records to the `log` table and runs one SQLite COMMIT for the whole batch; then it responds to
//! the callers. A message becomes durable in `commit_batch` in `writer.rs`.
//!
//! All other tables are derived from the log. Changes to their rows are collected in a memtable and flushed in bulk.

mod answers;
mod backup;
mod bare;
mod carry;
mod checkpoint;
mod directory;
mod disk;
mod ends;
mod export;
mod holds;
mod load;
mod lookup;
mod offline;
mod open;
mod plan;
mod queue;
mod read;
mod readers;
mod schema;
mod tail;
mod verify;
mod write;
mod writer;

#[cfg(feature = "sabotage")]
mod sabotage;

pub use backup::{BackupError, RestoreError, backup, backup_dry, restore, restore_dry};
pub use bare::{Bare, bare_loop};
pub use directory::{OpenError, data_bytes, holder, private_of};
#[cfg(feature = "faults")]
pub use disk::faults::{Faults, How, Repeat};
pub use disk::{Counters, Disk, FileCounters, FileKind};
pub use export::{ExportError, ExportLine, SpaceIds, checkpoints, export};
pub use open::{Options, SqliteStore};
#[cfg(feature = "sabotage")]
pub use sabotage::Sabotage;
pub use verify::{Bad, Checkpoint, Damage, Report, SpaceReport, verify, verify_one};
