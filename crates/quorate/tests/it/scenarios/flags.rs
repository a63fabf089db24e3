//! Conduct flags that are sent as messages.

use std::time::Duration;

use quorate::{Code, MessageRef};
use serde_json::{Value, json};

use super::{Stage, next};

fn flag() -> Value {
    json!({"message_type": "coc_violation_flag", "privacy_level": "PRIVATE_TO_MODERATORS",
           "violation": {"severity": "high", "violation_type": "harassment"}})
}

/// What was raised, as moderators read it.
async fn raised(stage: &Stage) -> Vec<Value> {
    let space = stage.inside.space().expect("a hub in this process");
    let flags = space.engine().flags(space.number()).expect("it keeps flags");
    let (flags, _) = flags.list(None, None, 100).await.expect("a list");
    let about = flags.iter().map(|flag| flag.about.as_ref().expect("it was not erased").get());
    about.map(|about| serde_json::from_str(about).expect("JSON")).collect()
}

// Fails under: a way of the library that goes around the door; a client that does not know the answer.
pub(crate) async fn m5_a_flag_that_is_sent_is_for_moderators_only(stage: &Stage) {
    let alice = stage.hub.agent("alice").join().await.expect("she joins");
    let bob = stage.hub.agent("bob").join().await.expect("he joins");
    alice.send("bob", "work", 1).await.expect("sent");
    let work = next(&bob).await;
    let head = || stage.inside.space().expect("a hub in this process").published().head.seq;
    let before = head();
    let sent = bob.send("alice", "report", flag()).await.expect("raised");
    assert_eq!((sent.id, sent.seq, sent.deliveries), (MessageRef::Flag, None, None));
    let sent = bob.send("alice", "report", flag()).ephemeral().await.expect("raised");
    assert_eq!(sent.id, MessageRef::Flag);
    for asked in [
        bob.ask("alice", "report", flag()).await,
        bob.ask("alice", "report", flag()).query().ephemeral().await,
    ] {
        assert_eq!(asked.expect_err("nobody answers").code(), Code::Cancelled);
    }
    assert_eq!(head(), before, "nothing was recorded");
    // The rest of the step is public.
    bob.step(&work)
        .send("alice", "coc_violation_flag", 1)
        .put("done", "note", 1)
        .commit()
        .await
        .expect("done");
    assert!(stage.hub.memory().get("done").await.expect("read").is_some());
    assert!(
        alice.receive(Duration::from_millis(1)).await.expect("an answer").is_none(),
        "she hears of nothing"
    );
    let told = raised(stage).await;
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!((&told[0]["payload"], &told[0]["from"]), (&flag(), &json!("bob")));
    assert_eq!(told[4]["action"], "coc_violation_flag");
}
