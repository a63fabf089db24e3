//! Memtable: changes of the newest records to rows that are not written to their tables yet.
//!
//! The log is the source of truth, so the derived tables may lag behind. A commit writes only its record; its row
//! changes are collected here and flushed in bulk once there are enough of them. Most are never written: a delivery
//! that is acked soon after it was sent leaves no row. Lookups and reads check the memtable before the tables. After a
//! crash it is rebuilt from the log records after `spaces.tables_at`.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use quorate_core::codec;
use quorate_core::{
    AgentNo, ClientId, CreationPosition, DeadDelivery, DeliveryEnd, DeliveryNo, Effect, EndState,
    EndedDelivery, EntryHead, Item, ItemKey, ItemKind, Key, LeaseToken, Message, OpenDelivery,
    OpenDeliveryState, Presence, PriorSend, Record, Retention, ReturnOutcome, ScopeNo, Seq, SpaceNo,
    TimelineKind, Version, WorkingState,
};
use quorate_store::ReadQuery;

/// Latest state of a delivery.
#[derive(Clone, Copy)]
pub(crate) enum LatestState {
    /// The delivery is open.
    Open { open: OpenDelivery, lease_ms: u64 },
    /// The delivery has ended; `open` is its last open state.
    Ended { open: OpenDelivery, state: EndState, token: LeaseToken, seq: Seq },
}

/// Delivery that changed since the last flush.
#[derive(Clone, Copy)]
pub(crate) struct ChangedDelivery {
    pub(crate) latest: LatestState,
    /// It was redriven: the row in `dead`, if any, must be deleted.
    pub(crate) redriven: bool,
    /// It was created since the last flush, so the tables have no row for it.
    is_new: bool,
}

impl ChangedDelivery {
    /// Whether a flush will probably write or delete a row. A delivery that is created and ends between two flushes
    /// needs none, and a leased one is expected to end soon.
    fn needs_row_write(&self) -> bool {
        let is_waiting = match &self.latest {
            LatestState::Open { open, .. } => open.token().is_none(),
            LatestState::Ended { .. } => false,
        };
        is_waiting || self.redriven || !self.is_new
    }

    /// Returns how the delivery ended; `None` if it is open.
    pub(crate) fn ended(&self) -> Option<DeliveryEnd> {
        match self.latest {
            LatestState::Ended { open, state, token, seq } => {
                Some(DeliveryEnd { state, token, seq, origin: open.origin() })
            }
            LatestState::Open { .. } => None,
        }
    }

    /// Returns the dead letter; `None` if the delivery is not one.
    pub(crate) fn dead(&self) -> Option<DeadDelivery> {
        match &self.latest {
            LatestState::Ended { open, state: EndState::Dead, .. } => Some(DeadDelivery::from_open(open)),
            LatestState::Ended { .. } | LatestState::Open { .. } => None,
        }
    }
}

/// Newest version of an entry that changed since the last flush.
#[derive(Clone)]
pub(crate) struct ChangedEntry {
    pub(crate) head: EntryHead,
    pub(crate) entry_type: String,
    pub(crate) author: String,
    /// Number of entries that it depends on.
    pub(crate) dependency_count: usize,
}

impl ChangedEntry {
    /// Whether a list with these filters contains the entry.
    pub(crate) fn is_listed(&self, entry_type: Option<&str>, author: Option<&str>) -> bool {
        !self.head.deleted
            && entry_type.is_none_or(|filter| filter == self.entry_type)
            && author.is_none_or(|filter| filter == self.author)
    }
}

/// Agent that changed since the last flush.
#[derive(Clone)]
pub(crate) struct ChangedAgent {
    /// Record of the last registration. `None`: it is before the last flush, so the row has it.
    pub(crate) registered_in: Option<Seq>,
    pub(crate) removed: bool,
    pub(crate) presence: Presence,
}

fn presence_of(working: &WorkingState, number: AgentNo) -> Presence {
    working.agents().get(number).map(|agent| agent.presence.clone()).unwrap_or_default()
}

/// Item that changed since the last flush.
#[derive(Clone)]
pub(crate) struct ChangedItem {
    /// Current state; `None` if the item was removed.
    pub(crate) item: Option<Item>,
    /// Position of its first change in the memtable, or of its recreation. If the table has no row for the item, this is
    /// its position of creation.
    pub(crate) created: CreationPosition,
    /// The item was removed and created again since the last flush: a row in the table belongs to the old one.
    pub(crate) recreated: bool,
}

impl ChangedItem {
    /// Merges a later change.
    fn merge(&mut self, later: Self) {
        if later.recreated || (self.item.is_none() && later.item.is_some()) {
            self.created = later.created;
            self.recreated = true;
        }
        self.item = later.item;
    }
}

/// Unflushed row changes of one space.
#[derive(Clone, Default)]
pub(crate) struct Memtable {
    pub(crate) deliveries: HashMap<DeliveryNo, ChangedDelivery, foldhash::fast::RandomState>,
    /// Number of deliveries for which a flush will write or delete a row.
    row_writes: usize,
    pub(crate) entries: BTreeMap<Key, ChangedEntry>,
    pub(crate) versions: BTreeMap<(Key, Version), EntryHead>,
    pub(crate) client_ids: BTreeMap<ClientId, PriorSend>,
    pub(crate) agents: BTreeMap<AgentNo, ChangedAgent>,
    pub(crate) erased: BTreeMap<(Seq, u32), ()>,
    pub(crate) items: BTreeMap<ItemKey, ChangedItem>,
    /// Entries of session timelines.
    pub(crate) timeline: BTreeSet<(Arc<str>, TimelineKind, Seq)>,
    /// Sessions and procedures whose pause state may have changed, and whether they are paused. Rows of deliveries do not contain it.
    pub(crate) paused: BTreeMap<ScopeNo, bool>,
    /// Last record that the tables contain.
    flushed_seq: Seq,
    /// Last record that the memtable contains.
    last_seq: Seq,
}

impl Memtable {
    /// Whether there is nothing to flush.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows() == 0
    }

    /// Empties the memtable after a flush. The allocation for deliveries is reused: freeing it would make the operating
    /// system zero new pages for the next batch.
    pub(crate) fn clear(&mut self) {
        let mut deliveries = std::mem::take(&mut self.deliveries);
        deliveries.clear();
        *self = Self { deliveries, flushed_seq: self.last_seq, last_seq: self.last_seq, ..Self::default() };
    }

    /// Creates an empty memtable for tables that contain all records up to `flushed_seq`.
    pub(crate) fn starting_after(flushed_seq: Seq) -> Self {
        Self { flushed_seq, last_seq: flushed_seq, ..Self::default() }
    }

    /// Last record that the tables contain.
    pub(crate) fn flushed_seq(&self) -> Seq {
        self.flushed_seq
    }

    /// Last record that the memtable or the tables contain.
    pub(crate) fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// Iterates over the entries with this prefix that were written after `seq`, by key.
    pub(crate) fn entries_since(&self, prefix: &str, seq: Seq) -> impl Iterator<Item = (Key, EntryHead)> {
        let from = self.entries.iter().skip_while(move |(key, _)| key.as_str() < prefix);
        let with_prefix = from.take_while(move |(key, _)| key.as_str().starts_with(prefix));
        with_prefix
            .filter(move |(_, entry)| entry.head.seq > seq)
            .map(|(key, entry)| (key.clone(), entry.head))
    }

    /// Copies the parts that planning a rollback needs.
    fn for_plan(&self) -> Self {
        let Self { entries, versions, items, flushed_seq, last_seq, .. } = self;
        Self {
            entries: entries.clone(),
            versions: versions.clone(),
            items: items.clone(),
            flushed_seq: *flushed_seq,
            last_seq: *last_seq,
            ..Self::default()
        }
    }

    /// Number after the highest delivery in the memtable; 0 if there is none.
    pub(crate) fn next_delivery(&self) -> u64 {
        self.deliveries.keys().map(|number| number.0 + 1).max().unwrap_or(0)
    }

    /// Approximate number of rows to write. Deliveries that will probably need no row count one eighth, so that a
    /// fan-out has time to be acked before it triggers a flush.
    pub(crate) fn rows(&self) -> usize {
        let probably_rowless = self.deliveries.len() - self.row_writes;
        self.row_writes
            + probably_rowless.div_ceil(8)
            + self.entries.len()
            + self.versions.len()
            + self.client_ids.len()
            + self.agents.len()
            + self.erased.len()
            + self.items.len()
            + self.timeline.len()
    }

    /// Applies the effects of a record. `working` is the state after the record; `fingerprint` returns the fingerprint
    /// of a message with a client-assigned id, given the message and its index in the record.
    pub(crate) fn apply(
        &mut self,
        working: &WorkingState,
        record: &Record,
        (effects, ended): (&[Effect], &[EndedDelivery]),
        fingerprint: impl Fn(&Arc<Message>, u32) -> [u8; 32],
    ) {
        self.last_seq = record.seq;
        let mut ended = ended.iter();
        let (mut n, mut changes) = (0, 0);
        for effect in effects {
            if let Effect::Changed { item, .. } = effect {
                self.item_changed(item, CreationPosition::new(record.seq, changes));
                changes += 1;
            }
            if let Effect::Sent { message, part, first, deliveries } = effect {
                if let Some(id) = &message.client_id {
                    let sent = PriorSend {
                        seq: record.seq,
                        n,
                        part: *part,
                        principal: record.principal.clone(),
                        fingerprint: fingerprint(message, n),
                        first: *first,
                        count: deliveries.len() as u32,
                    };
                    self.client_ids.insert(id.clone(), sent);
                }
                n += 1;
            }
            self.effect(working, record, effect, &mut ended);
            self.paused.extend(effect.pause_change());
            self.timeline
                .extend(effect.timeline_entry().map(|(session, kind)| (session.into(), kind, record.seq)));
        }
    }

    fn effect(
        &mut self,
        working: &WorkingState,
        record: &Record,
        effect: &Effect,
        ended: &mut std::slice::Iter<'_, EndedDelivery>,
    ) {
        match effect {
            // Generations are written immediately: there is one per restore.
            Effect::SpaceCreated { .. } | Effect::SpaceRestored { .. } => {}
            Effect::AgentRegistered { number, .. } => {
                let presence = presence_of(working, *number);
                let changed = ChangedAgent { registered_in: Some(record.seq), removed: false, presence };
                self.agents.insert(*number, changed);
            }
            Effect::AgentRemoved { number } => {
                let registered_in = self.agents.get(number).and_then(|agent| agent.registered_in);
                let presence = presence_of(working, *number);
                self.agents.insert(*number, ChangedAgent { registered_in, removed: true, presence });
            }
            Effect::PresenceChanged { number, .. } => {
                let before = self.agents.get(number);
                let registered_in = before.and_then(|agent| agent.registered_in);
                let removed = working.agents().get(*number).is_some_and(|agent| agent.removed);
                let presence = presence_of(working, *number);
                self.agents.insert(*number, ChangedAgent { registered_in, removed, presence });
            }
            Effect::Sent { first, deliveries, .. } => {
                self.add_new(working, *first, deliveries.len());
            }
            Effect::Leased { deliveries, .. } | Effect::LeasedFromPool { deliveries, .. } => {
                deliveries.iter().for_each(|held| self.update_open(working, held.delivery));
            }
            Effect::Returned {
                delivery,
                next: ReturnOutcome::Ready | ReturnOutcome::Scheduled(_) | ReturnOutcome::Redirected(_),
                ..
            } => self.update_open(working, *delivery),
            Effect::Acked { delivery, .. }
            | Effect::Returned { delivery, next: ReturnOutcome::Dead | ReturnOutcome::Expired, .. }
            | Effect::Expired { delivery, .. }
            | Effect::Purged { delivery, .. }
            | Effect::DeniedByPolicy { delivery, .. } => {
                if let (Some(before), Some((state, token))) = (ended.next(), effect.ended(*delivery)) {
                    self.set(
                        *delivery,
                        LatestState::Ended { open: before.open, state, token, seq: record.seq },
                    );
                }
            }
            Effect::AckedMany { deliveries } => {
                for (held, before) in deliveries.iter().zip(ended) {
                    let (open, token, seq) = (before.open, held.token, record.seq);
                    self.set(held.delivery, LatestState::Ended { open, state: EndState::Acked, token, seq });
                }
            }
            Effect::Backfilled { first, messages, .. } => self.add_new(working, *first, messages.len()),
            Effect::Redriven { delivery, to, seq, n, .. } => {
                // If it ended again in the same record, that effect updates the state and keeps `redriven`.
                let open = OpenDelivery::new(*to, *seq, *n, OpenDeliveryState::Ready { since: record.at });
                let latest = LatestState::Open { open, lease_ms: 0 };
                self.put(*delivery, ChangedDelivery { latest, redriven: true, is_new: false });
                self.update_open(working, *delivery);
            }
            Effect::Written { key, version, entry_type, depends_on, .. } => {
                self.entry(working, record, (key, *version), Some((entry_type, depends_on.len())));
            }
            Effect::Deleted { key, version } => self.entry(working, record, (key, *version), None),
            Effect::Erased { seq, part } => drop(self.erased.insert((*seq, *part), ())),
            Effect::ContributionAdded { session, .. } => {
                // If the session was closed later in the same record, that effect updates it. The position passed here
                // is not used: the session was created before.
                let key = ItemKey::new(ItemKind::Session, session.as_str());
                if let Some(item) = working.item(&key) {
                    self.put_item(key, Some(item), CreationPosition::new(record.seq, 0));
                }
            }
            // `Changed` is handled by the caller, which knows its position in the record.
            Effect::Changed { .. } | Effect::WaitAborted { .. } => {}
        }
    }

    fn item_changed(&mut self, item: &Item, created: CreationPosition) {
        let stored = (item.retention() != Retention::LogOnly).then(|| item.clone());
        self.put_item(item.key(), stored, created);
    }

    fn put_item(&mut self, key: ItemKey, item: Option<Item>, created: CreationPosition) {
        self.merge_item(key, ChangedItem { item, created, recreated: false });
    }

    fn merge_item(&mut self, key: ItemKey, later: ChangedItem) {
        match self.items.entry(key) {
            btree_map::Entry::Occupied(entry) => entry.into_mut().merge(later),
            btree_map::Entry::Vacant(entry) => drop(entry.insert(later)),
        }
    }

    fn set(&mut self, number: DeliveryNo, latest: LatestState) {
        self.put(number, ChangedDelivery { latest, redriven: false, is_new: false });
    }

    /// Updates the state of a delivery. `redriven` and the creation flag are sticky.
    fn put(&mut self, number: DeliveryNo, changed: ChangedDelivery) {
        let known = match self.deliveries.entry(number) {
            Entry::Occupied(entry) => {
                let known = entry.into_mut();
                self.row_writes -= usize::from(known.needs_row_write());
                known.latest = changed.latest;
                known.redriven |= changed.redriven;
                known
            }
            Entry::Vacant(entry) => entry.insert(changed),
        };
        self.row_writes += usize::from(known.needs_row_write());
    }

    /// Stores the state of a delivery after the record. If it ended later in the same record, that effect stores it.
    pub(crate) fn update_open(&mut self, working: &WorkingState, number: DeliveryNo) {
        self.set_open(working, number, false);
    }

    /// Stores deliveries that the record created.
    fn add_new(&mut self, working: &WorkingState, first: DeliveryNo, count: usize) {
        for number in (first.0..first.0 + count as u64).map(DeliveryNo) {
            self.set_open(working, number, true);
        }
    }

    fn set_open(&mut self, working: &WorkingState, number: DeliveryNo, is_new: bool) {
        if let Some(open) = working.open(number) {
            let latest = LatestState::Open { open: *open, lease_ms: working.lease_ms(number).unwrap_or(0) };
            self.put(number, ChangedDelivery { latest, redriven: false, is_new });
        }
    }

    fn entry(
        &mut self,
        working: &WorkingState,
        record: &Record,
        (key, version): (&Key, Version),
        live: Option<(&String, usize)>,
    ) {
        let generation = working.head.generation;
        let head = EntryHead { version, generation, seq: record.seq, deleted: live.is_none() };
        let (entry_type, dependency_count) =
            live.map(|(name, count)| (name.clone(), count)).unwrap_or_default();
        let author = record.principal.clone();
        self.versions.insert((key.clone(), version), head);
        self.entries.insert(key.clone(), ChangedEntry { head, entry_type, author, dependency_count });
    }

    /// Merges the changes of a later memtable and empties that one, keeping its allocation for deliveries.
    pub(crate) fn merge(&mut self, later: &mut Self) {
        for (number, changed) in later.deliveries.drain() {
            self.put(number, changed);
        }
        let deliveries = std::mem::take(&mut later.deliveries);
        let later = std::mem::replace(later, Self { deliveries, ..Self::default() });
        let Self { entries, versions, client_ids, agents, erased, items, timeline, paused, last_seq, .. } =
            later;
        self.last_seq = self.last_seq.max(last_seq);
        for (number, agent) in agents {
            let registered_in = self.agents.get(&number).and_then(|before| before.registered_in);
            self.agents.insert(
                number,
                ChangedAgent { registered_in: agent.registered_in.or(registered_in), ..agent },
            );
        }
        self.entries.extend(entries);
        self.versions.extend(versions);
        self.client_ids.extend(client_ids);
        self.erased.extend(erased);
        // After a flush, the changes of a large commit are moved as a whole.
        if self.items.is_empty() {
            self.items = items;
        } else {
            items.into_iter().for_each(|(key, changed)| self.merge_item(key, changed));
        }
        self.timeline.extend(timeline);
        self.paused.extend(paused);
    }

    /// Iterates over the versions of a key, oldest first.
    pub(crate) fn versions_of(&self, key: &Key) -> impl Iterator<Item = EntryHead> {
        let range = (key.clone(), Version(0))..=(key.clone(), Version(u64::MAX));
        self.versions.range(range).map(|(_, head)| *head)
    }

    /// Iterates over the entries with this prefix after the key `after`, by key.
    fn entries_after<'t>(
        &'t self,
        prefix: &str,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&'t Key, &'t ChangedEntry)> {
        let first = Key::new(prefix).ok();
        let from = match (after, &first) {
            (Some(after), _) if after.as_str() >= prefix => Bound::Excluded(after),
            (_, Some(first)) => Bound::Included(first),
            (_, None) => Bound::Unbounded,
        };
        let later = self.entries.range((from, Bound::Unbounded));
        // If the prefix is not a valid key, the range cannot start at it: skip to the first match.
        let later = later.skip_while(move |(key, _)| key.as_str() < prefix);
        later.take_while(move |(key, _)| key.as_str().starts_with(prefix))
    }

    /// Iterates over the items of a kind, by id.
    pub(crate) fn items_of(&self, kind: ItemKind) -> impl Iterator<Item = (&ItemKey, &ChangedItem)> {
        self.items.range(ItemKey::new(kind, "")..).take_while(move |(key, _)| key.kind == kind)
    }

    /// Copies the parts that reads need, so that the lock is only held for the copy.
    fn for_reads(&self, queries: &[ReadQuery]) -> Self {
        let mut copy = Self::default();
        for query in queries {
            match query {
                ReadQuery::Entry { key, .. } | ReadQuery::History { key, .. } => {
                    let versions = self.versions_of(key);
                    copy.versions.extend(versions.map(|head| ((key.clone(), head.version), head)));
                }
                ReadQuery::Entries { prefix, entry_type, author, after, limit } => {
                    let mut listed = 0;
                    for (key, entry) in self.entries_after(prefix, after.as_ref()) {
                        copy.entries.insert(key.clone(), entry.clone());
                        listed += usize::from(entry.is_listed(entry_type.as_deref(), author.as_deref()));
                        // Later entries belong to a later page, whatever the tables contain.
                        if listed >= *limit {
                            break;
                        }
                    }
                }
                ReadQuery::Dependencies { .. } => copy.entries.clone_from(&self.entries),
                ReadQuery::MessageByClientId(id) => {
                    copy.client_ids.extend(self.client_ids.get(id).map(|sent| (id.clone(), sent.clone())));
                }
                ReadQuery::MessageOfDelivery(number) => {
                    let found = self.deliveries.get(number).map(|changed| (*number, *changed));
                    copy.deliveries.extend(found);
                }
                ReadQuery::Deliveries { first, count } => {
                    let numbers =
                        (0..u64::from(*count)).map(|index| DeliveryNo(first.0.saturating_add(index)));
                    let found = numbers.filter_map(|number| Some((number, *self.deliveries.get(&number)?)));
                    copy.deliveries.extend(found);
                    copy.paused = self.paused.clone();
                }
                ReadQuery::Timeline { session, .. } => {
                    let first = (Arc::clone(session), TimelineKind::Message, Seq(0));
                    let of_session = self.timeline.range(first..).take_while(|(id, ..)| id == session);
                    copy.timeline.extend(of_session.cloned());
                }
                ReadQuery::DeadLetters { .. } => {
                    let is_relevant = |changed: &ChangedDelivery| {
                        changed.redriven
                            || matches!(changed.latest, LatestState::Ended { state: EndState::Dead, .. })
                    };
                    let found = self.deliveries.iter().filter(|(_, changed)| is_relevant(changed));
                    copy.deliveries.extend(found.map(|(number, changed)| (*number, *changed)));
                }
                ReadQuery::Item(key) => {
                    copy.items.extend(self.items.get(key).map(|item| (key.clone(), item.clone())));
                }
                ReadQuery::Items { kind, .. } => {
                    copy.items.extend(self.items_of(*kind).map(|(key, item)| (key.clone(), item.clone())));
                }
                ReadQuery::Message { .. }
                | ReadQuery::SeqAt(_)
                | ReadQuery::Record(_)
                | ReadQuery::Part { .. } => {}
            }
        }
        copy
    }
}

/// Returns the client-assigned ids of the messages of a record whose payload is this part.
pub(crate) fn client_ids_of_part(record: &Record, part: u32) -> Result<Vec<ClientId>, codec::DecodeError> {
    let effects = codec::read_body(record)?.effects.into_iter();
    Ok({ effects }
        .filter_map(|effect| match effect {
            Effect::Sent { message, part: payload_part, .. } if payload_part == part => {
                message.client_id.clone()
            }
            _ => None,
        })
        .collect())
}

/// Memtables of all spaces. The writer changes them after an fsync; readers copy from them.
#[derive(Clone, Default)]
pub(crate) struct Memtables(Arc<RwLock<BTreeMap<SpaceNo, Memtable>>>);

impl Memtables {
    pub(crate) fn new(memtables: BTreeMap<SpaceNo, Memtable>) -> Self {
        Self(Arc::new(RwLock::new(memtables)))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, BTreeMap<SpaceNo, Memtable>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<SpaceNo, Memtable>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`Self::snapshot_for_reads`], with the parts that planning a rollback needs.
    pub(crate) fn snapshot_for_plan<E>(
        &self,
        space: SpaceNo,
        pin: impl FnOnce() -> Result<(), E>,
    ) -> Result<Memtable, E> {
        let memtables = self.read();
        pin()?;
        Ok(memtables.get(&space).map(Memtable::for_plan).unwrap_or_default())
    }

    /// Copies the parts of a memtable that reads need, consistent with a database snapshot: `pin` starts the snapshot
    /// under the lock, so that no flush can happen in between.
    pub(crate) fn snapshot_for_reads<E>(
        &self,
        space: SpaceNo,
        queries: &[ReadQuery],
        pin: impl FnOnce() -> Result<(), E>,
    ) -> Result<Memtable, E> {
        let memtables = self.read();
        pin()?;
        Ok(memtables.get(&space).map(|memtable| memtable.for_reads(queries)).unwrap_or_default())
    }
}
