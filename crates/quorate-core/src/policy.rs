//! Policies: which agents may reach each other, and the size and structure of messages.
//!
//! A refusal names the violated rule and the field of the message that violates it.

use crate::ids::Seq;
use crate::limits::{
    BROADCASTS_PER_MINUTE_DEFAULT, COMMIT_BYTES_DEFAULT, COMMIT_BYTES_MAX, OPEN_TASKS_DEFAULT,
    OPEN_TASKS_MAX, PAYLOAD_BYTES_DEFAULT, PAYLOAD_BYTES_MAX, REASON_CHARS_MAX,
};
use crate::message::{Message, MessageType, Payload, is_json};
use crate::refused::{Code, Refused};
use crate::registry::{Agent, AgentRole};
use crate::time::Timestamp;

/// The topology: which agents may reach each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preset {
    /// Every agent may reach every other.
    #[default]
    Mesh,
    /// Agents may reach only the coordinators.
    Supervised,
}

crate::text_serde::serde_names!(Preset);

impl Preset {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Mesh, Self::Supervised];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mesh => "mesh",
            Self::Supervised => "supervised",
        }
    }
}

/// The policy of a space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Topology.
    pub preset: Preset,
    /// Maximum bytes of a payload.
    pub payload_bytes_max: u32,
    /// Maximum bytes of all payloads of one commit.
    pub commit_bytes_max: u32,
    /// Maximum characters of a rationale.
    pub rationale_chars_max: u32,
    /// Maximum actions that a message may list in its payload; `None` disables the check.
    pub actions_max: Option<u32>,
    /// Rate limit of broadcasts per agent and minute.
    pub broadcasts_per_minute: u32,
    /// Whether messages, and what holders of tasks report, must be JSON other than one string, and responses must set
    /// `inReplyTo`.
    pub structured: bool,
    /// Whether responses that do not report a failure must include a confidence.
    pub confidence: bool,
    /// Whether responses must include a rationale.
    pub rationale: bool,
    /// Maximum open tasks of the space.
    pub open_tasks_max: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            preset: Preset::Mesh,
            payload_bytes_max: PAYLOAD_BYTES_DEFAULT as u32,
            commit_bytes_max: COMMIT_BYTES_DEFAULT as u32,
            rationale_chars_max: REASON_CHARS_MAX as u32,
            actions_max: None,
            broadcasts_per_minute: BROADCASTS_PER_MINUTE_DEFAULT,
            structured: false,
            confidence: false,
            rationale: false,
            open_tasks_max: OPEN_TASKS_DEFAULT as u32,
        }
    }
}

/// The active policy of a space.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ActivePolicy {
    /// The policy itself.
    pub policy: Policy,
    /// The record that made the space supervised. Messages sent before it are checked when they are delivered.
    pub supervised_since: Seq,
}

impl ActivePolicy {
    /// The constant id of the policy item: a space has one policy.
    pub const ID: &'static str = "policy";
}

impl Policy {
    /// The default policy, for a team of agents that trust each other.
    #[must_use]
    pub fn mesh() -> Self {
        Self::default()
    }

    /// A policy for a supervisor and its specialists: agents reach only the coordinators, messages are JSON of at most
    /// 100 KB with at most 50 actions, and responses include confidence and rationale.
    #[must_use]
    pub fn supervised() -> Self {
        Self {
            preset: Preset::Supervised,
            payload_bytes_max: 100 * 1024,
            actions_max: Some(50),
            structured: true,
            confidence: true,
            rationale: true,
            ..Self::default()
        }
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        let maxima = [
            ("payloadBytesMax", self.payload_bytes_max, PAYLOAD_BYTES_MAX),
            ("commitBytesMax", self.commit_bytes_max, COMMIT_BYTES_MAX),
            ("rationaleCharsMax", self.rationale_chars_max, REASON_CHARS_MAX),
            ("openTasksMax", self.open_tasks_max, OPEN_TASKS_MAX),
        ];
        for (name, value, max) in maxima {
            if !(1..=max).contains(&(value as usize)) {
                return Err(Refused::new(Code::Invalid, format!("invalid {name}: {value}"))
                    .limit(max as u64)
                    .hint(format!("use 1 to {max}")));
            }
        }
        if self.commit_bytes_max < self.payload_bytes_max {
            return Err(Refused::new(
                Code::Invalid,
                format!(
                    "commitBytesMax is {}, but payloadBytesMax is {}",
                    self.commit_bytes_max, self.payload_bytes_max
                ),
            )
            .hint("set commitBytesMax to at least payloadBytesMax, or omit it"));
        }
        Ok(())
    }

    /// The default of `commit_bytes_max` for this limit of a payload: two of the largest payloads, and never less than
    /// the general default.
    #[must_use]
    pub fn default_commit_bytes_max(payload_bytes_max: u32) -> u32 {
        let twice = (payload_bytes_max as usize).saturating_mul(2);
        twice.clamp(COMMIT_BYTES_DEFAULT, COMMIT_BYTES_MAX) as u32
    }

    /// Whether a sender may reach a recipient; `None` is the hub. Coordinators may reach, and be reached by, every agent.
    #[must_use]
    pub fn allows(&self, from: Option<AgentRole>, to: AgentRole) -> bool {
        match self.preset {
            Preset::Mesh => true,
            Preset::Supervised => !is_subordinate(from) || to == AgentRole::Coordinator,
        }
    }

    /// Whether a sender may reach only the coordinators.
    #[must_use]
    pub fn restricts_to_coordinators(&self, from: Option<AgentRole>) -> bool {
        self.preset == Preset::Supervised && is_subordinate(from)
    }

    /// Refuses a payload over the size limit of the policy.
    ///
    /// # Errors
    /// `TOO_LARGE`, naming the rule.
    pub fn check_size(&self, bytes: usize) -> Result<(), Refused> {
        if bytes <= self.payload_bytes_max as usize {
            return Ok(());
        }
        Err(Refused::new(Code::TooLarge, format!("the payload is too large: {bytes} bytes"))
            .limit(u64::from(self.payload_bytes_max))
            .rule("payloadBytesMax", "payload")
            .hint("send less data, or store it elsewhere and send a reference"))
    }

    /// Refuses a commit whose payloads are larger than the policy allows.
    ///
    /// # Errors
    /// `TOO_LARGE`, naming the rule.
    pub fn check_commit_size(&self, bytes: usize) -> Result<(), Refused> {
        if bytes <= self.commit_bytes_max as usize {
            return Ok(());
        }
        Err(Refused::new(Code::TooLarge, format!("the payloads of the commit have {bytes} bytes"))
            .limit(u64::from(self.commit_bytes_max))
            .rule("commitBytesMax", "ops")
            .hint("split the commit; operations that must be applied atomically have to fit into one"))
    }

    /// Refuses a response or completion without a required confidence or rationale.
    ///
    /// # Errors
    /// `POLICY_VIOLATION` or `TOO_LARGE`, naming the rule.
    pub fn check_justification(
        &self,
        confidence: Option<f64>,
        rationale: Option<&str>,
    ) -> Result<(), Refused> {
        let missing = |rule: &str| {
            Refused::new(Code::PolicyViolation, format!("missing {rule} in the response"))
                .rule(rule, rule)
                .hint(format!("set {rule}: the policy of this space requires it in every response"))
        };
        if self.confidence && confidence.is_none() {
            return Err(missing("confidence"));
        }
        if self.rationale && rationale.is_none_or(|text| text.trim().is_empty()) {
            return Err(missing("rationale"));
        }
        self.check_rationale(rationale)
    }

    fn check_rationale(&self, rationale: Option<&str>) -> Result<(), Refused> {
        rationale.map_or(Ok(()), |text| self.check_rationale_length("rationale", text))
    }

    /// Whether a `rationale` within a payload is limited as well.
    #[must_use]
    pub fn limits_rationale_in_payloads(&self) -> bool {
        self.structured || self.rationale
    }

    /// Refuses a rationale that is too long. `place` is the path of the field.
    ///
    /// # Errors
    /// `TOO_LARGE`, naming the rule.
    pub fn check_rationale_length(&self, place: &str, rationale: &str) -> Result<(), Refused> {
        let count = rationale.chars().count();
        if count <= self.rationale_chars_max as usize {
            return Ok(());
        }
        Err(Refused::new(Code::TooLarge, format!("the rationale is too long: {count} characters"))
            .limit(u64::from(self.rationale_chars_max))
            .rule("rationaleCharsMax", place)
            .hint("shorten it, or put the details into another field"))
    }

    /// Refuses a message whose structure violates the policy. The size is checked separately, for every payload.
    ///
    /// # Errors
    /// `POLICY_VIOLATION` or `TOO_LARGE`, naming the rule.
    pub fn check_required_fields(&self, message: &Message) -> Result<(), Refused> {
        self.check_structure("payload", message.content_type.as_deref(), &message.payload)?;
        if message.kind == MessageType::Response && message.from.is_some() {
            if self.structured && message.in_reply_to.is_none() {
                return Err(Refused::new(Code::PolicyViolation, "missing inReplyTo in the response")
                    .rule("structured", "inReplyTo")
                    .hint("set inReplyTo to the id of the message that it replies to"));
            }
            // A failure has no confidence to state.
            let confidence = message.confidence.or(message.reports_failure.then_some(1.0));
            return self.check_justification(confidence, message.rationale.as_deref());
        }
        self.check_rationale(message.rationale.as_deref())
    }

    /// Refuses the payload of a message, or what the holder of a task reports, if it has no structure. `place` is its field.
    ///
    /// # Errors
    /// `POLICY_VIOLATION`, naming the rule.
    pub fn check_structure(
        &self,
        place: &str,
        content_type: Option<&str>,
        payload: &Payload,
    ) -> Result<(), Refused> {
        if !self.structured {
            return Ok(());
        }
        let refused = |detail: String| Refused::new(Code::PolicyViolation, detail);
        if !is_json(content_type) {
            let content_type = content_type.unwrap_or("");
            return Err(refused(format!("the {place} is not JSON: contentType is {content_type}"))
                .rule("structured", "contentType")
                .hint("send JSON: the policy of this space requires it"));
        }
        if payload.is_json_string() {
            return Err(refused(format!("the {place} is not structured: it is one JSON string"))
                .rule("structured", place)
                .hint("send an object, such as {\"text\": \"…\"}: the policy of this space requires it"));
        }
        Ok(())
    }

    /// Refuses a payload that lists too many actions. `place` is the path of the payload.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, naming the rule.
    pub fn check_actions(&self, place: &str, count: usize) -> Result<(), Refused> {
        match self.actions_max {
            Some(max) if count > max as usize => {
                Err(Refused::new(Code::LimitExceeded, format!("too many actions in one message: {count}"))
                    .limit(u64::from(max))
                    .rule("actionsMax", place)
                    .hint("split the actions over several messages"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses an agent of an embedding program that registers itself as coordinator in a supervised space. What an agent
    /// with an access token may register is decided by the grants of the token.
    pub(crate) fn check_role(&self, current: Option<&Agent>, role: AgentRole) -> Result<(), Refused> {
        let was_subordinate = current.is_none_or(|agent| agent.role != AgentRole::Coordinator);
        if self.preset == Preset::Supervised && was_subordinate && role == AgentRole::Coordinator {
            return Err(Refused::new(
                Code::PolicyViolation,
                "an agent may not register itself as coordinator",
            )
            .rule("supervised", "role")
            .hint("ask an operator to register the coordinator"));
        }
        Ok(())
    }
}

/// Whether a sender is an agent other than a coordinator.
fn is_subordinate(from: Option<AgentRole>) -> bool {
    from.is_some_and(|role| role != AgentRole::Coordinator)
}

/// Broadcasts of an agent within its current one-minute window. In memory only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BroadcastQuota {
    since: Timestamp,
    count: u32,
}

/// Length of the rate limit's window.
const MINUTE_MS: u64 = 60_000;

impl BroadcastQuota {
    /// Counts one more broadcast.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, naming the rule.
    pub fn consume(self, policy: &Policy, now: Timestamp) -> Result<Self, Refused> {
        let in_window = self.count > 0 && now < self.since.plus_ms(MINUTE_MS);
        let Self { since, count } = if in_window { self } else { Self { since: now, count: 0 } };
        if count < policy.broadcasts_per_minute {
            return Ok(Self { since, count: count + 1 });
        }
        Err(Refused::new(
            Code::LimitExceeded,
            format!("broadcast rate limit exceeded: {count} within a minute"),
        )
        .limit(u64::from(policy.broadcasts_per_minute))
        .retryable()
        .rule("broadcastsPerMinute", "to")
        .hint("retry in a minute, or publish to a topic instead"))
    }
}

/// Creates the refusal of a message to a recipient that the policy does not allow.
pub(crate) fn recipient_not_allowed(from: &str, to: &str) -> Refused {
    Refused::new(
        Code::PolicyViolation,
        format!(
            "{from} may not send to {to}: the policy of this space allows agents to reach only coordinators"
        ),
    )
    .rule("supervised", "to")
    .hint("send it to role:coordinator; a coordinator may forward it")
}

/// A recorded policy violation, refused loop, exceeded budget or broken deadlock. Not part of the log, and never contains
/// message content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The violated rule.
    pub rule: String,
    /// The principal, as in the log.
    pub principal: String,
    /// The field that violates the rule.
    pub field: String,
    /// Error code of the refusal.
    pub code: Code,
    /// Time of the refusal; of the newest one if several were counted together.
    pub at: Timestamp,
    /// Number of refusals of this kind.
    pub count: u64,
}
