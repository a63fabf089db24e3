//! Lookups of the decision logic. They run on the writer's connection, so they see what earlier commits of the same batch
//! wrote.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use quorate_core::limits::KEY_WINDOW_MS;
use quorate_core::{
    ClientId, DeadDelivery, DeliveryEnd, DeliveryNo, EntryHead, EraseTarget, Generation, IdempotencyKey,
    Item, ItemKey, ItemKind, Key, Lookup, LookupError, PrefixScan, Principal, PriorSend, Priority, Receipt,
    Record, ScopeNo, Seq, SpaceNo, StoredReceipt, Timestamp, Version, VersionSelector, codec, row_id,
};
use rusqlite::{Connection, OptionalExtension as _, Row, Statement};

use crate::memtable::{Memtable, Memtables};
use crate::{ended_index, load};

/// Prepared statements for lookups. `space` is set before each decision.
pub(crate) struct SqliteLookup<'c> {
    connection: &'c Connection,
    pub(crate) space: Cell<SpaceNo>,
    /// Current table of idempotency keys.
    pub(crate) key_rotation: Cell<KeyRotation>,
    /// Changes that are not flushed to the tables yet.
    pub(crate) memtables: Memtables,
    /// Changes of the current batch, on top of the memtables.
    pub(crate) staged: RefCell<BTreeMap<SpaceNo, Memtable>>,
    /// Rows plus kilobytes read since the last reset. The work meter of core must count at least as much.
    pub(crate) read_units: Cell<u64>,
    entry: RefCell<Statement<'c>>,
    ends: RefCell<Statement<'c>>,
    dead: RefCell<Statement<'c>>,
    client_id: RefCell<Statement<'c>>,
    body: RefCell<Statement<'c>>,
    erased: RefCell<Statement<'c>>,
    item: RefCell<Statement<'c>>,
    item_exists: RefCell<Statement<'c>>,
    item_ids: RefCell<Statement<'c>>,
    keys: [RefCell<Statement<'c>>; 2],
    /// Deliveries that the last record read has ended. Deliveries of one record are often looked up together.
    last_ends: RefCell<Option<RecordEnds>>,
}

/// Deliveries that a record ended.
type RecordEnds = ((SpaceNo, Seq), HashMap<DeliveryNo, DeliveryEnd>);

impl<'c> SqliteLookup<'c> {
    pub(crate) fn prepare(connection: &'c Connection, memtables: Memtables) -> rusqlite::Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql).map(RefCell::new);
        let key_rotation = KeyRotation::load(connection)?;
        Ok(Self {
            connection,
            space: Cell::default(),
            key_rotation: Cell::new(key_rotation),
            memtables,
            staged: RefCell::default(),
            read_units: Cell::default(),
            last_ends: RefCell::default(),
            entry: prepare(
                "SELECT version, generation, seq, deleted FROM entries WHERE space = ?1 AND key = ?2",
            )?,
            ends: prepare("SELECT seqs FROM ends WHERE id = ?1")?,
            dead: prepare(
                "SELECT agent, seq, n, priority, attempts_max, expires, session FROM dead WHERE id = ?1",
            )?,
            client_id: prepare(SELECT_CLIENT_ID)?,
            body: prepare("SELECT body FROM log WHERE id = ?1")?,
            erased: prepare("SELECT 1 FROM erased WHERE space = ?1 AND seq = ?2 AND part = ?3")?,
            item: prepare("SELECT state FROM items WHERE space = ?1 AND kind = ?2 AND id = ?3")?,
            item_exists: prepare("SELECT 1 FROM items WHERE space = ?1 AND kind = ?2 AND id = ?3")?,
            item_ids: prepare(
                "SELECT id FROM items WHERE space = ?1 AND kind = ?2 AND id BETWEEN ?3 AND ?4 ORDER BY id LIMIT ?5",
            )?,
            keys: [
                prepare(
                    "SELECT fingerprint, seq, at, results FROM keys_0 WHERE space = ?1 AND principal = ?2 AND key = ?3",
                )?,
                prepare(
                    "SELECT fingerprint, seq, at, results FROM keys_1 WHERE space = ?1 AND principal = ?2 AND key = ?3",
                )?,
            ],
        })
    }

    fn row(&self, number: u64) -> i64 {
        row_id(self.space.get(), number)
    }

    fn count(&self, rows: usize, bytes: usize) {
        self.read_units.set(self.read_units.get() + rows as u64 + bytes as u64 / 1024);
    }

    /// Searches the changes of this batch, then the memtable. `None`: the tables are up to date.
    fn find_in_memory<T>(&self, find: impl Fn(&Memtable) -> Option<T>) -> Option<T> {
        let space = self.space.get();
        let staged = self.staged.borrow().get(&space).and_then(&find);
        staged.or_else(|| self.memtables.read().get(&space).and_then(find))
    }

    /// Returns the entries in the table with this prefix that changed after `seq`, and the number of entries with this
    /// prefix. `None` if there are more than `max`.
    fn stored_since(
        &self,
        prefix: &str,
        seq: Seq,
        max: usize,
    ) -> rusqlite::Result<Option<(BTreeMap<Key, EntryHead>, usize)>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT version, generation, seq, deleted, key FROM entries WHERE space = ?1 AND key >= ?2 ORDER BY key",
        )?;
        let mut rows = statement.query((self.space.get().0, prefix))?;
        let mut changed = BTreeMap::new();
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            let key = row.get_ref(4)?.as_str()?;
            // Keys are sorted, so the first one without the prefix ends the scan.
            if !key.starts_with(prefix) {
                break;
            }
            seen += 1;
            if seen > max {
                return Ok(None);
            }
            let head = decode_entry_head(row)?;
            if head.seq > seq
                && let Ok(key) = Key::new(key)
            {
                changed.insert(key, head);
            }
        }
        self.count(seen, 0);
        Ok(Some((changed, seen)))
    }

    /// Visits the memtable of the space, then the changes of this batch.
    fn each_memtable(&self, mut visit: impl FnMut(&Memtable)) {
        let space = self.space.get();
        self.memtables.read().get(&space).into_iter().for_each(&mut visit);
        self.staged.borrow().get(&space).into_iter().for_each(&mut visit);
    }

    /// Returns the first of these indexes whose id has a row in the table of items. One scan of the range of the ids
    /// finds all rows, unless more other rows are in it.
    fn first_with_row(
        &self,
        kind: ItemKind,
        ids: &[Arc<str>],
        indexes: &[usize],
    ) -> rusqlite::Result<Option<usize>> {
        let in_range = || indexes.iter().map(|index| &*ids[*index]);
        let (Some(first), Some(last)) = (in_range().min(), in_range().max()) else { return Ok(None) };
        let (space, kind) = (self.space.get().0, kind.number());
        let max = indexes.len();
        let mut statement = self.item_ids.borrow_mut();
        let rows = statement.query_map((space, kind, first, last, max + 1), |row| row.get::<_, String>(0))?;
        let found: Vec<String> = rows.collect::<rusqlite::Result<_>>()?;
        self.count(found.len(), 0);
        if found.len() <= max {
            let has_row = |index: &&usize| found.binary_search_by(|id| (**id).cmp(&*ids[**index])).is_ok();
            return Ok(indexes.iter().find(has_row).copied());
        }
        let mut statement = self.item_exists.borrow_mut();
        self.count(max, 0);
        for index in indexes {
            if statement.exists((space, kind, &*ids[*index]))? {
                return Ok(Some(*index));
            }
        }
        Ok(None)
    }

    fn body(&self, seq: Seq, subject: &'static str) -> Result<Option<Vec<u8>>, LookupError> {
        let mut statement = self.body.borrow_mut();
        statement.query_row([self.row(seq.0)], |row| row.get(0)).optional().map_err(failed(subject))
    }
}

/// Rotation state of the two tables of idempotency keys.
#[derive(Clone, Copy)]
pub(crate) struct KeyRotation {
    /// Table that is written to, 0 or 1.
    pub(crate) current: u64,
    /// Day since which it is the current table.
    pub(crate) day: u64,
    /// Whether the other table is empty, so that lookups can skip it.
    pub(crate) other_is_empty: bool,
}

impl KeyRotation {
    pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT turn, day, CASE turn WHEN 0 THEN EXISTS (SELECT 1 FROM keys_1) ELSE EXISTS (SELECT 1 FROM keys_0) END
                   FROM key_turn";
        connection.query_row(sql, [], |row| {
            Ok(Self { current: row.get::<_, u64>(0)? & 1, day: row.get(1)?, other_is_empty: !row.get(2)? })
        })
    }
}

/// Day number that an idempotency key belongs to.
pub(crate) fn day_of(at: Timestamp) -> u64 {
    at.0 / KEY_WINDOW_MS
}

fn failed(subject: &'static str) -> impl Fn(rusqlite::Error) -> LookupError {
    move |source| LookupError { subject, source: Box::new(source) }
}

pub(crate) fn decode_priority(stored: u16) -> Priority {
    Priority { level: (stored >> 8) as u8, rank: stored as u8 }
}

pub(crate) fn encode_priority(priority: Priority) -> u16 {
    u16::from(priority.level) << 8 | u16::from(priority.rank)
}

pub(crate) fn decode_entry_head(row: &Row<'_>) -> rusqlite::Result<EntryHead> {
    Ok(EntryHead {
        version: Version(row.get(0)?),
        generation: Generation(row.get(1)?),
        seq: Seq(row.get(2)?),
        deleted: row.get(3)?,
    })
}

/// Selects the message with a client-assigned id.
pub(crate) const SELECT_CLIENT_ID: &str = "SELECT seq, n, part, principal, fingerprint, first, count FROM client_ids WHERE space = ?1 AND client_id = ?2";

pub(crate) fn decode_client_id(row: &Row<'_>) -> rusqlite::Result<PriorSend> {
    Ok(PriorSend {
        seq: Seq(row.get(0)?),
        n: row.get(1)?,
        part: row.get(2)?,
        principal: row.get(3)?,
        fingerprint: row.get(4)?,
        first: DeliveryNo(row.get(5)?),
        count: row.get(6)?,
    })
}

impl Lookup for SqliteLookup<'_> {
    fn stored_receipt(
        &self,
        principal: &Principal,
        key: &IdempotencyKey,
    ) -> Result<Option<StoredReceipt>, LookupError> {
        let subject = "an idempotency key";
        let KeyRotation { current, other_is_empty, .. } = self.key_rotation.get();
        let current_table = &self.keys[current as usize];
        let other_table = (!other_is_empty).then(|| &self.keys[1 - current as usize]);
        for table in [Some(current_table), other_table].into_iter().flatten() {
            self.count(1, 0);
            let mut statement = table.borrow_mut();
            let found = statement
                .query_row((self.space.get().0, principal.to_text(), key.as_str()), |row| {
                    Ok((row.get(0)?, row.get::<_, u64>(1)?, row.get::<_, u64>(2)?, row.get::<_, Vec<u8>>(3)?))
                })
                .optional()
                .map_err(failed(subject))?;
            if let Some((fingerprint, seq, at, results)) = found {
                let results = codec::read_results(&results)
                    .map_err(|source| LookupError { subject, source: Box::new(source) })?;
                let seq = Some(Seq(seq)).filter(|seq| seq.0 > 0);
                let receipt = Receipt { seq, at: Timestamp(at), results };
                return Ok(Some(StoredReceipt { fingerprint, receipt }));
            }
        }
        Ok(None)
    }

    fn entry(&self, key: &Key) -> Result<Option<EntryHead>, LookupError> {
        if let Some(head) = self.find_in_memory(|memtable| memtable.entries.get(key).map(|entry| entry.head))
        {
            return Ok(Some(head));
        }
        self.count(1, 0);
        let mut statement = self.entry.borrow_mut();
        statement
            .query_row((self.space.get().0, key.as_str()), decode_entry_head)
            .optional()
            .map_err(failed("an entry"))
    }

    fn delivery_end(&self, delivery: DeliveryNo) -> Result<(Option<DeliveryEnd>, usize), LookupError> {
        let subject = "an ended delivery";
        if let Some(changed) = self.find_in_memory(|memtable| memtable.deliveries.get(&delivery).copied()) {
            return Ok((changed.ended(), 0));
        }
        self.count(1, 0);
        let mut statement = self.ends.borrow_mut();
        let row = self.row(ended_index::chunk_of(delivery));
        let seqs: Option<Vec<u8>> =
            statement.query_row([row], |row| row.get(0)).optional().map_err(failed(subject))?;
        let Some(seq) = seqs.and_then(|seqs| ended_index::get(&seqs, delivery)) else { return Ok((None, 0)) };
        let mut cached = self.last_ends.borrow_mut();
        let record_id = (self.space.get(), seq);
        let mut read_bytes = 0;
        if cached.as_ref().is_none_or(|(known, _)| *known != record_id) {
            let Some(body) = self.body(seq, subject)? else { return Ok((None, 0)) };
            read_bytes = body.len();
            self.count(0, read_bytes);
            let ends = codec::ended_deliveries(&body, seq);
            *cached =
                Some((record_id, ends.map_err(|source| LookupError { subject, source: Box::new(source) })?));
        }
        Ok((cached.as_ref().and_then(|(_, ends)| ends.get(&delivery).copied()), read_bytes))
    }

    fn dead_delivery(&self, delivery: DeliveryNo) -> Result<Option<DeadDelivery>, LookupError> {
        if let Some(changed) = self.find_in_memory(|memtable| memtable.deliveries.get(&delivery).copied()) {
            return Ok(changed.dead());
        }
        self.count(1, 0);
        let mut statement = self.dead.borrow_mut();
        let read = |row: &Row<'_>| {
            Ok(DeadDelivery {
                to: load::decode_recipient(row.get(0)?)?,
                seq: Seq(row.get(1)?),
                n: row.get(2)?,
                priority: decode_priority(row.get(3)?),
                attempts_max: row.get(4)?,
                expires_at: row.get::<_, Option<u64>>(5)?.map(Timestamp),
                scope: row.get::<_, Option<u64>>(6)?.map(ScopeNo),
            })
        };
        statement.query_row([self.row(delivery.0)], read).optional().map_err(failed("a dead letter"))
    }

    fn prior_send(&self, id: &ClientId) -> Result<Option<PriorSend>, LookupError> {
        if let Some(sent) = self.find_in_memory(|memtable| memtable.client_ids.get(id).cloned()) {
            return Ok(Some(sent));
        }
        self.count(1, 0);
        let mut statement = self.client_id.borrow_mut();
        statement
            .query_row((self.space.get().0, id.as_str()), decode_client_id)
            .optional()
            .map_err(failed("a message id"))
    }

    fn erase_target(&self, seq: Seq, part: u32) -> Result<Option<EraseTarget>, LookupError> {
        let subject = "a payload";
        if seq.0 >= 1 << 47 {
            return Ok(None);
        }
        let read = self.connection.prepare_cached("SELECT body, length(payload) FROM log WHERE id = ?1");
        let found = read.and_then(|mut statement| {
            let row = |row: &Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, usize>(1)?));
            statement.query_row([self.row(seq.0)], row).optional()
        });
        let Some((body, payload_bytes)) = found.map_err(failed(subject))? else { return Ok(None) };
        let parts =
            codec::part_table(&body).map_err(|source| LookupError { subject, source: Box::new(source) })?;
        let erased = self.is_erased(seq, part)?;
        let record_bytes = body.len() + payload_bytes;
        self.count(0, record_bytes);
        Ok(Some(EraseTarget { parts: parts.len() as u32, erased, record_bytes }))
    }

    fn is_erased(&self, seq: Seq, part: u32) -> Result<bool, LookupError> {
        if self.find_in_memory(|memtable| memtable.erased.get(&(seq, part)).copied()).is_some() {
            return Ok(true);
        }
        self.count(1, 0);
        let mut statement = self.erased.borrow_mut();
        statement.exists((self.space.get().0, seq.0, part)).map_err(failed("a payload"))
    }

    fn version_at(&self, key: &Key, at: VersionSelector) -> Result<Option<EntryHead>, LookupError> {
        let is_match = |head: &EntryHead| match at {
            VersionSelector::Version(version) => head.version == version,
            VersionSelector::Seq(seq) => head.seq <= seq,
        };
        if let Some(head) = self.find_in_memory(|memtable| memtable.versions_of(key).filter(is_match).last())
        {
            return Ok(Some(head));
        }
        self.count(1, 0);
        let (condition, bound) = match at {
            VersionSelector::Version(version) => ("version = ?3", version.0),
            VersionSelector::Seq(seq) => ("seq <= ?3", seq.0),
        };
        let sql = format!(
            "SELECT version, generation, seq, deleted FROM versions WHERE space = ?1 AND key = ?2 AND {condition}
             ORDER BY version DESC LIMIT 1"
        );
        let found = self.connection.prepare_cached(&sql).and_then(|mut statement| {
            let bound = bound.min(u64::MAX >> 1);
            statement.query_row((self.space.get().0, key.as_str(), bound), decode_entry_head).optional()
        });
        found.map_err(failed("a version"))
    }

    fn changed_since(&self, prefix: &str, seq: Seq, max: usize) -> Result<Option<PrefixScan>, LookupError> {
        let stored = self.stored_since(prefix, seq, max).map_err(failed("entries"))?;
        let Some((mut changed, scanned)) = stored else { return Ok(None) };
        self.each_memtable(|memtable| changed.extend(memtable.entries_since(prefix, seq)));
        Ok(Some(PrefixScan { changed: changed.into_iter().collect(), scanned }))
    }

    fn recent_changes(&self, prefix: &str, seq: Seq) -> Option<Vec<(Key, EntryHead)>> {
        let flushed_seq = self.memtables.read().get(&self.space.get()).map_or(Seq(0), Memtable::flushed_seq);
        if seq < flushed_seq {
            return None;
        }
        let mut changed = BTreeMap::new();
        self.each_memtable(|memtable| changed.extend(memtable.entries_since(prefix, seq)));
        Some(changed.into_iter().collect())
    }

    fn seq_at(&self, time: Timestamp) -> Result<Seq, LookupError> {
        load::seq_at(self.connection, self.space.get(), time).map_err(failed("a time"))
    }

    fn record(&self, seq: Seq) -> Result<Option<Record>, LookupError> {
        let found = load::record(self.connection, self.space.get(), seq).map_err(failed("a record"))?;
        self.count(1, found.as_ref().map_or(0, |record| record.body.len() + record.payload.len()));
        Ok(found)
    }

    fn item(&self, key: &ItemKey) -> Result<Option<Item>, LookupError> {
        let subject = "an item";
        if let Some(item) =
            self.find_in_memory(|memtable| memtable.items.get(key).map(|changed| changed.item.clone()))
        {
            return Ok(item);
        }
        self.count(1, 0);
        let mut statement = self.item.borrow_mut();
        let bytes: Option<Vec<u8>> = statement
            .query_row((self.space.get().0, key.kind.number(), &*key.id), |row| row.get(0))
            .optional()
            .map_err(failed(subject))?;
        let item = bytes.map(|bytes| codec::read_item(key.kind, &bytes)).transpose();
        item.map_err(|source| LookupError { subject, source: Box::new(source) })
    }

    fn first_stored_item(
        &self,
        kind: ItemKind,
        ids: &[Arc<str>],
    ) -> Result<(Option<usize>, usize), LookupError> {
        let mut in_memory = None;
        let mut others = Vec::with_capacity(ids.len());
        for (index, id) in ids.iter().enumerate() {
            let key = ItemKey::new(kind, Arc::clone(id));
            match self
                .find_in_memory(|memtable| memtable.items.get(&key).map(|changed| changed.item.is_some()))
            {
                Some(true) => {
                    in_memory = Some(index);
                    break;
                }
                Some(false) => {}
                None => others.push(index),
            }
        }
        let before = self.read_units.get();
        let found = self.first_with_row(kind, ids, &others).map_err(failed("items"))?;
        // Every index in `others` precedes the one that was found in memory.
        Ok((found.or(in_memory), (self.read_units.get() - before) as usize))
    }
}

/// Formats an error and its sources as text that can be shared between callers.
pub(crate) fn error_text(error: &dyn std::error::Error) -> Arc<str> {
    quorate_core::error_chain(error).into()
}
