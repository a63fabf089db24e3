//! Credit, held deliveries, and resending after a connection loss.

use std::sync::Arc;

use quorate::backend::{MessageRef, ReceivedDelivery, WorkOutcome};
use quorate_core::{
    DeliveryId, DeliveryNo, Destination, Generation, LeaseRef, LeaseToken, Message, MessageId, Mono, Now,
    Payload, Seq, Timestamp,
};
use tokio::sync::oneshot;

use super::{Frame, SocketState};

fn now(ms: u64) -> Now {
    Now { wall: Timestamp(ms), mono: Mono(ms) }
}

fn lease(number: u64, token: u64) -> LeaseRef {
    let delivery = DeliveryId { generation: Generation(0), number: DeliveryNo(number) };
    LeaseRef { delivery, token: LeaseToken(token) }
}

fn delivery(number: u64, token: u64) -> ReceivedDelivery {
    let to: Destination = "bob".parse().expect("an agent");
    let message = Message::new(to, "work", Payload::unsealed("1".into()));
    let id = MessageRef::Durable(MessageId { generation: Generation(0), seq: Seq(number), n: 0 });
    ReceivedDelivery {
        lease: Some(lease(number, token)),
        lease_ms: 30_000,
        attempt: 1,
        id,
        sent_at: Timestamp(0),
        message: Arc::new(message),
    }
}

fn next_frames(state: &mut SocketState) -> Vec<String> {
    std::iter::from_fn(|| state.next_frame()).collect()
}

// Fails under: credit that is not counted from the start of the connection, or is granted twice.
#[test]
fn credit_follows_the_free_capacity() {
    let mut state = SocketState::with_credit(2);
    state.start_connection(0);
    assert_eq!(
        next_frames(&mut state),
        [format!("{{\"n\":1,\"credit\":{{\"messages\":2,\"bytes\":{}}}}}", 1u64 << 50)]
    );
    assert!(next_frames(&mut state).is_empty(), "granted once");
    state.receive(delivery(1, 1));
    assert!(next_frames(&mut state).is_empty(), "the delivery is held");
    state.end_delivery(&lease(1, 1), WorkOutcome::Settled);
    assert!(next_frames(&mut state)[0].contains("\"messages\":3"), "capacity for one more");
}

// Fails under: a held or settled delivery that is handled again after a reconnect.
#[test]
fn a_delivery_resent_after_a_reconnect_is_not_handled_twice() {
    let mut state = SocketState::with_credit(3);
    state.start_connection(0);
    state.receive(delivery(1, 1));
    state.receive(delivery(2, 2));
    assert!(state.pop_delivery().is_some() && state.pop_delivery().is_some());
    state.end_delivery(&lease(1, 1), WorkOutcome::Settled);
    state.handle_disconnect(now(0), "http://hub");
    state.start_connection(2);
    assert!(
        next_frames(&mut state)[0].contains("\"messages\":4"),
        "two resent deliveries, and capacity for two"
    );
    state.receive(delivery(1, 1));
    state.receive(delivery(2, 2));
    assert!(state.pop_delivery().is_none(), "one is settled, the other held");
    // A new lease is a new attempt.
    state.receive(delivery(2, 3));
    assert!(state.pop_delivery().is_some());
}

// Fails under: a delivery that ended without a commit and counts as settled.
#[test]
fn an_unsettled_delivery_can_be_redelivered() {
    let mut state = SocketState::with_credit(1);
    state.start_connection(0);
    state.receive(delivery(1, 1));
    assert!(state.pop_delivery().is_some());
    state.end_delivery(&lease(1, 1), WorkOutcome::Unsettled);
    state.receive(delivery(1, 1));
    assert!(state.pop_delivery().is_some());
}

// Fails under: frames that are lost or reordered by a reconnect, or matched by frame numbers of an earlier
// connection.
#[test]
fn unanswered_frames_are_resent_in_order() {
    let mut state = SocketState::with_credit(0);
    state.start_connection(0);
    let mut responses = Vec::new();
    for name in ["a", "b", "c"] {
        let (sender, response) = oneshot::channel();
        let mut frame = Frame::new(format!("\"commit\":\"{name}\""), true, now(0));
        frame.responder = Some(sender);
        state.enqueue(frame);
        responses.push(response);
    }
    assert_eq!(next_frames(&mut state).len(), 3);
    assert!(!state.handle_response(2, Ok("{}".into())));
    assert!(responses[1].try_recv().is_ok());
    state.handle_disconnect(now(0), "http://hub");
    state.start_connection(0);
    assert_eq!(next_frames(&mut state), [r#"{"n":1,"commit":"a"}"#, r#"{"n":2,"commit":"c"}"#]);
    state.handle_response(2, Ok("{}".into()));
    assert!(responses[2].try_recv().is_ok() && responses[0].try_recv().is_err());
}

// Fails under: an ephemeral message that is sent twice; an unknown outcome that is reported as known.
#[test]
fn a_frame_without_a_key_is_not_resent() {
    let mut state = SocketState::with_credit(0);
    state.start_connection(0);
    let (sender, mut response) = oneshot::channel();
    let mut frame = Frame::new("\"send\":{}".into(), false, now(0));
    frame.responder = Some(sender);
    state.enqueue(frame);
    assert_eq!(next_frames(&mut state).len(), 1);
    state.handle_disconnect(now(0), "http://hub");
    let error = response.try_recv().expect("a response").expect_err("connection lost");
    assert!(!error.nothing_applied());
    state.start_connection(0);
    assert!(next_frames(&mut state).is_empty());
}

// Fails under: a call that waits forever for a hub that does not return.
#[test]
fn i21_calls_fail_after_the_retry_timeout() {
    let mut state = SocketState::with_credit(0);
    state.start_connection(0);
    state.handle_disconnect(now(1_000), "http://hub");
    let (sender, mut response) = oneshot::channel();
    let mut frame = Frame::new("\"commit\":{}".into(), true, now(500));
    frame.responder = Some(sender);
    state.enqueue(frame);
    let timeout = std::time::Duration::from_secs(1);
    state.expire_frames(now(1_999), timeout, "http://hub");
    assert!(response.try_recv().is_err(), "there is time left");
    state.expire_frames(now(2_000), timeout, "http://hub");
    let error = response.try_recv().expect("a response").expect_err("the hub is unavailable");
    assert!(error.nothing_applied(), "it was never sent");
}

// Fails under: resending all frames at once, however often the connection breaks before the first response.
#[test]
fn a_new_connection_starts_with_a_small_window() {
    let mut state = SocketState::with_credit(0);
    state.start_connection(0);
    for _ in 0..100 {
        state.enqueue(Frame::new("\"commit\":{}".into(), true, now(0)));
    }
    assert_eq!(next_frames(&mut state).len(), 4);
    state.handle_response(1, Ok("{}".into()));
    assert_eq!(next_frames(&mut state).len(), 5, "eight unanswered frames");
    state.handle_disconnect(now(0), "http://hub");
    state.start_connection(0);
    assert_eq!(next_frames(&mut state).len(), 4);
}
