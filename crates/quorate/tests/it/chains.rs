//! D8: causation chains through the library.

use std::sync::Arc;
use std::time::Duration;

use quorate::{Code, Failure, Hub, HubOptions, ManualClock, Work};
use quorate_core::{Commit, Destination, Message, Op, OpResult, Principal};
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(20);

async fn hub() -> (TempDir, Hub, Arc<ManualClock>) {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(1_800_000_000_000);
    let options = HubOptions { clock: clock.clone(), ..HubOptions::default() };
    let hub = Hub::open_with(directory.path().join("team"), options).await.unwrap();
    (directory, hub, clock)
}

/// Advances the clock until there are this many dead letters.
async fn until_dead(hub: &Hub, clock: &ManualClock, dead: u64) {
    let waited = async {
        while hub.counts().await.expect("read").dead < dead {
            clock.advance(Duration::from_secs(1));
            // Resolves after all earlier commands of the writer, so that other tasks make progress.
            hub.space()
                .expect("an embedded hub")
                .commit(Commit::new(Principal::System, vec![Op::Sweep]))
                .await
                .unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, waited).await.expect("in time");
}

// Fails under: `Work::send` that does not count hops or does not continue the chain.
#[tokio::test]
async fn d8_a_message_loop_of_two_handlers_is_stopped() {
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
    let dead_letter = hub.dead_letters(None, 9).await.unwrap().remove(0);
    assert!(
        dead_letter.reason.contains("already sent this \"play\" to the same recipient 2 times"),
        "{}",
        dead_letter.reason
    );
    assert!(hub.counts().await.expect("read").acked < 20, "stopped after a few rounds");
}

// Fails under: acked messages that are causes only while they are cached.
#[tokio::test]
async fn d8_acked_messages_are_causes_after_a_restart() {
    let (directory, hub, clock) = hub().await;
    let alice = hub.agent("alice").join().await.unwrap();
    drop(hub.agent("bob").join().await.unwrap());
    alice.send("bob", "work", 1).max_hops(5).await.unwrap();
    drop(alice);
    let bob = "bob".parse().unwrap();
    let principal = Principal::Agent("bob".parse().unwrap());
    let space = hub.space().expect("an embedded hub").clone();
    let mut held = space.claim(&principal, None, &bob, 1, 30_000, Duration::ZERO).await.unwrap();
    drop(space);
    hub.close().await;
    let options = HubOptions { clock, ..HubOptions::default() };
    let hub = Hub::open_with(directory.path().join("team"), options).await.unwrap();
    let space = hub.space().expect("an embedded hub");
    let to = Destination::Agent("alice".parse().unwrap());
    let message = Message { from: Some(bob), ..Message::new(to, "done", space.seal(&b"1"[..])) };
    let ops = vec![Op::Ack(held.remove(0).lease.expect("a lease")), Op::send(message)];
    let receipt = space.commit(Commit::new(principal, ops)).await.unwrap();
    let Some(OpResult::Sent { id, .. }) = receipt.results.last() else { panic!("{receipt:?}") };
    let sent = hub.message(&id.to_string()).await.unwrap().message;
    assert_eq!((sent.hops, sent.max_hops), (1, Some(5)));
    hub.close().await;
}

// Fails under: a budget that is not propagated from message to message.
#[tokio::test]
async fn d8_caused_messages_inherit_the_budget() {
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
