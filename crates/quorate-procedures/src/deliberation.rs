//! The deliberation procedure: findings, conflicts, discussion, vote, synthesis. A state machine that maps events to
//! outputs.
//!
//! ```text
//! Start ─▶ 1 analysis ─▶ 2 findings are published ─▶ 3 conflicts ─▶ 4 discussion (rounds) ─▶ 5 vote ─▶ synthesis
//! ```
//!
//! The driver calls [`Deliberation::step`] for each [`Input`] and stores the [`DeliberationState`] in the same commit
//! that sends the outputs. Outputs that do not fit follow in later commits; after a crash in between,
//! [`Deliberation::pending_outputs`] returns them. The state is complete: a machine restored from the store continues
//! where it stopped and repeats no recorded request. Answers are evaluated only when every agent of a phase or round
//! has answered or failed, so response times do not affect the result.

mod analysis;
mod ask;
mod consensus;
mod discussion;
mod estimate;
mod machine;
mod message;
mod outcome;
mod reply;
mod rule_comparison;
mod schema;
mod spec;
mod state;
mod strategy;
mod synthesis;
mod usage;
mod visibility;
mod vote;

#[cfg(test)]
mod tests;

use crate::finding;
use crate::tokens::TokenCounter;

pub use ask::{ANALYSE, Ask, DISCUSS};
pub use estimate::{Bounds, Estimate, FINDING_TOKENS, PhaseEstimate, ProviderEstimate, estimate};
pub use machine::DeliberationMachine;
pub use message::{COORDINATOR, DeliberationMessage, DeliberationMessageType};
pub use outcome::{
    ConflictResolution, DeliberationRecord, FailedDeliberation, Outcome, Quorum, ResolutionMethod,
};
pub use rule_comparison::{RuleComparison, RuleResult, TallySummary, compare_rules};
pub use spec::{
    AGENTS_MAX, DeliberationLimits, ExcludedAgent, Member, ProviderSpec, ScoreLevel, ScoreSpec, Spec,
};
pub use state::{AskId, DeliberationState, MissingAnswer, Phase, PositionChange};
pub use strategy::{Demand, DemandPriority};
pub use synthesis::{IssueReport, RankedIssue, ScoreResult, Sentence, Synthesis};
pub use usage::{LOCAL_PROVIDER, PhaseUsage, ProviderUsage, ReportedUsage, UsageStats};
pub use visibility::visible_state;

/// Input of the state machine.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// Starts the deliberation.
    Start,
    /// An agent answered.
    Answered {
        /// The request that is answered.
        ask: AskId,
        /// The agent that answers.
        from: String,
        /// Body of the answer.
        body: Vec<u8>,
        /// Reported usage of the answer, if any.
        usage: Option<ReportedUsage>,
    },
    /// An agent failed to answer. Counts as a call: its usage is unknown.
    Failed {
        /// The request that failed.
        ask: AskId,
        /// Reason of the failure.
        why: String,
    },
    /// A request could not be sent, so the agent was not called.
    Unsent {
        /// The request.
        ask: AskId,
        /// Reason of the failure.
        why: String,
    },
    /// The deadline returned by [`DeliberationState::next_wakeup`] was reached.
    DeadlineReached,
    /// The hub was restarted: pending requests get their full timeout again.
    Resumed,
}

/// Output of the state machine.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Sends a request to an agent.
    Ask(Ask),
    /// Publishes a message.
    Publish(DeliberationMessage),
    /// An event was ignored, with the reason; for logging only.
    Ignored(String),
    /// The deliberation finished with an outcome. No further outputs follow.
    Finished(Box<Outcome>),
    /// The deliberation failed. No further outputs follow.
    Failed(Box<FailedDeliberation>),
}

/// The state machine, for one spec and one token counter.
#[derive(Clone, Copy, Debug)]
pub struct Deliberation<'a> {
    spec: &'a Spec,
    count_tokens: TokenCounter,
}

impl<'a> Deliberation<'a> {
    /// Creates a machine for a spec that passed [`Spec::check`].
    #[must_use]
    pub fn new(spec: &'a Spec, count_tokens: TokenCounter) -> Self {
        Self { spec, count_tokens }
    }

    /// Processes an event and returns the outputs. Store the state in the same commit that sends them.
    pub fn step(&self, state: &mut DeliberationState, event: Input, now_ms: u64) -> Vec<Output> {
        let mut step =
            Step { spec: self.spec, count_tokens: self.count_tokens, now_ms, state, outputs: Vec::new() };
        match event {
            Input::Start => step.start(),
            Input::Answered { ask, from, body, usage } => step.record_answer(&ask, &from, &body, usage),
            Input::Failed { ask, why: reason } => {
                if step.is_pending(&ask) {
                    step.record_unanswered(&ask, reason);
                }
            }
            Input::Unsent { ask, why: reason } => {
                if step.is_pending(&ask) {
                    step.record_failure(&ask, reason);
                }
            }
            Input::DeadlineReached => step.expire_asks(),
            Input::Resumed => step.extend_deadlines(),
        }
        step.advance();
        step.outputs
    }

    /// Returns all outputs that the state implies: every message, every pending request, and the final result. After a
    /// crash between two commits of one step, the driver sends those that were not recorded.
    #[must_use]
    pub fn pending_outputs(&self, state: &DeliberationState, now_ms: u64) -> Vec<Output> {
        let mut state = state.clone();
        let step = Step {
            spec: self.spec,
            count_tokens: self.count_tokens,
            now_ms,
            state: &mut state,
            outputs: Vec::new(),
        };
        let published = step.state.messages.iter().cloned().map(Output::Publish);
        let requests = step.state.asks.keys().filter_map(|id| step.render_ask(id)).map(Output::Ask);
        published.chain(requests).chain(step.final_output()).collect()
    }
}

/// A step in progress.
struct Step<'a> {
    spec: &'a Spec,
    count_tokens: TokenCounter,
    now_ms: u64,
    state: &'a mut DeliberationState,
    outputs: Vec<Output>,
}

impl Step<'_> {
    fn start(&mut self) {
        if self.state.phase != Phase::New {
            self.outputs.push(Output::Ignored("already started".into()));
            return;
        }
        self.enter_phase(Phase::Analysis);
        for member in &self.spec.agents {
            self.ask(&member.id, None, None);
        }
    }

    /// Whether the request is pending; if not, reports the event as ignored.
    fn is_pending(&mut self, ask: &AskId) -> bool {
        let pending = self.state.asks.contains_key(ask);
        if !pending {
            self.outputs.push(Output::Ignored(format!(
                "{ask} is not pending: unknown, already answered, or too late"
            )));
        }
        pending
    }

    fn record_answer(&mut self, ask: &AskId, from: &str, body: &[u8], usage: Option<ReportedUsage>) {
        if !self.is_pending(ask) {
            return;
        }
        let pending_ask = self.state.asks[ask].clone();
        if pending_ask.agent != from {
            self.outputs.push(Output::Ignored(format!(
                "{from} answered {ask}, which is addressed to {}",
                pending_ask.agent
            )));
            return;
        }
        self.record_usage(&pending_ask.agent, usage);
        if let Some(reason) = reply::decline_reason(body) {
            return self.record_failure(ask, reason);
        }
        let result = match pending_ask.conflict {
            None => finding::parse(body, &self.spec.vocabulary).map(|finding| {
                self.state.findings.insert(pending_ask.agent.clone(), finding);
            }),
            Some(index) => self.parse_reply(body, &pending_ask.agent, index).map(|reply| {
                self.state.replies.entry(index).or_default().insert(pending_ask.agent.clone(), reply);
            }),
        };
        match result {
            Ok(()) => {
                self.state.asks.remove(ask);
            }
            Err(error) => self.record_failure(ask, error.to_string()),
        }
    }

    /// Records a failure of an agent that was asked and did not answer.
    fn record_unanswered(&mut self, ask: &AskId, reason: String) {
        if let Some(pending_ask) = self.state.asks.get(ask) {
            let agent = pending_ask.agent.clone();
            self.record_usage(&agent, None);
        }
        self.record_failure(ask, reason);
    }

    /// Asks the agent once more with the error; an agent that fails twice is excluded.
    fn record_failure(&mut self, ask: &AskId, reason: String) {
        let Some(pending_ask) = self.state.asks.remove(ask) else { return };
        match pending_ask.first_error {
            None => self.ask(&pending_ask.agent, pending_ask.conflict, Some(reason)),
            Some(first_error) => self.state.missing.push(MissingAnswer {
                agent: pending_ask.agent,
                asked: ask.clone(),
                conflict: pending_ask.conflict.map(state::conflict_id),
                why: vec![first_error, reason],
            }),
        }
    }

    fn expire_asks(&mut self) {
        let expired = self.state.asks.iter().filter(|(_, pending_ask)| pending_ask.due_at_ms <= self.now_ms);
        let expired: Vec<(AskId, u64)> =
            expired.map(|(id, pending_ask)| (id.clone(), self.timeout_ms(pending_ask.conflict))).collect();
        for (ask, timeout_ms) in expired {
            self.record_unanswered(&ask, format!("no answer within {} s", usage::format_seconds(timeout_ms)));
        }
    }

    fn extend_deadlines(&mut self) {
        let (analysis, message) = (self.timeout_ms(None), self.timeout_ms(Some(0)));
        for pending_ask in self.state.asks.values_mut() {
            pending_ask.due_at_ms =
                self.now_ms + if pending_ask.conflict.is_some() { message } else { analysis };
        }
    }

    /// Advances the phase while no request is pending.
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
    fn enter_phase(&mut self, phase: Phase) {
        self.state
            .figures
            .add_duration(self.state.phase, self.now_ms.saturating_sub(self.state.phase_started_at_ms));
        self.state.phase = phase;
        self.state.phase_started_at_ms = self.now_ms;
    }

    fn record_usage(&mut self, agent: &str, usage: Option<ReportedUsage>) {
        let provider =
            self.spec.agents.get(self.spec.agent_index(agent)).and_then(|member| member.provider.clone());
        let provider = provider.unwrap_or_else(|| LOCAL_PROVIDER.to_owned());
        self.state.figures.add_answer(self.state.phase, provider, usage, self.spec);
    }
}
