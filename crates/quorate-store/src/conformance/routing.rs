//! Routing: topics, broadcasts, roles, pools and the policy.

use quorate_core::{
    AgentRole, Backfill, Code, Commit, ConsumerId, CreateTasks, DeliveryNo, Destination, EarlierMessage,
    EndState, History, Item, ItemKind, LeasedDelivery, Message, NewTask, Op, OpResult, Pattern, Policy,
    PoolNo, Preset, Principal, Priority, Recipient, RecordedMessage, RegisterAgent, Seq, Subscribe,
    SubscriptionState, WaitMode, limits,
};

use super::builders::{
    ack, agent, claim, dead_letter, id, lease, message_to, payload, put_entry, redrive, register, send,
};
use super::test_bench::{TestBench, sent};
use crate::{ReadQuery, ReadResult, StoredDeliveryState};

fn to(destination: &str) -> Message {
    Message::new(destination.parse().expect("valid destination"), "work", payload("{}"))
}

fn pattern(text: &str) -> Pattern {
    Pattern::new(text).expect("valid pattern")
}

fn subscribe(name: &str, text: &str, history: Option<History>) -> Op {
    Op::Subscribe(Subscribe { agent: id(name), pattern: pattern(text), history })
}

fn unsubscribe(name: &str, text: &str) -> Op {
    Op::Unsubscribe { agent: id(name), pattern: pattern(text) }
}

fn register_capable(name: &str, role: AgentRole, capabilities: &[&str]) -> Op {
    let capabilities = capabilities.iter().map(|capability| (*capability).to_owned()).collect();
    Op::RegisterAgent(RegisterAgent { role, capabilities, ..RegisterAgent::named(id(name)) })
}

fn supervised() -> Op {
    Op::SetPolicy(Policy { preset: Preset::Supervised, ..Policy::mesh() })
}

fn earlier(seq: Seq, n: u32, from: Option<&str>) -> EarlierMessage {
    let (priority, attempts_max) = (Priority::NORMAL, 4);
    let message = RecordedMessage { seq, n, priority, attempts_max, expires_at: None, scope: None };
    EarlierMessage { from: from.map(id), session_id: None, correlation_id: None, message }
}

fn backfill(history: History, messages: Vec<EarlierMessage>, next: Seq) -> Op {
    Op::Backfill(Backfill { agent: id("bob"), pattern: pattern("a.>"), expected: history, messages, next })
}

async fn items(bench: &TestBench, kind: ItemKind) -> Vec<Item> {
    match bench.read(ReadQuery::items(kind, 1000)).await {
        ReadResult::Items(items) => items.into_iter().map(|listed| listed.item).collect(),
        other => panic!("not items: {other:?}"),
    }
}

async fn recipients(bench: &TestBench, seq: Seq, n: u32) -> Vec<Recipient> {
    match bench.read(ReadQuery::Message { seq, n }).await {
        ReadResult::Message(Some(stored)) => stored.recipients,
        other => panic!("not a message: {other:?}"),
    }
}

fn deliveries(leased: &[LeasedDelivery]) -> Vec<DeliveryNo> {
    leased.iter().map(|leased_delivery| leased_delivery.delivery).collect()
}

pub async fn d3_each_destination_kind_resolves_to_its_recipients(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    let dave = register_capable("dave", AgentRole::Observer, &["cook"]);
    bench.commit_ok(Principal::System, vec![dave, subscribe("bob", "a.*", None)]).await;
    let agents = bench.published().agents.clone();
    let numbers = |names: &[&str]| -> Vec<Recipient> {
        names.iter().map(|name| agents.number(&id(name)).expect("known").into()).collect()
    };
    for (destination, names) in [
        ("topic:a.b", &["bob"][..]),
        ("topic:a.b.c", &[]),
        ("*", &["bob", "carol", "dave"]),
        ("role:worker", &["bob", "carol"]),
        ("role:observer", &["dave"]),
    ] {
        let sent = bench.send_as("alice", to(destination)).await;
        assert_eq!(sent.count as usize, names.len(), "{destination}");
        assert_eq!(recipients(&bench, sent.id.seq, 0).await, numbers(names), "{destination}");
    }
    let pooled = bench.send_as("alice", to("can:cook")).await;
    assert_eq!(recipients(&bench, pooled.id.seq, 0).await, [Recipient::pool(PoolNo(1))]);
    for unknown in ["role:coordinator", "role:specialist", "can:fly"] {
        bench
            .commit_refused_with(Code::UnknownRecipient, agent("alice"), vec![send("alice", to(unknown))])
            .await;
    }
}

pub async fn d4_a_subscription_takes_effect_with_its_record(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", to("topic:a.b")).await;
    let first = bench.commit_ok(agent("bob"), vec![subscribe("bob", "a.>", None)]).await;
    let since = first.seq.expect("a record");
    assert_eq!(first.results, [OpResult::Subscribed { since, backfill: None }]);
    let repeated = bench.commit_ok(agent("bob"), vec![subscribe("bob", "a.>", Some(History::Last(5)))]).await;
    assert_eq!(
        (repeated.seq, &repeated.results[..]),
        (None, &first.results[..]),
        "the subscription already exists"
    );
    bench.reopen().await;
    assert_eq!(bench.published().topics.len(), 1);
    let delivered = bench.send_as("alice", to("topic:a.b")).await;
    assert_eq!(bench.claim_one("bob").await.seq, delivered.id.seq);
    bench.commit_ok(agent("bob"), vec![unsubscribe("bob", "a.>")]).await;
    bench.commit_refused_with(Code::NotFound, agent("bob"), vec![unsubscribe("bob", "a.>")]).await;
    assert_eq!(bench.send_as("alice", to("topic:a.b")).await.count, 0);
    assert_eq!(items(&bench, ItemKind::Subscription).await, vec![]);
}

pub async fn d4_an_agent_has_at_most_256_subscriptions(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let max = limits::SUBSCRIPTIONS_PER_AGENT_MAX;
    let ops = (0..max).map(|number| subscribe("bob", &format!("a.{number}"), None)).collect();
    bench.commit_ok(agent("bob"), ops).await;
    let refused = bench.commit_refused(agent("bob"), vec![subscribe("bob", "one.more", None)]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(max as u64)));
    bench.commit_ok(agent("bob"), vec![subscribe("bob", "a.7", None)]).await;
    bench.commit_ok(agent("alice"), vec![subscribe("alice", "one.more", None)]).await;
    bench.commit_ok(agent("bob"), vec![Op::RemoveAgent { agent: id("bob") }]).await;
    assert_eq!(
        items(&bench, ItemKind::Subscription).await.len(),
        1,
        "removing an agent removes its subscriptions"
    );
}

pub async fn d4_topic_history_is_delivered_as_new_deliveries(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let ops = vec![send("alice", to("topic:a.b")), send("alice", to("topic:a.c"))];
    let seq = bench.commit_ok(agent("alice"), ops).await.seq.expect("a record");
    let history = History::Last(2);
    let since =
        bench.commit_ok(agent("bob"), vec![subscribe("bob", "a.>", Some(history))]).await.seq.expect("one");
    let newer = bench.send_as("alice", to("topic:a.b")).await;
    let too_new = backfill(history, vec![earlier(newer.id.seq, 0, None)], since);
    bench.commit_refused_with(Code::Invalid, Principal::System, vec![too_new]).await;
    bench.commit_refused_with(Code::Forbidden, agent("bob"), vec![backfill(history, vec![], since)]).await;
    let first = vec![earlier(seq, 0, Some("alice")), earlier(seq, 1, Some("bob"))];
    bench.commit_ok(Principal::System, vec![backfill(history, first.clone(), Seq(since.0 - 1))]).await;
    let leased = bench.claim("bob", 9).await;
    assert_eq!(
        deliveries(&leased),
        [newer.first_delivery, DeliveryNo(newer.first_delivery.0 + 1)],
        "without the messages it sent itself"
    );
    assert_eq!((leased[1].seq, leased[1].n, leased[1].attempt), (seq, 0, 1));
    let rest = History::Seq(Seq(since.0 - 1));
    bench.commit_refused_with(Code::NotFound, Principal::System, vec![backfill(history, first, since)]).await;
    bench.commit_ok(Principal::System, vec![backfill(rest, vec![], since)]).await;
    match &items(&bench, ItemKind::Subscription).await[..] {
        [Item::Subscription(subscription)] => {
            assert_eq!((subscription.since, subscription.state), (since, SubscriptionState::Active))
        }
        other => panic!("not a subscription: {other:?}"),
    }
}

pub async fn d3_a_pool_message_is_delivered_to_one_capable_agent(mut bench: TestBench) {
    bench.register("alice").await;
    let workers = ["bob", "carol"].map(|name| register_capable(name, AgentRole::Worker, &["cook"]));
    bench.commit_ok(Principal::System, workers.to_vec()).await;
    let first = bench.send_as("alice", to("can:cook")).await;
    let second = bench.send_as("alice", to("can:cook")).await;
    assert_eq!((first.count, second.count), (1, 1));
    let held = bench.claim_one("bob").await;
    assert_eq!(held.delivery, first.first_delivery);
    bench.reopen().await;
    bench.commit_refused_with(Code::StaleLease, agent("carol"), vec![ack(&held)]).await;
    assert_eq!(deliveries(&bench.claim("carol", 9).await), [second.first_delivery]);
    bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
    let repeated = bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
    assert_eq!(repeated.seq, None, "a repeated ack changes nothing");
    assert_eq!(bench.counts().acked, 1);
}

pub async fn d3_a_returned_pool_delivery_may_go_to_another_agent(bench: TestBench) {
    bench.register("alice").await;
    let workers = ["bob", "carol"].map(|name| register_capable(name, AgentRole::Worker, &["cook"]));
    bench.commit_ok(Principal::System, workers.to_vec()).await;
    bench.send_as("alice", to("can:cook")).await;
    let first = bench.claim_one("bob").await;
    bench.claim_waiting("carol", 1, WaitMode::Once(ConsumerId(1))).await;
    bench.advance_secs(30);
    bench.sweep().await;
    let dispatched = bench.dispatched();
    assert_eq!(
        dispatched.iter().map(|(id, leased)| (*id, leased.attempt)).collect::<Vec<_>>(),
        [(ConsumerId(1), 2)]
    );
    bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![ack(&first)]).await;
    bench.commit_ok(agent("carol"), vec![dead_letter(&dispatched[0].1, "unusable")]).await;
    let dead_letters = bench.dead_letters().await;
    assert_eq!((dead_letters.len(), dead_letters[0].to), (1, Recipient::pool(PoolNo(1))));
    bench.commit_ok(Principal::System, vec![redrive(first.delivery)]).await;
    assert_eq!(bench.claim_one("bob").await.attempt, 1);
}

pub async fn d3_consumers_of_a_pool_are_served_round_robin(bench: TestBench) {
    bench.register("alice").await;
    let workers = ["bob", "carol"].map(|name| register_capable(name, AgentRole::Worker, &["cook"]));
    bench.commit_ok(Principal::System, workers.to_vec()).await;
    let ops = (0..6).map(|_| send("alice", to("can:cook"))).collect();
    for (number, name) in [(1, "bob"), (2, "carol")] {
        bench.claim_waiting(name, 2, WaitMode::Standing(ConsumerId(number))).await;
    }
    bench.commit_ok(agent("alice"), ops).await;
    let order: Vec<u64> = bench.dispatched().iter().map(|(consumer, _)| consumer.0).collect();
    assert_eq!(order, [1, 2, 1, 2]);
    assert_eq!(bench.counts().ready, 2, "the rest waits for credit");
    bench.commit_ok(agent("carol"), vec![Op::GrantCredit { consumer: ConsumerId(2), credit: 9 }]).await;
    assert_eq!(bench.dispatched().len(), 2);
}

pub async fn d4_many_deliveries_are_acked_in_one_operation(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for _ in 0..4 {
        bench.send("alice", "bob").await;
    }
    let leased = bench.claim("bob", 4).await;
    let leases = |indexes: &[usize]| indexes.iter().map(|index| lease(&leased[*index])).collect::<Vec<_>>();
    let first = bench.commit_ok(agent("bob"), vec![Op::AckMany(leases(&[0, 1]))]).await;
    assert_eq!(first.results, [OpResult::AckedMany { earlier: vec![] }]);
    let seq = first.seq.expect("a record");
    bench.reopen().await;
    let second = bench.commit_ok(agent("bob"), vec![Op::AckMany(leases(&[1, 2]))]).await;
    assert_eq!(second.results, [OpResult::AckedMany { earlier: vec![(0, seq)] }]);
    let state = bench.delivery_state(leased[1].delivery).await;
    assert_eq!(state, Some(StoredDeliveryState::Ended { state: EndState::Acked, seq }));
    let refused = bench.commit_refused(agent("alice"), vec![Op::AckMany(leases(&[3]))]).await;
    assert_eq!(refused.code, Code::NotFound, "{refused}");
}

pub async fn d4_broadcasts_are_rate_limited_per_minute(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let rules = Policy { broadcasts_per_minute: 1, ..Policy::mesh() };
    bench.commit_ok(Principal::System, vec![Op::SetPolicy(rules)]).await;
    bench.send_as("alice", to("*")).await;
    let refused = bench.commit_refused(agent("alice"), vec![send("alice", to("*"))]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(1)));
    assert_eq!(refused.facts.rule.as_deref(), Some("broadcastsPerMinute"));
    bench.send_as("bob", to("*")).await;
    bench.commit_ok(Principal::System, vec![Op::send(to("*"))]).await;
    bench.advance_secs(60);
    bench.send_as("alice", to("*")).await;
}

pub async fn e7_a_policy_limits_the_number_of_open_tasks(bench: TestBench) {
    bench.register("alice").await;
    let make = |count| CreateTasks { tasks: vec![NewTask::new("work"); count], inputs: None };
    let allow = |open_tasks_max| Op::SetPolicy(Policy { open_tasks_max, ..Policy::mesh() });
    bench.commit_ok(Principal::System, vec![allow(2)]).await;
    let refused = bench.commit_refused(agent("alice"), vec![Op::CreateTasks(make(3))]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::QueueFull, Some(2)));
    bench.commit_ok(agent("alice"), vec![Op::CreateTasks(make(2))]).await;
    bench.commit_refused_with(Code::QueueFull, agent("alice"), vec![Op::CreateTasks(make(1))]).await;
    bench.commit_ok(Principal::System, vec![allow(3)]).await;
    bench.commit_ok(agent("alice"), vec![Op::CreateTasks(make(1))]).await;
}

pub async fn d12_a_policy_limits_the_bytes_of_payloads_and_commits(mut bench: TestBench) {
    bench.register("alice").await;
    let put = |bytes: usize| Op::Put(put_entry("k", &" ".repeat(bytes)));
    let default = (limits::PAYLOAD_BYTES_DEFAULT, limits::COMMIT_BYTES_DEFAULT);
    let largest = (limits::PAYLOAD_BYTES_MAX, limits::COMMIT_BYTES_MAX);
    let policy = |(payload, commit): (usize, usize)| {
        let (payload_bytes_max, commit_bytes_max) = (payload as u32, commit as u32);
        Op::SetPolicy(Policy { payload_bytes_max, commit_bytes_max, ..Policy::mesh() })
    };
    for (payload_max, commit_max) in [default, largest, (1_000, 2_500)] {
        bench.commit_ok(Principal::System, vec![policy((payload_max, commit_max))]).await;
        bench.reopen().await;
        let full = || vec![put(payload_max); commit_max / payload_max];
        let rest = put(commit_max % payload_max);
        bench.commit_ok(agent("alice"), vec![put(payload_max)]).await;
        if payload_max < limits::PAYLOAD_BYTES_MAX {
            let refused = bench.commit_refused(agent("alice"), vec![put(payload_max + 1)]).await;
            assert_eq!(refused.facts.rule.as_deref(), Some("payloadBytesMax"));
            assert_eq!((refused.code, refused.facts.limit), (Code::TooLarge, Some(payload_max as u64)));
        }
        bench.commit_ok(agent("alice"), [full(), vec![rest.clone()]].concat()).await;
        if commit_max < limits::COMMIT_BYTES_MAX {
            let refused = bench.commit_refused(agent("alice"), [full(), vec![rest, put(1)]].concat()).await;
            assert_eq!(refused.facts.rule.as_deref(), Some("commitBytesMax"));
            assert_eq!((refused.code, refused.facts.limit), (Code::TooLarge, Some(commit_max as u64)));
        }
    }
    // A policy change applies to the later operations of its commit.
    let raised = vec![policy((4, 8)), put(4), policy(default), put(100)];
    bench.commit_ok(Principal::System, raised).await;
    bench.commit_refused_with(Code::TooLarge, Principal::System, vec![policy((4, 8)), put(5)]).await;
    for invalid in [(0, 1_000), (1_001, 1_000), (largest.0 + 1, largest.1), (1, largest.1 + 1)] {
        let commit = Commit::new(Principal::System, vec![policy(invalid)]);
        assert_eq!(commit.check().expect_err("an invalid policy").code, Code::Invalid, "{invalid:?}");
    }
}

pub async fn c1_a_policy_survives_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_ok(Principal::System, vec![register_capable("carol", AgentRole::Coordinator, &[])]).await;
    bench.send("alice", "bob").await;
    bench.commit_ok(Principal::System, vec![supervised()]).await;
    bench.reopen().await;
    let refused = bench.commit_refused(agent("alice"), vec![send("alice", message_to("bob"))]).await;
    assert_eq!((refused.code, refused.facts.rule.as_deref()), (Code::PolicyViolation, Some("supervised")));
    assert_eq!(
        bench.claim("bob", 9).await,
        vec![],
        "messages sent before the policy change are not delivered either"
    );
    let dead_letters = bench.dead_letters().await;
    assert_eq!((dead_letters.len(), dead_letters[0].attempts), (1, 0));
    bench.reopen().await;
    let refused = bench.commit_refused(Principal::System, vec![redrive(dead_letters[0].delivery)]).await;
    assert_eq!(refused.code, Code::PolicyViolation);
    bench.commit_ok(Principal::System, vec![Op::SetPolicy(Policy::mesh())]).await;
    bench.commit_ok(Principal::System, vec![redrive(dead_letters[0].delivery)]).await;
    assert_eq!(bench.claim_one("bob").await.attempt, 1);
    bench.send("alice", "carol").await;
}

pub async fn c1_a_policy_change_applies_to_later_operations_of_its_commit(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let send_as_alice = || send("alice", message_to("bob"));
    let refused = bench.commit_refused(Principal::System, vec![supervised(), send_as_alice()]).await;
    assert_eq!((refused.code, refused.facts.op), (Code::PolicyViolation, Some(1)));
    let receipt = bench.commit_ok(Principal::System, vec![send_as_alice(), supervised()]).await;
    assert_eq!(sent(&receipt, 0).count, 1);
    assert_eq!(bench.claim("bob", 9).await, vec![], "sent before the change, but checked again on delivery");
}

pub async fn c1_a_recipient_list_with_one_disallowed_recipient_is_refused(bench: TestBench) {
    bench
        .commit_ok(
            Principal::System,
            vec![register_capable("carol", AgentRole::Coordinator, &[]), supervised()],
        )
        .await;
    bench.register_all(&["alice", "bob"]).await;
    let message = Message::new(Destination::Agents(vec![id("carol"), id("bob")]), "work", payload("{}"));
    bench.commit_refused_with(Code::PolicyViolation, agent("alice"), vec![send("alice", message)]).await;
    assert_eq!(bench.claim("carol", 9).await, vec![]);
    bench
        .commit_refused_with(
            Code::PolicyViolation,
            agent("dave"),
            vec![register_capable("dave", AgentRole::Coordinator, &[])],
        )
        .await;
    bench.commit_ok(agent("dave"), vec![register("dave"), claim("dave", 1, WaitMode::NoWait)]).await;
}
