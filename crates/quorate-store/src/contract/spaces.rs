//! Spaces: creation by name, and isolation from each other.

use quorate_core::{
    ClientId, Code, Commit, ConsumerId, DeliveryId, DeliveryNo, Generation, LeaseRef, Op, Principal, Seq,
    SpaceName, SpaceNo, Token, Version, Waiting,
};

use super::bench::Bench;
use super::words::{
    ack, agent, deliver_to, erase, key, lease_of, put, put_at, redrive, repeat_key, send, with_client_id,
};
use crate::{Read, Rows, When};

pub async fn a_space_is_created_once_per_name(mut bench: Bench) {
    let first = bench.other_space("team").await;
    assert_ne!(first, bench.space);
    assert_eq!(bench.other_space("team").await, first);
    let before = bench.store().spaces();
    assert_eq!(before.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["default", "team"]);
    assert_ne!(before[0].id, before[1].id);
    bench.reopen().await;
    assert_eq!(bench.store().spaces(), before);
    assert_eq!(bench.other_space("team").await, first);
}

pub async fn spaces_are_isolated(mut bench: Bench) {
    let (here, there) = (bench.space, bench.other_space("there").await);
    bench.start_all(&["alice", "bob"]).await;
    bench.send_as("alice", with_client_id("bob", "m1", "{}")).await;
    let held = bench.claim_one("bob").await;
    bench.ok(agent("alice"), vec![Op::Put(put("k", "1"))]).await;
    let (head, counts) = (bench.head(), bench.counts());

    bench.enter(there);
    assert!(bench.published().agents.is_empty());
    bench.refused_with(Code::NotFound, agent("alice"), vec![Op::Put(put("k", "1"))]).await;
    bench.start("alice").await;
    bench.refused_with(Code::UnknownRecipient, agent("alice"), vec![send("alice", deliver_to("bob"))]).await;
    bench.start("bob").await;
    bench.refused_with(Code::NotFound, agent("bob"), vec![ack(&held)]).await;
    bench.refused_with(Code::NotFound, Principal::System, vec![redrive(held.delivery)]).await;
    assert_eq!(bench.claim("bob", 9).await, vec![]);
    bench.ok(agent("alice"), vec![put_at("k", "2", 0)]).await;
    let m1 = ClientId::new("m1").expect("valid id");
    assert_eq!(bench.read(Read::MessageByClientId(m1)).await, Rows::Message(None));
    assert_eq!(bench.read(Read::Message { seq: held.seq, n: held.n }).await, Rows::Message(None));
    assert_eq!(bench.state(held.delivery).await, None);
    let other = bench.send_as("alice", with_client_id("bob", "m1", "another")).await;
    assert_eq!(other.first, DeliveryNo(1), "each space has its own numbering");

    bench.enter(here);
    assert_eq!((bench.head(), bench.counts()), (head, counts), "the other space is unaffected");
    match bench.read(Read::Entry { key: key("k"), when: When::Now }).await {
        Rows::Entry(Some(entry)) => assert_eq!(entry.version.head.version, Version(1)),
        other => panic!("not an entry: {other:?}"),
    }
}

pub async fn keys_and_consumers_are_scoped_to_one_space(mut bench: Bench) {
    let there = bench.other_space("there").await;
    bench.start_all(&["alice", "bob"]).await;
    bench.wait("bob", 1, Waiting::Once(ConsumerId(1))).await;
    let keyed = |text| Commit::new(agent("alice"), vec![Op::Put(put("k", text))]).keyed(repeat_key("k1"));
    bench.commit(keyed("1")).await.expect("accepted");
    bench.enter(there);
    bench.start_all(&["alice", "bob"]).await;
    bench.commit(keyed("2")).await.expect("the key is unused in this space");
    bench.send("alice", "bob").await;
    assert_eq!(bench.handed(), vec![], "the consumer waits in the other space");
}

pub async fn a_delivery_of_another_generation_is_not_found(bench: Bench) {
    bench.start_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    let delivery = DeliveryId { generation: Generation(7), number: held.delivery };
    let lease = LeaseRef { delivery, token: held.token };
    bench.refused_with(Code::NotFound, agent("bob"), vec![Op::Ack(lease)]).await;
    bench.refused_with(Code::NotFound, Principal::System, vec![Op::Redrive { delivery }]).await;
    bench.ok(agent("bob"), vec![ack(&held)]).await;
}

pub async fn out_of_range_numbers_never_reach_another_space(mut bench: Bench) {
    let there = bench.other_space("there").await;
    bench.enter(there);
    bench.start_all(&["alice", "bob"]).await;
    let seq = bench.ok(agent("alice"), vec![Op::Put(put("k", "kept"))]).await.seq.expect("a record");
    bench.send("alice", "bob").await;
    let here = SpaceNo(there.0 - 1);
    bench.enter(here);
    for beyond in [1 << 47, u64::MAX >> 17, u64::MAX >> 1, u64::MAX] {
        let (record, number) = (Seq(beyond | seq.0), DeliveryNo(beyond | 1));
        bench.refused_with(Code::NotFound, Principal::System, vec![erase(record, 0)]).await;
        let lease = lease_of(number.0, 1);
        bench.refused_with(Code::NotFound, Principal::System, vec![Op::Ack(lease)]).await;
        bench.refused_with(Code::NotFound, Principal::System, vec![redrive(number)]).await;
        assert_eq!(bench.read(Read::Message { seq: record, n: 0 }).await, Rows::Message(None));
        assert_eq!(bench.state(number).await, None);
        let records = bench.store().log(here, record, 9).await.expect("reads work");
        assert!(records.is_empty());
        let after = Read::DeadLetters { agent: None, after: number, limit: 9 };
        assert_eq!(bench.read(after).await, Rows::DeadLetters(vec![]));
    }
    bench.enter(there);
    match bench.read(Read::Entry { key: key("k"), when: When::Now }).await {
        Rows::Entry(Some(entry)) => assert!(!entry.content.expect("the content is stored").is_erased()),
        other => panic!("not an entry: {other:?}"),
    }
}

pub async fn a_missing_space_is_an_error_that_applies_nothing(bench: Bench) {
    for number in [0, 2, 99, u64::MAX] {
        let commit = Commit::new(Principal::System, vec![Op::Sweep]);
        let error = bench.store().transact(SpaceNo(number), vec![commit]).await.expect_err("no such space");
        assert!(error.nothing_applied(), "{error}");
        assert!(bench.store().published(SpaceNo(number)).is_none());
    }
    bench.start("alice").await;
}

pub async fn a_space_name_may_be_any_printable_text(mut bench: Bench) {
    for name in ["Ünïcode name", "a/b", "'; --", "%", &"x".repeat(128)] {
        let name = SpaceName::new(name).expect("valid name");
        let number = bench.store().space(name.clone()).await.expect("the space is created");
        let found = bench.store().spaces().into_iter().find(|one| one.number == number);
        assert_eq!(found.map(|one| one.name), Some(name));
        bench.enter(number);
        bench.start("alice").await;
        let held = bench.send("alice", "alice").await;
        assert_eq!((held.first, bench.claim_one("alice").await.token), (DeliveryNo(1), Token(1)));
    }
}
