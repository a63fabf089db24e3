//! Follows a running deliberation and prints its phases to stderr.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate::deliberation::{DeliberationState, Outcome, Phase, Spec};
use quorate::{Hub, Procedure, ProcedureInfo, ProcedureStatus};
use quorate_agents::{DeclaredAgent, UseSpec};
use quorate_procedures::conflict::ConflictKind;

use super::progress::{Progress, note_line};
use crate::exit::{CommandError, FAILED};
use crate::output::plural;
use crate::terminal::{note, note_over_progress, sanitize_line, wrap};

/// Duration of one wait for a step.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Width of the values in the header.
const HEADER_COLUMNS: usize = 68;

/// Prints the question and the agents of a run.
pub(crate) fn print_header(title: &str, spec: &Spec, agents: &[DeclaredAgent]) {
    note(format!("Quorate {}   {}", env!("CARGO_PKG_VERSION"), sanitize_line(title)));
    for (index, line) in wrap(&sanitize_line(&spec.subject), HEADER_COLUMNS).iter().enumerate() {
        note(format!("{:<10} {line}", if index == 0 { "question" } else { "" }));
    }
    let count = spec.agents.len();
    let is_heuristic = |name: &str| {
        let mut declared = agents.iter().filter(|agent| agent.name == name);
        declared.any(|agent| matches!(agent.declared, UseSpec::Heuristic(_)))
    };
    let (heuristics, others): (Vec<&str>, Vec<&str>) =
        spec.agents.iter().map(|member| member.id.as_str()).partition(|name| is_heuristic(name));
    if others.is_empty() {
        note(format!("agents     {count} local heuristics: no LLM, no key, no network"));
    } else {
        note(format!("agents     {count}"));
    }
    let excluded =
        spec.not_asked.iter().map(|excluded| format!("{} not asked: {}", excluded.agent, excluded.why));
    let heuristics = match (heuristics.as_slice(), others.as_slice()) {
        ([], _) => None,
        (names, []) => Some(names.join(", ")),
        (names, _) => Some(format!("local heuristics: {}", names.join(", "))),
    };
    // The others are listed by the checks before the run.
    for text in heuristics.into_iter().chain(excluded) {
        for line in wrap(&sanitize_line(&text), HEADER_COLUMNS) {
            note(format!("           {line}"));
        }
    }
}

/// Waits until a deliberation has ended, and prints its phases. `resume` is the command that resumes it if it is paused or stuck;
/// `None` if no other command can reach the hub.
///
/// # Errors
/// If it is paused or stuck, and nothing can resume it.
pub(super) async fn wait_until_ended(
    hub: &Hub,
    id: &str,
    spec: &Spec,
    resume: Option<&str>,
) -> anyhow::Result<ProcedureInfo> {
    let mut reported =
        Reported { progress: Progress::new(), has_printed_findings: false, round: 0, open_max: 0 };
    let mut info = hub.procedure(id).await?;
    let mut was_halted = false;
    loop {
        if let Some(state) = info.state::<DeliberationState>()? {
            reported.update(&state, spec);
        }
        let procedure = info.procedure();
        if procedure.status.has_ended() {
            return Ok(info);
        }
        let is_halted = procedure.status != ProcedureStatus::Running;
        match resume {
            Some(resume) if is_halted => note_halted(procedure, resume),
            None if is_halted => return Err(halted(procedure).into()),
            _ if was_halted => note_over_progress(" resumed"),
            _ => {}
        }
        was_halted = is_halted;
        let version = info.version();
        while !info.procedure().status.has_ended() && info.version() == version {
            info = hub.wait_for_procedure_step(id, version, WAIT_MAX).await?;
        }
    }
}

/// Prints that a procedure is paused or stuck, with its reason and the command that resumes it.
fn note_halted(procedure: &Procedure, resume: &str) {
    let reason = sanitize_line(&procedure.reason);
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    note_over_progress(format!(" {}{reason}", procedure.status.as_str()));
    note(format!("   {}", sanitize_line(resume)));
}

/// Returns the error for a procedure that is paused or stuck in an embedded hub.
fn halted(procedure: &Procedure) -> CommandError {
    let Procedure { id, status, reason, .. } = procedure;
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let message = format!("deliberation {id} is {}{reason}", status.as_str());
    let hint = format!(
        "start a hub on this directory with `quorate serve`, resume it with `quorate procedure resume {id}`,\nthen run this \
         command with --resume {id}"
    );
    CommandError::new(FAILED, sanitize_line(&message), hint)
}

/// Progress that was printed already.
struct Reported {
    progress: Progress,
    has_printed_findings: bool,
    round: u32,
    /// Maximum number of open questions in the current round.
    open_max: usize,
}

impl Reported {
    fn update(&mut self, state: &DeliberationState, spec: &Spec) {
        let agents = spec.agents.len();
        let with_findings: Vec<&str> = state.agents_with_findings().collect();
        let pending: BTreeSet<&str> = state.pending_asks().map(|(_, agent)| agent).collect();
        let pending: Vec<&str> = pending.into_iter().collect();
        let waiting = format!("waiting for {}", pending.join(", "));
        if state.phase() == Phase::Analysis {
            return self.progress.draw("findings", (with_findings.len(), agents), &waiting);
        }
        if !self.has_printed_findings {
            self.has_printed_findings = true;
            let missing = spec.agents.iter().map(|member| member.id.as_str());
            let missing: Vec<&str> = missing.filter(|agent| !with_findings.contains(agent)).collect();
            let detail = match missing.as_slice() {
                [] => with_findings.join(", "),
                missing => format!("no answer: {}", missing.join(", ")),
            };
            self.progress.end("findings", (with_findings.len(), agents), &detail);
            let topics: Vec<&str> = state.conflict_topics().collect();
            self.progress.end("conflicts", (topics.len(), topics.len()), &topics.join("; "));
        }
        let open = state.pending_asks().count();
        if let Phase::Discussion { round } = state.phase() {
            if round > self.round {
                (self.round, self.open_max) = (round, 0);
            }
            self.open_max = self.open_max.max(open);
            let detail = format!("round {round} of {}, {waiting}", spec.limits.rounds);
            self.progress.draw("discussion", (self.open_max - open, self.open_max), &detail);
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
    let decisions =
        outcome.all_decisions().filter(|decision| decision.conflict.kind != ConflictKind::Numeric);
    let agents: BTreeSet<&str> =
        decisions.flat_map(|decision| &decision.changes).map(|change| change.agent.as_str()).collect();
    if !agents.is_empty() {
        let names: Vec<&str> = agents.into_iter().collect();
        note_line("", "", &format!("changed position: {}", names.join(", ")));
    }
    if let Some(decision) = outcome.recommendation_decision() {
        let choice = decision.position.as_ref().map(|position| format!("{position}, ")).unwrap_or_default();
        note_line("vote", "", &format!("{choice}{}", outcome.synthesis.agreement));
    }
}
