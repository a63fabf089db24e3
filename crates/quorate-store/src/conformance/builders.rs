//! Builders for ids, messages and operations, which keep the cases short.

use bytes::Bytes;
use quorate_core::{
    AgentId, ClientId, DeleteEntry, DeliveryId, DeliveryNo, Destination, ErasePayload, Extend, Generation,
    IdempotencyKey, Key, LeaseRef, LeaseToken, LeasedDelivery, Message, Nack, NackAction, Op, Payload,
    Principal, Priority, PutEntry, RegisterAgent, Seq, Timestamp, Version, WaitMode, limits,
};

pub(super) fn id(name: &str) -> AgentId {
    AgentId::new(name).expect("valid id")
}

pub(super) fn agent(name: &str) -> Principal {
    Principal::Agent(id(name))
}

/// Seals a text with a fixed salt.
pub(super) fn payload(text: &str) -> Payload {
    Payload::seal(Bytes::from(text.to_owned()), [7; 16])
}

/// Builds a message to one agent, without a sender.
pub(super) fn message_to(name: &str) -> Message {
    Message::new(Destination::Agent(id(name)), "work", payload("{}"))
}

/// Builds a message to several agents, without a sender.
pub(super) fn message_to_several(names: &[&str]) -> Message {
    let agents = names.iter().map(|name| id(name)).collect();
    Message::new(Destination::Agents(agents), "work", payload("{}"))
}

/// Builds a message with a priority.
pub(super) fn with_priority(name: &str, priority: Priority) -> Message {
    Message { priority, ..message_to(name) }
}

/// Builds a message that expires at `at_ms`, in milliseconds since the Unix epoch.
pub(super) fn expiring(name: &str, at_ms: u64) -> Message {
    Message { expires_at: Some(Timestamp(at_ms)), ..message_to(name) }
}

/// Builds a message that is not delivered before `at_ms`, in milliseconds since the Unix epoch.
pub(super) fn delayed(name: &str, at_ms: u64) -> Message {
    Message { deliver_at: Some(Timestamp(at_ms)), ..message_to(name) }
}

/// Builds a message with a client id.
pub(super) fn with_client_id(name: &str, client_id: &str, text: &str) -> Message {
    Message {
        client_id: Some(ClientId::new(client_id).expect("valid id")),
        payload: payload(text),
        ..message_to(name)
    }
}

/// Builds a send with this sender.
pub(super) fn send(from: &str, message: Message) -> Op {
    Op::send(Message { from: Some(id(from)), ..message })
}

pub(super) fn register(name: &str) -> Op {
    Op::RegisterAgent(RegisterAgent::named(id(name)))
}

/// Builds a claim with a lease of 30 s.
pub(super) fn claim(name: &str, max: u32, wait: WaitMode) -> Op {
    Op::Claim { agent: id(name), max, lease_ms: limits::LEASE_MS_DEFAULT, wait }
}

/// Builds the id of a delivery in a space that was never restored.
pub(super) fn delivery_id(number: DeliveryNo) -> DeliveryId {
    DeliveryId { generation: Generation(0), number }
}

/// Returns the lease of a delivery.
pub(super) fn lease(leased: &LeasedDelivery) -> LeaseRef {
    LeaseRef { delivery: delivery_id(leased.delivery), token: leased.token }
}

/// Builds a lease from a delivery number and a lease token.
pub(super) fn lease_ref(number: u64, token: u64) -> LeaseRef {
    LeaseRef { delivery: delivery_id(DeliveryNo(number)), token: LeaseToken(token) }
}

pub(super) fn ack(leased: &LeasedDelivery) -> Op {
    Op::Ack(lease(leased))
}

pub(super) fn nack(leased: &LeasedDelivery, action: NackAction) -> Op {
    Op::Nack(Nack { lease: lease(leased), action, reason: String::new() })
}

/// Builds a nack with immediate redelivery.
pub(super) fn nack_for_retry(leased: &LeasedDelivery) -> Op {
    nack(leased, NackAction::Retry { delay_ms: Some(0) })
}

/// Builds a nack that dead-letters the delivery.
pub(super) fn dead_letter(leased: &LeasedDelivery, reason: &str) -> Op {
    Op::Nack(Nack { lease: lease(leased), action: NackAction::DeadLetter, reason: reason.into() })
}

pub(super) fn extend(leased: &LeasedDelivery, lease_ms: u64) -> Op {
    Op::Extend(Extend { lease: lease(leased), lease_ms })
}

pub(super) fn redrive(number: DeliveryNo) -> Op {
    Op::Redrive { delivery: delivery_id(number) }
}

pub(super) fn key(text: &str) -> Key {
    Key::new(text).expect("valid key")
}

pub(super) fn idempotency_key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).expect("valid key")
}

/// Builds an unconditional write of an entry; the tests change its fields and wrap it in [`Op::Put`].
pub(super) fn put_entry(name: &str, text: &str) -> PutEntry {
    PutEntry {
        key: key(name),
        entry_type: "note".into(),
        content: payload(text),
        content_type: None,
        expect: None,
        depends_on: Vec::new(),
        fence: None,
    }
}

/// Builds a put that expects a version.
pub(super) fn put_if_version(name: &str, text: &str, expect: u64) -> Op {
    Op::Put(PutEntry { expect: Some(Version(expect)), ..put_entry(name, text) })
}

pub(super) fn delete(name: &str, expect: Option<u64>) -> Op {
    Op::Delete(DeleteEntry { key: key(name), expect: expect.map(Version), fence: None })
}

pub(super) fn erase(seq: Seq, part: u32) -> Op {
    Op::ErasePayload(ErasePayload { seq, part })
}
