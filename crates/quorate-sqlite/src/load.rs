//! Loads the spaces at start: the current rows of the tables, and the records after `tables_at`. Never the whole log.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::codec::fingerprint;
use quorate_core::{
    Agent, AgentNo, DeliveryNo, DeliveryStateCounts, Effect, Generation, GenerationStart, Generations, Head,
    IfUnavailable, Item, ItemKind, LeaseToken, Message, Now, OpenDelivery, OpenDeliveryState, PriorSend,
    Recipient, Record, ReplayedRecord, ScopeNo, Seq, SpaceId, SpaceName, SpaceNo, StoredCounters, Timestamp,
    WorkingState, codec, hash_chain, row_id,
};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::lookup::{SELECT_CLIENT_ID, decode_client_id, decode_priority};
use crate::memtable::{Memtable, client_ids_of_part};

/// Loaded space.
pub(crate) struct LoadedSpace {
    pub(crate) name: SpaceName,
    pub(crate) working: WorkingState,
    /// First delivery number that has no row yet: the next number as of the last flush.
    pub(crate) first_unflushed: u64,
    /// Changes that the tables do not contain yet. Moved out once it is shared with the readers.
    pub(crate) memtable: Memtable,
}

/// Error of loading the stored state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("{0}")]
    Damaged(String),
}

/// Loads all spaces.
pub(crate) fn spaces(connection: &Connection, now: Now) -> Result<BTreeMap<SpaceNo, LoadedSpace>, LoadError> {
    let mut statement = connection.prepare(
        "SELECT number, name, id, seq, hash, at, generation, tables_at, next_delivery, last_token,
                acked, dead, expired, purged
         FROM spaces ORDER BY number",
    )?;
    let mut rows = statement.query([])?;
    let mut found = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let number = SpaceNo(row.get(0)?);
        let name: String = row.get(1)?;
        let name = SpaceName::new(&name).map_err(|refused| LoadError::Damaged(refused.detail))?;
        found.insert(number, space(connection, number, name, row, now)?);
    }
    Ok(found)
}

fn space(
    connection: &Connection,
    number: SpaceNo,
    name: SpaceName,
    row: &Row<'_>,
    now: Now,
) -> Result<LoadedSpace, LoadError> {
    let generation = Generation(row.get(6)?);
    let head = Head { seq: Seq(row.get(3)?), hash: row.get(4)?, at: Timestamp(row.get(5)?), generation };
    let counts = DeliveryStateCounts {
        acked: row.get(10)?,
        dead: row.get(11)?,
        expired: row.get(12)?,
        purged: row.get(13)?,
        ..DeliveryStateCounts::default()
    };
    let counters = StoredCounters { next_delivery: row.get(8)?, last_token: row.get(9)?, counts };
    check_log_end(connection, number, &name, &head)?;
    let tables_at = Seq(row.get(7)?);
    let damaged =
        |reason: String| LoadError::Damaged(format!("in space {name}: {reason}; run `quorate verify`"));
    let Some(last_flushed) = record(connection, number, tables_at)? else {
        return Err(damaged(format!("the tables refer to record {tables_at}, which is missing")));
    };
    let head_of_tables =
        Head { seq: last_flushed.seq, hash: last_flushed.hash, at: last_flushed.at, generation };
    let generations = generations(connection, number)?;
    let agents = agents(connection, number)?;
    let mut working =
        WorkingState::restore(SpaceId(row.get(2)?), head_of_tables, generations, agents, counters);
    // Items first: deliveries refer to pools, and to sessions and procedures, which may be paused.
    items(connection, number, &mut working, now)?;
    deliveries(connection, number, &mut working, now)?;
    let memtable = replay_unflushed(connection, number, &mut working, now).map_err(|error| match error {
        LoadError::Damaged(reason) => damaged(reason),
        LoadError::Sqlite(error) => error.into(),
    })?;
    extended(connection, number, &mut working, now)?;
    working.reset_activity(now);
    working.finish_load();
    Ok(LoadedSpace { name, working, first_unflushed: counters.next_delivery, memtable })
}

/// Replays the records that the tables do not contain yet.
fn replay_unflushed(
    connection: &Connection,
    number: SpaceNo,
    working: &mut WorkingState,
    now: Now,
) -> Result<Memtable, LoadError> {
    let mut memtable = Memtable::starting_after(working.head.seq);
    let mut statement = connection.prepare(
        "SELECT id, at, format, kind, principal, hash, body, salts, payload FROM log
         WHERE id > ?1 AND id <= ?2 ORDER BY id",
    )?;
    let mut rows = statement.query((row_id(number, working.head.seq.0), row_id(number, (1 << 47) - 1)))?;
    while let Some(row) = rows.next()? {
        let record = decode_record(row, number)?;
        let seq = record.seq;
        let Record { at, format, kind, ref principal, ref body, .. } = record;
        let header = hash_chain::RecordHeader { seq, at, format, kind, principal };
        if hash_chain::record_hash(&working.head.hash, &header, body) != record.hash {
            return Err(LoadError::Damaged(format!("the hash of record {seq} does not match its content")));
        }
        let replayed = working.replay(&record, now.mono);
        let ReplayedRecord { effects, ended } =
            replayed.map_err(|error| LoadError::Damaged(format!("record {seq}: {error}")))?;
        let fingerprint = |message: &Arc<Message>, n| fingerprint::of_logged(message, n, &effects);
        memtable.apply(working, &record, (&effects, &ended), fingerprint);
        for effect in &effects {
            if let Effect::Erased { seq, part } = effect {
                clear_fingerprints(connection, number, (*seq, *part), &mut memtable)?;
            }
        }
    }
    Ok(memtable)
}

/// Clears the fingerprints of messages whose payload was erased: a fingerprint would allow a guess to be confirmed.
fn clear_fingerprints(
    connection: &Connection,
    number: SpaceNo,
    (seq, part): (Seq, u32),
    memtable: &mut Memtable,
) -> Result<(), LoadError> {
    let Some(record) = record(connection, number, seq)? else { return Ok(()) };
    let ids = client_ids_of_part(&record, part).map_err(|error| LoadError::Damaged(error.to_string()))?;
    for id in ids {
        let stored = match memtable.client_ids.get(&id) {
            Some(sent) => Some(sent.clone()),
            None => connection
                .prepare_cached(SELECT_CLIENT_ID)?
                .query_row((number.0, id.as_str()), decode_client_id)
                .optional()?,
        };
        if let Some(sent) = stored {
            memtable.client_ids.insert(id, PriorSend { fingerprint: [0; 32], ..sent });
        }
    }
    Ok(())
}

/// Applies lease extensions since the last flush.
fn extended(
    connection: &Connection,
    number: SpaceNo,
    working: &mut WorkingState,
    now: Now,
) -> Result<(), LoadError> {
    let sql = "SELECT id, token, lease_ms FROM extended WHERE id BETWEEN ?1 AND ?2";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query((row_id(number, 0), row_id(number, (1 << 47) - 1)))?;
    while let Some(row) = rows.next()? {
        let delivery = DeliveryNo((row.get::<_, i64>(0)? - row_id(number, 0)) as u64);
        working.load_lease(delivery, LeaseToken(row.get(1)?), row.get(2)?, now);
    }
    Ok(())
}

/// Checks that the log ends at the head. A log that was truncated, or that continues after the head, must not be
/// appended to.
fn check_log_end(
    connection: &Connection,
    number: SpaceNo,
    name: &SpaceName,
    head: &Head,
) -> Result<(), LoadError> {
    let last = connection
        .query_row(
            "SELECT id, hash FROM log WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT 1",
            (row_id(number, 0), row_id(number, (1 << 47) - 1)),
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?)),
        )
        .optional()?;
    let expected = (row_id(number, head.seq.0), head.hash);
    if last != Some(expected) {
        let end = last.map_or(0, |(id, _)| id - row_id(number, 0));
        return Err(LoadError::Damaged(format!(
            "in space {name} the log ends at record {end}, but the head is record {}; run `quorate verify`",
            head.seq
        )));
    }
    Ok(())
}

pub(crate) fn generations(connection: &Connection, number: SpaceNo) -> rusqlite::Result<Generations> {
    let mut statement = connection.prepare(
        "SELECT generation, first_seq, first_delivery FROM eras WHERE space = ?1 ORDER BY first_seq",
    )?;
    let rows = statement.query_map([number.0], |row| {
        Ok(GenerationStart {
            generation: Generation(row.get(0)?),
            first_seq: Seq(row.get(1)?),
            first_delivery: DeliveryNo(row.get(2)?),
        })
    })?;
    Ok(Generations(rows.collect::<Result<_, _>>()?))
}

/// Loads the agents from the records of their last registration, which the table refers to.
fn agents(connection: &Connection, number: SpaceNo) -> Result<Vec<Agent>, LoadError> {
    let mut statement = connection
        .prepare("SELECT id, seq, removed, presence FROM agents WHERE id BETWEEN ?1 AND ?2 ORDER BY id")?;
    let mut rows = statement.query((row_id(number, 0), row_id(number, (1 << 47) - 1)))?;
    let mut agents = Vec::new();
    while let Some(row) = rows.next()? {
        let agent_number = AgentNo((row.get::<_, i64>(0)? - row_id(number, 0)) as u64);
        let seq = Seq(row.get(1)?);
        let removed = row.get(2)?;
        let presence = codec::read_presence(&row.get::<_, Vec<u8>>(3)?).map_err(|error| {
            LoadError::Damaged(format!("invalid presence of agent number {agent_number}: {error}"))
        })?;
        let record = record(connection, number, seq)?;
        let body = record.as_ref().map(codec::read_body).transpose();
        let body = body.map_err(|error| LoadError::Damaged(format!("record {seq}: {error}")))?;
        // A commit may register an agent more than once: the last one wins.
        let effects = body.map_or_else(Vec::new, |body| body.effects).into_iter().rev();
        let registered = { effects }.find_map(|effect| match effect {
            Effect::AgentRegistered { number, agent } if number == agent_number => Some(agent),
            _ => None,
        });
        let Some(agent) = registered else {
            return Err(LoadError::Damaged(format!(
                "record {seq} does not register agent number {agent_number}"
            )));
        };
        agents.push(Agent { removed, presence, ..agent });
    }
    Ok(agents)
}

fn deliveries(
    connection: &Connection,
    number: SpaceNo,
    working: &mut WorkingState,
    now: Now,
) -> Result<(), LoadError> {
    let range = (row_id(number, 0), row_id(number, (1 << 47) - 1));
    let count: usize =
        connection.query_row("SELECT count(*) FROM deliveries WHERE id BETWEEN ?1 AND ?2", range, |row| {
            row.get(0)
        })?;
    working.reserve(count);
    let mut statement = connection.prepare(
        "SELECT id, agent, seq, n, priority, attempt, attempts_max, state, value, lease_ms, expires,
                session, if_unavailable
         FROM deliveries WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
    )?;
    let mut rows = statement.query(range)?;
    while let Some(row) = rows.next()? {
        let delivery = DeliveryNo((row.get::<_, i64>(0)? - row_id(number, 0)) as u64);
        let open = decode_delivery(row)?;
        let agent_exists = open.to.agent_no().is_none_or(|agent| working.agents().get(agent).is_some());
        let pool_exists = open.to.pool_no().is_none_or(|pool| pool.0 <= working.pool_count() as u64);
        if !agent_exists || !pool_exists {
            return Err(LoadError::Damaged(format!(
                "delivery {delivery} is for an agent or a pool that does not exist"
            )));
        }
        working.load(delivery, open, row.get(9)?, now);
    }
    Ok(())
}

/// Loads items into the working state, which keeps those that decisions need and counts the finished ones.
fn items(
    connection: &Connection,
    number: SpaceNo,
    working: &mut WorkingState,
    now: Now,
) -> Result<(), LoadError> {
    let mut statement = connection.prepare("SELECT kind, id, state FROM items WHERE space = ?1")?;
    let mut rows = statement.query([number.0])?;
    let mut pools = BTreeMap::new();
    while let Some(row) = rows.next()? {
        match decode_item(row)? {
            Item::Pool(pool) => drop(pools.insert(pool.number, pool)),
            item => working.load_item(item, now),
        }
    }
    // In the order of their numbers: the working state appends them to a dense list.
    pools.into_values().for_each(|pool| working.load_item(Item::Pool(pool), now));
    Ok(())
}

/// Decodes an item from the columns kind, id and state.
pub(crate) fn decode_item(row: &Row<'_>) -> Result<Item, LoadError> {
    let (kind, id, state): (u8, String, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let damaged = |reason: String| LoadError::Damaged(format!("item {id} of kind {kind}: {reason}"));
    let kind = ItemKind::from_number(kind).ok_or_else(|| damaged("unknown kind".into()))?;
    codec::read_item(kind, &state).map_err(|error| damaged(error.to_string()))
}

/// Decodes an open delivery from a row of `deliveries` with all columns in order.
pub(crate) fn decode_delivery(row: &Row<'_>) -> rusqlite::Result<OpenDelivery> {
    let to = decode_recipient(row.get(1)?)?;
    let value: u64 = row.get(8)?;
    let state = match row.get(7)? {
        0 => OpenDeliveryState::Ready { since: Timestamp(value) },
        1 => OpenDeliveryState::Scheduled { due: Timestamp(value) },
        2 => OpenDeliveryState::Leased { token: LeaseToken(value) },
        other => return Err(rusqlite::Error::IntegralValueOutOfRange(7, other)),
    };
    let mut open = OpenDelivery::new(to, Seq(row.get(2)?), row.get(3)?, state);
    open.priority = decode_priority(row.get(4)?);
    open.attempt = row.get(5)?;
    open.attempts_max = row.get(6)?;
    open.expires = row.get::<_, Option<u64>>(10)?.map_or(OpenDelivery::NEVER, Timestamp);
    let if_unavailable: u8 = row.get(12)?;
    open.if_unavailable = IfUnavailable::from_number(if_unavailable)
        .ok_or(rusqlite::Error::IntegralValueOutOfRange(12, i64::from(if_unavailable)))?;
    Ok(open.with_scope(row.get::<_, Option<u64>>(11)?.map(ScopeNo)))
}

/// Decodes the recipient of a delivery from its stored number.
pub(crate) fn decode_recipient(number: i64) -> rusqlite::Result<Recipient> {
    let found = u64::try_from(number).ok().and_then(Recipient::from_number);
    found.ok_or(rusqlite::Error::IntegralValueOutOfRange(1, number))
}

/// Reads one record of the log.
pub(crate) fn record(connection: &Connection, number: SpaceNo, seq: Seq) -> rusqlite::Result<Option<Record>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, at, format, kind, principal, hash, body, salts, payload FROM log WHERE id = ?1",
    )?;
    statement.query_row([row_id(number, seq.0)], |row| decode_record(row, number)).optional()
}

/// Decodes a record from a row of `log` with all columns in order.
pub(crate) fn decode_record(row: &Row<'_>, number: SpaceNo) -> rusqlite::Result<Record> {
    Ok(Record {
        seq: Seq((row.get::<_, i64>(0)? - row_id(number, 0)) as u64),
        at: Timestamp(row.get(1)?),
        format: row.get(2)?,
        kind: row.get(3)?,
        principal: row.get(4)?,
        hash: row.get(5)?,
        body: row.get(6)?,
        salts: row.get(7)?,
        payload: Bytes::from(row.get::<_, Vec<u8>>(8)?),
    })
}

/// Returns the newest record as of `time`. Times never decrease within a space, so a binary search finds it.
pub(crate) fn seq_at(connection: &Connection, number: SpaceNo, time: Timestamp) -> rusqlite::Result<Seq> {
    let last: Option<i64> = connection.query_row(
        "SELECT max(id) FROM log WHERE id BETWEEN ?1 AND ?2",
        (row_id(number, 0), row_id(number, (1 << 47) - 1)),
        |row| row.get(0),
    )?;
    let (mut low, mut high) = (0, last.map_or(0, |id| (id - row_id(number, 0)) as u64));
    let mut statement = connection.prepare_cached("SELECT at FROM log WHERE id = ?1")?;
    while low < high {
        let middle = (low + high).div_ceil(2);
        let at: u64 = statement.query_row([row_id(number, middle)], |row| row.get(0))?;
        if at <= time.0 { low = middle } else { high = middle - 1 }
    }
    Ok(Seq(low))
}
