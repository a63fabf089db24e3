//! Deliveries of a paused or stuck procedure: they are held for its driver, as those of a paused session are.

use quorate_core::{
    ChangeSession, ConsumerId, ControlProcedure, DeliveryNo, Message, NackAction, Op, OpenDeliveryState,
    OpenSession, Principal, ProcedureControl, ProcedureId, ProcedureStatus, SessionChange, SessionId,
    SignalProcedure, StartProcedure, StepProcedure, Timestamp, Version, WaitMode,
};

use super::builders::{agent, delayed, id, message_to, nack};
use super::test_bench::{START_MS, TestBench};
use crate::StoredDeliveryState;

fn p() -> ProcedureId {
    ProcedureId::new("p").expect("valid id")
}

fn control(control: ProcedureControl) -> Op {
    Op::ControlProcedure(ControlProcedure { procedure: p(), control, reason: String::new() })
}

fn signal() -> Op {
    Op::SignalProcedure(SignalProcedure { procedure: p(), name: "go".into(), payload: None })
}

fn stuck(expect: u64) -> Op {
    Op::StepProcedure(StepProcedure {
        status: ProcedureStatus::Stuck,
        reason: "no analyst".into(),
        ..StepProcedure::new(p(), Version(expect), "work")
    })
}

fn of_procedure(name: &str, message: Message) -> Message {
    Message { correlation_id: Some(name.into()), ..message }
}

/// Starts procedure p, which bob started and drives.
async fn start(bench: &TestBench) {
    bench.register_all(&["alice", "bob", "eve"]).await;
    let start = StartProcedure { id: Some(p()), kind: "own".into(), driver: None, spec: None, parent: None };
    bench.commit_ok(agent("bob"), vec![Op::StartProcedure(start)]).await;
}

async fn send(bench: &TestBench, to: &str) -> DeliveryNo {
    bench.send_as("alice", of_procedure("p", message_to(to))).await.first_delivery
}

async fn claim(bench: &TestBench, name: &str) -> Vec<DeliveryNo> {
    bench.claim(name, 20).await.iter().map(|leased| leased.delivery).collect()
}

pub async fn a_paused_procedure_holds_deliveries_and_a_resume_releases_them_in_order(mut bench: TestBench) {
    start(&bench).await;
    let mut held = vec![send(&bench, "bob").await];
    let leased = bench.claim_one("bob").await;
    held.push(send(&bench, "bob").await);
    bench.commit_ok(Principal::System, vec![control(ProcedureControl::Pause)]).await;
    held.push(send(&bench, "bob").await);
    bench.send_as("alice", of_procedure("p", delayed("bob", START_MS + 1_000))).await;
    bench.commit_ok(Principal::System, vec![signal()]).await;
    let other = bench.send_as("alice", of_procedure("q", message_to("bob"))).await.first_delivery;
    let to_eve = send(&bench, "eve").await;
    bench.advance_secs(2);
    assert_eq!(claim(&bench, "eve").await, [to_eve], "only its driver waits");
    let received = bench.claim("bob", 20).await;
    assert_eq!(received.len(), 2, "the notice of the pause, and another procedure: {received:?}");
    assert_eq!(received[1].delivery, other);
    let state = |since: u64, attempt: u16| {
        let state = OpenDeliveryState::Held { since: Timestamp(since) };
        Some(StoredDeliveryState::Open { state, attempt })
    };
    assert_eq!(bench.delivery_state(held[1]).await, state(START_MS, 0));
    // The lease continues. The driver cannot process the delivery, so its nack costs no attempt.
    let cannot = nack(&leased, NackAction::Retry { delay_ms: None });
    bench.commit_ok(agent("bob"), vec![cannot]).await;
    assert_eq!(bench.delivery_state(held[0]).await, state(START_MS + 2_000, 0));
    bench.reopen().await;
    assert_eq!(bench.delivery_state(held[2]).await, state(START_MS, 0));
    bench.commit_ok(Principal::System, vec![control(ProcedureControl::Resume)]).await;
    let released = bench.claim("bob", 20).await;
    let numbers: Vec<_> = released.iter().map(|leased| leased.delivery).collect();
    assert_eq!(numbers[..3], held);
    assert!(released.iter().all(|leased| leased.attempt == 1), "{released:?}");
    assert_eq!(numbers.len(), 6, "with the delayed message, the signal and the notice of the resumption");
}

pub async fn a_stuck_procedure_holds_deliveries_until_it_is_cancelled(bench: TestBench) {
    start(&bench).await;
    let consumer = ConsumerId(1);
    bench.claim_waiting("bob", 5, WaitMode::Standing(consumer)).await;
    bench.commit_ok(agent("bob"), vec![stuck(1)]).await;
    let (first, second) = (send(&bench, "bob").await, send(&bench, "bob").await);
    assert_eq!(bench.dispatched(), vec![]);
    bench.commit_ok(agent("bob"), vec![control(ProcedureControl::Cancel)]).await;
    let dispatched: Vec<_> =
        bench.dispatched().into_iter().map(|(to, leased)| (to, leased.delivery)).collect();
    assert_eq!(dispatched, [(consumer, first), (consumer, second)]);
    let late = send(&bench, "bob").await;
    let dispatched = bench.dispatched();
    assert_eq!(dispatched.len(), 1, "a procedure that has ended holds nothing");
    assert_eq!(dispatched[0].1.delivery, late);
}

pub async fn the_notice_of_a_start_is_held_while_the_procedure_is_paused(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let start = StartProcedure {
        id: Some(p()),
        kind: "own".into(),
        driver: Some(id("bob")),
        spec: None,
        parent: None,
    };
    bench.commit_ok(agent("alice"), vec![Op::StartProcedure(start)]).await;
    bench.commit_ok(agent("alice"), vec![control(ProcedureControl::Pause)]).await;
    assert_eq!(claim(&bench, "bob").await, [DeliveryNo(2)], "the notice of the pause");
    bench.commit_ok(agent("alice"), vec![control(ProcedureControl::Resume)]).await;
    assert_eq!(claim(&bench, "bob").await, [DeliveryNo(1), DeliveryNo(3)], "the start, and the resumption");
}

pub async fn a_delivery_of_a_procedure_is_not_held_by_its_session(bench: TestBench) {
    start(&bench).await;
    let session = SessionId::new("s").expect("valid id");
    let open = OpenSession {
        id: Some(session.clone()),
        coordinator: None,
        participants: Vec::new(),
        title: String::new(),
        task: None,
    };
    let change =
        |change| Op::ChangeSession(ChangeSession { session: session.clone(), change, reason: String::new() });
    bench.commit_ok(agent("alice"), vec![Op::OpenSession(open), change(SessionChange::Pause)]).await;
    let in_both = |to: &str| Message { session_id: Some("s".into()), ..of_procedure("p", message_to(to)) };
    let to_driver = bench.send_as("alice", in_both("bob")).await.first_delivery;
    let to_eve = bench.send_as("alice", in_both("eve")).await.first_delivery;
    assert_eq!(claim(&bench, "bob").await, [to_driver]);
    assert_eq!(claim(&bench, "eve").await, []);
    bench.commit_ok(agent("bob"), vec![control(ProcedureControl::Pause)]).await;
    bench.commit_ok(agent("alice"), vec![change(SessionChange::Resume)]).await;
    let held = bench.send_as("alice", in_both("bob")).await.first_delivery;
    assert_eq!(claim(&bench, "bob").await, []);
    assert_eq!(claim(&bench, "eve").await, [to_eve]);
    bench.commit_ok(agent("bob"), vec![control(ProcedureControl::Resume)]).await;
    assert_eq!(claim(&bench, "bob").await, [held]);
}
