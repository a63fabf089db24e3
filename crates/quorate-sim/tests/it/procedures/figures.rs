//! Figures of the runtime: many timers that are due together, and many procedures that wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate::{Hub, HubOptions, Registry};
use quorate_sim::data_directory;
use quorate_store::ManualClock;

use super::script_machine::{Script, ScriptStep};
use super::{WAIT_MAX, close, log_of, open, start, wait_for_phase};

/// Bytes of memory that this process occupies.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Processor time of this process in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: f64 = fields.iter().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// Starts procedures with these steps, and waits until each waits.
async fn start_many(hub: &Hub, count: usize, step: &ScriptStep) {
    for chunk in (0..count).collect::<Vec<_>>().chunks(200) {
        let starts = chunk.iter().map(|n| {
            let (hub, step) = (hub.clone(), step.clone());
            async move { start(&hub, &format!("p{n}"), &[step]).await }
        });
        futures_util::future::join_all(starts).await;
    }
    for n in 0..count {
        wait_for_phase(hub, &format!("p{n}"), "step 0").await;
    }
}

// Fails under: a runtime that polls, or keeps much memory for each waiting procedure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_procedures_cost_little() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    start(&hub, "warm", &[ScriptStep::Signal("go".into())]).await;
    wait_for_phase(&hub, "warm", "step 0").await;
    let before = resident_bytes();
    start_many(&hub, 1_000, &ScriptStep::Signal("go".into())).await;
    let bytes = resident_bytes().saturating_sub(before);
    let cpu = cpu_seconds();
    hub.space().expect("embedded hub").sleep(Duration::from_secs(1)).await;
    let cpu = cpu_seconds() - cpu;
    println!("1,000 waiting procedures: {} MB, {cpu:.2} s of CPU in one second", bytes / 1_000_000);
    assert!(bytes < 50_000_000, "{bytes} bytes");
    assert!(cpu < 0.2, "{cpu} s");
    close(hub, host).await;
}

// Fails under: timers that are handled one after the other, or one commit at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_timers_due_together_are_handled_quickly() {
    // A debug build is several times slower; the figure holds for a release build.
    let (count, seconds) = if cfg!(debug_assertions) { (1_000, 5) } else { (9_999, 2) };
    let directory = data_directory();
    let clock = ManualClock::at(1_800_000_000_000);
    let options = HubOptions { clock: Arc::clone(&clock) as _, ..HubOptions::default() };
    let hub = Hub::open_with(directory.path().join("hub"), options).await.expect("it opens");
    let host = hub.drive_procedures_with(Registry::empty().with::<Script>()).await.expect("it drives");
    start_many(&hub, count, &ScriptStep::Timer(60_000)).await;
    let mut published = hub.space().expect("embedded hub").follow();
    let before = published.borrow().head.seq.0;
    let started = Instant::now();
    clock.advance(Duration::from_millis(60_001));
    // Each procedure commits one step.
    let done = published.wait_for(|published| published.head.seq.0 >= before + count as u64);
    tokio::time::timeout(WAIT_MAX, done).await.expect("in time").expect("the hub is open");
    let took = started.elapsed();
    println!("{count} timers due at once: {took:?}");
    for n in 0..count {
        log_of(&hub.procedure(&format!("p{n}")).await.expect("it exists"));
    }
    assert!(took < Duration::from_secs(seconds), "{took:?}");
    close(hub, host).await;
}
