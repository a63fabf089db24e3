//! The outer wall as whoever runs a hub meets it: a real process, its files, its flags, and `curl` at the other end.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Hub, QUORATE};

/// A hub that is asked with curl, by the admin.
struct Walled {
    hub: Hub,
    said: BufReader<ChildStderr>,
}

impl Walled {
    fn start(data: &Path, flags: &[&str]) -> Self {
        Self::start_trusting(data, flags, None)
    }

    /// One that trusts the authority of this file instead of those of the machine.
    fn start_trusting(data: &Path, flags: &[&str], authority: Option<&Path>) -> Self {
        // With the loosest umask there is: what is closed is closed by the hub.
        let mut command = Command::new("sh");
        command.args(["-c", "umask 0; exec \"$@\"", "sh", QUORATE]);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(flags);
        command.stderr(Stdio::piped()).envs(authority.map(|file| ("SSL_CERT_FILE", file)));
        let mut hub = Hub::of(command);
        let said = BufReader::new(hub.child.stderr.take().expect("a pipe"));
        Self { hub, said }
    }

    /// By name, as a certificate has it.
    fn url(&self, path: &str) -> String {
        let url = self.hub.ready["url"].as_str().expect("a url");
        format!("{}{path}", url.replace("127.0.0.1", "localhost"))
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let token = format!("Authorization: Bearer {}", self.hub.admin);
        let output = curl(&["-H", &token, "-X", method, "-d", &body.to_string(), &self.url(path)]);
        told(&output)
    }

    /// What the hub says next on stderr that has this in it.
    fn says(&mut self, what: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).expect("a line") > 0, "it never said {what}");
            if line.contains(what) {
                return line;
            }
        }
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(QUORATE).args(arguments).output().expect("it runs")
}

fn curl(arguments: &[&str]) -> Output {
    let always = ["-sS", "--noproxy", "*", "--max-time", "30", "-w", "\n%{http_code}"];
    Command::new("curl").args(always).args(arguments).output().expect("curl runs")
}

/// The status and what came with it.
fn told(output: &Output) -> (u16, Value) {
    let text = text(&output.stdout);
    let (body, status) = text.trim_end().rsplit_once('\n').unwrap_or_else(|| panic!("{output:?}"));
    (status.parse().expect("a status"), serde_json::from_str(body).unwrap_or(Value::Null))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// A development certificate, as the command makes it.
fn certificate() -> (TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("tls");
    let made = run(&["cert", "dev", "--out", &out.to_string_lossy(), "--json"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).expect("JSON");
    assert_eq!(made["hosts"], json!(["localhost", "127.0.0.1", "::1"]));
    let path = |name: &str| PathBuf::from(made[name].as_str().expect("a path"));
    (directory, path("certificate"), path("key"))
}

#[test]
fn d13_cert_dev_says_what_it_wrote_and_overwrites_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("tls");
    let out = out.to_string_lossy();
    let dry = run(&["cert", "dev", "--out", &out, "--host", "hub.test", "--dry-run"]);
    assert!(dry.status.success() && text(&dry.stdout).contains("hub.test"), "{dry:?}");
    assert!(!directory.path().join("tls").exists());
    let made = run(&["cert", "dev", "--out", &out, "--host", "hub.test"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let (shown, advice) = (text(&made.stdout), text(&made.stderr));
    assert!(shown.contains("cert.pem") && shown.contains("key.pem") && shown.contains("hub.test"), "{shown}");
    assert!(advice.contains("quorate serve --tls-cert") && advice.contains("--host hub.test"), "{advice}");
    assert!(advice.contains("curl --cacert"), "{advice}");
    let key = directory.path().join("tls/key.pem");
    assert_eq!(mode(&key), 0o600);
    let before = fs::read(&key).expect("a key");
    let again = run(&["cert", "dev", "--out", &out]);
    assert_eq!(again.status.code(), Some(5));
    assert!(text(&again.stderr).contains("--force"), "{}", text(&again.stderr));
    assert_eq!(fs::read(&key).expect("a key"), before);
    assert!(run(&["cert", "dev", "--out", &out, "--force"]).status.success());
    assert_ne!(fs::read(&key).expect("a key"), before);
}

#[test]
fn d13_a_hub_under_tls_takes_up_a_new_certificate() {
    let (tls, certificate, key) = certificate();
    let directory = tempfile::tempdir().expect("a directory");
    let (shown, key) = (certificate.to_string_lossy(), key.to_string_lossy());
    let flags = ["--tls-cert", &shown, "--tls-key", &key, "--cert-look-ms", "50"];
    let mut hub = Walled::start(&directory.path().join("data"), &flags);
    // Whoever reads the address reads it in the same place as without TLS; the scheme is in the URL.
    let ready = &hub.hub.ready;
    assert!(ready["http"].is_string() && ready["http"] == ready["https"], "{ready}");
    assert!(ready["url"].as_str().is_some_and(|url| url.starts_with("https://")), "{ready}");
    let health = hub.url("/healthz");
    assert!(health.starts_with("https://"), "{health}");
    assert_eq!(told(&curl(&["--cacert", &shown, &health])).0, 200);
    assert!(!curl(&[&health]).status.success(), "who was not told to trust it does not");
    let plain = curl(&[&health.replace("https", "http")]);
    assert_eq!(told(&plain).1["code"], "INVALID", "{plain:?}");
    // A broken one first.
    let good = fs::read(&certificate).expect("a certificate");
    fs::write(&certificate, "broken").expect("it is written");
    hub.says("no PEM certificate found");
    let kept = tls.path().join("kept.pem");
    fs::write(&kept, good).expect("it is written");
    assert_eq!(told(&curl(&["--cacert", &kept.to_string_lossy(), &health])).0, 200);
    let out = tls.path().join("tls");
    assert!(run(&["cert", "dev", "--force", "--out", &out.to_string_lossy()]).status.success());
    hub.says("the new certificate is in use");
    assert_eq!(told(&curl(&["--cacert", &shown, &health])).0, 200);
}

// Fails under: commands that cannot be told whom to trust; an error that leaves a user alone with a certificate.
#[test]
fn d13_the_command_line_speaks_to_a_hub_under_tls() {
    let (tls, certificate, key) = certificate();
    let data = TempDir::new().expect("a directory");
    let (shown, key) = (certificate.to_string_lossy(), key.to_string_lossy());
    let hub = Walled::start(&data.path().join("team"), &["--tls-cert", &shown, "--tls-key", &key]);
    let url = hub.url("");
    assert!(url.starts_with("https://localhost:"), "{url}");
    let ask = |rest: &[&str], environment: &[(&str, &str)]| {
        let mut command = Command::new(QUORATE);
        command.args(["agent", "list", "--json", "--url", &url]).args(rest);
        command.env("QUORATE_TOKEN", &hub.hub.admin).envs(environment.iter().copied());
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), said)
    };
    let (code, told, said) = ask(&["--ca-file", &shown], &[]);
    assert_eq!((code, told.contains("\"agents\"")), (Some(0), true), "{told}{said}");
    let (code, _, said) = ask(&[], &[("QUORATE_CA_FILE", &*shown)]);
    assert_eq!(code, Some(0), "{said}");
    // Nobody signed it whom this machine knows.
    let (code, _, said) = ask(&[], &[]);
    assert_ne!(code, Some(0));
    assert!(said.contains("certificate is not accepted") && said.contains("--ca-file"), "{said}");
    assert!(said.contains("quorate cert dev"), "{said}");
    // Somebody else's certificate.
    let other = tls.path().join("other");
    assert!(run(&["cert", "dev", "--out", &other.to_string_lossy()]).status.success());
    let other = other.join("cert.pem");
    let (code, _, said) = ask(&["--ca-file", &other.to_string_lossy()], &[]);
    assert!(code != Some(0) && said.contains("certificate is not accepted"), "{said}");
    let (code, _, said) = ask(&["--ca-file", "nowhere.pem"], &[]);
    assert!(code != Some(0) && said.contains("nowhere.pem"), "{said}");
}

// Fails under: an exporter without TLS; one that accepts any certificate. A hub takes no spans, but it answers.
#[test]
fn d11_spans_go_to_a_collector_over_tls() {
    let (tls, certificate, key) = certificate();
    let data = TempDir::new().expect("a directory");
    let flags = ["--tls-cert", &certificate.to_string_lossy(), "--tls-key", &key.to_string_lossy()];
    let collector = Walled::start(&data.path().join("collector"), &flags);
    let other = tls.path().join("other");
    assert!(run(&["cert", "dev", "--out", &other.to_string_lossy()]).status.success());
    let not_taken = |name: &str, authority: &Path| {
        let flags = ["--otlp", &collector.url("")];
        let mut walled = Walled::start_trusting(&data.path().join(name), &flags, Some(authority));
        let made = walled.call("PUT", "/v1/agents/alice", &json!({})).1;
        let alice = made["token"].as_str().expect("a token");
        let hub = &walled.hub;
        assert_eq!(hub.call(alice, "POST", "/v1/messages", &json!({"to": "alice", "payload": 1})).0, 200);
        let claimed = hub.call(alice, "POST", "/v1/agents/alice/inbox/claim", &json!({})).1;
        let taken = &claimed["deliveries"][0];
        let (delivery, lease) = (&taken["deliveryId"], &taken["leaseToken"]);
        let ack = json!({"ops": [{"op": "ack", "deliveryId": delivery, "leaseToken": lease}]});
        assert_eq!(hub.call(alice, "POST", "/v1/commit", &ack).0, 200);
        walled.says("failed to export spans")
    };
    let answered = not_taken("trusts", &certificate);
    assert!(answered.contains("answered 4") && answered.contains("\"givenUp\":true"), "{answered}");
    let refused = not_taken("does-not", &other.join("cert.pem"));
    assert!(refused.contains("certificate is not accepted"), "{refused}");
}

#[test]
fn d13_tls_is_the_way_beyond_this_machine() {
    let (_tls, certificate, key) = certificate();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let serve = |more: &[&str]| {
        // An address for documentation: no machine has it, so it cannot be listened on.
        let always = ["serve", "--listen", "192.0.2.1:0", "--data", &data.to_string_lossy()];
        let output = run(&[&always, more].concat());
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = serve(&[]);
    assert!(code == Some(64) && said.contains("not be encrypted") && said.contains("--tls-cert"), "{said}");
    let (certificate, key) = (certificate.to_string_lossy(), key.to_string_lossy());
    let (code, said) = serve(&["--tls-cert", &certificate, "--tls-key", &key]);
    assert!(code == Some(64) && said.contains("cannot listen on"), "{said}");
    let (code, said) = serve(&["--tls-cert", &certificate]);
    assert!(code == Some(64) && said.contains("--tls-key"), "{said}");
    let (code, said) = serve(&["--tls-cert", &certificate, "--tls-key", &certificate]);
    assert!(
        code == Some(64) && said.contains("no PEM private key") && said.contains("quorate cert dev"),
        "{said}"
    );
}

#[test]
fn i18_what_the_hub_writes_is_closed_whatever_the_umask() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    // One that was there before, and open to everybody.
    fs::DirBuilder::new().mode(0o777).create(&data).expect("a directory");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o777)).expect("it is opened");
    let hub = Walled::start(&data, &[]);
    assert_eq!(hub.call("PUT", "/v1/agents/bob", &json!({})).0, 201);
    assert_eq!(mode(&data), 0o700);
    let files: Vec<_> = fs::read_dir(&data).expect("a list").map(|one| one.expect("a file").path()).collect();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        assert_eq!(mode(&file) & 0o077, 0, "{} is open to others", file.display());
    }
}

#[test]
fn every_time_of_serve_can_be_shrunk() {
    let short = text(&run(&["serve", "-h"]).stdout);
    let long = text(&run(&["serve", "--help"]).stdout);
    for flag in ["--lease-ms", "--heartbeat-ms", "--sweep-ms", "--agent-rate", "--connections"] {
        assert!(long.contains(flag) && !short.contains(flag), "{flag}\n{short}");
    }
    assert!(short.contains("--tls-cert"), "{short}");
    let directory = tempfile::tempdir().expect("a directory");
    let flags = ["--lease-ms", "1000", "--heartbeat-ms", "100", "--sweep-ms", "20", "--wait-max-ms", "20000"];
    let hub = Walled::start(&directory.path().join("data"), &flags);
    for agent in ["alice", "bob"] {
        assert_eq!(hub.call("PUT", &format!("/v1/agents/{agent}"), &json!({})).0, 201);
    }
    let send = json!({"from": "alice", "to": "bob", "payload": 1});
    assert_eq!(hub.call("POST", "/v1/messages", &send).0, 200);
    let claim = |wait_ms: u64| hub.call("POST", "/v1/agents/bob/inbox/claim", &json!({"waitMs": wait_ms}));
    assert_eq!(claim(0).1["deliveries"][0]["attempt"], 1);
    // The lease of a second runs out, or bob is found to be silent before that.
    let again = claim(20_000).1;
    assert_eq!(again["deliveries"][0]["message"]["payload"], 1, "{again}");
    assert_eq!(claim(20_001), (429, claim(20_001).1));
    // Three heartbeats of 100 ms are missed.
    while hub.call("GET", "/v1/agents/alice", &json!({})).1["status"] != "offline" {
        std::thread::yield_now();
    }
}

#[test]
fn sigterm_tells_whoever_waits_and_ends_with_0() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut hub = Walled::start(&directory.path().join("data"), &["--drain-ms", "1000"]);
    assert_eq!(hub.call("PUT", "/v1/agents/bob", &json!({})).0, 201);
    let token = format!("Authorization: Bearer {}", hub.hub.admin);
    let follows = Command::new("curl")
        .args(["-sSN", "--noproxy", "*", "-H", &token, &hub.url("/v1/events?from=1")])
        .stdout(Stdio::piped())
        .spawn();
    let mut follows = follows.expect("curl runs");
    let mut events = BufReader::new(follows.stdout.take().expect("a pipe"));
    let mut line = String::new();
    events.read_line(&mut line).expect("a line");
    assert!(line.starts_with(": from 1"), "{line}");
    let (status, waited) = std::thread::scope(|scope| {
        let waits =
            scope.spawn(|| hub.call("POST", "/v1/agents/bob/inbox/claim", &json!({"waitMs": 60_000})));
        while hub.call("GET", "/v1/agents/bob", &json!({})).1["load"]["listening"] != 1 {
            std::thread::yield_now();
        }
        hub.hub.signal("-TERM");
        waits.join().expect("an answer")
    });
    assert_eq!(
        (status, &waited["code"], &waited["applied"]),
        (503, &json!("UNAVAILABLE"), &json!("no")),
        "{waited}"
    );
    assert!(hub.hub.child.wait().expect("it ends").success());
    let mut rest = String::new();
    events.read_to_string(&mut rest).expect("the rest");
    assert!(follows.wait().expect("curl ends").success(), "the events ended in peace");
}
