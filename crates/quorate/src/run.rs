//! An agent at work: takes deliveries, runs handlers, ends each with one commit.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_api::Error;
use quorate_core::{Code, LeaseRef, Message, MessageType, Nack, NackThen, Op, retry};
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::agent::{Agent, Received};
use crate::handler::{self, Added, Extra, Failure, Handler};
use crate::link::{Inbox, Room};
use crate::send::Draft;
use crate::task::{TaskHandler, work_on_tasks};

/// An agent at work. Stops when it is told to, or when it is dropped.
pub struct Running {
    agent: Agent,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<Result<(), Error>>>,
}

impl Running {
    /// The agent, to send and to read with.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Takes no more, lets running handlers finish, and gives the rest back untouched.
    ///
    /// # Errors
    /// What ended the agent earlier, if anything did: `STALE_EPOCH` when it was started again elsewhere.
    pub async fn stop(mut self) -> Result<(), Error> {
        let _ = self.stop.send(true);
        self.finish().await
    }

    /// Works until something ends it.
    ///
    /// # Errors
    /// What ended it.
    pub async fn finish(&mut self) -> Result<(), Error> {
        match self.task.take() {
            Some(task) => task.await.unwrap_or(Ok(())),
            None => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

pub(crate) async fn start(
    agent: Agent,
    handlers: HashMap<String, Arc<dyn Handler>>,
    task_handlers: HashMap<String, Arc<dyn TaskHandler>>,
    at_once: u32,
) -> Result<Running, Error> {
    let (stop, stopped) = watch::channel(false);
    let hands = Arc::new(Semaphore::new(at_once as usize));
    let tasks = if task_handlers.is_empty() {
        None
    } else {
        let claim = agent.task_claim(task_handlers.keys().cloned().collect());
        let consumer = agent.link.consume_tasks(claim, at_once).await?;
        let (hands, stopped) = (Arc::clone(&hands), stopped.clone());
        Some(work_on_tasks(agent.clone(), task_handlers, consumer, hands, stopped))
    };
    // An agent that only does tasks leaves its messages to whoever receives them in its name.
    let messages = if handlers.is_empty() && tasks.is_some() {
        None
    } else {
        let consumer = agent.link.consume(agent.who(), at_once, agent.lease_ms).await?;
        let desk = Arc::new(Desk { agent: agent.clone(), handlers, hands });
        Some(desk.work(consumer, stopped))
    };
    let id = agent.id().to_owned();
    let task = tokio::spawn(async move {
        let (messages, tasks) = tokio::join!(or_done(messages), or_done(tasks));
        let ended = messages.and(tasks);
        if let Err(error) = &ended {
            tracing::warn!(agent = %id, code = error.code().as_str(), "an agent stopped receiving");
        }
        ended
    });
    Ok(Running { agent, stop, task: Some(task) })
}

async fn or_done(work: Option<impl Future<Output = Result<(), Error>>>) -> Result<(), Error> {
    match work {
        Some(work) => work.await,
        None => Ok(()),
    }
}

/// Where an agent works.
struct Desk {
    agent: Agent,
    handlers: HashMap<String, Arc<dyn Handler>>,
    /// How many things it works on at once.
    hands: Arc<Semaphore>,
}

impl Desk {
    async fn work(
        self: Arc<Self>,
        mut inbox: Box<dyn Inbox>,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let mut running = JoinSet::new();
        loop {
            let next = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => break,
                next = inbox.next() => next?,
            };
            // Nothing more comes: the agent was started again elsewhere, or the hub is closed.
            let Some(delivery) = next else { break };
            let desk = Arc::clone(&self);
            let more = inbox.room();
            running.spawn(async move { desk.one(Received(delivery), more).await });
            while running.try_join_next().is_some() {}
        }
        while running.join_next().await.is_some() {}
        inbox.close().await
    }

    /// Works on one delivery and ends it, in one commit that also makes room for the next.
    async fn one(&self, received: Received, more: Room) {
        let Some(lease) = received.0.lease else {
            // It took no credit, so it gives none back.
            return self.one_in_memory(&received).await;
        };
        let extra = handler::nothing();
        let done = tokio::select! {
            done = self.handle(&received, Arc::clone(&extra)) => done,
            // The lease is lost: the work is somebody else's, so this try is called off.
            () = self.keep(lease) => return self.agent.go_on(&more).await,
        };
        let ops = done.and_then(|answer| self.ending(&received, lease, answer, &extra));
        let refusal = match ops {
            Ok(ops) => self.agent.end(ops, &more).await.err(),
            Err(failure) => return self.give_back(&received, lease, failure, &more).await,
        };
        match refusal {
            None => {}
            Some(error) if error.code() == Code::StaleLease => self.agent.go_on(&more).await,
            // What belongs to a session that is over will not be wanted later either, and what the rules of the space
            // forbid they forbid the next time as well.
            Some(error) if matches!(error.code(), Code::SessionClosed | Code::PolicyViolation) => {
                self.give_back(&received, lease, Failure::dead(error.to_string()), &more).await;
            }
            // The step was refused as a whole, so the input comes again or becomes a dead letter.
            Some(error) => self.give_back(&received, lease, Failure::retry(error.to_string()), &more).await,
        }
    }

    /// Works on an ephemeral delivery: at most once, so whatever comes of it, it is over. The answer is as fleeting.
    async fn one_in_memory(&self, received: &Received) {
        let extra = handler::nothing();
        let Ok(answer) = self.handle(received, Arc::clone(&extra)).await else {
            tracing::warn!(agent = %self.agent.id(), "the handler of an ephemeral message failed");
            return;
        };
        let Ok(Added { ops, about }) = handler::added(&extra) else { return };
        if !ops.is_empty() && self.agent.link.commit(self.agent.commit_of(ops)).await.is_err() {
            return;
        }
        if let Ok(Some(answer)) = self.answer(received, answer, about) {
            let _ = self.agent.link.send_ephemeral(self.agent.who(), answer).await;
        }
    }

    /// Runs the handler as soon as a hand is free. A panic is a failure that may pass.
    async fn handle(&self, received: &Received, extra: Extra) -> Result<Vec<u8>, Failure> {
        let Ok(_hand) = Arc::clone(&self.hands).acquire_owned().await else {
            return Err(Failure::retry("the agent is stopped"));
        };
        let action = received.action();
        let Some(handler) = self.handlers.get(action) else {
            return Err(Failure::dead(format!("agent {} has no handler for {action:?}", self.agent.id())));
        };
        let work = tokio::spawn(handler.work(self.agent.clone(), received.clone(), extra));
        // Called off with us: a lost lease cancels the handler.
        let work = AbortOnDrop(work);
        work.await
    }

    /// Keeps the lease for as long as the handler works; ends when it is lost.
    async fn keep(&self, lease: LeaseRef) {
        loop {
            self.agent.link.pass(Duration::from_millis(self.agent.lease_ms / 3)).await;
            match self.agent.prolong(lease, self.agent.lease_ms).await {
                Err(error)
                    if matches!(error.code(), Code::StaleLease | Code::StaleEpoch | Code::NotFound) =>
                {
                    return;
                }
                // Anything else may pass; the lease has time left.
                _ => {}
            }
        }
    }

    /// The commit that ends a delivery: ack, what the handler added, and the answer.
    fn ending(
        &self,
        received: &Received,
        lease: LeaseRef,
        answer: Vec<u8>,
        extra: &Extra,
    ) -> Result<Vec<Op>, Failure> {
        let mut ops = vec![Op::Ack(lease)];
        let dead = |error: Error| Failure::dead(error.to_string());
        let added = handler::added(extra).map_err(dead)?;
        ops.extend(added.ops);
        let answer = self.answer(received, answer, added.about).map_err(dead)?;
        ops.extend(answer.map(Op::send));
        Ok(ops)
    }

    /// The answer as a message, if one is wanted: as durable as the question.
    fn answer(
        &self,
        received: &Received,
        answer: Vec<u8>,
        about: Map<String, Value>,
    ) -> Result<Option<Message>, Error> {
        let message = received.message();
        let Some(to) = wants_answer(message) else { return Ok(None) };
        let mut draft = Draft::new(vec![to], message.action.clone(), Ok(answer));
        draft.follow(received);
        draft.kind = MessageType::Response;
        draft.priority = message.priority;
        draft.durability = message.durability;
        let mut answer = draft.message(&*self.agent.link, &self.agent.id)?;
        answer.metadata = (!about.is_empty()).then(|| Value::Object(about).to_string());
        Ok(Some(answer))
    }

    async fn give_back(&self, received: &Received, lease: LeaseRef, failure: Failure, more: &Room) {
        // Without the reason: it may quote the payload. The dead letter has it.
        let (agent, delivery, attempt) = (self.agent.id(), lease.delivery, received.attempt());
        tracing::warn!(%agent, %delivery, attempt, retried = failure.again, "a delivery was not handled");
        let then = if failure.again {
            let retries = u32::from(received.attempt()).saturating_sub(1);
            NackThen::Retry { delay_ms: retry::backoff_ms(retries) }
        } else {
            NackThen::Dead
        };
        let reason = failure.reason.chars().take(quorate_core::limits::REASON_CHARS_MAX).collect();
        let given = match self.nack(lease, then, reason, more).await {
            // An error text may quote anything. The refusal names the rule and not the secret.
            Err(error) if error.code() == Code::SecretDetected => {
                self.nack(lease, then, error.to_string(), more).await
            }
            given => given,
        };
        // If it cannot be given back, its lease lapses and it comes back by itself.
        if given.is_err() {
            self.agent.go_on(more).await;
        }
    }

    async fn nack(&self, lease: LeaseRef, then: NackThen, reason: String, more: &Room) -> Result<(), Error> {
        let nack = Op::Nack(Nack { lease, then, reason });
        self.agent.end(vec![nack], more).await.map(drop)
    }
}

/// Who gets the answer: commands and queries want one, events and answers do not.
fn wants_answer(message: &Message) -> Option<String> {
    match message.kind {
        MessageType::Command | MessageType::Query => {
            message.reply_to.as_ref().or(message.from.as_ref()).map(ToString::to_string)
        }
        MessageType::Event | MessageType::Response => None,
    }
}

pub(crate) struct AbortOnDrop(pub(crate) JoinHandle<Result<Vec<u8>, Failure>>);

impl Future for AbortOnDrop {
    type Output = Result<Vec<u8>, Failure>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0)
            .poll(context)
            .map(|joined| joined.unwrap_or_else(|_| Err(Failure::retry("the handler panicked"))))
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
