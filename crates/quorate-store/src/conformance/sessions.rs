//! Sessions: deliveries of a paused session are held, and a closed session accepts no changes.

use quorate_core::{
    AddToSession, AgentRole, ChangeSession, Code, Commit, ConsumerId, ContributionKind, DeliveryStateCounts,
    Item, ItemKey, ItemKind, Message, NackAction, Op, OpResult, OpenDeliveryState, OpenSession, Principal,
    PutEntry, Receipt, RegisterAgent, Rollback, RollbackScope, RollbackTarget, Seq, Session, SessionChange,
    SessionId, SessionStatus, TimelineKind, Timestamp, Version, WaitMode, limits,
};

use super::builders::{
    ack, agent, dead_letter, delayed, delete, erase, expiring, id, idempotency_key, key, message_to, nack,
    payload, put_entry, redrive, send,
};
use super::test_bench::{START_MS, TestBench};
use crate::{ReadQuery, ReadResult, StoredDeliveryState, TimelinePage};

fn session(name: &str) -> SessionId {
    SessionId::new(name).expect("valid id")
}

fn open_session(name: &str, participants: &[&str]) -> OpenSession {
    OpenSession {
        id: Some(session(name)),
        coordinator: None,
        participants: participants.iter().map(|name| id(name)).collect(),
        title: "work".into(),
        task: None,
    }
}

fn open(name: &str, participants: &[&str]) -> Op {
    Op::OpenSession(open_session(name, participants))
}

fn change(name: &str, change: SessionChange) -> Op {
    Op::ChangeSession(ChangeSession { session: session(name), change, reason: String::new() })
}

fn add(name: &str, kind: ContributionKind) -> Op {
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

async fn read_session(bench: &TestBench, name: &str) -> Option<Session> {
    match bench.read(ReadQuery::Item(ItemKey::new(ItemKind::Session, name))).await {
        ReadResult::Item(Some(Item::Session(session))) => Some(session),
        ReadResult::Item(None) => None,
        other => panic!("not a session: {other:?}"),
    }
}

async fn timeline(
    bench: &TestBench,
    name: &str,
    kind: Option<TimelineKind>,
    page: TimelinePage,
    limit: usize,
) -> Vec<Seq> {
    match bench.read(ReadQuery::Timeline { session: name.into(), kind, page, limit }).await {
        ReadResult::Timeline(seqs) => seqs,
        other => panic!("not a timeline: {other:?}"),
    }
}

fn seq(receipt: &Receipt) -> Seq {
    receipt.seq.expect("a record")
}

/// Opens session `s1` with coordinator alice and participant bob.
async fn open_s1(bench: &TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    bench.commit_ok(agent("alice"), vec![open("s1", &["bob"])]).await;
}

pub async fn d9_a_session_records_its_coordinator_participants_and_times(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.advance_secs(5);
    let whole =
        OpenSession { title: "Release 7".into(), task: Some(payload("{}")), ..open_session("s1", &["bob"]) };
    let receipt =
        bench.commit_ok(agent("alice"), vec![send("alice", message_to("bob")), Op::OpenSession(whole)]).await;
    assert_eq!(receipt.results[1], OpResult::SessionOpened { id: session("s1") });
    let now = Timestamp(START_MS + 5_000);
    let opened = read_session(&bench, "s1").await.expect("the session exists");
    assert_eq!((opened.coordinator.as_ref(), opened.title.as_str()), (Some(&id("alice")), "Release 7"));
    assert_eq!((opened.task, opened.number.record()), (Some(1), seq(&receipt)));
    assert_eq!((opened.status, opened.since, opened.opened_at), (SessionStatus::Active, now, now));
    assert_eq!(opened.participants.len(), 1);
    bench.advance_secs(5);
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Complete)]).await;
    let closed = read_session(&bench, "s1").await.expect("the session exists");
    let later = Timestamp(START_MS + 10_000);
    assert_eq!((closed.status, closed.since, closed.opened_at), (SessionStatus::Completed, later, now));
}

pub async fn d9_additions_are_counted_by_kind(bench: TestBench) {
    open_s1(&bench).await;
    let ops = vec![
        add("s1", ContributionKind::Decision),
        add("s1", ContributionKind::Note),
        add("s1", ContributionKind::Decision),
    ];
    let receipt = bench.commit_ok(agent("bob"), ops).await;
    let counts = receipt.results.iter().map(|result| match result {
        OpResult::ContributionAdded { n } => *n,
        other => panic!("not an addition: {other:?}"),
    });
    assert_eq!(counts.collect::<Vec<_>>(), [1, 1, 2]);
    let session = read_session(&bench, "s1").await.expect("the session exists");
    assert_eq!(session.contributions, [2, 0, 0, 0, 1]);
    bench.commit_refused_with(Code::Forbidden, agent("carol"), vec![add("s1", ContributionKind::Note)]).await;
    bench
        .commit_ok(agent("alice"), vec![add("s1", ContributionKind::Note), change("s1", SessionChange::Fail)])
        .await;
    assert_eq!(read_session(&bench, "s1").await.expect("the session exists").contributions, [2, 0, 0, 0, 2]);
}

// Fails under: additions by participants only; a coordinator that can change the session of another one.
pub async fn m2_any_coordinator_may_add_but_only_its_own_may_change_a_session(bench: TestBench) {
    open_s1(&bench).await;
    let coordinator = RegisterAgent { role: AgentRole::Coordinator, ..RegisterAgent::named(id("carol")) };
    bench.commit_ok(Principal::System, vec![Op::RegisterAgent(coordinator)]).await;
    bench.commit_ok(agent("carol"), vec![add("s1", ContributionKind::Blocker)]).await;
    bench
        .commit_refused_with(Code::Forbidden, agent("carol"), vec![change("s1", SessionChange::Pause)])
        .await;
    bench.commit_ok(Principal::System, vec![Op::RegisterAgent(RegisterAgent::named(id("carol")))]).await;
    bench
        .commit_refused_with(Code::Forbidden, agent("carol"), vec![add("s1", ContributionKind::Blocker)])
        .await;
}

fn put(name: &str, expect: Option<u64>) -> Op {
    Op::Put(PutEntry { expect: expect.map(Version), ..put_entry(name, "{}") })
}

fn roll_back(scope: RollbackScope, to: Seq) -> Op {
    Op::Rollback(Rollback { scope, target: RollbackTarget::Seq(to), fence: None })
}

fn roll_back_key(name: &str, expect: Option<u64>, to: Seq) -> Op {
    roll_back(RollbackScope::Key { key: key(name), expect: expect.map(Version) }, to)
}

fn roll_back_prefix(prefix: &str, to: Seq) -> Op {
    roll_back(RollbackScope::Prefix(prefix.into()), to)
}

const STATE: &str = "sessions/s1/state";
const GUIDANCE: &str = "sessions/s1/guidance";

// Fails under: a put, a delete or a rollback that does not check who writes; a check of keys, but not of prefixes.
pub async fn s12_only_agents_that_may_add_to_a_session_write_its_entries(bench: TestBench) {
    open_s1(&bench).await;
    let first = [put(STATE, Some(0)), put(GUIDANCE, None), put("sessions/s1/x", None)].to_vec();
    let first = seq(&bench.commit_ok(agent("bob"), first).await);
    bench.commit_ok(agent("alice"), vec![put(STATE, Some(1)), put(GUIDANCE, None)]).await;
    let by_carol = [
        put(STATE, Some(2)),
        put(GUIDANCE, Some(2)),
        delete(STATE, Some(2)),
        delete(GUIDANCE, None),
        roll_back_key(STATE, Some(2), first),
        roll_back_key(GUIDANCE, None, first),
        roll_back_prefix("", first),
        roll_back_prefix("sessions/s1/", Seq(first.0 - 1)),
    ];
    for op in by_carol.clone() {
        bench.commit_refused_with(Code::Forbidden, agent("carol"), vec![op]).await;
    }
    // Other entries, and rollbacks that change none of these, are not affected.
    let others = [
        put("sessions/s1/x", None),
        put("sessions/s1/state/x", None),
        put("sessions//state", None),
        put("session/s1/state", None),
        roll_back_prefix("sessions/s1/x", first),
        roll_back_key(STATE, None, Seq(u64::MAX)),
    ];
    bench.commit_ok(agent("carol"), others.to_vec()).await;
    // A session that does not exist, or is closed, has no writers.
    bench.commit_refused_with(Code::NotFound, agent("carol"), vec![put("sessions/s2/state", Some(0))]).await;
    bench.commit_ok(agent("carol"), vec![open("s2", &[]), put("sessions/s2/state", Some(0))]).await;
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Leave(id("bob")))]).await;
    bench.commit_refused_with(Code::Forbidden, agent("bob"), vec![put(STATE, Some(2))]).await;
    let coordinator = RegisterAgent { role: AgentRole::Coordinator, ..RegisterAgent::named(id("carol")) };
    bench.commit_ok(Principal::System, vec![Op::RegisterAgent(coordinator)]).await;
    let [by_coordinator, ..] = by_carol;
    bench.commit_ok(agent("carol"), vec![by_coordinator, roll_back_key(STATE, Some(3), first)]).await;
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Complete)]).await;
    bench.commit_refused_with(Code::SessionClosed, agent("alice"), vec![put(STATE, Some(4))]).await;
    bench.commit_ok(Principal::System, vec![put(STATE, None), roll_back_prefix("", first)]).await;
}

// Fails under: a write of an agent without the version that its change is based on.
pub async fn m2_an_agent_states_the_version_of_the_session_state_that_it_changes(bench: TestBench) {
    open_s1(&bench).await;
    let without = [put(STATE, None), roll_back_prefix("sessions/", Seq(1))];
    let refused = bench.commit_refused(agent("bob"), vec![put(STATE, None)]).await;
    assert_eq!((refused.code, refused.facts.current_version), (Code::VersionConflict, Some(0)));
    let first = seq(&bench.commit_ok(agent("bob"), vec![put(STATE, Some(0))]).await);
    bench.commit_ok(agent("bob"), vec![put(STATE, Some(1))]).await;
    let more = [delete(STATE, None), roll_back_key(STATE, None, first)];
    for op in without.into_iter().chain(more) {
        for name in ["alice", "bob"] {
            let refused = bench.commit_refused(agent(name), vec![op.clone()]).await;
            assert_eq!((refused.code, refused.facts.current_version), (Code::VersionConflict, Some(2)));
        }
    }
    bench.commit_ok(agent("bob"), vec![roll_back_key(STATE, Some(2), first)]).await;
    bench.commit_ok(agent("alice"), vec![delete(STATE, Some(3))]).await;
}

pub async fn d9_only_the_coordinator_and_the_hub_may_change_a_session(bench: TestBench) {
    open_s1(&bench).await;
    let changes = [
        SessionChange::Pause,
        SessionChange::Resume,
        SessionChange::Complete,
        SessionChange::Fail,
        SessionChange::Join(id("carol")),
        SessionChange::Leave(id("alice")),
    ];
    for session_change in changes {
        bench.commit_refused_with(Code::Forbidden, agent("bob"), vec![change("s1", session_change)]).await;
    }
    bench.commit_refused_with(Code::NotFound, agent("alice"), vec![change("s2", SessionChange::Pause)]).await;
    bench
        .commit_refused_with(
            Code::NotFound,
            agent("alice"),
            vec![change("s1", SessionChange::Join(id("dave")))],
        )
        .await;
    let for_another = OpenSession { coordinator: Some(id("bob")), ..open_session("s2", &[]) };
    bench
        .commit_refused_with(Code::Forbidden, agent("alice"), vec![Op::OpenSession(for_another.clone())])
        .await;
    bench
        .commit_ok(Principal::System, vec![Op::OpenSession(for_another), change("s1", SessionChange::Pause)])
        .await;
    bench.commit_ok(agent("bob"), vec![change("s2", SessionChange::Join(id("carol")))]).await;
    bench.commit_ok(agent("carol"), vec![change("s2", SessionChange::Leave(id("carol")))]).await;
    let repeated = bench.commit_ok(agent("bob"), vec![change("s2", SessionChange::Leave(id("carol")))]).await;
    assert_eq!(repeated.seq, None, "leaving twice is a no-op");
    let participants = read_session(&bench, "s2").await.expect("the session exists").participants;
    assert_eq!(
        participants.iter().map(|participant| participant.left_at.is_some()).collect::<Vec<_>>(),
        [true]
    );
}

pub async fn d9_a_pause_holds_deliveries_and_a_resume_releases_them_in_order(bench: TestBench) {
    open_s1(&bench).await;
    let mut numbers = vec![bench.send_as("alice", in_session("s1", message_to("bob"))).await.first_delivery];
    let leased = bench.claim_one("bob").await;
    numbers.push(bench.send_as("alice", in_session("s1", message_to("bob"))).await.first_delivery);
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Pause)]).await;
    numbers.push(bench.send_as("alice", in_session("s1", message_to("bob"))).await.first_delivery);
    bench.send_as("alice", in_session("s1", delayed("bob", START_MS + 1_000))).await;
    let free = bench.send("alice", "bob").await.first_delivery;
    bench.advance_secs(2);
    assert_eq!(bench.claim("bob", 9).await.iter().map(|leased| leased.delivery).collect::<Vec<_>>(), [free]);
    assert_eq!(
        bench.counts(),
        DeliveryStateCounts { scheduled: 3, leased: 2, ..DeliveryStateCounts::default() }
    );
    let held = StoredDeliveryState::Open {
        state: OpenDeliveryState::Held { since: Timestamp(START_MS) },
        attempt: 0,
    };
    assert_eq!(bench.delivery_state(numbers[1]).await, Some(held));
    bench.commit_ok(agent("bob"), vec![nack(&leased, NackAction::Retry { delay_ms: Some(0) })]).await;
    assert_eq!(bench.claim("bob", 9).await, vec![], "returned deliveries are held as well");
    let repeated = bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Pause)]).await;
    assert_eq!(repeated.seq, None, "the session is already paused");
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Resume)]).await;
    let released: Vec<_> = bench.claim("bob", 9).await.iter().map(|leased| leased.delivery).collect();
    assert_eq!(released[..3], numbers);
    assert_eq!(released.len(), 4);
}

pub async fn d9_a_resume_delivers_to_waiting_consumers(bench: TestBench) {
    open_s1(&bench).await;
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Pause)]).await;
    let consumer = ConsumerId(1);
    bench.claim_waiting("bob", 5, WaitMode::Standing(consumer)).await;
    let first = bench.send_as("alice", in_session("s1", message_to("bob"))).await.first_delivery;
    let second = bench.send_as("alice", in_session("s1", message_to("bob"))).await.first_delivery;
    assert_eq!(bench.dispatched(), vec![]);
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Resume)]).await;
    let dispatched: Vec<_> =
        bench.dispatched().into_iter().map(|(to, leased)| (to, leased.delivery)).collect();
    assert_eq!(dispatched, [(consumer, first), (consumer, second)]);
}

pub async fn d9_a_closed_session_rejects_changes_and_releases_held_deliveries(bench: TestBench) {
    open_s1(&bench).await;
    let held = bench.send_as("alice", in_session("s1", message_to("bob"))).await.first_delivery;
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Pause)]).await;
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Complete)]).await;
    assert_eq!(bench.claim_one("bob").await.delivery, held);
    let late = send("alice", in_session("s1", message_to("bob")));
    let refused = [
        late.clone(),
        add("s1", ContributionKind::Note),
        change("s1", SessionChange::Pause),
        change("s1", SessionChange::Resume),
        change("s1", SessionChange::Fail),
        change("s1", SessionChange::Join(id("carol"))),
        change("s1", SessionChange::Leave(id("bob"))),
    ];
    for op in refused {
        bench.commit_refused_with(Code::SessionClosed, agent("alice"), vec![op]).await;
    }
    let repeated = bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Complete)]).await;
    assert_eq!(repeated.seq, None, "the session is already completed");
    bench
        .commit_refused_with(
            Code::SessionClosed,
            agent("alice"),
            vec![open("s2", &[]), change("s2", SessionChange::Fail), add("s2", ContributionKind::Note)],
        )
        .await;
}

pub async fn d9_a_session_id_is_only_a_label_until_the_session_is_opened(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let label =
        seq(&bench.commit_ok(agent("alice"), vec![send("alice", in_session("x", message_to("bob")))]).await);
    bench
        .commit_refused_with(
            Code::NotFound,
            agent("alice"),
            vec![send("alice", in_session("ses_0-9-0", message_to("bob")))],
        )
        .await;
    bench.commit_ok(agent("alice"), vec![send("alice", in_session("ses_nine", message_to("bob")))]).await;
    let reserved = OpenSession { id: Some(session("ses_0-9-0")), ..open_session("x", &[]) };
    assert!(
        Commit::new(agent("alice"), vec![Op::OpenSession(reserved)]).check().is_err(),
        "ids of this form are reserved for the hub"
    );
    let unnamed = OpenSession { id: None, ..open_session("x", &[]) };
    let receipt = bench
        .commit_ok(agent("alice"), vec![Op::OpenSession(unnamed.clone()), Op::OpenSession(unnamed)])
        .await;
    let ids: Vec<_> = receipt.results.iter().map(|result| format!("{result:?}")).collect();
    assert!(ids[0].contains("ses_0-") && ids[0] != ids[1], "{ids:?}");
    let opened =
        seq(&bench.commit_ok(agent("alice"), vec![open("x", &[]), change("x", SessionChange::Pause)]).await);
    assert_eq!(bench.claim("bob", 9).await.len(), 2, "messages sent before the opening belong to no session");
    assert_eq!(timeline(&bench, "x", None, TimelinePage::After(Seq(0)), 9).await, [label, opened]);
}

pub async fn d9_the_timeline_is_paged_in_both_directions(bench: TestBench) {
    open_s1(&bench).await;
    let opened = bench.head();
    let mut seqs = vec![opened];
    for kind in [ContributionKind::Decision, ContributionKind::Note, ContributionKind::Decision] {
        let ops = vec![
            send("alice", in_session("s1", message_to("bob"))),
            add("s1", kind),
            send("alice", in_session("s1", message_to("bob"))),
        ];
        seqs.push(seq(&bench.commit_ok(agent("alice"), ops).await));
        bench.send("alice", "bob").await;
    }
    assert_eq!(timeline(&bench, "s1", None, TimelinePage::After(Seq(0)), 99).await, seqs);
    assert_eq!(timeline(&bench, "s1", None, TimelinePage::After(seqs[1]), 1).await, seqs[2..3]);
    let newest: Vec<_> = seqs.iter().rev().copied().collect();
    assert_eq!(timeline(&bench, "s1", None, TimelinePage::Before(Seq(u64::MAX)), 99).await, newest);
    assert_eq!(timeline(&bench, "s1", None, TimelinePage::Before(seqs[2]), 1).await, seqs[1..2]);
    let decisions = Some(TimelineKind::Contribution(ContributionKind::Decision));
    assert_eq!(timeline(&bench, "s1", decisions, TimelinePage::After(Seq(0)), 99).await, [seqs[1], seqs[3]]);
    assert_eq!(
        timeline(&bench, "s1", Some(TimelineKind::Message), TimelinePage::After(Seq(0)), 99).await,
        seqs[1..]
    );
    assert_eq!(timeline(&bench, "s1", Some(TimelineKind::Change), TimelinePage::After(opened), 99).await, []);
    match bench.read(ReadQuery::Record(seqs[1])).await {
        ReadResult::Record(Some(record)) => {
            assert_eq!((record.seq, record.principal.as_str()), (seqs[1], "agent:alice"))
        }
        other => panic!("not a record: {other:?}"),
    }
    assert_eq!(bench.read(ReadQuery::Record(Seq(9_999))).await, ReadResult::Record(None));
}

pub async fn d9_opening_a_session_again_is_idempotent(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let whole = || OpenSession { task: Some(payload("{\"a\":1}")), ..open_session("s1", &["bob"]) };
    let first = bench.commit_ok(agent("alice"), vec![Op::OpenSession(whole())]).await;
    let repeated = bench.commit_ok(agent("alice"), vec![Op::OpenSession(whole())]).await;
    assert_eq!((repeated.seq, &repeated.results), (None, &first.results));
    let others = [
        OpenSession { task: None, ..whole() },
        OpenSession { task: Some(payload("{}")), ..whole() },
        OpenSession { title: "other".into(), ..whole() },
        OpenSession { participants: vec![], ..whole() },
    ];
    for other in others {
        bench.commit_refused_with(Code::Duplicate, agent("alice"), vec![Op::OpenSession(other)]).await;
    }
    bench.commit_refused_with(Code::Duplicate, agent("bob"), vec![Op::OpenSession(whole())]).await;
    bench.commit_ok(Principal::System, vec![erase(seq(&first), 0)]).await;
    bench.commit_refused_with(Code::Duplicate, agent("alice"), vec![Op::OpenSession(whole())]).await;
    let ops = vec![open("s2", &[]), open("s2", &[])];
    let receipt = bench.commit_ok(agent("alice"), ops).await;
    assert_eq!(receipt.results[0], receipt.results[1]);
    let keyed =
        Commit::new(agent("alice"), vec![add("s2", ContributionKind::Note)]).keyed(idempotency_key("k"));
    let first_receipt = bench.commit(keyed.clone()).await.expect("the commit is accepted");
    assert_eq!(bench.commit(keyed).await.expect("the replay is accepted"), first_receipt);
}

pub async fn d9_held_deliveries_can_expire_and_be_dead_lettered_or_purged(bench: TestBench) {
    open_s1(&bench).await;
    bench.send_as("alice", in_session("s1", message_to("bob"))).await;
    let dead = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![dead_letter(&dead, "unusable")]).await;
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Pause)]).await;
    bench.send_as("alice", in_session("s1", expiring("bob", START_MS + 1_000))).await;
    bench.commit_ok(Principal::System, vec![redrive(dead.delivery)]).await;
    assert_eq!(bench.claim("bob", 9).await, vec![], "a redriven delivery is held by its session");
    bench.advance_secs(1);
    bench.sweep().await;
    assert_eq!(
        bench.counts(),
        DeliveryStateCounts { scheduled: 1, expired: 1, ..DeliveryStateCounts::default() }
    );
    let purged = bench.commit_ok(agent("bob"), vec![Op::Purge { agent: id("bob") }]).await;
    assert_eq!(purged.results, [OpResult::Purged { count: 1 }]);
}

pub async fn d9_sessions_survive_a_restart(mut bench: TestBench) {
    open_s1(&bench).await;
    let held = bench.send_as("alice", in_session("s1", message_to("bob"))).await.first_delivery;
    let leased = bench.claim_one("bob").await;
    let waiting = bench.send_as("alice", in_session("s1", message_to("bob"))).await.first_delivery;
    bench.commit_ok(agent("bob"), vec![add("s1", ContributionKind::Finding)]).await;
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Pause)]).await;
    let (before, counts) = (read_session(&bench, "s1").await, bench.counts());
    bench.reopen().await;
    assert_eq!((read_session(&bench, "s1").await, bench.counts()), (before, counts));
    assert_eq!(bench.claim("bob", 9).await, vec![]);
    bench.commit_ok(agent("bob"), vec![ack(&leased)]).await;
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Resume)]).await;
    bench.reopen().await;
    assert_eq!(bench.claim_one("bob").await.delivery, waiting);
    assert_ne!(held, waiting);
    bench.commit_ok(agent("alice"), vec![change("s1", SessionChange::Fail)]).await;
    bench.reopen().await;
    bench
        .commit_refused_with(Code::SessionClosed, agent("alice"), vec![add("s1", ContributionKind::Note)])
        .await;
}

pub async fn d9_a_session_has_limits(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let too_long = OpenSession { title: "x".repeat(limits::TITLE_CHARS_MAX + 1), ..open_session("s1", &[]) };
    assert_eq!(
        Commit::new(agent("alice"), vec![Op::OpenSession(too_long)]).check().map_err(|refused| refused.code),
        Err(Code::Invalid)
    );
    let untitled = OpenSession { title: String::new(), ..open_session("s1", &[]) };
    assert!(Commit::new(agent("alice"), vec![Op::OpenSession(untitled)]).check().is_err());
    let too_many = OpenSession {
        participants: vec![id("bob"); limits::SESSION_PARTICIPANTS_MAX + 1],
        ..open_session("s1", &[])
    };
    let refused = Commit::new(agent("alice"), vec![Op::OpenSession(too_many)]).check().expect_err("too many");
    assert_eq!(
        (refused.code, refused.facts.limit),
        (Code::LimitExceeded, Some(limits::SESSION_PARTICIPANTS_MAX as u64))
    );
}
