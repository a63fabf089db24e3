//! The worker: runs declared agents in a hub, for as long as it lives.
//!
//! Each agent has a supervisor. It registers the agent, and handles its requests and tasks until the worker stops. If another
//! process runs the same agent, it **stands by**: the agent is taken over only when that process no longer runs it, so that two
//! workers never take an agent from each other. A failure of one agent does not affect the others: it is reported, and tried
//! again with backoff.

mod event;
mod letters;
mod monitor;
mod preflight;
mod requests;
mod supervisor;
mod tasks;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use quorate::{Error, Hub};
use quorate_core::DeclarationDigest;
use quorate_env::Entropy;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::agent::DeclaredAgent;
use crate::question::AgentFailure;
use supervisor::{Job, Supervisor};

pub use event::{EventSink, StandbyReason, WorkItem, WorkKind, WorkerEvent};
pub use letters::{LETTER_TASK, OUTBOX, WrittenLetter};
pub use preflight::{AgentCheck, check_agents, check_declared};

/// What a worker runs.
#[derive(Debug, Default)]
pub struct WorkerConfig {
    /// Declared agents.
    pub agents: Vec<Arc<DeclaredAgent>>,
    /// Directory for approved letters, which the agent [`OUTBOX`] writes; `None` if this worker does not write them.
    pub letters: Option<PathBuf>,
}

/// Error of a worker that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Another process runs an agent of this name that is declared differently.
    #[error("agent {agent} is connected already, and runs {}", declared_differently(*theirs, *ours))]
    OtherDeclaration {
        /// The agent.
        agent: String,
        /// Digest of the other declaration, if there is one.
        theirs: Option<DeclarationDigest>,
        /// Digest of its own declaration.
        ours: DeclarationDigest,
    },
    /// The directory for letters cannot be used.
    #[error("the directory for letters, {}, cannot be used", directory.display())]
    Letters {
        /// The directory.
        directory: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The hub refused a call, or cannot be reached.
    #[error(transparent)]
    Hub(#[from] Error),
}

/// Describes the declaration of an agent that another process runs.
fn declared_differently(theirs: Option<DeclarationDigest>, ours: DeclarationDigest) -> String {
    match theirs {
        Some(theirs) => format!("from another declaration ({}; here {})", theirs.short(), ours.short()),
        None => "without a declaration".to_owned(),
    }
}

impl WorkerError {
    /// What to do; may be empty.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::OtherDeclaration { agent, .. } if agent == OUTBOX => {
                "write letters to the same directory, or stop the other process".to_owned()
            }
            Self::OtherDeclaration { agent, .. } => {
                format!("rename the agent here, or stop the other process: quorate agent show {agent}")
            }
            Self::Letters { .. } => "create it, or name another one".to_owned(),
            Self::Hub(error) => error.hint().to_owned(),
        }
    }
}

/// A running worker. Dropping it stops its agents without waiting for their work.
pub struct Worker {
    stop: watch::Sender<bool>,
    supervisors: JoinSet<()>,
    monitor: JoinSet<()>,
}

impl Worker {
    /// Checks that the agents can be started: no other process runs one of them from another declaration.
    ///
    /// # Errors
    /// If there is one, or the hub cannot be reached.
    pub async fn check(hub: &Hub, config: &WorkerConfig) -> Result<(), WorkerError> {
        for job in jobs(config)? {
            job.require_same_declaration(hub).await?;
        }
        Ok(())
    }

    /// Starts the agents, and returns when each of them is connected or stands by.
    ///
    /// # Errors
    /// If another process runs one of the agents from another declaration, or an agent cannot be registered. Nothing runs then.
    pub async fn start(hub: &Hub, config: WorkerConfig, events: EventSink) -> Result<Self, WorkerError> {
        // All agents are checked before any is registered.
        Self::check(hub, &config).await?;
        let (stop, stopped) = watch::channel(false);
        let supervisor = |job| Supervisor {
            hub: hub.clone(),
            job,
            events: Arc::clone(&events),
            stopped: stopped.clone(),
            entropy: Entropy::system(),
        };
        let supervisors: Vec<Supervisor> = jobs(&config)?.into_iter().map(supervisor).collect();
        let mut worker = Self { stop, supervisors: JoinSet::new(), monitor: JoinSet::new() };
        if let Some(first) = supervisors.first() {
            worker.monitor.spawn(monitor::run(hub.clone(), first.job.id().to_owned(), Arc::clone(&events)));
        }
        let mut started = Vec::new();
        for supervisor in supervisors {
            let (sender, first_state) = oneshot::channel();
            worker.supervisors.spawn(supervisor.run(sender));
            started.push(first_state);
        }
        for first_state in started {
            // A supervisor that ended without a state was stopped.
            if let Ok(Err(error)) = first_state.await {
                worker.stop().await;
                return Err(error.into());
            }
        }
        Ok(worker)
    }

    /// Stops receiving requests and tasks, and waits for those in progress.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        while self.supervisors.join_next().await.is_some() {}
    }
}

/// Returns what has to be supervised.
fn jobs(config: &WorkerConfig) -> Result<Vec<Job>, WorkerError> {
    let mut jobs: Vec<Job> = config.agents.iter().map(|agent| Job::Declared(Arc::clone(agent))).collect();
    if let Some(directory) = &config.letters {
        // Absolute, because it identifies the agent.
        let resolved = directory.canonicalize().and_then(|directory| {
            if directory.is_dir() { Ok(directory) } else { Err(io::ErrorKind::NotADirectory.into()) }
        });
        let failed = |source| WorkerError::Letters { directory: directory.clone(), source };
        jobs.push(Job::Letters(resolved.map_err(failed)?));
    }
    Ok(jobs)
}

/// Renders a failure with its hint.
fn failure_reason(failure: &AgentFailure) -> String {
    let hint = Some(&failure.hint).filter(|hint| !hint.is_empty());
    let hint = hint.map_or(String::new(), |hint| format!(" ({hint})"));
    format!("{failure}{hint}")
}
