//! A caller that goes away in the middle of a call leaves nothing behind that takes deliveries from others.

use std::task::Poll;
use std::time::Duration;

use quorate_core::{Commit, Op, Principal, RegisterAgent};
use quorate_engine::Space;
use quorate_sim::aftermath;
use quorate_sim::history::{Act, Call, Event, Once, agent, perform};
use quorate_sqlite::Options;

const LEASE_MS: u64 = 60_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_dropped_while_it_is_decided_takes_nothing() {
    let (space, _place) = hub().await;
    let (bob, principal) = (agent("bob"), Principal::Agent(agent("bob")));
    begin_and_drop(space.claim(&principal, None, &bob, 1, LEASE_MS, Duration::from_secs(60))).await;
    bob_gets_his_message(&space).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_is_dropped_while_it_is_opened_takes_nothing() {
    let (space, _place) = hub().await;
    let (bob, principal) = (agent("bob"), Principal::Agent(agent("bob")));
    begin_and_drop(space.consume(&principal, None, &bob, 5, LEASE_MS)).await;
    bob_gets_his_message(&space).await;
}

async fn hub() -> (Space, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    let space = aftermath::open(place.path(), Options::default()).await.unwrap();
    for name in ["ann", "bob"] {
        let op = Op::RegisterAgent(RegisterAgent::named(agent(name)));
        space.commit(Commit::new(Principal::System, vec![op])).await.unwrap();
    }
    (space, place)
}

/// Starts a call, so that its commit is in the queue, and goes away.
async fn begin_and_drop(call: impl Future) {
    let mut call = Box::pin(call);
    std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await;
}

async fn bob_gets_his_message(space: &Space) {
    let act = Act::Send { to: vec!["bob".into()], level: 1, tries: 4, size: 10, once: Once::Key };
    let sent = perform(space, &Call { id: "one".into(), by: "ann".into(), act }).await;
    assert!(matches!(sent, Event::Done { .. }), "{sent:?}");
    let (bob, principal) = (agent("bob"), Principal::Agent(agent("bob")));
    let claimed = space.claim(&principal, None, &bob, 1, LEASE_MS, Duration::ZERO).await.unwrap();
    assert_eq!(claimed.len(), 1, "somebody who is gone holds it: {:?}", space.published().counts);
}
