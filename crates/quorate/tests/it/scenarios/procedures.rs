//! Procedures on embedded and remote hubs.

use quorate::{Code, PageQuery, ProcedureDraft, ProcedureStatus, ProcedureStep, Version};

use super::{TestHub, next};

// Fails under: a step that is applied partially, or from another version than expected.
pub(crate) async fn a_procedure_is_driven_in_commits(fixture: &TestHub) {
    let (hub, embedded) = (&fixture.hub, &fixture.embedded);
    let driver = hub.agent("driver").join().await.expect("it joins");
    let analyst = hub.agent("analyst").join().await.expect("she joins");
    let draft = ProcedureDraft::new("deliberation", "is it risky?").driver("driver");
    let id = hub.start_procedure(draft).await.expect("started").to_string();
    let started = next(&driver).await;
    assert_eq!((started.action(), started.sender()), ("procedure.started", ""), "the driver is notified");
    driver.step(&started).commit().await.expect("done");
    analyst.send("driver", "finding", 42).await.expect("sent");
    let received = next(&driver).await;
    assert_eq!(received.payload::<u64>().expect("a number"), 42);
    let info = driver.procedure(&id).await.expect("there");
    assert_eq!(info.spec::<String>().expect("a text"), "is it risky?");
    assert_eq!(info.state::<u64>().expect("a number"), None);
    let step = ProcedureStep::new(&id, info.version(), "discussion").state(42);
    let seq = driver.step(&received).step_procedure(step).send("analyst", "discuss", "why?").commit().await;
    let seq = seq.expect("done").expect("a record");
    assert_eq!(next(&analyst).await.payload::<String>().expect("a text"), "why?");
    let stale = ProcedureStep::new(&id, Version(1), "vote").state(7);
    let refused = driver.commit().step_procedure(stale).commit().await.expect_err("the version is stale");
    assert_eq!(refused.code(), Code::VersionConflict);
    let last = ProcedureStep::new(&id, Version(2), "synthesis").state(43).done("sign");
    driver.commit().step_procedure(last).commit().await.expect("done");
    let earlier = hub.procedure_at(&id, seq).await.expect("it was there");
    assert_eq!(
        (earlier.state::<u64>().expect("a number"), earlier.procedure().phase.as_str()),
        (Some(42), "discussion")
    );
    let ended = hub.procedure(&id).await.expect("there");
    assert_eq!(ended.procedure(), embedded.procedure(&id).await.expect("there").procedure());
    assert_eq!(ended.result::<String>().expect("a text").as_deref(), Some("sign"));
    assert_eq!(hub.why(&id).await.expect("there"), embedded.why(&id).await.expect("there"));
    let other = driver.start_procedure(ProcedureDraft::new("inspection", ()).id("other")).await;
    assert_eq!(other.expect("started").as_str(), "other");
    let running = hub.procedures(Some(ProcedureStatus::Running), PageQuery::newest(10)).await.expect("read");
    assert_eq!(running.items.iter().map(|procedure| procedure.id.as_str()).collect::<Vec<_>>(), ["other"]);
    let all = hub.procedures(None, PageQuery::newest(10)).await.expect("read");
    assert_eq!(all, embedded.procedures(None, PageQuery::newest(10)).await.expect("read"));
    let error = hub.procedure("nothing").await.expect_err("unknown");
    assert_eq!(error.code(), Code::NotFound);
}
