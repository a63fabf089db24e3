//! Whether the log is what was written, and whether the tables are what the log says. Offline and read-only.
//!
//! The log of each space is walked once, record by record ([`walk`]): the chain of hashes, the payloads, the times, and
//! that every effect fits the ones before it. What the records fold to is then compared with the tables ([`tables`]).
//! Damage to the log has a name of its own for each way in which it comes about ([`mismatch`]).
//!
//! What is not here: repair, and the idempotency keys, which are in no record and cannot be derived from any.

mod ended;
mod fits;
mod folded;
mod mismatch;
mod parts;
mod rows;
mod said_once;
mod tables;
mod walk;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use quorate_core::{Seq, SpaceNo, Timestamp};
use quorate_store::{Clock as _, SystemClock};

use crate::directory::{OpenError, private_of};
use crate::offline::Offline;
use rows::SpaceRow;

/// A position in the log that somebody wrote down elsewhere. It proves that everything up to there is unchanged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// The space.
    pub space: String,
    /// The record.
    pub seq: Seq,
    /// The chain up to it.
    pub hash: [u8; 32],
}

/// What happened to the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// Stored bytes do not give the stored hash, or a payload not its digest.
    Edited,
    /// A record is missing.
    Deleted,
    /// The record that belongs here is at another place.
    Reordered,
    /// The log ends too early: before its head, or before a checkpoint.
    Truncated,
    /// The log is another one: the chain is whole, but not the one that a checkpoint or the head knows.
    Forked,
    /// The log is whole, but a table beside it does not say what the log says.
    Tables,
}

impl Damage {
    /// The word in reports.
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

/// The first thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bad {
    /// The space; empty when it is the file as a whole.
    pub space: String,
    /// The record. For a table: the record that the row is derived from.
    pub seq: Seq,
    /// What happened.
    pub damage: Damage,
    /// How that shows and how far it goes, for a person.
    pub detail: String,
}

/// What was found in one space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceReport {
    /// Its name.
    pub name: String,
    /// Records that are as they were written, from the first on without a break.
    pub records: u64,
    /// The newest record, as the head row says.
    pub head_seq: Seq,
    /// The chain up to it, as the head row says: a checkpoint, if nothing is bad.
    pub head_hash: [u8; 32],
    /// When the newest record was decided, as the head row says.
    pub head_at: Timestamp,
    /// Payload parts that were erased, each by a record.
    pub erased: u64,
    /// Checkpoints of this space that the log agrees with.
    pub checkpoints: u64,
    /// The first thing that is wrong in this space.
    pub bad: Option<Bad>,
}

/// What was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Whether all is well.
    pub ok: bool,
    /// Each space, in the order in which they were made.
    pub spaces: Vec<SpaceReport>,
    /// The first thing that is wrong.
    pub first_bad: Option<Bad>,
    /// How long it took.
    pub seconds: f64,
}

/// Verifies the data in a directory that no hub uses, against itself and against checkpoints if there are any. The
/// directory is left exactly as it is. When a write-ahead log was left behind by a crash, a temporary copy is verified,
/// because SQLite cannot read one without writing beside it.
///
/// Without a checkpoint a history that was rewritten as a whole, or cut off together with its head, is not found out.
///
/// # Errors
/// When the directory is in use, missing, not ours, newer, or so damaged that there is no log to walk.
pub fn verify(dir: &Path, checkpoint: Option<&[Checkpoint]>) -> Result<Report, OpenError> {
    let mut report = verify_one(dir, checkpoint)?;
    let private = private_of(dir);
    if private.exists() {
        // Where that stands is for moderators to know, who verify it by itself; here it only must be whole.
        let hidden = verify_one(&private, None)?;
        report.ok &= hidden.ok;
        report.seconds += hidden.seconds;
        let inside = |bad: Bad| Bad { space: format!("quorate.private/{}", bad.space), ..bad };
        report.first_bad = report.first_bad.or_else(|| hidden.first_bad.map(inside));
    }
    Ok(report)
}

/// As [`verify`], of this directory alone, without what is private beside it.
///
/// # Errors
/// As [`verify`].
pub fn verify_one(dir: &Path, checkpoint: Option<&[Checkpoint]>) -> Result<Report, OpenError> {
    let clock = SystemClock::new();
    let offline = Offline::open(dir)?;
    let failed = |source| offline.failed("read the spaces", source);
    let checkpoints = by_space(checkpoint.unwrap_or_default());
    let mut spaces = Vec::new();
    let mut first_bad = None;
    for row in rows::spaces(&offline.connection).map_err(failed)? {
        // Numbers are dense: a space that is missing in between was taken out.
        let expected = SpaceNo(spaces.len() as u64 + 1);
        if row.number != expected && first_bad.is_none() {
            first_bad = Some(missing_space(expected));
        }
        let none = Vec::new();
        let known = checkpoints.get(row.name.as_str()).unwrap_or(&none);
        let report = one_space(&offline, &row, known)?;
        first_bad = first_bad.or_else(|| report.bad.clone());
        spaces.push(report);
    }
    for (name, known) in &checkpoints {
        if first_bad.is_none() && !spaces.iter().any(|space| space.name == *name) {
            let detail = format!("there is no such space, but a checkpoint of its record {}", known[0].seq);
            first_bad = Some(Bad { space: (*name).into(), seq: Seq(1), damage: Damage::Truncated, detail });
        }
    }
    if first_bad.is_none() {
        first_bad = tables::whole_file(&offline.connection, spaces.len() as u64)
            .or_else(|source| unreadable(&offline, "", Seq(0), Damage::Tables, source).map(Some))?;
    }
    let seconds = clock.now().mono.0 as f64 / 1000.0;
    Ok(Report { ok: first_bad.is_none(), spaces, first_bad, seconds })
}

fn by_space(checkpoints: &[Checkpoint]) -> BTreeMap<&str, Vec<&Checkpoint>> {
    let mut sorted: BTreeMap<&str, Vec<&Checkpoint>> = BTreeMap::new();
    for checkpoint in checkpoints {
        sorted.entry(checkpoint.space.as_str()).or_default().push(checkpoint);
    }
    sorted.values_mut().for_each(|known| known.sort_by_key(|checkpoint| checkpoint.seq));
    sorted
}

fn missing_space(number: SpaceNo) -> Bad {
    let detail = format!("space number {number} is missing, but later ones are there");
    Bad { space: String::new(), seq: Seq(1), damage: Damage::Deleted, detail }
}

/// Walks the log of a space and, if it is whole, compares the tables with it.
fn one_space(
    offline: &Offline,
    row: &SpaceRow,
    checkpoints: &[&Checkpoint],
) -> Result<SpaceReport, OpenError> {
    let mut report = SpaceReport {
        name: row.name.clone(),
        records: 0,
        head_seq: row.head_seq,
        head_hash: row.head_hash,
        head_at: row.head_at,
        erased: 0,
        checkpoints: 0,
        bad: None,
    };
    let mut walk = match walk::Walk::new(&offline.connection, row, checkpoints) {
        Ok(walk) => walk,
        Err(bad) => {
            report.bad = Some(bad);
            return Ok(report);
        }
    };
    let walked = walk.run();
    report.records = walk.sound;
    report.checkpoints = walk.checkpoints_met;
    report.erased = walk.folded.world.erased.len() as u64;
    let at = Seq(walk.sound + 1);
    report.bad =
        walked.or_else(|source| unreadable(offline, &row.name, at, Damage::Edited, source).map(Some))?;
    if report.bad.is_none() {
        report.bad = walk.bad_table.take().or_else(|| tables::reach(row, walk.last_at));
    }
    Ok(report)
}

/// A page that SQLite cannot read is damage to the data and is reported as such; any other failure ends the run.
fn unreadable(
    offline: &Offline,
    space: &str,
    seq: Seq,
    damage: Damage,
    source: rusqlite::Error,
) -> Result<Bad, OpenError> {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match source.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => {
            let detail = format!("SQLite cannot read a page of the file: {source}");
            Ok(Bad { space: space.into(), seq, damage, detail })
        }
        _ => Err(offline.failed("read the data", source)),
    }
}
