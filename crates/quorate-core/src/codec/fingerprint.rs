//! Fingerprints of requests, for idempotency: an identical retry has the same fingerprint, a different request another. A
//! fingerprint covers the decoded commit with the raw payloads. Salts, generated secrets, the sender's clock and the
//! trace context are excluded, because they differ in a retry.

mod task;

use sha2::{Digest, Sha256};

use crate::access_token::CreateToken;
use crate::codec::{
    Writer, approval_fingerprint, item, message, procedure_fingerprint, session, snapshot_fingerprint,
};
use crate::commit::{LeaseRef, NackAction, Op, PutEntry, RegisterAgent, WaitMode};
use crate::effect::Effect;
use crate::grants::Grants;
use crate::ids::{AgentId, MessageId};
use crate::item::{Item, Verb};
use crate::lock::{AcquireLocks, FenceRef};
use crate::message::{Durability, Message, Payload, Priority};
use crate::policy::ActivePolicy;
use crate::request::AnswerFrom;
use crate::subscription::{Backfill, EarlierMessage, History, Subscribe};

/// Returns the fingerprint of a message.
#[must_use]
pub fn of_message(message: &Message) -> [u8; 32] {
    let mut out = Writer(Vec::with_capacity(256 + message.payload.bytes.len()));
    write_message(&mut out, message);
    Sha256::digest(&out.0).into()
}

/// Returns the fingerprint of a request message. Its expiry is excluded, because it depends on the timeout: the same
/// request may be retried with another timeout.
#[must_use]
pub fn of_request_message(message: &Message) -> [u8; 32] {
    let mut out = Writer(Vec::with_capacity(256 + message.payload.bytes.len()));
    write_request_message(&mut out, message);
    Sha256::digest(&out.0).into()
}

/// Returns the fingerprint of the `n`-th message of a record as its sender submitted it; zeros if its payload was erased,
/// since a fingerprint could confirm a guess. A request without a correlation id got its own id as correlation id, which
/// is removed again.
#[must_use]
pub fn of_logged(message: &Message, n: u32, effects: &[Effect]) -> [u8; 32] {
    if message.payload.is_erased() {
        return [0; 32];
    }
    let request_id = effects.iter().find_map(|effect| match effect {
        Effect::Changed { verb: Verb::RequestMade, item: Item::Request(request) } if request.id.n == n => {
            Some(request.id.to_string())
        }
        _ => None,
    });
    let Some(own) = request_id else { return of_message(message) };
    let correlation_id = message.correlation_id.clone().filter(|correlation| *correlation != own);
    of_request_message(&Message { correlation_id, ..message.clone() })
}

/// Returns the fingerprint of the operations of a commit.
#[must_use]
pub fn of_commit(ops: &[Op]) -> [u8; 32] {
    let mut out = Writer(Vec::with_capacity(512));
    for op in ops {
        write_op(&mut out, op);
    }
    Sha256::digest(&out.0).into()
}

/// Returns the fingerprint of a request, given its parts.
#[must_use]
pub fn of_parts(parts: &[&[u8]]) -> [u8; 32] {
    let mut out = Writer(Vec::with_capacity(512));
    parts.iter().for_each(|part| out.bytes(part));
    Sha256::digest(&out.0).into()
}

fn write_payload(out: &mut Writer, payload: &Payload) {
    out.bytes(&payload.bytes);
}

fn write_message(out: &mut Writer, message: &Message) {
    let mut fields = Writer(Vec::with_capacity(128));
    match message.traceparent {
        Some(_) => message::write(&mut fields, &Message { traceparent: None, ..message.clone() }),
        None => message::write(&mut fields, message),
    }
    out.bytes(&fields.0);
    out.number(u64::from(message.durability == Durability::Ephemeral));
    write_payload(out, &message.payload);
}

fn write_request_message(out: &mut Writer, message: &Message) {
    write_message(out, &Message { expires_at: None, ..message.clone() });
    out.text("?");
}

fn write_op(out: &mut Writer, op: &Op) {
    match op {
        Op::RegisterAgent(agent) => write_agent(out, agent),
        Op::RemoveAgent { agent } => write_named(out, 2, agent),
        Op::Send { message, .. } => {
            out.number(3);
            write_message(out, message);
        }
        Op::Claim { agent, max, lease_ms, wait } => {
            write_named(out, 4, agent);
            out.numbers(&[u64::from(*max), *lease_ms, u64::from(*wait != WaitMode::NoWait)]);
        }
        Op::GrantCredit { consumer, credit } => out.numbers(&[5, consumer.0, u64::from(*credit)]),
        Op::CloseConsumer { consumer } => out.numbers(&[6, consumer.0]),
        Op::Ack(lease) => write_lease(out, 7, lease),
        Op::Nack(nack) => {
            write_lease(out, 8, &nack.lease);
            out.text(&nack.reason);
            match nack.action {
                NackAction::Retry { delay_ms } => out.option(delay_ms),
                NackAction::Release => out.bytes(b"release"),
                NackAction::DeadLetter => out.bytes(b"dead"),
            }
        }
        Op::Extend(extend) => {
            write_lease(out, 9, &extend.lease);
            out.number(extend.lease_ms);
        }
        Op::Redrive { delivery } => out.numbers(&[10, delivery.generation.0, delivery.number.0]),
        Op::Purge { agent } => write_named(out, 11, agent),
        Op::Put(put) => write_put(out, put),
        Op::Delete(delete) => {
            out.number(13);
            out.text(&delete.key);
            out.option(delete.expect.map(|version| version.0));
            write_fences(out, delete.fence.as_slice());
        }
        Op::ErasePayload(erase) => out.numbers(&[14, erase.seq.0, u64::from(erase.part)]),
        Op::Sweep => out.number(15),
        Op::AcquireLocks(acquire) => write_acquire(out, acquire),
        Op::RenewLocks(renew) => {
            // A separate number for each, so that renewals without a duration keep their earlier fingerprint.
            match renew.ttl_ms {
                None => out.number(41),
                Some(ttl_ms) => out.numbers(&[43, ttl_ms]),
            }
            write_fences(out, &renew.locks);
        }
        Op::ReleaseLocks(locks) => {
            out.number(42);
            write_fences(out, locks);
        }
        Op::SetBudget(set) => {
            out.number(50);
            out.text(&set.id);
            out.number(set.messages_max);
            out.option(set.tokens_max);
            out.option(set.money_max);
        }
        Op::OpenSession(open) => session::write_open(out, open),
        Op::ChangeSession(change) => session::write_change(out, change),
        Op::AddToSession(add) => session::write_add(out, add),
        Op::CreateTasks(create) => task::write_create(out, create),
        Op::ClaimTasks(claim) => task::write_claim(out, claim),
        Op::HeartbeatTask(heartbeat) => task::write_heartbeat(out, heartbeat),
        Op::CompleteTask(complete) => {
            task::write_complete(out, complete);
            write_fences(out, complete.fence.as_slice());
        }
        Op::FailTask(fail) => task::write_fail(out, fail),
        Op::ReleaseTask(lease) => task::write_lease(out, 35, lease),
        Op::CancelTask(cancel) => task::write_cancel(out, cancel),
        Op::MakeSnapshot(make) => snapshot_fingerprint::write_make(out, make),
        Op::DropSnapshot { name } => snapshot_fingerprint::write_drop(out, name),
        Op::Rollback(rollback) => {
            snapshot_fingerprint::write_rollback(out, rollback);
            write_fences(out, rollback.fence.as_slice());
        }
        Op::SetPolicy(policy) => {
            let requested = ActivePolicy { policy: policy.clone(), ..ActivePolicy::default() };
            write_item(out, 16, &Item::Policy(requested));
        }
        Op::Subscribe(subscribe) => write_subscribe(out, subscribe),
        Op::Unsubscribe { agent, pattern } => {
            write_named(out, 21, agent);
            out.text(pattern.as_str());
        }
        Op::Backfill(backfill) => write_backfill(out, backfill),
        Op::AckMany(leases) => {
            out.numbers(&[58, leases.len() as u64]);
            for LeaseRef { delivery, token } in leases {
                out.numbers(&[delivery.generation.0, delivery.number.0, token.0]);
            }
        }
        Op::Request(send) => {
            out.number(25);
            write_request_message(out, &send.message);
            out.option(send.message.expires_at.map(|at| at.0));
            out.option(send.timeout_ms);
            if send.answer_from == AnswerFrom::Asked {
                out.text(AnswerFrom::Asked.as_str());
            }
        }
        Op::AwaitRequest { request, .. } => write_message_id(out, 26, *request),
        Op::CancelRequest { request } => write_message_id(out, 27, *request),
        Op::Heartbeat(heartbeat) => {
            write_named(out, 55, &heartbeat.agent);
            out.text(heartbeat.status.as_str());
            out.text(heartbeat.health.as_str());
            out.text(heartbeat.health.note());
        }
        // Must be the only operation of its commit and writes no record, so it is never compared.
        Op::Inspect(_) => out.number(56),
        // These write no record either.
        Op::AwaitTask(_) => out.number(57),
        Op::HeartbeatBatch { .. } => out.number(59),
        Op::ConnectionClosed { .. } => out.number(89),
        Op::CreateToken(new) => write_create_token(out, new),
        Op::RevokeToken { token } => {
            out.numbers(&[61, token.generation.0, token.seq.0, u64::from(token.n)]);
        }
        Op::RequestApproval(request) => approval_fingerprint::write_request(out, request),
        Op::DecideApproval(decide) => approval_fingerprint::write_decide(out, decide),
        Op::StartProcedure(start) => procedure_fingerprint::write_start(out, start),
        Op::StepProcedure(step) => procedure_fingerprint::write_step(out, step),
        Op::ControlProcedure(control) => procedure_fingerprint::write_control(out, control),
        Op::SignalProcedure(signal) => procedure_fingerprint::write_signal(out, signal),
        Op::ResumeLeases { agent, lease_ms } => {
            write_named(out, 70, agent);
            out.number(*lease_ms);
        }
    }
}

/// Writes everything but the digest: a retry generates a new secret.
fn write_create_token(out: &mut Writer, new: &CreateToken) {
    let CreateToken { digest: _, bearer, name, expires_at, parent, grants } = new;
    out.number(60);
    item::write_bearer(out, bearer);
    out.text(name);
    out.option(expires_at.map(|at| at.0));
    if let Some(parent) = parent {
        item::write_token_id(out, *parent);
    }
    if *grants != Grants::default() {
        out.text("grants");
        item::write_grants(out, grants);
    }
}

fn write_named(out: &mut Writer, op: u64, agent: &AgentId) {
    out.number(op);
    out.text(agent);
}

/// Writes an operation that sets an item to the requested state.
fn write_item(out: &mut Writer, op: u64, requested: &Item) {
    out.number(op);
    out.bytes(&item::write_item(requested));
}

fn write_subscribe(out: &mut Writer, subscribe: &Subscribe) {
    write_named(out, 20, &subscribe.agent);
    out.text(subscribe.pattern.as_str());
    match subscribe.history {
        None => out.number(0),
        Some(History::Seq(seq)) => out.numbers(&[1, seq.0]),
        Some(History::Time(time)) => out.numbers(&[2, time.0]),
        Some(History::Last(last)) => out.numbers(&[3, u64::from(last)]),
    }
}

fn write_backfill(out: &mut Writer, backfill: &Backfill) {
    write_named(out, 22, &backfill.agent);
    out.text(backfill.pattern.as_str());
    out.numbers(&[backfill.next.0, backfill.messages.len() as u64]);
    for EarlierMessage { message, .. } in &backfill.messages {
        out.numbers(&[message.seq.0, u64::from(message.n)]);
    }
}

fn write_lease(out: &mut Writer, op: u64, lease: &LeaseRef) {
    out.numbers(&[op, lease.delivery.generation.0, lease.delivery.number.0, lease.token.0]);
}

fn write_agent(out: &mut Writer, agent: &RegisterAgent) {
    write_named(out, 1, &agent.id);
    out.text(&agent.name);
    out.text(agent.role.as_str());
    for list in [&agent.capabilities, &agent.supported_actions] {
        out.number(list.len() as u64);
        list.iter().for_each(|label| out.text(label));
    }
    out.option(agent.epoch.map(|epoch| epoch.0));
    out.number(agent.heartbeat_ms);
    if let Some(declaration) = agent.declaration {
        out.text("declaration");
        out.bytes(&declaration.0);
    }
}

fn write_message_id(out: &mut Writer, op: u64, id: MessageId) {
    out.numbers(&[op, id.generation.0, id.seq.0, u64::from(id.n)]);
}

fn write_put(out: &mut Writer, put: &PutEntry) {
    out.number(12);
    out.text(&put.key);
    out.text(&put.entry_type);
    out.text(put.content_type.as_deref().unwrap_or(""));
    out.option(put.expect.map(|version| version.0));
    out.number(put.depends_on.len() as u64);
    put.depends_on.iter().for_each(|key| out.text(key));
    write_payload(out, &put.content);
    write_fences(out, put.fence.as_slice());
}

fn write_acquire(out: &mut Writer, acquire: &AcquireLocks) {
    write_named(out, 40, &acquire.agent);
    out.number(acquire.names.len() as u64);
    acquire.names.iter().for_each(|name| out.text(name));
    let Priority { level, rank } = acquire.priority;
    out.numbers(&[
        acquire.ttl_ms,
        u64::from(level),
        u64::from(rank),
        u64::from(acquire.wait != WaitMode::NoWait),
    ]);
    out.option(acquire.capacity.map(u64::from));
    out.option(acquire.within.map(|delivery| delivery.number.0));
}

fn write_fences(out: &mut Writer, locks: &[FenceRef]) {
    for fence_ref in locks {
        out.text(&fence_ref.lock);
        out.number(fence_ref.fence.0);
    }
}
