//! What happens in a worker, for the program that shows it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::DeclarationDigest;

/// Something that happened in a worker.
#[derive(Clone, PartialEq, Debug)]
pub enum WorkerEvent {
    /// The agent is registered, and receives requests and tasks.
    Connected {
        /// The agent.
        agent: String,
        /// Types of tasks that it works on.
        tasks: Vec<String>,
    },
    /// The agent waits until another process no longer runs it.
    StandingBy {
        /// The agent.
        agent: String,
        /// Why it waits.
        reason: StandbyReason,
    },
    /// The agent cannot be run, and is tried again later.
    AgentFailed {
        /// The agent.
        agent: String,
        /// What failed.
        reason: String,
        /// Time until the next attempt.
        retry_after: Duration,
    },
    /// Work on a request or task began.
    Started {
        /// The agent.
        agent: String,
        /// The request or task.
        work: WorkItem,
    },
    /// A request was answered, or a task completed.
    Done {
        /// The agent.
        agent: String,
        /// The request or task.
        work: WorkItem,
        /// Duration of the work.
        took: Duration,
    },
    /// Work failed.
    Failed {
        /// The agent.
        agent: String,
        /// The request or task.
        work: WorkItem,
        /// Duration of the work.
        took: Duration,
        /// What failed.
        reason: String,
        /// Whether the same work may succeed later.
        retryable: bool,
    },
    /// Work was stopped before its end: it was cancelled, its lease was lost, or the worker ends.
    Interrupted {
        /// The agent.
        agent: String,
        /// The request or task.
        work: WorkItem,
        /// Duration of the work.
        took: Duration,
    },
    /// An approved letter was written.
    LetterWritten {
        /// The approval.
        approval: String,
        /// The file.
        file: PathBuf,
    },
    /// The hub does not answer. The worker keeps trying to reach it.
    HubLost,
    /// The hub answers again.
    HubBack,
}

/// Why an agent waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StandbyReason {
    /// Another process runs it from the same declaration.
    SameDeclaration,
    /// Another process runs it from another declaration, or from none.
    OtherDeclaration {
        /// Digest of the other declaration, if there is one.
        theirs: Option<DeclarationDigest>,
        /// Digest of its own declaration.
        ours: DeclarationDigest,
    },
    /// Another process registered it. Which one is checked next.
    RegisteredElsewhere,
}

/// A request or task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkItem {
    /// Whether it is a request or a task.
    pub kind: WorkKind,
    /// Id of the message or task.
    pub id: String,
    /// Action of the request, or type of the task.
    pub action: String,
    /// Attempt number, starting at 1.
    pub attempt: u16,
}

/// Kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkKind {
    /// A message that expects an answer.
    Request,
    /// A claimed task.
    Task,
}

impl WorkKind {
    /// Returns the name of the kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Task => "task",
        }
    }
}

/// Receives the events of a worker. Must not block.
pub type EventSink = Arc<dyn Fn(WorkerEvent) + Send + Sync>;

/// Work in progress. Reports its end exactly once: an interruption, if it is dropped before another end is reported.
pub(crate) struct WorkReport {
    agent: String,
    work: WorkItem,
    events: EventSink,
    started: crate::clock::Instant,
    is_open: bool,
}

impl WorkReport {
    /// Reports the start of the work.
    pub(crate) fn start(agent: &str, work: WorkItem, events: &EventSink) -> Self {
        events(WorkerEvent::Started { agent: agent.to_owned(), work: work.clone() });
        let (agent, events) = (agent.to_owned(), Arc::clone(events));
        Self { agent, work, events, started: crate::clock::now(), is_open: true }
    }

    /// Reports that the work is done.
    pub(crate) fn done(mut self) {
        self.end(|agent, work, took| WorkerEvent::Done { agent, work, took });
    }

    /// Reports a failure.
    pub(crate) fn failed(mut self, reason: String, retryable: bool) {
        self.end(|agent, work, took| WorkerEvent::Failed { agent, work, took, reason, retryable });
    }

    fn end(&mut self, event: impl FnOnce(String, WorkItem, Duration) -> WorkerEvent) {
        let took = crate::clock::now() - self.started;
        (self.events)(event(self.agent.clone(), self.work.clone(), took));
        self.is_open = false;
    }
}

impl Drop for WorkReport {
    fn drop(&mut self) {
        if self.is_open {
            self.end(|agent, work, took| WorkerEvent::Interrupted { agent, work, took });
        }
    }
}
