//! A test of the tests: each deliberate bug is found by the check that should find it, and without the bug the same check
//! finds nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::{Code, Commit, Op, Principal, RegisterAgent};
use quorate_sim::aftermath::{self, notebook, noted, opened};
use quorate_sim::check::Violation;
use quorate_sim::history::{Act, Call, Event, Lease, Once, agent, perform};
use quorate_sim::load::{self, Load};
use quorate_sim::power::{Cut, NOT_CARRIED_OVER};
use quorate_sqlite::{How, Options, Sabotage};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

type Verdict = Result<(), Vec<Violation>>;

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
fn answering_before_the_sync_is_found() {
    found(Sabotage::AnswerBeforeSync);
}

#[test]
fn a_sync_that_is_not_full_is_found() {
    found(Sabotage::SyncNormal);
}

#[test]
fn delivering_again_after_an_ack_is_found() {
    found(Sabotage::RedeliverAfterAck);
}

#[test]
fn accepting_a_stale_token_is_found() {
    found(Sabotage::AcceptStaleToken);
}

#[test]
fn losing_an_update_is_found() {
    found(Sabotage::LoseUpdate);
}

#[test]
fn no_bug_is_left_out() {
    // The match in `found` knows them all; this says that each has a test above.
    assert_eq!(Sabotage::ALL.len(), 5, "add a test for the new bug, and count it here");
}

/// Runs the check that should find a bug, without and with it.
fn found(sabotage: Sabotage) {
    let (check, promise): (fn(Option<Sabotage>) -> Verdict, &str) = match sabotage {
        Sabotage::AnswerBeforeSync | Sabotage::SyncNormal => (power_check, "I1 "),
        Sabotage::RedeliverAfterAck => (restart_check, "I4 "),
        Sabotage::AcceptStaleToken => (stale_token_check, "I4 "),
        Sabotage::LoseUpdate => (compare_and_set_check, "I11 "),
    };
    if let Err(violations) = check(None) {
        panic!("without a bug the check finds: {}", listed(&violations));
    }
    let Err(violations) = check(Some(sabotage)) else { panic!("{sabotage:?} is not found") };
    let names_it = violations.iter().any(|violation| violation.promise.starts_with(promise));
    assert!(names_it, "{sabotage:?} breaks {promise}, the check says: {}", listed(&violations));
}

fn listed(violations: &[Violation]) -> String {
    violations.iter().take(20).map(Violation::to_string).collect::<Vec<_>>().join("\n")
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// The power goes while work is under way, and all that was not synced is lost.
fn power_check(sabotage: Option<Sabotage>) -> Verdict {
    for op in [150, 200, 250, 300] {
        let place = tempfile::tempdir().unwrap();
        let cut = Cut {
            op,
            how: How::LoseAll,
            seed: op,
            starts: 1,
            load: LOAD,
            sabotage,
            carry_over_bytes: NOT_CARRIED_OVER,
        };
        let cutting = runtime().block_on(cut.run(place.path()));
        assert!(cutting.happened, "the load was over before operation {op}");
        cutting.verdict?;
    }
    Ok(())
}

/// A hub works, is closed in good order, and is started again.
fn restart_check(sabotage: Option<Sabotage>) -> Verdict {
    let place = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let options = Options { sabotage, ..Options::default() };
        let space = aftermath::open(place.path(), options).await.unwrap();
        let (note, events) = notebook();
        note(opened(&space));
        load::run(&space, LOAD, &note).await;
        space.engine().close().await;
        drop(space);
        let tally = aftermath::check(place.path(), noted(&events)).await?;
        assert!(tally.acknowledged > 50, "too little was acknowledged: {tally:?}");
        Ok(())
    })
}

/// Two agents; ann has sent bob a message.
async fn two_agents(directory: &Path, sabotage: Option<Sabotage>) -> quorate_engine::Space {
    let space = aftermath::open(directory, Options { sabotage, ..Options::default() }).await.unwrap();
    for name in ["ann", "bob"] {
        let op = Op::RegisterAgent(RegisterAgent::named(agent(name)));
        space.commit(Commit::new(Principal::System, vec![op])).await.unwrap();
    }
    let act = Act::Send { to: vec!["bob".into()], level: 1, tries: 4, size: 10, once: Once::ClientId };
    let sent = perform(&space, &Call { id: "one".into(), by: "ann".into(), act }).await;
    assert!(matches!(sent, Event::Done { .. }), "{sent:?}");
    space
}

/// Bob takes a message, gives it back and takes it again: the first token is worth nothing any more.
fn stale_token_check(sabotage: Option<Sabotage>) -> Verdict {
    let place = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let space = two_agents(place.path(), sabotage).await;
        let bob = Principal::Agent(agent("bob"));
        let mut leases = Vec::new();
        for call in ["first", "second"] {
            let claimed = space.claim(&bob, None, &agent("bob"), 1, LEASE_MS, Duration::ZERO).await.unwrap();
            let lease = claimed[0].lease.unwrap();
            leases.push(Lease { delivery: lease.delivery.number.0, token: lease.token.0 });
            if call == "first" {
                let act = Act::Nack { lease: leases[0], retry_ms: Some(0) };
                let given_back = perform(&space, &Call { id: call.into(), by: "bob".into(), act }).await;
                assert!(matches!(given_back, Event::Done { .. }), "{given_back:?}");
            }
        }
        let mut violations = Vec::new();
        let act = Act::Ack { lease: leases[0], stale: true };
        let end = perform(&space, &Call { id: "stale".into(), by: "bob".into(), act }).await;
        if !matches!(&end, Event::Refused { code, .. } if *code == Code::StaleLease.to_string()) {
            let what = format!("an ack with a stale token ended with {end:?}");
            violations.push(Violation { promise: "I4 a stale token is refused", what });
        }
        let counts = space.published().counts;
        if (counts.leased, counts.acked) != (1, 0) {
            let what = format!("after a stale ack the deliveries are {counts:?}");
            violations.push(Violation { promise: "I4 a stale token changes nothing", what });
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    })
}

/// Many write one entry at the same time, all on the same version: one of them wins, the others are told.
fn compare_and_set_check(sabotage: Option<Sabotage>) -> Verdict {
    const WRITERS: usize = 8;
    let place = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let space = two_agents(place.path(), sabotage).await;
        let (note, events) = notebook();
        note(opened(&space));
        let mut writers = JoinSet::new();
        for index in 0..WRITERS {
            let (space, note) = (space.clone(), Arc::clone(&note));
            writers.spawn(async move {
                let act = Act::Put { key: "k0".into(), expect: 0, size: 10 };
                let call = Call { id: format!("write-{index}"), by: "ann".into(), act };
                note(Event::Started(call.clone()));
                note(perform(&space, &call).await);
            });
        }
        while writers.join_next().await.is_some() {}
        let won =
            |history: &[Event]| history.iter().filter(|event| matches!(event, Event::Done { .. })).count();
        let history = noted(&events);
        let mut violations = Vec::new();
        if won(&history) != 1 {
            let what = format!("{} of {WRITERS} writers won on the same version", won(&history));
            violations.push(Violation { promise: "I11 no lost update", what });
        }
        space.engine().close().await;
        drop(space);
        // The message from ann to bob is not in this history; everything else is checked as after a crash.
        let rest = aftermath::check(place.path(), history).await.err().unwrap_or_default();
        violations.extend(rest.into_iter().filter(|violation| violation.promise.starts_with("I11")));
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    })
}
