//! Compares a store with what its witness states.

use std::path::Path;

use quorate_core::{Seq, SpaceNo, row_id};
use rusqlite::{Connection, OptionalExtension as _};

use super::{Location, Position, Statement, StoreRole, WITNESS};
use crate::directory::{OpenError, database_path, private_directory};
use crate::schema;
use crate::verify::{Damage, Defect};

/// Compares a store with its witness. Returns what it lacks, and changes nothing.
///
/// # Errors
/// If the witness or the database cannot be read.
pub(crate) fn check(directory: &Path, connection: &Connection) -> Result<Option<Defect>, OpenError> {
    let location = Location::of(directory);
    let sqlite = |source| OpenError::Sqlite {
        action: "compare the database with its witness",
        path: directory.to_owned(),
        source,
    };
    let stated = read(&location)?;
    let has_witness = schema::has_witness(connection).map_err(sqlite)?;
    let stated = match stated {
        // Written by an earlier release, which had no witness.
        _ if !has_witness && !matches!(stated, Some(Statement::Durable(Position { batch: 1.., .. }))) => {
            return Ok(None);
        }
        Some(Statement::Durable(stated)) => stated,
        None => {
            return Ok(Some(defect(
                Damage::Deleted,
                format!(
                    "{WITNESS} is missing, so that lost data could not be detected: the copy is incomplete"
                ),
            )));
        }
        Some(Statement::Absent) => {
            return Ok(Some(defect(
                Damage::Deleted,
                format!("{WITNESS} states nothing about this store: it is of another directory"),
            )));
        }
        Some(Statement::Damaged) => {
            return Ok(Some(defect(
                Damage::Edited,
                format!("{WITNESS} is damaged: both copies are invalid"),
            )));
        }
    };
    let found = if has_witness {
        let found = Position::stored(connection).map_err(sqlite)?;
        compare(connection, location.role, &stated, &found).map_err(sqlite)?
    } else {
        Some(lost(location.role, &stated, 0))
    };
    match found {
        None if location.role == StoreRole::Main => check_private(directory, &location),
        found => Ok(found),
    }
}

/// Checks a directory without a database: a witness with a position states that there was one.
pub(crate) fn check_missing_database(directory: &Path) -> Result<Option<Defect>, OpenError> {
    let location = Location::of(directory);
    Ok(match read(&location)? {
        Some(Statement::Durable(stated)) if stated.batch > 0 => {
            let name = if location.role == StoreRole::Main { "quorate.db" } else { "quorate.private" };
            Some(defect(Damage::Deleted, format!("{name} is missing, but {WITNESS} states that it had data")))
        }
        _ => None,
    })
}

fn read(location: &Location) -> Result<Option<Statement>, OpenError> {
    location.read().map_err(|source| location.io_error("read", source))
}

/// A deleted private store would be created anew, without its flags.
fn check_private(directory: &Path, location: &Location) -> Result<Option<Defect>, OpenError> {
    let private = private_directory(directory);
    if database_path(&private).exists() {
        return Ok(None);
    }
    let stated = location.read_about(StoreRole::Private);
    Ok(match stated.map_err(|source| location.io_error("read", source))? {
        Some(Statement::Durable(stated)) if stated.batch > 0 => Some(defect(
            Damage::Deleted,
            format!("quorate.private is missing, but {WITNESS} states that it had data"),
        )),
        _ => None,
    })
}

fn compare(
    connection: &Connection,
    role: StoreRole,
    stated: &Position,
    found: &Position,
) -> rusqlite::Result<Option<Defect>> {
    // Zeros: the store was migrated, and nothing was written since.
    if stated.store != found.store && stated.store != [0; 16] {
        let detail = format!("{WITNESS} is of another store: the files are not of one directory");
        return Ok(Some(defect(Damage::Forked, detail)));
    }
    if found.batch < stated.batch {
        return Ok(Some(Defect {
            space: name(connection, stated.space)?,
            ..lost(role, stated, found.batch)
        }));
    }
    if stated.batch == 0 {
        return Ok(None);
    }
    let hash: Option<Vec<u8>> = connection
        .query_row("SELECT hash FROM log WHERE id = ?1", [row_id(stated.space, stated.seq.0)], |row| {
            row.get(0)
        })
        .optional()?;
    if hash.is_some_and(|hash| hash == stated.hash) {
        return Ok(None);
    }
    let detail = format!(
        "record {} is not the one that was acknowledged, according to {WITNESS}: the history was replaced",
        stated.seq
    );
    Ok(Some(Defect {
        space: name(connection, stated.space)?,
        seq: stated.seq,
        ..defect(Damage::Forked, detail)
    }))
}

fn name(connection: &Connection, space: SpaceNo) -> rusqlite::Result<String> {
    let name = connection.query_row("SELECT name FROM spaces WHERE number = ?1", [space.0], |row| row.get(0));
    Ok(name.optional()?.unwrap_or_default())
}

fn lost(role: StoreRole, stated: &Position, found: u64) -> Defect {
    // The numbers of the private store disclose how many flags there are.
    let missing = match role {
        StoreRole::Main => format!(
            "{} acknowledged batches are missing, up to record {}; the data ends at batch {found}, but {WITNESS} \
             states batch {}",
            stated.batch - found,
            stated.seq,
            stated.batch
        ),
        StoreRole::Private => format!("acknowledged batches are missing, according to {WITNESS}"),
    };
    let seq = if role == StoreRole::Main { stated.seq } else { Seq(0) };
    let detail = format!("{missing}: the write-ahead log was deleted or damaged");
    Defect { seq, ..defect(Damage::Truncated, detail) }
}

fn defect(damage: Damage, detail: String) -> Defect {
    Defect { space: String::new(), seq: Seq(0), damage, detail }
}
