//! Agents: registration, heartbeats and presence.

use quorate_core::{
    Agent as CoreAgent, AgentId, AgentRole, AgentStatus, DeclarationDigest, DeliveryId, Epoch,
    Health as CoreHealth, Heartbeat as CoreHeartbeat, Presence as CorePresence, Refused, RegisterAgent,
    TaskId, Timestamp, check_health_note,
};
use serde::{Deserialize, Serialize};

use crate::parse_context::{ParseContext, path_or_body};
#[cfg(feature = "schema")]
use crate::schema;

/// Agent to register.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRegistration {
    /// Agent ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Display name; the ID by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub name: Option<String>,
    /// Role in the group; `worker` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentRole>,
    /// Capabilities. A message to `can:CAPABILITY` is delivered to one agent that has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 256), inner(length(max = 128))))]
    pub capabilities: Vec<String>,
    /// Actions that the agent handles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 256), inner(length(max = 128))))]
    pub supported_actions: Vec<String>,
    /// Current epoch. Pass it to update the registration without starting a new epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Heartbeat interval; 10 s by default. Any call of the agent and any open connection counts as a heartbeat. After three
    /// missed heartbeats the agent is offline; 0 disables the check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_ms: Option<u64>,
    /// SHA-256 of what the agent is declared to be: its program or model, prompt and settings. A worker compares it with that
    /// of a connected agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declaration: Option<DeclarationDigest>,
}

impl AgentRegistration {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the agent is missing.
    pub fn into_core(
        self,
        context: &ParseContext<'_>,
        path: Option<AgentId>,
    ) -> Result<RegisterAgent, Refused> {
        let mut register = RegisterAgent::named(path_or_body("agent", path, self.agent)?);
        register.name = self.name.unwrap_or(register.name);
        register.role = self.role.unwrap_or_default();
        register.capabilities = self.capabilities;
        register.supported_actions = self.supported_actions;
        register.epoch = self.epoch;
        register.heartbeat_ms = self.heartbeat_ms.unwrap_or(context.defaults.heartbeat_ms);
        register.declaration = self.declaration;
        Ok(register)
    }
}

impl From<&RegisterAgent> for AgentRegistration {
    fn from(agent: &RegisterAgent) -> Self {
        Self {
            agent: Some(agent.id.clone()),
            name: Some(agent.name.clone()),
            role: Some(agent.role),
            capabilities: agent.capabilities.clone(),
            supported_actions: agent.supported_actions.clone(),
            epoch: agent.epoch,
            heartbeat_ms: Some(agent.heartbeat_ms),
            declaration: agent.declaration,
        }
    }
}

/// Heartbeat of an agent.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Heartbeat {
    /// Agent ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Current activity; `idle` by default.
    #[serde(default)]
    pub status: ReportedStatus,
    /// Health; `healthy` by default.
    #[serde(default)]
    pub health: Health,
    /// Description of the problem, unless healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 1000)))]
    pub note: Option<String>,
}

/// Activity that an agent reports.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ReportedStatus {
    #[default]
    Idle,
    Working,
    Waiting,
}

/// Health of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Health {
    #[default]
    Healthy,
    Degraded,
    Error,
}

impl Health {
    /// Returns the name used in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Error => "error",
        }
    }

    /// Converts the health into the core type, with a description of the problem.
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
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the agent is missing, `TOO_LARGE` if the note is too long.
    pub fn into_core(self, path: Option<AgentId>) -> Result<CoreHeartbeat, Refused> {
        let note = self.note.unwrap_or_default();
        check_health_note(&note)?;
        Ok(CoreHeartbeat {
            agent: path_or_body("agent", path, self.agent)?,
            status: match self.status {
                ReportedStatus::Idle => AgentStatus::Idle,
                ReportedStatus::Working => AgentStatus::Working,
                ReportedStatus::Waiting => AgentStatus::Waiting,
            },
            health: self.health.with_note(note),
        })
    }
}

impl From<&CoreHeartbeat> for Heartbeat {
    fn from(heartbeat: &CoreHeartbeat) -> Self {
        let note = heartbeat.health.note();
        Self {
            agent: Some(heartbeat.agent.clone()),
            status: match heartbeat.status {
                // Only the hub declares an agent offline.
                AgentStatus::Idle | AgentStatus::Offline => ReportedStatus::Idle,
                AgentStatus::Working => ReportedStatus::Working,
                AgentStatus::Waiting => ReportedStatus::Waiting,
            },
            health: (&heartbeat.health).into(),
            note: (!note.is_empty()).then(|| note.to_owned()),
        }
    }
}

/// A registered agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Unique identifier.
    pub id: AgentId,
    /// Display name.
    pub name: String,
    /// Role in the group.
    pub role: AgentRole,
    /// Capabilities. A message to `can:CAPABILITY` is delivered to one agent that has it.
    pub capabilities: Vec<String>,
    /// Actions that the agent handles.
    pub supported_actions: Vec<String>,
    /// Epoch: incremented with each new registration, so that commits of an earlier process are rejected.
    pub epoch: Epoch,
    /// Heartbeat interval; 0 disables the liveness check.
    pub heartbeat_ms: u64,
    /// SHA-256 of what the agent is declared to be. Omitted if it was registered without a declaration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declaration: Option<DeclarationDigest>,
    /// Current activity.
    pub status: AgentStatus,
    /// Health as reported by the agent.
    pub health: Health,
    /// Description of the problem; empty while healthy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Whether the agent currently accepts messages and tasks.
    pub available: bool,
    /// Current load.
    pub load: AgentLoad,
    /// Time at which the agent was last seen. Omitted if it was not seen since the restart of the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_at: Option<Timestamp>,
    /// Time of the restart of the hub, if the agent was not seen since. Its connections ended with the restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_seen_since: Option<Timestamp>,
    /// Time at which the agent is declared offline unless a heartbeat arrives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offline_at: Option<Timestamp>,
    /// Time at which its last connection was closed. Omitted while it is connected, after any later call of the agent, and
    /// if it never was connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disconnected_at: Option<Timestamp>,
}

/// Self-description of an agent, from its registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentProfile {
    /// Unique identifier.
    pub id: AgentId,
    /// Display name.
    pub name: String,
    /// Role in the group.
    pub role: AgentRole,
    /// Capabilities. A message to `can:CAPABILITY` is delivered to one agent that has it.
    pub capabilities: Vec<String>,
    /// Actions that the agent handles.
    pub supported_actions: Vec<String>,
    /// Epoch: incremented with each new registration, so that commits of an earlier process are rejected.
    pub epoch: Epoch,
    /// Heartbeat interval; 0 disables the liveness check.
    pub heartbeat_ms: u64,
    /// SHA-256 of what the agent is declared to be. Omitted if it was registered without a declaration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declaration: Option<DeclarationDigest>,
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
            declaration: agent.declaration,
        }
    }
}

/// Activity and health of an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentPresence {
    /// Current activity.
    pub status: AgentStatus,
    /// Health as reported by the agent.
    pub health: Health,
    /// Description of the problem; empty while healthy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Whether the agent currently accepts messages and tasks.
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

/// Agent without its load and last-seen time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentSummary {
    /// Self-description of the agent.
    #[serde(flatten)]
    pub profile: AgentProfile,
    /// Activity and health.
    #[serde(flatten)]
    pub presence: AgentPresence,
}

impl From<&CoreAgent> for AgentSummary {
    fn from(agent: &CoreAgent) -> Self {
        Self { profile: agent.into(), presence: (&agent.presence).into() }
    }
}

/// Load of an agent.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentLoad {
    /// Number of open deliveries in its inbox, and of those that it holds from capability pools. Leased ones are included.
    pub open: usize,
    /// Number of deliveries that it holds under a lease, of its inbox and of capability pools.
    pub leased: usize,
    /// Number of waiting claims and streams for its deliveries.
    pub listening: usize,
    /// Number of its requests that are awaiting answers.
    pub asking: usize,
    /// Number of tasks that it holds.
    pub tasks: usize,
    /// One of the tasks that it holds.
    pub current_task: Option<TaskId>,
    /// One of the deliveries that it holds.
    pub current_delivery: Option<DeliveryId>,
}

/// Result of a registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Registered"))]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct RegisteredAgent {
    pub agent: Agent,
    /// Current epoch of the agent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub epoch: Option<Epoch>,
    /// Access token of the agent. `null` unless this call created the agent.
    pub token: Option<String>,
    /// What to do if the agent has no token: only if a new epoch began and `token` is `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Filter and page of a list of agents.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AgentListQuery {
    /// Only agents with this capability.
    pub capability: Option<String>,
    /// Only agents that support this action.
    pub action: Option<String>,
    /// Only agents with this role.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::AgentRoleName>"))]
    pub role: Option<String>,
    /// Only agents with this status.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::AgentStatusName>"))]
    pub status: Option<String>,
    /// Maximum number of items in a page; 100 by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Limit>"))]
    pub limit: Option<usize>,
    /// Cursor of the previous page; omit it for the first page.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
}
