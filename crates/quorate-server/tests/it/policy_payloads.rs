//! Rules of a policy about the content of payloads, which are checked before the commit reaches the writer.

use quorate_core::Policy;
use serde_json::{Value, json};

use crate::support::TestHub;

fn answer(payload: &Value) -> Value {
    json!({"to": "chief", "type": "response", "inReplyTo": "q-1", "rationale": "so it is", "payload": payload})
}

// Fails under: a failure that needs a confidence; a success or a nested error that needs none.
#[tokio::test]
async fn e6_a_response_that_reports_a_failure_needs_no_confidence() {
    let hub = TestHub::new().await;
    let worker = hub.register("worker").await;
    hub.put(&hub.admin, "/v1/agents/chief", &json!({"role": "coordinator"})).await.ok(201);
    hub.set_policy(Policy::supervised()).await;
    for failure in [
        json!({"success": false}),
        json!({"status": "failure", "error": {"error_code": "ERR_001", "is_recoverable": true}}),
        json!({"error": "no key"}),
    ] {
        hub.post(&worker, "/v1/messages", &answer(&failure)).await.ok(200);
        let mut ephemeral = answer(&failure);
        ephemeral["durability"] = json!("ephemeral");
        hub.post(&worker, "/v1/messages", &ephemeral).await.ok(200);
    }
    for other in [
        json!({"success": true, "error": null}),
        json!({"status": "partial_success", "error": false}),
        json!({"nested": {"error": "no key"}}),
        json!([{"success": false}]),
        json!({}),
    ] {
        let refused = hub.post(&worker, "/v1/messages", &answer(&other)).await;
        assert_eq!(refused.refused(403, "POLICY_VIOLATION")["rule"], "confidence", "{other}");
    }
}

// Fails under: a rationale that is not measured because it is in a payload.
#[tokio::test]
async fn e7_a_rationale_in_a_payload_has_at_most_1000_characters() {
    let hub = TestHub::new().await;
    let worker = hub.register("worker").await;
    hub.put(&hub.admin, "/v1/agents/chief", &json!({"role": "coordinator"})).await.ok(201);
    let message = |count: usize| json!({"to": "chief", "payload": {"rationale": "ü".repeat(count)}});
    hub.post(&worker, "/v1/messages", &message(1_001)).await.ok(200);
    hub.set_policy(Policy::supervised()).await;
    hub.post(&worker, "/v1/messages", &message(1_000)).await.ok(200);
    let refused = hub.post(&worker, "/v1/messages", &message(1_001)).await.refused(413, "TOO_LARGE");
    assert_eq!(
        (&refused["rule"], &refused["place"], &refused["limit"]),
        (&json!("rationaleCharsMax"), &json!("payload.rationale"), &json!(1_000))
    );
    let task = json!({"id": "t1", "agent": "worker", "input": 1});
    hub.post(&hub.admin, "/v1/tasks", &task).await.ok(201);
    let claimed = hub.post(&worker, "/v1/tasks/claim", &json!({})).await.ok(200);
    let complete = |count: usize| {
        json!({
            "leaseToken": claimed["tasks"][0]["leaseToken"], "confidence": 1, "rationale": "so it is",
            "result": {"rationale": "ü".repeat(count)},
        })
    };
    let refused = hub.post(&worker, "/v1/tasks/t1/complete", &complete(1_001)).await;
    assert_eq!(refused.refused(413, "TOO_LARGE")["place"], "result.rationale");
    hub.post(&worker, "/v1/tasks/t1/complete", &complete(1_000)).await.ok(200);
    let listed = hub.get(&hub.admin, "/v1/violations").await.ok(200);
    assert!(listed.to_string().contains("payload.rationale"), "{listed}");
}

// Fails under: a result of a task that is one JSON string and passes as structured, although a message is refused.
#[tokio::test]
async fn e6_a_result_that_is_a_json_string_is_refused_as_a_message_is() {
    let hub = TestHub::new().await;
    let worker = hub.register_with_capabilities("worker", &["sum"]).await;
    hub.set_policy(Policy::supervised()).await;
    hub.post(&hub.admin, "/v1/tasks", &json!({"id": "t1", "type": "sum"})).await.ok(201);
    let claimed = hub.post(&worker, "/v1/tasks/claim", &json!({})).await.ok(200);
    let token = &claimed["tasks"][0]["leaseToken"];
    let result = |result: Value| json!({"leaseToken": token, "result": result, "confidence": 0.9, "rationale": "so it is"});
    let text = hub.post(&worker, "/v1/tasks/t1/complete", &result(json!("{\"a\":1}"))).await;
    let refused = text.refused(403, "POLICY_VIOLATION");
    assert_eq!((&refused["rule"], &refused["place"]), (&json!("structured"), &json!("result")), "{refused}");
    let partial = json!({"leaseToken": token, "partial": "half of it"});
    let refused = hub.post(&worker, "/v1/tasks/t1/heartbeat", &partial).await;
    assert_eq!(refused.refused(403, "POLICY_VIOLATION")["place"], "partial");
    hub.post(&worker, "/v1/tasks/t1/complete", &result(json!({"a": 1}))).await.ok(200);
}
