//! Bounds on the work of one commit and one batch: every operation is executed at its limits, many times in one commit
//! and in one batch. The tests assert on metered work units, not on time. With debug assertions, the writer itself checks
//! that the meter covers everything it read or wrote.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::limits::{
    ACKS_MAX, CLAIM_MAX, COMMIT_WORK_MAX, LEASE_MS_DEFAULT, OPS_MAX, TASKS_PER_OP_MAX,
};
use quorate_core::*;
use quorate_sqlite::{Options, SqliteStore};
use quorate_store::{Entropy, ManualClock, Store as _, StoreContext};

/// Work units after which a batch takes no further commit (`BATCH_WORK_MAX` of the writer).
const BATCH_WORK_MAX: u64 = 8_192;
/// Work units for the bytes of a record, which are added after its operations.
const RECORD_UNITS: u64 = 4_096;
/// Number of entries that the rollbacks scan.
const ENTRIES: usize = 5_000;

fn id(name: &str) -> AgentId {
    AgentId::new(name).expect("a valid id")
}

fn payload(bytes: usize) -> Payload {
    let text = format!("\"{}\"", "x".repeat(bytes));
    Payload::seal(Bytes::from(text), [7; 16])
}

fn key(name: &str) -> Key {
    Key::new(name).expect("a valid key")
}

fn put(name: &str, bytes: usize) -> Op {
    Op::Put(PutEntry {
        key: key(name),
        entry_type: "note".into(),
        content: payload(bytes),
        content_type: None,
        expect: None,
        depends_on: Vec::new(),
        fence: None,
    })
}

fn message(to: Destination) -> Message {
    Message { from: Some(id("alice")), ..Message::new(to, "work", payload(16)) }
}

fn lease(number: u64) -> LeaseRef {
    let delivery = DeliveryId { generation: Generation(0), number: DeliveryNo(number) };
    LeaseRef { delivery, token: LeaseToken(number) }
}

fn task_id(number: usize) -> TaskId {
    TaskId::new(format!("t{number}")).expect("a valid id")
}

/// Creates a task graph in which all tasks depend on the first one.
fn graph() -> Op {
    let task = |number: usize| {
        let depends_on = if number == 0 { vec![] } else { vec![Dependency::Task(task_id(0))] };
        NewTask { id: Some(task_id(number)), depends_on, ..NewTask::new("x") }
    };
    Op::CreateTasks(CreateTasks { tasks: (0..TASKS_PER_OP_MAX).map(task).collect(), inputs: None })
}

struct Hub {
    store: Arc<SqliteStore>,
    space: SpaceNo,
    other: SpaceNo,
    _directory: tempfile::TempDir,
}

impl Hub {
    /// Opens a store that flushes before every batch, so that every lookup goes to the tables.
    async fn new() -> Self {
        Self::with(Options { flush_rows: 1, ..Options::default() }).await
    }

    async fn with(options: Options) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let context = StoreContext {
            clock: ManualClock::at(1_800_000_000_000),
            entropy: Entropy::seeded(1),
            sink: Arc::new(|_| {}),
        };
        let store = SqliteStore::open(directory.path(), options, context).expect("it opens");
        let space = |name: &str| store.space(SpaceName::new(name).expect("a valid name"));
        let (space, other) = (space("busy").await.expect("a space"), space("other").await.expect("a space"));
        Self { store, space, other, _directory: directory }
    }

    async fn commit(&self, ops: Vec<Op>) -> Result<Receipt, Refused> {
        let commit = Commit::new(Principal::System, ops);
        let outcomes = self.store.transact(self.space, vec![commit]).await.expect("the storage works");
        outcomes.into_iter().next().expect("an outcome")
    }

    async fn ok(&self, ops: Vec<Op>) -> Receipt {
        self.commit(ops).await.unwrap_or_else(|refused| panic!("{refused:?}"))
    }

    /// Creates the data that the operations refer to, up to their limits.
    async fn fill(&self) {
        let agents: Vec<_> = ["alice".to_owned(), "bob".to_owned()]
            .into_iter()
            .chain((0..998).map(|number| format!("agent-{number}")))
            .map(|name| {
                let capabilities = vec!["x".to_owned()];
                Op::RegisterAgent(RegisterAgent { capabilities, ..RegisterAgent::named(id(&name)) })
            })
            .collect();
        for chunk in agents.chunks(OPS_MAX) {
            self.ok(chunk.to_vec()).await;
        }
        // A record of 2 MB, and many entries that were written and deleted.
        self.ok((0..200).map(|number| put(&format!("big/{number}"), 10_000)).collect()).await;
        self.ok((0..200).map(|number| put(&format!("big/{number}"), 10)).collect()).await;
        let names: Vec<_> = (0..ENTRIES).map(|number| format!("p/{number:05}")).collect();
        for chunk in names.chunks(OPS_MAX) {
            self.ok(chunk.iter().map(|name| put(name, 1)).collect()).await;
        }
        let delete = |name: &String| Op::Delete(DeleteEntry { key: key(name), expect: None, fence: None });
        for chunk in names.chunks(OPS_MAX) {
            self.ok(chunk.iter().map(delete).collect()).await;
        }
        // 4,096 deliveries in one commit, 4,096 acks in another.
        let to: Vec<_> = (0..16).map(|number| id(&format!("agent-{number}"))).collect();
        let send = || Op::send(message(Destination::Agents(to.clone())));
        self.ok((0..OPS_MAX).map(|_| send()).collect()).await;
        for number in 0..16 {
            self.ok(vec![claim(&format!("agent-{number}"))]).await;
        }
        let leases: Vec<_> = self.leases().await;
        assert_eq!(leases.len(), ACKS_MAX);
        self.ok(vec![Op::AckMany(leases)]).await;
        // A dead letter, a graph of 10,000 tasks, a session of 1,000 agents.
        self.ok(vec![Op::send(message(Destination::Agent(id("bob")))), claim("bob")]).await;
        self.ok(vec![graph()]).await;
        self.ok(vec![Op::OpenSession(session_of_all())]).await;
    }

    /// Returns the leases of the first 4,096 deliveries, from the records of the claims.
    async fn leases(&self) -> Vec<LeaseRef> {
        let records = self.store.log(self.space, Seq(1), 100_000).await.expect("the storage works");
        let effects =
            records.iter().flat_map(|record| codec::read_body(record).expect("it can be read").effects);
        let leased = effects.filter_map(|effect| match effect {
            Effect::Leased { deliveries, .. } => Some(deliveries),
            _ => None,
        });
        leased.flatten().map(|logged| LeaseRef { token: logged.token, ..lease(logged.delivery.0) }).collect()
    }
}

fn claim(agent: &str) -> Op {
    Op::Claim { agent: id(agent), max: CLAIM_MAX, lease_ms: LEASE_MS_DEFAULT, wait: WaitMode::NoWait }
}

fn rollback(scope: RollbackScope, seq: u64) -> Op {
    Op::Rollback(Rollback { scope, target: RollbackTarget::Seq(Seq(seq)), fence: None })
}

/// Returns every operation with the most expensive arguments.
fn costly(leases: &[LeaseRef], big: Seq) -> Vec<Op> {
    [of_deliveries(leases), of_memory(big), of_sessions(), of_tasks(), of_agents(big), of_procedures()]
        .concat()
}

fn bob() -> AgentId {
    id("bob")
}

fn session_id() -> SessionId {
    SessionId::new("s").expect("a valid id")
}

/// Messages, deliveries and requests.
fn of_deliveries(leases: &[LeaseRef]) -> Vec<Op> {
    let consumer = ConsumerId(1);
    let request = MessageId { generation: Generation(0), seq: Seq(6), n: 0 };
    let several = Destination::Agents((0..16).map(|number| id(&format!("agent-{number}"))).collect());
    let pattern = || Pattern::new(">").expect("a valid pattern");
    let history = History::Last(4096);
    vec![
        Op::send(message(Destination::Broadcast)),
        claim("bob"),
        Op::GrantCredit { consumer, credit: 4096 },
        Op::CloseConsumer { consumer },
        Op::Ack(leases[0]),
        Op::AckMany(leases.to_vec()),
        Op::Nack(Nack { lease: leases[0], action: NackAction::DeadLetter, reason: "x".repeat(1000) }),
        Op::Extend(Extend { lease: leases[0], lease_ms: 60_000 }),
        Op::Redrive { delivery: leases[0].delivery },
        Op::Purge { agent: bob() },
        Op::ResumeLeases { agent: bob(), lease_ms: 60_000 },
        Op::Request(SendRequest::new(message(several), None, None)),
        Op::AwaitRequest { request, consumer },
        Op::CancelRequest { request },
        Op::Subscribe(Subscribe { agent: bob(), pattern: pattern(), history: None }),
        Op::Unsubscribe { agent: bob(), pattern: pattern() },
        Op::Backfill(Backfill {
            agent: bob(),
            pattern: pattern(),
            expected: history,
            messages: Vec::new(),
            next: Seq(1),
        }),
        Op::Sweep,
    ]
}

/// Entries, and payloads of a record of 2 MB.
fn of_memory(big: Seq) -> Vec<Op> {
    let snapshot = || SnapshotName::new("s").expect("a valid name");
    vec![
        put("big/0", 8_000),
        Op::Delete(DeleteEntry { key: key("p/00000"), expect: None, fence: None }),
        Op::ErasePayload(ErasePayload { seq: big, part: 0 }),
        Op::MakeSnapshot(MakeSnapshot { name: snapshot(), prefix: String::new() }),
        Op::DropSnapshot { name: snapshot() },
        rollback(RollbackScope::Prefix("p/".into()), big.0),
        rollback(RollbackScope::Prefix("big/".into()), big.0),
        rollback(RollbackScope::Key { key: key("big/1"), expect: None }, big.0),
    ]
}

/// Sessions, locks and budgets.
fn of_sessions() -> Vec<Op> {
    let fences = || vec![FenceRef { lock: LockName::new("l").expect("a valid name"), fence: Fence(1) }];
    let names = (0..16).map(|number| LockName::new(format!("l{number}")).expect("a valid name")).collect();
    let change = SessionChange::Join(bob());
    vec![
        Op::OpenSession(session_of_all()),
        Op::ChangeSession(ChangeSession { session: session_id(), change, reason: String::new() }),
        Op::AddToSession(AddToSession {
            session: session_id(),
            kind: ContributionKind::Note,
            body: payload(8_000),
            content_type: None,
            rationale: String::new(),
        }),
        Op::AcquireLocks(AcquireLocks {
            agent: bob(),
            names,
            ttl_ms: 60_000,
            priority: Priority::NORMAL,
            capacity: None,
            wait: WaitMode::NoWait,
            within: None,
        }),
        Op::RenewLocks(RenewLocks::with_granted_ttl(fences())),
        Op::ReleaseLocks(fences()),
        Op::SetBudget(SetBudget {
            id: BudgetId::new("b").expect("a valid id"),
            messages_max: 9,
            tokens_max: None,
            money_max: None,
        }),
    ]
}

fn of_tasks() -> Vec<Op> {
    let lease = || TaskLeaseRef { task: task_id(1), token: LeaseToken(1) };
    let claim = ClaimTasks {
        agent: bob(),
        types: vec!["x".into()],
        max: CLAIM_MAX,
        lease_ms: None,
        wait: WaitMode::NoWait,
    };
    vec![
        graph(),
        Op::ClaimTasks(claim),
        Op::HeartbeatTask(HeartbeatTask { lease: lease(), partial: None }),
        Op::CompleteTask(CompleteTask::done(lease(), Some(payload(8_000)))),
        Op::FailTask(FailTask { lease: lease(), reason: "x".into(), details: None, recoverable: true }),
        Op::ReleaseTask(lease()),
        Op::AwaitTask(AwaitTask { agent: bob(), task: task_id(1), within: None, consumer: ConsumerId(1) }),
        Op::CancelTask(CancelTask { task: task_id(0), reason: String::new() }),
    ]
}

/// Agents, access tokens, the policy, and inspection of the state.
fn of_agents(big: Seq) -> Vec<Op> {
    vec![
        Op::RegisterAgent(RegisterAgent::named(bob())),
        Op::RemoveAgent { agent: id("unknown") },
        Op::Heartbeat(Heartbeat {
            agent: bob(),
            status: AgentStatus::Working,
            health: Health::Degraded("slow".into()),
        }),
        Op::HeartbeatBatch { agents: (1..=1000).map(AgentNo).collect() },
        Op::ConnectionClosed { agent: AgentNo(1) },
        Op::Inspect(Inspect::Agents { filter: AgentFilter::default(), after: AgentNo(0), limit: 1000 }),
        Op::SetPolicy(Policy::default()),
        Op::CreateToken(CreateToken {
            digest: TokenDigest([1; 32]),
            bearer: Bearer::Agent(bob()),
            name: "laptop".parse().expect("a valid name"),
            expires_at: None,
            parent: None,
            grants: Grants::default(),
        }),
        Op::RevokeToken { token: TokenId { generation: Generation(0), seq: big, n: 0 } },
    ]
}

/// Procedures and approvals.
fn of_procedures() -> Vec<Op> {
    let procedure = || ProcedureId::new("p").expect("a valid id");
    let approval = || ApprovalId::new("a").expect("a valid id");
    vec![
        Op::StartProcedure(StartProcedure {
            id: Some(procedure()),
            kind: "k".into(),
            driver: Some(bob()),
            spec: Some(payload(8_000)),
            parent: None,
        }),
        Op::StepProcedure(StepProcedure {
            procedure: procedure(),
            expect: Version(1),
            phase: "x".into(),
            status: ProcedureStatus::Running,
            state: Some(payload(8_000)),
            result: None,
            reason: String::new(),
        }),
        Op::ControlProcedure(ControlProcedure {
            procedure: procedure(),
            control: ProcedureControl::Cancel,
            reason: "r".into(),
        }),
        Op::SignalProcedure(SignalProcedure {
            procedure: procedure(),
            name: "n".into(),
            payload: Some(payload(8_000)),
        }),
        Op::RequestApproval(Box::new(RequestApproval {
            id: Some(approval()),
            agent: Some(bob()),
            action: "act".into(),
            document: payload(8_000),
            rationale: None,
            confidence: None,
            priority: Priority::NORMAL,
            timeout_ms: 60_000,
            default: String::new(),
            session: None,
            follow_ups: Vec::new(),
        })),
        Op::DecideApproval(Box::new(DecideApproval {
            approval: approval(),
            verdict: Verdict::Approve,
            digest: ActionDigest([0; 32]),
            reason: String::new(),
        })),
    ]
}

/// Session with nearly the maximum number of participants.
fn session_of_all() -> OpenSession {
    OpenSession {
        id: Some(session_id()),
        coordinator: None,
        participants: (0..998).map(|number| id(&format!("agent-{number}"))).collect(),
        title: "work".into(),
        task: None,
    }
}

/// Number of an operation. A new operation does not compile until it is listed here, and the test fails until it is
/// covered.
fn number_of(op: &Op) -> usize {
    match op {
        Op::RegisterAgent(_) => 0,
        Op::RemoveAgent { .. } => 1,
        Op::Send { .. } => 2,
        Op::Claim { .. } => 3,
        Op::GrantCredit { .. } => 4,
        Op::CloseConsumer { .. } => 5,
        Op::Ack(_) => 6,
        Op::Nack(_) => 7,
        Op::Extend(_) => 8,
        Op::Redrive { .. } => 9,
        Op::Purge { .. } => 10,
        Op::Put(_) => 11,
        Op::Delete(_) => 12,
        Op::ErasePayload(_) => 13,
        Op::Sweep => 14,
        Op::SetPolicy(_) => 15,
        Op::AcquireLocks(_) => 16,
        Op::RenewLocks(_) => 17,
        Op::ReleaseLocks(_) => 18,
        Op::SetBudget(_) => 19,
        Op::OpenSession(_) => 20,
        Op::ChangeSession(_) => 21,
        Op::AddToSession(_) => 22,
        Op::CreateTasks(_) => 23,
        Op::ClaimTasks(_) => 24,
        Op::HeartbeatTask(_) => 25,
        Op::CompleteTask(_) => 26,
        Op::FailTask(_) => 27,
        Op::ReleaseTask(_) => 28,
        Op::CancelTask(_) => 29,
        Op::MakeSnapshot(_) => 30,
        Op::DropSnapshot { .. } => 31,
        Op::Rollback(_) => 32,
        Op::Subscribe(_) => 33,
        Op::Unsubscribe { .. } => 34,
        Op::Backfill(_) => 35,
        Op::AckMany(_) => 36,
        Op::Request(_) => 37,
        Op::AwaitRequest { .. } => 38,
        Op::CancelRequest { .. } => 39,
        Op::Heartbeat(_) => 40,
        Op::Inspect(_) => 41,
        Op::AwaitTask(_) => 42,
        Op::HeartbeatBatch { .. } => 43,
        Op::CreateToken(_) => 44,
        Op::RevokeToken { .. } => 45,
        Op::ResumeLeases { .. } => 46,
        Op::StartProcedure(_) => 47,
        Op::StepProcedure(_) => 48,
        Op::RequestApproval(_) => 49,
        Op::DecideApproval(_) => 50,
        Op::ControlProcedure(_) => 51,
        Op::SignalProcedure(_) => 52,
        Op::ConnectionClosed { .. } => 53,
    }
}

const OPERATIONS: usize = 54;

// Fails under: an operation that reads before its limits are checked, unmetered work, a limit per operation instead of per
// commit, a batch that takes commits regardless of their cost.
#[tokio::test]
async fn s1_no_commit_and_no_batch_costs_more_than_its_bound() {
    let hub = Hub::new().await;
    hub.fill().await;
    let leases = hub.leases().await.into_iter().take(ACKS_MAX).collect::<Vec<_>>();
    let big = Seq(1 + 4 + 1);
    let covered: BTreeSet<_> = costly(&leases, big).iter().map(number_of).collect();
    assert_eq!(covered, (0..OPERATIONS).collect(), "an operation is not covered");
    let mut over_limit = 0;
    for op in costly(&leases, big) {
        let times = match &op {
            // Must be the only operation of its commit.
            Op::Inspect(_) => 1,
            // Two of them already exceed the limit, and larger commits take long to create.
            Op::CreateTasks(_) | Op::AckMany(_) => 8,
            // Planned before it is queued, which is slow even for a few.
            Op::Rollback(rollback) if rollback.scope.is_prefix() => 8,
            _ => OPS_MAX,
        };
        let commit = || Commit::new(Principal::System, vec![op.clone(); times]);
        let pending = (0..4).map(|_| hub.store.transact(hub.space, vec![commit()])).collect::<Vec<_>>();
        let other_space =
            hub.store.transact(hub.other, vec![Commit::new(Principal::System, vec![Op::Sweep])]);
        for outcomes in pending {
            let outcomes = outcomes.await.expect("the storage works");
            over_limit += outcomes
                .iter()
                .filter(|outcome| matches!(outcome, Err(refused) if refused.code == Code::LimitExceeded))
                .count();
        }
        other_space.await.expect("the storage works")[0].as_ref().expect("other spaces are served");
        let spent = hub.store.stats().work_max;
        let number = number_of(&op);
        assert!(
            spent <= COMMIT_WORK_MAX + BATCH_WORK_MAX + RECORD_UNITS,
            "{spent} units after operation {number}"
        );
    }
    assert!(over_limit >= 12, "only {over_limit} commits exceeded the limit");
    hub.store.close().await;
}

// Fails under: a flush of any size in the transaction of the next batch; flushed rows that are not counted as work.
#[tokio::test]
async fn s1_a_large_flush_does_not_share_a_transaction_with_a_large_commit() {
    let hub = Hub::with(Options::default()).await;
    hub.ok(vec![graph()]).await;
    let one_graph = hub.store.stats().work_max;
    assert!(one_graph > BATCH_WORK_MAX);
    // Fails all dependents, which changes as many rows.
    hub.ok(vec![Op::CancelTask(CancelTask { task: task_id(0), reason: String::new() })]).await;
    let work_max = hub.store.stats().work_max;
    assert!(work_max < one_graph + BATCH_WORK_MAX, "{one_graph}, then {work_max} units in one transaction");
    hub.store.close().await;
}

// Fails under: a limit of the number of requests that are cancelled together, whatever their size; a cancellation that
// makes no progress.
#[tokio::test]
async fn s1_a_procedure_with_large_requests_is_cancelled_in_bounded_steps() {
    const REQUESTS: usize = 250;
    let hub = Hub::with(Options::default()).await;
    let names: Vec<_> = (0..256).map(|number| id(&format!("agent-{number}"))).collect();
    let all = names.iter().cloned().chain([id("alice")]);
    for agent in all.collect::<Vec<_>>().chunks(OPS_MAX) {
        hub.ok(agent.iter().map(|id| Op::RegisterAgent(RegisterAgent::named(id.clone()))).collect()).await;
    }
    let procedure = || ProcedureId::new("p").expect("a valid id");
    hub.ok(vec![Op::StartProcedure(StartProcedure {
        id: Some(procedure()),
        kind: "k".into(),
        driver: Some(id("alice")),
        spec: None,
        parent: None,
    })])
    .await;
    for _ in 0..REQUESTS {
        let message = message(Destination::Agents(names.clone()));
        let message = Message { correlation_id: Some("p".into()), kind: MessageType::Query, ..message };
        hub.ok(vec![Op::Request(SendRequest::new(message, Some(600_000), None))]).await;
    }
    let cancel = || {
        let control = ProcedureControl::Cancel;
        vec![Op::ControlProcedure(ControlProcedure {
            procedure: procedure(),
            control,
            reason: String::new(),
        })]
    };
    let (mut left, mut steps) = (REQUESTS as u32, 0);
    while left > 0 {
        let receipt = hub.ok(cancel()).await;
        let [OpResult::ProcedureChanged { remaining, .. }] = receipt.results[..] else {
            panic!("{receipt:?}")
        };
        assert!(remaining < left, "{remaining} of {left}");
        (left, steps) = (remaining, steps + 1);
    }
    assert!((3..REQUESTS / 4).contains(&steps), "{steps} steps");
    assert!(hub.store.stats().work_max < COMMIT_WORK_MAX / 4, "{}", hub.store.stats().work_max);
    hub.store.close().await;
}

// Fails under: a rollback that scans its entries on the writer, or a limit per operation.
#[tokio::test]
async fn s1_a_rollback_of_many_entries_is_planned_before_it_is_queued() {
    let hub = Hub::new().await;
    let names: Vec<_> = (0..5_000).map(|number| format!("p/{number:05}")).collect();
    for chunk in names.chunks(OPS_MAX) {
        hub.ok(chunk.iter().map(|name| put(name, 1)).collect()).await;
    }
    let written = hub.store.stats().work_max;
    let to_nothing = rollback(RollbackScope::Prefix("p/".into()), 1);
    let refused = hub.commit(vec![to_nothing]).await.expect_err("too many entries");
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(4096)));
    assert_eq!(hub.store.stats().work_max, written, "the writer scanned entries");
    let op = rollback(RollbackScope::Prefix("p/00".into()), 1);
    let receipt = hub.ok(vec![op]).await;
    assert_eq!(receipt.results, [OpResult::RolledBack { to: Seq(1), written: 0, deleted: 1000 }]);
    hub.store.close().await;
}

// Fails under: a plan that is applied without the writes since it was made.
#[tokio::test]
async fn c11_a_planned_rollback_sees_what_was_written_since() {
    let hub = Hub::new().await;
    hub.ok(vec![put("p/a", 1), put("p/b", 1)]).await;
    let target = hub.ok(vec![put("other", 1)]).await.seq.expect("a record");
    hub.ok(vec![put("p/a", 2)]).await;
    // A plan is needed: the memtable does not reach back to the record.
    hub.ok(vec![put("other", 2)]).await;
    let op = rollback(RollbackScope::Prefix("p/".into()), target.0);
    let planned =
        hub.store.prepare(hub.space, Commit::new(Principal::System, vec![op])).await.expect("a plan");
    let late = hub.store.transact(
        hub.space,
        vec![Commit::new(Principal::System, vec![put("p/b", 2), put("p/new", 1)]), planned],
    );
    let outcomes = late.await.expect("the storage works");
    let receipt = outcomes[1].as_ref().expect("it is accepted");
    assert_eq!(receipt.results, [OpResult::RolledBack { to: target, written: 2, deleted: 1 }]);
    hub.store.close().await;
}
