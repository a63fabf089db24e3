//! Follows a running deliberation and prints its phases to stderr.

use std::collections::BTreeSet;

use quorate::deliberation::{Outcome, Phase, Spec, State};
use quorate::{Hub, ProcedureInfo};
use quorate_agents::{Agent, Use};
use quorate_procedures::conflict::Kind;

use super::LOOK;
use super::progress::{Progress, plain_line};
use crate::text::{clean_line, say, wrap};

/// Prints the question and the agents of a run.
pub(crate) fn begin(what: &str, spec: &Spec, agents: &[Agent]) {
    say(format!("Quorate {}   {}", env!("CARGO_PKG_VERSION"), clean_line(what)));
    say(format!("question   {}", clean_line(&spec.subject)));
    let count = spec.agents.len();
    if agents.iter().all(|agent| matches!(agent.declared, Use::Heuristic(_))) {
        say(format!("agents     {count} local heuristics: no LLM, no key, no network"));
    } else {
        say(format!("agents     {count}"));
    }
    let names: Vec<&str> = spec.agents.iter().map(|member| member.id.as_str()).collect();
    for line in wrap(&clean_line(&names.join(", ")), 68) {
        say(format!("           {line}"));
    }
    for idle in &spec.not_asked {
        say(format!("           {} not asked: {}", clean_line(&idle.agent), clean_line(&idle.why)));
    }
}

/// Waits until a deliberation is done, and prints its phases.
pub(super) async fn until_over(hub: &Hub, id: &str, spec: &Spec) -> anyhow::Result<ProcedureInfo> {
    let mut reported = Reported { progress: Progress::new(), found: false, round: 0, asked: 0 };
    loop {
        let procedure = hub.procedure(id).await?;
        if let Some(state) = procedure.state::<State>()? {
            reported.update(&state, spec);
        }
        if procedure.procedure().status.is_over() {
            return Ok(procedure);
        }
        tokio::time::sleep(LOOK).await;
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
    fn update(&mut self, state: &State, spec: &Spec) {
        let agents = spec.agents.len();
        let found: Vec<&str> = state.found().collect();
        let pending: BTreeSet<&str> = state.waits_for().map(|(_, agent)| agent).collect();
        let pending: Vec<&str> = pending.into_iter().collect();
        let waiting = format!("waiting for {}", pending.join(", "));
        if state.phase() == Phase::Analysis {
            return self.progress.draw("findings", (found.len(), agents), &waiting);
        }
        if !self.found {
            self.found = true;
            let missing = if found.len() == agents { "" } else { ", the others are missing" };
            self.progress.end("findings", (found.len(), agents), &format!("{}{missing}", found.join(", ")));
            let topics: Vec<&str> = state.conflicts().collect();
            self.progress.end("conflicts", (topics.len(), topics.len()), &topics.join("; "));
        }
        let open = state.waits_for().count();
        if let Phase::Discussion { round } = state.phase() {
            if round > self.round {
                (self.round, self.asked) = (round, 0);
            }
            self.asked = self.asked.max(open);
            let detail = format!("round {round} of {}, {waiting}", spec.limits.rounds);
            self.progress.draw("discussion", (self.asked - open, self.asked), &detail);
        }
        if state.is_over() && self.round > 0 {
            let messages = state.contributions();
            let plural = if self.round == 1 { "" } else { "s" };
            let detail = format!("messages in {} round{plural}", self.round);
            self.progress.end("discussion", (messages, messages), &detail);
        }
    }
}

/// Prints which agents changed their positions, and the result of the vote.
pub(super) fn outcome(outcome: &Outcome) {
    // Numeric positions shift slightly in every round, so only changes of other positions are reported.
    let words = outcome.every_decision().filter(|decision| decision.conflict.kind != Kind::Numeric);
    let minds: BTreeSet<&str> =
        words.flat_map(|decision| &decision.changes).map(|change| change.agent.as_str()).collect();
    if !minds.is_empty() {
        let names: Vec<&str> = minds.into_iter().collect();
        say(plain_line("", "", &format!("changed position: {}", names.join(", "))));
    }
    if let Some(decision) = outcome.what_to_do() {
        let choice = decision.position.as_ref().map(|won| format!("{won}, ")).unwrap_or_default();
        say(plain_line("vote", "", &format!("{choice}{}", outcome.synthesis.agreement)));
    }
}
