//! Shared memory: versioned entries with compare-and-set, history and watches.

use std::ops::Deref;
use std::sync::Arc;

use quorate_api::Error;
use quorate_api::entry::Entry;
use quorate_api::received::MemoryEntryChange;
use quorate_core::{
    AsOf, Commit, DeleteEntry, Epoch, FenceRef, Key, Op, OpResult, Payload, Principal, PutEntry, Seq,
    StoreError, Version,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::{from_json, to_json};
use crate::backend::{Backend, ChangeStream};

/// Shared memory, accessed as one principal.
#[derive(Clone)]
pub struct Memory {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) principal: Principal,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) fence: Option<FenceRef>,
}

/// One version of an entry, with its content.
#[derive(Clone, Debug)]
pub struct MemoryEntry {
    entry: Entry,
    content: Option<Payload>,
}

impl Deref for MemoryEntry {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl MemoryEntry {
    fn new(entry: Entry) -> Result<Self, Error> {
        Ok(Self { content: entry.payload()?, entry })
    }

    /// Whether this version is a tombstone.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.entry.deleted
    }

    /// Deserializes the content.
    ///
    /// # Errors
    /// Returns `INVALID` if the content does not match the type or was erased.
    pub fn content<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json(self.bytes())
    }

    /// Returns the content exactly as it was written; empty for a tombstone.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.content.as_ref().map_or(&[], |content| &content.bytes)
    }
}

impl Memory {
    pub(crate) fn new(backend: Arc<dyn Backend>, principal: Principal, epoch: Option<Epoch>) -> Self {
        Self { backend, principal, epoch, fence: None }
    }

    /// Returns a handle whose writes carry a fencing token. They are rejected if the lock was granted to another
    /// holder since.
    #[must_use]
    pub fn with_fence(&self, fence: FenceRef) -> Self {
        Self { fence: Some(fence), ..self.clone() }
    }

    /// Writes an entry unconditionally and returns its new version.
    ///
    /// # Errors
    /// Returns an error if the write is rejected or the storage fails.
    pub async fn put(&self, key: &str, entry_type: &str, content: impl Serialize) -> Result<u64, Error> {
        self.write(key, entry_type, content, None, &[]).await
    }

    /// Writes an entry if it is at the given version, and returns its new version. Version 0 means that the entry
    /// must not exist.
    ///
    /// # Errors
    /// Returns `VERSION_CONFLICT` with the current version, or a storage error.
    pub async fn put_if_version(
        &self,
        key: &str,
        entry_type: &str,
        content: impl Serialize,
        version: u64,
    ) -> Result<u64, Error> {
        self.write(key, entry_type, content, Some(version), &[]).await
    }

    /// Writes an entry and declares the entries it was derived from.
    ///
    /// If `version` is given, the write only happens if the entry is at that version.
    ///
    /// # Errors
    /// Returns `VERSION_CONFLICT` with the current version, or a storage error.
    pub async fn write(
        &self,
        key: &str,
        entry_type: &str,
        content: impl Serialize,
        version: Option<u64>,
        depends_on: &[&str],
    ) -> Result<u64, Error> {
        let put = PutEntry {
            key: Key::new(key)?,
            entry_type: entry_type.to_owned(),
            content: self.backend.seal(to_json(content)?.into()),
            content_type: None,
            expect: version.map(Version),
            depends_on: depends_on.iter().map(Key::new).collect::<Result<_, _>>()?,
            fence: self.fence.clone(),
        };
        self.commit_write(Op::Put(put)).await
    }

    /// Deletes an entry and returns the version of its tombstone. The history is retained.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, `VERSION_CONFLICT`, or a storage error.
    pub async fn delete(&self, key: &str, version: Option<u64>) -> Result<u64, Error> {
        let delete =
            DeleteEntry { key: Key::new(key)?, expect: version.map(Version), fence: self.fence.clone() };
        self.commit_write(Op::Delete(delete)).await
    }

    async fn commit_write(&self, op: Op) -> Result<u64, Error> {
        let commit = Commit { epoch: self.epoch, ..Commit::new(self.principal.clone(), vec![op]) };
        match self.backend.commit(commit).await?.results.first() {
            Some(OpResult::Written { version }) => Ok(version.0),
            _ => Err(StoreError::Read("the commit returned no version".into()).into()),
        }
    }

    /// Returns the latest version of an entry; `None` if it does not exist or is deleted.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn get(&self, key: &str) -> Result<Option<MemoryEntry>, Error> {
        let found = self.get_as_of(key, AsOf::Latest).await?;
        Ok(found.filter(|entry| !entry.is_deleted()))
    }

    /// Returns an entry as of a version, a sequence number or a time; tombstones included.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn get_as_of(&self, key: &str, as_of: AsOf) -> Result<Option<MemoryEntry>, Error> {
        self.backend.entry(Key::new(key)?, as_of).await?.map(MemoryEntry::new).transpose()
    }

    /// Returns the versions of an entry after the given one, oldest first.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn history(&self, key: &str, after: u64, limit: usize) -> Result<Vec<MemoryEntry>, Error> {
        let found = self.backend.history(Key::new(key)?, Version(after), limit).await?;
        found.into_iter().map(MemoryEntry::new).collect()
    }

    /// Returns the live entries with a key prefix, ordered by key. To get the next page, pass the last key as
    /// `after`.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<MemoryEntry>, Error> {
        let after = after.map(Key::new).transpose()?;
        let found = self.backend.entries(prefix.to_owned(), after, limit).await?;
        found.into_iter().map(MemoryEntry::new).collect()
    }

    /// Watches the entries with a key prefix, starting at a sequence number; 1 starts at the beginning of the log. No
    /// change is skipped.
    #[must_use]
    pub fn watch(&self, prefix: &str, from: Seq) -> MemoryWatch {
        MemoryWatch(self.backend.watch(prefix.to_owned(), from))
    }
}

/// Stream of changes of entries, in log order.
pub struct MemoryWatch(Box<dyn ChangeStream>);

/// A change of an entry.
pub type MemoryChange = MemoryEntryChange;

impl MemoryWatch {
    /// Waits for the next change. Cancel safe.
    ///
    /// # Errors
    /// Returns an error if the storage fails or the hub is closed; over the network also if the hub rejects the
    /// request.
    pub async fn next(&mut self) -> Result<MemoryChange, Error> {
        self.0.next().await
    }
}
