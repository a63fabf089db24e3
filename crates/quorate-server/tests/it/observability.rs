//! Observability: metrics, traces, the audit log and exported spans.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_server::{App, OtlpSettings, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::support::TestHub;

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn metrics(hub: &TestHub, token: &str) -> String {
    let response = hub.get(token, "/metrics").await;
    assert_eq!(response.status, 200, "{}", response.text);
    response.text
}

#[track_caller]
fn assert_has_line(text: &str, line: &str) {
    assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
}

async fn claim(hub: &TestHub, token: &str, agent: &str) -> Value {
    let claimed = hub.post(token, &format!("/v1/agents/{agent}/inbox/claim"), &json!({})).await.ok(200);
    claimed["deliveries"][0].clone()
}

fn ack(delivery: &Value) -> Value {
    json!({"op": "ack", "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"]})
}

async fn commit(hub: &TestHub, token: &str, ops: Value) -> Value {
    hub.post(token, "/v1/commit", &json!({"ops": ops})).await.ok(200)
}

async fn token_of(hub: &TestHub, role: &str, space: &str) -> String {
    let request = hub.request(&hub.admin, "POST", "/v1/tokens").header("quorate-space", space);
    let created = hub.send(request, &json!({"role": role, "name": role}).to_string()).await.ok(201);
    created["token"].as_str().expect("a token").to_owned()
}

// Fails under: another metric name or label; a latency that is not measured; queue depths of mixed-up levels.
#[tokio::test]
async fn d11_metrics_have_the_specified_names_and_labels() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let message = json!({"to": "bob", "type": "query", "priority": "high", "payload": 1});
    hub.post(&alice, "/v1/messages", &message).await.ok(200);
    let delivery = claim(&hub, &bob, "bob").await;
    commit(&hub, &bob, json!([ack(&delivery)])).await;
    hub.post(&alice, "/v1/messages", &json!({"to": "bob", "priority": "low", "payload": 2})).await.ok(200);
    hub.get(&alice, "/v1/messages/msg_0-99-0").await.refused(404, "NOT_FOUND");
    hub.get("", "/v1/info").await.refused(401, "UNAUTHENTICATED");
    let text = metrics(&hub, &hub.admin).await;
    assert_has_line(&text, r#"messages_sent_total{type="query",priority="high"} 1"#);
    assert_has_line(&text, r#"messages_sent_total{type="command",priority="low"} 1"#);
    assert_has_line(&text, r#"messages_received_total{type="query"} 1"#);
    assert_has_line(&text, r#"messages_received_total{type="command"} 0"#);
    assert_has_line(&text, r#"message_latency_ms_count{type="query"} 1"#);
    assert_has_line(&text, r#"message_latency_ms_bucket{type="query",le="+Inf"} 1"#);
    assert_has_line(&text, r#"queue_time_ms_count{priority="high"} 1"#);
    assert_has_line(&text, r#"queue_depth{priority="low"} 1"#);
    assert_has_line(&text, r#"queue_depth{priority="high"} 0"#);
    assert_has_line(&text, "active_agents 2");
    assert_has_line(&text, r#"errors_total{type="NOT_FOUND",agent="alice"} 1"#);
    assert_has_line(&text, r#"errors_total{type="UNAUTHENTICATED",agent=""} 1"#);
    assert_has_line(&text, r#"quorate_deliveries_ended_total{state="acked"} 1"#);
    assert_has_line(&text, r#"quorate_http_requests_total{method="GET",status="404"} 1"#);
    assert_has_line(&text, "quorate_observed_lag_records 0");
    let metric_value = |name: &str| -> f64 {
        let found = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        found.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name} is missing"))
    };
    assert!(metric_value("quorate_syncs_total") >= 5.0 && metric_value("quorate_sync_seconds_total") > 0.0);
    assert!(metric_value("quorate_commits_total") >= metric_value("quorate_batches_total"));
    assert!(metric_value("quorate_wal_bytes") > 0.0 && metric_value("quorate_wal_written_bytes_total") > 0.0);
}

fn kinds_of(text: &str) -> BTreeMap<String, String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

// Fails under: an undocumented metric, or a documented one that is missing.
#[tokio::test]
async fn d11_documented_and_served_metrics_match() {
    let otlp = Some(OtlpSettings::new("http://127.0.0.1:1"));
    let hub = TestHub::with_settings(Settings { otlp, ..Settings::default() }).await;
    let actual = kinds_of(&metrics(&hub, &hub.admin).await);
    let guide = include_str!("../../../../docs/guides/observability.md");
    let rows = guide.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        let name = cells.next()?.trim().trim_matches('`').to_owned();
        let kind = cells.next()?.trim().to_owned();
        ["counter", "gauge", "histogram"].contains(&kind.as_str()).then_some((name, kind))
    });
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), actual);
}

// Fails under: metrics of a space that are visible to another space or to agents.
#[tokio::test]
async fn i16_metrics_of_a_space_are_for_its_operators() {
    let hub = TestHub::new().await;
    hub.post(&hub.admin, "/v1/spaces", &json!({"name": "other"})).await.ok(201);
    let alice = hub.register("alice").await;
    hub.get(&alice, "/metrics").await.refused(403, "FORBIDDEN");
    hub.get("", "/metrics").await.refused(401, "UNAUTHENTICATED");
    let viewer = token_of(&hub, "viewer", "default").await;
    hub.get(&viewer, "/metrics").await.refused(403, "FORBIDDEN");
    let other_operator = token_of(&hub, "operator", "other").await;
    let before = metrics(&hub, &other_operator).await;
    hub.post(&alice, "/v1/messages", &json!({"to": "alice", "payload": 1})).await.ok(200);
    hub.get(&alice, "/v1/messages/none").await.refused(404, "NOT_FOUND");
    assert_eq!(metrics(&hub, &other_operator).await, before);
    assert!(!before.contains("quorate_syncs_total") && before.contains("messages_sent_total"));
    let operator = token_of(&hub, "operator", "default").await;
    assert!(metrics(&hub, &operator).await.contains("quorate_syncs_total"));
}

fn span_of<'a>(trace: &'a Value, action: &str) -> &'a Value {
    let spans = trace["spans"].as_array().expect("spans");
    spans.iter().find(|span| span["action"] == action).unwrap_or_else(|| panic!("no {action} in {trace}"))
}

/// Alice sends a message to bob within her own trace; bob sends one to carol in the same commit as his ack; carol
/// answers with the causation id only.
async fn conversation(hub: &TestHub) -> (String, String, String) {
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let carol = hub.register("carol").await;
    hub.put(&bob, "/v1/agents/bob", &json!({"name": "Bob the builder"})).await.ok(200);
    let request = hub.request(&alice, "POST", "/v1/messages").header("traceparent", GIVEN);
    hub.send(request, r#"{"to":"bob","action":"ask","payload":1}"#).await.ok(200);
    let delivery = claim(hub, &bob, "bob").await;
    let next = json!({"op": "send", "to": "carol", "action": "pass", "payload": 2});
    commit(hub, &bob, json!([ack(&delivery), next])).await;
    let delivery = claim(hub, &carol, "carol").await;
    let answer =
        json!({"to": "bob", "action": "answer", "inReplyTo": delivery["message"]["id"], "payload": 3});
    hub.post(&carol, "/v1/messages", &answer).await.ok(200);
    commit(hub, &carol, json!([ack(&delivery)])).await;
    (alice, bob, carol)
}

// Fails under: a parent that is not the previous message; a trace that ends at a commit or an answer.
#[tokio::test]
async fn d11_a_trace_continues_over_commits_and_answers() {
    let hub = TestHub::new().await;
    let (alice, bob, carol) = conversation(&hub).await;
    let delivery = claim(&hub, &bob, "bob").await;
    let response = delivery["message"]["traceparent"].as_str().expect("a context").to_owned();
    let trace = hub.get(&hub.admin, &format!("/v1/traces/{TRACE}")).await.ok(200);
    assert_eq!((trace["spans"].as_array().map(Vec::len), &trace["more"]), (Some(3), &json!(false)));
    let (ask, forward, answer) = (span_of(&trace, "ask"), span_of(&trace, "pass"), span_of(&trace, "answer"));
    assert_eq!(ask["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(forward["parentSpanId"], ask["spanId"]);
    assert_eq!(answer["parentSpanId"], forward["spanId"]);
    // The trace context delivered to bob continues from the answer itself.
    assert_eq!(response, format!("00-{TRACE}-{}-01", answer["spanId"].as_str().expect("an id")));
    assert_eq!((&ask["from"], &ask["to"], &ask["status"]), (&json!("alice"), &json!("bob"), &json!("ok")));
    assert_eq!(
        (&ask["deliveries"][0]["state"], &ask["deliveries"][0]["attempts"]),
        (&json!("acked"), &json!(1))
    );
    let events: Vec<_> = ask["logs"].as_array().expect("logs").iter().map(|log| &log["event"]).collect();
    assert_eq!(events, ["message_sent", "message_delivered", "message_acked"]);
    assert!(ask["endTime"].is_string() && answer["endTime"].is_null());
    // An agent sees the messages that it sent or received.
    let seen = hub.get(&alice, &format!("/v1/traces/{TRACE}")).await.ok(200);
    assert_eq!(seen["spans"].as_array().map(Vec::len), Some(1));
    let seen = hub.get(&carol, &format!("/v1/traces/{TRACE}")).await.ok(200);
    assert_eq!(seen["spans"].as_array().map(Vec::len), Some(2));
    let dave = hub.register("dave").await;
    hub.get(&dave, &format!("/v1/traces/{TRACE}")).await.refused(404, "NOT_FOUND");
    hub.get(&alice, "/v1/traces/nonsense").await.refused(400, "INVALID");
    let none = hub.get(&alice, &format!("/v1/traces/{}", "a".repeat(32))).await.refused(404, "NOT_FOUND");
    assert!(none["hint"].as_str().is_some_and(|hint| hint.contains("record")), "{none}");
}

// Fails under: a cause that is only resolved by message id; an unknown cause that hides the commit.
#[tokio::test]
async fn d11_a_trace_continues_from_a_message_by_client_id() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    let first = json!({"id": "my-1", "to": "alice", "action": "ask", "payload": 1, "traceparent": GIVEN});
    hub.post(&alice, "/v1/messages", &first).await.ok(200);
    for (field, action) in [("inReplyTo", "answer"), ("causationId", "pass")] {
        hub.post(
            &alice,
            "/v1/messages",
            &json!({"to": "alice", "action": action, field: "my-1", "payload": 2}),
        )
        .await
        .ok(200);
    }
    let delivery = claim(&hub, &alice, "alice").await;
    let step =
        json!({"op": "send", "to": "alice", "action": "step", "causationId": "ticket 17", "payload": 3});
    commit(&hub, &alice, json!([ack(&delivery), step])).await;
    let trace = hub.get(&hub.admin, &format!("/v1/traces/{TRACE}")).await.ok(200);
    for action in ["answer", "pass", "step"] {
        assert_eq!(span_of(&trace, action)["parentSpanId"], span_of(&trace, "ask")["spanId"], "{action}");
    }
}

// Fails under: a message without a trace, or with a trace that cannot be looked up.
#[tokio::test]
async fn d11_a_message_without_a_trace_starts_one() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    for traceparent in [Value::Null, json!("no trace at all")] {
        let message = json!({"to": "alice", "action": "go", "payload": 1, "traceparent": traceparent});
        hub.post(&alice, "/v1/messages", &message).await.ok(200);
        let response = claim(&hub, &alice, "alice").await["message"]["traceparent"].to_string();
        let parts: Vec<&str> = response.trim_matches('"').split('-').collect();
        let trace = hub.get(&alice, &format!("/v1/traces/{}", parts[1])).await.ok(200);
        let span = span_of(&trace, "go");
        assert_eq!((span["spanId"].as_str(), &span["parentSpanId"]), (Some(parts[2]), &Value::Null));
    }
}

// Fails under: a trace index that is empty after a restart.
#[tokio::test]
async fn d11_traces_survive_a_restart() {
    let mut hub = TestHub::new().await;
    conversation(&hub).await;
    let before = hub.get(&hub.admin, &format!("/v1/traces/{TRACE}")).await.ok(200);
    let [engine, private] = hub.app.engines_for_tests();
    hub.app = App::new(engine, private, Settings::default()).await.expect("an app");
    let after = hub.get(&hub.admin, &format!("/v1/traces/{TRACE}")).await.ok(200);
    assert_eq!(before["spans"], after["spans"]);
    // Earlier events are not counted as new ones.
    assert_has_line(&metrics(&hub, &hub.admin).await, "quorate_leases_total 0");
}

// Fails under: a fingerprint that includes the span of the request.
#[tokio::test]
async fn i3_a_repeated_send_can_have_another_span() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    let send = async |traceparent: &str| {
        let request = hub.request(&alice, "POST", "/v1/messages").header("traceparent", traceparent);
        hub.send(request.header("idempotency-key", "k"), r#"{"id":"m","to":"alice","payload":1}"#)
            .await
            .ok(200)
    };
    assert_eq!(send(GIVEN).await, send(&GIVEN.replace("b7-01", "b8-01")).await);
    let repeated =
        hub.post(&alice, "/v1/messages", &json!({"id": "m", "to": "alice", "payload": 1})).await.ok(200);
    assert_eq!(repeated["receipts"].as_array().map(Vec::len), Some(1));
}

// Fails under: records that are missing or out of order; export formats that differ from the documented ones.
#[tokio::test]
async fn d11_e9_b9_the_audit_log_in_four_formats() {
    let hub = TestHub::new().await;
    let (alice, _, _) = conversation(&hub).await;
    let get = async |query: &str| {
        let response = hub.get(&hub.admin, &format!("/v1/audit?{query}")).await;
        assert_eq!(response.status, 200, "{}", response.text);
        response.text
    };
    let lines: Vec<Value> =
        get("").await.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let checkpoint = hub.get(&hub.admin, "/v1/audit/checkpoint").await.ok(200);
    assert_eq!(lines.len() as u64, checkpoint["seq"].as_u64().expect("a number"));
    assert_eq!(lines.last().expect("a line")["hash"], checkpoint["hash"]);
    assert!(lines[0]["previous"].is_string() && lines[1]["previous"].is_null());
    let range = get("format=jsonl&from=3&limit=2").await;
    let range: Vec<Value> = range.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((range.len(), &range[0]["seq"], &range[0]["previous"]), (2, &json!(3), &lines[1]["hash"]));
    let text = get("format=text").await;
    let line = text.lines().find(|line| line.contains("[alice→bob]")).expect("the first message");
    assert!(line.starts_with("[20") && line.ends_with("] COMMAND: ask"), "{line}");
    assert!(text.contains("LOGGED: agent.registered"), "{text}");
    let decisions = get("format=decisions").await;
    let first: Value = serde_json::from_str(decisions.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["type"], &first["protocol"]), (&json!("agent_communication"), &json!("handoff")));
    assert_eq!(
        (&first["from"], &first["to"], &first["success"]),
        (&json!("alice"), &json!("bob"), &json!(true))
    );
    assert_eq!((&first["tokensTransferred"], &first["compressionRatio"]), (&json!(1), &json!(1.0)));
    let messages = get("format=messages").await;
    let first: Value = serde_json::from_str(messages.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["event"], &first["to"]), (&json!("message_delivered"), &json!("bob")));
    assert!(first["latencyMs"].is_u64() && first["messageId"].is_string(), "{first}");
    assert_eq!((messages.lines().count(), decisions.lines().count()), (2, 2));
    hub.get(&alice, "/v1/audit").await.refused(403, "FORBIDDEN");
    hub.get(&hub.admin, "/v1/audit?format=xml").await.refused(400, "INVALID");
    hub.get(&hub.admin, "/v1/audit?from=0").await.refused(400, "INVALID");
    let viewer = token_of(&hub, "viewer", "default").await;
    assert_eq!(hub.get(&viewer, "/v1/audit?format=text").await.status, 200);
}

// Fails under: a verification that ignores the checkpoint.
#[tokio::test]
async fn i17_the_chain_is_verified_while_the_hub_runs() {
    let hub = TestHub::new().await;
    conversation(&hub).await;
    let found = hub.get(&hub.admin, "/v1/audit/verify").await.ok(200);
    let checkpoint = hub.get(&hub.admin, "/v1/audit/checkpoint").await.ok(200);
    assert_eq!(
        (&found["ok"], &found["firstBad"], &found["next"]),
        (&json!(true), &Value::Null, &Value::Null)
    );
    assert_eq!(found["spaces"][0]["hash"], checkpoint["hash"]);
    let against = |seq: u64, hash: &str| format!("/v1/audit/verify?seq={seq}&hash={hash}");
    let (seq, hash) =
        (checkpoint["seq"].as_u64().expect("a number"), checkpoint["hash"].as_str().expect("hex"));
    assert_eq!(hub.get(&hub.admin, &against(seq, hash)).await.ok(200)["ok"], true);
    let other = hub.get(&hub.admin, &against(seq, &"0".repeat(64))).await.ok(200);
    assert_eq!((&other["ok"], &other["firstBad"]["damage"]), (&json!(false), &json!("forked")));
    let later = hub.get(&hub.admin, &against(seq + 9, hash)).await.ok(200);
    assert_eq!(later["firstBad"]["damage"], "truncated");
}

/// A collector on a real listener. Responds with these statuses, then with 200.
async fn collector(statuses: &'static [u16]) -> (String, mpsc::UnboundedReceiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut statuses = statuses.iter();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut received = Vec::new();
            let (head, body) = loop {
                let mut more = [0; 4096];
                let count = stream.read(&mut more).await.expect("bytes");
                assert!(count > 0, "the request is whole");
                received.extend_from_slice(&more[..count]);
                let text = String::from_utf8_lossy(&received).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    let length = head
                        .lines()
                        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                    if Some(body.len()) == length {
                        break (head.to_owned(), body.to_owned());
                    }
                }
            };
            let status = statuses.next().copied().unwrap_or(200);
            let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\n\r\n{{}}");
            stream.write_all(answer.as_bytes()).await.expect("written");
            let body = serde_json::from_str(&body).expect("JSON");
            if sender.send((head, body)).is_err() {
                return;
            }
        }
    });
    (endpoint, receiver)
}

fn spans_in(request: &Value) -> Vec<Value> {
    request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let attributes = span["attributes"].as_array().expect("attributes");
    let found = attributes
        .iter()
        .find(|attribute| attribute["key"] == key)
        .unwrap_or_else(|| panic!("no {key} in {span}"));
    &found["value"]
}

// Fails under: an exporter that exports nothing; wrong parents; a request that is lost while the collector is busy.
#[tokio::test]
async fn d11_spans_arrive_at_a_collector_with_their_parents() {
    let (endpoint, mut arrived) = collector(&[503]).await;
    let otlp = OtlpSettings {
        headers: vec![("api-key".into(), "k".into())],
        retry_after: Duration::from_millis(1),
        ..OtlpSettings::new(endpoint)
    };
    let hub = TestHub::with_settings(Settings { otlp: Some(otlp), ..Settings::default() }).await;
    conversation(&hub).await;
    hub.app.flush_telemetry().await;
    let (head, refused) = arrived.recv().await.expect("the first attempt");
    let head = head.to_lowercase();
    assert!(head.starts_with("post /v1/traces http/1.1") && head.contains("api-key: k"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    let (_, accepted) = arrived.recv().await.expect("the second attempt");
    assert_eq!(refused, accepted);
    let mut spans = spans_in(&accepted);
    while spans.len() < 4 {
        spans.extend(spans_in(&arrived.recv().await.expect("the rest").1));
    }
    let found = |kind: u8, action: &str| {
        let is = |span: &&Value| {
            span["kind"] == kind && attribute(span, "quorate.message.action")["stringValue"] == action
        };
        spans.iter().find(is).unwrap_or_else(|| panic!("no {kind} {action} in {spans:?}")).clone()
    };
    let (ask, process, forward) = (found(4, "ask"), found(5, "ask"), found(4, "pass"));
    assert!(spans.iter().all(|span| span["traceId"] == TRACE));
    assert_eq!(ask["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!((&process["parentSpanId"], &forward["parentSpanId"]), (&ask["spanId"], &ask["spanId"]));
    assert_eq!((&ask["name"], &process["name"]), (&json!("send bob"), &json!("process bob")));
    assert_eq!(attribute(&ask, "messaging.system")["stringValue"], "quorate");
    assert_eq!(attribute(&ask, "messaging.message.body.size")["intValue"], "1");
    assert_eq!(attribute(&process, "gen_ai.agent.id")["stringValue"], "bob");
    assert_eq!(attribute(&process, "gen_ai.agent.name")["stringValue"], "Bob the builder");
    assert_eq!(attribute(&process, "gen_ai.operation.name")["stringValue"], "invoke_agent");
    let nanos =
        |span: &Value, name: &str| -> u64 { span[name].as_str().expect("a text").parse().expect("a number") };
    assert!(nanos(&ask, "startTimeUnixNano") <= nanos(&process, "startTimeUnixNano"));
    assert!(nanos(&process, "endTimeUnixNano") <= nanos(&ask, "endTimeUnixNano"));
    let text = metrics(&hub, &hub.admin).await;
    assert_has_line(&text, "quorate_spans_exported_total 4");
    assert_has_line(&text, "quorate_span_export_failures_total 1");
    assert_has_line(&text, "quorate_spans_dropped_total 0");
}

// Fails under: a hub that blocks on its collector, or retries rejected spans forever.
#[tokio::test]
async fn i21_a_failing_collector_only_loses_spans() {
    let (endpoint, mut arrived) = collector(&[400; 9]).await;
    let hub =
        TestHub::with_settings(Settings { otlp: Some(OtlpSettings::new(endpoint)), ..Settings::default() })
            .await;
    conversation(&hub).await;
    hub.app.flush_telemetry().await;
    arrived.recv().await.expect("one attempt");
    let text = metrics(&hub, &hub.admin).await;
    assert_has_line(&text, "quorate_spans_dropped_total 4");
    assert_has_line(&text, "quorate_spans_exported_total 0");
}

#[tokio::test]
async fn the_hub_reports_readiness_and_statistics() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    assert_eq!((hub.get("", "/healthz").await.status, hub.get("", "/readyz").await.status), (200, 200));
    hub.post(&alice, "/v1/messages", &json!({"to": "alice", "priority": "urgent", "payload": 1}))
        .await
        .ok(200);
    let stats = hub.get(&hub.admin, "/v1/admin/stats").await.ok(200);
    assert_eq!((&stats["deliveries"]["ready"], &stats["tasks"]["ready"]), (&json!(1), &json!(0)));
    assert_eq!((&stats["queueDepth"]["urgent"], &stats["activeAgents"]), (&json!(1), &json!(1)));
    let info = hub.get(&alice, "/v1/info").await.ok(200);
    assert_eq!(
        (&info["you"]["principal"], &info["limits"]["jsonDepth"]),
        (&json!("agent:alice"), &json!(64))
    );
    let listening =
        quorate_server::Server::start(hub.app.clone(), "127.0.0.1:0".parse().expect("an address"), false);
    listening.await.expect("it listens").drain().await;
    hub.get("", "/readyz").await.refused(503, "UNAVAILABLE");
    assert_eq!(hub.get("", "/healthz").await.status, 200);
}
