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
    let operator = hub.token("operator", "operator").await;
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

/// All of a list, page by page, and its length.
async fn paged(hub: &Hub, token: &str, path: &str, name: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = hub.get(token, &format!("{path}?limit=2{cursor}")).await.ok(200);
        let items = page[name].as_array().expect("a list");
        assert!(items.len() <= 2, "{page}");
        ids.extend(items.iter().map(|one| one["id"].as_str().expect("an id").to_owned()));
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

// Fails under: a list that shows an agent what others may spend or asked, or that ends before its last page.
#[tokio::test]
async fn d3_budgets_and_requests_are_listed_and_an_agent_sees_its_own() {
    let hub = Hub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let mut asked = Vec::new();
    for n in 1..=3 {
        hub.put(&alice, &format!("/v1/budgets/a{n}"), &json!({"messagesMax": n})).await.ok(200);
        let question = json!({"to": "bob", "type": "query", "payload": n, "timeoutMs": 60_000});
        let made = hub.post(&alice, "/v1/requests", &question).await.ok(201);
        asked.push(made["id"].as_str().expect("an id").to_owned());
    }
    hub.put(&bob, "/v1/budgets/b", &json!({"messagesMax": 1})).await.ok(200);
    let question = json!({"to": "alice", "type": "query", "timeoutMs": 60_000});
    let other = hub.post(&bob, "/v1/requests", &question).await.ok(201);
    let other = other["id"].as_str().expect("an id").to_owned();
    assert_eq!(paged(&hub, &alice, "/v1/budgets", "budgets").await, ["a1", "a2", "a3"]);
    assert_eq!(paged(&hub, &bob, "/v1/budgets", "budgets").await, ["b"]);
    assert_eq!(paged(&hub, &hub.admin, "/v1/budgets", "budgets").await, ["a1", "a2", "a3", "b"]);
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    assert_eq!(paged(&hub, &alice, "/v1/requests", "requests").await, sorted(asked.clone()));
    assert_eq!(paged(&hub, &bob, "/v1/requests", "requests").await, std::slice::from_ref(&other));
    asked.push(other);
    assert_eq!(paged(&hub, &hub.admin, "/v1/requests", "requests").await, sorted(asked));
    for path in ["/v1/budgets", "/v1/requests"] {
        hub.get(&alice, &format!("{path}?colour=red")).await.refused(400, "INVALID");
    }
}

// Fails under: `dead_letters::show` that shows the next one if there is none with that number, or one of somebody else.
#[tokio::test]
async fn d7_a_dead_letter_is_shown_to_its_agent() {
    let hub = Hub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    for n in 1..=3 {
        hub.post(&alice, "/v1/messages", &json!({"to": "bob", "payload": n, "maxAttempts": 1})).await.ok(200);
    }
    let claimed = hub.post(&bob, "/v1/agents/bob/inbox/claim", &json!({"max": 3})).await.ok(200);
    let lease = |n: usize| {
        let one = &claimed["deliveries"][n];
        json!({"deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"], "reason": "no"})
    };
    let given_up = json!({"deliveries": [lease(0), lease(2)]});
    hub.post(&bob, "/v1/agents/bob/inbox/nack", &given_up).await.ok(200);
    let listed = hub.get(&bob, "/v1/dead-letters").await.ok(200);
    for n in [0, 1] {
        let id = listed["deadLetters"][n]["deliveryId"].as_str().expect("an id");
        for token in [&bob, &hub.admin] {
            let shown = hub.get(token, &format!("/v1/dead-letters/{id}")).await.ok(200);
            assert_eq!(shown, listed["deadLetters"][n]);
        }
        hub.get(&alice, &format!("/v1/dead-letters/{id}")).await.refused(404, "NOT_FOUND");
    }
    let open = claimed["deliveries"][1]["deliveryId"].as_str().expect("an id");
    hub.get(&bob, &format!("/v1/dead-letters/{open}")).await.refused(404, "NOT_FOUND");
    hub.get(&bob, "/v1/dead-letters/dlv_7-1").await.refused(404, "NOT_FOUND");
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
