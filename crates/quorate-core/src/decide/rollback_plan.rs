//! The plan of a rollback of many entries: which of them change, and to what.
//!
//! Finding that out may take a walk through a hundred thousand entries, so it is done before the commit is queued, on a
//! thread that reads. At the head the plan is only updated by the writes since.

use std::collections::BTreeMap;

use crate::codec;
use crate::decide::No;
use crate::decide::meter::Meter;
use crate::effect::{Effect, Restored};
use crate::entry::EntryHead;
use crate::ids::{Key, Seq};
use crate::item::{Item, ItemKey, ItemKind};
use crate::limits::{ROLLBACK_KEYS_MAX, ROLLBACK_SCAN_MAX};
use crate::refused::{Code, Refused};
use crate::rows::{Rows, Scan, VersionAt};
use crate::snapshot::{Rollback, RollbackTo, RollbackWhat, Snapshot, SnapshotState};

/// An entry that changes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Turn {
    /// Its newest version.
    pub(super) now: Option<EntryHead>,
    /// The version that comes back, as it was written; `None` if the entry is deleted.
    pub(super) then: Option<Effect>,
}

/// What a rollback of a prefix changes, as of one record.
#[derive(Clone, Debug)]
pub struct RollbackPlan {
    /// Everything that was written up to here is part of it.
    pub(super) at: Seq,
    /// The record to which it goes back.
    pub(super) to: Seq,
    pub(super) turns: BTreeMap<Key, Turn>,
}

impl RollbackPlan {
    /// Begins the plan of a rollback of a prefix: finds the entries that may change, for [`RollbackPlan::add`]. `at` is the
    /// newest record that `rows` reflect, `scan_max` how many entries may be looked at.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, `NOT_FOUND` or `INVALID` for the snapshot, or a failed look-up.
    pub fn begin(rows: &dyn Rows, at: Seq, rollback: &Rollback, scan_max: usize) -> Result<(Self, Scan), No> {
        let rows = Meter::unbounded(rows);
        let snapshot = |item| match item {
            Some(Item::Snapshot(snapshot)) => Some(snapshot),
            _ => None,
        };
        let find = |name: &str| Ok(snapshot(rows.item(&ItemKey::new(ItemKind::Snapshot, name))?));
        let to = point(&rows, at, rollback, find)?.unwrap_or_default();
        let plan = Self { at, to, turns: BTreeMap::new() };
        let RollbackWhat::Prefix(prefix) = &rollback.what else {
            return Ok((plan, Scan { changed: Vec::new(), scanned: 0 }));
        };
        let Some(scan) = rows.changed_since(prefix, to, scan_max)? else {
            return Err(Refused::new(Code::LimitExceeded, format!("too many entries begin with {prefix:?}"))
                .limit(ROLLBACK_SCAN_MAX as u64)
                .hint("roll back narrower prefixes, one after the other")
                .into());
        };
        Ok((plan, scan))
    }

    /// Adds entries that were found. A later state of `rows` will do: [`RollbackPlan::catch_up`] looks again at what was
    /// written since the plan was begun.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, or a failed look-up.
    pub fn add(
        &mut self,
        rows: &dyn Rows,
        changed: impl Iterator<Item = (Key, EntryHead)>,
    ) -> Result<(), No> {
        let rows = Meter::unbounded(rows);
        let mut history = History::default();
        for (key, now) in changed {
            self.turn(&rows, &mut history, key, Some(now))?;
        }
        Ok(())
    }

    /// Everything that was written up to here is part of it.
    #[must_use]
    pub fn at(&self) -> Seq {
        self.at
    }

    /// Brings the plan up to date with entries that were written since.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, or a failed look-up.
    pub fn catch_up(&mut self, rows: &dyn Rows, at: Seq, written: Vec<Key>) -> Result<(), No> {
        let rows = Meter::unbounded(rows);
        let mut history = History::default();
        self.at = at;
        for key in written {
            let now = rows.entry(&key)?;
            self.turns.remove(&key);
            self.turn(&rows, &mut history, key, now)?;
        }
        Ok(())
    }

    /// Notes what becomes of one entry.
    fn turn(
        &mut self,
        rows: &Meter<'_>,
        history: &mut History,
        key: Key,
        now: Option<EntryHead>,
    ) -> Result<(), No> {
        let then = rows.version_at(&key, VersionAt::Seq(self.to))?;
        if let Some(turn) = history.turn(rows, &key, now, then)? {
            self.turns.insert(key, turn);
            check_count(self.turns.len())?;
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
    .hint("roll back narrower prefixes, one after the other"))
}

/// The record to which a rollback goes back; `None` for a version, which is a place in the history of its entry alone.
pub(super) fn point(
    rows: &Meter<'_>,
    newest: Seq,
    rollback: &Rollback,
    snapshot: impl FnOnce(&str) -> Result<Option<Snapshot>, No>,
) -> Result<Option<Seq>, No> {
    Ok(match &rollback.to {
        RollbackTo::Version(_) => None,
        RollbackTo::Seq(seq) => Some((*seq).min(newest)),
        RollbackTo::Time(time) => Some(rows.seq_at(*time)?),
        RollbackTo::Snapshot(name) => {
            let found = snapshot(name.as_str())?.filter(|found| found.state == SnapshotState::Kept);
            let snapshot = found.ok_or_else(|| {
                Refused::new(Code::NotFound, format!("there is no snapshot {name}"))
                    .hint("list the snapshots")
            })?;
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

/// Old versions as they were written. The record that was read last is kept: entries that were written together are looked
/// up together.
#[derive(Default)]
pub(super) struct History {
    seq: Seq,
    effects: Vec<Effect>,
}

impl History {
    /// What becomes of an entry whose newest version and whose version at the point in question are stored.
    fn turn(
        &mut self,
        rows: &Meter<'_>,
        key: &Key,
        now: Option<EntryHead>,
        then: Option<EntryHead>,
    ) -> Result<Option<Turn>, No> {
        turn(now, then, |head| self.written(rows, key, head))
    }

    /// How a stored version was written.
    pub(super) fn written(&mut self, rows: &Meter<'_>, key: &Key, head: EntryHead) -> Result<Effect, No> {
        if self.seq != head.seq {
            let record = rows.record(head.seq)?;
            let body = record.and_then(|record| codec::read_body(&record).ok());
            *self = Self { seq: head.seq, effects: body.map(|body| body.effects).unwrap_or_default() };
        }
        rows.add_steps(self.effects.len());
        find_written(&self.effects, key, head)
    }
}

/// What becomes of an entry, if anything: its newest version, and the version at the point in question.
pub(super) fn turn(
    now: Option<EntryHead>,
    then: Option<EntryHead>,
    mut written: impl FnMut(EntryHead) -> Result<Effect, No>,
) -> Result<Option<Turn>, No> {
    let live = |head: Option<EntryHead>| head.filter(|head| !head.deleted);
    match (live(now), live(then)) {
        (Some(now), Some(then)) if now.version == then.version => Ok(None),
        (live, Some(then)) => {
            let then = written(then)?;
            let is_same = match live {
                // What was brought back before need not be brought back again.
                Some(live) => content_of(&written(live)?) == content_of(&then),
                None => false,
            };
            Ok((!is_same).then_some(Turn { now, then: Some(then) }))
        }
        (Some(_), None) => Ok(Some(Turn { now, then: None })),
        (None, None) => Ok(None),
    }
}

/// How a version was written, among the effects of its record.
pub(super) fn find_written(effects: &[Effect], key: &Key, head: EntryHead) -> Result<Effect, No> {
    let is_it = |effect: &&Effect| matches!(effect, Effect::Written { key: of, version, .. } if of == key && *version == head.version);
    let found = effects.iter().find(is_it).cloned();
    Ok(found.map(|effect| at_home(effect, head.seq)).ok_or_else(|| {
        Refused::new(Code::NotFound, format!("entry {key} has no version {}", head.version))
            .hint("look at its history")
    })?)
}

/// A write that says where its content lies, wherever it is written again.
fn at_home(mut effect: Effect, home: Seq) -> Effect {
    if let Effect::Written { restores, version, .. } = &mut effect {
        let seq = restores.map_or(home, |restored| restored.seq);
        *restores = Some(Restored { seq, version: *version });
    }
    effect
}

/// Where the content of a write lies.
pub(super) fn content_of(effect: &Effect) -> Option<(Seq, u32)> {
    match effect {
        Effect::Written { part, restores, .. } => restores.map(|restored| (restored.seq, *part)),
        _ => None,
    }
}
