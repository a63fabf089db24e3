//! Agents.

use quorate_core::{
    Agent as CoreAgent, AgentId, DeliveryId, Epoch, Health as CoreHealth, Heartbeat as CoreHeartbeat,
    Presence as CorePresence, Refused, RegisterAgent, Role, Status, TaskId, Timestamp, check_health_note,
};
use serde::{Deserialize, Serialize};

use crate::reading::{Reading, named};

/// An agent to register.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDescription {
    /// In a commit, also as `id`. In a call of its own the id is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// A name for people; the id by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub name: Option<String>,
    /// Its role in the group; `worker` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// What it can do. A message to `can:CAPABILITY` reaches one agent that has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 256), inner(length(max = 128))))]
    pub capabilities: Vec<String>,
    /// The actions that it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 256), inner(length(max = 128))))]
    pub supported_actions: Vec<String>,
    /// The current epoch, to change the description without a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// The interval of its heartbeats: it is offline after three missed ones. 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_ms: Option<u64>,
}

impl AgentDescription {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no agent is named.
    pub fn read(self, reading: &Reading<'_>, path: Option<AgentId>) -> Result<RegisterAgent, Refused> {
        let mut new = RegisterAgent::named(named("agent", path, self.agent)?);
        new.name = self.name.unwrap_or(new.name);
        new.role = self.role.unwrap_or_default();
        new.capabilities = self.capabilities;
        new.supported_actions = self.supported_actions;
        new.epoch = self.epoch;
        new.heartbeat_ms = self.heartbeat_ms.unwrap_or(reading.defaults.heartbeat_ms);
        Ok(new)
    }
}

impl From<&RegisterAgent> for AgentDescription {
    fn from(agent: &RegisterAgent) -> Self {
        Self {
            agent: Some(agent.id.clone()),
            name: Some(agent.name.clone()),
            role: Some(agent.role),
            capabilities: agent.capabilities.clone(),
            supported_actions: agent.supported_actions.clone(),
            epoch: agent.epoch,
            heartbeat_ms: Some(agent.heartbeat_ms),
        }
    }
}

/// A heartbeat.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Heartbeat {
    /// In a commit, also as `id`. In a call of its own the id is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// What the agent is doing; `idle` by default.
    #[serde(default)]
    pub status: ReportedStatus,
    /// How well it is; `healthy` by default.
    #[serde(default)]
    pub health: Health,
    /// What is wrong, unless it is healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 1000)))]
    pub note: Option<String>,
}

/// What an agent reports that it is doing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the words say it")]
pub enum ReportedStatus {
    #[default]
    Idle,
    Working,
    Waiting,
}

/// How well an agent is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the words say it")]
pub enum Health {
    #[default]
    Healthy,
    Degraded,
    Error,
}

impl Health {
    /// Its name, as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Error => "error",
        }
    }

    /// With what is wrong.
    #[must_use]
    pub fn with_note(self, note: String) -> CoreHealth {
        match self {
            Self::Healthy => CoreHealth::Healthy,
            Self::Degraded => CoreHealth::Degraded(note),
            Self::Error => CoreHealth::Error(note),
        }
    }
}

impl From<&CoreHealth> for Health {
    fn from(health: &CoreHealth) -> Self {
        match health {
            CoreHealth::Healthy => Self::Healthy,
            CoreHealth::Degraded(_) => Self::Degraded,
            CoreHealth::Error(_) => Self::Error,
        }
    }
}

impl Heartbeat {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no agent is named, `TOO_LARGE` if the note is too long.
    pub fn read(self, path: Option<AgentId>) -> Result<CoreHeartbeat, Refused> {
        let note = self.note.unwrap_or_default();
        check_health_note(&note)?;
        Ok(CoreHeartbeat {
            agent: named("agent", path, self.agent)?,
            status: match self.status {
                ReportedStatus::Idle => Status::Idle,
                ReportedStatus::Working => Status::Working,
                ReportedStatus::Waiting => Status::Waiting,
            },
            health: self.health.with_note(note),
        })
    }
}

impl From<&CoreHeartbeat> for Heartbeat {
    fn from(beat: &CoreHeartbeat) -> Self {
        let note = beat.health.note();
        Self {
            agent: Some(beat.agent.clone()),
            status: match beat.status {
                // The hub alone declares an agent offline.
                Status::Idle | Status::Offline => ReportedStatus::Idle,
                Status::Working => ReportedStatus::Working,
                Status::Waiting => ReportedStatus::Waiting,
            },
            health: (&beat.health).into(),
            note: (!note.is_empty()).then(|| note.to_owned()),
        }
    }
}

/// An agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// A name for people.
    pub name: String,
    /// Its role in the group.
    pub role: Role,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// The actions that it answers.
    pub supported_actions: Vec<String>,
    /// Its epoch: each start of the agent has a higher one.
    pub epoch: Epoch,
    /// The interval of its heartbeats; 0 for none.
    pub heartbeat_ms: u64,
    /// What it is doing.
    pub status: Status,
    /// How well it is.
    pub health: Health,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Whether it takes messages and tasks now.
    pub available: bool,
    /// Its work.
    pub load: Load,
    /// When it was last seen.
    pub heard_at: Timestamp,
    /// When it is declared offline unless a heartbeat comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offline_at: Option<Timestamp>,
}

/// How an agent described itself when it registered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentProfile {
    /// Its id.
    pub id: AgentId,
    /// A name for people.
    pub name: String,
    /// Its role in the group.
    pub role: Role,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// The actions that it answers.
    pub supported_actions: Vec<String>,
    /// Its epoch: each start of the agent has a higher one.
    pub epoch: Epoch,
    /// The interval of its heartbeats; 0 for none.
    pub heartbeat_ms: u64,
}

impl From<&CoreAgent> for AgentProfile {
    fn from(agent: &CoreAgent) -> Self {
        Self {
            id: agent.id.clone(),
            name: agent.name.clone(),
            role: agent.role,
            capabilities: agent.capabilities.clone(),
            supported_actions: agent.supported_actions.clone(),
            epoch: agent.epoch,
            heartbeat_ms: agent.heartbeat_ms,
        }
    }
}

/// What an agent is doing, and how well it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentPresence {
    /// What it is doing.
    pub status: Status,
    /// How well it is.
    pub health: Health,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Whether it takes messages and tasks now.
    pub available: bool,
}

impl From<&CorePresence> for AgentPresence {
    fn from(presence: &CorePresence) -> Self {
        Self {
            status: presence.status,
            health: (&presence.health).into(),
            note: presence.health.note().to_owned(),
            available: presence.available,
        }
    }
}

/// An agent, without what is measured of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentSummary {
    /// How it described itself.
    #[serde(flatten)]
    pub profile: AgentProfile,
    /// What it is doing.
    #[serde(flatten)]
    pub presence: AgentPresence,
}

impl From<&CoreAgent> for AgentSummary {
    fn from(agent: &CoreAgent) -> Self {
        Self { profile: agent.into(), presence: (&agent.presence).into() }
    }
}

/// The work of an agent.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Open deliveries in its inbox.
    pub open: usize,
    /// Those of them that it holds.
    pub leased: usize,
    /// Claims and streams that wait for its deliveries.
    pub listening: usize,
    /// Requests whose responses it waits for.
    pub asking: usize,
    /// Tasks that it holds.
    pub tasks: usize,
    /// One of those.
    pub current_task: Option<TaskId>,
    /// One of the deliveries that it holds.
    pub current_delivery: Option<DeliveryId>,
}

/// An agent that was registered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegisteredAgent {
    /// The agent.
    pub agent: Agent,
    /// Its epoch.
    pub epoch: Option<Epoch>,
    /// The agent's token, shown once; `null` unless this call created the agent.
    pub token: Option<String>,
}
