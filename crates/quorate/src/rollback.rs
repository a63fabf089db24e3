//! Going back in the shared memory: snapshots, rollbacks, and whether everything fits together.

use quorate_api::Error;
use quorate_api::page::{Page, PageQuery};
use quorate_api::rollback::{Check, RolledBack, Snapshot};
use quorate_core::{
    Commit, Key, MakeSnapshot, Op, OpResult, Rollback, RollbackTo, RollbackWhat, Seq, SnapshotName,
    StoreError, Version,
};

use crate::memory::Memory;

impl Memory {
    /// Names the present state of the entries whose key begins so, all if the prefix is empty. It costs next to nothing:
    /// history is kept anyway. Gives the last record that it holds.
    ///
    /// # Errors
    /// `DUPLICATE` if the name is taken, or a failure of the storage.
    pub async fn snapshot(&self, name: &str, prefix: &str) -> Result<Seq, Error> {
        let make = MakeSnapshot { name: SnapshotName::new(name)?, prefix: prefix.to_owned() };
        let receipt = self.link.commit(self.commit_of(Op::MakeSnapshot(make))).await?;
        match receipt.results.first() {
            Some(OpResult::SnapshotMade { seq }) => Ok(*seq),
            _ => Err(StoreError::Read("a snapshot was not answered".into()).into()),
        }
    }

    /// Forgets the name of a snapshot; history stays.
    ///
    /// # Errors
    /// `NOT_FOUND`, `FORBIDDEN` if somebody else made it, or a failure of the storage.
    pub async fn drop_snapshot(&self, name: &str) -> Result<(), Error> {
        let drop = Op::DropSnapshot { name: SnapshotName::new(name)? };
        self.link.commit(self.commit_of(drop)).await.map(|_| ())
    }

    /// A page of snapshots.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn snapshots(&self, page: PageQuery) -> Result<Page<Snapshot>, Error> {
        self.link.snapshots(page).await
    }

    /// Brings back what an entry was, as a new version, if it is at this version now or whatever it is. Lists what was built
    /// on what that undid.
    ///
    /// # Errors
    /// `NOT_FOUND`, `VERSION_CONFLICT`, `CONFLICT` if the content was erased, or a failure of the storage.
    pub async fn rollback(
        &self,
        key: &str,
        to: RollbackTo,
        version: Option<u64>,
    ) -> Result<RolledBack, Error> {
        let what = RollbackWhat::Key { key: Key::new(key)?, expect: version.map(Version) };
        self.go_back(what, to).await
    }

    /// Brings back what all entries were whose key begins so, in one commit: what was not there then is deleted, what was
    /// deleted since comes back. Lists what was built on what that undid.
    ///
    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` if a content was erased, `LIMIT_EXCEEDED` for more than 4,096 entries that change, or a failure
    /// of the storage.
    pub async fn rollback_all(&self, prefix: &str, to: RollbackTo) -> Result<RolledBack, Error> {
        self.go_back(RollbackWhat::Prefix(prefix.to_owned()), to).await
    }

    async fn go_back(&self, what: RollbackWhat, to: RollbackTo) -> Result<RolledBack, Error> {
        let rollback = Rollback { what, to, fence: self.fence.clone() };
        self.link.rollback(self.principal.clone(), self.epoch, rollback).await
    }

    /// Looks whether all entries fit together: what they were built on is there, is still what it was, and was not built on
    /// them in turn.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn check(&self) -> Result<Check, Error> {
        self.link.check().await
    }

    fn commit_of(&self, op: Op) -> Commit {
        Commit { epoch: self.epoch, ..Commit::new(self.principal.clone(), vec![op]) }
    }
}
