//! Snapshots, rollback and consistency checks of the shared memory.

use quorate_api::Error;
use quorate_api::page::{Page, PageQuery};
use quorate_api::rollback::{ConsistencyReport, RollbackResult, Snapshot};
use quorate_core::{
    Commit, Key, MakeSnapshot, Op, OpResult, Rollback, RollbackScope, RollbackTarget, Seq, SnapshotName,
    StoreError, Version,
};

use crate::memory::Memory;

impl Memory {
    /// Creates a named snapshot of the entries with a key prefix; an empty prefix selects all entries. Returns the
    /// last sequence number that it includes.
    ///
    /// A snapshot only names a position in the history, which is retained anyway. It copies no data.
    ///
    /// # Errors
    /// Returns `DUPLICATE` if the name is taken, or a storage error.
    pub async fn snapshot(&self, name: &str, prefix: &str) -> Result<Seq, Error> {
        let make = MakeSnapshot { name: SnapshotName::new(name)?, prefix: prefix.to_owned() };
        let receipt = self.backend.commit(self.new_commit(Op::MakeSnapshot(make))).await?;
        match receipt.results.first() {
            Some(OpResult::SnapshotMade { seq }) => Ok(*seq),
            _ => Err(StoreError::Read("the commit returned no snapshot position".into()).into()),
        }
    }

    /// Deletes a snapshot. The history is not affected.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, `FORBIDDEN` if another principal created the snapshot, or a storage error.
    pub async fn drop_snapshot(&self, name: &str) -> Result<(), Error> {
        let op = Op::DropSnapshot { name: SnapshotName::new(name)? };
        self.backend.commit(self.new_commit(op)).await.map(drop)
    }

    /// Returns a page of snapshots.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn snapshots(&self, page: PageQuery) -> Result<Page<Snapshot>, Error> {
        self.backend.snapshots(page).await
    }

    /// Rolls an entry back by writing its earlier content as a new version.
    ///
    /// If `version` is given, the rollback only happens if the entry is at that version. The result lists the entries
    /// derived from the versions that were undone.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, `VERSION_CONFLICT`, `CONFLICT` if the earlier content was erased, or a storage error.
    pub async fn rollback(
        &self,
        key: &str,
        target: RollbackTarget,
        version: Option<u64>,
    ) -> Result<RollbackResult, Error> {
        let scope = RollbackScope::Key { key: Key::new(key)?, expect: version.map(Version) };
        self.commit_rollback(scope, target).await
    }

    /// Rolls back all entries with a key prefix in one commit.
    ///
    /// Entries created since are deleted, and entries deleted since are restored. The result lists the entries
    /// derived from the versions that were undone.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, `CONFLICT` if an earlier content was erased, `LIMIT_EXCEEDED` if more than 4,096 entries
    /// would change, or a storage error.
    pub async fn rollback_all(&self, prefix: &str, target: RollbackTarget) -> Result<RollbackResult, Error> {
        self.commit_rollback(RollbackScope::Prefix(prefix.to_owned()), target).await
    }

    async fn commit_rollback(
        &self,
        scope: RollbackScope,
        target: RollbackTarget,
    ) -> Result<RollbackResult, Error> {
        let rollback = Rollback { scope, target, fence: self.fence.clone() };
        self.backend.rollback(self.principal.clone(), self.epoch, rollback).await
    }

    /// Checks the dependencies between all entries: each one must exist, be unchanged since it was used, and not be
    /// part of a cycle.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn check(&self) -> Result<ConsistencyReport, Error> {
        self.backend.check().await
    }

    fn new_commit(&self, op: Op) -> Commit {
        Commit { epoch: self.epoch, ..Commit::new(self.principal.clone(), vec![op]) }
    }
}
