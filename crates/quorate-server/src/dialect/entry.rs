//! The co-scientist's context entry: `entry_id, agent_id, entry_type, content, created_at, updated_at, version,
//! dependencies`.

use quorate_core::{AgentId, Key, Timestamp};
use quorate_engine::Entry;
use serde_json::value::RawValue;

use super::said::{Said, Wrong};
use super::shape::Shape;
use crate::wire::{self, time};

/// An entry as somebody writes it.
pub(crate) struct EntrySaid {
    /// Whose it is said to be.
    pub(crate) agent: Option<AgentId>,
    pub(crate) entry_type: String,
    pub(crate) content: Box<RawValue>,
    /// The version that it is to have; `None` is the next one, whichever that is.
    pub(crate) version: Option<u64>,
    pub(crate) depends_on: Vec<Key>,
}

impl EntrySaid {
    /// Reads the entry with this key. The times are the hub's: whatever stands there only has to be a time.
    pub(crate) fn read(key: &Key, raw: &RawValue) -> Result<Self, Wrong> {
        let mut said = Said::read("", raw)?;
        if let Some(other) = said.text("entry_id")?.filter(|id| id != key.as_str()) {
            return Err(Wrong::new("entry_id", format!("{other:?} is not the key of this call")));
        }
        let agent = said.agent("agent_id")?;
        let entry_type = said.text("entry_type")?.unwrap_or_default();
        let content = said.raw("content").ok_or_else(|| said.missing("content"))?.to_owned();
        said.time("created_at")?;
        said.time("updated_at")?;
        let version = said.whole("version")?;
        if version == Some(0) {
            return Err(Wrong::new("version", "0 is no version").hint("versions begin with 1"));
        }
        let keys = said.texts("dependencies")?.unwrap_or_default().into_iter().enumerate();
        let keys = keys.map(|(at, key)| {
            Key::new(key).map_err(|refused| Wrong::new(format!("dependencies[{at}]"), refused.detail))
        });
        let depends_on = keys.collect::<Result<_, _>>()?;
        said.end("put it into content")?;
        Ok(Self { agent, entry_type, content, version, depends_on })
    }
}

/// An entry in the dialect's shape.
pub(crate) fn written(entry: &Entry, created_at: Timestamp) -> Shape {
    let version = &entry.version;
    let content = { entry.content.as_ref() }.map_or_else(
        || RawValue::NULL.to_owned(),
        |content| wire::shown(content, version.content_type.as_deref()).parsed(),
    );
    let author = version.author.strip_prefix("agent:").unwrap_or(&version.author);
    let dependencies: Vec<&str> = version.depends_on.iter().map(|(key, _)| key.as_str()).collect();
    Shape::default()
        .with("entry_id", entry.key.as_str())
        .with("agent_id", author)
        .with("entry_type", &version.entry_type)
        .with("content", content)
        .with("created_at", time::shown(created_at))
        .with("updated_at", time::shown(version.at))
        .with("version", version.head.version.0)
        .with("dependencies", dependencies)
}
