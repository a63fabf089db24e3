//! Rollbacks: the commit, and the entries that were derived from the undone versions.

use std::collections::BTreeMap;

use quorate_api::rollback::{DerivedEntry, RestoredEntry, RollbackResult};
use quorate_core::{
    Commit, Effect, Epoch, IdempotencyKey, Key, Op, OpResult, Principal, Receipt, Rollback, Seq, Version,
    codec,
};
use quorate_store::{AsOf, ReadQuery, ReadResult, StoreError};

use crate::dependencies::Dependencies;
use crate::error::Error;
use crate::space::Space;

/// Maximum number of derived entries listed by a rollback.
const LISTED_MAX: usize = 1000;

impl Space {
    /// Rolls entries back and lists the entries that were derived from undone versions. The list is read right after
    /// the commit.
    ///
    /// # Errors
    /// `NOT_FOUND`, `VERSION_CONFLICT`, `CONFLICT` if the content to restore was erased, `LIMIT_EXCEEDED`, or a
    /// storage failure.
    pub async fn rollback(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        key: Option<IdempotencyKey>,
        rollback: Rollback,
    ) -> Result<RollbackResult, Error> {
        let mut commit = Commit { epoch, ..Commit::new(principal.clone(), vec![Op::Rollback(rollback)]) };
        if let Some(key) = key {
            commit = commit.keyed(key);
        }
        let receipt = self.commit(commit).await?;
        self.rolled_back(&receipt).await
    }

    async fn rolled_back(&self, receipt: &Receipt) -> Result<RollbackResult, Error> {
        let Some(OpResult::RolledBack { to, .. }) = receipt.results.first() else {
            return Err(StoreError::Read("unexpected result of a rollback".into()).into());
        };
        let mut result = RollbackResult {
            seq: receipt.seq,
            to: *to,
            changed: Vec::new(),
            built_on: Vec::new(),
            built_on_count: 0,
            complete: true,
        };
        let Some(seq) = receipt.seq else { return Ok(result) };
        result.changed = self.entries_changed_by(seq).await?;
        let undone = self.undone_ranges(&result.changed, *to).await?;
        let dependencies = Dependencies::load(&self.engine().store, self.number()).await?;
        let derived = dependencies.derived_from(|key, version| {
            undone.get(key).is_some_and(|(kept, new)| kept < &version && version < *new)
        });
        result.complete = dependencies.complete;
        result.built_on_count = derived.len() as u64;
        result.built_on = derived
            .into_iter()
            .take(LISTED_MAX)
            .map(|(entry, source)| DerivedEntry {
                key: entry.key.clone(),
                version: entry.version,
                on: source.key.clone(),
                on_version: source.version,
            })
            .collect();
        Ok(result)
    }

    /// Returns the entries that a record rolled back.
    async fn entries_changed_by(&self, seq: Seq) -> Result<Vec<RestoredEntry>, Error> {
        let records = self.log(seq, 1).await?;
        let body = records.first().map(codec::read_body).transpose();
        let body = body.map_err(|error| StoreError::Corrupt(format!("record {seq}: {error}").into()))?;
        let mut changed = Vec::new();
        for effect in body.map(|body| body.effects).unwrap_or_default() {
            match effect {
                Effect::Written { key, version, restores, .. } => {
                    changed.push(RestoredEntry {
                        key,
                        version,
                        restored: restores.map(|restored| restored.version),
                    });
                }
                Effect::Deleted { key, version } => {
                    changed.push(RestoredEntry { key, version, restored: None })
                }
                _ => {}
            }
        }
        changed.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(changed)
    }

    /// Returns for each entry the last kept version and the first new one: the versions between them were undone.
    async fn undone_ranges(
        &self,
        changed: &[RestoredEntry],
        to: Seq,
    ) -> Result<BTreeMap<Key, (Version, Version)>, Error> {
        let deleted = || changed.iter().filter(|entry| entry.restored.is_none());
        let reads =
            deleted().map(|entry| ReadQuery::Entry { key: entry.key.clone(), when: AsOf::Seq(to) }).collect();
        let mut undone: BTreeMap<_, _> = changed
            .iter()
            .map(|entry| (entry.key.clone(), (entry.restored.unwrap_or_default(), entry.version)))
            .collect();
        let rows = self.engine().store.read(self.number(), reads).await?;
        for (entry, row) in deleted().zip(rows) {
            // The entry did not exist then. If it was deleted before, versions up to the tombstone were not undone.
            if let (ReadResult::Entry(Some(tombstone)), Some(range)) = (row, undone.get_mut(&entry.key)) {
                range.0 = tombstone.version.head.version;
            }
        }
        Ok(undone)
    }
}
