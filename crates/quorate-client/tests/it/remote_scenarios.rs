//! Runs the shared scenarios against a remote hub over a real socket.

use std::collections::BTreeSet;

use crate::scenarios::TestHub;
use crate::support::TestServer;

async fn remote() -> (TestHub, TestServer) {
    let server = TestServer::new().await;
    let hub = quorate_client::connect(&server.url(), &server.admin).await.expect("it connects");
    assert!(hub.space().is_none());
    (TestHub { hub, embedded: server.library.clone() }, server)
}

crate::scenarios!(remote);

// Fails under: a list that ends after its first page, whatever the limit.
#[tokio::test]
async fn a_list_continues_past_its_first_page() {
    let (fixture, _server) = remote().await;
    let alice = fixture.hub.agent("alice").join().await.expect("she joins");
    fixture.hub.agent("bob").join().await.expect("he joins");
    for _ in 0..5 {
        let step = (0..250).fold(alice.commit(), |step, n| step.send("bob", "count", n));
        step.commit().await.expect("sent");
    }
    let inbox = fixture.hub.inbox("bob", 5_000).await.expect("a list");
    let unique: BTreeSet<_> = inbox.iter().map(|delivery| delivery.delivery_id).collect();
    assert_eq!((inbox.len(), unique.len()), (1_250, 1_250));
    assert_eq!(fixture.hub.inbox("bob", 1_100).await.expect("a list").len(), 1_100);
    assert_eq!(fixture.hub.inbox("bob", 7).await.expect("a list").len(), 7);
}
