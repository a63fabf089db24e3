//! `quorate serve` as a real process: sockets, signals, backups and permissions.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::{Hub, QUORATE, run_guide, run_script};

fn register(hub: &Hub, id: &str) -> String {
    let (status, registered) = hub.call(&hub.admin, "PUT", &format!("/v1/agents/{id}"), &json!({}));
    assert_eq!(status, 201, "{registered}");
    registered["token"].as_str().expect("a token").to_owned()
}

#[test]
fn acknowledged_messages_survive_kill_9() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let hub = Hub::start(&data);
    let (alice, bob) = (register(&hub, "alice"), register(&hub, "bob"));
    for n in 0..50 {
        let (status, response) =
            hub.call(&alice, "POST", "/v1/messages", &json!({"to": "bob", "payload": n}));
        assert_eq!(status, 200, "{response}");
    }
    hub.signal("-KILL");
    drop(hub);
    let hub = Hub::start(&data);
    let (status, claimed) = hub.call(&bob, "POST", "/v1/agents/bob/inbox/claim", &json!({"max": 100}));
    assert_eq!(status, 200, "{claimed}");
    let received: Vec<_> = claimed["deliveries"]
        .as_array()
        .expect("deliveries")
        .iter()
        .map(|delivery| delivery["message"]["payload"].as_u64().expect("a number"))
        .collect();
    assert_eq!(received, (0..50).collect::<Vec<_>>());
}

// Fails under: an inconsistent copy, a copy with less than the printed position; a generation that does not increase.
#[test]
fn i24_an_online_backup_has_everything_acknowledged_before_its_position() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let hub = Hub::start(&path("data"));
    let alice = register(&hub, "alice");
    let send = |n: u64| hub.call(&alice, "POST", "/v1/messages", &json!({"to": "alice", "payload": n})).1;
    let seq_of = |response: &Value| response["receipts"][0]["seq"].as_u64().expect("a record");
    let (is_backup_done, sent) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let position = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                let seq = seq_of(&send(n));
                sent.lock().expect("not poisoned").push((seq, n));
                if is_backup_done.load(Ordering::Acquire) {
                    break;
                }
            }
        });
        while sent.lock().expect("not poisoned").len() < 20 {
            std::thread::yield_now();
        }
        let output = Command::new(QUORATE)
            .args(["backup", "create", "--json", "--data"])
            .arg(path("data"))
            .arg("--out")
            .arg(path("copy"))
            .output()
            .expect("it runs");
        is_backup_done.store(true, Ordering::Release);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        printed["spaces"][0]["seq"].as_u64().expect("a position")
    });
    let sent = sent.into_inner().expect("not poisoned");
    let expected: Vec<u64> = sent.iter().filter(|(seq, _)| *seq <= position).map(|(_, n)| *n).collect();
    assert!(expected.len() >= 20, "{position} {sent:?}");
    hub.stop();
    let restore = Command::new(QUORATE)
        .args(["backup", "restore", "--from"])
        .arg(path("copy"))
        .arg("--data")
        .arg(path("new"))
        .status();
    assert!(restore.expect("it runs").success());
    let verify = Command::new(QUORATE).arg("verify").arg("--data").arg(path("new")).status();
    assert!(verify.expect("it runs").success());
    let file = path("data").join("admin-token");
    fs::copy(file, path("new").join("admin-token")).expect("the token is copied");
    let hub = Hub::start(&path("new"));
    let (status, claimed) = hub.call(&alice, "POST", "/v1/agents/alice/inbox/claim", &json!({"max": 256}));
    assert_eq!(status, 200, "{claimed}");
    let received: Vec<u64> = claimed["deliveries"]
        .as_array()
        .expect("deliveries")
        .iter()
        .map(|delivery| delivery["message"]["payload"].as_u64().expect("a number"))
        .collect();
    assert_eq!(received, expected[..expected.len().min(256)]);
    let token = claimed["deliveries"][0]["leaseToken"].as_u64().expect("a token");
    assert!(token >= 1 << 24, "lease tokens increase: {token}");
}

#[test]
fn sigterm_completes_requests_in_progress() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut hub = Hub::start(&directory.path().join("data"));
    let bob = register(&hub, "bob");
    let status = std::thread::scope(|scope| {
        let claim =
            scope.spawn(|| hub.call(&bob, "POST", "/v1/agents/bob/inbox/claim", &json!({"waitMs": 1500})).0);
        // Wait until the hub counts the waiting claim as a consumer.
        while hub.call(&hub.admin, "GET", "/v1/agents/bob", &json!({})).1["load"]["listening"] != 1 {
            std::thread::yield_now();
        }
        hub.signal("-TERM");
        claim.join().expect("an answer")
    });
    assert_eq!(status, 200);
    assert!(hub.child.wait().expect("it ends").success());
    assert!(TcpStream::connect(&hub.address).is_err());
}

#[test]
fn i18_only_the_owner_can_access_the_directory_and_the_token() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let hub = Hub::start(&data);
    let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&data.join("admin-token"))), (0o700, 0o600));
    drop(hub);
    // The second start does not create another token.
    let before = fs::read_to_string(data.join("admin-token")).expect("a token");
    let hub = Hub::start(&data);
    assert_eq!(hub.admin, before.trim());
    let (status, tokens) = hub.call(&hub.admin, "GET", "/v1/tokens", &json!({}));
    assert_eq!((status, tokens["tokens"].as_array().map(Vec::len)), (200, Some(1)));
}

#[test]
fn a_failed_start_has_its_exit_code() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |arguments: &[&str]| {
        let data = directory.path().join("data");
        let output = Command::new(QUORATE).arg("serve").args(arguments).arg("--data").arg(data).output();
        let output = output.expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, err) = run(&["--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(64), "{err}");
    assert!(err.contains("help:") && err.contains("--insecure-listen"), "{err}");
    assert_eq!(run(&["--listen", "nowhere"]).0, Some(64));
    let occupied = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = occupied.local_addr().expect("an address").to_string();
    let (code, err) = run(&["--listen", &address]);
    assert_eq!(code, Some(64), "{err}");
    assert!(err.contains("another port"), "{err}");
    assert!(!directory.path().join("data").exists(), "a failed start creates nothing");
    // A directory that another hub uses.
    let hub = Hub::start(&directory.path().join("data"));
    let (code, err) = run(&["--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(64), "{err}");
    assert!(err.contains("help:"), "{err}");
    drop(hub);
}

// Fails under: a start that verifies the data under a lock that it releases before it opens the data.
#[test]
fn i27_of_hubs_that_start_at_once_exactly_one_wins() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    Hub::start(&data).stop();
    for round in 0..5 {
        let start = || {
            let mut command = Command::new(QUORATE);
            command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("it starts")
        };
        let mut hubs: Vec<_> = (0..6).map(|_| start()).collect();
        let mut winners = 0;
        for hub in &mut hubs {
            let mut line = String::new();
            // A hub that does not start prints nothing and exits.
            BufReader::new(hub.stdout.take().expect("a pipe")).read_line(&mut line).expect("readable");
            winners += usize::from(line.contains("ready"));
        }
        for hub in hubs {
            let stop = Command::new("kill").args(["-TERM", &hub.id().to_string()]).output();
            stop.expect("the signal is sent");
            let output = hub.wait_with_output().expect("it ends");
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() || err.contains("is in use by process"), "{err}");
        }
        assert_eq!(winners, 1, "round {round}");
    }
}

// Fails under: a failing guide whose test waits for the hub that it left running.
#[test]
fn a_failing_script_is_stopped_with_its_background_processes() {
    let mut shell = Command::new("bash");
    shell.args(["-c", "set -e\ntail -f /dev/null &\necho started\n(exit 3)\necho never"]);
    assert_eq!(run_script(&mut shell), (Some(3), "started\n".to_owned()));
}

#[test]
fn the_commands_of_the_http_guide_work() {
    run_guide("http.md");
}

#[test]
fn e1_the_commands_of_the_webhooks_guide_work() {
    run_guide("webhooks.md");
}

#[test]
fn the_commands_of_the_messages_guide_work() {
    run_guide("messages.md");
}

#[test]
fn the_commands_of_the_tasks_and_sessions_guide_work() {
    run_guide("tasks-and-sessions.md");
}

#[test]
fn the_commands_of_the_approvals_guide_work() {
    run_guide("approvals.md");
}

// Fails under: a driver whose step has two effects, or none, after it was killed.
#[test]
fn the_commands_of_the_procedures_guide_work() {
    run_guide("procedures.md");
}

// Fails under: a phase that does not get what it requires; an output or a shared state that is not stored.
#[test]
fn b1_the_commands_of_the_pipelines_guide_work() {
    run_guide("pipelines.md");
}

// Fails under: a tournament whose result, records or standings differ from the guide.
#[test]
fn c6_the_commands_of_the_tournaments_guide_work() {
    run_guide("tournaments.md");
}

#[test]
fn the_commands_of_the_policy_and_budgets_guide_work() {
    run_guide("policy-and-budgets.md");
}

#[test]
fn the_commands_of_the_security_guide_work() {
    run_guide("security.md");
}

#[test]
fn the_commands_of_the_dialects_guide_work() {
    run_guide("dialects.md");
}
