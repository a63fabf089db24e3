//! Why something is where it is.

use quorate::{Error, WaitsFor, Why, WhyNext};
use serde::Deserialize;

use super::{At, strange};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyIn {
    id: String,
    state: String,
    whose: Option<String>,
    since: Option<At>,
    attempt: Option<u16>,
    max_attempts: Option<u16>,
    waits_for: Option<WaitIn>,
    next: Option<String>,
    next_at: Option<At>,
    sentence: String,
    parts: Vec<WhyIn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
enum WaitIn {
    Time,
    Claim { agent: String },
    Ack { agent: String },
    Return { agent: String },
    Resume,
    Answers { agents: Vec<String> },
    Redrive,
    Tasks { tasks: Vec<String> },
    Approval { approval: String },
    Step { agent: String },
}

impl WhyIn {
    pub(crate) fn read(self) -> Result<Why, Error> {
        let next = match self.next.as_deref() {
            None => WhyNext::Nothing,
            Some("given out") => WhyNext::GivenOut,
            Some("given out again") => WhyNext::GivenOutAgain,
            Some("dead letter") => WhyNext::DeadLetter,
            Some("expires") => WhyNext::Expires,
            Some("times out") => WhyNext::TimesOut,
            Some("starts") => WhyNext::Starts,
            Some("given up") => WhyNext::GivenUp,
            Some(other) => return Err(strange(&other)),
        };
        let waits_for = match self.waits_for {
            None => WaitsFor::Nothing,
            Some(WaitIn::Time) => WaitsFor::Time,
            Some(WaitIn::Claim { agent }) => WaitsFor::Claim(agent),
            Some(WaitIn::Ack { agent }) => WaitsFor::Ack(agent),
            Some(WaitIn::Return { agent }) => WaitsFor::Return(agent),
            Some(WaitIn::Resume) => WaitsFor::Resume,
            Some(WaitIn::Answers { agents }) => WaitsFor::Answers(agents),
            Some(WaitIn::Redrive) => WaitsFor::Redrive,
            Some(WaitIn::Tasks { tasks }) => WaitsFor::Tasks(tasks),
            Some(WaitIn::Approval { approval }) => WaitsFor::Approval(approval),
            Some(WaitIn::Step { agent }) => WaitsFor::Step(agent),
        };
        Ok(Why {
            id: self.id,
            state: self.state.into(),
            whose: self.whose,
            since: self.since.map(|at| at.0),
            attempt: self.attempt.zip(self.max_attempts),
            waits_for,
            next,
            next_at: self.next_at.map(|at| at.0),
            sentence: self.sentence,
            parts: self.parts.into_iter().map(Self::read).collect::<Result<_, _>>()?,
        })
    }
}
