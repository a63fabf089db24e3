//! The tables. The log is the truth; the tables beside it can be derived from it, and reach up to the record that
//! `spaces.tables_at` names. Idempotency keys and extended leases alone are in no record: they are written at once.
//!
//! Keys are `space number << 47 | number`, so rows are appended and ids lead to them without an index.

use quorate_core::{Creations, Seq, SpaceNo, codec, row_id};
use rusqlite::types::Type;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::load;

/// Says in the file's header that it is ours: "QUOR".
pub(crate) const APPLICATION_ID: i32 = 0x5155_4f52;

/// Each entry brings the schema from its index to the next version, in one transaction with the version number.
const MIGRATIONS: &[&str] = &[VERSION_1, VERSION_2];

/// The version that this release writes.
pub(crate) const VERSION: i32 = MIGRATIONS.len() as i32;

const VERSION_1: &str = "
-- One row per space: its identity and its head.
CREATE TABLE spaces (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    id BLOB NOT NULL,
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL,
    at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    -- Up to which record the tables reach. What follows is as of then.
    tables_at INTEGER NOT NULL,
    next_delivery INTEGER NOT NULL,
    last_token INTEGER NOT NULL,
    acked INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    purged INTEGER NOT NULL
) STRICT;

CREATE TABLE eras (
    space INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    first_delivery INTEGER NOT NULL,
    PRIMARY KEY (space, first_seq)
) STRICT, WITHOUT ROWID;

-- The truth: one row per commit.
CREATE TABLE log (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    format INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    principal TEXT NOT NULL,
    hash BLOB NOT NULL,
    body BLOB NOT NULL,
    salts BLOB NOT NULL,
    payload BLOB NOT NULL
) STRICT;

-- The record that last described each agent, and its presence in the bytes of the log.
CREATE TABLE agents (
    id INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    presence BLOB NOT NULL
) STRICT;

-- Open deliveries only. `state` is 0 ready, 1 scheduled, 2 leased; `value` is since when, until when, or the token.
-- What a paused session holds is not told apart here: it is held because the session of that number is paused.
CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    n INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    attempts_max INTEGER NOT NULL,
    state INTEGER NOT NULL,
    value INTEGER NOT NULL,
    lease_ms INTEGER NOT NULL,
    expires INTEGER,
    session INTEGER,
    if_unavailable INTEGER NOT NULL
) STRICT;

-- Leases that are longer than the log and the row of their delivery say.
CREATE TABLE extended (
    id INTEGER PRIMARY KEY,
    token INTEGER NOT NULL,
    lease_ms INTEGER NOT NULL
) STRICT;

-- Which record ended each delivery, 256 of them in a row, so that a repeated ack finds its answer.
CREATE TABLE ends (
    id INTEGER PRIMARY KEY,
    seqs BLOB NOT NULL
) STRICT;

CREATE TABLE dead (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    n INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    attempts_max INTEGER NOT NULL,
    expires INTEGER,
    -- The record that gave it up.
    ended INTEGER NOT NULL,
    session INTEGER
) STRICT;
CREATE INDEX dead_by_agent ON dead (agent);

-- The newest version of each entry, tombstones included.
CREATE TABLE entries (
    space INTEGER NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    entry_type TEXT NOT NULL,
    author TEXT NOT NULL,
    -- How many entries it was built on.
    depends INTEGER NOT NULL,
    PRIMARY KEY (space, key)
) STRICT, WITHOUT ROWID;

-- Every version: which record holds it.
CREATE TABLE versions (
    space INTEGER NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    PRIMARY KEY (space, key, version)
) STRICT, WITHOUT ROWID;

-- Ids that clients gave their messages, for ever.
CREATE TABLE client_ids (
    space INTEGER NOT NULL,
    client_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    n INTEGER NOT NULL,
    part INTEGER NOT NULL,
    principal TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (space, client_id)
) STRICT, WITHOUT ROWID;

-- Idempotency keys, in two tables that take turns. On a new day the older table is emptied and takes over, so that a
-- key is remembered for a day at least, whatever the wall clock does, and forgetting costs nothing until it is due.
CREATE TABLE keys_0 (
    space INTEGER NOT NULL,
    principal TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    results BLOB NOT NULL,
    PRIMARY KEY (space, principal, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE keys_1 (
    space INTEGER NOT NULL,
    principal TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    results BLOB NOT NULL,
    PRIMARY KEY (space, principal, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE key_turn (one INTEGER PRIMARY KEY CHECK (one = 1), turn INTEGER NOT NULL, day INTEGER NOT NULL) STRICT;
INSERT INTO key_turn VALUES (1, 0, 0);

-- Every other noun: its newest state, in the bytes of the log.
CREATE TABLE items (
    space INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    id TEXT NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (space, kind, id)
) STRICT, WITHOUT ROWID;

-- Which records belong to the timeline of a session: one row for each kind of line in each.
CREATE TABLE timeline (
    space INTEGER NOT NULL,
    session TEXT NOT NULL,
    kind INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (space, session, kind, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE erased (
    space INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    part INTEGER NOT NULL,
    PRIMARY KEY (space, seq, part)
) STRICT, WITHOUT ROWID;
";

/// Items in the order of their creation.
const VERSION_2: &str = "
-- Where it was created: `record << 16 | which item change of the record`. An update keeps it.
ALTER TABLE items ADD COLUMN created INTEGER NOT NULL DEFAULT 0;
CREATE INDEX items_by_creation ON items (space, kind, created);
";

/// Brings the schema up to date. Each step is one transaction: it is there whole or not at all.
pub(crate) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let found: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (step, statements) in MIGRATIONS.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        let version = step + 1;
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        transaction.execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}; {statements}"))?;
        if version == 2 {
            fill_created(&transaction)?;
        }
        transaction.execute_batch(&format!("PRAGMA user_version = {version}"))?;
        transaction.commit()?;
    }
    Ok(())
}

/// Says of the items of an older directory where they were created: the records that the tables know are read once.
fn fill_created(connection: &Connection) -> rusqlite::Result<()> {
    let with_items = "SELECT number, tables_at FROM spaces WHERE number IN (SELECT space FROM items)";
    let mut spaces = connection.prepare(with_items)?;
    let spaces = spaces.query_map([], |row| Ok((SpaceNo(row.get(0)?), Seq(row.get(1)?))))?;
    let mut records = connection.prepare(
        "SELECT id, at, format, kind, principal, hash, body, x'', x'' FROM log
         WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
    )?;
    let mut fill =
        connection.prepare("UPDATE items SET created = ?4 WHERE space = ?1 AND kind = ?2 AND id = ?3")?;
    for space in spaces {
        let (space, tables_at) = space?;
        let mut creations = Creations::default();
        let mut rows = records.query((row_id(space, 1), row_id(space, tables_at.0)))?;
        while let Some(row) = rows.next()? {
            let record = load::record_of(row, space)?;
            let body = codec::read_bare(&record)
                .map_err(|error| rusqlite::Error::FromSqlConversionFailure(6, Type::Blob, Box::new(error)))?;
            creations.apply(record.seq, &body.effects);
        }
        for (key, created) in creations.iter() {
            fill.execute((space.0, key.kind.number(), &*key.id, created.number()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
