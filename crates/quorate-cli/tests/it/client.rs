//! The Rust client against a hub that is killed and restarted.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate::Work;

use crate::support::{Hub, QUORATE};

/// Longer than any step takes.
const TIMEOUT: Duration = Duration::from_secs(60);
const KILLS: usize = 3;
const MESSAGES_PER_ROUND: u64 = 60;

/// Restarts the hub at the same address.
fn restart(data: &Path, address: &str) -> Hub {
    let mut command = Command::new(QUORATE);
    command.args(["serve", "--listen", address, "--data"]).arg(data).stderr(Stdio::null());
    Hub::spawn(command)
}

// Fails under: a client that ends with its hub; a commit with an unknown outcome that is not retried, or retried with another
// idempotency key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i3_a_killed_hub_loses_nothing_and_repeats_nothing_for_a_running_client() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut server = Hub::start(&data);
    let hub = quorate_client::connect(&format!("http://{}", server.address), &server.admin).await;
    let hub = hub.expect("it connects");
    let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let seen = Arc::new(Mutex::new(BTreeMap::<u64, u32>::new()));
    let count = |work: Work<u64>| async move {
        work.put(&format!("done/{}", work.payload), "number", work.payload);
        Ok(work.payload)
    };
    let receive = {
        let seen = Arc::clone(&seen);
        move |work: Work<u64>| {
            *seen.lock().expect("not poisoned").entry(work.payload).or_default() += 1;
            let _ = sender.send(work.payload);
            async { Ok(()) }
        }
    };
    let bob = hub.agent("bob").on("count", count).concurrency(8).run().await.expect("bob runs");
    let alice = hub.agent("alice").on("count", receive).concurrency(8).run().await.expect("alice runs");
    let mut answered = 0;
    for round in 0..KILLS as u64 {
        let sends: Vec<_> = (round * MESSAGES_PER_ROUND..(round + 1) * MESSAGES_PER_ROUND)
            .map(|number| {
                let alice = alice.agent().clone();
                tokio::spawn(async move { alice.send("bob", "count", number).await })
            })
            .collect();
        // Kill the hub after a third of the answers.
        while answered < round * MESSAGES_PER_ROUND + MESSAGES_PER_ROUND / 3 {
            tokio::time::timeout(TIMEOUT, answers.recv()).await.expect("in time").expect("an answer");
            answered += 1;
        }
        server.signal("-9");
        let _ = server.child.wait();
        server = restart(&data, &server.address);
        for sent in sends {
            let sent = tokio::time::timeout(TIMEOUT, sent).await.expect("in time");
            sent.expect("a task").expect("sent, whatever happened");
        }
        while answered < (round + 1) * MESSAGES_PER_ROUND {
            tokio::time::timeout(TIMEOUT, answers.recv()).await.expect("in time").expect("an answer");
            answered += 1;
        }
    }
    bob.stop().await.expect("stopped");
    alice.stop().await.expect("stopped");
    let entries = hub.memory().list("done/", None, 1_000).await.expect("read");
    assert_eq!(entries.len() as u64, KILLS as u64 * MESSAGES_PER_ROUND, "nothing was lost");
    assert!(entries.iter().all(|entry| entry.version.0 == 1), "each was done once");
    let http = quorate_client::HttpClient::new(
        &format!("http://{}", server.address),
        &server.admin,
        Default::default(),
    );
    let stats = http.expect("an address").get("/v1/admin/stats").send().await.expect("stats");
    let stats: serde_json::Value = stats.json().expect("JSON");
    // Each question and each answer is acked once.
    assert_eq!(stats["deliveries"]["acked"], KILLS as u64 * MESSAGES_PER_ROUND * 2, "{stats}");
    hub.close().await;
}
