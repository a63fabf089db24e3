//! The worker of a command: it runs the agents of a playbook until the command ends.

use std::path::Path;
use std::sync::Arc;

use quorate::Hub;
use quorate::deliberation::Spec;
use quorate_agents::DeclaredAgent;
use quorate_agents::worker::{EventSink, StandbyReason, Worker, WorkerConfig, WorkerEvent};

use crate::terminal::{note_over_progress, sanitize_line};
use crate::worker::worker_error;

/// Starts the agents that take part.
pub(super) async fn start(hub: &Hub, agents: Vec<DeclaredAgent>, spec: &Spec) -> anyhow::Result<Worker> {
    let takes_part = |agent: &DeclaredAgent| spec.agents.iter().any(|member| member.id == agent.name);
    let agents = agents.into_iter().filter(takes_part).map(Arc::new).collect();
    let config = WorkerConfig { agents, letters: None };
    Worker::start(hub, config, events()).await.map_err(worker_error)
}

/// Checks that this command can write approved letters to a directory: no other process writes them to another one.
pub(super) async fn check_letters(hub: &Hub, directory: &Path) -> anyhow::Result<()> {
    Worker::check(hub, &letters(directory)).await.map_err(worker_error)
}

/// Starts the agent that writes approved letters to a directory.
pub(super) async fn start_letters(hub: &Hub, directory: &Path) -> anyhow::Result<Worker> {
    Worker::start(hub, letters(directory), events()).await.map_err(worker_error)
}

fn letters(directory: &Path) -> WorkerConfig {
    WorkerConfig { agents: Vec::new(), letters: Some(directory.to_owned()) }
}

/// Prints what the progress of the procedure does not show.
fn events() -> EventSink {
    Arc::new(|event| {
        let line = match event {
            WorkerEvent::StandingBy { agent, reason: StandbyReason::SameDeclaration } => {
                format!("standing by: another process runs {agent}")
            }
            WorkerEvent::StandingBy { agent, .. } => {
                format!("standing by: another process took over {agent}")
            }
            WorkerEvent::AgentFailed { agent, reason, retry_after } => {
                format!("{agent} cannot be run: {reason}; next attempt in {} s", retry_after.as_secs().max(1))
            }
            WorkerEvent::HubLost => "the hub does not answer; waiting for it".to_owned(),
            WorkerEvent::HubBack => "the hub is back".to_owned(),
            WorkerEvent::Connected { .. }
            | WorkerEvent::Started { .. }
            | WorkerEvent::Done { .. }
            | WorkerEvent::Failed { .. }
            | WorkerEvent::Interrupted { .. }
            | WorkerEvent::LetterWritten { .. } => return,
        };
        note_over_progress(format!("           {}", sanitize_line(&line)));
    })
}
