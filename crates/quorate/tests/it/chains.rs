//! D8: chains of messages through the library.

use std::sync::Arc;
use std::time::Duration;

use quorate::{Code, Failure, Hub, SetClock, Settings, Work};
use quorate_core::{Commit, Op, Principal};
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(20);

async fn hub() -> (TempDir, Hub, Arc<SetClock>) {
    let directory = tempfile::tempdir().unwrap();
    let clock = SetClock::at(1_800_000_000_000);
    let settings = Settings { clock: clock.clone(), ..Settings::default() };
    let hub = Hub::open_with(directory.path().join("team"), settings).await.unwrap();
    (directory, hub, clock)
}

/// Lets time pass until so many dead letters are there.
async fn until_dead(hub: &Hub, clock: &SetClock, dead: u64) {
    let waited = async {
        while hub.counts().await.expect("read").dead < dead {
            clock.advance(Duration::from_secs(1));
            // It comes back after what was asked for before: everybody else gets somewhere meanwhile.
            hub.space()
                .expect("a hub in this process")
                .commit(Commit::new(Principal::System, vec![Op::Sweep]))
                .await
                .unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, waited).await.expect("in time");
}

// Fails under: `Work::send` not counting hops, or not keeping the chain.
#[tokio::test]
async fn d8_two_handlers_that_answer_each_other_without_end_are_stopped() {
    let (_directory, hub, clock) = hub().await;
    let ping = |work: Work<String>| async move {
        work.send("pong", "play", &work.payload);
        Ok::<_, Failure>(work.payload)
    };
    let pong = |work: Work<String>| async move {
        work.send("ping", "play", &work.payload);
        Ok::<_, Failure>(work.payload)
    };
    let _ping = hub.agent("ping").on("play", ping).run().await.unwrap();
    let _pong = hub.agent("pong").on("play", pong).run().await.unwrap();
    let alice = hub.agent("alice").join().await.unwrap();
    alice.send("ping", "play", "ball").await.unwrap();
    until_dead(&hub, &clock, 1).await;
    let letter = hub.dead_letters(None, 9).await.unwrap().remove(0);
    assert!(letter.reason.contains("2 times already"), "{}", letter.reason);
    assert!(hub.counts().await.expect("read").acked < 20, "a few rounds, and no more");
}

// Fails under: the budget not handed on from message to message.
#[tokio::test]
async fn d8_what_follows_from_a_message_spends_of_the_same_budget() {
    let (_directory, hub, _clock) = hub().await;
    let relay = |work: Work<u32>| async move {
        work.send("alice", "done", work.payload);
        Ok::<_, Failure>(work.payload)
    };
    let _bob = hub.agent("bob").on("work", relay).run().await.unwrap();
    let alice = hub.agent("alice").join().await.unwrap();
    alice.set_budget("b1", 4).await.unwrap();
    alice.send("bob", "work", 7).budget("b1").await.unwrap();
    for _ in 0..2 {
        let received = tokio::time::timeout(SOON, alice.receive(SOON)).await.unwrap().unwrap().unwrap();
        alice.step(&received).commit().await.unwrap();
    }
    let budget = hub.budget("b1").await.unwrap().unwrap();
    assert_eq!(budget.messages_used, 3, "the message, what it led to, and the answer");
    alice.send("bob", "work", 8).budget("b1").await.unwrap();
    let refused = alice.send("bob", "work", 9).budget("b1").await.unwrap_err();
    assert_eq!(refused.code(), Code::BudgetExceeded);
    let refused = alice.send("bob", "work", 9).budget("b1").ephemeral().await.unwrap_err();
    assert_eq!(refused.code(), Code::Invalid);
    hub.set_budget("b1", 5).await.unwrap();
    alice.send("bob", "work", 9).budget("b1").await.unwrap();
}
