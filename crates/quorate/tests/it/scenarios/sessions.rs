//! Sessions and their timelines.

use quorate::{
    Code, ContributionKind, PageQuery, Seq, SessionStatus, TimelineChange, TimelineContribution,
    TimelineEntry, TimelineEvent,
};

use super::TestHub;

fn summaries(entries: &[TimelineEntry]) -> Vec<String> {
    let summary = |entry: &TimelineEntry| match &entry.event {
        TimelineEvent::Message(sent) => format!("{} sends {}", entry.record.by, sent.message.action),
        TimelineEvent::Changed(TimelineChange { verb, agent, status, reason, .. }) => {
            let agent = agent.as_ref().map_or(String::new(), |agent| format!(" {agent}"));
            format!("{}{agent} {} {reason:?}", verb, status.as_str())
        }
        TimelineEvent::Added(TimelineContribution { kind, n, body, rationale, .. }) => {
            let body = body.as_str();
            format!("{} {n} {body} {rationale:?}", kind.as_str())
        }
    };
    entries.iter().map(summary).collect()
}

// Fails under: a timeline that is incomplete, out of order, or different for embedded and remote hubs.
pub(crate) async fn a_session_records_its_timeline(fixture: &TestHub) {
    let (hub, embedded) = (&fixture.hub, &fixture.embedded);
    let alice = hub.agent("alice").join().await.expect("she joins");
    let bob = hub.agent("bob").join().await.expect("he joins");
    let as_alice = alice.session("s1");
    assert_eq!(as_alice.info().await.expect_err("not open yet").code(), Code::NotFound);
    as_alice.open("Soup", ["cook"], &[]).await.expect("open");
    as_alice.join("bob").await.expect("he takes part");
    alice.send("bob", "stir", 1).session("s1").await.expect("sent");
    bob.session("s1").add_artifact([1], "made").await.expect("added");
    bob.session("s1").add_blocker("no salt", "").await.expect("added");
    as_alice.add_note("so be it").await.expect("added");
    as_alice.add(ContributionKind::Decision, "no salt then", "there is none").await.expect("added");
    as_alice.leave("bob").await.expect("he leaves");
    as_alice.complete("eaten").await.expect("over");
    let session = hub.session("s1");
    let info = session.info().await.expect("there");
    assert_eq!(
        (info.status, info.reason.as_str(), info.title.as_str()),
        (SessionStatus::Completed, "eaten", "Soup")
    );
    assert!(
        info.has_participant("alice") || info.coordinator.as_ref().is_some_and(|id| id.as_str() == "alice")
    );
    assert!(!info.has_participant("bob"));
    let counts =
        [ContributionKind::Artifact, ContributionKind::Finding].map(|kind| info.contribution_count(kind));
    assert_eq!(counts, [1, 0]);
    assert_eq!(info, embedded.session("s1").info().await.expect("there"));
    assert_eq!(session.task::<Vec<String>>().await.expect("read"), ["cook"]);

    let entries = session.timeline(Seq(0), 100).await.expect("read");
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
    assert_eq!(summaries(&entries), expected);
    assert_eq!(summaries(&embedded.session("s1").timeline(Seq(0), 100).await.expect("read")), expected);
    let rest = session.timeline(entries[6].record.seq, 100).await.expect("read");
    assert_eq!(summaries(&rest), expected[7..]);
    let newest = session.newest_entries(2).await.expect("read");
    assert_eq!(summaries(&newest), [expected[8], expected[7]]);
    let blockers = session.contributions(ContributionKind::Blocker, Seq(0), 10).await.expect("read");
    assert_eq!((blockers.len(), blockers[0].n, blockers[0].by.as_str()), (1, 1, "agent:bob"));
    assert_eq!(blockers[0].body::<String>().expect("a text"), "no salt");
    assert!(session.contributions(ContributionKind::Finding, Seq(0), 10).await.expect("read").is_empty());
    assert_eq!(as_alice.add_note("late").await.expect_err("it is over").code(), Code::SessionClosed);

    let other = hub.session("s2");
    other.open("Cake", (), &["alice"]).await.expect("open");
    other.fail("burnt").await.expect("over");
    assert_eq!(other.info().await.expect("there").status, SessionStatus::Failed);
    let all = hub.sessions(PageQuery::newest(10)).await.expect("read");
    assert_eq!(all, embedded.sessions(PageQuery::newest(10)).await.expect("read"));
    assert_eq!(all.items.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["s2", "s1"]);
    let oldest = hub.sessions(PageQuery::oldest(1)).await.expect("read");
    assert_eq!(oldest, embedded.sessions(PageQuery::oldest(1)).await.expect("read"));
    assert_eq!(oldest.items[0].id.as_str(), "s1");
    let next = PageQuery::oldest(10).after(oldest.cursor.clone());
    assert_eq!(hub.sessions(next).await.expect("read").items, all.items[..1]);
    let error = hub.sessions(PageQuery::newest(10).after(oldest.cursor)).await.expect_err("another order");
    assert_eq!(error.code(), Code::Invalid);
}
