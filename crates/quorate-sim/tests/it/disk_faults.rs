//! Disk faults: a full disk, failed writes and failed syncs. Responses are correct, and commits stay atomic.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use quorate_core::error_chain;
use quorate_core::{
    Bearer, Commit, CreateToken, Grants, IdempotencyKey, Key, Op, Principal, PutEntry, Receipt,
    RegisterAgent, Secret, SpaceName, TokenName, TokenRole, Version,
};
use quorate_engine::{Engine, Error, Space};
use quorate_server::{App, Settings};
use quorate_sim::history::{Call, CallOp, DedupBy, agent_id};
use quorate_sim::recovery;
use quorate_sqlite::{Disk, Faults, FileKind, OpenError, Options, Repeat, SqliteStore};
use quorate_store::{AsOf, Entropy, ManualClock, Store, StoreError, SystemClock};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Upper bound on waits that normally end immediately. It only prevents a hanging test.
const WAIT_MAX: Duration = Duration::from_secs(60);
const LEASE_MS: u64 = 60_000;

pub(crate) struct FaultyHub {
    pub(crate) space: Space,
    pub(crate) disk: Arc<Disk>,
    directory: tempfile::TempDir,
}

/// Opens a hub with two agents on a disk with fault injection.
pub(crate) async fn open_hub() -> FaultyHub {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    // Preallocated space would let a few commits succeed on a full disk.
    disk.faults().disable_preallocation();
    let options = Options { disk: Some(Arc::clone(&disk)), ..Options::default() };
    let space = recovery::open(&directory.path().join("data"), options).await.unwrap();
    for name in ["ann", "bob"] {
        let op = Op::RegisterAgent(RegisterAgent::named(agent_id(name)));
        space.commit(Commit::new(Principal::System, vec![op])).await.unwrap();
    }
    FaultyHub { space, disk, directory }
}

impl FaultyHub {
    /// Reopens the directory on a disk without faults.
    async fn reopen(self) -> (Space, tempfile::TempDir) {
        self.space.engine().close().await;
        let space = recovery::open(&self.directory.path().join("data"), Options::default()).await.unwrap();
        (space, self.directory)
    }
}

pub(crate) fn message_call(id: &str, size: usize) -> Call {
    let op = CallOp::Send { to: vec!["bob".into()], level: 1, attempts_max: 4, size, dedup: DedupBy::Key };
    Call { id: id.into(), by: "ann".into(), op }
}

pub(crate) async fn send_call(space: &Space, call: &Call) -> Result<Receipt, Error> {
    space.commit(call.commit(space)).await
}

fn is_full(result: &Result<Receipt, Error>) -> bool {
    matches!(result, Err(Error::Store(StoreError::DiskFull)))
}

/// Limits the free space, and sends until the disk is full.
async fn fill(hub: &FaultyHub) {
    hub.disk.faults().limit_free_space(20_000);
    for count in 0..100 {
        let sent = send_call(&hub.space, &message_call(&format!("fill-{count}"), 3000)).await;
        if is_full(&sent) {
            return;
        }
        sent.unwrap();
    }
    panic!("the disk never became full");
}

fn payloads(records: &[quorate_core::Record]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8_lossy(&record.payload).into_owned()).collect()
}

async fn log_has(space: &Space, call: &str) -> usize {
    let name = format!("\"call\":\"{call}\"");
    let records = space.log(quorate_core::Seq(1), 100_000).await.unwrap();
    payloads(&records).iter().filter(|payload| payload.contains(&name)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_a_full_disk_refuses_writes_and_applies_nothing() {
    let hub = open_hub().await;
    send_call(&hub.space, &message_call("before", 10)).await.unwrap();
    fill(&hub).await;
    let before = hub.space.published();
    let refused = send_call(&hub.space, &message_call("refused", 3000)).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::DiskFull)), "{error}");
    assert!(error.nothing_applied());
    // Reads succeed and show that nothing changed.
    assert_eq!(hub.space.published().head, before.head);
    assert_eq!(hub.space.published().counts, before.counts);
    assert_eq!(log_has(&hub.space, "refused").await, 0);
    assert_eq!(log_has(&hub.space, "before").await, 1);
    let (space, _directory) = hub.reopen().await;
    assert_eq!(space.published().head, before.head);
    assert_eq!(space.published().counts, before.counts);
    assert_eq!(log_has(&space, "refused").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_service_resumes_without_a_restart_when_space_is_freed() {
    let hub = open_hub().await;
    let bob = Principal::Agent(agent_id("bob"));
    let mut consumer = hub.space.consume(&bob, None, &agent_id("bob"), 200, LEASE_MS).await.unwrap();
    let ann = Principal::Agent(agent_id("ann"));
    let mut published = hub.space.follow();
    published.borrow_and_update();
    let claiming = {
        let (space, ann) = (hub.space.clone(), ann.clone());
        tokio::spawn(
            async move { space.claim(&ann, None, &agent_id("ann"), 1, LEASE_MS, WAIT_MAX * 2).await },
        )
    };
    // An empty claim writes no record but publishes its batch: from here on the claim is waiting.
    timeout(WAIT_MAX, published.changed()).await.expect("claim is decided").unwrap();
    send_call(&hub.space, &message_call("before", 10)).await.unwrap();
    fill(&hub).await;
    assert!(is_full(&send_call(&hub.space, &message_call("later", 3000)).await));
    hub.disk.faults().lift_space_limit();
    // The same call with the same key: it was not applied before, and is now applied once.
    send_call(&hub.space, &message_call("later", 3000)).await.unwrap();
    send_call(&hub.space, &message_call("later", 3000)).await.unwrap();
    assert_eq!(log_has(&hub.space, "later").await, 1);
    let mut last = String::new();
    while last != "later" {
        let delivery =
            timeout(WAIT_MAX, consumer.next()).await.expect("consumer is still open").unwrap().unwrap();
        last = quorate_sim::history::parse_origin(&delivery.message.payload.bytes).0;
        assert_eq!(delivery.attempt, 1, "{last}");
        let ack = Op::Ack(delivery.lease.unwrap());
        hub.space.commit(Commit::new(bob.clone(), vec![ack])).await.unwrap();
    }
    let op = CallOp::Send {
        to: vec!["ann".into()],
        level: 1,
        attempts_max: 4,
        size: 10,
        dedup: DedupBy::ClientId,
    };
    send_call(&hub.space, &Call { id: "back".into(), by: "bob".into(), op }).await.unwrap();
    let claimed = timeout(WAIT_MAX, claiming).await.expect("claim is still waiting").unwrap().unwrap();
    assert_eq!(claimed.len(), 1);
    let counts = hub.space.published().counts;
    assert_eq!((counts.ready, counts.leased), (0, 1), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_a_claim_and_an_ack_on_a_full_disk_change_nothing() {
    let hub = open_hub().await;
    let bob = Principal::Agent(agent_id("bob"));
    send_call(&hub.space, &message_call("one", 10)).await.unwrap();
    let claimed = hub.space.claim(&bob, None, &agent_id("bob"), 1, LEASE_MS, Duration::ZERO).await.unwrap();
    let lease = claimed[0].lease.unwrap();
    send_call(&hub.space, &message_call("two", 10)).await.unwrap();
    hub.disk.faults().limit_free_space(0);
    let before = hub.space.published();
    let claim = hub.space.claim(&bob, None, &agent_id("bob"), 1, LEASE_MS, Duration::ZERO).await;
    assert!(matches!(claim, Err(Error::Store(StoreError::DiskFull))));
    let ack = hub.space.commit(Commit::new(bob.clone(), vec![Op::Ack(lease)])).await;
    assert!(is_full(&ack));
    assert_eq!(hub.space.published().counts, before.counts);
    hub.disk.faults().lift_space_limit();
    hub.space.commit(Commit::new(bob.clone(), vec![Op::Ack(lease)])).await.unwrap();
    let claimed = hub.space.claim(&bob, None, &agent_id("bob"), 9, LEASE_MS, Duration::ZERO).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].attempt, 1, "a failed claim does not count as an attempt");
    assert!(claimed[0].lease.unwrap().token > lease.token);
}

/// The first keyed commit of a day rotates the key tables. If the disk is full at that moment, the rotation must not be
/// remembered: the next restart would clear the table with the newest keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_stored_although_the_disk_was_full_on_the_first_call_of_the_day() {
    let hub = open_hub().await;
    hub.disk.faults().limit_free_space(0);
    assert!(is_full(&send_call(&hub.space, &message_call("first", 10)).await));
    hub.disk.faults().lift_space_limit();
    let first = send_call(&hub.space, &message_call("second", 10)).await.unwrap();
    let (space, _directory) = hub.reopen().await;
    send_call(&space, &message_call("third", 10)).await.unwrap();
    let repeated = send_call(&space, &message_call("second", 10)).await.unwrap();
    assert_eq!(repeated, first, "the same key and content return the same response");
    assert_eq!(log_has(&space, "second").await, 1);
}

/// Sends an HTTP request as an admin and returns the status and the body.
async fn call(app: &App, admin: &Secret, method: &str, path: &str, body: &str) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {}", admin.reveal()));
    let response = app.handle(request.body(Body::from(body.to_owned())).unwrap()).await;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap())
}

// Fails under: another status or `applied` value; a hub that stays unavailable after space is freed; a hub that keeps
// accepting writes after a disk failure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_i27_over_http_a_full_disk_returns_507_and_a_failed_disk_an_unknown_outcome() {
    let hub = open_hub().await;
    let admin = hub.space.generate_secret();
    let create = CreateToken {
        digest: admin.digest(),
        bearer: Bearer::Holder(TokenRole::Admin),
        name: TokenName::new("test").unwrap(),
        expires_at: None,
        parent: None,
        grants: Grants::default(),
    };
    hub.space.commit(Commit::new(Principal::System, vec![Op::CreateToken(create)])).await.unwrap();
    let private = recovery::open(&hub.directory.path().join("private"), Options::default()).await.unwrap();
    let private = Arc::clone(private.engine());
    let app = App::new(Arc::clone(hub.space.engine()), private, Settings::default()).await.unwrap();
    let large = format!("{{\"content\":\"{}\"}}", "x".repeat(3000));
    let put = || call(&app, &admin, "PUT", "/v1/context/k", &large);
    fill(&hub).await;
    let (status, body) = put().await;
    assert_eq!(status, 507, "{body}");
    assert_eq!((&body["code"], &body["applied"]), (&"STORAGE_FULL".into(), &"no".into()), "{body}");
    assert_eq!(call(&app, &admin, "GET", "/v1/agents/bob", "").await.0, 200, "reads succeed");
    assert_eq!(call(&app, &admin, "GET", "/v1/context/k", "").await.0, 404, "nothing was applied");
    hub.disk.faults().lift_space_limit();
    let (status, body) = timeout(Duration::from_secs(10), put()).await.expect("write succeeds promptly");
    assert_eq!(status, 201, "{body}");
    // After a disk failure the outcome is unknown, and nothing more is acknowledged.
    hub.disk.faults().fail_sync(Some(FileKind::Wal), 1, Repeat::Once);
    for _ in 0..2 {
        let (status, body) = put().await;
        assert!(status >= 500, "{body}");
        assert_eq!(
            (&body["code"], &body["applied"]),
            (&"STORAGE_FAILED".into(), &"unknown".into()),
            "{body}"
        );
    }
}

async fn check_failure(case: &str, inject: impl FnOnce(&Faults)) {
    let hub = open_hub().await;
    send_call(&hub.space, &message_call("before", 10)).await.unwrap();
    inject(hub.disk.faults());
    let failure = tokio::spawn(hub.space.engine().failure());
    let mut acknowledged = Vec::new();
    let mut unknown = Vec::new();
    // The number of syncs per batch of callers varies, so batches are sent until one hits the fault.
    for batch in 0..20 {
        let mut calls = JoinSet::new();
        for count in 0..40 {
            let space = hub.space.clone();
            calls.spawn(async move {
                let call = message_call(&format!("call-{batch}-{count}"), 100);
                (call.clone(), send_call(&space, &call).await)
            });
        }
        while let Some(ended) = calls.join_next().await {
            match ended.unwrap() {
                (call, Ok(_)) => acknowledged.push(call.id),
                (call, Err(error)) => {
                    assert!(matches!(error, Error::Store(StoreError::Failed(_))), "{case}: {error}");
                    assert!(!error.nothing_applied(), "{case}: the outcome is unknown");
                    unknown.push(call);
                }
            }
        }
        if !unknown.is_empty() {
            break;
        }
    }
    assert!(!unknown.is_empty(), "{case}: nothing failed");
    let reported = timeout(WAIT_MAX, failure).await.expect("failure is reported").unwrap();
    assert!(matches!(reported, StoreError::Failed(_)), "{case}: {reported}");
    // The disk works again, but nothing more is acknowledged: disk and memory may differ.
    hub.disk.faults().clear_errors();
    let after = send_call(&hub.space, &message_call("after", 10)).await.unwrap_err();
    assert!(matches!(after, Error::Store(StoreError::Failed(_))), "{case}: {after}");
    assert!(hub.space.engine().space(SpaceName::new("other").unwrap()).await.is_err(), "{case}");
    let (space, _directory) = hub.reopen().await;
    assert_eq!(log_has(&space, "before").await, 1, "{case}");
    assert_eq!(log_has(&space, "after").await, 0, "{case}: it was refused");
    for id in &acknowledged {
        assert_eq!(log_has(&space, id).await, 1, "{case}: {id} was acknowledged");
    }
    for call in &unknown {
        let count = log_has(&space, &call.id).await;
        assert!(count <= 1, "{case}: {}", call.id);
        send_call(&space, call).await.unwrap();
        assert_eq!(log_has(&space, &call.id).await, 1, "{case}: {} is applied once", call.id);
    }
    let counts = space.published().counts;
    assert_eq!(counts.ready, 1 + (acknowledged.len() + unknown.len()) as u64, "{case}: {counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_after_a_failed_sync_nothing_more_is_acknowledged() {
    for (nth, repeat) in [(1, Repeat::Once), (2, Repeat::Once), (1, Repeat::Forever)] {
        let case = format!("sync {nth} {repeat:?}");
        check_failure(&case, |faults| faults.fail_sync(Some(FileKind::Wal), nth, repeat)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_after_a_failed_write_nothing_more_is_acknowledged() {
    for (nth, repeat) in [(1, Repeat::Once), (2, Repeat::Once), (9, Repeat::Once), (5, Repeat::Forever)] {
        let case = format!("write {nth} {repeat:?}");
        check_failure(&case, |faults| faults.fail_write(Some(FileKind::Wal), nth, repeat)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_a_commit_is_atomic_after_a_failed_sync() {
    let hub = open_hub().await;
    let bob = Principal::Agent(agent_id("bob"));
    send_call(&hub.space, &message_call("input", 10)).await.unwrap();
    let claimed = hub.space.claim(&bob, None, &agent_id("bob"), 1, LEASE_MS, Duration::ZERO).await.unwrap();
    let put = PutEntry {
        key: Key::new("result").unwrap(),
        entry_type: "note".into(),
        content: hub.space.seal(&b"1"[..]),
        content_type: None,
        expect: Some(Version(0)),
        depends_on: Vec::new(),
        fence: None,
    };
    let lease = claimed[0].lease.unwrap();
    let step = Commit::new(bob.clone(), vec![Op::Ack(lease), Op::Put(put)]);
    let step = step.keyed(IdempotencyKey::new("step").unwrap());
    hub.disk.faults().fail_sync(Some(FileKind::Wal), 1, Repeat::Once);
    let error = hub.space.commit(step.clone()).await.unwrap_err();
    assert!(!error.nothing_applied(), "{error}");
    let (space, _directory) = hub.reopen().await;
    let written = space.entry(&Key::new("result").unwrap(), AsOf::Latest).await.unwrap().is_some();
    assert_eq!(space.published().counts.acked, u64::from(written), "the commit is atomic");
    space.commit(step).await.unwrap();
    assert_eq!(space.published().counts.acked, 1);
    let versions = space.history(&Key::new("result").unwrap(), Version(0), 10).await.unwrap();
    assert_eq!(versions.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_is_locked_by_one_process() {
    let hub = open_hub().await;
    let directory = hub.directory.path().join("data");
    let second = Engine::start(SystemClock::new(), Entropy::system(), |context| {
        let store = SqliteStore::open(&directory, Options::default(), context)?;
        Ok::<Arc<dyn Store>, OpenError>(store)
    });
    let Err(error) = second else { panic!("two hubs opened one directory") };
    let OpenError::InUse { holder, .. } = &error else { panic!("{}", error_chain(&error)) };
    assert_eq!(*holder, std::process::id().to_string());
    assert!(!error.is_damage());
    // The first hub is not affected, and the lock is released when it is closed.
    send_call(&hub.space, &message_call("still", 10)).await.unwrap();
    let (space, _directory) = hub.reopen().await;
    assert_eq!(log_has(&space, "still").await, 1);
}

/// Opens a hub with fault injection and a manual clock, with a message that bob has leased for a second.
pub(crate) async fn hub_with_lease(clock: &Arc<ManualClock>) -> FaultyHub {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    disk.faults().disable_preallocation();
    let options = Options { disk: Some(Arc::clone(&disk)), ..Options::default() };
    let engine = Engine::start(clock.clone(), Entropy::seeded(1), |context| {
        let store = SqliteStore::open(&directory.path().join("data"), options, context)?;
        Ok::<Arc<dyn Store>, OpenError>(store)
    });
    let space = engine.unwrap().space(SpaceName::new("default").unwrap()).await.unwrap();
    for name in ["ann", "bob"] {
        let op = Op::RegisterAgent(RegisterAgent::named(agent_id(name)));
        space.commit(Commit::new(Principal::System, vec![op])).await.unwrap();
    }
    send_call(&space, &message_call("one", 10)).await.unwrap();
    let bob = Principal::Agent(agent_id("bob"));
    let first = space.claim(&bob, None, &agent_id("bob"), 1, 1000, Duration::ZERO).await.unwrap();
    assert_eq!(first[0].attempt, 1);
    FaultyHub { space, disk, directory }
}

/// Advances the clock until no delivery is leased: a failed sweep is retried on the hub's clock.
pub(crate) async fn wait_until_unleased(space: &Space, clock: &ManualClock) {
    let mut published = space.follow();
    let returned = async {
        while published.borrow_and_update().counts.leased > 0 {
            clock.advance(Duration::from_millis(101));
            tokio::task::yield_now().await;
        }
    };
    timeout(WAIT_MAX, returned).await.expect("lease expires");
}

/// A lease that expires while the disk is full is returned by the sweep once space is freed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_a_lease_that_expires_on_a_full_disk_is_returned_when_space_is_freed() {
    let clock = ManualClock::at(1_800_000_000_000);
    let hub = hub_with_lease(&clock).await;
    hub.disk.faults().limit_free_space(0);
    clock.advance(Duration::from_millis(1001));
    assert!(is_full(&send_call(&hub.space, &message_call("two", 10)).await));
    hub.disk.faults().lift_space_limit();
    wait_until_unleased(&hub.space, &clock).await;
    let bob = Principal::Agent(agent_id("bob"));
    let second = hub.space.claim(&bob, None, &agent_id("bob"), 1, LEASE_MS, Duration::ZERO).await.unwrap();
    assert_eq!(second[0].attempt, 2);
}
