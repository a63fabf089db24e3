//! Database schema and migrations. The log is the source of truth. The other tables are derived from it and are complete
//! up to the record `spaces.tables_at`. Only idempotency keys and extended leases are in no record: they are written
//! with the commit.
//!
//! Row ids are `space number << 47 | number`, so rows are appended and can be found by number without an index.

use quorate_core::{CreationIndex, Seq, SpaceNo, codec, row_id};
use rusqlite::types::Type;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{disk, load};

/// Application id in the header of the database file: "QUOR".
pub(crate) const APPLICATION_ID: i32 = 0x5155_4f52;

/// Migrations: each migrates the schema from the version of its index to the next one.
const MIGRATIONS: &[&str] = &[VERSION_1, VERSION_2, VERSION_3, VERSION_4];

/// Schema version that this release writes.
pub(crate) const VERSION: i32 = MIGRATIONS.len() as i32;

/// First version whose pages have checksums. A database gets it when it is created or rewritten with them, so that one of
/// this version without them is damaged.
pub(crate) const VERSION_WITH_CHECKSUMS: i32 = 4;

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

-- Source of truth: one row per commit.
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

-- The record of each agent's last registration, and its presence in the encoding of the log.
CREATE TABLE agents (
    id INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    presence BLOB NOT NULL
) STRICT;

-- Open deliveries only. `state` is 0 ready, 1 scheduled, 2 leased; `value` is since when, until when, or the token.
-- A delivery held by a paused session or procedure has no state of its own: it is ready, and the scope in `session` is
-- paused.
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

-- Leases that were extended since the last flush. Neither the log nor the row of the delivery contains that.
CREATE TABLE extended (
    id INTEGER PRIMARY KEY,
    token INTEGER NOT NULL,
    lease_ms INTEGER NOT NULL
) STRICT;

-- The record that ended each delivery, 256 deliveries per row. Answers repeated acks.
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

-- The record that contains each version of an entry.
CREATE TABLE versions (
    space INTEGER NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    PRIMARY KEY (space, key, version)
) STRICT, WITHOUT ROWID;

-- Client-assigned message ids. Never deleted.
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

-- Idempotency keys, in two rotating tables. On a new day the older table is emptied and becomes the current one. A key
-- is thus stored for at least a day, and expiry needs no scan.
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

-- All other resources: the current state, in the encoding of the log.
CREATE TABLE items (
    space INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    id TEXT NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (space, kind, id)
) STRICT, WITHOUT ROWID;

-- The records of a session's timeline: one row per record and kind of entry.
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

/// Adds the position of creation to items, for lists by age.
const VERSION_2: &str = "
-- Position of creation: `record << 16 | index of the item change in the record`. Updates keep it.
ALTER TABLE items ADD COLUMN created INTEGER NOT NULL DEFAULT 0;
CREATE INDEX items_by_creation ON items (space, kind, created);
";

/// Adds what the witness of a lost write-ahead log is compared with.
const VERSION_3: &str = "
-- Number of the writer's batch that last changed the space. The largest one is the newest batch of the store.
ALTER TABLE spaces ADD COLUMN batch INTEGER NOT NULL DEFAULT 0;
-- Identity of the store, so that a witness of another one is recognized. Random, and never changed.
CREATE TABLE store (one INTEGER PRIMARY KEY CHECK (one = 1), id BLOB NOT NULL) STRICT;
INSERT INTO store VALUES (1, randomblob(16));
";

/// States that the pages have checksums. The tables are the same.
const VERSION_4: &str = "";

/// Whether the schema is one that a witness belongs to.
pub(crate) fn has_witness(connection: &Connection) -> rusqlite::Result<bool> {
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(version >= 3)
}

/// Returns the newest version that the schema can have. A database without page checksums has to be rewritten before it
/// can have the last one.
pub(crate) fn newest(connection: &Connection) -> rusqlite::Result<i32> {
    Ok(if disk::has_checksums(connection)? { VERSION } else { VERSION_WITH_CHECKSUMS - 1 })
}

/// Migrates the schema to the newest version. Each step is one transaction, together with its version number.
pub(crate) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let newest = newest(connection)?;
    let found: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (version, statements) in (1..=newest).zip(MIGRATIONS).skip(usize::try_from(found).unwrap_or(0)) {
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

/// Fills the positions of creation of existing items by reading the log up to `tables_at` once.
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
        let mut creations = CreationIndex::default();
        let mut rows = records.query((row_id(space, 1), row_id(space, tables_at.0)))?;
        while let Some(row) = rows.next()? {
            let record = load::decode_record(row, space)?;
            let body = codec::read_without_payload(&record)
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
