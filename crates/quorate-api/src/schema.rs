//! JSON Schemas of plain values that have no type of their own. They describe; what is refused is decided where a value is
//! parsed.

use std::borrow::Cow;

use quorate_core::limits::{ID_BYTES_MAX, KEY_BYTES_MAX, LEASE_MS_MAX, LEASE_MS_MIN, NUMBER_MAX};
use quorate_core::{ApprovalState, ProcedureStatus, Status, TaskStatus, Verb};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// No control characters, and not empty.
const PRINTABLE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";

macro_rules! word {
    ($(#[$doc:meta])* $name:ident => $schema:expr) => {
        $(#[$doc])*
        pub struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

fn id(max: usize) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": max, "pattern": PRINTABLE})
}

fn made(pattern: &str) -> Schema {
    json_schema!({"type": "string", "pattern": pattern})
}

fn one_of(words: &[&str]) -> Schema {
    json_schema!({"type": "string", "enum": words})
}

word!(
    /// The id of an agent, a task, a session, a space; at most 128 bytes.
    Id => id(ID_BYTES_MAX)
);
word!(
    /// A key of the shared memory, the name of a lock; at most 512 bytes.
    LongId => id(KEY_BYTES_MAX)
);
word!(
    /// The name of a token: it stands in the log.
    TokenWord => json_schema!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._+@-]{0,127}$"})
);
word!(
    /// A time: RFC 3339, shown with milliseconds.
    Time => json_schema!({"type": "string", "format": "date-time"})
);
word!(
    /// Made by the hub for each delivery.
    DeliveryId => made("^dlv_[0-9]+-[0-9]+$")
);
word!(
    /// Made by the hub for each message.
    MessageId => made("^msg_[0-9]+-[0-9]+-[0-9]+$")
);
word!(
    /// Made by the hub for each token.
    TokenId => made("^tok_[0-9]+-[0-9]+-[0-9]+$")
);
word!(
    /// The id of a trace, as W3C trace context writes it.
    TraceId => made("^[0-9a-f]{32}$")
);
word!(
    /// A number that every reader of JSON keeps exact.
    Number => json_schema!({"type": "integer", "minimum": 0, "maximum": NUMBER_MAX})
);
word!(
    /// How long something is held.
    LeaseMs => json_schema!({"type": "integer", "minimum": LEASE_MS_MIN, "maximum": LEASE_MS_MAX})
);
word!(
    /// Why something is or happens, in a sentence or two.
    Sentence => json_schema!({"type": "string", "maxLength": quorate_core::limits::REASON_CHARS_MAX})
);
word!(
    /// What an agent is doing.
    AgentStatus => one_of(&Status::ALL.map(Status::as_str))
);
word!(
    /// How an agent says it is.
    AgentHealth => one_of(&["healthy", "degraded", "error"])
);
word!(
    /// What an agent is in the group.
    AgentRole => one_of(&["coordinator", "worker", "specialist", "observer"])
);
word!(
    /// Where a task is.
    TaskWord => one_of(&TaskStatus::ALL.map(TaskStatus::as_str))
);
word!(
    /// How urgent something is, as it is shown.
    Urgency => one_of(&["low", "normal", "high", "urgent"])
);
word!(
    /// The version of the envelope.
    EnvelopeVersion => one_of(&["1.0"])
);
word!(
    /// The role of a token.
    TokenRoleWord => one_of(&["agent", "operator", "approver", "moderator", "viewer", "admin"])
);
word!(
    /// How a session is.
    SessionWord => one_of(&["active", "paused", "completed", "failed"])
);
word!(
    /// Where a procedure is.
    ProcedureWord => one_of(&ProcedureStatus::ALL.map(ProcedureStatus::as_str))
);
word!(
    /// Where an approval is.
    ApprovalWord => one_of(&ApprovalState::WORDS)
);
word!(
    /// A SHA-256 in hexadecimal.
    Sha256 => made("^[0-9a-fA-F]{64}$")
);
word!(
    /// Where the next page begins: opaque, from the previous page, unchanged.
    Cursor => json_schema!({"type": "string", "minLength": 1, "maxLength": KEY_BYTES_MAX})
);
word!(
    /// How many a list shows.
    Limit => json_schema!({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100})
);
word!(
    /// The order of a list by creation. A cursor is valid in its own order only.
    Order => json_schema!({"type": "string", "enum": ["newest", "oldest"], "default": "newest"})
);
word!(
    /// Any JSON.
    Any => Schema::default()
);
word!(
    /// Any JSON object that says something.
    Object => json_schema!({"type": "object", "minProperties": 1})
);
word!(
    /// A signature, as GitHub writes it.
    Signature => made("^sha256=[0-9a-fA-F]{64}$")
);
word!(
    /// The kind of an event.
    EventWord => made("^[A-Za-z0-9._-]{1,64}$")
);
word!(
    /// An entity tag, with its quotation marks; or `*`.
    Etag => json_schema!({"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX, "pattern": "^[\\x20-\\x7e]+$"})
);
word!(
    /// An id in a header: plain ASCII.
    HeaderId => json_schema!({"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX, "pattern": "^[\\x21-\\x7e]+$"})
);
word!(
    /// The kind of a record.
    RecordWord => one_of(&["genesis", "commit", "sweep", "restore", "unknown"])
);

/// The names of the effects on a noun.
fn verbs(noun: &str) -> Schema {
    let names: Vec<&str> =
        Verb::ALL.iter().map(|verb| verb.as_str()).filter(|name| name.starts_with(noun)).collect();
    one_of(&names)
}

word!(
    /// What happened to a policy.
    PolicyVerb => verbs("policy.")
);
word!(
    /// What happened to a lock.
    LockVerb => verbs("lock.")
);
word!(
    /// What happened to a budget.
    BudgetVerb => verbs("budget.")
);
word!(
    /// What happened to a snapshot.
    SnapshotVerb => verbs("snapshot.")
);
word!(
    /// What happened to a token.
    TokenVerb => verbs("token.")
);
word!(
    /// What happened to a pool.
    PoolVerb => verbs("pool.")
);
word!(
    /// What happened to a session.
    SessionVerb => verbs("session.")
);
word!(
    /// What happened to a procedure.
    ProcedureVerb => verbs("procedure.")
);
word!(
    /// What happened to a approval.
    ApprovalVerb => verbs("approval.")
);
word!(
    /// What happened to a topic.
    TopicVerb => verbs("topic.")
);
word!(
    /// What happened to a request.
    RequestVerb => verbs("request.")
);
word!(
    /// What happened to a task.
    TaskVerb => verbs("task.")
);
