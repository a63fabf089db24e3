//! Shared memory.

use quorate_core::{DeleteEntry, FenceRef, Key, Payload, PutEntry, Refused, Seq, Timestamp, Version};
use serde::{Deserialize, Serialize};

use crate::json::{Json, Raw};
use crate::lock::Fence;
use crate::payload;
use crate::reading::{Reading, named};

/// An entry to write.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewEntry<'a> {
    /// In a commit. In a call of its own the key is part of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// The kind of the content, such as `plan`.
    #[serde(rename = "type", default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub entry_type: String,
    /// Any JSON, kept byte for byte. With a `contentType` other than JSON, a string: plain for `text/…`, otherwise base64.
    #[serde(borrow)]
    pub content: Json<'a>,
    /// The media type of the content, unless it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub content_type: Option<String>,
    /// Compare and set: the version that the entry must have now; 0 if it must not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Version>,
    /// The keys that the content was derived from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 256)))]
    pub depends_on: Vec<Key>,
    /// Refused if the lock has been granted to someone else since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
}

impl NewEntry<'_> {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no key is named, or the content is not what its content type promises.
    pub fn read(self, reading: &Reading<'_>, path: Option<Key>) -> Result<PutEntry, Refused> {
        Ok(PutEntry {
            key: named("key", path, self.key)?,
            entry_type: self.entry_type,
            content: reading.payload(Some(&self.content), self.content_type.as_deref())?,
            content_type: self.content_type,
            expect: self.expect,
            depends_on: self.depends_on,
            fence: self.fence.map(Into::into),
        })
    }

    /// An entry as a client writes it.
    ///
    /// # Errors
    /// `INVALID` if the content is not what its content type promises.
    pub fn new(put: &PutEntry) -> Result<NewEntry<'static>, Refused> {
        Ok(NewEntry {
            key: Some(put.key.clone()),
            entry_type: put.entry_type.clone(),
            content: payload::json_of(&put.content.bytes, put.content_type.as_deref())?,
            content_type: put.content_type.clone(),
            expect: put.expect,
            depends_on: put.depends_on.clone(),
            fence: put.fence.as_ref().map(Into::into),
        })
    }
}

/// An entry to delete. Its history stays.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EntryDeletion {
    /// In a commit. In a call of its own the key is part of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// Compare and set: the version that the entry must have now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Version>,
    /// Refused if the lock has been granted to someone else since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
}

impl EntryDeletion {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no key is named.
    pub fn read(self, path: Option<Key>) -> Result<DeleteEntry, Refused> {
        let fence: Option<FenceRef> = self.fence.map(Into::into);
        Ok(DeleteEntry { key: named("key", path, self.key)?, expect: self.expect, fence })
    }
}

impl From<&DeleteEntry> for EntryDeletion {
    fn from(delete: &DeleteEntry) -> Self {
        let fence = delete.fence.as_ref().map(Into::into);
        Self { key: Some(delete.key.clone()), expect: delete.expect, fence }
    }
}

/// A version of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its key.
    pub key: Key,
    /// Its version, starting at 1.
    pub version: Version,
    /// The kind of the content.
    #[serde(rename = "type")]
    pub entry_type: String,
    /// `null` if it was deleted or erased.
    pub content: Raw,
    /// The media type of the content, unless it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The principal that wrote it: `agent:ID`, `operator:NAME` and so on.
    pub author: String,
    /// When.
    pub at: Timestamp,
    /// The record of this version.
    pub seq: Seq,
    /// Whether this version is a deletion.
    pub deleted: bool,
    /// The versions that the content was derived from.
    pub depends_on: Vec<EntryVersion>,
    /// The version that a rollback restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restores: Option<Version>,
}

impl Entry {
    /// The content, byte for byte as it was written; `None` if this version is a deletion.
    ///
    /// # Errors
    /// `INVALID` if it is not what its content type promises.
    pub fn payload(&self) -> Result<Option<Payload>, Refused> {
        match self.deleted {
            true => Ok(None),
            false => payload::received(&self.content, self.content_type.as_deref()).map(Some),
        }
    }
}

/// A version of an entry, by its number.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EntryVersion {
    /// The key.
    pub key: Key,
    /// The version.
    pub version: Version,
}

/// An entry that was written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrittenEntry {
    /// Its key.
    pub key: Key,
    /// Its version.
    pub version: Option<Version>,
    /// The record.
    pub seq: Option<Seq>,
    /// When.
    pub at: Timestamp,
}

/// An entry that was deleted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeletedEntry {
    /// Its key.
    pub key: Key,
    /// The version of the deletion.
    pub version: Option<Version>,
    /// The record.
    pub seq: Option<Seq>,
}
