//! Atomic execution of one commit.

use quorate_core::{
    AgentNo, Code, Commit, ConsumerId, DeliveryNo, EndState, Handed, Home, Now, Op, OpResult, Payload,
    Receipt, RecordKind, Refused, RenewLocks, Rollback, RollbackWhat, Seq, Stale, Timestamp, Token, Told,
};

use crate::reference::decided_at;
use crate::reference::space::{Answer, Noted, Place, Space};
use crate::store::{Handover, Outcome};

/// Commit in progress. It modifies the space in place; the caller restores a copy if the commit is refused.
pub(super) struct Step<'a> {
    pub(super) space: &'a mut Space,
    pub(super) commit: &'a Commit,
    pub(super) now: Now,
    /// Sequence number of the record to be written.
    pub(super) seq: Seq,
    /// Acting agent, if the principal is a registered agent.
    pub(super) actor: Option<AgentNo>,
    /// Whether the commit has an effect and needs a record.
    pub(super) changed: bool,
    pub(super) parts: Vec<Payload>,
    pub(super) messages: u32,
    pub(super) deliveries: usize,
    pub(super) handed: Vec<(ConsumerId, Handed)>,
    pub(super) dismissed: Vec<ConsumerId>,
    pub(super) told: Vec<(ConsumerId, Told)>,
    /// Number of tasks created so far.
    pub(super) tasks: u32,
    /// Number of tokens created so far.
    pub(super) tokens: u32,
    /// Number of procedures started so far.
    pub(super) started: u32,
    /// Number of approvals requested so far.
    pub(super) asked: u32,
    /// Leases that ended successfully before this commit and that it ends again.
    pub(super) over_before: Vec<Stale>,
    /// Index of the current operation.
    pub(super) at: usize,
    /// Whether the commit ended an attempt of a task.
    pub(super) tried: bool,
    /// Error code for requesters whose question is lost.
    pub(super) lost_with: Code,
}

impl Space {
    pub(super) fn commit(&mut self, commit: &Commit, now: Now, handover: &mut Handover) -> Outcome {
        let now = decided_at(now, self.newest_at());
        self.let_time_pass(now.wall);
        if let Some((key, fingerprint)) = &commit.key {
            let same = |answer: &&Answer| answer.principal == commit.principal && answer.key == *key;
            if let Some(answer) = self.answers.iter().find(same) {
                return if answer.fingerprint == *fingerprint {
                    Ok(answer.receipt.clone())
                } else {
                    Err(Refused::new(Code::Duplicate, "the idempotency key was used for another commit"))
                };
            }
        }
        let before = self.clone();
        let mut step = Step::new(self, commit, now);
        match step.run() {
            Ok(results) => {
                handover.handed.append(&mut step.handed);
                handover.dismissed.append(&mut step.dismissed);
                handover.told.append(&mut step.told);
                Ok(step.conclude(results))
            }
            Err(refused) => {
                *self = before;
                Err(refused)
            }
        }
    }

    /// Makes due deliveries ready, even if the commit is refused afterwards.
    pub(super) fn let_time_pass(&mut self, now: Timestamp) {
        let due = |space: &Self, number: DeliveryNo| match space.delivery(number).map(|one| &one.place) {
            Some(Place::Scheduled { due }) => *due,
            _ => Timestamp(u64::MAX),
        };
        let mut now_due =
            self.deliveries_where(|one| matches!(one.place, Place::Scheduled { due } if due <= now));
        now_due.sort_by_key(|number| (due(self, *number), *number));
        for number in now_due {
            let since = due(self, number);
            self.delivery_mut(number).place = Place::Ready { since, by_time: true };
            let home = self.deliveries[number.0 as usize - 1].to.home();
            self.stir(home);
        }
    }

    /// Queues an inbox or a pool for dispatch if it has a ready delivery and a waiting consumer.
    pub(super) fn stir(&mut self, home: Home) {
        let awaited = self.consumers.iter().any(|one| self.waits_for(one, home));
        if awaited && self.has_ready(home) && !self.stirred.contains(&home) {
            self.stirred.push(home);
        }
    }

    /// Queues the inbox and all pools of an agent for dispatch.
    pub(super) fn stir_all(&mut self, agent: AgentNo) {
        self.stir(Home::Agent(agent));
        for pool in self.pools_of(agent) {
            self.stir(Home::Pool(pool));
        }
    }
}

impl<'a> Step<'a> {
    pub(super) fn new(space: &'a mut Space, commit: &'a Commit, now: Now) -> Self {
        let seq = Seq(space.newest().0 + 1);
        Self {
            space,
            commit,
            now,
            seq,
            actor: None,
            changed: false,
            parts: Vec::new(),
            messages: 0,
            deliveries: 0,
            handed: Vec::new(),
            dismissed: Vec::new(),
            told: Vec::new(),
            tasks: 0,
            tokens: 0,
            started: 0,
            asked: 0,
            over_before: Vec::new(),
            at: 0,
            tried: false,
            lost_with: Code::Cancelled,
        }
    }

    fn run(&mut self) -> Result<Vec<OpResult>, Refused> {
        self.find_actor()?;
        for (index, op) in self.commit.ops.iter().enumerate() {
            self.may(op).map_err(|refused| refused.at_op(index))?;
        }
        if let Some(actor) = self.actor {
            self.come_back_online(actor);
        }
        let mut results = Vec::new();
        let mut first: Option<Refused> = None;
        for (index, op) in self.commit.ops.iter().enumerate() {
            self.at = index;
            match self.operation(op) {
                Ok(result) => results.push(result),
                Err(refused) => {
                    let (code, ended_by) = (refused.code, refused.facts.ended_by);
                    let mut refused = refused.at_op(index);
                    let stale = std::mem::take(&mut refused.facts.stale);
                    let named = first.get_or_insert(refused);
                    // A refusal lists all stale items, so the remaining operations are checked too. Any other error
                    // ends the check.
                    if !matches!(code, Code::StaleLease | Code::VersionConflict | Code::StaleFence) {
                        break;
                    }
                    if stale.is_empty() {
                        let (item, token) = item(op);
                        named.facts.stale.push(Stale { op: index, item, code, token, ended_by });
                    }
                    named.facts.stale.extend(stale.into_iter().map(|one| Stale { op: index, ..one }));
                }
            }
        }
        if let Some(refused) = first {
            return Err(refused);
        }
        if self.tried && !self.over_before.is_empty() {
            let mut refused = ended_before(self.over_before[0].ended_by.unwrap_or_default());
            // The operations that ended a lease again, in order.
            refused.facts.op = self.over_before.iter().map(|one| one.op).min();
            refused.facts.stale = std::mem::take(&mut self.over_before);
            return Err(refused);
        }
        self.serve_locks();
        self.hand_out();
        self.hand_out_tasks();
        if let Some(actor) = self.actor {
            self.hear_of(actor);
        }
        Ok(results)
    }

    /// Handles a lease that an earlier record ended successfully. Only a commit that consists solely of such operations
    /// can be a repetition of an earlier commit.
    pub(super) fn once_more(
        &mut self,
        item: String,
        token: Token,
        seq: Seq,
        is_same: bool,
    ) -> Result<(), Refused> {
        let ends =
            |op: &Op| matches!(op, Op::Ack(_) | Op::AckMany(_) | Op::CompleteTask(_) | Op::FailTask(_));
        let others = self.commit.ops.iter().any(|op| !ends(op) && !matches!(op, Op::Grant { .. }));
        if !is_same || (others && seq != self.seq) {
            return Err(ended_before(seq));
        }
        if seq != self.seq {
            let op = self.at;
            let (token, ended_by) = (Some(token), Some(seq));
            self.over_before.push(Stale { op, item, code: Code::StaleLease, token, ended_by });
        }
        Ok(())
    }

    fn operation(&mut self, op: &Op) -> Result<OpResult, Refused> {
        self.not_too_large(op)?;
        match op {
            Op::RegisterAgent(agent) => self.register(agent),
            Op::RemoveAgent { agent } => self.remove(agent),
            Op::Send { message, fingerprint } => self.send(message, fingerprint),
            Op::Claim { agent, max, lease_ms, waiting } => self.claim(agent, *max, *lease_ms, *waiting),
            Op::Grant { consumer, credit } => Ok(self.grant(*consumer, *credit)),
            Op::Close { consumer } => Ok(self.close(*consumer)),
            Op::Ack(lease) => self.ack(*lease),
            Op::Nack(nack) => self.nack(nack),
            Op::Extend(extend) => self.extend(*extend),
            Op::Redrive { delivery } => self.redrive(*delivery),
            Op::Purge { agent } => self.purge(agent),
            Op::Put(put) => self.put(put),
            Op::Delete(delete) => self.delete(delete),
            Op::Erase(erase) => self.erase(*erase),
            Op::Sweep => self.sweep(),
            Op::SetPolicy(policy) => self.set_policy(policy),
            Op::AcquireLocks(ask) => self.acquire(ask),
            Op::RenewLocks(renew) => self.renew(renew),
            Op::ReleaseLocks(locks) => self.release(locks),
            Op::SetBudget(set) => self.set_budget(set),
            Op::OpenSession(open) => self.open_session(open),
            Op::ChangeSession(change) => self.change_session(change),
            Op::AddToSession(add) => self.add_to_session(add),
            Op::CreateTasks(create) => self.create_tasks(create),
            Op::ClaimTasks(claim) => self.claim_tasks(claim),
            Op::HeartbeatTask(beat) => self.heartbeat_task(beat),
            Op::CompleteTask(done) => self.complete_task(done),
            Op::FailTask(fail) => self.fail_task(fail),
            Op::ReleaseTask(lease) => self.release_task(lease),
            Op::CancelTask(cancel) => self.cancel_task(cancel),
            Op::MakeSnapshot(make) => self.make_snapshot(make),
            Op::DropSnapshot { name } => self.drop_snapshot(name),
            Op::Rollback(rollback) => self.rollback(rollback),
            Op::Subscribe(asked) => self.subscribe(asked),
            Op::Unsubscribe { agent, pattern } => self.unsubscribe(agent, pattern),
            Op::BringHistory(history) => self.bring_history(history),
            Op::AckMany(leases) => self.ack_many(leases),
            Op::Request(ask) => self.ask(ask),
            Op::AwaitRequest { request, waiting } => self.await_request(*request, *waiting),
            Op::CancelRequest { request } => self.cancel(*request),
            Op::Heartbeat(heartbeat) => self.heartbeat(heartbeat),
            Op::Inspect(what) => self.inspect(what),
            Op::AwaitTask(wait) => self.await_task(wait),
            Op::Heard { agents } => self.heard(agents),
            Op::CreateToken(new) => self.create_token(new),
            Op::RevokeToken { token } => self.revoke_token(*token),
            Op::RequestApproval(ask) => self.request_approval(ask),
            Op::DecideApproval(decide) => self.decide_approval(decide),
            Op::StartProcedure(start) => self.start_procedure(start),
            Op::StepProcedure(step) => self.step_procedure(step),
            Op::Resume { agent, lease_ms } => self.resume(agent, *lease_ms),
        }
    }

    fn conclude(self, results: Vec<OpResult>) -> Receipt {
        let at = self.now.wall;
        let seq = self.changed.then_some(self.seq);
        if self.changed {
            let by_time = matches!(self.commit.ops.as_slice(), [Op::Sweep]);
            self.space.records.push(Noted {
                at,
                kind: if by_time { RecordKind::Sweep } else { RecordKind::Commit },
                principal: self.commit.principal.to_string(),
                parts: self.parts,
            });
        }
        let receipt = Receipt { seq, at, results };
        if let Some((key, fingerprint)) = self.commit.key.as_ref().filter(|_| receipt.uses_key()) {
            self.space.answers.push(Answer {
                principal: self.commit.principal.clone(),
                key: key.clone(),
                fingerprint: *fingerprint,
                receipt: without_inputs(&receipt),
            });
        }
        receipt
    }

    /// Ends an open delivery.
    pub(super) fn end(&mut self, number: DeliveryNo, state: EndState, reason: String) {
        let (seq, at) = (self.seq, self.now.wall);
        let delivery = self.space.delivery_mut(number);
        let (holder, token) = (delivery.to.agent_no(), delivery.token());
        delivery.place = Place::Ended { state, token, seq, at, reason };
        self.changed = true;
        // The in-flight limit of the holder may now allow another delivery.
        if let Some(agent) = holder {
            self.space.stir_all(agent);
        }
        if matches!(state, EndState::Dead | EndState::Purged) {
            self.lose_question(number);
        }
    }
}

/// Returns the receipt to store under the key: without the inputs of tasks, which are in the log.
fn without_inputs(receipt: &Receipt) -> Receipt {
    let mut stored = receipt.clone();
    for result in &mut stored.results {
        if let OpResult::TasksClaimed(handed) = result {
            handed.iter_mut().for_each(|one| one.input = None);
        }
    }
    stored
}

/// Returns the item of an operation as named in a refusal, and its lease token.
fn item(op: &Op) -> (String, Option<Token>) {
    match op {
        Op::Ack(lease) => (lease.delivery.to_string(), Some(lease.token)),
        Op::Nack(nack) => (nack.lease.delivery.to_string(), Some(nack.lease.token)),
        Op::Extend(extend) => (extend.lease.delivery.to_string(), Some(extend.lease.token)),
        Op::Put(put) => (put.key.to_string(), None),
        Op::Delete(delete) => (delete.key.to_string(), None),
        Op::RenewLocks(RenewLocks { locks, .. }) | Op::ReleaseLocks(locks) => {
            (locks.first().map(|one| one.lock.to_string()).unwrap_or_default(), None)
        }
        Op::HeartbeatTask(beat) => (beat.lease.task.to_string(), Some(beat.lease.token)),
        Op::CompleteTask(done) => (done.lease.task.to_string(), Some(done.lease.token)),
        Op::FailTask(fail) => (fail.lease.task.to_string(), Some(fail.lease.token)),
        Op::ReleaseTask(lease) => (lease.task.to_string(), Some(lease.token)),
        Op::StepProcedure(step) => (step.procedure.to_string(), None),
        Op::Rollback(Rollback { what: RollbackWhat::Key { key, .. }, .. }) => (key.to_string(), None),
        _ => (String::new(), None),
    }
}

fn ended_before(seq: Seq) -> Refused {
    Refused::new(Code::StaleLease, format!("the lease was ended by record {seq}")).ended_by(seq)
}
