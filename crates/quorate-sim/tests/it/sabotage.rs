//! Tests of the checks: each deliberate bug is detected by the check that covers it, and without the bug the same check
//! passes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::{Code, Commit, Op, Principal, RegisterAgent};
use quorate_sim::check::InvariantViolation;
use quorate_sim::history::{Call, CallOp, DedupBy, Event, Lease, agent_id, send_call};
use quorate_sim::load::{self, Load};
use quorate_sim::power::{NO_CHECKPOINT, PowerCut};
use quorate_sim::recovery::{self, opened_event, recorder, take_events};
use quorate_sqlite::{Options, Sabotage, UnsyncedData};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

type Verdict = Result<(), Vec<InvariantViolation>>;
/// Runs a workload with a bug, or without one.
type Check = fn(Option<Sabotage>) -> Verdict;

const LEASE_MS: u64 = 60_000;
const LOAD: Load = Load {
    seed: 11,
    run: 0,
    agents: 2,
    senders: 2,
    workers: 2,
    writers: 1,
    lockers: 1,
    calls: 60,
    size_max: 5000,
    large_percent: 10,
};

#[test]
fn acknowledging_before_the_sync_is_detected() {
    assert_detected(Sabotage::AcknowledgeBeforeSync);
}

#[test]
fn an_incomplete_sync_is_detected() {
    assert_detected(Sabotage::SyncNormal);
}

#[test]
fn redelivery_after_an_ack_is_detected() {
    assert_detected(Sabotage::RedeliverAfterAck);
}

#[test]
fn accepting_a_stale_token_is_detected() {
    assert_detected(Sabotage::AcceptStaleToken);
}

#[test]
fn a_lost_update_is_detected() {
    assert_detected(Sabotage::LoseUpdate);
}

#[test]
fn i22_a_witness_written_before_the_sync_is_detected() {
    assert_detected(Sabotage::WitnessBeforeSync);
}

#[test]
fn every_bug_has_a_test() {
    // The match in `assert_detected` is exhaustive; this makes sure that each bug also has a test above.
    assert_eq!(Sabotage::ALL.len(), 6, "add a test for the new bug, and update this count");
}

/// Runs the check for a bug, first without and then with it.
fn assert_detected(sabotage: Sabotage) {
    let (check, invariants): (Check, &[&str]) = match sabotage {
        Sabotage::AcknowledgeBeforeSync => (power_check, &["I1 "]),
        // If the witness was written before the power loss, it states lost data, and the directory does not open.
        // Otherwise the history of the clients shows the loss.
        Sabotage::SyncNormal => (power_check, &["opens ", "I1 ", "I3"]),
        Sabotage::WitnessBeforeSync => (power_check, &["opens "]),
        Sabotage::RedeliverAfterAck => (restart_check, &["I4 "]),
        Sabotage::AcceptStaleToken => (stale_token_check, &["I4 "]),
        Sabotage::LoseUpdate => (compare_and_set_check, &["I11 "]),
    };
    if let Err(violations) = check(None) {
        panic!("violations without a bug: {}", render(&violations));
    }
    let Err(violations) = check(Some(sabotage)) else { panic!("{sabotage:?} is not detected") };
    let is_expected = |violation: &InvariantViolation| {
        invariants.iter().any(|invariant| violation.invariant.starts_with(invariant))
    };
    assert!(
        violations.iter().any(is_expected),
        "{sabotage:?} must violate one of {invariants:?}, but the check reports: {}",
        render(&violations)
    );
}

fn render(violations: &[InvariantViolation]) -> String {
    violations.iter().take(20).map(InvariantViolation::to_string).collect::<Vec<_>>().join("\n")
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Cuts the power during the load; all unsynced data is lost.
fn power_check(sabotage: Option<Sabotage>) -> Verdict {
    for op in [150, 200, 250, 300] {
        let directory = tempfile::tempdir().unwrap();
        let cut = PowerCut {
            at_op: op,
            unsynced: UnsyncedData::LoseAll,
            seed: op,
            starts: 1,
            load: LOAD,
            sabotage,
            checkpoint_bytes: NO_CHECKPOINT,
        };
        let outcome = runtime().block_on(cut.run(directory.path()));
        assert!(outcome.interrupted, "the load ended before operation {op}");
        outcome.result?;
    }
    Ok(())
}

/// Runs a load, closes the hub cleanly, and restarts it.
fn restart_check(sabotage: Option<Sabotage>) -> Verdict {
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let options = Options { sabotage, ..Options::default() };
        let space = recovery::open(directory.path(), options).await.unwrap();
        let (record, events) = recorder();
        record(opened_event(&space));
        load::run(&space, LOAD, &record).await;
        space.engine().close().await;
        drop(space);
        let stats = recovery::check(directory.path(), take_events(&events)).await?;
        assert!(stats.acknowledged > 50, "too little was acknowledged: {stats:?}");
        Ok(())
    })
}

/// Opens a hub with two agents, in which ann has sent a message to bob.
async fn two_agents(directory: &Path, sabotage: Option<Sabotage>) -> quorate_engine::Space {
    let space = recovery::open(directory, Options { sabotage, ..Options::default() }).await.unwrap();
    for name in ["ann", "bob"] {
        let op = Op::RegisterAgent(RegisterAgent::named(agent_id(name)));
        space.commit(Commit::new(Principal::System, vec![op])).await.unwrap();
    }
    let op = CallOp::Send {
        to: vec!["bob".into()],
        level: 1,
        attempts_max: 4,
        size: 10,
        dedup: DedupBy::ClientId,
    };
    let sent = send_call(&space, &Call { id: "one".into(), by: "ann".into(), op }).await;
    assert!(matches!(sent, Event::Done { .. }), "{sent:?}");
    space
}

/// Bob claims a message, nacks it and claims it again: the first token is stale.
fn stale_token_check(sabotage: Option<Sabotage>) -> Verdict {
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let space = two_agents(directory.path(), sabotage).await;
        let bob = Principal::Agent(agent_id("bob"));
        let mut leases = Vec::new();
        for call in ["first", "second"] {
            let claimed =
                space.claim(&bob, None, &agent_id("bob"), 1, LEASE_MS, Duration::ZERO).await.unwrap();
            let lease = claimed[0].lease.unwrap();
            leases.push(Lease { delivery: lease.delivery.number.0, token: lease.token.0 });
            if call == "first" {
                let op = CallOp::Nack { lease: leases[0], retry_ms: Some(0) };
                let nacked = send_call(&space, &Call { id: call.into(), by: "bob".into(), op }).await;
                assert!(matches!(nacked, Event::Done { .. }), "{nacked:?}");
            }
        }
        let mut violations = Vec::new();
        let op = CallOp::Ack { lease: leases[0], stale: true };
        let outcome = send_call(&space, &Call { id: "stale".into(), by: "bob".into(), op }).await;
        if !matches!(&outcome, Event::Refused { code, .. } if *code == Code::StaleLease.to_string()) {
            let detail = format!("an ack with a stale token ended with {outcome:?}");
            violations.push(InvariantViolation { invariant: "I4 a stale token is refused", detail });
        }
        let counts = space.published().counts;
        if (counts.leased, counts.acked) != (1, 0) {
            let detail = format!("after a stale ack the deliveries are {counts:?}");
            violations.push(InvariantViolation { invariant: "I4 a stale token changes nothing", detail });
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    })
}

/// Several writers write one entry concurrently with the same expected version: one succeeds, the others are refused.
fn compare_and_set_check(sabotage: Option<Sabotage>) -> Verdict {
    const WRITERS: usize = 8;
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let space = two_agents(directory.path(), sabotage).await;
        let (record, events) = recorder();
        record(opened_event(&space));
        let mut writers = JoinSet::new();
        for index in 0..WRITERS {
            let (space, record) = (space.clone(), Arc::clone(&record));
            writers.spawn(async move {
                let op = CallOp::Put { key: "k0".into(), expect: 0, size: 10 };
                let call = Call { id: format!("write-{index}"), by: "ann".into(), op };
                record(Event::Started(call.clone()));
                record(send_call(&space, &call).await);
            });
        }
        while writers.join_next().await.is_some() {}
        let succeeded =
            |history: &[Event]| history.iter().filter(|event| matches!(event, Event::Done { .. })).count();
        let history = take_events(&events);
        let mut violations = Vec::new();
        if succeeded(&history) != 1 {
            let detail =
                format!("{} of {WRITERS} writers succeeded with the same version", succeeded(&history));
            violations.push(InvariantViolation { invariant: "I11 no lost update", detail });
        }
        space.engine().close().await;
        drop(space);
        // The message from ann to bob is not in this history, so only the I11 checks apply.
        let rest = recovery::check(directory.path(), history).await.err().unwrap_or_default();
        violations.extend(rest.into_iter().filter(|violation| violation.invariant.starts_with("I11")));
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    })
}
