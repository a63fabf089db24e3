//! Isolation of spaces: an id of another space is answered like an id that does not exist, and messages never cross
//! spaces.

use quorate_core::{
    AcquireLocks, AddToSession, AgentNo, Bearer, BudgetId, CancelTask, ChangeSession, ClaimTasks, Code,
    CompleteTask, ConsumerId, ContributionKind, CreateTasks, DeliveryNo, Extend, Fence, FenceRef, Generation,
    ItemKey, ItemKind, LeaseToken, LockName, MakeSnapshot, Message, MessageId, Nack, NackAction, NewTask, Op,
    OpResult, OpenSession, Pattern, Principal, Priority, Refused, RegisterAgent, RenewLocks, Rollback,
    RollbackScope, RollbackTarget, SendRequest, Seq, SessionChange, SessionId, SetBudget, SnapshotName,
    Subscribe, TaskId, TaskLeaseRef, TokenId, Version, WaitMode, limits,
};

use super::builders::{
    ack, agent, claim, dead_letter, erase, id, key, lease_ref, message_to, nack_for_retry, payload,
    put_entry, put_if_version, redrive, register, send, with_client_id,
};
use super::test_bench::TestBench;
use super::tokens::create_token;
use crate::{AsOf, CommitResult, ReadQuery};

fn session() -> SessionId {
    SessionId::new("s").expect("valid id")
}

fn task() -> TaskId {
    TaskId::new("t").expect("valid id")
}

fn lock() -> LockName {
    LockName::new("l").expect("valid name")
}

fn snapshot() -> SnapshotName {
    SnapshotName::new("n").expect("valid name")
}

fn budget() -> BudgetId {
    BudgetId::new("b").expect("valid id")
}

fn pattern() -> Pattern {
    Pattern::new("a.>").expect("valid pattern")
}

fn to(destination: &str) -> Message {
    Message::new(destination.parse().expect("valid destination"), "work", payload("{}"))
}

fn acquire() -> Op {
    Op::AcquireLocks(AcquireLocks {
        agent: id("bob"),
        names: vec![lock()],
        ttl_ms: limits::LEASE_MS_DEFAULT,
        priority: Priority::NORMAL,
        capacity: None,
        wait: WaitMode::NoWait,
        within: None,
    })
}

/// Commits that create one resource of every kind that has an id. Requires the agents alice and bob.
fn one_of_everything() -> Vec<(Principal, Vec<Op>)> {
    let capable_bob = RegisterAgent { capabilities: vec!["x".into()], ..RegisterAgent::named(id("bob")) };
    let new = NewTask { id: Some(task()), ..NewTask::new("x") };
    let open = OpenSession {
        id: Some(session()),
        coordinator: None,
        participants: vec![id("bob")],
        title: "work".into(),
        task: None,
    };
    let claim_task = ClaimTasks {
        agent: id("bob"),
        types: vec!["x".into()],
        max: 1,
        lease_ms: None,
        wait: WaitMode::NoWait,
    };
    let set = SetBudget { id: budget(), messages_max: 9, tokens_max: None, money_max: None };
    let alice = || agent("alice");
    let bob = || agent("bob");
    vec![
        (bob(), vec![Op::RegisterAgent(capable_bob)]),
        (bob(), vec![Op::Subscribe(Subscribe { agent: id("bob"), pattern: pattern(), history: None })]),
        (alice(), vec![send("alice", with_client_id("bob", "m1", "{}")), send("alice", to("can:x"))]),
        (alice(), vec![send("alice", to("topic:a.b")), Op::Put(put_entry("k", "1"))]),
        (alice(), vec![Op::CreateTasks(CreateTasks { tasks: vec![new], inputs: None })]),
        (bob(), vec![claim("bob", 9, WaitMode::NoWait)]),
        (bob(), vec![Op::ClaimTasks(claim_task)]),
        (bob(), vec![acquire()]),
        (alice(), vec![Op::OpenSession(open), Op::SetBudget(set)]),
        (alice(), vec![Op::MakeSnapshot(MakeSnapshot { name: snapshot(), prefix: String::new() })]),
        (Principal::System, vec![dead_letter_first()]),
        (Principal::System, vec![Op::CreateToken(create_token(1, Bearer::Agent(id("bob"))))]),
    ]
}

/// Dead-letters the first delivery.
fn dead_letter_first() -> Op {
    Op::Nack(quorate_core::Nack {
        lease: lease_ref(1, 1),
        action: quorate_core::NackAction::DeadLetter,
        reason: String::new(),
    })
}

/// Every operation that refers to a resource by id.
fn probes() -> Vec<(Principal, Op)> {
    let lease = TaskLeaseRef { task: task(), token: LeaseToken(1) };
    let fences = || vec![FenceRef { lock: lock(), fence: Fence(1) }];
    let body = payload("{}");
    let (content_type, rationale) = (None, String::new());
    let add =
        AddToSession { session: session(), kind: ContributionKind::Note, body, content_type, rationale };
    let change = |change| ChangeSession { session: session(), change, reason: String::new() };
    let cancel = CancelTask { task: task(), reason: String::new() };
    let roll_back = |to| {
        let scope = RollbackScope::Key { key: key("k"), expect: None };
        Op::Rollback(Rollback { scope, target: to, fence: None })
    };
    let in_session = Message { session_id: Some("s".into()), ..message_to("alice") };
    let on_budget = Message { budget: Some("b".into()), ..message_to("alice") };
    let by_bob = [
        Op::Ack(lease_ref(2, 2)),
        Op::AckMany(vec![lease_ref(1, 1), lease_ref(2, 2)]),
        dead_letter_first(),
        Op::CompleteTask(CompleteTask::done(lease, None)),
        Op::ReleaseLocks(fences()),
        Op::RenewLocks(RenewLocks::with_granted_ttl(fences())),
        Op::AddToSession(add),
        Op::ChangeSession(change(SessionChange::Pause)),
        Op::Unsubscribe { agent: id("bob"), pattern: pattern() },
        put_if_version("k", "2", 1),
        roll_back(RollbackTarget::Version(Version(1))),
        roll_back(RollbackTarget::Snapshot(snapshot())),
        send("bob", on_budget),
        send("bob", in_session),
        send("bob", to("can:x")),
        Op::RemoveAgent { agent: id("carol") },
    ];
    let by_hub = [
        redrive(DeliveryNo(1)),
        erase(Seq(5), 0),
        Op::CancelTask(cancel),
        Op::Purge { agent: id("can:x") },
        Op::DropSnapshot { name: snapshot() },
        Op::RevokeToken { token: TokenId { generation: Generation(0), seq: Seq(15), n: 0 } },
    ];
    let by_bob = by_bob.into_iter().map(|op| (agent("bob"), op));
    by_bob.chain(by_hub.into_iter().map(|op| (Principal::System, op))).collect()
}

fn reads() -> Vec<ReadQuery> {
    let mut reads = vec![
        ReadQuery::Message { seq: Seq(6), n: 0 },
        ReadQuery::MessageByClientId(quorate_core::ClientId::new("m1").expect("valid id")),
        ReadQuery::Deliveries { first: DeliveryNo(1), count: 9 },
        ReadQuery::DeadLetters { agent: None, after: DeliveryNo(0), limit: 9 },
        ReadQuery::DeadLetters { agent: Some(AgentNo(2)), after: DeliveryNo(0), limit: 9 },
        ReadQuery::Entry { key: key("k"), when: AsOf::Latest },
        ReadQuery::History { key: key("k"), after: Version(0), limit: 9 },
        ReadQuery::Item(ItemKey::new(ItemKind::Task, "t")),
        ReadQuery::Item(ItemKey::new(ItemKind::Session, "s")),
    ];
    reads.extend(ItemKind::ALL.iter().map(|kind| ReadQuery::items(*kind, 9)));
    reads
}

/// Returns the outcome of each probe in the current space. None of them is applied, so they do not affect each other.
async fn outcomes(bench: &TestBench) -> Vec<CommitResult> {
    let mut outcomes = Vec::new();
    for (principal, op) in probes() {
        // An operation that always fails rolls back the effects of the probe.
        let always_fails = Op::Ack(lease_ref(77, 77));
        let ops = vec![op, always_fails];
        outcomes.push(bench.commit(quorate_core::Commit::new(principal, ops)).await);
    }
    outcomes
}

pub async fn i16_foreign_ids_are_indistinguishable_from_missing_ones(mut bench: TestBench) {
    let (own_space, other_space) = (bench.space, bench.open_space("there").await);
    bench.register_all(&["alice", "bob"]).await;
    let missing = (outcomes(&bench).await, bench.store().read(own_space, reads()).await.expect("reads work"));

    bench.switch_space(other_space);
    bench.register_all(&["alice", "bob"]).await;
    for (principal, ops) in one_of_everything() {
        bench.commit_ok(principal, ops).await;
    }
    let real = outcomes(&bench).await;
    assert_ne!(real, missing.0, "the probes refer to existing resources");

    bench.switch_space(own_space);
    let foreign = (outcomes(&bench).await, bench.store().read(own_space, reads()).await.expect("reads work"));
    assert_eq!(foreign, missing, "resources of another space make no difference");
}

// Fails under: a refusal that depends on whether another agent has such a delivery or request; a repeated ack by another
// agent.
pub async fn i16_foreign_deliveries_and_requests_are_indistinguishable_from_missing_ones(
    mut bench: TestBench,
) {
    bench.register_all(&["alice", "bob", "eve"]).await;
    let capable_bob = RegisterAgent { capabilities: vec!["x".into()], ..RegisterAgent::named(id("bob")) };
    bench.commit_ok(agent("bob"), vec![Op::RegisterAgent(capable_bob)]).await;
    let request = Message { from: Some(id("alice")), ..message_to("bob") };
    let request = SendRequest::new(request, Some(60_000), None);
    // Deliveries 1 to 6: a request, three messages, and two from a pool.
    let asked = bench.commit_ok(agent("alice"), vec![Op::Request(request)]).await;
    let [OpResult::Requested { id: asked, .. }] = asked.results[..] else { panic!("{asked:?}") };
    for _ in 0..3 {
        bench.send("alice", "bob").await;
    }
    bench.commit_ok(agent("alice"), vec![send("alice", to("can:x")), send("alice", to("can:x"))]).await;
    let held = bench.claim("bob", 9).await;
    assert_eq!(held.len(), 6);
    bench.commit_ok(agent("bob"), vec![ack(&held[1]), dead_letter(&held[2], "no"), ack(&held[4])]).await;
    bench.commit_ok(agent("bob"), vec![nack_for_retry(&held[3])]).await;
    // Once from memory, and once from the log.
    for _ in 0..2 {
        let missing = MessageId { seq: Seq(999), ..asked };
        let mut requests = Vec::new();
        for request in [missing, asked] {
            for op in [Op::CancelRequest { request }, Op::AwaitRequest { request, consumer: ConsumerId(1) }] {
                let refused = bench.commit_refused(agent("eve"), vec![op]).await;
                requests
                    .push(Refused { detail: refused.detail.replace(&request.to_string(), "ID"), ..refused });
            }
        }
        assert_eq!((requests[0].code, &requests[..2]), (Code::NotFound, &requests[2..]));
        for (index, held) in held.iter().enumerate() {
            for probe in probes_of(held.token) {
                let absent = bench.commit_refused(agent("eve"), vec![probe(999)]).await;
                let absent = Refused { detail: absent.detail.replace("dlv_0-999", "ID"), ..absent };
                let number = held.delivery.0;
                let refused = bench.commit_refused(agent("eve"), vec![probe(number)]).await;
                let delivery = format!("dlv_0-{number}");
                let refused = Refused { detail: refused.detail.replace(&delivery, "ID"), ..refused };
                assert_eq!((refused.code, &refused), (Code::NotFound, &absent), "delivery {index}");
            }
        }
        bench.reopen().await;
    }
    let held = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
}

type Probe = Box<dyn Fn(u64) -> Op>;

/// Builds every operation that refers to a delivery, with a lease token.
fn probes_of(token: LeaseToken) -> Vec<Probe> {
    let lease = move |number| lease_ref(number, token.0);
    vec![
        Box::new(move |number| Op::Ack(lease(number))),
        Box::new(move |number| Op::AckMany(vec![lease(number)])),
        Box::new(move |number| {
            let action = NackAction::Release;
            Op::Nack(Nack { lease: lease(number), action, reason: String::new() })
        }),
        Box::new(move |number| Op::Extend(Extend { lease: lease(number), lease_ms: 60_000 })),
    ]
}

pub async fn i16_messages_never_cross_spaces(mut bench: TestBench) {
    let (own_space, other_space) = (bench.space, bench.open_space("there").await);
    bench.register("alice").await;
    bench.switch_space(other_space);
    let coordinator = RegisterAgent {
        role: quorate_core::AgentRole::Coordinator,
        capabilities: vec!["x".into()],
        ..RegisterAgent::named(id("bob"))
    };
    let everything = Pattern::new(">").expect("valid pattern");
    let subscribe = Op::Subscribe(Subscribe { agent: id("bob"), pattern: everything, history: None });
    let ops = vec![register("alice"), Op::RegisterAgent(coordinator), subscribe];
    bench.commit_ok(Principal::System, ops).await;
    bench.claim_waiting("bob", 9, WaitMode::Standing(ConsumerId(1))).await;
    let (head, counts) = (bench.head(), bench.counts());

    bench.switch_space(own_space);
    for (destination, count) in [("topic:a", 0), ("*", 0)] {
        assert_eq!(bench.send_as("alice", to(destination)).await.count, count, "{destination}");
    }
    for destination in ["bob", "role:coordinator", "can:x"] {
        let sends = vec![send("alice", to(destination))];
        bench.commit_refused_with(Code::UnknownRecipient, agent("alice"), sends).await;
    }
    let close = Op::GrantCredit { consumer: ConsumerId(1), credit: 9 };
    bench.commit_ok(agent("alice"), vec![close, Op::CloseConsumer { consumer: ConsumerId(1) }]).await;

    bench.switch_space(other_space);
    assert_eq!((bench.head(), bench.counts(), bench.dispatched()), (head, counts, vec![]));
    bench.send("alice", "bob").await;
    assert_eq!(bench.dispatched().len(), 1, "the consumer was not closed from another space");
}
