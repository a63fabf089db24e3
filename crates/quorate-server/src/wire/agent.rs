//! Agents in JSON.

use quorate_core::{AgentId, Code, Epoch, Health, Heartbeat, Refused, RegisterAgent, Role, Status};
use quorate_engine::{AgentView, Space};
use serde::{Deserialize, Serialize};

use super::time;
use crate::settings::{Times, whole_ms};

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
    pub(crate) fn read(self, id: Option<&AgentId>, times: &Times) -> Result<RegisterAgent, Refused> {
        let id = named(id, self.agent)?;
        let mut new = RegisterAgent::named(id);
        new.name = self.name.unwrap_or(new.name);
        new.role = self.role.map_or(Ok(Role::default()), |role| role.parse())?;
        new.capabilities = self.capabilities;
        new.supported_actions = self.supported_actions;
        new.epoch = self.epoch.map(Epoch);
        new.heartbeat_ms = self.heartbeat_ms.unwrap_or(whole_ms(times.heartbeat));
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
    load: LoadOut,
    heard_at: String,
    /// When it is taken for offline if no sign of life comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    offline_at: Option<String>,
}

/// What an agent has to do.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LoadOut {
    /// Deliveries in its inbox that have not ended, and those of them that it holds.
    open: usize,
    leased: usize,
    /// Claims and streams that wait for its deliveries.
    listening: usize,
    /// Requests that it waits for the answers to.
    asking: usize,
    tasks: usize,
    current_task: Option<String>,
    current_delivery: Option<String>,
}

impl AgentOut {
    pub(crate) fn new(space: &Space, view: &AgentView) -> Self {
        let agent = &view.agent;
        let eras = &space.published().eras;
        let load = LoadOut {
            open: view.open,
            leased: view.leased,
            listening: view.listening,
            asking: view.asking,
            tasks: view.tasks,
            current_task: view.current_task.as_ref().map(ToString::to_string),
            current_delivery: view.current.map(|number| eras.delivery_id(number).to_string()),
        };
        Self {
            id: agent.id.to_string(),
            name: agent.name.clone(),
            role: agent.role.as_str(),
            capabilities: agent.capabilities.clone(),
            supported_actions: agent.supported_actions.clone(),
            epoch: agent.epoch.0,
            heartbeat_ms: agent.heartbeat_ms,
            status: view.status.as_str(),
            health: agent.presence.health.as_str(),
            note: agent.presence.health.note().to_owned(),
            available: agent.presence.available,
            load,
            heard_at: time::shown(view.heard_at),
            offline_at: view.offline_at.map(time::shown),
        }
    }
}
