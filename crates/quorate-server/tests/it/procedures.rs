//! Procedures over HTTP: starting, stepping in a commit, and as-of reads.

use serde_json::json;

use crate::support::TestHub;

// Fails under: a message that is not part of the step's commit; a stale step that is accepted.
#[tokio::test]
async fn a_procedure_is_stepped_in_one_commit_with_its_messages() {
    let hub = TestHub::new().await;
    let (driver, analyst) = (hub.register("driver").await, hub.register("analyst").await);
    let operator = hub.create_token("operator", "anna").await;
    let new = json!({"kind": "deliberation", "driver": "driver", "spec": {"question": "risky?"}});
    let created = hub.post(&operator, "/v1/procedures", &new).await.ok(201);
    let id = created["id"].as_str().expect("an id");
    assert!(id.starts_with("prc_0-"), "{id}");
    assert_eq!(
        (&created["version"], &created["startedBy"], &created["phase"]),
        (&json!(1), &json!("operator:anna"), &json!(""))
    );
    let step = |expect: u64, phase: &str| {
        json!({"ops": [
            {"op": "procedure.step", "procedure": id, "expect": expect, "phase": phase, "state": {"n": expect}},
            {"op": "send", "from": "driver", "to": "analyst", "payload": phase},
        ]})
    };
    let done = hub.post(&driver, "/v1/commit", &step(1, "findings")).await.ok(200);
    assert_eq!(done["results"][0]["version"], 2);
    let stale = hub.post(&driver, "/v1/commit", &step(1, "findings")).await.refused(409, "VERSION_CONFLICT");
    assert_eq!(stale["currentVersion"], 2);
    let inbox = hub.get(&operator, "/v1/agents/analyst/inbox").await.ok(200);
    assert_eq!(inbox["deliveries"].as_array().expect("a list").len(), 1, "{inbox}");
    hub.post(&analyst, "/v1/commit", &step(2, "vote")).await.refused(403, "FORBIDDEN");

    let path = format!("/v1/procedures/{id}");
    let last = json!({"expect": 2, "phase": "synthesis", "status": "done", "result": "sign"});
    let finished = hub.post(&driver, &format!("{path}/step"), &last).await.ok(200);
    assert_eq!(
        (&finished["status"], &finished["result"], &finished["state"]),
        (&json!("done"), &json!("sign"), &json!({"n": 1}))
    );
    hub.post(&driver, "/v1/commit", &step(3, "again")).await.refused(409, "CONFLICT");
    let seq = done["seq"].as_u64().expect("a record");
    let earlier = hub.get(&driver, &format!("{path}?at={seq}")).await.ok(200);
    assert_eq!(
        (&earlier["status"], &earlier["phase"], &earlier["version"]),
        (&json!("running"), &json!("findings"), &json!(2))
    );
    hub.get(&driver, &format!("{path}?at=1")).await.refused(404, "NOT_FOUND");
    let explanation = hub.get(&driver, &format!("{path}/why")).await.ok(200);
    assert_eq!(explanation["state"], "done");
}

// Fails under: a specification that is validated by the driver only, after the call has succeeded.
#[tokio::test]
async fn m12_an_invalid_specification_is_rejected_with_its_path() {
    let hub = TestHub::new().await;
    let operator = hub.create_token("operator", "anna").await;
    let spec = |limits: serde_json::Value| json!({"subject": "s", "agents": [{"id": "a"}], "limits": limits});
    for (spec, path) in [
        (json!(null), "spec: "),
        (json!({"subject": "s"}), "spec: "),
        (json!({"subject": "s", "agents": [{"id": 7}]}), "spec.agents[0].id: "),
        (json!({"subject": "s", "agents": [{"id": "a"}, {"id": "a"}]}), "spec.agents[1].id: "),
        (spec(json!({"rounds": 1_001})), "spec.limits.rounds: "),
        (spec(json!({"round": 1})), "spec.limits.round: "),
    ] {
        let start = json!({"kind": "deliberation", "spec": spec});
        let problem = hub.post(&operator, "/v1/procedures", &start).await.refused(400, "INVALID");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.starts_with(path), "{detail}");
        let in_commit = json!({"op": "procedure.start", "kind": "deliberation", "spec": spec});
        let commit = json!({"ops": [{"op": "put", "key": "k", "content": 1}, in_commit]});
        let problem = hub.post(&operator, "/v1/commit", &commit).await.refused(400, "INVALID");
        assert_eq!(problem["op"], 1, "{problem}");
    }
    let listed = hub.get(&operator, "/v1/procedures").await.ok(200);
    assert_eq!(listed["procedures"], json!([]));
}

// Fails under: a procedure that stays in `running` permanently, because no agent drives it.
#[tokio::test]
async fn m17_a_procedure_of_an_unknown_kind_needs_a_driver() {
    let hub = TestHub::new().await;
    hub.register("driver").await;
    let operator = hub.create_token("operator", "anna").await;
    let problem =
        hub.post(&operator, "/v1/procedures", &json!({"kind": "tournment"})).await.refused(400, "INVALID");
    assert!(problem["detail"].as_str().expect("a detail").contains("\"tournment\""), "{problem}");
    hub.post(&operator, "/v1/procedures", &json!({"kind": "own", "driver": "driver"})).await.ok(201);
}

// Fails under: a list that contains states, or ignores its filter.
#[tokio::test]
async fn procedures_are_listed_without_their_states() {
    let hub = TestHub::new().await;
    let driver = hub.register("driver").await;
    for id in ["a", "b", "c"] {
        hub.post(&driver, "/v1/procedures", &json!({"id": id, "kind": "tournament", "spec": 1}))
            .await
            .ok(201);
    }
    let step = json!({"expect": 1, "phase": "draw", "status": "failed"});
    hub.post(&driver, "/v1/procedures/b/step", &step).await.ok(200);
    let running = hub.get(&driver, "/v1/procedures?status=running").await.ok(200);
    let names: Vec<_> =
        running["procedures"].as_array().expect("a list").iter().map(|procedure| &procedure["id"]).collect();
    assert_eq!(names, ["c", "a"], "newest first");
    assert!(running["procedures"][0].get("spec").is_none(), "{running}");
    let first = hub.get(&driver, "/v1/procedures?limit=2").await.ok(200);
    let cursor = first["cursor"].as_str().expect("a cursor");
    let rest = hub.get(&driver, &format!("/v1/procedures?limit=2&cursor={cursor}")).await.ok(200);
    assert_eq!(rest["procedures"][0]["id"], "a");
    hub.get(&driver, "/v1/procedures?status=colour").await.refused(400, "INVALID");
    let large = "x".repeat(512 * 1024);
    let step = json!({"expect": 1, "phase": "draw", "state": large});
    let response = hub.post(&driver, "/v1/procedures/a/step", &step).await.refused(413, "TOO_LARGE");
    assert_eq!(response["limit"], 512 * 1024);
}
