//! Sessions: deliveries of a paused session are held, and a closed session accepts no changes.

use quorate_core::{
    AddKind, AddToSession, ChangeSession, Code, Commit, ConsumerId, Counts, Item, ItemKey, ItemKind,
    LineKind, Message, NackThen, Op, OpResult, OpenSession, OpenState, Principal, Receipt, RegisterAgent,
    Role, Seq, Session, SessionChange, SessionId, SessionStatus, Timestamp, Waiting, limits,
};

use super::bench::{Bench, START_MS};
use super::words::{
    ack, agent, delayed, deliver_to, erase, expiring, give_up, id, nack, payload, redrive, repeat_key, send,
};
use crate::{DeliveryState, Page, Read, Rows};

fn session(name: &str) -> SessionId {
    SessionId::new(name).expect("valid id")
}

fn opening(name: &str, with: &[&str]) -> OpenSession {
    OpenSession {
        id: Some(session(name)),
        coordinator: None,
        participants: with.iter().map(|name| id(name)).collect(),
        title: "work".into(),
        task: None,
    }
}

fn open(name: &str, with: &[&str]) -> Op {
    Op::OpenSession(opening(name, with))
}

fn change(name: &str, change: SessionChange) -> Op {
    Op::ChangeSession(ChangeSession { session: session(name), change, reason: String::new() })
}

fn add(name: &str, kind: AddKind) -> Op {
    Op::AddToSession(AddToSession {
        session: session(name),
        kind,
        body: payload("{}"),
        content_type: None,
        rationale: "because".into(),
    })
}

fn in_session(name: &str, message: Message) -> Message {
    Message { session_id: Some(name.into()), ..message }
}

async fn found(bench: &Bench, name: &str) -> Option<Session> {
    match bench.read(Read::Item(ItemKey::new(ItemKind::Session, name))).await {
        Rows::Item(Some(Item::Session(session))) => Some(session),
        Rows::Item(None) => None,
        other => panic!("not a session: {other:?}"),
    }
}

async fn timeline(bench: &Bench, name: &str, kind: Option<LineKind>, page: Page, limit: usize) -> Vec<Seq> {
    match bench.read(Read::Timeline { session: name.into(), kind, page, limit }).await {
        Rows::Timeline(seqs) => seqs,
        other => panic!("not a timeline: {other:?}"),
    }
}

fn seq(receipt: &Receipt) -> Seq {
    receipt.seq.expect("a record")
}

/// Opens session `s1` with coordinator alice and participant bob.
async fn open_s1(bench: &Bench) {
    bench.start_all(&["alice", "bob", "carol"]).await;
    bench.ok(agent("alice"), vec![open("s1", &["bob"])]).await;
}

pub async fn d9_a_session_records_its_coordinator_participants_and_times(bench: Bench) {
    bench.start_all(&["alice", "bob"]).await;
    bench.pass(5);
    let whole =
        OpenSession { title: "Release 7".into(), task: Some(payload("{}")), ..opening("s1", &["bob"]) };
    let receipt =
        bench.ok(agent("alice"), vec![send("alice", deliver_to("bob")), Op::OpenSession(whole)]).await;
    assert_eq!(receipt.results[1], OpResult::SessionOpened { id: session("s1") });
    let now = Timestamp(START_MS + 5_000);
    let opened = found(&bench, "s1").await.expect("the session exists");
    assert_eq!((opened.coordinator.as_ref(), opened.title.as_str()), (Some(&id("alice")), "Release 7"));
    assert_eq!((opened.task, opened.number.record()), (Some(1), seq(&receipt)));
    assert_eq!((opened.status, opened.since, opened.opened_at), (SessionStatus::Active, now, now));
    assert_eq!(opened.participants.len(), 1);
    bench.pass(5);
    bench.ok(agent("alice"), vec![change("s1", SessionChange::Complete)]).await;
    let over = found(&bench, "s1").await.expect("the session exists");
    let later = Timestamp(START_MS + 10_000);
    assert_eq!((over.status, over.since, over.opened_at), (SessionStatus::Completed, later, now));
}

pub async fn d9_additions_are_counted_by_kind(bench: Bench) {
    open_s1(&bench).await;
    let ops = vec![add("s1", AddKind::Decision), add("s1", AddKind::Note), add("s1", AddKind::Decision)];
    let receipt = bench.ok(agent("bob"), ops).await;
    let counts = receipt.results.iter().map(|result| match result {
        OpResult::SessionAdded { n } => *n,
        other => panic!("not an addition: {other:?}"),
    });
    assert_eq!(counts.collect::<Vec<_>>(), [1, 1, 2]);
    let session = found(&bench, "s1").await.expect("the session exists");
    assert_eq!(session.added, [2, 0, 0, 0, 1]);
    bench.refused_with(Code::Forbidden, agent("carol"), vec![add("s1", AddKind::Note)]).await;
    bench.ok(agent("alice"), vec![add("s1", AddKind::Note), change("s1", SessionChange::Fail)]).await;
    assert_eq!(found(&bench, "s1").await.expect("the session exists").added, [2, 0, 0, 0, 2]);
}

// Fails if only participants can add, or if a coordinator can change the session of another one.
pub async fn m2_any_coordinator_may_add_but_only_its_own_may_change_a_session(bench: Bench) {
    open_s1(&bench).await;
    let coordinator = RegisterAgent { role: Role::Coordinator, ..RegisterAgent::named(id("carol")) };
    bench.ok(Principal::System, vec![Op::RegisterAgent(coordinator)]).await;
    bench.ok(agent("carol"), vec![add("s1", AddKind::Blocker)]).await;
    bench.refused_with(Code::Forbidden, agent("carol"), vec![change("s1", SessionChange::Pause)]).await;
    bench.ok(Principal::System, vec![Op::RegisterAgent(RegisterAgent::named(id("carol")))]).await;
    bench.refused_with(Code::Forbidden, agent("carol"), vec![add("s1", AddKind::Blocker)]).await;
}

pub async fn d9_only_the_coordinator_and_the_hub_may_change_a_session(bench: Bench) {
    open_s1(&bench).await;
    let changes = [
        SessionChange::Pause,
        SessionChange::Resume,
        SessionChange::Complete,
        SessionChange::Fail,
        SessionChange::Join(id("carol")),
        SessionChange::Leave(id("alice")),
    ];
    for what in changes {
        bench.refused_with(Code::Forbidden, agent("bob"), vec![change("s1", what)]).await;
    }
    bench.refused_with(Code::NotFound, agent("alice"), vec![change("s2", SessionChange::Pause)]).await;
    bench
        .refused_with(Code::NotFound, agent("alice"), vec![change("s1", SessionChange::Join(id("dave")))])
        .await;
    let for_another = OpenSession { coordinator: Some(id("bob")), ..opening("s2", &[]) };
    bench.refused_with(Code::Forbidden, agent("alice"), vec![Op::OpenSession(for_another.clone())]).await;
    bench.ok(Principal::System, vec![Op::OpenSession(for_another), change("s1", SessionChange::Pause)]).await;
    bench.ok(agent("bob"), vec![change("s2", SessionChange::Join(id("carol")))]).await;
    bench.ok(agent("carol"), vec![change("s2", SessionChange::Leave(id("carol")))]).await;
    let again = bench.ok(agent("bob"), vec![change("s2", SessionChange::Leave(id("carol")))]).await;
    assert_eq!(again.seq, None, "leaving twice is a no-op");
    let left = found(&bench, "s2").await.expect("the session exists").participants;
    assert_eq!(left.iter().map(|one| one.left_at.is_some()).collect::<Vec<_>>(), [true]);
}

pub async fn d9_a_pause_holds_deliveries_and_a_resume_releases_them_in_order(bench: Bench) {
    open_s1(&bench).await;
    let mut numbers = vec![bench.send_as("alice", in_session("s1", deliver_to("bob"))).await.first];
    let leased = bench.claim_one("bob").await;
    numbers.push(bench.send_as("alice", in_session("s1", deliver_to("bob"))).await.first);
    bench.ok(agent("alice"), vec![change("s1", SessionChange::Pause)]).await;
    numbers.push(bench.send_as("alice", in_session("s1", deliver_to("bob"))).await.first);
    bench.send_as("alice", in_session("s1", delayed("bob", START_MS + 1_000))).await;
    let free = bench.send("alice", "bob").await.first;
    bench.pass(2);
    assert_eq!(bench.claim("bob", 9).await.iter().map(|one| one.delivery).collect::<Vec<_>>(), [free]);
    assert_eq!(bench.counts(), Counts { scheduled: 3, leased: 2, ..Counts::default() });
    let held = DeliveryState::Open { state: OpenState::Held { since: Timestamp(START_MS) }, attempt: 0 };
    assert_eq!(bench.state(numbers[1]).await, Some(held));
    bench.ok(agent("bob"), vec![nack(&leased, NackThen::Retry { delay_ms: 0 })]).await;
    assert_eq!(bench.claim("bob", 9).await, vec![], "returned deliveries are held as well");
    let again = bench.ok(agent("alice"), vec![change("s1", SessionChange::Pause)]).await;
    assert_eq!(again.seq, None, "the session is already paused");
    bench.ok(agent("alice"), vec![change("s1", SessionChange::Resume)]).await;
    let released: Vec<_> = bench.claim("bob", 9).await.iter().map(|one| one.delivery).collect();
    assert_eq!(released[..3], numbers);
    assert_eq!(released.len(), 4);
}

pub async fn d9_a_resume_delivers_to_waiting_consumers(bench: Bench) {
    open_s1(&bench).await;
    bench.ok(agent("alice"), vec![change("s1", SessionChange::Pause)]).await;
    let consumer = ConsumerId(1);
    bench.wait("bob", 5, Waiting::Standing(consumer)).await;
    let first = bench.send_as("alice", in_session("s1", deliver_to("bob"))).await.first;
    let second = bench.send_as("alice", in_session("s1", deliver_to("bob"))).await.first;
    assert_eq!(bench.handed(), vec![]);
    bench.ok(agent("alice"), vec![change("s1", SessionChange::Resume)]).await;
    let handed: Vec<_> = bench.handed().into_iter().map(|(to, one)| (to, one.delivery)).collect();
    assert_eq!(handed, [(consumer, first), (consumer, second)]);
}

pub async fn d9_a_closed_session_rejects_changes_and_releases_held_deliveries(bench: Bench) {
    open_s1(&bench).await;
    let held = bench.send_as("alice", in_session("s1", deliver_to("bob"))).await.first;
    bench.ok(agent("alice"), vec![change("s1", SessionChange::Pause)]).await;
    bench.ok(agent("alice"), vec![change("s1", SessionChange::Complete)]).await;
    assert_eq!(bench.claim_one("bob").await.delivery, held);
    let late = send("alice", in_session("s1", deliver_to("bob")));
    let refused = [
        late.clone(),
        add("s1", AddKind::Note),
        change("s1", SessionChange::Pause),
        change("s1", SessionChange::Resume),
        change("s1", SessionChange::Fail),
        change("s1", SessionChange::Join(id("carol"))),
        change("s1", SessionChange::Leave(id("bob"))),
    ];
    for op in refused {
        bench.refused_with(Code::SessionClosed, agent("alice"), vec![op]).await;
    }
    let again = bench.ok(agent("alice"), vec![change("s1", SessionChange::Complete)]).await;
    assert_eq!(again.seq, None, "the session is already completed");
    bench
        .refused_with(
            Code::SessionClosed,
            agent("alice"),
            vec![open("s2", &[]), change("s2", SessionChange::Fail), add("s2", AddKind::Note)],
        )
        .await;
}

pub async fn d9_a_session_id_is_only_a_label_until_the_session_is_opened(bench: Bench) {
    bench.start_all(&["alice", "bob"]).await;
    let label = seq(&bench.ok(agent("alice"), vec![send("alice", in_session("x", deliver_to("bob")))]).await);
    bench
        .refused_with(
            Code::NotFound,
            agent("alice"),
            vec![send("alice", in_session("ses_0-9-0", deliver_to("bob")))],
        )
        .await;
    bench.ok(agent("alice"), vec![send("alice", in_session("ses_nine", deliver_to("bob")))]).await;
    let made = OpenSession { id: Some(session("ses_0-9-0")), ..opening("x", &[]) };
    assert!(
        Commit::new(agent("alice"), vec![Op::OpenSession(made)]).check().is_err(),
        "ids of this form are reserved for the hub"
    );
    let unnamed = OpenSession { id: None, ..opening("x", &[]) };
    let receipt =
        bench.ok(agent("alice"), vec![Op::OpenSession(unnamed.clone()), Op::OpenSession(unnamed)]).await;
    let ids: Vec<_> = receipt.results.iter().map(|result| format!("{result:?}")).collect();
    assert!(ids[0].contains("ses_0-") && ids[0] != ids[1], "{ids:?}");
    let opened =
        seq(&bench.ok(agent("alice"), vec![open("x", &[]), change("x", SessionChange::Pause)]).await);
    assert_eq!(bench.claim("bob", 9).await.len(), 2, "messages sent before the opening belong to no session");
    assert_eq!(timeline(&bench, "x", None, Page::After(Seq(0)), 9).await, [label, opened]);
}

pub async fn d9_the_timeline_is_paged_in_both_directions(bench: Bench) {
    open_s1(&bench).await;
    let opened = bench.head();
    let mut seqs = vec![opened];
    for kind in [AddKind::Decision, AddKind::Note, AddKind::Decision] {
        let ops = vec![
            send("alice", in_session("s1", deliver_to("bob"))),
            add("s1", kind),
            send("alice", in_session("s1", deliver_to("bob"))),
        ];
        seqs.push(seq(&bench.ok(agent("alice"), ops).await));
        bench.send("alice", "bob").await;
    }
    assert_eq!(timeline(&bench, "s1", None, Page::After(Seq(0)), 99).await, seqs);
    assert_eq!(timeline(&bench, "s1", None, Page::After(seqs[1]), 1).await, seqs[2..3]);
    let newest: Vec<_> = seqs.iter().rev().copied().collect();
    assert_eq!(timeline(&bench, "s1", None, Page::Before(Seq(u64::MAX)), 99).await, newest);
    assert_eq!(timeline(&bench, "s1", None, Page::Before(seqs[2]), 1).await, seqs[1..2]);
    let decisions = Some(LineKind::Added(AddKind::Decision));
    assert_eq!(timeline(&bench, "s1", decisions, Page::After(Seq(0)), 99).await, [seqs[1], seqs[3]]);
    assert_eq!(timeline(&bench, "s1", Some(LineKind::Message), Page::After(Seq(0)), 99).await, seqs[1..]);
    assert_eq!(timeline(&bench, "s1", Some(LineKind::Change), Page::After(opened), 99).await, []);
    match bench.read(Read::Record(seqs[1])).await {
        Rows::Record(Some(record)) => {
            assert_eq!((record.seq, record.principal.as_str()), (seqs[1], "agent:alice"))
        }
        other => panic!("not a record: {other:?}"),
    }
    assert_eq!(bench.read(Read::Record(Seq(9_999))).await, Rows::Record(None));
}

pub async fn d9_opening_a_session_again_is_idempotent(bench: Bench) {
    bench.start_all(&["alice", "bob"]).await;
    let whole = || OpenSession { task: Some(payload("{\"a\":1}")), ..opening("s1", &["bob"]) };
    let first = bench.ok(agent("alice"), vec![Op::OpenSession(whole())]).await;
    let again = bench.ok(agent("alice"), vec![Op::OpenSession(whole())]).await;
    assert_eq!((again.seq, &again.results), (None, &first.results));
    let others = [
        OpenSession { task: None, ..whole() },
        OpenSession { task: Some(payload("{}")), ..whole() },
        OpenSession { title: "other".into(), ..whole() },
        OpenSession { participants: vec![], ..whole() },
    ];
    for other in others {
        bench.refused_with(Code::Duplicate, agent("alice"), vec![Op::OpenSession(other)]).await;
    }
    bench.refused_with(Code::Duplicate, agent("bob"), vec![Op::OpenSession(whole())]).await;
    bench.ok(Principal::System, vec![erase(seq(&first), 0)]).await;
    bench.refused_with(Code::Duplicate, agent("alice"), vec![Op::OpenSession(whole())]).await;
    let twice = vec![open("s2", &[]), open("s2", &[])];
    let receipt = bench.ok(agent("alice"), twice).await;
    assert_eq!(receipt.results[0], receipt.results[1]);
    let keyed = Commit::new(agent("alice"), vec![add("s2", AddKind::Note)]).keyed(repeat_key("k"));
    let one = bench.commit(keyed.clone()).await.expect("the commit is accepted");
    assert_eq!(bench.commit(keyed).await.expect("the replay is accepted"), one);
}

pub async fn d9_held_deliveries_can_expire_and_be_dead_lettered_or_purged(bench: Bench) {
    open_s1(&bench).await;
    bench.send_as("alice", in_session("s1", deliver_to("bob"))).await;
    let dead = bench.claim_one("bob").await;
    bench.ok(agent("bob"), vec![give_up(&dead, "unusable")]).await;
    bench.ok(agent("alice"), vec![change("s1", SessionChange::Pause)]).await;
    bench.send_as("alice", in_session("s1", expiring("bob", START_MS + 1_000))).await;
    bench.ok(Principal::System, vec![redrive(dead.delivery)]).await;
    assert_eq!(bench.claim("bob", 9).await, vec![], "a redriven delivery is held by its session");
    bench.pass(1);
    bench.sweep().await;
    assert_eq!(bench.counts(), Counts { scheduled: 1, expired: 1, ..Counts::default() });
    let purged = bench.ok(agent("bob"), vec![Op::Purge { agent: id("bob") }]).await;
    assert_eq!(purged.results, [OpResult::Purged { count: 1 }]);
}

pub async fn d9_sessions_survive_a_restart(mut bench: Bench) {
    open_s1(&bench).await;
    let held = bench.send_as("alice", in_session("s1", deliver_to("bob"))).await.first;
    let leased = bench.claim_one("bob").await;
    let waiting = bench.send_as("alice", in_session("s1", deliver_to("bob"))).await.first;
    bench.ok(agent("bob"), vec![add("s1", AddKind::Finding)]).await;
    bench.ok(agent("alice"), vec![change("s1", SessionChange::Pause)]).await;
    let (before, counts) = (found(&bench, "s1").await, bench.counts());
    bench.reopen().await;
    assert_eq!((found(&bench, "s1").await, bench.counts()), (before, counts));
    assert_eq!(bench.claim("bob", 9).await, vec![]);
    bench.ok(agent("bob"), vec![ack(&leased)]).await;
    bench.ok(agent("alice"), vec![change("s1", SessionChange::Resume)]).await;
    bench.reopen().await;
    assert_eq!(bench.claim_one("bob").await.delivery, waiting);
    assert_ne!(held, waiting);
    bench.ok(agent("alice"), vec![change("s1", SessionChange::Fail)]).await;
    bench.reopen().await;
    bench.refused_with(Code::SessionClosed, agent("alice"), vec![add("s1", AddKind::Note)]).await;
}

pub async fn d9_a_session_has_limits(bench: Bench) {
    bench.start_all(&["alice", "bob"]).await;
    let too_long = OpenSession { title: "x".repeat(limits::TITLE_CHARS_MAX + 1), ..opening("s1", &[]) };
    assert_eq!(
        Commit::new(agent("alice"), vec![Op::OpenSession(too_long)]).check().map_err(|no| no.code),
        Err(Code::Invalid)
    );
    let untitled = OpenSession { title: String::new(), ..opening("s1", &[]) };
    assert!(Commit::new(agent("alice"), vec![Op::OpenSession(untitled)]).check().is_err());
    let crowd = OpenSession {
        participants: vec![id("bob"); limits::SESSION_PARTICIPANTS_MAX + 1],
        ..opening("s1", &[])
    };
    let refused = Commit::new(agent("alice"), vec![Op::OpenSession(crowd)]).check().expect_err("too many");
    assert_eq!(
        (refused.code, refused.facts.limit),
        (Code::LimitExceeded, Some(limits::SESSION_PARTICIPANTS_MAX as u64))
    );
}
