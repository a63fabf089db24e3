//! Approvals: reading, deciding and waiting.

use std::time::Duration;

use quorate::{ApprovalDraft, ApprovalStatus, Code, PageQuery};
use serde_json::{Value, json};

use super::{SOON, TestHub};

// Fails under: a wait that ends before the decision, or not after it; bytes that differ from the proposed or approved
// ones; a list of pending approvals that contains decided ones.
pub(crate) async fn e3_a_decision_is_read_and_awaited(fixture: &TestHub) {
    let TestHub { hub, embedded } = fixture;
    let alice = hub.agent("alice").join().await.expect("she joins");
    hub.agent("mailer").join().await.expect("it joins");
    let draft = |to: &str| {
        let draft = ApprovalDraft::new("letter.send", json!({"to": to})).rationale("it is due", 0.9);
        draft.on_approval("mailer", "mail")
    };
    let id = alice.request_approval(draft("b@x")).await.expect("asks");
    let other = alice.request_approval(draft("c@x").timeout(SOON * 3, "wait")).await.expect("asks");

    let pending = hub.pending_approvals(PageQuery::newest(10)).await.expect("reads");
    assert_eq!(pending, embedded.pending_approvals(PageQuery::newest(10)).await.expect("reads"));
    assert_eq!(pending.items.iter().map(|approval| &approval.id).collect::<Vec<_>>(), [&other, &id]);
    let first = hub.pending_approvals(PageQuery::oldest(1)).await.expect("reads");
    assert_eq!(first.items[0].id, id);
    let rest = hub.pending_approvals(PageQuery::oldest(10).after(first.cursor)).await.expect("reads");
    assert_eq!(rest.items[0].id, other);
    let approval = hub.approval(id.as_str()).await.expect("it is there");
    assert_eq!(approval, embedded.approval(id.as_str()).await.expect("it is there"));
    assert!(approval.is_pending());
    assert_eq!(approval.document(), br#"{"action":"letter.send","payload":{"to":"b@x"}}"#);
    assert_eq!(approval.payload::<Value>().expect("JSON"), json!({"to": "b@x"}));
    assert_eq!(approval.approved_payload::<Value>().expect("JSON"), None);

    let mut decision = Box::pin(hub.wait_for_decision(id.as_str()));
    // Long enough to detect a wait that returns immediately.
    let early = tokio::time::timeout(Duration::from_millis(100), &mut decision).await;
    assert!(early.is_err(), "not decided yet: {early:?}");
    let anna = embedded.approver("anna").expect("a name");
    let patch = json!([{"op": "replace", "path": "/to", "value": "legal@x"}]);
    anna.modify(&id, approval.approval().digest, &patch, "wrong address").await.expect("decides");
    let decided = tokio::time::timeout(SOON, decision).await.expect("in time").expect("it is decided");
    assert_eq!(decided, embedded.approval(id.as_str()).await.expect("it is there"));
    let approval = decided.approval();
    assert_eq!(approval.state, ApprovalStatus::Modified);
    assert_eq!(approval.decided_by.as_deref(), Some("approver:anna"));
    assert_eq!(approval.reason.as_deref(), Some("wrong address"));
    assert_eq!(decided.approved_payload::<Value>().expect("JSON"), Some(json!({"to": "legal@x"})));
    assert_ne!(decided.approval().approved_digest, Some(decided.approval().digest));

    // A decision through the hub under test, embedded or remote.
    let digest = hub.approval(other.as_str()).await.expect("it is there").approval().digest;
    let error = anna.approve(&other, decided.approval().digest, "").await.expect_err("other bytes");
    assert_eq!(error.code(), Code::Conflict);
    hub.approver("berta").expect("a name").reject(&other, digest, "not now").await.expect("decides");
    let decided = hub.wait_for_decision(other.as_str()).await.expect("it is decided");
    assert_eq!(decided.status(), ApprovalStatus::Rejected);
    assert_eq!(decided.approved_document(), None);
    assert_eq!(hub.pending_approvals(PageQuery::newest(10)).await.expect("reads").items, []);

    let short = draft("d@x").timeout(Duration::from_secs(1), "leave it");
    let id = alice.request_approval(short).await.expect("asks");
    let expired =
        tokio::time::timeout(SOON, hub.wait_for_decision(id.as_str())).await.expect("in time").expect("over");
    assert_eq!(
        (expired.status(), expired.approval().default.as_str()),
        (ApprovalStatus::Expired, "leave it")
    );
    let error = hub.wait_for_decision("apr_0-9999-0").await.expect_err("no such approval");
    assert_eq!(error.code(), Code::NotFound);
}
