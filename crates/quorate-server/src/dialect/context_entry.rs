//! The co-scientist's context entry: `entry_id, agent_id, entry_type, content, created_at, updated_at, version,
//! dependencies`, and `updated_by`, because several agents may write one entry.

use quorate_core::{AgentId, Key};
use quorate_engine::StoredEntry;
use serde_json::value::RawValue;

use super::field_reader::{FieldError, FieldReader};
use super::writer::ObjectWriter;
use crate::wire::{self, time};

/// An entry as submitted.
pub(crate) struct SubmittedEntry {
    /// Stated author of the first version.
    pub(crate) agent: Option<AgentId>,
    pub(crate) entry_type: String,
    pub(crate) content: Box<RawValue>,
    /// Requested version; `None` for the next one.
    pub(crate) version: Option<u64>,
    pub(crate) depends_on: Vec<Key>,
}

impl SubmittedEntry {
    /// Parses the entry with this key. Timestamps are set by the hub; submitted ones are only validated.
    pub(crate) fn parse(key: &Key, raw: &RawValue) -> Result<Self, FieldError> {
        let mut fields = FieldReader::parse("", raw)?;
        if let Some(other) = fields.text("entry_id")?.filter(|id| id != key.as_str()) {
            return Err(FieldError::new("entry_id", format!("{other:?} does not match the key in the path")));
        }
        let agent = fields.agent("agent_id")?;
        fields.text("updated_by")?;
        let entry_type = fields.text("entry_type")?.unwrap_or_default();
        let content = fields.raw("content").ok_or_else(|| fields.missing("content"))?.to_owned();
        fields.time("created_at")?;
        fields.time("updated_at")?;
        let version = fields.integer("version")?;
        if version == Some(0) {
            return Err(FieldError::new("version", "0 is not a valid version").hint("versions start at 1"));
        }
        let keys = fields.text_list("dependencies")?.unwrap_or_default().into_iter().enumerate();
        let keys = keys.map(|(index, key)| {
            Key::new(key).map_err(|refused| FieldError::new(format!("dependencies[{index}]"), refused.detail))
        });
        let depends_on = keys.collect::<Result<_, _>>()?;
        fields.finish("put additional fields into content")?;
        Ok(Self { agent, entry_type, content, version, depends_on })
    }
}

/// Renders an entry and its first version in the dialect's format.
pub(crate) fn render(entry: &StoredEntry, first: &StoredEntry) -> ObjectWriter {
    let version = &entry.version;
    let content = { entry.content.as_ref() }.map_or_else(
        || RawValue::NULL.to_owned(),
        |content| wire::render(content, version.content_type.as_deref()).to_raw_value(),
    );
    let dependencies: Vec<&str> = version.depends_on.iter().map(|(key, _)| key.as_str()).collect();
    ObjectWriter::default()
        .with("entry_id", entry.key.as_str())
        .with("agent_id", author(first))
        .with("updated_by", author(entry))
        .with("entry_type", &version.entry_type)
        .with("content", content)
        .with("created_at", time::format(first.version.at))
        .with("updated_at", time::format(version.at))
        .with("version", version.head.version.0)
        .with("dependencies", dependencies)
}

/// Returns the author of a version: an agent id, or a principal that is no agent.
pub(crate) fn author(entry: &StoredEntry) -> &str {
    let author = &entry.version.author;
    author.strip_prefix("agent:").unwrap_or(author)
}
