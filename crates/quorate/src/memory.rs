//! Shared memory: versioned entries, compare and set, history, watching.

use std::ops::Deref;
use std::sync::Arc;

use quorate_api::Error;
use quorate_api::entry::Entry;
use quorate_api::received::Change;
use quorate_core::{
    Commit, DeleteEntry, Epoch, FenceRef, Key, Op, OpResult, Payload, Principal, PutEntry, Seq, StoreError,
    Version, When,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::{from_json, to_json};
use crate::link::{Changes, Link};

/// Shared memory, in somebody's name.
#[derive(Clone)]
pub struct Memory {
    pub(crate) link: Arc<dyn Link>,
    pub(crate) principal: Principal,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) fence: Option<FenceRef>,
}

/// A version of an entry, with its content as bytes.
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

    /// Whether this version is a deletion.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.entry.deleted
    }

    /// The content, typed.
    ///
    /// # Errors
    /// `INVALID` if it does not fit the type, or was erased.
    pub fn content<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json(self.bytes())
    }

    /// The content, byte for byte as it was written; empty for a deletion.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.content.as_ref().map_or(&[], |content| &content.bytes)
    }
}

impl Memory {
    pub(crate) fn new(link: Arc<dyn Link>, principal: Principal, epoch: Option<Epoch>) -> Self {
        Self { link, principal, epoch, fence: None }
    }

    /// The same memory, written under a lock: a write is refused if somebody else was given the lock since.
    #[must_use]
    pub fn under(&self, fence: FenceRef) -> Self {
        Self { fence: Some(fence), ..self.clone() }
    }

    /// Writes an entry, whatever it was. Gives its version.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn put(&self, key: &str, entry_type: &str, content: impl Serialize) -> Result<u64, Error> {
        self.write(key, entry_type, content, None, &[]).await
    }

    /// Writes an entry if it is at this version; 0 = if there is none. Gives its new version.
    ///
    /// # Errors
    /// `VERSION_CONFLICT` with the current version, or a failure of the storage.
    pub async fn put_if(
        &self,
        key: &str,
        entry_type: &str,
        content: impl Serialize,
        version: u64,
    ) -> Result<u64, Error> {
        self.write(key, entry_type, content, Some(version), &[]).await
    }

    /// Writes an entry and says what it was built on.
    ///
    /// # Errors
    /// `VERSION_CONFLICT` with the current version, or a failure of the storage.
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
            content: self.link.seal(to_json(content)?.into()),
            content_type: None,
            expect: version.map(Version),
            depends_on: depends_on.iter().map(Key::new).collect::<Result<_, _>>()?,
            fence: self.fence.clone(),
        };
        self.version_of(Op::Put(put)).await
    }

    /// Deletes an entry; its history stays. Gives the version of the tombstone.
    ///
    /// # Errors
    /// `NOT_FOUND`, `VERSION_CONFLICT`, or a failure of the storage.
    pub async fn delete(&self, key: &str, version: Option<u64>) -> Result<u64, Error> {
        let delete =
            DeleteEntry { key: Key::new(key)?, expect: version.map(Version), fence: self.fence.clone() };
        self.version_of(Op::Delete(delete)).await
    }

    async fn version_of(&self, op: Op) -> Result<u64, Error> {
        let commit = Commit { epoch: self.epoch, ..Commit::new(self.principal.clone(), vec![op]) };
        match self.link.commit(commit).await?.results.first() {
            Some(OpResult::Written { version }) => Ok(version.0),
            _ => Err(StoreError::Read("a write was not answered".into()).into()),
        }
    }

    /// The entry as it is now; `None` if there is none.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn get(&self, key: &str) -> Result<Option<MemoryEntry>, Error> {
        let found = self.at(key, When::Now).await?;
        Ok(found.filter(|entry| !entry.is_deleted()))
    }

    /// The entry at a version, after a record, or at a time; tombstones included.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn at(&self, key: &str, when: When) -> Result<Option<MemoryEntry>, Error> {
        self.link.entry(Key::new(key)?, when).await?.map(MemoryEntry::new).transpose()
    }

    /// The versions of an entry after this one, oldest first.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn history(&self, key: &str, after: u64, limit: usize) -> Result<Vec<MemoryEntry>, Error> {
        let found = self.link.history(Key::new(key)?, Version(after), limit).await?;
        found.into_iter().map(MemoryEntry::new).collect()
    }

    /// The first live entries whose key begins so, by key; to go on, give the last key that came.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<MemoryEntry>, Error> {
        let after = after.map(Key::new).transpose()?;
        let found = self.link.entries(prefix.to_owned(), after, limit).await?;
        found.into_iter().map(MemoryEntry::new).collect()
    }

    /// Watches the entries whose key begins so, from a record on; 1 is from the beginning. Nothing is missed.
    #[must_use]
    pub fn watch(&self, prefix: &str, from: Seq) -> MemoryWatch {
        MemoryWatch(self.link.watch(prefix.to_owned(), from))
    }
}

/// The changes of entries, in order.
pub struct MemoryWatch(Box<dyn Changes>);

/// One change of an entry.
pub type MemoryChange = Change;

impl MemoryWatch {
    /// The next change; waits for it. Nothing is lost if the wait for it is given up.
    ///
    /// # Errors
    /// When the storage fails or the hub is closed; over the network also when the hub refuses.
    pub async fn next(&mut self) -> Result<MemoryChange, Error> {
        self.0.next().await
    }
}
