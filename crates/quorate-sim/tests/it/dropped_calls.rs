//! A call that is dropped before it completes leaves no consumer behind that would take deliveries.

use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use quorate_core::{
    Commit, Destination, Message, MessageType, Op, Principal, RegisterAgent, Request, RequestState,
    SendRequest,
};
use quorate_engine::{Error, RequestWaiter, Space};
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

// Fails under: a wait that cancels its request when it is dropped while it loads earlier answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_dropped_while_it_is_opening_does_not_cancel_the_request() {
    let (space, _directory) = hub().await;
    let principal = Principal::Agent(agent_id("ann"));
    let to = Destination::Agent(agent_id("bob"));
    let message = Message {
        from: Some(agent_id("ann")),
        kind: MessageType::Query,
        ..Message::new(to, "work", space.seal("1"))
    };
    let request = SendRequest::new(message, Some(LEASE_MS), None);
    let mut waiter = space.request(&principal, None, request).await.unwrap();
    waiter.keep_open();
    let id = waiter.id();
    drop(waiter);
    for polls in 1..4 {
        // Reads ahead of those of the call, so that it has to wait for them.
        let mut backlog: Vec<_> = (0..1_000).map(|_| Box::pin(space.item::<Request>(&id))).collect();
        backlog.iter_mut().for_each(|read| drop(read.now_or_never()));
        poll_and_drop(space.await_request(&principal, None, id), polls).await;
        // This commit follows a cancellation by the dropped call.
        space.commit(Commit::new(Principal::System, vec![register("carl")])).await.unwrap();
        let request: Request = space.item(&id).await.unwrap();
        assert_eq!(request.state, RequestState::Waiting, "dropped after {polls} polls");
    }
}

/// Polls a call whenever it is woken, at most this often, and drops it.
async fn poll_and_drop(call: impl Future<Output = Result<RequestWaiter, Error>>, polls: u32) {
    let (mut call, mut polled) = (Box::pin(call), 0);
    std::future::poll_fn(|context| {
        polled += 1;
        match call.as_mut().poll(context) {
            Poll::Ready(waiter) => {
                waiter.unwrap().keep_open();
                Poll::Ready(())
            }
            Poll::Pending if polled == polls => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
}

fn register(name: &str) -> Op {
    Op::RegisterAgent(RegisterAgent::named(agent_id(name)))
}

async fn hub() -> (Space, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let space = recovery::open(directory.path(), Options::default()).await.unwrap();
    for name in ["ann", "bob"] {
        space.commit(Commit::new(Principal::System, vec![register(name)])).await.unwrap();
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
