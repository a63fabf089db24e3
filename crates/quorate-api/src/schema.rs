//! Markers for plain values that have no type of their own: path parameters, headers and formatted strings. Their
//! JSON Schemas, with the feature `schema`, are descriptive: validation happens where a value is parsed.

#[cfg(feature = "schema")]
use {
    generate::{id, one_of, pattern, verbs},
    quorate_core::limits::{ID_BYTES_MAX, KEY_BYTES_MAX, LEASE_MS_MAX, LEASE_MS_MIN, NUMBER_MAX},
    quorate_core::{AgentStatus, ApprovalState, ProcedureStatus, TaskStatus},
    schemars::{JsonSchema, Schema, SchemaGenerator, json_schema},
    std::borrow::Cow,
};

macro_rules! inline_schema {
    ($(#[$doc:meta])* $name:ident => $schema:expr) => {
        $(#[$doc])*
        pub struct $name;

        #[cfg(feature = "schema")]
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

#[cfg(feature = "schema")]
pub(crate) mod generate {
    //! Builders of schemas.

    use quorate_core::{Code, Verb};
    use schemars::{Schema, json_schema};

    /// Non-empty text without control characters.
    const PRINTABLE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";

    pub(super) fn id(max: usize) -> Schema {
        json_schema!({"type": "string", "minLength": 1, "maxLength": max, "pattern": PRINTABLE})
    }

    pub(super) fn pattern(pattern: &str) -> Schema {
        json_schema!({"type": "string", "pattern": pattern})
    }

    pub(super) fn one_of(names: &[&str]) -> Schema {
        json_schema!({"type": "string", "enum": names})
    }

    /// Returns a schema of the effect names with this prefix.
    pub(super) fn verbs(prefix: &str) -> Schema {
        let names: Vec<&str> =
            Verb::ALL.iter().map(|verb| verb.as_str()).filter(|name| name.starts_with(prefix)).collect();
        one_of(&names)
    }

    /// Returns all error codes.
    pub(crate) fn code_names() -> Vec<&'static str> {
        Code::ALL.iter().map(|code| code.as_str()).collect()
    }
}

inline_schema!(
    /// ID of an agent, a task, a session or a space; at most 128 bytes.
    Id => id(ID_BYTES_MAX)
);
inline_schema!(
    /// Key of the shared memory or name of a lock; at most 512 bytes.
    LongId => id(KEY_BYTES_MAX)
);
inline_schema!(
    /// Name of an access token, as it appears in the log.
    TokenNameText => json_schema!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._+@-]{0,127}$"})
);
inline_schema!(
    /// Time in RFC 3339 format, with milliseconds.
    Time => json_schema!({"type": "string", "format": "date-time"})
);
inline_schema!(
    /// Delivery ID, assigned by the hub.
    DeliveryId => pattern("^dlv_[0-9]+-[0-9]+$")
);
inline_schema!(
    /// Message ID, assigned by the hub.
    MessageId => pattern("^msg_[0-9]+-[0-9]+-[0-9]+$")
);
inline_schema!(
    /// Access token ID, assigned by the hub.
    TokenId => pattern("^tok_[0-9]+-[0-9]+-[0-9]+$")
);
inline_schema!(
    /// Trace ID in W3C trace context format.
    TraceId => pattern("^[0-9a-f]{32}$")
);
inline_schema!(
    /// Integer within the range that every JSON parser represents exactly.
    Number => json_schema!({"type": "integer", "minimum": 0, "maximum": NUMBER_MAX})
);
inline_schema!(
    /// Lease duration in milliseconds.
    LeaseMs => json_schema!({"type": "integer", "minimum": LEASE_MS_MIN, "maximum": LEASE_MS_MAX})
);
inline_schema!(
    /// Short human-readable reason.
    ReasonText => json_schema!({"type": "string", "maxLength": quorate_core::limits::REASON_CHARS_MAX})
);
inline_schema!(
    /// Activity of an agent.
    AgentStatusName => one_of(&AgentStatus::ALL.map(AgentStatus::as_str))
);
inline_schema!(
    /// Health reported by an agent.
    AgentHealthName => one_of(&["healthy", "degraded", "error"])
);
inline_schema!(
    /// Role of an agent in the group.
    AgentRoleName => one_of(&["coordinator", "worker", "specialist", "observer"])
);
inline_schema!(
    /// Role of an agent, or `*` for all roles.
    GrantedRoleName => one_of(&["coordinator", "worker", "specialist", "observer", "*"])
);
inline_schema!(
    /// Status of a task.
    TaskStatusName => one_of(&TaskStatus::ALL.map(TaskStatus::as_str))
);
inline_schema!(
    /// Name of a priority.
    PriorityName => one_of(&["low", "normal", "high", "urgent"])
);
inline_schema!(
    /// Envelope version.
    EnvelopeVersion => one_of(&["1.0"])
);
inline_schema!(
    /// Role of an access token.
    TokenRoleName => one_of(&["agent", "operator", "approver", "moderator", "viewer", "admin"])
);
inline_schema!(
    /// Status of a session.
    SessionStatusName => one_of(&["active", "paused", "completed", "failed"])
);
inline_schema!(
    /// Status of a procedure.
    ProcedureStatusName => one_of(&ProcedureStatus::ALL.map(ProcedureStatus::as_str))
);
inline_schema!(
    /// State of an approval.
    ApprovalStateName => one_of(&ApprovalState::NAMES)
);
inline_schema!(
    /// SHA-256 digest in hexadecimal.
    Sha256 => pattern("^[0-9a-fA-F]{64}$")
);
inline_schema!(
    /// Opaque cursor, returned with the previous page.
    Cursor => json_schema!({"type": "string", "minLength": 1, "maxLength": KEY_BYTES_MAX})
);
inline_schema!(
    /// Maximum number of items in a page.
    Limit => json_schema!({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100})
);
inline_schema!(
    /// Sort order by creation. A cursor is valid only for the order that it was returned for.
    Order => json_schema!({"type": "string", "enum": ["newest", "oldest"], "default": "newest"})
);
inline_schema!(
    /// Any JSON.
    Any => Schema::default()
);
inline_schema!(
    /// Any non-empty JSON object.
    Object => json_schema!({"type": "object", "minProperties": 1})
);
inline_schema!(
    /// HMAC signature in the format used by GitHub.
    Signature => pattern("^sha256=[0-9a-fA-F]{64}$")
);
inline_schema!(
    /// Kind of an event.
    EventKindName => pattern("^[A-Za-z0-9._-]{1,64}$")
);
inline_schema!(
    /// Entity tag including its quotation marks, or `*`.
    Etag => json_schema!({"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX, "pattern": "^[\\x20-\\x7e]+$"})
);
inline_schema!(
    /// ID in a header: printable ASCII.
    HeaderId => json_schema!({"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX, "pattern": "^[\\x21-\\x7e]+$"})
);
inline_schema!(
    /// Kind of damage of the log.
    LogDamageName => one_of(&["edited", "deleted", "reordered", "truncated", "forked"])
);
inline_schema!(
    /// Name of a dialect.
    DialectName => json_schema!({
        "description": "Name of a dialect.",
        "type": "string",
        "enum": ["deliberation", "orchestrator", "coscientist", "native"],
    })
);
inline_schema!(
    /// Record kind.
    RecordKindName => one_of(&["genesis", "commit", "sweep", "restore", "unknown"])
);

inline_schema!(
    /// Effects on a policy.
    PolicyVerb => verbs("policy.")
);
inline_schema!(
    /// Effects on a lock.
    LockVerb => verbs("lock.")
);
inline_schema!(
    /// Effects on a budget.
    BudgetVerb => verbs("budget.")
);
inline_schema!(
    /// Effects on a snapshot.
    SnapshotVerb => verbs("snapshot.")
);
inline_schema!(
    /// Effects on a token.
    TokenVerb => verbs("token.")
);
inline_schema!(
    /// Effects on a pool.
    PoolVerb => verbs("pool.")
);
inline_schema!(
    /// Effects on a session.
    SessionVerb => verbs("session.")
);
inline_schema!(
    /// Effects on a procedure.
    ProcedureVerb => verbs("procedure.")
);
inline_schema!(
    /// Effects on an approval.
    ApprovalVerb => verbs("approval.")
);
inline_schema!(
    /// Effects on a subscription to a topic.
    TopicVerb => verbs("topic.")
);
inline_schema!(
    /// Effects on a request.
    RequestVerb => verbs("request.")
);
inline_schema!(
    /// Effects on a task.
    TaskVerb => verbs("task.")
);
