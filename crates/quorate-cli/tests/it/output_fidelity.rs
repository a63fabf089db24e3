//! Output is complete and exact: stored data is printed unchanged, JSON has everything that text output has, and messages are
//! accurate.

use std::fs;

use serde_json::{Value, json};

use crate::fixture::Fixture;

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Characters that a terminal must not get, but that emoji and Persian words need.
const TEXT: &str = "👩\u{200d}👧 می\u{200c}خواهم \x1b[31mred\x1b[0m\n";

// Fails under: text that is sanitized on its way to a file; an added newline.
#[test]
fn c9_output_to_a_file_is_byte_for_byte() {
    let fixture = Fixture::with_hub();
    fixture.call("PUT", "/v1/agents/bob", "{}");
    for (key, content) in
        [("text", json!(TEXT).to_string()), ("data", r#"{"b": 1.0,  "a":"\u00e9"}"#.to_owned())]
    {
        fixture.call("PUT", &format!("/v1/context/{key}"), &format!(r#"{{"content":{content}}}"#));
        fixture.call(
            "POST",
            "/v1/messages",
            &format!(r#"{{"id":"{key}","to":"bob","from":"bob","payload":{content}}}"#),
        );
        let stored = if key == "text" { TEXT } else { &content };
        for line in [format!("quorate memory get {key}"), format!("quorate msg show {key} --payload")] {
            let output = fixture.shell(&format!("{line} > out; cat out"));
            assert_eq!((output.code, output.out.as_str()), (Some(0), stored), "{line}: {}", output.err);
            let shown = fixture.terminal(&line).out;
            assert!(!shown.contains(['\x1b', '\u{200d}', '\u{200c}']), "{line}: {shown:?}");
            assert!(key == "data" || shown.contains("\\u{1b}[31mred"), "{line}: {shown:?}");
        }
    }
    fixture.call("DELETE", "/v1/context/text", "");
    let output = fixture.shell("quorate memory get text --version 2");
    assert_eq!((output.code, output.out.as_str()), (Some(0), ""), "{}", output.err);
    assert!(output.err.contains("deleted"), "{}", output.err);
}

// Fails under: mailboxes that list only ids in JSON, while the text output has the messages.
#[test]
fn json_of_a_mailbox_has_the_messages() {
    let fixture = Fixture::with_hub();
    for agent in ["alice", "bob"] {
        fixture.call("PUT", &format!("/v1/agents/{agent}"), "{}");
    }
    let body = r#"{"to":"bob","from":"alice","action":"sum","payload":{"n": 1.0}}"#;
    fixture.call("POST", "/v1/messages", &format!("[{body},{body}]"));
    for (line, name) in [("--from alice", "messages"), ("--to bob", "deliveries")] {
        let output = fixture.shell(&format!("quorate msg list {line} --json"));
        assert!(output.out.contains(r#"{"n": 1.0}"#), "byte for byte: {}", output.out);
        let found = document(&output.out);
        let items = found[name].as_array().expect("a list");
        assert_eq!((items.len(), found.get("cursor")), (2, Some(&Value::Null)), "{found}");
        for item in items {
            let message = &item["message"];
            assert_eq!((&item["messageId"], &message["action"]), (&message["id"], &json!("sum")), "{item}");
            assert!(message["timestamp"].is_string() && !message["to"].is_null(), "{item}");
        }
        let lines = fixture.shell(&format!("quorate msg list {line} --jsonl")).out;
        assert_eq!(
            lines.lines().filter(|line| document(line)["message"]["action"] == "sum").count(),
            2,
            "{lines}"
        );
    }
}

// Fails under: a dry run that prints a line that is not JSON.
#[test]
fn a_dry_run_in_json_is_one_document() {
    let fixture = Fixture::with_hub();
    fixture.call("PUT", "/v1/agents/bob", "{}");
    let lines = [
        ("memory set d 'x y' --expect 1", "PUT", "/v1/context/d", json!({"content": "x y", "expect": 1})),
        ("memory delete d", "DELETE", "/v1/context/d", Value::Null),
        ("agent remove bob", "DELETE", "/v1/agents/bob", Value::Null),
        ("agent purge bob", "POST", "/v1/commit", json!({"ops": [{"op": "purge", "agent": "bob"}]})),
        ("token create --role viewer --name v", "POST", "/v1/tokens", json!({"role": "viewer", "name": "v"})),
        ("msg send --to bob hi", "POST", "/v1/messages", json!({"to": "bob", "action": "", "payload": "hi"})),
    ];
    for (line, method, path, body) in lines {
        let output = fixture.shell(&format!("quorate {line} --dry-run --json"));
        let expected = json!({"dryRun": true, "method": method, "path": path, "body": body});
        assert_eq!((output.code, document(&output.out)), (Some(0), expected), "{line}: {}", output.err);
    }
    assert_eq!(fixture.shell("quorate agent list --jsonl").out.lines().count(), 1, "nothing was done");
}

// Fails under: one value that cannot be represented and makes `memory list` fail.
#[test]
fn c9_json_that_cannot_be_represented_is_printed_as_stored() {
    let fixture = Fixture::with_hub();
    fixture.call("PUT", "/v1/agents/bob", "{}");
    let content = r#"{"f": 1e400, "g": [-2e999]}"#;
    fixture.call("PUT", "/v1/context/far", &format!(r#"{{"content":{content}}}"#));
    fixture.call("PUT", "/v1/context/good", r#"{"content":"well"}"#);
    fixture.call("PUT", "/v1/context/far", &format!(r#"{{"content":{content}}}"#));
    fixture.call(
        "POST",
        "/v1/messages",
        &format!(r#"{{"id":"m","to":"bob","from":"bob","payload":{content}}}"#),
    );
    fixture.call("POST", "/v1/tasks", &format!(r#"{{"id":"t","type":"sum","input":{content}}}"#));
    fixture.call("POST", "/v1/sessions", r#"{"id":"s","title":"S"}"#);
    fixture.call("POST", "/v1/sessions/s/add", &format!(r#"{{"kind":"note","body":{content}}}"#));
    let lines = [
        "memory list",
        "memory list --json",
        "memory get far",
        "memory get far --json",
        "memory get far --metadata",
        "memory log far",
        "memory diff far",
        "msg list",
        "msg list --to bob",
        "msg list --from bob --json",
        "msg show m",
        "msg show m --payload",
        "task show t",
        "session timeline s",
        "session export s",
    ];
    for line in lines {
        let output = fixture.shell(&format!("quorate {line}"));
        assert_eq!(output.code, Some(0), "{line}: {}", output.err);
        assert!(output.out.contains("1e400"), "{line}: {}", output.out);
        assert!(line != "memory list" || output.out.contains("well"), "the rest is listed: {}", output.out);
    }
    for line in ["status", "task list", "session show s", "msg why m", "memory get good"] {
        let output = fixture.shell(&format!("quorate {line}"));
        assert_eq!(output.code, Some(0), "{line}: {}", output.err);
    }
}

// Fails under: "there is no entry" for an existing one; a hint that names an unknown command.
#[test]
fn missing_versions_and_entries_are_reported() {
    let fixture = Fixture::with_hub();
    fixture.call("PUT", "/v1/context/plan", r#"{"content":1}"#);
    for line in ["quorate memory get plan --version 9", "quorate memory diff plan 1 9"] {
        let output = fixture.shell(line);
        assert_eq!(output.code, Some(3), "{line}: {}", output.err);
        assert!(output.err.contains("plan has no version 9; the newest is 1"), "{line}: {}", output.err);
    }
    let output = fixture.shell("quorate memory get plan --at 1");
    assert!(output.err.contains("entry plan did not exist at that time"), "{}", output.err);
    assert!(fixture.shell("quorate memory get other --version 9").err.contains("there is no entry other"));
    fixture.call("PUT", "/v1/agents/bob", "{}");
    fixture.call("POST", "/v1/messages", r#"{"to":"bob","from":"bob","payload":1}"#);
    let output = fixture.shell("quorate agent remove bob");
    assert_eq!(output.code, Some(5), "{}", output.err);
    assert!(output.err.contains("quorate agent purge bob"), "{}", output.err);
    let output = fixture.shell("quorate agent purge bob && quorate agent remove bob");
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(output.err.contains("purged 1 delivery of bob"), "{}", output.err);
}

// Fails under: an agent that counts as online because it was registered once.
#[test]
fn d6_an_agent_that_never_connected_is_not_online() {
    let fixture = Fixture::with_hub();
    fixture.call("PUT", "/v1/agents/risk", r#"{"supportedActions":["analyse"],"heartbeatMs":0}"#);
    let output = fixture.shell("quorate agent test risk");
    assert_eq!(output.code, Some(1), "{}{}", output.out, output.err);
    assert!(
        output.out.contains("✗ reachable") && output.out.contains("no consumer is connected to its mailbox"),
        "{}",
        output.out
    );
    assert!(!output.err.contains("no problems"), "{}", output.err);
    let output = fixture.shell("quorate status");
    assert!(output.out.contains("AGENTS     1   0 online, 0 offline, 1 not connected"), "{}", output.out);
    let found = document(&fixture.shell("quorate status --json").out);
    assert_eq!(found["agents"], json!({"known": 1, "up": 0, "down": 0, "notConnected": 1, "notSeen": 0}));
    // A waiting claim is a connected consumer.
    let token = fs::read_to_string(fixture.data().join("admin-token")).expect("a token");
    let mut claim = fixture.command("curl");
    let url = format!("http://{}/v1/agents/risk/inbox/claim", fixture.address);
    let header = format!("Authorization: Bearer {}", token.trim());
    claim.args(["-s", "--noproxy", "*", "-H", &header, "-d", r#"{"waitMs":20000}"#, &url]);
    let mut claim = claim.spawn().expect("curl runs");
    let is_online = || fixture.shell("quorate status").out.contains("1 online, 0 offline\n");
    let seen = (0..200).any(|_| is_online());
    let _ = (claim.kill(), claim.wait());
    assert!(seen, "a waiting claim counts as connected");
}

#[test]
fn one_attempt_is_singular() {
    let fixture = Fixture::with_hub();
    fixture.call("PUT", "/v1/agents/bob", "{}");
    fixture.call("POST", "/v1/messages", r#"{"to":"bob","from":"bob","payload":1}"#);
    let claimed = fixture.call("POST", "/v1/agents/bob/inbox/claim", r#"{"max":1}"#);
    let delivery = &claimed["deliveries"][0];
    let nack = json!({"deliveries": [{"deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"], "hopeless": true, "reason": "no"}]});
    fixture.call("POST", "/v1/agents/bob/inbox/nack", &nack.to_string());
    let output = fixture.shell("quorate status");
    assert!(output.out.contains("for bob is dead after 1 attempt"), "{}", output.out);
}

// Fails under: `--json` that prints lines or plain text.
#[test]
fn json_of_the_log_is_one_document() {
    let mut fixture = Fixture::with_hub();
    let run_json = |fixture: &Fixture, line: &str| document(&fixture.shell(&format!("quorate {line}")).out);
    let check_log = |fixture: &Fixture, line: &str| {
        let found = run_json(fixture, line);
        assert_eq!(found["records"][0]["seq"], 1, "{line}: {found}");
        assert!(found["records"].as_array().is_some_and(|records| records.len() > 1), "{line}: {found}");
        assert_eq!(run_json(fixture, &format!("{line} --from 99")), json!({"records": []}));
    };
    check_log(&fixture, "audit log --json");
    fixture.call("PUT", "/v1/agents/bob", "{}");
    fixture.call("POST", "/v1/messages", r#"{"to":"bob","from":"bob","action":"sum","payload":1}"#);
    assert!(run_json(&fixture, "audit log --format text --json")["records"].to_string().contains("sum"));
    assert_eq!(fixture.shell("quorate audit log --jsonl --limit 2").out.lines().count(), 2);
    assert_eq!(run_json(&fixture, "explain --json")["codes"][0]["code"], "INVALID");
    let page = run_json(&fixture, "explain STALE_LEASE --json")["page"].clone();
    assert!(page.as_str().is_some_and(|page| page.starts_with("# STALE_LEASE")), "{page}");
    let found = run_json(&fixture, "audit erase 4 0 --dry-run --json");
    assert_eq!((&found["dryRun"], &found["path"]), (&json!(true), &json!("/v1/commit")));
    fixture.kill();
    check_log(&fixture, "audit log --json --data quorate-data");
}

// Fails under: lists that print complete payloads.
#[test]
fn lists_truncate_large_values() {
    let fixture = Fixture::with_hub();
    let large = "x".repeat(300_000);
    fixture.call("PUT", "/v1/context/large", &format!(r#"{{"content":"{large}"}}"#));
    for format in ["table", "md", "compact"] {
        let out = fixture.shell(&format!("quorate memory list --format {format}")).out;
        assert!(out.len() < 2_000 && out.contains("xxx…"), "{format}: {}", out.len());
    }
    assert_eq!(fixture.shell("quorate memory get large").out, large);
    assert!(fixture.shell("quorate memory list --json").out.contains(&large));
    assert!(fixture.shell("quorate man msg send").out.contains(".SH EXAMPLES"));
}

// Fails under: a status screen without stuck work, or without its reason and the next command.
#[test]
fn n5_the_status_screen_shows_what_is_stuck_and_why() {
    let fixture = Fixture::with_hub();
    fixture.call("PUT", "/v1/agents/bob", r#"{"heartbeatMs":100}"#);
    fixture.call("PUT", "/v1/agents/lead", r#"{"role":"coordinator"}"#);
    fixture.call("POST", "/v1/messages", r#"{"to":"bob","from":"lead","payload":1}"#);
    fixture.call("POST", "/v1/tasks", r#"{"id":"one","type":"fly"}"#);
    let bob = fixture.shell("quorate token create --role agent --agent bob --name bob");
    fixture.call("PUT", "/v1/policy", r#"{"preset":"supervised"}"#);
    let token = bob.out.trim().to_owned();
    let send = format!("QUORATE_TOKEN={token} quorate msg send --to carol psst");
    fixture.call("PUT", "/v1/agents/carol", "{}");
    assert_ne!(fixture.shell(&send).code, Some(0));
    let shows = |line: &str| (0..200).any(|_| fixture.shell("quorate status").out.contains(line));
    assert!(
        shows("bob is offline, 1 message waits   → restart bob"),
        "{}",
        fixture.shell("quorate status").out
    );
    let out = fixture.shell("quorate status").out;
    for line in [
        "no agent has the capability fly, 1 task waits   → start an agent with the capability fly",
        "agent:bob: violation of structured at payload, ",
        "→ quorate explain POLICY_VIOLATION",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    let list = fixture.shell("quorate agent list").out;
    assert!(list.lines().any(|line| line.starts_with("bob") && line.contains("offline")), "{list}");
}
