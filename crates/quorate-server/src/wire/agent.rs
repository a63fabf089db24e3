//! Agents in JSON.

use quorate_core::{AgentId, Code, Epoch, Health, Heartbeat, Refused, RegisterAgent, Role, Status};
use quorate_engine::{AgentView, Space};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time;
use crate::api::words;
use crate::settings::{Times, whole_ms};

/// An agent as it describes itself.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "AgentDescription")]
pub(crate) struct AgentIn {
    /// In a commit, also as `id`; in a call of its own it stands in the path.
    #[serde(alias = "id")]
    #[schemars(with = "Option<words::Id>")]
    agent: Option<String>,
    /// What people call it; its id if nothing is said.
    #[schemars(length(max = 128))]
    name: Option<String>,
    /// What it is in the group; a worker if nothing is said.
    #[schemars(with = "Option<words::AgentRole>")]
    role: Option<String>,
    /// What it can do: `can:WORD` reaches one of those who can.
    #[serde(default)]
    #[schemars(length(max = 256), inner(length(max = 128)))]
    capabilities: Vec<String>,
    /// Which actions it answers.
    #[serde(default)]
    #[schemars(length(max = 256), inner(length(max = 128)))]
    supported_actions: Vec<String>,
    /// The current epoch, to change the description without a new start.
    epoch: Option<u64>,
    /// How often it will give a sign of life; three missed, and it is offline. 0: nobody looks.
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
            Err(Refused::new(Code::Invalid, format!("the path names {path}, the body {body}"))
                .hint("name it in the path only"))
        }
        (Some(path), _) => Ok(path.clone()),
        (None, Some(body)) => Ok(body),
        (None, None) => Err(Refused::new(Code::Invalid, "agent is missing").hint("say which agent")),
    }
}

/// A sign of life.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Heartbeat")]
pub(crate) struct HeartbeatIn {
    /// In a commit, also as `id`; in a call of its own it stands in the path.
    #[serde(alias = "id")]
    #[schemars(with = "Option<words::Id>")]
    agent: Option<String>,
    #[serde(default)]
    status: StatusIn,
    #[serde(default)]
    health: HealthIn,
    /// What is wrong with it, if its health is not well.
    #[schemars(length(max = 1000))]
    note: Option<String>,
}

#[derive(Deserialize, Default, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum StatusIn {
    #[default]
    Idle,
    Working,
    Waiting,
}

#[derive(Deserialize, Default, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
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
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Agent")]
pub(crate) struct AgentOut {
    #[schemars(with = "words::Id")]
    id: String,
    name: String,
    #[schemars(with = "words::AgentRole")]
    role: &'static str,
    capabilities: Vec<String>,
    supported_actions: Vec<String>,
    epoch: u64,
    heartbeat_ms: u64,
    #[schemars(with = "words::AgentStatus")]
    status: &'static str,
    #[schemars(with = "words::AgentHealth")]
    health: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
    /// Whether it takes messages and tasks now.
    available: bool,
    load: LoadOut,
    #[schemars(with = "words::Time")]
    heard_at: String,
    /// When it is taken for offline if no sign of life comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<words::Time>")]
    offline_at: Option<String>,
}

/// What an agent has to do.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Load")]
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
