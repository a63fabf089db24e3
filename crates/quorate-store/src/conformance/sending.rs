//! Sending: a message is delivered unchanged, once per recipient, or the commit has no effect.

use quorate_core::{
    BudgetId, ClientId, Code, ConsumerId, DeliveryNo, Destination, Durability, Message, MessageType, Op,
    Principal, Priority, Recipient, SetBudget, WaitMode, limits,
};

use super::builders::{
    agent, claim, id, message_to, message_to_several, payload, put_if_version, register, send, with_client_id,
};
use super::test_bench::{TestBench, claimed, sent};
use crate::{ReadQuery, ReadResult, StoredMessage};

async fn message(bench: &TestBench, query: ReadQuery) -> Option<StoredMessage> {
    match bench.read(query).await {
        ReadResult::Message(found) => found,
        other => panic!("not a message: {other:?}"),
    }
}

pub async fn a_message_is_delivered_unchanged(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let budget = BudgetId::new("b1").expect("valid id");
    let budget = SetBudget { id: budget, messages_max: 1, tokens_max: None, money_max: None };
    bench.commit_ok(agent("alice"), vec![Op::SetBudget(budget)]).await;
    let whole = Message {
        from: Some(id("alice")),
        kind: MessageType::Query,
        action: "review".into(),
        payload: payload("{\"ö\": [1, 2.50, null]}  \n"),
        content_type: Some("application/vnd.review+json".into()),
        priority: Priority { level: 2, rank: 7 },
        reply_to: Some(id("bob")),
        in_reply_to: Some("msg_0-1-0".into()),
        correlation_id: Some("c1".into()),
        causation_id: Some("c0".into()),
        session_id: Some("ses_1".into()),
        budget: Some("b1".into()),
        hops: 3,
        max_hops: Some(40),
        traceparent: Some("00-1-2-3".into()),
        origin: Some("forge:x".into()),
        confidence: Some(0.25),
        rationale: Some("because\nof this".into()),
        metadata: Some("{\"a\":1}".into()),
        ..message_to("bob")
    };
    let sent = bench.send_as("alice", whole.clone()).await;
    let held = bench.claim_one("bob").await;
    assert_eq!((held.seq, held.n), (sent.id.seq, sent.id.n));
    let stored = message(&bench, ReadQuery::Message { seq: held.seq, n: held.n })
        .await
        .expect("the message is stored");
    assert_eq!(*stored.message, whole, "byte for byte");
    assert_eq!(stored.first_delivery, sent.first_delivery);
    assert_eq!(stored.at, bench.published().head.at);
}

pub async fn i2_the_origin_of_webhooks_is_reserved_for_the_hub(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let from_webhook = || Message { origin: Some("webhook:github".into()), ..message_to("bob") };
    let own = Message { from: Some(id("alice")), ..from_webhook() };
    bench.commit_refused_with(Code::Forbidden, agent("alice"), vec![Op::send(own)]).await;
    bench.commit_ok(Principal::System, vec![Op::send(from_webhook())]).await;
}

pub async fn a_recipient_list_creates_one_delivery_per_recipient(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    let sent = bench.send_as("alice", message_to_several(&["carol", "bob", "carol", "bob"])).await;
    assert_eq!(sent.count, 2, "a recipient listed twice counts once");
    let stored =
        message(&bench, ReadQuery::Message { seq: sent.id.seq, n: 0 }).await.expect("the message is stored");
    let agents = bench.published().agents.clone();
    let numbers = ["carol", "bob"].map(|name| Recipient::agent(agents.number(&id(name)).expect("known")));
    assert_eq!(stored.recipients, numbers, "in the order of the list");
    assert_eq!(bench.claim_one("carol").await.delivery, sent.first_delivery);
    assert_eq!(bench.claim_one("bob").await.delivery, DeliveryNo(sent.first_delivery.0 + 1));
}

pub async fn a_refusal_names_every_unknown_recipient(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let to_many = send("alice", message_to_several(&["nobody", "bob", "noone"]));
    let refused = bench.commit_refused(agent("alice"), vec![to_many]).await;
    assert_eq!(refused.code, Code::UnknownRecipient);
    assert_eq!(refused.facts.op, Some(0));
    assert!(refused.detail.contains("nobody") && refused.detail.contains("noone"), "{}", refused.detail);
    assert!(!refused.detail.contains("bob"), "{}", refused.detail);
}

pub async fn an_agent_cannot_send_as_another_sender(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_refused_with(Code::Forbidden, agent("alice"), vec![send("bob", message_to("bob"))]).await;
    bench.commit_refused_with(Code::Forbidden, agent("alice"), vec![Op::send(message_to("bob"))]).await;
}

pub async fn the_hub_sends_as_itself_or_as_a_registered_agent(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_ok(Principal::System, vec![Op::send(message_to("bob"))]).await;
    bench.commit_ok(Principal::System, vec![send("alice", message_to("bob"))]).await;
    let as_unknown = vec![send("nobody", message_to("bob"))];
    bench.commit_refused_with(Code::NotFound, Principal::System, as_unknown).await;
    let leased = bench.claim("bob", 2).await;
    let first = message(&bench, ReadQuery::Message { seq: leased[0].seq, n: 0 })
        .await
        .expect("the message is stored");
    assert_eq!(first.message.from, None);
}

pub async fn an_ephemeral_message_in_a_commit_is_refused(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let ephemeral = Message { durability: Durability::Ephemeral, ..message_to("bob") };
    bench.commit_refused_with(Code::Invalid, agent("alice"), vec![send("alice", ephemeral)]).await;
}

pub async fn a_repeated_client_id_returns_the_original_message(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let first = bench.send_as("alice", with_client_id("bob", "m1", "{}")).await;
    let head = bench.head();
    let repeated = bench.send_as("alice", with_client_id("bob", "m1", "{}")).await;
    assert_eq!(repeated, first);
    assert_eq!(bench.head(), head, "no second record");
    let stored = message(&bench, ReadQuery::MessageByClientId(ClientId::new("m1").expect("valid id"))).await;
    assert_eq!(stored.map(|stored| stored.first_delivery), Some(first.first_delivery));
    let none = message(&bench, ReadQuery::MessageByClientId(ClientId::new("m2").expect("valid id"))).await;
    assert_eq!(none, None);
}

pub async fn the_message_of_a_delivery_is_readable_after_its_end(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let (waiting, ended) = (bench.send("alice", "bob").await, bench.send("alice", "bob").await);
    let held = bench.claim("bob", 2).await;
    let ops = vec![super::builders::nack_for_retry(&held[0]), super::builders::ack(&held[1])];
    bench.commit_ok(agent("bob"), ops).await;
    for _ in 0..2 {
        for (sent, number) in [(&waiting, 1), (&ended, 2)] {
            let stored = message(&bench, ReadQuery::MessageOfDelivery(DeliveryNo(number))).await;
            let stored = stored.map(|stored| (stored.seq, stored.n, stored.first_delivery));
            assert_eq!(stored, Some((sent.id.seq, sent.id.n, DeliveryNo(number))));
        }
        for number in [0, 3, u64::MAX] {
            assert_eq!(message(&bench, ReadQuery::MessageOfDelivery(DeliveryNo(number))).await, None);
        }
        bench.reopen().await;
    }
}

pub async fn a_client_id_reused_with_different_content_is_refused(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", with_client_id("bob", "m1", "{}")).await;
    for other in [with_client_id("bob", "m1", "[]"), with_client_id("alice", "m1", "{}")] {
        bench.commit_refused_with(Code::Duplicate, agent("alice"), vec![send("alice", other)]).await;
    }
    let by_bob = vec![send("bob", with_client_id("bob", "m1", "{}"))];
    bench.commit_refused_with(Code::Duplicate, agent("bob"), by_bob).await;
}

pub async fn a_client_id_repeated_within_one_commit_creates_one_message(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let duplicate = || send("alice", with_client_id("bob", "m1", "{}"));
    let receipt = bench.commit_ok(agent("alice"), vec![duplicate(), duplicate()]).await;
    assert_eq!(sent(&receipt, 0), sent(&receipt, 1));
    assert_eq!(bench.counts().ready, 1);
    let other = send("alice", with_client_id("bob", "m2", "1"));
    let another = send("alice", with_client_id("bob", "m2", "2"));
    bench.commit_refused_with(Code::Duplicate, agent("alice"), vec![other, another]).await;
    let free = bench.send_as("alice", with_client_id("bob", "m2", "3")).await;
    assert_eq!(free.count, 1, "a refusal does not consume the client id");
}

pub async fn client_ids_deduplicate_messages_of_the_hub(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for message in [with_client_id("bob", "m1", "{}"), {
        let mut as_alice = with_client_id("bob", "m2", "{}");
        as_alice.from = Some(id("alice"));
        as_alice
    }] {
        let first = bench.commit_ok(Principal::System, vec![Op::send(message.clone())]).await;
        let repeated = bench.commit_ok(Principal::System, vec![Op::send(message)]).await;
        assert_eq!((sent(&repeated, 0), repeated.seq), (sent(&first, 0), None));
    }
}

pub async fn messages_in_a_commit_are_numbered_from_zero(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let ops = (0..3).map(|_| send("alice", message_to("bob"))).collect();
    let receipt = bench.commit_ok(agent("alice"), ops).await;
    for n in 0..3u32 {
        let result = sent(&receipt, n as usize);
        assert_eq!((Some(result.id.seq), result.id.n), (receipt.seq, n));
        assert_eq!(result.first_delivery, DeliveryNo(u64::from(n) + 1));
    }
    let none = message(&bench, ReadQuery::Message { seq: receipt.seq.expect("a record"), n: 3 }).await;
    assert_eq!(none, None);
}

pub async fn a_refused_commit_has_no_effect(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let ops = vec![
        put_if_version("k", "1", 0),
        send("alice", message_to("bob")),
        send("alice", message_to("nobody")),
    ];
    let refused = bench.commit_refused(agent("alice"), ops).await;
    assert_eq!((refused.code, refused.facts.op), (Code::UnknownRecipient, Some(2)));
    assert_eq!(bench.claim("bob", 10).await, vec![]);
    bench.commit_ok(agent("alice"), vec![put_if_version("k", "1", 0)]).await;
    let next = bench.send("alice", "bob").await;
    assert_eq!(next.first_delivery, DeliveryNo(1), "no delivery number was consumed");
}

pub async fn a_refused_commit_leaves_no_consumer_waiting(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let ops = vec![claim("bob", 5, WaitMode::Standing(ConsumerId(1))), put_if_version("k", "1", 9)];
    bench.commit_refused_with(Code::VersionConflict, agent("bob"), ops).await;
    bench.send("alice", "bob").await;
    assert_eq!(bench.dispatched(), vec![]);
    assert_eq!(bench.counts().ready, 1);
}

pub async fn a_refused_registration_has_no_effect(bench: TestBench) {
    bench.register("alice").await;
    let ops = vec![
        register("carol"),
        claim("carol", 1, WaitMode::Standing(ConsumerId(1))),
        send("carol", message_to("carol")),
        send("carol", message_to("carol")),
        Op::GrantCredit { consumer: ConsumerId(1), credit: 1 },
        put_if_version("k", "1", 9),
    ];
    bench.commit_refused_with(Code::VersionConflict, agent("carol"), ops).await;
    bench.sweep().await;
    assert_eq!((bench.dispatched(), bench.dismissed_consumers()), (vec![], vec![]));
    bench.register("carol").await;
    bench.send("alice", "carol").await;
    assert_eq!(bench.claim_one("carol").await.delivery, DeliveryNo(1));
}

pub async fn a_commit_creates_at_most_4096_deliveries(bench: TestBench) {
    let names: Vec<String> = (0..256).map(|number| format!("a{number}")).collect();
    bench.commit_ok(Principal::System, names.iter().map(|name| register(name)).collect()).await;
    let to_all = || {
        let agents = names.iter().map(|name| id(name)).collect();
        Op::send(Message::new(Destination::Agents(agents), "work", payload("{}")))
    };
    let per_send = names.len();
    let max_ops: Vec<Op> = (0..limits::DELIVERIES_PER_COMMIT_MAX / per_send).map(|_| to_all()).collect();
    let mut too_many = max_ops.clone();
    too_many.push(Op::send(message_to("a0")));
    let refused = bench.commit_refused(Principal::System, too_many).await;
    assert_eq!(refused.code, Code::LimitExceeded);
    assert_eq!(refused.facts.limit, Some(limits::DELIVERIES_PER_COMMIT_MAX as u64));
    bench.commit_ok(Principal::System, max_ops).await;
    assert_eq!(bench.counts().ready, limits::DELIVERIES_PER_COMMIT_MAX as u64);
    let receipt = bench.commit_ok(Principal::System, vec![claim("a0", 256, WaitMode::NoWait)]).await;
    assert_eq!(claimed(&receipt).len(), limits::DELIVERIES_PER_COMMIT_MAX / per_send);
}
