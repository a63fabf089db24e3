//! The message: seed D's envelope, with the payload as opaque bytes.

use bytes::Bytes;

use crate::chain;
use crate::destination::Destination;
use crate::ids::{AgentId, ClientId};
use crate::limits::{
    ATTEMPTS_DEFAULT, ATTEMPTS_MAX, DELIVERIES_PER_COMMIT_MAX, HOPS_MAX, METADATA_BYTES_MAX, NUMBER_MAX,
    PAYLOAD_BYTES_MAX, REASON_CHARS_MAX,
};
use crate::refused::{Code, Refused};
use crate::time::Timestamp;

/// Bytes that an agent handed over, with the salt and digest that bind them to the log. They come out byte for byte as
/// they went in, and they can be erased without breaking the chain, because only the digest is chained.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    /// The bytes themselves.
    pub bytes: Bytes,
    /// Random, so that the digest of an erased payload says nothing about it.
    pub salt: [u8; 16],
    /// `SHA-256(salt ‖ bytes)`.
    pub digest: [u8; 32],
}

impl Payload {
    /// Seals bytes with a fresh random salt. Done on the caller's thread, away from the writer.
    #[must_use]
    pub fn seal(bytes: Bytes, salt: [u8; 16]) -> Self {
        let digest = chain::part_digest(&salt, &bytes);
        Self { bytes, salt, digest }
    }

    /// Whether the bytes were blanked: then they say nothing, and neither does their digest.
    #[must_use]
    pub fn is_erased(&self) -> bool {
        self.salt == [0; 16]
    }

    /// Whether the bytes, as they came from the log, are those that were sealed, or were blanked since.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        match self.is_erased() {
            true => self.bytes.iter().all(|byte| *byte == 0),
            false => chain::part_digest(&self.salt, &self.bytes) == self.digest,
        }
    }

    /// Bytes that will never reach the log, without salt and digest: an ephemeral message needs none.
    #[must_use]
    pub fn unsealed(bytes: Bytes) -> Self {
        Self { bytes, salt: [0xff; 16], digest: [0; 32] }
    }

    /// Whether it has a digest, and so may be written down.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.digest != [0; 32]
    }

    /// Refuses what must not reach the log.
    pub(crate) fn check_sealed(&self) -> Result<(), Refused> {
        if self.is_sealed() {
            return Ok(());
        }
        Err(Refused::new(Code::Invalid, "the payload was not sealed, so it cannot be written down")
            .hint("seal it, or send the message as an ephemeral one"))
    }

    /// Refuses what is over the limit.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if self.bytes.len() > PAYLOAD_BYTES_MAX {
            return Err(Refused::new(Code::TooLarge, format!("the payload has {} bytes", self.bytes.len()))
                .limit(PAYLOAD_BYTES_MAX as u64)
                .hint(format!(
                    "send at most {PAYLOAD_BYTES_MAX} bytes, or put the data elsewhere and send a reference"
                )));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Payload {
    /// Never the content: debug output ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes)", self.bytes.len())
    }
}

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MessageType {
    /// Do something.
    #[default]
    Command,
    /// Tell me something.
    Query,
    /// Something happened.
    Event,
    /// The answer to a command or a query.
    Response,
}

crate::text_serde::serde_words!(MessageType);

impl MessageType {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Command, Self::Query, Self::Event, Self::Response];

    /// The word on the wire.
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

/// Whether acknowledged means on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Durability {
    /// Acknowledged means on disk.
    #[default]
    Durable,
    /// In memory only, at most once, no record.
    Ephemeral,
}

crate::text_serde::serde_words!(Durability);

impl Durability {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Durable, Self::Ephemeral];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Ephemeral => "ephemeral",
        }
    }
}

/// Which of two waiting deliveries goes first: the higher level, then the higher rank, then the older.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority {
    /// 0 low, 1 normal, 2 high, 3 urgent.
    pub level: u8,
    /// Finer steps within a level; scales of 1 to 10 map onto level and rank.
    pub rank: u8,
}

impl Priority {
    /// Background work.
    pub const LOW: Self = Self { level: 0, rank: 0 };
    /// The usual.
    pub const NORMAL: Self = Self { level: 1, rank: 0 };
    /// Time-sensitive.
    pub const HIGH: Self = Self { level: 2, rank: 0 };
    /// Failures and alerts.
    pub const URGENT: Self = Self { level: 3, rank: 0 };

    /// The word for its level.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        ["low", "normal", "high", "urgent"][usize::from(self.level.min(3))]
    }

    /// From a scale of 1 to 10. 1 to 3 are low, 4 to 6 normal, 7 to 8 high, 9 to 10 urgent; order is kept.
    ///
    /// # Errors
    /// `INVALID` for anything else.
    pub fn from_ten(value: u8) -> Result<Self, Refused> {
        match value {
            1..=3 => Ok(Self { level: 0, rank: value }),
            4..=6 => Ok(Self { level: 1, rank: value }),
            7..=8 => Ok(Self { level: 2, rank: value }),
            9..=10 => Ok(Self { level: 3, rank: value }),
            _ => Err(Refused::new(Code::Invalid, format!("the priority {value} is not between 1 and 10"))
                .hint("use 1 to 10, or low, normal, high, urgent")),
        }
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// What to do with a message whose recipient is offline or did not answer in time. The sender's choice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum IfUnavailable {
    /// It waits in the inbox until the recipient is back.
    #[default]
    Queue,
    /// It goes to another agent that answers the action or shares a capability; if there is none, it is refused.
    Redirect,
    /// It is refused.
    Fail,
}

crate::text_serde::serde_words!(IfUnavailable);

impl IfUnavailable {
    /// All of them, in the order of their frozen numbers.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Redirect, Self::Fail];

    /// The frozen number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Queue => 0,
            Self::Redirect => 1,
            Self::Fail => 2,
        }
    }

    /// The choice with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.number() == number)
    }

    /// The word on the wire.
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
    /// The id that the client chose; the same id with the same content is the same message.
    pub client_id: Option<ClientId>,
    /// Where it goes.
    pub to: Destination,
    /// What it is.
    pub kind: MessageType,
    /// What it asks for or tells, as a word.
    pub action: String,
    /// The content.
    pub payload: Payload,
    /// What the bytes of the payload are; `None` is JSON.
    pub content_type: Option<String>,
    /// Which goes first.
    pub priority: Priority,
    /// Whether acknowledged means on disk.
    pub durability: Durability,
    /// Not to be handed out from then on.
    pub expires_at: Option<Timestamp>,
    /// Not to be handed out before.
    pub deliver_at: Option<Timestamp>,
    /// Tries before it becomes a dead letter.
    pub attempts_max: u16,
    /// The agent that wants the answer.
    pub reply_to: Option<AgentId>,
    /// The message that this one answers.
    pub in_reply_to: Option<String>,
    /// The conversation.
    pub correlation_id: Option<String>,
    /// The message that led to this one.
    pub causation_id: Option<String>,
    /// The session it belongs to.
    pub session_id: Option<String>,
    /// The chain's budget.
    pub budget: Option<String>,
    /// How many messages led to this one.
    pub hops: u16,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// Where it entered: a dialect, a webhook, another hub.
    pub origin: Option<String>,
    /// How sure the sender is, 0 to 1.
    pub confidence: Option<f64>,
    /// Why the sender says so.
    pub rationale: Option<String>,
    /// What a dialect could not say otherwise, as JSON text.
    pub metadata: Option<String>,
    /// What to do when the recipient cannot be reached.
    pub if_unavailable: IfUnavailable,
}

impl Message {
    /// The chain that it belongs to, if another message led to it. Answers end something and lead nowhere.
    #[must_use]
    pub fn chain(&self) -> Option<&str> {
        let led_to = self.hops > 0 || self.causation_id.is_some();
        let chain = self.correlation_id.as_deref().or(self.causation_id.as_deref());
        chain.filter(|_| led_to && self.kind != MessageType::Response)
    }

    /// Refuses a message that too many others led to. A response may be one hop further, so that what was asked at the
    /// limit can be answered.
    ///
    /// # Errors
    /// `LOOP_REFUSED` with the limit.
    pub fn check_hops(&self) -> Result<(), Refused> {
        let answers = u16::from(self.kind == MessageType::Response);
        if self.hops <= HOPS_MAX + answers {
            return Ok(());
        }
        Err(Refused::new(Code::LoopRefused, format!("{} messages led to this one", self.hops))
            .limit(u64::from(HOPS_MAX))
            .hint("the chain is too long, or goes round in a circle: stop it, or begin a new one"))
    }

    /// A message with everything else at its default.
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
            traceparent: None,
            origin: None,
            confidence: None,
            rationale: None,
            metadata: None,
            if_unavailable: IfUnavailable::default(),
        }
    }

    /// What to do when a recipient cannot be reached. The sender has a say only about those that it named: who listens
    /// to a topic or has a role gets the message when it is back.
    #[must_use]
    pub fn otherwise(&self) -> IfUnavailable {
        if self.to.is_by_name() { self.if_unavailable } else { IfUnavailable::Queue }
    }

    /// Whether the payload is declared to be JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        is_json(self.content_type.as_deref())
    }

    /// Refuses what no message may be, whatever the state of the world.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.payload.check()?;
        if self.durability == Durability::Durable {
            self.payload.check_sealed()?;
        }
        let invalid = |what: String| Err(Refused::new(Code::Invalid, what));
        let words = [
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
        for (name, word) in words {
            check_word(name, word.map_or("", String::as_str))?;
        }
        if self.priority.level > 3 {
            return invalid(format!("priority {} is not between 0 and 3", self.priority.level));
        }
        if !(1..=ATTEMPTS_MAX).contains(&self.attempts_max) {
            return invalid(format!("maxAttempts {} is not between 1 and {ATTEMPTS_MAX}", self.attempts_max));
        }
        if self.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return invalid("the confidence is not between 0 and 1".into());
        }
        let named = self.to.agents().len();
        if self.to == Destination::Agents(Vec::new()) {
            return invalid("the message has no recipient".into());
        }
        if named > DELIVERIES_PER_COMMIT_MAX {
            return Err(Refused::new(Code::LimitExceeded, format!("the message names {named} recipients"))
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
            return Err(Refused::new(Code::TooLarge, format!("the metadata has {metadata} bytes"))
                .limit(METADATA_BYTES_MAX as u64));
        }
        if let (Some(deliver_at), Some(expires_at)) = (self.deliver_at, self.expires_at)
            && expires_at <= deliver_at
        {
            return invalid("the message expires before it may be delivered".into());
        }
        Ok(())
    }
}

/// Whether a content type means JSON; saying nothing means it.
#[must_use]
pub fn is_json(content_type: Option<&str>) -> bool {
    content_type.is_none_or(|kind| kind == "application/json" || kind.ends_with("+json"))
}

/// A short word such as an action: bounded, without control characters. Empty is fine.
pub(crate) fn check_word(name: &str, word: &str) -> Result<(), Refused> {
    let max = crate::limits::ID_BYTES_MAX;
    if word.len() > max {
        return Err(Refused::new(Code::Invalid, format!("{name} has {} bytes", word.len()))
            .limit(max as u64)
            .hint(format!("give at most {max} bytes")));
    }
    if word.chars().any(char::is_control) {
        return Err(Refused::new(Code::Invalid, format!("{name} has a control character")));
    }
    Ok(())
}

/// A sentence by a person or an agent: bounded in characters.
pub(crate) fn check_reason(name: &str, text: &str) -> Result<(), Refused> {
    let count = text.chars().count();
    if count > REASON_CHARS_MAX {
        return Err(Refused::new(Code::TooLarge, format!("the {name} has {count} characters"))
            .limit(REASON_CHARS_MAX as u64)
            .hint(format!("give at most {REASON_CHARS_MAX} characters")));
    }
    Ok(())
}
