//! Entries of the shared memory.

use quorate_core::{DeleteEntry, FenceRef, Key, Payload, PutEntry, Refused, Seq, Timestamp, Version};
use serde::{Deserialize, Serialize};

use crate::json::{Json, RawJson};
use crate::lock::LockFence;
use crate::parse_context::{ParseContext, path_or_body};
use crate::payload;
#[cfg(feature = "schema")]
use crate::schema;

/// Entry to write.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewEntry<'a> {
    /// Entry key. Required in a commit; in other calls it is part of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// Kind of content, such as `plan`.
    #[serde(rename = "type", default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub entry_type: String,
    /// Any JSON, stored byte for byte. With a `contentType` other than JSON, a string: plain text for `text/…`,
    /// base64 otherwise.
    #[serde(borrow)]
    pub content: Json<'a>,
    /// Media type of the content. Omit it for JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub content_type: Option<String>,
    /// Expected current version for a compare-and-set; 0 means that the entry must not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Version>,
    /// Keys that the content was derived from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 256)))]
    pub depends_on: Vec<Key>,
    /// Fencing token of a lock. The call is refused if its grant has ended and the lock was granted again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<LockFence>,
}

impl NewEntry<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the key is missing, or the content does not match its content type.
    pub fn into_core(self, context: &ParseContext<'_>, path: Option<Key>) -> Result<PutEntry, Refused> {
        Ok(PutEntry {
            key: path_or_body("key", path, self.key)?,
            entry_type: self.entry_type,
            content: context.payload(Some(&self.content), self.content_type.as_deref())?,
            content_type: self.content_type,
            expect: self.expect,
            depends_on: self.depends_on,
            fence: self.fence.map(Into::into),
        })
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the content does not match its content type.
    pub fn new(put: &PutEntry) -> Result<NewEntry<'static>, Refused> {
        Ok(NewEntry {
            key: Some(put.key.clone()),
            entry_type: put.entry_type.clone(),
            content: payload::encode(&put.content.bytes, put.content_type.as_deref())?,
            content_type: put.content_type.clone(),
            expect: put.expect,
            depends_on: put.depends_on.clone(),
            fence: put.fence.as_ref().map(Into::into),
        })
    }
}

/// Entry to delete. Earlier versions remain readable.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EntryDeletion {
    /// Entry key. Required in a commit; in other calls it is part of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// Expected current version for a compare-and-set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Version>,
    /// Fencing token of a lock. The call is refused if its grant has ended and the lock was granted again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<LockFence>,
}

impl EntryDeletion {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the key is missing.
    pub fn into_core(self, path: Option<Key>) -> Result<DeleteEntry, Refused> {
        let fence: Option<FenceRef> = self.fence.map(Into::into);
        Ok(DeleteEntry { key: path_or_body("key", path, self.key)?, expect: self.expect, fence })
    }
}

impl From<&DeleteEntry> for EntryDeletion {
    fn from(delete: &DeleteEntry) -> Self {
        let fence = delete.fence.as_ref().map(Into::into);
        Self { key: Some(delete.key.clone()), expect: delete.expect, fence }
    }
}

/// Version of an entry in the shared memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Entry key.
    pub key: Key,
    /// Version number, starting at 1.
    pub version: Version,
    /// Kind of content.
    #[serde(rename = "type")]
    pub entry_type: String,
    /// Content of this version; `null` if it was deleted or erased.
    pub content: RawJson,
    /// Media type of the content. Omitted for JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Principal that wrote this version: `agent:ID`, `operator:NAME` and so on.
    pub author: String,
    /// Time at which this version was written.
    pub at: Timestamp,
    /// Sequence number of the record of this version.
    pub seq: Seq,
    /// Whether this version is a deletion.
    pub deleted: bool,
    /// Entry versions that the content was derived from.
    pub depends_on: Vec<EntryVersion>,
    /// Earlier version that a rollback restored in this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restores: Option<Version>,
}

impl Entry {
    /// Returns the content byte for byte as it was written; `None` if this version is a deletion.
    ///
    /// # Errors
    /// `INVALID` if it does not match its content type.
    pub fn payload(&self) -> Result<Option<Payload>, Refused> {
        match self.deleted {
            true => Ok(None),
            false => payload::decode_received(&self.content, self.content_type.as_deref()).map(Some),
        }
    }
}

/// Reference to a version of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EntryVersion {
    /// Entry key.
    pub key: Key,
    /// Version number.
    pub version: Version,
}

/// Result of writing an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrittenEntry {
    /// Entry key.
    pub key: Key,
    /// New version number.
    pub version: Option<Version>,
    /// Sequence number of the record.
    pub seq: Option<Seq>,
    /// Time of the write.
    pub at: Timestamp,
}

/// Result of deleting an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeletedEntry {
    /// Entry key.
    pub key: Key,
    /// Version number of the deletion.
    pub version: Option<Version>,
    /// Sequence number of the record.
    pub seq: Option<Seq>,
}

/// Version or as-of position of an entry.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EntryGetQuery {
    /// Version number. Cannot be combined with `at` or `time`.
    pub version: Option<u64>,
    /// Sequence number of a record, or a time: read the entry after it. Current entry by default.
    pub at: Option<String>,
    /// Read the entry at this time. Cannot be combined with `at`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Time>"))]
    pub time: Option<String>,
}

/// Filter and page of a list of entries.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EntryListQuery {
    /// Only entries whose key starts with this prefix.
    #[serde(default)]
    pub prefix: String,
    /// Only entries of this type.
    pub r#type: Option<String>,
    /// Only entries by this author: `agent:ID`, `operator:NAME` and so on. A name without a role is an agent.
    pub author: Option<String>,
    /// Maximum number of items in a page; 100 by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Limit>"))]
    pub limit: Option<usize>,
    /// Cursor of the previous page; omit it for the first page.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
}

/// Query of a write: it takes no parameters.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EntryPutQuery {}

/// Query of a deletion.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EntryDeleteQuery {
    /// Expected current version.
    pub expect: Option<u64>,
}
