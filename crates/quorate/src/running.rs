//! The message loop of a running agent: receives deliveries, runs handlers, ends each delivery with one commit.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_api::Error;
use quorate_core::{Code, LeaseRef, Message, MessageType, Nack, NackAction, Op};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::agent::{Agent, ReceivedMessage};
use crate::backend::{CreditReturn, DeliveryStream, HeldWork};
use crate::handler::{self, AnswerFields, Failure, Handler, HandlerEffects, OTHER_ACTIONS, SharedEffects};
use crate::held_leases::HeldLeases;
use crate::send::MessageDraft;
use crate::task::{TaskHandler, TaskWorker};

/// Handle to an agent that runs in the background. Dropping it stops the agent.
pub struct RunningAgent {
    agent: Agent,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<Result<(), Error>>>,
}

impl RunningAgent {
    /// Returns the agent.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Stops receiving, waits for running handlers, and releases unhandled deliveries without counting an attempt.
    ///
    /// # Errors
    /// Returns the error that stopped the agent earlier, if any: `STALE_EPOCH` if it was registered again elsewhere.
    pub async fn stop(mut self) -> Result<(), Error> {
        let _ = self.stop.send(true);
        self.wait().await
    }

    /// Waits until the agent stops. Cancel safe: the wait can be repeated.
    ///
    /// # Errors
    /// Returns the error that stopped the agent.
    pub async fn wait(&mut self) -> Result<(), Error> {
        // Cancel safe: the task is taken only after it has ended.
        let Some(task) = &mut self.task else { return Ok(()) };
        let result = task.await.unwrap_or(Ok(()));
        self.task = None;
        result
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

pub(crate) async fn start_agent(
    agent: Agent,
    handlers: HashMap<String, Arc<dyn Handler>>,
    task_handlers: HashMap<String, Arc<dyn TaskHandler>>,
    concurrency: u32,
) -> Result<RunningAgent, Error> {
    let (stop, stopped) = watch::channel(false);
    let permits = Arc::new(Semaphore::new(concurrency as usize));
    let leases = Arc::<HeldLeases>::default();
    // An agent with task handlers only does not consume its inbox, so that other code can receive its messages.
    let messages = if handlers.is_empty() && !task_handlers.is_empty() {
        None
    } else {
        let consumer = agent.backend.consume(agent.identity(), concurrency, agent.lease_ms).await?;
        let (permits, leases) = (Arc::clone(&permits), Arc::clone(&leases));
        let worker = Arc::new(MessageWorker { agent: agent.clone(), handlers, permits, leases });
        Some(worker.run(consumer, stopped.clone()))
    };
    let events = agent.backend.lease_events(agent.identity()).await?;
    let tasks = if task_handlers.is_empty() {
        None
    } else {
        let claim = agent.task_claim(task_handlers.keys().cloned().collect());
        let consumer = agent.backend.consume_tasks(claim, concurrency).await?;
        let worker = TaskWorker::new(agent.clone(), task_handlers, permits, Arc::clone(&leases));
        Some(worker.run(consumer, stopped))
    };
    let id = agent.id().to_owned();
    let task = tokio::spawn(async move {
        let handled = async {
            let (messages, tasks) = tokio::join!(await_optional(messages), await_optional(tasks));
            messages.and(tasks)
        };
        // Also while the last handlers end, after the agent was stopped.
        let result = tokio::select! {
            result = handled => result,
            result = leases.follow(events) => result,
        };
        if let Err(error) = &result {
            tracing::warn!(agent = %id, code = error.code().as_str(), "agent stopped receiving");
        }
        result
    });
    Ok(RunningAgent { agent, stop, task: Some(task) })
}

async fn await_optional(work: Option<impl Future<Output = Result<(), Error>>>) -> Result<(), Error> {
    match work {
        Some(work) => work.await,
        None => Ok(()),
    }
}

impl Agent {
    /// Waits until a lease of this duration should be extended.
    pub(crate) async fn wait_to_extend(&self, lease_ms: u64, checks: &mut watch::Receiver<()>) {
        tokio::select! {
            () = self.backend.sleep(Duration::from_millis(lease_ms / 3)) => {}
            Ok(()) = checks.changed() => {}
        }
    }
}

/// Handles the deliveries of one agent.
struct MessageWorker {
    agent: Agent,
    handlers: HashMap<String, Arc<dyn Handler>>,
    /// Limits the number of concurrent handlers; shared with the task loop.
    permits: Arc<Semaphore>,
    leases: Arc<HeldLeases>,
}

impl MessageWorker {
    async fn run(
        self: Arc<Self>,
        mut inbox: Box<dyn DeliveryStream>,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let mut running = JoinSet::new();
        loop {
            let next = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => break,
                next = inbox.next() => next?,
            };
            // End of the stream: the agent was registered again elsewhere, or the hub is closed.
            let Some(delivery) = next else { break };
            let worker = Arc::clone(&self);
            let credit = inbox.credit_return();
            running.spawn(async move { worker.handle_delivery(ReceivedMessage(delivery), credit).await });
            while running.try_join_next().is_some() {}
        }
        while running.join_next().await.is_some() {}
        inbox.close().await
    }

    /// Handles one delivery and ends it with one commit, which also returns its credit.
    async fn handle_delivery(&self, received: ReceivedMessage, credit: CreditReturn) {
        let Some(lease) = received.0.lease else {
            // An ephemeral delivery consumes no credit.
            return self.handle_ephemeral(&received).await;
        };
        let effects = handler::no_effects();
        let mut held = self.leases.hold(HeldWork::Delivery(lease.delivery));
        let checks = held.checks();
        let result = tokio::select! {
            biased;
            // The answer is not needed any more.
            () = held.ended() => return self.agent.return_credit(&credit).await,
            result = self.run_handler(&received, Arc::clone(&effects)) => result,
            // The lease is lost, so this attempt is aborted: the delivery is redelivered, or has ended.
            () = self.keep_lease(lease, checks) => return self.agent.return_credit(&credit).await,
        };
        drop(held);
        let ops = result.and_then(|answer| self.completion(&received, lease, answer, &effects));
        let error = match ops {
            Ok(ops) => self.agent.commit_end(ops, &credit).await.err(),
            Err(failure) => return self.nack_failure(&received, lease, failure, &credit).await,
        };
        match error {
            None => {}
            Some(error) if error.code() == Code::StaleLease => self.agent.return_credit(&credit).await,
            // A closed session and a policy violation are permanent: a retry would be rejected as well.
            Some(error) if matches!(error.code(), Code::SessionClosed | Code::PolicyViolation) => {
                self.nack_failure(&received, lease, Failure::permanent(error.to_string()), &credit).await;
            }
            // The commit was rejected atomically, so the delivery can be retried.
            Some(error) => {
                self.nack_failure(&received, lease, Failure::retry(error.to_string()), &credit).await;
            }
        }
    }

    /// Handles an ephemeral delivery, which is delivered at most once. The answer is ephemeral as well.
    async fn handle_ephemeral(&self, received: &ReceivedMessage) {
        let effects = handler::no_effects();
        let Ok(answer) = self.run_handler(received, Arc::clone(&effects)).await else {
            tracing::warn!(agent = %self.agent.id(), "handler of an ephemeral message failed");
            return;
        };
        let Ok(HandlerEffects { ops, answer: fields }) = handler::collected_effects(&effects) else {
            return;
        };
        if !ops.is_empty() && self.agent.backend.commit(self.agent.new_commit(ops)).await.is_err() {
            return;
        }
        if let Ok(Some(answer)) = self.answer(received, answer, fields) {
            let _ = self.agent.backend.send_ephemeral(self.agent.identity(), answer).await;
        }
    }

    /// Runs the handler once a permit is available. A panic counts as a retryable failure.
    async fn run_handler(
        &self,
        received: &ReceivedMessage,
        effects: SharedEffects,
    ) -> Result<Vec<u8>, Failure> {
        let Ok(_permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return Err(Failure::retry("the agent is stopped"));
        };
        let action = received.action();
        let handler = self.handlers.get(action).or_else(|| self.handlers.get(OTHER_ACTIONS));
        let Some(handler) = handler else {
            return Err(Failure::permanent(format!(
                "agent {} has no handler for {action:?}",
                self.agent.id()
            )));
        };
        let work = tokio::spawn(handler.handle(self.agent.clone(), received.clone(), effects));
        // Dropping this future aborts the handler, which happens when the lease is lost.
        let work = AbortOnDrop(work);
        work.await
    }

    /// Extends the lease while the handler runs. Returns when the lease is lost.
    async fn keep_lease(&self, lease: LeaseRef, mut checks: watch::Receiver<()>) {
        loop {
            self.agent.wait_to_extend(self.agent.lease_ms, &mut checks).await;
            match self.agent.commit_extend(lease, self.agent.lease_ms).await {
                Err(error)
                    if matches!(error.code(), Code::StaleLease | Code::StaleEpoch | Code::NotFound) =>
                {
                    return;
                }
                // Other errors are transient, and the lease has not expired yet.
                _ => {}
            }
        }
    }

    /// Returns the operations that end a delivery: the ack, the operations added by the handler, and the answer.
    fn completion(
        &self,
        received: &ReceivedMessage,
        lease: LeaseRef,
        answer: Vec<u8>,
        effects: &SharedEffects,
    ) -> Result<Vec<Op>, Failure> {
        let mut ops = vec![Op::Ack(lease)];
        let permanent = |error: Error| Failure::permanent(error.to_string());
        let collected = handler::collected_effects(effects).map_err(permanent)?;
        ops.extend(collected.ops);
        let answer = self.answer(received, answer, collected.answer).map_err(permanent)?;
        ops.extend(answer.map(Op::send));
        Ok(ops)
    }

    /// Builds the answer if the message expects one. It has the durability of the request.
    fn answer(
        &self,
        received: &ReceivedMessage,
        answer: Vec<u8>,
        fields: AnswerFields,
    ) -> Result<Option<Message>, Error> {
        let message = received.message();
        let Some(to) = reply_recipient(message) else { return Ok(None) };
        let mut draft = MessageDraft::new(vec![to], message.action.clone(), Ok(answer));
        draft.continue_from(received);
        draft.kind = MessageType::Response;
        draft.priority = message.priority;
        draft.durability = message.durability;
        let mut answer = draft.into_message(&*self.agent.backend, &self.agent.id)?;
        let AnswerFields { metadata, confidence, rationale } = fields;
        answer.metadata = (!metadata.is_empty()).then(|| Value::Object(metadata).to_string());
        (answer.confidence, answer.rationale) = (confidence, rationale);
        Ok(Some(answer))
    }

    async fn nack_failure(
        &self,
        received: &ReceivedMessage,
        lease: LeaseRef,
        failure: Failure,
        credit: &CreditReturn,
    ) {
        // The reason is not logged because it can contain payload data. It is stored with the dead letter.
        let (agent, delivery, attempt) = (self.agent.id(), lease.delivery, received.attempt());
        tracing::warn!(%agent, %delivery, attempt, retried = failure.retryable, "delivery failed");
        let action =
            if failure.retryable { NackAction::Retry { delay_ms: None } } else { NackAction::DeadLetter };
        let reason = failure.reason.chars().take(quorate_core::limits::REASON_CHARS_MAX).collect();
        let nacked = match self.nack(lease, action, reason, credit).await {
            // The error text of a handler can contain a secret. The rejection names only the rule that matched.
            Err(error) if error.code() == Code::SecretDetected => {
                self.nack(lease, action, error.to_string(), credit).await
            }
            nacked => nacked,
        };
        // If the nack fails, the lease expires and the delivery is redelivered.
        if nacked.is_err() {
            self.agent.return_credit(credit).await;
        }
    }

    async fn nack(
        &self,
        lease: LeaseRef,
        action: NackAction,
        reason: String,
        credit: &CreditReturn,
    ) -> Result<(), Error> {
        let nack = Op::Nack(Nack { lease, action, reason });
        self.agent.commit_end(vec![nack], credit).await.map(drop)
    }
}

/// Returns the recipient of the answer. Commands and queries expect one, events and responses do not.
fn reply_recipient(message: &Message) -> Option<String> {
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
