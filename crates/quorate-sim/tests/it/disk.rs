//! A disk that is full, fails to write or fails to sync: what callers are told is true, and nothing is half.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use quorate_core::error_chain;
use quorate_core::{
    Bearer, Commit, CreateToken, IdempotencyKey, Key, Op, Principal, PutEntry, Receipt, RegisterAgent,
    Secret, SpaceName, TokenName, TokenRole, Version,
};
use quorate_engine::{Engine, Error, Space};
use quorate_server::{App, Settings};
use quorate_sim::aftermath;
use quorate_sim::history::{Act, Call, Once, agent};
use quorate_sqlite::{Disk, Faults, FileKind, OpenError, Options, Repeat, SqliteStore};
use quorate_store::{Chance, SetClock, Store, StoreError, SystemClock, When};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long to wait for what is due at once: a guard against hanging, nothing depends on it.
const GUARD: Duration = Duration::from_secs(60);
const LEASE_MS: u64 = 60_000;

pub(crate) struct Hub {
    pub(crate) space: Space,
    pub(crate) disk: Arc<Disk>,
    place: tempfile::TempDir,
}

/// A hub with two agents on a disk that can fail.
pub(crate) async fn hub() -> Hub {
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    // Room that was taken ahead would let a few commits through, however full the disk is.
    disk.faults().never_grow_ahead();
    let options = Options { disk: Some(Arc::clone(&disk)), ..Options::default() };
    let space = aftermath::open(&place.path().join("data"), options).await.unwrap();
    for name in ["ann", "bob"] {
        let op = Op::RegisterAgent(RegisterAgent::named(agent(name)));
        space.commit(Commit::new(Principal::System, vec![op])).await.unwrap();
    }
    Hub { space, disk, place }
}

impl Hub {
    /// Opens the same directory on a disk without faults.
    async fn reopen(self) -> (Space, tempfile::TempDir) {
        self.space.engine().close().await;
        let space = aftermath::open(&self.place.path().join("data"), Options::default()).await.unwrap();
        (space, self.place)
    }
}

pub(crate) fn send(id: &str, size: usize) -> Call {
    let act = Act::Send { to: vec!["bob".into()], level: 1, tries: 4, size, once: Once::Key };
    Call { id: id.into(), by: "ann".into(), act }
}

pub(crate) async fn make(space: &Space, call: &Call) -> Result<Receipt, Error> {
    space.commit(call.commit(space)).await
}

fn is_full(result: &Result<Receipt, Error>) -> bool {
    matches!(result, Err(Error::Store(StoreError::Full)))
}

/// Fills the disk, and sends until there is no room left.
async fn fill(hub: &Hub) {
    hub.disk.faults().fail_writes_full(20_000);
    for count in 0..100 {
        let sent = make(&hub.space, &send(&format!("fill-{count}"), 3000)).await;
        if is_full(&sent) {
            return;
        }
        sent.unwrap();
    }
    panic!("the disk took more than it has");
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
    let hub = hub().await;
    make(&hub.space, &send("before", 10)).await.unwrap();
    fill(&hub).await;
    let before = hub.space.published();
    let refused = make(&hub.space, &send("refused", 3000)).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Full)), "{error}");
    assert!(error.nothing_applied());
    // Reads go on, and show that nothing moved.
    assert_eq!(hub.space.published().head, before.head);
    assert_eq!(hub.space.published().counts, before.counts);
    assert_eq!(log_has(&hub.space, "refused").await, 0);
    assert_eq!(log_has(&hub.space, "before").await, 1);
    let (space, _place) = hub.reopen().await;
    assert_eq!(space.published().head, before.head);
    assert_eq!(space.published().counts, before.counts);
    assert_eq!(log_has(&space, "refused").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_service_resumes_without_a_restart_when_space_returns() {
    let hub = hub().await;
    let bob = Principal::Agent(agent("bob"));
    let mut consumer = hub.space.consume(&bob, None, &agent("bob"), 200, LEASE_MS).await.unwrap();
    let ann = Principal::Agent(agent("ann"));
    let mut follow = hub.space.follow();
    follow.borrow_and_update();
    let claiming = {
        let (space, ann) = (hub.space.clone(), ann.clone());
        tokio::spawn(async move { space.claim(&ann, None, &agent("ann"), 1, LEASE_MS, GUARD * 2).await })
    };
    // An empty claim leaves no record, but its batch is told: from here on the head knows that it waits.
    timeout(GUARD, follow.changed()).await.expect("the claim is decided").unwrap();
    make(&hub.space, &send("before", 10)).await.unwrap();
    fill(&hub).await;
    assert!(is_full(&make(&hub.space, &send("later", 3000)).await));
    hub.disk.faults().free_space();
    // The very same call, with the same key: it was not applied, so it is now, once.
    make(&hub.space, &send("later", 3000)).await.unwrap();
    make(&hub.space, &send("later", 3000)).await.unwrap();
    assert_eq!(log_has(&hub.space, "later").await, 1);
    let mut last = String::new();
    while last != "later" {
        let delivery =
            timeout(GUARD, consumer.next()).await.expect("the consumer still stands").unwrap().unwrap();
        last = quorate_sim::history::origin(&delivery.message.payload.bytes).0;
        assert_eq!(delivery.attempt, 1, "{last}");
        let ack = Op::Ack(delivery.lease.unwrap());
        hub.space.commit(Commit::new(bob.clone(), vec![ack])).await.unwrap();
    }
    let back = Act::Send { to: vec!["ann".into()], level: 1, tries: 4, size: 10, once: Once::ClientId };
    make(&hub.space, &Call { id: "back".into(), by: "bob".into(), act: back }).await.unwrap();
    let claimed = timeout(GUARD, claiming).await.expect("the claim still waits").unwrap().unwrap();
    assert_eq!(claimed.len(), 1);
    let counts = hub.space.published().counts;
    assert_eq!((counts.ready, counts.leased), (0, 1), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_a_claim_and_an_ack_on_a_full_disk_change_nothing() {
    let hub = hub().await;
    let bob = Principal::Agent(agent("bob"));
    make(&hub.space, &send("one", 10)).await.unwrap();
    let claimed = hub.space.claim(&bob, None, &agent("bob"), 1, LEASE_MS, Duration::ZERO).await.unwrap();
    let lease = claimed[0].lease.unwrap();
    make(&hub.space, &send("two", 10)).await.unwrap();
    hub.disk.faults().fail_writes_full(0);
    let before = hub.space.published();
    let claim = hub.space.claim(&bob, None, &agent("bob"), 1, LEASE_MS, Duration::ZERO).await;
    assert!(matches!(claim, Err(Error::Store(StoreError::Full))));
    let ack = hub.space.commit(Commit::new(bob.clone(), vec![Op::Ack(lease)])).await;
    assert!(is_full(&ack));
    assert_eq!(hub.space.published().counts, before.counts);
    hub.disk.faults().free_space();
    hub.space.commit(Commit::new(bob.clone(), vec![Op::Ack(lease)])).await.unwrap();
    let claimed = hub.space.claim(&bob, None, &agent("bob"), 9, LEASE_MS, Duration::ZERO).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].attempt, 1, "the claim that was refused does not count as a try");
    assert!(claimed[0].lease.unwrap().token > lease.token);
}

/// The first keyed commit of a day turns to the other table of keys. If the disk is full just then, the turn must not
/// be remembered: the next restart would empty the table that holds the newest keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_remembered_though_the_disk_was_full_on_the_first_call_of_the_day() {
    let hub = hub().await;
    hub.disk.faults().fail_writes_full(0);
    assert!(is_full(&make(&hub.space, &send("first", 10)).await));
    hub.disk.faults().free_space();
    let told = make(&hub.space, &send("second", 10)).await.unwrap();
    let (space, _place) = hub.reopen().await;
    make(&space, &send("third", 10)).await.unwrap();
    let again = make(&space, &send("second", 10)).await.unwrap();
    assert_eq!(again, told, "the same key, the same body, the same answer");
    assert_eq!(log_has(&space, "second").await, 1);
}

/// A call over the interface as an admin would make it: its status and its answer.
async fn call(app: &App, admin: &Secret, method: &str, path: &str, body: &str) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {}", admin.reveal()));
    let response = app.answer(request.body(Body::from(body.to_owned())).unwrap()).await;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap())
}

// Fails under: another status or another word for what was applied; a hub that stays closed when there is room again; one
// that goes on after its disk has failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_i27_over_http_a_full_disk_is_507_and_a_failed_one_is_unknown() {
    let hub = hub().await;
    let admin = hub.space.draw_secret();
    let create = CreateToken {
        digest: admin.digest(),
        bearer: Bearer::Holder(TokenRole::Admin),
        name: TokenName::new("test").unwrap(),
        expires_at: None,
    };
    hub.space.commit(Commit::new(Principal::System, vec![Op::CreateToken(create)])).await.unwrap();
    let private = aftermath::open(&hub.place.path().join("private"), Options::default()).await.unwrap();
    let private = Arc::clone(private.engine());
    let app = App::new(Arc::clone(hub.space.engine()), private, Settings::default()).await.unwrap();
    let large = format!("{{\"content\":\"{}\"}}", "x".repeat(3000));
    let put = || call(&app, &admin, "PUT", "/v1/context/k", &large);
    fill(&hub).await;
    let (status, told) = put().await;
    assert_eq!(status, 507, "{told}");
    assert_eq!((&told["code"], &told["applied"]), (&"STORAGE_FULL".into(), &"no".into()), "{told}");
    assert_eq!(call(&app, &admin, "GET", "/v1/agents/bob", "").await.0, 200, "reads go on");
    assert_eq!(call(&app, &admin, "GET", "/v1/context/k", "").await.0, 404, "nothing was applied");
    hub.disk.faults().free_space();
    let (status, told) = timeout(Duration::from_secs(10), put()).await.expect("soon");
    assert_eq!(status, 201, "{told}");
    // A disk that fails is another matter: what happened is unknown, and nothing more is acknowledged.
    hub.disk.faults().fail_sync(Some(FileKind::Wal), 1, Repeat::Once);
    for _ in 0..2 {
        let (status, told) = put().await;
        assert!(status >= 500, "{told}");
        assert_eq!(
            (&told["code"], &told["applied"]),
            (&"STORAGE_FAILED".into(), &"unknown".into()),
            "{told}"
        );
    }
}

async fn fails(what: &str, plan: impl FnOnce(&Faults)) {
    let hub = hub().await;
    make(&hub.space, &send("before", 10)).await.unwrap();
    plan(hub.disk.faults());
    let failure = tokio::spawn(hub.space.engine().failure());
    let mut acknowledged = Vec::new();
    let mut unknown = Vec::new();
    // How many syncs a crowd of callers needs is up to the machine: crowds come until one meets the fault.
    for crowd in 0..20 {
        let mut calls = JoinSet::new();
        for count in 0..40 {
            let space = hub.space.clone();
            calls.spawn(async move {
                let call = send(&format!("call-{crowd}-{count}"), 100);
                (call.clone(), make(&space, &call).await)
            });
        }
        while let Some(ended) = calls.join_next().await {
            match ended.unwrap() {
                (call, Ok(_)) => acknowledged.push(call.id),
                (call, Err(error)) => {
                    assert!(matches!(error, Error::Store(StoreError::Failed(_))), "{what}: {error}");
                    assert!(!error.nothing_applied(), "{what}: the outcome is unknown");
                    unknown.push(call);
                }
            }
        }
        if !unknown.is_empty() {
            break;
        }
    }
    assert!(!unknown.is_empty(), "{what}: nothing failed");
    let told = timeout(GUARD, failure).await.expect("the failure is told").unwrap();
    assert!(matches!(told, StoreError::Failed(_)), "{what}: {told}");
    // The disk works again, but nothing more is acknowledged: what it holds is not what memory knows.
    hub.disk.faults().heal();
    let after = make(&hub.space, &send("after", 10)).await.unwrap_err();
    assert!(matches!(after, Error::Store(StoreError::Failed(_))), "{what}: {after}");
    assert!(hub.space.engine().space(SpaceName::new("other").unwrap()).await.is_err(), "{what}");
    let (space, _place) = hub.reopen().await;
    assert_eq!(log_has(&space, "before").await, 1, "{what}");
    assert_eq!(log_has(&space, "after").await, 0, "{what}: it was told that nothing more is accepted");
    for id in &acknowledged {
        assert_eq!(log_has(&space, id).await, 1, "{what}: {id} was acknowledged");
    }
    for call in &unknown {
        let there = log_has(&space, &call.id).await;
        assert!(there <= 1, "{what}: {}", call.id);
        make(&space, call).await.unwrap();
        assert_eq!(log_has(&space, &call.id).await, 1, "{what}: {} happened once in all", call.id);
    }
    let counts = space.published().counts;
    assert_eq!(counts.ready, 1 + (acknowledged.len() + unknown.len()) as u64, "{what}: {counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_after_a_failed_sync_nothing_more_is_acknowledged() {
    for (nth, repeat) in [(1, Repeat::Once), (2, Repeat::Once), (1, Repeat::Forever)] {
        let what = format!("sync {nth} {repeat:?}");
        fails(&what, |faults| faults.fail_sync(Some(FileKind::Wal), nth, repeat)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_after_a_failed_write_nothing_more_is_acknowledged() {
    for (nth, repeat) in [(1, Repeat::Once), (2, Repeat::Once), (9, Repeat::Once), (5, Repeat::Forever)] {
        let what = format!("write {nth} {repeat:?}");
        fails(&what, |faults| faults.fail_write(Some(FileKind::Wal), nth, repeat)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_a_whole_step_is_there_or_not_after_a_failed_sync() {
    let hub = hub().await;
    let bob = Principal::Agent(agent("bob"));
    make(&hub.space, &send("input", 10)).await.unwrap();
    let claimed = hub.space.claim(&bob, None, &agent("bob"), 1, LEASE_MS, Duration::ZERO).await.unwrap();
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
    let (space, _place) = hub.reopen().await;
    let written = space.entry(&Key::new("result").unwrap(), When::Now).await.unwrap().is_some();
    assert_eq!(space.published().counts.acked, u64::from(written), "all or nothing");
    space.commit(step).await.unwrap();
    assert_eq!(space.published().counts.acked, 1);
    let versions = space.history(&Key::new("result").unwrap(), Version(0), 10).await.unwrap();
    assert_eq!(versions.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_has_one_process_at_a_time() {
    let hub = hub().await;
    let directory = hub.place.path().join("data");
    let second = Engine::start(SystemClock::new(), Chance::system(), |wiring| {
        let store = SqliteStore::open(&directory, Options::default(), wiring)?;
        Ok::<Arc<dyn Store>, OpenError>(store)
    });
    let Err(error) = second else { panic!("two hubs on one directory") };
    let OpenError::InUse { holder, .. } = &error else { panic!("{}", error_chain(&error)) };
    assert_eq!(*holder, std::process::id().to_string());
    assert!(!error.is_damage());
    // The first is not disturbed, and the directory is free once it is closed.
    make(&hub.space, &send("still", 10)).await.unwrap();
    let (space, _place) = hub.reopen().await;
    assert_eq!(log_has(&space, "still").await, 1);
}

/// A hub on a disk that can fail, by a clock that stands, with a message that bob holds for a second.
pub(crate) async fn hub_with_a_lease(clock: &Arc<SetClock>) -> Hub {
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    disk.faults().never_grow_ahead();
    let options = Options { disk: Some(Arc::clone(&disk)), ..Options::default() };
    let engine = Engine::start(clock.clone(), Chance::seeded(1), |wiring| {
        let store = SqliteStore::open(&place.path().join("data"), options, wiring)?;
        Ok::<Arc<dyn Store>, OpenError>(store)
    });
    let space = engine.unwrap().space(SpaceName::new("default").unwrap()).await.unwrap();
    for name in ["ann", "bob"] {
        let op = Op::RegisterAgent(RegisterAgent::named(agent(name)));
        space.commit(Commit::new(Principal::System, vec![op])).await.unwrap();
    }
    make(&space, &send("one", 10)).await.unwrap();
    let bob = Principal::Agent(agent("bob"));
    let first = space.claim(&bob, None, &agent("bob"), 1, 1000, Duration::ZERO).await.unwrap();
    assert_eq!(first[0].attempt, 1);
    Hub { space, disk, place }
}

/// Moves the clock on until nothing is leased: the sweep tries again after a while on the hub's clock.
pub(crate) async fn until_returned(space: &Space, clock: &SetClock) {
    let mut follow = space.follow();
    let returned = async {
        while follow.borrow_and_update().counts.leased > 0 {
            clock.advance(Duration::from_millis(101));
            tokio::task::yield_now().await;
        }
    };
    timeout(GUARD, returned).await.expect("the lease comes back");
}

/// Time goes on while the disk is full: a lease that ended meanwhile comes back once there is room, by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i22_a_lease_that_ends_on_a_full_disk_comes_back_when_space_returns() {
    let clock = SetClock::at(1_800_000_000_000);
    let hub = hub_with_a_lease(&clock).await;
    hub.disk.faults().fail_writes_full(0);
    clock.advance(Duration::from_millis(1001));
    assert!(is_full(&make(&hub.space, &send("two", 10)).await));
    hub.disk.faults().free_space();
    until_returned(&hub.space, &clock).await;
    let bob = Principal::Agent(agent("bob"));
    let second = hub.space.claim(&bob, None, &agent("bob"), 1, LEASE_MS, Duration::ZERO).await.unwrap();
    assert_eq!(second[0].attempt, 2);
}
