//! Agents in JSON.

use quorate_core::{Agent, AgentId, Code, Epoch, Health, Heartbeat, Refused, RegisterAgent, Role, Status};
use serde::{Deserialize, Serialize};

/// An agent as it describes itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AgentIn {
    /// In a commit; in a call of its own it stands in the path.
    agent: Option<String>,
    name: Option<String>,
    role: Option<String>,
    #[serde(default)]
    capabilities: Vec<String>,
    #[serde(default)]
    supported_actions: Vec<String>,
    epoch: Option<u64>,
    heartbeat_ms: Option<u64>,
}

impl AgentIn {
    pub(crate) fn read(self, id: Option<&AgentId>) -> Result<RegisterAgent, Refused> {
        let id = named(id, self.agent)?;
        let mut new = RegisterAgent::named(id);
        new.name = self.name.unwrap_or(new.name);
        new.role = self.role.map_or(Ok(Role::default()), |role| role.parse())?;
        new.capabilities = self.capabilities;
        new.supported_actions = self.supported_actions;
        new.epoch = self.epoch.map(Epoch);
        new.heartbeat_ms = self.heartbeat_ms.unwrap_or(new.heartbeat_ms);
        Ok(new)
    }
}

/// The agent of the path, of the body, or both if they agree.
pub(crate) fn named(path: Option<&AgentId>, body: Option<String>) -> Result<AgentId, Refused> {
    match (path, body.map(AgentId::new).transpose()?) {
        (Some(path), Some(body)) if *path != body => {
            Err(Refused::new(Code::Invalid, format!("the path names {path}, the body {body}")))
        }
        (Some(path), _) => Ok(path.clone()),
        (None, Some(body)) => Ok(body),
        (None, None) => Err(Refused::new(Code::Invalid, "agent is missing").hint("say which agent")),
    }
}

/// A sign of life.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HeartbeatIn {
    agent: Option<String>,
    #[serde(default)]
    status: StatusIn,
    #[serde(default)]
    health: HealthIn,
    note: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum StatusIn {
    #[default]
    Idle,
    Working,
    Waiting,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum HealthIn {
    #[default]
    Healthy,
    Degraded,
    Error,
}

impl HeartbeatIn {
    pub(crate) fn read(self, id: Option<&AgentId>) -> Result<Heartbeat, Refused> {
        let note = self.note.unwrap_or_default();
        Ok(Heartbeat {
            agent: named(id, self.agent)?,
            status: match self.status {
                StatusIn::Idle => Status::Idle,
                StatusIn::Working => Status::Working,
                StatusIn::Waiting => Status::Waiting,
            },
            health: match self.health {
                HealthIn::Healthy => Health::Healthy,
                HealthIn::Degraded => Health::Degraded(note),
                HealthIn::Error => Health::Error(note),
            },
        })
    }
}

/// An agent as it is shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentOut {
    id: String,
    name: String,
    role: &'static str,
    capabilities: Vec<String>,
    supported_actions: Vec<String>,
    epoch: u64,
    heartbeat_ms: u64,
    status: &'static str,
    health: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
    available: bool,
}

impl AgentOut {
    pub(crate) fn new(agent: &Agent) -> Self {
        Self {
            id: agent.id.to_string(),
            name: agent.name.clone(),
            role: agent.role.as_str(),
            capabilities: agent.capabilities.clone(),
            supported_actions: agent.supported_actions.clone(),
            epoch: agent.epoch.0,
            heartbeat_ms: agent.heartbeat_ms,
            status: agent.presence.status.as_str(),
            health: agent.presence.health.as_str(),
            note: agent.presence.health.note().to_owned(),
            available: agent.presence.available,
        }
    }
}
