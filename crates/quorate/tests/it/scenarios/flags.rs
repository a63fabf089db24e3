//! Conduct flags sent as messages.

use std::time::Duration;

use quorate::{Code, MessageRef};
use serde_json::{Value, json};

use super::{TestHub, next};

fn flag() -> Value {
    json!({"message_type": "coc_violation_flag", "privacy_level": "PRIVATE_TO_MODERATORS",
           "violation": {"severity": "high", "violation_type": "harassment"}})
}

/// Returns the raised flags, as moderators read them.
async fn raised_flags(fixture: &TestHub) -> Vec<Value> {
    let space = fixture.embedded.space().expect("an embedded hub");
    let flags = space.engine().flags(space.number()).expect("it keeps flags");
    let (flags, _) = flags.list(None, None, 100).await.expect("a list");
    let reports = flags.iter().map(|flag| flag.flag.as_ref().expect("it was not erased").as_str());
    reports.map(|report| serde_json::from_str(report).expect("JSON")).collect()
}

// Fails under: a library call that bypasses the flag check; a client that does not understand the receipt.
pub(crate) async fn m5_a_sent_flag_is_visible_to_moderators_only(fixture: &TestHub) {
    let alice = fixture.hub.agent("alice").join().await.expect("she joins");
    let bob = fixture.hub.agent("bob").join().await.expect("he joins");
    alice.send("bob", "work", 1).await.expect("sent");
    let work = next(&bob).await;
    let head = || fixture.embedded.space().expect("an embedded hub").published().head.seq;
    let before = head();
    let sent = bob.send("alice", "report", flag()).await.expect("raised");
    assert_eq!((sent.id, sent.seq, sent.deliveries), (MessageRef::Flag, None, None));
    let sent = bob.send("alice", "report", flag()).ephemeral().await.expect("raised");
    assert_eq!(sent.id, MessageRef::Flag);
    for answer in [
        bob.ask("alice", "report", flag()).await,
        bob.ask("alice", "report", flag()).query().ephemeral().await,
    ] {
        assert_eq!(answer.expect_err("no answer").code(), Code::Cancelled);
    }
    assert_eq!(head(), before, "nothing was recorded");
    // The rest of the commit is public.
    bob.step(&work)
        .send("alice", "coc_violation_flag", 1)
        .put("done", "note", 1)
        .commit()
        .await
        .expect("done");
    assert!(fixture.hub.memory().get("done").await.expect("read").is_some());
    assert!(
        alice.receive(Duration::from_millis(1)).await.expect("an answer").is_none(),
        "she receives nothing"
    );
    let flags = raised_flags(fixture).await;
    assert_eq!(flags.len(), 5, "{flags:?}");
    assert_eq!((&flags[0]["payload"], &flags[0]["from"]), (&flag(), &json!("bob")));
    assert_eq!(flags[4]["action"], "coc_violation_flag");
}
