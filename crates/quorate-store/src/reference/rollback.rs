//! Rollback: scans all entries and writes their earlier content as new versions. Also snapshots.

use quorate_core::{
    Code, EntryVersion, Item, ItemKey, ItemKind, Key, MakeSnapshot, OpResult, Principal, Refused, Rollback,
    RollbackScope, RollbackTarget, Seq, Snapshot, SnapshotName, SnapshotState, Timestamp, limits,
};

use crate::reference::transaction::Transaction;

impl Transaction<'_> {
    pub(super) fn make_snapshot(&mut self, make: &MakeSnapshot) -> Result<OpResult, Refused> {
        let seq = self.space.newest_seq();
        if let Some(existing) = self.snapshot(&make.name) {
            return if (existing.seq, &existing.prefix) == (seq, &make.prefix) {
                Ok(OpResult::SnapshotMade { seq })
            } else {
                Err(Refused::new(
                    Code::Duplicate,
                    format!("snapshot {} exists with different content", make.name),
                ))
            };
        }
        let by = self.commit.principal.to_string();
        let is_snapshot = |item: &&Item| matches!(item, Item::Snapshot(_));
        let is_own = |item: &&Item| matches!(item, Item::Snapshot(snapshot) if snapshot.by == by);
        let too_many = |max: usize| Refused::new(Code::LimitExceeded, "too many snapshots").limit(max as u64);
        if self.space.items.values().filter(is_snapshot).count() >= limits::SNAPSHOTS_MAX {
            return Err(too_many(limits::SNAPSHOTS_MAX));
        }
        if self.actor.is_some()
            && self.space.items.values().filter(is_own).count() >= limits::SNAPSHOTS_PER_AGENT_MAX
        {
            return Err(too_many(limits::SNAPSHOTS_PER_AGENT_MAX));
        }
        self.set_item(Item::Snapshot(Snapshot {
            name: make.name.clone(),
            prefix: make.prefix.clone(),
            seq,
            at: self.now.wall,
            by,
            state: SnapshotState::Active,
        }));
        Ok(OpResult::SnapshotMade { seq })
    }

    pub(super) fn drop_snapshot(&mut self, name: &SnapshotName) -> Result<OpResult, Refused> {
        let snapshot = self.snapshot(name).ok_or_else(|| no_snapshot(name))?;
        let own = !matches!(self.commit.principal, Principal::Agent(_))
            || snapshot.by == self.commit.principal.to_string();
        if !own {
            return Err(Refused::new(
                Code::Forbidden,
                format!("snapshot {name} belongs to another principal"),
            ));
        }
        self.set_item(Item::Snapshot(Snapshot { state: SnapshotState::Dropped, ..snapshot }));
        Ok(OpResult::Done)
    }

    fn snapshot(&self, name: &SnapshotName) -> Option<Snapshot> {
        match self.space.items.get(&ItemKey::new(ItemKind::Snapshot, name.as_str())) {
            Some(Item::Snapshot(snapshot)) => Some(snapshot.clone()),
            _ => None,
        }
    }

    pub(super) fn rollback(&mut self, rollback: &Rollback) -> Result<OpResult, Refused> {
        self.check_fence(rollback.fence.as_ref())?;
        let point = self.point(rollback)?;
        let keys: Vec<Key> = match &rollback.scope {
            RollbackScope::Key { key, expect } => {
                self.check_version(key, *expect)?;
                if !self.space.entries.contains_key(key) {
                    return Err(Refused::new(Code::NotFound, format!("unknown entry {key}")));
                }
                vec![key.clone()]
            }
            RollbackScope::Prefix(prefix) => {
                let keys = self.space.entries.keys();
                keys.filter(|key| key.as_str().starts_with(prefix)).cloned().collect()
            }
        };
        let mut to = point;
        let (mut restored, mut deleted) = (Vec::new(), Vec::new());
        for key in keys {
            let versions = &self.space.entries[&key];
            let restored_version = match (&rollback.target, point) {
                (RollbackTarget::Version(number), _) => {
                    let found = versions.iter().find(|version| version.head.version == *number);
                    let found = found.ok_or_else(|| Refused::new(Code::NotFound, "unknown version"))?;
                    to = Some(found.head.seq);
                    Some(found)
                }
                (_, point) => versions.iter().rev().find(|version| Some(version.head.seq) <= point),
            };
            let restored_version = restored_version.filter(|version| !version.head.deleted).cloned();
            let current = versions.last().filter(|version| !version.head.deleted);
            match (current, restored_version) {
                (Some(current), Some(restored_version))
                    if current.content_part == restored_version.content_part => {}
                (_, Some(restored_version)) => restored.push((key, restored_version)),
                (Some(_), None) => deleted.push(key),
                (None, None) => {}
            }
        }
        if restored.len() + deleted.len() > limits::ROLLBACK_KEYS_MAX {
            return Err(
                Refused::new(Code::LimitExceeded, "too many entries").limit(limits::ROLLBACK_KEYS_MAX as u64)
            );
        }
        self.check_session_entries(rollback, restored.iter().map(|(key, _)| key).chain(&deleted).collect())?;
        if restored.iter().any(|(_, restored_version)| self.is_erased(restored_version)) {
            return Err(Refused::new(Code::Conflict, "some of the content was erased"));
        }
        let result = OpResult::RolledBack {
            to: to.unwrap_or_default(),
            written: restored.len() as u32,
            deleted: deleted.len() as u32,
        };
        for (key, restored_version) in restored {
            let version = EntryVersion {
                head: self.next_head(&key, false),
                at: self.now.wall,
                author: self.commit.principal.to_string(),
                restores: Some(restored_version.head.version),
                ..restored_version
            };
            self.write(&key, version);
        }
        for key in deleted {
            let tombstone = self.tombstone(&key);
            self.write(&key, tombstone);
        }
        Ok(result)
    }

    fn check_session_entries(&self, rollback: &Rollback, mut changed: Vec<&Key>) -> Result<(), Refused> {
        changed.sort();
        for key in changed {
            let expect = match &rollback.scope {
                RollbackScope::Key { expect, .. } => *expect,
                RollbackScope::Prefix(_) => None,
            };
            self.check_session_entry(key, expect)?;
        }
        Ok(())
    }

    fn is_erased(&self, version: &EntryVersion) -> bool {
        let Some((seq, part)) = version.content_part else { return false };
        let record = self.space.records.get(seq.0 as usize - 1);
        record.is_some_and(|record| record.parts[part as usize].salt == [0; 16])
    }

    /// Returns the record to roll back to, or `None` if the target is a version.
    fn point(&self, rollback: &Rollback) -> Result<Option<Seq>, Refused> {
        Ok(match &rollback.target {
            RollbackTarget::Version(_) => None,
            RollbackTarget::Seq(seq) => Some((*seq).min(self.space.newest_seq())),
            RollbackTarget::Time(time) => Some(self.newest_at(*time)),
            RollbackTarget::Snapshot(name) => {
                let snapshot = self.snapshot(name).ok_or_else(|| no_snapshot(name))?;
                let prefix = match &rollback.scope {
                    RollbackScope::Key { key, .. } => key.as_str(),
                    RollbackScope::Prefix(prefix) => prefix.as_str(),
                };
                if !prefix.starts_with(&snapshot.prefix) {
                    return Err(Refused::new(
                        Code::Invalid,
                        format!("snapshot {name} covers another prefix"),
                    ));
                }
                Some(snapshot.seq)
            }
        })
    }

    fn newest_at(&self, time: Timestamp) -> Seq {
        Seq(self.space.records.iter().filter(|record| record.at <= time).count() as u64)
    }
}

fn no_snapshot(name: &SnapshotName) -> Refused {
    Refused::new(Code::NotFound, format!("unknown snapshot {name}"))
}
