//! TLS, timeouts and file permissions of `quorate serve`, with `curl` as the client.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Hub, QUORATE};

/// A hub with its log, called with curl by the admin.
struct LoggedHub {
    hub: Hub,
    log: BufReader<ChildStderr>,
}

impl LoggedHub {
    fn start(data: &Path, flags: &[&str]) -> Self {
        Self::start_trusting(data, flags, None)
    }

    /// Starts a hub that trusts this CA instead of those of the machine.
    fn start_trusting(data: &Path, flags: &[&str], authority: Option<&Path>) -> Self {
        // With umask 0, so that only the hub restricts permissions.
        let mut command = Command::new("sh");
        command.args(["-c", "umask 0; exec \"$@\"", "sh", QUORATE]);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(flags);
        command.stderr(Stdio::piped()).envs(authority.map(|file| ("SSL_CERT_FILE", file)));
        let mut hub = Hub::spawn(command);
        let log = BufReader::new(hub.child.stderr.take().expect("a pipe"));
        Self { hub, log }
    }

    /// Returns a URL with the host name of the certificate.
    fn url(&self, path: &str) -> String {
        let url = self.hub.ready["url"].as_str().expect("a url");
        format!("{}{path}", url.replace("127.0.0.1", "localhost"))
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let token = format!("Authorization: Bearer {}", self.hub.admin);
        let output = curl(&["-H", &token, "-X", method, "-d", &body.to_string(), &self.url(path)]);
        response(&output)
    }

    /// Returns the next log line that contains this text.
    fn log_line(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).expect("a line") > 0, "{text} is not in the log");
            if line.contains(text) {
                return line;
            }
        }
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(QUORATE).args(arguments).output().expect("it runs")
}

fn curl(arguments: &[&str]) -> Output {
    let base = ["-sS", "--noproxy", "*", "--max-time", "30", "-w", "\n%{http_code}"];
    Command::new("curl").args(base).args(arguments).output().expect("curl runs")
}

/// Parses the status and the body of a response.
fn response(output: &Output) -> (u16, Value) {
    let text = text(&output.stdout);
    let (body, status) = text.trim_end().rsplit_once('\n').unwrap_or_else(|| panic!("{output:?}"));
    (status.parse().expect("a status"), serde_json::from_str(body).unwrap_or(Value::Null))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it exists").permissions().mode() & 0o777
}

/// Creates a development certificate with the command.
fn certificate() -> (TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("tls");
    let created = run(&["cert", "dev", "--out", &out.to_string_lossy(), "--json"]);
    assert!(created.status.success(), "{}", text(&created.stderr));
    let created: Value = serde_json::from_slice(&created.stdout).expect("JSON");
    assert_eq!(created["hosts"], json!(["localhost", "127.0.0.1", "::1"]));
    let path = |name: &str| PathBuf::from(created[name].as_str().expect("a path"));
    (directory, path("certificate"), path("key"))
}

#[test]
fn d13_cert_dev_prints_its_files_and_overwrites_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("tls");
    let out = out.to_string_lossy();
    let dry = run(&["cert", "dev", "--out", &out, "--host", "hub.test", "--dry-run"]);
    assert!(dry.status.success() && text(&dry.stdout).contains("hub.test"), "{dry:?}");
    assert!(!directory.path().join("tls").exists());
    let created = run(&["cert", "dev", "--out", &out, "--host", "hub.test"]);
    assert!(created.status.success(), "{}", text(&created.stderr));
    let (shown, advice) = (text(&created.stdout), text(&created.stderr));
    assert!(shown.contains("cert.pem") && shown.contains("key.pem") && shown.contains("hub.test"), "{shown}");
    assert!(advice.contains("quorate serve --tls-cert") && advice.contains("--host hub.test"), "{advice}");
    assert!(advice.contains("curl --cacert"), "{advice}");
    let key = directory.path().join("tls/key.pem");
    assert_eq!(mode(&key), 0o600);
    let before = fs::read(&key).expect("a key");
    let second = run(&["cert", "dev", "--out", &out]);
    assert_eq!(second.status.code(), Some(5));
    assert!(text(&second.stderr).contains("--force"), "{}", text(&second.stderr));
    assert_eq!(fs::read(&key).expect("a key"), before);
    assert!(run(&["cert", "dev", "--out", &out, "--force"]).status.success());
    assert_ne!(fs::read(&key).expect("a key"), before);
}

#[test]
fn d13_a_hub_reloads_its_certificate() {
    let (tls, certificate, key) = certificate();
    let directory = tempfile::tempdir().expect("a directory");
    let (shown, key) = (certificate.to_string_lossy(), key.to_string_lossy());
    let flags = ["--tls-cert", &shown, "--tls-key", &key, "--cert-check-ms", "50"];
    let mut hub = LoggedHub::start(&directory.path().join("data"), &flags);
    // The address is in the same field as without TLS; the scheme is in the URL.
    let ready = &hub.hub.ready;
    assert!(ready["http"].is_string() && ready["http"] == ready["https"], "{ready}");
    assert!(ready["url"].as_str().is_some_and(|url| url.starts_with("https://")), "{ready}");
    let health = hub.url("/healthz");
    assert!(health.starts_with("https://"), "{health}");
    assert_eq!(response(&curl(&["--cacert", &shown, &health])).0, 200);
    assert!(!curl(&[&health]).status.success(), "an untrusted certificate is rejected");
    let plain = curl(&[&health.replace("https", "http")]);
    assert_eq!(response(&plain).1["code"], "INVALID", "{plain:?}");
    // A broken certificate first.
    let good = fs::read(&certificate).expect("a certificate");
    fs::write(&certificate, "broken").expect("it is written");
    hub.log_line("no PEM certificate found");
    let kept = tls.path().join("kept.pem");
    fs::write(&kept, good).expect("it is written");
    assert_eq!(response(&curl(&["--cacert", &kept.to_string_lossy(), &health])).0, 200);
    let out = tls.path().join("tls");
    assert!(run(&["cert", "dev", "--force", "--out", &out.to_string_lossy()]).status.success());
    hub.log_line("reloaded the certificate");
    assert_eq!(response(&curl(&["--cacert", &shown, &health])).0, 200);
}

// Fails under: commands without a CA option; a certificate error without a hint.
#[test]
fn d13_commands_connect_to_a_hub_with_tls() {
    let (tls, certificate, key) = certificate();
    let data = TempDir::new().expect("a directory");
    let (shown, key) = (certificate.to_string_lossy(), key.to_string_lossy());
    let hub = LoggedHub::start(&data.path().join("team"), &["--tls-cert", &shown, "--tls-key", &key]);
    let url = hub.url("");
    assert!(url.starts_with("https://localhost:"), "{url}");
    let list_agents = |rest: &[&str], environment: &[(&str, &str)]| {
        let mut command = Command::new(QUORATE);
        command.args(["agent", "list", "--json", "--url", &url]).args(rest);
        command.env("QUORATE_TOKEN", &hub.hub.admin).envs(environment.iter().copied());
        let output = command.output().expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), err)
    };
    let (code, out, err) = list_agents(&["--ca-file", &shown], &[]);
    assert_eq!((code, out.contains("\"agents\"")), (Some(0), true), "{out}{err}");
    let (code, _, err) = list_agents(&[], &[("QUORATE_CA_FILE", &*shown)]);
    assert_eq!(code, Some(0), "{err}");
    // The certificate is not signed by a CA of this machine.
    let (code, _, err) = list_agents(&[], &[]);
    assert_ne!(code, Some(0));
    assert!(err.contains("certificate is not accepted") && err.contains("--ca-file"), "{err}");
    assert!(err.contains("quorate cert dev"), "{err}");
    // A certificate of another hub.
    let other = tls.path().join("other");
    assert!(run(&["cert", "dev", "--out", &other.to_string_lossy()]).status.success());
    let other = other.join("cert.pem");
    let (code, _, err) = list_agents(&["--ca-file", &other.to_string_lossy()], &[]);
    assert!(code != Some(0) && err.contains("certificate is not accepted"), "{err}");
    let (code, _, err) = list_agents(&["--ca-file", "nowhere.pem"], &[]);
    assert!(code != Some(0) && err.contains("nowhere.pem"), "{err}");
}

// Fails under: an exporter without TLS, or one that accepts any certificate. The collector is a hub, which rejects spans.
#[test]
fn d11_spans_are_exported_over_tls() {
    let (tls, certificate, key) = certificate();
    let data = TempDir::new().expect("a directory");
    let flags = ["--tls-cert", &certificate.to_string_lossy(), "--tls-key", &key.to_string_lossy()];
    let collector = LoggedHub::start(&data.path().join("collector"), &flags);
    let other = tls.path().join("other");
    assert!(run(&["cert", "dev", "--out", &other.to_string_lossy()]).status.success());
    let rejected = |name: &str, authority: &Path| {
        let flags = ["--otlp", &collector.url("")];
        let mut exporter = LoggedHub::start_trusting(&data.path().join(name), &flags, Some(authority));
        let registered = exporter.call("PUT", "/v1/agents/alice", &json!({})).1;
        let alice = registered["token"].as_str().expect("a token");
        let hub = &exporter.hub;
        assert_eq!(hub.call(alice, "POST", "/v1/messages", &json!({"to": "alice", "payload": 1})).0, 200);
        let claimed = hub.call(alice, "POST", "/v1/agents/alice/inbox/claim", &json!({})).1;
        let delivery = &claimed["deliveries"][0];
        let (delivery_id, lease) = (&delivery["deliveryId"], &delivery["leaseToken"]);
        let ack = json!({"ops": [{"op": "ack", "deliveryId": delivery_id, "leaseToken": lease}]});
        assert_eq!(hub.call(alice, "POST", "/v1/commit", &ack).0, 200);
        exporter.log_line("failed to export spans")
    };
    let trusted = rejected("trusts", &certificate);
    assert!(trusted.contains("answered 4") && trusted.contains("\"givenUp\":true"), "{trusted}");
    let untrusted = rejected("does-not", &other.join("cert.pem"));
    assert!(untrusted.contains("certificate is not accepted"), "{untrusted}");
}

#[test]
fn d13_other_interfaces_require_tls() {
    let (_tls, certificate, key) = certificate();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let serve = |flags: &[&str]| {
        // A documentation address, which no machine has, so listening fails.
        let base = ["serve", "--listen", "192.0.2.1:0", "--data", &data.to_string_lossy()];
        let output = run(&[&base, flags].concat());
        (output.status.code(), text(&output.stderr))
    };
    let (code, err) = serve(&[]);
    assert!(code == Some(64) && err.contains("not be encrypted") && err.contains("--tls-cert"), "{err}");
    let (certificate, key) = (certificate.to_string_lossy(), key.to_string_lossy());
    let (code, err) = serve(&["--tls-cert", &certificate, "--tls-key", &key]);
    assert!(code == Some(64) && err.contains("cannot listen on"), "{err}");
    let (code, err) = serve(&["--tls-cert", &certificate]);
    assert!(code == Some(64) && err.contains("--tls-key"), "{err}");
    let (code, err) = serve(&["--tls-cert", &certificate, "--tls-key", &certificate]);
    assert!(
        code == Some(64) && err.contains("no PEM private key") && err.contains("quorate cert dev"),
        "{err}"
    );
}

#[test]
fn i18_files_of_the_hub_are_private_regardless_of_the_umask() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    // An existing directory that everyone can access.
    fs::DirBuilder::new().mode(0o777).create(&data).expect("a directory");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o777)).expect("it is opened");
    let hub = LoggedHub::start(&data, &[]);
    assert_eq!(hub.call("PUT", "/v1/agents/bob", &json!({})).0, 201);
    assert_eq!(mode(&data), 0o700);
    let files: Vec<_> =
        fs::read_dir(&data).expect("a list").map(|entry| entry.expect("a file").path()).collect();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        assert_eq!(mode(&file) & 0o077, 0, "{} is open to others", file.display());
    }
}

#[test]
fn timeouts_of_serve_can_be_set() {
    let short = text(&run(&["serve", "-h"]).stdout);
    let long = text(&run(&["serve", "--help"]).stdout);
    for flag in ["--lease-ms", "--heartbeat-ms", "--heartbeat-batch-ms", "--agent-rate", "--connections"] {
        assert!(long.contains(flag) && !short.contains(flag), "{flag}\n{short}");
    }
    assert!(short.contains("--tls-cert"), "{short}");
    let directory = tempfile::tempdir().expect("a directory");
    let flags = [
        "--lease-ms",
        "1000",
        "--heartbeat-ms",
        "100",
        "--heartbeat-batch-ms",
        "20",
        "--long-poll-max-ms",
        "20000",
    ];
    let hub = LoggedHub::start(&directory.path().join("data"), &flags);
    for agent in ["alice", "bob"] {
        assert_eq!(hub.call("PUT", &format!("/v1/agents/{agent}"), &json!({})).0, 201);
    }
    let send = json!({"from": "alice", "to": "bob", "payload": 1});
    assert_eq!(hub.call("POST", "/v1/messages", &send).0, 200);
    let claim = |wait_ms: u64| hub.call("POST", "/v1/agents/bob/inbox/claim", &json!({"waitMs": wait_ms}));
    assert_eq!(claim(0).1["deliveries"][0]["attempt"], 1);
    // The lease of a second expires. Bob is offline before that, which releases nothing.
    let redelivered = claim(20_000).1;
    assert_eq!(redelivered["deliveries"][0]["message"]["payload"], 1, "{redelivered}");
    assert_eq!(claim(20_001), (429, claim(20_001).1));
    // Three heartbeats of 100 ms are missed.
    while hub.call("GET", "/v1/agents/alice", &json!({})).1["status"] != "offline" {
        std::thread::yield_now();
    }
}

#[test]
fn sigterm_answers_waiting_claims_and_exits_with_0() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut hub = LoggedHub::start(&directory.path().join("data"), &["--drain-ms", "1000"]);
    assert_eq!(hub.call("PUT", "/v1/agents/bob", &json!({})).0, 201);
    let token = format!("Authorization: Bearer {}", hub.hub.admin);
    let curl = Command::new("curl")
        .args(["-sSN", "--noproxy", "*", "-H", &token, &hub.url("/v1/events?from=1")])
        .stdout(Stdio::piped())
        .spawn();
    let mut curl = curl.expect("curl runs");
    let mut events = BufReader::new(curl.stdout.take().expect("a pipe"));
    let mut line = String::new();
    events.read_line(&mut line).expect("a line");
    assert!(line.starts_with(": from 1"), "{line}");
    let (status, response) = std::thread::scope(|scope| {
        let claim =
            scope.spawn(|| hub.call("POST", "/v1/agents/bob/inbox/claim", &json!({"waitMs": 60_000})));
        while hub.call("GET", "/v1/agents/bob", &json!({})).1["load"]["listening"] != 1 {
            std::thread::yield_now();
        }
        hub.hub.signal("-TERM");
        claim.join().expect("an answer")
    });
    assert_eq!(
        (status, &response["code"], &response["applied"]),
        (503, &json!("UNAVAILABLE"), &json!("no")),
        "{response}"
    );
    assert!(hub.hub.child.wait().expect("it ends").success());
    let mut rest = String::new();
    events.read_to_string(&mut rest).expect("the rest");
    assert!(curl.wait().expect("curl ends").success(), "the event stream ended cleanly");
}

// Fails under: a token file that stays readable for other users, or is restricted without a warning.
#[test]
fn i18_an_admin_token_open_to_others_is_closed_at_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    drop(LoggedHub::start(&data, &[]));
    let file = data.join("admin-token");
    let before = fs::read_to_string(&file).expect("a token");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("opened");
    let mut hub = LoggedHub::start(&data, &[]);
    let line = hub.log_line("other users could read the admin token");
    assert!(line.contains("0644") && line.contains("admin-token"), "{line}");
    assert_eq!(fs::metadata(&file).expect("metadata").permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&file).expect("a token"), before);
    assert_eq!(hub.call("GET", "/v1/info", &json!({})).0, 200);
}

// Fails under: a hub that writes through a symbolic link in its data directory.
#[test]
fn i18_symbolic_links_in_a_data_directory_are_refused() {
    for name in ["quorate.lock", "quorate.private", "quorate.db", "admin-token"] {
        let directory = tempfile::tempdir().expect("a directory");
        let (data, victim) = (directory.path().join("data"), directory.path().join("victim"));
        fs::create_dir(&data).expect("a directory");
        if name == "quorate.private" {
            fs::create_dir(&victim).expect("a directory");
        } else {
            fs::write(&victim, "precious").expect("written");
        }
        if name == "admin-token" {
            // Of an existing hub: a directory without data must not contain other files.
            drop(LoggedHub::start(&data, &[]));
            fs::remove_file(data.join(name)).expect("removed");
        }
        std::os::unix::fs::symlink(&victim, data.join(name)).expect("linked");
        let output = run(&["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().expect("text")]);
        assert_eq!(output.status.code(), Some(65), "{name}: {output:?}");
        let error = text(&output.stderr);
        assert!(error.contains(name) && error.contains("symbolic link"), "{name}: {error}");
        match name {
            "quorate.private" => assert_eq!(fs::read_dir(&victim).expect("a directory").count(), 0),
            _ => assert_eq!(fs::read_to_string(&victim).expect("read"), "precious"),
        }
    }
}
