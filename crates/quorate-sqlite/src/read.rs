//! Answering reads from tables and log. All of one call comes from one snapshot.

use std::sync::Arc;

use quorate_core::limits::DELIVERIES_PER_COMMIT_MAX;
use quorate_core::{
    AgentNo, DeliveryNo, Effect, EntryHead, EntryVersion, Item, Key, Record, ReturnCause, Seq, SpaceNo,
    Timestamp, Version, codec, row_id,
};
use quorate_store::{DeadLetter, DeliveryState, Entry, Read, Rows, StoredMessage, When};
use rusqlite::{Connection, OptionalExtension as _};

use crate::load;
use crate::lookup::{ended, entry_head};
use crate::readers::ReadError;

/// Reads everything that was asked for.
pub(crate) fn rows(connection: &Connection, space: SpaceNo, what: &[Read]) -> Result<Vec<Rows>, ReadError> {
    let snapshot = connection.unchecked_transaction()?;
    what.iter().map(|one| Reading { connection: &snapshot, space }.one(one)).collect()
}

/// Reads records.
pub(crate) fn log(
    connection: &Connection,
    space: SpaceNo,
    from: Seq,
    max: usize,
) -> Result<Vec<Record>, ReadError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, at, format, kind, principal, hash, body, salts, payload FROM log
         WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3",
    )?;
    let last = row_id(space, LAST);
    let found = statement
        .query_map((row_id(space, from.0.min(LAST)), last, max), |row| load::record_of(row, space))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// The largest number of a space.
const LAST: u64 = (1 << 47) - 1;

struct Reading<'c> {
    connection: &'c Connection,
    space: SpaceNo,
}

impl Reading<'_> {
    fn one(&self, what: &Read) -> Result<Rows, ReadError> {
        Ok(match what {
            Read::Entry { key, when } => Rows::Entry(self.entry(key, *when)?),
            Read::History { key, after, limit } => Rows::Entries(self.history(key, *after, *limit)?),
            Read::Entries { prefix, entry_type, author, after, limit } => {
                let from = after.as_ref().map(Key::as_str);
                Rows::Entries(self.entries(prefix, entry_type.as_deref(), author.as_deref(), from, *limit)?)
            }
            Read::Message { seq, n } => Rows::Message(self.message(*seq, *n)?),
            Read::MessageByClientId(id) => {
                let found = self
                    .connection
                    .prepare_cached("SELECT seq, n FROM client_ids WHERE space = ?1 AND client_id = ?2")?
                    .query_row((self.space.0, id.as_str()), |row| Ok((Seq(row.get(0)?), row.get(1)?)))
                    .optional()?;
                Rows::Message(found.map(|(seq, n)| self.message(seq, n)).transpose()?.flatten())
            }
            Read::Deliveries { first, count } => {
                let count = (*count as usize).min(DELIVERIES_PER_COMMIT_MAX) as u64;
                let numbers = (0..count).map(|index| DeliveryNo(first.0.saturating_add(index)));
                Rows::Deliveries(numbers.map(|number| self.delivery(number)).collect::<Result<_, _>>()?)
            }
            Read::DeadLetters { agent, after, limit } => {
                Rows::DeadLetters(self.dead(*agent, *after, *limit)?)
            }
            Read::SeqAt(time) => Rows::Seq(self.seq_at(*time)?),
            Read::Item(key) => {
                let after = (key.kind.number(), &*key.id);
                Rows::Item(self.items("id = ?3", after, 1)?.into_iter().next())
            }
            Read::Items { kind, after, limit } => {
                let after = (kind.number(), after.as_deref().unwrap_or(""));
                Rows::Items(self.items("id > ?3 ORDER BY id", after, *limit)?)
            }
        })
    }

    fn entry(&self, key: &Key, when: When) -> Result<Option<Entry>, ReadError> {
        let (column, bound) = match when {
            When::Now => ("version", u64::MAX >> 1),
            When::Version(version) => {
                let exact = self.versions("version = ?3", key, version.0.min(u64::MAX >> 1), 1)?;
                return exact.into_iter().next().map(|head| self.with_content(key, head)).transpose();
            }
            When::Seq(seq) => ("seq", seq.0.min(LAST)),
            When::Time(time) => ("seq", self.seq_at(time)?.0),
        };
        let newest = self.versions(&format!("{column} <= ?3 ORDER BY version DESC"), key, bound, 1)?;
        newest.into_iter().next().map(|head| self.with_content(key, head)).transpose()
    }

    fn history(&self, key: &Key, after: Version, limit: usize) -> Result<Vec<Entry>, ReadError> {
        let found = self.versions("version > ?3 ORDER BY version", key, after.0.min(u64::MAX >> 1), limit)?;
        found.into_iter().map(|head| self.with_content(key, head)).collect()
    }

    fn versions(
        &self,
        which: &str,
        key: &Key,
        bound: u64,
        limit: usize,
    ) -> Result<Vec<EntryHead>, ReadError> {
        let sql = format!(
            "SELECT version, generation, seq, deleted FROM versions WHERE space = ?1 AND key = ?2 AND {which} LIMIT ?4"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let found = statement.query_map((self.space.0, key.as_str(), bound, limit), entry_head)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    fn entries(
        &self,
        prefix: &str,
        entry_type: Option<&str>,
        author: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT version, generation, seq, deleted, key FROM entries
             WHERE space = ?1 AND key >= ?2 AND key > ?3 AND NOT deleted
               AND (?4 IS NULL OR entry_type = ?4) AND (?5 IS NULL OR author = ?5)
             ORDER BY key",
        )?;
        let mut found = statement.query((self.space.0, prefix, after.unwrap_or(""), entry_type, author))?;
        let mut entries = Vec::new();
        while entries.len() < limit
            && let Some(row) = found.next()?
        {
            let key: String = row.get(4)?;
            // Keys are in order, so the first that does not begin so is the end.
            if !key.starts_with(prefix) {
                break;
            }
            let key = Key::new(&key).map_err(|refused| ReadError::Other(refused.detail))?;
            entries.push(self.with_content(&key, entry_head(row)?)?);
        }
        Ok(entries)
    }

    fn items(&self, which: &str, (kind, id): (u8, &str), limit: usize) -> Result<Vec<Item>, ReadError> {
        let sql =
            format!("SELECT kind, id, state FROM items WHERE space = ?1 AND kind = ?2 AND {which} LIMIT ?4");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query((self.space.0, kind, id, limit))?;
        let mut items = Vec::new();
        while let Some(row) = rows.next()? {
            items.push(load::item_of(row).map_err(|error| ReadError::Other(error.to_string()))?);
        }
        Ok(items)
    }

    /// What the record says of a version, and its content.
    fn with_content(&self, key: &Key, head: EntryHead) -> Result<Entry, ReadError> {
        let (record, effects) = self.record(head.seq)?;
        let mut version = EntryVersion {
            head,
            at: record.at,
            author: record.principal.clone(),
            entry_type: String::new(),
            content_type: None,
            part: None,
            depends_on: Vec::new(),
        };
        let mut content = None;
        for effect in effects.effects {
            if let Effect::Written {
                key: written,
                version: number,
                entry_type,
                content_type,
                part,
                depends_on,
            } = effect
                && written == *key
                && number == head.version
            {
                content = codec::part(&record, part)?;
                version = EntryVersion { entry_type, content_type, part: Some(part), depends_on, ..version };
            }
        }
        Ok(Entry { key: key.clone(), version, content })
    }

    fn record(&self, seq: Seq) -> Result<(Record, quorate_core::Body), ReadError> {
        let record = load::record(self.connection, self.space, seq)?
            .ok_or_else(|| ReadError::Other(format!("record {seq} is missing; run `quorate verify`")))?;
        let body = codec::read_body(&record)?;
        Ok((record, body))
    }

    fn message(&self, seq: Seq, n: u32) -> Result<Option<StoredMessage>, ReadError> {
        if seq.0 > LAST {
            return Ok(None);
        }
        let Some(record) = load::record(self.connection, self.space, seq)? else { return Ok(None) };
        let effects = codec::read_body(&record)?.effects.into_iter();
        let sent = effects.filter_map(|effect| match effect {
            Effect::Sent { message, first, deliveries, .. } => Some((message, first, deliveries)),
            _ => None,
        });
        let found = sent.skip(n as usize).map(|(message, first, deliveries)| StoredMessage {
            seq,
            n,
            at: record.at,
            message: Arc::clone(&message),
            first,
            recipients: deliveries.iter().map(|delivery| delivery.agent).collect(),
        });
        Ok({ found }.next())
    }

    fn delivery(&self, number: DeliveryNo) -> Result<Option<DeliveryState>, ReadError> {
        if number.0 > LAST {
            return Ok(None);
        }
        let row = row_id(self.space, number.0);
        let open = self
            .connection
            .prepare_cached("SELECT * FROM deliveries WHERE id = ?1")?
            .query_row([row], |row| load::open(row, AgentNo(row.get(1)?)))
            .optional()?;
        if let Some(open) = open {
            return Ok(Some(DeliveryState::Open { state: open.state, attempt: open.attempt }));
        }
        let ended = self
            .connection
            .prepare_cached("SELECT state, token, seq FROM ended WHERE id = ?1")?
            .query_row([row], ended)
            .optional()?;
        Ok(ended.map(|ended| DeliveryState::Ended { state: ended.state, seq: ended.seq }))
    }

    fn dead(
        &self,
        agent: Option<AgentNo>,
        after: DeliveryNo,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, ReadError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT dead.id, dead.agent, dead.seq, dead.n, dead.attempt, ended.seq
             FROM dead JOIN ended ON ended.id = dead.id
             WHERE dead.id > ?1 AND dead.id <= ?2 AND (?3 IS NULL OR dead.agent = ?3) ORDER BY dead.id LIMIT ?4",
        )?;
        let bounds = (row_id(self.space, after.0.min(LAST)), row_id(self.space, LAST));
        let mut found = statement.query((bounds.0, bounds.1, agent.map(|agent| agent.0), limit))?;
        let mut letters = Vec::new();
        while let Some(row) = found.next()? {
            let delivery = DeliveryNo((row.get::<_, i64>(0)? - row_id(self.space, 0)) as u64);
            let (record, body) = self.record(Seq(row.get(5)?))?;
            letters.push(DeadLetter {
                delivery,
                agent: AgentNo(row.get(1)?),
                seq: Seq(row.get(2)?),
                n: row.get(3)?,
                attempts: row.get(4)?,
                reason: reason_of(delivery, &body.effects),
                at: record.at,
            });
        }
        Ok(letters)
    }

    /// The newest record at a time. Times never go back within a space, so a binary search finds it.
    fn seq_at(&self, time: Timestamp) -> Result<Seq, ReadError> {
        let last: Option<i64> = self.connection.query_row(
            "SELECT max(id) FROM log WHERE id BETWEEN ?1 AND ?2",
            (row_id(self.space, 0), row_id(self.space, LAST)),
            |row| row.get(0),
        )?;
        let (mut low, mut high) = (0, last.map_or(0, |id| (id - row_id(self.space, 0)) as u64));
        let mut statement = self.connection.prepare_cached("SELECT at FROM log WHERE id = ?1")?;
        while low < high {
            let middle = (low + high).div_ceil(2);
            let at: u64 = statement.query_row([row_id(self.space, middle)], |row| row.get(0))?;
            if at <= time.0 { low = middle } else { high = middle - 1 }
        }
        Ok(Seq(low))
    }
}

/// Why a delivery was given up.
fn reason_of(delivery: DeliveryNo, effects: &[Effect]) -> String {
    let given_up = effects.iter().rev().find_map(|effect| match effect {
        Effect::Returned { delivery: number, cause, reason, .. } if *number == delivery => {
            Some((cause, reason))
        }
        _ => None,
    });
    match given_up {
        Some((_, reason)) if !reason.is_empty() => reason.clone(),
        Some((ReturnCause::Lapsed, _)) => "its last lease ran out".into(),
        Some((ReturnCause::EpochEnded, _)) => "its holder was started again during the last try".into(),
        Some((ReturnCause::Nacked | ReturnCause::Released, _)) | None => {
            "given back after the last try".into()
        }
    }
}
