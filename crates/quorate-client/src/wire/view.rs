//! Agents, inboxes, dead letters, messages and budgets as they are shown.

use quorate::{
    AgentInfo, Before, BudgetInfo, DeadLetter, DeliveryInfo, DeliveryState, EndState, Error, Health, Letter,
    Load, MessageInfo, Role, Seq, Status,
};
use quorate_core::{AgentId, BudgetId, DeliveryId, Epoch, MessageId, TaskId};
use serde::Deserialize;

use super::message::{MessageIn, durable};
use super::{At, Text, named, strange};

/// An agent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentIn {
    id: Text<AgentId>,
    name: String,
    role: Text<Role>,
    capabilities: Vec<String>,
    supported_actions: Vec<String>,
    epoch: u64,
    heartbeat_ms: u64,
    status: String,
    health: String,
    #[serde(default)]
    note: String,
    available: bool,
    load: LoadIn,
    heard_at: At,
    offline_at: Option<At>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoadIn {
    open: usize,
    leased: usize,
    listening: usize,
    asking: usize,
    tasks: usize,
    current_task: Option<Text<TaskId>>,
    current_delivery: Option<Text<DeliveryId>>,
}

#[derive(Deserialize)]
pub(crate) struct AgentsIn {
    pub(crate) agents: Vec<AgentIn>,
    pub(crate) cursor: Option<String>,
}

impl AgentIn {
    pub(crate) fn read(self) -> Result<AgentInfo, Error> {
        let LoadIn { open, leased, listening, asking, tasks, current_task, current_delivery } = self.load;
        let current_task = current_task.map(|id| id.0);
        let current_delivery = current_delivery.map(|id| id.0);
        Ok(AgentInfo {
            id: self.id.0,
            name: self.name,
            role: self.role.0,
            capabilities: self.capabilities,
            supported_actions: self.supported_actions,
            epoch: Epoch(self.epoch),
            heartbeat_ms: self.heartbeat_ms,
            status: named(&Status::ALL, Status::as_str, &self.status)?,
            health: match self.health.as_str() {
                "healthy" => Health::Healthy,
                "degraded" => Health::Degraded(self.note),
                "error" => Health::Error(self.note),
                other => return Err(strange(&other)),
            },
            available: self.available,
            load: Load { open, leased, listening, asking, tasks, current_task, current_delivery },
            heard_at: self.heard_at.0,
            offline_at: self.offline_at.map(|at| at.0),
        })
    }
}

#[derive(Deserialize)]
pub(crate) struct InboxIn {
    pub(crate) deliveries: Vec<LetterIn>,
    pub(crate) cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LetterIn {
    delivery_id: Text<DeliveryId>,
    message_id: Text<MessageId>,
    attempt: u16,
    lease_until: Option<At>,
}

impl LetterIn {
    pub(crate) fn read(self) -> Letter {
        Letter {
            id: self.delivery_id.0,
            message: self.message_id.0,
            attempt: self.attempt,
            lease_until: self.lease_until.map(|at| at.0),
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct OutboxIn {
    pub(crate) messages: Vec<SentIn>,
    pub(crate) cursor: Option<Text<Before>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SentIn {
    pub(crate) message_id: Text<MessageId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLettersIn {
    pub(crate) dead_letters: Vec<DeadIn>,
    pub(crate) cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadIn {
    delivery_id: Text<DeliveryId>,
    message_id: Text<MessageId>,
    agent: String,
    attempts: u16,
    reason: String,
    at: At,
}

impl DeadIn {
    pub(crate) fn read(self) -> DeadLetter {
        DeadLetter {
            id: self.delivery_id.0,
            message: self.message_id.0,
            to: self.agent,
            attempts: self.attempts,
            reason: self.reason,
            at: self.at.0,
        }
    }
}

/// A message with its deliveries.
#[derive(Deserialize)]
pub(crate) struct MessageStateIn {
    deliveries: Vec<StateIn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StateIn {
    delivery_id: Text<DeliveryId>,
    agent: String,
    state: String,
    #[serde(default)]
    attempt: u16,
    due: Option<At>,
    ended_by: Option<u64>,
}

impl MessageStateIn {
    /// The message and its deliveries stand in one object.
    pub(crate) fn read(text: &str) -> Result<MessageInfo, Error> {
        let (id, at, message) = durable(super::read::<MessageIn<'_>>(text)?.read()?)?;
        let Self { deliveries } = super::read(text)?;
        let deliveries = deliveries.into_iter().map(StateIn::read).collect::<Result<_, _>>()?;
        Ok(MessageInfo { id, at, message, deliveries })
    }
}

impl StateIn {
    fn read(self) -> Result<DeliveryInfo, Error> {
        let attempt = self.attempt;
        let ended = |state| {
            let seq = self.ended_by.map(Seq).ok_or_else(|| strange(&"a delivery says too little"))?;
            Ok::<_, Error>(DeliveryState::Ended { state, seq })
        };
        let state = match (self.state.as_str(), self.due) {
            ("ready", _) => DeliveryState::Ready { attempt },
            ("scheduled", Some(due)) => DeliveryState::Scheduled { attempt, due: due.0 },
            ("scheduled", None) => DeliveryState::Held { attempt },
            ("leased", _) => DeliveryState::Leased { attempt },
            ("acked", _) => ended(EndState::Acked)?,
            ("dead", _) => ended(EndState::Dead)?,
            ("expired", _) => ended(EndState::Expired)?,
            ("purged", _) => ended(EndState::Purged)?,
            (other, _) => return Err(strange(&other)),
        };
        Ok(DeliveryInfo { id: self.delivery_id.0, to: self.agent, state })
    }
}

/// A budget.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BudgetIn {
    id: Text<BudgetId>,
    owner: Option<Text<AgentId>>,
    messages_max: u64,
    messages_used: u64,
    tokens_max: Option<u64>,
    tokens_used: u64,
    money_max: Option<u64>,
    money_used: u64,
}

impl BudgetIn {
    pub(crate) fn read(self) -> BudgetInfo {
        BudgetInfo {
            id: self.id.0,
            owner: self.owner.map(|owner| owner.0),
            messages_max: self.messages_max,
            messages_used: self.messages_used,
            tokens_max: self.tokens_max,
            tokens_used: self.tokens_used,
            money_max: self.money_max,
            money_used: self.money_used,
        }
    }
}
