//! Presence: whether an agent is available, and its self-reported status and health.

use crate::commit::RegisterAgent;
use crate::ids::AgentId;
use crate::limits::{HEARTBEAT_MS_MAX, HEARTBEAT_MS_MIN};
use crate::message::check_reason;
use crate::refused::{Code, Refused};
use crate::time::Timestamp;
use crate::why::format_time_of_day;

/// The activity of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AgentStatus {
    /// Ready for work.
    #[default]
    Idle,
    /// Working on something.
    Working,
    /// Waiting for another agent.
    Waiting,
    /// No activity for three heartbeat intervals. Set by the hub only.
    Offline,
}

crate::text_serde::serde_names!(AgentStatus);

impl AgentStatus {
    /// All values, in the order of their stored numbers.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Working, Self::Waiting, Self::Offline];

    /// The name on the wire.
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

/// The health of an agent, with a description of the problem.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Health {
    /// No problems.
    #[default]
    Healthy,
    /// Works with restrictions.
    Degraded(String),
    /// Cannot work.
    Error(String),
}

impl Health {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded(_) => "degraded",
            Self::Error(_) => "error",
        }
    }

    /// The description of the problem; empty if healthy.
    #[must_use]
    pub fn note(&self) -> &str {
        match self {
            Self::Healthy => "",
            Self::Degraded(note) | Self::Error(note) => note,
        }
    }
}

/// Availability of an agent, with its reported status and health.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Presence {
    /// Current activity.
    pub status: AgentStatus,
    /// Reported health.
    pub health: Health,
    /// Becomes false when a request to it times out, and true with its next activity.
    pub available: bool,
}

impl Default for Presence {
    fn default() -> Self {
        Self { status: AgentStatus::Idle, health: Health::Healthy, available: true }
    }
}

impl Presence {
    /// Whether it is offline or did not answer a request in time.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        !self.available || self.status == AgentStatus::Offline
    }

    /// The presence after activity: available, and no longer offline.
    #[must_use]
    pub(crate) fn after_activity(self) -> Self {
        let status = if self.status == AgentStatus::Offline { AgentStatus::Idle } else { self.status };
        Self { status, available: true, ..self }
    }
}

/// When an agent was last seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LastSeen {
    /// At this time.
    At(Timestamp),
    /// Not since the hub was restarted at this time.
    BeforeRestart(Timestamp),
}

/// How an agent is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Absence {
    /// It was removed.
    Removed,
    /// It missed three heartbeats.
    Offline,
    /// Its last connection was closed at this time, and it has not acted since.
    Disconnected(Timestamp),
    /// It has not acted since the hub was restarted at this time.
    BeforeRestart(Timestamp),
}

/// An agent that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AbsentAgent {
    /// The agent.
    pub agent: AgentId,
    /// How it is gone.
    pub absence: Absence,
}

impl AbsentAgent {
    /// Describes how the agent is gone, such as `bob disconnected at 08:00:05`.
    #[must_use]
    pub fn describe(&self, now: Timestamp) -> String {
        match self.absence {
            Absence::Removed => format!("{} was removed", self.agent),
            Absence::Offline => format!("{} is offline", self.agent),
            Absence::Disconnected(at) => {
                format!("{} disconnected at {}", self.agent, format_time_of_day(at, now))
            }
            Absence::BeforeRestart(at) => {
                format!(
                    "{} has not been seen since the restart at {}",
                    self.agent,
                    format_time_of_day(at, now)
                )
            }
        }
    }

    /// Describes how the agent is gone, with the age of a closed connection, such as `bob disconnected 14 s ago`.
    #[must_use]
    pub fn describe_with_age(&self, now: Timestamp) -> String {
        match self.absence {
            Absence::Disconnected(at) => {
                format!("{} disconnected {} s ago", self.agent, now.0.saturating_sub(at.0) / 1000)
            }
            Absence::Removed | Absence::Offline | Absence::BeforeRestart(_) => self.describe(now),
        }
    }
}

/// Describes how agents are gone, or that none has the capability of a destination such as `can:review`.
pub(crate) fn describe_absent(absent: &[AbsentAgent], destination: &str, now: Timestamp) -> String {
    if absent.is_empty() {
        let capability = destination.strip_prefix("can:").unwrap_or(destination);
        return format!("no agent has the capability {capability}");
    }
    let absent: Vec<_> = absent.iter().map(|agent| agent.describe(now)).collect();
    absent.join(", ")
}

/// `agent.heartbeat`: reports that an agent is alive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// The agent.
    pub agent: AgentId,
    /// Current activity.
    pub status: AgentStatus,
    /// Reported health.
    pub health: Health,
}

impl Heartbeat {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if self.status == AgentStatus::Offline {
            return Err(Refused::new(Code::Invalid, "invalid status `offline` in a heartbeat")
                .hint("use idle, working or waiting; an agent without heartbeats goes offline by itself"));
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
        Err(Refused::new(Code::Invalid, format!("invalid heartbeat interval: {} ms", self.heartbeat_ms))
            .hint(format!("use {HEARTBEAT_MS_MIN} to {HEARTBEAT_MS_MAX} ms, or 0 to disable the check")))
    }
}
