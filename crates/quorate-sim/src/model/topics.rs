//! Steps about topics, capability pools and the policy: generation, display, and resolution to operations.

use std::fmt;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use quorate_core::{
    AgentRole, Backfill, Destination, EarlierMessage, History, Item, Message, MessageType, Op, Pattern,
    Policy, Preset, Priority, RecordedMessage, RegisterAgent, Seq, Subscribe, Subscription, Timestamp,
};

use super::message_chains::CHAINS;
use super::plan::AGENTS;
use super::resolve::{SpaceView, agent_id, payload};
use super::sessions::SESSION_IDS;

/// Topics of a plan.
const TOPICS: [&str; 4] = ["a.b", "a.c", "b", "a.b.c"];
/// Subscription patterns of a plan.
const PATTERNS: [&str; 5] = ["a.b", "a.*", "a.>", ">", "*"];
/// Capabilities in a plan; no agent has the last one.
const CAPABILITIES: [&str; 3] = ["cook", "review", "fly"];

/// Destination of a message.
#[derive(Clone, Debug)]
pub(super) enum PlannedDestination {
    Agents(Vec<usize>),
    Topic(usize),
    Broadcast,
    Role(usize),
    Can(usize),
}

/// Type and annotations of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum MessageStyle {
    Command,
    Answer,
    BareAnswer,
    Failure,
    Text,
    JsonString,
    LongReason,
}

/// Operation on subscriptions or the policy.
#[derive(Clone, Debug)]
pub(super) enum SubscriptionOp {
    Subscribe {
        agent: usize,
        pattern: usize,
        last: Option<u32>,
    },
    Unsubscribe {
        agent: usize,
        pattern: usize,
    },
    /// Backfill recent messages to a subscription that requested history.
    Backfill {
        index: usize,
        back: Vec<usize>,
        to_the_end: bool,
        outdated: bool,
    },
    SetPolicy(usize),
}

impl PlannedDestination {
    pub(super) fn destination(&self) -> Destination {
        match self {
            Self::Agents(agents) => match agents[..] {
                [agent] => Destination::Agent(agent_id(agent)),
                ref many => Destination::Agents(many.iter().map(|agent| agent_id(*agent)).collect()),
            },
            Self::Topic(topic) => text(&format!("topic:{}", TOPICS[*topic])),
            Self::Broadcast => Destination::Broadcast,
            Self::Role(role) => Destination::Role(AgentRole::ALL[*role]),
            Self::Can(capability) => text(&format!("can:{}", CAPABILITIES[*capability])),
        }
    }
}

fn text(text: &str) -> Destination {
    text.parse().expect("valid destination")
}

impl MessageStyle {
    pub(super) fn apply_to(self, message: &mut Message) {
        match self {
            Self::Command => {}
            Self::Answer => {
                message.kind = MessageType::Response;
                message.confidence = Some(0.5);
                message.rationale = Some("so it is".into());
            }
            Self::BareAnswer => message.kind = MessageType::Response,
            Self::Failure => {
                message.kind = MessageType::Response;
                message.reports_failure = true;
                message.rationale = Some("it failed".into());
            }
            Self::Text => message.content_type = Some("text/plain".into()),
            Self::JsonString => message.payload = payload(" \"text\""),
            Self::LongReason => message.rationale = Some("because of this and that".into()),
        }
    }
}

/// Returns the registration of an agent in one of several variants.
pub(super) fn registration(agent: usize, variant: usize) -> RegisterAgent {
    let mut new = RegisterAgent::named(agent_id(agent));
    new.role = match (agent, variant) {
        (0, _) | (_, 2) => AgentRole::Coordinator,
        (1, _) => AgentRole::Worker,
        (2, _) => AgentRole::Specialist,
        (_, _) => AgentRole::Observer,
    };
    let capabilities: &[usize] = match (agent, variant) {
        (_, 3) => &[],
        (0, _) | (_, 4) => &[0],
        (1, _) => &[0, 1],
        (_, _) => &[1],
    };
    new.capabilities = capabilities.iter().map(|index| CAPABILITIES[*index].to_owned()).collect();
    new.capabilities.extend(super::tasks::task_capabilities(agent));
    if variant == 1 {
        new.name = "renamed".into();
    }
    new
}

fn policy(kind: usize) -> Policy {
    let mesh = Policy::mesh();
    match kind {
        0 => mesh,
        1 => Policy { preset: Preset::Supervised, ..mesh },
        2 => Policy { broadcasts_per_minute: 1, payload_bytes_max: 12, commit_bytes_max: 30, ..mesh },
        3 => Policy { structured: true, confidence: true, rationale: true, rationale_chars_max: 9, ..mesh },
        _ => Policy { broadcasts_per_minute: 2, preset: Preset::Supervised, structured: true, ..mesh },
    }
}

impl SubscriptionOp {
    /// Resolves to an operation. `sent` contains all messages so far.
    pub(super) fn op(&self, view: &SpaceView, sent: &[(Seq, u32)]) -> Op {
        let pattern = |pattern: usize| Pattern::new(PATTERNS[pattern]).expect("valid pattern");
        match self {
            Self::Subscribe { agent, pattern: index, last } => {
                let history = last.map(History::Last);
                Op::Subscribe(Subscribe { agent: agent_id(*agent), pattern: pattern(*index), history })
            }
            Self::Unsubscribe { agent, pattern: index } => {
                Op::Unsubscribe { agent: agent_id(*agent), pattern: pattern(*index) }
            }
            Self::Backfill { index, back, to_the_end, outdated } => {
                let wants_history = |item: &&Item| match item {
                    Item::Subscription(subscription) => subscription.pending_backfill().is_some(),
                    _ => false,
                };
                let all: Vec<_> = view.subscriptions.iter().filter(wants_history).collect();
                match all.get(*index % all.len().max(1)) {
                    Some(Item::Subscription(subscription)) => {
                        backfill(subscription, back, *to_the_end, *outdated, sent)
                    }
                    _ => Op::Sweep,
                }
            }
            Self::SetPolicy(kind) => Op::SetPolicy(policy(*kind)),
        }
    }
}

fn backfill(to: &Subscription, back: &[usize], to_the_end: bool, outdated: bool, sent: &[(Seq, u32)]) -> Op {
    let messages = back.iter().filter_map(|back| {
        let (seq, n) = *sent.iter().rev().nth(*back)?;
        // Every second message has no sender, that is, it was sent by the hub.
        let from = (*back % 2 == 0).then(|| agent_id(*back % AGENTS.len()));
        let expires_at = (*back == 3).then_some(Timestamp(1));
        let priority = Priority::NORMAL;
        let message = RecordedMessage { seq, n, priority, attempts_max: 2, expires_at, scope: None };
        Some(EarlierMessage {
            from,
            session_id: (*back == 1).then(|| SESSION_IDS[0].into()),
            correlation_id: (*back == 2).then(|| CHAINS[0].into()),
            message,
        })
    });
    let expected = to.pending_backfill().filter(|_| !outdated).unwrap_or(History::Last(77));
    let next = if to_the_end { to.since } else { Seq(to.since.0.saturating_sub(1)) };
    let (agent, pattern) = (to.agent.clone(), to.pattern.clone());
    Op::Backfill(Backfill { agent, pattern, expected, messages: messages.collect(), next })
}

pub(super) fn destination() -> BoxedStrategy<PlannedDestination> {
    prop_oneof![
        10 => Just(PlannedDestination::Agents(vec![1])),
        10 => (0..3usize).prop_map(|agent| PlannedDestination::Agents(vec![agent])),
        4 => vec(0..3usize, 2..=4).prop_map(PlannedDestination::Agents),
        1 => vec(0..AGENTS.len(), 1..=3).prop_map(PlannedDestination::Agents),
        6 => (0..TOPICS.len()).prop_map(PlannedDestination::Topic),
        2 => Just(PlannedDestination::Broadcast),
        2 => (0..AgentRole::ALL.len()).prop_map(PlannedDestination::Role),
        10 => (0..2usize).prop_map(PlannedDestination::Can),
        1 => Just(PlannedDestination::Can(2)),
    ]
    .boxed()
}

pub(super) fn message_style() -> BoxedStrategy<MessageStyle> {
    prop_oneof![
        20 => Just(MessageStyle::Command),
        2 => Just(MessageStyle::Answer),
        1 => Just(MessageStyle::BareAnswer),
        1 => Just(MessageStyle::Failure),
        1 => Just(MessageStyle::Text),
        1 => Just(MessageStyle::JsonString),
        1 => Just(MessageStyle::LongReason),
    ]
    .boxed()
}

/// Generates subscription operations of an agent.
pub(super) fn agent_ops(agent: usize) -> BoxedStrategy<SubscriptionOp> {
    prop_oneof![
        4 => (0..PATTERNS.len(), weighted(0.4, 1..4u32))
            .prop_map(move |(pattern, last)| SubscriptionOp::Subscribe { agent, pattern, last }),
        1 => (0..PATTERNS.len()).prop_map(move |pattern| SubscriptionOp::Unsubscribe { agent, pattern }),
    ]
    .boxed()
}

/// Generates backfill and policy operations of the hub.
pub(super) fn hub_ops() -> BoxedStrategy<SubscriptionOp> {
    let likely = || proptest::bool::weighted(0.8);
    prop_oneof![
        2 => (0..3usize, vec(0..5usize, 0..=3), likely(), likely()).prop_map(
            |(index, back, to_the_end, current)| {
                SubscriptionOp::Backfill { index, back, to_the_end, outdated: !current }
            },
        ),
        3 => prop_oneof![3 => Just(0usize), 2 => Just(1), 1 => 2..5usize].prop_map(SubscriptionOp::SetPolicy),
    ]
    .boxed()
}

impl fmt::Display for PlannedDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.destination())
    }
}

impl fmt::Display for SubscriptionOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subscribe { agent, pattern, last } => {
                write!(f, "subscribes {} to {}", AGENTS[*agent], PATTERNS[*pattern])?;
                last.map_or(Ok(()), |last| write!(f, " last {last}"))
            }
            Self::Unsubscribe { agent, pattern } => {
                write!(f, "unsubscribes {} from {}", AGENTS[*agent], PATTERNS[*pattern])
            }
            Self::Backfill { index, back, to_the_end, outdated } => {
                let end = if *to_the_end { "" } else { ", incomplete" };
                let late = if *outdated { ", outdated" } else { "" };
                write!(f, "backfills {back:?} to waiting subscription {index}{end}{late}")
            }
            Self::SetPolicy(kind) => write!(f, "sets policy {kind}"),
        }
    }
}
