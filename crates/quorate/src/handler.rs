//! Message handlers: async functions with typed payloads.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use quorate_api::Error;
use quorate_core::limits::REASON_CHARS_MAX;
use quorate_core::{Code, Op, Refused};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::agent::{Agent, ReceivedMessage, from_json, to_json};
use crate::lock::LockBuilder;
use crate::request::AskBuilder;
use crate::step::put_op;

/// Key of the handler for all actions that have no handler of their own. No action contains a control character.
pub(crate) const OTHER_ACTIONS: &str = "\0other";

/// Context of a message handler: the payload, and the effects to commit together with the ack.
pub struct Work<P> {
    /// Deserialized payload.
    pub payload: P,
    received: ReceivedMessage,
    agent: Agent,
    effects: SharedEffects,
}

/// Effects added by a handler, or the first error among them.
pub(crate) type SharedEffects = Arc<Mutex<Result<HandlerEffects, Error>>>;

/// Effects that a handler adds to the commit that ends its delivery or task.
#[derive(Clone, Default)]
pub(crate) struct HandlerEffects {
    pub(crate) ops: Vec<Op>,
    pub(crate) answer: AnswerFields,
}

/// Fields of an answer other than its payload.
#[derive(Clone, Default)]
pub(crate) struct AnswerFields {
    pub(crate) metadata: Map<String, Value>,
    pub(crate) confidence: Option<f64>,
    pub(crate) rationale: Option<String>,
}

/// Returns an empty set of effects.
pub(crate) fn no_effects() -> SharedEffects {
    Arc::new(Mutex::new(Ok(HandlerEffects::default())))
}

/// Returns the effects collected so far.
pub(crate) fn collected_effects(effects: &SharedEffects) -> Result<HandlerEffects, Error> {
    effects.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl<P> Work<P> {
    /// Returns the delivery being handled.
    #[must_use]
    pub fn message(&self) -> &ReceivedMessage {
        &self.received
    }

    /// Returns the agent that handles the message.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Sends a message in the commit that acknowledges the delivery. If the handler fails, the message is not sent.
    pub fn send(&self, to: impl Into<String>, action: impl Into<String>, payload: impl Serialize) {
        let mut draft = crate::send::MessageDraft::new(vec![to.into()], action.into(), to_json(payload));
        draft.continue_from(&self.received);
        self.add(draft.into_message(&*self.agent.backend, &self.agent.id).map(Op::send));
    }

    /// Writes a memory entry in the commit that acknowledges the delivery.
    pub fn put(&self, key: &str, entry_type: &str, content: impl Serialize) {
        let op = put_op(&self.agent, key, entry_type, content, None);
        self.add(op);
    }

    /// Acquires locks on behalf of this delivery, as [`Agent::lock`] does. For an agent that handles several
    /// deliveries concurrently, only this delivery counts as waiting, which avoids false positives of deadlock
    /// detection.
    pub fn lock<T: Into<String>>(&self, names: impl IntoIterator<Item = T>) -> LockBuilder {
        let mut builder = self.agent.lock(names);
        builder.work = self.received.0.delivery_id();
        builder
    }

    /// Sends a request on behalf of this delivery, as [`Agent::ask`] does. It belongs to the same conversation, one
    /// hop further.
    pub fn ask(
        &self,
        to: impl Into<String>,
        action: impl Into<String>,
        payload: impl Serialize,
    ) -> AskBuilder {
        self.agent.ask(to, action, payload).caused_by(&self.received)
    }

    /// Sets a field of the answer's `metadata`, such as `usage`. The last value of a field wins.
    pub fn answer_metadata(&self, field: impl Into<String>, value: impl Serialize) {
        let field = field.into();
        let value = serde_json::to_value(value).map_err(|error| {
            Refused::new(
                Code::Invalid,
                format!("metadata field {field:?} cannot be serialized as JSON: {error}"),
            )
            .into()
        });
        add_to(&self.effects, value, |collected, value| {
            collected.answer.metadata.insert(field, value);
        });
    }

    /// Sets the confidence of the answer, from 0 to 1. The policy of the space may require it, unless the answer reports
    /// a failure: it has an `error`, `"success": false`, or a `status` such as `failed`.
    pub fn answer_confidence(&self, confidence: f64) {
        let checked = if (0.0..=1.0).contains(&confidence) {
            Ok(confidence)
        } else {
            Err(Refused::new(Code::Invalid, format!("invalid confidence of an answer: {confidence}"))
                .hint("use a number from 0 to 1")
                .into())
        };
        add_to(&self.effects, checked, |collected, confidence| {
            collected.answer.confidence = Some(confidence)
        });
    }

    /// Sets the rationale of the answer, cut to the 1,000 characters that a rationale may have. The policy of the space
    /// may require one, also of a failure, and may limit it further.
    pub fn answer_rationale(&self, rationale: impl Into<String>) {
        let rationale: String = rationale.into().chars().take(REASON_CHARS_MAX).collect();
        add_to(&self.effects, Ok(rationale), |collected, rationale| {
            collected.answer.rationale = Some(rationale);
        });
    }

    fn add(&self, op: Result<Op, Error>) {
        add_op(&self.effects, op);
    }
}

/// Adds an operation to the effects of a handler.
pub(crate) fn add_op(effects: &SharedEffects, op: Result<Op, Error>) {
    add_to(effects, op, |collected, op| collected.ops.push(op));
}

fn add_to<T>(effects: &SharedEffects, value: Result<T, Error>, add: impl FnOnce(&mut HandlerEffects, T)) {
    let mut effects = effects.lock().unwrap_or_else(PoisonError::into_inner);
    match (&mut *effects, value) {
        (Ok(collected), Ok(value)) => add(collected, value),
        (Ok(_), Err(error)) => *effects = Err(error),
        // The first error is the one that is reported.
        (Err(_), _) => {}
    }
}

/// Error returned by a handler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub(crate) reason: String,
    pub(crate) retryable: bool,
}

impl Failure {
    /// A failure that is worth retrying. A message is redelivered after 1, 2 and 4 seconds, then dead-lettered; a
    /// task follows its own retry settings.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), retryable: true }
    }

    /// A permanent failure: a message is dead-lettered immediately, a task fails.
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), retryable: false }
    }
}

/// Converts any error into a retryable failure.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::retry(error.to_string())
    }
}

type HandlerFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>, Failure>> + Send>>;

/// Type-erased message handler.
pub(crate) trait Handler: Send + Sync {
    /// Handles a delivery and returns the answer as JSON.
    fn handle(&self, agent: Agent, received: ReceivedMessage, effects: SharedEffects) -> HandlerFuture;
}

struct TypedHandler<F, P>(F, std::marker::PhantomData<fn(P)>);

impl<P, R, F, Fut> Handler for TypedHandler<F, P>
where
    P: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Fn(Work<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
{
    fn handle(&self, agent: Agent, received: ReceivedMessage, effects: SharedEffects) -> HandlerFuture {
        // Retrying cannot fix a payload of the wrong type.
        let payload: P = match from_json(received.bytes()) {
            Ok(payload) => payload,
            Err(error) => return Box::pin(async move { Err(Failure::permanent(error.to_string())) }),
        };
        let handled = (self.0)(Work { payload, received, agent, effects });
        Box::pin(async move {
            let answer = handled.await?;
            to_json(answer).map_err(|error| Failure::permanent(error.to_string()))
        })
    }
}

pub(crate) fn erase_handler<P, R, F, Fut>(function: F) -> Arc<dyn Handler>
where
    P: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Fn(Work<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
{
    Arc::new(TypedHandler(function, std::marker::PhantomData))
}
