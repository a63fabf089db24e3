//! The deliberation procedure: findings, conflicts, discussion, vote, synthesis. A state machine that maps events to
//! outputs.
//!
//! ```text
//! Start ─▶ 1 analysis ─▶ 2 findings are published ─▶ 3 conflicts ─▶ 4 discussion (rounds) ─▶ 5 vote ─▶ synthesis
//! ```
//!
//! The driver calls [`Deliberation::step`] for each [`Event`] and stores the [`State`] in the same commit that sends
//! the outputs. Outputs that do not fit follow in later commits; after a crash in between,
//! [`Deliberation::pending_outputs`] returns them. The state is complete: a machine restored from the store continues
//! where it stopped and repeats no recorded question. Answers are evaluated only when every agent of a phase or round
//! has answered or failed, so response times do not affect the result.

mod analysis;
mod ask;
mod compare;
mod consensus;
mod discussion;
mod estimate;
mod figures;
mod message;
mod outcome;
mod reply;
mod schema;
mod spec;
mod state;
mod strategy;
mod synthesis;
mod vote;

#[cfg(test)]
mod tests;

use crate::finding;
use crate::tokens::Count;

pub use ask::{ANALYSE, Ask, DISCUSS};
pub use compare::{Choice, Compared, Counted, compare};
pub use estimate::{Estimate, Expected, ExpectedPhase, FINDING_TOKENS, Range, estimate};
pub use figures::{Figures, LOCAL, Spent, Usage, Used};
pub use message::{COORDINATOR, Message, MessageType};
pub use outcome::{Decision, Failure, Gathered, How, Outcome, Quorum};
pub use spec::{AGENTS_MAX, Level, Limits, Member, NotAsked, Provider, Score, Spec};
pub use state::{AskId, Change, Missing, Phase, State};
pub use strategy::{Demand, Need};
pub use synthesis::{Flagged, RankedIssue, Scored, Sentence, Synthesis};

/// Input of the state machine.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// Starts the deliberation.
    Start,
    /// An agent answered.
    Answered {
        /// The question that is answered.
        ask: AskId,
        /// The agent that answers.
        from: String,
        /// Body of the answer.
        body: Vec<u8>,
        /// Reported usage of the answer, if any.
        usage: Option<Usage>,
    },
    /// An agent failed to answer.
    Failed {
        /// The question that failed.
        ask: AskId,
        /// Reason of the failure.
        why: String,
    },
    /// The deadline returned by [`State::next_wakeup`] was reached.
    Time,
    /// The hub was restarted: pending questions get their full timeout again.
    Resumed,
}

/// Output of the state machine.
#[derive(Clone, PartialEq, Debug)]
pub enum Out {
    /// Sends a question to an agent.
    Ask(Ask),
    /// Publishes a message.
    Publish(Message),
    /// An event was ignored, with the reason; for logging only.
    Noted(String),
    /// The deliberation finished with an outcome. No further outputs follow.
    Finished(Box<Outcome>),
    /// The deliberation failed. No further outputs follow.
    Failed(Box<Failure>),
}

/// The state machine, for one spec and one token counter.
#[derive(Clone, Copy, Debug)]
pub struct Deliberation<'a> {
    spec: &'a Spec,
    count: Count,
}

impl<'a> Deliberation<'a> {
    /// Creates a machine for a spec that passed [`Spec::check`].
    #[must_use]
    pub fn new(spec: &'a Spec, count: Count) -> Self {
        Self { spec, count }
    }

    /// Processes an event and returns the outputs. Store the state in the same commit that sends them.
    pub fn step(&self, state: &mut State, event: Event, now_ms: u64) -> Vec<Out> {
        let mut step = Step { spec: self.spec, count: self.count, now_ms, state, outs: Vec::new() };
        match event {
            Event::Start => step.start(),
            Event::Answered { ask, from, body, usage } => step.answered(&ask, &from, &body, usage),
            Event::Failed { ask, why } => {
                if step.is_pending(&ask) {
                    step.failed(&ask, why);
                }
            }
            Event::Time => step.time(),
            Event::Resumed => step.resumed(),
        }
        step.advance();
        step.outs
    }

    /// Returns all outputs that the state implies: every message, every pending question, and the final result. After a
    /// crash between two commits of one step, the driver sends those that were not recorded.
    #[must_use]
    pub fn owed(&self, state: &State, now_ms: u64) -> Vec<Out> {
        let mut state = state.clone();
        let step = Step { spec: self.spec, count: self.count, now_ms, state: &mut state, outs: Vec::new() };
        let published = step.state.messages.iter().cloned().map(Out::Publish);
        let asked = step.state.asks.keys().filter_map(|id| step.question(id)).map(Out::Ask);
        published.chain(asked).chain(step.end()).collect()
    }
}

/// A step in progress.
struct Step<'a> {
    spec: &'a Spec,
    count: Count,
    now_ms: u64,
    state: &'a mut State,
    outs: Vec<Out>,
}

impl Step<'_> {
    fn start(&mut self) {
        if self.state.phase != Phase::New {
            self.outs.push(Out::Noted("already started".into()));
            return;
        }
        self.begin(Phase::Analysis);
        for member in &self.spec.agents {
            self.ask(&member.id, None, None);
        }
    }

    /// Whether the question is pending; if not, reports the event as ignored.
    fn is_pending(&mut self, ask: &AskId) -> bool {
        let pending = self.state.asks.contains_key(ask);
        if !pending {
            self.outs
                .push(Out::Noted(format!("{ask} is not pending: unknown, already answered, or too late")));
        }
        pending
    }

    fn answered(&mut self, ask: &AskId, from: &str, body: &[u8], usage: Option<Usage>) {
        if !self.is_pending(ask) {
            return;
        }
        let asked = self.state.asks[ask].clone();
        if asked.agent != from {
            self.outs
                .push(Out::Noted(format!("{from} answered {ask}, which is addressed to {}", asked.agent)));
            return;
        }
        self.spend(&asked.agent, usage);
        if let Some(why) = reply::declined(body) {
            return self.failed(ask, why);
        }
        let result = match asked.conflict {
            None => finding::read(body, &self.spec.words).map(|finding| {
                self.state.findings.insert(asked.agent.clone(), finding);
            }),
            Some(index) => self.read_reply(body, &asked.agent, index).map(|reply| {
                self.state.replies.entry(index).or_default().insert(asked.agent.clone(), reply);
            }),
        };
        match result {
            Ok(()) => {
                self.state.asks.remove(ask);
            }
            Err(wrong) => self.failed(ask, wrong.to_string()),
        }
    }

    /// Asks the agent once more with the error; an agent that fails twice is excluded.
    fn failed(&mut self, ask: &AskId, why: String) {
        let Some(asked) = self.state.asks.remove(ask) else { return };
        match asked.again {
            None => self.ask(&asked.agent, asked.conflict, Some(why)),
            Some(first) => self.state.missing.push(Missing {
                agent: asked.agent,
                asked: ask.clone(),
                conflict: asked.conflict.map(state::name_of),
                why: vec![first, why],
            }),
        }
    }

    fn time(&mut self) {
        let late = self.state.asks.iter().filter(|(_, asked)| asked.due_ms <= self.now_ms);
        let late: Vec<(AskId, u64)> =
            late.map(|(id, asked)| (id.clone(), self.within_ms(asked.conflict))).collect();
        for (ask, within_ms) in late {
            self.failed(&ask, format!("no answer within {} s", figures::seconds(within_ms)));
        }
    }

    fn resumed(&mut self) {
        let (analysis, message) = (self.within_ms(None), self.within_ms(Some(0)));
        for asked in self.state.asks.values_mut() {
            asked.due_ms = self.now_ms + if asked.conflict.is_some() { message } else { analysis };
        }
    }

    /// Advances the phase while no question is pending.
    fn advance(&mut self) {
        while self.state.asks.is_empty() {
            match self.state.phase {
                Phase::Analysis => self.close_analysis(),
                Phase::Discussion { round } => self.close_round(round),
                Phase::New | Phase::Finished | Phase::Failed => return,
            }
        }
    }

    /// Switches to another phase.
    fn begin(&mut self, phase: Phase) {
        self.state.figures.end(self.state.phase, self.now_ms.saturating_sub(self.state.since_ms));
        self.state.phase = phase;
        self.state.since_ms = self.now_ms;
    }

    fn spend(&mut self, agent: &str, usage: Option<Usage>) {
        let provider =
            self.spec.agents.get(self.spec.place(agent)).and_then(|member| member.provider.clone());
        let provider = provider.unwrap_or_else(|| LOCAL.to_owned());
        self.state.figures.spend(self.state.phase, provider, usage, self.spec);
    }
}
