//! What is seen while a playbook runs, on stderr: a line for each phase that is over.

use std::path::Path;

use quorate::deliberation::{Phase, Spec, State};
use quorate::{Hub, ProcedureInfo};
use quorate_agents::{Agent, Use};

use super::LOOK;
use crate::text::{clean_line, say};

pub(super) fn begin(path: &Path, spec: &Spec, agents: &[Agent]) {
    say(format!("Quorate {}   {}", env!("CARGO_PKG_VERSION"), clean_line(&path.display().to_string())));
    say(format!("question   {}", clean_line(&spec.subject)));
    let names: Vec<&str> = spec.agents.iter().map(|member| member.id.as_str()).collect();
    say(format!("agents     {}", clean_line(&names.join(", "))));
    for idle in &spec.not_asked {
        say(format!("           {} not asked: {}", clean_line(&idle.agent), clean_line(&idle.why)));
    }
    if agents.iter().all(|agent| matches!(agent.declared, Use::Heuristic(_))) {
        say("           local heuristics: no LLM, no key, no network");
    }
    say("");
}

/// Waits until a deliberation is over, and tells of its phases.
pub(super) async fn until_over(hub: &Hub, id: &str) -> anyhow::Result<ProcedureInfo> {
    let mut told = Told::default();
    loop {
        let procedure = hub.procedure(id).await?;
        if let Some(state) = procedure.state::<State>()? {
            told.tell(&state);
        }
        if procedure.procedure().status.is_over() {
            return Ok(procedure);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What was told already.
#[derive(Default)]
struct Told {
    findings: bool,
    round: u32,
}

impl Told {
    fn tell(&mut self, state: &State) {
        let over = state.is_over();
        let round = match state.phase() {
            Phase::Discussion { round } => round,
            _ => 0,
        };
        if !self.findings && (over || round > 0) {
            self.findings = true;
            let found: Vec<&str> = state.found().collect();
            say(format!(" findings    {}  {}", found.len(), clean_line(&found.join(", "))));
            let conflicts = state.conflicts().count();
            let first = state.conflicts().next().map(|topic| format!("  {}", clean_line(topic)));
            say(format!(" conflicts   {conflicts}{}", first.unwrap_or_default()));
        }
        if round > self.round {
            self.round = round;
            say(format!(" discussion  round {round}"));
        }
    }
}
