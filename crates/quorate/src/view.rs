//! What people and programs look at: agents, inboxes, dead letters, messages, budgets. The same wherever the hub is: ids and
//! names, and no numbers that only the hub itself knows.

mod deliveries;

use quorate_core::{
    AgentId, Budget, BudgetId, DeliveryId, DeliveryNo, Epoch, Health, MessageId, Role, Status, TaskId,
    Timestamp,
};
use quorate_engine::{AgentView, Letter as Lying, Space};

pub use deliveries::{DeliveryInfo, DeliveryState, MessageInfo};

/// An agent as others see it: how it described itself, whether it is there, and what it has to do.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentInfo {
    /// Its id.
    pub id: AgentId,
    /// What people call it.
    pub name: String,
    /// What it is in the group.
    pub role: Role,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// Which actions it answers.
    pub supported_actions: Vec<String>,
    /// Its current start.
    pub epoch: Epoch,
    /// How often it gives a sign of life; three missed, and it is offline. 0: nobody looks.
    pub heartbeat_ms: u64,
    /// What it is doing: what it said, or, if it said nothing, what its load shows.
    pub status: Status,
    /// How well it is.
    pub health: Health,
    /// Not so from the moment at which a request to it timed out, until its next sign of life.
    pub available: bool,
    /// What it has to do.
    pub load: Load,
    /// Its last sign of life since the hub's start.
    pub heard_at: Timestamp,
    /// When it is taken for offline if no sign of life comes.
    pub offline_at: Option<Timestamp>,
}

/// What an agent has to do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Deliveries in its inbox that have not ended.
    pub open: usize,
    /// Those of them that it holds.
    pub leased: usize,
    /// Claims and streams that wait for its deliveries.
    pub listening: usize,
    /// Requests that it waits for the answers to.
    pub asking: usize,
    /// How many tasks it holds.
    pub tasks: usize,
    /// Its current task: of those that it holds, the one that was made first.
    pub current_task: Option<TaskId>,
    /// The delivery that it has held for longest.
    pub current_delivery: Option<DeliveryId>,
}

impl AgentInfo {
    pub(crate) fn of(space: &Space, view: AgentView) -> Self {
        let eras = &space.published().eras;
        let load = Load {
            open: view.open,
            leased: view.leased,
            listening: view.listening,
            asking: view.asking,
            tasks: view.tasks,
            current_task: view.current_task,
            current_delivery: view.current.map(|number: DeliveryNo| eras.delivery_id(number)),
        };
        let agent = view.agent;
        Self {
            id: agent.id,
            name: agent.name,
            role: agent.role,
            capabilities: agent.capabilities,
            supported_actions: agent.supported_actions,
            epoch: agent.epoch,
            heartbeat_ms: agent.heartbeat_ms,
            status: view.status,
            health: agent.presence.health,
            available: agent.presence.available,
            load,
            heard_at: view.heard_at,
            offline_at: view.offline_at,
        }
    }
}

/// A delivery that lies in an inbox and has not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letter {
    /// The delivery.
    pub id: DeliveryId,
    /// The message that it brings.
    pub message: MessageId,
    /// How often it was given out.
    pub attempt: u16,
    /// Until when it is held; `None` if nobody holds it.
    pub lease_until: Option<Timestamp>,
}

impl From<Lying> for Letter {
    fn from(letter: Lying) -> Self {
        Self {
            id: letter.id,
            message: letter.message,
            attempt: letter.look.open.attempt,
            lease_until: letter.look.held.map(|(_, until)| until),
        }
    }
}

/// A delivery that was given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    /// The delivery.
    pub id: DeliveryId,
    /// The message that it was to bring.
    pub message: MessageId,
    /// Whose it was: an agent, or `can:CAPABILITY` if it was for whoever could, and nobody did.
    pub to: String,
    /// How often it was tried.
    pub attempts: u16,
    /// Why it was given up: what the last holder said, or what happened.
    pub reason: String,
    /// Since when it is dead.
    pub at: Timestamp,
}

/// A budget and what was spent on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BudgetInfo {
    /// Its id.
    pub id: BudgetId,
    /// The agent that made it and may change it; `None` is the hub.
    pub owner: Option<AgentId>,
    /// How many messages may be sent on it.
    pub messages_max: u64,
    /// How many were.
    pub messages_used: u64,
    /// How many tokens of language models may be spent. Kept, and not yet counted.
    pub tokens_max: Option<u64>,
    /// How many were.
    pub tokens_used: u64,
    /// How much money may be spent, in millionths. Kept, and not yet counted.
    pub money_max: Option<u64>,
    /// How much was.
    pub money_used: u64,
}

impl BudgetInfo {
    pub(crate) fn of(space: &Space, budget: Budget) -> Self {
        let published = space.published();
        let name = |number| published.agents.get(number).map(|agent| agent.id.clone());
        Self {
            id: budget.id,
            owner: budget.owner.and_then(name),
            messages_max: budget.messages_max,
            messages_used: budget.messages_used,
            tokens_max: budget.tokens_max,
            tokens_used: budget.tokens_used,
            money_max: budget.money_max,
            money_used: budget.money_used,
        }
    }
}
