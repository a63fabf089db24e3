//! Log output and audit export of a running hub.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Hub, QUORATE};

/// Starts a hub with these flags, and redirects its stderr to a file.
fn start(data: &Path, stderr: &Path, flags: &[&str]) -> Hub {
    let mut command = Command::new(QUORATE);
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(flags).arg("--data").arg(data);
    command.stderr(File::create(stderr).expect("a file"));
    Hub::spawn(command)
}

// Fails under: a path, a query, a header or a detail in a log line.
#[test]
fn i18_the_log_contains_no_token_and_no_payload() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data, log) = (directory.path().join("data"), directory.path().join("stderr"));
    let hub = start(&data, &log, &["--log", "debug"]);
    let admin = hub.admin.clone();
    let (status, created) = hub.text(&admin, "PUT", "/v1/agents/alice", "{}");
    assert_eq!(status, 201, "{created}");
    let created: Value = serde_json::from_str(&created).expect("JSON");
    let alice = created["token"].as_str().expect("a token").to_owned();
    let message = r#"{"to":"alice","payload":"the payload is nobody's business"}"#;
    assert_eq!(hub.text(&alice, "POST", "/v1/messages", message).0, 200);
    let (rest, last) = alice.split_at(alice.len() - 1);
    let invalid = format!("{rest}{}", if last == "x" { "y" } else { "x" });
    assert_eq!(hub.text(&invalid, "GET", "/v1/info", "").0, 401);
    assert_eq!(hub.text(&alice, "GET", &format!("/v1/agents/{alice}"), "").0, 404);
    assert_eq!(hub.text(&alice, "GET", &format!("/v1/{alice}?token={alice}"), "").0, 404);
    assert_eq!(hub.text(&alice, "GET", &format!("/v1/events?from={alice}"), "").0, 400);
    assert_eq!(hub.text(&alice, "POST", "/v1/messages", &format!("{{\"to\":\"{alice}\"}}")).0, 404);
    hub.stop();
    let log = fs::read_to_string(log).expect("a log");
    for secret in ["qrt_", &admin, &alice, "nobody's business", "Bearer"] {
        assert!(!log.contains(secret), "{secret} in\n{log}");
    }
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("only JSON")).collect();
    // The first start logs the path of the token, but not the token itself.
    assert!(lines[2]["file"].as_str().is_some_and(|file| file.ends_with("admin-token")), "{log}");
    let events: Vec<_> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events[..4], ["starting", "recovered", "created the admin token", "ready"]);
    assert_eq!(events[events.len() - 2..], ["stopping", "stopped"]);
    let is_rejected = |line: &&Value| line["code"] == "UNAUTHENTICATED" && line["level"] == "warn";
    assert!(lines.iter().any(|line| is_rejected(&line)), "{log}");
    let put = lines.iter().find(|line| line["method"] == "PUT").expect("a request");
    assert_eq!((put["route"].as_str(), put["level"].as_str()), (Some("/v1/agents/{id}"), Some("debug")));
    assert_eq!(put["principal"], "admin:bootstrap");
}

// Fails under: two renderings of a record.
#[test]
fn i17_the_audit_over_http_is_the_export_byte_for_byte() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data, log) = (directory.path().join("data"), directory.path().join("stderr"));
    let hub = start(&data, &log, &["--log", "warn", "--log-format", "plain"]);
    for agent in ["alice", "bob", "carol"] {
        assert_eq!(hub.text(&hub.admin, "PUT", &format!("/v1/agents/{agent}"), "{}").0, 201);
    }
    let message = r#"{"from":"alice","to":["alice","bob"],"action":"greet","payload":1}"#;
    assert_eq!(hub.text(&hub.admin, "POST", "/v1/messages", message).0, 200);
    assert_eq!(hub.text(&hub.admin, "DELETE", "/v1/agents/carol", "").0, 200);
    let (status, audit) = hub.text(&hub.admin, "GET", "/v1/audit", "");
    assert_eq!(status, 200, "{audit}");
    let (_, later) = hub.text(&hub.admin, "GET", "/v1/audit?from=3", "");
    hub.stop();
    let export = |from: &str| {
        let output = Command::new(QUORATE)
            .args(["audit", "export", "--from", from, "--data"])
            .arg(&data)
            .output()
            .expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(audit.lines().count() >= 5, "{audit}");
    assert_eq!(audit, export("1"));
    assert_eq!(later, export("3"));
    assert_eq!(fs::read_to_string(log).expect("a log"), "", "there are no warnings");
}

#[test]
fn an_invalid_collector_is_reported_before_anything_is_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let output = Command::new(QUORATE)
            .arg("serve")
            .args(arguments)
            .envs(variables.iter().copied())
            .arg("--data")
            .arg(&data)
            .output()
            .expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, err) = run(&["--otlp", "ftp://collector.example"], &[]);
    assert!(code == Some(64) && err.contains("ftp") && err.contains("help:"), "{code:?} {err}");
    let (code, err) = run(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector")]);
    assert!(code == Some(64) && err.contains("collector"), "{code:?} {err}");
    let (code, err) = run(&[], &[("QUORATE_LOG", "loud")]);
    assert!(code == Some(64) && err.contains("QUORATE_LOG") && err.contains("debug"), "{code:?} {err}");
    assert!(!data.exists());
}
