//! Approvals: an action is proposed by one principal and decided once by another, by the digest of its bytes. The
//! decision and its follow-up messages are one commit.

use quorate_core::{
    AcquireLocks, ActionDigest, Approval, ApprovalId, ApprovalState, Code, Commit, ConsumerEvent, ConsumerId,
    DecideApproval, Item, ItemKey, ItemKind, LeasedDelivery, Op, OpResult, PartRef, Policy, Principal,
    Priority, RequestApproval, Seq, Timestamp, TokenRole, Verdict, WaitMode, limits,
};

use super::builders::{ack, agent, erase, id, idempotency_key, message_to, payload, put_entry, send};
use super::test_bench::{START_MS, TestBench};
use crate::{ReadQuery, ReadResult};

/// Canonical bytes of an action. The store does not check that they are canonical; admission does.
const LETTER: &str = "{\"action\":\"letter.send\",\"payload\":{\"to\":\"b@x\"}}";
const OTHER: &str = "{\"action\":\"letter.send\",\"payload\":{\"to\":\"c@x\"}}";

fn approval_id(name: &str) -> ApprovalId {
    ApprovalId::new(name).expect("valid id")
}

fn digest(text: &str) -> ActionDigest {
    ActionDigest::of(text.as_bytes())
}

fn approval_request(name: Option<&str>) -> RequestApproval {
    RequestApproval {
        id: name.map(approval_id),
        agent: None,
        action: "letter.send".into(),
        document: payload(LETTER),
        rationale: Some("it is due".into()),
        confidence: Some(0.9),
        priority: Priority::default(),
        timeout_ms: 60_000,
        default: "keep the draft".into(),
        session: None,
        follow_ups: Vec::new(),
    }
}

pub(super) fn request_approval(name: &str) -> Op {
    Op::RequestApproval(Box::new(approval_request(Some(name))))
}

fn decision(name: &str, verdict: Verdict) -> DecideApproval {
    DecideApproval { approval: approval_id(name), verdict, digest: digest(LETTER), reason: "so".into() }
}

fn decide(name: &str, verdict: Verdict) -> Op {
    Op::DecideApproval(Box::new(decision(name, verdict)))
}

fn modify(text: &str) -> Verdict {
    Verdict::Modify { patch: payload("[]"), document: Some(payload(text)) }
}

fn holder(role: TokenRole, name: &str) -> Principal {
    Principal::Holder { role, name: name.parse().expect("valid name") }
}

fn anna() -> Principal {
    holder(TokenRole::Approver, "anna")
}

async fn read_approval(bench: &TestBench, name: &str) -> Approval {
    match bench.read(ReadQuery::Item(ItemKey::new(ItemKind::Approval, name))).await {
        ReadResult::Item(Some(Item::Approval(approval))) => *approval,
        other => panic!("not an approval: {other:?}"),
    }
}

async fn state(bench: &TestBench, name: &str) -> &'static str {
    read_approval(bench, name).await.state.as_str()
}

async fn text(bench: &TestBench, PartRef { seq, part }: PartRef) -> String {
    match bench.read(ReadQuery::Part { seq, part, start: 0, length: u64::MAX }).await {
        ReadResult::Part(Some(part)) => String::from_utf8(part.bytes.to_vec()).expect("text"),
        other => panic!("not a part: {other:?}"),
    }
}

/// Returns the action, the payload as text and the record of a delivered message.
async fn received(bench: &TestBench, leased: &LeasedDelivery) -> (String, String, Seq) {
    match bench.read(ReadQuery::Message { seq: leased.seq, n: leased.n }).await {
        ReadResult::Message(Some(stored)) => {
            let text = String::from_utf8(stored.message.payload.bytes.to_vec()).expect("text");
            (stored.message.action.clone(), text, stored.seq)
        }
        other => panic!("not a message: {other:?}"),
    }
}

/// Lets alice request approval `a`.
async fn request_from_alice(bench: &TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_ok(agent("alice"), vec![request_approval("a")]).await;
}

pub async fn e3_an_approval_records_its_action_requester_and_deadline(bench: TestBench) {
    bench.register_all(&["alice"]).await;
    let receipt = bench
        .commit_ok(
            agent("alice"),
            vec![Op::RequestApproval(Box::new(approval_request(None))), request_approval("a")],
        )
        .await;
    let generated_id = approval_id(&format!("apr_0-{}-0", receipt.seq.expect("a record")));
    let expires_at = Timestamp(START_MS + 60_000);
    assert_eq!(
        receipt.results[0],
        OpResult::ApprovalRequested { id: generated_id.clone(), digest: digest(LETTER), expires_at }
    );
    let approval = read_approval(&bench, generated_id.as_str()).await;
    assert_eq!((approval.requested_by.as_str(), approval.state.as_str()), ("agent:alice", "pending"));
    assert_eq!((approval.expires_at, approval.digest), (expires_at, digest(LETTER)));
    assert_eq!(text(&bench, approval.document).await, LETTER);
}

pub async fn i14_a_decision_must_name_the_digest_of_the_pending_action(bench: TestBench) {
    request_from_alice(&bench).await;
    let other = DecideApproval { digest: digest(OTHER), ..decision("a", Verdict::Approve) };
    let ops = vec![Op::Put(put_entry("note", "1")), Op::DecideApproval(Box::new(other))];
    bench.commit_refused_with(Code::Conflict, holder(TokenRole::Admin, "eve"), ops).await;
    assert_eq!(state(&bench, "a").await, "pending");
    let receipt = bench.commit_ok(anna(), vec![decide("a", Verdict::Approve)]).await;
    let seq = receipt.seq.expect("a record");
    assert_eq!(
        receipt.results,
        [OpResult::ApprovalDecided { seq, state: "approved", digest: digest(LETTER) }]
    );
    let approval = read_approval(&bench, "a").await;
    let decision = approval.state.decision().expect("it is decided");
    assert_eq!((decision.by.as_str(), decision.reason.as_str()), ("approver:anna", "so"));
    bench.commit_refused_with(Code::NotFound, anna(), vec![decide("never", Verdict::Approve)]).await;
}

pub async fn e3_a_decision_and_its_notification_are_one_commit(bench: TestBench) {
    request_from_alice(&bench).await;
    let admin = holder(TokenRole::Admin, "root");
    let receipt =
        bench.commit_ok(admin, vec![decide("a", Verdict::Approve), Op::Put(put_entry("sent", "1"))]).await;
    let leased = bench.claim_one("alice").await;
    let (action, text, seq) = received(&bench, &leased).await;
    assert_eq!((action.as_str(), Some(seq)), ("approval.decided", receipt.seq));
    let (digest, expected) = (digest(LETTER), LETTER);
    let expected_text = format!(
        "{{\"approval\":\"a\",\"state\":\"approved\",\"digest\":\"{digest}\",\"agent\":\"alice\",\
         \"decidedBy\":\"admin:root\",\"reason\":\"so\",\"action\":{expected}}}"
    );
    assert_eq!(text, expected_text);
    // The notification is delivered exactly once.
    bench.commit_ok(agent("alice"), vec![ack(&leased)]).await;
    assert_eq!(bench.claim("alice", 1).await, vec![]);
}

pub async fn e3_an_approved_action_is_sent_to_its_recipients(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let follow_ups = vec![(id("bob"), "letter.send".to_owned())];
    for name in ["a", "b", "c"] {
        let request = RequestApproval { follow_ups: follow_ups.clone(), ..approval_request(Some(name)) };
        bench.commit_ok(agent("alice"), vec![Op::RequestApproval(Box::new(request))]).await;
    }
    bench.commit_ok(anna(), vec![decide("a", Verdict::Reject)]).await;
    assert_eq!(bench.claim("bob", 1).await, vec![], "a rejected action is not sent");
    let receipt = bench.commit_ok(anna(), vec![decide("b", modify(OTHER))]).await;
    let (action, text, seq) = received(&bench, &bench.claim_one("bob").await).await;
    assert_eq!((action.as_str(), Some(seq)), ("letter.send", receipt.seq));
    assert!(text.ends_with(&format!("\"action\":{OTHER}}}")), "{text}");
    assert_eq!(bench.claim("alice", 5).await.len(), 2);
    // An action whose recipient is gone cannot be approved.
    bench.commit_ok(agent("bob"), vec![Op::Purge { agent: id("bob") }]).await;
    let leased = bench.claim("bob", 5).await;
    assert_eq!(leased, vec![]);
    bench.commit_ok(Principal::System, vec![Op::RemoveAgent { agent: id("bob") }]).await;
    bench.commit_refused_with(Code::UnknownRecipient, anna(), vec![decide("c", Verdict::Approve)]).await;
    assert_eq!(state(&bench, "c").await, "pending");
    bench.commit_ok(anna(), vec![decide("c", Verdict::Reject)]).await;
}

pub async fn e3_a_modified_action_is_approved_as_modified(bench: TestBench) {
    request_from_alice(&bench).await;
    bench.commit_refused_with(Code::Invalid, anna(), vec![decide("a", modify(LETTER))]).await;
    let nothing = Verdict::Modify { patch: payload("[]"), document: None };
    bench.commit_refused_with(Code::Invalid, anna(), vec![decide("a", nothing)]).await;
    bench.commit_ok(anna(), vec![decide("a", modify(OTHER))]).await;
    let approval = read_approval(&bench, "a").await;
    let (part, now) = approval.approved_action().expect("it is approved");
    assert_eq!((text(&bench, part).await.as_str(), now), (OTHER, digest(OTHER)));
    assert_eq!((approval.digest, approval.state.as_str()), (digest(LETTER), "modified"));
}

pub async fn i14_a_principal_cannot_decide_its_own_request(bench: TestBench) {
    bench.register_all(&["alice"]).await;
    let own = |principal: Principal| (principal.clone(), principal);
    // Tokens of the same name count as the same principal, whatever their role. The rule applies to the hub too.
    let pairs = [
        own(holder(TokenRole::Admin, "root")),
        own(Principal::System),
        (holder(TokenRole::Operator, "anna"), anna()),
        (holder(TokenRole::Admin, "anna"), anna()),
    ];
    for (number, (requester, decider)) in pairs.into_iter().enumerate() {
        let name = format!("a{number}");
        // A request on behalf of an agent counts as well.
        let request = RequestApproval { agent: Some(id("alice")), ..approval_request(Some(&name)) };
        bench.commit_ok(requester, vec![Op::RequestApproval(Box::new(request))]).await;
        bench.commit_refused_with(Code::Forbidden, decider, vec![decide(&name, Verdict::Approve)]).await;
        bench.commit_ok(holder(TokenRole::Approver, "otto"), vec![decide(&name, Verdict::Approve)]).await;
    }
}

pub async fn i14_only_approvers_and_admins_may_decide(bench: TestBench) {
    request_from_alice(&bench).await;
    let others = [
        agent("alice"),
        agent("bob"),
        holder(TokenRole::Operator, "olga"),
        holder(TokenRole::Moderator, "mia"),
        holder(TokenRole::Viewer, "vera"),
    ];
    for other in others {
        bench.commit_refused_with(Code::Forbidden, other, vec![decide("a", Verdict::Approve)]).await;
    }
    bench.commit_refused_with(Code::Forbidden, anna(), vec![request_approval("b")]).await;
    bench.commit_ok(anna(), vec![decide("a", Verdict::Reject)]).await;
}

pub async fn i14_a_decided_approval_is_immutable(bench: TestBench) {
    request_from_alice(&bench).await;
    bench.commit_ok(anna(), vec![decide("a", Verdict::Reject)]).await;
    let before = read_approval(&bench, "a").await;
    for verdict in [Verdict::Approve, Verdict::Reject, modify(OTHER)] {
        bench.commit_refused_with(Code::Conflict, anna(), vec![decide("a", verdict)]).await;
    }
    bench.advance_secs(120);
    bench.sweep().await;
    assert_eq!(read_approval(&bench, "a").await, before);
}

pub async fn i3_a_replayed_decision_is_applied_once_and_returns_the_same_receipt(bench: TestBench) {
    request_from_alice(&bench).await;
    let keyed = |verdict| Commit::new(anna(), vec![decide("a", verdict)]).keyed(idempotency_key("k"));
    let first = bench.commit(keyed(Verdict::Approve)).await.expect("the commit is accepted");
    let replayed = bench.commit(keyed(Verdict::Approve)).await.expect("the commit is accepted");
    assert_eq!(first, replayed);
    let other = bench.commit(keyed(Verdict::Reject)).await.expect_err("the commit is refused");
    assert_eq!(other.code, Code::Duplicate);
    assert_eq!(bench.claim("alice", 5).await.len(), 1);
}

pub async fn i14_a_timed_out_approval_is_expired_not_rejected(bench: TestBench) {
    request_from_alice(&bench).await;
    assert_eq!(bench.published().wake.wall, Some(Timestamp(START_MS + 60_000)));
    bench.advance_secs(60);
    // A late decision is refused even before the sweep has expired the approval.
    bench.commit_refused_with(Code::Expired, anna(), vec![decide("a", Verdict::Approve)]).await;
    let receipt = bench.sweep().await;
    let approval = read_approval(&bench, "a").await;
    assert_eq!(approval.state.as_str(), "expired");
    assert_eq!((approval.state.decision(), approval.approved_action()), (None, None));
    bench.commit_refused_with(Code::Expired, anna(), vec![decide("a", Verdict::Reject)]).await;
    let (action, text, seq) = received(&bench, &bench.claim_one("alice").await).await;
    assert_eq!((action.as_str(), Some(seq)), ("approval.decided", receipt.seq));
    assert!(
        text.contains("\"state\":\"expired\"") && text.contains("\"default\":\"keep the draft\""),
        "{text}"
    );
    assert!(!text.contains("\"action\""), "{text}");
}

pub async fn e3_a_pending_approval_survives_a_restart(mut bench: TestBench) {
    request_from_alice(&bench).await;
    bench.commit_ok(agent("alice"), vec![request_approval("b")]).await;
    bench.commit_ok(anna(), vec![decide("b", Verdict::Approve)]).await;
    let before = (read_approval(&bench, "a").await, read_approval(&bench, "b").await);
    bench.reopen().await;
    assert_eq!((read_approval(&bench, "a").await, read_approval(&bench, "b").await), before);
    bench.commit_refused_with(Code::Conflict, anna(), vec![decide("b", Verdict::Approve)]).await;
    bench.advance_secs(60);
    bench.sweep().await;
    assert_eq!(state(&bench, "a").await, "expired");
}

pub async fn e3_a_repeated_approval_request_is_idempotent(bench: TestBench) {
    request_from_alice(&bench).await;
    bench.advance_secs(5);
    let repeated = bench.commit_ok(agent("alice"), vec![request_approval("a")]).await;
    assert_eq!(repeated.seq, None);
    let others = [
        RequestApproval { document: payload(OTHER), ..approval_request(Some("a")) },
        RequestApproval { timeout_ms: 61_000, ..approval_request(Some("a")) },
        RequestApproval { default: String::new(), ..approval_request(Some("a")) },
        RequestApproval { follow_ups: vec![(id("bob"), "x".into())], ..approval_request(Some("a")) },
    ];
    for other in others {
        bench
            .commit_refused_with(Code::Duplicate, agent("alice"), vec![Op::RequestApproval(Box::new(other))])
            .await;
    }
    bench.commit_refused_with(Code::Duplicate, agent("bob"), vec![request_approval("a")]).await;
}

pub async fn i14_an_erased_action_cannot_be_approved(bench: TestBench) {
    request_from_alice(&bench).await;
    let document = read_approval(&bench, "a").await.document;
    bench.commit_ok(Principal::System, vec![erase(document.seq, document.part)]).await;
    bench.commit_refused_with(Code::Conflict, anna(), vec![decide("a", Verdict::Approve)]).await;
    bench.commit_ok(anna(), vec![decide("a", Verdict::Reject)]).await;
}

pub async fn c1_an_approval_does_not_bypass_the_policy(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let request =
        RequestApproval { follow_ups: vec![(id("bob"), "work".into())], ..approval_request(Some("a")) };
    bench.commit_ok(agent("alice"), vec![Op::RequestApproval(Box::new(request.clone()))]).await;
    bench.commit_ok(Principal::System, vec![Op::SetPolicy(Policy::supervised())]).await;
    bench.commit_refused_with(Code::PolicyViolation, anna(), vec![decide("a", Verdict::Approve)]).await;
    let another = RequestApproval { id: Some(approval_id("b")), ..request };
    bench
        .commit_refused_with(
            Code::PolicyViolation,
            agent("alice"),
            vec![Op::RequestApproval(Box::new(another))],
        )
        .await;
    // E6: a supervised space requires a confidence and a rationale.
    let without_confidence = RequestApproval { confidence: None, ..approval_request(Some("c")) };
    bench
        .commit_refused_with(
            Code::PolicyViolation,
            agent("alice"),
            vec![Op::RequestApproval(Box::new(without_confidence))],
        )
        .await;
    bench.commit_ok(agent("alice"), vec![request_approval("d")]).await;
}

pub async fn e3_invalid_approval_requests_are_refused(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_ok(agent("alice"), vec![send("alice", message_to("bob"))]).await;
    let large = "1".repeat(limits::APPROVAL_BYTES_MAX + 1);
    let requests = [
        (Code::Invalid, approval_request(Some("apr_0-1-0"))),
        (Code::Invalid, RequestApproval { action: String::new(), ..approval_request(None) }),
        (Code::Invalid, RequestApproval { confidence: Some(7.0), ..approval_request(None) }),
        (Code::Invalid, RequestApproval { timeout_ms: 999, ..approval_request(None) }),
        (
            Code::Invalid,
            RequestApproval { timeout_ms: limits::APPROVAL_MS_MAX + 1, ..approval_request(None) },
        ),
        (Code::TooLarge, RequestApproval { document: payload(&large), ..approval_request(None) }),
        (
            Code::LimitExceeded,
            RequestApproval { follow_ups: vec![(id("bob"), "x".into()); 17], ..approval_request(None) },
        ),
    ];
    for (code, request) in requests {
        let commit = Commit::new(agent("alice"), vec![Op::RequestApproval(Box::new(request))]);
        assert_eq!(commit.check().expect_err("the commit is refused").code, code);
    }
    let without_reason = DecideApproval { reason: " ".into(), ..decision("a", Verdict::Reject) };
    let commit = Commit::new(anna(), vec![Op::DecideApproval(Box::new(without_reason))]);
    assert_eq!(commit.check().expect_err("the commit is refused").code, Code::Invalid);
    let unknown = RequestApproval { follow_ups: vec![(id("nobody"), "x".into())], ..approval_request(None) };
    bench
        .commit_refused_with(Code::NotFound, agent("alice"), vec![Op::RequestApproval(Box::new(unknown))])
        .await;
    let other = RequestApproval { agent: Some(id("bob")), ..approval_request(None) };
    bench
        .commit_refused_with(Code::Forbidden, agent("alice"), vec![Op::RequestApproval(Box::new(other))])
        .await;
    assert_eq!(ApprovalState::NAMES.len(), 5);
}

fn lock(agent_id: &str, name: &str, wait: WaitMode) -> Op {
    Op::AcquireLocks(AcquireLocks {
        agent: id(agent_id),
        names: vec![name.parse().expect("valid name")],
        ttl_ms: 60_000,
        priority: Priority::NORMAL,
        capacity: None,
        wait,
        within: None,
    })
}

/// Returns the consumers whose wait was cancelled because of a deadlock.
fn deadlocked(bench: &TestBench) -> Vec<ConsumerId> {
    let is_deadlock = |event: &ConsumerEvent| match event {
        ConsumerEvent::Refused(refused) => refused.code == Code::Deadlock,
        _ => false,
    };
    bench.consumer_events().into_iter().filter(|(_, event)| is_deadlock(event)).map(|(id, _)| id).collect()
}

pub async fn d8_waiting_for_an_approval_is_not_a_deadlock(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_ok(agent("alice"), vec![lock("alice", "x", WaitMode::NoWait)]).await;
    bench.commit_ok(agent("bob"), vec![lock("bob", "y", WaitMode::NoWait)]).await;
    let long = RequestApproval { timeout_ms: 120_000, ..approval_request(Some("a")) };
    bench.commit_ok(agent("alice"), vec![Op::RequestApproval(Box::new(long))]).await;
    // bob waits for alice, who waits for a person: no cycle, the wait can end.
    bench.commit_ok(agent("bob"), vec![lock("bob", "x", WaitMode::Once(ConsumerId(1)))]).await;
    bench.advance_secs(2);
    bench.sweep().await;
    assert_eq!(deadlocked(&bench), vec![]);
    // alice also waits for bob: a cycle. Its youngest wait is cancelled, not the wait for a person.
    bench.commit_ok(agent("alice"), vec![lock("alice", "y", WaitMode::Once(ConsumerId(2)))]).await;
    bench.advance_secs(2);
    bench.sweep().await;
    assert_eq!(deadlocked(&bench), vec![ConsumerId(2)]);
    assert_eq!(state(&bench, "a").await, "pending");
    bench.commit_ok(anna(), vec![decide("a", Verdict::Approve)]).await;
}
