//! Requests to one and to several recipients, and how they end.

use std::time::Duration;

use quorate::{Code, Hub, MessageId, Policy, TaskDraft, Work};

use super::{SOON, TestHub, next};

async fn doubler(hub: &Hub, id: &str) -> quorate::RunningAgent {
    let double = |work: Work<u64>| async move { Ok(work.payload * 2) };
    hub.agent(id).on("double", double).run().await.expect("it runs")
}

/// Waits until the hub reports a request as ended.
async fn until_ended(hub: &Hub, request: MessageId) -> String {
    let ended = async {
        loop {
            let why = hub.why(&request.to_string()).await.expect("there");
            if why.state != "waiting" {
                return why.state.to_string();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, ended).await.expect("in time")
}

// Fails under: an answer that is lost or returned twice; a missing answer that hides the others.
pub(crate) async fn several_recipients_are_asked_concurrently(fixture: &TestHub) {
    let hub = &fixture.hub;
    let (first, second) = (doubler(hub, "one").await, doubler(hub, "two").await);
    let silent = hub.agent("silent").join().await.expect("it joins");
    let alice = hub.agent("alice").join().await.expect("she joins");
    let replies = alice.ask_all(["one", "two"], "double", 4).timeout(SOON).all().await.expect("asked");
    let mut from: Vec<_> = replies.answers.iter().map(|reply| reply.sender().to_owned()).collect();
    from.sort();
    assert_eq!((from, replies.incomplete.is_none()), (vec!["one".to_owned(), "two".to_owned()], true));
    assert!(replies.answers.iter().all(|reply| reply.payload::<u64>().expect("a number") == 8));
    let partial = alice.ask_all(["one", "silent"], "double", 5).timeout(Duration::from_millis(500));
    let partial = partial.all().await.expect("asked");
    assert_eq!(partial.answers.iter().map(quorate::Reply::sender).collect::<Vec<_>>(), ["one"]);
    assert_eq!(partial.incomplete.expect("one is silent").code(), Code::Timeout);
    let error = alice.ask_all(["one", "unknown"], "double", 6).all().await.expect_err("unknown recipient");
    assert_eq!(error.code(), Code::UnknownRecipient);
    drop(silent);
    first.stop().await.expect("stopped");
    second.stop().await.expect("stopped");
}

// Fails under: answer metadata that is lost, durable or ephemeral; a repeated field whose first value wins.
pub(crate) async fn an_answer_carries_metadata(fixture: &TestHub) {
    let double = |work: Work<u64>| async move {
        work.answer_metadata("usage", serde_json::json!({"calls": 1}));
        work.answer_metadata("notes", ["doubled"]);
        work.answer_metadata("usage", serde_json::json!({"calls": 2}));
        Ok(work.payload * 2)
    };
    let bob = fixture.hub.agent("bob").on("double", double).run().await.expect("he runs");
    let alice = fixture.hub.agent("alice").join().await.expect("she joins");
    let durable = alice.ask("bob", "double", 4).timeout(SOON).await.expect("an answer");
    let ephemeral = alice.ask("bob", "double", 4).ephemeral().timeout(SOON).await.expect("an answer");
    for reply in [durable, ephemeral] {
        let metadata: serde_json::Value =
            serde_json::from_str(reply.message().metadata.as_deref().expect("metadata")).expect("JSON");
        assert_eq!(metadata, serde_json::json!({"usage": {"calls": 2}, "notes": ["doubled"]}));
        assert_eq!(reply.payload::<u64>().expect("a number"), 8);
    }
    bob.stop().await.expect("stopped");
}

// Fails under: an answer without the confidence and the rationale that its handler states; an invalid confidence that is
// sent, or a long rationale that is refused.
pub(crate) async fn m1_an_answer_states_its_confidence_and_its_rationale(fixture: &TestHub) {
    fixture
        .hub
        .set_policy(Policy { confidence: true, rationale: true, ..Policy::mesh() })
        .await
        .expect("a policy");
    let answer = |work: Work<f64>| async move {
        let confidence = work.payload;
        if confidence > 2.0 {
            work.answer_rationale("the input is unreadable");
            return Ok(serde_json::json!({"error": "unreadable"}));
        }
        work.answer_confidence(confidence);
        work.answer_rationale("é".repeat(2_000));
        Ok(serde_json::json!({"double": confidence * 2.0}))
    };
    let bob = fixture.hub.agent("bob").on("double", answer).run().await.expect("he runs");
    let alice = fixture.hub.agent("alice").join().await.expect("she joins");
    for durability in ["durable", "ephemeral"] {
        let ask = |payload: f64| {
            let ask = alice.ask("bob", "double", payload).timeout(SOON);
            if durability == "durable" { ask } else { ask.ephemeral() }
        };
        let reply = ask(0.25).await.expect("an answer");
        let message = reply.message();
        assert_eq!(message.confidence, Some(0.25), "{durability}");
        assert_eq!(message.rationale.as_deref(), Some("é".repeat(1_000).as_str()), "{durability}");
        let failed = ask(3.0).await.expect("an answer");
        let message = failed.message();
        assert_eq!(message.confidence, None, "{durability}");
        assert_eq!(message.rationale.as_deref(), Some("the input is unreadable"), "{durability}");
    }
    alice.ask("bob", "double", 1.5).timeout(SOON).await.expect_err("an invalid confidence is not sent");
    bob.stop().await.expect("stopped");
}

// Fails under: a request that continues after the requester dropped it; a wait that sends the request again.
pub(crate) async fn a_request_can_be_cancelled_or_resumed(fixture: &TestHub) {
    let hub = &fixture.hub;
    let alice = hub.agent("alice").join().await.expect("she joins");
    let bob = hub.agent("bob").join().await.expect("he joins");
    let request = alice.ask("bob", "double", 1).timeout(SOON).start().await.expect("asked");
    let id = request.id();
    request.cancel().await.expect("cancelled");
    assert_eq!(until_ended(&fixture.embedded, id).await, "cancelled");
    let error = alice.wait_for_answer(id).await.expect_err("it was cancelled");
    assert_eq!(error.code(), Code::Cancelled);
    let dropped = alice.ask("bob", "double", 2).timeout(SOON).start().await.expect("asked");
    let id = dropped.id();
    drop(dropped);
    assert_eq!(until_ended(&fixture.embedded, id).await, "cancelled");
    let request = alice.ask("bob", "double", 3).timeout(SOON).start().await.expect("asked");
    alice.cancel_request(request.id()).await.expect("cancelled");
    assert_eq!(until_ended(&fixture.embedded, request.id()).await, "cancelled");
    assert!(bob.receive(Duration::ZERO).await.expect("read").is_none(), "unclaimed deliveries are withdrawn");

    let mut request = alice.ask("bob", "double", 4).timeout(SOON).start().await.expect("asked");
    let id = request.id();
    let again = hub.agent("alice").join().await.expect("she registers again");
    let error = tokio::time::timeout(SOON, request.answer()).await.expect("in time");
    assert_eq!(error.expect_err("that epoch is stale").code(), Code::StaleEpoch);
    drop(request);
    let waiting = tokio::spawn(async move { again.wait_for_answer(id).await });
    let answering = doubler(hub, "bob").await;
    let reply =
        tokio::time::timeout(SOON, waiting).await.expect("in time").expect("a task").expect("an answer");
    assert_eq!((reply.payload::<u64>().expect("a number"), reply.sender()), (8, "bob"));
    answering.stop().await.expect("stopped");
    let bob = hub.agent("bob").join().await.expect("he joins again");
    let error = bob.wait_for_answer(id).await.expect_err("he did not ask");
    assert!(matches!(error.code(), Code::Forbidden | Code::NotFound), "{error}");
}

// Fails under: a request that is not retried; an ephemeral message that does not reach a joined agent.
pub(crate) async fn requests_are_retried_and_ephemeral_messages_arrive(fixture: &TestHub) {
    let hub = &fixture.hub;
    let alice = hub.agent("alice").join().await.expect("she joins");
    let bob = hub.agent("bob").join().await.expect("he joins");
    let request = {
        let alice = alice.clone();
        tokio::spawn(async move {
            alice.ask("bob", "double", 1).query().timeout(Duration::from_millis(200)).retries(3).await
        })
    };
    let first = next(&bob).await;
    // The first attempt is ignored; the retry is answered.
    let answering = doubler(hub, "bob").await;
    let reply = tokio::time::timeout(SOON, request).await.expect("in time").expect("a task");
    assert_eq!(reply.expect("an answer").payload::<u64>().expect("a number"), 2);
    assert_eq!(first.payload::<u64>().expect("a number"), 1);
    answering.stop().await.expect("stopped");

    let bob = hub.agent("bob").join().await.expect("he joins again");
    alice.send("bob", "note", "now").ephemeral().await.expect("sent");
    let note = next(&bob).await;
    assert_eq!(note.payload::<String>().expect("a text"), "now");
    let waiting = {
        let bob = bob.clone();
        tokio::spawn(async move { bob.receive(SOON).await })
    };
    alice.send("bob", "note", "later").ephemeral().await.expect("sent");
    let note = tokio::time::timeout(SOON, waiting).await.expect("in time").expect("a task");
    assert_eq!(note.expect("read").expect("a note").payload::<String>().expect("a text"), "later");
}

// Fails under: two agents that wait for each other forever.
pub(crate) async fn a_deadlock_is_broken(fixture: &TestHub) {
    let hub = &fixture.hub;
    let alice = hub.agent("alice").capability("cook").join().await.expect("she joins");
    let bob = hub.agent("bob").capability("bake").join().await.expect("he joins");
    let ids = alice.create_tasks([TaskDraft::new("cook", 1), TaskDraft::new("bake", 2)]).await.expect("made");
    alice.claim_task(&[], SOON).await.expect("read").expect("a task");
    bob.claim_task(&[], SOON).await.expect("read").expect("a task");
    let wait = |agent: &quorate::Agent, id: &quorate::TaskId| {
        let (agent, id) = (agent.clone(), id.clone());
        tokio::spawn(async move { agent.wait_for_task(&id, SOON).await })
    };
    let (mut first_wait, mut second_wait) = (wait(&alice, &ids[1]), wait(&bob, &ids[0]));
    let first = tokio::time::timeout(SOON, async {
        tokio::select! { ended = &mut first_wait => ended, ended = &mut second_wait => ended }
    });
    let error = first.await.expect("in time").expect("a task").expect_err("one wait is broken");
    assert_eq!(error.code(), Code::Deadlock, "{error}");
    assert_eq!(error.refusal().expect("a refusal").facts.cycle.len(), 2);
    first_wait.abort();
    second_wait.abort();

    let (door, window) =
        (alice.lock(["door"]).await.expect("held"), bob.lock(["window"]).await.expect("held"));
    let lock = |agent: &quorate::Agent, name: &'static str| {
        let agent = agent.clone();
        tokio::spawn(async move { agent.lock([name]).timeout(SOON).await.map(drop) })
    };
    let (mut first_wait, mut second_wait) = (lock(&alice, "window"), lock(&bob, "door"));
    let first = tokio::time::timeout(SOON, async {
        tokio::select! { ended = &mut first_wait => ended, ended = &mut second_wait => ended }
    });
    let error = first.await.expect("in time").expect("a task").expect_err("one wait is broken");
    assert_eq!(error.code(), Code::Deadlock, "{error}");
    first_wait.abort();
    second_wait.abort();
    drop((door, window));
}
