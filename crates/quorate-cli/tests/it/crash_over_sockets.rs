//! Kills a hub under load over HTTP and WebSocket repeatedly with SIGKILL and restarts it on the same directory. Acknowledged
//! calls are stored exactly once; interrupted calls are retried with their idempotency key and are stored exactly once, too.
//!
//! `QUORATE_CRASH_CYCLES` sets the number of cycles, `QUORATE_SEED` reproduces the choices of a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{Http, Hub};

const CYCLES: u64 = 12;
const HTTP_SENDERS: usize = 4;
const WS_SENDERS: usize = 2;
const WORKERS: usize = 2;
/// A cycle takes a second or two; a busy machine may be much slower.
const CYCLE_MAX: Duration = Duration::from_secs(120);
/// Longer than the leases of a killed hub last.
const DRAIN_MAX: Duration = Duration::from_secs(120);

/// The calls of the clients and their results.
#[derive(Default)]
struct History {
    /// Calls, with whether they were acknowledged.
    calls: Mutex<BTreeMap<String, bool>>,
    /// Number of responses in this cycle.
    responses: AtomicU64,
    notify: Notify,
    /// Number of redeliveries.
    redelivered: AtomicU64,
    /// Last epoch of each worker.
    epochs: Mutex<BTreeMap<String, u64>>,
}

impl History {
    fn calls(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.calls.lock().unwrap()
    }

    fn begin(&self, call: &str) {
        self.calls().insert(call.to_owned(), false);
    }

    fn acknowledge(&self, call: &str) {
        self.calls().insert(call.to_owned(), true);
        self.count_response();
    }

    fn count_response(&self) {
        self.responses.fetch_add(1, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    /// Returns the calls whose outcome is unknown.
    fn unknown(&self) -> Vec<String> {
        self.calls().iter().filter(|(_, known)| !**known).map(|(call, _)| call.clone()).collect()
    }

    /// Waits for this number of responses.
    async fn wait_for(&self, count: u64) {
        loop {
            let notified = self.notify.notified();
            if self.responses.load(Ordering::SeqCst) >= count {
                return;
            }
            notified.await;
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Linear congruential generator, so that a run can be reproduced.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_work_survives_kill_9_over_sockets() {
    let cycles = number("QUORATE_CRASH_CYCLES").unwrap_or(CYCLES);
    let seed = number("QUORATE_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!(
        "to reproduce: QUORATE_SEED={seed} QUORATE_CRASH_CYCLES={cycles} \
         cargo test -p quorate-cli --test it crash_over_sockets::"
    );
    let mut rng = seed;
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let history = Arc::new(History::default());
    let mut tokens = BTreeMap::new();
    for cycle in 0..cycles {
        let hub = Hub::start(&data);
        if tokens.is_empty() {
            tokens = register(&hub).await;
        }
        repeat_unknown(&hub, &tokens, &history).await;
        history.responses.store(0, Ordering::SeqCst);
        let running = load(&hub, &tokens, cycle, &history);
        // Sometimes almost immediately, so that the startup is interrupted as well.
        let responses =
            if next(&mut rng).is_multiple_of(5) { next(&mut rng) % 10 } else { 50 + next(&mut rng) % 400 };
        let answered = tokio::time::timeout(CYCLE_MAX, history.wait_for(responses)).await.is_ok();
        let received = history.responses.load(Ordering::SeqCst);
        assert!(answered, "cycle {cycle}: {received} of {responses} responses within {CYCLE_MAX:?}");
        hub.signal("-KILL");
        drop(hub);
        let noticed = tokio::time::timeout(CYCLE_MAX, join_all(running)).await.is_ok();
        assert!(
            noticed,
            "cycle {cycle}: a client did not notice within {CYCLE_MAX:?} that its hub was killed"
        );
    }
    let hub = Hub::start(&data);
    repeat_unknown(&hub, &tokens, &history).await;
    drain(&hub, &tokens, &history).await;
    let calls = history.calls().len();
    println!("{calls} calls in {cycles} cycles, {} redeliveries", history.redelivered.load(Ordering::SeqCst));
    assert!(calls as u64 >= cycles * 10, "too little happened to prove anything");
    check(&hub, &history).await;
    verify(hub, &data);
}

async fn register(hub: &Hub) -> BTreeMap<String, String> {
    let mut http = Http::connect(&hub.address, &hub.admin).await.unwrap();
    let mut tokens = BTreeMap::new();
    let names = (0..HTTP_SENDERS).map(|n| format!("h{n}"));
    let names =
        names.chain((0..WS_SENDERS).map(|n| format!("s{n}"))).chain((0..WORKERS).map(|n| format!("w{n}")));
    for name in names {
        let (status, registered) =
            http.call("PUT", &format!("/v1/agents/{name}"), None, &json!({})).await.unwrap();
        assert_eq!(status, 201, "{registered}");
        tokens.insert(name, registered["token"].as_str().unwrap().to_owned());
    }
    tokens
}

/// Returns the agent of a call, whose name is the prefix of the call.
fn author(call: &str) -> &str {
    call.split('-').next().unwrap()
}

fn message(call: &str) -> Value {
    let to = call.bytes().map(usize::from).sum::<usize>() % WORKERS;
    json!({"to": format!("w{to}"), "action": "work", "payload": {"call": call}, "maxAttempts": 100})
}

async fn repeat_unknown(hub: &Hub, tokens: &BTreeMap<String, String>, history: &History) {
    for call in history.unknown() {
        let mut http = Http::connect(&hub.address, &tokens[author(&call)]).await.unwrap();
        let body = json!({"ops": [with_op("send", message(&call))], "idempotencyKey": call});
        let (status, response) = http.call("POST", "/v1/commit", None, &body).await.unwrap();
        assert_eq!(status, 200, "{call}: {response}");
        history.acknowledge(&call);
    }
}

fn with_op(op: &str, mut fields: Value) -> Value {
    fields["op"] = op.into();
    fields
}

/// Starts clients of all kinds, which run until the hub is killed.
fn load(
    hub: &Hub,
    tokens: &BTreeMap<String, String>,
    cycle: u64,
    history: &Arc<History>,
) -> JoinSet<Option<()>> {
    let mut running = JoinSet::new();
    for (name, token) in tokens {
        let (address, name, token) = (hub.address.clone(), name.clone(), token.clone());
        let history = Arc::clone(history);
        match name.as_bytes()[0] {
            b'h' => running.spawn(send_over_http(address, name, token, cycle, history)),
            b's' => running.spawn(send_over_ws(address, name, token, cycle, history)),
            _ => running.spawn(work(address, name, token, cycle % 2 == 1, history)),
        };
    }
    running
}

async fn join_all(mut running: JoinSet<Option<()>>) {
    while let Some(result) = running.join_next().await {
        result.expect("a client fails only because its hub was killed");
    }
}

async fn send_over_http(
    address: String,
    name: String,
    token: String,
    cycle: u64,
    history: Arc<History>,
) -> Option<()> {
    let mut http = Http::connect(&address, &token).await?;
    for n in 0.. {
        let call = format!("{name}-{cycle}-{n}");
        history.begin(&call);
        let body = json!({"ops": [with_op("send", message(&call))], "idempotencyKey": call});
        let (status, response) = http.call("POST", "/v1/commit", None, &body).await?;
        assert_eq!(status, 200, "{call}: {response}");
        history.acknowledge(&call);
    }
    None
}

type Socket = WebSocketStream<TcpStream>;

async fn connect(address: &str, hello: Value, on_welcome: impl FnOnce(&Value)) -> Option<Socket> {
    let stream = TcpStream::connect(address).await.ok()?;
    let (mut socket, _) =
        tokio_tungstenite::client_async(format!("ws://{address}/v1/ws"), stream).await.ok()?;
    send_frame(&mut socket, json!({"hello": hello})).await?;
    let welcome = receive_frame(&mut socket).await?;
    // The hub started a newer epoch, but was killed before it could acknowledge it: this epoch is stale.
    if welcome["problem"]["code"] == "STALE_EPOCH" {
        return None;
    }
    assert!(welcome["welcome"].is_object(), "{welcome}");
    on_welcome(&welcome["welcome"]);
    Some(socket)
}

async fn send_frame(socket: &mut Socket, frame: Value) -> Option<()> {
    socket.send(Message::Text(frame.to_string().into())).await.ok()
}

/// Receives the next frame; `None` if the hub was killed.
async fn receive_frame(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.next().await?.ok()? {
            Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// Sends commits with several in flight.
async fn send_over_ws(
    address: String,
    name: String,
    token: String,
    cycle: u64,
    history: Arc<History>,
) -> Option<()> {
    const IN_FLIGHT: u64 = 8;
    let mut socket = connect(&address, json!({"token": token}), |_| {}).await?;
    let mut sent = 0;
    loop {
        let call = format!("{name}-{cycle}-{sent}");
        sent += 1;
        history.begin(&call);
        let commit = json!({"ops": [with_op("send", message(&call))], "idempotencyKey": call});
        send_frame(&mut socket, json!({"n": sent, "commit": commit})).await?;
        if sent >= IN_FLIGHT {
            let response = receive_frame(&mut socket).await?;
            assert!(response["ok"].is_object(), "{response}");
            history.acknowledge(&format!("{name}-{cycle}-{}", response["n"].as_u64().unwrap() - 1));
        }
    }
}

/// Completes each delivery with one commit: the ack, and an entry that must not exist yet. With `resume`, the worker resumes its
/// epoch and receives its leased deliveries again with the same lease token; otherwise it starts a new epoch.
async fn work(
    address: String,
    name: String,
    token: String,
    resume: bool,
    history: Arc<History>,
) -> Option<()> {
    let epoch = history.epochs.lock().unwrap().remove(&name).filter(|_| resume);
    let mut socket = connect(&address, json!({"token": token, "epoch": epoch}), |welcome| {
        history.epochs.lock().unwrap().insert(name, welcome["epoch"].as_u64().unwrap());
    })
    .await?;
    send_frame(&mut socket, json!({"n": 1, "credit": {"messages": 1_000_000, "bytes": 1_000_000_000}}))
        .await?;
    let mut n = 1;
    loop {
        let frame = receive_frame(&mut socket).await?;
        if let Some(problem) = frame.get("problem") {
            panic!("a step was refused, so something happened twice: {problem}");
        }
        if frame["ok"]["seq"].is_u64() {
            history.count_response();
        }
        for delivery in frame["deliveries"].as_array().into_iter().flatten() {
            n += 1;
            let call = delivery["message"]["payload"]["call"].as_str().unwrap();
            if delivery["attempt"].as_u64() > Some(1) {
                history.redelivered.fetch_add(1, Ordering::SeqCst);
            }
            let ack = json!({"op": "ack", "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"]});
            let put = json!({"op": "put", "key": format!("done/{call}"), "content": {"n": n}, "expect": 0});
            let key = format!("step-{call}-{}", delivery["leaseToken"]);
            send_frame(&mut socket, json!({"n": n, "commit": {"ops": [ack, put], "idempotencyKey": key}}))
                .await?;
        }
    }
}

/// Lets the workers process the remaining deliveries.
async fn drain(hub: &Hub, tokens: &BTreeMap<String, String>, history: &Arc<History>) {
    let mut running = JoinSet::new();
    for (name, token) in tokens.iter().filter(|(name, _)| name.starts_with('w')) {
        running.spawn(work(hub.address.clone(), name.clone(), token.clone(), false, Arc::clone(history)));
    }
    let mut http = Http::connect(&hub.address, &hub.admin).await.unwrap();
    let (mut last, mut ticker) = (Value::Null, tokio::time::interval(Duration::from_millis(20)));
    let drained = async {
        loop {
            ticker.tick().await;
            let (_, stats) = http.call("GET", "/v1/admin/stats", None, &Value::Null).await.unwrap();
            last.clone_from(&stats["deliveries"]);
            let open = |state: &str| stats["deliveries"][state].as_u64().unwrap();
            if open("ready") + open("leased") + open("scheduled") == 0 {
                assert_eq!(open("dead") + open("expired") + open("purged"), 0, "{stats}");
                assert_eq!(open("acked"), history.calls().len() as u64, "{stats}");
                return;
            }
            // A worker must not end while its hub is running.
            if let Some(result) = running.try_join_next() {
                panic!("a worker ended while its hub was running: {result:?}; {stats}");
            }
        }
    };
    let drained = tokio::time::timeout(DRAIN_MAX, drained).await.is_ok();
    assert!(drained, "the backlog is not drained within {DRAIN_MAX:?}: {last}");
    running.shutdown().await;
}

/// Checks that every call was acknowledged and has exactly one entry.
async fn check(hub: &Hub, history: &History) {
    let mut http = Http::connect(&hub.address, &hub.admin).await.unwrap();
    let mut done = BTreeMap::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/context?prefix=done/&limit=1000{cursor}");
        let (status, page) = http.call("GET", &path, None, &Value::Null).await.unwrap();
        assert_eq!(status, 200, "{page}");
        for entry in page["entries"].as_array().unwrap() {
            let call = entry["key"].as_str().unwrap().trim_start_matches("done/").to_owned();
            assert_eq!(entry["version"], 1, "{call}");
            assert!(done.insert(call, true).is_none());
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(done, *history.calls());
}

/// Verifies the log.
fn verify(mut hub: Hub, data: &Path) {
    hub.signal("-TERM");
    assert!(hub.child.wait().unwrap().success());
    let verified =
        Command::new(env!("CARGO_BIN_EXE_quorate")).args(["verify", "--data"]).arg(data).output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
}
