//! The rules of a space: who may reach whom, how large and of what shape messages may be.
//!
//! A rule that says no is named in the refusal, with the place in the message that it is about.

use crate::ids::Seq;
use crate::limits::{
    BROADCASTS_PER_MINUTE_DEFAULT, OPEN_TASKS_MAX, PAYLOAD_BYTES_MAX, REASON_CHARS_MAX, TASKS_OPEN_MAX,
};
use crate::message::{Message, MessageType};
use crate::refused::{Code, Refused};
use crate::registry::{Agent, Role};
use crate::time::Timestamp;

/// Who may reach whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preset {
    /// Everybody reaches everybody.
    #[default]
    Mesh,
    /// Agents reach the coordinators only, whatever the way.
    Supervised,
}

crate::text_serde::serde_words!(Preset);

impl Preset {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Mesh, Self::Supervised];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mesh => "mesh",
            Self::Supervised => "supervised",
        }
    }
}

/// The rules of a space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Who may reach whom.
    pub preset: Preset,
    /// Bytes of one payload.
    pub payload_bytes_max: u32,
    /// Characters of a rationale.
    pub rationale_chars_max: u32,
    /// Actions that a message may list in its payload; `None` = nobody counts.
    pub actions_max: Option<u32>,
    /// Messages to everybody that each agent may send in a minute.
    pub broadcasts_per_minute: u32,
    /// Whether messages must be JSON, and answers name what they answer.
    pub structured: bool,
    /// Whether an answer must say how sure its sender is.
    pub confidence: bool,
    /// Whether an answer must say why.
    pub rationale: bool,
    /// Open tasks of the space.
    pub open_tasks_max: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            preset: Preset::Mesh,
            payload_bytes_max: PAYLOAD_BYTES_MAX as u32,
            rationale_chars_max: REASON_CHARS_MAX as u32,
            actions_max: None,
            broadcasts_per_minute: BROADCASTS_PER_MINUTE_DEFAULT,
            structured: false,
            confidence: false,
            rationale: false,
            open_tasks_max: TASKS_OPEN_MAX as u32,
        }
    }
}

/// The policy that is in force.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InForce {
    /// The rules.
    pub rules: Policy,
    /// The record that put the space under supervision; what was sent before it is looked at when it goes out.
    pub supervised_since: Seq,
}

impl InForce {
    /// A space has one policy, so its id is always the same.
    pub const ID: &'static str = "policy";
}

impl Policy {
    /// What an open, mutually trusting team needs: the default.
    #[must_use]
    pub fn mesh() -> Self {
        Self::default()
    }

    /// A supervisor and its specialists: agents reach only the coordinators, messages are JSON of at most 100 KB with at
    /// most 50 actions, and answers say how sure they are and why.
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
        let most = [
            ("payloadBytesMax", self.payload_bytes_max, PAYLOAD_BYTES_MAX),
            ("rationaleCharsMax", self.rationale_chars_max, REASON_CHARS_MAX),
            ("openTasksMax", self.open_tasks_max, OPEN_TASKS_MAX),
        ];
        for (name, value, max) in most {
            if !(1..=max).contains(&(value as usize)) {
                return Err(Refused::new(Code::Invalid, format!("{name} is {value}"))
                    .limit(max as u64)
                    .hint(format!("give 1 to {max}")));
            }
        }
        Ok(())
    }

    /// Whether a sender may reach a recipient; `None` is the hub. Whoever leads reaches everybody and is reached by
    /// everybody.
    #[must_use]
    pub fn lets_reach(&self, from: Option<Role>, to: Role) -> bool {
        match self.preset {
            Preset::Mesh => true,
            Preset::Supervised => !is_led(from) || to == Role::Coordinator,
        }
    }

    /// Whether a sender reaches the coordinators only.
    #[must_use]
    pub fn confines(&self, from: Option<Role>) -> bool {
        self.preset == Preset::Supervised && is_led(from)
    }

    /// Refuses a payload that is too large here.
    ///
    /// # Errors
    /// `TOO_LARGE`, naming the rule.
    pub fn check_size(&self, bytes: usize) -> Result<(), Refused> {
        if bytes <= self.payload_bytes_max as usize {
            return Ok(());
        }
        Err(Refused::new(Code::TooLarge, format!("the payload has {bytes} bytes"))
            .limit(u64::from(self.payload_bytes_max))
            .rule("payloadBytesMax", "payload")
            .hint("send less, or put the data elsewhere and send a reference"))
    }

    /// Refuses an answer that does not say how sure its author is and why, where it must. For messages, and for whoever
    /// ends a piece of work.
    ///
    /// # Errors
    /// `POLICY_VIOLATION` or `TOO_LARGE`, naming the rule.
    pub fn check_reasons(&self, confidence: Option<f64>, rationale: Option<&str>) -> Result<(), Refused> {
        let missing = |rule: &str| {
            Refused::new(Code::PolicyViolation, format!("the answer has no {rule}"))
                .rule(rule, rule)
                .hint(format!("the policy of this space asks for a {rule} with every answer"))
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
        let count = rationale.map_or(0, |text| text.chars().count());
        if count <= self.rationale_chars_max as usize {
            return Ok(());
        }
        Err(Refused::new(Code::TooLarge, format!("the rationale has {count} characters"))
            .limit(u64::from(self.rationale_chars_max))
            .rule("rationaleCharsMax", "rationale"))
    }

    /// Refuses a message of a shape that it may not have here. Its size is looked at with every payload.
    ///
    /// # Errors
    /// `POLICY_VIOLATION` or `TOO_LARGE`, naming the rule.
    pub fn check_shape(&self, message: &Message) -> Result<(), Refused> {
        if self.structured && !message.is_json() {
            let kind = message.content_type.as_deref().unwrap_or("");
            return Err(Refused::new(Code::PolicyViolation, format!("the payload is {kind}, not JSON"))
                .rule("structured", "contentType")
                .hint("the policy of this space asks for JSON"));
        }
        if message.kind == MessageType::Response && message.from.is_some() {
            if self.structured && message.in_reply_to.is_none() {
                return Err(Refused::new(Code::PolicyViolation, "the answer does not say what it answers")
                    .rule("structured", "inReplyTo")
                    .hint("name the message that it answers in inReplyTo"));
            }
            return self.check_reasons(message.confidence, message.rationale.as_deref());
        }
        self.check_rationale(message.rationale.as_deref())
    }

    /// Refuses a message that lists more actions than it may.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, naming the rule.
    pub fn check_actions(&self, count: usize) -> Result<(), Refused> {
        match self.actions_max {
            Some(max) if count > max as usize => {
                Err(Refused::new(Code::LimitExceeded, format!("the message lists {count} actions"))
                    .limit(u64::from(max))
                    .rule("actionsMax", "payload")
                    .hint("report the actions in several messages"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses an agent that would lead by its own word: under supervision only whoever runs the hub makes coordinators.
    pub(crate) fn check_role(&self, before: Option<&Agent>, role: Role) -> Result<(), Refused> {
        let led = before.is_none_or(|agent| agent.role != Role::Coordinator);
        if self.preset == Preset::Supervised && led && role == Role::Coordinator {
            return Err(Refused::new(Code::PolicyViolation, "an agent may not make itself a coordinator")
                .rule("supervised", "role")
                .hint("whoever runs the hub registers the coordinators"));
        }
        Ok(())
    }
}

/// Whether a sender is an agent that does not lead.
fn is_led(from: Option<Role>) -> bool {
    from.is_some_and(|role| role != Role::Coordinator)
}

/// How many messages to everybody an agent sent since a minute began for it. In memory only, since the hub's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Broadcasts {
    since: Timestamp,
    count: u32,
}

/// How long a sender's messages to everybody are counted.
const MINUTE_MS: u64 = 60_000;

impl Broadcasts {
    /// One more, if the sender may.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, naming the rule.
    pub fn one_more(self, policy: &Policy, now: Timestamp) -> Result<Self, Refused> {
        let running = self.count > 0 && now < self.since.plus_ms(MINUTE_MS);
        let Self { since, count } = if running { self } else { Self { since: now, count: 0 } };
        if count < policy.broadcasts_per_minute {
            return Ok(Self { since, count: count + 1 });
        }
        Err(Refused::new(Code::LimitExceeded, format!("{count} messages to everybody within a minute"))
            .limit(u64::from(policy.broadcasts_per_minute))
            .passes()
            .rule("broadcastsPerMinute", "to")
            .hint("wait a minute, or send to a topic: then only those who want it get it"))
    }
}

/// The refusal of a message that its sender may not send there.
pub(crate) fn out_of_reach(from: &str, to: &str) -> Refused {
    Refused::new(
        Code::PolicyViolation,
        format!("{from} may not reach {to}: in this space agents reach only the coordinators"),
    )
    .rule("supervised", "to")
    .hint("send it to role:coordinator; a coordinator may pass it on")
}

/// A refusal by a rule of a space. It is not in the log and never holds content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The rule that said no.
    pub rule: String,
    /// Who acted, as in the log.
    pub principal: String,
    /// What the rule is about.
    pub place: String,
    /// How it was refused.
    pub code: Code,
    /// When.
    pub at: Timestamp,
}
