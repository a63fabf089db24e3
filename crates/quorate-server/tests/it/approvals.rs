//! Approvals over HTTP: requested by an agent, decided by a person on the exact bytes, notified in the same commit.

use std::time::Duration;

use quorate_core::ActionDigest;
use quorate_server::Settings;
use quorate_store::ManualClock;
use serde_json::{Value, json};

use crate::support::TestHub;

const NOON: u64 = 1_800_000_000_000;

fn letter() -> Value {
    json!({"action": "letter.send", "payload": {"to": "b@x", "copies": 2.0, "a": null}, "rationale": "due", "confidence": 0.5})
}

fn decision(choice: &str, approval: &Value) -> Value {
    json!({"decision": choice, "digest": approval["digest"], "reason": "so"})
}

fn path(approval: &Value) -> String {
    format!("/v1/approvals/{}/decision", approval["id"].as_str().expect("an id"))
}

async fn inbox(hub: &TestHub, token: &str, agent: &str) -> Vec<Value> {
    let claimed =
        hub.post(token, &format!("/v1/agents/{agent}/inbox/claim"), &json!({"max": 10})).await.ok(200);
    claimed["deliveries"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|delivery| delivery["message"].clone())
        .collect()
}

// Fails under: a digest of the sent bytes instead of the canonical ones; a notification in a later commit.
#[tokio::test]
async fn i14_a_decision_covers_the_canonical_bytes_and_notifies_in_its_commit() {
    let hub = TestHub::new().await;
    let (alice, mailer) = (hub.register("alice").await, hub.register("mailer").await);
    let anna = hub.create_token("approver", "anna").await;
    let mut request = letter();
    request["then"] = json!([{"to": "mailer", "action": "letter.send"}]);
    let approval = hub.post(&alice, "/v1/approvals", &request).await.ok(201);
    let canonical = r#"{"action":"letter.send","payload":{"a":null,"copies":2,"to":"b@x"}}"#;
    assert_eq!(approval["digest"], ActionDigest::of(canonical.as_bytes()).to_string());
    let shown = hub.get(&anna, &format!("/v1/approvals/{}", approval["id"].as_str().expect("an id"))).await;
    assert!(shown.text.contains(&format!("\"document\":{canonical}")), "{}", shown.text);

    let mut other = decision("approve", &approval);
    other["digest"] = json!("00".repeat(32));
    hub.post(&anna, &path(&approval), &other).await.refused(409, "CONFLICT");
    assert!(inbox(&hub, &mailer, "mailer").await.is_empty());
    let done = hub.post(&anna, &path(&approval), &decision("approve", &approval)).await.ok(200);
    assert_eq!((&done["state"], &done["decidedBy"]), (&json!("approved"), &json!("approver:anna")));
    for (token, agent, action) in [(&alice, "alice", "approval.decided"), (&mailer, "mailer", "letter.send")]
    {
        let messages = inbox(&hub, token, agent).await;
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!(
            (&messages[0]["action"], &messages[0]["payload"]["digest"]),
            (&json!(action), &approval["digest"])
        );
        assert_eq!(messages[0]["payload"]["action"]["payload"]["to"], "b@x");
        let seq = messages[0]["id"].as_str().and_then(|id| id.split('-').nth(1)).expect("a record");
        assert_eq!(seq, done["seq"].to_string());
    }
    let refused =
        hub.post(&anna, &path(&approval), &decision("reject", &approval)).await.refused(409, "CONFLICT");
    let detail = refused["detail"].as_str().expect("a sentence");
    assert!(detail.contains("was approved by approver:anna at "), "who and when: {detail}");
}

// Fails under: a commit endpoint that only workers may use; a permission that is checked for the commit and not for
// each operation.
#[tokio::test]
async fn i14_an_approver_can_only_decide_in_a_commit() {
    let hub = TestHub::new().await;
    let (alice, anna) = (hub.register("alice").await, hub.create_token("approver", "anna").await);
    let approval = hub.post(&alice, "/v1/approvals", &letter()).await.ok(201);
    let decide = json!({"op": "approval.decide", "approval": approval["id"], "decision": "approve", "digest": approval["digest"]});
    let note = json!({"op": "put", "key": "note", "content": 1});
    hub.post(&anna, "/v1/commit", &json!({"ops": [decide, note]})).await.refused(403, "FORBIDDEN");
    let unchanged =
        hub.get(&anna, &format!("/v1/approvals/{}", approval["id"].as_str().expect("an id"))).await.ok(200);
    assert_eq!(unchanged["state"], "pending");
    let done = hub.post(&anna, "/v1/commit", &json!({"ops": [decide]})).await.ok(200);
    assert_eq!(done["results"][0]["state"], "approved");
    assert_eq!(inbox(&hub, &alice, "alice").await.len(), 1);
}

// Fails under: a role other than approver and admin that may decide; a requester that decides with another token.
#[tokio::test]
async fn i14_only_another_principal_with_permission_decides() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    let approval = hub.post(&alice, "/v1/approvals", &letter()).await.ok(201);
    for role in ["operator", "moderator", "viewer"] {
        let token = hub.create_token(role, role).await;
        hub.post(&token, &path(&approval), &decision("approve", &approval)).await.refused(403, "FORBIDDEN");
    }
    hub.post(&alice, &path(&approval), &decision("approve", &approval)).await.refused(403, "FORBIDDEN");
    let commit = json!({"ops": [{"op": "approval.decide", "approval": approval["id"], "decision": "approve", "digest": approval["digest"]}]});
    hub.post(&alice, "/v1/commit", &commit).await.refused(403, "FORBIDDEN");
    // An operator sends the request for alice; an approver of the same name is the same person.
    let (olga, otto) =
        (hub.create_token("operator", "olga").await, hub.create_token("approver", "otto").await);
    let also_olga = hub.create_token("approver", "olga").await;
    let mut request = letter();
    request["agent"] = json!("alice");
    let approval = hub.post(&olga, "/v1/approvals", &request).await.ok(201);
    assert_eq!((&approval["agent"], &approval["askedBy"]), (&json!("alice"), &json!("operator:olga")));
    hub.post(&also_olga, &path(&approval), &decision("approve", &approval)).await.refused(403, "FORBIDDEN");
    hub.post(&otto, &path(&approval), &json!({"decision": "reject", "digest": approval["digest"]}))
        .await
        .refused(400, "INVALID");
    hub.post(&otto, &path(&approval), &decision("reject", &approval)).await.ok(200);
}

// Fails under: a patch that changes the name of the action; a modification without new bytes and a new digest.
#[tokio::test]
async fn e3_a_modification_is_a_patch_with_new_bytes_and_a_new_digest() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    let anna = hub.create_token("approver", "anna").await;
    let approval = hub.post(&alice, "/v1/approvals", &letter()).await.ok(201);
    let modify = |patch: Value| {
        let mut body = decision("modify", &approval);
        body["modification"] = patch;
        body
    };
    let invalid = [
        json!([{"op": "replace", "path": "/none", "value": 1}]),
        json!({"op": "add"}),
        json!([{"op": "test", "path": "/to", "value": "other"}]),
        json!([]),
    ];
    for patch in invalid {
        hub.post(&anna, &path(&approval), &modify(patch)).await.refused(400, "INVALID");
    }
    // A caller that may not decide learns nothing about the expected digest.
    hub.post(&alice, &path(&approval), &modify(json!([{"op": "remove", "path": "/none"}])))
        .await
        .refused(403, "FORBIDDEN");
    let patch = json!([{"op": "replace", "path": "/to", "value": "legal@x"}, {"op": "remove", "path": "/a"}]);
    let request = hub.request(&anna, "POST", &path(&approval)).header("idempotency-key", "once");
    let done = hub.send(request, &modify(patch.clone()).to_string()).await.ok(200);
    let canonical = r#"{"action":"letter.send","payload":{"copies":2,"to":"legal@x"}}"#;
    let digest = ActionDigest::of(canonical.as_bytes()).to_string();
    assert_eq!((&done["state"], &done["approvedDigest"]), (&json!("modified"), &json!(digest)));
    assert_eq!((&done["modification"], &done["digest"]), (&patch, &approval["digest"]));
    let messages = inbox(&hub, &alice, "alice").await;
    assert_eq!(
        (&messages[0]["payload"]["state"], &messages[0]["payload"]["digest"]),
        (&json!("modified"), &json!(digest))
    );
    // The same decision with the same key is idempotent.
    let request = hub.request(&anna, "POST", &path(&approval)).header("idempotency-key", "once");
    hub.send(request, &modify(patch).to_string()).await.ok(200);
    assert!(inbox(&hub, &alice, "alice").await.is_empty());
}

// Fails under: a timeout that is reported as a rejection, or not at all.
#[tokio::test]
async fn i14_an_undecided_approval_expires() {
    let clock = ManualClock::at(NOON);
    let hub = TestHub::with_clock(clock.clone(), Settings::default()).await;
    let alice = hub.register("alice").await;
    let anna = hub.create_token("approver", "anna").await;
    let mut request = letter();
    (request["timeoutMs"], request["default"]) = (json!(60_000), json!("keep the draft"));
    let approval = hub.post(&alice, "/v1/approvals", &request).await.ok(201);
    let approval_path = format!("/v1/approvals/{}", approval["id"].as_str().expect("an id"));
    let explanation = hub.get(&alice, &format!("{approval_path}/why")).await.ok(200);
    assert_eq!(explanation["waitsFor"], json!({"kind": "approval", "approval": approval["id"]}));
    let sentence =
        "alice waits for a decision on letter.send since 08:00:00; expires at 08:01:00, then: keep the draft";
    assert_eq!((&explanation["next"], &explanation["sentence"]), (&json!("expires"), &json!(sentence)));
    assert_eq!(hub.get(&alice, "/v1/agents/alice").await.ok(200)["status"], "waiting");
    clock.advance(Duration::from_secs(60));
    hub.post(&anna, &path(&approval), &decision("approve", &approval)).await.refused(409, "EXPIRED");
    // The sweep runs automatically.
    let claim = json!({"max": 1, "waitMs": 10_000});
    let claimed = hub.post(&alice, "/v1/agents/alice/inbox/claim", &claim).await.ok(200);
    let payload = &claimed["deliveries"][0]["message"]["payload"];
    assert_eq!((&payload["state"], &payload["default"]), (&json!("expired"), &json!("keep the draft")));
    let expired = hub.get(&anna, &approval_path).await.ok(200);
    assert_eq!(
        (&expired["state"], &expired["decidedBy"], &expired["approvedDigest"]),
        (&json!("expired"), &Value::Null, &Value::Null)
    );
    let before = hub.get(&anna, &format!("{approval_path}?at={}", approval["seq"])).await.ok(200);
    assert_eq!(before["state"], "pending");
}

// Fails under: an agent that sees the approvals of others; a list that contains the actions.
#[tokio::test]
async fn e3_approvals_are_listed_and_an_agent_sees_its_own() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let anna = hub.create_token("approver", "anna").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(hub.post(&alice, "/v1/approvals", &letter()).await.ok(201)["id"].clone());
    }
    let approval =
        hub.get(&alice, &format!("/v1/approvals/{}", ids[0].as_str().expect("an id"))).await.ok(200);
    hub.post(&anna, &path(&approval), &decision("reject", &approval)).await.ok(200);
    let list = async |token: &str, query: &str| {
        let response = hub.get(token, &format!("/v1/approvals{query}")).await.ok(200);
        let approvals = response["approvals"].as_array().expect("a list");
        (
            approvals.iter().map(|approval| approval["id"].clone()).collect::<Vec<_>>(),
            response["cursor"].clone(),
            response,
        )
    };
    ids.reverse();
    assert_eq!(list(&anna, "?state=pending").await.0, ids[..2], "newest first");
    assert_eq!(list(&alice, "?state=rejected").await.0, ids[2..]);
    assert!(list(&bob, "").await.0.is_empty());
    let (first, cursor, response) = list(&anna, "?limit=2").await;
    assert_eq!(first, ids[..2]);
    assert!(response["approvals"][0].get("document").is_none(), "{response}");
    let cursor = cursor.as_str().expect("a cursor");
    assert_eq!(list(&anna, &format!("?limit=2&cursor={cursor}")).await.0, ids[2..]);
    let approval_path = format!("/v1/approvals/{}", ids[1].as_str().expect("an id"));
    hub.get(&bob, &approval_path).await.refused(404, "NOT_FOUND");
    hub.get(&bob, &format!("{approval_path}/why")).await.refused(404, "NOT_FOUND");
    hub.get(&anna, "/v1/approvals?state=colour").await.refused(400, "INVALID");
}

// Fails under: two different actions with the same digest; a number that is approved as another one.
#[tokio::test]
async fn i14_a_payload_without_a_canonical_form_is_rejected() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    for payload in [r#"{"a":1,"a":2}"#, "9007199254740993", "{"] {
        let body = format!(r#"{{"action":"pay","payload":{payload}}}"#);
        hub.send_text(&alice, "POST", "/v1/approvals", &body).await.refused(400, "INVALID");
    }
    let large = json!({"action": "pay", "payload": "x".repeat(256 * 1024)});
    assert_eq!(
        hub.post(&alice, "/v1/approvals", &large).await.refused(413, "TOO_LARGE")["limit"],
        256 * 1024
    );
}
