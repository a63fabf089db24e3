//! Snapshots, and going back: what was there before is written again, as new versions. The content is not copied: the new
//! version says where the old one lies, so that erasing it reaches both.

use std::collections::BTreeMap;

use crate::codec;
use crate::commit::{OpResult, Principal};
use crate::decide::memory::expect_version;
use crate::decide::{Draft, No};
use crate::effect::{Effect, Restored};
use crate::entry::EntryHead;
use crate::ids::{Key, Seq, SnapshotName, Version};
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::{ROLLBACK_KEYS_MAX, ROLLBACK_SCAN_MAX};
use crate::refused::{Code, Refused};
use crate::rows::VersionAt;
use crate::snapshot::{MakeSnapshot, Rollback, RollbackTo, RollbackWhat, Snapshot, SnapshotState};

/// Erased contents that a refusal names.
const ERASED_NAMED: usize = 16;

/// An entry that goes back: what it is now, and what it was then.
struct Turn {
    key: Key,
    now: Option<EntryHead>,
    then: Option<EntryHead>,
}

/// What is written again.
struct Again {
    key: Key,
    now: Option<EntryHead>,
    /// The old version as it was written.
    written: Effect,
}

impl Draft<'_> {
    pub(super) fn make_snapshot(&mut self, make: &MakeSnapshot) -> Result<OpResult, No> {
        // What this commit did is not part of it: a snapshot is made before something is tried.
        let seq = Seq(self.seq.0 - 1);
        if let Some(snapshot) = self.snapshot(&make.name)? {
            if snapshot.seq == seq && snapshot.prefix == make.prefix {
                return Ok(OpResult::SnapshotMade { seq });
            }
            let detail = format!("there is a snapshot {} already, of record {}", make.name, snapshot.seq);
            return Err(Refused::new(Code::Duplicate, detail)
                .hint("choose another name, or drop the old one first")
                .into());
        }
        let snapshot = Snapshot {
            name: make.name.clone(),
            prefix: make.prefix.clone(),
            seq,
            at: self.now.wall,
            by: self.commit.principal.to_text(),
            state: SnapshotState::Kept,
        };
        self.change(Verb::SnapshotMade, Item::Snapshot(snapshot));
        Ok(OpResult::SnapshotMade { seq })
    }

    pub(super) fn drop_snapshot(&mut self, name: &SnapshotName) -> Result<OpResult, No> {
        let snapshot = self.snapshot(name)?.ok_or_else(|| no_snapshot(name))?;
        if let Principal::Agent(actor) = &self.commit.principal
            && snapshot.by != self.commit.principal.to_text()
        {
            let detail = format!("agent {actor} did not make snapshot {name}");
            return Err(Refused::new(Code::Forbidden, detail)
                .hint(format!("{} or the hub may drop it", snapshot.by))
                .into());
        }
        let state = SnapshotState::Dropped;
        self.change(Verb::SnapshotDropped, Item::Snapshot(Snapshot { state, ..snapshot }));
        Ok(OpResult::Done)
    }

    fn snapshot(&self, name: &SnapshotName) -> Result<Option<Snapshot>, No> {
        match self.item(&ItemKey::new(ItemKind::Snapshot, name.as_str()))? {
            Some(Item::Snapshot(snapshot)) if snapshot.state == SnapshotState::Kept => Ok(Some(snapshot)),
            _ => Ok(None),
        }
    }

    pub(super) fn rollback(&mut self, rollback: &Rollback) -> Result<OpResult, No> {
        self.check_fence(rollback.fence.as_ref())?;
        let (to, turns) = self.turns(rollback)?;
        let mut again = Vec::new();
        let mut gone = Vec::new();
        let mut effects = EffectsOf::default();
        for Turn { key, now, then } in turns {
            let live = |head: Option<EntryHead>| head.filter(|head| !head.deleted);
            match (live(now), live(then)) {
                (Some(now), Some(then)) if now.version == then.version => {}
                (live, Some(then)) => {
                    let written = self.written(&mut effects, &key, then)?;
                    // What was brought back before need not be brought back again.
                    let same = match live {
                        Some(live) => {
                            place_of(&self.written(&mut effects, &key, live)?) == place_of(&written)
                        }
                        None => false,
                    };
                    if !same {
                        again.push(Again { key, now, written });
                    }
                }
                (Some(now), None) => gone.push((key, now)),
                (None, None) => {}
            }
        }
        if again.len() + gone.len() > ROLLBACK_KEYS_MAX {
            let detail = format!("the rollback changes {} entries", again.len() + gone.len());
            return Err(Refused::new(Code::LimitExceeded, detail)
                .limit(ROLLBACK_KEYS_MAX as u64)
                .hint("roll back narrower prefixes, one after the other")
                .into());
        }
        self.refuse_erased(&again)?;
        let (written, deleted) = (again.len() as u32, gone.len() as u32);
        for Again { key, now, written } in again {
            let version = self.write_entry(&key, now, false)?;
            self.emit(renewed(written, version));
        }
        for (key, now) in gone {
            let version = self.write_entry(&key, Some(now), true)?;
            self.emit(Effect::Deleted { key, version });
        }
        Ok(OpResult::RolledBack { to, written, deleted })
    }

    /// Which entries go back, and to what.
    fn turns(&self, rollback: &Rollback) -> Result<(Seq, Vec<Turn>), No> {
        let point = self.point(rollback)?;
        match &rollback.what {
            RollbackWhat::Key { key, expect } => {
                let now = self.entry(key)?;
                expect_version(key, now.as_ref(), *expect)?;
                if now.is_none() {
                    return Err(
                        Refused::new(Code::NotFound, format!("there never was an entry {key}")).into()
                    );
                }
                let then = match (point, &rollback.to) {
                    (None, RollbackTo::Version(version)) => {
                        Some(self.version(key, *version)?.ok_or_else(|| no_version(key, *version))?)
                    }
                    (point, _) => self.rows.version_at(key, VersionAt::Seq(point.unwrap_or_default()))?,
                };
                let to = point.or(then.map(|then| then.seq)).unwrap_or_default();
                Ok((to, vec![Turn { key: key.clone(), now, then }]))
            }
            RollbackWhat::Prefix(prefix) => {
                let point = point.unwrap_or_default();
                let mut turns = Vec::new();
                for (key, now) in self.changed_since(prefix, point)? {
                    let then = self.rows.version_at(&key, VersionAt::Seq(point))?;
                    turns.push(Turn { key, now: Some(now), then });
                }
                Ok((point, turns))
            }
        }
    }

    /// The record to which it goes back; `None` for a version, which is a place in the history of its entry alone.
    fn point(&self, rollback: &Rollback) -> Result<Option<Seq>, No> {
        let newest = Seq(self.seq.0 - 1);
        Ok(match &rollback.to {
            RollbackTo::Version(_) => None,
            RollbackTo::Seq(seq) => Some((*seq).min(newest)),
            RollbackTo::Time(time) => Some(self.rows.seq_at(*time)?),
            RollbackTo::Snapshot(name) => {
                let snapshot = self.snapshot(name)?.ok_or_else(|| no_snapshot(name))?;
                if !rollback.what.is_within(&snapshot.prefix) {
                    let detail = format!("snapshot {name} is of {:?} only", snapshot.prefix);
                    return Err(Refused::new(Code::Invalid, detail)
                        .hint(format!("roll back within it, or go back to its record {}", snapshot.seq))
                        .into());
                }
                Some(snapshot.seq)
            }
        })
    }

    /// The entries that begin so and changed after a record, also in this very commit.
    fn changed_since(&self, prefix: &str, seq: Seq) -> Result<BTreeMap<Key, EntryHead>, No> {
        let Some(changed) = self.rows.changed_since(prefix, seq, ROLLBACK_SCAN_MAX)? else {
            return Err(Refused::new(Code::LimitExceeded, format!("too many entries begin with {prefix:?}"))
                .limit(ROLLBACK_SCAN_MAX as u64)
                .hint("roll back narrower prefixes, one after the other")
                .into());
        };
        let mut all: BTreeMap<_, _> = changed.into_iter().collect();
        let here = self.entries.iter().filter(|(key, _)| key.as_str().starts_with(prefix));
        all.extend(here.map(|(key, head)| (key.clone(), *head)));
        Ok(all)
    }

    /// A version of an entry, also one of this very commit.
    fn version(&self, key: &Key, version: Version) -> Result<Option<EntryHead>, No> {
        let generation = self.working.head.generation;
        let head = |deleted| EntryHead { version, generation, seq: self.seq, deleted };
        let here = self.effects.iter().find_map(|effect| match effect {
            Effect::Written { key: of, version: is, .. } if of == key && *is == version => Some(head(false)),
            Effect::Deleted { key: of, version: is } if of == key && *is == version => Some(head(true)),
            _ => None,
        });
        match here {
            Some(head) => Ok(Some(head)),
            None => Ok(self.rows.version_at(key, VersionAt::Version(version))?),
        }
    }

    /// How a version was written.
    fn written(&self, effects: &mut EffectsOf, key: &Key, head: EntryHead) -> Result<Effect, No> {
        let is_it = |effect: &&Effect| matches!(effect, Effect::Written { key: of, version, .. } if of == key && *version == head.version);
        let found = if head.seq == self.seq {
            self.effects.iter().find(is_it).cloned()
        } else {
            if effects.seq != head.seq {
                let record = self.rows.record(head.seq)?;
                let body = record.and_then(|record| codec::read_body(&record).ok());
                *effects =
                    EffectsOf { seq: head.seq, all: body.map(|body| body.effects).unwrap_or_default() };
            }
            effects.all.iter().find(is_it).cloned()
        };
        let missing = || no_version(key, head.version).into();
        found.map(|effect| at_home(effect, head.seq)).ok_or_else(missing)
    }

    /// What was erased cannot be brought back.
    fn refuse_erased(&self, again: &[Again]) -> Result<(), No> {
        let mut erased = Vec::new();
        for Again { key, written, .. } in again {
            if let Effect::Written { part, restores: Some(Restored { seq, version }), .. } = written
                && *seq != self.seq
            {
                let target = self.rows.erase_target(*seq, *part)?;
                if target.is_none_or(|target| target.erased) || self.erased_here.contains(&(*seq, *part)) {
                    erased.push(format!("{key} v{version}"));
                }
            }
        }
        if erased.is_empty() {
            return Ok(());
        }
        let more = if erased.len() > ERASED_NAMED { " and others" } else { "" };
        let names = erased[..erased.len().min(ERASED_NAMED)].join(", ");
        Err(Refused::new(Code::Conflict, format!("the content of {names}{more} was erased"))
            .hint("go back to another version, or roll back the other entries by themselves")
            .into())
    }
}

/// The effects of the record that was read last: entries that were written together are looked up together.
#[derive(Default)]
struct EffectsOf {
    seq: Seq,
    all: Vec<Effect>,
}

/// A write that says where its content lies, wherever it is told.
fn at_home(mut effect: Effect, home: Seq) -> Effect {
    if let Effect::Written { restores, version, .. } = &mut effect {
        let seq = restores.map_or(home, |restored| restored.seq);
        *restores = Some(Restored { seq, version: *version });
    }
    effect
}

/// Where the content of a write lies.
fn place_of(effect: &Effect) -> Option<(Seq, u32)> {
    match effect {
        Effect::Written { part, restores, .. } => restores.map(|restored| (restored.seq, *part)),
        _ => None,
    }
}

/// The same content as a new version.
fn renewed(mut effect: Effect, new: Version) -> Effect {
    if let Effect::Written { version, .. } = &mut effect {
        *version = new;
    }
    effect
}

fn no_snapshot(name: &SnapshotName) -> Refused {
    Refused::new(Code::NotFound, format!("there is no snapshot {name}")).hint("list the snapshots")
}

fn no_version(key: &Key, version: Version) -> Refused {
    Refused::new(Code::NotFound, format!("entry {key} has no version {version}")).hint("look at its history")
}
