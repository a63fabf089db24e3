//! Dialects: message formats of existing agent frameworks, converted at the edge. Pure: text in, message out, and
//! vice versa.
//!
//! Conversion is lossless. Dialect fields without a native counterpart are stored in the native message's `metadata`,
//! under the dialect's name. Native fields without a counterpart in the dialect are written to the `metadata` of the
//! dialect's message, under `quorate`. Every rendered message is parsed again before it is returned, and fields that
//! would differ are added there, so no field can be forgotten.

mod beyond;
mod coscientist;
mod deliberation;
pub(crate) mod entry;
mod kept;
mod letter;
pub(crate) mod merge;
mod native;
mod orchestrator;
mod said;
mod shape;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod yaml;

pub(crate) use letter::{Letter, NOBODY};
pub(crate) use said::{Said, Wrong, under};
pub(crate) use shape::{Shape, raw_of};

use kept::Kept;
use quorate_core::{Code, Destination, Refused, Role};
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
struct Heard<'a> {
    envelope: Letter,
    /// Dialect fields without a native counterpart.
    own: Vec<(String, Box<RawValue>)>,
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
    pub(crate) fn speaks_yaml(self) -> bool {
        self == Self::Orchestrator
    }

    /// Returns the messages of a document: one, unless the dialect's example format wraps several.
    pub(crate) fn messages(self, path: &str, raw: &RawValue) -> Result<Vec<(String, Box<RawValue>)>, Wrong> {
        match self {
            Self::Orchestrator => orchestrator::unwrapped(path, raw),
            _ => Ok(vec![(path.to_owned(), raw.to_owned())]),
        }
    }

    /// Parses a message.
    pub(crate) fn read(self, path: &str, raw: &RawValue) -> Result<Letter, Wrong> {
        let Heard { mut envelope, own, metadata, metadata_path } = self.hear(path, raw)?;
        let (fields, rest) = kept::parted(self, &metadata_path, metadata)?;
        let whole = match fields {
            Some(extras) => {
                beyond::apply(Said::read(kept::beyond_path(&metadata_path), &extras)?, &mut envelope)?
            }
            None => None,
        };
        envelope.message.metadata = kept::joined(self, &metadata_path, whole, rest, own)?;
        if envelope.message.to == NOBODY
            && let Some(to) = self.usual_recipient(&envelope)
        {
            envelope.message.to = to;
        }
        Ok(envelope)
    }

    /// Renders a message.
    ///
    /// # Errors
    /// When the rendered message cannot be parsed again. That is a bug in the dialect.
    pub(crate) fn write(self, envelope: &Letter) -> Result<Box<RawValue>, Wrong> {
        let stored = Kept::of(self, envelope.message.metadata.as_deref());
        let bare = self.tell(envelope, &stored, None).to_raw();
        let extras = beyond::between(envelope, &self.hear("", &bare)?.envelope);
        let written = self.tell(envelope, &stored, stored.passed_on(&extras).as_deref()).to_raw();
        if stored.is_rebuilt_from(self, &self.hear("", &written)?.own) {
            return Ok(written);
        }
        let extras = Shape::default().with(kept::BEYOND, extras.with("metadata", stored.whole()));
        Ok(self.tell(envelope, &stored, Some(&extras.to_raw())).to_raw())
    }

    /// Returns the default recipient of a message that names none. A reply goes to the requester, which only the hub
    /// knows.
    fn usual_recipient(self, envelope: &Letter) -> Option<Destination> {
        match self {
            Self::Native => native::usual_recipient(envelope),
            _ if envelope.message.in_reply_to.is_some() => None,
            _ => Some(Destination::Role(Role::Coordinator)),
        }
    }

    fn hear<'a>(self, path: &str, raw: &'a RawValue) -> Result<Heard<'a>, Wrong> {
        let fields = Said::read(path, raw)?;
        match self {
            Self::Deliberation => deliberation::hear(fields),
            Self::Orchestrator => orchestrator::hear(fields),
            Self::Coscientist => coscientist::hear(fields),
            Self::Native => native::hear(fields),
        }
    }

    fn tell(self, envelope: &Letter, stored: &Kept, metadata: Option<&RawValue>) -> Shape {
        match self {
            Self::Deliberation => deliberation::tell(envelope, stored, metadata),
            Self::Orchestrator => orchestrator::tell(envelope, stored, metadata),
            Self::Coscientist => coscientist::tell(envelope, stored, metadata),
            Self::Native => native::tell(envelope, stored, metadata),
        }
    }
}
