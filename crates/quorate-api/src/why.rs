//! Explanations: why a resource is in its state, what it waits for, and what happens next.

use quorate_core::{Timestamp, WaitsFor, Why as CoreWhy, WhyNext};
use serde::{Deserialize, Serialize};

/// Explanation of the state of a message, a task, an approval or a procedure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Why {
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
    pub waits_for: Option<Wait>,
    /// Next automatic transition; `null` if there is none.
    pub next: Option<NextStep>,
    /// Time of the next transition, if it is triggered by time alone.
    pub next_at: Option<Timestamp>,
    /// Human-readable explanation.
    pub sentence: String,
    /// Explanations of its parts: the deliveries of a message, the dependencies of a task.
    pub parts: Vec<Why>,
}

/// Condition that a resource waits for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Wait {
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
    /// Responses of agents.
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
pub enum NextStep {
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
    GivenUp,
}

impl From<&CoreWhy> for Why {
    fn from(why: &CoreWhy) -> Self {
        Self {
            id: why.id.clone(),
            state: why.state.to_string(),
            whose: why.whose.clone(),
            since: why.since,
            attempt: why.attempt.map(|(attempt, _)| attempt),
            max_attempts: why.attempt.map(|(_, max)| max),
            waits_for: wait(&why.waits_for),
            next: next_step(why.next),
            next_at: why.next_at,
            sentence: why.sentence.clone(),
            parts: why.parts.iter().map(Into::into).collect(),
        }
    }
}

fn wait(waits_for: &WaitsFor) -> Option<Wait> {
    Some(match waits_for {
        WaitsFor::Nothing => return None,
        WaitsFor::Time => Wait::Time,
        WaitsFor::Claim(agent) => Wait::Claim { agent: agent.clone() },
        WaitsFor::Ack(agent) => Wait::Ack { agent: agent.clone() },
        WaitsFor::Return(agent) => Wait::Return { agent: agent.clone() },
        WaitsFor::Resume => Wait::Resume,
        WaitsFor::Answers(agents) => Wait::Answers { agents: agents.clone() },
        WaitsFor::Redrive => Wait::Redrive,
        WaitsFor::Tasks(tasks) => Wait::Tasks { tasks: tasks.clone() },
        WaitsFor::Approval(approval) => Wait::Approval { approval: approval.clone() },
        WaitsFor::Step(agent) => Wait::Step { agent: agent.clone() },
    })
}

fn next_step(next: WhyNext) -> Option<NextStep> {
    Some(match next {
        WhyNext::Nothing => return None,
        WhyNext::GivenOut => NextStep::Available,
        WhyNext::GivenOutAgain => NextStep::Redelivered,
        WhyNext::DeadLetter => NextStep::DeadLetter,
        WhyNext::Expires => NextStep::Expires,
        WhyNext::TimesOut => NextStep::TimesOut,
        WhyNext::Starts => NextStep::Starts,
        WhyNext::GivenUp => NextStep::GivenUp,
    })
}

impl From<Why> for CoreWhy {
    fn from(why: Why) -> Self {
        Self {
            id: why.id,
            state: why.state.into(),
            whose: why.whose,
            since: why.since,
            attempt: why.attempt.zip(why.max_attempts),
            waits_for: why.waits_for.map_or(WaitsFor::Nothing, Into::into),
            next: why.next.map_or(WhyNext::Nothing, Into::into),
            next_at: why.next_at,
            sentence: why.sentence,
            parts: why.parts.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Wait> for WaitsFor {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::Time => Self::Time,
            Wait::Claim { agent } => Self::Claim(agent),
            Wait::Ack { agent } => Self::Ack(agent),
            Wait::Return { agent } => Self::Return(agent),
            Wait::Resume => Self::Resume,
            Wait::Answers { agents } => Self::Answers(agents),
            Wait::Redrive => Self::Redrive,
            Wait::Tasks { tasks } => Self::Tasks(tasks),
            Wait::Approval { approval } => Self::Approval(approval),
            Wait::Step { agent } => Self::Step(agent),
        }
    }
}

impl From<NextStep> for WhyNext {
    fn from(next: NextStep) -> Self {
        match next {
            NextStep::Available => Self::GivenOut,
            NextStep::Redelivered => Self::GivenOutAgain,
            NextStep::DeadLetter => Self::DeadLetter,
            NextStep::Expires => Self::Expires,
            NextStep::TimesOut => Self::TimesOut,
            NextStep::Starts => Self::Starts,
            NextStep::GivenUp => Self::GivenUp,
        }
    }
}
