//! Requests that outlive the connection on which they were sent.

use serde_json::json;

use crate::support::socket::TestServer;

// Fails under: a request that is cancelled by a connection loss, although the requester may reconnect for the answer;
// a repeated request that is sent twice.
#[tokio::test(flavor = "multi_thread")]
async fn d4_a_request_with_an_id_outlives_its_connection() {
    let server = TestServer::new().await;
    let (alice, bob) = (server.hub.register("alice").await, server.hub.register("bob").await);
    let (mut requester, welcome) = server.hello(json!({"token": alice})).await;
    let mut bob = server.connect_agent(&bob).await;
    let question = json!({"id": "q-1", "to": "bob", "type": "query", "action": "sum", "payload": [1, 2]});
    requester.send_numbered("request", question.clone()).await;
    let (_, delivery) = bob.deliveries(1).await.remove(0);
    // The newer connection takes over the pending requests of the older one.
    drop(requester);
    let (mut reconnected, _) = server.hello(json!({"token": alice, "epoch": welcome["epoch"]})).await;
    let number = reconnected.send_numbered("request", question).await;
    let lease = json!({"deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"]});
    let mut ack = json!({"op": "ack"});
    ack.as_object_mut().expect("an object").extend(lease.as_object().expect("an object").clone());
    let reply = json!({"op": "send", "to": "alice", "type": "response", "payload": 3,
        "inReplyTo": delivery["message"]["id"]});
    bob.ok("commit", json!({"ops": [ack, reply], "idempotencyKey": "once"})).await;
    let answer = reconnected.response(number).await;
    assert_eq!(answer["ok"]["message"]["payload"], 3, "{answer}");
    bob.assert_no_deliveries().await;
}
