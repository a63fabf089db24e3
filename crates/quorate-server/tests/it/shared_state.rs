//! The shared state of a task with several writers: changes of different fields are merged, changes of the same field
//! conflict, and no acknowledged change is lost.

use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::support::TestHub;
use crate::support::raw_http::{RawResponse, bearer_header, call, connect_plain, format_request};
use crate::support::socket::TestServer;

const PATH: &str = "/v1/sessions/work/state";

/// A client with its own connection.
struct Writer {
    wire: TcpStream,
    token: String,
}

impl Writer {
    async fn get(&mut self) -> (Value, String) {
        let response =
            call(&mut self.wire, &format_request("GET", PATH, &bearer_header(&self.token), "")).await;
        assert_eq!(response.status, 200, "{response:?}");
        (response.json(), etag(&response))
    }

    async fn send(&mut self, headers: &str, state: &Value) -> RawResponse {
        let headers = format!("{}{headers}", bearer_header(&self.token));
        call(&mut self.wire, &format_request("PUT", PATH, &headers, &state.to_string())).await
    }

    async fn put(&mut self, etag: &str, state: &Value) -> RawResponse {
        self.send(&format!("if-match: {etag}\r\n"), state).await
    }
}

#[track_caller]
fn etag(response: &RawResponse) -> String {
    response.header("etag").unwrap_or_else(|| panic!("an ETag: {response:?}")).trim().to_owned()
}

/// A listening hub with agents that participate in the session `work`.
async fn start_session(agents: &[&str]) -> (TestServer, Vec<Writer>) {
    let server = TestServer::start(TestHub::new().await).await;
    let hub = &server.hub;
    let mut writers = Vec::new();
    for agent in agents {
        let token = hub.register(agent).await;
        writers.push(Writer { wire: connect_plain(server.address()).await, token });
    }
    let session = json!({"id": "work", "coordinator": agents[0], "participants": agents, "title": "Work"});
    hub.post(&hub.admin, "/v1/sessions", &session).await.ok(201);
    (server, writers)
}

fn state(phase: u64, agents: Value) -> Value {
    let lists =
        json!({"objective": "Work", "keyDecisions": [], "artifacts": [], "blockers": [], "notes": []});
    json!({"taskId": "work", "currentPhase": phase, "sharedContext": lists, "agentStates": agents})
}

// Fails under: a PUT that overwrites the current state.
#[tokio::test]
async fn m2_changes_of_two_agents_are_merged() {
    let (_server, mut writers) = start_session(&["a", "b"]).await;
    let [writer_a, writer_b] = &mut writers[..] else { panic!("two") };
    writer_a.send("", &state(1, json!({"a": {"status": "idle"}, "b": {"status": "idle"}}))).await;
    let ((mut first, tag), (mut second, same)) = (writer_a.get().await, writer_b.get().await);
    assert_eq!(tag, same);
    first["agentStates"]["a"]["status"] = json!("done");
    first["sharedContext"]["notes"] = json!(["from a"]);
    second["agentStates"]["b"]["status"] = json!("working");
    second["sharedContext"]["notes"] = json!(["from b"]);
    second["currentPhase"] = json!(2);
    assert_eq!(writer_a.put(&tag, &first).await.status, 200);
    let response = writer_b.put(&tag, &second).await;
    let expected = state(2, json!({"a": {"status": "done"}, "b": {"status": "working"}}));
    let mut merged = expected.clone();
    merged["sharedContext"]["notes"] = json!(["from a", "from b"]);
    assert_eq!((response.status, response.json()), (200, merged.clone()));
    assert_eq!(writer_a.get().await, (merged.clone(), etag(&response)));
    // Repeating the request changes nothing.
    let repeated = writer_b.put(&tag, &second).await;
    assert_eq!((repeated.json(), etag(&repeated)), (merged, etag(&response)));
}

// Fails under: last writer wins; a conflict without its field paths.
#[tokio::test]
async fn m2_the_same_part_changed_differently_is_a_conflict_with_both_values() {
    let (_server, mut writers) = start_session(&["a", "b"]).await;
    let [writer_a, writer_b] = &mut writers[..] else { panic!("two") };
    writer_a.send("", &state(1, json!({"a": {"status": "idle"}}))).await;
    let (before, tag) = writer_a.get().await;
    let changed_to = |phase: u64, status: &str| {
        let mut changed = before.clone();
        changed["currentPhase"] = json!(phase);
        changed["agentStates"]["a"]["status"] = json!(status);
        changed
    };
    let current = writer_a.put(&tag, &changed_to(2, "done")).await;
    let refused = writer_b.put(&tag, &changed_to(3, "done")).await.refused(409, "CONFLICT");
    let conflict = json!([{"pointer": "/currentPhase", "base": 1, "current": 2, "yours": 3}]);
    assert_eq!((&refused["conflicts"], &refused["applied"]), (&conflict, &json!("no")));
    let mut without = before.clone();
    without["agentStates"] = json!({});
    let refused = writer_b.put(&tag, &without).await.refused(409, "CONFLICT");
    let conflict =
        json!([{"pointer": "/agentStates/a", "base": {"status": "idle"}, "current": {"status": "done"}}]);
    assert_eq!(refused["conflicts"], conflict);
    assert_eq!(writer_b.get().await, (changed_to(2, "done"), etag(&current)));
}

// Fails under: an unconditional PUT that changes something; a 428 without a hint.
#[tokio::test]
async fn m2_without_if_match_only_additions_are_accepted() {
    let (_server, mut writers) = start_session(&["a", "b"]).await;
    let [writer_a, writer_b] = &mut writers[..] else { panic!("two") };
    assert_eq!(writer_a.send("", &state(1, json!({"a": {"status": "idle"}}))).await.status, 200);
    let mut more = state(1, json!({"a": {"status": "idle", "task": "x"}, "b": {"status": "idle"}}));
    more["sharedContext"]["blockers"] = json!([{"id": "b1", "what": "no key"}]);
    let added = writer_b.send("", &more).await;
    assert_eq!((added.status, added.json()), (200, more.clone()));
    let changes = [
        ("/currentPhase", json!(2)),
        ("/sharedContext/objective", json!("Other")),
        ("/sharedContext/blockers", json!([])),
        ("/agentStates/a/status", json!("done")),
        ("/agentStates/b", json!({})),
    ];
    for (pointer, value) in changes {
        let mut changed = more.clone();
        *changed.pointer_mut(pointer).expect("a place") = value;
        let refused = writer_a.send("", &changed).await.refused(428, "VERSION_CONFLICT");
        assert!(refused["detail"].as_str().is_some_and(|detail| detail.starts_with(pointer)), "{refused}");
        assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("If-Match")), "{refused}");
    }
    // Omitted fields keep their value.
    let partial = json!({"sharedContext": {"notes": ["n"]}});
    more["sharedContext"]["notes"] = json!(["n"]);
    assert_eq!(writer_a.send("", &partial).await.json(), more);
}

// Fails under: additions that cannot be removed; a removal of the wrong entry.
#[tokio::test]
async fn m13_blockers_are_resolved_and_removed() {
    let (server, mut writers) = start_session(&["a", "b"]).await;
    let hub = &server.hub;
    let writer_a = &mut writers[0];
    let mut state_body = state(1, json!({"a": {"status": "idle"}}));
    state_body["sharedContext"]["blockers"] =
        json!([{"id": "b1", "what": "no key"}, "no data", {"id": "b2", "what": "no time"}]);
    let tag = etag(&writer_a.send("", &state_body).await);
    let blocker = json!({"kind": "blocker", "body": "no sleep"});
    hub.post(&writers[1].token, "/v1/sessions/work/add", &blocker).await.ok(201);
    let writer_a = &mut writers[0];
    state_body["sharedContext"]["blockers"] =
        json!([{"id": "b1", "what": "no key", "status": "resolved"}, "no tests"]);
    let merged = json!([{"id": "b1", "what": "no key", "status": "resolved"}, "no tests", "no sleep"]);
    let response = writer_a.put(&tag, &state_body).await;
    let mut blockers = response.json()["sharedContext"]["blockers"].as_array().expect("a list").clone();
    blockers.sort_by_key(ToString::to_string);
    let mut expected = merged.as_array().expect("a list").clone();
    expected.sort_by_key(ToString::to_string);
    assert_eq!(blockers, expected, "{response:?}");
    state_body["sharedContext"]["blockers"] = json!([]);
    let emptied = writer_a.put(&etag(&response), &state_body).await;
    assert_eq!(emptied.json()["sharedContext"]["blockers"], json!([]));
    // The history is retained: an old state can be read and referenced.
    let lines = hub.get(&hub.admin, "/v1/sessions/work/timeline?kind=blocker").await.ok(200);
    assert_eq!(lines["timeline"].as_array().map(Vec::len), Some(5), "{lines}");
    let (_, seq) = tag.trim_matches('"').split_once('-').expect("generation and record");
    let before = hub.get(&hub.admin, &format!("{PATH}?at={seq}")).await.ok(200);
    assert_eq!(before["sharedContext"]["blockers"].as_array().map(Vec::len), Some(3));
}

// Fails under: permissions of the first writer only; a PUT that any agent may send.
#[tokio::test]
async fn m2_s12_only_participants_and_coordinators_write() {
    let (server, mut writers) = start_session(&["a"]).await;
    let hub = &server.hub;
    let token = hub.register("stranger").await;
    let mut outsider = Writer { wire: connect_plain(server.address()).await, token };
    let partial = json!({"sharedContext": {}, "agentStates": {"a": {"status": "idle"}}});
    assert_eq!(writers[0].send("", &partial).await.status, 200);
    let (current, tag) = outsider.get().await;
    outsider.put(&tag, &current).await.refused(403, "FORBIDDEN");
    outsider.send("", &json!({"sharedContext": {"notes": ["x"]}})).await.refused(403, "FORBIDDEN");
    hub.put(&hub.admin, "/v1/agents/stranger", &json!({"role": "coordinator"})).await.ok(200);
    assert_eq!(outsider.send("", &json!({"sharedContext": {"notes": ["x"]}})).await.status, 200);
    hub.post(&hub.admin, "/v1/sessions/work/complete", &json!({})).await.ok(200);
    writers[0].send("", &partial).await.refused(409, "SESSION_CLOSED");
}

// Fails under: the state as an ordinary entry, which any agent writes without the version that it read.
#[tokio::test]
async fn s12_the_state_is_not_written_as_a_memory_entry() {
    let (server, mut writers) = start_session(&["a"]).await;
    let hub = &server.hub;
    let stranger = hub.register("stranger").await;
    let partial = json!({"sharedContext": {}, "agentStates": {"a": {"status": "idle"}}});
    assert_eq!(writers[0].send("", &partial).await.status, 200);
    let participant = writers[0].token.clone();
    let entry = "/v1/context/sessions%2Fwork%2Fstate";
    let seq = hub.get(&stranger, entry).await.ok(200)["seq"].clone();
    let content = json!({"content": {"currentPhase": 9}});
    let key = "sessions/work/state";
    let writes = [
        ("PUT", entry, content.clone()),
        ("PUT", "/v1/context/sessions%2Fwork%2Fguidance", content.clone()),
        ("DELETE", entry, json!({})),
        ("DELETE", "/v1/context/sessions%2Fwork%2Fstate?expect=1", json!({})),
        ("POST", "/v1/commit", json!({"ops": [{"op": "put", "key": key, "expect": 1, "content": 1}]})),
        ("POST", "/v1/commit", json!({"ops": [{"op": "delete", "key": key}]})),
        ("POST", "/v1/context:rollback", json!({"key": key, "expect": 1, "toSeq": 1})),
        ("POST", "/v1/context:rollback", json!({"prefix": "sessions/", "toSeq": 1})),
        ("POST", "/v1/context:rollback", json!({"prefix": "", "toSeq": 1})),
    ];
    for (method, path, body) in &writes {
        let body = if *method == "DELETE" { String::new() } else { body.to_string() };
        let refused = hub.send_text(&stranger, method, path, &body).await.refused(403, "FORBIDDEN");
        assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("coordinator")), "{refused}");
    }
    assert_eq!(hub.get(&stranger, entry).await.ok(200)["seq"], seq, "nothing was written");
    // A participant states the version.
    let refused = hub.put(&participant, entry, &content).await.refused(409, "VERSION_CONFLICT");
    assert_eq!(refused["currentVersion"], 1, "{refused}");
    let with_version = json!({"content": {"currentPhase": 9}, "expect": 1});
    hub.put(&participant, entry, &with_version).await.ok(200);
    // A session that nobody has opened has no state.
    let squatted = "/v1/context/sessions%2Fnext%2Fstate";
    hub.put(&stranger, squatted, &content).await.refused(404, "NOT_FOUND");
}

// Fails under: an ETag that any commit changes, or that identifies nothing; a weak ETag that is accepted.
#[tokio::test]
async fn m2_an_etag_identifies_a_state() {
    let (server, mut writers) = start_session(&["a", "b"]).await;
    let hub = &server.hub;
    let [writer_a, writer_b] = &mut writers[..] else { panic!("two") };
    let first = state(1, json!({"a": {"status": "idle"}}));
    let tag = etag(&writer_a.send("", &first).await);
    hub.post(&hub.admin, "/v1/sessions", &json!({"title": "another"})).await.ok(201);
    assert_eq!(writer_b.get().await, (first.clone(), tag.clone()));
    let if_none_match = |tag: &str| format!("{}if-none-match: {tag}\r\n", bearer_header(&writer_b.token));
    let headers =
        [if_none_match(&tag), if_none_match(&format!("\"0-1\", W/{tag}")), if_none_match("\"0-1\"")];
    for (headers, status) in headers.iter().zip([304, 304, 200]) {
        let response = call(&mut writer_b.wire, &format_request("GET", PATH, headers, "")).await;
        assert_eq!((response.status, etag(&response)), (status, tag.clone()), "{headers}");
    }
    let weak = format!("W/{tag}");
    for unknown in ["\"0-999999\"", "\"7-3\"", "\"0-0\"", "\"0-1\"", "\"x\"", "0-3", weak.as_str(), ""] {
        let refused = writer_a.put(unknown, &first).await.refused(412, "VERSION_CONFLICT");
        assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("GET")), "{refused}");
    }
    writer_a.put(&format!("{tag}, \"0-1\""), &first).await.refused(400, "INVALID");
    // `*` replaces any state.
    let other = state(9, json!({"b": {"status": "done"}}));
    assert_eq!(writer_b.put("*", &other).await.json(), other);
    let none = format_request(
        "PUT",
        "/v1/sessions/none/state",
        &format!("{}if-match: *\r\n", bearer_header(&writer_a.token)),
        "{\"sharedContext\":{}}",
    );
    call(&mut writer_a.wire, &none).await.refused(412, "VERSION_CONFLICT");
    // Repeated with the same key, the request returns the same response, whatever happened since.
    let more = json!({"sharedContext": {"notes": ["once"]}});
    let keyed = writer_a.send("idempotency-key: k1\r\n", &more).await;
    writer_b.put("*", &first).await;
    let repeated = writer_a.send("idempotency-key: k1\r\n", &more).await;
    assert_eq!(
        (repeated.status, repeated.body, repeated.head.contains(&etag(&keyed))),
        (200, keyed.body, true)
    );
}

// Fails under: a write that is not conditional on the read state; a retry that is not merged again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn m2_concurrent_writers_lose_nothing() {
    const WRITERS: usize = 8;
    const TIMES: u64 = 8;
    let names: Vec<_> = (0..WRITERS).map(|n| format!("w{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let (_server, writers) = start_session(&names).await;
    let tasks = writers.into_iter().enumerate().map(|(number, mut writer)| {
        tokio::spawn(async move {
            let name = format!("w{number}");
            for time in 1..=TIMES {
                let (mut state, tag) = writer.get().await;
                let count = state["agentStates"][&name]["count"].as_u64().unwrap_or(0);
                assert_eq!(count, time - 1, "{name} finds what it wrote");
                state["agentStates"][&name] = json!({"status": "working", "count": count + 1});
                let lists = &mut state["sharedContext"];
                lists["notes"].as_array_mut().expect("a list").push(json!(format!("{name} {time}")));
                let entry = json!({"id": format!("{name}-{time}"), "by": name});
                lists["blockers"].as_array_mut().expect("a list").push(entry);
                // The previous blocker is resolved.
                lists["blockers"].as_array_mut().expect("a list").retain(|blocker| {
                    blocker["by"] != name.as_str() || blocker["id"] == format!("{name}-{time}")
                });
                let response = writer.put(&tag, &state).await;
                assert_eq!(response.status, 200, "{response:?}");
            }
            writer
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut last = None;
    for task in tasks {
        last = Some(task.await.expect("a writer"));
    }
    let (state, _) = last.expect("a writer").get().await;
    let notes = state["sharedContext"]["notes"].as_array().expect("a list");
    assert_eq!(notes.len(), WRITERS * TIMES as usize);
    assert_eq!(state["sharedContext"]["blockers"].as_array().map(Vec::len), Some(WRITERS));
    for name in &names {
        assert_eq!(state["agentStates"][name]["count"], TIMES, "{name}");
        for time in 1..=TIMES {
            assert!(notes.contains(&json!(format!("{name} {time}"))), "{name} {time}");
        }
        assert_eq!(
            state["sharedContext"]["blockers"]
                .as_array()
                .expect("a list")
                .iter()
                .filter(|blocker| blocker["by"] == *name)
                .count(),
            1
        );
    }
}
