//! Round trips of effects through JSON.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    AccessToken, ActivePolicy, Agent, AgentNo, AgentRole, AnswerFrom, Bearer, Budget, BudgetNo, Completion,
    Delegate, DeliveryNo, DeliveryOrigin, Destination, Effect as CoreEffect, Epoch, EscalationTarget, Fence,
    Generation, GenerationStart, Generations, Grant, Grants, History, Item, LeaseToken, Lock, LoggedLease,
    Message, NewDelivery, OnDependencyFailure, PartRef, Payload, Policy, Pool, PoolAccess, PoolNo, Presence,
    Priority, Procedure, ProcedureStatus, Recipient, RecipientOutcome, Record, RecordKind, RecordedMessage,
    ReplyState, Request, RequestState, ReturnCause, ReturnOutcome, ScopeNo, Seq, Session, SessionStatus,
    Snapshot, SnapshotState, SpaceId, Subscription, SubscriptionState, Task, TaskInput, TaskNo, TaskSpec,
    TaskState, Timestamp, TokenState, Verb, Version,
};

use super::{Effect, parse};
use crate::{AgentIds, IdResolver};

/// Resolves agents 1 and 2.
struct TwoAgents;

impl AgentIds for TwoAgents {
    fn agent_id(&self, number: AgentNo) -> Option<quorate_core::AgentId> {
        ["alice", "bob"].get(number.0 as usize - 1).map(|id| id.parse().unwrap())
    }
}

fn generations() -> Generations {
    let start =
        GenerationStart { generation: Generation(0), first_seq: Seq(1), first_delivery: DeliveryNo(1) };
    Generations(vec![start])
}

fn record() -> Record {
    Record {
        seq: Seq(42),
        at: Timestamp(1_800_000_000_000),
        format: 1,
        kind: RecordKind::Commit.number(),
        principal: "agent:alice".into(),
        hash: [0; 32],
        body: Vec::new(),
        salts: Vec::new(),
        payload: Bytes::new(),
    }
}

fn render(effect: &CoreEffect) -> Effect {
    Effect::new(effect, &record(), 0, &IdResolver { agents: &TwoAgents, generations: &generations() })
}

fn changed(verb: Verb, item: Item) -> CoreEffect {
    CoreEffect::Changed { verb, item }
}

fn task(state: TaskState) -> Item {
    let spec = TaskSpec {
        id: "t1".parse().unwrap(),
        number: TaskNo { seq: Seq(7), n: 0 },
        created_at: Timestamp(1),
        creator: Some(AgentNo(1)),
        task_type: "review".into(),
        agent: None,
        input: Some(TaskInput { part: 3, start: 0, length: 2 }),
        content_type: None,
        priority: Priority::NORMAL,
        depends_on: Vec::new(),
        timeout_ms: None,
        lease_ms: 30_000.try_into().unwrap(),
        attempts_max: 3,
        backoff_ms: 1_000,
        on_dependency_failure: OnDependencyFailure::Fail,
        escalate: EscalationTarget::Agent(AgentNo(1)),
        session: None,
    };
    Item::Task(Task {
        spec: Arc::new(spec),
        attempt: 1,
        state,
        last_failure: None,
        partials: Vec::new(),
        missing: Vec::new(),
    })
}

/// One effect of each representation.
fn every_representation() -> Vec<CoreEffect> {
    [
        spaces_and_agents(),
        messages(),
        deliveries(),
        entries_and_sessions(),
        shared_items(),
        routing_items(),
        long_lived_items(),
    ]
    .concat()
}

fn spaces_and_agents() -> Vec<CoreEffect> {
    let agent = Agent {
        id: "bob".parse().unwrap(),
        name: "Bob".into(),
        role: AgentRole::Specialist,
        capabilities: vec!["review".into()],
        supported_actions: Vec::new(),
        epoch: Epoch(9),
        removed: false,
        heartbeat_ms: 0,
        declaration: None,
        presence: Presence::default(),
    };
    vec![
        CoreEffect::SpaceCreated {
            name: "default".parse().unwrap(),
            id: SpaceId([1; 16]),
            generation: Generation(0),
        },
        CoreEffect::SpaceRestored { generation: Generation(4) },
        CoreEffect::AgentRegistered { number: AgentNo(2), agent },
        CoreEffect::PresenceChanged { number: AgentNo(2), presence: Presence::default() },
        CoreEffect::AgentRemoved { number: AgentNo(2) },
    ]
}

fn messages() -> Vec<CoreEffect> {
    let origin = DeliveryOrigin { to: AgentNo(2).into(), seq: Seq(5), n: 1 };
    let (delivery, token) = (DeliveryNo(17), LeaseToken(5));
    let pooled = DeliveryOrigin { to: Recipient::pool(PoolNo(3)), ..origin };
    let held = vec![LoggedLease { delivery, token, origin }, LoggedLease { delivery, token, origin: pooled }];
    let payload = Payload::seal(Bytes::from_static(b"\"hidden\""), [7; 16]);
    let mut message = Message::new(Destination::Agent("bob".parse().unwrap()), "review", payload);
    message.metadata = Some(r#"{"big": 18446744073709551615}"#.into());
    let message_ref = RecordedMessage {
        seq: Seq(5),
        n: 1,
        priority: Priority::NORMAL,
        attempts_max: 4,
        expires_at: None,
        scope: None,
    };
    vec![
        CoreEffect::Sent {
            message: Arc::new(message),
            part: 0,
            first: delivery,
            deliveries: vec![NewDelivery { to: AgentNo(2).into(), lease: Some((token, 30_000)) }],
        },
        CoreEffect::Leased { lease_ms: 30_000, deliveries: held.clone() },
        CoreEffect::LeasedFromPool { agent: AgentNo(2), lease_ms: 30_000, deliveries: held.clone() },
        CoreEffect::AckedMany { deliveries: held },
        CoreEffect::Backfilled { agent: AgentNo(2), first: delivery, messages: vec![message_ref] },
    ]
}

fn deliveries() -> Vec<CoreEffect> {
    let origin = DeliveryOrigin { to: AgentNo(2).into(), seq: Seq(5), n: 1 };
    let (delivery, token) = (DeliveryNo(17), LeaseToken(5));
    vec![
        CoreEffect::Acked { delivery, token, origin },
        CoreEffect::Returned {
            delivery,
            token,
            cause: ReturnCause::Nacked,
            reason: "busy".into(),
            next: ReturnOutcome::Scheduled(Timestamp(3)),
            origin,
        },
        CoreEffect::Expired { delivery, origin },
        CoreEffect::Purged { delivery, origin },
        CoreEffect::DeniedByPolicy { delivery, origin },
        CoreEffect::Redriven {
            delivery,
            to: AgentNo(2).into(),
            seq: Seq(5),
            n: 1,
            priority: Priority::URGENT,
            attempts_max: 4,
            expires_at: Some(Timestamp(4)),
            scope: None,
        },
    ]
}

fn entries_and_sessions() -> Vec<CoreEffect> {
    vec![
        CoreEffect::Written {
            key: "plan".parse().unwrap(),
            version: Version(3),
            entry_type: "plan".into(),
            content_type: None,
            part: 1,
            depends_on: vec![("base".parse().unwrap(), Version(2))],
            restores: None,
        },
        CoreEffect::Deleted { key: "plan".parse().unwrap(), version: Version(4) },
        CoreEffect::Erased { seq: Seq(5), part: 0 },
        CoreEffect::WaitAborted { cycle: vec![(AgentNo(1), "msg_0-1-0".into())] },
        CoreEffect::ContributionAdded {
            session: "s".parse().unwrap(),
            kind: quorate_core::ContributionKind::Note,
            n: 1,
            part: 0,
            content_type: None,
            rationale: String::new(),
        },
    ]
}

fn shared_items() -> Vec<CoreEffect> {
    let token = LeaseToken(5);
    let part = PartRef { seq: Seq(5), part: 1 };
    let completion = Completion {
        by: AgentNo(2),
        token,
        seq: Seq(9),
        at: Timestamp(9),
        result: Some(part),
        content_type: None,
        confidence: Some(0.5),
        rationale: None,
    };
    vec![
        changed(Verb::TaskCreated, task(TaskState::Ready { since: Timestamp(1) })),
        changed(Verb::TaskCompleted, task(TaskState::Done(Box::new(completion)))),
        changed(
            Verb::LockGranted,
            Item::Lock(Lock {
                name: "db".parse().unwrap(),
                capacity: 1,
                last_fence: Fence(4),
                grants: vec![Grant {
                    fence: Fence(4),
                    holder: AgentNo(2),
                    epoch: Epoch(1),
                    ttl_ms: 1_000,
                    at: Timestamp(1),
                    seq: Seq(1),
                    within: None,
                }],
            }),
        ),
        changed(
            Verb::BudgetSet,
            Item::Budget(Budget {
                id: "b".parse().unwrap(),
                number: BudgetNo(1),
                owner: Some(AgentNo(1)),
                messages_max: 9,
                messages_used: 1,
                tokens_max: None,
                tokens_used: 0,
                money_max: None,
                money_used: 0,
                warned: false,
            }),
        ),
        changed(
            Verb::SnapshotMade,
            Item::Snapshot(Snapshot {
                name: "n".parse().unwrap(),
                prefix: String::new(),
                seq: Seq(1),
                at: Timestamp(1),
                by: "system".into(),
                state: SnapshotState::Active,
            }),
        ),
        changed(
            Verb::PolicySet,
            Item::Policy(ActivePolicy { policy: Policy::supervised(), supervised_since: Seq(3) }),
        ),
    ]
}

fn routing_items() -> Vec<CoreEffect> {
    let delivery = DeliveryNo(17);
    vec![
        changed(
            Verb::Subscribed,
            Item::Subscription(Box::new(Subscription {
                agent: "bob".parse().unwrap(),
                agent_number: AgentNo(2),
                pattern: "findings.>".parse().unwrap(),
                since: Seq(3),
                state: SubscriptionState::CatchingUp(History::Last(9)),
            })),
        ),
        changed(
            Verb::PoolOpened,
            Item::Pool(Pool {
                number: PoolNo(3),
                capability: "review".parse().unwrap(),
                access: PoolAccess::Coordinators,
                opened_by: None,
            }),
        ),
        changed(
            Verb::RequestAnswered,
            Item::Request(Request {
                id: "msg_0-5-0".parse().unwrap(),
                from: AgentNo(1),
                reply_to: None,
                correlation: "c".into(),
                timeout_ms: 5_000,
                first_delivery: delivery,
                recipients: vec![RecipientOutcome {
                    recipient: AgentNo(2).into(),
                    reply: ReplyState::Answered { seq: Seq(6), n: 0 },
                }],
                answer_from: AnswerFrom::Asked,
                delegates: vec![Delegate { recipient: AgentNo(1).into(), index: 0 }],
                delegated: Vec::new(),
                state: RequestState::Answered,
            }),
        ),
    ]
}

fn long_lived_items() -> Vec<CoreEffect> {
    let part = PartRef { seq: Seq(5), part: 1 };
    vec![
        changed(
            Verb::TokenCreated,
            Item::Token(Arc::new(AccessToken {
                id: "tok_0-5-0".parse().unwrap(),
                digest: quorate_core::TokenDigest([9; 32]),
                bearer: Bearer::new("viewer", None).unwrap(),
                name: "looker".parse().unwrap(),
                expires_at: None,
                created_by: "admin:anna".into(),
                created_at: Timestamp(1),
                state: TokenState::Active,
                parent: None,
                grants: Grants::default(),
            })),
        ),
        changed(
            Verb::SessionOpened,
            Item::Session(Session {
                id: "s".parse().unwrap(),
                number: ScopeNo(5 << 8),
                coordinator: None,
                participants: Vec::new(),
                title: "S".into(),
                task: Some(2),
                status: SessionStatus::Active,
                since: Timestamp(1),
                reason: String::new(),
                opened_at: Timestamp(1),
                contributions: [0; 5],
            }),
        ),
        changed(
            Verb::ProcedureStepped,
            Item::Procedure(Procedure {
                id: "p".parse().unwrap(),
                kind: "deliberation".into(),
                driver: None,
                started_by: "system".into(),
                started_at: Timestamp(1),
                spec: Some(part),
                version: Version(2),
                seq: Seq(6),
                previous_seq: Some(Seq(5)),
                status: ProcedureStatus::Running,
                phase: "analysis".into(),
                since: Timestamp(1),
                stepped_at: Timestamp(1),
                state: None,
                result: None,
                reason: String::new(),
                number: None,
                parent: None,
            }),
        ),
    ]
}

// Fails under: a name that is not mapped to its representation, a field that is lost in a round trip, or one that
// contains a payload.
#[test]
fn every_effect_is_parsed_as_it_was_written() {
    for effect in every_representation() {
        let rendered = render(&effect);
        assert_eq!(rendered.name(), effect.as_str());
        let json = serde_json::to_string(&rendered).unwrap();
        assert_eq!(serde_json::from_str::<Effect>(&json).unwrap(), rendered, "{json}");
        assert!(!matches!(rendered, Effect::Unknown(_)), "{json}");
        assert!(!json.contains("hidden") && !json.contains("0909"), "{json}");
    }
}

// Fails under: a new effect or verb without a representation.
#[test]
fn every_name_has_a_representation() {
    let verbs = Verb::ALL.iter().map(|verb| verb.as_str());
    for name in CoreEffect::NAMES.iter().copied().chain(verbs) {
        let parsed = parse(name, "{}");
        assert!(parsed.is_err(), "{name} has no representation: {parsed:?}");
    }
}

#[test]
fn an_unknown_effect_of_a_newer_hub_keeps_its_name() {
    let effect: Effect = serde_json::from_str(r#"{"effect":"comet.seen","tail":3}"#).unwrap();
    assert_eq!(effect.name(), "comet.seen");
    assert!(serde_json::from_str::<Effect>(r#"{"tail":3}"#).is_err());
    assert!(serde_json::from_str::<Effect>(r#"{"effect":"task.leased"}"#).is_err());
}

#[test]
fn payloads_are_listed_with_their_storage_locations() {
    let json = |effect: &CoreEffect| serde_json::to_value(render(effect)).unwrap()["payloads"].clone();
    let created = changed(Verb::TaskCreated, task(TaskState::Ready { since: Timestamp(1) }));
    assert_eq!(json(&created), serde_json::json!([{"field": "input", "seq": 7, "part": 3}]));
    let restored = CoreEffect::Written {
        key: "plan".parse().unwrap(),
        version: Version(3),
        entry_type: String::new(),
        content_type: None,
        part: 1,
        depends_on: Vec::new(),
        restores: Some(quorate_core::RestoredVersion { seq: Seq(5), version: Version(1) }),
    };
    assert_eq!(json(&restored), serde_json::json!([{"field": "content", "seq": 5, "part": 1}]));
}
