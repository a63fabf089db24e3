//! Follows a running deliberation and prints its phases to stderr.

use std::collections::BTreeSet;

use quorate::deliberation::{DeliberationState, Outcome, Phase, Spec};
use quorate::{Hub, ProcedureInfo};
use quorate_agents::{DeclaredAgent, UseSpec};
use quorate_procedures::conflict::ConflictKind;

use super::POLL_INTERVAL;
use super::progress::{Progress, note_line};
use crate::output::plural;
use crate::terminal::{note, sanitize_line, wrap};

/// Width of the values in the header.
const HEADER_COLUMNS: usize = 68;

/// Prints the question and the agents of a run.
pub(crate) fn print_header(what: &str, spec: &Spec, agents: &[DeclaredAgent]) {
    note(format!("Quorate {}   {}", env!("CARGO_PKG_VERSION"), sanitize_line(what)));
    for (index, line) in wrap(&sanitize_line(&spec.subject), HEADER_COLUMNS).iter().enumerate() {
        note(format!("{:<10} {line}", if index == 0 { "question" } else { "" }));
    }
    let count = spec.agents.len();
    if agents.iter().all(|agent| matches!(agent.declared, UseSpec::Heuristic(_))) {
        note(format!("agents     {count} local heuristics: no LLM, no key, no network"));
    } else {
        note(format!("agents     {count}"));
    }
    let names: Vec<&str> = spec.agents.iter().map(|member| member.id.as_str()).collect();
    let idle = spec.not_asked.iter().map(|idle| format!("{} not asked: {}", idle.agent, idle.why));
    for text in std::iter::once(names.join(", ")).chain(idle) {
        for line in wrap(&sanitize_line(&text), HEADER_COLUMNS) {
            note(format!("           {line}"));
        }
    }
}

/// Waits until a deliberation is done, and prints its phases.
pub(super) async fn wait_until_done(hub: &Hub, id: &str, spec: &Spec) -> anyhow::Result<ProcedureInfo> {
    let mut reported = Reported { progress: Progress::new(), found: false, round: 0, asked: 0 };
    loop {
        let procedure = hub.procedure(id).await?;
        if let Some(state) = procedure.state::<DeliberationState>()? {
            reported.update(&state, spec);
        }
        if procedure.procedure().status.has_ended() {
            return Ok(procedure);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Progress that was printed already.
struct Reported {
    progress: Progress,
    found: bool,
    round: u32,
    /// Maximum number of open questions in the current round.
    asked: usize,
}

impl Reported {
    fn update(&mut self, state: &DeliberationState, spec: &Spec) {
        let agents = spec.agents.len();
        let found: Vec<&str> = state.agents_with_findings().collect();
        let pending: BTreeSet<&str> = state.pending_asks().map(|(_, agent)| agent).collect();
        let pending: Vec<&str> = pending.into_iter().collect();
        let waiting = format!("waiting for {}", pending.join(", "));
        if state.phase() == Phase::Analysis {
            return self.progress.draw("findings", (found.len(), agents), &waiting);
        }
        if !self.found {
            self.found = true;
            let missing = spec.agents.iter().map(|member| member.id.as_str());
            let missing: Vec<&str> = missing.filter(|agent| !found.contains(agent)).collect();
            let detail = match missing.as_slice() {
                [] => found.join(", "),
                missing => format!("no answer: {}", missing.join(", ")),
            };
            self.progress.end("findings", (found.len(), agents), &detail);
            let topics: Vec<&str> = state.conflict_topics().collect();
            self.progress.end("conflicts", (topics.len(), topics.len()), &topics.join("; "));
        }
        let open = state.pending_asks().count();
        if let Phase::Discussion { round } = state.phase() {
            if round > self.round {
                (self.round, self.asked) = (round, 0);
            }
            self.asked = self.asked.max(open);
            let detail = format!("round {round} of {}, {waiting}", spec.limits.rounds);
            self.progress.draw("discussion", (self.asked - open, self.asked), &detail);
        }
        if state.is_over() && self.round > 0 {
            let messages = state.discussion_message_count();
            let noun = if messages == 1 { "message" } else { "messages" };
            let detail = format!("{noun} in {}", plural(self.round, "round"));
            self.progress.end("discussion", (messages, messages), &detail);
        }
    }
}

/// Prints which agents changed their positions, and the result of the vote.
pub(super) fn print_outcome(outcome: &Outcome) {
    // Numeric positions shift slightly in every round, so only changes of other positions are reported.
    let words = outcome.all_decisions().filter(|decision| decision.conflict.kind != ConflictKind::Numeric);
    let minds: BTreeSet<&str> =
        words.flat_map(|decision| &decision.changes).map(|change| change.agent.as_str()).collect();
    if !minds.is_empty() {
        let names: Vec<&str> = minds.into_iter().collect();
        note_line("", "", &format!("changed position: {}", names.join(", ")));
    }
    if let Some(decision) = outcome.recommendation_decision() {
        let choice = decision.position.as_ref().map(|won| format!("{won}, ")).unwrap_or_default();
        note_line("vote", "", &format!("{choice}{}", outcome.synthesis.agreement));
    }
}
