//! Webhooks: signed events, received once and checked like any other message.

use hmac::{Hmac, KeyInit as _, Mac as _};
use quorate_core::{Policy, SpaceName};
use quorate_server::{Limits, Rate, Settings, Webhook, Webhooks};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::raw_http::{call, connect_plain, format_request};
use crate::support::socket::TestServer;
use crate::support::{TestHub, TestResponse};

const SECRET: &str = "a secret that only GitHub has";
const PUSH: &str = r#"{"ref": "refs/heads/main",  "size": 1.0, "é": "\u00e9"}"#;

fn webhook(name: &str, to: &str, secret: &str) -> Webhook {
    Webhook::new(name, to.parse().expect("a destination"), secret.into()).expect("a webhook")
}

fn settings(list: Vec<Webhook>) -> Settings {
    Settings { webhooks: Webhooks::new(list).expect("webhooks"), ..Settings::default() }
}

/// A hub with bob, who receives GitHub events.
async fn with_bob() -> (TestHub, String) {
    let other = "another secret of another one";
    let hub = TestHub::with_settings(settings(vec![
        webhook("github", "bob", SECRET),
        webhook("gitlab", "topic:forge", other),
        webhook("lost", "unknown", SECRET),
    ]));
    let hub = hub.await;
    let bob = hub.register("bob").await;
    (hub, bob)
}

fn signed(secret: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
    mac.update(body.as_bytes());
    let code = mac.finalize().into_bytes();
    format!("sha256={}", quorate_core::hex::encode(&code))
}

/// Sends an unauthenticated event to `/v1/webhooks/NAME` with these headers.
async fn event(hub: &TestHub, name: &str, headers: &[(&str, &str)], body: &str) -> TestResponse {
    hub.with_headers("", ("POST", &format!("/v1/webhooks/{name}")), headers, body).await
}

/// Sends an event with a GitHub signature.
async fn pushed(hub: &TestHub, headers: &[(&str, &str)], body: &str) -> TestResponse {
    let signature = signed(SECRET, body);
    let mut all = vec![("x-hub-signature-256", signature.as_str())];
    all.extend(headers);
    event(hub, "github", &all, body).await
}

async fn claimed(hub: &TestHub, token: &str, agent: &str) -> (Vec<Value>, String) {
    let response = hub.post(token, &format!("/v1/agents/{agent}/inbox/claim"), &json!({"max": 100})).await;
    let all = response.ok(200)["deliveries"].as_array().expect("deliveries").clone();
    (all.into_iter().map(|delivery| delivery["message"].clone()).collect(), response.text)
}

// Fails under: a payload that is re-encoded; a sender other than the hub; a response that reveals the recipients.
#[tokio::test]
async fn e1_a_signed_event_is_one_message_byte_for_byte() {
    let (hub, bob) = with_bob().await;
    let response =
        pushed(&hub, &[("x-github-event", "push"), ("x-github-delivery", "d-1")], PUSH).await.ok(202);
    assert_eq!(response.as_object().expect("an object").keys().collect::<Vec<_>>(), ["id", "seq"]);
    let (messages, text) = claimed(&hub, &bob, "bob").await;
    let [message] = messages.as_slice() else { panic!("{text}") };
    assert!(text.contains(PUSH), "byte for byte: {text}");
    let fields = ["id", "from", "type", "action", "origin", "durability"].map(|name| &message[name]);
    let expected = [
        response["id"].clone(),
        json!(null),
        json!("event"),
        json!("webhook.push"),
        json!("webhook:github"),
        json!("durable"),
    ];
    assert_eq!(fields, expected.each_ref());
    let audit = hub.get(&hub.admin, "/v1/audit").await.text;
    let line = audit.lines().find(|line| line.contains("webhook.push")).expect("it is on record");
    assert!(line.contains(r#""principal":"system""#), "{line}");
}

// Fails under: a key that is shared by webhooks; a key that is ignored; a fingerprint of the operations, which would
// reject a redelivered event after the destination was changed.
#[tokio::test]
async fn i3_a_redelivered_event_is_one_message() {
    let (hub, bob) = with_bob().await;
    let id = &[("x-github-event", "push"), ("x-github-delivery", "d-1")];
    let first = pushed(&hub, id, PUSH).await;
    assert_eq!(first.ok(202), pushed(&hub, id, PUSH).await.ok(202));
    pushed(&hub, id, "{}").await.refused(409, "DUPLICATE");
    pushed(&hub, &[("x-github-event", "fork"), id[1]], PUSH).await.refused(409, "DUPLICATE");
    // The same id from another webhook or an authenticated caller is another event.
    let signature = signed("another secret of another one", "{}");
    let headers = [("x-hub-signature-256", signature.as_str()), ("x-github-delivery", "d-1")];
    event(&hub, "gitlab", &headers, "{}").await.ok(202);
    hub.post_with_key(&hub.admin, "d-1", "/v1/messages", &json!({"to": "bob", "payload": 1})).await.ok(200);
    // Whichever header contains it.
    for header in ["x-quorate-delivery", "idempotency-key"] {
        let response = pushed(&hub, &[(header, header)], "[]").await.ok(202);
        assert_eq!(pushed(&hub, &[(header, header)], "[]").await.ok(202), response);
    }
    // Without an id each event is distinct.
    pushed(&hub, &[], "[1]").await.ok(202);
    pushed(&hub, &[], "[1]").await.ok(202);
    let (messages, _) = claimed(&hub, &bob, "bob").await;
    let payloads: Vec<_> = messages.iter().map(|message| message["payload"].to_string()).collect();
    assert_eq!(payloads[1..], ["1", "[]", "[]", "[1]", "[1]"]);
    assert_eq!(messages[2]["action"], "webhook", "the kind is not stated");
}

// Fails under: a different response for an unknown name; a signature that is verified before the name; a token that
// is accepted.
#[tokio::test]
async fn i18_a_wrong_signature_and_an_unknown_name_are_indistinguishable() {
    let (hub, bob) = with_bob().await;
    let valid = signed(SECRET, PUSH);
    let invalid = signed("not the secret", PUSH);
    let mut response = Vec::new();
    for name in ["github", "unknown", "..%2f", &"x".repeat(200)] {
        response.push(event(&hub, name, &[("x-hub-signature-256", &invalid)], PUSH).await);
        response.push(event(&hub, name, &[], PUSH).await);
        response.push(event(&hub, name, &[("x-hub-signature-256", "sha256=nonsense")], PUSH).await);
        response.push(
            event(&hub, name, &[("x-hub-signature-256", &invalid), ("x-github-event", "no word")], "no JSON")
                .await,
        );
    }
    response.push(event(&hub, "unknown", &[("x-hub-signature-256", &valid)], PUSH).await);
    response.push(event(&hub, "gitlab", &[("x-hub-signature-256", &valid)], PUSH).await);
    let twice = [("x-hub-signature-256", valid.as_str()), ("x-hub-signature-256", &invalid)];
    response.push(event(&hub, "github", &twice, PUSH).await);
    response.push(hub.send_text(&hub.admin, "POST", "/v1/webhooks/github", PUSH).await);
    for other in &response {
        other.refused(401, "UNAUTHENTICATED");
        assert_eq!(other.text, response[0].text);
    }
    assert!(claimed(&hub, &bob, "bob").await.0.is_empty());
}

// Fails under: an event that bypasses the checks of messages.
#[tokio::test]
async fn e1_rejections_are_returned_to_the_signer() {
    let (hub, bob) = with_bob().await;
    for body in ["", "nonsense", "{\"a\":", "payload=%7B%7D", "\"\\ud800\""] {
        pushed(&hub, &[], body).await.refused(400, "INVALID");
    }
    let nested = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    pushed(&hub, &[], &nested).await.refused(429, "LIMIT_EXCEEDED");
    let large = format!("\"{}\"", "x".repeat(512 * 1024));
    let response = pushed(&hub, &[], &large).await.refused(413, "TOO_LARGE");
    assert_eq!(response["limit"], 512 * 1024);
    let secret = json!({"key": format!("AKIA{}", "IOSFODNN7QRTZWX2")}).to_string();
    let response = pushed(&hub, &[], &secret).await.refused(422, "SECRET_DETECTED");
    assert!(!response.to_string().contains("IOSFODNN7"), "{response}");
    let escaped = format!(r#"{{"key":"\u201cAKIA{}\u001b[0m"}}"#, "IOSFODNN7QRTZWX2");
    pushed(&hub, &[], &escaped).await.refused(422, "SECRET_DETECTED");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let response = pushed(&hub, &form, "payload=%7B%7D").await.refused(400, "INVALID");
    assert!(response["hint"].as_str().is_some_and(|hint| hint.contains("application/json")), "{response}");
    for headers in [
        [("x-github-event", "two words")],
        [("x-quorate-event", "")],
        [("x-github-delivery", "")],
        [("x-quorate-delivery", "é")],
    ] {
        pushed(&hub, &headers, "{}").await.refused(400, "INVALID");
    }
    let signature = signed(SECRET, "{}");
    event(&hub, "lost", &[("x-hub-signature-256", &signature)], "{}").await.refused(404, "UNKNOWN_RECIPIENT");
    hub.set_policy(Policy { payload_bytes_max: 10, ..Policy::default() }).await;
    let response = pushed(&hub, &[], "[1,2,3,4,5,6]").await.refused(413, "TOO_LARGE");
    assert_eq!(response["rule"], "payloadBytesMax");
    assert!(claimed(&hub, &bob, "bob").await.0.is_empty());
    hub.get("", "/v1/webhooks/github").await.refused(405, "INVALID");
}

// Fails under: a webhook that always uses the default space; a misspelled space that is created.
#[tokio::test]
async fn i16_an_event_goes_to_its_own_space() {
    let hub = TestHub::new().await;
    hub.post(&hub.admin, "/v1/spaces", &json!({"name": "team"})).await.ok(201);
    let [engine, private] = hub.app.engines_for_tests();
    let to_space = |name: &str| {
        let webhook = webhook("github", "bob", SECRET).in_space(SpaceName::new(name).expect("a name"));
        quorate_server::App::new(engine.clone(), private.clone(), settings(vec![webhook]))
    };
    let refused = to_space("nowhere").await.err().expect("there is no such space");
    assert!(refused.to_string().contains("nowhere"), "{refused}");
    let team_bob = hub.register_in("team", "bob").await;
    let default_bob = hub.register("bob").await;
    let mut hub = hub;
    hub.app = to_space("team").await.expect("an app");
    pushed(&hub, &[], PUSH).await.ok(202);
    assert_eq!(claimed(&hub, &team_bob, "bob").await.0.len(), 1);
    assert!(claimed(&hub, &default_bob, "bob").await.0.is_empty());
}

// Fails under: failures that are not counted, or that block valid senders: GitHub shares its addresses.
#[tokio::test]
async fn i21_wrong_signatures_are_counted_by_address_over_a_real_socket() {
    let limits = Limits { failures: Rate { per_second: 1, burst: 3 }, ..Limits::default() };
    let settings = Settings {
        limits,
        hosts: vec!["hub.example".into()],
        ..settings(vec![webhook("github", "bob", SECRET)])
    };
    let server = TestServer::start(TestHub::with_settings(settings).await).await;
    let bob = server.hub.register("bob").await;
    let mut wire = connect_plain(server.address()).await;
    let head = |host: &str, signature: &str| {
        format!(
            "host: {host}\r\nuser-agent: GitHub-Hookshot/044aadd\r\ncontent-type: application/json\r\n\
             x-github-event: push\r\nx-github-delivery: d-1\r\nx-hub-signature-256: {signature}\r\n"
        )
    };
    let bytes =
        |host, signature: &str| format_request("POST", "/v1/webhooks/github", &head(host, signature), PUSH);
    let invalid = signed("not the secret", PUSH);
    for _ in 0..3 {
        call(&mut wire, &bytes("localhost", &invalid)).await.refused(401, "UNAUTHENTICATED");
    }
    let response = call(&mut wire, &bytes("localhost", &invalid)).await.refused(429, "LIMIT_EXCEEDED");
    assert!(response["retryAfterMs"].as_u64().is_some_and(|ms| ms > 0), "{response}");
    let valid = signed(SECRET, PUSH);
    call(&mut wire, &bytes("evil.example", &valid)).await.refused(403, "FORBIDDEN");
    assert_eq!(call(&mut wire, &bytes("hub.example", &valid)).await.status, 202);
    let (messages, text) = claimed(&server.hub, &bob, "bob").await;
    assert!(messages.len() == 1 && text.contains(PUSH), "{text}");
}
