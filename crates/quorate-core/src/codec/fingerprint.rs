//! The fingerprint of what was asked for: the same request twice has the same one, another request another. It covers
//! the decoded commit with the raw payloads; salts and the sender's clock are not part of it.

use sha2::{Digest, Sha256};

use crate::codec::{Writer, message};
use crate::commit::{NackThen, Op, Waiting};
use crate::message::{Durability, Message, Payload};

/// The fingerprint of one message.
#[must_use]
pub fn of_message(message: &Message) -> [u8; 32] {
    let mut out = Writer(Vec::with_capacity(256 + message.payload.bytes.len()));
    write_message(&mut out, message);
    Sha256::digest(&out.0).into()
}

/// The fingerprint of the operations of a commit.
#[must_use]
pub fn of_commit(ops: &[Op]) -> [u8; 32] {
    let mut out = Writer(Vec::with_capacity(512));
    for op in ops {
        write_op(&mut out, op);
    }
    Sha256::digest(&out.0).into()
}

fn write_payload(out: &mut Writer, payload: &Payload) {
    out.bytes(&payload.bytes);
}

fn write_message(out: &mut Writer, message: &Message) {
    let mut fields = Writer(Vec::with_capacity(128));
    message::write(&mut fields, message);
    out.bytes(&fields.0);
    out.number(u64::from(message.durability == Durability::Ephemeral));
    write_payload(out, &message.payload);
}

fn write_op(out: &mut Writer, op: &Op) {
    match op {
        Op::RegisterAgent(agent) => {
            out.number(1);
            out.text(&agent.id);
            out.text(&agent.name);
            out.text(agent.role.as_str());
            for list in [&agent.capabilities, &agent.supported_actions] {
                out.number(list.len() as u64);
                list.iter().for_each(|word| out.text(word));
            }
            out.option(agent.epoch.map(|epoch| epoch.0));
        }
        Op::RemoveAgent { agent } => {
            out.number(2);
            out.text(agent);
        }
        Op::Send { message, .. } => {
            out.number(3);
            write_message(out, message);
        }
        Op::Claim { agent, max, lease_ms, waiting } => {
            out.number(4);
            out.text(agent);
            out.number(u64::from(*max));
            out.number(*lease_ms);
            out.number(u64::from(*waiting != Waiting::No));
        }
        Op::Grant { consumer, credit } => {
            out.number(5);
            out.number(consumer.0);
            out.number(u64::from(*credit));
        }
        Op::Close { consumer } => {
            out.number(6);
            out.number(consumer.0);
        }
        Op::Ack(lease) => {
            out.number(7);
            write_lease(out, lease);
        }
        Op::Nack(nack) => {
            out.number(8);
            write_lease(out, &nack.lease);
            out.text(&nack.reason);
            match nack.then {
                NackThen::Retry { delay_ms } => out.option(Some(delay_ms)),
                NackThen::Release => out.bytes(b"release"),
                NackThen::Dead => out.bytes(b"dead"),
            }
        }
        Op::Extend(extend) => {
            out.number(9);
            write_lease(out, &extend.lease);
            out.number(extend.lease_ms);
        }
        Op::Redrive { delivery } => {
            out.number(10);
            out.number(delivery.generation.0);
            out.number(delivery.number.0);
        }
        Op::Purge { agent } => {
            out.number(11);
            out.text(agent);
        }
        Op::Put(put) => {
            out.number(12);
            out.text(&put.key);
            out.text(&put.entry_type);
            out.text(put.content_type.as_deref().unwrap_or(""));
            out.option(put.expect.map(|version| version.0));
            out.number(put.depends_on.len() as u64);
            put.depends_on.iter().for_each(|key| out.text(key));
            write_payload(out, &put.content);
        }
        Op::Delete(delete) => {
            out.number(13);
            out.text(&delete.key);
            out.option(delete.expect.map(|version| version.0));
        }
        Op::Erase(erase) => {
            out.number(14);
            out.number(erase.seq.0);
            out.number(u64::from(erase.part));
        }
        Op::Sweep => out.number(15),
    }
}

fn write_lease(out: &mut Writer, lease: &crate::commit::LeaseRef) {
    for number in [lease.delivery.generation.0, lease.delivery.number.0, lease.token.0] {
        out.number(number);
    }
}
