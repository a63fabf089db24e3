//! Drives the deliberations of a space: an agent like any other, that asks by requests and keeps what it knows in its
//! procedures. Each step is one commit: the new state, and what it asks and publishes. So a hub that was killed goes on
//! where it was, and asks nobody again for what is on record.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use quorate_core::{
    AgentId, Ask, ClientId, Code, Commit, Destination, Epoch, Message, MessageId, MessageType, Op, OpResult,
    Payload, Principal, Procedure, ProcedureId, ProcedureStatus, Receipt, Refused, RegisterAgent, Role,
    StepProcedure, Topic, Version,
};
use quorate_engine::{Delivery, Error, Space};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use crate::deliberation::{AskId, Deliberation, Event, Out, Spec, State, Usage};
use crate::tokens;

/// The agent that drives deliberations.
pub const DRIVER: &str = "deliberations";
/// The kind of procedure that it drives.
pub const KIND: &str = "deliberation";
/// Deliberations that are started at once; the rest wait in its inbox.
const CREDIT: u32 = 256;
const LEASE_MS: u64 = 30_000;
/// Procedures that are looked at in one page at the start.
const PAGE: usize = 500;

/// Drives the deliberations of a space until it is stopped.
pub struct Driver {
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Driver {
    /// Takes up the deliberations that are under way, and those that are started from now on.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn start(space: Space) -> Result<Self, Error> {
        let agent = AgentId::new(DRIVER)?;
        let register = RegisterAgent {
            id: agent.clone(),
            name: "Deliberations".into(),
            role: Role::Coordinator,
            capabilities: Vec::new(),
            supported_actions: Vec::new(),
            epoch: None,
            heartbeat_ms: 0,
        };
        let commit = Commit::new(Principal::Agent(agent.clone()), vec![Op::RegisterAgent(register)]);
        let epoch = match space.commit(commit).await?.results.first() {
            Some(OpResult::Registered { epoch }) => *epoch,
            _ => {
                return Err(
                    Refused::new(Code::Unavailable, "the driver of deliberations has no epoch").into()
                );
            }
        };
        let driving = Driving { space, agent, epoch, active: Arc::default() };
        let running = driving.running().await?;
        let stop = Arc::new(Notify::new());
        let task = tokio::spawn(driving.run(running, Arc::clone(&stop)));
        Ok(Self { stop, task })
    }

    /// Stops where it is; the next start goes on from there.
    pub async fn stop(mut self) {
        self.stop.notify_one();
        // A panic was reported when it happened.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Driving {
    space: Space,
    agent: AgentId,
    epoch: Epoch,
    /// What is driven now, so that nobody drives it twice.
    active: Arc<Mutex<HashSet<ProcedureId>>>,
}

impl Driving {
    fn principal(&self) -> Principal {
        Principal::Agent(self.agent.clone())
    }

    fn commit(&self, ops: Vec<Op>) -> Commit {
        Commit { epoch: Some(self.epoch), ..Commit::new(self.principal(), ops) }
    }

    /// The deliberations that were under way when the hub stopped.
    async fn running(&self) -> Result<Vec<Procedure>, Error> {
        let mut running = Vec::new();
        let mut after = None;
        loop {
            let page = self.space.procedures(Some(ProcedureStatus::Running), after.as_ref(), PAGE).await?;
            running.extend(page.procedures.into_iter().filter(|one| self.drives(one)));
            after = page.cursor;
            if after.is_none() {
                return Ok(running);
            }
        }
    }

    fn drives(&self, procedure: &Procedure) -> bool {
        procedure.kind == KIND && procedure.driver.as_ref() == Some(&self.agent)
    }

    async fn run(self, running: Vec<Procedure>, stop: Arc<Notify>) {
        let mut driven = JoinSet::new();
        for procedure in running {
            driven.spawn(self.clone().drive(procedure.id, None));
        }
        let principal = self.principal();
        let consumer = self.space.consume(&principal, Some(self.epoch), &self.agent, CREDIT, LEASE_MS).await;
        let Ok(mut consumer) = consumer else { return };
        loop {
            tokio::select! {
                () = stop.notified() => break,
                Some(_) = driven.join_next() => {}
                delivery = consumer.next() => {
                    let Ok(Some(delivery)) = delivery else { break };
                    let again = consumer.grant(1);
                    match started(&delivery) {
                        Some(id) => {
                            driven.spawn(self.clone().drive(id, Some((delivery, again))));
                        }
                        None => self.done_with(Some((delivery, again))).await,
                    }
                }
            }
        }
        driven.shutdown().await;
    }

    /// Acks what needs no step, or was taken up by somebody else.
    async fn done_with(&self, notice: Option<(Delivery, Op)>) {
        let ops = notice_ops(notice.as_ref());
        if !ops.is_empty() {
            // If this fails, it comes again.
            let _ = self.space.commit(self.commit(ops)).await;
        }
    }

    /// Drives one deliberation to its end.
    async fn drive(self, id: ProcedureId, notice: Option<(Delivery, Op)>) {
        let lock = || self.active.lock().unwrap_or_else(PoisonError::into_inner);
        if !lock().insert(id.clone()) {
            return self.done_with(notice).await;
        }
        // Whatever goes wrong here is a refusal or a broken storage: the notice comes again, or the next start takes it up.
        let _ = self.deliberate(&id, notice).await;
        lock().remove(&id);
    }

    async fn deliberate(&self, id: &ProcedureId, notice: Option<(Delivery, Op)>) -> Result<(), Error> {
        let procedure = self.space.procedure(id).await?;
        if procedure.status.is_over() || !self.drives(&procedure) {
            self.done_with(notice).await;
            return Ok(());
        }
        let mut at = At { id: id.clone(), version: procedure.version };
        let view = self.space.procedure_view(procedure).await?;
        let mut first = notice_ops(notice.as_ref());
        let (spec, state) = match read(view.spec.as_ref(), view.state.as_ref()) {
            Ok(read) => read,
            Err(why) => {
                let result = self.space.seal(json!({ "reason": why }).to_string());
                first.push(at.step("failed", ProcedureStatus::Failed, None, Some(result)));
                return self.space.commit(self.commit(first)).await.map(drop);
            }
        };
        // Takes a moment the first time: meanwhile agents think.
        tokio::task::spawn_blocking(tokens::prepare);
        let machine = Deliberation::new(&spec, tokens::o200k);
        let mut waits = FuturesUnordered::new();
        let (mut state, mut events) = match state {
            Some(state) => (state, vec![Event::Resumed]),
            None => (State::default(), vec![Event::Start]),
        };
        for ask in state.asks.keys() {
            let asked = self.space.message_by_client_id(&client_id(id, ask)?).await?;
            waits.push(self.heard(ask.clone(), asked.id));
        }
        loop {
            let now = self.space.engine().clock().now().wall.0;
            let mut outs: Vec<Out> =
                events.drain(..).flat_map(|event| machine.step(&mut state, event, now)).collect();
            // Whoever is not there cannot be asked: that is known at once.
            while let Some(absent) = self.take_absent(&mut outs) {
                outs.extend(machine.step(&mut state, absent, now));
            }
            let mut ops = std::mem::take(&mut first);
            let asks = self.ops_of(&at, &state, outs, &mut ops)?;
            let receipt = match self.space.commit(self.commit(ops)).await {
                Ok(receipt) => receipt,
                Err(Error::Refused(refused)) => return self.give_up(&at, notice.as_ref(), refused).await,
                Err(error) => return Err(error),
            };
            let requested = receipt.results.iter().filter_map(|result| match result {
                OpResult::Requested { id, .. } => Some(*id),
                _ => None,
            });
            asks.into_iter().zip(requested).for_each(|(ask, message)| waits.push(self.heard(ask, message)));
            if let Some(version) = stepped(&receipt) {
                at.version = version;
            }
            if state.is_over() {
                return Ok(());
            }
            // One answer at least; what came meanwhile goes into the same step.
            let Some(heard) = waits.next().await else { return Ok(()) };
            events.push(heard?);
            while let Some(Some(heard)) = waits.next().now_or_never() {
                events.push(heard?);
            }
        }
    }

    /// Ends a deliberation whose next step is refused: what it wants to say holds a secret, is too large, or the rules of
    /// the space forbid it. What was gathered stays in its state.
    async fn give_up(&self, at: &At, notice: Option<&(Delivery, Op)>, refused: Refused) -> Result<(), Error> {
        // Somebody else goes on with it.
        if matches!(refused.code, Code::StaleEpoch | Code::VersionConflict | Code::Conflict) {
            return Err(refused.into());
        }
        let reason = format!("the next step was refused: {}: {}", refused.code, refused.detail);
        let result = self.space.seal(json!({ "reason": reason, "hint": refused.hint }).to_string());
        // The notice was acked with the first step, if there was one.
        let ops = if at.version == Version(1) { notice_ops(notice) } else { Vec::new() };
        let failed = at.step("failed", ProcedureStatus::Failed, None, Some(result));
        self.space.commit(self.commit([ops, vec![failed]].concat())).await.map(drop)
    }

    /// Waits for what comes of a question. Letting go of it calls nothing off.
    async fn heard(&self, ask: AskId, message: MessageId) -> Result<Event, Error> {
        let mut asking = self.space.await_request(&self.principal(), Some(self.epoch), message).await?;
        asking.stays();
        match asking.answer().await {
            Ok(answer) => {
                let from = answer.message.from.as_ref().map(ToString::to_string).unwrap_or_default();
                let usage = answer.message.metadata.as_deref().and_then(usage_in);
                let body = answer.message.payload.bytes.to_vec();
                Ok(Event::Answered { ask, from, body, usage })
            }
            // This start of the driver is over, or the storage failed: the next start goes on.
            Err(Error::Refused(refused)) if refused.code == Code::StaleEpoch => Err(refused.into()),
            Err(Error::Refused(refused)) => Ok(Event::Failed { ask, why: refused.detail }),
            Err(error) => Err(error),
        }
    }

    /// Takes one question to somebody who is not there out of what is to be done.
    fn take_absent(&self, outs: &mut Vec<Out>) -> Option<Event> {
        let published = self.space.published();
        let is_there = |agent: &str| {
            let number = AgentId::new(agent).ok().and_then(|agent| published.agents.number(&agent));
            number.and_then(|number| published.agents.get(number)).is_some_and(|agent| !agent.removed)
        };
        let absent = |out: &Out| matches!(out, Out::Ask(ask) if !is_there(&ask.agent));
        match outs.remove(outs.iter().position(absent)?) {
            Out::Ask(ask) => Some(Event::Failed {
                why: format!("there is no agent {} in this hub", ask.agent),
                ask: ask.id,
            }),
            _ => None,
        }
    }

    /// What is to be done, as operations of one commit; gives the questions among them, in their order.
    fn ops_of(&self, at: &At, state: &State, outs: Vec<Out>, ops: &mut Vec<Op>) -> Result<Vec<AskId>, Error> {
        let mut asks = Vec::new();
        let (mut status, mut result) = (ProcedureStatus::Running, None);
        let seal = |value: Result<Vec<u8>, serde_json::Error>| {
            let bytes = value.map_err(|error| Refused::new(Code::Invalid, error.to_string()))?;
            Ok::<_, Error>(self.space.seal(bytes))
        };
        for out in outs {
            match out {
                Out::Ask(ask) => {
                    let payload = self.space.seal(ask.payload);
                    let to = Destination::Agent(AgentId::new(ask.agent)?);
                    let mut question = self.message(&at.id, to, ask.action, payload);
                    question.kind = MessageType::Query;
                    question.client_id = Some(client_id(&at.id, &ask.id)?);
                    ops.push(Op::Request(Ask::new(question, Some(ask.within_ms), None)));
                    asks.push(ask.id);
                }
                Out::Publish(published) => {
                    let topic = format!("deliberation.{}", published.message_type.as_str());
                    let payload = seal(serde_json::to_vec(&published))?;
                    let mut message =
                        self.message(&at.id, Destination::Topic(Topic::new(topic)?), KIND, payload);
                    message.kind = MessageType::Event;
                    message.client_id = Some(ClientId::new(format!("{}:{}", at.id, published.id))?);
                    ops.push(Op::send(message));
                }
                Out::Noted(_) => {}
                Out::Finished(outcome) => {
                    status = ProcedureStatus::Done;
                    result = Some(seal(serde_json::to_vec(&outcome))?);
                }
                Out::Failed(failure) => {
                    status = ProcedureStatus::Failed;
                    result = Some(seal(serde_json::to_vec(&failure))?);
                }
            }
        }
        let known = seal(serde_json::to_vec(state))?;
        ops.push(at.step(state.phase.as_str(), status, Some(known), result));
        Ok(asks)
    }

    fn message(&self, id: &ProcedureId, to: Destination, action: &str, payload: Payload) -> Message {
        let mut message = Message::new(to, action, payload);
        message.from = Some(self.agent.clone());
        message.correlation_id = Some(id.to_string());
        message
    }
}

/// A procedure and the version that it has.
struct At {
    id: ProcedureId,
    version: Version,
}

impl At {
    fn step(
        &self,
        phase: &str,
        status: ProcedureStatus,
        state: Option<Payload>,
        result: Option<Payload>,
    ) -> Op {
        let (procedure, expect, phase) = (self.id.clone(), self.version, phase.to_owned());
        Op::StepProcedure(StepProcedure { procedure, expect, phase, status, state, result })
    }
}

fn stepped(receipt: &Receipt) -> Option<Version> {
    receipt.results.iter().find_map(|result| match result {
        OpResult::ProcedureStepped { version } => Some(*version),
        _ => None,
    })
}

/// The procedure whose start a delivery tells of.
fn started(delivery: &Delivery) -> Option<ProcedureId> {
    #[derive(serde::Deserialize)]
    struct Notice {
        procedure: String,
    }
    let told = delivery.message.from.is_none() && delivery.message.action == "procedure.started";
    let notice: Notice = serde_json::from_slice(&delivery.message.payload.bytes).ok().filter(|_| told)?;
    ProcedureId::new(notice.procedure).ok()
}

/// Acks a notice, and makes room for the next.
fn notice_ops(notice: Option<&(Delivery, Op)>) -> Vec<Op> {
    notice.map_or_else(Vec::new, |(delivery, again)| {
        delivery.lease.map(Op::Ack).into_iter().chain([again.clone()]).collect()
    })
}

/// What is asked or published is told apart by its place in the deliberation: sent again it is the same message.
fn client_id(procedure: &ProcedureId, ask: &AskId) -> Result<ClientId, Refused> {
    ClientId::new(format!("{procedure}:{ask}"))
}

fn read(spec: Option<&Payload>, state: Option<&Payload>) -> Result<(Spec, Option<State>), String> {
    let spec = spec.map_or(&b"null"[..], |spec| &spec.bytes);
    let spec = Spec::read(spec).map_err(|wrong| format!("spec: {wrong}"))?;
    let state = state.map(|state| serde_json::from_slice(&state.bytes)).transpose();
    Ok((spec, state.map_err(|error| format!("the state cannot be read: {error}"))?))
}

/// What an answer says that it cost: `{"usage": …}` in its metadata.
fn usage_in(metadata: &str) -> Option<Usage> {
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    serde_json::from_value(metadata.get("usage")?.clone()).ok()
}
