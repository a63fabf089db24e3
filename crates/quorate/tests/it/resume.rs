//! Resuming an agent's leases on a new connection.

use std::time::Duration;

use quorate::Hub;
use quorate_core::{AgentId, Epoch, Principal};

// Fails under: a second consumer that releases the deliveries held by the agent before it: the agent's commit would
// be rejected, and the delivery handled twice.
#[tokio::test]
async fn closing_a_later_consumer_keeps_earlier_leases() {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = Hub::open(directory.path().join("team")).await.expect("the hub opens");
    let alice = hub.agent("alice").join().await.expect("she joins");
    let bob = hub.agent("bob").join().await.expect("he joins");
    alice.send("bob", "go", 1).await.expect("sent");
    let received = bob.receive(Duration::from_secs(20)).await.expect("an answer").expect("a delivery");
    let id = AgentId::new("bob").expect("a name");
    let epoch: Epoch = hub.agent_info("bob").await.expect("there").epoch;
    let resumed = hub
        .space()
        .expect("an embedded hub")
        .open_stream(&Principal::Agent(id.clone()), epoch, &id, 30_000, true)
        .await;
    let resumed = resumed.expect("he resumes");
    assert_eq!(resumed.unread_count(), 1);
    resumed.close().await.expect("closed");
    assert_eq!((hub.counts().await.expect("read").leased, hub.counts().await.expect("read").ready), (1, 0));
    bob.step(&received).commit().await.expect("it is still his");
    hub.close().await;
}
