//! The [`Store`](quorate_store::Store) on SQLite: WAL, `synchronous=FULL`, one writer thread, one sync for many commits.
//!
//! The way of a commit: [`queue`] → [`writer`] (core decides, [`write`] carries the effects into tables, one COMMIT) →
//! answer. The line where a message becomes durable is `commit_batch` in `writer.rs`.

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
