//! Shared memory in JSON.

use crate::wire::Raw;
use quorate_core::{DeleteEntry, Fence, FenceRef, Key, LockName, PutEntry, Refused, Version};
use quorate_engine::Entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Sealing, shown, time};
use crate::api::words;

/// An entry as a caller writes it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NewEntry")]
pub(crate) struct EntryIn<'a> {
    /// In a commit; in a call of its own it stands in the path.
    #[schemars(with = "Option<words::LongId>")]
    key: Option<String>,
    /// What kind of thing it holds, as a word.
    #[serde(rename = "type", default)]
    #[schemars(length(max = 128))]
    entry_type: String,
    /// Any JSON, kept byte for byte; with a `contentType`, a text in base64.
    #[serde(borrow)]
    #[schemars(with = "words::Any")]
    content: &'a RawValue,
    /// What the bytes are, if they are no JSON.
    #[schemars(length(max = 128))]
    content_type: Option<String>,
    /// The version it must have now; 0: it must not exist; nothing: whatever it is.
    expect: Option<u64>,
    /// The keys it was built on.
    #[serde(default)]
    #[schemars(length(max = 256), with = "Vec<words::LongId>")]
    depends_on: Vec<String>,
    /// Refused if somebody else was given the lock since.
    fence: Option<FenceIn>,
}

/// The lock under which something is written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Fence")]
pub(crate) struct FenceIn {
    #[schemars(with = "words::LongId")]
    lock: String,
    fence: u64,
}

impl FenceIn {
    pub(crate) fn read(self) -> Result<FenceRef, Refused> {
        Ok(FenceRef { lock: LockName::new(self.lock)?, fence: Fence(self.fence) })
    }
}

impl EntryIn<'_> {
    pub(crate) fn read(self, sealing: &Sealing<'_>, key: Option<Key>) -> Result<PutEntry, Refused> {
        Ok(PutEntry {
            key: named(key, self.key)?,
            entry_type: self.entry_type,
            content: sealing.payload(Some(self.content), self.content_type.as_deref())?,
            content_type: self.content_type,
            expect: self.expect.map(Version),
            depends_on: self.depends_on.iter().map(Key::new).collect::<Result<_, _>>()?,
            fence: self.fence.map(FenceIn::read).transpose()?,
        })
    }
}

/// The end of an entry.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "EntryEnd")]
pub(crate) struct DeleteIn {
    #[schemars(with = "Option<words::LongId>")]
    key: Option<String>,
    /// The version it must have now.
    expect: Option<u64>,
    fence: Option<FenceIn>,
}

impl DeleteIn {
    pub(crate) fn read(self, key: Option<Key>) -> Result<DeleteEntry, Refused> {
        let fence = self.fence.map(FenceIn::read).transpose()?;
        Ok(DeleteEntry { key: named(key, self.key)?, expect: self.expect.map(Version), fence })
    }
}

fn named(path: Option<Key>, body: Option<String>) -> Result<Key, Refused> {
    match (path, body) {
        (Some(path), None) => Ok(path),
        (_, body) => Key::new(body.unwrap_or_default()),
    }
}

/// An entry as it is shown.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Entry")]
pub(crate) struct EntryOut {
    key: String,
    version: u64,
    #[serde(rename = "type")]
    entry_type: String,
    /// `null` if it was deleted or erased.
    content: Raw,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    /// `agent:ID`, `operator:NAME` and so on.
    author: String,
    #[schemars(with = "words::Time")]
    at: String,
    seq: u64,
    deleted: bool,
    depends_on: Vec<BuiltOnOut>,
    /// The version that it brought back.
    #[serde(skip_serializing_if = "Option::is_none")]
    restores: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EntryVersion")]
struct BuiltOnOut {
    key: String,
    version: u64,
}

impl EntryOut {
    pub(crate) fn new(entry: &Entry) -> Self {
        let version = &entry.version;
        let content = entry.content.as_ref();
        let built_on =
            |(key, version): &(Key, Version)| BuiltOnOut { key: key.to_string(), version: version.0 };
        Self {
            key: entry.key.to_string(),
            version: version.head.version.0,
            entry_type: version.entry_type.clone(),
            content: content
                .map_or_else(|| Raw::NULL, |content| shown(content, version.content_type.as_deref())),
            content_type: version.content_type.clone(),
            author: version.author.clone(),
            at: time::shown(version.at),
            seq: version.head.seq.0,
            deleted: content.is_none(),
            depends_on: version.depends_on.iter().map(built_on).collect(),
            restores: version.restores.map(|version| version.0),
        }
    }
}
