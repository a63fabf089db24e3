//! The plan of a prefix rollback: the entries that change, and the versions to restore.
//!
//! Planning may scan a hundred thousand entries, so it runs on a reader thread before the commit is queued. At the
//! head, the plan is only updated with the writes since then.

use std::collections::BTreeMap;

use crate::codec;
use crate::decide::DecideError;
use crate::decide::metered_lookup::MeteredLookup;
use crate::effect::{Effect, RestoredVersion};
use crate::entry::EntryHead;
use crate::ids::{Key, Seq};
use crate::item::{Item, ItemKey, ItemKind};
use crate::limits::{ROLLBACK_KEYS_MAX, ROLLBACK_SCAN_MAX};
use crate::lookup::{Lookup, PrefixScan, VersionSelector};
use crate::refused::{Code, Refused};
use crate::snapshot::{Rollback, RollbackScope, RollbackTarget, Snapshot, SnapshotState};

/// The change of one entry.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct EntryChange {
    /// The current version.
    pub(super) current: Option<EntryHead>,
    /// The write effect of the restored version; `None` if the entry is deleted.
    pub(super) restored: Option<Effect>,
}

/// The changes of a prefix rollback, as of one record.
#[derive(Clone, Debug)]
pub struct RollbackPlan {
    /// The newest record that the plan includes.
    pub(super) at: Seq,
    /// The target record, whose state is restored.
    pub(super) to: Seq,
    pub(super) changes: BTreeMap<Key, EntryChange>,
}

impl RollbackPlan {
    /// Starts the plan of a prefix rollback: finds the entries that may change, to be passed to [`RollbackPlan::add`].
    /// `at` is the newest record that the lookups reflect, `scan_max` the maximum number of entries to scan.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, `NOT_FOUND` or `INVALID` for the snapshot, or a failed lookup.
    pub fn begin(
        lookup: &dyn Lookup,
        at: Seq,
        rollback: &Rollback,
        scan_max: usize,
    ) -> Result<(Self, PrefixScan), DecideError> {
        let lookup = MeteredLookup::unbounded(lookup);
        let snapshot = |item| match item {
            Some(Item::Snapshot(snapshot)) => Some(snapshot),
            _ => None,
        };
        let find = |name: &str| Ok(snapshot(lookup.item(&ItemKey::new(ItemKind::Snapshot, name))?));
        let to = target_seq(&lookup, at, rollback, find)?.unwrap_or_default();
        let plan = Self { at, to, changes: BTreeMap::new() };
        let RollbackScope::Prefix(prefix) = &rollback.scope else {
            return Ok((plan, PrefixScan { changed: Vec::new(), scanned: 0 }));
        };
        let Some(scan) = lookup.changed_since(prefix, to, scan_max)? else {
            return Err(Refused::new(
                Code::LimitExceeded,
                format!("too many entries have the prefix {prefix:?}"),
            )
            .limit(ROLLBACK_SCAN_MAX as u64)
            .hint("roll back narrower prefixes one by one")
            .into());
        };
        Ok((plan, scan))
    }

    /// Adds entries that the scan found. The lookups may reflect a later state: [`RollbackPlan::catch_up`] recomputes
    /// the entries that were written since the plan was started.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, or a failed lookup.
    pub fn add(
        &mut self,
        lookup: &dyn Lookup,
        changed: impl Iterator<Item = (Key, EntryHead)>,
    ) -> Result<(), DecideError> {
        let lookup = MeteredLookup::unbounded(lookup);
        let mut cache = RecordCache::default();
        for (key, current) in changed {
            self.add_change(&lookup, &mut cache, key, Some(current))?;
        }
        Ok(())
    }

    /// Returns the newest record that the plan includes.
    #[must_use]
    pub fn at(&self) -> Seq {
        self.at
    }

    /// Updates the plan with entries that were written since.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, or a failed lookup.
    pub fn catch_up(&mut self, lookup: &dyn Lookup, at: Seq, written: Vec<Key>) -> Result<(), DecideError> {
        let lookup = MeteredLookup::unbounded(lookup);
        let mut cache = RecordCache::default();
        self.at = at;
        for key in written {
            let current = lookup.entry(&key)?;
            self.changes.remove(&key);
            self.add_change(&lookup, &mut cache, key, current)?;
        }
        Ok(())
    }

    /// Adds the change of one entry, if any.
    fn add_change(
        &mut self,
        lookup: &MeteredLookup<'_>,
        cache: &mut RecordCache,
        key: Key,
        current: Option<EntryHead>,
    ) -> Result<(), DecideError> {
        let restored = lookup.version_at(&key, VersionSelector::Seq(self.to))?;
        if let Some(change) = cache.change_of(lookup, &key, current, restored)? {
            self.changes.insert(key, change);
            check_count(self.changes.len())?;
        }
        Ok(())
    }
}

/// Refuses a rollback that changes too many entries.
pub(super) fn check_count(count: usize) -> Result<(), Refused> {
    if count <= ROLLBACK_KEYS_MAX {
        return Ok(());
    }
    Err(Refused::new(
        Code::LimitExceeded,
        format!("the rollback changes more than {ROLLBACK_KEYS_MAX} entries"),
    )
    .limit(ROLLBACK_KEYS_MAX as u64)
    .hint("roll back narrower prefixes one by one"))
}

/// Returns the target record of a rollback; `None` for a target version, which only concerns the history of its entry.
pub(super) fn target_seq(
    lookup: &MeteredLookup<'_>,
    newest: Seq,
    rollback: &Rollback,
    snapshot: impl FnOnce(&str) -> Result<Option<Snapshot>, DecideError>,
) -> Result<Option<Seq>, DecideError> {
    Ok(match &rollback.target {
        RollbackTarget::Version(_) => None,
        RollbackTarget::Seq(seq) => Some((*seq).min(newest)),
        RollbackTarget::Time(time) => Some(lookup.seq_at(*time)?),
        RollbackTarget::Snapshot(name) => {
            let found = snapshot(name.as_str())?.filter(|found| found.state == SnapshotState::Active);
            let snapshot = found.ok_or_else(|| {
                Refused::new(Code::NotFound, format!("there is no snapshot {name}"))
                    .hint("list the snapshots")
            })?;
            if !rollback.scope.is_within(&snapshot.prefix) {
                let detail = format!("snapshot {name} only covers the prefix {:?}", snapshot.prefix);
                return Err(Refused::new(Code::Invalid, detail)
                    .hint(format!(
                        "roll back within that prefix, or roll back to its record {}",
                        snapshot.seq
                    ))
                    .into());
            }
            Some(snapshot.seq)
        }
    })
}

/// Reads write effects of old versions. Caches the last record: entries that were written together are read together.
#[derive(Default)]
pub(super) struct RecordCache {
    seq: Seq,
    effects: Vec<Effect>,
}

impl RecordCache {
    /// Returns the change of an entry whose current and target versions are both stored.
    fn change_of(
        &mut self,
        lookup: &MeteredLookup<'_>,
        key: &Key,
        current: Option<EntryHead>,
        restored: Option<EntryHead>,
    ) -> Result<Option<EntryChange>, DecideError> {
        entry_change(current, restored, |head| self.write_of(lookup, key, head))
    }

    /// Returns the write effect of a stored version.
    pub(super) fn write_of(
        &mut self,
        lookup: &MeteredLookup<'_>,
        key: &Key,
        head: EntryHead,
    ) -> Result<Effect, DecideError> {
        if self.seq != head.seq {
            let record = lookup.record(head.seq)?;
            let body = record.and_then(|record| codec::read_body(&record).ok());
            *self = Self { seq: head.seq, effects: body.map(|body| body.effects).unwrap_or_default() };
        }
        lookup.add_steps(self.effects.len());
        find_write(&self.effects, key, head)
    }
}

/// Returns the change of an entry, if any, from its current version and its version at the target.
pub(super) fn entry_change(
    current: Option<EntryHead>,
    restored: Option<EntryHead>,
    mut written: impl FnMut(EntryHead) -> Result<Effect, DecideError>,
) -> Result<Option<EntryChange>, DecideError> {
    let live = |head: Option<EntryHead>| head.filter(|head| !head.deleted);
    match (live(current), live(restored)) {
        (Some(current), Some(restored)) if current.version == restored.version => Ok(None),
        (live, Some(restored)) => {
            let restored = written(restored)?;
            let is_same = match live {
                // The current version may already be the restored content.
                Some(live) => content_part(&written(live)?) == content_part(&restored),
                None => false,
            };
            Ok((!is_same).then_some(EntryChange { current, restored: Some(restored) }))
        }
        (Some(_), None) => Ok(Some(EntryChange { current, restored: None })),
        (None, None) => Ok(None),
    }
}

/// Finds the write effect of a version among the effects of its record.
pub(super) fn find_write(effects: &[Effect], key: &Key, head: EntryHead) -> Result<Effect, DecideError> {
    let is_write = |effect: &&Effect| {
        matches!(effect, Effect::Written { key: written_key, version, .. }
            if written_key == key && *version == head.version)
    };
    let found = effects.iter().find(is_write).cloned();
    Ok(found.map(|effect| with_content_position(effect, head.seq)).ok_or_else(|| {
        Refused::new(Code::NotFound, format!("entry {key} has no version {}", head.version))
            .hint("read the history of the entry")
    })?)
}

/// Adds the position of the content to a write, so that it can be repeated in another record.
fn with_content_position(mut effect: Effect, written_in: Seq) -> Effect {
    if let Effect::Written { restores, version, .. } = &mut effect {
        let seq = restores.map_or(written_in, |restored| restored.seq);
        *restores = Some(RestoredVersion { seq, version: *version });
    }
    effect
}

/// Returns the record and payload part that contain the content of a write.
pub(super) fn content_part(effect: &Effect) -> Option<(Seq, u32)> {
    match effect {
        Effect::Written { part, restores, .. } => restores.map(|restored| (restored.seq, *part)),
        _ => None,
    }
}
