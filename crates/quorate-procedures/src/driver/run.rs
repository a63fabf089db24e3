//! A run of one deliberation: feeds events to the state machine and commits its outputs.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use quorate_core::{
    AgentId, ClientId, Code, MessageId, Mono, Op, Payload, ProcedureId, ProcedureStatus, Refused,
    StepProcedure, Version,
};
use quorate_engine::{Error, ReceivedDelivery};
use quorate_env::Backoff;
use serde_json::{Value, json};

use super::{DriverContext, commit_backoff, is_retryable, notice_ops};
use crate::deliberation::{
    Ask, AskId, Deliberation, DeliberationState, FailedDeliberation, Input, Outcome, Output, ReportedUsage,
    Spec,
};
use crate::tokens;

type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Result<Input, Error>> + Send + 'a>>;

/// A running deliberation.
pub(super) struct Run<'a> {
    pub(super) context: &'a DriverContext,
    pub(super) id: ProcedureId,
    pub(super) version: Version,
    pub(super) state: DeliberationState,
    /// Outputs that are part of the state but not committed yet, in order; a step may exceed the limits of one commit.
    pub(super) unsent: Vec<UnsentOutput>,
    /// Final result, from the moment it is known until it is committed.
    pub(super) final_result: Option<FinalResult>,
    /// Requests that could not be delivered yet and are retried.
    pub(super) deferred: Vec<DeferredAsk>,
    backoff: Backoff,
    retry_at: Mono,
    /// Events that the state machine has not processed yet.
    pub(super) events: Vec<Input>,
    answers: FuturesUnordered<AnswerFuture<'a>>,
}

/// An output that has not been committed yet.
pub(super) enum UnsentOutput {
    Ask(Ask),
    Publish(crate::deliberation::DeliberationMessage),
}

/// Final result of a deliberation.
pub(super) enum FinalResult {
    Finished(Box<Outcome>),
    Failed(Box<FailedDeliberation>),
}

/// A deferred request and the reason of the refusal.
pub(super) struct DeferredAsk {
    pub(super) ask: Ask,
    pub(super) reason: String,
}

impl DriverContext {
    /// Runs a deliberation until it is over. After a retryable error, call it again to resume.
    pub(super) async fn run_deliberation(
        &self,
        id: &ProcedureId,
        notice: &mut Option<(ReceivedDelivery, Op)>,
    ) -> Result<(), Error> {
        let procedure = self.space.procedure(id).await?;
        if procedure.status.has_ended() || !self.drives(&procedure) {
            self.ack_notice(notice.take()).await;
            return Ok(());
        }
        let version = procedure.version;
        let view = self.space.procedure_view(procedure).await?;
        let (spec, state) = match parse_spec_and_state(view.spec.as_ref(), view.state.as_ref()) {
            Ok(parsed) => parsed,
            Err(reason) => {
                // The error text is not logged: it may quote the payload.
                tracing::warn!(procedure = %id, "deliberation failed: invalid spec or state");
                let result = self.space.seal(json!({ "reason": reason }).to_string());
                let failed = step_op(id, version, "failed", ProcedureStatus::Failed, (None, Some(result)));
                let ops = [notice_ops(notice.as_ref()), vec![failed]].concat();
                return self.space.commit(self.commit(ops)).await.map(drop);
            }
        };
        // Loading the vocabulary takes a moment; do it while the agents work.
        tokio::task::spawn_blocking(tokens::preload);
        let machine = Deliberation::new(&spec, tokens::count_o200k);
        let mut run = Run {
            context: self,
            id: id.clone(),
            version,
            state: DeliberationState::default(),
            unsent: Vec::new(),
            final_result: None,
            deferred: Vec::new(),
            backoff: commit_backoff(),
            retry_at: Mono(0),
            events: vec![Input::Start],
            answers: FuturesUnordered::new(),
        };
        if let Some(state) = state {
            run.resume(&machine, state).await?;
        }
        run.run(&machine, notice).await
    }

    /// Looks up the message that was sent under this client id, if any.
    async fn find_sent_message(&self, id: &ProcedureId, name: &str) -> Result<Option<MessageId>, Error> {
        match self.space.message_by_client_id(&client_id(id, name)?).await {
            Ok(message) => Ok(Some(message.id)),
            Err(error) if error.code() == Code::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the outcome of a request. Dropping the future does not cancel the request.
    async fn await_answer(&self, ask: AskId, message: MessageId) -> Result<Input, Error> {
        let mut backoff = commit_backoff();
        let mut request = loop {
            match self.space.await_request(&self.principal(), Some(self.epoch), message).await {
                Ok(request) => break request,
                Err(error) if is_retryable(&error) => self.wait_backoff(&mut backoff).await,
                Err(error) => return Err(error),
            }
        };
        request.keep_open();
        match request.answer().await {
            Ok(answer) => {
                let from = answer.message.from.as_ref().map(ToString::to_string).unwrap_or_default();
                let usage = answer.message.metadata.as_deref().and_then(usage_from_metadata);
                let body = answer.message.payload.bytes.to_vec();
                Ok(Input::Answered { ask, from, body, usage })
            }
            // A newer driver registered, or storage failed: the next driver resumes.
            Err(Error::Refused(refused)) if refused.code == Code::StaleEpoch => Err(refused.into()),
            Err(Error::Refused(refused)) => {
                Ok(Input::Failed { ask, why: strip_message_id(&refused.detail, message) })
            }
            Err(error) => Err(error),
        }
    }
}

/// Removes the message id from a failure, so that the same failure has the same text in every run.
fn strip_message_id(detail: &str, request: MessageId) -> String {
    let bare = detail.replace(&format!("request {request} has no answer: "), "");
    bare.replace(&format!(" to {request}"), "").replace(&format!(" {request}"), "")
}

impl<'a> Run<'a> {
    /// Resumes from a stored state: queues every output of the state that was not committed.
    async fn resume(&mut self, machine: &Deliberation<'_>, state: DeliberationState) -> Result<(), Error> {
        for output in machine.pending_outputs(&state, self.now_ms()) {
            match output {
                Output::Ask(ask) => match self.context.find_sent_message(&self.id, &ask.id.0).await? {
                    Some(message) => self.track_answer(ask.id, message),
                    None => self.unsent.push(UnsentOutput::Ask(ask)),
                },
                Output::Publish(message) => {
                    if self.context.find_sent_message(&self.id, &message.id).await?.is_none() {
                        self.unsent.push(UnsentOutput::Publish(message));
                    }
                }
                other => self.apply_output(other),
            }
        }
        self.state = state;
        self.events = vec![Input::Resumed];
        Ok(())
    }

    pub(super) fn track_answer(&mut self, ask: AskId, message: MessageId) {
        self.answers.push(Box::pin(self.context.await_answer(ask, message)));
    }

    fn now_ms(&self) -> u64 {
        self.context.space.engine().clock().now().wall.0
    }

    async fn run(
        mut self,
        machine: &Deliberation<'_>,
        notice: &mut Option<(ReceivedDelivery, Op)>,
    ) -> Result<(), Error> {
        loop {
            let now = self.now_ms();
            let changed = !self.events.is_empty();
            while !self.events.is_empty() {
                for event in std::mem::take(&mut self.events) {
                    let outputs = machine.step(&mut self.state, event, now);
                    outputs.into_iter().for_each(|output| self.apply_output(output));
                }
                // Requests to agents that are not registered fail immediately.
                self.fail_unregistered();
            }
            if !self.flush_outputs(notice, changed).await? || self.state.is_over() {
                return Ok(());
            }
            if self.deferred.is_empty() {
                self.backoff.reset();
            }
            if self.events.is_empty() && !self.wait().await? {
                return Ok(());
            }
        }
    }

    fn apply_output(&mut self, output: Output) {
        match output {
            Output::Ask(ask) => self.unsent.push(UnsentOutput::Ask(ask)),
            Output::Publish(message) => self.unsent.push(UnsentOutput::Publish(message)),
            // The note names agents and requests only; it contains no text written by agents.
            Output::Ignored(note) => tracing::debug!(procedure = %self.id, note, "event ignored"),
            Output::Finished(outcome) => self.final_result = Some(FinalResult::Finished(outcome)),
            Output::Failed(failure) => self.final_result = Some(FinalResult::Failed(failure)),
        }
    }

    /// Waits for at least one answer, or until deferred requests are due. Answers that are ready go into the same step.
    async fn wait(&mut self) -> Result<bool, Error> {
        let space = &self.context.space;
        let remaining =
            |until: Mono| Duration::from_millis(until.0.saturating_sub(space.engine().clock().now().mono.0));
        tokio::select! {
            Some(event) = self.answers.next() => self.events.push(event?),
            () = space.sleep(remaining(self.retry_at)), if !self.deferred.is_empty() => self.retry_deferred(),
            else => return Ok(false),
        }
        while let Some(Some(event)) = self.answers.next().now_or_never() {
            self.events.push(event?);
        }
        Ok(true)
    }

    /// Defers a request that its agent cannot accept now.
    pub(super) fn defer(&mut self, ask: Ask, reason: String) {
        if self.deferred.is_empty() {
            let now = self.context.space.engine().clock().now();
            let due = self.due_at_ms(&ask.id).saturating_sub(now.wall.0);
            let wait = self
                .backoff
                .next(self.context.space.engine().entropy())
                .min(Duration::from_millis(due.max(1)));
            self.retry_at = now.plus(wait).mono;
        }
        self.deferred.push(DeferredAsk { ask, reason });
    }

    fn due_at_ms(&self, ask: &AskId) -> u64 {
        self.state.asks.get(ask).map_or(0, |ask| ask.due_at_ms)
    }

    /// Retries deferred requests within their deadline; after it they fail.
    fn retry_deferred(&mut self) {
        let now = self.now_ms();
        for DeferredAsk { mut ask, reason } in std::mem::take(&mut self.deferred) {
            ask.timeout_ms = self.due_at_ms(&ask.id).saturating_sub(now);
            match ask.timeout_ms {
                0 => self.events.push(Input::Unsent { ask: ask.id, why: reason }),
                _ => self.unsent.push(UnsentOutput::Ask(ask)),
            }
        }
    }

    /// Removes requests to agents that are not registered and reports them as failed.
    fn fail_unregistered(&mut self) {
        let published = self.context.space.published();
        let is_registered = |agent: &str| {
            let number = AgentId::new(agent).ok().and_then(|agent| published.agents.number(&agent));
            number.and_then(|number| published.agents.get(number)).is_some_and(|agent| !agent.removed)
        };
        let absent = |output: &mut UnsentOutput| matches!(output, UnsentOutput::Ask(ask) if !is_registered(&ask.agent));
        for absent in self.unsent.extract_if(.., absent) {
            if let UnsentOutput::Ask(ask) = absent {
                let reason = format!("agent `{}` is not registered in this hub", ask.agent);
                self.events.push(Input::Unsent { ask: ask.id, why: reason });
            }
        }
    }
}

/// Builds the operation that records a step of a procedure.
pub(super) fn step_op(
    procedure: &ProcedureId,
    expect: Version,
    phase: &str,
    status: ProcedureStatus,
    (state, result): (Option<Payload>, Option<Payload>),
) -> Op {
    let (procedure, phase) = (procedure.clone(), phase.to_owned());
    Op::StepProcedure(StepProcedure { procedure, expect, phase, status, state, result })
}

/// Derives the client id of a request or publication from its id in the deliberation, so that a repeated send is
/// deduplicated.
pub(super) fn client_id(procedure: &ProcedureId, name: &str) -> Result<ClientId, Refused> {
    ClientId::new(format!("{procedure}:{name}"))
}

fn parse_spec_and_state(
    spec: Option<&Payload>,
    state: Option<&Payload>,
) -> Result<(Spec, Option<DeliberationState>), String> {
    let spec = spec.map_or(&b"null"[..], |spec| &spec.bytes);
    let spec = Spec::parse(spec).map_err(|error| format!("spec: {error}"))?;
    let state = state.map(|state| serde_json::from_slice(&state.bytes)).transpose();
    Ok((spec, state.map_err(|error| format!("invalid state: {error}"))?))
}

/// Reads the usage that an answer reports in its metadata: `{"usage": …}`.
fn usage_from_metadata(metadata: &str) -> Option<ReportedUsage> {
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    serde_json::from_value(metadata.get("usage")?.clone()).ok()
}
