//! A call that is dropped before it completes leaves no consumer behind that would take deliveries.

use std::task::Poll;
use std::time::Duration;

use quorate_core::{Commit, Op, Principal, RegisterAgent};
use quorate_engine::Space;
use quorate_sim::history::{Call, CallOp, DedupBy, Event, agent_id, send_call};
use quorate_sim::recovery;
use quorate_sqlite::Options;

const LEASE_MS: u64 = 60_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_dropped_while_it_is_pending_takes_nothing() {
    let (space, _directory) = hub().await;
    let (bob, principal) = (agent_id("bob"), Principal::Agent(agent_id("bob")));
    poll_once_and_drop(space.claim(&principal, None, &bob, 1, LEASE_MS, Duration::from_secs(60))).await;
    assert_bob_receives_a_message(&space).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_dropped_while_it_is_opening_takes_nothing() {
    let (space, _directory) = hub().await;
    let (bob, principal) = (agent_id("bob"), Principal::Agent(agent_id("bob")));
    poll_once_and_drop(space.consume(&principal, None, &bob, 5, LEASE_MS)).await;
    assert_bob_receives_a_message(&space).await;
}

async fn hub() -> (Space, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let space = recovery::open(directory.path(), Options::default()).await.unwrap();
    for name in ["ann", "bob"] {
        let op = Op::RegisterAgent(RegisterAgent::named(agent_id(name)));
        space.commit(Commit::new(Principal::System, vec![op])).await.unwrap();
    }
    (space, directory)
}

/// Polls a call once, so that its commit is queued, and drops it.
async fn poll_once_and_drop(call: impl Future) {
    let mut call = Box::pin(call);
    std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await;
}

async fn assert_bob_receives_a_message(space: &Space) {
    let op =
        CallOp::Send { to: vec!["bob".into()], level: 1, attempts_max: 4, size: 10, dedup: DedupBy::Key };
    let sent = send_call(space, &Call { id: "one".into(), by: "ann".into(), op }).await;
    assert!(matches!(sent, Event::Done { .. }), "{sent:?}");
    let (bob, principal) = (agent_id("bob"), Principal::Agent(agent_id("bob")));
    let claimed = space.claim(&principal, None, &bob, 1, LEASE_MS, Duration::ZERO).await.unwrap();
    assert_eq!(claimed.len(), 1, "the dropped call holds the delivery: {:?}", space.published().counts);
}
