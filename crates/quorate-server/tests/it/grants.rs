//! Grants of access tokens: what an agent may register and claim over HTTP and WebSocket.

use quorate_core::Policy;
use serde_json::{Value, json};

use crate::support::TestHub;
use crate::support::socket::TestServer;

const BOB: &str = "/v1/agents/bob";

/// Creates a token of an agent with these grants.
async fn token_of(hub: &TestHub, agent: &str, grants: Value) -> String {
    let new = json!({"role": "agent", "agent": agent, "name": "granted", "grants": grants});
    let created = hub.post(&hub.admin, "/v1/tokens", &new).await.ok(201);
    created["token"].as_str().expect("a token").to_owned()
}

fn hint(problem: &Value) -> &str {
    problem["hint"].as_str().expect("a hint")
}

// Fails under: a commit of the server that does not name the token of the agent.
#[tokio::test]
async fn i19_an_agent_cannot_promote_itself() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let promotion = json!({"role": "coordinator", "capabilities": ["deploy"]});
    let refused = hub.put(&bob, BOB, &promotion).await.refused(403, "FORBIDDEN");
    assert_eq!((&refused["rule"], &refused["place"]), (&json!("grants"), &json!("role")), "{refused}");
    let command = "quorate token create --role agent --agent bob --name NAME --grant-role coordinator";
    assert!(hint(&refused).contains(command), "{refused}");
    let register = json!({"op": "agent.register", "agent": "bob", "role": "coordinator"});
    let commit = json!({"ops": [register]});
    hub.post(&bob, "/v1/commit", &commit).await.refused(403, "FORBIDDEN");
    hub.post_with_key(&bob, "k", "/v1/commit", &commit).await.refused(403, "FORBIDDEN");
    hub.put_with_key(&bob, "k", BOB, &promotion).await.refused(403, "FORBIDDEN");
    let to_coordinators = json!({"to": "role:coordinator", "payload": 1});
    hub.post(&alice, "/v1/messages", &to_coordinators).await.refused(404, "UNKNOWN_RECIPIENT");

    // A mesh grants any capability, and an admin registers coordinators.
    hub.put(&bob, BOB, &json!({"role": "specialist", "capabilities": ["deploy"]})).await.ok(200);
    hub.put(&hub.admin, BOB, &promotion).await.ok(200);
    hub.put(&bob, BOB, &promotion).await.ok(200);
    hub.post(&alice, "/v1/messages", &to_coordinators).await.ok(200);
    let leader = hub.put(&hub.admin, "/v1/agents/leader", &json!({"role": "coordinator"})).await.ok(201);
    let leader = leader["token"].as_str().expect("a token").to_owned();
    for role in ["worker", "coordinator"] {
        hub.put(&leader, "/v1/agents/leader", &json!({"role": role})).await.ok(200);
    }
    let violations = hub.get(&hub.admin, "/v1/violations").await.ok(200);
    let first = &violations["violations"][0];
    assert_eq!(
        (&first["rule"], &first["principal"]),
        (&json!("grants"), &json!("agent:bob")),
        "{violations}"
    );
}

// Fails under: a claim without or with a key that does not name the token of the agent.
#[tokio::test]
async fn i19_an_agent_claims_only_granted_task_types() {
    let hub = TestHub::new().await;
    hub.register("bob").await;
    let bob = token_of(&hub, "bob", json!({"capabilities": ["sum"]})).await;
    for task_type in ["deploy", "sum"] {
        hub.post(&hub.admin, "/v1/tasks", &json!({"type": task_type})).await.ok(201);
    }
    let (granted, other) = (json!({"types": ["sum"]}), json!({"types": ["sum", "deploy"], "waitMs": 1000}));
    let refused = hub.post(&bob, "/v1/tasks/claim", &other).await.refused(403, "FORBIDDEN");
    assert_eq!((&refused["rule"], &refused["place"]), (&json!("grants"), &json!("types")), "{refused}");
    assert!(hint(&refused).contains("--grant-capability deploy"), "{refused}");
    hub.post_with_key(&bob, "k", "/v1/tasks/claim", &other).await.refused(403, "FORBIDDEN");
    let held = hub.post(&bob, "/v1/tasks/claim", &granted).await.ok(200);
    assert_eq!(held["tasks"][0]["type"], "sum", "{held}");
    let refused = hub.put(&bob, BOB, &json!({"capabilities": ["deploy"]})).await.refused(403, "FORBIDDEN");
    assert_eq!(refused["place"], "capabilities", "{refused}");
    // By policy, and for an operator who acts for the agent, the type may be any.
    let mesh = token_of(&hub, "bob", json!({})).await;
    let held = hub.post(&mesh, "/v1/tasks/claim", &json!({"types": ["deploy"]})).await.ok(200);
    assert_eq!(held["tasks"][0]["type"], "deploy", "{held}");
    let for_bob = json!({"agent": "bob", "types": ["audit"]});
    hub.post(&hub.admin, "/v1/tasks/claim", &for_bob).await.ok(200);
}

// Fails under: a token that grants more than what an admin registered; grants that are not shown.
#[tokio::test]
async fn i19_grants_are_recorded_and_listed() {
    let hub = TestHub::new().await;
    hub.register("alice").await;
    hub.set_policy(Policy::supervised()).await;
    let bob = hub.register_with_capabilities("bob", &["sum"]).await;
    let all = token_of(&hub, "alice", json!({"roles": ["*"], "capabilities": []})).await;
    let tokens = hub.get(&hub.admin, "/v1/tokens?order=oldest").await.ok(200);
    let grants: Vec<_> =
        tokens["tokens"].as_array().expect("a list").iter().map(|token| &token["grants"]).collect();
    let recorded = json!({"roles": ["worker"], "capabilities": ["sum"]});
    assert_eq!(
        grants,
        [&Value::Null, &Value::Null, &recorded, &json!({"roles": ["*"], "capabilities": []})],
        "{tokens}"
    );
    hub.put(&bob, BOB, &json!({"capabilities": ["sum"]})).await.ok(200);
    hub.put(&bob, BOB, &json!({"capabilities": ["sum", "deploy"]})).await.refused(403, "FORBIDDEN");
    hub.put(&bob, BOB, &json!({"role": "coordinator"})).await.refused(403, "FORBIDDEN");
    hub.put(&all, "/v1/agents/alice", &json!({"role": "coordinator"})).await.ok(200);
    for wrong in [
        json!({"role": "viewer", "name": "v", "grants": {"roles": ["worker"]}}),
        json!({"role": "agent", "agent": "bob", "grants": {"roles": ["boss"]}}),
        json!({"role": "agent", "agent": "bob", "grants": {"capability": ["sum"]}}),
    ] {
        hub.post(&hub.admin, "/v1/tokens", &wrong).await.refused(400, "INVALID");
    }
}

// Fails under: a frame that claims tasks without naming the token of the agent.
#[tokio::test]
async fn i19_a_websocket_claims_only_granted_task_types() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    hub.register("bob").await;
    let token = token_of(hub, "bob", json!({"capabilities": ["sum"]})).await;
    let (mut bob, _) = server.hello(json!({"token": token})).await;
    for task_type in ["deploy", "sum"] {
        hub.post(&hub.admin, "/v1/tasks", &json!({"type": task_type})).await.ok(201);
    }
    for other in [
        json!({"types": ["deploy"]}),
        json!({"types": ["sum", "deploy"], "waitMs": 1_000}),
        json!({"types": ["deploy"], "idempotencyKey": "k"}),
    ] {
        let refused = bob.refused("claimTasks", other, "FORBIDDEN").await;
        assert_eq!((&refused["rule"], &refused["place"]), (&json!("grants"), &json!("types")), "{refused}");
        assert!(hint(&refused).contains("--grant-capability deploy"), "{refused}");
    }
    let held = bob.ok("claimTasks", json!({"types": ["sum"]})).await;
    assert_eq!(held["tasks"][0]["type"], "sum", "{held}");
    let mesh = token_of(hub, "bob", json!({})).await;
    let (mut mesh, _) = server.hello(json!({"token": mesh})).await;
    let held = mesh.ok("claimTasks", json!({"types": ["deploy"]})).await;
    assert_eq!(held["tasks"][0]["type"], "deploy", "{held}");
}

// Fails under: a connection whose commits do not name the token of the agent.
#[tokio::test]
async fn i19_a_websocket_registers_only_what_its_token_grants() {
    let server = TestServer::new().await;
    server.hub.register("bob").await;
    let bob = token_of(&server.hub, "bob", json!({"roles": ["worker"], "capabilities": ["sum"]})).await;
    let (mut bob, welcome) = server.hello(json!({"token": bob})).await;
    let register = |role: &str, capabilities: Value, key: &str| {
        let registration = json!({
            "op": "agent.register", "agent": "bob", "epoch": welcome["epoch"], "role": role, "capabilities": capabilities,
        });
        json!({"ops": [registration], "idempotencyKey": key})
    };
    let refused = bob.refused("commit", register("coordinator", json!([]), "a"), "FORBIDDEN").await;
    assert_eq!((&refused["rule"], &refused["place"]), (&json!("grants"), &json!("role")), "{refused}");
    let refused = bob.refused("commit", register("worker", json!(["deploy"]), "b"), "FORBIDDEN").await;
    assert_eq!(refused["place"], "capabilities", "{refused}");
    bob.ok("commit", register("worker", json!(["sum"]), "c")).await;
    let agent = server.hub.get(&server.hub.admin, BOB).await.ok(200);
    assert_eq!((&agent["role"], &agent["capabilities"]), (&json!("worker"), &json!(["sum"])), "{agent}");
}
