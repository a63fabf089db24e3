//! Registration and removal of agents. Each registration has an epoch; operations under an earlier one are refused.

use quorate_core::{
    Code, Commit, ConsumerId, DeclarationDigest, Epoch, Op, OpResult, Principal, RegisterAgent, WaitMode,
};

use super::builders::{ack, agent, claim, id, lease_ref, put_entry, register, send};
use super::builders::{message_to, with_client_id};
use super::test_bench::TestBench;

pub async fn each_registration_gets_a_higher_epoch(bench: TestBench) {
    let first = bench.register("bob").await;
    let second = bench.register("bob").await;
    assert!(second > first, "{second} is above {first}");
    let third = bench.register("bob").await;
    assert!(third > second, "{third} is above {second}");
}

pub async fn an_unchanged_registration_leaves_no_record(bench: TestBench) {
    let epoch = bench.register("bob").await;
    let head = bench.head();
    let unchanged = RegisterAgent { epoch: Some(epoch), ..RegisterAgent::named(id("bob")) };
    let receipt = bench.commit_ok(agent("bob"), vec![Op::RegisterAgent(unchanged)]).await;
    assert_eq!(receipt.seq, None);
    assert_eq!(receipt.results, vec![OpResult::Registered { epoch }]);
    assert_eq!(bench.head(), head);
}

pub async fn updating_a_registration_keeps_the_epoch_and_the_leases(bench: TestBench) {
    let epoch = bench.register("bob").await;
    bench.send("bob", "bob").await;
    let held = bench.claim_one("bob").await;
    let described = RegisterAgent {
        epoch: Some(epoch),
        name: "Bob the builder".into(),
        ..RegisterAgent::named(id("bob"))
    };
    let receipt = bench.commit_ok(agent("bob"), vec![Op::RegisterAgent(described)]).await;
    assert_eq!(receipt.results, vec![OpResult::Registered { epoch }]);
    let agents = bench.published().agents.clone();
    assert_eq!(agents.by_id(&id("bob")).map(|bob| bob.name.as_str()), Some("Bob the builder"));
    bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
}

pub async fn a_declaration_belongs_to_the_registration(mut bench: TestBench) {
    let digest = DeclarationDigest::of(b"cmd:cat");
    let declared = RegisterAgent { declaration: Some(digest), ..RegisterAgent::named(id("bob")) };
    let register = |new: &RegisterAgent| vec![Op::RegisterAgent(new.clone())];
    let stored = |bench: &TestBench| bench.published().agents.by_id(&id("bob")).map(|bob| bob.declaration);
    bench.commit_ok(agent("bob"), register(&declared)).await;
    assert_eq!(stored(&bench), Some(Some(digest)));
    bench.reopen().await;
    assert_eq!(stored(&bench), Some(Some(digest)), "it survives a restart");
    let epoch = bench.published().agents.by_id(&id("bob")).map(|bob| bob.epoch);
    let unchanged = RegisterAgent { epoch, ..declared };
    assert_eq!(bench.commit_ok(agent("bob"), register(&unchanged)).await.seq, None, "nothing changes");
    bench.register("bob").await;
    assert_eq!(stored(&bench), Some(None), "a registration without one has none");
}

pub async fn a_commit_under_a_stale_epoch_is_refused(bench: TestBench) {
    let old = bench.register("bob").await;
    let new = bench.register("bob").await;
    let head = bench.head();
    let stale_commit =
        Commit { epoch: Some(old), ..Commit::new(agent("bob"), vec![Op::Put(put_entry("k", "1"))]) };
    let refused = bench.commit(stale_commit).await.expect_err("a stale epoch cannot write");
    assert_eq!(refused.code, Code::StaleEpoch);
    assert_eq!(refused.facts.current_epoch, Some(new.0));
    assert_eq!(bench.head(), head);
    let current_commit =
        Commit { epoch: Some(new), ..Commit::new(agent("bob"), vec![Op::Put(put_entry("k", "1"))]) };
    bench.commit(current_commit).await.expect("the current epoch can write");
}

pub async fn an_unknown_epoch_is_refused(bench: TestBench) {
    let epoch = bench.register("bob").await;
    let ahead = Commit {
        epoch: Some(Epoch(epoch.0 + 1)),
        ..Commit::new(agent("bob"), vec![Op::Put(put_entry("k", "1"))])
    };
    assert_eq!(bench.commit(ahead).await.expect_err("the epoch does not exist yet").code, Code::StaleEpoch);
    let stale = RegisterAgent { epoch: Some(Epoch(epoch.0 - 1)), ..RegisterAgent::named(id("bob")) };
    bench.commit_refused_with(Code::StaleEpoch, agent("bob"), vec![Op::RegisterAgent(stale)]).await;
    let unknown = RegisterAgent { epoch: Some(epoch), ..RegisterAgent::named(id("carol")) };
    bench.commit_refused_with(Code::NotFound, agent("carol"), vec![Op::RegisterAgent(unknown)]).await;
}

pub async fn a_new_epoch_returns_leased_deliveries_to_the_inbox(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    bench.register("bob").await;
    bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![ack(&held)]).await;
    let redelivered = bench.claim_one("bob").await;
    assert_eq!((redelivered.delivery, redelivered.attempt), (held.delivery, 2));
    assert!(redelivered.token > held.token);
}

pub async fn a_new_epoch_dismisses_waiting_consumers(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 1, WaitMode::Once(ConsumerId(1))).await;
    bench.claim_waiting("bob", 5, WaitMode::Standing(ConsumerId(2))).await;
    bench.claim_waiting("alice", 5, WaitMode::Standing(ConsumerId(3))).await;
    bench.register("bob").await;
    assert_eq!(bench.dismissed_consumers(), vec![ConsumerId(1), ConsumerId(2)]);
    bench.send("alice", "bob").await;
    assert_eq!(bench.dispatched(), vec![], "bob has no consumers left");
    assert_eq!(bench.counts().ready, 1);
}

pub async fn an_unregistered_agent_may_only_register_itself(bench: TestBench) {
    bench.register("alice").await;
    bench.commit_refused_with(Code::NotFound, agent("bob"), vec![Op::Put(put_entry("k", "1"))]).await;
    bench
        .commit_refused_with(
            Code::NotFound,
            agent("bob"),
            vec![Op::Put(put_entry("k", "1")), register("bob")],
        )
        .await;
    bench.commit_ok(agent("bob"), vec![register("bob"), Op::Put(put_entry("k", "1"))]).await;
}

pub async fn an_agent_acts_only_for_itself(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for op in [
        register("bob"),
        Op::RemoveAgent { agent: id("bob") },
        claim("bob", 1, WaitMode::NoWait),
        Op::Purge { agent: id("bob") },
        send("bob", message_to("alice")),
    ] {
        bench.commit_refused_with(Code::Forbidden, agent("alice"), vec![op.clone()]).await;
    }
    bench
        .commit_ok(Principal::System, vec![claim("bob", 1, WaitMode::NoWait), Op::Purge { agent: id("bob") }])
        .await;
}

pub async fn an_agent_with_open_deliveries_cannot_be_removed(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let remove = || vec![Op::RemoveAgent { agent: id("bob") }];
    bench.commit_refused_with(Code::Conflict, agent("bob"), remove()).await;
    let held = bench.claim_one("bob").await;
    bench.commit_refused_with(Code::Conflict, Principal::System, remove()).await;
    bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
    bench.commit_ok(agent("bob"), remove()).await;
}

pub async fn a_removed_agent_is_unknown(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 1, WaitMode::Once(ConsumerId(1))).await;
    bench.commit_ok(agent("bob"), vec![Op::RemoveAgent { agent: id("bob") }]).await;
    assert_eq!(bench.dismissed_consumers(), vec![ConsumerId(1)]);
    bench.commit_refused_with(Code::NotFound, agent("bob"), vec![Op::Put(put_entry("k", "1"))]).await;
    bench
        .commit_refused_with(Code::UnknownRecipient, agent("alice"), vec![send("alice", message_to("bob"))])
        .await;
    bench
        .commit_refused_with(Code::NotFound, Principal::System, vec![Op::RemoveAgent { agent: id("bob") }])
        .await;
}

pub async fn a_removed_agent_id_can_be_registered_again_as_a_new_agent(bench: TestBench) {
    bench.register("bob").await;
    let old = bench.register("bob").await;
    let number = bench.published().agents.number(&id("bob"));
    bench.commit_ok(agent("bob"), vec![Op::RemoveAgent { agent: id("bob") }]).await;
    let new = bench.register("bob").await;
    assert!(new > old, "the epoch of a removed agent is not reused");
    assert_ne!(bench.published().agents.number(&id("bob")), number);
}

pub async fn a_dead_letter_of_a_removed_recipient_cannot_be_redriven(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let sent = bench.send_as("alice", with_client_id("bob", "m1", "{}")).await;
    let held = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![super::builders::dead_letter(&held, "no use")]).await;
    bench.commit_ok(agent("bob"), vec![Op::RemoveAgent { agent: id("bob") }]).await;
    let redrive = vec![super::builders::redrive(sent.first_delivery)];
    bench.commit_refused_with(Code::UnknownRecipient, Principal::System, redrive).await;
    bench.register("bob").await;
    let redrive = vec![super::builders::redrive(sent.first_delivery)];
    bench.commit_refused_with(Code::UnknownRecipient, Principal::System, redrive).await;
    // A delivery of the removed agent belongs to nobody.
    bench.commit_refused_with(Code::NotFound, agent("bob"), vec![Op::Ack(lease_ref(1, 1))]).await;
    bench.commit_refused_with(Code::StaleLease, Principal::System, vec![Op::Ack(lease_ref(1, 1))]).await;
}
