//! Isolation of two hubs in one process.

use quorate_server::{Limits, Rate, Settings};
use serde_json::json;

use crate::support::TestHub;
use crate::support::socket::TestServer;

#[tokio::test]
async fn i16_two_hubs_in_one_process_are_isolated() {
    let limits = Limits { other_principals: Rate { per_second: 1, burst: 3 }, ..Limits::default() };
    let strict =
        TestServer::start(TestHub::with_settings(Settings { limits, ..Settings::default() }).await).await;
    let lenient = TestServer::new().await;
    assert_ne!(strict.address(), lenient.address());
    let bob = lenient.hub.register("bob").await;
    // A token of one hub is unknown to the other, over HTTP and over a WebSocket.
    strict.hub.get(&bob, "/v1/info").await.refused(401, "UNAUTHENTICATED");
    strict.hub.get(&lenient.hub.admin, "/v1/info").await.refused(401, "UNAUTHENTICATED");
    let mut socket = strict.connect().await;
    socket.send_frame(&json!({"hello": {"token": bob}})).await;
    assert_eq!(socket.ending_problem().await, ("UNAUTHENTICATED".to_owned(), 4401));
    lenient.hub.get(&bob, "/v1/info").await.ok(200);
    // So is a sign-in code.
    let code = lenient.hub.post(&lenient.hub.admin, "/v1/sign-in-codes", &json!({})).await.ok(201);
    let sign_in = json!({"code": code["code"]});
    strict.hub.post("", "/v1/sign-in", &sign_in).await.refused(401, "UNAUTHENTICATED");
    lenient.hub.post("", "/v1/sign-in", &sign_in).await.ok(201);
    // Agents, statistics and limits are separate.
    strict.hub.get(&strict.hub.admin, "/v1/agents/bob").await.refused(404, "NOT_FOUND");
    let stats = strict.hub.get(&strict.hub.admin, "/v1/admin/stats").await.ok(200);
    assert_eq!(stats["agents"], 0);
    strict.hub.get(&strict.hub.admin, "/v1/info").await.ok(200);
    strict.hub.get(&strict.hub.admin, "/v1/info").await.refused(429, "LIMIT_EXCEEDED");
    for _ in 0..10 {
        lenient.hub.get(&lenient.hub.admin, "/v1/info").await.ok(200);
    }
    // Closing one hub does not affect the other.
    let TestServer { listening, hub } = strict;
    listening.drain().await;
    drop(hub);
    let mut socket = lenient.connect_agent(&bob).await;
    socket.assert_no_deliveries().await;
}
