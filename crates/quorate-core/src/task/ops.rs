//! What can be asked of tasks, and what no such request may be, whatever the state of the world.

use bytes::Bytes;

use crate::commit::{Waiting, check_claim, check_lease};
use crate::ids::{AgentId, ConsumerId, DeliveryId, TaskId, Token};
use crate::limits::{
    ATTEMPTS_DEFAULT, ATTEMPTS_MAX, BACKOFF_MS_DEFAULT, BACKOFF_MS_MAX, COMMIT_BYTES_MAX, LEASE_MS_DEFAULT,
    LIST_MAX, PAYLOAD_BYTES_MAX, TASK_EDGES_MAX, TASK_TIMEOUT_MS_MAX, TASK_TIMEOUT_MS_MIN,
    TASK_WORDS_BYTES_MAX, TASKS_PER_OP_MAX,
};
use crate::lock::FenceRef;
use crate::message::{Payload, Priority, check_reason, check_word, is_json};
use crate::refused::{Code, Refused};
use crate::task::{OnDependencyFailure, TaskStatus};

/// `task.create`: one task or a whole graph, all at once.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateTasks {
    /// The tasks. They may depend on each other in any order, but not in a circle.
    pub tasks: Vec<NewTask>,
    /// The inputs of all of them; each task says which bytes are its own. Erased together, if ever.
    pub inputs: Option<Payload>,
}

/// A task to be made.
#[derive(Clone, PartialEq, Debug)]
pub struct NewTask {
    /// The id that the client chose; the hub makes one if there is none.
    pub id: Option<TaskId>,
    /// What it is about: the capability that it needs. May be empty if an agent is named.
    pub task_type: String,
    /// The only agent that may take it.
    pub agent: Option<AgentId>,
    /// Its bytes of the inputs: the first, and how many.
    pub input: Option<(u64, u64)>,
    /// What the bytes of the input are; `None` is JSON.
    pub content_type: Option<String>,
    /// Which goes first.
    pub priority: Priority,
    /// What must be done before.
    pub depends_on: Vec<Dependency>,
    /// How long one try may take in all.
    pub timeout_ms: Option<u64>,
    /// How long a lease lasts if the claim says nothing.
    pub lease_ms: u64,
    /// How often it is tried.
    pub attempts_max: u16,
    /// How long to wait after the first failed try.
    pub backoff_ms: u64,
    /// What happens when a dependency ends other than done.
    pub on_dependency_failure: OnDependencyFailure,
    /// Who is told when it is given up.
    pub escalate_to: EscalateTo,
    /// The session it belongs to.
    pub session: Option<String>,
}

/// A task that must be done before another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dependency {
    /// The task with this id: of the same operation, or an earlier one.
    Task(TaskId),
    /// The task at this place of the same operation, counted from 0.
    Nth(u32),
}

/// Who is told when a task is given up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum EscalateTo {
    /// Nobody.
    Nobody,
    /// Every agent whose role is coordinator.
    #[default]
    Coordinators,
    /// This agent.
    Agent(AgentId),
}

/// `task.claim`: take tasks, and wait for more if asked to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimTasks {
    /// Who takes them.
    pub agent: AgentId,
    /// Of which types; none = of all that the agent said it can do. What is for the agent by name comes in any case.
    pub types: Vec<String>,
    /// How many at most; for a standing claim its first credit.
    pub max: u32,
    /// How long the leases last; `None` = as each task says.
    pub lease_ms: Option<u64>,
    /// What to do when fewer than `max` are there.
    pub waiting: Waiting,
}

/// A task and the lease under which it is held.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskLeaseRef {
    /// Which task.
    pub task: TaskId,
    /// The token of the lease.
    pub token: Token,
}

/// `task.heartbeat`: its holder is alive, and may say how far it got.
#[derive(Clone, PartialEq, Debug)]
pub struct HeartbeatTask {
    /// The task and its lease.
    pub lease: TaskLeaseRef,
    /// What there is of the result. Kept, also when the try comes to nothing; without it there is no record.
    pub partial: Option<Payload>,
}

/// `task.complete`: the end of a task with a result.
#[derive(Clone, PartialEq, Debug)]
pub struct CompleteTask {
    /// The task and its lease.
    pub lease: TaskLeaseRef,
    /// [`TaskStatus::Done`], or [`TaskStatus::Partial`] if something is missing.
    pub status: TaskStatus,
    /// The result.
    pub result: Option<Payload>,
    /// What the bytes of the result are; `None` is JSON.
    pub content_type: Option<String>,
    /// How sure its author is, 0 to 1.
    pub confidence: Option<f64>,
    /// Why its author says so.
    pub rationale: Option<String>,
    /// The lock under which it was worked on: refused if somebody else was given it since.
    pub fence: Option<FenceRef>,
}

/// `task.fail`: this try came to nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct FailTask {
    /// The task and its lease.
    pub lease: TaskLeaseRef,
    /// What went wrong.
    pub reason: String,
    /// More for whoever looks into it, as JSON.
    pub details: Option<Payload>,
    /// Whether another try may help.
    pub recoverable: bool,
}

/// `task.cancel`: nobody needs it any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CancelTask {
    /// Which task.
    pub task: TaskId,
    /// Why.
    pub reason: String,
}

/// Waits until a task is over, whatever comes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AwaitTask {
    /// Who waits.
    pub agent: AgentId,
    /// Which task.
    pub task: TaskId,
    /// The delivery that the agent works on meanwhile. Of several things that an agent does, only this one waits.
    pub within: Option<DeliveryId>,
    /// Who is told.
    pub waiting: ConsumerId,
}

impl NewTask {
    /// A task for whoever has this capability, with everything else at its default.
    #[must_use]
    pub fn new(task_type: impl Into<String>) -> Self {
        Self {
            id: None,
            task_type: task_type.into(),
            agent: None,
            input: None,
            content_type: None,
            priority: Priority::default(),
            depends_on: Vec::new(),
            timeout_ms: None,
            lease_ms: LEASE_MS_DEFAULT,
            attempts_max: ATTEMPTS_DEFAULT,
            backoff_ms: BACKOFF_MS_DEFAULT,
            on_dependency_failure: OnDependencyFailure::default(),
            escalate_to: EscalateTo::default(),
            session: None,
        }
    }

    /// Whether the input is declared to be JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        is_json(self.content_type.as_deref())
    }

    /// How many bytes of words it brings.
    fn words(&self) -> usize {
        let depends_on = self.depends_on.iter().map(|dependency| match dependency {
            Dependency::Task(id) => id.as_str().len(),
            Dependency::Nth(_) => 0,
        });
        let texts = [
            self.id.as_ref().map(TaskId::as_str),
            Some(self.task_type.as_str()),
            self.content_type.as_deref(),
            self.session.as_deref(),
        ];
        depends_on.sum::<usize>() + texts.into_iter().flatten().map(str::len).sum::<usize>()
    }

    fn check(&self, count: usize, inputs: usize) -> Result<(), Refused> {
        let invalid = |what: String| Refused::new(Code::Invalid, what);
        if let Some(id) = &self.id
            && id.is_made_by_hub()
        {
            return Err(invalid(format!("the task id {id} looks like one that the hub makes"))
                .hint("choose an id that does not start with tsk_, or none at all"));
        }
        if self.task_type.is_empty() && self.agent.is_none() {
            return Err(invalid("the task has neither a type nor an agent".into())
                .hint("say what capability it needs, or which agent shall do it"));
        }
        check_word("type", &self.task_type)?;
        check_word("contentType", self.content_type.as_deref().unwrap_or(""))?;
        check_word("sessionId", self.session.as_deref().unwrap_or(""))?;
        if self.priority.level > 3 {
            return Err(invalid(format!("priority {} is not between 0 and 3", self.priority.level)));
        }
        if !(1..=ATTEMPTS_MAX).contains(&self.attempts_max) {
            return Err(invalid(format!(
                "maxAttempts {} is not between 1 and {ATTEMPTS_MAX}",
                self.attempts_max
            ))
            .limit(u64::from(ATTEMPTS_MAX)));
        }
        if self.backoff_ms > BACKOFF_MS_MAX {
            return Err(invalid(format!("a first wait of {} ms after a failure", self.backoff_ms))
                .limit(BACKOFF_MS_MAX));
        }
        check_lease(self.lease_ms)?;
        if let Some(timeout) = self.timeout_ms
            && !(TASK_TIMEOUT_MS_MIN..=TASK_TIMEOUT_MS_MAX).contains(&timeout)
        {
            return Err(invalid(format!("a timeout of {timeout} ms"))
                .limit(TASK_TIMEOUT_MS_MAX)
                .hint(format!("a try may take {TASK_TIMEOUT_MS_MIN} to {TASK_TIMEOUT_MS_MAX} ms")));
        }
        if self.depends_on.iter().any(|one| matches!(one, Dependency::Nth(n) if *n as usize >= count)) {
            return Err(invalid(format!(
                "a task depends on a place beyond the {count} tasks of the operation"
            )));
        }
        self.check_input(inputs)
    }

    fn check_input(&self, inputs: usize) -> Result<(), Refused> {
        let Some((start, length)) = self.input else { return Ok(()) };
        if start.checked_add(length).is_none_or(|end| end > inputs as u64) {
            return Err(Refused::new(Code::Invalid, "the input of a task lies beyond the inputs"));
        }
        if length > PAYLOAD_BYTES_MAX as u64 {
            return Err(Refused::new(Code::TooLarge, format!("the input of a task has {length} bytes"))
                .limit(PAYLOAD_BYTES_MAX as u64)
                .hint("put the data elsewhere and send a reference"));
        }
        Ok(())
    }
}

impl CreateTasks {
    /// Packs tasks and their inputs into one operation.
    #[must_use]
    pub fn pack(tasks: impl IntoIterator<Item = (NewTask, Option<Vec<u8>>)>, salt: [u8; 16]) -> Self {
        let mut inputs = Vec::new();
        let mut packed = Vec::new();
        for (mut task, input) in tasks {
            task.input = input.map(|bytes| {
                let start = inputs.len() as u64;
                inputs.extend_from_slice(&bytes);
                (start, bytes.len() as u64)
            });
            packed.push(task);
        }
        let inputs = (!inputs.is_empty()).then(|| Payload::seal(Bytes::from(inputs), salt));
        Self { tasks: packed, inputs }
    }

    /// The input of one of its tasks.
    #[must_use]
    pub fn input_of(&self, task: &NewTask) -> Option<Bytes> {
        let (start, length) = task.input?;
        let end = usize::try_from(start.checked_add(length)?).ok()?;
        match &self.inputs {
            Some(inputs) if end <= inputs.bytes.len() => Some(inputs.bytes.slice(start as usize..end)),
            None if end == 0 => Some(Bytes::new()),
            _ => None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        let count = self.tasks.len();
        if count == 0 {
            return Err(
                Refused::new(Code::Invalid, "there is no task to make").hint("give at least one in tasks")
            );
        }
        let over = |what: &str, count: usize, limit: usize| {
            Err(Refused::new(Code::LimitExceeded, format!("the tasks of one operation have {count} {what}"))
                .limit(limit as u64)
                .hint("make them by several operations; a later one may depend on tasks of an earlier one"))
        };
        if count > TASKS_PER_OP_MAX {
            return Err(Refused::new(Code::LimitExceeded, format!("{count} tasks in one operation"))
                .limit(TASKS_PER_OP_MAX as u64)
                .hint("make them by several operations; a later one may depend on tasks of an earlier one"));
        }
        let edges = self.tasks.iter().map(|task| task.depends_on.len()).sum();
        if edges > TASK_EDGES_MAX {
            return over("dependencies", edges, TASK_EDGES_MAX);
        }
        let words = self.tasks.iter().map(NewTask::words).sum();
        if words > TASK_WORDS_BYTES_MAX {
            return over("bytes of ids and other words", words, TASK_WORDS_BYTES_MAX);
        }
        let inputs = self.inputs.as_ref().map_or(0, |inputs| inputs.bytes.len());
        if inputs > COMMIT_BYTES_MAX {
            return Err(Refused::new(Code::TooLarge, format!("the inputs have {inputs} bytes"))
                .limit(COMMIT_BYTES_MAX as u64));
        }
        self.tasks.iter().try_for_each(|task| task.check(count, inputs))
    }
}

impl ClaimTasks {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        check_claim("tasks", self.max)?;
        self.lease_ms.map_or(Ok(()), check_lease)?;
        if self.types.len() > LIST_MAX {
            return Err(Refused::new(Code::LimitExceeded, format!("a claim of {} types", self.types.len()))
                .limit(LIST_MAX as u64));
        }
        for word in &self.types {
            check_word("type", word)?;
            if word.is_empty() {
                return Err(Refused::new(Code::Invalid, "the claim names an empty type"));
            }
        }
        Ok(())
    }
}

impl HeartbeatTask {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.partial.as_ref().map_or(Ok(()), Payload::check)
    }
}

impl CompleteTask {
    /// Done, with nothing more to say.
    #[must_use]
    pub fn done(lease: TaskLeaseRef, result: Option<Payload>) -> Self {
        Self {
            lease,
            status: TaskStatus::Done,
            result,
            content_type: None,
            confidence: None,
            rationale: None,
            fence: None,
        }
    }

    /// Whether the result is declared to be JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        is_json(self.content_type.as_deref())
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.result.as_ref().map_or(Ok(()), Payload::check)?;
        if !matches!(self.status, TaskStatus::Done | TaskStatus::Partial) {
            let detail = format!("a task is not completed as {}", self.status.as_str());
            return Err(Refused::new(Code::Invalid, detail).hint("complete it as done or partial"));
        }
        if self.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return Err(Refused::new(Code::Invalid, "the confidence is not between 0 and 1")
                .hint("0.8 is eighty per cent"));
        }
        check_word("contentType", self.content_type.as_deref().unwrap_or(""))?;
        check_reason("rationale", self.rationale.as_deref().unwrap_or(""))
    }
}

impl FailTask {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.details.as_ref().map_or(Ok(()), Payload::check)?;
        check_reason("reason", &self.reason)
    }
}

impl CancelTask {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        check_reason("reason", &self.reason)
    }
}
