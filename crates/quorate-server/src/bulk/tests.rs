//! Fairness, isolation from the caller's thread, and limits per principal.

use std::sync::mpsc;
use std::thread;

use axum::body::Body;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use quorate_core::{AgentId, Code, Principal, SpaceNo};

use super::permit::CHUNK_BYTES;
use super::{BulkReads, Owner};

fn owner(space: u64, agent: &str) -> Owner {
    Owner { space: SpaceNo(space), principal: Principal::Agent(AgentId::new(agent).expect("an id")) }
}

/// Blocks the only thread until the sender is dropped.
fn block(bulk: &BulkReads, owner: &Owner) -> mpsc::Sender<()> {
    let (release, blocked) = mpsc::channel::<()>();
    let (signal, started) = mpsc::channel();
    bulk.spawn(owner, async move {
        let _ = signal.send(());
        let _ = blocked.recv();
    });
    started.recv().expect("it runs");
    release
}

#[tokio::test]
async fn i21_open_reads_are_limited_per_principal() {
    let bulk = BulkReads::with_threads(2, 1);
    let (greedy, other) = (owner(1, "greedy"), owner(1, "other"));
    let open = [(); 2].map(|()| bulk.open(greedy.clone()).expect("below the limit"));
    let refused = bulk.open(greedy.clone()).err().expect("too many");
    assert_eq!(refused.code, Code::LimitExceeded);
    assert_eq!((refused.facts.limit, refused.facts.retry_after_ms), (Some(2), Some(1_000)));
    assert!(refused.hint.contains("retryAfterMs"));
    assert!(bulk.open(other).is_ok() && bulk.open(owner(2, "greedy")).is_ok());
    assert_eq!((bulk.stats().open, bulk.stats().refused), (2, 1));
    drop(open);
    assert_eq!(bulk.stats().open, 0);
    assert!(bulk.open(greedy).is_ok());
}

#[tokio::test]
async fn i16_a_read_waits_for_at_most_one_turn_of_each_other_principal() {
    let bulk = BulkReads::with_threads(0, 1);
    let (greedy, modest) = (owner(1, "greedy"), owner(2, "modest"));
    let release = block(&bulk, &greedy);
    let (log, ended) = mpsc::channel();
    for _ in 0..50 {
        let log = log.clone();
        bulk.spawn(&greedy, async move {
            for _ in 0..10 {
                let _ = log.send("greedy");
                tokio::task::yield_now().await;
            }
        });
    }
    bulk.spawn(&modest, async move {
        for _ in 0..3 {
            let _ = log.send("modest");
            tokio::task::yield_now().await;
        }
    });
    drop(release);
    let order: Vec<_> = tokio::task::spawn_blocking(move || ended.iter().collect()).await.expect("no panic");
    assert_eq!(order.len(), 503);
    let last = order.iter().rposition(|name| *name == "modest").expect("its turns");
    assert!(last <= 6, "its third turn was number {last}");
}

#[tokio::test]
async fn i21_turns_run_off_the_runtime_threads() {
    let bulk = BulkReads::with_threads(0, 1);
    let (sender, receiver) = tokio::sync::oneshot::channel();
    bulk.spawn(&owner(1, "a"), async move {
        tokio::task::yield_now().await;
        let _ = sender.send(thread::current().id());
    });
    assert_ne!(receiver.await.expect("it runs"), thread::current().id());
}

#[tokio::test]
async fn a_panic_costs_one_read() {
    let bulk = BulkReads::with_threads(0, 1);
    bulk.spawn(&owner(1, "a"), async { panic!("a bug, made for this test") });
    let (sender, receiver) = tokio::sync::oneshot::channel();
    bulk.spawn(&owner(1, "a"), async move {
        let _ = sender.send(());
    });
    receiver.await.expect("the next one runs");
}

#[tokio::test]
async fn a_page_is_sent_in_chunks_and_stays_open_until_the_last_one() {
    let bulk = BulkReads::with_threads(1, 1);
    let page: Vec<u8> = (0..3 * CHUNK_BYTES + 7).map(|n| (n % 251) as u8).collect();
    let permit = bulk.open(owner(1, "a")).expect("below the limit");
    let mut body = permit.attach_to(Body::from(page.clone()));
    assert_eq!(body.size_hint().exact(), Some(page.len() as u64), "the length is known in advance");
    let mut received = Vec::new();
    while let Some(frame) = body.frame().await {
        assert_eq!(bulk.stats().open, 1);
        let chunk = frame.expect("a frame").into_data().expect("data");
        assert!(chunk.len() <= CHUNK_BYTES);
        received.extend_from_slice(&chunk);
        assert_eq!(body.size_hint().exact(), Some((page.len() - received.len()) as u64));
    }
    assert!(received == page && body.is_end_stream());
    drop(body);
    assert_eq!(bulk.stats().open, 0);
}
