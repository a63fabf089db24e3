//! Short words for commits, so that a case reads as what it promises.

use bytes::Bytes;
use quorate_core::{
    AgentId, ClientId, DeleteEntry, DeliveryId, DeliveryNo, Destination, ErasePayload, Extend, Generation,
    Handed, IdempotencyKey, Key, LeaseRef, Message, Nack, NackThen, Op, Payload, Principal, Priority,
    PutEntry, RegisterAgent, Seq, Timestamp, Token, Version, Waiting, limits,
};

/// An agent's id.
#[must_use]
pub fn id(name: &str) -> AgentId {
    AgentId::new(name).expect("a good id")
}

/// An agent that acts.
#[must_use]
pub fn agent(name: &str) -> Principal {
    Principal::Agent(id(name))
}

/// Bytes with a salt.
#[must_use]
pub fn payload(text: &str) -> Payload {
    Payload::seal(Bytes::from(text.to_owned()), [7; 16])
}

/// A plain message for one agent; whoever sends it is put in later.
#[must_use]
pub fn deliver_to(name: &str) -> Message {
    Message::new(Destination::Agent(id(name)), "work", payload("{}"))
}

/// A plain message for several agents.
#[must_use]
pub fn deliver_to_all(names: &[&str]) -> Message {
    let agents = names.iter().map(|name| id(name)).collect();
    Message::new(Destination::Agents(agents), "work", payload("{}"))
}

/// A message with a priority.
#[must_use]
pub fn with_priority(name: &str, priority: Priority) -> Message {
    Message { priority, ..deliver_to(name) }
}

/// A message that expires so many milliseconds after 1970.
#[must_use]
pub fn expiring(name: &str, at_ms: u64) -> Message {
    Message { expires_at: Some(Timestamp(at_ms)), ..deliver_to(name) }
}

/// A message that is not handed out before so many milliseconds after 1970.
#[must_use]
pub fn delayed(name: &str, at_ms: u64) -> Message {
    Message { deliver_at: Some(Timestamp(at_ms)), ..deliver_to(name) }
}

/// A message that bears an id of its own.
#[must_use]
pub fn with_client_id(name: &str, client_id: &str, text: &str) -> Message {
    Message {
        client_id: Some(ClientId::new(client_id).expect("a good id")),
        payload: payload(text),
        ..deliver_to(name)
    }
}

/// A send by an agent.
#[must_use]
pub fn send(from: &str, message: Message) -> Op {
    Op::send(Message { from: Some(id(from)), ..message })
}

/// A registration.
#[must_use]
pub fn register(name: &str) -> Op {
    Op::RegisterAgent(RegisterAgent::named(id(name)))
}

/// A claim for 30 s.
#[must_use]
pub fn claim(name: &str, max: u32, waiting: Waiting) -> Op {
    Op::Claim { agent: id(name), max, lease_ms: limits::LEASE_MS_DEFAULT, waiting }
}

/// The id of a delivery in a space that was never restored.
#[must_use]
pub fn delivery(number: DeliveryNo) -> DeliveryId {
    DeliveryId { generation: Generation(0), number }
}

/// The lease under which a delivery was handed over.
#[must_use]
pub fn lease(handed: &Handed) -> LeaseRef {
    LeaseRef { delivery: delivery(handed.delivery), token: handed.token }
}

/// A lease by number and token.
#[must_use]
pub fn lease_of(number: u64, token: u64) -> LeaseRef {
    LeaseRef { delivery: delivery(DeliveryNo(number)), token: Token(token) }
}

/// An ack.
#[must_use]
pub fn ack(handed: &Handed) -> Op {
    Op::Ack(lease(handed))
}

/// A nack.
#[must_use]
pub fn nack(handed: &Handed, then: NackThen) -> Op {
    Op::Nack(Nack { lease: lease(handed), then, reason: String::new() })
}

/// A nack to be tried again at once.
#[must_use]
pub fn retry(handed: &Handed) -> Op {
    nack(handed, NackThen::Retry { delay_ms: 0 })
}

/// A nack that ends it, with a reason.
#[must_use]
pub fn give_up(handed: &Handed, reason: &str) -> Op {
    Op::Nack(Nack { lease: lease(handed), then: NackThen::Dead, reason: reason.into() })
}

/// An extension.
#[must_use]
pub fn extend(handed: &Handed, lease_ms: u64) -> Op {
    Op::Extend(Extend { lease: lease(handed), lease_ms })
}

/// A redrive.
#[must_use]
pub fn redrive(number: DeliveryNo) -> Op {
    Op::Redrive { delivery: delivery(number) }
}

/// A memory key.
#[must_use]
pub fn key(text: &str) -> Key {
    Key::new(text).expect("a good key")
}

/// A key under which a commit may be repeated.
#[must_use]
pub fn repeat_key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).expect("a good key")
}

/// A put, whatever is there.
#[must_use]
pub fn put(name: &str, text: &str) -> PutEntry {
    PutEntry {
        key: key(name),
        entry_type: "note".into(),
        content: payload(text),
        content_type: None,
        expect: None,
        depends_on: Vec::new(),
    }
}

/// A put that expects a version.
#[must_use]
pub fn put_at(name: &str, text: &str, expect: u64) -> Op {
    Op::Put(PutEntry { expect: Some(Version(expect)), ..put(name, text) })
}

/// A delete.
#[must_use]
pub fn delete(name: &str, expect: Option<u64>) -> Op {
    Op::Delete(DeleteEntry { key: key(name), expect: expect.map(Version) })
}

/// An erasure.
#[must_use]
pub fn erase(seq: Seq, part: u32) -> Op {
    Op::Erase(ErasePayload { seq, part })
}
