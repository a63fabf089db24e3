//! Exports the log record by record, offline and read-only, with everything that is needed to recompute the hash chain.
//! Payloads are not exported; the record bodies contain their digests.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::Path;

use quorate_core::hash_chain::genesis_hash;
use quorate_core::{
    AgentId, AgentNo, Effect, Generations, Record, Seq, SpaceId, SpaceName, SpaceNo, codec, row_id,
};
use rusqlite::{Connection, OptionalExtension as _};

use crate::directory::OpenError;
use crate::load;
use crate::offline::OfflineDatabase;
use crate::verify::LogCheckpoint;

/// Records read per query.
const PAGE: usize = 32;

/// One record, with the context that is needed to render it.
pub struct ExportLine<'a> {
    /// Name of the space.
    pub space: &'a str,
    /// Record as stored.
    pub record: Record,
    /// Hash of the previous record. Only set on the first line of each space: the other lines are chained to the line
    /// before them.
    pub previous: Option<[u8; 32]>,
    /// Resolves the agent numbers of the record to ids.
    pub ids: &'a SpaceIds<'a>,
}

/// Error of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The data directory cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The requested space does not exist.
    #[error("there is no space {0}")]
    NoSpace(SpaceName),
    /// The callback returned an error.
    #[error("failed to write the export")]
    Write(#[from] io::Error),
}

/// Calls `each` for the records of one space, or of all spaces, starting at `from`. The log is not verified; see
/// [`verify`](crate::verify()).
///
/// # Errors
/// Fails if the directory cannot be read, the space does not exist, or `each` returns an error.
pub fn export(
    dir: &Path,
    space: Option<&SpaceName>,
    from: Seq,
    mut each: impl FnMut(ExportLine<'_>) -> io::Result<()>,
) -> Result<(), ExportError> {
    let offline = OfflineDatabase::open_complete(dir)?;
    let mut spaces = spaces(&offline)?;
    if let Some(name) = space {
        spaces.retain(|found| found.name == name.as_str());
        if spaces.is_empty() {
            return Err(ExportError::NoSpace(name.clone()));
        }
    }
    for space in &spaces {
        export_space(&offline, space, Seq(from.0.max(1)), &mut each)?;
    }
    Ok(())
}

/// Returns the head of each space as a checkpoint. Stored elsewhere, checkpoints allow a later verification to detect
/// rewritten history. The heads are not verified here; run [`verify`](crate::verify()) first.
///
/// # Errors
/// Fails if the directory cannot be read.
pub fn checkpoints(dir: &Path) -> Result<Vec<LogCheckpoint>, OpenError> {
    let offline = OfflineDatabase::open_complete(dir)?;
    Ok(spaces(&offline)?
        .into_iter()
        .map(|Space { name, seq, hash, .. }| LogCheckpoint { space: name, seq, hash })
        .collect())
}

struct Space {
    number: SpaceNo,
    name: String,
    id: SpaceId,
    seq: Seq,
    hash: [u8; 32],
}

fn spaces(offline: &OfflineDatabase) -> Result<Vec<Space>, OpenError> {
    let read = || {
        let mut statement =
            offline.connection.prepare("SELECT number, name, id, seq, hash FROM spaces ORDER BY number")?;
        let rows = statement.query_map([], |row| {
            Ok(Space {
                number: SpaceNo(row.get(0)?),
                name: row.get(1)?,
                id: SpaceId(row.get(2)?),
                seq: Seq(row.get(3)?),
                hash: row.get(4)?,
            })
        })?;
        rows.collect::<rusqlite::Result<Vec<Space>>>()
    };
    read().map_err(|source| offline.sqlite_error("read the spaces", source))
}

fn export_space(
    offline: &OfflineDatabase,
    space: &Space,
    from: Seq,
    each: &mut impl FnMut(ExportLine<'_>) -> io::Result<()>,
) -> Result<(), ExportError> {
    let connection = &offline.connection;
    let failed = |source| offline.sqlite_error("read the log", source);
    let mut previous = match from {
        Seq(1) => Some(genesis_hash(space.id)),
        Seq(later) => {
            let before = load::record(connection, space.number, Seq(later - 1)).map_err(failed)?;
            before.map(|record| record.hash)
        }
    };
    let generations = load::generations(connection, space.number).map_err(failed)?;
    let ids = SpaceIds { connection, space: space.number, known: RefCell::default(), generations };
    let mut next = from.0;
    loop {
        let records = page(connection, space.number, next).map_err(failed)?;
        let Some(last) = records.last().map(|record| record.seq.0) else { return Ok(()) };
        for record in records {
            each(ExportLine { space: &space.name, record, previous: previous.take(), ids: &ids })?;
        }
        next = last + 1;
    }
}

fn page(connection: &Connection, space: SpaceNo, from: u64) -> rusqlite::Result<Vec<Record>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, at, format, kind, principal, hash, body, salts, payload FROM log
         WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3",
    )?;
    let range = (row_id(space, from), row_id(space, u64::MAX), PAGE);
    let rows = statement.query_map(range, |row| load::decode_record(row, space))?;
    rows.collect()
}

/// Resolves agent numbers of one space to ids. A number is never reused, so the answer does not depend on the position in
/// the log.
pub struct SpaceIds<'c> {
    connection: &'c Connection,
    space: SpaceNo,
    known: RefCell<HashMap<AgentNo, Option<AgentId>>>,
    generations: Generations,
}

impl SpaceIds<'_> {
    /// Returns the id of an agent; `None` if no record registers it.
    #[must_use]
    pub fn agent(&self, agent: AgentNo) -> Option<AgentId> {
        let look_up = || self.look_up(agent).ok().flatten();
        self.known.borrow_mut().entry(agent).or_insert_with(look_up).clone()
    }

    /// Generations of the space.
    #[must_use]
    pub fn generations(&self) -> &Generations {
        &self.generations
    }

    fn look_up(&self, agent: AgentNo) -> rusqlite::Result<Option<AgentId>> {
        let mut statement = self.connection.prepare_cached("SELECT seq FROM agents WHERE id = ?1")?;
        let row = [row_id(self.space, agent.0)];
        let Some(seq) = statement.query_row(row, |row| row.get(0)).optional()? else { return Ok(None) };
        let Some(record) = load::record(self.connection, self.space, Seq(seq))? else { return Ok(None) };
        let effects = codec::read_body(&record).map_or_else(|_| Vec::new(), |body| body.effects);
        Ok(effects.into_iter().find_map(|effect| match effect {
            Effect::AgentRegistered { number, agent: registered } if number == agent => Some(registered.id),
            _ => None,
        }))
    }
}
