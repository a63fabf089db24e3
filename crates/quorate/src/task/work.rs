//! Handlers of tasks: plain async functions with a typed input.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use quorate_api::Error;
use quorate_core::{Op, TaskId, TaskStatus};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::{Agent, from_json, to_json};
use crate::handler::{Extra, Failure};
use crate::send::Draft;
use crate::step::put_op;
use crate::task::{TakenTask, Task};

/// A task to work on: its input, and what goes into the commit that ends it. What the handler returns is its result.
pub struct TaskWork<P> {
    /// The input, typed.
    pub input: P,
    taken: TakenTask,
    agent: Agent,
    extra: Extra,
    said: Said,
}

/// What a handler says of its result besides the result.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) status: TaskStatus,
    pub(crate) confidence: Option<f64>,
    pub(crate) rationale: Option<String>,
}

impl Default for Verdict {
    fn default() -> Self {
        Self { status: TaskStatus::Done, confidence: None, rationale: None }
    }
}

pub(crate) type Said = Arc<Mutex<Verdict>>;

impl<P> TaskWork<P> {
    /// The id of the task.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        self.taken.id()
    }

    /// The task as it is known: how often it was tried, why the last try came to nothing, dependencies that are missing.
    #[must_use]
    pub fn task(&self) -> &Task {
        self.taken.task()
    }

    /// The agent that works on it.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Keeps what there is of the result, also if this try comes to nothing.
    ///
    /// # Errors
    /// `STALE_LEASE` or `CANCELLED` if it is not its task any more, or a failure of the storage.
    pub async fn progress(&self, partial: impl Serialize) -> Result<(), Error> {
        self.agent.progress(&self.taken, partial).await
    }

    /// How sure the handler is of its result, 0 to 1.
    pub fn confidence(&self, confidence: f64) {
        self.say(|verdict| verdict.confidence = Some(confidence));
    }

    /// Why the handler says so.
    pub fn rationale(&self, rationale: impl Into<String>) {
        self.say(|verdict| verdict.rationale = Some(rationale.into()));
    }

    /// The result will be a part of what was asked for: the task ends, but those that need it are not satisfied.
    pub fn partial(&self) {
        self.say(|verdict| verdict.status = TaskStatus::Partial);
    }

    fn say(&self, what: impl FnOnce(&mut Verdict)) {
        what(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends a message in the commit that ends this task: if the work fails, it is not sent.
    pub fn send(&self, to: impl Into<String>, action: impl Into<String>, payload: impl Serialize) {
        let mut draft = Draft::new(vec![to.into()], action.into(), to_json(payload));
        draft.correlation = Some(self.id().to_string());
        self.add(draft.message(&*self.agent.link, &self.agent.id).map(Op::send));
    }

    /// Writes a memory entry in the commit that ends this task.
    pub fn put(&self, key: &str, entry_type: &str, content: impl Serialize) {
        self.add(put_op(&self.agent, key, entry_type, content, None));
    }

    fn add(&self, op: Result<Op, Error>) {
        crate::handler::add(&self.extra, op);
    }
}

pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Vec<u8>, Failure>> + Send>>;

/// A handler whose types are hidden.
pub(crate) trait TaskHandler: Send + Sync {
    /// Works on a task. The result is JSON.
    fn work(&self, agent: Agent, taken: TakenTask, extra: Extra, said: Said) -> Answer;
}

struct Typed<F, P>(F, std::marker::PhantomData<fn(P)>);

impl<P, R, F, Fut> TaskHandler for Typed<F, P>
where
    P: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Fn(TaskWork<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
{
    fn work(&self, agent: Agent, taken: TakenTask, extra: Extra, said: Said) -> Answer {
        // An input of another shape stays so, however often it is tried.
        let input: P = match from_json(taken.json()) {
            Ok(input) => input,
            Err(error) => return Box::pin(async move { Err(Failure::dead(error.to_string())) }),
        };
        let done = (self.0)(TaskWork { input, taken, agent, extra, said });
        Box::pin(async move {
            let result = done.await?;
            to_json(result).map_err(|error| Failure::dead(error.to_string()))
        })
    }
}

pub(crate) fn task_handler<P, R, F, Fut>(function: F) -> Arc<dyn TaskHandler>
where
    P: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Fn(TaskWork<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
{
    Arc::new(Typed(function, std::marker::PhantomData))
}
