//! Checks the agents of a run before any is asked: programs exist, API keys are set, servers are listening, agents of the hub are
//! connected. One line per agent; built-in agents need no check.

use futures_util::future::join_all;
use quorate::Hub;
use quorate::deliberation::Spec;
use quorate_agents::{CheckOutcome, DeclaredAgent, UseSpec, reachable};
use quorate_core::AgentStatus;

use crate::exit::{CommandError, FAILED};
use crate::output::plural;
use crate::status::format_age;
use crate::terminal::{Style, note, paint_note, sanitize_line, wrap};

/// Width of the text of a check.
const COLUMNS: usize = 64;

/// Result of checking one agent.
struct AgentCheck {
    outcome: CheckOutcome,
    detail: String,
    hint: String,
}

/// Checks the agents that take part.
///
/// # Errors
/// If so many checks failed that the quorum cannot be reached.
pub(super) async fn check(hub: &Hub, agents: &[DeclaredAgent], spec: &Spec) -> anyhow::Result<()> {
    let width = spec.agents.iter().map(|member| member.id.chars().count()).max().unwrap_or(0);
    // Concurrently: a server that cannot be reached takes a while.
    let checks = spec.agents.iter().map(|member| async move {
        let declared = agents.iter().find(|agent| agent.name == member.id);
        let checked = match declared {
            Some(agent) if matches!(agent.declared, UseSpec::Heuristic(_)) => return Ok(None),
            Some(agent) => check_declared(agent).await,
            None => check_registered(hub, &member.id).await?,
        };
        anyhow::Ok(Some((member, checked)))
    });
    let mut failed = Vec::new();
    for checked in join_all(checks).await {
        let Some((member, checked)) = checked? else { continue };
        print(&member.id, width, &checked);
        if checked.outcome == CheckOutcome::Failed {
            failed.push(member.id.as_str());
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

async fn check_declared(agent: &DeclaredAgent) -> AgentCheck {
    let check = reachable(agent).await;
    AgentCheck { outcome: check.outcome, detail: check.detail, hint: check.hint }
}

/// Checks an agent of the hub. One that is not connected may be between two polls, so that is only a warning.
async fn check_registered(hub: &Hub, id: &str) -> anyhow::Result<AgentCheck> {
    let agent = hub.agent_info(id).await?;
    let info = serde_json::to_value(&agent)?;
    let last_seen =
        format_age(&info["heardAt"]).map_or("never seen".to_owned(), |age| format!("last seen {age} ago"));
    let start = format!("start it; for details: quorate agent show {id}");
    let check = |outcome, detail: String, hint: &str| AgentCheck { outcome, detail, hint: hint.to_owned() };
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

fn print(name: &str, width: usize, check: &AgentCheck) {
    let (mark, style) = match check.outcome {
        CheckOutcome::Passed => ("✓", Style::Good),
        CheckOutcome::Failed => ("✗", Style::Bad),
        CheckOutcome::Warning => ("!", Style::Warning),
        CheckOutcome::Skipped => ("·", Style::Plain),
    };
    let lines = wrap(&sanitize_line(&check.detail), COLUMNS.saturating_sub(width));
    for (index, line) in lines.iter().enumerate() {
        match index {
            0 => note(format!("           {} {name:<width$}  {line}", paint_note(style, mark))),
            _ => note(format!("             {:<width$}  {line}", "")),
        }
    }
    if check.outcome != CheckOutcome::Passed && !check.hint.is_empty() {
        for line in wrap(&sanitize_line(&check.hint), COLUMNS.saturating_sub(width)) {
            note(format!("             {:<width$}  {line}", ""));
        }
    }
}
