//! Sessions and their timelines.

use quorate::{
    Code, ContributionKind, PageQuery, Seq, SessionStatus, TimelineAddition, TimelineChange, TimelineEntry,
    TimelineEvent,
};

use super::TestHub;

fn summaries(lines: &[TimelineEntry]) -> Vec<String> {
    let word = |line: &TimelineEntry| match &line.event {
        TimelineEvent::Message(one) => format!("{} sends {}", line.record.by, one.message.action),
        TimelineEvent::Changed(TimelineChange { verb, agent, status, reason, .. }) => {
            let agent = agent.as_ref().map_or(String::new(), |agent| format!(" {agent}"));
            format!("{}{agent} {} {reason:?}", verb, status.as_str())
        }
        TimelineEvent::Added(TimelineAddition { kind, n, body, rationale, .. }) => {
            let body = body.as_str();
            format!("{} {n} {body} {rationale:?}", kind.as_str())
        }
    };
    lines.iter().map(word).collect()
}

// Fails under: a timeline that is incomplete, out of order, or different for embedded and remote hubs.
pub(crate) async fn a_session_records_its_timeline(stage: &TestHub) {
    let (hub, inside) = (&stage.hub, &stage.embedded);
    let alice = hub.agent("alice").join().await.expect("she joins");
    let bob = hub.agent("bob").join().await.expect("he joins");
    let led = alice.session("s1");
    assert_eq!(led.info().await.expect_err("not open yet").code(), Code::NotFound);
    led.open("Soup", ["cook"], &[]).await.expect("open");
    led.join("bob").await.expect("he takes part");
    alice.send("bob", "stir", 1).session("s1").await.expect("sent");
    bob.session("s1").add_artifact([1], "made").await.expect("added");
    bob.session("s1").add_blocker("no salt", "").await.expect("added");
    led.add_note("so be it").await.expect("added");
    led.add(ContributionKind::Decision, "no salt then", "there is none").await.expect("added");
    led.leave("bob").await.expect("he leaves");
    led.complete("eaten").await.expect("over");
    let seen = hub.session("s1");
    let info = seen.info().await.expect("there");
    assert_eq!(
        (info.status, info.reason.as_str(), info.title.as_str()),
        (SessionStatus::Completed, "eaten", "Soup")
    );
    assert!(
        info.has_participant("alice") || info.coordinator.as_ref().is_some_and(|one| one.as_str() == "alice")
    );
    assert!(!info.has_participant("bob"));
    let counts =
        [ContributionKind::Artifact, ContributionKind::Finding].map(|kind| info.contribution_count(kind));
    assert_eq!(counts, [1, 0]);
    assert_eq!(info, inside.session("s1").info().await.expect("there"));
    assert_eq!(seen.task::<Vec<String>>().await.expect("read"), ["cook"]);

    let lines = seen.timeline(Seq(0), 100).await.expect("read");
    let expected = [
        "session.opened active \"\"",
        "session.joined bob active \"\"",
        "agent:alice sends stir",
        "artifact 1 [1] \"made\"",
        "blocker 1 \"no salt\" \"\"",
        "note 1 \"so be it\" \"\"",
        "decision 1 \"no salt then\" \"there is none\"",
        "session.left bob active \"\"",
        "session.completed completed \"eaten\"",
    ];
    assert_eq!(summaries(&lines), expected);
    assert_eq!(summaries(&inside.session("s1").timeline(Seq(0), 100).await.expect("read")), expected);
    let rest = seen.timeline(lines[6].record.seq, 100).await.expect("read");
    assert_eq!(summaries(&rest), expected[7..]);
    let newest = seen.newest_entries(2).await.expect("read");
    assert_eq!(summaries(&newest), [expected[8], expected[7]]);
    let blockers = seen.contributions(ContributionKind::Blocker, Seq(0), 10).await.expect("read");
    assert_eq!((blockers.len(), blockers[0].n, blockers[0].by.as_str()), (1, 1, "agent:bob"));
    assert_eq!(blockers[0].body::<String>().expect("a text"), "no salt");
    assert!(seen.contributions(ContributionKind::Finding, Seq(0), 10).await.expect("read").is_empty());
    assert_eq!(led.add_note("late").await.expect_err("it is over").code(), Code::SessionClosed);

    let other = hub.session("s2");
    other.open("Cake", (), &["alice"]).await.expect("open");
    other.fail("burnt").await.expect("over");
    assert_eq!(other.info().await.expect("there").status, SessionStatus::Failed);
    let all = hub.sessions(PageQuery::newest(10)).await.expect("read");
    assert_eq!(all, inside.sessions(PageQuery::newest(10)).await.expect("read"));
    assert_eq!(all.items.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["s2", "s1"]);
    let oldest = hub.sessions(PageQuery::oldest(1)).await.expect("read");
    assert_eq!(oldest, inside.sessions(PageQuery::oldest(1)).await.expect("read"));
    assert_eq!(oldest.items[0].id.as_str(), "s1");
    let next = PageQuery::oldest(10).after(oldest.cursor.clone());
    assert_eq!(hub.sessions(next).await.expect("read").items, all.items[..1]);
    let wrong = hub.sessions(PageQuery::newest(10).after(oldest.cursor)).await.expect_err("another order");
    assert_eq!(wrong.code(), Code::Invalid);
}
