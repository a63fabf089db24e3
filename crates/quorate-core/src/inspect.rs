//! Looks at the state at the head: what only the writer knows, such as who waits and when a lease ends.

use crate::ids::{AgentId, AgentNo, DeliveryNo, Seq, TaskId};
use crate::presence::Status;
use crate::registry::{Agent, Role};
use crate::request::Request;
use crate::time::Timestamp;
use crate::working::Open;

/// What to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inspect {
    /// Deliveries by number, and the request that a message made, if it waits.
    Deliveries {
        /// The message whose request is meant: its record, and which message of that.
        message: Option<(Seq, u32)>,
        /// The first.
        first: DeliveryNo,
        /// How many.
        count: u32,
    },
    /// The open deliveries of one inbox, by number.
    Inbox {
        /// Whose.
        agent: AgentId,
        /// Only later ones than this.
        after: DeliveryNo,
        /// How many at most.
        limit: usize,
    },
    /// Agents with their load, by number. Removed ones are not shown.
    Agents {
        /// Which ones.
        filter: AgentFilter,
        /// Only later ones than this.
        after: AgentNo,
        /// How many at most.
        limit: usize,
    },
}

/// Which agents. What is not said does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentFilter {
    /// The one with this id.
    pub id: Option<AgentId>,
    /// Those that can do this.
    pub capability: Option<String>,
    /// Those that answer this action.
    pub action: Option<String>,
    /// Those with this role.
    pub role: Option<Role>,
    /// Those that are doing this, as they said or as their load shows.
    pub status: Option<Status>,
}

impl AgentFilter {
    /// Whether an agent is meant, but for what it is doing.
    pub(crate) fn means(&self, agent: &Agent) -> bool {
        !agent.removed
            && self.id.as_ref().is_none_or(|id| *id == agent.id)
            && self.capability.as_ref().is_none_or(|one| agent.capabilities.contains(one))
            && self.action.as_ref().is_none_or(|one| agent.supported_actions.contains(one))
            && self.role.is_none_or(|role| role == agent.role)
    }
}

/// What was seen.
#[derive(Clone, PartialEq, Debug)]
pub enum Inspected {
    /// Of [`Inspect::Deliveries`]; `None` for what is not open.
    Deliveries {
        /// The deliveries, in their order.
        deliveries: Vec<Option<DeliveryLook>>,
        /// The request that the message made, and when its wait ends.
        request: Option<(Request, Timestamp)>,
    },
    /// Of [`Inspect::Inbox`].
    Inbox(Vec<DeliveryLook>),
    /// Of [`Inspect::Agents`].
    Agents(Vec<AgentLook>),
}

/// An open delivery.
#[derive(Clone, PartialEq, Debug)]
pub struct DeliveryLook {
    /// Its number.
    pub number: DeliveryNo,
    /// Where it is.
    pub open: Open,
    /// Whom it is for: an agent, or a pool such as `can:review`.
    pub to: String,
    /// The agent that it is for, or that took it from a pool.
    pub agent: Option<AgentId>,
    /// Whether that agent cannot be reached.
    pub is_away: bool,
    /// Claims and streams that wait for that agent's deliveries.
    pub listening: usize,
    /// How many go out before it, if it is ready and was looked at alone.
    pub ahead: Option<usize>,
    /// Since when it is held, if that is known, and until when.
    pub held: Option<(Option<Timestamp>, Timestamp)>,
}

impl DeliveryLook {
    /// Who has it, or whom it is for.
    #[must_use]
    pub fn who(&self) -> &str {
        self.agent.as_ref().map_or(&self.to, AgentId::as_str)
    }
}

/// An agent and what it has to do.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentLook {
    /// Its number.
    pub number: AgentNo,
    /// As it registered itself, and its presence.
    pub agent: Agent,
    /// What it is doing: what it said, or, if it said nothing, what its load shows.
    pub status: Status,
    /// Deliveries in its inbox that have not ended.
    pub open: usize,
    /// Deliveries that it holds.
    pub leased: usize,
    /// Claims and streams that wait for its deliveries.
    pub listening: usize,
    /// Requests that it waits for the answers to.
    pub asking: usize,
    /// The delivery that it has held for longest.
    pub current: Option<DeliveryNo>,
    /// How many tasks it holds.
    pub tasks: usize,
    /// Its current task: of those that it holds, the one that was made first.
    pub current_task: Option<TaskId>,
    /// Its last sign of life since the hub's start.
    pub heard_at: Timestamp,
    /// When it is taken for offline if no sign of life comes.
    pub offline_at: Option<Timestamp>,
}
