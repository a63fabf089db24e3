//! A run of one procedure: feeds events to its machine and commits the outputs.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use quorate_core::{
    AgentId, CancelTask, ControlProcedure, MessageId, Mono, Op, Procedure, ProcedureControl, ProcedureId,
    PutEntry, Seq, Timestamp, Version,
};
use quorate_engine::Error;
use quorate_env::Backoff;

use super::changes::Waited;
use super::drive::{Link, RunEnd, RunError};
use super::inbox::Incoming;
use super::outbox::{Unsent, UnsentRequest};
use super::{Context, commit_backoff};
use crate::machine::{ProcedureContext, ProcedureEvent, ProcedureOutput, StartedOutput};
use crate::registry::Instance;

/// Maximum number of deliveries in one step.
pub(super) const DELIVERIES_PER_STEP: usize = 40;
/// Steps without an event from outside after which a procedure is parked: its machine loops.
const IDLE_STEPS_MAX: u32 = 1_000;
/// Events of the procedure itself are progress if they arrive at least this long after the last step.
const PROGRESS_MS: u64 = 1_000;
/// Number of own records that are recognised in changes of watched entries.
const OWN_RECORDS_MAX: usize = 1_024;
/// Longest sleep for a timer, so that a jump of the wall clock is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(60);

pub(super) type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Result<ProcedureEvent, Error>> + Send + 'a>>;

/// Final result of a procedure, as JSON.
pub(super) enum FinalResult {
    Finished(Vec<u8>),
    Failed(Vec<u8>),
}

/// A request that could not be delivered yet, and the reason of the refusal.
struct Deferred {
    request: UnsentRequest,
    reason: String,
}

/// A run of a procedure.
pub(super) struct Run<'a> {
    pub(super) context: &'a Context,
    pub(super) id: ProcedureId,
    started_by: String,
    pub(super) version: Version,
    pub(super) instance: Box<dyn Instance>,
    pub(super) link: &'a mut Link,
    /// Outputs that are part of the state but not committed yet, in order; a step may exceed the limits of one commit.
    pub(super) unsent: VecDeque<Unsent>,
    /// Memory writes of the current step.
    pub(super) writes: Vec<PutEntry>,
    /// Final result, from the moment it is known until it is committed.
    pub(super) final_result: Option<FinalResult>,
    /// Number of held deliveries whose events are part of the current step.
    pub(super) taken: usize,
    deferred: Vec<Deferred>,
    backoff: Backoff,
    retry_at: Mono,
    timers: BTreeMap<String, Timestamp>,
    /// Requests that were sent, until they are answered or have failed.
    pub(super) requests: HashMap<String, MessageId>,
    /// Items whose end the run waits for.
    pub(super) awaited: HashSet<Waited>,
    /// Cancellations of the current step.
    pub(super) cancels: Vec<Op>,
    /// Outputs that the machine cancelled in this run. Their events are dropped.
    cancelled: HashSet<StartedOutput>,
    /// The newest records that this run committed.
    own_records: VecDeque<Seq>,
    /// Time of the last step.
    stepped: Mono,
    /// Events that the machine has not processed yet.
    pub(super) events: Vec<ProcedureEvent>,
    pub(super) answers: FuturesUnordered<AnswerFuture<'a>>,
    is_new: bool,
    is_over: bool,
    idle_steps: u32,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        context: &'a Context,
        procedure: Procedure,
        instance: Box<dyn Instance>,
        link: &'a mut Link,
    ) -> Self {
        Self {
            context,
            is_new: procedure.state.is_none(),
            id: procedure.id,
            started_by: procedure.started_by,
            version: procedure.version,
            instance,
            link,
            unsent: VecDeque::new(),
            writes: Vec::new(),
            final_result: None,
            taken: 0,
            deferred: Vec::new(),
            backoff: commit_backoff(),
            retry_at: Mono(0),
            timers: BTreeMap::new(),
            requests: HashMap::new(),
            awaited: HashSet::new(),
            cancels: Vec::new(),
            cancelled: HashSet::new(),
            own_records: VecDeque::new(),
            stepped: Mono(0),
            events: Vec::new(),
            answers: FuturesUnordered::new(),
            is_over: false,
            idle_steps: 0,
        }
    }

    /// Runs the procedure until it ends, or has to be loaded again.
    pub(super) async fn start(mut self) -> Result<RunEnd, RunError> {
        let preparation = self.instance.preparation();
        tokio::task::spawn_blocking(preparation);
        if self.is_new {
            self.events.push(ProcedureEvent::Started);
        } else {
            self.resume().await?;
            self.events.push(ProcedureEvent::Resumed);
        }
        self.take_held();
        loop {
            let changed = self.step()?;
            self.flush_outputs(changed).await?;
            if self.is_over {
                return Ok(RunEnd::Over);
            }
            if self.deferred.is_empty() {
                self.backoff.reset();
            }
            if self.events.is_empty() && !self.wait().await? {
                return Ok(RunEnd::Reload);
            }
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.context.space.engine().clock().now().wall
    }

    pub(super) fn machine_context(&self) -> ProcedureContext<'_> {
        ProcedureContext { id: &self.id, started_by: &self.started_by, now: self.now() }
    }

    /// Lets the machine process all events. Returns whether its state may have changed.
    fn step(&mut self) -> Result<bool, RunError> {
        let (now, mut changed) = (self.now(), false);
        self.stepped = self.context.space.engine().clock().now().mono;
        while !self.events.is_empty() {
            self.idle_steps += 1;
            if self.idle_steps > IDLE_STEPS_MAX {
                let reason = format!("no progress: {IDLE_STEPS_MAX} steps without an event from outside");
                return Err(RunError::NoProgress(reason));
            }
            for event in std::mem::take(&mut self.events) {
                if self.is_cancelled(&event) {
                    continue;
                }
                let context = ProcedureContext { id: &self.id, started_by: &self.started_by, now };
                let outputs = self.instance.step(event, &context);
                let is_ignored = !outputs.is_empty()
                    && outputs.iter().all(|output| matches!(output, ProcedureOutput::Ignored(_)));
                changed |= !is_ignored;
                for output in outputs {
                    self.apply_output(output, now)?;
                }
            }
            // Requests to agents that are not registered fail immediately.
            self.fail_unregistered();
        }
        Ok(changed)
    }

    pub(super) fn apply_output(&mut self, output: ProcedureOutput, now: Timestamp) -> Result<(), RunError> {
        match output {
            ProcedureOutput::Request(request) => {
                let due = now.plus_ms(request.timeout_ms);
                self.unsent.push_back(Unsent::Request(UnsentRequest { request, due }));
            }
            ProcedureOutput::Message(message) => self.unsent.push_back(Unsent::Message(message)),
            ProcedureOutput::Task(task) => self.unsent.push_back(Unsent::Task(task)),
            ProcedureOutput::Approval(approval) => self.unsent.push_back(Unsent::Approval(approval)),
            ProcedureOutput::Child(child) => self.unsent.push_back(Unsent::Child(child)),
            ProcedureOutput::Write(write) => self.writes.push(self.put(write)?),
            ProcedureOutput::Timer { id, due } => {
                self.cancelled.remove(&StartedOutput::Timer(id.clone()));
                self.timers.insert(id, due);
            }
            ProcedureOutput::Cancel(output) => self.cancel_output(output)?,
            ProcedureOutput::Watch { id, prefix, from } => self.watch_entries(id, &prefix, from),
            ProcedureOutput::Ignored(note) => tracing::debug!(procedure = %self.id, note, "event ignored"),
            ProcedureOutput::Finish(result) => self.finish(FinalResult::Finished(result)),
            ProcedureOutput::Fail(result) => self.finish(FinalResult::Failed(result)),
        }
        Ok(())
    }

    fn finish(&mut self, result: FinalResult) {
        self.final_result = Some(result);
        self.is_over = true;
    }

    /// Turns held deliveries into events of the next step.
    fn take_held(&mut self) {
        let taken = self.link.held.len().min(self.taken + DELIVERIES_PER_STEP);
        let new = &self.link.held[self.taken..taken];
        // A procedure that only receives its own messages makes no progress.
        if new.iter().any(|held| !held.is_from(&self.context.agent)) {
            self.idle_steps = 0;
        }
        self.events.extend(new.iter().filter_map(|held| held.event()));
        self.taken = taken;
    }

    /// Takes the outcome of a request, or a change of a watched entry.
    fn take_answer(&mut self, event: ProcedureEvent) {
        let is_outside = match &event {
            ProcedureEvent::Answered { request, .. } => {
                self.requests.remove(request);
                true
            }
            ProcedureEvent::RequestFailed { request, .. } => {
                self.requests.remove(request);
                false
            }
            ProcedureEvent::EntryChanged { seq, .. } => !self.own_records.contains(seq),
            _ => false,
        };
        if is_outside {
            self.idle_steps = 0;
        }
        self.events.push(event);
    }

    /// Remembers a record of this run, whose writes are no progress.
    pub(super) fn remember_record(&mut self, seq: Option<Seq>) {
        self.own_records.extend(seq.filter(|_| !self.writes.is_empty()));
        if self.own_records.len() > OWN_RECORDS_MAX {
            self.own_records.pop_front();
        }
    }

    /// Cancels an output: one that was not sent yet is dropped, another one is cancelled with the state of this step.
    fn cancel_output(&mut self, output: StartedOutput) -> Result<(), RunError> {
        let is_it = |unsent: &Unsent| match (unsent, &output) {
            (Unsent::Request(unsent), StartedOutput::Request(id)) => unsent.request.id == *id,
            (Unsent::Task(unsent), StartedOutput::Task(id)) => unsent.id == *id,
            (Unsent::Child(unsent), StartedOutput::Child(id)) => unsent.id == *id,
            _ => false,
        };
        let unsent = self.unsent.len();
        self.unsent.retain(|unsent| !is_it(unsent));
        let reason = || "cancelled by its procedure".to_owned();
        match &output {
            _ if self.unsent.len() < unsent => {}
            StartedOutput::Request(id) => {
                self.deferred.retain(|deferred| deferred.request.request.id != *id);
                self.cancels.extend(self.requests.remove(id).map(|request| Op::CancelRequest { request }));
            }
            StartedOutput::Task(id) => {
                self.cancels.push(Op::CancelTask(CancelTask { task: self.task_id(id)?, reason: reason() }));
            }
            StartedOutput::Child(id) => self.cancels.push(Op::ControlProcedure(ControlProcedure {
                procedure: self.child_id(id)?,
                control: ProcedureControl::Cancel,
                reason: reason(),
            })),
            StartedOutput::Timer(id) => drop(self.timers.remove(id)),
        }
        self.cancelled.insert(output);
        Ok(())
    }

    /// Whether an event belongs to an output that the machine cancelled.
    fn is_cancelled(&self, event: &ProcedureEvent) -> bool {
        let output = match event {
            _ if self.cancelled.is_empty() => return false,
            ProcedureEvent::Answered { request, .. }
            | ProcedureEvent::RequestUnsent { request, .. }
            | ProcedureEvent::RequestFailed { request, .. } => StartedOutput::Request(request.clone()),
            ProcedureEvent::TaskEnded { task, .. } => StartedOutput::Task(task.clone()),
            ProcedureEvent::ChildEnded { child, .. } => StartedOutput::Child(child.clone()),
            ProcedureEvent::TimerFired { timer } => StartedOutput::Timer(timer.clone()),
            ProcedureEvent::Started
            | ProcedureEvent::Resumed
            | ProcedureEvent::Decided { .. }
            | ProcedureEvent::Delivered { .. }
            | ProcedureEvent::EntryChanged { .. }
            | ProcedureEvent::Signalled { .. } => return false,
        };
        self.cancelled.contains(&output)
    }

    /// Waits for at least one event. Events that are ready go into the same step. Returns false if the procedure has
    /// to be loaded again.
    async fn wait(&mut self) -> Result<bool, RunError> {
        if self.taken < self.link.held.len() {
            self.take_held();
            return Ok(true);
        }
        loop {
            let context = self.context;
            let timer = self.until_next_timer();
            let retry = Duration::from_millis(
                self.retry_at.0.saturating_sub(context.space.engine().clock().now().mono.0),
            );
            tokio::select! {
                Some(event) = self.answers.next() => self.take_answer(event?),
                incoming = self.link.receiver.recv() => {
                    let Some(incoming) = incoming else { return Err(super::inbox::closed().into()) };
                    if !self.receive(incoming).await? {
                        return Ok(false);
                    }
                }
                () = context.space.sleep(timer.unwrap_or_default()), if timer.is_some() => self.fire_timers(),
                () = context.space.sleep(retry), if !self.deferred.is_empty() => self.retry_deferred(),
            }
            while let Some(Some(event)) = self.answers.next().now_or_never() {
                self.take_answer(event?);
            }
            while self.taken < DELIVERIES_PER_STEP
                && let Ok(incoming) = self.link.receiver.try_recv()
            {
                if !self.receive(incoming).await? {
                    return Ok(false);
                }
            }
            let has_unsent = !self.unsent.is_empty();
            if !self.events.is_empty() || self.taken > 0 || has_unsent {
                if context.space.engine().clock().now().mono >= self.stepped.plus_ms(PROGRESS_MS) {
                    self.idle_steps = 0;
                }
                return Ok(true);
            }
        }
    }

    /// Handles an input from outside. Returns false if the procedure has to be loaded again.
    async fn receive(&mut self, incoming: Incoming) -> Result<bool, RunError> {
        match incoming {
            Incoming::Delivery(held) => {
                let is_change =
                    matches!(held.notice(), "procedure.paused" | "procedure.resumed" | "procedure.cancelled");
                self.link.held.push(*held);
                if is_change {
                    return Ok(false);
                }
                self.take_held();
            }
            // A run before this one may have waited as well; what this run does not wait for was reported.
            Incoming::Ended(waited) if self.awaited.remove(&waited) => {
                self.idle_steps = 0;
                self.events.extend(self.context.read_ended(&waited).await?);
            }
            Incoming::Ended(_) => {}
        }
        Ok(true)
    }

    /// Returns the time until the next timer.
    fn until_next_timer(&self) -> Option<Duration> {
        let now = self.now();
        let next = self.timers.values().min()?;
        Some(Duration::from_millis(next.0.saturating_sub(now.0)).min(SLEEP_MAX))
    }

    fn fire_timers(&mut self) {
        let now = self.now();
        let mut due: Vec<_> = self.timers.extract_if(.., |_, due| *due <= now).collect();
        due.sort_by(|(a_id, a), (b_id, b)| (a, a_id).cmp(&(b, b_id)));
        self.events.extend(due.into_iter().map(|(timer, _)| ProcedureEvent::TimerFired { timer }));
    }

    /// Defers a request that its agent cannot accept now.
    pub(super) fn defer(&mut self, request: UnsentRequest, reason: String) {
        if self.deferred.is_empty() {
            let engine = self.context.space.engine();
            let now = engine.clock().now();
            let due = request.due.0.saturating_sub(now.wall.0);
            let wait = self.backoff.next(engine.entropy()).min(Duration::from_millis(due.max(1)));
            self.retry_at = now.plus(wait).mono;
        }
        self.deferred.push(Deferred { request, reason });
    }

    /// Retries deferred requests within their deadline; after it they fail.
    fn retry_deferred(&mut self) {
        let now = self.now();
        for Deferred { mut request, reason } in std::mem::take(&mut self.deferred) {
            request.request.timeout_ms = request.due.0.saturating_sub(now.0);
            match request.request.timeout_ms {
                0 => self.events.push(ProcedureEvent::RequestUnsent { request: request.request.id, reason }),
                _ => self.unsent.push_back(Unsent::Request(request)),
            }
        }
    }

    /// Removes requests to agents that are not registered and reports them as failed.
    fn fail_unregistered(&mut self) {
        let published = self.context.space.published();
        let is_registered = |agent: &str| {
            let agent = AgentId::new(agent).ok();
            agent.and_then(|agent| published.agents.by_id(&agent)).is_some_and(|agent| !agent.removed)
        };
        for output in std::mem::take(&mut self.unsent) {
            match output {
                Unsent::Request(UnsentRequest { request, .. }) if !is_registered(&request.agent) => {
                    let reason = format!("agent `{}` is not registered in this hub", request.agent);
                    self.events.push(ProcedureEvent::RequestUnsent { request: request.id, reason });
                }
                output => self.unsent.push_back(output),
            }
        }
    }
}
