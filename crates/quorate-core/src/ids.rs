//! A type for every id. Text is parsed and checked here, at the door; inside nothing is a bare string.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::{ID_BYTES_MAX, KEY_BYTES_MAX};
use crate::refused::{Code, Refused};
use crate::text_serde::{serde_text, text_schema};

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        text_schema!($name, { "type": "integer", "minimum": 0, "maximum": $crate::limits::NUMBER_MAX });

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// The number of a space, dense from 1; part of every row's key.
    SpaceNo
);
number_id!(
    /// The position of a record in the log of its space, dense from 1.
    Seq
);
number_id!(
    /// The number of a delivery in its space, dense from 1.
    DeliveryNo
);
number_id!(
    /// The number of an agent in its space, dense from 1. Removed agents keep theirs.
    AgentNo
);
number_id!(
    /// A lease token: greater than every earlier one of its space, for ever.
    Token
);
number_id!(
    /// The version of a memory entry.
    Version
);
number_id!(
    /// How often a space was restored from a backup, roughly; goes up only on restore.
    Generation
);
number_id!(
    /// The start of an agent. A commit that names an older one is refused.
    Epoch
);
number_id!(
    /// The number of a session in its space: the record that opened it, and which of that record.
    SessionNo
);
number_id!(
    /// The number of a pool in its space, dense from 1.
    PoolNo
);
number_id!(
    /// Somebody who waits for deliveries: a claim or a stream. Lives in memory only.
    ConsumerId
);

number_id!(
    /// The fence of a lock: greater than every earlier one of that lock, for ever.
    Fence
);

/// Bits of a row's key below the space number.
const SPACE_SHIFT: u32 = 47;

/// The key of a row: the space's number and a number that is dense within the space, so that rows are appended.
///
/// A number beyond the last one is taken for the last one, which is never given out: what a caller makes up is not found,
/// and never leads into another space.
#[must_use]
pub fn row_id(space: SpaceNo, number: u64) -> i64 {
    let last = (1 << SPACE_SHIFT) - 1;
    let spaces = (1 << (63 - SPACE_SHIFT)) - 1;
    ((space.0.min(spaces) << SPACE_SHIFT) | number.min(last)) as i64
}

/// The random identity of a space. Its digest is what the first record of the log is chained to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceId(pub [u8; 16]);

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text and makes an id of it.
            ///
            /// # Errors
            /// `INVALID` when it is empty, too long, or has control characters.
            pub fn new(text: impl AsRef<str>) -> Result<Self, Refused> {
                let text = text.as_ref();
                check_text($what, text, $max)?;
                Ok(Self(text.into()))
            }

            /// The text itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = Refused;
            fn from_str(text: &str) -> Result<Self, Refused> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text_serde::parse(deserializer)
            }
        }

        text_schema!($name, { "type": "string", "minLength": 1, "maxLength": $max, "pattern": PRINTABLE });
    };
}

/// No control characters.
#[cfg(feature = "schema")]
const PRINTABLE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";

text_id!(
    /// The name of a space: a tenant.
    SpaceName,
    "space name",
    ID_BYTES_MAX
);
text_id!(
    /// The id that a client gave its message: unique in the space, resolvable for ever.
    ClientId,
    "message id",
    ID_BYTES_MAX
);
text_id!(
    /// The key under which a client may repeat a commit without repeating its effect.
    IdempotencyKey,
    "idempotency key",
    ID_BYTES_MAX
);
text_id!(
    /// The key of a memory entry. Prefixes group entries: `plan/`, `plan/budget`.
    Key,
    "memory key",
    KEY_BYTES_MAX
);
text_id!(
    /// The id of an agent.
    AgentId,
    "agent id",
    ID_BYTES_MAX
);

text_id!(
    /// The name of a lock: of whatever it stands for.
    LockName,
    "lock name",
    KEY_BYTES_MAX
);
text_id!(
    /// The id of a budget.
    BudgetId,
    "budget id",
    ID_BYTES_MAX
);

text_id!(
    /// The id of a session: the client's, or `ses_GENERATION-SEQ-N` if the hub made it.
    SessionId,
    "session id",
    ID_BYTES_MAX
);

text_id!(
    /// The name of a snapshot.
    SnapshotName,
    "snapshot name",
    ID_BYTES_MAX
);

impl SessionId {
    pub(crate) fn made(generation: Generation, seq: Seq, n: u64) -> Self {
        Self(format!("ses_{generation}-{seq}-{n}").into())
    }

    /// Whether it looks like one that the hub made: then there is a session of that id, or never was.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.0.strip_prefix("ses_").and_then(numbers::<3>).is_some()
    }
}

text_id!(
    /// The id of a task: the client's, or `tsk_GENERATION-SEQ-N`. Unique in the space for ever.
    TaskId,
    "task id",
    ID_BYTES_MAX
);

impl TaskId {
    /// The id of a task whose maker gave it none: its record, and which task of that record it is.
    #[must_use]
    pub fn made_by_hub(generation: Generation, seq: Seq, n: u32) -> Self {
        Self(format!("{TASK_PREFIX}{generation}-{seq}-{n}").into())
    }

    /// Whether it looks like one that the hub makes. Clients may not choose such an id.
    #[must_use]
    pub fn is_made_by_hub(&self) -> bool {
        self.0.starts_with(TASK_PREFIX)
    }

    /// The id of the task that is kept under this key.
    pub(crate) fn of_key(key: &crate::item::ItemKey) -> Self {
        Self(Arc::clone(&key.id))
    }

    /// The text, shared.
    #[must_use]
    pub fn to_shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

/// How the id of a task begins that the hub made.
const TASK_PREFIX: &str = "tsk_";

text_id!(
    /// The id of a procedure: the client's, or `prc_GENERATION-SEQ-N`. Unique in the space for ever.
    ProcedureId,
    "procedure id",
    ID_BYTES_MAX
);

impl ProcedureId {
    /// The id of a procedure whose starter gave it none: its record, and which procedure of that record it is.
    #[must_use]
    pub fn made_by_hub(generation: Generation, seq: Seq, n: u32) -> Self {
        Self(format!("{PROCEDURE_PREFIX}{generation}-{seq}-{n}").into())
    }

    /// Whether it looks like one that the hub makes. Clients may not choose such an id.
    #[must_use]
    pub fn is_made_by_hub(&self) -> bool {
        self.0.starts_with(PROCEDURE_PREFIX)
    }
}

text_id!(
    /// The id of an approval: the client's, or `apr_GENERATION-SEQ-N`. Unique in the space for ever.
    ApprovalId,
    "approval id",
    ID_BYTES_MAX
);

impl ApprovalId {
    /// The id of an approval whose asker gave it none: its record, and which approval of that record it is.
    #[must_use]
    pub fn made_by_hub(generation: Generation, seq: Seq, n: u32) -> Self {
        Self(format!("{APPROVAL_PREFIX}{generation}-{seq}-{n}").into())
    }

    /// Whether it looks like one that the hub makes. Clients may not choose such an id.
    #[must_use]
    pub fn is_made_by_hub(&self) -> bool {
        self.0.starts_with(APPROVAL_PREFIX)
    }
}

/// How the id of an approval begins that the hub made.
const APPROVAL_PREFIX: &str = "apr_";

/// How the id of a procedure begins that the hub made.
const PROCEDURE_PREFIX: &str = "prc_";

text_id!(
    /// Something that agents can do, as a word.
    Capability,
    "capability",
    ID_BYTES_MAX
);

/// Begins the text of an unresolved id. No valid id contains this character.
const UNRESOLVED: char = '\0';

impl AgentId {
    /// A placeholder for the id of an agent whose registration is not at hand. It equals no valid id.
    #[must_use]
    pub fn unresolved(number: AgentNo) -> Self {
        Self(format!("{UNRESOLVED}{number}").into())
    }

    /// The number of the agent that a placeholder stands for; `None` for the text of a valid id.
    #[must_use]
    pub fn unresolved_number(text: &str) -> Option<AgentNo> {
        text.strip_prefix(UNRESOLVED)?.parse().ok().map(AgentNo)
    }

    /// Checks a name that an agent may bear. Words that destinations use are not free.
    ///
    /// # Errors
    /// `INVALID` for `*`, `topic:…`, `role:…` and `can:…`, and what no id may be.
    pub fn for_agent(text: impl AsRef<str>) -> Result<Self, Refused> {
        let text = text.as_ref();
        if text == "*" || ["topic:", "role:", "can:"].iter().any(|word| text.starts_with(word)) {
            return Err(Refused::new(
                Code::Invalid,
                format!("agent id {text:?} means a destination, not an agent"),
            )
            .hint("choose an id that is not `*` and does not start with topic:, role: or can:"));
        }
        Self::new(text)
    }
}

fn check_text(what: &str, text: &str, max: usize) -> Result<(), Refused> {
    if text.is_empty() {
        return Err(Refused::new(Code::Invalid, format!("the {what} is empty"))
            .hint(format!("give 1 to {max} bytes")));
    }
    if text.len() > max {
        return Err(Refused::new(Code::Invalid, format!("the {what} has {} bytes", text.len()))
            .limit(max as u64)
            .hint(format!("give at most {max} bytes")));
    }
    if let Some(at) = text.find(char::is_control) {
        return Err(Refused::new(Code::Invalid, format!("the {what} has a control character at byte {at}"))
            .hint("use printable characters"));
    }
    Ok(())
}

/// What a restore began: ids made since then bear its generation, so that they are not taken for lost ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Era {
    /// Its generation.
    pub generation: Generation,
    /// The first record of it.
    pub first_seq: Seq,
    /// The first delivery made in it.
    pub first_delivery: DeliveryNo,
}

/// All eras of a space, oldest first; never empty in a space that exists.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Eras(pub Vec<Era>);

impl Eras {
    /// The generation in which a record was written.
    #[must_use]
    pub fn of_seq(&self, seq: Seq) -> Generation {
        self.0.iter().rev().find(|era| era.first_seq <= seq).map_or(Generation(0), |era| era.generation)
    }

    /// The generation in which a delivery was made.
    #[must_use]
    pub fn of_delivery(&self, number: DeliveryNo) -> Generation {
        self.0
            .iter()
            .rev()
            .find(|era| era.first_delivery <= number)
            .map_or(Generation(0), |era| era.generation)
    }

    /// The full id of a message.
    #[must_use]
    pub fn message_id(&self, seq: Seq, n: u32) -> MessageId {
        MessageId { generation: self.of_seq(seq), seq, n }
    }

    /// The full id of a delivery.
    #[must_use]
    pub fn delivery_id(&self, number: DeliveryNo) -> DeliveryId {
        DeliveryId { generation: self.of_delivery(number), number }
    }

    /// The delivery's number, if the id is of this history and not of one that a restore undid.
    ///
    /// # Errors
    /// `NOT_FOUND` when the id was made in a generation that is not the one of that number here.
    pub fn resolve(&self, id: DeliveryId) -> Result<DeliveryNo, Refused> {
        if self.of_delivery(id.number) == id.generation {
            return Ok(id.number);
        }
        Err(Refused::new(Code::NotFound, format!("there is no delivery {id}"))
            .hint("it may be of a history that a restore from a backup replaced; claim again"))
    }
}

/// The id of a message: `msg_GENERATION-SEQ-N`. It leads to the record without an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageId {
    /// The generation of the record.
    pub generation: Generation,
    /// The record that holds the message.
    pub seq: Seq,
    /// Which message of that record, counted from 0.
    pub n: u32,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "msg_{}-{}-{}", self.generation, self.seq, self.n)
    }
}

serde_text!(MessageId, { "type": "string", "pattern": "^msg_[0-9]+-[0-9]+-[0-9]+$" });

impl FromStr for MessageId {
    type Err = Refused;
    fn from_str(text: &str) -> Result<Self, Refused> {
        let parts = text.strip_prefix("msg_").and_then(numbers::<3>);
        let id = parts.and_then(|[generation, seq, n]| {
            Some(Self { generation: Generation(generation), seq: Seq(seq), n: u32::try_from(n).ok()? })
        });
        id.ok_or_else(|| {
            Refused::new(Code::Invalid, format!("{text:?} is not a message id such as msg_0-17-0"))
                .hint("give it as the hub told it when the message was sent")
        })
    }
}

/// The id of a delivery: `dlv_GENERATION-NUMBER`. It stays the same over redelivery.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeliveryId {
    /// The generation in which it was made.
    pub generation: Generation,
    /// Its number.
    pub number: DeliveryNo,
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dlv_{}-{}", self.generation, self.number)
    }
}

serde_text!(DeliveryId, { "type": "string", "pattern": "^dlv_[0-9]+-[0-9]+$" });

impl FromStr for DeliveryId {
    type Err = Refused;
    fn from_str(text: &str) -> Result<Self, Refused> {
        let parts = text.strip_prefix("dlv_").and_then(numbers::<2>);
        let id = parts.map(|[generation, number]| Self {
            generation: Generation(generation),
            number: DeliveryNo(number),
        });
        id.ok_or_else(|| {
            Refused::new(Code::Invalid, format!("{text:?} is not a delivery id such as dlv_0-17"))
                .hint("give it as the claim told it")
        })
    }
}

/// The id of a token: `tok_GENERATION-SEQ-N`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TokenId {
    /// The generation of the record.
    pub generation: Generation,
    /// The record that made it.
    pub seq: Seq,
    /// Which token of that record, counted from 0.
    pub n: u32,
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tok_{}-{}-{}", self.generation, self.seq, self.n)
    }
}

serde_text!(TokenId, { "type": "string", "pattern": "^tok_[0-9]+-[0-9]+-[0-9]+$" });

impl FromStr for TokenId {
    type Err = Refused;
    fn from_str(text: &str) -> Result<Self, Refused> {
        let parts = text.strip_prefix("tok_").and_then(numbers::<3>);
        let id = parts.and_then(|[generation, seq, n]| {
            Some(Self { generation: Generation(generation), seq: Seq(seq), n: u32::try_from(n).ok()? })
        });
        // Without the text: somebody may have put the secret there.
        id.ok_or_else(|| {
            Refused::new(Code::Invalid, "that is not the id of a token such as tok_0-17-0")
                .hint("give the id that the list of tokens shows, not the secret")
        })
    }
}

/// Decimal numbers between dashes, in the one way in which we print them.
fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let mut found = [0; N];
    let mut parts = text.split('-');
    for slot in &mut found {
        let part = parts.next()?;
        let plain = part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
        *slot = part.parse().ok().filter(|number| plain && *number < 1 << SPACE_SHIFT)?;
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests;
