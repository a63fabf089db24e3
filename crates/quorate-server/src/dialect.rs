//! Dialects: message formats of existing agent frameworks, converted at the edge. Pure: text in, message out, and
//! vice versa.
//!
//! Conversion is lossless. Dialect fields without a native counterpart are stored in the native message's `metadata`,
//! under the dialect's name. Native fields without a counterpart in the dialect are written to the `metadata` of the
//! dialect's message, under `quorate`. Every rendered message is parsed again before it is returned, and fields that
//! would differ are added there, so no field can be forgotten.

pub(crate) mod context_entry;
mod coscientist;
mod deliberation;
mod envelope;
mod field_reader;
pub(crate) mod merge;
mod metadata;
mod native;
mod native_extras;
mod orchestrator;
pub(crate) mod session_document;
pub(crate) mod shared_state;
#[cfg(test)]
mod tests;
mod writer;
pub(crate) mod yaml;

pub(crate) use envelope::{Envelope, NO_RECIPIENT};
pub(crate) use field_reader::{FieldError, FieldReader, field_path};
pub(crate) use writer::{ObjectWriter, to_raw_json};

use metadata::DialectMetadata;
use quorate_core::{AgentRole, Code, Destination, Refused};
use serde_json::value::RawValue;

/// A supported message format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    /// Findings, questions and agreement between analysts.
    Deliberation,
    /// Handoffs, broadcasts and queries between workflow phases.
    Orchestrator,
    /// A supervisor and its workers.
    Coscientist,
    /// The collaboration framework's envelope, which is also the native one.
    Native,
}

/// A parsed dialect message, before native extras are applied.
struct ParsedMessage<'a> {
    envelope: Envelope,
    /// Dialect fields without a native counterpart.
    dialect_fields: Vec<(String, Box<RawValue>)>,
    /// The message's metadata and its path.
    metadata: Option<&'a RawValue>,
    metadata_path: String,
}

impl Dialect {
    pub(crate) const ALL: [Self; 4] =
        [Self::Deliberation, Self::Orchestrator, Self::Coscientist, Self::Native];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Deliberation => "deliberation",
            Self::Orchestrator => "orchestrator",
            Self::Coscientist => "coscientist",
            Self::Native => "native",
        }
    }

    /// Returns the dialect with this name.
    pub(crate) fn find(name: &str) -> Result<Self, Refused> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == name).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|dialect| dialect.as_str()).collect();
            Refused::new(Code::NotFound, format!("unknown dialect {name:?}"))
                .hint(format!("use one of {}", all.join(", ")))
        })
    }

    /// Whether its messages can be sent and received as YAML as well.
    pub(crate) fn supports_yaml(self) -> bool {
        self == Self::Orchestrator
    }

    /// Returns the messages of a document: one, unless the dialect's example format wraps several.
    pub(crate) fn messages(
        self,
        path: &str,
        raw: &RawValue,
    ) -> Result<Vec<(String, Box<RawValue>)>, FieldError> {
        match self {
            Self::Orchestrator => orchestrator::unwrap_examples(path, raw),
            _ => Ok(vec![(path.to_owned(), raw.to_owned())]),
        }
    }

    /// Parses a message.
    pub(crate) fn parse(self, path: &str, raw: &RawValue) -> Result<Envelope, FieldError> {
        let ParsedMessage { mut envelope, dialect_fields, metadata, metadata_path } =
            self.parse_fields(path, raw)?;
        let (fields, rest) = metadata::split(self, &metadata_path, metadata)?;
        let native_metadata = match fields {
            Some(extras) => native_extras::apply_extras(
                FieldReader::parse(metadata::native_extras_path(&metadata_path), &extras)?,
                &mut envelope,
            )?,
            None => None,
        };
        envelope.message.metadata =
            metadata::join(self, &metadata_path, native_metadata, rest, dialect_fields)?;
        if envelope.message.to == NO_RECIPIENT
            && let Some(to) = self.default_recipient(&envelope)
        {
            envelope.message.to = to;
        }
        Ok(envelope)
    }

    /// Renders a message.
    ///
    /// # Errors
    /// When the rendered message cannot be parsed again. That is a bug in the dialect.
    pub(crate) fn render(self, envelope: &Envelope) -> Result<Box<RawValue>, FieldError> {
        let stored = DialectMetadata::of(self, envelope.message.metadata.as_deref());
        let bare = self.render_fields(envelope, &stored, None).to_raw();
        let extras = native_extras::native_extras(envelope, &self.parse_fields("", &bare)?.envelope);
        let rendered =
            self.render_fields(envelope, &stored, stored.dialect_metadata(&extras).as_deref()).to_raw();
        if stored.round_trips(self, &self.parse_fields("", &rendered)?.dialect_fields) {
            return Ok(rendered);
        }
        let extras =
            ObjectWriter::default().with(metadata::NATIVE_EXTRAS, extras.with("metadata", stored.original()));
        Ok(self.render_fields(envelope, &stored, Some(&extras.to_raw())).to_raw())
    }

    /// Returns the default recipient of a message that names none. A reply goes to the requester, which only the hub
    /// knows.
    fn default_recipient(self, envelope: &Envelope) -> Option<Destination> {
        match self {
            Self::Native => native::default_recipient(envelope),
            _ if envelope.message.in_reply_to.is_some() => None,
            _ => Some(Destination::Role(AgentRole::Coordinator)),
        }
    }

    fn parse_fields<'a>(self, path: &str, raw: &'a RawValue) -> Result<ParsedMessage<'a>, FieldError> {
        let fields = FieldReader::parse(path, raw)?;
        match self {
            Self::Deliberation => deliberation::parse(fields),
            Self::Orchestrator => orchestrator::parse(fields),
            Self::Coscientist => coscientist::parse(fields),
            Self::Native => native::parse(fields),
        }
    }

    fn render_fields(
        self,
        envelope: &Envelope,
        stored: &DialectMetadata,
        metadata: Option<&RawValue>,
    ) -> ObjectWriter {
        match self {
            Self::Deliberation => deliberation::render(envelope, stored, metadata),
            Self::Orchestrator => orchestrator::render(envelope, stored, metadata),
            Self::Coscientist => coscientist::render(envelope, stored, metadata),
            Self::Native => native::render(envelope, stored, metadata),
        }
    }
}
