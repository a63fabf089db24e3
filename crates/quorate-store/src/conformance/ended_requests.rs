//! Deliveries of requests that have ended: nobody works on them any more, also not the agent that holds the lease.

use quorate_core::{
    AgentNo, Code, DeliveryNo, EndState, HolderEvent, Item, ItemKey, ItemKind, LeasedDelivery, Message,
    MessageId, MessageType, Op, OpResult, RequestEnd, RequestState, SendRequest,
};

use super::builders::{
    ack, agent, delivery_id, extend, id, lease, message_to, message_to_several, nack_for_retry, payload, send,
};
use super::test_bench::{Sent, TestBench};
use crate::{ReadQuery, ReadResult, StoredDeliveryState};

const TIMEOUT_MS: u64 = 60_000;

/// Registers alice, bob and carol, in this order.
async fn register(bench: &TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    bench.holder_events();
}

fn number_of(bench: &TestBench, name: &str) -> AgentNo {
    bench.published().agents.number(&id(name)).expect("the agent is registered")
}

/// Sends a request of alice, which times out after a minute.
async fn ask(bench: &TestBench, message: Message) -> Sent {
    let message = Message { from: Some(id("alice")), correlation_id: Some("c1".into()), ..message };
    let request = SendRequest::new(message, Some(TIMEOUT_MS), None);
    match bench.commit_ok(agent("alice"), vec![Op::Request(request)]).await.results[..] {
        [OpResult::Requested { id, first, count, .. }] => Sent { id, first_delivery: first, count },
        ref other => panic!("not a request: {other:?}"),
    }
}

fn answer(from: &str, request: MessageId) -> Op {
    let kind = MessageType::Response;
    let in_reply_to = Some(request.to_string());
    let correlation_id = Some("c1".into());
    let text = payload("1");
    send(from, Message { kind, in_reply_to, correlation_id, payload: text, ..message_to("alice") })
}

async fn cancel(bench: &TestBench, request: MessageId) {
    bench.commit_ok(agent("alice"), vec![Op::CancelRequest { request }]).await;
}

async fn state_of(bench: &TestBench, request: MessageId) -> RequestState {
    match bench.read(ReadQuery::Item(ItemKey::new(ItemKind::Request, request.to_string()))).await {
        ReadResult::Item(Some(Item::Request(request))) => request.state,
        other => panic!("not a request: {other:?}"),
    }
}

async fn end_of(bench: &TestBench, number: DeliveryNo) -> Option<EndState> {
    match bench.delivery_state(number).await {
        Some(StoredDeliveryState::Ended { state, .. }) => Some(state),
        Some(StoredDeliveryState::Open { .. }) => None,
        None => panic!("there is no such delivery"),
    }
}

/// Checks that a lease is refused with this reason, in a single operation and in one on several deliveries.
async fn assert_ended(
    bench: &TestBench,
    holder: &str,
    leased: &LeasedDelivery,
    request: MessageId,
    code: Code,
) {
    let ended = Some(RequestEnd { delivery: delivery_id(leased.delivery), request, code });
    let many = Op::AckMany(vec![lease(leased)]);
    for op in [ack(leased), extend(leased, 60_000), nack_for_retry(leased), many] {
        let refused = bench.commit_refused(agent(holder), vec![op]).await;
        assert_eq!((refused.code, refused.facts.ended_request), (Code::StaleLease, ended), "{refused}");
        let stale: Vec<_> = refused.facts.stale.iter().map(|stale| stale.ended_request).collect();
        assert_eq!(stale, [ended]);
    }
}

pub async fn m16_a_cancelled_request_ends_its_leased_deliveries(mut bench: TestBench) {
    register(&bench).await;
    let request = ask(&bench, message_to_several(&["bob", "carol"])).await;
    let held = bench.claim_one("bob").await;
    cancel(&bench, request.id).await;
    let bob = number_of(&bench, "bob");
    let event =
        HolderEvent::RequestEnded { request: request.id, delivery: held.delivery, code: Code::Cancelled };
    assert_eq!(bench.holder_events(), [(bob, event)], "carol holds nothing");
    assert_eq!(bench.counts().purged, 2);
    assert_ended(&bench, "bob", &held, request.id, Code::Cancelled).await;
    // Neither a restart nor a new epoch of the holder redelivers it.
    bench.reopen().await;
    assert_ended(&bench, "bob", &held, request.id, Code::Cancelled).await;
    bench.register("bob").await;
    bench.advance_secs(3_600);
    bench.sweep().await;
    assert!(bench.claim("bob", 10).await.is_empty() && bench.claim("carol", 10).await.is_empty());
}

pub async fn m16_a_request_that_times_out_ends_its_leased_deliveries(mut bench: TestBench) {
    register(&bench).await;
    let request = ask(&bench, message_to("bob")).await;
    let held = bench.claim_one("bob").await;
    bench.advance_secs(29);
    bench.commit_ok(agent("bob"), vec![extend(&held, 120_000)]).await;
    bench.advance_secs(31);
    bench.sweep().await;
    let bob = number_of(&bench, "bob");
    let event =
        HolderEvent::RequestEnded { request: request.id, delivery: held.delivery, code: Code::Timeout };
    assert_eq!(bench.holder_events(), [(bob, event)]);
    assert_eq!(end_of(&bench, held.delivery).await, Some(EndState::Expired));
    assert_ended(&bench, "bob", &held, request.id, Code::Timeout).await;
    // A late answer is still recorded, but not together with the ack.
    bench
        .commit_refused_with(Code::StaleLease, agent("bob"), vec![ack(&held), answer("bob", request.id)])
        .await;
    let late = bench.commit_ok(agent("bob"), vec![answer("bob", request.id)]).await;
    assert!(matches!(late.results[0], OpResult::Replied { late: true, .. }));
    bench.reopen().await;
    assert_ended(&bench, "bob", &held, request.id, Code::Timeout).await;
}

pub async fn m16_an_answer_ends_the_delivery_of_another_agent(mut bench: TestBench) {
    register(&bench).await;
    let request = ask(&bench, message_to_several(&["bob", "carol"])).await;
    let (held, kept) = (bench.claim_one("bob").await, bench.claim_one("carol").await);
    let passed_on = Message { correlation_id: Some("c1".into()), hops: 1, ..message_to("dave") };
    bench.register("dave").await;
    bench.send_as("bob", passed_on).await;
    bench.commit_ok(agent("dave"), vec![answer("dave", request.id)]).await;
    let bob = number_of(&bench, "bob");
    let event =
        HolderEvent::RequestEnded { request: request.id, delivery: held.delivery, code: Code::Conflict };
    assert_eq!(bench.holder_events(), [(bob, event)]);
    assert_eq!(state_of(&bench, request.id).await, RequestState::Waiting, "carol may still answer");
    assert_ended(&bench, "bob", &held, request.id, Code::Conflict).await;
    // An agent that answers acks its own delivery, also after the answer, and after the request has ended.
    bench.commit_ok(agent("carol"), vec![answer("carol", request.id)]).await;
    assert_eq!(state_of(&bench, request.id).await, RequestState::Answered);
    bench.reopen().await;
    assert_ended(&bench, "bob", &held, request.id, Code::Conflict).await;
    bench.commit_ok(agent("carol"), vec![ack(&kept)]).await;
    assert_eq!(end_of(&bench, kept.delivery).await, Some(EndState::Acked));
    assert_eq!(bench.holder_events(), []);
}

pub async fn m16_an_agent_that_has_answered_keeps_its_lease_when_the_request_ends(bench: TestBench) {
    register(&bench).await;
    let request = ask(&bench, message_to_several(&["bob", "carol"])).await;
    let (answered, pending) = (bench.claim_one("bob").await, bench.claim_one("carol").await);
    bench.commit_ok(agent("bob"), vec![answer("bob", request.id)]).await;
    cancel(&bench, request.id).await;
    assert_ended(&bench, "carol", &pending, request.id, Code::Cancelled).await;
    bench.commit_ok(agent("bob"), vec![ack(&answered)]).await;
    assert_eq!(end_of(&bench, answered.delivery).await, Some(EndState::Acked));
}

/// Builds a message of the chain of the request.
fn passed_on(to: &str) -> Message {
    Message { correlation_id: Some("c1".into()), hops: 1, ..message_to(to) }
}

pub async fn m16_the_end_of_a_request_ends_its_delegated_deliveries(mut bench: TestBench) {
    register(&bench).await;
    bench.register("dave").await;
    for code in [Code::Cancelled, Code::Timeout] {
        let request = ask(&bench, message_to("bob")).await;
        let held = bench.claim_one("bob").await;
        bench.send_as("bob", passed_on("carol")).await;
        bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
        // Carol asks bob back, and passes it on; dave has not claimed his delivery yet.
        let by_carol = bench.claim_one("carol").await;
        bench.send_as("carol", Message { hops: 2, ..passed_on("dave") }).await;
        bench.send_as("carol", Message { hops: 2, ..passed_on("bob") }).await;
        let by_bob = bench.claim_one("bob").await;
        bench.reopen().await;
        let [by_carol, by_bob] = [by_carol, by_bob];
        for (holder, leased) in [("carol", &by_carol), ("bob", &by_bob)] {
            bench.commit_ok(agent(holder), vec![extend(leased, 120_000)]).await;
        }
        bench.holder_events();
        match code {
            Code::Cancelled => cancel(&bench, request.id).await,
            _ => {
                bench.advance_secs(60);
                bench.sweep().await;
            }
        }
        let mut events = bench.holder_events();
        events.sort_by_key(|(holder, _)| *holder);
        let event = |name: &str, leased: &LeasedDelivery| {
            let delivery = leased.delivery;
            (number_of(&bench, name), HolderEvent::RequestEnded { request: request.id, delivery, code })
        };
        assert_eq!(events, [event("bob", &by_bob), event("carol", &by_carol)], "dave holds nothing");
        assert_ended(&bench, "carol", &by_carol, request.id, code).await;
        bench.reopen().await;
        assert_ended(&bench, "bob", &by_bob, request.id, code).await;
        assert!(bench.claim("dave", 10).await.is_empty(), "nobody needs it");
        assert!(bench.claim("carol", 10).await.is_empty());
    }
}

pub async fn m16_notifications_and_answered_parts_outlive_the_request(bench: TestBench) {
    register(&bench).await;
    bench.register("dave").await;
    let request = ask(&bench, message_to_several(&["bob", "carol"])).await;
    bench.send_as("bob", Message { kind: MessageType::Event, ..passed_on("dave") }).await;
    let notified = bench.claim_one("dave").await;
    bench.send_as("bob", passed_on("dave")).await;
    let answered = bench.claim_one("dave").await;
    bench.commit_ok(agent("dave"), vec![answer("dave", request.id)]).await;
    // Others of the chain may have work of their own to do, even if one of them has answered.
    bench.holder_events();
    cancel(&bench, request.id).await;
    assert_eq!(bench.holder_events(), []);
    bench.commit_ok(agent("dave"), vec![ack(&notified), ack(&answered)]).await;
}
