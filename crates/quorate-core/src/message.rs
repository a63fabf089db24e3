//! Messages: the envelope, with the payload as opaque bytes.

use bytes::Bytes;

use crate::destination::Destination;
use crate::hash_chain;
use crate::hidden_character::is_hidden_character;
use crate::ids::{AgentId, ClientId};
use crate::limits::{
    ATTEMPTS_DEFAULT, ATTEMPTS_MAX, DELIVERIES_PER_COMMIT_MAX, HOPS_DEFAULT, HOPS_MAX, METADATA_BYTES_MAX,
    NUMBER_MAX, PAYLOAD_BYTES_MAX, REASON_CHARS_MAX,
};
use crate::refused::{Code, Refused};
use crate::time::Timestamp;

/// Bytes supplied by an agent, with the salt and digest that bind them to the log. They are returned unchanged, and can
/// be erased without breaking the hash chain, because only the digest is chained.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    /// The content.
    pub bytes: Bytes,
    /// Random, so that the digest of an erased payload reveals nothing about its content.
    pub salt: [u8; 16],
    /// `SHA-256(salt ‖ bytes)`.
    pub digest: [u8; 32],
}

impl Payload {
    /// Computes the digest of the bytes with a fresh random salt. Runs on the caller's thread, not in the writer.
    #[must_use]
    pub fn seal(bytes: Bytes, salt: [u8; 16]) -> Self {
        let digest = hash_chain::part_digest(&salt, &bytes);
        Self { bytes, salt, digest }
    }

    /// Whether JSON content is one string: text without structure, whatever the text contains.
    #[must_use]
    pub fn is_json_string(&self) -> bool {
        self.bytes.trim_ascii_start().starts_with(b"\"")
    }

    /// Whether the content was erased (bytes and salt zeroed).
    #[must_use]
    pub fn is_erased(&self) -> bool {
        self.salt == [0; 16]
    }

    /// Whether the bytes match the digest, or were erased.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        match self.is_erased() {
            true => self.bytes.iter().all(|byte| *byte == 0),
            false => hash_chain::part_digest(&self.salt, &self.bytes) == self.digest,
        }
    }

    /// Wraps bytes without a digest. For ephemeral messages, which are never written to the log.
    #[must_use]
    pub fn unsealed(bytes: Bytes) -> Self {
        Self { bytes, salt: [0xff; 16], digest: [0; 32] }
    }

    /// Whether it has a digest, so that it can be written to the log.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.digest != [0; 32]
    }

    /// Refuses a payload without a digest.
    pub(crate) fn check_sealed(&self) -> Result<(), Refused> {
        if self.is_sealed() {
            return Ok(());
        }
        Err(Refused::new(Code::Invalid, "the payload is not sealed, so it cannot be written to the log")
            .hint("seal the payload, or send the message as ephemeral"))
    }

    /// Refuses a payload over the size limit.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if self.bytes.len() > PAYLOAD_BYTES_MAX {
            return Err(Refused::new(
                Code::TooLarge,
                format!("the payload is too large: {} bytes", self.bytes.len()),
            )
            .limit(PAYLOAD_BYTES_MAX as u64)
            .hint(format!(
                "send at most {PAYLOAD_BYTES_MAX} bytes, or store the data elsewhere and send a reference"
            )));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Payload {
    /// Omits the content, because debug output ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes)", self.bytes.len())
    }
}

/// The type of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MessageType {
    /// Asks the recipient to do something.
    #[default]
    Command,
    /// Asks the recipient for information.
    Query,
    /// Reports that something happened.
    Event,
    /// The reply to a command or query.
    Response,
}

crate::text_serde::serde_names!(MessageType);

impl MessageType {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Command, Self::Query, Self::Event, Self::Response];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Query => "query",
            Self::Event => "event",
            Self::Response => "response",
        }
    }
}

/// Whether a message survives a restart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Durability {
    /// Written to the log and synced to disk before it is acknowledged.
    #[default]
    Durable,
    /// Kept in memory only, delivered at most once, not recorded.
    Ephemeral,
}

crate::text_serde::serde_names!(Durability);

impl Durability {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Durable, Self::Ephemeral];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Ephemeral => "ephemeral",
        }
    }
}

/// Priority of a delivery. Deliveries are ordered by level, then rank, then age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority {
    /// 0 low, 1 normal, 2 high, 3 urgent.
    pub level: u8,
    /// Order within a level; scales of 1 to 10 map to level and rank.
    pub rank: u8,
}

impl Priority {
    /// Background work.
    pub const LOW: Self = Self { level: 0, rank: 0 };
    /// The default.
    pub const NORMAL: Self = Self { level: 1, rank: 0 };
    /// Time-sensitive.
    pub const HIGH: Self = Self { level: 2, rank: 0 };
    /// Failures and alerts.
    pub const URGENT: Self = Self { level: 3, rank: 0 };

    /// The name of its level.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        ["low", "normal", "high", "urgent"][usize::from(self.level.min(3))]
    }

    /// Converts from a scale of 1 to 10: 1 to 3 are low, 4 to 6 normal, 7 to 8 high, 9 to 10 urgent. The order is preserved.
    ///
    /// # Errors
    /// `INVALID` for anything else.
    pub fn from_ten_scale(value: u8) -> Result<Self, Refused> {
        match value {
            1..=3 => Ok(Self { level: 0, rank: value }),
            4..=6 => Ok(Self { level: 1, rank: value }),
            7..=8 => Ok(Self { level: 2, rank: value }),
            9..=10 => Ok(Self { level: 3, rank: value }),
            _ => Err(Refused::new(Code::Invalid, format!("invalid priority {value}: not between 1 and 10"))
                .hint("use 1 to 10, or one of low, normal, high, urgent")),
        }
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// Handling of a message whose recipient is unavailable: offline, or a request to it timed out. Chosen by the sender.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum IfUnavailable {
    /// Queue it until the recipient is available.
    #[default]
    Queue,
    /// Redirect it to another agent that supports the action or shares a capability; refuse it if there is none.
    Redirect,
    /// Refuse it.
    Fail,
}

crate::text_serde::serde_names!(IfUnavailable);

impl IfUnavailable {
    /// All values, in the order of their stored numbers.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Redirect, Self::Fail];

    /// The stored number. Never changes.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Queue => 0,
            Self::Redirect => 1,
            Self::Fail => 2,
        }
    }

    /// The value with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|value| value.number() == number)
    }

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Redirect => "redirect",
            Self::Fail => "fail",
        }
    }
}

/// A message. Immutable once sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// The sender: the authenticated principal; `None` is the hub itself.
    pub from: Option<AgentId>,
    /// Client-chosen id. Sending the same content again under the same id is an idempotent replay.
    pub client_id: Option<ClientId>,
    /// The recipients.
    pub to: Destination,
    /// Type of the message.
    pub kind: MessageType,
    /// Short name of the requested action or of the event.
    pub action: String,
    /// The content.
    pub payload: Payload,
    /// Media type of the payload; `None` is JSON.
    pub content_type: Option<String>,
    /// Delivery order.
    pub priority: Priority,
    /// Whether it is written to the log.
    pub durability: Durability,
    /// Time from which it is no longer delivered.
    pub expires_at: Option<Timestamp>,
    /// Time before which it is not delivered.
    pub deliver_at: Option<Timestamp>,
    /// Delivery attempts before it is dead-lettered.
    pub attempts_max: u16,
    /// The agent that receives the reply.
    pub reply_to: Option<AgentId>,
    /// Id of the message that this one replies to.
    pub in_reply_to: Option<String>,
    /// Correlation id of the chain.
    pub correlation_id: Option<String>,
    /// Id of the message that caused this one.
    pub causation_id: Option<String>,
    /// Session that it belongs to.
    pub session_id: Option<String>,
    /// Budget of the chain.
    pub budget: Option<String>,
    /// Hop count: the number of messages in the chain before this one.
    pub hops: u16,
    /// Hop limit of the chain, set by its first message; `None` is the default.
    pub max_hops: Option<u16>,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// Entry point: a dialect, a webhook, another hub.
    pub origin: Option<String>,
    /// Confidence of the sender, 0 to 1.
    pub confidence: Option<f64>,
    /// Rationale of the sender.
    pub rationale: Option<String>,
    /// Fields of a dialect without a native counterpart, as JSON text.
    pub metadata: Option<String>,
    /// Handling if the recipient is unavailable.
    pub if_unavailable: IfUnavailable,
    /// Whether the payload of a response reports a failure, which needs no confidence. Set at admission, because the
    /// rules do not read payloads, and not stored.
    pub reports_failure: bool,
}

impl Message {
    /// The chain that it belongs to, if it was caused by another message. Responses end a chain, so they belong to none.
    #[must_use]
    pub fn chain(&self) -> Option<&str> {
        let caused = self.hops > 0 || (self.causation_id.is_some() && !self.is_delayed_to_self());
        let chain = self.correlation_id.as_deref().or(self.causation_id.as_deref());
        chain.filter(|_| caused && self.kind != MessageType::Response)
    }

    /// Whether it is a delayed message of an agent to itself, such as a timer.
    #[must_use]
    pub fn is_delayed_to_self(&self) -> bool {
        self.deliver_at.is_some()
            && self.from.as_ref().is_some_and(|from| self.to.agents() == std::slice::from_ref(from))
    }

    /// Effective hop limit of its chain.
    #[must_use]
    pub fn hops_max(&self) -> u16 {
        self.max_hops.unwrap_or(HOPS_DEFAULT)
    }

    /// Refuses a message over the hop limit. A response may be one hop further, so that a request at the limit can still be
    /// answered.
    ///
    /// # Errors
    /// `LOOP_REFUSED` with the limit.
    pub fn check_hops(&self) -> Result<(), Refused> {
        let response_hop = u16::from(self.kind == MessageType::Response);
        if self.hops <= self.hops_max().saturating_add(response_hop) {
            return Ok(());
        }
        Err(Refused::new(Code::LoopRefused, format!("hop count {} exceeds the limit", self.hops))
            .limit(u64::from(self.hops_max()))
            .hint(
                "if the chain loops, stop it; if not, set maxHops in its first message, or start a new chain",
            ))
    }

    /// Creates a message with default values for everything else.
    #[must_use]
    pub fn new(to: Destination, action: impl Into<String>, payload: Payload) -> Self {
        Self {
            from: None,
            client_id: None,
            to,
            kind: MessageType::default(),
            action: action.into(),
            payload,
            content_type: None,
            priority: Priority::default(),
            durability: Durability::default(),
            expires_at: None,
            deliver_at: None,
            attempts_max: ATTEMPTS_DEFAULT,
            reply_to: None,
            in_reply_to: None,
            correlation_id: None,
            causation_id: None,
            session_id: None,
            budget: None,
            hops: 0,
            max_hops: None,
            traceparent: None,
            origin: None,
            confidence: None,
            rationale: None,
            metadata: None,
            if_unavailable: IfUnavailable::default(),
            reports_failure: false,
        }
    }

    /// Effective handling of an unavailable recipient. The sender's choice applies only to recipients addressed by name;
    /// for topics, roles and broadcasts the message is queued.
    #[must_use]
    pub fn unavailable_handling(&self) -> IfUnavailable {
        if self.to.names_agents() { self.if_unavailable } else { IfUnavailable::Queue }
    }

    /// Whether the payload is declared to be JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        is_json(self.content_type.as_deref())
    }

    /// Validates the message independently of the state.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.payload.check()?;
        if self.durability == Durability::Durable {
            self.payload.check_sealed()?;
        }
        let invalid = |detail: String| Err(Refused::new(Code::Invalid, detail));
        if let Some(id) = self.client_id.as_ref().filter(|id| id.is_generated()) {
            let detail = format!("invalid message id {id}: reserved for ids that the hub assigns");
            return Err(Refused::new(Code::Invalid, detail)
                .hint("choose an id that does not have the form msg_0-17-0 or eph_1, or omit it"));
        }
        let labels = [
            ("action", Some(&self.action)),
            ("contentType", self.content_type.as_ref()),
            ("inReplyTo", self.in_reply_to.as_ref()),
            ("correlationId", self.correlation_id.as_ref()),
            ("causationId", self.causation_id.as_ref()),
            ("sessionId", self.session_id.as_ref()),
            ("budget", self.budget.as_ref()),
            ("traceparent", self.traceparent.as_ref()),
            ("origin", self.origin.as_ref()),
        ];
        for (name, label) in labels {
            check_label(name, label.map_or("", String::as_str))?;
        }
        if self.priority.level > 3 {
            return invalid(format!("invalid priority level {}: not between 0 and 3", self.priority.level));
        }
        if !(1..=ATTEMPTS_MAX).contains(&self.attempts_max) {
            return invalid(format!(
                "invalid maxAttempts {}: not between 1 and {ATTEMPTS_MAX}",
                self.attempts_max
            ));
        }
        if let Some(max_hops) = self.max_hops.filter(|max| !(1..=HOPS_MAX).contains(max)) {
            return invalid(format!("invalid maxHops {max_hops}: not between 1 and {HOPS_MAX}"));
        }
        if self.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return invalid("invalid confidence: not between 0 and 1".into());
        }
        let count = self.to.agents().len();
        if self.to == Destination::Agents(Vec::new()) {
            return invalid("the message has no recipient".into());
        }
        if count > DELIVERIES_PER_COMMIT_MAX {
            return Err(Refused::new(Code::LimitExceeded, format!("too many recipients: {count}"))
                .limit(DELIVERIES_PER_COMMIT_MAX as u64));
        }
        for (name, time) in [("expiresAt", self.expires_at), ("deliverAt", self.deliver_at)] {
            if time.is_some_and(|time| time.0 > NUMBER_MAX) {
                return invalid(format!("{name} is too far in the future"));
            }
        }
        check_reason("rationale", self.rationale.as_deref().unwrap_or(""))?;
        let metadata = self.metadata.as_ref().map_or(0, String::len);
        if metadata > METADATA_BYTES_MAX {
            return Err(Refused::new(Code::TooLarge, format!("metadata is too large: {metadata} bytes"))
                .limit(METADATA_BYTES_MAX as u64));
        }
        if let (Some(deliver_at), Some(expires_at)) = (self.deliver_at, self.expires_at)
            && expires_at <= deliver_at
        {
            return invalid(
                "expiresAt is not after deliverAt, so the message could never be delivered".into(),
            );
        }
        Ok(())
    }
}

/// Whether a content type denotes JSON; `None` does.
#[must_use]
pub fn is_json(content_type: Option<&str>) -> bool {
    content_type
        .is_none_or(|content_type| content_type == "application/json" || content_type.ends_with("+json"))
}

/// Validates a short label such as an action: bounded, without control and invisible characters. May be empty.
pub(crate) fn check_label(name: &str, label: &str) -> Result<(), Refused> {
    if !label.is_ascii() && label.chars().any(is_hidden_character) {
        return Err(Refused::new(
            Code::Invalid,
            format!("{name} contains an invisible or text-direction character"),
        )
        .hint("use visible characters only: labels that look the same must be the same"));
    }
    check_short_text(name, label)
}

/// Validates a short text that people read, such as the name of an agent: bounded, without control characters.
pub(crate) fn check_short_text(name: &str, label: &str) -> Result<(), Refused> {
    let max = crate::limits::ID_BYTES_MAX;
    if label.len() > max {
        return Err(Refused::new(Code::Invalid, format!("{name} is too long: {} bytes", label.len()))
            .limit(max as u64)
            .hint(format!("use at most {max} bytes")));
    }
    if label.chars().any(char::is_control) {
        return Err(Refused::new(Code::Invalid, format!("{name} contains a control character"))
            .hint("use printable characters only"));
    }
    Ok(())
}

/// Validates a free-text reason: bounded in characters.
pub(crate) fn check_reason(name: &str, text: &str) -> Result<(), Refused> {
    let count = text.chars().count();
    if count > REASON_CHARS_MAX {
        let refused = Refused::new(Code::TooLarge, format!("the {name} is too long: {count} characters"))
            .limit(REASON_CHARS_MAX as u64)
            .hint(format!("use at most {REASON_CHARS_MAX} characters"));
        // No policy allows more, so the policy is violated as well.
        return Err(if name == "rationale" { refused.rule("rationaleCharsMax", name) } else { refused });
    }
    Ok(())
}
