//! Machines: multi-step protocols as pure, deterministic state machines. A machine maps a [`ProcedureEvent`] and its state to
//! [`ProcedureOutput`]s. The runtime commits the new state together with the outputs, and performs everything else: it sends,
//! waits, keeps timers, and resumes after a restart.

use bytes::Bytes;
use quorate_core::{
    AgentId, Destination, MessageType, Priority, ProcedureId, ProcedureStatus, Seq, TaskStatus, Timestamp,
    Version,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use crate::finding::FieldError;

/// Maximum number of requests, messages, tasks, approvals, child procedures, memory writes and cancellations in one
/// commit. A step with more of them continues in further commits by itself; memory writes and cancellations belong to
/// the first one.
pub const OPS_PER_COMMIT_MAX: usize = 200;

/// A protocol of one kind, for one specification.
///
/// Steps are deterministic: equal states, events and contexts give equal outputs. After a crash the runtime compares
/// [`Machine::pending_outputs`] with what was recorded and sends the rest, so the ids of outputs must be unique within
/// the procedure and the same in every run.
pub trait Machine: Sized + Send + Sync + 'static {
    /// Kind of the procedures that it runs.
    const KIND: &'static str;
    /// Agent that drives the procedures of this kind.
    const DRIVER: &'static str = crate::PROCEDURE_DRIVER;
    /// Version of [`Machine::State`]. A stored state of another version is passed to [`Machine::upgrade`].
    const STATE_VERSION: u32 = 1;
    /// What happens to a procedure whose next step the hub refuses.
    const ON_REFUSAL: OnRefusal = OnRefusal::Park;

    /// Page that describes its specification, for the hint of a refusal.
    const GUIDE: &'static str = "docs/guides/procedures.md";

    /// State between two steps. Large data belongs in memory entries to which the state refers.
    type State: Serialize + DeserializeOwned + Default + Send;

    /// Parses and checks a specification.
    ///
    /// # Errors
    /// If it is invalid; the error names the path of the invalid field.
    fn parse(spec: &[u8]) -> Result<Self, FieldError>;

    /// Converts a stored state of another version; `None` if this release cannot read it.
    #[must_use]
    fn upgrade(version: u32, state: Value) -> Option<Self::State> {
        let _ = (version, state);
        None
    }

    /// Processes an event and returns the outputs. Memory writes and cancellations are committed together with the state;
    /// everything else may follow in later commits and must be returned by [`Machine::pending_outputs`] until it is answered.
    fn step(
        &self,
        state: &mut Self::State,
        event: ProcedureEvent,
        context: &ProcedureContext<'_>,
    ) -> Vec<ProcedureOutput>;

    /// Returns all outputs that the state implies, except memory writes and cancellations: messages, pending requests, tasks, timers
    /// and the final result.
    fn pending_outputs(&self, state: &Self::State, context: &ProcedureContext<'_>) -> Vec<ProcedureOutput>;

    /// Returns the name of the current phase.
    fn phase(&self, state: &Self::State) -> String;

    /// Returns what the procedure waits for.
    fn waits_for(&self, state: &Self::State) -> Vec<Wait>;

    /// Returns the stored state as an agent may see it while the procedure runs; `None` hides it. By default all of
    /// it is visible.
    #[must_use]
    fn visible_state(stored: &[u8], agent: &str) -> Option<Vec<u8>> {
        let _ = agent;
        Some(stored.to_vec())
    }

    /// Loads what the steps need, on a thread that may block, when a run starts.
    fn prepare(&self) {}
}

/// The procedure whose machine takes a step, and the time of the step.
#[derive(Clone, Copy, Debug)]
pub struct ProcedureContext<'a> {
    /// Id of the procedure. Keys of its memory entries contain it, so that two procedures with equal specifications
    /// do not share entries.
    pub id: &'a ProcedureId,
    /// The principal that started the procedure, as in the log.
    pub started_by: &'a str,
    /// Time of the step.
    pub now: Timestamp,
}

/// What happens to a procedure whose next step the hub refuses: an output contains a secret, is too large, or violates
/// the policy of the space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnRefusal {
    /// The procedure fails with the reason.
    Fail,
    /// The step is repeated, and the procedure is parked as stuck after the third failure.
    Park,
}

/// Input of a machine.
#[derive(Clone, PartialEq, Debug)]
pub enum ProcedureEvent {
    /// The procedure starts.
    Started,
    /// A run continues from a stored state: after a restart, a pause, or a failed step.
    Resumed,
    /// A request was answered.
    Answered {
        /// Id of the request.
        request: String,
        /// The agent that answered.
        from: String,
        /// Body of the answer.
        body: Bytes,
        /// Metadata of the answer, as JSON.
        metadata: Option<String>,
    },
    /// A request could not be sent, so its agent did not receive it.
    RequestUnsent {
        /// Id of the request.
        request: String,
        /// Reason of the failure.
        reason: String,
    },
    /// A request failed: no answer can arrive.
    RequestFailed {
        /// Id of the request.
        request: String,
        /// Reason of the failure.
        reason: String,
    },
    /// A task ended.
    TaskEnded {
        /// Id of the task output.
        task: String,
        /// Final status.
        status: TaskStatus,
        /// Result, if it was completed with one.
        result: Option<Bytes>,
        /// Reason, if it did not succeed.
        reason: Option<String>,
    },
    /// An approval was decided, or expired.
    Decided {
        /// Id of the approval output.
        approval: String,
        /// The state: `approved`, `rejected`, `modified` or `expired`.
        state: &'static str,
        /// Reason of the decision.
        reason: String,
        /// Canonical bytes of the action that may be executed, if it was approved.
        action: Option<Bytes>,
    },
    /// A message for the procedure arrived: one whose correlation id is the id of the procedure.
    Delivered {
        /// The sender; `None` is the hub.
        from: Option<String>,
        /// Action of the message.
        action: String,
        /// Payload of the message.
        payload: Bytes,
    },
    /// A watched memory entry changed.
    EntryChanged {
        /// Id of the watch.
        watch: String,
        /// Record of the change. A watch that is continued after it starts at the next one.
        seq: Seq,
        /// Key of the entry.
        key: String,
        /// New version.
        version: Version,
        /// New content; `None` if it was deleted.
        content: Option<Bytes>,
    },
    /// A timer is due.
    TimerFired {
        /// Id of the timer.
        timer: String,
    },
    /// A child procedure ended.
    ChildEnded {
        /// Id of the child output.
        child: String,
        /// Final status.
        status: ProcedureStatus,
        /// Result, if it has one.
        result: Option<Bytes>,
    },
    /// A signal was sent to the procedure.
    Signalled {
        /// Name of the signal.
        name: String,
        /// The principal that sent it, as in the log.
        by: String,
        /// Payload as JSON; `null` if it has none.
        payload: Value,
    },
}

/// Output of a machine.
#[derive(Clone, PartialEq, Debug)]
pub enum ProcedureOutput {
    /// Sends a request to an agent.
    Request(RequestOutput),
    /// Sends a message.
    Message(OutgoingMessage),
    /// Creates a task.
    Task(TaskOutput),
    /// Writes a memory entry. Committed together with the state.
    Write(EntryWrite),
    /// Requests an approval.
    Approval(ApprovalOutput),
    /// Sets a timer, or moves it. It fires at most once; a time in the past is due immediately.
    Timer {
        /// Id of the timer.
        id: String,
        /// Time at which it is due.
        due: Timestamp,
    },
    /// Watches memory entries.
    Watch {
        /// Id of the watch.
        id: String,
        /// Prefix of the keys.
        prefix: String,
        /// First record to consider: the one after the last [`ProcedureEvent::EntryChanged`] of this watch.
        from: Seq,
    },
    /// Starts a child procedure.
    Child(ChildOutput),
    /// Cancels an output of this procedure. Committed together with the state. No event of that output follows, so
    /// [`Machine::pending_outputs`] does not return it any more.
    Cancel(StartedOutput),
    /// An event was ignored, with the reason; for logging only. Must not contain text written by agents.
    Ignored(String),
    /// The procedure finished with this result, as JSON. No further outputs follow.
    Finish(Vec<u8>),
    /// The procedure failed with this result, as JSON. No further outputs follow.
    Fail(Vec<u8>),
}

/// An output that can be cancelled, by its id within the procedure. Approvals cannot be withdrawn: they expire.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum StartedOutput {
    /// A request: its recipients are notified, and need not answer.
    Request(String),
    /// A task: the lease of its holder ends.
    Task(String),
    /// A child procedure, with its requests, tasks and children.
    Child(String),
    /// A timer.
    Timer(String),
}

/// A request to an agent.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RequestOutput {
    /// Id of the request within the procedure.
    pub id: String,
    /// Recipient.
    pub agent: String,
    /// Action of the request.
    pub action: String,
    /// Payload as JSON.
    pub payload: String,
    /// Timeout of the answer.
    pub timeout_ms: u64,
    /// Type of its message; a command or a query.
    pub kind: RequestKind,
    /// Metadata of its message, as JSON.
    pub metadata: Option<String>,
}

/// Type of the message of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RequestKind {
    /// Asks for information.
    #[default]
    Query,
    /// Asks to do work.
    Command,
}

/// A message that is not answered to the procedure.
#[derive(Clone, PartialEq, Debug)]
pub struct OutgoingMessage {
    /// Id of the message within the procedure.
    pub id: String,
    /// Recipients.
    pub to: Destination,
    /// Type of the message.
    pub kind: MessageType,
    /// Action of the message.
    pub action: String,
    /// Payload as JSON.
    pub payload: Vec<u8>,
}

/// A task of the procedure. It is cancelled with the procedure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TaskOutput {
    /// Id of the task within the procedure.
    pub id: String,
    /// Type of the task. May be empty if an agent is named.
    pub task_type: String,
    /// The only agent that may claim it.
    pub agent: Option<AgentId>,
    /// Input as JSON.
    pub input: Vec<u8>,
    /// Order among ready tasks.
    pub priority: Priority,
    /// Ids of task outputs that must be done first.
    pub depends_on: Vec<String>,
    /// Maximum duration of one attempt.
    pub timeout_ms: Option<u64>,
    /// Maximum number of attempts.
    pub attempts_max: Option<u16>,
}

/// A write of a memory entry.
#[derive(Clone, PartialEq, Debug)]
pub struct EntryWrite {
    /// Key of the entry.
    pub key: String,
    /// Type of the entry.
    pub entry_type: String,
    /// Content as JSON.
    pub content: Vec<u8>,
    /// Expected version; `None` is unconditional.
    pub expect: Option<Version>,
}

/// An approval that the procedure requests.
#[derive(Clone, PartialEq, Debug)]
pub struct ApprovalOutput {
    /// Id of the approval within the procedure.
    pub id: String,
    /// Kind of the action.
    pub action: String,
    /// Payload of the action.
    pub payload: Value,
    /// Rationale of the procedure.
    pub rationale: Option<String>,
    /// Confidence of the procedure.
    pub confidence: Option<f64>,
    /// What the procedure does if nobody decides.
    pub default: String,
    /// Timeout of the decision.
    pub timeout_ms: u64,
}

/// A child procedure. It is cancelled with the procedure.
#[derive(Clone, PartialEq, Debug)]
pub struct ChildOutput {
    /// Id of the child within the procedure.
    pub id: String,
    /// Kind of the child.
    pub kind: String,
    /// Agent that drives the child; the hub for a kind that it knows.
    pub driver: Option<AgentId>,
    /// Specification as JSON.
    pub spec: Vec<u8>,
}

/// Something that a procedure waits for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Wait {
    /// The answer to a request.
    Answer {
        /// Id of the request within the procedure.
        request: String,
        /// The agent that was asked.
        agent: String,
    },
    /// The end of a task.
    Task {
        /// Id of the task output.
        task: String,
    },
    /// The decision of an approval.
    Approval {
        /// Id of the approval output.
        approval: String,
    },
    /// The end of a child procedure.
    Child {
        /// Id of the child output.
        child: String,
    },
    /// A timer.
    Timer {
        /// Id of the timer.
        timer: String,
        /// Time at which it is due.
        due: Timestamp,
    },
    /// A change of a memory entry.
    Entry {
        /// Prefix of the keys.
        prefix: String,
    },
    /// A signal.
    Signal {
        /// Name of the signal.
        name: String,
    },
}
