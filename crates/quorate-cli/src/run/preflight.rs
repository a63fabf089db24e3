//! Prints the checks of agents before a run, one line each; built-in agents need no check.

use quorate::deliberation::Spec;
use quorate::{AgentInfo, AgentStatus, Hub};
use quorate_agents::worker::{AgentCheck, check_agents};
use quorate_agents::{CheckOutcome, DeclaredAgent};

use crate::agent::last_seen_age;
use crate::exit::{CommandError, FAILED};
use crate::output::plural;
use crate::terminal::{Style, note, paint_note, sanitize_line, wrap};

/// Width of the text of a check.
const COLUMNS: usize = 64;

/// A check as it is printed.
pub(crate) struct PrintedCheck {
    pub(crate) outcome: CheckOutcome,
    detail: String,
    hint: String,
}

/// Checks the agents that take part.
///
/// # Errors
/// If so many checks failed that the quorum cannot be reached.
pub(super) async fn check(hub: &Hub, agents: &[DeclaredAgent], spec: &Spec) -> anyhow::Result<()> {
    let names = spec.agents.iter().map(|member| member.id.as_str());
    let width = names.clone().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut failed = Vec::new();
    for (name, check) in check_agents(hub, agents, names).await? {
        let Some(check) = PrintedCheck::new(name, check)? else { continue };
        check.print(name, width);
        if check.outcome == CheckOutcome::Failed {
            failed.push(name);
        }
    }
    let (count, quorum) = (spec.agents.len(), spec.quorum());
    if count - failed.len() >= quorum {
        return Ok(());
    }
    let message = format!(
        "{} of {} cannot answer ({}), and the quorum is {quorum}: no agent was asked",
        failed.len(),
        plural(count, "agent"),
        failed.join(", ")
    );
    let hint = "fix the agents that are marked ✗; to test one: quorate agent test NAME --playbook FILE";
    Err(CommandError::new(FAILED, message, hint).into())
}

impl PrintedCheck {
    /// Converts a check; `None` for a built-in agent.
    pub(crate) fn new(name: &str, check: AgentCheck) -> anyhow::Result<Option<Self>> {
        Ok(match check {
            AgentCheck::BuiltIn => None,
            AgentCheck::Declared(check) => {
                Some(Self { outcome: check.outcome, detail: check.detail, hint: check.hint })
            }
            AgentCheck::RunElsewhere => {
                let detail = "another worker runs it".to_owned();
                Some(Self { outcome: CheckOutcome::Passed, detail, hint: String::new() })
            }
            AgentCheck::Registered(agent) => Some(Self::of_registered(name, &agent)?),
        })
    }

    /// Judges an agent of the hub. One that is not connected may be between two polls, so that is only a warning.
    fn of_registered(name: &str, agent: &AgentInfo) -> anyhow::Result<Self> {
        let info = serde_json::to_value(agent)?;
        let last_seen = format!("last seen {}", last_seen_age(&info));
        let start = format!("start it; for details: quorate agent show {name}");
        let check = |outcome, detail: String, hint: &str| Self { outcome, detail, hint: hint.to_owned() };
        Ok(match (agent.status, agent.load.listening) {
            (AgentStatus::Offline, _) => {
                check(CheckOutcome::Failed, format!("in the hub: offline, {last_seen}"), &start)
            }
            (_, 0) => {
                let detail = format!("in the hub: not connected, {last_seen}; it is asked anyway");
                check(CheckOutcome::Warning, detail, &start)
            }
            _ => check(CheckOutcome::Passed, "in the hub: connected".to_owned(), ""),
        })
    }

    pub(crate) fn print(&self, name: &str, width: usize) {
        let (mark, style) = match self.outcome {
            CheckOutcome::Passed => ("✓", Style::Good),
            CheckOutcome::Failed => ("✗", Style::Bad),
            CheckOutcome::Warning => ("!", Style::Warning),
            CheckOutcome::Skipped => ("·", Style::Plain),
        };
        let lines = wrap(&sanitize_line(&self.detail), COLUMNS.saturating_sub(width));
        for (index, line) in lines.iter().enumerate() {
            match index {
                0 => note(format!("           {} {name:<width$}  {line}", paint_note(style, mark))),
                _ => note(format!("             {:<width$}  {line}", "")),
            }
        }
        if self.outcome != CheckOutcome::Passed && !self.hint.is_empty() {
            for line in wrap(&sanitize_line(&self.hint), COLUMNS.saturating_sub(width)) {
                note(format!("             {:<width$}  {line}", ""));
            }
        }
    }
}
