//! Guidance; lists of messages; dead letters of a pool; small things that are not overlooked.
#![allow(missing_docs)]

mod support;

use serde_json::{Value, json};
use support::Hub;

// Fails under: guidance that is only sent, or only written down.
#[tokio::test]
async fn c12_guidance_is_written_down_and_told() {
    let hub = Hub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    hub.post(&alice, "/v1/sessions", &json!({"id": "s", "title": "S", "participants": ["bob"]}))
        .await
        .ok(201);
    let operator = hub.token("operator").await;
    let said = json!({"text": "Prefer cheap experiments.", "to": ["bob"]});
    let done = hub.post(&operator, "/v1/sessions/s/guidance", &said).await.ok(200);
    let claimed = hub.post(&bob, "/v1/agents/bob/inbox/claim", &json!({})).await.ok(200);
    let message = &claimed["deliveries"][0]["message"];
    assert_eq!((&message["id"], &message["action"]), (&done["message"], &json!("guidance")));
    let key = done["key"].as_str().expect("a key");
    let read = hub.get(&bob, &format!("/v1/context/{key}")).await.ok(200);
    assert_eq!(read["content"]["guidance"], "Prefer cheap experiments.");
    assert_eq!(read["author"], "operator:operator");
}

fn payloads(list: &Value) -> Vec<&Value> {
    list["messages"].as_array().expect("a list").iter().map(|one| &one["payload"]).collect()
}

// Fails under: a filter that is not looked at; an agent that sees what others sent each other.
#[tokio::test]
async fn d3_messages_are_listed_newest_first() {
    let hub = Hub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let carol = hub.register("carol").await;
    hub.post(&alice, "/v1/sessions", &json!({"id": "s", "title": "S"})).await.ok(201);
    for n in 1..=5 {
        let to = if n % 2 == 0 { "bob" } else { "carol" };
        let kind = if n > 3 { "event" } else { "command" };
        let session = (n == 2).then_some("s");
        let message = json!({"to": to, "payload": n, "type": kind, "sessionId": session});
        hub.post(&alice, "/v1/messages", &message).await.ok(200);
    }
    let list = async |token: &str, query: &str| hub.get(token, &format!("/v1/messages{query}")).await.ok(200);
    assert_eq!(payloads(&list(&alice, "").await), [5, 4, 3, 2, 1]);
    assert_eq!(payloads(&list(&bob, "").await), [4, 2]);
    assert_eq!(payloads(&list(&hub.admin, "?agent=carol").await), [5, 3, 1]);
    assert_eq!(payloads(&list(&alice, "?to=bob&type=event").await), [4]);
    assert_eq!(payloads(&list(&alice, "?session=s").await), [2]);
    assert_eq!(payloads(&list(&carol, "?session=s").await), Vec::<&Value>::new());
    assert_eq!(payloads(&list(&hub.admin, "?from=bob").await), Vec::<&Value>::new());
    let first = list(&alice, "?limit=2").await;
    let cursor = first["cursor"].as_str().expect("a cursor");
    let second = list(&alice, &format!("?limit=2&cursor={cursor}")).await;
    assert_eq!(
        (payloads(&first), payloads(&second)),
        (vec![&json!(5), &json!(4)], vec![&json!(3), &json!(2)])
    );
    hub.get(&bob, "/v1/messages?agent=carol").await.refused(403, "FORBIDDEN");
    hub.get(&bob, "/v1/messages?type=colour").await.refused(400, "INVALID");
}

#[tokio::test]
async fn a_dead_letter_of_a_pool_says_of_which() {
    let hub = Hub::new().await;
    let bob = hub.register_able("bob", &["review"]).await;
    let message = json!({"from": "bob", "to": "can:review", "payload": 1, "maxAttempts": 1});
    hub.post(&hub.admin, "/v1/messages", &message).await.ok(200);
    let claimed = hub.post(&bob, "/v1/agents/bob/inbox/claim", &json!({})).await.ok(200);
    let lease = &claimed["deliveries"][0];
    let lease = json!({"deliveries": [{"deliveryId": lease["deliveryId"], "leaseToken": lease["leaseToken"], "hopeless": true}]});
    hub.post(&bob, "/v1/agents/bob/inbox/nack", &lease).await.ok(200);
    let dead = hub.get(&hub.admin, "/v1/dead-letters").await.ok(200);
    assert_eq!(dead["deadLetters"][0]["agent"], "can:review");
}

#[tokio::test]
async fn small_things_are_refused_and_not_overlooked() {
    let hub = Hub::new().await;
    let alice = hub.register("alice").await;
    let refused = hub.get(&alice, "/v1/events?kind=message.sent,message.snet").await.refused(400, "INVALID");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("message.snet")));
    assert_eq!(hub.get(&alice, "/v1/events?kind=message.sent,task.created").await.status, 200);
    hub.put(&alice, "/v1/context/plan", &json!({"content": 1})).await.ok(201);
    hub.delete(&alice, "/v1/context/plan?expect=2").await.refused(409, "VERSION_CONFLICT");
    hub.delete(&alice, "/v1/context/plan?expect=1").await.ok(200);
    hub.get(&alice, "/v1/agents?cursor=007").await.refused(400, "INVALID");
    let answer = hub.put(&alice, "/v1/context/plan/history", &json!({"content": 1})).await;
    assert_eq!(answer.status, 405, "{}", answer.text);
    hub.put(&alice, "/v1/context/plan%2Fhistory", &json!({"content": 1})).await.ok(201);
}
