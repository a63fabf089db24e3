//! Shared memory.

use quorate::Error;
use quorate::link::Entry;
use quorate_core::{EntryHead, EntryVersion, FenceRef, Generation, Key, PutEntry, Seq, Version};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{payload, raw, time_in};

/// A write on its way out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PutOut {
    op: &'static str,
    key: String,
    #[serde(rename = "type")]
    entry_type: String,
    content: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expect: Option<u64>,
    depends_on: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<FenceOut>,
}

#[derive(Serialize)]
pub(crate) struct FenceOut {
    lock: String,
    fence: u64,
}

impl FenceOut {
    pub(crate) fn new(fence: &FenceRef) -> Self {
        Self { lock: fence.lock.to_string(), fence: fence.fence.0 }
    }
}

impl PutOut {
    pub(crate) fn new(put: &PutEntry) -> Result<Self, Error> {
        Ok(Self {
            op: "put",
            key: put.key.to_string(),
            entry_type: put.entry_type.clone(),
            content: raw(&put.content.bytes, put.content_type.as_deref())?,
            content_type: put.content_type.clone(),
            expect: put.expect.map(|version| version.0),
            depends_on: put.depends_on.iter().map(ToString::to_string).collect(),
            fence: put.fence.as_ref().map(FenceOut::new),
        })
    }
}

/// An entry as it is shown.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EntryIn<'a> {
    key: String,
    version: u64,
    #[serde(rename = "type")]
    entry_type: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    content_type: Option<String>,
    author: String,
    at: String,
    seq: u64,
    deleted: bool,
    depends_on: Vec<BuiltOnIn>,
    restores: Option<u64>,
}

#[derive(Deserialize)]
struct BuiltOnIn {
    key: String,
    version: u64,
}

/// Entries as a list shows them.
#[derive(Deserialize)]
pub(crate) struct EntriesIn<'a> {
    #[serde(borrow, alias = "versions")]
    pub(crate) entries: Vec<EntryIn<'a>>,
    /// Where the list goes on, if it does.
    pub(crate) cursor: Option<String>,
}

impl EntryIn<'_> {
    pub(crate) fn read(self) -> Result<Entry, Error> {
        let content = match self.deleted {
            true => None,
            false => Some(payload(self.content, self.content_type.as_deref())?),
        };
        let built_on = self.depends_on.into_iter();
        let built_on = built_on.map(|one| Ok::<_, Error>((Key::new(one.key)?, Version(one.version))));
        let version = EntryVersion {
            // Generations are the hub's own business; who reads over the network does not learn them.
            head: EntryHead {
                version: Version(self.version),
                generation: Generation(0),
                seq: Seq(self.seq),
                deleted: self.deleted,
            },
            at: time_in(&self.at)?,
            author: self.author,
            entry_type: self.entry_type,
            content_type: self.content_type,
            place: None,
            depends_on: built_on.collect::<Result<_, _>>()?,
            restores: self.restores.map(Version),
        };
        Ok(Entry { key: Key::new(self.key)?, version, content })
    }
}
