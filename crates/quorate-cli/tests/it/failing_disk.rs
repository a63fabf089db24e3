//! `quorate serve` on a failing disk. After an error of write or fsync nothing more is acknowledged and the hub exits with 74;
//! the outcome of commits in progress is unknown, never "no". A full disk is reported as not applied, reads continue, and
//! writes work again once there is space.
//!
//! The failures are injected from outside: with `ulimit -f`, or with a preloaded library that intercepts system calls.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Http, Hub, QUORATE};

/// Longer than any step takes.
const TIMEOUT: Duration = Duration::from_secs(60);
const SENDERS: u64 = 4;
/// More messages than fit under the limit.
const SENDS_MAX: u64 = 200;

/// Preloaded library that fails system calls while a file with the name of the failure exists.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(const char *how) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("FAILING_DISK"), how);
    return access(path, F_OK) == 0;
}

#define WRITES(name, offset) \
    ssize_t name(int fd, const void *bytes, size_t count, offset at) { \
        ssize_t (*next)(int, const void *, size_t, offset) = dlsym(RTLD_NEXT, #name); \
        if (fails("full")) { errno = ENOSPC; return -1; } \
        if (fails("write")) { errno = EIO; return -1; } \
        return next(fd, bytes, count, at); \
    }
WRITES(pwrite, off_t)
WRITES(pwrite64, off64_t)

#define SYNCS(name) \
    int name(int fd) { \
        int (*next)(int) = dlsym(RTLD_NEXT, #name); \
        if (fails("sync")) { errno = EIO; return -1; } \
        return next(fd); \
    }
SYNCS(fsync)
SYNCS(fdatasync)
"#;

/// A hub whose disk failures are controlled by files in `switches`.
struct FailingHub {
    hub: Hub,
    root: tempfile::TempDir,
}

impl FailingHub {
    fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::write(path("disk.c"), LIBRARY).unwrap();
        fs::create_dir(path("switches")).unwrap();
        // A C compiler is available, since SQLite is built with it.
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-o"]).arg(path("disk.so")).arg(path("disk.c")).arg("-ldl");
        assert!(compile.status().unwrap().success());
        let mut command = Command::new(QUORATE);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(path("data")).stderr(Stdio::piped());
        command.env("LD_PRELOAD", path("disk.so")).env("FAILING_DISK", path("switches"));
        Self { hub: Hub::spawn(command), root }
    }

    fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    fn fail(&self, failure: &str) {
        fs::write(self.root.path().join("switches").join(failure), "").unwrap();
    }

    fn heal(&self, failure: &str) {
        fs::remove_file(self.root.path().join("switches").join(failure)).unwrap();
    }
}

/// Outcomes of messages as seen by a sender.
#[derive(Default)]
struct Outcomes {
    acknowledged: BTreeSet<String>,
    /// The last message, if its outcome is unknown.
    unknown: BTreeSet<String>,
}

/// Registers `bob`, which receives, and `aN`, which send.
fn register(hub: &Hub) -> Vec<String> {
    let names = (0..SENDERS).map(|n| format!("a{n}")).chain(["bob".to_owned()]);
    let token = |name: String| {
        let (status, registered) = hub.call(&hub.admin, "PUT", &format!("/v1/agents/{name}"), &json!({}));
        assert_eq!(status, 201, "{registered}");
        registered["token"].as_str().unwrap().to_owned()
    };
    names.map(token).collect()
}

fn message(call: &str, bytes: usize) -> Value {
    json!({"id": call, "to": "bob", "payload": {"call": call, "text": "x".repeat(bytes)}})
}

/// Sends until the disk fails. The failure must not be reported as "not applied".
async fn send_until_it_fails(address: String, token: String, name: String) -> Outcomes {
    let mut outcomes = Outcomes::default();
    // The first write that fails may be that of the witness, some ms after the messages before. Then the hub has exited.
    let Some(mut http) = Http::connect(&address, &token).await else {
        outcomes.unknown.insert(format!("{name}-0"));
        return outcomes;
    };
    for n in 0..SENDS_MAX {
        let call = format!("{name}-{n}");
        match http.call("POST", "/v1/messages", None, &message(&call, 30_000)).await {
            Some((200, _)) => drop(outcomes.acknowledged.insert(call)),
            Some((status, problem)) => {
                assert_eq!((status, &problem["code"]), (500, &json!("STORAGE_FAILED")), "{problem}");
                assert_eq!(problem["applied"], "unknown", "{problem}");
                outcomes.unknown.insert(call);
                return outcomes;
            }
            // The hub exited without an answer.
            None => {
                outcomes.unknown.insert(call);
                return outcomes;
            }
        }
    }
    panic!("{name}: {SENDS_MAX} messages, and the disk has not failed")
}

/// Runs all senders until the disk has failed for each.
fn send_all_until_it_fails(hub: &Hub, tokens: &[String]) -> Outcomes {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let senders = tokens[..SENDERS as usize]
        .iter()
        .enumerate()
        .map(|(n, token)| send_until_it_fails(hub.address.clone(), token.clone(), format!("a{n}")));
    let sending = async { tokio::time::timeout(TIMEOUT, futures_util::future::join_all(senders)).await };
    let mut all = Outcomes::default();
    for outcomes in runtime.block_on(sending).expect("a hub with a failed disk answers or exits") {
        all.acknowledged.extend(outcomes.acknowledged);
        all.unknown.extend(outcomes.unknown);
    }
    all
}

/// Waits for the hub to exit; returns its exit code and stderr.
fn wait_for_exit(hub: &mut Hub) -> (Option<i32>, String) {
    let mut stderr = hub.child.stderr.take().expect("a pipe");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        sender.send(text)
    });
    // The pipe is closed when the process exits.
    let text = receiver.recv_timeout(TIMEOUT).expect("a hub with a failed disk exits");
    (hub.child.wait().unwrap().code(), text)
}

/// After a restart on a working disk: every acknowledged message is delivered exactly once, and nothing that was not sent.
fn check_restart(data: &Path, bob: &str, outcomes: &Outcomes) {
    let hub = Hub::start(data);
    let mut received = BTreeSet::new();
    loop {
        let (status, claimed) = hub.call(bob, "POST", "/v1/agents/bob/inbox/claim", &json!({"max": 64}));
        assert_eq!(status, 200, "{claimed}");
        let deliveries = claimed["deliveries"].as_array().unwrap();
        for delivery in deliveries {
            let call = delivery["message"]["payload"]["call"].as_str().unwrap().to_owned();
            assert!(received.insert(call.clone()), "{call} was delivered twice");
        }
        if deliveries.is_empty() {
            break;
        }
    }
    let lost: Vec<_> = outcomes.acknowledged.difference(&received).collect();
    assert!(lost.is_empty(), "acknowledged but lost: {lost:?}");
    let sent: BTreeSet<_> = outcomes.acknowledged.union(&outcomes.unknown).cloned().collect();
    assert!(received.is_subset(&sent), "never sent: {:?}", received.difference(&sent));
    hub.stop();
    let verified = Command::new(QUORATE).args(["verify", "--data"]).arg(data).output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
}

fn check_failed_hub(hub: &mut Hub, tokens: &[String], data: &Path, outcomes: &Outcomes) {
    let (code, err) = wait_for_exit(hub);
    assert_eq!(code, Some(74), "{err}");
    assert!(err.contains("error[STORAGE_FAILED]: storage failed") && err.contains("help:"), "{err}");
    assert!(!outcomes.unknown.is_empty());
    check_restart(data, &tokens[SENDERS as usize], outcomes);
}

// Fails under: a hub that continues after EFBIG or exits with another code; `applied: no` for commits in progress.
#[test]
fn i22_a_hub_that_cannot_write_exits_with_74() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let mut command = Command::new("bash");
    // Files are limited to 4 MB; the signal is ignored, so that the write fails.
    command.args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$@\"", "bash", QUORATE]);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data).stderr(Stdio::piped());
    let mut hub = Hub::spawn(command);
    let tokens = register(&hub);
    let outcomes = send_all_until_it_fails(&hub, &tokens);
    assert!(outcomes.acknowledged.len() >= 20, "too little happened to prove anything");
    check_failed_hub(&mut hub, &tokens, &data, &outcomes);
}

// Fails under: an acknowledgement after an error of write or fsync, or a hub that continues.
#[test]
fn i22_an_error_of_write_or_fsync_ends_the_hub_with_74() {
    for failure in ["write", "sync"] {
        let mut failing = FailingHub::start();
        let tokens = register(&failing.hub);
        let (status, sent) = failing.hub.call(&tokens[0], "POST", "/v1/messages", &message("before", 10));
        assert_eq!(status, 200, "{sent}");
        failing.fail(failure);
        let mut outcomes = send_all_until_it_fails(&failing.hub, &tokens);
        assert!(
            outcomes.acknowledged.is_empty(),
            "{failure}: acknowledged on a broken disk: {:?}",
            outcomes.acknowledged
        );
        outcomes.acknowledged.insert("before".to_owned());
        let data = failing.data();
        check_failed_hub(&mut failing.hub, &tokens, &data, &outcomes);
    }
}

// Fails under: a full disk that ends the hub, is reported as unknown, applies a part, or persists when there is space.
#[test]
fn i22_a_full_disk_is_reported_as_not_applied_and_recovers() {
    let failing = FailingHub::start();
    let tokens = register(&failing.hub);
    let (alice, bob) = (&tokens[0], &tokens[SENDERS as usize]);
    let send = |call: &str| failing.hub.call(alice, "POST", "/v1/messages", &message(call, 1_000));
    assert_eq!(send("before").0, 200);
    failing.fail("full");
    for call in ["full-1", "full-2"] {
        let (status, problem) = send(call);
        assert_eq!((status, &problem["code"]), (507, &json!("STORAGE_FULL")), "{problem}");
        assert_eq!(problem["applied"], "no", "{problem}");
        let (status, read) = failing.hub.call(&failing.hub.admin, "GET", "/v1/messages/before", &json!({}));
        assert_eq!(status, 200, "reads go on: {read}");
        let (status, _) = failing.hub.call(alice, "GET", &format!("/v1/messages/{call}"), &json!({}));
        assert_eq!(status, 404, "{call} was refused");
    }
    failing.heal("full");
    assert_eq!(send("after").0, 200);
    let outcomes =
        Outcomes { acknowledged: ["before", "after"].map(str::to_owned).into(), unknown: BTreeSet::new() };
    let (data, bob) = (failing.data(), bob.clone());
    failing.hub.signal("-KILL");
    drop(failing.hub);
    check_restart(&data, &bob, &outcomes);
}
