//! Procedures through the library, with a real data directory and a manual clock.

use std::time::Duration;

use quorate::{
    Code, Hub, HubOptions, ManualClock, PageQuery, ProcedureDraft, ProcedureStatus, ProcedureStep, Version,
};
use tempfile::TempDir;

const START_MS: u64 = 1_800_000_000_000;

async fn open(directory: &TempDir) -> Hub {
    let clock = ManualClock::at(START_MS);
    let options = HubOptions { clock, ..HubOptions::default() };
    Hub::open_with(directory.path().join("team"), options).await.expect("the hub opens")
}

/// One step of a driver: acknowledges a message, steps the procedure and sends the next message in one commit.
#[tokio::test]
async fn a_driver_acks_steps_and_sends_in_one_commit() {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = open(&directory).await;
    let driver = hub.agent("driver").join().await.expect("joins");
    let analyst = hub.agent("analyst").join().await.expect("joins");
    let draft = ProcedureDraft::new("deliberation", "is it risky?").driver("driver");
    let id = hub.start_procedure(draft).await.expect("starts").to_string();
    let why = hub.why(&id).await.expect("it is there");
    let summary = "deliberation, started at 08:00:00; waiting for the first step by driver";
    assert_eq!((&*why.state, why.summary.as_str()), ("running", summary));

    let started = driver.receive(Duration::ZERO).await.expect("works").expect("the driver is notified");
    assert_eq!(started.action(), "procedure.started");
    driver.step(&started).commit().await.expect("commits");
    analyst.send("driver", "finding", 42).await.expect("sends");
    let received = driver.receive(Duration::ZERO).await.expect("works").expect("it is there");
    let info = driver.procedure(&id).await.expect("it is there");
    assert_eq!(
        (info.spec::<String>().expect("text"), info.state::<u64>().expect("a number")),
        ("is it risky?".into(), None)
    );
    let step = ProcedureStep::new(&id, info.version(), "discussion")
        .state(received.payload::<u64>().expect("a number"));
    let seq =
        driver.step(&received).step_procedure(step).send("analyst", "discuss", "why 42?").commit().await;
    let seq = seq.expect("commits").expect("a record");
    assert!(analyst.receive(Duration::ZERO).await.expect("works").is_some());

    // A step from a stale version changes nothing, and its message is not sent.
    let stale = ProcedureStep::new(&id, Version(1), "vote").state(7);
    let refused = driver.commit().step_procedure(stale).send("analyst", "vote", ()).commit().await;
    assert_eq!(refused.expect_err("it is refused").code(), Code::VersionConflict);
    assert!(analyst.receive(Duration::ZERO).await.expect("works").is_none());

    let last = ProcedureStep::new(&id, Version(2), "synthesis").done("sign");
    driver.commit().step_procedure(last).commit().await.expect("commits");
    let earlier = hub.procedure_at(&id, seq).await.expect("it was there");
    assert_eq!(
        (earlier.state::<u64>().expect("a number"), earlier.procedure().phase.as_str()),
        (Some(42), "discussion")
    );
    let before = hub.procedure_at(&id, quorate::Seq(1)).await.expect_err("not yet");
    assert_eq!(before.code(), Code::NotFound);
    let ended = hub.procedure(&id).await.expect("it is there");
    assert_eq!(ended.result::<String>().expect("text").as_deref(), Some("sign"));
    assert_eq!(hub.why(&id).await.expect("it is there").state, "done");
    hub.close().await;
}

#[tokio::test]
async fn a_driver_resumes_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = open(&directory).await;
    let driver = hub.agent("driver").join().await.expect("joins");
    for name in ["a", "b", "c"] {
        let draft = ProcedureDraft::new("deliberation", name).id(name);
        driver.start_procedure(draft).await.expect("starts");
    }
    let step = ProcedureStep::new("b", Version(1), "findings").failed("no quorum");
    driver.commit().step_procedure(step).commit().await.expect("commits");
    hub.close().await;
    let hub = open(&directory).await;
    let running = hub.procedures(Some(ProcedureStatus::Running), PageQuery::oldest(10)).await.expect("reads");
    let names: Vec<_> = running.items.iter().map(|procedure| procedure.id.to_string()).collect();
    assert_eq!((names, running.cursor), (vec!["a".to_owned(), "c".into()], None));
    let page = hub.procedures(None, PageQuery::newest(2)).await.expect("reads");
    let rest = hub.procedures(None, PageQuery::newest(2).after(page.cursor)).await.expect("reads");
    let names: Vec<_> = page.items.iter().chain(&rest.items).map(|procedure| procedure.id.as_str()).collect();
    assert_eq!(names, ["c", "b", "a"]);
    hub.close().await;
}

#[tokio::test]
async fn i18_a_secret_in_a_state_or_a_result_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = open(&directory).await;
    let driver = hub.agent("driver").join().await.expect("joins");
    driver.start_procedure(ProcedureDraft::new("deliberation", ()).id("p")).await.expect("starts");
    let secret = ["ghp", "_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    for step in [
        ProcedureStep::new("p", Version(1), "findings").state(&secret),
        ProcedureStep::new("p", Version(1), "findings").done(&secret),
    ] {
        let refused = driver.commit().step_procedure(step).commit().await.expect_err("it is refused");
        assert_eq!(refused.code(), Code::SecretDetected);
    }
    assert_eq!(hub.procedure("p").await.expect("it is there").version(), Version(1));
    hub.close().await;
}
