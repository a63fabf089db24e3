//! The Rust client against a hub that is killed and started again under it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate::Work;

use crate::support::{Hub, QUORATE};

/// Nothing here takes that long.
const SOON: Duration = Duration::from_secs(60);
const KILLS: usize = 3;
const EACH: u64 = 60;

/// Starts the hub at the address that it had.
fn start_again(data: &Path, address: &str) -> Hub {
    let mut command = Command::new(QUORATE);
    command.args(["serve", "--listen", address, "--data"]).arg(data).stderr(Stdio::null());
    Hub::of(command)
}

// Fails under: a client that ends with its hub; a commit whose outcome was not heard and that is not repeated, or is repeated
// under another key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i3_a_hub_killed_with_9_under_a_running_client_loses_nothing_and_does_nothing_twice() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut served = Hub::start(&data);
    let hub = quorate_client::connect(&format!("http://{}", served.address), &served.admin).await;
    let hub = hub.expect("it connects");
    let (told, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let seen = Arc::new(Mutex::new(BTreeMap::<u64, u32>::new()));
    let count = |work: Work<u64>| async move {
        work.put(&format!("done/{}", work.payload), "number", work.payload);
        Ok(work.payload)
    };
    let hear = {
        let seen = Arc::clone(&seen);
        move |work: Work<u64>| {
            *seen.lock().expect("not poisoned").entry(work.payload).or_default() += 1;
            let _ = told.send(work.payload);
            async { Ok(()) }
        }
    };
    let bob = hub.agent("bob").on("count", count).at_once(8).run().await.expect("he runs");
    let alice = hub.agent("alice").on("count", hear).at_once(8).run().await.expect("she runs");
    let mut answered = 0;
    for round in 0..KILLS as u64 {
        let sending: Vec<_> = (round * EACH..(round + 1) * EACH)
            .map(|number| {
                let alice = alice.agent().clone();
                tokio::spawn(async move { alice.send("bob", "count", number).await })
            })
            .collect();
        // In the middle of it.
        while answered < round * EACH + EACH / 3 {
            tokio::time::timeout(SOON, answers.recv()).await.expect("in time").expect("an answer");
            answered += 1;
        }
        served.signal("-9");
        let _ = served.child.wait();
        served = start_again(&data, &served.address);
        for sent in sending {
            let sent = tokio::time::timeout(SOON, sent).await.expect("in time");
            sent.expect("a task").expect("sent, whatever happened");
        }
        while answered < (round + 1) * EACH {
            tokio::time::timeout(SOON, answers.recv()).await.expect("in time").expect("an answer");
            answered += 1;
        }
    }
    bob.stop().await.expect("stopped");
    alice.stop().await.expect("stopped");
    let done = hub.memory().list("done/", None, 1_000).await.expect("read");
    assert_eq!(done.len() as u64, KILLS as u64 * EACH, "nothing was lost");
    assert!(done.iter().all(|entry| entry.version.0 == 1), "each was done once");
    let http =
        quorate_client::Http::new(&format!("http://{}", served.address), &served.admin, Default::default());
    let stats = http.expect("an address").get("/v1/admin/stats").send().await.expect("figures");
    let stats: serde_json::Value = stats.json().expect("JSON");
    // Questions and answers, each once.
    assert_eq!(stats["deliveries"]["acked"], KILLS as u64 * EACH * 2, "{stats}");
    hub.close().await;
}
