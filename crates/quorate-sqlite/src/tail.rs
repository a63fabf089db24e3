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
    AgentNo, ClientId, Created, Dead, DeliveryNo, Effect, EndState, Ended, EndedOpen, EntryHead, Item,
    ItemKey, ItemKind, Keep, Key, LineKind, Message, Next, Open, OpenState, Presence, Record, SentBefore,
    Seq, SessionNo, SessionStatus, SpaceNo, Token, Version, Working,
};
use quorate_store::Read;

/// Latest state of a delivery.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    /// The delivery is open.
    Open { open: Open, lease_ms: u64 },
    /// The delivery has ended; `open` is its last open state.
    Ended { open: Open, state: EndState, token: Token, seq: Seq },
}

/// Delivery that changed since the last flush.
#[derive(Clone, Copy)]
pub(crate) struct ChangedDelivery {
    pub(crate) fate: Fate,
    /// It was redriven: the row in `dead`, if any, must be deleted.
    pub(crate) redriven: bool,
    /// It was created since the last flush, so the tables have no row for it.
    is_new: bool,
}

impl ChangedDelivery {
    /// Whether a flush will probably write or delete a row. A delivery that is created and ends between two flushes
    /// needs none, and a leased one is expected to end soon.
    fn needs_row_write(&self) -> bool {
        let waits = match &self.fate {
            Fate::Open { open, .. } => open.token().is_none(),
            Fate::Ended { .. } => false,
        };
        waits || self.redriven || !self.is_new
    }

    /// Returns how the delivery ended; `None` if it is open.
    pub(crate) fn ended(&self) -> Option<Ended> {
        match self.fate {
            Fate::Ended { state, token, seq, .. } => Some(Ended { state, token, seq }),
            Fate::Open { .. } => None,
        }
    }

    /// Returns the dead letter; `None` if the delivery is not one.
    pub(crate) fn dead(&self) -> Option<Dead> {
        match &self.fate {
            Fate::Ended { open, state: EndState::Dead, .. } => Some(Dead::of(open)),
            Fate::Ended { .. } | Fate::Open { .. } => None,
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
    pub(crate) depends: usize,
}

impl ChangedEntry {
    /// Whether a list with these filters contains the entry.
    pub(crate) fn is_listed(&self, entry_type: Option<&str>, author: Option<&str>) -> bool {
        !self.head.deleted
            && entry_type.is_none_or(|wanted| wanted == self.entry_type)
            && author.is_none_or(|wanted| wanted == self.author)
    }
}

/// Agent that changed since the last flush.
#[derive(Clone)]
pub(crate) struct ChangedAgent {
    /// Record of the last registration. `None`: it is before the last flush, so the row has it.
    pub(crate) described: Option<Seq>,
    pub(crate) removed: bool,
    pub(crate) presence: Presence,
}

fn presence_of(working: &Working, number: AgentNo) -> Presence {
    working.agents().get(number).map(|agent| agent.presence.clone()).unwrap_or_default()
}

/// Item that changed since the last flush.
#[derive(Clone)]
pub(crate) struct ChangedItem {
    /// Current state; `None` if the item was removed.
    pub(crate) item: Option<Item>,
    /// Position of its first change in the memtable, or of its recreation. If the table has no row for the item, this is
    /// its position of creation.
    pub(crate) created: Created,
    /// The item was removed and created again since the last flush: a row in the table belongs to the old one.
    pub(crate) anew: bool,
}

impl ChangedItem {
    /// Merges a later change.
    fn absorb(&mut self, later: Self) {
        if later.anew || (self.item.is_none() && later.item.is_some()) {
            self.created = later.created;
            self.anew = true;
        }
        self.item = later.item;
    }
}

/// Unflushed row changes of one space.
#[derive(Clone, Default)]
pub(crate) struct Tail {
    pub(crate) deliveries: HashMap<DeliveryNo, ChangedDelivery, foldhash::fast::RandomState>,
    /// Number of deliveries for which a flush will write or delete a row.
    row_writes: usize,
    pub(crate) entries: BTreeMap<Key, ChangedEntry>,
    pub(crate) versions: BTreeMap<(Key, Version), EntryHead>,
    pub(crate) client_ids: BTreeMap<ClientId, SentBefore>,
    pub(crate) agents: BTreeMap<AgentNo, ChangedAgent>,
    pub(crate) erased: BTreeMap<(Seq, u32), ()>,
    pub(crate) items: BTreeMap<ItemKey, ChangedItem>,
    /// Entries of session timelines.
    pub(crate) lines: BTreeSet<(Arc<str>, LineKind, Seq)>,
    /// Sessions whose pause state changed, and whether they are paused. Rows of deliveries do not contain it.
    pub(crate) paused: BTreeMap<SessionNo, bool>,
    /// Last record that the tables contain.
    base: Seq,
    /// Last record that the memtable contains.
    through: Seq,
}

impl Tail {
    /// Whether there is nothing to flush.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows() == 0
    }

    /// Empties the memtable after a flush. The allocation for deliveries is reused: freeing it would make the operating
    /// system zero new pages for the next batch.
    pub(crate) fn clear(&mut self) {
        let mut deliveries = std::mem::take(&mut self.deliveries);
        deliveries.clear();
        *self = Self { deliveries, base: self.through, through: self.through, ..Self::default() };
    }

    /// Creates an empty memtable for tables that contain all records up to `base`.
    pub(crate) fn after(base: Seq) -> Self {
        Self { base, through: base, ..Self::default() }
    }

    /// Last record that the tables contain.
    pub(crate) fn base(&self) -> Seq {
        self.base
    }

    /// Last record that the memtable or the tables contain.
    pub(crate) fn through(&self) -> Seq {
        self.through
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
        let Self { entries, versions, items, base, through, .. } = self;
        Self {
            entries: entries.clone(),
            versions: versions.clone(),
            items: items.clone(),
            base: *base,
            through: *through,
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
            + self.lines.len()
    }

    /// Applies the effects of a record. `working` is the state after the record; `fingerprint` returns the fingerprint
    /// of a message with a client-assigned id, given the message and its index in the record.
    pub(crate) fn take_in(
        &mut self,
        working: &Working,
        record: &Record,
        (effects, ended): (&[Effect], &[EndedOpen]),
        fingerprint: impl Fn(&Arc<Message>, u32) -> [u8; 32],
    ) {
        self.through = record.seq;
        let mut ended = ended.iter();
        let (mut n, mut changes) = (0, 0);
        for effect in effects {
            if let Effect::Changed { item, .. } = effect {
                self.item_changed(item, Created::new(record.seq, changes));
                changes += 1;
            }
            if let Effect::Sent { message, part, first, deliveries } = effect {
                if let Some(id) = &message.client_id {
                    let sent = SentBefore {
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
            self.lines.extend(effect.line().map(|(session, kind)| (session.into(), kind, record.seq)));
        }
    }

    fn effect(
        &mut self,
        working: &Working,
        record: &Record,
        effect: &Effect,
        ended: &mut std::slice::Iter<'_, EndedOpen>,
    ) {
        match effect {
            // Generations are written immediately: there is one per restore.
            Effect::SpaceCreated { .. } | Effect::Restored { .. } => {}
            Effect::AgentRegistered { number, .. } => {
                let presence = presence_of(working, *number);
                let changed = ChangedAgent { described: Some(record.seq), removed: false, presence };
                self.agents.insert(*number, changed);
            }
            Effect::AgentRemoved { number } => {
                let described = self.agents.get(number).and_then(|agent| agent.described);
                let presence = presence_of(working, *number);
                self.agents.insert(*number, ChangedAgent { described, removed: true, presence });
            }
            Effect::AgentStatus { number, .. } => {
                let before = self.agents.get(number);
                let described = before.and_then(|agent| agent.described);
                let removed = working.agents().get(*number).is_some_and(|agent| agent.removed);
                let presence = presence_of(working, *number);
                self.agents.insert(*number, ChangedAgent { described, removed, presence });
            }
            Effect::Sent { first, deliveries, .. } => {
                self.add_new(working, *first, deliveries.len());
            }
            Effect::Leased { deliveries, .. } | Effect::Taken { deliveries, .. } => {
                deliveries.iter().for_each(|held| self.open(working, held.delivery));
            }
            Effect::Returned {
                delivery,
                next: Next::Ready | Next::Scheduled(_) | Next::Redirected(_),
                ..
            } => self.open(working, *delivery),
            Effect::Acked { delivery, .. }
            | Effect::Returned { delivery, next: Next::Dead | Next::Expired, .. }
            | Effect::Expired { delivery, .. }
            | Effect::Purged { delivery, .. }
            | Effect::Barred { delivery, .. } => {
                if let (Some(before), Some((state, token))) = (ended.next(), effect.ended(*delivery)) {
                    self.set(*delivery, Fate::Ended { open: before.open, state, token, seq: record.seq });
                }
            }
            Effect::AckedMany { deliveries } => {
                for (held, before) in deliveries.iter().zip(ended) {
                    let (open, token, seq) = (before.open, held.token, record.seq);
                    self.set(held.delivery, Fate::Ended { open, state: EndState::Acked, token, seq });
                }
            }
            Effect::Brought { first, letters, .. } => self.add_new(working, *first, letters.len()),
            Effect::Redriven { delivery, to, seq, n, .. } => {
                // If it ended again in the same record, that effect updates the state and keeps `redriven`.
                let open = Open::new(*to, *seq, *n, OpenState::Ready { since: record.at });
                let fate = Fate::Open { open, lease_ms: 0 };
                self.put(*delivery, ChangedDelivery { fate, redriven: true, is_new: false });
                self.open(working, *delivery);
            }
            Effect::Written { key, version, entry_type, depends_on, .. } => {
                self.entry(working, record, (key, *version), Some((entry_type, depends_on.len())));
            }
            Effect::Deleted { key, version } => self.entry(working, record, (key, *version), None),
            Effect::Erased { seq, part } => drop(self.erased.insert((*seq, *part), ())),
            Effect::SessionAdded { session, .. } => {
                // If the session was closed later in the same record, that effect updates it. The position passed here
                // is not used: the session was created before.
                let key = ItemKey::new(ItemKind::Session, session.as_str());
                if let Some(item) = working.item(&key) {
                    self.put_item(key, Some(item), Created::new(record.seq, 0));
                }
            }
            // `Changed` is handled by the caller, which knows its position in the record.
            Effect::Changed { .. } | Effect::WaitAborted { .. } => {}
        }
    }

    fn item_changed(&mut self, item: &Item, created: Created) {
        let kept = (item.keep() != Keep::Gone).then(|| item.clone());
        self.put_item(item.key(), kept, created);
        if let Item::Session(session) = item {
            self.paused.insert(session.number, session.status == SessionStatus::Paused);
        }
    }

    fn put_item(&mut self, key: ItemKey, item: Option<Item>, created: Created) {
        self.absorb_item(key, ChangedItem { item, created, anew: false });
    }

    fn absorb_item(&mut self, key: ItemKey, later: ChangedItem) {
        match self.items.entry(key) {
            btree_map::Entry::Occupied(known) => known.into_mut().absorb(later),
            btree_map::Entry::Vacant(place) => drop(place.insert(later)),
        }
    }

    fn set(&mut self, number: DeliveryNo, fate: Fate) {
        self.put(number, ChangedDelivery { fate, redriven: false, is_new: false });
    }

    /// Updates the state of a delivery. `redriven` and the creation flag are sticky.
    fn put(&mut self, number: DeliveryNo, changed: ChangedDelivery) {
        let known = match self.deliveries.entry(number) {
            Entry::Occupied(entry) => {
                let known = entry.into_mut();
                self.row_writes -= usize::from(known.needs_row_write());
                known.fate = changed.fate;
                known.redriven |= changed.redriven;
                known
            }
            Entry::Vacant(entry) => entry.insert(changed),
        };
        self.row_writes += usize::from(known.needs_row_write());
    }

    /// Stores the state of a delivery after the record. If it ended later in the same record, that effect stores it.
    pub(crate) fn open(&mut self, working: &Working, number: DeliveryNo) {
        self.set_open(working, number, false);
    }

    /// Stores deliveries that the record created.
    fn add_new(&mut self, working: &Working, first: DeliveryNo, count: usize) {
        for number in (first.0..first.0 + count as u64).map(DeliveryNo) {
            self.set_open(working, number, true);
        }
    }

    fn set_open(&mut self, working: &Working, number: DeliveryNo, is_new: bool) {
        if let Some(open) = working.open(number) {
            let fate = Fate::Open { open: *open, lease_ms: working.lease_ms(number).unwrap_or(0) };
            self.put(number, ChangedDelivery { fate, redriven: false, is_new });
        }
    }

    fn entry(
        &mut self,
        working: &Working,
        record: &Record,
        (key, version): (&Key, Version),
        live: Option<(&String, usize)>,
    ) {
        let generation = working.head.generation;
        let head = EntryHead { version, generation, seq: record.seq, deleted: live.is_none() };
        let (entry_type, depends) = live.map(|(name, count)| (name.clone(), count)).unwrap_or_default();
        let author = record.principal.clone();
        self.versions.insert((key.clone(), version), head);
        self.entries.insert(key.clone(), ChangedEntry { head, entry_type, author, depends });
    }

    /// Merges the changes of a later memtable and empties that one, keeping its allocation for deliveries.
    pub(crate) fn absorb(&mut self, later: &mut Self) {
        for (number, changed) in later.deliveries.drain() {
            self.put(number, changed);
        }
        let deliveries = std::mem::take(&mut later.deliveries);
        let later = std::mem::replace(later, Self { deliveries, ..Self::default() });
        let Self { entries, versions, client_ids, agents, erased, items, lines, paused, through, .. } = later;
        self.through = self.through.max(through);
        for (number, agent) in agents {
            let before = self.agents.get(&number).and_then(|before| before.described);
            self.agents.insert(number, ChangedAgent { described: agent.described.or(before), ..agent });
        }
        self.entries.extend(entries);
        self.versions.extend(versions);
        self.client_ids.extend(client_ids);
        self.erased.extend(erased);
        items.into_iter().for_each(|(key, changed)| self.absorb_item(key, changed));
        self.lines.extend(lines);
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
    fn for_reads(&self, what: &[Read]) -> Self {
        let mut part = Self::default();
        for read in what {
            match read {
                Read::Entry { key, .. } | Read::History { key, .. } => {
                    let versions = self.versions_of(key);
                    part.versions.extend(versions.map(|head| ((key.clone(), head.version), head)));
                }
                Read::Entries { prefix, entry_type, author, after, limit } => {
                    let mut listed = 0;
                    for (key, entry) in self.entries_after(prefix, after.as_ref()) {
                        part.entries.insert(key.clone(), entry.clone());
                        listed += usize::from(entry.is_listed(entry_type.as_deref(), author.as_deref()));
                        // Later entries belong to a later page, whatever the tables contain.
                        if listed >= *limit {
                            break;
                        }
                    }
                }
                Read::Built { .. } => part.entries.clone_from(&self.entries),
                Read::MessageByClientId(id) => {
                    part.client_ids.extend(self.client_ids.get(id).map(|sent| (id.clone(), sent.clone())));
                }
                Read::Deliveries { first, count } => {
                    let numbers =
                        (0..u64::from(*count)).map(|index| DeliveryNo(first.0.saturating_add(index)));
                    let found = numbers.filter_map(|number| Some((number, *self.deliveries.get(&number)?)));
                    part.deliveries.extend(found);
                    part.paused = self.paused.clone();
                }
                Read::Timeline { session, .. } => {
                    let first = (Arc::clone(session), LineKind::Message, Seq(0));
                    let of_session = self.lines.range(first..).take_while(|(id, ..)| id == session);
                    part.lines.extend(of_session.cloned());
                }
                Read::DeadLetters { .. } => {
                    let matters = |changed: &ChangedDelivery| {
                        changed.redriven || matches!(changed.fate, Fate::Ended { state: EndState::Dead, .. })
                    };
                    let found = self.deliveries.iter().filter(|(_, changed)| matters(changed));
                    part.deliveries.extend(found.map(|(number, changed)| (*number, *changed)));
                }
                Read::Item(key) => {
                    part.items.extend(self.items.get(key).map(|item| (key.clone(), item.clone())));
                }
                Read::Items { kind, .. } => {
                    part.items.extend(self.items_of(*kind).map(|(key, item)| (key.clone(), item.clone())));
                }
                Read::Message { .. } | Read::SeqAt(_) | Read::Record(_) | Read::Part { .. } => {}
            }
        }
        part
    }
}

/// Returns the client-assigned ids of the messages of a record whose payload is this part.
pub(crate) fn ids_of_part(record: &Record, part: u32) -> Result<Vec<ClientId>, codec::Unreadable> {
    let effects = codec::read_body(record)?.effects.into_iter();
    Ok({ effects }
        .filter_map(|effect| match effect {
            Effect::Sent { message, part: brought, .. } if brought == part => message.client_id.clone(),
            _ => None,
        })
        .collect())
}

/// Memtables of all spaces. The writer changes them after an fsync; readers copy from them.
#[derive(Clone, Default)]
pub(crate) struct Tails(Arc<RwLock<BTreeMap<SpaceNo, Tail>>>);

impl Tails {
    pub(crate) fn new(tails: BTreeMap<SpaceNo, Tail>) -> Self {
        Self(Arc::new(RwLock::new(tails)))
    }

    pub(crate) fn look(&self) -> RwLockReadGuard<'_, BTreeMap<SpaceNo, Tail>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(&self) -> RwLockWriteGuard<'_, BTreeMap<SpaceNo, Tail>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like the method for reads below, with the parts that planning a rollback needs.
    pub(crate) fn pinned_for_plan<E>(
        &self,
        space: SpaceNo,
        pin: impl FnOnce() -> Result<(), E>,
    ) -> Result<Tail, E> {
        let tails = self.look();
        pin()?;
        Ok(tails.get(&space).map(Tail::for_plan).unwrap_or_default())
    }

    /// Copies the parts of a memtable that reads need, consistent with a database snapshot: `pin` starts the snapshot
    /// under the lock, so that no flush can happen in between.
    pub(crate) fn pinned<E>(
        &self,
        space: SpaceNo,
        what: &[Read],
        pin: impl FnOnce() -> Result<(), E>,
    ) -> Result<Tail, E> {
        let tails = self.look();
        pin()?;
        Ok(tails.get(&space).map(|tail| tail.for_reads(what)).unwrap_or_default())
    }
}
