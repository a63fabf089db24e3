//! Agents that use different dialects, over HTTP and real sockets.

use quorate_core::Policy;
use serde_json::{Value, json};

use crate::support::socket::TestServer;
use crate::support::{TestHub, TestResponse};

const YAML: (&str, &str) = ("content-type", "application/yaml");
const WANTS_YAML: (&str, &str) = ("accept", "application/yaml");

/// An example message of a seed.
macro_rules! seed {
    ($name:literal) => {
        include_str!(concat!("../seeds/", $name))
    };
}

async fn send(hub: &TestHub, token: &str, dialect: &str, message: &Value) -> TestResponse {
    hub.post(token, &format!("/v1/dialects/{dialect}/messages"), message).await
}

async fn send_yaml(hub: &TestHub, token: &str, text: &str) -> TestResponse {
    hub.with_headers(token, ("POST", "/v1/dialects/orchestrator/messages"), &[YAML], text).await
}

/// Claims all deliveries in this dialect.
async fn inbox(hub: &TestHub, token: &str, dialect: &str) -> Vec<Value> {
    let response = hub.get(token, &format!("/v1/dialects/{dialect}/inbox?max=16")).await.ok(200);
    response["deliveries"].as_array().expect("deliveries").clone()
}

fn list_length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

/// Claims the only delivery in this dialect.
async fn only_message(hub: &TestHub, token: &str, dialect: &str) -> Value {
    let mut all = inbox(hub, token, dialect).await;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)["message"].take()
}

#[tokio::test]
async fn a2_c7_a_finding_is_answered_in_another_dialect() {
    let hub = TestHub::new().await;
    let (analyst, supervisor) = (hub.register("clause_extractor").await, hub.register("coordinator").await);
    let finding: Value = serde_json::from_str(seed!("a2-finding.json")).expect("JSON");
    send(&hub, &analyst, "deliberation", &finding).await.ok(200);
    let received =
        hub.get(&supervisor, "/v1/dialects/coscientist/inbox?waitMs=1000&leaseMs=5000").await.ok(200);
    let delivery = &received["deliveries"][0];
    assert_eq!(
        delivery["message"],
        json!({
            "header": {
                "message_id": "finding-1", "source_agent": "clause_extractor", "target_agent": "coordinator",
                "timestamp": delivery["message"]["header"]["timestamp"], "message_type": "finding",
            },
            "payload": {
                "data": {
                    "summary": "Three clauses need work", "riskScore": 62, "criticalIssues": 2, "confidence": 0.85,
                },
                "metadata": {
                    "deliberation": {"timestamp": 1_770_595_200_000_u64},
                    "quorate": {"type": "event", "priority": "normal", "origin": "dialect:deliberation", "confidence": 0.85},
                },
            },
            "routing": {"priority": 5},
        })
    );
    // It is leased and acked like any other delivery.
    let lease = json!({"deliveries": [{
        "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"],
    }]});
    hub.post(&supervisor, "/v1/agents/coordinator/inbox/ack", &lease).await.ok(200);
    // The answer names the request, not the recipient.
    let answer = json!({
        "header": {"message_type": "clarification", "timestamp": "2026-02-09T10:00:00Z"},
        "payload": {
            "data": {"confidence": 0.9, "reasoning": "The second clause is void"},
            "metadata": {"quorate": {"inReplyTo": delivery["message"]["header"]["message_id"]}},
        },
        "routing": {"priority": 5},
    });
    send(&hub, &supervisor, "coscientist", &answer).await.ok(200);
    let received = only_message(&hub, &analyst, "deliberation").await;
    assert_eq!(
        (&received["messageType"], &received["replyTo"]),
        (&json!("clarification"), &json!("finding-1"))
    );
    assert_eq!(
        (&received["sender"], &received["recipients"]),
        (&json!("coordinator"), &json!(["clause_extractor"]))
    );
    assert_eq!(received["content"], r#"{"confidence":0.9,"reasoning":"The second clause is void"}"#);
}

#[tokio::test]
async fn b3_d4_a_query_is_a_request() {
    let hub = TestHub::new().await;
    let (front, back) = (hub.register("frontend-expert").await, hub.register("backend-expert").await);
    let question = json!({
        "to": "backend-expert", "type": "query", "action": "question", "timeoutMs": 5000,
        "payload": {"question": "What's the API endpoint schema for /users?", "urgency": "high"},
    });
    let answering = async {
        let claimed = hub.get(&back, "/v1/dialects/orchestrator/inbox?waitMs=5000").await.ok(200);
        let message = &claimed["deliveries"][0]["message"];
        assert_eq!(
            message["query"],
            json!({"question": "What's the API endpoint schema for /users?", "urgency": "high"})
        );
        let answer = json!({
            "to": "frontend-expert", "query_type": "response", "answer": {"schema": {"type": "object"}},
            "metadata": {"quorate": {"inReplyTo": message["id"]}},
        });
        send(&hub, &back, "orchestrator", &answer).await.ok(200);
    };
    let (answer, ()) = tokio::join!(hub.post(&front, "/v1/request", &question), answering);
    assert_eq!(answer.ok(200)["payload"], json!({"schema": {"type": "object"}}));
}

#[tokio::test]
async fn b1_b2_b3_the_examples_are_accepted_unchanged() {
    let hub = TestHub::new().await;
    let mut tokens = Vec::new();
    for id in ["task-lister", "task-decomposer", "orchestrator", "frontend-expert", "backend-expert"] {
        tokens.push(hub.register(id).await);
    }
    let [lister, decomposer, orchestrator, front, back] = tokens.as_slice() else { panic!("five") };
    send_yaml(&hub, lister, seed!("b1-handoff.yaml")).await.ok(200);
    let received = only_message(&hub, decomposer, "orchestrator").await;
    assert_eq!(received["context"]["key_findings"][1], "Task T2: Create endpoint (complexity: 25)");
    assert_eq!(
        (&received["handoff_type"], &received["state_snapshot"]),
        (&json!("sequential"), &json!("workflow_state.json"))
    );
    send_yaml(&hub, orchestrator, seed!("b2-broadcast.yaml")).await.ok(200);
    for token in [lister, decomposer, front, back] {
        let received = only_message(&hub, token, "orchestrator").await;
        assert_eq!(
            (&received["to"], &received["message"]["priority"]),
            (&json!(["all_active_agents"]), &json!("high"))
        );
    }
    // The document contains a request and its answer, from two agents: each of them sends its own message.
    let sent = send_yaml(&hub, front, seed!("b3-query.yaml")).await.ok(200);
    assert_eq!((list_length(&sent["receipts"]), list_length(&sent["skipped"])), (1, 1), "{sent}");
    assert_eq!(
        sent["skipped"][0],
        json!({
            "path": "response", "from": "backend-expert",
            "reason": "only backend-expert can send it: the access token is of frontend-expert",
        })
    );
    let (query, answer) = seed!("b3-query.yaml").split_once("\nresponse:").expect("two parts");
    // The answer alone is a document as well.
    let sent = send_yaml(&hub, back, &format!("response:{answer}")).await.ok(200);
    assert_eq!((list_length(&sent["receipts"]), sent.get("skipped")), (1, None));
    // An agent without a message of its own is refused, an operator may send all.
    let stranger = hub.register("stranger").await;
    send_yaml(&hub, &stranger, seed!("b3-query.yaml")).await.refused(403, "FORBIDDEN");
    send_yaml(&hub, back, query).await.refused(403, "FORBIDDEN");
    let sent = send_yaml(&hub, &hub.admin, seed!("b3-query.yaml")).await.ok(200);
    assert_eq!((list_length(&sent["receipts"]), sent.get("skipped")), (2, None));
    let received =
        hub.with_headers(back, ("GET", "/v1/dialects/orchestrator/inbox"), &[WANTS_YAML], "").await;
    assert!(received.text.contains("expected_format: OpenAPI schema\n"), "{}", received.text);
    assert!(received.text.contains("query_type: request\n"), "{}", received.text);
    let answers = inbox(&hub, front, "orchestrator").await;
    assert_eq!(answers.len(), 2, "one of each sender");
    assert_eq!(answers[0]["message"]["answer"]["additional_info"], "Auth required");
}

#[tokio::test]
async fn b9_a_log_line_is_forwarded() {
    let hub = TestHub::new().await;
    let (lister, decomposer) = (hub.register("task-lister").await, hub.register("task-decomposer").await);
    let line: Value = serde_json::from_str(seed!("b9-log.json")).expect("JSON");
    send(&hub, &lister, "orchestrator", &line).await.ok(200);
    let mut received = only_message(&hub, &decomposer, "orchestrator").await;
    let id = received.as_object_mut().expect("an object").remove("id");
    assert!(id.is_some_and(|id| id.as_str().is_some_and(|id| id.starts_with("msg_"))));
    assert_eq!(received, line);
}

#[tokio::test]
async fn d3_fragments_are_routed() {
    let hub = TestHub::new().await;
    let alice = hub.register("agent-coordinator").await;
    let bob = hub.register_with_capabilities("bob", &["analyze-document", "get-status"]).await;
    hub.register("agent-monitor").await;
    let fragment = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    for text in [seed!("d3-command.json"), seed!("d3-query.json"), seed!("d3-event.json")] {
        send(&hub, &alice, "native", &fragment(text)).await.ok(200);
    }
    let deliveries = inbox(&hub, &bob, "native").await;
    let seen: Vec<_> = deliveries
        .iter()
        .map(|delivery| (&delivery["message"]["to"], &delivery["message"]["type"]))
        .collect();
    for (to, kind) in [("can:analyze-document", "command"), ("can:get-status", "query"), ("*", "event")] {
        assert!(seen.contains(&(&json!(to), &json!(kind))), "{seen:?}");
    }
    let command =
        deliveries.iter().find(|delivery| delivery["message"]["type"] == "command").expect("the command");
    // An answer without a recipient is sent to the requester.
    let mut answer = fragment(seed!("d3-response.json"));
    send(&hub, &bob, "native", &answer).await.refused(400, "INVALID");
    answer["correlationId"] = command["message"]["id"].clone();
    send(&hub, &bob, "native", &answer).await.ok(200);
    let deliveries = inbox(&hub, &alice, "native").await;
    let answer =
        deliveries.iter().find(|delivery| delivery["message"]["type"] == "response").expect("the answer");
    assert_eq!(answer["message"]["inReplyTo"], command["message"]["id"]);
    assert_eq!(answer["message"]["priority"], 1);
    // An agent learns nothing about messages of others.
    let carol = hub.register("carol").await;
    let foreign = json!({"type": "response", "correlationId": command["message"]["id"], "payload": 1});
    send(&hub, &carol, "native", &foreign).await.refused(400, "INVALID");
}

#[tokio::test]
async fn d3_the_document_envelope_round_trips() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("agent-coordinator").await, hub.register("worker").await);
    let message: Value = serde_json::from_str(seed!("d3-message.json")).expect("JSON");
    send(&hub, &alice, "native", &message).await.ok(200);
    assert_eq!(only_message(&hub, &bob, "native").await, message);
}

#[tokio::test]
async fn c1_dialects_obey_the_policy() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    hub.put(&hub.admin, "/v1/agents/chief", &json!({"role": "coordinator"})).await.ok(201);
    hub.set_policy(Policy::supervised()).await;
    let messages = [
        ("deliberation", json!({"recipients": ["bob"], "messageType": "evidence", "content": "{}"})),
        (
            "deliberation",
            json!({"recipients": ["topic:x"], "messageType": "evidence", "content": "{}",
            "metadata": {"quorate": {"to": "bob"}}}),
        ),
        ("orchestrator", json!({"to_agent": "bob", "context": {}})),
        ("orchestrator", json!({"message": {"content": "x"}})),
        ("coscientist", json!({"header": {"target_agent": "broadcast"}})),
        (
            "coscientist",
            json!({"header": {"target_agent": "chief"}, "payload": {"metadata": {"quorate": {"to": ["bob"]}}}}),
        ),
        ("native", json!({"to": "bob"})),
    ];
    for (dialect, message) in messages {
        let refused = send(&hub, &alice, dialect, &message).await;
        let rule = refused.refused(403, "POLICY_VIOLATION")["rule"].take();
        assert!(rule == "supervised" || rule == "broadcast", "{rule} for {message}");
    }
    assert_eq!(inbox(&hub, &bob, "native").await, Vec::<Value>::new());
    // A message without a recipient is sent to the coordinators.
    send(&hub, &alice, "coscientist", &json!({"payload": {"data": 1}})).await.ok(200);
}

#[tokio::test]
async fn i3_the_same_key_or_id_sends_once() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let message = json!({"id": "m-1", "recipients": ["bob"], "messageType": "evidence", "content": "x", "timestamp": 1});
    let first = send(&hub, &alice, "deliberation", &message).await.ok(200);
    assert_eq!(send(&hub, &alice, "deliberation", &message).await.ok(200), first);
    let other = json!({"id": "m-1", "recipients": ["bob"], "messageType": "evidence", "content": "y"});
    send(&hub, &alice, "deliberation", &other).await.refused(409, "DUPLICATE");
    let keyed = json!({"header": {"target_agent": "bob"}, "payload": {"data": 1}});
    let path = "/v1/dialects/coscientist/messages";
    let first = hub.post_with_key(&alice, "k", path, &keyed).await.ok(200);
    assert_eq!(hub.post_with_key(&alice, "k", path, &keyed).await.ok(200), first);
    assert_eq!(inbox(&hub, &bob, "deliberation").await.len(), 2);
    // Clients cannot set ids in the format of the hub.
    let forged = json!({"id": "msg_0-1-0", "recipients": ["bob"], "messageType": "evidence", "content": "x"});
    send(&hub, &alice, "deliberation", &forged).await.refused(400, "INVALID");
}

#[tokio::test]
async fn i19_a_dialect_cannot_forge_a_sender() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let as_bob = [
        (
            "deliberation",
            json!({"sender": "bob", "recipients": ["alice"], "messageType": "evidence", "content": "x"}),
        ),
        ("orchestrator", json!({"from_agent": "bob", "to_agent": "alice", "context": {}})),
        ("coscientist", json!({"header": {"source_agent": "bob", "target_agent": "alice"}})),
        ("native", json!({"from": "bob", "to": "alice"})),
        ("native", json!({"to": "alice", "metadata": {"quorate": {"from": "bob"}}})),
    ];
    for (dialect, message) in as_bob {
        send(&hub, &alice, dialect, &message).await.refused(403, "FORBIDDEN");
    }
    hub.get(&alice, "/v1/dialects/native/inbox?agent=bob").await.refused(403, "FORBIDDEN");
    hub.get("", "/v1/dialects/native/inbox").await.refused(401, "UNAUTHENTICATED");
    // Metadata of a dialect cannot be used to forge a sender or a payload.
    let forged = json!({"to": "bob", "payload": "true", "metadata": {"deliberation": {
        "sender": "chief", "content": "false", "round": "two", "messageType": "finding", "timestamp": "now",
    }}});
    hub.post(&alice, "/v1/messages", &forged).await.ok(200);
    let received = only_message(&hub, &bob, "deliberation").await;
    assert_eq!(
        (&received["sender"], &received["content"], &received["round"]),
        (&json!("alice"), &json!("\"true\""), &json!(1))
    );
    assert!(received["timestamp"].is_u64());
}

#[tokio::test]
async fn invalid_messages_are_rejected_with_their_path() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    let detail = |answer: TestResponse| {
        answer.refused(400, "INVALID")["detail"].as_str().expect("a detail").to_owned()
    };
    let valid = json!({"recipients": ["alice"], "messageType": "finding", "content": "x"});
    let invalid =
        json!({"recipients": ["alice"], "messageType": "finding", "content": "{\"confidence\": 7}"});
    let refused = send(&hub, &alice, "deliberation", &json!([valid, invalid])).await;
    assert_eq!(detail(refused), "[1].content.confidence: 7 is not between 0 and 1");
    assert_eq!(inbox(&hub, &alice, "deliberation").await.len(), 0, "all or nothing");
    let refused =
        send_yaml(&hub, &alice, "- context: {}\n  to_agent: alice\n- query:\n    urgency: low\n").await;
    assert_eq!(detail(refused), "line 4, column 5: [1].query.question: missing field");
    let refused = send_yaml(&hub, &alice, "structure:\n  context:\n    summary: [1]\n").await;
    assert_eq!(detail(refused), "line 3, column 14: structure.context.summary: [1] is not a string");
    let ghost = json!({"messageType": "finding", "content": "x", "replyTo": "ghost"});
    let refused = detail(send(&hub, &alice, "deliberation", &json!([valid, ghost])).await);
    assert!(refused.starts_with("[1].replyTo: \"ghost\" is not a message"), "{refused}");
    for (field, value) in [("correlationId", "ghost"), ("inReplyTo", "msg_0-99-0")] {
        let answer = json!({"type": "response", "payload": 1, field: value});
        let refused = detail(send(&hub, &alice, "native", &answer).await);
        assert!(refused.starts_with(&format!("{field}: \"{value}\" is not a message")), "{refused}");
    }
    let no_recipient = json!({"type": "response", "payload": 1});
    assert_eq!(detail(send(&hub, &alice, "native", &no_recipient).await), "the message has no recipient");
    for document in ["a: &a [1]\nb: *a\n", "a: 1\n---\nb: 2\n"] {
        let response = send_yaml(&hub, &alice, document).await.refused(400, "INVALID");
        assert_eq!(response.get("limit"), None, "{response}");
    }
    let nested = format!("a: {}1{}", "[".repeat(30), "]".repeat(30));
    let response = send_yaml(&hub, &alice, &nested).await.refused(429, "LIMIT_EXCEEDED");
    assert_eq!((&response["limit"], &response["retryable"]), (&json!(24), &json!(false)));
    let yaml = hub.with_headers(&alice, ("POST", "/v1/dialects/native/messages"), &[YAML], "to: alice").await;
    yaml.refused(400, "INVALID");
    send(&hub, &alice, "klingon", &valid).await.refused(404, "NOT_FOUND");
    hub.get(&alice, "/v1/dialects/native/inbox?colour=1").await.refused(400, "INVALID");
    hub.get(&hub.admin, "/v1/dialects/native/inbox").await.refused(400, "INVALID");
    let key = format!("AKIA{}", "Q3EGRIJ5KJFOQ2LM");
    let secret = json!({"recipients": ["alice"], "messageType": "finding", "content": key});
    send(&hub, &alice, "deliberation", &secret).await.refused(422, "SECRET_DETECTED");
    let escaped = format!(r#"{{"to":"alice","type":"event","payload":"\u201c{key}\u001b[0m"}}"#);
    let response = hub.send_text(&alice, "POST", "/v1/dialects/native/messages", &escaped).await;
    response.refused(422, "SECRET_DETECTED");
}

#[tokio::test]
async fn a_payload_is_returned_byte_for_byte_in_every_dialect() {
    const JSON: &str = r#"{"b":1.50e0,  "a":"\u00e9", "b":2}"#;
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    for dialect in ["coscientist", "native"] {
        let text = format!(r#"{{"to":"alice","payload":{JSON}}}"#);
        hub.send_text(&alice, "POST", "/v1/messages", &text).await.ok(200);
        let response = hub.get(&alice, &format!("/v1/dialects/{dialect}/inbox")).await;
        assert!(response.text.contains(JSON), "{}", response.text);
    }
    // From a string inside a string to a payload.
    let content = serde_json::to_string(JSON).expect("JSON");
    let text = format!(r#"{{"recipients":["alice"],"messageType":"evidence","content":{content}}}"#);
    hub.send_text(&alice, "POST", "/v1/dialects/deliberation/messages", &text).await.ok(200);
    let response = hub.post(&alice, "/v1/agents/alice/inbox/claim", &json!({})).await;
    assert!(response.text.contains(&format!("\"payload\":{JSON}")), "{}", response.text);
}

#[tokio::test]
async fn a2_b2_over_real_sockets() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let server = TestServer::new().await;
    let (alice, bob) = (server.hub.register("alice").await, server.hub.register("bob").await);
    let call = async |token: &str, line: &str, kind: &str, body: &str| {
        let mut stream = tokio::net::TcpStream::connect(server.address()).await.expect("a connection");
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: {kind}\r\n\
             Accept: {kind}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            server.address(),
            body.len(),
        );
        stream.write_all(request.as_bytes()).await.expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        answer
    };
    // Bob waits before the first message.
    let waiting = call(&bob, "GET /v1/dialects/deliberation/inbox?waitMs=10000", "application/json", "");
    let sending = call(
        &alice,
        "POST /v1/dialects/orchestrator/messages",
        "application/yaml",
        "broadcast_type: abort_signal\nmessage:\n  content: Stop\n  priority: high\n",
    );
    let (response, receipt) = tokio::join!(waiting, sending);
    assert!(
        receipt.contains("content-type: application/yaml") && receipt.contains("receipts:\n"),
        "{receipt}"
    );
    assert!(response.contains("cache-control: no-store"), "{response}");
    let (_, body) = response.split_once("\r\n\r\n").expect("a body");
    let response: Value = serde_json::from_str(body).expect("JSON");
    let message = &response["deliveries"][0]["message"];
    assert_eq!((&message["messageType"], &message["sender"]), (&json!("evidence"), &json!("alice")));
    assert_eq!(message["metadata"]["quorate"]["action"], "abort_signal");
    assert_eq!(message["metadata"]["quorate"]["priority"], "high");
}

#[tokio::test]
async fn c7_a_context_entry_in_its_own_format() {
    let hub = TestHub::new().await;
    let (writer, other) = (hub.register("generation").await, hub.register("reflection").await);
    let mut entry: Value = serde_json::from_str(seed!("c7-entry.json")).expect("JSON");
    let path = format!("/v1/dialects/coscientist/entries/{}", entry["entry_id"].as_str().expect("an id"));
    let times = |mut entry: Value, from: &Value| {
        for name in ["created_at", "updated_at"] {
            assert!(entry[name].is_string());
            entry[name] = from[name].clone();
        }
        entry
    };
    hub.put(&other, &path, &entry).await.refused(403, "FORBIDDEN");
    let created = hub.put(&writer, &path, &entry).await.ok(201);
    entry["updated_by"] = json!("generation");
    assert_eq!(times(created, &entry), entry);
    // The version is the one to be written: a second version 1 is rejected, version 2 is accepted.
    hub.put(&writer, &path, &entry).await.refused(409, "VERSION_CONFLICT");
    // C3: `agent_id` stays the creator, regardless of the writer.
    entry["version"] = json!(2);
    entry["content"] = json!({"text": "Or protein C", "score": 1.50});
    let changed = hub.put(&other, &path, &entry).await.ok(200);
    entry["updated_by"] = json!("reflection");
    assert_eq!(times(changed.clone(), &entry), entry);
    assert_eq!(changed["agent_id"], "generation");
    let forged = json!({"agent_id": "supervisor", "content": 1});
    hub.put(&other, &path, &forged).await.refused(403, "FORBIDDEN");
    assert!(changed["created_at"].as_str() <= changed["updated_at"].as_str());
    assert_eq!(hub.get(&writer, &path).await.ok(200), changed);
    // It is the same shared memory.
    let key = entry["entry_id"].as_str().expect("an id");
    let native = hub.get(&writer, &format!("/v1/context/{key}")).await.ok(200);
    assert_eq!((&native["type"], &native["author"]), (&json!("hypothesis"), &json!("agent:reflection")));
    entry["colour"] = json!(1);
    let refused = hub.put(&other, &path, &entry).await.refused(400, "INVALID");
    assert_eq!(refused["detail"], "colour: unknown field");
    hub.get(&writer, "/v1/dialects/coscientist/entries/none").await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn b4_the_shared_state_of_a_task() {
    let hub = TestHub::new().await;
    let (back, front) = (hub.register("backend-expert").await, hub.register("frontend-expert").await);
    let path = "/v1/sessions/task_abc123/state";
    hub.get(&back, path).await.refused(404, "NOT_FOUND");
    let mut state: Value = serde_json::from_str(seed!("b4-state.json")).expect("JSON");
    assert_eq!(hub.put(&back, path, &state).await.ok(200), state);
    assert_eq!(hub.get(&front, path).await.ok(200), state);
    // It is a regular session.
    let session = hub.get(&front, "/v1/sessions/task_abc123").await.ok(200);
    assert_eq!(
        (&session["title"], &session["added"]["decision"]),
        (&json!("Implement user authentication"), &json!(1))
    );
    let note = json!({"kind": "note", "body": "Tokens last an hour"});
    hub.post(&front, "/v1/sessions/task_abc123/add", &note).await.ok(201);
    // A change needs the ETag of the state that was read; concurrent writes are tested in `shared_state.rs`.
    state["currentPhase"] = json!("5b");
    hub.put(&back, path, &state).await.refused(428, "VERSION_CONFLICT");
    state["currentPhase"] = json!(5);
    state["sharedContext"]["notes"] = json!(["Tokens last an hour"]);
    state["sharedContext"]["blockers"] = json!([{"what": "No test data", "by": "backend-expert"}]);
    state["agentStates"]["frontend-expert"]["note"] = json!("almost there");
    assert_eq!(hub.put(&back, path, &state).await.ok(200), state);
    assert_eq!(hub.get(&front, path).await.ok(200), state);
    let invalid = json!({"sharedContext": {"blockers": {}}});
    let refused = hub.put(&back, path, &invalid).await.refused(400, "INVALID");
    assert_eq!(refused["detail"], "sharedContext.blockers: not a list");
}

// Fails under: a session JSON that is refused; one that is returned without its entries, times or messages.
#[tokio::test]
async fn d9_a_session_is_written_and_read_as_one_document() {
    let hub = TestHub::new().await;
    let (lead, analyzer) = (hub.register("agent-coordinator").await, hub.register("analyzer").await);
    let path = "/v1/sessions/session_1/document";
    let seed: Value = serde_json::from_str(seed!("d9-session.json")).expect("JSON");
    let written = hub.put(&lead, path, &seed).await.ok(200);
    for field in ["id", "coordinator", "participants", "status"] {
        assert_eq!(written[field], seed[field], "{field}");
    }
    assert_eq!(written["context"]["task"], seed["context"]["task"]);
    assert_eq!((&written["messageLog"], list_length(&written["context"]["findings"])), (&json!([]), 2));
    let (decision, finding) = (&written["context"]["decisions"][0], &written["context"]["findings"][1]);
    assert_eq!(
        (&decision["by"], &decision["rationale"]),
        (&json!("analyzer"), &json!("Human readable requirement"))
    );
    assert_eq!(
        (&finding["finding"], &finding["by"], &finding["timestamp"]),
        (&json!("The annex is missing"), &json!("agent-coordinator"), &written["startedAt"])
    );
    let session = hub.get(&lead, "/v1/sessions/session_1").await.ok(200);
    assert_eq!((&session["openedAt"], &session["added"]["decision"]), (&written["startedAt"], &json!(1)));
    // What was sent, and what was returned, is already in the session.
    assert_eq!(hub.put(&lead, path, &seed).await.ok(200), written);
    assert_eq!(hub.put(&lead, path, &written).await.ok(200), written);

    let message = json!({"to": "analyzer", "action": "analyze-document", "sessionId": "session_1", "payload": {"a": 1}});
    let sent = hub.post(&lead, "/v1/messages", &message).await.ok(200);
    hub.register("reader").await;
    let more = json!({
        "participants": ["reader"], "status": "paused",
        "context": {"decisions": [{"decision": "Use JSON after all"}, {"decision": "Use JSON after all"}]},
    });
    let changed = hub.put(&lead, path, &more).await.ok(200);
    assert_eq!(list_length(&changed["context"]["decisions"]), 3, "equal entries are entries of their own");
    assert_eq!(changed["participants"], json!(["agent-coordinator", "analyzer", "reader"]));
    assert_eq!(changed["status"], "paused");
    let logged = &changed["messageLog"][0];
    assert_eq!(
        (&logged["id"], &logged["type"], &logged["action"]),
        (&sent["receipts"][0]["id"], &json!("command"), &json!("analyze-document"))
    );
    assert_eq!(
        (&logged["from"], &logged["to"], logged.get("payload")),
        (&json!("agent-coordinator"), &json!("analyzer"), None)
    );
    assert_eq!(hub.get(&analyzer, path).await.ok(200), changed);
    let stranger = hub.register("stranger").await;
    let public = hub.get(&stranger, path).await.ok(200);
    assert_eq!((&public["messageLog"], &public["context"]), (&json!([]), &changed["context"]));
    let finding = json!({"context": {"findings": [{"summary": "not mine"}]}});
    hub.put(&stranger, path, &finding).await.refused(403, "FORBIDDEN");
    let closed = hub.put(&lead, path, &json!({"status": "completed"})).await.ok(200);
    assert_eq!(closed["status"], "completed");
    hub.put(&lead, path, &json!({"context": {"findings": [1]}})).await.refused(409, "SESSION_CLOSED");
}

#[tokio::test]
async fn d9_an_invalid_session_document_is_refused_with_its_path() {
    let hub = TestHub::new().await;
    let lead = hub.register("lead").await;
    let path = "/v1/sessions/s1/document";
    let refused = async |document: Value| {
        let refused = hub.put(&lead, path, &document).await.refused(400, "INVALID");
        refused["detail"].as_str().expect("a detail").to_owned()
    };
    for (document, field) in [
        (json!({"id": "s2"}), "id"),
        (json!({"status": "done"}), "status"),
        (json!({"startedAt": "yesterday"}), "startedAt"),
        (json!({"messageLog": {}}), "messageLog"),
        (json!({"context": {"decisions": 1}}), "context.decisions"),
        (json!({"participants": [""]}), "participants[0]"),
        (json!({"context": {"blockers": []}}), "context.blockers"),
    ] {
        let detail = refused(document).await;
        assert!(detail.starts_with(&format!("{field}: ")), "{field}: {detail}");
    }
    hub.put(&lead, path, &json!({"context": {"task": "a"}})).await.ok(200);
    for document in [json!({"context": {"task": "b"}}), json!({"coordinator": "other"})] {
        hub.put(&lead, path, &document).await.refused(409, "CONFLICT");
    }
}
