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
        hub.post(&driver, "/v1/procedures", &json!({"id": id, "kind": "invoice", "spec": 1})).await.ok(201);
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

// Fails under: a paused procedure that accepts a step; a cancellation that leaves requests and tasks open; a change by
// an agent that has no part in the procedure.
#[tokio::test]
async fn m4_a_procedure_is_paused_resumed_signalled_and_cancelled() {
    let hub = TestHub::new().await;
    let (driver, eve) = (hub.register("driver").await, hub.register("eve").await);
    let operator = hub.create_token("operator", "anna").await;
    let new = json!({"id": "p", "kind": "own", "driver": "driver", "spec": 1});
    hub.post(&operator, "/v1/procedures", &new).await.ok(201);
    let path = "/v1/procedures/p";
    let paused = hub.post(&operator, &format!("{path}/pause"), &json!({"reason": "lunch"})).await.ok(200);
    assert_eq!(
        (&paused["status"], &paused["reason"], &paused["version"]),
        (&json!("paused"), &json!("lunch"), &json!(2))
    );
    let step = json!({"expect": 2, "phase": "x"});
    let refused = hub.post(&driver, &format!("{path}/step"), &step).await.refused(409, "CONFLICT");
    assert!(refused["detail"].as_str().expect("a detail").contains("paused: lunch"), "{refused}");
    for (action, body) in [("pause", json!({})), ("cancel", json!({})), ("signal", json!({"name": "go"}))] {
        hub.post(&eve, &format!("{path}/{action}"), &body).await.refused(403, "FORBIDDEN");
    }
    hub.post(&operator, &format!("{path}/resume"), &json!({})).await.ok(200);
    let signal = json!({"name": "go", "payload": {"n": 1}});
    hub.post(&operator, &format!("{path}/signal"), &signal).await.ok(200);
    let claimed = hub.post(&driver, "/v1/agents/driver/inbox/claim", &json!({"max": 10})).await.ok(200);
    let last = claimed["deliveries"].as_array().expect("a list").last().expect("a delivery");
    let expected =
        json!({"procedure": "p", "kind": "own", "name": "go", "by": "operator:anna", "payload": {"n": 1}});
    assert_eq!(
        (&last["message"]["action"], &last["message"]["payload"]),
        (&json!("procedure.signalled"), &expected)
    );

    let ask = json!({"to": "eve", "type": "query", "correlationId": "p", "timeoutMs": 60_000});
    let asked = hub.post(&driver, "/v1/requests", &ask).await.ok(201);
    let task = json!({"id": "t", "type": "sum", "agent": "eve", "sessionId": "p"});
    hub.post(&driver, "/v1/tasks", &task).await.ok(201);
    let held = hub.post(&eve, "/v1/tasks/claim", &json!({})).await.ok(200);
    let cancel = json!({"ops": [{"op": "procedure.cancel", "procedure": "p", "reason": "not needed"}]});
    let cancelled = hub.post(&operator, "/v1/commit", &cancel).await.ok(200);
    assert_eq!(cancelled["results"][0], json!({"version": 4, "remaining": 0}));
    let shown = hub.get(&eve, &format!("{path}?waitMs=10000")).await.ok(200);
    assert_eq!((&shown["status"], &shown["reason"]), (&json!("cancelled"), &json!("not needed")));
    let done = json!({"leaseToken": held["tasks"][0]["leaseToken"], "result": 1});
    hub.post(&eve, "/v1/tasks/t/complete", &done).await.refused(409, "CANCELLED");
    let id = asked["id"].as_str().expect("an id");
    let request = hub.get(&operator, &format!("/v1/requests/{id}")).await.ok(200);
    assert_eq!(request["state"], "cancelled", "{request}");
    let over = hub.post(&operator, &format!("{path}/signal"), &signal).await.refused(409, "CONFLICT");
    assert!(over["detail"].as_str().expect("a detail").contains("cancelled"), "{over}");
}

// Fails under: a wait that polls, that misses the change, or that ends with each change of another procedure; a wait after a
// version that returns at once because the procedure is paused.
#[tokio::test]
async fn a_call_waits_for_a_step_or_the_end_of_a_procedure() {
    let hub = TestHub::new().await;
    let driver = hub.register("driver").await;
    for id in ["p", "q"] {
        hub.post(&driver, "/v1/procedures", &json!({"id": id, "kind": "own"})).await.ok(201);
    }
    let step = |expect: u64, status: &str| json!({"expect": expect, "phase": "x", "status": status});
    let wait =
        async |query: &str| hub.get(&driver, &format!("/v1/procedures/p?waitMs=10000{query}")).await.ok(200);
    let (stepped, ended, ()) = tokio::join!(wait("&afterVersion=1"), wait(""), async {
        hub.post(&driver, "/v1/procedures/q/step", &step(1, "running")).await.ok(200);
        hub.post(&driver, "/v1/procedures/p/step", &step(1, "running")).await.ok(200);
        hub.post(&driver, "/v1/procedures/p/step", &step(2, "done")).await.ok(200);
    });
    assert!(stepped["version"].as_u64() >= Some(2), "{stepped}");
    assert_eq!((&ended["version"], &ended["status"]), (&json!(3), &json!("done")));
    let now = hub.get(&driver, "/v1/procedures/q?waitMs=1").await.ok(200);
    assert_eq!(now["status"], "running");
    // A caller that knows of a pause waits for the next change.
    let pause = "/v1/procedures/q/pause";
    hub.post(&driver, pause, &json!({"reason": "later"})).await.ok(200);
    let wait = async |query: &str| hub.get(&driver, &format!("/v1/procedures/q?{query}")).await.ok(200);
    let paused = wait("waitMs=10000&afterVersion=2").await;
    assert_eq!((&paused["version"], &paused["status"]), (&json!(3), &json!("paused")));
    assert_eq!(wait("waitMs=1&afterVersion=3").await["version"], 3, "the time has elapsed");
    let (resumed, ()) = tokio::join!(wait("waitMs=10000&afterVersion=3"), async {
        hub.post(&driver, "/v1/procedures/q/resume", &json!({})).await.ok(200);
    });
    assert_eq!((&resumed["version"], &resumed["status"]), (&json!(4), &json!("running")));
    hub.get(&driver, "/v1/procedures/p?waitMs=1&at=1").await.refused(400, "INVALID");
    hub.get(&driver, "/v1/procedures/p?waitMs=999999").await.refused(429, "LIMIT_EXCEEDED");
}

// Fails under: an agent of the hub that is named as driver of a kind that it does not know.
#[tokio::test]
async fn a_driver_of_the_hub_does_not_drive_other_kinds() {
    let hub = TestHub::new().await;
    let operator = hub.create_token("operator", "anna").await;
    let own = json!({"kind": "own", "driver": "deliberations"});
    let problem = hub.post(&operator, "/v1/procedures", &own).await.refused(400, "INVALID");
    assert!(problem["detail"].as_str().expect("a detail").starts_with("driver: "), "{problem}");
}
