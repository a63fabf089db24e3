//! Verifies that the log is unchanged and that the tables match it. Offline and read-only.
//!
//! The log of each space is read once, record by record: the hash chain, the payload digests, the timestamps, and that
//! every effect is possible in the state before it. The state that results from replaying the records is then compared
//! with the tables. Damage to the log is classified by its cause (edited, deleted, reordered, truncated, forked).
//!
//! Out of scope: repair, and the idempotency keys, which are in no record and cannot be derived.

mod append_only;
mod chain_break;
mod ended_index;
mod log_walk;
mod payload_parts;
mod preconditions;
mod raw_rows;
mod replay;
mod tables;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use quorate_core::{Seq, SpaceNo, Timestamp};
use quorate_store::{Clock as _, SystemClock};

use crate::directory::{OpenError, private_directory};
use crate::directory_lock::DirectoryLock;
use crate::offline::OfflineDatabase;
use raw_rows::SpaceRow;

/// Position in the log, with its hash, that was stored outside the data directory. A matching checkpoint proves that
/// everything up to it is unchanged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogCheckpoint {
    /// Name of the space.
    pub space: String,
    /// Sequence number of the record.
    pub seq: Seq,
    /// Chain hash of the record.
    pub hash: [u8; 32],
}

/// Kind of damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The content of a record does not match its hash, or a payload does not match its digest.
    Edited,
    /// A record is missing.
    Deleted,
    /// The record is stored at another position.
    Reordered,
    /// The log ends before its head, or before a checkpoint.
    Truncated,
    /// The chain is intact, but differs from the head or a checkpoint, or contains a record that no hub writes.
    Forked,
    /// The log is intact, but a derived table does not match it.
    Tables,
}

impl Damage {
    /// Name of the damage in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Edited => "edited",
            Self::Deleted => "deleted",
            Self::Reordered => "reordered",
            Self::Truncated => "truncated",
            Self::Forked => "forked",
            Self::Tables => "tables",
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Defect found by a verification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Defect {
    /// Name of the space; empty if the defect concerns the whole file.
    pub space: String,
    /// Sequence number of the record. For a table: of the record that the row is derived from.
    pub seq: Seq,
    /// Kind of damage.
    pub damage: Damage,
    /// Human-readable description: what differs, and whether later records are affected.
    pub detail: String,
}

/// Result for one space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceReport {
    /// Name of the space.
    pub name: String,
    /// Number of valid records, counted from the first up to the first invalid one.
    pub records: u64,
    /// Sequence number of the newest record, from the row of the space.
    pub head_seq: Seq,
    /// Chain hash of the newest record, from the row of the space. If there is no defect, it can be used as a checkpoint.
    pub head_hash: [u8; 32],
    /// Time of the newest record, from the row of the space.
    pub head_at: Timestamp,
    /// Number of erased payload parts.
    pub erased: u64,
    /// Number of checkpoints of this space that match the log.
    pub checkpoints: u64,
    /// First defect of this space.
    pub defect: Option<Defect>,
}

/// Result of a verification.
#[derive(Clone, PartialEq, Debug)]
pub struct VerifyReport {
    /// Whether there is no defect.
    pub ok: bool,
    /// Result of each space, in the order of creation.
    pub spaces: Vec<SpaceReport>,
    /// First defect.
    pub first_defect: Option<Defect>,
    /// Duration of the verification.
    pub seconds: f64,
}

/// Verifies a data directory that no hub uses, for consistency and against checkpoints, if given. The directory is not
/// changed. If a crash left a write-ahead log behind, a temporary copy is verified, because SQLite cannot recover a log
/// without writing.
///
/// Without a checkpoint, a history that was rewritten completely, or truncated together with its head, is not detected.
///
/// # Errors
/// Fails if the directory is in use, missing, not a Quorate data directory, has a newer format, or is so damaged that
/// the log cannot be read.
pub fn verify(dir: &Path, checkpoint: Option<&[LogCheckpoint]>) -> Result<VerifyReport, OpenError> {
    let mut report = verify_directory(dir, checkpoint)?;
    let private = private_directory(dir);
    if private.exists() {
        // Details of the private data are only visible to moderators, who verify that directory separately. Here it
        // only has to be intact.
        let private_report = verify_directory(&private, None)?;
        report.ok &= private_report.ok;
        report.seconds += private_report.seconds;
        let in_private =
            |defect: Defect| Defect { space: format!("quorate.private/{}", defect.space), ..defect };
        report.first_defect = report.first_defect.or_else(|| private_report.first_defect.map(in_private));
    }
    Ok(report)
}

/// Like [`verify`], without the nested private directory.
fn verify_directory(dir: &Path, checkpoint: Option<&[LogCheckpoint]>) -> Result<VerifyReport, OpenError> {
    verify_database(&OfflineDatabase::open(dir)?, checkpoint)
}

/// Like [`verify`], for a directory that this process has locked, and without the nested private directory.
///
/// # Errors
/// Like [`verify`].
pub fn verify_locked(lock: &DirectoryLock) -> Result<VerifyReport, OpenError> {
    verify_database(&OfflineDatabase::open_locked(lock)?, None)
}

fn verify_database(
    offline: &OfflineDatabase,
    checkpoint: Option<&[LogCheckpoint]>,
) -> Result<VerifyReport, OpenError> {
    let clock = SystemClock::new();
    let failed = |source| offline.sqlite_error("read the spaces", source);
    let checkpoints = by_space(checkpoint.unwrap_or_default());
    let mut spaces = Vec::new();
    let mut first_defect = None;
    for row in raw_rows::space_rows(&offline.connection).map_err(failed)? {
        // Space numbers are dense, so a gap means that a space was deleted.
        let expected = SpaceNo(spaces.len() as u64 + 1);
        if row.number != expected && first_defect.is_none() {
            first_defect = Some(missing_space(expected));
        }
        let no_checkpoints = Vec::new();
        let space_checkpoints = checkpoints.get(row.name.as_str()).unwrap_or(&no_checkpoints);
        let report = verify_space(offline, &row, space_checkpoints)?;
        first_defect = first_defect.or_else(|| report.defect.clone());
        spaces.push(report);
    }
    for (name, space_checkpoints) in &checkpoints {
        if first_defect.is_none() && !spaces.iter().any(|space| space.name == *name) {
            let detail = format!(
                "the space does not exist, but there is a checkpoint of its record {}",
                space_checkpoints[0].seq
            );
            first_defect =
                Some(Defect { space: (*name).into(), seq: Seq(1), damage: Damage::Truncated, detail });
        }
    }
    if first_defect.is_none() {
        first_defect = offline.lost_data()?;
    }
    if first_defect.is_none() {
        first_defect = tables::check_file(&offline.connection, spaces.len() as u64)
            .or_else(|source| unreadable(offline, "", Seq(0), Damage::Tables, source).map(Some))?;
    }
    let seconds = clock.now().mono.0 as f64 / 1000.0;
    Ok(VerifyReport { ok: first_defect.is_none(), spaces, first_defect, seconds })
}

fn by_space(checkpoints: &[LogCheckpoint]) -> BTreeMap<&str, Vec<&LogCheckpoint>> {
    let mut sorted: BTreeMap<&str, Vec<&LogCheckpoint>> = BTreeMap::new();
    for checkpoint in checkpoints {
        sorted.entry(checkpoint.space.as_str()).or_default().push(checkpoint);
    }
    sorted.values_mut().for_each(|checkpoints| checkpoints.sort_by_key(|checkpoint| checkpoint.seq));
    sorted
}

fn missing_space(number: SpaceNo) -> Defect {
    let detail = format!("space number {number} is missing, but later ones exist");
    Defect { space: String::new(), seq: Seq(1), damage: Damage::Deleted, detail }
}

/// Verifies the log of a space and, if it is intact, the tables.
fn verify_space(
    offline: &OfflineDatabase,
    row: &SpaceRow,
    checkpoints: &[&LogCheckpoint],
) -> Result<SpaceReport, OpenError> {
    let mut report = SpaceReport {
        name: row.name.clone(),
        records: 0,
        head_seq: row.head_seq,
        head_hash: row.head_hash,
        head_at: row.head_at,
        erased: 0,
        checkpoints: 0,
        defect: None,
    };
    let mut walk = match log_walk::LogWalk::new(&offline.connection, row, checkpoints) {
        Ok(walk) => walk,
        Err(defect) => {
            report.defect = Some(defect);
            return Ok(report);
        }
    };
    let result = walk.run();
    report.records = walk.valid_records;
    report.checkpoints = walk.checkpoints_matched;
    report.erased = walk.replayed.space.erased.len() as u64;
    let at = Seq(walk.valid_records + 1);
    report.defect =
        result.or_else(|source| unreadable(offline, &row.name, at, Damage::Edited, source).map(Some))?;
    if report.defect.is_none() {
        report.defect = walk.table_defect.take().or_else(|| tables::check_head(row, walk.last_at));
    }
    Ok(report)
}

/// Reports a page that SQLite cannot read as a defect; any other error aborts the verification.
fn unreadable(
    offline: &OfflineDatabase,
    space: &str,
    seq: Seq,
    damage: Damage,
    source: rusqlite::Error,
) -> Result<Defect, OpenError> {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match source.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => {
            let detail = match offline.disk.damaged_page() {
                Some(page) => page.to_string(),
                None => format!("SQLite cannot read a page of the file: {source}"),
            };
            Ok(Defect { space: space.into(), seq, damage, detail })
        }
        _ => Err(offline.sqlite_error("read the data", source)),
    }
}
