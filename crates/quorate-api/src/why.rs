//! Explanations: why a resource is in its state, what it waits for, and what happens next.

use quorate_core::{NextTransition as CoreNextTransition, Timestamp, WaitsFor, Why as CoreWhy};
use serde::{Deserialize, Serialize};

/// Explanation of the state of a message, a task, an approval or a procedure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// ID of the explained resource.
    pub id: String,
    /// Current state.
    pub state: String,
    /// Agent that holds the resource or is to claim it, or a pool such as `can:review`.
    pub whose: Option<String>,
    /// Time since which it is in this state, if known.
    pub since: Option<Timestamp>,
    /// Attempt number, starting at 1.
    pub attempt: Option<u16>,
    /// Maximum number of attempts.
    pub max_attempts: Option<u16>,
    /// Condition that it waits for; `null` once it has ended.
    pub waits_for: Option<WaitCondition>,
    /// Next automatic transition; `null` if there is none.
    pub next: Option<NextTransition>,
    /// Time of the next transition, if it is triggered by time alone.
    pub next_at: Option<Timestamp>,
    /// Human-readable explanation.
    pub sentence: String,
    /// Explanations of its parts: the deliveries of a message, the dependencies of a task.
    pub parts: Vec<Explanation>,
}

/// Condition that a resource waits for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum WaitCondition {
    /// A point in time.
    Time,
    /// A claim by the agent.
    Claim {
        /// Agent ID.
        agent: String,
    },
    /// An ack by the agent.
    Ack {
        /// Agent ID.
        agent: String,
    },
    /// The return of the agent, which is offline.
    Return {
        /// Agent ID.
        agent: String,
    },
    /// The resumption of its session, which is paused.
    Resume,
    /// Answers of agents.
    Answers {
        /// Agent IDs.
        agents: Vec<String>,
    },
    /// A redrive of the dead letter.
    Redrive,
    /// The completion of tasks.
    Tasks {
        /// Task IDs.
        tasks: Vec<String>,
    },
    /// A decision about an approval.
    Approval {
        /// Approval ID.
        approval: String,
    },
    /// The next step by the agent that drives the procedure.
    Step {
        /// Agent ID.
        agent: String,
    },
}

/// Next automatic transition of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum NextTransition {
    /// It becomes available for a claim.
    #[serde(rename = "given out")]
    Available,
    /// It is redelivered.
    #[serde(rename = "given out again")]
    Redelivered,
    /// It is dead-lettered.
    #[serde(rename = "dead letter")]
    DeadLetter,
    /// It expires.
    #[serde(rename = "expires")]
    Expires,
    /// The request times out.
    #[serde(rename = "times out")]
    TimesOut,
    /// It becomes ready when its dependencies are done.
    #[serde(rename = "starts")]
    Starts,
    /// It fails: no attempts are left.
    #[serde(rename = "given up")]
    Abandoned,
}

impl From<&CoreWhy> for Explanation {
    fn from(why: &CoreWhy) -> Self {
        Self {
            id: why.id.clone(),
            state: why.state.to_string(),
            whose: why.assignee.clone(),
            since: why.since,
            attempt: why.attempt.map(|(attempt, _)| attempt),
            max_attempts: why.attempt.map(|(_, max)| max),
            waits_for: wait_condition(&why.waits_for),
            next: next_transition(why.next),
            next_at: why.next_at,
            sentence: why.summary.clone(),
            parts: why.parts.iter().map(Into::into).collect(),
        }
    }
}

fn wait_condition(waits_for: &WaitsFor) -> Option<WaitCondition> {
    Some(match waits_for {
        WaitsFor::Nothing => return None,
        WaitsFor::Time => WaitCondition::Time,
        WaitsFor::Claim(agent) => WaitCondition::Claim { agent: agent.clone() },
        WaitsFor::Ack(agent) => WaitCondition::Ack { agent: agent.clone() },
        WaitsFor::Return(agent) => WaitCondition::Return { agent: agent.clone() },
        WaitsFor::Resume => WaitCondition::Resume,
        WaitsFor::Answers(agents) => WaitCondition::Answers { agents: agents.clone() },
        WaitsFor::Redrive => WaitCondition::Redrive,
        WaitsFor::Tasks(tasks) => WaitCondition::Tasks { tasks: tasks.clone() },
        WaitsFor::Approval(approval) => WaitCondition::Approval { approval: approval.clone() },
        WaitsFor::Step(agent) => WaitCondition::Step { agent: agent.clone() },
    })
}

fn next_transition(next: CoreNextTransition) -> Option<NextTransition> {
    Some(match next {
        CoreNextTransition::Nothing => return None,
        CoreNextTransition::BecomesAvailable => NextTransition::Available,
        CoreNextTransition::IsRedelivered => NextTransition::Redelivered,
        CoreNextTransition::DeadLetter => NextTransition::DeadLetter,
        CoreNextTransition::Expires => NextTransition::Expires,
        CoreNextTransition::TimesOut => NextTransition::TimesOut,
        CoreNextTransition::Starts => NextTransition::Starts,
        CoreNextTransition::Fails => NextTransition::Abandoned,
    })
}

impl From<Explanation> for CoreWhy {
    fn from(why: Explanation) -> Self {
        Self {
            id: why.id,
            state: why.state.into(),
            assignee: why.whose,
            since: why.since,
            attempt: why.attempt.zip(why.max_attempts),
            waits_for: why.waits_for.map_or(WaitsFor::Nothing, Into::into),
            next: why.next.map_or(CoreNextTransition::Nothing, Into::into),
            next_at: why.next_at,
            summary: why.sentence,
            parts: why.parts.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<WaitCondition> for WaitsFor {
    fn from(wait: WaitCondition) -> Self {
        match wait {
            WaitCondition::Time => Self::Time,
            WaitCondition::Claim { agent } => Self::Claim(agent),
            WaitCondition::Ack { agent } => Self::Ack(agent),
            WaitCondition::Return { agent } => Self::Return(agent),
            WaitCondition::Resume => Self::Resume,
            WaitCondition::Answers { agents } => Self::Answers(agents),
            WaitCondition::Redrive => Self::Redrive,
            WaitCondition::Tasks { tasks } => Self::Tasks(tasks),
            WaitCondition::Approval { approval } => Self::Approval(approval),
            WaitCondition::Step { agent } => Self::Step(agent),
        }
    }
}

impl From<NextTransition> for CoreNextTransition {
    fn from(next: NextTransition) -> Self {
        match next {
            NextTransition::Available => Self::BecomesAvailable,
            NextTransition::Redelivered => Self::IsRedelivered,
            NextTransition::DeadLetter => Self::DeadLetter,
            NextTransition::Expires => Self::Expires,
            NextTransition::TimesOut => Self::TimesOut,
            NextTransition::Starts => Self::Starts,
            NextTransition::Abandoned => Self::Fails,
        }
    }
}
