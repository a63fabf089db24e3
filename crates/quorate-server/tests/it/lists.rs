//! Guidance, lists of messages, dead letters of a pool, and small edge cases.

use quorate_core::limits::PAGE_BYTES_MAX;
use serde_json::{Value, json};

use crate::support::TestHub;

// Fails under: guidance that is only sent, or only recorded.
#[tokio::test]
async fn c12_guidance_is_recorded_and_sent() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    hub.post(&alice, "/v1/sessions", &json!({"id": "s", "title": "S", "participants": ["bob"]}))
        .await
        .ok(201);
    let operator = hub.create_token("operator", "operator").await;
    let guidance = json!({"text": "Prefer cheap experiments.", "to": ["bob"]});
    let done = hub.post(&operator, "/v1/sessions/s/guidance", &guidance).await.ok(200);
    let claimed = hub.post(&bob, "/v1/agents/bob/inbox/claim", &json!({})).await.ok(200);
    let message = &claimed["deliveries"][0]["message"];
    assert_eq!((&message["id"], &message["action"]), (&done["message"], &json!("guidance")));
    let key = done["key"].as_str().expect("a key");
    let read = hub.get(&bob, &format!("/v1/context/{key}")).await.ok(200);
    assert_eq!(read["content"]["guidance"], "Prefer cheap experiments.");
    assert_eq!(read["author"], "operator:operator");
}

fn payloads(list: &Value) -> Vec<&Value> {
    list["messages"].as_array().expect("a list").iter().map(|message| &message["payload"]).collect()
}

// Fails under: a filter that is ignored; an agent that sees messages between other agents.
#[tokio::test]
async fn d3_messages_are_listed_newest_first() {
    let hub = TestHub::new().await;
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
async fn a_dead_letter_names_its_pool() {
    let hub = TestHub::new().await;
    let bob = hub.register_with_capabilities("bob", &["review"]).await;
    let message = json!({"from": "bob", "to": "can:review", "payload": 1, "maxAttempts": 1});
    hub.post(&hub.admin, "/v1/messages", &message).await.ok(200);
    let claimed = hub.post(&bob, "/v1/agents/bob/inbox/claim", &json!({})).await.ok(200);
    let lease = &claimed["deliveries"][0];
    let lease = json!({"deliveries": [{"deliveryId": lease["deliveryId"], "leaseToken": lease["leaseToken"], "hopeless": true}]});
    hub.post(&bob, "/v1/agents/bob/inbox/nack", &lease).await.ok(200);
    let dead = hub.get(&hub.admin, "/v1/dead-letters").await.ok(200);
    assert_eq!(dead["deadLetters"][0]["agent"], "can:review");
}

/// Reads all pages of a list; returns the items and their number.
async fn paged(hub: &TestHub, token: &str, path: &str, name: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = hub.get(token, &format!("{path}?limit=2{cursor}")).await.ok(200);
        let items = page[name].as_array().expect("a list");
        assert!(items.len() <= 2, "{page}");
        ids.extend(items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()));
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

// Fails under: a list that contains budgets or requests of other agents, or ends before its last page.
#[tokio::test]
async fn d3_budgets_and_requests_are_listed_and_an_agent_sees_its_own() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let mut request_ids = Vec::new();
    for n in 1..=3 {
        hub.put(&alice, &format!("/v1/budgets/a{n}"), &json!({"messagesMax": n})).await.ok(200);
        let question = json!({"to": "bob", "type": "query", "payload": n, "timeoutMs": 60_000});
        let created = hub.post(&alice, "/v1/requests", &question).await.ok(201);
        request_ids.push(created["id"].as_str().expect("an id").to_owned());
    }
    hub.put(&bob, "/v1/budgets/b", &json!({"messagesMax": 1})).await.ok(200);
    let question = json!({"to": "alice", "type": "query", "timeoutMs": 60_000});
    let other = hub.post(&bob, "/v1/requests", &question).await.ok(201);
    let other = other["id"].as_str().expect("an id").to_owned();
    assert_eq!(paged(&hub, &alice, "/v1/budgets", "budgets").await, ["a3", "a2", "a1"]);
    assert_eq!(paged(&hub, &bob, "/v1/budgets", "budgets").await, ["b"]);
    assert_eq!(paged(&hub, &hub.admin, "/v1/budgets", "budgets").await, ["b", "a3", "a2", "a1"]);
    let newest_first = |ids: &[String]| ids.iter().rev().cloned().collect::<Vec<_>>();
    assert_eq!(paged(&hub, &alice, "/v1/requests", "requests").await, newest_first(&request_ids));
    assert_eq!(paged(&hub, &bob, "/v1/requests", "requests").await, std::slice::from_ref(&other));
    request_ids.push(other);
    assert_eq!(paged(&hub, &hub.admin, "/v1/requests", "requests").await, newest_first(&request_ids));
    for path in ["/v1/budgets", "/v1/requests"] {
        hub.get(&alice, &format!("{path}?colour=red")).await.refused(400, "INVALID");
    }
}

// Fails under: `dead_letters::show` that returns the next dead letter for an unknown number, or one of another agent.
#[tokio::test]
async fn d7_a_dead_letter_is_visible_to_its_agent() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    for n in 1..=3 {
        hub.post(&alice, "/v1/messages", &json!({"to": "bob", "payload": n, "maxAttempts": 1})).await.ok(200);
    }
    let claimed = hub.post(&bob, "/v1/agents/bob/inbox/claim", &json!({"max": 3})).await.ok(200);
    let lease = |n: usize| {
        let delivery = &claimed["deliveries"][n];
        json!({"deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"], "reason": "no"})
    };
    let given_up = json!({"deliveries": [lease(0), lease(2)]});
    hub.post(&bob, "/v1/agents/bob/inbox/nack", &given_up).await.ok(200);
    let listed = hub.get(&bob, "/v1/dead-letters").await.ok(200);
    for n in [0, 1] {
        let id = listed["deadLetters"][n]["deliveryId"].as_str().expect("an id");
        for token in [&bob, &hub.admin] {
            let dead_letter = hub.get(token, &format!("/v1/dead-letters/{id}")).await.ok(200);
            assert_eq!(dead_letter, listed["deadLetters"][n]);
        }
        hub.get(&alice, &format!("/v1/dead-letters/{id}")).await.refused(404, "NOT_FOUND");
    }
    let open = claimed["deliveries"][1]["deliveryId"].as_str().expect("an id");
    hub.get(&bob, &format!("/v1/dead-letters/{open}")).await.refused(404, "NOT_FOUND");
    hub.get(&bob, "/v1/dead-letters/dlv_7-1").await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn invalid_small_values_are_rejected() {
    let hub = TestHub::new().await;
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

/// Reads all pages of a list; returns the size of each page, and the items.
async fn read_pages(hub: &TestHub, token: &str, path: &str, name: &str) -> (Vec<usize>, Vec<Value>) {
    let (mut counts, mut all, mut cursor) = (Vec::new(), Vec::new(), None::<String>);
    loop {
        let sign = if path.contains('?') { '&' } else { '?' };
        let next = cursor.as_ref().map_or_else(String::new, |cursor| format!("{sign}cursor={cursor}"));
        let response = hub.get(token, &format!("{path}{next}")).await;
        assert!(response.text.len() < PAGE_BYTES_MAX + 600_000, "{path}: {} bytes", response.text.len());
        let page = response.ok(200);
        let items = page[name].as_array().expect("a list").clone();
        counts.push(items.len());
        all.extend(items);
        match page["cursor"].as_str() {
            Some(more) => cursor = Some(more.to_owned()),
            None => return (counts, all),
        }
        assert!(counts.len() < 1_000, "{path} has an end");
    }
}

// Fails under: a page that only ends at a record; a cursor that skips or repeats items of the same record.
#[tokio::test]
async fn i21_a_limit_holds_within_a_record() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let many = |from: u64| (from..from + 10).map(|n| json!({"to": "bob", "payload": n, "sessionId": "s"}));
    hub.post(&alice, "/v1/messages", &many(0).collect()).await.ok(200);
    hub.put(&alice, "/v1/context/plan", &json!({"content": 1})).await.ok(201);
    hub.post(&bob, "/v1/messages", &json!([{"to": "alice", "payload": "other"}])).await.ok(200);
    hub.post(&alice, "/v1/messages", &many(10).collect()).await.ok(200);
    let newest_first: Vec<Value> = (0..20).rev().map(Value::from).collect();
    let lists =
        ["/v1/messages?from=alice&limit=3", "/v1/messages?session=s&limit=3", "/v1/messages?to=bob&limit=1"];
    for list in lists {
        let (counts, all) = read_pages(&hub, &hub.admin, list, "messages").await;
        let limit = if list.ends_with('1') { 1 } else { 3 };
        assert!(counts.iter().all(|count| *count <= limit), "{list}: {counts:?}");
        let payloads: Vec<Value> = all.iter().map(|item| item["payload"].clone()).collect();
        assert_eq!(payloads, newest_first, "{list}");
    }
    let ids = read_pages(&hub, &alice, "/v1/messages?from=alice", "messages").await.1;
    let (counts, sent) = read_pages(&hub, &alice, "/v1/agents/alice/outbox?limit=7", "messages").await;
    assert_eq!(counts[0], 7);
    let values_of = |all: &[Value], name: &str| all.iter().map(|item| item[name].clone()).collect::<Vec<_>>();
    assert_eq!(values_of(&sent, "messageId"), values_of(&ids, "id"));
    for cursor in ["x", "1-0", "01", "1-", "-1"] {
        hub.get(&alice, &format!("/v1/messages?cursor={cursor}")).await.refused(400, "INVALID");
    }
}

#[tokio::test]
async fn i21_violations_and_subscriptions_are_paged() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    let bob = hub.register("bob").await;
    for topic in ["a", "b.*", "c.%3E", "d"] {
        hub.put(&alice, &format!("/v1/agents/alice/subscriptions/{topic}"), &json!({})).await.ok(200);
    }
    let (counts, all) =
        read_pages(&hub, &alice, "/v1/agents/alice/subscriptions?limit=2", "subscriptions").await;
    let topics: Vec<_> =
        all.iter().map(|subscription| subscription["topic"].as_str().expect("a topic")).collect();
    assert_eq!((&counts[..2], topics), (&[2, 2][..], vec!["a", "b.*", "c.>", "d"]));
    hub.get(&bob, "/v1/agents/alice/subscriptions").await.refused(403, "FORBIDDEN");
    hub.put(&hub.admin, "/v1/policy", &json!({"preset": "supervised"})).await.ok(200);
    for n in 0..5 {
        // Those of one agent are counted together.
        let worker = hub.register(&format!("worker-{n}")).await;
        let refused = hub.post(&worker, "/v1/messages", &json!({"to": "bob", "payload": n})).await;
        refused.refused(403, "POLICY_VIOLATION");
    }
    let (counts, all) = read_pages(&hub, &hub.admin, "/v1/violations?limit=2", "violations").await;
    assert_eq!((counts, all.len()), (vec![2, 2, 1], 5));
    for path in ["/v1/violations", "/v1/agents/alice/subscriptions"] {
        hub.get(&hub.admin, &format!("{path}?nonsense=1")).await.refused(400, "INVALID");
        hub.get(&hub.admin, &format!("{path}?limit=0")).await.refused(400, "INVALID");
        hub.get(&hub.admin, &format!("{path}?limit=1001")).await.refused(429, "LIMIT_EXCEEDED");
    }
}

// Fails under: a page without a limit on its size in bytes.
#[tokio::test]
async fn i21_a_page_ends_when_it_is_full() {
    let hub = TestHub::new().await;
    let (alice, _) = (hub.register("alice").await, hub.register("bob").await);
    let large = "x".repeat(500_000);
    hub.post(&alice, "/v1/sessions", &json!({"id": "s", "title": "S"})).await.ok(201);
    for n in 0..12 {
        let content = json!({"content": large, "type": "note"});
        hub.put(&alice, &format!("/v1/context/large{n:02}"), &content).await.ok(201);
        hub.put(&alice, "/v1/context/again", &content).await;
        let message = json!({"to": "bob", "payload": large, "sessionId": "s"});
        hub.post(&alice, "/v1/messages", &message).await.ok(200);
    }
    for n in 0..12 {
        hub.put(&alice, &format!("/v1/context/small{n:02}"), &json!({"content": n})).await.ok(201);
    }
    for (path, name, expected) in [
        ("/v1/context?limit=1000", "entries", 25),
        ("/v1/context/again/history?limit=1000", "versions", 12),
        ("/v1/messages?limit=1000", "messages", 12),
        ("/v1/sessions/s/timeline?limit=256", "timeline", 13),
    ] {
        let (counts, all) = read_pages(&hub, &alice, path, name).await;
        assert!(counts.len() > 1 && counts[0] >= 8, "{path}: {counts:?}");
        assert_eq!(all.len(), expected, "{path}: {counts:?}");
    }
    // Small pages are not cut.
    assert_eq!(read_pages(&hub, &alice, "/v1/context?prefix=small", "entries").await.0, [12]);
}

// Fails under: a read that reveals what the message itself would not.
#[tokio::test]
async fn i16_an_invisible_message_leaks_through_no_read() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let (carol, eve) = (hub.register("carol").await, hub.register("eve").await);
    hub.post(&alice, "/v1/sessions", &json!({"id": "s", "title": "S"})).await;
    let message = json!({"id": "mine", "to": ["bob", "carol"], "payload": "private", "sessionId": "s"});
    let sent = hub.post(&alice, "/v1/messages", &message).await.ok(200);
    let id = sent["receipts"][0]["id"].as_str().expect("an id");
    for name in [id, "mine"] {
        for path in [
            format!("/v1/messages/{name}"),
            format!("/v1/messages/{name}/why"),
            format!("/v1/tasks/{name}/why"),
        ] {
            hub.get(&eve, &path).await.refused(404, "NOT_FOUND");
            let whole = hub.get(&alice, &path).await.ok(200);
            let parts = |response: &Value| {
                response.get("deliveries").unwrap_or(&response["parts"]).as_array().map(Vec::len)
            };
            assert_eq!(parts(&whole), Some(2), "{whole}");
            let own = hub.get(&bob, &path).await;
            assert_eq!(parts(&own.ok(200)), Some(1), "{}", own.text);
            assert!(!own.text.contains("carol") || path == format!("/v1/messages/{name}"), "{}", own.text);
            hub.get(&carol, &path).await.ok(200);
        }
    }
    // An agent outside a session can read its contributions, but no messages of others.
    let response = hub.get(&eve, "/v1/sessions/s/timeline").await;
    assert!(!response.text.contains("private"), "{}", response.text);
    assert_eq!(response.ok(200)["timeline"].as_array().map(Vec::len), Some(1));
    for reader in [&alice, &bob, &hub.admin] {
        assert!(hub.get(reader, "/v1/sessions/s/timeline").await.text.contains("private"));
    }
    // The same holds for other resources with restricted visibility.
    let new_approval =
        json!({"action": "pay", "payload": {"amount": 1}, "rationale": "it is due", "confidence": 0.5});
    let approval = hub.post(&alice, "/v1/approvals", &new_approval).await;
    let approval = approval.ok(201);
    let approval = approval["id"].as_str().expect("an id");
    for path in ["approvals", "messages", "tasks", "procedures"] {
        hub.get(&eve, &format!("/v1/{path}/{approval}/why")).await.refused(404, "NOT_FOUND");
    }
    hub.get(&alice, &format!("/v1/approvals/{approval}/why")).await.ok(200);
}

// Fails under: an unpaired surrogate that is accepted and then breaks every list that contains it.
#[tokio::test]
async fn i21_unpaired_surrogates_are_rejected_everywhere() {
    let hub = TestHub::new().await;
    let (alice, _) = (hub.register("alice").await, hub.register("bob").await);
    let half = r#"{"deep":[1,{"text":"a\ud800b"}]}"#;
    let put = format!(r#"{{"content":{half}}}"#);
    let send = format!(r#"{{"to":"bob","payload":{half}}}"#);
    let calls = [
        ("PUT", "/v1/context/k", put.clone()),
        ("POST", "/v1/messages", send.clone()),
        ("POST", "/v1/messages", send.replace("\"to\"", "\"durability\":\"ephemeral\",\"to\"")),
        ("POST", "/v1/request", send.replace("\"to\"", "\"timeoutMs\":100,\"to\"")),
        ("POST", "/v1/commit", format!(r#"{{"ops":[{{"op":"put","key":"k","content":{half}}}]}}"#)),
        ("POST", "/v1/tasks", format!(r#"{{"type":"t","input":{half}}}"#)),
        ("POST", "/v1/sessions", format!(r#"{{"id":"s","title":"S","task":{half}}}"#)),
        (
            "POST",
            "/v1/approvals",
            format!(r#"{{"action":"a","payload":{half},"rationale":"r","confidence":0.5}}"#),
        ),
        ("POST", "/v1/procedures", format!(r#"{{"kind":"k","spec":{half}}}"#)),
        ("POST", "/v1/messages", format!(r#"{{"to":"bob","payload":1,"metadata":{half}}}"#)),
        ("POST", "/v1/messages", r#"{"to":"bob","payload":{"\udfff":1}}"#.to_owned()),
        ("POST", "/v1/messages", r#"{"to":"bob","payload":1,"action":"\ud800"}"#.to_owned()),
        ("PUT", "/v1/context/k", r#"{"content":"\ud800\ud800\udc00"}"#.to_owned()),
        (
            "POST",
            "/v1/dialects/native/messages",
            send.replace("\"to\"", "\"type\":\"command\",\"action\":\"x\",\"to\""),
        ),
    ];
    for (method, path, body) in &calls {
        let refused = hub.send_text(&alice, method, path, body).await;
        refused.refused(400, "INVALID");
    }
    let refused = hub.send_text(&alice, "PUT", "/v1/context/k", &put).await.refused(400, "INVALID");
    assert!(
        refused["detail"].as_str().is_some_and(|response| response.contains("$.deep[1].text")),
        "{refused}"
    );
    // A surrogate pair, and text that only looks like an unpaired surrogate, are stored unchanged.
    for content in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""😀""#] {
        let put = format!(r#"{{"content":{content}}}"#);
        assert!(hub.send_text(&alice, "PUT", "/v1/context/whole", &put).await.status < 300, "{content}");
        assert!(hub.get(&alice, "/v1/context/whole").await.text.contains(content));
    }
    let list = hub.get(&alice, "/v1/context").await.ok(200);
    assert_eq!(list["entries"].as_array().map(Vec::len), Some(1));
}
