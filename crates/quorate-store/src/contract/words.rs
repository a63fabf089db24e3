//! Short words for commits, so that a case reads as what it promises.

use bytes::Bytes;
use quorate_core::{
    AgentId, ClientId, DeleteEntry, DeliveryId, DeliveryNo, Destination, ErasePayload, Extend, Generation,
    Handed, IdempotencyKey, Key, LeaseRef, Message, Nack, NackThen, Op, Payload, Principal, Priority,
    PutEntry, RegisterAgent, Seq, Timestamp, Token, Version, Waiting, limits,
};

/// An agent's id.
pub(super) fn id(name: &str) -> AgentId {
    AgentId::new(name).expect("a good id")
}

/// An agent that acts.
pub(super) fn agent(name: &str) -> Principal {
    Principal::Agent(id(name))
}

/// Bytes with a salt.
pub(super) fn payload(text: &str) -> Payload {
    Payload::seal(Bytes::from(text.to_owned()), [7; 16])
}

/// A plain message for one agent; whoever sends it is put in later.
pub(super) fn deliver_to(name: &str) -> Message {
    Message::new(Destination::Agent(id(name)), "work", payload("{}"))
}

/// A plain message for several agents.
pub(super) fn deliver_to_all(names: &[&str]) -> Message {
    let agents = names.iter().map(|name| id(name)).collect();
    Message::new(Destination::Agents(agents), "work", payload("{}"))
}

/// A message with a priority.
pub(super) fn with_priority(name: &str, priority: Priority) -> Message {
    Message { priority, ..deliver_to(name) }
}

/// A message that expires so many milliseconds after 1970.
pub(super) fn expiring(name: &str, at_ms: u64) -> Message {
    Message { expires_at: Some(Timestamp(at_ms)), ..deliver_to(name) }
}

/// A message that is not handed out before so many milliseconds after 1970.
pub(super) fn delayed(name: &str, at_ms: u64) -> Message {
    Message { deliver_at: Some(Timestamp(at_ms)), ..deliver_to(name) }
}

/// A message that bears an id of its own.
pub(super) fn with_client_id(name: &str, client_id: &str, text: &str) -> Message {
    Message {
        client_id: Some(ClientId::new(client_id).expect("a good id")),
        payload: payload(text),
        ..deliver_to(name)
    }
}

/// A send by an agent.
pub(super) fn send(from: &str, message: Message) -> Op {
    Op::send(Message { from: Some(id(from)), ..message })
}

/// A registration.
pub(super) fn register(name: &str) -> Op {
    Op::RegisterAgent(RegisterAgent::named(id(name)))
}

/// A claim for 30 s.
pub(super) fn claim(name: &str, max: u32, waiting: Waiting) -> Op {
    Op::Claim { agent: id(name), max, lease_ms: limits::LEASE_MS_DEFAULT, waiting }
}

/// The id of a delivery in a space that was never restored.
pub(super) fn delivery(number: DeliveryNo) -> DeliveryId {
    DeliveryId { generation: Generation(0), number }
}

/// The lease under which a delivery was handed over.
pub(super) fn lease(handed: &Handed) -> LeaseRef {
    LeaseRef { delivery: delivery(handed.delivery), token: handed.token }
}

/// A lease by number and token.
pub(super) fn lease_of(number: u64, token: u64) -> LeaseRef {
    LeaseRef { delivery: delivery(DeliveryNo(number)), token: Token(token) }
}

/// An ack.
pub(super) fn ack(handed: &Handed) -> Op {
    Op::Ack(lease(handed))
}

/// A nack.
pub(super) fn nack(handed: &Handed, then: NackThen) -> Op {
    Op::Nack(Nack { lease: lease(handed), then, reason: String::new() })
}

/// A nack to be tried again at once.
pub(super) fn retry(handed: &Handed) -> Op {
    nack(handed, NackThen::Retry { delay_ms: 0 })
}

/// A nack that ends it, with a reason.
pub(super) fn give_up(handed: &Handed, reason: &str) -> Op {
    Op::Nack(Nack { lease: lease(handed), then: NackThen::Dead, reason: reason.into() })
}

/// An extension.
pub(super) fn extend(handed: &Handed, lease_ms: u64) -> Op {
    Op::Extend(Extend { lease: lease(handed), lease_ms })
}

/// A redrive.
pub(super) fn redrive(number: DeliveryNo) -> Op {
    Op::Redrive { delivery: delivery(number) }
}

/// A memory key.
pub(super) fn key(text: &str) -> Key {
    Key::new(text).expect("a good key")
}

/// A key under which a commit may be repeated.
pub(super) fn repeat_key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).expect("a good key")
}

/// A put, whatever is there.
pub(super) fn put(name: &str, text: &str) -> PutEntry {
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

/// A put that expects a version.
pub(super) fn put_at(name: &str, text: &str, expect: u64) -> Op {
    Op::Put(PutEntry { expect: Some(Version(expect)), ..put(name, text) })
}

/// A delete.
pub(super) fn delete(name: &str, expect: Option<u64>) -> Op {
    Op::Delete(DeleteEntry { key: key(name), expect: expect.map(Version), fence: None })
}

/// An erasure.
pub(super) fn erase(seq: Seq, part: u32) -> Op {
    Op::Erase(ErasePayload { seq, part })
}
