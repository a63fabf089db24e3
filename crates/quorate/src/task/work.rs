//! Task handlers: async functions with a typed input.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use quorate_api::Error;
use quorate_api::task::TaskContext;
use quorate_core::{Op, TaskId, TaskStatus};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::{Agent, from_json, to_json};
use crate::handler::{Failure, SharedEffects};
use crate::send::MessageDraft;
use crate::step::put_op;
use crate::task::{ClaimedTask, Task};

/// Context of a task handler: the input of the task, and the effects to commit together with its result. The return
/// value of the handler is the result.
pub struct TaskWork<P> {
    /// Deserialized input.
    pub input: P,
    claimed: ClaimedTask,
    agent: Agent,
    effects: SharedEffects,
    metadata: SharedMetadata,
}

/// Metadata that a handler attaches to its result.
#[derive(Clone, Debug)]
pub(crate) struct ResultMetadata {
    pub(crate) status: TaskStatus,
    pub(crate) confidence: Option<f64>,
    pub(crate) rationale: Option<String>,
}

impl Default for ResultMetadata {
    fn default() -> Self {
        Self { status: TaskStatus::Done, confidence: None, rationale: None }
    }
}

pub(crate) type SharedMetadata = Arc<Mutex<ResultMetadata>>;

impl<P> TaskWork<P> {
    /// Returns the task id.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        self.claimed.id()
    }

    /// Returns the task: attempts so far, reason of the last failure, failed dependencies.
    #[must_use]
    pub fn task(&self) -> &Task {
        self.claimed.task()
    }

    /// Returns what earlier attempts left, and the results of the dependencies: see [`ClaimedTask::context`].
    #[must_use]
    pub fn context(&self) -> &TaskContext {
        self.claimed.context()
    }

    /// Returns the agent that handles the task.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Stores a partial result, which is retained even if this attempt fails. Also extends the lease.
    ///
    /// # Errors
    /// Returns `STALE_LEASE` or `CANCELLED` if the agent no longer holds the task, or a storage error.
    pub async fn progress(&self, partial: impl Serialize) -> Result<(), Error> {
        self.agent.progress(&self.claimed, partial).await
    }

    /// Sets the confidence in the result, from 0 to 1.
    pub fn set_confidence(&self, confidence: f64) {
        self.update_metadata(|metadata| metadata.confidence = Some(confidence));
    }

    /// Sets the rationale of the result.
    pub fn set_rationale(&self, rationale: impl Into<String>) {
        self.update_metadata(|metadata| metadata.rationale = Some(rationale.into()));
    }

    /// Marks the result as partial: the task ends, and its dependents treat it as failed.
    pub fn mark_partial(&self) {
        self.update_metadata(|metadata| metadata.status = TaskStatus::Partial);
    }

    fn update_metadata(&self, update: impl FnOnce(&mut ResultMetadata)) {
        update(&mut self.metadata.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends a message in the commit that completes the task. If the handler fails, the message is not sent.
    pub fn send(&self, to: impl Into<String>, action: impl Into<String>, payload: impl Serialize) {
        let mut draft = MessageDraft::new(vec![to.into()], action.into(), to_json(payload));
        draft.correlation = Some(self.id().to_string());
        self.add(draft.into_message(&*self.agent.backend, &self.agent.id).map(Op::send));
    }

    /// Writes a memory entry in the commit that completes the task.
    pub fn put(&self, key: &str, entry_type: &str, content: impl Serialize) {
        self.add(put_op(&self.agent, key, entry_type, content, None));
    }

    fn add(&self, op: Result<Op, Error>) {
        crate::handler::add_op(&self.effects, op);
    }
}

pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>, Failure>> + Send>>;

/// Type-erased task handler.
pub(crate) trait TaskHandler: Send + Sync {
    /// Handles a task and returns its result as JSON.
    fn handle(
        &self,
        agent: Agent,
        claimed: ClaimedTask,
        effects: SharedEffects,
        metadata: SharedMetadata,
    ) -> TaskFuture;
}

struct TypedTaskHandler<F, P>(F, std::marker::PhantomData<fn(P)>);

impl<P, R, F, Fut> TaskHandler for TypedTaskHandler<F, P>
where
    P: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Fn(TaskWork<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
{
    fn handle(
        &self,
        agent: Agent,
        claimed: ClaimedTask,
        effects: SharedEffects,
        metadata: SharedMetadata,
    ) -> TaskFuture {
        // Retrying cannot fix an input of the wrong type.
        let input: P = match from_json(claimed.json()) {
            Ok(input) => input,
            Err(error) => return Box::pin(async move { Err(Failure::permanent(error.to_string())) }),
        };
        let future = (self.0)(TaskWork { input, claimed, agent, effects, metadata });
        Box::pin(async move {
            let result = future.await?;
            to_json(result).map_err(|error| Failure::permanent(error.to_string()))
        })
    }
}

pub(crate) fn erase_task_handler<P, R, F, Fut>(function: F) -> Arc<dyn TaskHandler>
where
    P: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Fn(TaskWork<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
{
    Arc::new(TypedTaskHandler(function, std::marker::PhantomData))
}
