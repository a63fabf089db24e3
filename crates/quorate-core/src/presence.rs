//! Presence: whether an agent can be reached, and what it says of itself.

use crate::commit::RegisterAgent;
use crate::ids::AgentId;
use crate::limits::{HEARTBEAT_MS_MAX, HEARTBEAT_MS_MIN};
use crate::message::check_reason;
use crate::refused::{Code, Refused};

/// What an agent is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Status {
    /// Nothing; it takes what comes.
    #[default]
    Idle,
    /// It works on something.
    Working,
    /// It waits for somebody else.
    Waiting,
    /// It gave no sign of life for three heartbeats. Only the hub says so.
    Offline,
}

crate::text_serde::serde_words!(Status);

impl Status {
    /// All of them, in the order of their frozen numbers.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Working, Self::Waiting, Self::Offline];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Offline => "offline",
        }
    }
}

/// How well an agent is. What is wrong is said in a sentence.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Health {
    /// All is well.
    #[default]
    Healthy,
    /// It works, but not as it should.
    Degraded(String),
    /// It cannot do its work.
    Error(String),
}

impl Health {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded(_) => "degraded",
            Self::Error(_) => "error",
        }
    }

    /// What is wrong; empty if all is well.
    #[must_use]
    pub fn note(&self) -> &str {
        match self {
            Self::Healthy => "",
            Self::Degraded(note) | Self::Error(note) => note,
        }
    }
}

/// Whether an agent can be reached, and what it says of itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Presence {
    /// What it is doing.
    pub status: Status,
    /// How well it is.
    pub health: Health,
    /// Not so from the moment at which a request to it timed out, until its next sign of life.
    pub available: bool,
}

impl Default for Presence {
    fn default() -> Self {
        Self { status: Status::Idle, health: Health::Healthy, available: true }
    }
}

impl Presence {
    /// Whether a message had better go to somebody else.
    #[must_use]
    pub fn is_away(&self) -> bool {
        !self.available || self.status == Status::Offline
    }

    /// The same agent after a sign of life.
    #[must_use]
    pub(crate) fn back(self) -> Self {
        let status = if self.status == Status::Offline { Status::Idle } else { self.status };
        Self { status, available: true, ..self }
    }
}

/// A sign of life: `agent.heartbeat`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// Whose.
    pub agent: AgentId,
    /// What it is doing.
    pub status: Status,
    /// How well it is.
    pub health: Health,
}

impl Heartbeat {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if self.status == Status::Offline {
            return Err(Refused::new(Code::Invalid, "a heartbeat cannot say `offline`")
                .hint("say idle, working or waiting; who says nothing goes offline by itself"));
        }
        check_health_note(self.health.note())
    }
}

/// Checks the length of a health note. A healthy agent's note is not stored, but it has the same limit.
///
/// # Errors
/// `TOO_LARGE` if the note is too long.
pub fn check_health_note(note: &str) -> Result<(), Refused> {
    check_reason("health note", note)
}

impl RegisterAgent {
    pub(crate) fn check_heartbeat(&self) -> Result<(), Refused> {
        if self.heartbeat_ms == 0 || (HEARTBEAT_MS_MIN..=HEARTBEAT_MS_MAX).contains(&self.heartbeat_ms) {
            return Ok(());
        }
        Err(Refused::new(Code::Invalid, format!("a heartbeat every {} ms", self.heartbeat_ms)).hint(format!(
            "a heartbeat comes every {HEARTBEAT_MS_MIN} to {HEARTBEAT_MS_MAX} ms; 0 = nobody looks"
        )))
    }
}
