//! Procedures: versioned state that its driver advances with compare-and-set.

use quorate_core::{
    Code, Commit, Item, ItemKey, ItemKind, Op, OpResult, PartRef, Principal, Procedure, ProcedureId,
    ProcedureStatus, StartProcedure, StepProcedure, Timestamp, TokenRole, Version, limits,
};

use super::builders::{ack, agent, erase, id, idempotency_key, message_to, payload, send};
use super::test_bench::{START_MS, TestBench};
use crate::{ReadQuery, ReadResult};

fn procedure_id(name: &str) -> ProcedureId {
    ProcedureId::new(name).expect("valid id")
}

fn start_procedure(name: Option<&str>) -> StartProcedure {
    StartProcedure {
        id: name.map(procedure_id),
        kind: "deliberation".into(),
        driver: None,
        spec: Some(payload("{\"subject\":1}")),
        parent: None,
    }
}

pub(super) fn start(name: Option<&str>) -> Op {
    Op::StartProcedure(start_procedure(name))
}

fn step_procedure(name: &str, expect: u64, phase: &str, state: &str) -> StepProcedure {
    StepProcedure {
        procedure: procedure_id(name),
        expect: Version(expect),
        phase: phase.into(),
        status: ProcedureStatus::Running,
        state: Some(payload(state)),
        result: None,
        reason: String::new(),
    }
}

fn step(name: &str, expect: u64) -> Op {
    Op::StepProcedure(step_procedure(name, expect, "findings", "{}"))
}

fn operator() -> Principal {
    Principal::Holder { role: TokenRole::Operator, name: "anna".parse().expect("valid name") }
}

async fn read_procedure(bench: &TestBench, name: &str) -> Procedure {
    match bench.read(ReadQuery::Item(ItemKey::new(ItemKind::Procedure, name))).await {
        ReadResult::Item(Some(Item::Procedure(procedure))) => procedure,
        other => panic!("not a procedure: {other:?}"),
    }
}

async fn bytes(bench: &TestBench, part: Option<PartRef>) -> String {
    let PartRef { seq, part } = part.expect("a payload part");
    match bench.read(ReadQuery::Part { seq, part, start: 0, length: u64::MAX }).await {
        ReadResult::Part(Some(part)) => String::from_utf8(part.bytes.to_vec()).expect("text"),
        other => panic!("not a part: {other:?}"),
    }
}

pub async fn each_step_increments_the_procedure_version(bench: TestBench) {
    bench.register_all(&["alice"]).await;
    let receipt = bench.commit_ok(agent("alice"), vec![start(None), start(None)]).await;
    let second = format!("prc_0-{}-1", receipt.seq.expect("a record"));
    assert_eq!(receipt.results[1], OpResult::ProcedureStarted { id: procedure_id(&second) });
    let started = read_procedure(&bench, &second).await;
    assert_eq!((started.version, started.phase.as_str(), started.state), (Version(1), "", None));
    assert_eq!((started.driver.clone(), started.started_by.as_str()), (Some(id("alice")), "agent:alice"));
    assert_eq!(bytes(&bench, started.spec).await, "{\"subject\":1}");
    bench.advance_secs(5);
    let stepped = bench.commit_ok(agent("alice"), vec![step(&second, 1)]).await;
    assert_eq!(stepped.results, [OpResult::ProcedureStepped { version: Version(2) }]);
    bench.advance_secs(5);
    let second_step = step_procedure(&second, 2, "findings", "{\"n\":1}");
    bench.commit_ok(agent("alice"), vec![Op::StepProcedure(second_step)]).await;
    let current = read_procedure(&bench, &second).await;
    assert_eq!((current.version, current.previous_seq), (Version(3), stepped.seq));
    assert_eq!(
        (current.since, current.stepped_at),
        (Timestamp(START_MS + 5_000), Timestamp(START_MS + 10_000))
    );
    assert_eq!(bytes(&bench, current.state).await, "{\"n\":1}");
    let last = StepProcedure {
        status: ProcedureStatus::Done,
        state: None,
        result: Some(payload("\"sign\"")),
        ..step_procedure(&second, 3, "synthesis", "")
    };
    bench.commit_ok(agent("alice"), vec![Op::StepProcedure(last)]).await;
    let finished = read_procedure(&bench, &second).await;
    assert_eq!(
        (finished.status, finished.version, finished.state),
        (ProcedureStatus::Done, Version(4), current.state)
    );
    assert_eq!(bytes(&bench, finished.result).await, "\"sign\"");
}

pub async fn a_step_with_a_stale_version_refuses_the_whole_commit(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_ok(agent("alice"), vec![start(Some("p"))]).await;
    bench.commit_ok(agent("alice"), vec![step("p", 1)]).await;
    let ops = vec![send("alice", message_to("bob")), step("p", 1)];
    let refused = bench.commit_refused(agent("alice"), ops).await;
    assert_eq!((refused.code, refused.facts.current_version), (Code::VersionConflict, Some(2)));
    assert_eq!(refused.facts.stale[0].item, "p");
    assert_eq!(bench.claim("bob", 1).await, vec![], "nothing was sent");
    // Within one commit each step sees the previous one.
    bench.commit_ok(agent("alice"), vec![step("p", 2), step("p", 3)]).await;
    assert_eq!(read_procedure(&bench, "p").await.version, Version(4));
}

pub async fn a_step_its_ack_and_its_sends_are_one_commit(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_ok(agent("alice"), vec![start(Some("p"))]).await;
    bench.send("bob", "alice").await;
    let leased = bench.claim_one("alice").await;
    let receipt = bench
        .commit_ok(agent("alice"), vec![ack(&leased), step("p", 1), send("alice", message_to("bob"))])
        .await;
    assert_eq!(read_procedure(&bench, "p").await.seq, receipt.seq.expect("a record"));
    assert_eq!(bench.claim("bob", 1).await.len(), 1);
}

pub async fn only_the_driver_and_operators_may_step_a_procedure(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let for_bob = StartProcedure { driver: Some(id("bob")), ..start_procedure(Some("p")) };
    bench.commit_ok(agent("alice"), vec![Op::StartProcedure(for_bob)]).await;
    bench.commit_refused_with(Code::Forbidden, agent("alice"), vec![step("p", 1)]).await;
    bench.commit_ok(agent("bob"), vec![step("p", 1)]).await;
    bench.commit_ok(operator(), vec![step("p", 2)]).await;
    bench.commit_ok(Principal::System, vec![step("p", 3)]).await;
    let viewer = Principal::Holder { role: TokenRole::Viewer, name: "eve".parse().expect("valid name") };
    bench.commit_refused_with(Code::Forbidden, viewer.clone(), vec![step("p", 4)]).await;
    bench.commit_refused_with(Code::Forbidden, viewer, vec![start(None)]).await;
    // A procedure without a driver can be stepped by operators only.
    bench.commit_ok(operator(), vec![start(Some("q"))]).await;
    assert_eq!(read_procedure(&bench, "q").await.driver, None);
    bench.commit_refused_with(Code::Forbidden, agent("alice"), vec![step("q", 1)]).await;
    let unknown = StartProcedure { driver: Some(id("nobody")), ..start_procedure(None) };
    bench.commit_refused_with(Code::NotFound, operator(), vec![Op::StartProcedure(unknown)]).await;
    bench.commit_refused_with(Code::NotFound, operator(), vec![step("never", 1)]).await;
}

pub async fn a_finished_procedure_is_immutable(bench: TestBench) {
    bench.register_all(&["alice"]).await;
    bench.commit_ok(agent("alice"), vec![start(Some("p"))]).await;
    let failed = StepProcedure { status: ProcedureStatus::Failed, ..step_procedure("p", 1, "quorum", "{}") };
    bench.commit_ok(agent("alice"), vec![Op::StepProcedure(failed)]).await;
    let finished = read_procedure(&bench, "p").await;
    bench.commit_refused_with(Code::Conflict, agent("alice"), vec![step("p", 2)]).await;
    bench.commit_refused_with(Code::VersionConflict, agent("alice"), vec![step("p", 1)]).await;
    bench.commit_refused_with(Code::Conflict, Principal::System, vec![step("p", 2)]).await;
    assert_eq!(read_procedure(&bench, "p").await, finished);
}

pub async fn a_repeated_start_of_a_procedure_is_idempotent(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let first = bench.commit_ok(agent("alice"), vec![start(Some("p"))]).await;
    bench.commit_ok(agent("alice"), vec![step("p", 1)]).await;
    let repeated = bench.commit_ok(agent("alice"), vec![start(Some("p"))]).await;
    assert_eq!((repeated.results, repeated.seq), (first.results.clone(), None));
    bench.commit_refused_with(Code::Duplicate, agent("bob"), vec![start(Some("p"))]).await;
    let others = [
        StartProcedure { kind: "tournament".into(), ..start_procedure(Some("p")) },
        StartProcedure { spec: Some(payload("{\"subject\":2}")), ..start_procedure(Some("p")) },
        StartProcedure { spec: None, ..start_procedure(Some("p")) },
        StartProcedure { driver: Some(id("bob")), ..start_procedure(Some("p")) },
    ];
    for other in others {
        bench.commit_refused_with(Code::Duplicate, agent("alice"), vec![Op::StartProcedure(other)]).await;
    }
    // Erased content cannot be compared, so a repeated start no longer matches.
    bench.commit_ok(Principal::System, vec![erase(first.seq.expect("a record"), 0)]).await;
    bench.commit_refused_with(Code::Duplicate, agent("alice"), vec![start(Some("p"))]).await;
}

pub async fn i3_a_replayed_step_is_applied_once_and_returns_the_same_receipt(bench: TestBench) {
    bench.register_all(&["alice"]).await;
    bench.commit_ok(agent("alice"), vec![start(Some("p"))]).await;
    let keyed = || Commit::new(agent("alice"), vec![step("p", 1)]).keyed(idempotency_key("k"));
    let first = bench.commit(keyed()).await.expect("the commit is accepted");
    let replayed = bench.commit(keyed()).await.expect("the commit is accepted");
    assert_eq!(first, replayed);
    assert_eq!(read_procedure(&bench, "p").await.version, Version(2));
}

pub async fn a_running_procedure_survives_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice"]).await;
    bench.commit_ok(agent("alice"), vec![start(Some("p")), start(Some("q"))]).await;
    bench.commit_ok(agent("alice"), vec![step("p", 1)]).await;
    let before = read_procedure(&bench, "p").await;
    bench.reopen().await;
    assert_eq!(read_procedure(&bench, "p").await, before);
    bench.commit_ok(agent("alice"), vec![step("p", 2), step("q", 1)]).await;
}

pub async fn the_driver_is_notified_in_the_commit_that_starts_the_procedure(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let for_bob = StartProcedure { driver: Some(id("bob")), ..start_procedure(Some("p")) };
    bench.commit_ok(agent("alice"), vec![Op::StartProcedure(for_bob.clone())]).await;
    // No second notification for a repeated start, and none for a driver that starts its own procedure.
    bench.commit_ok(agent("alice"), vec![Op::StartProcedure(for_bob)]).await;
    bench.commit_ok(agent("bob"), vec![start(Some("q"))]).await;
    let leased = bench.claim("bob", 10).await;
    assert_eq!(leased.len(), 1);
    let read = ReadQuery::Message { seq: leased[0].seq, n: leased[0].n };
    let ReadResult::Message(Some(stored)) = bench.read(read).await else { panic!("not a message") };
    let message = &stored.message;
    assert_eq!((message.from.clone(), message.action.as_str()), (None, "procedure.started"));
    assert_eq!(&message.payload.bytes[..], br#"{"procedure":"p","kind":"deliberation"}"#);
}

pub async fn invalid_procedures_are_refused(bench: TestBench) {
    bench.register_all(&["alice"]).await;
    let large = "1".repeat(limits::PAYLOAD_BYTES_MAX + 1);
    let starts = [
        (Code::Invalid, StartProcedure { kind: String::new(), ..start_procedure(None) }),
        (Code::Invalid, start_procedure(Some("prc_0-1-0"))),
        (Code::TooLarge, StartProcedure { spec: Some(payload(&large)), ..start_procedure(None) }),
    ];
    for (code, start) in starts {
        let commit = Commit::new(agent("alice"), vec![Op::StartProcedure(start)]);
        assert_eq!(commit.check().expect_err("the commit is refused").code, code);
    }
    let steps = [
        (Code::Invalid, step_procedure("p", 1, "", "{}")),
        (Code::Invalid, StepProcedure { result: Some(payload("1")), ..step_procedure("p", 1, "vote", "{}") }),
        (Code::TooLarge, step_procedure("p", 1, "vote", &large)),
    ];
    for (code, step) in steps {
        let commit = Commit::new(agent("alice"), vec![Op::StepProcedure(step)]);
        assert_eq!(commit.check().expect_err("the commit is refused").code, code);
    }
}
