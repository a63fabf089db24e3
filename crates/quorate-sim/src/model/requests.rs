//! Request and presence steps: requests, answers, heartbeats and missing heartbeats.

use std::fmt;

use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use quorate_core::{
    AgentFilter, AgentId, AgentNo, AgentStatus, AnswerFrom, Commit, DeclarationDigest, DeliveryNo,
    Destination, Health, Heartbeat, IfUnavailable, Inspect, Message, MessageId, MessageType, Op, OpResult,
    Receipt, RegisterAgent, SendRequest,
};

use super::locks::{LOCKS, lock_name};
use super::message_chains::CHAINS;
use super::plan::{AGENTS, Actor, MessageSpec, StatedEpoch};
use super::procedures::{NAMES, procedure_id};
use super::resolve::{SeenResults, SpaceView, agent_id, build_message, client_id, consumer, payload};
use super::tasks::{TASKS, task_id};
use super::topics::registration;

/// First consumer slot for answers; lower slots are for deliveries, locks and tasks.
const ANSWER_SLOT: u64 = 7;

/// A request that was sent.
pub(super) struct SentRequest {
    id: MessageId,
    from: AgentId,
    to: Vec<AgentId>,
    /// Client id, if the sender set one.
    name: Option<String>,
}

/// Cause of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum RequestCause {
    Nothing,
    /// The newest request that the sender received.
    Received,
    /// Retry of the sender's own newest request.
    Retry,
}

/// Operation on requests or presence.
#[derive(Clone, Debug)]
pub(super) enum RequestOp {
    /// Send a message with a policy for unavailable recipients.
    Send {
        spec: MessageSpec,
        choice: IfUnavailable,
    },
    Request {
        spec: MessageSpec,
        choice: IfUnavailable,
        query: bool,
        timeout_ms: Option<u64>,
        slot: Option<u64>,
        cause: RequestCause,
    },
    Answer {
        back: usize,
        content: u8,
        named: u8,
        client_id: Option<u8>,
        to_another: bool,
    },
    Await {
        back: usize,
        slot: u64,
    },
    StopWaiting {
        agent: usize,
        slot: u64,
    },
    Cancel {
        back: usize,
    },
    Heartbeat {
        agent: usize,
        status: AgentStatus,
        health: u8,
    },
    /// Register an agent with extra capabilities, a heartbeat interval, or both.
    Register {
        agent: usize,
        epoch: StatedEpoch,
        skilled: bool,
        heartbeat_ms: u64,
    },
    Inspect {
        kind: u8,
        number: u64,
    },
    /// Batch of heartbeats, including unknown agents.
    HeartbeatBatch {
        agents: Vec<u64>,
    },
    /// Closed connection of an agent, which may be unknown.
    ConnectionClosed {
        agent: u64,
    },
}

/// Returns the initial registration of an agent: with the extra capabilities, and with a heartbeat interval for all but
/// alice.
pub(super) fn initial_registration(mut new: RegisterAgent) -> RegisterAgent {
    new.heartbeat_ms = if new.id.as_str() == AGENTS[0] { 0 } else { 10_000 };
    skilled(new)
}

fn skilled(mut new: RegisterAgent) -> RegisterAgent {
    new.capabilities.push("cooking".into());
    new.supported_actions.push("work".into());
    new.declaration = Some(DeclarationDigest::of(b"cmd:cook"));
    new
}

/// Generates operations of an agent.
pub(super) fn agent_ops(agent: usize) -> BoxedStrategy<RequestOp> {
    let slot = || 0..2u64;
    prop_oneof![
        6 => (super::generate::message_spec(), choice(), any::<bool>(), timeout(), weighted(0.7, slot()), cause())
            .prop_map(|(spec, choice, query, timeout_ms, slot, cause)| RequestOp::Request {
                spec, choice, query, timeout_ms, slot, cause,
            }),
        6 => (recent(), 0..2u8, 0..4u8, weighted(0.15, 0..3u8), proptest::bool::weighted(0.05))
            .prop_map(|(back, content, named, client_id, to_another)| RequestOp::Answer {
                back, content, named, client_id, to_another,
            }),
        3 => (super::generate::message_spec(), choice()).prop_map(|(spec, choice)| RequestOp::Send { spec, choice }),
        1 => (recent(), slot()).prop_map(|(back, slot)| RequestOp::Await { back, slot }),
        1 => (Just(agent), slot()).prop_map(|(agent, slot)| RequestOp::StopWaiting { agent, slot }),
        1 => recent().prop_map(|back| RequestOp::Cancel { back }),
        3 => heartbeat(Just(agent).boxed()),
        2 => register(Just(agent).boxed()),
    ]
    .boxed()
}

/// Generates operations of the hub.
pub(super) fn hub_ops() -> BoxedStrategy<RequestOp> {
    let agent = || (0..AGENTS.len()).boxed();
    prop_oneof![
        2 => register(agent()),
        1 => heartbeat(agent()),
        2 => (0..10u8, 0..6u64).prop_map(|(kind, number)| RequestOp::Inspect { kind, number }),
        1 => proptest::collection::vec(0..7u64, 0..=3).prop_map(|agents| RequestOp::HeartbeatBatch { agents }),
        1 => (0..7u64).prop_map(|agent| RequestOp::ConnectionClosed { agent }),
        1 => recent().prop_map(|back| RequestOp::Cancel { back }),
    ]
    .boxed()
}

fn recent() -> BoxedStrategy<usize> {
    prop_oneof![4 => Just(0usize), 1 => 1..4usize].boxed()
}

fn choice() -> BoxedStrategy<IfUnavailable> {
    let choices = IfUnavailable::ALL.map(Just);
    let [queue, redirect, fail] = choices;
    prop_oneof![2 => queue, 2 => redirect, 1 => fail].boxed()
}

fn cause() -> BoxedStrategy<RequestCause> {
    prop_oneof![
        3 => Just(RequestCause::Nothing),
        3 => Just(RequestCause::Received),
        1 => Just(RequestCause::Retry),
    ]
    .boxed()
}

fn timeout() -> BoxedStrategy<Option<u64>> {
    weighted(0.4, prop_oneof![Just(1u64), Just(1_000), Just(30_000), Just(60_000)]).boxed()
}

fn heartbeat(agent: BoxedStrategy<usize>) -> BoxedStrategy<RequestOp> {
    let status = prop_oneof![3 => Just(AgentStatus::Idle), 1 => Just(AgentStatus::Working), 1 => Just(AgentStatus::Waiting)];
    (agent, status, 0..4u8)
        .prop_map(|(agent, status, health)| RequestOp::Heartbeat { agent, status, health })
        .boxed()
}

fn register(agent: BoxedStrategy<usize>) -> BoxedStrategy<RequestOp> {
    let epoch = prop_oneof![1 => Just(StatedEpoch::Omitted), 2 => Just(StatedEpoch::Current)];
    let heartbeat_ms = prop_oneof![1 => Just(0u64), 3 => Just(10_000), 1 => Just(100), 1 => Just(333)];
    (agent, epoch, proptest::bool::weighted(0.8), heartbeat_ms)
        .prop_map(|(agent, epoch, skilled, heartbeat_ms)| RequestOp::Register {
            agent,
            epoch,
            skilled,
            heartbeat_ms,
        })
        .boxed()
}

impl RequestOp {
    /// Resolves to an operation.
    pub(super) fn op(&self, seen: &SeenResults, actor: Actor, view: &SpaceView) -> Op {
        match self {
            Self::Send { spec, choice } => {
                Op::send(Message { if_unavailable: *choice, ..build_message(actor, spec, view) })
            }
            Self::Request { spec, choice, query, timeout_ms, slot, cause } => {
                let kind = if *query { MessageType::Query } else { MessageType::Command };
                let mut message = Message {
                    if_unavailable: *choice,
                    kind,
                    deliver_at: None,
                    correlation_id: (spec.content % 2 == 1).then(|| CHAINS[0].into()),
                    ..build_message(actor, spec, view)
                };
                // The hub cannot receive answers, so it sends the request on behalf of an agent.
                message.from = message.from.or_else(|| Some(agent_id(usize::from(spec.content))));
                let requester = match actor {
                    Actor::Agent(agent) => agent,
                    Actor::Hub | Actor::Holder(_) => usize::from(spec.content),
                };
                let received = |request: &&SentRequest| request.to.contains(&agent_id(requester));
                let sent = |request: &&SentRequest| request.from == agent_id(requester);
                let retry_of = match cause {
                    RequestCause::Nothing => None,
                    RequestCause::Received => {
                        let cause = seen.requests.iter().rev().find(received);
                        message.causation_id = cause.map(|request| request.id.to_string());
                        None
                    }
                    RequestCause::Retry => seen.requests.iter().rev().find(sent).map(|request| request.id),
                };
                let waiter = slot.map(|slot| consumer(requester, ANSWER_SLOT + slot));
                let is_restricted = *query && slot.is_none();
                let answer_from = if is_restricted { AnswerFrom::Asked } else { AnswerFrom::Chain };
                let request = SendRequest::new(message, *timeout_ms, waiter);
                Op::Request(SendRequest { retry_of, answer_from, ..request })
            }
            Self::Answer { .. } => self.answer(seen, actor, view),
            Self::Await { back, slot } => {
                let request = request_id(seen, *back);
                let requester = if let Actor::Agent(agent) = actor { agent } else { 0 };
                Op::AwaitRequest { request, consumer: consumer(requester, ANSWER_SLOT + slot) }
            }
            Self::StopWaiting { agent, slot } => {
                Op::CloseConsumer { consumer: consumer(*agent, ANSWER_SLOT + slot) }
            }
            Self::Cancel { back } => Op::CancelRequest { request: request_id(seen, *back) },
            Self::Heartbeat { agent, status, health } => {
                let health = match health {
                    0 | 1 => Health::Healthy,
                    2 => Health::Degraded(format!("since {}", view.now.0)),
                    _ => Health::Error("no model".into()),
                };
                Op::Heartbeat(Heartbeat { agent: agent_id(*agent), status: *status, health })
            }
            Self::Register { agent, epoch, skilled, heartbeat_ms } => {
                let mut new = registration(*agent, 0);
                new.epoch = seen.epoch(*agent, *epoch, view);
                new.heartbeat_ms = *heartbeat_ms;
                Op::RegisterAgent(if *skilled { self::skilled(new) } else { new })
            }
            Self::Inspect { kind, number } => Op::Inspect(inspection(seen, *kind, *number)),
            Self::HeartbeatBatch { agents } => {
                Op::HeartbeatBatch { agents: agents.iter().map(|number| AgentNo(*number)).collect() }
            }
            Self::ConnectionClosed { agent } => Op::ConnectionClosed { agent: AgentNo(*agent) },
        }
    }

    /// Resolves an answer: usually from a recipient of the request to its sender, sometimes not.
    fn answer(&self, seen: &SeenResults, actor: Actor, view: &SpaceView) -> Op {
        let Self::Answer { back, content, named, client_id: own_id, to_another } = self else {
            return Op::Sweep;
        };
        // Usually a request that the answering agent received.
        let is_candidate = |request: &&SentRequest| match actor {
            Actor::Agent(agent) => *named == 3 || request.to.contains(&agent_id(agent)),
            Actor::Hub | Actor::Holder(_) => true,
        };
        let Some(request) = seen.requests.iter().rev().filter(is_candidate).nth(*back) else {
            return Op::Sweep;
        };
        let to = if *to_another { agent_id(usize::from(*content)) } else { request.from.clone() };
        let text = payload(&format!("{{\"answer\":{content}}}"));
        let by_name = request.name.clone().filter(|_| *named == 0);
        let from = match actor {
            Actor::Agent(agent) => Some(agent_id(agent)),
            Actor::Hub | Actor::Holder(_) => Some(agent_id(view.now.0 as usize % 3)),
        };
        let reference = by_name.unwrap_or_else(|| request.id.to_string());
        // Some answers refer to the request by correlation id only.
        let (in_reply_to, correlation_id) = match (*named, *content % 3) {
            (2, 0) => (None, Some(CHAINS[0].into())),
            (0 | 2, 1) => (None, Some(reference)),
            _ => (Some(reference), None),
        };
        Op::send(Message {
            from,
            kind: MessageType::Response,
            in_reply_to,
            correlation_id,
            client_id: own_id.map(client_id),
            ..Message::new(Destination::Agent(to), "work", text)
        })
    }
}

fn inspection(seen: &SeenResults, kind: u8, number: u64) -> Inspect {
    match kind {
        0 => Inspect::Deliveries { message: None, first: DeliveryNo(number + 1), count: 1 },
        1 => {
            let message =
                seen.requests.iter().rev().nth(number as usize).map(|request| (request.id.seq, request.id.n));
            Inspect::Deliveries { message, first: DeliveryNo(number + 1), count: 3 }
        }
        2 => Inspect::Inbox { agent: agent_id(number as usize % 4), after: DeliveryNo(number / 2), limit: 3 },
        3 => Inspect::Agents { filter: AgentFilter::default(), after: AgentNo(0), limit: 100 },
        6 => Inspect::Stuck { limit: 3 + number as usize },
        7 => Inspect::Task(task_id(number as usize % TASKS.len())),
        8 => Inspect::Procedure(procedure_id(number as usize % NAMES.len())),
        4 if number == 5 => Inspect::LockQueueLengths((0..LOCKS.len()).map(lock_name).collect()),
        4 => Inspect::LockQueue { name: lock_name(number as usize % LOCKS.len()), limit: 2 },
        5 => {
            let filter = AgentFilter { capability: Some("cooking".into()), ..AgentFilter::default() };
            Inspect::Agents { filter, after: AgentNo(number / 3), limit: 1 }
        }
        _ => {
            let filter =
                AgentFilter { status: Some(AgentStatus::ALL[number as usize % 4]), ..AgentFilter::default() };
            Inspect::Agents { filter, after: AgentNo(0), limit: 100 }
        }
    }
}

/// Returns one of the newest requests, or an id that does not exist.
fn request_id(seen: &SeenResults, back: usize) -> MessageId {
    let missing =
        MessageId { generation: quorate_core::Generation(0), seq: quorate_core::Seq(1_000_000), n: 0 };
    seen.requests.iter().rev().nth(back).map_or(missing, |request| request.id)
}

impl SeenResults {
    /// Records the requests of a commit.
    pub(super) fn record_requests(&mut self, commit: &Commit, receipt: &Receipt) {
        for (op, result) in commit.ops.iter().zip(&receipt.results) {
            if let (Op::Request(request), OpResult::Requested { id, .. }) = (op, result)
                && let Some(from) = &request.message.from
            {
                let name = request.message.client_id.as_ref().map(ToString::to_string);
                let to = request.message.to.agents().to_vec();
                self.requests.push(SentRequest { id: *id, from: from.clone(), to, name });
                self.sent.push((id.seq, id.n));
            }
            if let OpResult::Replied { id, .. } = result {
                self.sent.push((id.seq, id.n));
            }
        }
    }
}

impl fmt::Display for RequestOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { spec, choice } => write!(f, "{spec} else {}", choice.as_str()),
            Self::Request { spec, choice, query, timeout_ms, slot, cause } => {
                let kind = if *query { "query" } else { "command" };
                write!(
                    f,
                    "asks ({kind}, {timeout_ms:?} ms, waiting as {slot:?}, cause {cause:?}) {spec} else {}",
                    choice.as_str()
                )
            }
            Self::Answer { back, content, named, client_id, to_another } => {
                let to = if *to_another { " to another" } else { "" };
                let by_name = if *named == 0 { " by its name" } else { "" };
                write!(f, "answers {content} to request -{back}{by_name}{to} id {client_id:?}")
            }
            Self::Await { back, slot } => write!(f, "awaits request -{back} as {slot}"),
            Self::StopWaiting { agent, slot } => write!(f, "stops waiting as {slot} of {}", AGENTS[*agent]),
            Self::Cancel { back } => write!(f, "cancels request -{back}"),
            Self::Heartbeat { agent, status, health } => {
                write!(f, "beats for {}: {} {health}", AGENTS[*agent], status.as_str())
            }
            Self::Register { agent, epoch, skilled, heartbeat_ms } => {
                let skilled = if *skilled { " skilled" } else { "" };
                write!(f, "registers {}{skilled} beating {heartbeat_ms}ms {epoch:?}", AGENTS[*agent])
            }
            Self::Inspect { kind, number } => write!(f, "inspects {kind} {number}"),
            Self::HeartbeatBatch { agents } => write!(f, "relays heartbeats of {agents:?}"),
            Self::ConnectionClosed { agent } => write!(f, "reports a closed connection of {agent}"),
        }
    }
}
