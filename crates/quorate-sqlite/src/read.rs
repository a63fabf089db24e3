//! Executes reads against the tables, the log and the memtable. All reads of one call see the same snapshot.

mod dependencies;
mod items;
mod records;
mod sessions;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use quorate_core::limits::DELIVERIES_PER_COMMIT_MAX;
use quorate_core::{
    AgentNo, Body, DeliveryNo, Effect, EndState, EntryHead, EntryVersion, Key, OpenDelivery, Payload,
    QueueId, Recipient, Record, ReturnCause, Seq, SpaceNo, Version, codec, row_id,
};
use quorate_store::{
    AsOf, PartBytes, ReadQuery, ReadResult, StoreError, StoredDeadLetter, StoredDeliveryState, StoredEntry,
    StoredMessage,
};
use rusqlite::{Connection, OptionalExtension as _};

use crate::lookup::{SELECT_CLIENT_ID, decode_client_id, decode_entry_head};
use crate::memtable::{LatestState, Memtable, Memtables};
use crate::readers::ReadError;
use crate::{ended_index, load};
pub(crate) use records::{bodies, lane_for_reads, lane_for_records, log};

/// Executes reads in one transaction.
pub(crate) fn execute(
    connection: &Connection,
    memtables: &Memtables,
    space: SpaceNo,
    queries: &[ReadQuery],
) -> Result<Vec<ReadResult>, ReadError> {
    let transaction = connection.unchecked_transaction()?;
    // A SQLite read transaction gets its snapshot with the first read.
    let pin = || transaction.query_row("SELECT count(*) FROM spaces", [], |_| Ok(()));
    let memtable = memtables.snapshot_for_reads(space, queries, pin)?;
    let (sent, last) = (RefCell::default(), RefCell::default());
    let snapshot = ReadSnapshot { connection: &transaction, space, memtable, sent, last };
    queries.iter().map(|query| snapshot.execute(query)).collect()
}

/// Largest number within a space that fits into a row id.
const ROW_NUMBER_MAX: u64 = (1 << 47) - 1;

struct ReadSnapshot<'c> {
    connection: &'c Connection,
    space: SpaceNo,
    /// Changes that are not flushed to the tables yet.
    memtable: Memtable,
    /// Messages of the last record read. Messages of one record are often requested together.
    sent: RefCell<(Seq, Vec<StoredMessage>)>,
    /// Last record decoded. Entries that were written together are listed together.
    last: RefCell<Option<Rc<(Record, Body)>>>,
}

impl ReadSnapshot<'_> {
    fn execute(&self, query: &ReadQuery) -> Result<ReadResult, ReadError> {
        Ok(match query {
            ReadQuery::Entry { key, when } => ReadResult::Entry(self.entry(key, *when)?),
            ReadQuery::History { key, after, limit } => {
                ReadResult::Entries(self.history(key, *after, *limit)?)
            }
            ReadQuery::Entries { prefix, entry_type, author, after, limit } => {
                let from = after.as_ref().map(Key::as_str);
                ReadResult::Entries(self.entries(
                    prefix,
                    entry_type.as_deref(),
                    author.as_deref(),
                    from,
                    *limit,
                )?)
            }
            ReadQuery::Message { seq, n } => ReadResult::Message(self.message(*seq, *n)?),
            ReadQuery::MessageByClientId(id) => {
                let stored = || {
                    let mut statement = self.connection.prepare_cached(SELECT_CLIENT_ID)?;
                    statement.query_row((self.space.0, id.as_str()), decode_client_id).optional()
                };
                let found = match self.memtable.client_ids.get(id) {
                    Some(sent) => Some(sent.clone()),
                    None => stored()?,
                };
                let found = found.map(|sent| (sent.seq, sent.n));
                ReadResult::Message(found.map(|(seq, n)| self.message(seq, n)).transpose()?.flatten())
            }
            ReadQuery::MessageOfDelivery(number) => {
                let position = self.message_of_delivery(*number)?;
                ReadResult::Message(position.map(|(seq, n)| self.message(seq, n)).transpose()?.flatten())
            }
            ReadQuery::Deliveries { first, count } => {
                let count = (*count as usize).min(DELIVERIES_PER_COMMIT_MAX) as u64;
                let numbers = (0..count).map(|index| DeliveryNo(first.0.saturating_add(index)));
                ReadResult::Deliveries(numbers.map(|number| self.delivery(number)).collect::<Result<_, _>>()?)
            }
            ReadQuery::DeadLetters { agent, after, limit } => {
                ReadResult::DeadLetters(self.dead_letters(*agent, *after, *limit)?)
            }
            ReadQuery::SeqAt(time) => ReadResult::Seq(load::seq_at(self.connection, self.space, *time)?),
            ReadQuery::Dependencies { after, limit } => {
                ReadResult::Dependencies(dependencies::list(self, after.as_ref(), *limit)?)
            }
            ReadQuery::Record(seq) => ReadResult::Record(load::record(self.connection, self.space, *seq)?),
            ReadQuery::Timeline { session, kind, page, limit } => {
                ReadResult::Timeline(sessions::timeline(self, session, *kind, *page, *limit)?)
            }
            ReadQuery::Item(key) => ReadResult::Item(match self.memtable.items.get(key) {
                Some(newer) => newer.item.clone(),
                None => items::stored(self, key)?,
            }),
            ReadQuery::Items { kind, range, limit } => {
                ReadResult::Items(items::list(self, *kind, range, *limit)?)
            }
            ReadQuery::Part { seq, part, start, length } => {
                ReadResult::Part(self.part(*seq, *part, (*start, *length))?)
            }
        })
    }

    /// Reads bytes of a payload part without loading the whole record: a task graph is one large record.
    fn part(&self, seq: Seq, part: u32, (start, length): (u64, u64)) -> Result<Option<PartBytes>, ReadError> {
        let row = row_id(self.space, seq.0.min(ROW_NUMBER_MAX));
        let prefix: Option<Vec<u8>> = self
            .connection
            .prepare_cached("SELECT substr(body, 1, ?2) FROM log WHERE id = ?1")?
            .query_row((row, codec::parts_prefix(part)), |row| row.get(0))
            .optional()?;
        let Some(prefix) = prefix else { return Ok(None) };
        let Some((begin, whole, digest)) = codec::locate_part(&prefix, part)? else { return Ok(None) };
        let start = start.min(whole);
        let length = length.min(whole - start);
        // `substr` counts from 1.
        let (from, salt) = (begin + start + 1, u64::from(part) * 16 + 1);
        let (bytes, salt): (Vec<u8>, Vec<u8>) = self
            .connection
            .prepare_cached("SELECT substr(payload, ?2, ?3), substr(salts, ?4, 16) FROM log WHERE id = ?1")?
            .query_row((row, from, length, salt), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let salt = salt.try_into().map_err(|_| ReadError::Damaged(StoreError::corrupt_payload(seq)))?;
        let payload = Payload { bytes: bytes.into(), salt, digest };
        // The digest covers the whole part, so partial reads are not checked here; `quorate verify` checks them.
        let payload = if length == whole { intact(seq, payload)? } else { payload };
        Ok(Some(PartBytes { erased: payload.is_erased(), bytes: payload.bytes }))
    }

    fn entry(&self, key: &Key, when: AsOf) -> Result<Option<StoredEntry>, ReadError> {
        let (column, bound) = match when {
            AsOf::Latest => ("version", u64::MAX >> 1),
            AsOf::Version(version) => ("version", version.0.min(u64::MAX >> 1)),
            AsOf::Seq(seq) => ("seq", seq.0.min(ROW_NUMBER_MAX)),
            AsOf::Time(time) => ("seq", load::seq_at(self.connection, self.space, time)?.0),
        };
        let within = |head: &EntryHead| (if column == "seq" { head.seq.0 } else { head.version.0 }) <= bound;
        let newest = match self.memtable.versions_of(key).filter(within).last() {
            Some(head) => Some(head),
            None => self.versions(&format!("{column} <= ?3 ORDER BY version DESC"), key, bound, 1)?.pop(),
        };
        let exact = newest.filter(|head| !matches!(when, AsOf::Version(version) if head.version != version));
        exact.map(|head| self.with_content(key, head)).transpose()
    }

    fn history(&self, key: &Key, after: Version, limit: usize) -> Result<Vec<StoredEntry>, ReadError> {
        let mut found =
            self.versions("version > ?3 ORDER BY version", key, after.0.min(u64::MAX >> 1), limit)?;
        let newer = self.memtable.versions_of(key).filter(|head| head.version > after);
        let newest = found.last().map_or(Version(0), |head| head.version);
        let missing = limit - found.len();
        found.extend(newer.filter(|head| head.version > newest).take(missing));
        found.into_iter().map(|head| self.with_content(key, head)).collect()
    }

    fn versions(
        &self,
        condition: &str,
        key: &Key,
        bound: u64,
        limit: usize,
    ) -> Result<Vec<EntryHead>, ReadError> {
        let sql = format!(
            "SELECT version, generation, seq, deleted FROM versions WHERE space = ?1 AND key = ?2 AND {condition} LIMIT ?4"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let found = statement.query_map((self.space.0, key.as_str(), bound, limit), decode_entry_head)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    fn entries(
        &self,
        prefix: &str,
        entry_type: Option<&str>,
        author: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredEntry>, ReadError> {
        let after = after.unwrap_or("");
        let newer = self.memtable.entries.iter().filter(|(key, _)| key.as_str() > after);
        let mut newer = newer.filter(|(key, _)| key.as_str().starts_with(prefix)).peekable();
        let mut statement = self.connection.prepare_cached(
            "SELECT version, generation, seq, deleted, key FROM entries
             WHERE space = ?1 AND key >= ?2 AND key > ?3 AND NOT deleted
               AND (?4 IS NULL OR entry_type = ?4) AND (?5 IS NULL OR author = ?5)
             ORDER BY key",
        )?;
        let mut found = statement.query((self.space.0, prefix, after, entry_type, author))?;
        let mut entries = Vec::new();
        // Both are sorted by key; where both have a key, the memtable is newer.
        loop {
            let stored = match found.next()? {
                Some(row) => Some((row.get::<_, String>(4)?, decode_entry_head(row)?)),
                None => None,
            };
            // Keys are sorted, so the first one without the prefix ends the scan.
            let stored = stored.filter(|(key, _)| key.starts_with(prefix));
            let before =
                |key: &Key| stored.as_ref().is_none_or(|(stored, _)| key.as_str() <= stored.as_str());
            let mut replaced = false;
            while entries.len() < limit
                && let Some((key, entry)) = newer.next_if(|(key, _)| before(key))
            {
                replaced |= stored.as_ref().is_some_and(|(stored, _)| key.as_str() == stored);
                if entry.is_listed(entry_type, author) {
                    entries.push(self.with_content(key, entry.head)?);
                }
            }
            let Some((key, head)) = stored else { return Ok(entries) };
            if entries.len() == limit {
                return Ok(entries);
            }
            if !replaced {
                let key = Key::new(&key).map_err(|refused| ReadError::Other(refused.detail))?;
                entries.push(self.with_content(&key, head)?);
            }
        }
    }

    /// Completes a version with its metadata and content from the record.
    fn with_content(&self, key: &Key, head: EntryHead) -> Result<StoredEntry, ReadError> {
        let decoded = self.record(head.seq)?;
        let (record, body) = &*decoded;
        let mut version = EntryVersion {
            head,
            at: record.at,
            author: record.principal.clone(),
            entry_type: String::new(),
            content_type: None,
            content_part: None,
            depends_on: Vec::new(),
            restores: None,
        };
        for effect in &body.effects {
            if let Effect::Written {
                key: written_key,
                version: number,
                entry_type,
                content_type,
                part,
                depends_on,
                restores,
            } = effect
                && written_key == key
                && *number == head.version
            {
                let content_part = Some((restores.map_or(head.seq, |restored| restored.seq), *part));
                let restores = restores.map(|restored| restored.version);
                let (entry_type, content_type) = (entry_type.clone(), content_type.clone());
                let depends_on = depends_on.clone();
                version =
                    EntryVersion { entry_type, content_type, content_part, depends_on, restores, ..version };
            }
        }
        let content = match version.content_part {
            Some((seq, part)) if seq == record.seq => codec::payload_part(record, part)?,
            // Written by a rollback: the content is in the record that wrote it originally.
            Some((seq, part)) => codec::payload_part(&self.record(seq)?.0, part)?,
            None => None,
        };
        let content =
            content.map(|content| intact(version.content_part.map_or(head.seq, |(seq, _)| seq), content));
        let content = content.transpose()?;
        Ok(StoredEntry { key: key.clone(), version, content })
    }

    fn record(&self, seq: Seq) -> Result<Rc<(Record, Body)>, ReadError> {
        if let Some(last) = self.last.borrow().as_ref().filter(|last| last.0.seq == seq) {
            return Ok(Rc::clone(last));
        }
        let record = load::record(self.connection, self.space, seq)?.ok_or_else(|| {
            ReadError::Other(format!("record {seq} is missing from the log; run `quorate verify`"))
        })?;
        let body = codec::read_body(&record)?;
        let decoded = Rc::new((record, body));
        *self.last.borrow_mut() = Some(Rc::clone(&decoded));
        Ok(decoded)
    }

    fn message(&self, seq: Seq, n: u32) -> Result<Option<StoredMessage>, ReadError> {
        let mut sent = self.sent.borrow_mut();
        if sent.0 != seq {
            *sent = (seq, self.messages_of(seq)?);
        }
        match sent.1.get(n as usize) {
            Some(found) if !found.message.payload.is_intact() => {
                Err(ReadError::Damaged(StoreError::corrupt_payload(seq)))
            }
            found => Ok(found.cloned()),
        }
    }

    /// Returns all messages that a record sent.
    fn messages_of(&self, seq: Seq) -> Result<Vec<StoredMessage>, ReadError> {
        if seq.0 > ROW_NUMBER_MAX {
            return Ok(Vec::new());
        }
        let Some(record) = load::record(self.connection, self.space, seq)? else { return Ok(Vec::new()) };
        let effects = codec::read_body(&record)?.effects.into_iter();
        let sent = effects.filter_map(|effect| match effect {
            Effect::Sent { message, first, deliveries, .. } => Some((message, first, deliveries)),
            _ => None,
        });
        let stored = (0..).zip(sent).map(|(n, (message, first, deliveries))| StoredMessage {
            seq,
            n,
            at: record.at,
            message,
            first_delivery: first,
            recipients: deliveries.iter().map(|delivery| delivery.to).collect(),
        });
        Ok(stored.collect())
    }

    fn delivery(&self, number: DeliveryNo) -> Result<Option<StoredDeliveryState>, ReadError> {
        if number.0 > ROW_NUMBER_MAX {
            return Ok(None);
        }
        if let Some(changed) = self.memtable.deliveries.get(&number) {
            return Ok(Some(match changed.latest {
                LatestState::Open { open, .. } => StoredDeliveryState::Open {
                    state: sessions::state_of(self, &open)?,
                    attempt: open.attempt,
                },
                LatestState::Ended { state, seq, .. } => StoredDeliveryState::Ended { state, seq },
            }));
        }
        if let Some(open) = self.open_row(number)? {
            let state = sessions::state_of(self, &open)?;
            return Ok(Some(StoredDeliveryState::Open { state, attempt: open.attempt }));
        }
        let Some(seq) = self.ended_by(number)? else { return Ok(None) };
        let record = load::record(self.connection, self.space, seq)?;
        let ends = record.map(|record| codec::ended_deliveries(&record.body, seq)).transpose()?;
        let end = ends.and_then(|ends| ends.get(&number).copied());
        Ok(end.map(|end| StoredDeliveryState::Ended { state: end.state, seq }))
    }

    /// Returns the row of an open delivery as of the last flush.
    fn open_row(&self, number: DeliveryNo) -> Result<Option<OpenDelivery>, ReadError> {
        Ok(self
            .connection
            .prepare_cached("SELECT * FROM deliveries WHERE id = ?1")?
            .query_row([row_id(self.space, number.0)], load::decode_delivery)
            .optional()?)
    }

    /// Returns the record that ended a delivery before the last flush.
    fn ended_by(&self, number: DeliveryNo) -> Result<Option<Seq>, ReadError> {
        let seqs: Option<Vec<u8>> = self
            .connection
            .prepare_cached("SELECT seqs FROM ends WHERE id = ?1")?
            .query_row([row_id(self.space, ended_index::chunk_of(number))], |row| row.get(0))
            .optional()?;
        Ok(seqs.and_then(|seqs| ended_index::get(&seqs, number)))
    }

    /// Returns record and index of the message of a delivery.
    fn message_of_delivery(&self, number: DeliveryNo) -> Result<Option<(Seq, u32)>, ReadError> {
        if number.0 > ROW_NUMBER_MAX {
            return Ok(None);
        }
        let changed = self.memtable.deliveries.get(&number).map(|changed| match changed.latest {
            LatestState::Open { open, .. } | LatestState::Ended { open, .. } => open,
        });
        let open = match changed {
            Some(open) => Some(open),
            None => self.open_row(number)?,
        };
        if let Some(open) = open {
            return Ok(Some((open.seq, open.n())));
        }
        let Some(seq) = self.ended_by(number)? else { return Ok(None) };
        let Some(record) = load::record(self.connection, self.space, seq)? else { return Ok(None) };
        let effects = codec::read_body(&record)?.effects;
        let mut affected = effects.iter().flat_map(Effect::affected_deliveries);
        Ok(affected.find(|(delivery, _)| *delivery == number).map(|(_, origin)| (origin.seq, origin.n)))
    }

    fn dead_letters(
        &self,
        agent: Option<AgentNo>,
        after: DeliveryNo,
        limit: usize,
    ) -> Result<Vec<StoredDeadLetter>, ReadError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, agent, seq, n, attempt, ended FROM dead
             WHERE id > ?1 AND id <= ?2 AND (?3 IS NULL OR agent = ?3) ORDER BY id",
        )?;
        let bounds = (row_id(self.space, after.0.min(ROW_NUMBER_MAX)), row_id(self.space, ROW_NUMBER_MAX));
        let mut found = statement.query((bounds.0, bounds.1, agent.map(|agent| agent.0)))?;
        let mut dead_letters = BTreeMap::new();
        while dead_letters.len() < limit
            && let Some(row) = found.next()?
        {
            let number = DeliveryNo((row.get::<_, i64>(0)? - row_id(self.space, 0)) as u64);
            if !self.memtable.deliveries.contains_key(&number) {
                let dead_letter = (
                    load::decode_recipient(row.get(1)?)?,
                    Seq(row.get(2)?),
                    row.get(3)?,
                    row.get(4)?,
                    Seq(row.get(5)?),
                );
                dead_letters.insert(number, dead_letter);
            }
        }
        for (number, changed) in self.memtable.deliveries.iter().filter(|(number, _)| **number > after) {
            if let LatestState::Ended { open, state: EndState::Dead, seq, .. } = changed.latest
                && agent.is_none_or(|agent| open.to.queue() == QueueId::Agent(agent))
            {
                dead_letters
                    .insert(*number, (open.to.without_holder(), open.seq, open.n(), open.attempt, seq));
            }
        }
        let first = dead_letters.into_iter().take(limit);
        first.map(|(delivery, dead_letter)| self.dead_letter(delivery, dead_letter)).collect()
    }

    fn dead_letter(
        &self,
        delivery: DeliveryNo,
        (to, seq, n, attempts, ended): (Recipient, Seq, u32, u16, Seq),
    ) -> Result<StoredDeadLetter, ReadError> {
        let decoded = self.record(ended)?;
        let (record, body) = &*decoded;
        let reason = reason_of(delivery, &body.effects);
        Ok(StoredDeadLetter { delivery, to, seq, n, attempts, reason, at: record.at })
    }
}

/// Checks a payload against its digest.
fn intact(seq: Seq, payload: Payload) -> Result<Payload, ReadError> {
    match payload.is_intact() {
        true => Ok(payload),
        false => Err(ReadError::Damaged(StoreError::corrupt_payload(seq))),
    }
}

/// Reason why a delivery was dead-lettered, for users.
fn reason_of(delivery: DeliveryNo, effects: &[Effect]) -> String {
    let is_denied = effects.iter().any(|effect| match effect {
        Effect::DeniedByPolicy { delivery: number, .. } => *number == delivery,
        _ => false,
    });
    if is_denied {
        return "no longer allowed by policy".into();
    }
    let returned = effects.iter().rev().find_map(|effect| match effect {
        Effect::Returned { delivery: number, cause, reason, .. } if *number == delivery => {
            Some((cause, reason))
        }
        _ => None,
    });
    match returned {
        Some((_, reason)) if !reason.is_empty() => reason.clone(),
        Some((ReturnCause::LeaseExpired, _)) => "its last lease expired".into(),
        Some((ReturnCause::EpochEnded, _)) => "its holder registered again during the last attempt".into(),
        Some((ReturnCause::Offline, _)) => "its holder went offline during the last attempt".into(),
        Some((ReturnCause::Restored, _)) => "a backup was restored during the last attempt".into(),
        Some((ReturnCause::Nacked | ReturnCause::Released, _)) | None => "dead-lettered by its holder".into(),
    }
}
