//! Approvals through the library, with a real data directory and a manual clock.

use std::time::Duration;

use quorate::{ApprovalDraft, Code, Hub, HubOptions, ManualClock, PageQuery};
use serde_json::{Value, json};

const START_MS: u64 = 1_800_000_000_000;

// Fails under: a decision whose delivery is lost with the requesting process; a patch that is not applied by an
// embedded hub.
#[tokio::test]
async fn e3_a_decision_reaches_the_requester_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = async || {
        let options = HubOptions { clock: ManualClock::at(START_MS), ..HubOptions::default() };
        Hub::open_with(directory.path().join("team"), options).await.expect("the hub opens")
    };
    let hub = open().await;
    let alice = hub.agent("alice").join().await.expect("joins");
    let draft = ApprovalDraft::new("letter.send", json!({"to": "b@x"})).rationale("it is due", 0.9);
    let id = alice.request_approval(draft).await.expect("asks");
    hub.close().await;

    let hub = open().await;
    let pending = hub.pending_approvals(PageQuery::newest(10)).await.expect("reads").items;
    assert_eq!((pending.len(), &pending[0].id), (1, &id));
    let anna = hub.approver("anna").expect("a name");
    let patch = json!([{"op": "replace", "path": "/to", "value": "legal@x"}]);
    anna.modify(&id, pending[0].digest, &patch, "wrong address").await.expect("decides");
    hub.close().await;

    let hub = open().await;
    let alice = hub.agent("alice").join().await.expect("joins");
    let received = alice.receive(Duration::ZERO).await.expect("works").expect("it is there");
    let decision: Value = received.payload().expect("JSON");
    assert_eq!(decision["action"], json!({"action": "letter.send", "payload": {"to": "legal@x"}}));
    let view = hub.approval(id.as_str()).await.expect("it is there");
    let digest = view.approval().approved_digest.expect("it is approved");
    assert_eq!(decision["digest"], digest.to_string());
    let anna = hub.approver("anna").expect("a name");
    let error = anna.reject(&id, pending[0].digest, "no").await.expect_err("it is decided");
    assert_eq!(error.code(), Code::Conflict);
    hub.close().await;
}
