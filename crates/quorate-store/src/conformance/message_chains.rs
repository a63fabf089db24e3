//! Message chains: hop limit, loop detection and budgets.

use quorate_core::{
    Budget, BudgetId, Code, Commit, Item, ItemKey, ItemKind, Message, MessageType, Op, OpResult, Principal,
    SetBudget, Timestamp, limits,
};

use super::builders::{
    agent, dead_letter, id, idempotency_key, message_to, payload, redrive, send, with_client_id,
};
use super::test_bench::TestBench;
use crate::{ReadQuery, ReadResult};

/// Builds a message caused by another message.
fn caused(name: &str, text: &str, hops: u16) -> Message {
    Message {
        correlation_id: Some("c1".into()),
        causation_id: Some("msg_0-1-0".into()),
        hops,
        payload: payload(text),
        ..message_to(name)
    }
}

fn on_budget(name: &str) -> Message {
    Message { budget: Some("b1".into()), ..message_to(name) }
}

fn set(messages_max: u64) -> Op {
    let id = BudgetId::new("b1").expect("valid id");
    Op::SetBudget(SetBudget { id, messages_max, tokens_max: None, money_max: Some(5_000_000) })
}

async fn budget(bench: &TestBench) -> Budget {
    match bench.read(ReadQuery::Item(ItemKey::new(ItemKind::Budget, "b1"))).await {
        ReadResult::Item(Some(Item::Budget(budget))) => budget,
        other => panic!("not a budget: {other:?}"),
    }
}

pub async fn a_chain_has_at_most_as_many_hops_as_its_limit(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for (max_hops, limit) in [(None, 100), (Some(3), 3), (Some(limits::HOPS_MAX), limits::HOPS_MAX)] {
        let at = |hops| Message { max_hops, ..caused("bob", "{}", hops) };
        bench.send_as("alice", at(limit)).await;
        bench.reopen().await;
        let refused = bench.commit_refused(agent("alice"), vec![send("alice", at(limit + 1))]).await;
        assert_eq!((refused.code, refused.facts.limit), (Code::LoopRefused, Some(u64::from(limit))));
        // A question at the hop limit may be answered, but the answer may not be continued.
        let answer = |hops| Message { kind: MessageType::Response, ..at(limit + hops) };
        bench.send_as("alice", answer(1)).await;
        bench.commit_refused_with(Code::LoopRefused, agent("alice"), vec![send("alice", answer(2))]).await;
    }
}

pub async fn a_message_without_a_named_cause_counts_once_per_hop_count(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let unnamed = |hops| Message { causation_id: None, ..caused("bob", "{}", hops) };
    for hops in [1, 1, 1, 2, 2] {
        bench.send_as("alice", unnamed(hops)).await;
    }
    let refused = bench.commit_refused(agent("alice"), vec![send("alice", unnamed(3))]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::LoopRefused, Some(2)));
    bench
        .commit_refused_with(Code::LoopRefused, agent("alice"), vec![send("alice", caused("bob", "{}", 1))])
        .await;
    bench.send_as("alice", unnamed(1)).await;
    // A timer is in no chain, whatever it names.
    let timer = || Message { deliver_at: Some(Timestamp(1)), ..caused("alice", "{}", 0) };
    for _ in 0..4 {
        bench.send_as("alice", timer()).await;
    }
}

pub async fn the_third_identical_message_in_a_chain_is_refused(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    bench.send_as("alice", caused("bob", "{}", 1)).await;
    bench.send_as("alice", caused("bob", "{}", 3)).await;
    let third = || send("alice", caused("bob", "{}", 5));
    let refused = bench.commit_refused(agent("alice"), vec![third()]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::LoopRefused, Some(2)));
    for other in [
        caused("bob", "[]", 5),
        caused("carol", "{}", 5),
        Message { action: "play".into(), ..caused("bob", "{}", 5) },
        Message { correlation_id: Some("c2".into()), ..caused("bob", "{}", 5) },
        Message { kind: MessageType::Response, ..caused("bob", "{}", 5) },
        Message { causation_id: None, hops: 0, ..caused("bob", "{}", 0) },
    ] {
        bench.send_as("alice", other).await;
    }
    let bobs = Message { from: Some(id("bob")), ..caused("bob", "{}", 5) };
    bench.commit_ok(agent("bob"), vec![Op::send(bobs)]).await;
    bench.commit_refused_with(Code::LoopRefused, agent("alice"), vec![third()]).await;
}

pub async fn refused_and_redelivered_messages_do_not_count_as_repetitions(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let repeated_send = || send("alice", caused("bob", "{}", 1));
    bench.commit_refused(agent("alice"), vec![repeated_send(), repeated_send(), repeated_send()]).await;
    let duplicate = Message { payload: payload("{}"), ..with_client_id("bob", "m1", "{}") };
    let duplicate = || Message { client_id: duplicate.client_id.clone(), ..caused("bob", "{}", 1) };
    for _ in 0..3 {
        bench.send_as("alice", duplicate()).await;
    }
    let held = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![dead_letter(&held, "unusable")]).await;
    bench.commit_ok(Principal::System, vec![redrive(held.delivery)]).await;
    bench.commit_ok(agent("alice"), vec![repeated_send()]).await;
    bench.commit_refused_with(Code::LoopRefused, agent("alice"), vec![repeated_send()]).await;
}

pub async fn a_restart_resets_repetition_counts(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let repeated_send = || send("alice", caused("bob", "{}", 1));
    bench.commit_ok(agent("alice"), vec![repeated_send(), repeated_send()]).await;
    bench.commit_refused_with(Code::LoopRefused, agent("alice"), vec![repeated_send()]).await;
    bench.reopen().await;
    bench.commit_ok(agent("alice"), vec![repeated_send(), repeated_send()]).await;
    bench.commit_refused_with(Code::LoopRefused, agent("alice"), vec![repeated_send()]).await;
}

pub async fn each_message_spends_one_unit_of_its_budget(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_refused_with(Code::NotFound, agent("alice"), vec![send("alice", on_budget("bob"))]).await;
    bench.commit_ok(agent("alice"), vec![set(5)]).await;
    for used in 1..=5 {
        assert_eq!(budget(&bench).await.warned, used > 4, "the budget warns after four of five messages");
        bench.send_as("alice", on_budget("bob")).await;
        assert_eq!(budget(&bench).await.messages_used, used);
        bench.reopen().await;
    }
    let refused = bench.commit_refused(agent("alice"), vec![send("alice", on_budget("bob"))]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::BudgetExceeded, Some(5)));
    bench.send("alice", "bob").await;
    bench.commit_ok(agent("alice"), vec![set(10)]).await;
    bench.send_as("alice", on_budget("bob")).await;
    let Budget { messages_used, warned, money_max, .. } = budget(&bench).await;
    assert_eq!((messages_used, warned, money_max), (6, false, Some(5_000_000)));
}

pub async fn refused_and_replayed_messages_spend_no_budget(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_ok(agent("alice"), vec![set(2)]).await;
    let keyed =
        || Commit::new(agent("alice"), vec![send("alice", on_budget("bob"))]).keyed(idempotency_key("k"));
    let first = bench.commit(keyed()).await;
    assert_eq!(bench.commit(keyed()).await, first);
    let two = vec![send("alice", on_budget("bob")), send("alice", on_budget("bob"))];
    bench.commit_refused_with(Code::BudgetExceeded, agent("alice"), two).await;
    assert_eq!(budget(&bench).await.messages_used, 1);
}

pub async fn a_budget_belongs_to_its_creator(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_ok(agent("alice"), vec![set(5)]).await;
    let repeated = bench.commit_ok(agent("alice"), vec![set(5)]).await;
    assert_eq!((repeated.seq, repeated.results), (None, vec![OpResult::Done]));
    bench.commit_refused_with(Code::Forbidden, agent("bob"), vec![set(6)]).await;
    bench.send_as("bob", on_budget("alice")).await;
    bench.commit_ok(Principal::System, vec![set(0)]).await;
    assert_eq!(budget(&bench).await.owner, bench.published().agents.number(&id("alice")));
    bench
        .commit_refused_with(Code::BudgetExceeded, agent("bob"), vec![send("bob", on_budget("alice"))])
        .await;
}
