//! A real `quorate serve` on a disk that fails. After an error on write or sync nothing more is acknowledged and the hub ends
//! with 74; what was under way is unknown, never "no". A full disk is a definite no, reads go on, and it passes.
//!
//! The program has no switch for this: the kernel refuses the write (`ulimit -f`), or a library that is loaded before it
//! stands between it and the kernel.
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

/// Nothing here takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
const SENDERS: u64 = 4;
/// More than fit under the limit.
const SENDS_MAX: u64 = 200;

/// Between the program and the kernel: fails what a file in a directory says, as a disk would.
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

/// A hub whose disk does what files in `switches` say.
struct Failing {
    hub: Hub,
    root: tempfile::TempDir,
}

impl Failing {
    fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::write(path("disk.c"), LIBRARY).unwrap();
        fs::create_dir(path("switches")).unwrap();
        // Whoever builds the program has a C compiler: SQLite is built with it.
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-o"]).arg(path("disk.so")).arg(path("disk.c")).arg("-ldl");
        assert!(compile.status().unwrap().success());
        let mut command = Command::new(QUORATE);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(path("data")).stderr(Stdio::piped());
        command.env("LD_PRELOAD", path("disk.so")).env("FAILING_DISK", path("switches"));
        Self { hub: Hub::of(command), root }
    }

    fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    fn fail(&self, how: &str) {
        fs::write(self.root.path().join("switches").join(how), "").unwrap();
    }

    fn heal(&self, how: &str) {
        fs::remove_file(self.root.path().join("switches").join(how)).unwrap();
    }
}

/// What a sender knows of its messages.
#[derive(Default)]
struct Known {
    acknowledged: BTreeSet<String>,
    /// The last one, if its end is not known.
    unknown: BTreeSet<String>,
}

/// Registers `bob`, who reads, and `aN`, who send.
fn register(hub: &Hub) -> Vec<String> {
    let names = (0..SENDERS).map(|n| format!("a{n}")).chain(["bob".to_owned()]);
    let token = |name: String| {
        let (status, made) = hub.call(&hub.admin, "PUT", &format!("/v1/agents/{name}"), &json!({}));
        assert_eq!(status, 201, "{made}");
        made["token"].as_str().unwrap().to_owned()
    };
    names.map(token).collect()
}

fn message(call: &str, bytes: usize) -> Value {
    json!({"id": call, "to": "bob", "payload": {"call": call, "text": "x".repeat(bytes)}})
}

/// Sends until the hub says no more. A failure must not be told as "nothing was applied".
async fn send_until_it_fails(address: String, token: String, name: String) -> Known {
    let mut known = Known::default();
    let mut http = Http::connect(&address, &token).await.expect("a connection");
    for n in 0..SENDS_MAX {
        let call = format!("{name}-{n}");
        match http.call("POST", "/v1/messages", None, &message(&call, 30_000)).await {
            Some((200, _)) => drop(known.acknowledged.insert(call)),
            Some((status, problem)) => {
                assert_eq!((status, &problem["code"]), (500, &json!("STORAGE_FAILED")), "{problem}");
                assert_eq!(problem["applied"], "unknown", "{problem}");
                known.unknown.insert(call);
                return known;
            }
            // The hub is gone: nobody was told anything.
            None => {
                known.unknown.insert(call);
                return known;
            }
        }
    }
    panic!("{name}: {SENDS_MAX} messages, and the disk has not failed")
}

/// All senders at once, until the disk has failed for each.
fn send_all_until_it_fails(hub: &Hub, tokens: &[String]) -> Known {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let senders = tokens[..SENDERS as usize]
        .iter()
        .enumerate()
        .map(|(n, token)| send_until_it_fails(hub.address.clone(), token.clone(), format!("a{n}")));
    let sending = async { tokio::time::timeout(PATIENCE, futures_util::future::join_all(senders)).await };
    let mut all = Known::default();
    for known in runtime.block_on(sending).expect("a hub whose disk failed answers, or is gone") {
        all.acknowledged.extend(known.acknowledged);
        all.unknown.extend(known.unknown);
    }
    all
}

/// The hub ends by itself: its code, and what it said.
fn ended(hub: &mut Hub) -> (Option<i32>, String) {
    let mut stderr = hub.child.stderr.take().expect("a pipe");
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut said = String::new();
        let _ = stderr.read_to_string(&mut said);
        tell.send(said)
    });
    // The pipe is closed when the process is over.
    let said = told.recv_timeout(PATIENCE).expect("a hub whose disk failed ends by itself");
    (hub.child.wait().unwrap().code(), said)
}

/// After a restart on a good disk: what was acknowledged is there, once, and nothing that nobody sent.
fn is_whole(data: &Path, bob: &str, known: &Known) {
    let hub = Hub::start(data);
    let mut came = BTreeSet::new();
    loop {
        let (status, claimed) = hub.call(bob, "POST", "/v1/agents/bob/inbox/claim", &json!({"max": 64}));
        assert_eq!(status, 200, "{claimed}");
        let deliveries = claimed["deliveries"].as_array().unwrap();
        for delivery in deliveries {
            let call = delivery["message"]["payload"]["call"].as_str().unwrap().to_owned();
            assert!(came.insert(call.clone()), "{call} came twice");
        }
        if deliveries.is_empty() {
            break;
        }
    }
    let lost: Vec<_> = known.acknowledged.difference(&came).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let sent: BTreeSet<_> = known.acknowledged.union(&known.unknown).cloned().collect();
    assert!(came.is_subset(&sent), "nobody sent {:?}", came.difference(&sent));
    hub.end();
    let verified = Command::new(QUORATE).args(["verify", "--data"]).arg(data).output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
}

fn fails_for_good(hub: &mut Hub, tokens: &[String], data: &Path, known: &Known) {
    let (code, said) = ended(hub);
    assert_eq!(code, Some(74), "{said}");
    assert!(said.contains("error[STORAGE_FAILED]: the storage failed") && said.contains("help:"), "{said}");
    assert!(!known.unknown.is_empty());
    is_whole(data, &tokens[SENDERS as usize], known);
}

// Fails under: a hub that goes on after EFBIG, or that ends otherwise than with 74; `applied: no` for what was under way.
#[test]
fn i22_a_hub_that_may_not_write_more_ends_with_74() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let mut command = Command::new("bash");
    // No file may grow over 4 MB; the signal for that is passed over, so that the write fails.
    command.args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$@\"", "bash", QUORATE]);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data).stderr(Stdio::piped());
    let mut hub = Hub::of(command);
    let tokens = register(&hub);
    let known = send_all_until_it_fails(&hub, &tokens);
    assert!(known.acknowledged.len() >= 20, "too little happened to prove anything");
    fails_for_good(&mut hub, &tokens, &data, &known);
}

// Fails under: an error of write or sync after which something is acknowledged, or the hub goes on.
#[test]
fn i22_an_error_on_write_or_sync_ends_the_hub_with_74() {
    for how in ["write", "sync"] {
        let mut failing = Failing::start();
        let tokens = register(&failing.hub);
        let (status, sent) = failing.hub.call(&tokens[0], "POST", "/v1/messages", &message("before", 10));
        assert_eq!(status, 200, "{sent}");
        failing.fail(how);
        let mut known = send_all_until_it_fails(&failing.hub, &tokens);
        assert!(
            known.acknowledged.is_empty(),
            "{how}: acknowledged on a broken disk: {:?}",
            known.acknowledged
        );
        known.acknowledged.insert("before".to_owned());
        let data = failing.data();
        fails_for_good(&mut failing.hub, &tokens, &data, &known);
    }
}

// Fails under: a full disk that ends the hub, is told as unknown, applies half of it, or is not over when there is room.
#[test]
fn i22_a_full_disk_is_a_definite_no_and_passes() {
    let failing = Failing::start();
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
    let known =
        Known { acknowledged: ["before", "after"].map(str::to_owned).into(), unknown: BTreeSet::new() };
    let (data, bob) = (failing.data(), bob.clone());
    failing.hub.signal("-KILL");
    drop(failing.hub);
    is_whole(&data, &bob, &known);
}
