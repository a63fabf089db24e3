//! Id types. Text is validated once, when it is parsed; internal code never uses bare strings as ids.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hidden_character::is_hidden_character;
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
    /// Number of a space, dense from 1; part of every row key.
    SpaceNo
);
number_id!(
    /// Sequence number of a record in the log of its space, dense from 1.
    Seq
);
number_id!(
    /// Number of a delivery in its space, dense from 1.
    DeliveryNo
);
number_id!(
    /// Number of an agent in its space, dense from 1. Removed agents keep theirs.
    AgentNo
);
number_id!(
    /// Lease token: greater than every earlier one of its space.
    LeaseToken
);
number_id!(
    /// Version of a memory entry or procedure.
    Version
);
number_id!(
    /// Generation of a space's history; increases only when the space is restored from a backup.
    Generation
);
number_id!(
    /// Epoch of an agent, increased by each registration. Commits with an older epoch are refused.
    Epoch
);
number_id!(
    /// Number of a session or procedure in its space, as a pause scope: the record that opened or started it, and an
    /// index within the record.
    ScopeNo
);
number_id!(
    /// Number of a pool in its space, dense from 1.
    PoolNo
);
number_id!(
    /// Number of a budget in its space, dense from 1.
    BudgetNo
);
number_id!(
    /// Id of a consumer: a waiting claim or a stream. In memory only.
    ConsumerId
);

number_id!(
    /// Fencing token of a lock: greater than every earlier one of that lock.
    Fence
);

/// Bits of a row key below the space number.
const SPACE_SHIFT: u32 = 47;

/// Builds a row key from the space number and a number that is dense within the space, so that rows are appended.
///
/// Numbers out of range are clamped to the maximum, which is never assigned: an invented number finds nothing and never
/// reaches another space.
#[must_use]
pub fn row_id(space: SpaceNo, number: u64) -> i64 {
    let last = (1 << SPACE_SHIFT) - 1;
    let spaces = (1 << (63 - SPACE_SHIFT)) - 1;
    ((space.0.min(spaces) << SPACE_SHIFT) | number.min(last)) as i64
}

/// Random identity of a space. The hash chain of its log starts from its digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceId(pub [u8; 16]);

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates the text.
            ///
            /// # Errors
            /// `INVALID` if it is empty, too long, or contains control characters.
            pub fn new(text: impl AsRef<str>) -> Result<Self, Refused> {
                let text = text.as_ref();
                check_text($kind, text, $max)?;
                Ok(Self(text.into()))
            }

            /// The text of the id.
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

/// Regular expression without control characters.
#[cfg(feature = "schema")]
const PRINTABLE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";

text_id!(
    /// Name of a space (tenant).
    SpaceName,
    "space name",
    ID_BYTES_MAX
);
text_id!(
    /// Client-chosen id of a message: unique in the space, and resolvable forever.
    ClientId,
    "message id",
    ID_BYTES_MAX
);
text_id!(
    /// Idempotency key: a commit repeated under the same key is not applied again.
    IdempotencyKey,
    "idempotency key",
    ID_BYTES_MAX
);
text_id!(
    /// Key of a memory entry. Prefixes group entries: `plan/`, `plan/budget`.
    Key,
    "memory key",
    KEY_BYTES_MAX
);
text_id!(
    /// Id of an agent.
    AgentId,
    "agent id",
    ID_BYTES_MAX
);

text_id!(
    /// Name of a lock.
    LockName,
    "lock name",
    KEY_BYTES_MAX
);
text_id!(
    /// Id of a budget.
    BudgetId,
    "budget id",
    ID_BYTES_MAX
);

text_id!(
    /// Id of a session: chosen by the client, or generated as `ses_GENERATION-SEQ-N`.
    SessionId,
    "session id",
    ID_BYTES_MAX
);

text_id!(
    /// Name of a snapshot.
    SnapshotName,
    "snapshot name",
    ID_BYTES_MAX
);

impl ClientId {
    /// Whether it has the form of an id that the hub assigns: `msg_0-17-0`, or `eph_…` for an ephemeral message. Clients
    /// may not choose such an id: a lookup by it would find another message.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        self.0.parse::<MessageId>().is_ok() || self.0.starts_with("eph_")
    }
}

impl SessionId {
    pub(crate) fn generated(generation: Generation, seq: Seq, n: u64) -> Self {
        Self(format!("ses_{generation}-{seq}-{n}").into())
    }

    /// Whether it has the form of a generated id. Clients may not choose such an id.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        self.0.strip_prefix("ses_").and_then(numbers::<3>).is_some()
    }
}

text_id!(
    /// Id of a task: chosen by the client, or generated as `tsk_GENERATION-SEQ-N`. Unique in the space forever.
    TaskId,
    "task id",
    ID_BYTES_MAX
);

impl TaskId {
    /// Generates the id of a task from its record and its index within the record.
    #[must_use]
    pub fn generated(generation: Generation, seq: Seq, n: u32) -> Self {
        Self(format!("{TASK_PREFIX}{generation}-{seq}-{n}").into())
    }

    /// Whether it has the prefix of a generated id. Clients may not choose such an id.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        self.0.starts_with(TASK_PREFIX)
    }

    /// The id of the task with this item key.
    pub(crate) fn from_key(key: &crate::item::ItemKey) -> Self {
        Self(Arc::clone(&key.id))
    }

    /// The text as a shared string.
    #[must_use]
    pub fn to_shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

/// Prefix of generated task ids.
const TASK_PREFIX: &str = "tsk_";

text_id!(
    /// Id of a procedure: chosen by the client, or generated as `prc_GENERATION-SEQ-N`. Unique in the space forever.
    ProcedureId,
    "procedure id",
    ID_BYTES_MAX
);

impl ProcedureId {
    /// Generates the id of a procedure from its record and its index within the record.
    #[must_use]
    pub fn generated(generation: Generation, seq: Seq, n: u32) -> Self {
        Self(format!("{PROCEDURE_PREFIX}{generation}-{seq}-{n}").into())
    }

    /// Whether it has the form of a generated id. Clients may not choose such an id. That of a child, `prc_0-17-0:NAME`, is
    /// another form.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        self.0.strip_prefix(PROCEDURE_PREFIX).and_then(numbers::<3>).is_some()
    }
}

text_id!(
    /// Id of an approval: chosen by the client, or generated as `apr_GENERATION-SEQ-N`. Unique in the space forever.
    ApprovalId,
    "approval id",
    ID_BYTES_MAX
);

impl ApprovalId {
    /// Generates the id of an approval from its record and its index within the record.
    #[must_use]
    pub fn generated(generation: Generation, seq: Seq, n: u32) -> Self {
        Self(format!("{APPROVAL_PREFIX}{generation}-{seq}-{n}").into())
    }

    /// Whether it has the prefix of a generated id. Clients may not choose such an id.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        self.0.starts_with(APPROVAL_PREFIX)
    }
}

/// Prefix of generated approval ids.
const APPROVAL_PREFIX: &str = "apr_";

/// Prefix of generated procedure ids.
const PROCEDURE_PREFIX: &str = "prc_";

text_id!(
    /// Capability of an agent, as a short label.
    Capability,
    "capability",
    ID_BYTES_MAX
);

/// First character of an unresolved id. No valid id contains it.
const UNRESOLVED: char = '\0';

impl AgentId {
    /// Creates a placeholder for the id of an agent whose registration is not available. It equals no valid id.
    #[must_use]
    pub fn unresolved(number: AgentNo) -> Self {
        Self(format!("{UNRESOLVED}{number}").into())
    }

    /// Returns the agent number of a placeholder; `None` for the text of a valid id.
    #[must_use]
    pub fn unresolved_number(text: &str) -> Option<AgentNo> {
        text.strip_prefix(UNRESOLVED)?.parse().ok().map(AgentNo)
    }

    /// Validates the id of an agent to register. Destination syntax is reserved.
    ///
    /// # Errors
    /// `INVALID` for `*`, `topic:…`, `role:…` and `can:…`, and for texts that are not valid ids.
    pub fn for_registration(text: impl AsRef<str>) -> Result<Self, Refused> {
        let text = text.as_ref();
        if text == "*" || ["topic:", "role:", "can:"].iter().any(|prefix| text.starts_with(prefix)) {
            return Err(Refused::new(
                Code::Invalid,
                format!("invalid agent id {text:?}: reserved for destinations"),
            )
            .hint("choose an id that is not `*` and does not start with topic:, role: or can:"));
        }
        Self::new(text)
    }
}

fn check_text(kind: &str, text: &str, max: usize) -> Result<(), Refused> {
    if text.is_empty() {
        return Err(
            Refused::new(Code::Invalid, format!("the {kind} is empty")).hint(format!("use 1 to {max} bytes"))
        );
    }
    if text.len() > max {
        return Err(Refused::new(Code::Invalid, format!("the {kind} is too long: {} bytes", text.len()))
            .limit(max as u64)
            .hint(format!("use at most {max} bytes")));
    }
    if let Some(at) = text.find(char::is_control) {
        return Err(Refused::new(
            Code::Invalid,
            format!("the {kind} contains a control character at byte {at}"),
        )
        .hint("use printable characters only"));
    }
    if !text.is_ascii()
        && let Some(at) = text.find(is_hidden_character)
    {
        return Err(Refused::new(
            Code::Invalid,
            format!("the {kind} contains an invisible or text-direction character at byte {at}"),
        )
        .hint("use visible characters only: ids that look the same must be the same"));
    }
    Ok(())
}

/// The start of a generation: the history since a restore from a backup. Ids contain the generation, so that they cannot
/// be confused with ids of the history that the restore discarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GenerationStart {
    /// Number of the generation.
    pub generation: Generation,
    /// Its first record.
    pub first_seq: Seq,
    /// Its first delivery.
    pub first_delivery: DeliveryNo,
}

/// All generations of a space, oldest first; never empty in an existing space.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Generations(pub Vec<GenerationStart>);

impl Generations {
    /// Returns the generation of a record.
    #[must_use]
    pub fn at_seq(&self, seq: Seq) -> Generation {
        self.0
            .iter()
            .rev()
            .find(|start| start.first_seq <= seq)
            .map_or(Generation(0), |start| start.generation)
    }

    /// Returns the generation of a delivery.
    #[must_use]
    pub fn at_delivery(&self, number: DeliveryNo) -> Generation {
        self.0
            .iter()
            .rev()
            .find(|start| start.first_delivery <= number)
            .map_or(Generation(0), |start| start.generation)
    }

    /// Returns the full id of a message.
    #[must_use]
    pub fn message_id(&self, seq: Seq, n: u32) -> MessageId {
        MessageId { generation: self.at_seq(seq), seq, n }
    }

    /// Returns the full id of a delivery.
    #[must_use]
    pub fn delivery_id(&self, number: DeliveryNo) -> DeliveryId {
        DeliveryId { generation: self.at_delivery(number), number }
    }

    /// Returns the number of a delivery, if the id belongs to this history and not to one discarded by a restore.
    ///
    /// # Errors
    /// `NOT_FOUND` if the generation of the id does not match.
    pub fn resolve(&self, id: DeliveryId) -> Result<DeliveryNo, Refused> {
        if self.at_delivery(id.number) == id.generation {
            return Ok(id.number);
        }
        Err(Refused::new(Code::NotFound, format!("there is no delivery {id}"))
            .hint("the id may be from before a restore from a backup; claim again"))
    }
}

/// Id of a message: `msg_GENERATION-SEQ-N`. It locates the record without an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageId {
    /// Generation of the record.
    pub generation: Generation,
    /// The record that contains the message.
    pub seq: Seq,
    /// Index of the message within the record, starting at 0.
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
            Refused::new(Code::Invalid, format!("invalid message id {text:?}: expected the form msg_0-17-0"))
                .hint("use the id that the hub returned when the message was sent")
        })
    }
}

/// Id of a delivery: `dlv_GENERATION-NUMBER`. Redelivery keeps it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeliveryId {
    /// Generation in which it was created.
    pub generation: Generation,
    /// Number within the space.
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
            Refused::new(Code::Invalid, format!("invalid delivery id {text:?}: expected the form dlv_0-17"))
                .hint("use the id that the claim returned")
        })
    }
}

/// Id of an access token: `tok_GENERATION-SEQ-N`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TokenId {
    /// Generation of the record.
    pub generation: Generation,
    /// The record that created it.
    pub seq: Seq,
    /// Index of the token within the record, starting at 0.
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
        // Omits the text, because the caller may have passed the secret by mistake.
        id.ok_or_else(|| {
            Refused::new(Code::Invalid, "invalid token id: expected the form tok_0-17-0")
                .hint("use the id from the list of tokens, not the secret")
        })
    }
}

/// Parses decimal numbers separated by dashes, accepting only the canonical form.
fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let mut parsed = [0; N];
    let mut parts = text.split('-');
    for slot in &mut parsed {
        let part = parts.next()?;
        let is_canonical =
            part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
        *slot = part.parse().ok().filter(|number| is_canonical && *number < 1 << SPACE_SHIFT)?;
    }
    parts.next().is_none().then_some(parsed)
}

#[cfg(test)]
mod tests;
