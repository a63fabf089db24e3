//! Dialects: the message shapes that agents were built for, accepted and produced at the edge. Pure: text in, a message
//! out, and the other way round.
//!
//! Nothing is lost on the way. What a dialect says and the native message has no field for is kept in the native
//! message's `metadata`, under the dialect's name. What the native message says and a dialect has no field for goes into
//! the `metadata` of the dialect's message, under `quorate`. A written message is read again before it is handed out, and
//! whatever would come back differently is added there: so it cannot be forgotten.

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

/// A message shape that agents speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    /// Analysts who find, ask, agree and disagree.
    Deliberation,
    /// Phases of a workflow that hand over, broadcast and query.
    Orchestrator,
    /// A supervisor and its workers.
    Coscientist,
    /// The collaboration framework's envelope, which is also ours.
    Native,
}

/// What a dialect heard, before what it has no field for is added.
struct Heard<'a> {
    letter: Letter,
    /// What the native message has no field for.
    own: Vec<(String, Box<RawValue>)>,
    /// The metadata and where it stood.
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

    /// The dialect of this name.
    pub(crate) fn find(name: &str) -> Result<Self, Refused> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == name).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|dialect| dialect.as_str()).collect();
            Refused::new(Code::NotFound, format!("there is no dialect {name:?}"))
                .hint(format!("the dialects are {}", all.join(", ")))
        })
    }

    /// Whether its messages may come and go as YAML, too.
    pub(crate) fn speaks_yaml(self) -> bool {
        self == Self::Orchestrator
    }

    /// The messages that one document holds: one, unless the dialect's own way of writing examples wraps several.
    pub(crate) fn messages(self, path: &str, raw: &RawValue) -> Result<Vec<(String, Box<RawValue>)>, Wrong> {
        match self {
            Self::Orchestrator => orchestrator::unwrapped(path, raw),
            _ => Ok(vec![(path.to_owned(), raw.to_owned())]),
        }
    }

    /// Reads a message.
    pub(crate) fn read(self, path: &str, raw: &RawValue) -> Result<Letter, Wrong> {
        let Heard { mut letter, own, metadata, metadata_path } = self.hear(path, raw)?;
        let (said, rest) = kept::parted(self, &metadata_path, metadata)?;
        let whole = match said {
            Some(beyond) => {
                beyond::apply(Said::read(kept::beyond_path(&metadata_path), &beyond)?, &mut letter)?
            }
            None => None,
        };
        letter.message.metadata = kept::joined(self, &metadata_path, whole, rest, own)?;
        if letter.message.to == NOBODY
            && let Some(to) = self.usual_recipient(&letter)
        {
            letter.message.to = to;
        }
        Ok(letter)
    }

    /// Writes a message.
    ///
    /// # Errors
    /// When the dialect would not understand its own words. That is a fault of ours.
    pub(crate) fn write(self, letter: &Letter) -> Result<Box<RawValue>, Wrong> {
        let kept = Kept::of(self, letter.message.metadata.as_deref());
        let plain = self.tell(letter, &kept, None).to_raw();
        let beyond = beyond::between(letter, &self.hear("", &plain)?.letter);
        let written = self.tell(letter, &kept, kept.passed_on(&beyond).as_deref()).to_raw();
        if kept.is_rebuilt_from(self, &self.hear("", &written)?.own) {
            return Ok(written);
        }
        let beyond = Shape::default().with(kept::BEYOND, beyond.with("metadata", kept.whole()));
        Ok(self.tell(letter, &kept, Some(&beyond.to_raw())).to_raw())
    }

    /// Where a message goes that names nobody. An answer goes to whoever asked, which only the hub knows.
    fn usual_recipient(self, letter: &Letter) -> Option<Destination> {
        match self {
            Self::Native => native::usual_recipient(letter),
            _ if letter.message.in_reply_to.is_some() => None,
            _ => Some(Destination::Role(Role::Coordinator)),
        }
    }

    fn hear<'a>(self, path: &str, raw: &'a RawValue) -> Result<Heard<'a>, Wrong> {
        let said = Said::read(path, raw)?;
        match self {
            Self::Deliberation => deliberation::hear(said),
            Self::Orchestrator => orchestrator::hear(said),
            Self::Coscientist => coscientist::hear(said),
            Self::Native => native::hear(said),
        }
    }

    fn tell(self, letter: &Letter, kept: &Kept, metadata: Option<&RawValue>) -> Shape {
        match self {
            Self::Deliberation => deliberation::tell(letter, kept, metadata),
            Self::Orchestrator => orchestrator::tell(letter, kept, metadata),
            Self::Coscientist => coscientist::tell(letter, kept, metadata),
            Self::Native => native::tell(letter, kept, metadata),
        }
    }
}
