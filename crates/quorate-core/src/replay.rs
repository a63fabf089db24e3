//! Full replay: applying the records of a space in order rebuilds its complete state as of any record.

use std::collections::{BTreeMap, BTreeSet};

use crate::codec::DecodeError;
use crate::creation_order::CreationIndex;
use crate::decide::EndedDelivery;
use crate::effect::{Effect, EndState, LoggedLease, Record, ReturnOutcome};
use crate::entry::EntryHead;
use crate::ids::{DeliveryNo, Key, LeaseToken, Seq, SpaceId, Version};
use crate::item::{Item, ItemKey, ItemKind, Retention};
use crate::lookup::{DeadDelivery, DeliveryEnd};
use crate::time::{Mono, Timestamp};
use crate::working::{OpenDelivery, ReplayedRecord, WorkingState};

/// One version of a memory entry.
#[derive(Clone, PartialEq, Debug)]
pub struct EntryVersion {
    /// The version, its record, and whether it is a tombstone.
    pub head: EntryHead,
    /// Time of the write.
    pub at: Timestamp,
    /// Text form of the principal that wrote it.
    pub author: String,
    /// Type of the entry.
    pub entry_type: String,
    /// Media type of the content; `None` is JSON.
    pub content_type: Option<String>,
    /// Record and payload part that contain the content; `None` for a tombstone.
    pub content_part: Option<(Seq, u32)>,
    /// Entries that it was derived from, with their versions.
    pub depends_on: Vec<(Key, Version)>,
    /// The earlier version that it restored, if it was written by a rollback.
    pub restores: Option<Version>,
}

/// The complete state of a space as of a record.
#[derive(Debug)]
pub struct ReplayedSpace {
    /// The working state: agents, open deliveries, open items.
    pub working: WorkingState,
    /// Every entry with its history, oldest version first.
    pub entries: BTreeMap<Key, Vec<EntryVersion>>,
    /// Ended deliveries.
    pub ended: BTreeMap<DeliveryNo, DeliveryEnd>,
    /// The dead letters.
    pub dead: BTreeMap<DeliveryNo, DeadDelivery>,
    /// Erased payload parts, by record and index.
    pub erased: BTreeSet<(Seq, u32)>,
    /// The items that are stored.
    pub items: BTreeMap<ItemKey, Item>,
    /// The position at which each item was created.
    pub creations: CreationIndex,
}

impl ReplayedSpace {
    /// Creates the state of a space before its first record.
    #[must_use]
    pub fn new(id: SpaceId) -> Self {
        Self {
            working: WorkingState::new(id),
            entries: BTreeMap::new(),
            ended: BTreeMap::new(),
            dead: BTreeMap::new(),
            erased: BTreeSet::new(),
            items: BTreeMap::new(),
            creations: CreationIndex::default(),
        }
    }

    /// Applies the next record. Its hash is not checked: `verify` checks the hash chain.
    ///
    /// # Errors
    /// If the body cannot be decoded.
    pub fn apply(&mut self, record: &Record) -> Result<(), DecodeError> {
        let ReplayedRecord { effects, ended } = self.working.replay(record, Mono::default())?;
        let mut ended = ended.into_iter();
        for effect in &effects {
            self.apply_to_rows(effect, record, &mut ended);
        }
        self.creations.apply(record.seq, &effects);
        Ok(())
    }

    fn apply_to_rows(
        &mut self,
        effect: &Effect,
        record: &Record,
        ended: &mut impl Iterator<Item = EndedDelivery>,
    ) {
        match effect {
            Effect::Acked { delivery, .. }
            | Effect::Returned { delivery, next: ReturnOutcome::Dead | ReturnOutcome::Expired, .. }
            | Effect::Expired { delivery, .. }
            | Effect::Purged { delivery, .. }
            | Effect::DeniedByPolicy { delivery, .. } => {
                if let Some(EndedDelivery { open, state, .. }) = ended.next() {
                    let token = effect.ended(*delivery).map_or(LeaseToken(0), |(_, token)| token);
                    let origin = open.origin();
                    self.ended.insert(*delivery, DeliveryEnd { state, token, seq: record.seq, origin });
                    if state == EndState::Dead {
                        self.dead.insert(*delivery, DeadDelivery::from_open(&open));
                    }
                }
            }
            Effect::Redriven { delivery, .. } => {
                self.dead.remove(delivery);
                self.ended.remove(delivery);
            }
            Effect::Written { key, .. } | Effect::Deleted { key, .. } => {
                let version = self.version_of(effect, record);
                self.entries.entry(key.clone()).or_default().extend(version);
            }
            Effect::Erased { seq, part } => {
                self.erased.insert((*seq, *part));
            }
            Effect::Changed { item, .. } => {
                if item.retention() == Retention::LogOnly {
                    self.items.remove(&item.key());
                } else {
                    self.items.insert(item.key(), item.clone());
                }
            }
            Effect::ContributionAdded { session, kind, n, .. } => {
                let key = ItemKey::new(ItemKind::Session, session.as_str());
                if let Some(Item::Session(session)) = self.items.get_mut(&key) {
                    session.count_contribution(*kind, *n);
                }
            }
            Effect::AckedMany { deliveries } => {
                for (lease, EndedDelivery { state, .. }) in deliveries.iter().zip(ended) {
                    let LoggedLease { delivery, token, origin } = *lease;
                    self.ended.insert(delivery, DeliveryEnd { state, token, seq: record.seq, origin });
                }
            }
            Effect::SpaceCreated { .. }
            | Effect::SpaceRestored { .. }
            | Effect::AgentRegistered { .. }
            | Effect::AgentRemoved { .. }
            | Effect::Sent { .. }
            | Effect::Leased { .. }
            | Effect::Returned { .. }
            | Effect::PresenceChanged { .. }
            | Effect::WaitAborted { .. }
            | Effect::LeasedFromPool { .. }
            | Effect::Backfilled { .. } => {}
        }
    }

    /// Returns the version of an entry that an effect created, if any.
    fn version_of(&self, effect: &Effect, record: &Record) -> Option<EntryVersion> {
        let (seq, generation) = (record.seq, self.working.head.generation);
        let mut entry_version = EntryVersion {
            head: EntryHead { version: Version(0), generation, seq, deleted: true },
            at: record.at,
            author: record.principal.clone(),
            entry_type: String::new(),
            content_type: None,
            content_part: None,
            depends_on: Vec::new(),
            restores: None,
        };
        match effect {
            Effect::Written { version, entry_type, content_type, part, depends_on, restores, .. } => {
                entry_version.head = EntryHead { version: *version, deleted: false, ..entry_version.head };
                entry_version.entry_type.clone_from(entry_type);
                entry_version.content_type.clone_from(content_type);
                entry_version.content_part = Some((restores.map_or(seq, |restored| restored.seq), *part));
                entry_version.depends_on.clone_from(depends_on);
                entry_version.restores = restores.map(|restored| restored.version);
            }
            Effect::Deleted { version, .. } => entry_version.head.version = *version,
            _ => return None,
        }
        Some(entry_version)
    }
}

impl DeadDelivery {
    /// Creates the dead letter of an open delivery.
    #[must_use]
    pub fn from_open(open: &OpenDelivery) -> Self {
        Self {
            to: open.to.without_holder(),
            seq: open.seq,
            n: open.n(),
            priority: open.priority,
            attempts_max: open.attempts_max,
            expires_at: (open.expires != OpenDelivery::NEVER).then_some(open.expires),
            scope: open.scope(),
        }
    }
}
