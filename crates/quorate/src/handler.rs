//! Handlers: plain async functions with typed payloads.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use quorate_api::Error;
use quorate_core::{Code, Op, Refused};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::agent::{Agent, Received, from_json, to_json};
use crate::ask::Question;
use crate::lock::Locking;
use crate::step::put_op;

/// A piece of work: the payload, and what goes into the commit that ends it.
pub struct Work<P> {
    /// The payload, typed.
    pub payload: P,
    received: Received,
    agent: Agent,
    extra: Extra,
}

/// What a handler adds to the commit that ends its work, or the first mistake in it.
pub(crate) type Extra = Arc<Mutex<Result<Added, Error>>>;

/// What a handler adds.
#[derive(Clone, Default)]
pub(crate) struct Added {
    pub(crate) ops: Vec<Op>,
    /// What it says about its answer.
    pub(crate) about: Map<String, Value>,
}

/// Nothing yet.
pub(crate) fn nothing() -> Extra {
    Arc::new(Mutex::new(Ok(Added::default())))
}

/// All that a handler added.
pub(crate) fn added(extra: &Extra) -> Result<Added, Error> {
    extra.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl<P> Work<P> {
    /// The message that brought it.
    #[must_use]
    pub fn message(&self) -> &Received {
        &self.received
    }

    /// The agent that works on it.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Sends a message in the commit that ends this piece of work: if the work fails, it is not sent.
    pub fn send(&self, to: impl Into<String>, action: impl Into<String>, payload: impl Serialize) {
        let mut draft = crate::send::Draft::new(vec![to.into()], action.into(), to_json(payload));
        draft.follow(&self.received);
        self.add(draft.message(&*self.agent.link, &self.agent.id).map(Op::send));
    }

    /// Writes a memory entry in the commit that ends this piece of work.
    pub fn put(&self, key: &str, entry_type: &str, content: impl Serialize) {
        let op = put_op(&self.agent, key, entry_type, content, None);
        self.add(op);
    }

    /// Takes locks for this piece of work, as [`Agent::lock`] does. An agent that works on several things at once waits
    /// for them with this one only, so that others who wait for it are not taken for stuck.
    pub fn lock<T: Into<String>>(&self, names: impl IntoIterator<Item = T>) -> Locking {
        let mut locking = self.agent.lock(names);
        locking.work = self.received.0.delivery_id();
        locking
    }

    /// Asks for this piece of work, as [`Agent::ask`] does: the question belongs to the same conversation, one hop further.
    pub fn ask(&self, to: impl Into<String>, action: impl Into<String>, payload: impl Serialize) -> Question {
        self.agent.ask(to, action, payload).upon(&self.received)
    }

    /// Says something about the answer, beside it: a field of its `metadata`, such as `usage`. Said again, the last counts.
    pub fn about_answer(&self, field: impl Into<String>, value: impl Serialize) {
        let field = field.into();
        let value = serde_json::to_value(value).map_err(|error| {
            Refused::new(Code::Invalid, format!("{field}, said about the answer, is no JSON: {error}")).into()
        });
        add_to(&self.extra, value, |added, value| {
            added.about.insert(field, value);
        });
    }

    fn add(&self, op: Result<Op, Error>) {
        add(&self.extra, op);
    }
}

/// Adds to what a handler does in the commit that ends its work.
pub(crate) fn add(extra: &Extra, op: Result<Op, Error>) {
    add_to(extra, op, |added, op| added.ops.push(op));
}

fn add_to<T>(extra: &Extra, more: Result<T, Error>, put: impl FnOnce(&mut Added, T)) {
    let mut extra = extra.lock().unwrap_or_else(PoisonError::into_inner);
    match (&mut *extra, more) {
        (Ok(added), Ok(more)) => put(added, more),
        (Ok(_), Err(error)) => *extra = Err(error),
        // The first mistake is the one to tell.
        (Err(_), _) => {}
    }
}

/// Why a handler could not do its work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub(crate) reason: String,
    pub(crate) again: bool,
}

impl Failure {
    /// Trying again may help: after 1, 2 and 4 seconds, then it is a dead letter.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), again: true }
    }

    /// Trying again would not help: a dead letter at once.
    pub fn dead(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), again: false }
    }
}

/// Any error means: try again.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::retry(error.to_string())
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<Vec<u8>, Failure>> + Send>>;

/// A handler whose types are hidden.
pub(crate) trait Handler: Send + Sync {
    /// Works on a delivery. The answer is JSON.
    fn work(&self, agent: Agent, received: Received, extra: Extra) -> Answer;
}

struct Typed<F, P>(F, std::marker::PhantomData<fn(P)>);

impl<P, R, F, Fut> Handler for Typed<F, P>
where
    P: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Fn(Work<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
{
    fn work(&self, agent: Agent, received: Received, extra: Extra) -> Answer {
        // A payload of another shape stays so, however often it is tried.
        let payload: P = match from_json(received.bytes()) {
            Ok(payload) => payload,
            Err(error) => return Box::pin(async move { Err(Failure::dead(error.to_string())) }),
        };
        let done = (self.0)(Work { payload, received, agent, extra });
        Box::pin(async move {
            let answer = done.await?;
            to_json(answer).map_err(|error| Failure::dead(error.to_string()))
        })
    }
}

pub(crate) fn handler<P, R, F, Fut>(function: F) -> Arc<dyn Handler>
where
    P: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Fn(Work<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
{
    Arc::new(Typed(function, std::marker::PhantomData))
}
