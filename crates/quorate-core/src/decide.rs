//! Decides a commit at the head of its space: computes its effects, or refuses it.
//!
//! Pure, without I/O other than lookups. A commit is decided completely before anything is written: its operations run
//! in order on the working state, each sees the effects of those before it, and a refusal undoes all of them.

mod agents;
mod approvals;
mod deadlock;
mod delegation;
mod dispatch;
mod grants;
mod inspect;
mod items;
mod leases;
mod locks;
mod memory;
mod message_chains;
mod metered_lookup;
mod policy;
mod presence;
mod procedure_cancel;
mod procedure_control;
mod procedure_waits;
mod procedures;
mod repeated_ends;
mod requests;
mod rollback;
mod rollback_plan;
mod send;
mod sessions;
mod shares;
mod stuck;
mod subscriptions;
mod tasks;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::codec;
use crate::commit::{Commit, ConsumerEvent, HolderEvent, LeaseRef, Op, OpResult, Principal, Receipt};
use crate::effect::{Effect, EndState, Record, RecordKind, ReturnCause};
use crate::entry::EntryHead;
use crate::hash_chain::{self, RecordHeader};
use crate::ids::{
    AgentNo, ClientId, ConsumerId, DeliveryNo, Generation, Key, LeaseToken, LockName, Seq, SpaceName,
};
use crate::item::{Item, ItemKey};
use crate::lock::RenewLocks;
use crate::lookup::{Lookup, LookupError, StoredReceipt};
use crate::message::{Message, Payload};
use crate::refused::{Code, Refused, StaleReference};
use crate::snapshot::{Rollback, RollbackScope};
use crate::task::TaskLeaseRef;
use crate::time::{Now, Timestamp};
use crate::working::{Map, OpenDelivery, WorkingState};
use metered_lookup::MeteredLookup;

pub use rollback_plan::RollbackPlan;

/// A delivery as it is sent to the consumer that leased it.
#[derive(Clone, PartialEq, Debug)]
pub struct LeasedDelivery {
    /// Number of the delivery.
    pub delivery: DeliveryNo,
    /// Token of the current lease.
    pub token: LeaseToken,
    /// Attempt number, starting at 1.
    pub attempt: u16,
    /// Duration of the lease.
    pub lease_ms: u64,
    /// The record that contains the message.
    pub seq: Seq,
    /// Index of the message within that record.
    pub n: u32,
    /// The message and its time, if it was sent by the same commit; otherwise it has to be read from the log.
    pub message: Option<(Timestamp, Arc<Message>)>,
}

/// A delivery that ended, with its last open state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedDelivery {
    /// Number of the delivery.
    pub delivery: DeliveryNo,
    /// The final state.
    pub state: EndState,
    /// The state before it ended.
    pub open: OpenDelivery,
}

/// The outcome of an accepted commit.
#[derive(Debug)]
pub struct CommitOutcome {
    /// The receipt for the caller.
    pub receipt: Receipt,
    /// The record to write; `None` if nothing durable changed, or for an idempotent replay.
    pub record: Option<Record>,
    /// The effects, in order; the body of the record contains the same.
    pub effects: Vec<Effect>,
    /// Ended deliveries with their last open state, in the order of the effects.
    pub ended: Vec<EndedDelivery>,
    /// Deliveries dispatched to waiting consumers.
    pub dispatched: Vec<(ConsumerId, LeasedDelivery)>,
    /// Consumers that were closed because their agent registered again or was removed.
    pub dismissed_consumers: Vec<ConsumerId>,
    /// Notifications for consumers that wait for something other than deliveries.
    pub consumer_events: Vec<(ConsumerId, ConsumerEvent)>,
    /// Notifications for the agents that hold leases.
    pub holder_events: Vec<(AgentNo, HolderEvent)>,
    /// Deliveries whose lease duration grew. Not part of the record, but stored for a restart.
    pub extended_leases: Vec<DeliveryNo>,
    /// Whether the commit was decided now; false for an idempotent replay.
    pub is_new: bool,
}

/// Reason for which a commit was not applied.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// A rule of the domain refused the commit.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A lookup in the storage failed.
    #[error(transparent)]
    LookupFailed(#[from] LookupError),
}

/// Decides a commit at the head. On success the working state includes the commit; on an error it is unchanged.
///
/// # Errors
/// The refusal, or a failed lookup.
pub fn decide(
    working: &mut WorkingState,
    lookup: &dyn Lookup,
    commit: &Commit,
    now: Now,
) -> Result<CommitOutcome, DecideError> {
    let now = Now { wall: now.wall.max(working.head.at), ..now };
    working.begin(now);
    let mut draft = Draft::new(working, lookup, commit, now);
    let outcome = draft.run();
    let spent = draft.lookup.units_spent();
    let decided = match outcome {
        Ok(Outcome::Replayed(receipt)) => Ok(CommitOutcome::without_effect(receipt)),
        Ok(Outcome::New(results)) => Ok(draft.conclude(results)),
        Err(error) => {
            working.undo();
            Err(error)
        }
    };
    let record = decided.as_ref().ok().and_then(|decided| decided.record.as_ref());
    working.spent =
        spent + record.map_or(0, |record| metered_lookup::units_of(record.body.len() + record.payload.len()));
    decided
}

/// Creates the first record of a space, which contains its name and id.
#[must_use]
pub fn decide_genesis(working: &mut WorkingState, name: SpaceName, now: Timestamp) -> (Record, Effect) {
    let effect = Effect::SpaceCreated { name, id: working.id, generation: Generation(0) };
    let wall = now.max(working.head.at);
    working.apply(&effect, Seq(1), &mut 0, Now { wall, ..Now::default() });
    let kind = RecordKind::Genesis;
    let record = append(working, kind, "system".into(), wall, &[], std::slice::from_ref(&effect));
    (record, effect)
}

/// Creates the first record after a restore. It starts a new generation, so that all numbers exceed those that the
/// lost history may have used. It also ends every lease, lock and task lease of the backup: the lost history may have
/// granted them to others, so the tokens in the backup must no longer be accepted.
///
/// # Errors
/// A failed lookup.
pub fn decide_restore(
    working: &mut WorkingState,
    lookup: &dyn Lookup,
    generation: Generation,
    now: Timestamp,
) -> Result<CommitOutcome, DecideError> {
    let now = Now { wall: now.max(working.head.at), ..Now::default() };
    let commit = Commit::new(Principal::System, Vec::new());
    working.begin(now);
    let mut draft = Draft::new(working, lookup, &commit, now);
    draft.emit(Effect::SpaceRestored { generation });
    for number in 1..=draft.working.agents().len() as u64 {
        draft.release_all_of(AgentNo(number), ReturnCause::Restored)?;
    }
    Ok(draft.conclude_as(RecordKind::Restore, Vec::new()))
}

/// Creates the next record and moves the head to it.
fn append(
    working: &mut WorkingState,
    kind: RecordKind,
    principal: String,
    at: Timestamp,
    parts: &[Payload],
    effects: &[Effect],
) -> Record {
    let seq = Seq(working.head.seq.0 + 1);
    let body = codec::write_body(parts, effects);
    let header = RecordHeader { seq, at, format: codec::FORMAT, kind: kind.number(), principal: &principal };
    let hash = hash_chain::record_hash(&working.head.hash, &header, &body);
    working.head.seq = seq;
    working.head.hash = hash;
    working.head.at = at;
    let mut salts = Vec::with_capacity(parts.len() * 16);
    parts.iter().for_each(|part| salts.extend_from_slice(&part.salt));
    let payload = match parts {
        [part] => part.bytes.clone(),
        parts => parts.iter().flat_map(|part| part.bytes.iter().copied()).collect::<Vec<u8>>().into(),
    };
    Record { seq, at, format: codec::FORMAT, kind: kind.number(), principal, hash, body, salts, payload }
}

impl CommitOutcome {
    fn without_effect(receipt: Receipt) -> Self {
        Self {
            receipt,
            record: None,
            effects: Vec::new(),
            ended: Vec::new(),
            dispatched: Vec::new(),
            dismissed_consumers: Vec::new(),
            consumer_events: Vec::new(),
            holder_events: Vec::new(),
            extended_leases: Vec::new(),
            is_new: false,
        }
    }

    /// Whether the receipt is stored under the idempotency key. This includes commits without an effect: a retry might
    /// have one, because the state may have changed.
    #[must_use]
    pub fn consumes_key(&self) -> bool {
        self.is_new && self.receipt.consumes_key()
    }
}

enum Outcome {
    New(Vec<OpResult>),
    Replayed(Receipt),
}

/// A commit that is being decided: the state that it changes, and its effects so far.
struct Draft<'a> {
    working: &'a mut WorkingState,
    lookup: MeteredLookup<'a>,
    commit: &'a Commit,
    now: Now,
    /// Sequence number of the record that this commit will become.
    seq: Seq,
    /// The acting agent; `None` for other principals, or before an agent registers itself.
    actor: Option<AgentNo>,
    effects: Vec<Effect>,
    parts: Vec<Payload>,
    /// Bytes of the payloads of the operations so far.
    payload_bytes: usize,
    /// Number of messages of this commit so far.
    messages: u32,
    /// Number of deliveries of this commit so far.
    deliveries: usize,
    ended: Vec<EndedDelivery>,
    dispatched: Vec<(ConsumerId, LeasedDelivery)>,
    dismissed_consumers: Vec<ConsumerId>,
    consumer_events: Vec<(ConsumerId, ConsumerEvent)>,
    holder_events: Vec<(AgentNo, HolderEvent)>,
    extended_leases: Vec<DeliveryNo>,
    /// Entries written by this commit, which lookups do not see yet.
    entries: BTreeMap<Key, EntryHead>,
    sent_in_commit: BTreeMap<ClientId, ([u8; 32], OpResult)>,
    erased_in_commit: Vec<(Seq, u32)>,
    /// Locks that were released or lost a waiter. They are granted to the next waiters before the commit ends.
    freed_locks: BTreeSet<LockName>,
    /// Number of tasks of this commit so far.
    tasks: u32,
    /// Leases in this commit that an earlier record has already ended.
    repeated_ends: Vec<StaleReference>,
    /// Whether this commit ends the lease of a task that was still active.
    ends_task_lease: bool,
    /// Index of the operation that is being decided.
    op: usize,
    /// Items that this commit removed from memory; `None` if they are not stored as a row either.
    closed_items: Map<ItemKey, Option<Item>>,
}

impl<'a> Draft<'a> {
    fn new(working: &'a mut WorkingState, lookup: &'a dyn Lookup, commit: &'a Commit, now: Now) -> Self {
        let seq = Seq(working.head.seq.0 + 1);
        Self {
            working,
            lookup: MeteredLookup::new(lookup),
            commit,
            now,
            seq,
            actor: None,
            effects: Vec::new(),
            parts: Vec::new(),
            payload_bytes: 0,
            messages: 0,
            deliveries: 0,
            ended: Vec::new(),
            dispatched: Vec::new(),
            dismissed_consumers: Vec::new(),
            consumer_events: Vec::new(),
            holder_events: Vec::new(),
            extended_leases: Vec::new(),
            entries: BTreeMap::new(),
            sent_in_commit: BTreeMap::new(),
            erased_in_commit: Vec::new(),
            freed_locks: BTreeSet::new(),
            tasks: 0,
            repeated_ends: Vec::new(),
            ends_task_lease: false,
            op: 0,
            closed_items: Map::default(),
        }
    }

    fn run(&mut self) -> Result<Outcome, DecideError> {
        if let Some((key, fingerprint)) = &self.commit.key
            && let Some(stored) = self.lookup.stored_receipt(&self.commit.principal, key)?
        {
            return replay(stored, fingerprint).map_err(DecideError::Refused);
        }
        self.resolve_actor()?;
        for (index, op) in self.commit.ops.iter().enumerate() {
            self.commit.principal.check_allowed(op).map_err(|refused| refused.at_op(index))?;
        }
        if let Some(actor) = self.actor {
            self.mark_online(actor);
        }
        let mut results = Vec::with_capacity(self.commit.ops.len());
        let mut refused: Option<Refused> = None;
        for (index, op) in self.commit.ops.iter().enumerate() {
            self.op = index;
            let result = self
                .run_op(op)
                .and_then(|result| self.lookup.check_limit().map(|()| result).map_err(DecideError::from));
            match result {
                Ok(result) => results.push(result),
                Err(DecideError::LookupFailed(error)) => return Err(DecideError::LookupFailed(error)),
                Err(DecideError::Refused(mut refusal)) => {
                    let is_stale =
                        matches!(refusal.code, Code::StaleLease | Code::VersionConflict | Code::StaleFence);
                    let stale = std::mem::take(&mut refusal.facts.stale);
                    let first = refused.get_or_insert_with(|| refusal.clone().at_op(index));
                    // A refusal lists every stale item, so that the caller can fix all of them in one round trip. Other
                    // refusals end the commit here: later operations may depend on the refused one.
                    if !is_stale {
                        break;
                    }
                    // An operation on several items lists its stale items itself.
                    if stale.is_empty() {
                        let (item, token) = item_of(op);
                        first.facts.stale.push(StaleReference {
                            op: index,
                            item,
                            code: refusal.code,
                            token,
                            ended_by: refusal.facts.ended_by,
                            ended_request: refusal.facts.ended_request,
                        });
                    }
                    first
                        .facts
                        .stale
                        .extend(stale.into_iter().map(|reference| StaleReference { op: index, ..reference }));
                }
            }
        }
        if let Some(refused) = refused.or_else(|| self.reject_mixed_ends()) {
            return Err(DecideError::Refused(refused));
        }
        self.grant_freed_locks()?;
        self.dispatch_deliveries()?;
        self.dispatch_tasks();
        if let Some(actor) = self.actor {
            self.working.record_activity(actor, self.now);
            self.working.set_disconnected(actor, None);
        }
        Ok(Outcome::New(results))
    }

    fn run_op(&mut self, op: &Op) -> Result<OpResult, DecideError> {
        // The size limit of the policy applies to every payload, whatever the operation.
        self.payload_bytes += op.payload_bytes();
        self.working.policy().check_size(op.largest_payload_bytes())?;
        self.working.policy().check_commit_size(self.payload_bytes)?;
        match op {
            Op::RegisterAgent(agent) => self.register(agent),
            Op::RemoveAgent { agent } => self.remove_agent(agent),
            Op::Send { message, fingerprint } => self.send(message, fingerprint),
            Op::Claim { agent, max, lease_ms, wait } => self.claim(agent, *max, *lease_ms, *wait),
            Op::GrantCredit { consumer, credit } => Ok(self.grant_credit(*consumer, *credit)),
            Op::CloseConsumer { consumer } => Ok(self.close_consumer(*consumer)),
            Op::Ack(lease) => self.ack(*lease),
            Op::Nack(nack) => self.nack(nack),
            Op::Extend(extend) => self.extend(*extend),
            Op::Redrive { delivery } => self.redrive(*delivery),
            Op::Purge { agent } => self.purge(agent).map_err(DecideError::Refused),
            Op::Put(put) => self.put(put),
            Op::Delete(delete) => self.delete(delete),
            Op::ErasePayload(erase) => self.erase(*erase),
            Op::Sweep => self.sweep(),
            Op::SetPolicy(policy) => self.set_policy(policy).map_err(DecideError::Refused),
            Op::AcquireLocks(acquire) => self.acquire_locks(acquire),
            Op::RenewLocks(renew) => self.renew_locks(renew),
            Op::ReleaseLocks(locks) => self.release_locks(locks),
            Op::SetBudget(set) => self.set_budget(set),
            Op::OpenSession(open) => self.open_session(open),
            Op::ChangeSession(change) => self.change_session(change),
            Op::AddToSession(add) => self.add_to_session(add),
            Op::CreateTasks(create) => self.create_tasks(create),
            Op::ClaimTasks(claim) => self.claim_tasks(claim).map_err(DecideError::Refused),
            Op::HeartbeatTask(heartbeat) => self.heartbeat_task(heartbeat),
            Op::CompleteTask(complete) => self.complete_task(complete),
            Op::FailTask(fail) => self.fail_task(fail),
            Op::ReleaseTask(lease) => self.release_task(lease),
            Op::CancelTask(cancel) => self.cancel_task(cancel),
            Op::MakeSnapshot(make) => self.make_snapshot(make),
            Op::DropSnapshot { name } => self.drop_snapshot(name),
            Op::Rollback(rollback) => self.rollback(rollback),
            Op::Subscribe(subscribe) => self.subscribe(subscribe).map_err(DecideError::Refused),
            Op::Unsubscribe { agent, pattern } => {
                self.unsubscribe(agent, pattern).map_err(DecideError::Refused)
            }
            Op::Backfill(backfill) => self.backfill(backfill).map_err(DecideError::Refused),
            Op::AckMany(leases) => self.ack_many(leases),
            Op::Request(send) => self.request(send),
            Op::AwaitRequest { request, consumer } => self.await_request(*request, *consumer),
            Op::CancelRequest { request } => self.cancel_request(*request),
            Op::Heartbeat(heartbeat) => self.heartbeat(heartbeat).map_err(DecideError::Refused),
            Op::Inspect(query) => self.inspect(query),
            Op::AwaitTask(wait) => self.await_task(wait),
            Op::HeartbeatBatch { agents } => Ok(self.heartbeat_batch(agents)),
            Op::ConnectionClosed { agent } => Ok(self.connection_closed(*agent)),
            Op::CreateToken(new) => self.create_token(new).map_err(DecideError::Refused),
            Op::RevokeToken { token } => self.revoke_token(*token).map_err(DecideError::Refused),
            Op::RequestApproval(request) => self.request_approval(request),
            Op::DecideApproval(decide) => self.decide_approval(decide),
            Op::StartProcedure(start) => self.start_procedure(start),
            Op::StepProcedure(step) => self.step_procedure(step),
            Op::ControlProcedure(control) => self.control_procedure(control),
            Op::SignalProcedure(signal) => self.signal_procedure(signal),
            Op::ResumeLeases { agent, lease_ms } => {
                self.resume_leases(agent, *lease_ms).map_err(DecideError::Refused)
            }
        }
    }

    /// Applies an effect to the working state and records it, so that state and log cannot diverge.
    fn emit(&mut self, effect: Effect) {
        self.lookup.add_effect(&effect);
        self.working.apply(&effect, self.seq, &mut self.messages, self.now);
        self.effects.push(effect);
    }

    /// Returns the end of a delivery, if this commit ended it.
    fn ended_in_commit(&self, delivery: DeliveryNo) -> Option<&EndedDelivery> {
        self.lookup.add_steps(self.ended.len());
        self.ended.iter().rev().find(|ended| ended.delivery == delivery)
    }

    /// Ends a delivery. Keeps its last open state for the dead letter row and for repeated acks.
    fn end_delivery(&mut self, delivery: DeliveryNo, state: EndState, effect: Effect) {
        let open = self.working.open(delivery).copied();
        self.emit(effect);
        if let Some(open) = open {
            self.ended.push(EndedDelivery { delivery, state, open });
            // The ended lease frees capacity for the next one.
            if let Some(agent) = open.to.agent_no() {
                self.working.schedule_dispatch_to(agent);
            }
            if matches!(state, EndState::Dead | EndState::Purged) {
                self.lose_reply(delivery, &open);
            }
        }
    }

    fn conclude(self, results: Vec<OpResult>) -> CommitOutcome {
        let sweep = matches!(self.commit.ops.as_slice(), [Op::Sweep]);
        let kind = if sweep { RecordKind::Sweep } else { RecordKind::Commit };
        self.conclude_as(kind, results)
    }

    fn conclude_as(self, kind: RecordKind, results: Vec<OpResult>) -> CommitOutcome {
        let at = self.now.wall;
        if self.effects.is_empty() {
            return CommitOutcome {
                dispatched: self.dispatched,
                dismissed_consumers: self.dismissed_consumers,
                consumer_events: self.consumer_events,
                holder_events: self.holder_events,
                extended_leases: self.extended_leases,
                is_new: true,
                ..CommitOutcome::without_effect(Receipt { seq: None, at, results })
            };
        }
        for effect in &self.effects {
            self.working.count_ended(effect);
        }
        let principal = self.commit.principal.to_text();
        let record = append(self.working, kind, principal, at, &self.parts, &self.effects);
        CommitOutcome {
            receipt: Receipt { seq: Some(record.seq), at, results },
            record: Some(record),
            effects: self.effects,
            ended: self.ended,
            dispatched: self.dispatched,
            dismissed_consumers: self.dismissed_consumers,
            consumer_events: self.consumer_events,
            holder_events: self.holder_events,
            extended_leases: self.extended_leases,
            is_new: true,
        }
    }
}

fn replay(stored: StoredReceipt, fingerprint: &[u8; 32]) -> Result<Outcome, Refused> {
    if stored.fingerprint == *fingerprint {
        return Ok(Outcome::Replayed(stored.receipt));
    }
    Err(Refused::new(Code::Duplicate, "this idempotency key was used for another commit")
        .hint("use a new key for each commit; retry a commit only with identical content"))
}

/// Returns the name of the operation's object, and its lease token, for a refusal.
fn item_of(op: &Op) -> (String, Option<LeaseToken>) {
    let delivery = |lease: &LeaseRef| (lease.delivery.to_string(), Some(lease.token));
    let task = |lease: &TaskLeaseRef| (lease.task.to_string(), Some(lease.token));
    match op {
        Op::Ack(lease) => delivery(lease),
        Op::Nack(nack) => delivery(&nack.lease),
        Op::Extend(extend) => delivery(&extend.lease),
        Op::HeartbeatTask(heartbeat) => task(&heartbeat.lease),
        Op::CompleteTask(complete) => task(&complete.lease),
        Op::FailTask(fail) => task(&fail.lease),
        Op::ReleaseTask(lease) => task(lease),
        Op::Put(put) => (put.key.to_string(), None),
        Op::Delete(delete) => (delete.key.to_string(), None),
        Op::RenewLocks(RenewLocks { locks, .. }) | Op::ReleaseLocks(locks) => {
            (locks.first().map(|fence_ref| fence_ref.lock.to_string()).unwrap_or_default(), None)
        }
        Op::StepProcedure(step) => (step.procedure.to_string(), None),
        Op::Rollback(Rollback { scope: RollbackScope::Key { key, .. }, .. }) => (key.to_string(), None),
        _ => (String::new(), None),
    }
}
