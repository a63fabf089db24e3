//! Asynchronous requests, waiting for the end of a task, and partial reads.

use quorate_core::limits::PAGE_BYTES_MAX;
use serde_json::{Value, json};

use crate::support::TestHub;

/// Answers the next request in an inbox.
async fn answer(hub: &TestHub, agent: &str, token: &str, payload: Value) {
    let path = format!("/v1/agents/{agent}/inbox/claim");
    let claimed = hub.post(token, &path, &json!({"waitMs": 30_000})).await.ok(200);
    let delivery = &claimed["deliveries"][0];
    let step = json!({"ops": [
        {"op": "ack", "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"]},
        {"op": "send", "to": "alice", "type": "response", "inReplyTo": delivery["message"]["id"], "payload": payload},
    ]});
    hub.post(token, "/v1/commit", &step).await.ok(200);
}

fn payloads(page: &Value) -> Vec<Value> {
    page["answers"].as_array().expect("a list").iter().map(|answer| answer["payload"].clone()).collect()
}

// Fails under: an answer that is returned twice or not at all as the cursor advances; a wait that outlasts the
// request.
#[tokio::test]
async fn d5_answers_are_read_as_they_arrive() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let carol = hub.register("carol").await;
    let question =
        json!({"id": "q1", "to": ["bob", "carol"], "type": "query", "payload": 1, "timeoutMs": 60_000});
    let request = hub.post(&alice, "/v1/requests", &question).await.ok(201);
    assert_eq!((&request["state"], &request["answers"]), (&json!("waiting"), &json!([])));
    let repeated = hub.post(&alice, "/v1/requests", &question).await.ok(201);
    assert_eq!(repeated["id"], request["id"], "asked once");
    let path = format!("/v1/requests/{}/answers", request["id"].as_str().expect("an id"));
    let none = hub.get(&alice, &path).await.ok(200);
    assert_eq!((payloads(&none), &none["state"]), (vec![], &json!("waiting")));
    let waiting = format!("{path}?waitMs=30000");
    let (first, ()) = tokio::join!(hub.get(&alice, &waiting), answer(&hub, "bob", &bob, json!("b")));
    let first = first.ok(200);
    assert_eq!(payloads(&first), [json!("b")]);
    let next_page = format!("{waiting}&cursor={}", first["cursor"].as_str().expect("it goes on"));
    let (second, ()) = tokio::join!(hub.get(&alice, &next_page), answer(&hub, "carol", &carol, json!("c")));
    let second = second.ok(200);
    assert_eq!(payloads(&second), [json!("c")], "the first is not returned again");
    assert_eq!((&second["state"], &second["cursor"]), (&json!("answered"), &Value::Null));
    let all = hub.get(&alice, "/v1/requests/q1/answers").await.ok(200);
    assert_eq!(payloads(&all), [json!("b"), json!("c")], "by the id that its sender gave it");
    hub.get(&bob, &path).await.refused(404, "NOT_FOUND");
    hub.get(&hub.admin, &path).await.ok(200);
    let ephemeral = json!({"to": "bob", "type": "query", "durability": "ephemeral"});
    hub.post(&alice, "/v1/requests", &ephemeral).await.refused(400, "INVALID");
}

// Fails under: a page of answers without a limit on its size in bytes; a cursor that skips an answer.
#[tokio::test]
async fn i21_a_page_of_answers_ends_when_it_is_full() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    let agents: Vec<String> = (0..12).map(|n| format!("a{n:02}")).collect();
    let mut tokens = Vec::new();
    for agent in &agents {
        tokens.push(hub.register(agent).await);
    }
    let question = json!({"id": "q", "to": agents, "type": "query", "payload": 1, "timeoutMs": 60_000});
    hub.post(&alice, "/v1/requests", &question).await.ok(201);
    let large = "x".repeat(500_000);
    for (agent, token) in agents.iter().zip(&tokens) {
        answer(&hub, agent, token, json!([agent, large])).await;
    }
    let (mut received, mut counts, mut cursor) = (Vec::new(), Vec::new(), "0".to_owned());
    loop {
        let page = hub.get(&alice, &format!("/v1/requests/q/answers?cursor={cursor}")).await;
        assert!(page.text.len() < PAGE_BYTES_MAX + 600_000, "{} bytes", page.text.len());
        let page = page.ok(200);
        counts.push(payloads(&page).len());
        received
            .extend(payloads(&page).iter().map(|payload| payload[0].as_str().expect("a name").to_owned()));
        match page["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
        assert!(counts.len() < 20, "it has an end");
    }
    assert_eq!(received, agents);
    assert_eq!(counts, [9, 3]);
}

// Fails under: a request that ends without a reason.
#[tokio::test]
async fn d5_a_request_reports_why_it_ended() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    hub.register("bob").await;
    let question = json!({"to": "bob", "type": "query", "timeoutMs": 20});
    let request = hub.post(&alice, "/v1/requests", &question).await.ok(201);
    let path = format!("/v1/requests/{}", request["id"].as_str().expect("an id"));
    let ended = hub.get(&alice, &format!("{path}/answers?waitMs=30000")).await.ok(200);
    assert_eq!(
        (&ended["state"], &ended["code"], &ended["cursor"]),
        (&json!("timedOut"), &json!("TIMEOUT"), &Value::Null)
    );
    let retry = json!({"to": "bob", "type": "query", "timeoutMs": 60_000, "again": request["id"]});
    let request = hub.post(&alice, "/v1/requests", &retry).await.ok(201);
    let path = format!("/v1/requests/{}", request["id"].as_str().expect("an id"));
    hub.post(&alice, &format!("{path}/cancel"), &json!({})).await.ok(200);
    let ended = hub.get(&alice, &path).await.ok(200);
    assert_eq!((&ended["state"], &ended["code"]), (&json!("cancelled"), &json!("CANCELLED")));
}

// Fails under: `Error::nothing_applied` that is true for every rejection. The request was delivered to bob: a caller
// that reads "nothing was changed" would send it twice.
#[tokio::test]
async fn i2_a_request_without_an_answer_was_applied() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    let bob = hub.register("bob").await;
    let question = json!({"to": "bob", "type": "query", "payload": {"pay": "100 EUR"}, "timeoutMs": 200});
    let claim = json!({"max": 1, "waitMs": 30_000});
    let (response, claimed) = tokio::join!(
        hub.post_with_key(&alice, "once", "/v1/request", &question),
        hub.post(&bob, "/v1/agents/bob/inbox/claim", &claim)
    );
    let response = response.refused(408, "TIMEOUT");
    let id = &claimed.ok(200)["deliveries"][0]["message"]["id"];
    assert_eq!(
        (&response["applied"], &response["retryable"], &response["asked"]),
        (&json!("yes"), &json!(true), id)
    );
    let repeated = hub.post_with_key(&alice, "once", "/v1/request", &question).await.refused(408, "TIMEOUT");
    assert_eq!(
        (&repeated["applied"], &repeated["asked"]),
        (&json!("yes"), id),
        "under its key it is the same"
    );
    let unknown = json!({"to": "unknown", "type": "query"});
    let response = hub.post(&alice, "/v1/request", &unknown).await.refused(404, "UNKNOWN_RECIPIENT");
    assert_eq!((&response["applied"], &response["asked"]), (&json!("no"), &Value::Null));
}

// Fails under: `tasks::show` that does not wait, or waits although the task has ended.
#[tokio::test]
async fn the_end_of_a_task_can_be_awaited() {
    let hub = TestHub::new().await;
    let alice = hub.register_with_capabilities("alice", &["sum"]).await;
    let bob = hub.register("bob").await;
    hub.post(&bob, "/v1/tasks", &json!({"id": "t1", "type": "sum"})).await.ok(201);
    let unchanged = hub.get(&bob, "/v1/tasks/t1?waitMs=20").await.ok(200);
    assert_eq!(unchanged["status"], "ready");
    let held = hub.post(&alice, "/v1/tasks/claim", &json!({})).await.ok(200)["tasks"][0].clone();
    let done = json!({"leaseToken": held["leaseToken"], "result": [1], "contentType": null});
    let completion = hub.post(&alice, "/v1/tasks/t1/complete", &done);
    let (awaited, finished) = tokio::join!(hub.get(&bob, "/v1/tasks/t1?waitMs=30000"), completion);
    finished.ok(200);
    let awaited = awaited.ok(200);
    assert_eq!((&awaited["status"], &awaited["result"]), (&json!("done"), &json!([1])));
    assert_eq!(hub.get(&hub.admin, "/v1/tasks/t1?waitMs=30000").await.ok(200)["status"], "done");
    hub.get(&bob, "/v1/tasks/t1?waitMs=70000").await.refused(429, "LIMIT_EXCEEDED");
    hub.get(&bob, "/v1/tasks/t2?waitMs=10").await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_timeline_is_filtered_by_kind_and_read_from_its_end() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    hub.register("bob").await;
    hub.post(&alice, "/v1/sessions", &json!({"id": "s1", "title": "Soup"})).await.ok(201);
    hub.post(&alice, "/v1/sessions/s1/join", &json!({"agent": "bob"})).await.ok(200);
    for n in 1..=3 {
        hub.post(&alice, "/v1/sessions/s1/add", &json!({"kind": "note", "body": n})).await.ok(201);
    }
    let raw = json!({"kind": "artifact", "body": "AQI=", "contentType": "image/png"});
    hub.post(&alice, "/v1/sessions/s1/add", &raw).await.ok(201);
    let kinds = |page: &Value| -> Vec<String> {
        let lines = page["timeline"].as_array().expect("a list").iter();
        lines.map(|line| line["kind"].as_str().expect("a kind").to_owned()).collect()
    };
    let notes = hub.get(&alice, "/v1/sessions/s1/timeline?kind=note").await.ok(200);
    assert_eq!(kinds(&notes), ["note", "note", "note"]);
    let newest = hub.get(&alice, "/v1/sessions/s1/timeline?newest=true&limit=2").await.ok(200);
    assert_eq!(kinds(&newest), ["artifact", "note"]);
    assert_eq!(newest["timeline"][0]["contentType"], "image/png");
    let cursor = newest["cursor"].as_str().expect("it goes on");
    let older =
        hub.get(&alice, &format!("/v1/sessions/s1/timeline?newest=true&cursor={cursor}")).await.ok(200);
    assert_eq!(kinds(&older), ["note", "note", "changed", "changed"]);
    assert_eq!(
        (&older["timeline"][2]["agent"], &older["timeline"][2]["verb"]),
        (&json!("bob"), &json!("session.joined"))
    );
    hub.get(&alice, "/v1/sessions/s1/timeline?kind=soup").await.refused(400, "INVALID");
}

// Fails under: a repeated wait for a lock with the same key that loses its position in the queue, or waits twice.
#[tokio::test]
async fn i3_a_lock_awaited_with_a_key_is_granted_once() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let held = hub.post(&alice, "/v1/locks/door/acquire", &json!({})).await.ok(200);
    let request = json!({"waitMs": 30_000, "ttlMs": 60_000});
    let path = "/v1/locks/door/acquire";
    let release = async {
        while hub.get(&bob, "/v1/agents/bob").await.ok(200)["status"] != "waiting" {
            tokio::task::yield_now().await;
        }
        hub.post_with_key(&bob, "k", path, &json!({"waitMs": 10, "ttlMs": 1_000}))
            .await
            .refused(409, "DUPLICATE");
        hub.post(&alice, "/v1/locks/door/release", &json!({"fence": held["fence"]})).await.ok(200);
    };
    // Two concurrent calls, as after a connection loss that only one side noticed.
    let (first, second, ()) = tokio::join!(
        hub.post_with_key(&bob, "k", path, &request),
        hub.post_with_key(&bob, "k", path, &request),
        release
    );
    let (first, second) = (first.ok(200), second.ok(200));
    assert_eq!(first, second, "one place, one lock");
    assert_eq!(hub.post_with_key(&bob, "k", path, &request).await.ok(200), first, "also for who comes later");
    let lock = hub.get(&alice, "/v1/locks/door").await.ok(200);
    assert_eq!(lock["holders"].as_array().map(Vec::len), Some(1));
}

// Fails under: a policy that cannot be expressed; a rollback to a sequence number that is taken for a version.
#[tokio::test]
async fn a_policy_without_counts_and_a_rollback_to_a_record_are_accepted() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    let set = |actions: Value| json!({"preset": "supervised", "actionsMax": actions});
    let path = "/v1/policy";
    assert_eq!(hub.put(&hub.admin, path, &json!({"preset": "supervised"})).await.ok(200)["actionsMax"], 50);
    assert_eq!(hub.put(&hub.admin, path, &set(Value::Null)).await.ok(200)["actionsMax"], Value::Null);
    assert_eq!(hub.put(&hub.admin, path, &set(json!(7))).await.ok(200)["actionsMax"], 7);
    hub.put(&alice, "/v1/context/plan", &json!({"content": "one"})).await.ok(201);
    let seq = hub.get(&alice, "/v1/context/plan").await.ok(200)["seq"].clone();
    hub.put(&alice, "/v1/context/plan", &json!({"content": "two"})).await.ok(200);
    let back = hub.post(&alice, "/v1/context:rollback", &json!({"key": "plan", "toSeq": seq})).await.ok(200);
    assert_eq!((&back["to"], &back["changed"][0]["restored"]), (&seq, &json!(1)));
    let conflicting = json!({"key": "plan", "toSeq": seq, "toVersion": 1});
    hub.post(&alice, "/v1/context:rollback", &conflicting).await.refused(400, "INVALID");
}
