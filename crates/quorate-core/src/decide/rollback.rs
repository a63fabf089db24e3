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
use crate::lookup::VersionSelector;
use crate::refused::{Code, Refused};
use crate::snapshot::{MakeSnapshot, Rollback, RollbackScope, RollbackTarget, Snapshot, SnapshotState};

/// Maximum number of erased entries that a refusal lists.
const ERASED_LISTED_MAX: usize = 16;

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
        let (to, turns) = self.turns(rollback)?;
        check_count(turns.len())?;
        self.refuse_erased(&turns)?;
        let deleted = turns.values().filter(|turn| turn.restored.is_none()).count() as u32;
        let written = turns.len() as u32 - deleted;
        let mut deletions = Vec::new();
        for (key, EntryChange { current: now, restored: then }) in turns {
            match then {
                Some(effect) => {
                    let version = self.write_entry(&key, now, false)?;
                    self.emit(with_version(effect, version));
                }
                None => deletions.push((key, now)),
            }
        }
        for (key, now) in deletions {
            let version = self.write_entry(&key, now, true)?;
            self.emit(Effect::Deleted { key, version });
        }
        Ok(OpResult::RolledBack { to, written, deleted })
    }

    /// Returns the target record, and the entries that change with the version to restore.
    fn turns(&mut self, rollback: &Rollback) -> Result<(Seq, BTreeMap<Key, EntryChange>), DecideError> {
        let point = self.point(rollback)?;
        match &rollback.scope {
            RollbackScope::Key { key, expect } => {
                let now = self.entry(key)?;
                expect_version(key, now.as_ref(), *expect)?;
                if now.is_none() {
                    return Err(Refused::new(Code::NotFound, format!("entry {key} has never existed")).into());
                }
                let then = match (point, &rollback.target) {
                    (None, RollbackTarget::Version(version)) => {
                        Some(self.version(key, *version)?.ok_or_else(|| no_version(key, *version))?)
                    }
                    (point, _) => {
                        self.lookup.version_at(key, VersionSelector::Seq(point.unwrap_or_default()))?
                    }
                };
                let to = point.or(then.map(|then| then.seq)).unwrap_or_default();
                let mut history = RecordCache::default();
                let turn = entry_change(now, then, |head| self.written(&mut history, key, head))?;
                Ok((to, turn.map(|turn| (key.clone(), turn)).into_iter().collect()))
            }
            RollbackScope::Prefix(prefix) => {
                let point = point.unwrap_or_default();
                Ok((point, self.prefix_changes(prefix, point)?))
            }
        }
    }

    /// Returns the entries of a prefix that change: those of the plan, updated by the writes since then.
    fn prefix_changes(
        &mut self,
        prefix: &str,
        point: Seq,
    ) -> Result<BTreeMap<Key, EntryChange>, DecideError> {
        // If all writes after the target are in memory, no plan is needed.
        let (mut turns, changed) = match self.lookup.recent_changes(prefix, point)? {
            Some(changed) => (BTreeMap::new(), changed),
            None => {
                let plan = self.plan(point)?;
                let changed = self.lookup.recent_changes(prefix, plan.at)?.ok_or_else(outdated)?;
                self.lookup.add_steps(plan.changes.len());
                (plan.changes.clone(), changed)
            }
        };
        let mut changed: BTreeMap<_, _> = changed.into_iter().collect();
        let here = self.entries.iter().filter(|(key, _)| key.as_str().starts_with(prefix));
        changed.extend(here.map(|(key, head)| (key.clone(), *head)));
        let mut history = RecordCache::default();
        for (key, now) in changed {
            turns.remove(&key);
            let then = self.lookup.version_at(&key, VersionSelector::Seq(point))?;
            if let Some(turn) = entry_change(Some(now), then, |head| self.written(&mut history, &key, head))?
            {
                turns.insert(key, turn);
                check_count(turns.len())?;
            }
        }
        Ok(turns)
    }

    /// Returns the plan of this operation, if it has the same target.
    fn plan(&self, point: Seq) -> Result<&RollbackPlan, DecideError> {
        match self.commit.plans.get(&self.op).map(Arc::as_ref) {
            Some(Ok(plan)) if plan.to == point => Ok(plan),
            Some(Err(refused)) => Err(refused.clone().into()),
            Some(Ok(_)) | None => Err(outdated().into()),
        }
    }

    /// Returns the target record; `None` for a target version, which only concerns the history of its entry.
    fn point(&self, rollback: &Rollback) -> Result<Option<Seq>, DecideError> {
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
        let here = self.effects.iter().find_map(|effect| match effect {
            Effect::Written { key: of, version: is, .. } if of == key && *is == version => Some(head(false)),
            Effect::Deleted { key: of, version: is } if of == key && *is == version => Some(head(true)),
            _ => None,
        });
        match here {
            Some(head) => Ok(Some(head)),
            None => self.lookup.version_at(key, VersionSelector::Version(version)),
        }
    }

    /// Returns the write effect of a version, of this commit or an earlier one.
    fn written(&self, history: &mut RecordCache, key: &Key, head: EntryHead) -> Result<Effect, DecideError> {
        if head.seq != self.seq {
            return history.write_of(&self.lookup, key, head);
        }
        self.lookup.add_steps(self.effects.len());
        self.lookup.check_limit()?;
        find_write(&self.effects, key, head)
    }

    /// Refuses a rollback to erased content.
    fn refuse_erased(&self, turns: &BTreeMap<Key, EntryChange>) -> Result<(), DecideError> {
        let mut erased = Vec::new();
        for (key, turn) in turns {
            if let Some((seq, part)) = turn.restored.as_ref().and_then(content_part)
                && seq != self.seq
                && (self.erased_in_commit.contains(&(seq, part)) || self.lookup.is_erased(seq, part)?)
            {
                erased.push(key.as_str());
            }
        }
        if erased.is_empty() {
            return Ok(());
        }
        let more = if erased.len() > ERASED_LISTED_MAX { " and others" } else { "" };
        let names = erased[..erased.len().min(ERASED_LISTED_MAX)].join(", ");
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
