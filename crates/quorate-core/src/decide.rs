//! Decides a commit at the head of its space: computes its effects, or refuses it.
//!
//! Pure, without I/O other than lookups. A commit is decided completely before anything is written: its operations run
//! in order on the working state, each sees the effects of those before it, and a refusal undoes all of them.

mod agents;
mod approvals;
mod chains;
mod deliver;
mod inspect;
mod items;
mod leases;
mod locks;
mod memory;
mod meter;
mod policy;
mod presence;
mod procedures;
mod repeats;
mod requests;
mod rollback;
mod rollback_plan;
mod send;
mod sessions;
mod tasks;
mod tokens;
mod topics;
mod waits;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::chain::{self, Header};
use crate::codec;
use crate::commit::{Commit, LeaseRef, Op, OpResult, Principal, Receipt, Told};
use crate::effect::{Effect, EndState, Record, RecordKind, ReturnCause};
use crate::entry::EntryHead;
use crate::ids::{
    AgentNo, ClientId, ConsumerId, DeliveryNo, Generation, Key, LockName, Seq, SpaceName, Token,
};
use crate::item::{Item, ItemKey};
use crate::lock::RenewLocks;
use crate::message::{Message, Payload};
use crate::refused::{Code, Refused, Stale};
use crate::rows::{Answered, LookupFailed, Rows};
use crate::snapshot::{Rollback, RollbackWhat};
use crate::task::TaskLeaseRef;
use crate::time::{Now, Timestamp};
use crate::working::{Open, Working};
use meter::Meter;

pub use rollback_plan::RollbackPlan;

/// A delivery as it is sent to the consumer that leased it.
#[derive(Clone, PartialEq, Debug)]
pub struct Handed {
    /// Number of the delivery.
    pub delivery: DeliveryNo,
    /// Token of the current lease.
    pub token: Token,
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
pub struct EndedOpen {
    /// Number of the delivery.
    pub delivery: DeliveryNo,
    /// The final state.
    pub state: EndState,
    /// The state before it ended.
    pub open: Open,
}

/// The outcome of an accepted commit.
#[derive(Debug)]
pub struct Decided {
    /// The receipt for the caller.
    pub receipt: Receipt,
    /// The record to write; `None` if nothing durable changed, or for an idempotent replay.
    pub record: Option<Record>,
    /// The effects, in order; the body of the record contains the same.
    pub effects: Vec<Effect>,
    /// Ended deliveries with their last open state, in the order of the effects.
    pub ended: Vec<EndedOpen>,
    /// Deliveries dispatched to waiting consumers.
    pub handed: Vec<(ConsumerId, Handed)>,
    /// Consumers that were closed because their agent registered again, went offline or was removed.
    pub dismissed: Vec<ConsumerId>,
    /// Notifications for consumers that wait for something other than deliveries.
    pub told: Vec<(ConsumerId, Told)>,
    /// Deliveries whose lease duration grew. Not part of the record, but stored for a restart.
    pub prolonged: Vec<DeliveryNo>,
    /// Whether the commit was decided now; false for an idempotent replay.
    pub is_new: bool,
}

/// Reason for which a commit was not applied.
#[derive(Debug, thiserror::Error)]
pub enum No {
    /// A rule of the domain refused the commit.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A lookup in the storage failed.
    #[error(transparent)]
    Failed(#[from] LookupFailed),
}

/// Decides a commit at the head. On success the working state includes the commit; on an error it is unchanged.
///
/// # Errors
/// The refusal, or a failed lookup.
pub fn decide(working: &mut Working, rows: &dyn Rows, commit: &Commit, now: Now) -> Result<Decided, No> {
    let now = Now { wall: now.wall.max(working.head.at), ..now };
    working.begin(now);
    let mut draft = Draft::new(working, rows, commit, now);
    let outcome = draft.run();
    let spent = draft.rows.spent();
    let decided = match outcome {
        Ok(Outcome::Replayed(receipt)) => Ok(Decided::without_effect(receipt)),
        Ok(Outcome::New(results)) => Ok(draft.conclude(results)),
        Err(error) => {
            working.undo();
            Err(error)
        }
    };
    let record = decided.as_ref().ok().and_then(|decided| decided.record.as_ref());
    working.spent =
        spent + record.map_or(0, |record| meter::units_of(record.body.len() + record.payload.len()));
    decided
}

/// Creates the first record of a space, which contains its name and id.
#[must_use]
pub fn genesis(working: &mut Working, name: SpaceName, now: Timestamp) -> (Record, Effect) {
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
pub fn restored(
    working: &mut Working,
    rows: &dyn Rows,
    generation: Generation,
    now: Timestamp,
) -> Result<Decided, No> {
    let now = Now { wall: now.max(working.head.at), ..Now::default() };
    let commit = Commit::new(Principal::System, Vec::new());
    working.begin(now);
    let mut draft = Draft::new(working, rows, &commit, now);
    draft.emit(Effect::Restored { generation });
    for number in 1..=draft.working.agents().len() as u64 {
        draft.release_all_of(AgentNo(number), ReturnCause::Restored)?;
    }
    Ok(draft.conclude_as(RecordKind::Restore, Vec::new()))
}

/// Creates the next record and moves the head to it.
fn append(
    working: &mut Working,
    kind: RecordKind,
    principal: String,
    at: Timestamp,
    parts: &[Payload],
    effects: &[Effect],
) -> Record {
    let seq = Seq(working.head.seq.0 + 1);
    let body = codec::write_body(parts, effects);
    let header = Header { seq, at, format: codec::FORMAT, kind: kind.number(), principal: &principal };
    let hash = chain::record_hash(&working.head.hash, &header, &body);
    working.head.seq = seq;
    working.head.hash = hash;
    working.head.at = at;
    let mut salts = Vec::with_capacity(parts.len() * 16);
    parts.iter().for_each(|part| salts.extend_from_slice(&part.salt));
    let payload = match parts {
        [one] => one.bytes.clone(),
        many => many.iter().flat_map(|part| part.bytes.iter().copied()).collect::<Vec<u8>>().into(),
    };
    Record { seq, at, format: codec::FORMAT, kind: kind.number(), principal, hash, body, salts, payload }
}

impl Decided {
    fn without_effect(receipt: Receipt) -> Self {
        Self {
            receipt,
            record: None,
            effects: Vec::new(),
            ended: Vec::new(),
            handed: Vec::new(),
            dismissed: Vec::new(),
            told: Vec::new(),
            prolonged: Vec::new(),
            is_new: false,
        }
    }

    /// Whether the receipt is stored under the idempotency key. This includes commits without an effect: a retry might
    /// have one, because the state may have changed.
    #[must_use]
    pub fn uses_key(&self) -> bool {
        self.is_new && self.receipt.uses_key()
    }
}

enum Outcome {
    New(Vec<OpResult>),
    Replayed(Receipt),
}

/// A commit that is being decided: the state that it changes, and its effects so far.
struct Draft<'a> {
    working: &'a mut Working,
    rows: Meter<'a>,
    commit: &'a Commit,
    now: Now,
    /// Sequence number of the record that this commit will become.
    seq: Seq,
    /// The acting agent; `None` for other principals, or before an agent registers itself.
    actor: Option<AgentNo>,
    effects: Vec<Effect>,
    parts: Vec<Payload>,
    /// Number of messages of this commit so far.
    messages: u32,
    /// Number of deliveries of this commit so far.
    deliveries: usize,
    ended: Vec<EndedOpen>,
    handed: Vec<(ConsumerId, Handed)>,
    dismissed: Vec<ConsumerId>,
    told: Vec<(ConsumerId, Told)>,
    prolonged: Vec<DeliveryNo>,
    /// Entries written by this commit, which lookups do not see yet.
    entries: BTreeMap<Key, EntryHead>,
    sent_here: BTreeMap<ClientId, ([u8; 32], OpResult)>,
    erased_here: Vec<(Seq, u32)>,
    /// Locks that were released or lost a waiter. They are granted to the next waiters before the commit ends.
    stirred_locks: BTreeSet<LockName>,
    /// Number of tasks of this commit so far.
    tasks: u32,
    /// Leases in this commit that an earlier record has already ended.
    repeated: Vec<Stale>,
    /// Whether this commit ends the lease of a task that was still active.
    ends_task: bool,
    /// Index of the operation that is being decided.
    op: usize,
    /// Items that this commit removed from memory; `None` if they are not stored as a row either.
    items_over: HashMap<ItemKey, Option<Item>>,
}

impl<'a> Draft<'a> {
    fn new(working: &'a mut Working, rows: &'a dyn Rows, commit: &'a Commit, now: Now) -> Self {
        let seq = Seq(working.head.seq.0 + 1);
        Self {
            working,
            rows: Meter::new(rows),
            commit,
            now,
            seq,
            actor: None,
            effects: Vec::new(),
            parts: Vec::new(),
            messages: 0,
            deliveries: 0,
            ended: Vec::new(),
            handed: Vec::new(),
            dismissed: Vec::new(),
            told: Vec::new(),
            prolonged: Vec::new(),
            entries: BTreeMap::new(),
            sent_here: BTreeMap::new(),
            erased_here: Vec::new(),
            stirred_locks: BTreeSet::new(),
            tasks: 0,
            repeated: Vec::new(),
            ends_task: false,
            op: 0,
            items_over: HashMap::new(),
        }
    }

    fn run(&mut self) -> Result<Outcome, No> {
        if let Some((key, fingerprint)) = &self.commit.key
            && let Some(answered) = self.rows.answered(&self.commit.principal, key)?
        {
            return replay(answered, fingerprint).map_err(No::Refused);
        }
        self.find_actor()?;
        for (index, op) in self.commit.ops.iter().enumerate() {
            self.commit.principal.check_right(op).map_err(|refused| refused.at_op(index))?;
        }
        if let Some(actor) = self.actor {
            self.bring_back(actor);
        }
        let mut results = Vec::with_capacity(self.commit.ops.len());
        let mut refused: Option<Refused> = None;
        for (index, op) in self.commit.ops.iter().enumerate() {
            self.op = index;
            let result =
                self.run_op(op).and_then(|result| self.rows.check().map(|()| result).map_err(No::from));
            match result {
                Ok(result) => results.push(result),
                Err(No::Failed(failed)) => return Err(No::Failed(failed)),
                Err(No::Refused(mut refusal)) => {
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
                        let ended_by = refusal.facts.ended_by;
                        first.facts.stale.push(Stale {
                            op: index,
                            item,
                            code: refusal.code,
                            token,
                            ended_by,
                        });
                    }
                    first.facts.stale.extend(stale.into_iter().map(|one| Stale { op: index, ..one }));
                }
            }
        }
        if let Some(refused) = refused.or_else(|| self.mixed_repeats()) {
            return Err(No::Refused(refused));
        }
        self.serve_stirred_locks()?;
        self.hand_out_stirred()?;
        self.hand_out_tasks();
        if let Some(actor) = self.actor {
            self.working.hear_of(actor, self.now);
        }
        Ok(Outcome::New(results))
    }

    fn run_op(&mut self, op: &Op) -> Result<OpResult, No> {
        // The size limit of the policy applies to every payload, whatever the operation.
        self.working.policy().check_size(op.bytes_max())?;
        match op {
            Op::RegisterAgent(agent) => self.register(agent),
            Op::RemoveAgent { agent } => self.remove_agent(agent),
            Op::Send { message, fingerprint } => self.send(message, fingerprint),
            Op::Claim { agent, max, lease_ms, waiting } => self.claim(agent, *max, *lease_ms, *waiting),
            Op::Grant { consumer, credit } => Ok(self.grant(*consumer, *credit)),
            Op::Close { consumer } => Ok(self.close(*consumer)),
            Op::Ack(lease) => self.ack(*lease),
            Op::Nack(nack) => self.nack(nack),
            Op::Extend(extend) => self.extend(*extend),
            Op::Redrive { delivery } => self.redrive(*delivery),
            Op::Purge { agent } => self.purge(agent).map_err(No::Refused),
            Op::Put(put) => self.put(put),
            Op::Delete(delete) => self.delete(delete),
            Op::Erase(erase) => self.erase(*erase),
            Op::Sweep => self.sweep(),
            Op::SetPolicy(policy) => self.set_policy(policy).map_err(No::Refused),
            Op::AcquireLocks(ask) => self.acquire_locks(ask),
            Op::RenewLocks(renew) => self.renew_locks(renew),
            Op::ReleaseLocks(locks) => self.release_locks(locks),
            Op::SetBudget(set) => self.set_budget(set),
            Op::OpenSession(open) => self.open_session(open),
            Op::ChangeSession(change) => self.change_session(change),
            Op::AddToSession(add) => self.add_to_session(add),
            Op::CreateTasks(create) => self.make_tasks(create),
            Op::ClaimTasks(claim) => self.claim_tasks(claim).map_err(No::Refused),
            Op::HeartbeatTask(heartbeat) => self.heartbeat_task(heartbeat),
            Op::CompleteTask(complete) => self.complete_task(complete),
            Op::FailTask(fail) => self.fail_task(fail),
            Op::ReleaseTask(lease) => self.release_task(lease),
            Op::CancelTask(cancel) => self.cancel_task(cancel),
            Op::MakeSnapshot(make) => self.make_snapshot(make),
            Op::DropSnapshot { name } => self.drop_snapshot(name),
            Op::Rollback(rollback) => self.rollback(rollback),
            Op::Subscribe(asked) => self.subscribe(asked).map_err(No::Refused),
            Op::Unsubscribe { agent, pattern } => self.unsubscribe(agent, pattern).map_err(No::Refused),
            Op::BringHistory(history) => self.bring_history(history).map_err(No::Refused),
            Op::AckMany(leases) => self.ack_many(leases),
            Op::Request(ask) => self.request(ask),
            Op::AwaitRequest { request, waiting } => self.await_request(*request, *waiting),
            Op::CancelRequest { request } => self.cancel_request(*request),
            Op::Heartbeat(heartbeat) => self.heartbeat(heartbeat).map_err(No::Refused),
            Op::Inspect(what) => self.inspect(what),
            Op::AwaitTask(wait) => self.await_task(wait),
            Op::Heard { agents } => Ok(self.heard(agents)),
            Op::CreateToken(new) => self.create_token(new).map_err(No::Refused),
            Op::RevokeToken { token } => self.revoke_token(*token).map_err(No::Refused),
            Op::RequestApproval(ask) => self.request_approval(ask),
            Op::DecideApproval(decide) => self.decide_approval(decide),
            Op::StartProcedure(start) => self.start_procedure(start),
            Op::StepProcedure(step) => self.step_procedure(step),
            Op::Resume { agent, lease_ms } => self.resume(agent, *lease_ms).map_err(No::Refused),
        }
    }

    /// Applies an effect to the working state and records it, so that state and log cannot diverge.
    fn emit(&mut self, effect: Effect) {
        self.rows.add_effect(&effect);
        self.working.apply(&effect, self.seq, &mut self.messages, self.now);
        self.effects.push(effect);
    }

    /// Returns the end of a delivery, if this commit ended it.
    fn ended_here(&self, delivery: DeliveryNo) -> Option<&EndedOpen> {
        self.rows.add_steps(self.ended.len());
        self.ended.iter().rev().find(|ended| ended.delivery == delivery)
    }

    /// Ends a delivery. Keeps its last open state for the dead letter row and for repeated acks.
    fn end(&mut self, delivery: DeliveryNo, state: EndState, effect: Effect) {
        let open = self.working.open(delivery).copied();
        self.emit(effect);
        if let Some(open) = open {
            self.ended.push(EndedOpen { delivery, state, open });
            // The ended lease frees capacity for the next one.
            if let Some(agent) = open.to.agent_no() {
                self.working.stir_all(agent);
            }
            if matches!(state, EndState::Dead | EndState::Purged) {
                self.lose_question(delivery, &open);
            }
        }
    }

    fn conclude(self, results: Vec<OpResult>) -> Decided {
        let sweep = matches!(self.commit.ops.as_slice(), [Op::Sweep]);
        let kind = if sweep { RecordKind::Sweep } else { RecordKind::Commit };
        self.conclude_as(kind, results)
    }

    fn conclude_as(self, kind: RecordKind, results: Vec<OpResult>) -> Decided {
        let at = self.now.wall;
        if self.effects.is_empty() {
            return Decided {
                handed: self.handed,
                dismissed: self.dismissed,
                told: self.told,
                prolonged: self.prolonged,
                is_new: true,
                ..Decided::without_effect(Receipt { seq: None, at, results })
            };
        }
        for effect in &self.effects {
            self.working.count_end(effect);
        }
        let principal = self.commit.principal.to_text();
        let record = append(self.working, kind, principal, at, &self.parts, &self.effects);
        Decided {
            receipt: Receipt { seq: Some(record.seq), at, results },
            record: Some(record),
            effects: self.effects,
            ended: self.ended,
            handed: self.handed,
            dismissed: self.dismissed,
            told: self.told,
            prolonged: self.prolonged,
            is_new: true,
        }
    }
}

fn replay(answered: Answered, fingerprint: &[u8; 32]) -> Result<Outcome, Refused> {
    if answered.fingerprint == *fingerprint {
        return Ok(Outcome::Replayed(answered.receipt));
    }
    Err(Refused::new(Code::Duplicate, "this idempotency key was used for another commit")
        .hint("use a new key for each commit; retry a commit only with identical content"))
}

/// Returns the name of the operation's object, and its lease token, for a refusal.
fn item_of(op: &Op) -> (String, Option<Token>) {
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
            (locks.first().map(|one| one.lock.to_string()).unwrap_or_default(), None)
        }
        Op::StepProcedure(step) => (step.procedure.to_string(), None),
        Op::Rollback(Rollback { what: RollbackWhat::Key { key, .. }, .. }) => (key.to_string(), None),
        _ => (String::new(), None),
    }
}
