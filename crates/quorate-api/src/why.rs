//! Explanations: what something waits for, what happens next, and when.

use quorate_core::{Timestamp, WaitsFor, Why as CoreWhy, WhyNext};
use serde::{Deserialize, Serialize};

/// Why a message, a task, an approval or a procedure is in its state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The subject.
    pub id: String,
    /// Its state.
    pub state: String,
    /// The agent, or the pool such as `can:review`, that holds it or is to claim it.
    pub whose: Option<String>,
    /// Since when it is in that state, if known.
    pub since: Option<Timestamp>,
    /// The attempt number, starting at 1.
    pub attempt: Option<u16>,
    /// Attempts before it is given up.
    pub max_attempts: Option<u16>,
    /// What it waits for; `null` once it has ended.
    pub waits_for: Option<Wait>,
    /// What happens next without anyone's action; `null` for nothing.
    pub next: Option<NextStep>,
    /// When that happens, if time alone brings it about.
    pub next_at: Option<Timestamp>,
    /// The explanation as text.
    pub sentence: String,
    /// Its parts: the deliveries of a message, the dependencies of a task.
    pub parts: Vec<Why>,
}

/// What something waits for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Wait {
    /// A point in time.
    Time,
    /// A claim by the agent.
    Claim {
        /// The agent.
        agent: String,
    },
    /// An ack by the agent.
    Ack {
        /// The agent.
        agent: String,
    },
    /// The agent, which is offline.
    Return {
        /// The agent.
        agent: String,
    },
    /// Its session, which is paused.
    Resume,
    /// Responses of the agents.
    Answers {
        /// The agents.
        agents: Vec<String>,
    },
    /// A redrive of the dead letter.
    Redrive,
    /// The completion of tasks.
    Tasks {
        /// The tasks.
        tasks: Vec<String>,
    },
    /// A decision about an approval.
    Approval {
        /// The approval.
        approval: String,
    },
    /// The next step by the agent that drives it.
    Step {
        /// The agent.
        agent: String,
    },
}

/// What happens next without anyone's action.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum NextStep {
    /// It can be claimed.
    #[serde(rename = "given out")]
    Available,
    /// It can be claimed again.
    #[serde(rename = "given out again")]
    Redelivered,
    /// It becomes a dead letter.
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
    /// It fails: this was the last attempt.
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
