//! The tail: what the newest records did to rows that are not written to their tables yet.
//!
//! The log is the truth, so the tables beside it may lag behind: a commit writes its record, and its rows wait here, in
//! memory, until there are enough of them to be worth a walk through the tables ([`crate::carry`]). Most never get
//! there: a delivery that is acked soon after it was sent leaves no row to write. Until then look-ups and reads look
//! here first. After a crash the tail is folded again from the records that the tables do not know yet.

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

/// What became of a delivery.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    /// It is open.
    Open { open: Open, lease_ms: u64 },
    /// It ended, and this is what it was before.
    Ended { open: Open, state: EndState, token: Token, seq: Seq },
}

/// A delivery that changed.
#[derive(Clone, Copy)]
pub(crate) struct ChangedDelivery {
    pub(crate) fate: Fate,
    /// It was a dead letter in the tables, and is none any more.
    pub(crate) redriven: bool,
    /// It was made by a record of this tail: the tables have no row of it.
    born: bool,
}

impl ChangedDelivery {
    /// Whether there will be a row to write or to take away. There is none for what is made and ends before the tail is
    /// carried over, and what is in somebody's hands mostly ends soon.
    fn costs_a_row(&self) -> bool {
        let waits = match &self.fate {
            Fate::Open { open, .. } => open.token().is_none(),
            Fate::Ended { .. } => false,
        };
        waits || self.redriven || !self.born
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&self) -> Option<Ended> {
        match self.fate {
            Fate::Ended { state, token, seq, .. } => Some(Ended { state, token, seq }),
            Fate::Open { .. } => None,
        }
    }

    /// The dead letter that it is, if it is one.
    pub(crate) fn dead(&self) -> Option<Dead> {
        match &self.fate {
            Fate::Ended { open, state: EndState::Dead, .. } => Some(Dead::of(open)),
            Fate::Ended { .. } | Fate::Open { .. } => None,
        }
    }
}

/// The newest version of an entry.
#[derive(Clone)]
pub(crate) struct ChangedEntry {
    pub(crate) head: EntryHead,
    pub(crate) entry_type: String,
    pub(crate) author: String,
    /// How many entries it was built on.
    pub(crate) depends: usize,
}

impl ChangedEntry {
    /// Whether a list by these filters shows it.
    pub(crate) fn is_listed(&self, entry_type: Option<&str>, author: Option<&str>) -> bool {
        !self.head.deleted
            && entry_type.is_none_or(|wanted| wanted == self.entry_type)
            && author.is_none_or(|wanted| wanted == self.author)
    }
}

/// The record that last described an agent, and its presence.
#[derive(Clone)]
pub(crate) struct ChangedAgent {
    /// `None`: described by a record that the tables know.
    pub(crate) described: Option<Seq>,
    pub(crate) removed: bool,
    pub(crate) presence: Presence,
}

fn presence_of(working: &Working, number: AgentNo) -> Presence {
    working.agents().get(number).map(|agent| agent.presence.clone()).unwrap_or_default()
}

/// An item that changed.
#[derive(Clone)]
pub(crate) struct ChangedItem {
    /// `None`: removed.
    pub(crate) item: Option<Item>,
    /// Its first change in this tail, or since it was removed in it. Where it was created, unless the table has its row.
    pub(crate) created: Created,
    /// It was removed in this tail and created again: a row in the table is of the one before.
    pub(crate) anew: bool,
}

impl ChangedItem {
    /// Takes in what happened to it later.
    fn absorb(&mut self, later: Self) {
        if later.anew || (self.item.is_none() && later.item.is_some()) {
            self.created = later.created;
            self.anew = true;
        }
        self.item = later.item;
    }
}

/// What the newest records of one space did to rows.
#[derive(Clone, Default)]
pub(crate) struct Tail {
    pub(crate) deliveries: HashMap<DeliveryNo, ChangedDelivery, foldhash::fast::RandomState>,
    /// How many of them cost a row.
    costly: usize,
    pub(crate) entries: BTreeMap<Key, ChangedEntry>,
    pub(crate) versions: BTreeMap<(Key, Version), EntryHead>,
    pub(crate) client_ids: BTreeMap<ClientId, SentBefore>,
    pub(crate) agents: BTreeMap<AgentNo, ChangedAgent>,
    pub(crate) erased: BTreeMap<(Seq, u32), ()>,
    pub(crate) items: BTreeMap<ItemKey, ChangedItem>,
    /// Lines of the timelines of sessions.
    pub(crate) lines: BTreeSet<(Arc<str>, LineKind, Seq)>,
    /// Which sessions are paused, and which are not any more. No row says so by itself.
    pub(crate) paused: BTreeMap<SessionNo, bool>,
    /// The records from the one after `base` up to `through` are part of it; the tables know those up to `base`.
    base: Seq,
    through: Seq,
}

impl Tail {
    /// Whether the tables know everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows() == 0
    }

    /// Forgets everything. The memory for deliveries is kept: it is needed again at once, and giving it back makes the
    /// system clear page after page.
    pub(crate) fn clear(&mut self) {
        let mut deliveries = std::mem::take(&mut self.deliveries);
        deliveries.clear();
        *self = Self { deliveries, base: self.through, through: self.through, ..Self::default() };
    }

    /// A tail after this record, which the tables know.
    pub(crate) fn after(base: Seq) -> Self {
        Self { base, through: base, ..Self::default() }
    }

    /// The newest record that the tables know.
    pub(crate) fn base(&self) -> Seq {
        self.base
    }

    /// The newest record that is part of it, or that the tables know.
    pub(crate) fn through(&self) -> Seq {
        self.through
    }

    /// The entries that begin so and were written after a record, by key.
    pub(crate) fn entries_since(&self, prefix: &str, seq: Seq) -> impl Iterator<Item = (Key, EntryHead)> {
        let from = self.entries.iter().skip_while(move |(key, _)| key.as_str() < prefix);
        let begin_so = from.take_while(move |(key, _)| key.as_str().starts_with(prefix));
        begin_so.filter(move |(_, entry)| entry.head.seq > seq).map(|(key, entry)| (key.clone(), entry.head))
    }

    /// What the plan of a rollback needs of it.
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

    /// The number after the highest delivery in it; 0 if there is none.
    pub(crate) fn next_delivery(&self) -> u64 {
        self.deliveries.keys().map(|number| number.0 + 1).max().unwrap_or(0)
    }

    /// About how many rows there are to write. Deliveries that mostly leave none count an eighth: so a fan-out has the
    /// time to be acked.
    pub(crate) fn rows(&self) -> usize {
        let fleeting = self.deliveries.len() - self.costly;
        self.costly
            + fleeting.div_ceil(8)
            + self.entries.len()
            + self.versions.len()
            + self.client_ids.len()
            + self.agents.len()
            + self.erased.len()
            + self.items.len()
            + self.lines.len()
    }

    /// Takes in what a record did. `working` is the state after it; `fingerprint` is that of a message with an id of its
    /// sender's own, and may be known by the place of the message in the record.
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
            // Eras are written at once: there is one a restore.
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
                self.born(working, *first, deliveries.len());
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
            Effect::Brought { first, letters, .. } => self.born(working, *first, letters.len()),
            Effect::Redriven { delivery, to, seq, n, .. } => {
                // One that ended again in the same record is noted there, as one that is no dead letter any more.
                let open = Open::new(*to, *seq, *n, OpenState::Ready { since: record.at });
                let fate = Fate::Open { open, lease_ms: 0 };
                self.put(*delivery, ChangedDelivery { fate, redriven: true, born: false });
                self.open(working, *delivery);
            }
            Effect::Written { key, version, entry_type, depends_on, .. } => {
                self.entry(working, record, (key, *version), Some((entry_type, depends_on.len())));
            }
            Effect::Deleted { key, version } => self.entry(working, record, (key, *version), None),
            Effect::Erased { seq, part } => drop(self.erased.insert((*seq, *part), ())),
            Effect::SessionAdded { session, .. } => {
                // A session that was closed later in the same record is noted there. It has been created before.
                let key = ItemKey::new(ItemKind::Session, session.as_str());
                if let Some(item) = working.item(&key) {
                    self.put_item(key, Some(item), Created::new(record.seq, 0));
                }
            }
            // Items are noted with their position in the record.
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
        self.put(number, ChangedDelivery { fate, redriven: false, born: false });
    }

    /// Notes what became of a delivery. Where it comes from stays true.
    fn put(&mut self, number: DeliveryNo, changed: ChangedDelivery) {
        let known = match self.deliveries.entry(number) {
            Entry::Occupied(entry) => {
                let known = entry.into_mut();
                self.costly -= usize::from(known.costs_a_row());
                known.fate = changed.fate;
                known.redriven |= changed.redriven;
                known
            }
            Entry::Vacant(entry) => entry.insert(changed),
        };
        self.costly += usize::from(known.costs_a_row());
    }

    /// A delivery as it is after the record. One that ended later in the same record is noted there.
    pub(crate) fn open(&mut self, working: &Working, number: DeliveryNo) {
        self.set_open(working, number, false);
    }

    /// Deliveries that the record made.
    fn born(&mut self, working: &Working, first: DeliveryNo, count: usize) {
        for number in (first.0..first.0 + count as u64).map(DeliveryNo) {
            self.set_open(working, number, true);
        }
    }

    fn set_open(&mut self, working: &Working, number: DeliveryNo, born: bool) {
        if let Some(open) = working.open(number) {
            let fate = Fate::Open { open: *open, lease_ms: working.lease_ms(number).unwrap_or(0) };
            self.put(number, ChangedDelivery { fate, redriven: false, born });
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

    /// Takes in what came after, and leaves that empty, but with its memory for deliveries.
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

    /// The versions of a key, oldest first.
    pub(crate) fn versions_of(&self, key: &Key) -> impl Iterator<Item = EntryHead> {
        let range = (key.clone(), Version(0))..=(key.clone(), Version(u64::MAX));
        self.versions.range(range).map(|(_, head)| *head)
    }

    /// The entries whose key begins so, after one of them, by key.
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
        // A prefix that is no key itself is searched for.
        let later = later.skip_while(move |(key, _)| key.as_str() < prefix);
        later.take_while(move |(key, _)| key.as_str().starts_with(prefix))
    }

    /// The items of a kind, by id.
    pub(crate) fn items_of(&self, kind: ItemKind) -> impl Iterator<Item = (&ItemKey, &ChangedItem)> {
        self.items.range(ItemKey::new(kind, "")..).take_while(move |(key, _)| key.kind == kind)
    }

    /// What a read needs of it, so that it is held on to no longer than it takes to copy that.
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
                        // What comes later is on a later page, whatever the tables hold.
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

/// The ids that clients gave to the messages of a record which brought this payload part.
pub(crate) fn ids_of_part(record: &Record, part: u32) -> Result<Vec<ClientId>, codec::Unreadable> {
    let effects = codec::read_body(record)?.effects.into_iter();
    Ok({ effects }
        .filter_map(|effect| match effect {
            Effect::Sent { message, part: brought, .. } if brought == part => message.client_id.clone(),
            _ => None,
        })
        .collect())
}

/// The tails of all spaces. The writer changes them after a sync; readers look at them.
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

    /// As [`Tails::pinned`], for the plan of a rollback.
    pub(crate) fn pinned_for_plan<E>(
        &self,
        space: SpaceNo,
        pin: impl FnOnce() -> Result<(), E>,
    ) -> Result<Tail, E> {
        let tails = self.look();
        pin()?;
        Ok(tails.get(&space).map(Tail::for_plan).unwrap_or_default())
    }

    /// What reads of a space need, together with a snapshot that is not older: `pin` takes it.
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
