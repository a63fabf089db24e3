//! Spaces: creation by name, and isolation from each other.

use quorate_core::{
    ClientId, Code, Commit, ConsumerId, DeliveryId, DeliveryNo, Generation, LeaseRef, LeaseToken, Op,
    Principal, Seq, SpaceName, SpaceNo, Version, WaitMode,
};

use super::builders::{
    ack, agent, erase, idempotency_key, key, lease_ref, message_to, put_entry, put_if_version, redrive, send,
    with_client_id,
};
use super::test_bench::TestBench;
use crate::{AsOf, ReadQuery, ReadResult};

pub async fn a_space_is_created_once_per_name(mut bench: TestBench) {
    let first = bench.open_space("team").await;
    assert_ne!(first, bench.space);
    assert_eq!(bench.open_space("team").await, first);
    let before = bench.store().spaces();
    assert_eq!(before.iter().map(|space| space.name.as_str()).collect::<Vec<_>>(), ["default", "team"]);
    assert_ne!(before[0].id, before[1].id);
    bench.reopen().await;
    assert_eq!(bench.store().spaces(), before);
    assert_eq!(bench.open_space("team").await, first);
}

pub async fn spaces_are_isolated(mut bench: TestBench) {
    let (own_space, other_space) = (bench.space, bench.open_space("there").await);
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", with_client_id("bob", "m1", "{}")).await;
    let held = bench.claim_one("bob").await;
    bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", "1"))]).await;
    let (head, counts) = (bench.head(), bench.counts());

    bench.switch_space(other_space);
    assert!(bench.published().agents.is_empty());
    bench.commit_refused_with(Code::NotFound, agent("alice"), vec![Op::Put(put_entry("k", "1"))]).await;
    bench.register("alice").await;
    bench
        .commit_refused_with(Code::UnknownRecipient, agent("alice"), vec![send("alice", message_to("bob"))])
        .await;
    bench.register("bob").await;
    bench.commit_refused_with(Code::NotFound, agent("bob"), vec![ack(&held)]).await;
    bench.commit_refused_with(Code::NotFound, Principal::System, vec![redrive(held.delivery)]).await;
    assert_eq!(bench.claim("bob", 9).await, vec![]);
    bench.commit_ok(agent("alice"), vec![put_if_version("k", "2", 0)]).await;
    let m1 = ClientId::new("m1").expect("valid id");
    assert_eq!(bench.read(ReadQuery::MessageByClientId(m1)).await, ReadResult::Message(None));
    assert_eq!(bench.read(ReadQuery::Message { seq: held.seq, n: held.n }).await, ReadResult::Message(None));
    assert_eq!(bench.delivery_state(held.delivery).await, None);
    let other = bench.send_as("alice", with_client_id("bob", "m1", "another")).await;
    assert_eq!(other.first_delivery, DeliveryNo(1), "each space has its own numbering");

    bench.switch_space(own_space);
    assert_eq!((bench.head(), bench.counts()), (head, counts), "the other space is unaffected");
    match bench.read(ReadQuery::Entry { key: key("k"), when: AsOf::Latest }).await {
        ReadResult::Entry(Some(entry)) => assert_eq!(entry.version.head.version, Version(1)),
        other => panic!("not an entry: {other:?}"),
    }
}

pub async fn keys_and_consumers_are_scoped_to_one_space(mut bench: TestBench) {
    let other_space = bench.open_space("there").await;
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 1, WaitMode::Once(ConsumerId(1))).await;
    let keyed =
        |text| Commit::new(agent("alice"), vec![Op::Put(put_entry("k", text))]).keyed(idempotency_key("k1"));
    bench.commit(keyed("1")).await.expect("accepted");
    bench.switch_space(other_space);
    bench.register_all(&["alice", "bob"]).await;
    bench.commit(keyed("2")).await.expect("the key is unused in this space");
    bench.send("alice", "bob").await;
    assert_eq!(bench.dispatched(), vec![], "the consumer waits in the other space");
}

pub async fn a_delivery_of_another_generation_is_not_found(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    let delivery = DeliveryId { generation: Generation(7), number: held.delivery };
    let lease = LeaseRef { delivery, token: held.token };
    bench.commit_refused_with(Code::NotFound, agent("bob"), vec![Op::Ack(lease)]).await;
    bench.commit_refused_with(Code::NotFound, Principal::System, vec![Op::Redrive { delivery }]).await;
    bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
}

pub async fn out_of_range_numbers_never_reach_another_space(mut bench: TestBench) {
    let other_space = bench.open_space("there").await;
    bench.switch_space(other_space);
    bench.register_all(&["alice", "bob"]).await;
    let seq =
        bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", "kept"))]).await.seq.expect("a record");
    bench.send("alice", "bob").await;
    let own_space = SpaceNo(other_space.0 - 1);
    bench.switch_space(own_space);
    for beyond in [1 << 47, u64::MAX >> 17, u64::MAX >> 1, u64::MAX] {
        let (record, number) = (Seq(beyond | seq.0), DeliveryNo(beyond | 1));
        bench.commit_refused_with(Code::NotFound, Principal::System, vec![erase(record, 0)]).await;
        let lease = lease_ref(number.0, 1);
        bench.commit_refused_with(Code::NotFound, Principal::System, vec![Op::Ack(lease)]).await;
        bench.commit_refused_with(Code::NotFound, Principal::System, vec![redrive(number)]).await;
        assert_eq!(bench.read(ReadQuery::Message { seq: record, n: 0 }).await, ReadResult::Message(None));
        assert_eq!(bench.delivery_state(number).await, None);
        let records = bench.store().log(own_space, record, 9).await.expect("reads work");
        assert!(records.is_empty());
        let after = ReadQuery::DeadLetters { agent: None, after: number, limit: 9 };
        assert_eq!(bench.read(after).await, ReadResult::DeadLetters(vec![]));
    }
    bench.switch_space(other_space);
    match bench.read(ReadQuery::Entry { key: key("k"), when: AsOf::Latest }).await {
        ReadResult::Entry(Some(entry)) => assert!(!entry.content.expect("the content is stored").is_erased()),
        other => panic!("not an entry: {other:?}"),
    }
}

pub async fn a_missing_space_is_an_error_that_applies_nothing(bench: TestBench) {
    for number in [0, 2, 99, u64::MAX] {
        let commit = Commit::new(Principal::System, vec![Op::Sweep]);
        let error = bench.store().transact(SpaceNo(number), vec![commit]).await.expect_err("no such space");
        assert!(error.is_not_applied(), "{error}");
        assert!(bench.store().published(SpaceNo(number)).is_none());
    }
    bench.register("alice").await;
}

pub async fn a_space_name_may_be_any_printable_text(mut bench: TestBench) {
    for name in ["Ünïcode name", "a/b", "'; --", "%", &"x".repeat(128)] {
        let name = SpaceName::new(name).expect("valid name");
        let number = bench.store().space(name.clone()).await.expect("the space is created");
        let found = bench.store().spaces().into_iter().find(|space| space.number == number);
        assert_eq!(found.map(|space| space.name), Some(name));
        bench.switch_space(number);
        bench.register("alice").await;
        let held = bench.send("alice", "alice").await;
        assert_eq!(
            (held.first_delivery, bench.claim_one("alice").await.token),
            (DeliveryNo(1), LeaseToken(1))
        );
    }
}
