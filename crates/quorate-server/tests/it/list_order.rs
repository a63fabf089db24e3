//! Lists ordered by creation: newest first, oldest first, paging, and cursors that are valid only for their list.

use serde_json::{Value, json};

use crate::support::TestHub;

/// The lists by creation: path, name, and the field that identifies an item.
const LISTS: [(&str, &str, &str); 8] = [
    ("/v1/tasks", "tasks", "id"),
    ("/v1/sessions", "sessions", "id"),
    ("/v1/procedures", "procedures", "id"),
    ("/v1/approvals", "approvals", "id"),
    ("/v1/requests", "requests", "id"),
    ("/v1/budgets", "budgets", "id"),
    ("/v1/context:snapshot", "snapshots", "name"),
    ("/v1/tokens", "tokens", "id"),
];

/// Creates one item of each list, in this order; returns their identifiers.
async fn create(hub: &TestHub, alice: &str, name: &str) -> Vec<Value> {
    let approval = json!({"action": "pay", "payload": {}, "rationale": "it is due", "confidence": 0.5});
    let request = json!({"to": "bob", "type": "query", "payload": 1, "timeoutMs": 60_000});
    let token = json!({"role": "viewer", "name": name});
    let created = [
        hub.post(alice, "/v1/tasks", &json!({"type": "work"})).await.ok(201)["tasks"][0].clone(),
        hub.post(alice, "/v1/sessions", &json!({"id": name, "title": "S"})).await.ok(201),
        hub.post(alice, "/v1/procedures", &json!({"id": name, "kind": "invoice"})).await.ok(201),
        hub.post(alice, "/v1/approvals", &approval).await.ok(201),
        hub.post(alice, "/v1/requests", &request).await.ok(201),
        hub.put(alice, &format!("/v1/budgets/{name}"), &json!({"messagesMax": 1})).await.ok(200),
        hub.post(alice, "/v1/context:snapshot", &json!({"name": name})).await.ok(201),
        hub.post(&hub.admin, "/v1/tokens", &token).await.ok(201),
    ];
    LISTS.iter().zip(created).map(|((_, _, id), item)| item[id].clone()).collect()
}

/// Reads all of a list with two items on each page.
async fn paged(hub: &TestHub, (path, name, id): (&str, &str, &str), order: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = hub.get(&hub.admin, &format!("{path}?limit=2{order}{cursor}")).await.ok(200);
        let items = page[name].as_array().expect("a list");
        assert!(items.len() <= 2, "{page}");
        found.extend(items.iter().map(|item| item[id].clone()));
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

// Fails under: a list ordered by id text, in which 10 sorts before 9; an update that moves an item; an order that is
// ignored on later pages.
#[tokio::test]
async fn d3_lists_are_newest_first_by_creation_or_oldest_first() {
    let hub = TestHub::new().await;
    let (alice, _) = (hub.register("alice").await, hub.register("bob").await);
    let mut expected_ids = vec![Vec::new(); LISTS.len()];
    for name in ["k", "c", "x", "a", "m", "b", "z"] {
        let created = create(&hub, &alice, name).await;
        expected_ids.iter_mut().zip(created).for_each(|(list, id)| list.push(id));
    }
    hub.put(&alice, "/v1/budgets/c", &json!({"messagesMax": 9})).await.ok(200);
    hub.post(&alice, "/v1/sessions/x/complete", &json!({})).await.ok(200);
    for (list, mut expected) in LISTS.into_iter().zip(expected_ids) {
        // Tokens created by the hub are older than those of the test.
        let own =
            |found: Vec<Value>| found.into_iter().filter(|id| expected.contains(id)).collect::<Vec<_>>();
        let oldest = own(paged(&hub, list, "&order=oldest").await);
        let (newest, default) =
            (own(paged(&hub, list, "&order=newest").await), own(paged(&hub, list, "").await));
        assert_eq!(oldest, expected, "{}", list.0);
        expected.reverse();
        assert_eq!(newest, expected, "{}", list.0);
        assert_eq!(default, expected, "{}", list.0);
    }
}

// Fails under: a cursor of another list or order that is accepted.
#[tokio::test]
async fn i21_a_cursor_is_valid_for_its_list_and_order_only() {
    let hub = TestHub::new().await;
    let (alice, _) = (hub.register("alice").await, hub.register("bob").await);
    for name in ["a", "b", "c"] {
        create(&hub, &alice, name).await;
    }
    let mut cursors = Vec::new();
    for (path, ..) in LISTS {
        let page = hub.get(&hub.admin, &format!("{path}?limit=1")).await.ok(200);
        cursors.push(page["cursor"].as_str().expect("there is more").to_owned());
    }
    for (index, (path, ..)) in LISTS.into_iter().enumerate() {
        let (own, other) = (&cursors[index], &cursors[(index + 1) % LISTS.len()]);
        hub.get(&hub.admin, &format!("{path}?cursor={own}&order=newest")).await.ok(200);
        for query in [format!("cursor={own}&order=oldest"), format!("cursor={other}"), "cursor=a".into()] {
            let refused = hub.get(&hub.admin, &format!("{path}?{query}")).await.refused(400, "INVALID");
            assert_eq!(
                refused["detail"], "invalid cursor: it does not belong to this list",
                "{path}?{query}"
            );
            assert!(refused["hint"].is_string(), "{refused}");
        }
        let refused = hub.get(&hub.admin, &format!("{path}?order=random")).await.refused(400, "INVALID");
        assert!(refused["detail"].as_str().is_some_and(|text| text.contains("newest")), "{refused}");
    }
    // Lists by name have no order.
    for path in ["/v1/agents", "/v1/locks", "/v1/context", "/v1/spaces", "/v1/agents/alice/subscriptions"] {
        hub.get(&hub.admin, &format!("{path}?order=newest")).await.refused(400, "INVALID");
    }
    hub.get(&hub.admin, "/v1/locks?cursor=").await.refused(400, "INVALID");
}

// Fails under: a cursor that becomes invalid with the item it names, or shifts when items are created.
#[tokio::test]
async fn i21_paging_is_stable_under_changes() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    let make =
        async |name: &str| hub.post(&alice, "/v1/context:snapshot", &json!({"name": name})).await.ok(201);
    for name in ["d", "a", "c", "b"] {
        make(name).await;
    }
    let first = hub.get(&alice, "/v1/context:snapshot?limit=2").await.ok(200);
    let cursor = first["cursor"].as_str().expect("there is more");
    hub.delete(&alice, "/v1/context:snapshot/c").await.ok(200);
    make("e").await;
    make("c").await;
    let rest = hub.get(&alice, &format!("/v1/context:snapshot?limit=9&cursor={cursor}")).await.ok(200);
    let names: Vec<_> =
        rest["snapshots"].as_array().expect("a list").iter().map(|snapshot| &snapshot["name"]).collect();
    assert_eq!(names, ["a", "d"]);
}
