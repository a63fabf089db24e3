//! Delegated answers: a recipient of a request passes it on, and another agent answers the requester.

use quorate_core::{
    AnswerFrom, Code, ConsumerEvent, ConsumerId, Item, ItemKey, ItemKind, Message, MessageId, MessageType,
    Op, OpResult, Request, RequestState, SendRequest, limits,
};

use super::builders::{
    agent, dead_letter, id, message_to, message_to_several, payload, send, with_client_id,
};
use super::test_bench::TestBench;
use crate::{ReadQuery, ReadResult};

/// Sends a request of alice to bob with the correlation id `c1` and returns its id.
async fn ask(bench: &TestBench, answer_from: AnswerFrom) -> MessageId {
    let message = Message { from: Some(id("alice")), correlation_id: Some("c1".into()), ..message_to("bob") };
    let request = SendRequest::new(message, None, Some(ConsumerId(7)));
    let op = Op::Request(SendRequest { answer_from, ..request });
    match bench.commit_ok(agent("alice"), vec![op]).await.results[..] {
        [OpResult::Requested { id, .. }] => id,
        ref other => panic!("not a request: {other:?}"),
    }
}

/// Builds a message of the chain.
fn passed_on(to: &str) -> Message {
    Message { correlation_id: Some("c1".into()), hops: 1, ..message_to(to) }
}

/// Sends the response of an agent to alice, and returns whether it ended the request.
async fn answer(bench: &TestBench, from: &str, message: Message) -> bool {
    let message = Message { kind: MessageType::Response, ..message };
    let receipt = bench.commit_ok(agent(from), vec![send(from, message)]).await;
    match receipt.results[..] {
        [OpResult::Replied { late, .. }] => !late,
        [OpResult::Sent { .. }] => false,
        ref other => panic!("not a response: {other:?}"),
    }
}

fn to_alice() -> Message {
    Message { correlation_id: Some("c1".into()), ..message_to("alice") }
}

async fn read_request(bench: &TestBench, id: MessageId) -> Request {
    match bench.read(ReadQuery::Item(ItemKey::new(ItemKind::Request, id.to_string()))).await {
        ReadResult::Item(Some(Item::Request(request))) => request,
        other => panic!("not a request: {other:?}"),
    }
}

const AGENTS: [&str; 5] = ["alice", "bob", "carol", "dave", "eve"];

pub async fn the_last_agent_of_a_chain_answers_the_request(mut bench: TestBench) {
    bench.register_all(&AGENTS).await;
    let request = ask(&bench, AnswerFrom::Chain).await;
    bench.send_as("bob", passed_on("carol")).await;
    bench.reopen().await;
    let to_dave = bench.send_as("carol", Message { hops: 2, ..passed_on("dave") }).await;
    assert!(!answer(&bench, "eve", to_alice()).await, "nobody delegated it to eve");
    bench.reopen().await;
    // Its response may name the message that it received, instead of the request.
    let named = Message { in_reply_to: Some(to_dave.id.to_string()), ..to_alice() };
    let named = || Message { client_id: with_client_id("alice", "r1", "{}").client_id, ..named.clone() };
    for _ in 0..2 {
        assert!(answer(&bench, "dave", Message { payload: payload("42"), ..named() }).await);
        bench.reopen().await;
    }
    let ended = read_request(&bench, request).await;
    assert_eq!((&ended.state, ended.replies().count()), (&RequestState::Answered, 1));
    let bob = bench.published().agents.number(&id("bob"));
    assert_eq!(ended.recipients[0].recipient.agent_no(), bob, "the recipient remains");
    assert!(!answer(&bench, "bob", to_alice()).await, "it was answered");
}

pub async fn the_answer_of_a_delegate_reaches_the_waiting_consumer(bench: TestBench) {
    bench.register_all(&AGENTS).await;
    ask(&bench, AnswerFrom::Chain).await;
    bench.send_as("bob", passed_on("carol")).await;
    assert!(answer(&bench, "carol", to_alice()).await);
    let events = bench.consumer_events();
    assert!(
        matches!(&events[..], [(ConsumerId(7), ConsumerEvent::Answered { is_last: true, .. })]),
        "{events:?}"
    );
}

pub async fn only_a_message_of_the_chain_delegates_an_answer(bench: TestBench) {
    bench.register_all(&AGENTS).await;
    let request = ask(&bench, AnswerFrom::Chain).await;
    bench.send_as("bob", Message { hops: 0, ..passed_on("carol") }).await;
    bench.send_as("bob", Message { correlation_id: Some("c2".into()), ..passed_on("carol") }).await;
    bench.send_as("bob", Message { kind: MessageType::Response, ..passed_on("carol") }).await;
    bench.send_as("eve", passed_on("carol")).await;
    bench.send_as("bob", passed_on("alice")).await;
    assert_eq!(read_request(&bench, request).await.delegates, []);
    assert!(!answer(&bench, "carol", to_alice()).await);
    assert!(answer(&bench, "bob", to_alice()).await);
    bench.send_as("bob", passed_on("carol")).await;
    assert_eq!(read_request(&bench, request).await.delegates, [], "it has been answered");
}

pub async fn a_request_can_be_restricted_to_the_agents_that_were_asked(mut bench: TestBench) {
    bench.register_all(&AGENTS).await;
    let request = ask(&bench, AnswerFrom::Asked).await;
    bench.reopen().await;
    bench.send_as("bob", passed_on("carol")).await;
    assert_eq!(read_request(&bench, request).await.delegates, []);
    assert!(!answer(&bench, "carol", to_alice()).await);
    assert!(answer(&bench, "bob", to_alice()).await);
}

pub async fn a_request_has_at_most_32_delegates(bench: TestBench) {
    let names: Vec<_> = (0..40).map(|number| format!("worker{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    bench.register_all(&["alice", "bob"]).await;
    bench.register_all(&names).await;
    let request = ask(&bench, AnswerFrom::Chain).await;
    for part in names.chunks(30) {
        bench.send_as("bob", Message { to: message_to_several(part).to, ..passed_on("bob") }).await;
    }
    assert_eq!(read_request(&bench, request).await.delegates.len(), limits::REQUEST_DELEGATES_MAX);
    assert!(!answer(&bench, "worker32", to_alice()).await);
    assert!(answer(&bench, "worker31", to_alice()).await);
}

pub async fn a_delegated_request_survives_its_recipient(bench: TestBench) {
    bench.register_all(&AGENTS).await;
    let request = ask(&bench, AnswerFrom::Chain).await;
    let held = bench.claim_one("bob").await;
    bench.send_as("bob", passed_on("carol")).await;
    bench.commit_ok(agent("bob"), vec![dead_letter(&held, "done with it")]).await;
    assert_eq!(read_request(&bench, request).await.state, RequestState::Waiting);
    assert!(answer(&bench, "carol", to_alice()).await);
    // Without a delegate, the dead letter fails the request.
    let request = ask(&bench, AnswerFrom::Chain).await;
    let held = bench.claim("bob", 9).await;
    bench.commit_ok(agent("bob"), vec![dead_letter(&held[0], "no")]).await;
    let failed = read_request(&bench, request).await.state;
    assert!(matches!(failed, RequestState::Failed { code: Code::Cancelled, .. }), "{failed:?}");
}
