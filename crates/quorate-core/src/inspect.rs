//! Inspection of the state at the head: data that only the writer has, such as waiting consumers and lease deadlines.

use crate::ids::{AgentId, AgentNo, ApprovalId, DeliveryNo, LockName, ProcedureId, Seq, TaskId};
use crate::item::ItemKey;
use crate::message::Priority;
use crate::presence::{AbsentAgent, AgentStatus, LastSeen, describe_absent};
use crate::procedure::ProcedureStatus;
use crate::registry::{Agent, AgentRole};
use crate::request::Request;
use crate::stuck::StuckWork;
use crate::time::Timestamp;
use crate::working::OpenDelivery;

/// A query on the state at the head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inspect {
    /// Deliveries by number, and the open request of a message, if any.
    Deliveries {
        /// Position of the request's message: its record, and its index within that record.
        message: Option<(Seq, u32)>,
        /// Number of the first delivery.
        first: DeliveryNo,
        /// Number of deliveries.
        count: u32,
    },
    /// The open deliveries of one inbox, by number.
    Inbox {
        /// The agent.
        agent: AgentId,
        /// Cursor: only deliveries after this number.
        after: DeliveryNo,
        /// Maximum number of results.
        limit: usize,
    },
    /// Agents with their load, by number. Removed agents are left out.
    Agents {
        /// Selection of agents.
        filter: AgentFilter,
        /// Cursor: only agents after this number.
        after: AgentNo,
        /// Maximum number of results.
        limit: usize,
    },
    /// Work that waits for agents that are gone, or that do not exist, or that they hold.
    Stuck {
        /// Maximum number of results.
        limit: usize,
    },
    /// The lease of an open task, and whether the agents that it waits for are gone.
    Task(TaskId),
    /// What a running procedure waits for, and whether its driver is gone.
    Procedure(ProcedureId),
    /// The number of agents that wait for each of these locks.
    LockQueueLengths(Vec<LockName>),
    /// The agents that wait for a lock, first to last.
    LockQueue {
        /// Name of the lock.
        name: LockName,
        /// Maximum number of results.
        limit: usize,
    },
}

/// A filter on agents. Omitted fields match every agent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentFilter {
    /// Id of the agent.
    pub id: Option<AgentId>,
    /// A capability that the agent has.
    pub capability: Option<String>,
    /// An action that the agent supports.
    pub action: Option<String>,
    /// Role of the agent.
    pub role: Option<AgentRole>,
    /// Status, as reported by the agent or derived from its load.
    pub status: Option<AgentStatus>,
}

impl AgentFilter {
    /// Whether an agent matches every field except `status`.
    pub(crate) fn matches_registration(&self, agent: &Agent) -> bool {
        !agent.removed
            && self.id.as_ref().is_none_or(|id| *id == agent.id)
            && self.capability.as_ref().is_none_or(|capability| agent.capabilities.contains(capability))
            && self.action.as_ref().is_none_or(|action| agent.supported_actions.contains(action))
            && self.role.is_none_or(|role| role == agent.role)
    }
}

/// The result of an [`Inspect`] query.
#[derive(Clone, PartialEq, Debug)]
pub enum InspectResult {
    /// Result of [`Inspect::Deliveries`].
    Deliveries {
        /// The deliveries, in order; `None` for one that is not open.
        deliveries: Vec<Option<DeliveryInspection>>,
        /// The open request of the message, and its deadline.
        request: Option<(Request, Timestamp)>,
    },
    /// Result of [`Inspect::Inbox`].
    Inbox(Vec<DeliveryInspection>),
    /// Result of [`Inspect::Agents`].
    Agents(Vec<AgentInspection>),
    /// Result of [`Inspect::Stuck`].
    Stuck(Vec<StuckWork>),
    /// Result of [`Inspect::Task`].
    Task(TaskInspection),
    /// Result of [`Inspect::Procedure`].
    Procedure(ProcedureInspection),
    /// Result of [`Inspect::LockQueueLengths`], in the order of the names.
    LockQueueLengths(Vec<usize>),
    /// Result of [`Inspect::LockQueue`].
    LockQueue(Vec<LockWait>),
}

/// The runtime state of a task.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskInspection {
    /// Time at which its lease ends.
    pub lease_until: Option<Timestamp>,
    /// How its holder is gone, or the agents that could claim it; empty if there are none. `None` if one of them is present,
    /// or if it waits for something else.
    pub absent: Option<Vec<AbsentAgent>>,
}

/// What a running procedure waits for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcedureInspection {
    /// How its driver is gone; `None` if it is present.
    pub absent_driver: Option<AbsentAgent>,
    /// Answers, tasks, decisions and children that it waits for, up to a number; first those that nobody will do soon.
    pub waits: Vec<ProcedureWait>,
    /// Number of those that are left out.
    pub more: usize,
}

/// Something that a procedure waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcedureWait {
    /// What it waits for.
    pub subject: ProcedureWaitSubject,
    /// How all agents are gone that could do it; empty if there are none. `None` if one of them is present.
    pub absent: Option<Vec<AbsentAgent>>,
}

/// What a procedure waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProcedureWaitSubject {
    /// The answer to a request of its driver.
    Answer {
        /// The recipient: an agent, or a pool such as `can:review`.
        of: String,
    },
    /// The end of a task.
    Task {
        /// The task.
        task: TaskId,
        /// The agent that holds it or is to do it, or a capability such as `can:sum`.
        of: String,
    },
    /// The decision on an approval request.
    Decision(ApprovalId),
    /// The end of a child.
    Child(ProcedureId, ProcedureStatus),
}

impl ProcedureWait {
    /// Describes it, such as `the answer of risk: risk is offline`.
    #[must_use]
    pub fn describe(&self, now: Timestamp) -> String {
        let (what, of) = match &self.subject {
            ProcedureWaitSubject::Answer { of } => (format!("the answer of {of}"), of.as_str()),
            ProcedureWaitSubject::Task { task, of } => (format!("task {task} of {of}"), of.as_str()),
            ProcedureWaitSubject::Decision(approval) => (format!("a decision on approval {approval}"), ""),
            ProcedureWaitSubject::Child(child, status) => {
                (format!("procedure {child}, which is {}", status.as_str()), "")
            }
        };
        match &self.absent {
            None => what,
            Some(absent) => format!("{what} ({})", describe_absent(absent, of, now)),
        }
    }
}

/// A request that waits for a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockWait {
    /// The waiting agent.
    pub agent: AgentId,
    /// Its priority in the queue.
    pub priority: Priority,
    /// All locks that it requested, sorted by name.
    pub names: Vec<LockName>,
    /// Start of the wait.
    pub since: Timestamp,
}

/// An open delivery with its runtime state.
#[derive(Clone, PartialEq, Debug)]
pub struct DeliveryInspection {
    /// Number of the delivery.
    pub number: DeliveryNo,
    /// Its current state.
    pub open: OpenDelivery,
    /// The recipient: an agent, or a pool such as `can:review`.
    pub to: String,
    /// The recipient agent, or the agent that leased it from a pool.
    pub agent: Option<AgentId>,
    /// Whether that agent is unavailable.
    pub is_unavailable: bool,
    /// How that agent is gone, or all agents that could claim it from a pool; empty if there are none. `None` if one of them is
    /// present.
    pub absent: Option<Vec<AbsentAgent>>,
    /// Number of claims and streams that wait for deliveries of that agent.
    pub consumers: usize,
    /// Number of deliveries ahead of it in the queue. Only set for a ready delivery that is the only result.
    pub ahead: Option<usize>,
    /// The paused session or procedure that holds it.
    pub held_by: Option<ItemKey>,
    /// Start of the lease, if known since the hub's start, and its deadline.
    pub lease_period: Option<(Option<Timestamp>, Timestamp)>,
}

impl DeliveryInspection {
    /// Returns the agent that holds the delivery, or its recipient.
    #[must_use]
    pub fn holder_or_recipient(&self) -> &str {
        self.agent.as_ref().map_or(&self.to, AgentId::as_str)
    }
}

/// An agent and its load.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentInspection {
    /// Number of the agent.
    pub number: AgentNo,
    /// The registration and presence.
    pub agent: Agent,
    /// The reported status, or, if that is `idle`, the status derived from the load.
    pub status: AgentStatus,
    /// Number of open deliveries in its inbox, and of those that it leases from capability pools.
    pub open_deliveries: usize,
    /// Number of deliveries leased to it.
    pub leased_deliveries: usize,
    /// Number of claims and streams that wait for its deliveries.
    pub consumers: usize,
    /// Number of its requests that wait for a reply.
    pub open_requests: usize,
    /// The leased delivery with the lowest number.
    pub current_delivery: Option<DeliveryNo>,
    /// Number of tasks leased to it.
    pub leased_tasks: usize,
    /// The oldest task that is leased to it.
    pub current_task: Option<TaskId>,
    /// Its last activity.
    pub last_seen: LastSeen,
    /// Time at which it goes offline without further activity.
    pub offline_at: Option<Timestamp>,
    /// Time at which its last connection was closed, unless it has acted since.
    pub disconnected_at: Option<Timestamp>,
}
