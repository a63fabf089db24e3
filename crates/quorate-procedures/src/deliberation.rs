//! The deliberation: findings, conflicts, discussion, vote, synthesis. A machine that is fed with what happens and says what to do.
//!
//! ```text
//! Start ─▶ 1 analysis ─▶ 2 findings are published ─▶ 3 conflicts ─▶ 4 discussion (rounds) ─▶ 5 vote ─▶ synthesis
//! ```
//!
//! Whoever drives it calls [`Deliberation::step`] for each [`Event`] and, in one commit, stores the [`State`] and sends what came [`Out`];
//! what does not fit follows, and after a stop in between it is [`Deliberation::owed`].
//! Read back from the store it goes on where it was: nothing else is remembered, and nobody is asked twice for what is recorded.
//! What was answered is looked at only when all of a phase or round have answered or been given up, so that who is faster
//! decides nothing.

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

/// Something that happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// It begins.
    Start,
    /// An agent answered.
    Answered {
        /// What it was asked.
        ask: AskId,
        /// Who answers.
        from: String,
        /// The bytes of its answer.
        body: Vec<u8>,
        /// What the answer cost, if that is known.
        usage: Option<Usage>,
    },
    /// An agent could not answer.
    Failed {
        /// What it was asked.
        ask: AskId,
        /// Why it could not.
        why: String,
    },
    /// Time went by: [`State::next_wakeup`] is reached.
    Time,
    /// The hub was started again: whoever is waited for gets the full time once more.
    Resumed,
}

/// Something to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Out {
    /// Ask an agent.
    Ask(Ask),
    /// Publish a message.
    Publish(Message),
    /// Something that was passed over; for the journal. It changes nothing.
    Noted(String),
    /// There is an outcome, and nothing more will come.
    Finished(Box<Outcome>),
    /// There is none, and nothing more will come.
    Failed(Box<Failure>),
}

/// The machine: what is deliberated, and how tokens are counted.
#[derive(Clone, Copy, Debug)]
pub struct Deliberation<'a> {
    spec: &'a Spec,
    count: Count,
}

impl<'a> Deliberation<'a> {
    /// A machine for a spec that was checked.
    #[must_use]
    pub fn new(spec: &'a Spec, count: Count) -> Self {
        Self { spec, count }
    }

    /// Takes in what happened; what to do comes out. Store the state in the same commit as what is sent.
    pub fn step(&self, state: &mut State, event: Event, now_ms: u64) -> Vec<Out> {
        let mut step = Step { spec: self.spec, count: self.count, now_ms, state, outs: Vec::new() };
        match event {
            Event::Start => step.start(),
            Event::Answered { ask, from, body, usage } => step.answered(&ask, &from, &body, usage),
            Event::Failed { ask, why } => {
                if step.is_waited_for(&ask) {
                    step.failed(&ask, why);
                }
            }
            Event::Time => step.time(),
            Event::Resumed => step.resumed(),
        }
        step.advance();
        step.outs
    }

    /// What the state says and the record may not: all messages, every question that waits for its answer, how it ended.
    /// For whoever goes on after a stop between two commits of one step.
    #[must_use]
    pub fn owed(&self, state: &State, now_ms: u64) -> Vec<Out> {
        let mut state = state.clone();
        let step = Step { spec: self.spec, count: self.count, now_ms, state: &mut state, outs: Vec::new() };
        let published = step.state.messages.iter().cloned().map(Out::Publish);
        let asked = step.state.asks.keys().filter_map(|id| step.question(id)).map(Out::Ask);
        published.chain(asked).chain(step.end()).collect()
    }
}

/// One step under way.
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
            self.outs.push(Out::Noted("it has begun already".into()));
            return;
        }
        self.begin(Phase::Analysis);
        for member in &self.spec.agents {
            self.ask(&member.id, None, None);
        }
    }

    /// Whether the answer to a question is still waited for; if not, that is noted.
    fn is_waited_for(&mut self, ask: &AskId) -> bool {
        let waited = self.state.asks.contains_key(ask);
        if !waited {
            self.outs
                .push(Out::Noted(format!("{ask} is not waited for: unknown, answered already, or too late")));
        }
        waited
    }

    fn answered(&mut self, ask: &AskId, from: &str, body: &[u8], usage: Option<Usage>) {
        if !self.is_waited_for(ask) {
            return;
        }
        let asked = self.state.asks[ask].clone();
        if asked.agent != from {
            self.outs.push(Out::Noted(format!("{from} answers {ask}, which {} was asked", asked.agent)));
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
            Some(place) => self.read_reply(body, &asked.agent, place).map(|reply| {
                self.state.replies.entry(place).or_default().insert(asked.agent.clone(), reply);
            }),
        };
        match result {
            Ok(()) => {
                self.state.asks.remove(ask);
            }
            Err(wrong) => self.failed(ask, wrong.to_string()),
        }
    }

    /// Asks once more with what was wrong; whoever fails twice is left out.
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

    /// Goes on as long as nobody is waited for.
    fn advance(&mut self) {
        while self.state.asks.is_empty() {
            match self.state.phase {
                Phase::Analysis => self.close_analysis(),
                Phase::Discussion { round } => self.close_round(round),
                Phase::New | Phase::Finished | Phase::Failed => return,
            }
        }
    }

    /// Goes over to another phase.
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
