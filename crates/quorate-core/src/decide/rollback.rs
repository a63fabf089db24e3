//! Snapshots and rollbacks. A rollback writes earlier versions again as new versions. It does not copy their content:
//! the new version refers to the payload of the old one, so that an erasure affects both.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::commit::{OpResult, Principal};
use crate::decide::memory::expect_version;
use crate::decide::rollback_plan::{
    self, EntryChange, RecordCache, RollbackPlan, check_count, content_part, entry_change, find_write,
};
use crate::decide::{DecideError, Draft};
use crate::effect::Effect;
use crate::entry::EntryHead;
use crate::ids::{Key, Seq, SnapshotName, Version};
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::{REFUSAL_NAMES_MAX, SNAPSHOTS_MAX, SNAPSHOTS_PER_AGENT_MAX};
use crate::lookup::VersionSelector;
use crate::refused::{Code, Refused};
use crate::snapshot::{MakeSnapshot, Rollback, RollbackScope, RollbackTarget, Snapshot, SnapshotState};

impl Draft<'_> {
    pub(super) fn make_snapshot(&mut self, make: &MakeSnapshot) -> Result<OpResult, DecideError> {
        // A snapshot excludes its own commit, so that it can be taken together with the change to roll back later.
        let seq = Seq(self.seq.0 - 1);
        if let Some(snapshot) = self.snapshot(&make.name)? {
            if snapshot.seq == seq && snapshot.prefix == make.prefix {
                return Ok(OpResult::SnapshotMade { seq });
            }
            let detail = format!("snapshot {} already exists, of record {}", make.name, snapshot.seq);
            return Err(Refused::new(Code::Duplicate, detail)
                .hint("use another name, or drop the existing snapshot first")
                .into());
        }
        self.check_snapshot_count()?;
        let snapshot = Snapshot {
            name: make.name.clone(),
            prefix: make.prefix.clone(),
            seq,
            at: self.now.wall,
            by: self.commit.principal.to_text(),
            state: SnapshotState::Active,
        };
        self.change_item(Verb::SnapshotMade, Item::Snapshot(snapshot));
        Ok(OpResult::SnapshotMade { seq })
    }

    /// Refuses a further snapshot if the space, or the agent, has as many as it may have.
    fn check_snapshot_count(&self) -> Result<(), Refused> {
        let hint = "drop snapshots that are no longer used";
        let snapshots = &self.working.items().snapshots;
        if snapshots.total() >= SNAPSHOTS_MAX {
            let detail = "the space has reached its maximum number of snapshots";
            return Err(Refused::new(Code::LimitExceeded, detail)
                .limit(SNAPSHOTS_MAX as u64)
                .retryable()
                .hint(hint));
        }
        if self.actor.is_none() {
            return Ok(());
        }
        let own = snapshots.of(&self.commit.principal.to_text().into());
        self.check_share("snapshots", own, SNAPSHOTS_PER_AGENT_MAX, hint).map_err(Refused::retryable)
    }

    pub(super) fn drop_snapshot(&mut self, name: &SnapshotName) -> Result<OpResult, DecideError> {
        let snapshot = self.snapshot(name)?.ok_or_else(|| no_snapshot(name))?;
        if let Principal::Agent(actor) = &self.commit.principal
            && snapshot.by != self.commit.principal.to_text()
        {
            let detail = format!("agent {actor} did not create snapshot {name}");
            return Err(Refused::new(Code::Forbidden, detail)
                .hint(format!("only {} or the hub may drop it", snapshot.by))
                .into());
        }
        let state = SnapshotState::Dropped;
        self.change_item(Verb::SnapshotDropped, Item::Snapshot(Snapshot { state, ..snapshot }));
        Ok(OpResult::Done)
    }

    fn snapshot(&self, name: &SnapshotName) -> Result<Option<Snapshot>, DecideError> {
        match self.item(&ItemKey::new(ItemKind::Snapshot, name.as_str()))? {
            Some(Item::Snapshot(snapshot)) if snapshot.state == SnapshotState::Active => Ok(Some(snapshot)),
            _ => Ok(None),
        }
    }

    pub(super) fn rollback(&mut self, rollback: &Rollback) -> Result<OpResult, DecideError> {
        self.check_fence(rollback.fence.as_ref())?;
        let (to, changes) = self.changes(rollback)?;
        check_count(changes.len())?;
        for key in changes.keys() {
            self.check_session_entry(key, rollback.scope.expected())?;
        }
        self.refuse_erased(&changes)?;
        let deleted = changes.values().filter(|change| change.restored.is_none()).count() as u32;
        let written = changes.len() as u32 - deleted;
        let mut deletions = Vec::new();
        for (key, EntryChange { current, restored }) in changes {
            match restored {
                Some(effect) => {
                    let version = self.write_entry(&key, current, false)?;
                    self.emit(with_version(effect, version));
                }
                None => deletions.push((key, current)),
            }
        }
        for (key, current) in deletions {
            let version = self.write_entry(&key, current, true)?;
            self.emit(Effect::Deleted { key, version });
        }
        Ok(OpResult::RolledBack { to, written, deleted })
    }

    /// Returns the target record, and the entries that change with the version to restore.
    fn changes(&mut self, rollback: &Rollback) -> Result<(Seq, BTreeMap<Key, EntryChange>), DecideError> {
        let target_seq = self.target_seq(rollback)?;
        match &rollback.scope {
            RollbackScope::Key { key, expect } => {
                let current = self.entry(key)?;
                expect_version(key, current.as_ref(), *expect)?;
                if current.is_none() {
                    return Err(Refused::new(Code::NotFound, format!("entry {key} has never existed")).into());
                }
                let restored = match (target_seq, &rollback.target) {
                    (None, RollbackTarget::Version(version)) => {
                        Some(self.version(key, *version)?.ok_or_else(|| no_version(key, *version))?)
                    }
                    (target_seq, _) => {
                        self.lookup.version_at(key, VersionSelector::Seq(target_seq.unwrap_or_default()))?
                    }
                };
                let to = target_seq.or(restored.map(|restored| restored.seq)).unwrap_or_default();
                let mut cache = RecordCache::default();
                let change = entry_change(current, restored, |head| self.written(&mut cache, key, head))?;
                Ok((to, change.map(|change| (key.clone(), change)).into_iter().collect()))
            }
            RollbackScope::Prefix(prefix) => {
                let target_seq = target_seq.unwrap_or_default();
                Ok((target_seq, self.prefix_changes(prefix, target_seq)?))
            }
        }
    }

    /// Returns the entries of a prefix that change: those of the plan, updated by the writes since then.
    fn prefix_changes(
        &mut self,
        prefix: &str,
        target_seq: Seq,
    ) -> Result<BTreeMap<Key, EntryChange>, DecideError> {
        // If all writes after the target are in memory, no plan is needed.
        let (mut changes, recent) = match self.lookup.recent_changes(prefix, target_seq)? {
            Some(recent) => (BTreeMap::new(), recent),
            None => {
                let plan = self.plan(target_seq)?;
                let recent = self.lookup.recent_changes(prefix, plan.at)?.ok_or_else(outdated)?;
                self.lookup.add_steps(plan.changes.len());
                (plan.changes.clone(), recent)
            }
        };
        let mut recent: BTreeMap<_, _> = recent.into_iter().collect();
        let in_commit = self.entries.iter().filter(|(key, _)| key.as_str().starts_with(prefix));
        recent.extend(in_commit.map(|(key, head)| (key.clone(), *head)));
        let mut cache = RecordCache::default();
        for (key, current) in recent {
            changes.remove(&key);
            let restored = self.lookup.version_at(&key, VersionSelector::Seq(target_seq))?;
            if let Some(change) =
                entry_change(Some(current), restored, |head| self.written(&mut cache, &key, head))?
            {
                changes.insert(key, change);
                check_count(changes.len())?;
            }
        }
        Ok(changes)
    }

    /// Returns the plan of this operation, if it has the same target.
    fn plan(&self, target_seq: Seq) -> Result<&RollbackPlan, DecideError> {
        match self.commit.plans.get(&self.op).map(Arc::as_ref) {
            Some(Ok(plan)) if plan.to == target_seq => Ok(plan),
            Some(Err(refused)) => Err(refused.clone().into()),
            Some(Ok(_)) | None => Err(outdated().into()),
        }
    }

    /// Returns the target record; `None` for a target version, which only concerns the history of its entry.
    fn target_seq(&self, rollback: &Rollback) -> Result<Option<Seq>, DecideError> {
        let newest = Seq(self.seq.0 - 1);
        let find = |name: &str| match self.item(&ItemKey::new(ItemKind::Snapshot, name))? {
            Some(Item::Snapshot(snapshot)) => Ok(Some(snapshot)),
            _ => Ok(None),
        };
        rollback_plan::target_seq(&self.lookup, newest, rollback, find)
    }

    /// Returns a version of an entry, including versions of this commit.
    fn version(&self, key: &Key, version: Version) -> Result<Option<EntryHead>, DecideError> {
        let generation = self.working.head.generation;
        let head = |deleted| EntryHead { version, generation, seq: self.seq, deleted };
        let in_commit = self.effects.iter().find_map(|effect| match effect {
            Effect::Written { key: written_key, version: written_version, .. }
                if written_key == key && *written_version == version =>
            {
                Some(head(false))
            }
            Effect::Deleted { key: written_key, version: written_version }
                if written_key == key && *written_version == version =>
            {
                Some(head(true))
            }
            _ => None,
        });
        match in_commit {
            Some(head) => Ok(Some(head)),
            None => self.lookup.version_at(key, VersionSelector::Version(version)),
        }
    }

    /// Returns the write effect of a version, of this commit or an earlier one.
    fn written(&self, cache: &mut RecordCache, key: &Key, head: EntryHead) -> Result<Effect, DecideError> {
        if head.seq != self.seq {
            return cache.write_of(&self.lookup, key, head);
        }
        self.lookup.add_steps(self.effects.len());
        self.lookup.check_limit()?;
        find_write(&self.effects, key, head)
    }

    /// Refuses a rollback to erased content.
    fn refuse_erased(&self, changes: &BTreeMap<Key, EntryChange>) -> Result<(), DecideError> {
        let mut erased = Vec::new();
        for (key, change) in changes {
            if let Some((seq, part)) = change.restored.as_ref().and_then(content_part)
                && seq != self.seq
                && (self.erased_in_commit.contains(&(seq, part)) || self.lookup.is_erased(seq, part)?)
            {
                erased.push(key.as_str());
            }
        }
        if erased.is_empty() {
            return Ok(());
        }
        let more = if erased.len() > REFUSAL_NAMES_MAX { " and others" } else { "" };
        let names = erased[..erased.len().min(REFUSAL_NAMES_MAX)].join(", ");
        Err(Refused::new(Code::Conflict, format!("the content of {names}{more} was erased"))
            .hint("roll back to another version, or roll back the other entries separately")
            .into())
    }
}

/// Returns the same write under a new version number.
fn with_version(mut effect: Effect, new: Version) -> Effect {
    if let Effect::Written { version, .. } = &mut effect {
        *version = new;
    }
    effect
}

/// Returns the refusal for a plan that cannot be brought up to date, because too much was written since.
fn outdated() -> Refused {
    Refused::new(Code::Overloaded, "too much was written while the rollback was planned")
        .hint("retry in a moment; nothing was changed")
}

fn no_snapshot(name: &SnapshotName) -> Refused {
    Refused::new(Code::NotFound, format!("there is no snapshot {name}")).hint("list the snapshots")
}

fn no_version(key: &Key, version: Version) -> Refused {
    Refused::new(Code::NotFound, format!("entry {key} has no version {version}"))
        .hint("read the history of the entry")
}
