//! Follows a running deliberation and prints its phases to stderr.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use quorate::deliberation::{DeliberationState, Outcome, Phase, Spec};
use quorate::{Hub, Procedure, ProcedureInfo, ProcedureStatus};
use quorate_agents::{DeclaredAgent, UseSpec};
use quorate_procedures::conflict::ConflictKind;

use super::pauses::Pauses;
use super::progress::{EndedPhase, Progress, note_line};
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

/// What to do about a procedure that is paused or stuck.
#[derive(Clone, Copy)]
pub(super) struct HaltedRun<'a> {
    /// Options with which other commands can reach the hub; `None` if they cannot.
    pub(super) hub_options: Option<&'a String>,
}

impl HaltedRun<'_> {
    /// Reports that the procedure is paused, stuck or running again, if that has changed.
    ///
    /// # Errors
    /// If it is paused or stuck, and no other command can resume it.
    pub(super) fn report(self, procedure: &Procedure, was_halted: &mut bool) -> anyhow::Result<()> {
        let is_halted = matches!(procedure.status, ProcedureStatus::Paused | ProcedureStatus::Stuck);
        let has_changed = std::mem::replace(was_halted, is_halted) != is_halted;
        match self.hub_options {
            None if is_halted => return Err(halted(procedure).into()),
            Some(options) if is_halted && has_changed => note_halted(procedure, options),
            _ if has_changed && !procedure.status.has_ended() => note_over_progress(" resumed"),
            _ => {}
        }
        Ok(())
    }
}

/// Waits until a deliberation has ended, and prints its phases, with a pause after each.
///
/// # Errors
/// If it is paused or stuck, and nothing can resume it.
pub(super) async fn wait_until_ended(
    hub: &Hub,
    id: &str,
    spec: &Spec,
    (halted, pauses): (HaltedRun<'_>, &mut Pauses),
) -> anyhow::Result<ProcedureInfo> {
    let mut reported = Reported::new();
    let mut info = hub.procedure(id).await?;
    let mut was_halted = false;
    loop {
        if let Some(state) = info.state::<DeliberationState>()? {
            reported.observe(&state, spec);
            reported.print(&state, spec, pauses);
        }
        let procedure = info.procedure();
        let has_ended = procedure.status.has_ended();
        if has_ended && reported.ended.is_empty() && !pauses.is_paused() {
            return Ok(info);
        }
        halted.report(procedure, &mut was_halted)?;
        tokio::select! {
            next = next_step(hub, id, &info), if !has_ended => info = next?,
            () = pauses.wait(), if pauses.is_paused() => {}
        }
    }
}

/// Waits for the next step of a procedure.
pub(super) async fn next_step(
    hub: &Hub,
    id: &str,
    info: &ProcedureInfo,
) -> Result<ProcedureInfo, quorate::Error> {
    loop {
        let next = hub.wait_for_procedure_step(id, info.version(), WAIT_MAX).await?;
        if next.procedure().status.has_ended() || next.version() != info.version() {
            return Ok(next);
        }
    }
}

/// Prints that a procedure is paused or stuck, with its reason and the command that resumes it.
fn note_halted(procedure: &Procedure, options: &str) {
    let reason = sanitize_line(&procedure.reason);
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    note_over_progress(format!(" {}{reason}", procedure.status.as_str()));
    note(format!("   quorate procedure resume {}{}", procedure.id, sanitize_line(options)));
}

/// Returns the error for a procedure that is paused or stuck in an embedded hub.
fn halted(procedure: &Procedure) -> CommandError {
    let Procedure { id, kind, status, reason, .. } = procedure;
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let message = format!("{kind} {id} is {}{reason}", status.as_str());
    let hint = format!(
        "start a hub on this directory with `quorate serve`, resume it with `quorate procedure resume {id}`,\nthen run this \
         command with --resume {id}"
    );
    CommandError::new(FAILED, sanitize_line(&message), hint)
}

/// Phases that have ended, and what of them was printed. A pause delays the output, but not the deliberation.
struct Reported {
    progress: Progress,
    /// Phases that are not printed yet.
    ended: VecDeque<EndedPhase>,
    has_findings: bool,
    has_discussion: bool,
    round: u32,
    /// Maximum number of open questions in the current round.
    open_max: usize,
}

impl Reported {
    fn new() -> Self {
        Self {
            progress: Progress::new(),
            ended: VecDeque::new(),
            has_findings: false,
            has_discussion: false,
            round: 0,
            open_max: 0,
        }
    }

    /// Records the phases that have ended.
    fn observe(&mut self, state: &DeliberationState, spec: &Spec) {
        if state.phase() == Phase::Analysis {
            return;
        }
        if !self.has_findings {
            self.has_findings = true;
            let agents = spec.agents.len();
            let with_findings: Vec<&str> = state.agents_with_findings().collect();
            let missing = spec.agents.iter().map(|member| member.id.as_str());
            let missing: Vec<&str> = missing.filter(|agent| !with_findings.contains(agent)).collect();
            let detail = match missing.as_slice() {
                [] => with_findings.join(", "),
                missing => format!("no answer: {}", missing.join(", ")),
            };
            self.end("findings", (with_findings.len(), agents), detail);
            let topics: Vec<&str> = state.conflict_topics().collect();
            self.end("conflicts", (topics.len(), topics.len()), topics.join("; "));
        }
        if let Phase::Discussion { round } = state.phase()
            && round > self.round
        {
            (self.round, self.open_max) = (round, 0);
        }
        self.open_max = self.open_max.max(state.pending_asks().count());
        if state.is_over() && self.round > 0 && !self.has_discussion {
            self.has_discussion = true;
            let messages = state.discussion_message_count();
            let noun = if messages == 1 { "message" } else { "messages" };
            self.end(
                "discussion",
                (messages, messages),
                format!("{noun} in {}", plural(self.round, "round")),
            );
        }
    }

    fn end(&mut self, name: &'static str, count: (usize, usize), detail: String) {
        let elapsed_ms = self.progress.lap();
        self.ended.push_back(EndedPhase { name, count, detail, elapsed_ms });
    }

    /// Prints the phases that have ended, up to the next pause, then the current one.
    fn print(&mut self, state: &DeliberationState, spec: &Spec, pauses: &mut Pauses) {
        while !pauses.is_paused()
            && let Some(ended) = self.ended.pop_front()
        {
            self.progress.end(&ended);
            pauses.begin();
        }
        if pauses.is_paused() {
            return;
        }
        let pending: BTreeSet<&str> = state.pending_asks().map(|(_, agent)| agent).collect();
        let pending: Vec<&str> = pending.into_iter().collect();
        let waiting = format!("waiting for {}", pending.join(", "));
        match state.phase() {
            Phase::Analysis => {
                let count = (state.agents_with_findings().count(), spec.agents.len());
                self.progress.draw("findings", count, &waiting);
            }
            Phase::Discussion { round } => {
                let done = self.open_max - state.pending_asks().count();
                let detail = format!("round {round} of {}, {waiting}", spec.limits.rounds);
                self.progress.draw("discussion", (done, self.open_max), &detail);
            }
            Phase::New | Phase::Finished | Phase::Failed => {}
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
