//! An agent that goes on where it stopped.

use std::time::Duration;

use quorate::Hub;
use quorate_core::{AgentId, Epoch, Principal};

// Fails under: a connection that ends and gives back what the agent had in hand before it: the agent's work would be refused,
// and done a second time.
#[tokio::test]
async fn what_was_in_hand_stays_in_hand_when_a_later_consumer_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = Hub::open(directory.path().join("team")).await.expect("the hub opens");
    let alice = hub.agent("alice").join().await.expect("she joins");
    let bob = hub.agent("bob").join().await.expect("he joins");
    alice.send("bob", "go", 1).await.expect("sent");
    let received = bob.receive(Duration::from_secs(20)).await.expect("an answer").expect("a delivery");
    let id = AgentId::new("bob").expect("a name");
    let epoch: Epoch = hub.agent_state("bob").await.expect("there").epoch;
    let again = hub
        .space()
        .expect("a hub in this process")
        .take_up(&Principal::Agent(id.clone()), epoch, &id, 30_000, true)
        .await;
    let again = again.expect("he goes on");
    assert_eq!(again.waiting(), 1);
    again.close().await.expect("closed");
    assert_eq!((hub.counts().await.expect("read").leased, hub.counts().await.expect("read").ready), (1, 0));
    bob.step(&received).commit().await.expect("it is still his");
    hub.close().await;
}
