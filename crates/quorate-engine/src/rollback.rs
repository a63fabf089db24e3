//! Going back as callers see it: the commit, and what was built on what it undid.

use std::collections::BTreeMap;

use quorate_core::{
    Commit, Effect, Epoch, IdempotencyKey, Key, Op, OpResult, Principal, Receipt, Rollback, Seq, Version,
    codec,
};
use quorate_store::{Read, Rows, StoreError, When};

use crate::dependencies::Dependencies;
use crate::error::Error;
use crate::space::Space;

/// Entries that were built on what was undone, as many as are listed.
const LISTED_MAX: usize = 1000;

/// What a rollback did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RolledBack {
    /// The record that did it; `None` if everything was as it was then.
    pub seq: Option<Seq>,
    /// The record to which it went back.
    pub to: Seq,
    /// The entries that changed, by key.
    pub changed: Vec<Turned>,
    /// The first 1,000 entries that were built on a version that was undone, or on the newest version of such an entry.
    pub built_on: Vec<BuiltOn>,
    /// How many there are.
    pub built_on_count: u64,
    /// Whether all entries were looked at; 100,000 are.
    pub complete: bool,
}

/// An entry that went back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turned {
    /// Which one.
    pub key: Key,
    /// Its version now.
    pub version: Version,
    /// The version that came back; `None` if there was none and it was deleted.
    pub restored: Option<Version>,
}

/// An entry that was built on what was undone. It is left as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuiltOn {
    /// Which one.
    pub key: Key,
    /// Its version.
    pub version: Version,
    /// What it was built on.
    pub on: Key,
    /// The version of that.
    pub on_version: Version,
}

impl Space {
    /// Goes back, and lists what was built on what that undid. The list is looked up right after the commit.
    ///
    /// # Errors
    /// `NOT_FOUND`, `VERSION_CONFLICT`, `CONFLICT` if a content was erased, `LIMIT_EXCEEDED`, or a failure of the storage.
    pub async fn rollback(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        key: Option<IdempotencyKey>,
        rollback: Rollback,
    ) -> Result<RolledBack, Error> {
        let mut commit = Commit { epoch, ..Commit::new(principal.clone(), vec![Op::Rollback(rollback)]) };
        if let Some(key) = key {
            commit = commit.keyed(key);
        }
        let receipt = self.commit(commit).await?;
        self.rolled_back(&receipt).await
    }

    async fn rolled_back(&self, receipt: &Receipt) -> Result<RolledBack, Error> {
        let Some(OpResult::RolledBack { to, .. }) = receipt.results.first() else {
            return Err(StoreError::Read("a rollback was not answered".into()).into());
        };
        let mut found = RolledBack {
            seq: receipt.seq,
            to: *to,
            changed: Vec::new(),
            built_on: Vec::new(),
            built_on_count: 0,
            complete: true,
        };
        let Some(seq) = receipt.seq else { return Ok(found) };
        found.changed = self.turned_by(seq).await?;
        let undone = self.undone(&found.changed, *to).await?;
        let dependencies = Dependencies::read(&self.engine().store, self.number()).await?;
        let built_on = dependencies.built_on(|key, version| {
            undone.get(key).is_some_and(|(kept, new)| kept < &version && version < *new)
        });
        found.complete = dependencies.complete;
        found.built_on_count = built_on.len() as u64;
        found.built_on = built_on
            .into_iter()
            .take(LISTED_MAX)
            .map(|(entry, on)| BuiltOn {
                key: entry.key.clone(),
                version: entry.version,
                on: on.key.clone(),
                on_version: on.version,
            })
            .collect();
        Ok(found)
    }

    /// The entries that a record turned back.
    async fn turned_by(&self, seq: Seq) -> Result<Vec<Turned>, Error> {
        let records = self.log(seq, 1).await?;
        let body = records.first().map(codec::read_body).transpose();
        let body = body.map_err(|why| StoreError::Damaged(format!("record {seq}: {why}").into()))?;
        let mut turned = Vec::new();
        for effect in body.map(|body| body.effects).unwrap_or_default() {
            match effect {
                Effect::Written { key, version, restores, .. } => {
                    turned.push(Turned { key, version, restored: restores.map(|restored| restored.version) });
                }
                Effect::Deleted { key, version } => turned.push(Turned { key, version, restored: None }),
                _ => {}
            }
        }
        turned.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(turned)
    }

    /// For each entry the last version that was kept and the first that is new: those between were undone.
    async fn undone(&self, changed: &[Turned], to: Seq) -> Result<BTreeMap<Key, (Version, Version)>, Error> {
        let deleted = || changed.iter().filter(|one| one.restored.is_none());
        let reads = deleted().map(|one| Read::Entry { key: one.key.clone(), when: When::Seq(to) }).collect();
        let mut undone: BTreeMap<_, _> = changed
            .iter()
            .map(|one| (one.key.clone(), (one.restored.unwrap_or_default(), one.version)))
            .collect();
        let rows = self.engine().store.read(self.number(), reads).await?;
        for (one, row) in deleted().zip(rows) {
            // It was not there then: never, or deleted earlier.
            if let (Rows::Entry(Some(tombstone)), Some(range)) = (row, undone.get_mut(&one.key)) {
                range.0 = tombstone.version.head.version;
            }
        }
        Ok(undone)
    }
}
