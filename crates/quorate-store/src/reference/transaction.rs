//! Atomic execution of one commit.

use quorate_core::{
    AgentNo, Code, Commit, ConsumerEvent, ConsumerId, DeliveryNo, EndState, HolderEvent, LeaseToken,
    LeasedDelivery, Now, Op, OpResult, Payload, QueueId, Receipt, RecordKind, Refused, RenewLocks, Rollback,
    RollbackScope, Seq, StaleReference, Timestamp,
};

use crate::reference::decided_at;
use crate::reference::space::{DeliveryPhase, LogRecord, Space, StoredReceipt};
use crate::store::{BatchDispatch, CommitResult};

/// Commit in progress. It modifies the space in place; the caller restores a copy if the commit is refused.
pub(super) struct Transaction<'a> {
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
    pub(super) dispatched: Vec<(ConsumerId, LeasedDelivery)>,
    pub(super) dismissed_consumers: Vec<ConsumerId>,
    pub(super) consumer_events: Vec<(ConsumerId, ConsumerEvent)>,
    pub(super) holder_events: Vec<(AgentNo, HolderEvent)>,
    /// Number of tasks created so far.
    pub(super) tasks: u32,
    /// Number of tokens created so far.
    pub(super) tokens: u32,
    /// Number of procedures started so far.
    pub(super) procedures_started: u32,
    /// Number of approvals requested so far.
    pub(super) approvals_requested: u32,
    /// Leases that ended successfully before this commit and that it ends again.
    pub(super) repeated_ends: Vec<StaleReference>,
    /// Index of the current operation.
    pub(super) op_index: usize,
    /// Whether the commit ended an attempt of a task.
    pub(super) ends_task_lease: bool,
    /// Error code for requesters whose request message is lost.
    pub(super) lost_request_code: Code,
}

impl Space {
    pub(super) fn commit(&mut self, commit: &Commit, now: Now, dispatch: &mut BatchDispatch) -> CommitResult {
        let now = decided_at(now, self.newest_at());
        self.activate_due_deliveries(now.wall);
        if let Some((key, fingerprint)) = &commit.key {
            let same = |stored: &&StoredReceipt| stored.principal == commit.principal && stored.key == *key;
            if let Some(stored) = self.receipts.iter().find(same) {
                return if stored.fingerprint == *fingerprint {
                    Ok(stored.receipt.clone())
                } else {
                    Err(Refused::new(Code::Duplicate, "the idempotency key was used for another commit"))
                };
            }
        }
        let before = self.clone();
        let mut transaction = Transaction::new(self, commit, now);
        match transaction.run() {
            Ok(results) => {
                dispatch.dispatched.append(&mut transaction.dispatched);
                dispatch.dismissed_consumers.append(&mut transaction.dismissed_consumers);
                dispatch.consumer_events.append(&mut transaction.consumer_events);
                dispatch.holder_events.append(&mut transaction.holder_events);
                Ok(transaction.conclude(results))
            }
            Err(refused) => {
                *self = before;
                Err(refused)
            }
        }
    }

    /// Makes due deliveries ready, even if the commit is refused afterwards.
    pub(super) fn activate_due_deliveries(&mut self, now: Timestamp) {
        let due =
            |space: &Self, number: DeliveryNo| match space.delivery(number).map(|delivery| &delivery.phase) {
                Some(DeliveryPhase::Scheduled { due }) => *due,
                _ => Timestamp(u64::MAX),
            };
        let mut now_due = self.deliveries_where(
            |delivery| matches!(delivery.phase, DeliveryPhase::Scheduled { due } if due <= now),
        );
        now_due.sort_by_key(|number| (due(self, *number), *number));
        for number in now_due {
            let since = due(self, number);
            self.delivery_mut(number).phase = DeliveryPhase::Ready { since, by_time: true };
            let queue = self.deliveries[number.0 as usize - 1].to.queue();
            self.queue_dispatch(queue);
        }
    }

    /// Queues an inbox or a pool for dispatch if it has a ready delivery and a waiting consumer.
    pub(super) fn queue_dispatch(&mut self, queue: QueueId) {
        let awaited = self.consumers.iter().any(|consumer| self.can_serve(consumer, queue));
        if awaited && self.has_ready(queue) && !self.dispatch_queue.contains(&queue) {
            self.dispatch_queue.push(queue);
        }
    }

    /// Queues the inbox and all pools of an agent for dispatch.
    pub(super) fn queue_dispatch_of_agent(&mut self, agent: AgentNo) {
        self.queue_dispatch(QueueId::Agent(agent));
        for pool in self.pools_of(agent) {
            self.queue_dispatch(QueueId::Pool(pool));
        }
    }
}

impl<'a> Transaction<'a> {
    pub(super) fn new(space: &'a mut Space, commit: &'a Commit, now: Now) -> Self {
        let seq = Seq(space.newest_seq().0 + 1);
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
            dispatched: Vec::new(),
            dismissed_consumers: Vec::new(),
            consumer_events: Vec::new(),
            holder_events: Vec::new(),
            tasks: 0,
            tokens: 0,
            procedures_started: 0,
            approvals_requested: 0,
            repeated_ends: Vec::new(),
            op_index: 0,
            ends_task_lease: false,
            lost_request_code: Code::Cancelled,
        }
    }

    fn run(&mut self) -> Result<Vec<OpResult>, Refused> {
        self.resolve_actor()?;
        for (index, op) in self.commit.ops.iter().enumerate() {
            self.check_permission(op).map_err(|refused| refused.at_op(index))?;
        }
        if let Some(actor) = self.actor {
            self.mark_online(actor);
        }
        let mut results = Vec::new();
        let mut first_refusal: Option<Refused> = None;
        for (index, op) in self.commit.ops.iter().enumerate() {
            self.op_index = index;
            match self.operation(op) {
                Ok(result) => results.push(result),
                Err(refused) => {
                    let (code, ended_by) = (refused.code, refused.facts.ended_by);
                    let ended_request = refused.facts.ended_request;
                    let mut refused = refused.at_op(index);
                    let stale = std::mem::take(&mut refused.facts.stale);
                    let first = first_refusal.get_or_insert(refused);
                    // A refusal lists all stale items, so the remaining operations are checked too. Any other error
                    // ends the check.
                    if !matches!(code, Code::StaleLease | Code::VersionConflict | Code::StaleFence) {
                        break;
                    }
                    if stale.is_empty() {
                        let (item, token) = item(op);
                        let stale = StaleReference { op: index, item, code, token, ended_by, ended_request };
                        first.facts.stale.push(stale);
                    }
                    first
                        .facts
                        .stale
                        .extend(stale.into_iter().map(|reference| StaleReference { op: index, ..reference }));
                }
            }
        }
        if let Some(refused) = first_refusal {
            return Err(refused);
        }
        if self.ends_task_lease && !self.repeated_ends.is_empty() {
            let mut refused = ended_before(self.repeated_ends[0].ended_by.unwrap_or_default());
            // The operations that ended a lease again, in order.
            refused.facts.op = self.repeated_ends.iter().map(|reference| reference.op).min();
            refused.facts.stale = std::mem::take(&mut self.repeated_ends);
            return Err(refused);
        }
        self.grant_free_locks();
        self.dispatch_deliveries();
        self.dispatch_tasks();
        if let Some(actor) = self.actor {
            self.record_activity(actor);
            self.space.disconnected.remove(&actor);
        }
        Ok(results)
    }

    /// Handles a lease that an earlier record ended successfully. Only a commit that consists solely of such operations
    /// can be a repetition of an earlier commit.
    pub(super) fn accept_repeated_end(
        &mut self,
        item: String,
        token: LeaseToken,
        seq: Seq,
        is_same: bool,
    ) -> Result<(), Refused> {
        let ends =
            |op: &Op| matches!(op, Op::Ack(_) | Op::AckMany(_) | Op::CompleteTask(_) | Op::FailTask(_));
        let others = self.commit.ops.iter().any(|op| !ends(op) && !matches!(op, Op::GrantCredit { .. }));
        if !is_same || (others && seq != self.seq) {
            return Err(ended_before(seq));
        }
        if seq != self.seq {
            let op = self.op_index;
            let (token, ended_by) = (Some(token), Some(seq));
            let code = Code::StaleLease;
            let repeated = StaleReference { op, item, code, token, ended_by, ended_request: None };
            self.repeated_ends.push(repeated);
        }
        Ok(())
    }

    fn operation(&mut self, op: &Op) -> Result<OpResult, Refused> {
        self.check_payload_size(op)?;
        match op {
            Op::RegisterAgent(agent) => self.register(agent),
            Op::RemoveAgent { agent } => self.remove(agent),
            Op::Send { message, fingerprint } => self.send(message, fingerprint),
            Op::Claim { agent, max, lease_ms, wait } => self.claim(agent, *max, *lease_ms, *wait),
            Op::GrantCredit { consumer, credit } => Ok(self.grant_credit(*consumer, *credit)),
            Op::CloseConsumer { consumer } => Ok(self.close_consumer(*consumer)),
            Op::Ack(lease) => self.ack(*lease),
            Op::Nack(nack) => self.nack(nack),
            Op::Extend(extend) => self.extend(*extend),
            Op::Redrive { delivery } => self.redrive(*delivery),
            Op::Purge { agent } => self.purge(agent),
            Op::Put(put) => self.put(put),
            Op::Delete(delete) => self.delete(delete),
            Op::ErasePayload(erase) => self.erase(*erase),
            Op::Sweep => self.sweep(),
            Op::SetPolicy(policy) => self.set_policy(policy),
            Op::AcquireLocks(acquire) => self.acquire(acquire),
            Op::RenewLocks(renew) => self.renew(renew),
            Op::ReleaseLocks(locks) => self.release(locks),
            Op::SetBudget(set) => self.set_budget(set),
            Op::OpenSession(open) => self.open_session(open),
            Op::ChangeSession(change) => self.change_session(change),
            Op::AddToSession(add) => self.add_to_session(add),
            Op::CreateTasks(create) => self.create_tasks(create),
            Op::ClaimTasks(claim) => self.claim_tasks(claim),
            Op::HeartbeatTask(heartbeat) => self.heartbeat_task(heartbeat),
            Op::CompleteTask(complete) => self.complete_task(complete),
            Op::FailTask(fail) => self.fail_task(fail),
            Op::ReleaseTask(lease) => self.release_task(lease),
            Op::CancelTask(cancel) => self.cancel_task(cancel),
            Op::MakeSnapshot(make) => self.make_snapshot(make),
            Op::DropSnapshot { name } => self.drop_snapshot(name),
            Op::Rollback(rollback) => self.rollback(rollback),
            Op::Subscribe(subscribe) => self.subscribe(subscribe),
            Op::Unsubscribe { agent, pattern } => self.unsubscribe(agent, pattern),
            Op::Backfill(history) => self.backfill(history),
            Op::AckMany(leases) => self.ack_many(leases),
            Op::Request(request) => self.send_request(request),
            Op::AwaitRequest { request, consumer } => self.await_request(*request, *consumer),
            Op::CancelRequest { request } => self.cancel_request_by_id(*request),
            Op::Heartbeat(heartbeat) => self.heartbeat(heartbeat),
            Op::Inspect(query) => self.inspect(query),
            Op::AwaitTask(wait) => self.await_task(wait),
            Op::HeartbeatBatch { agents } => self.heartbeat_batch(agents),
            Op::ConnectionClosed { agent } => self.connection_closed(*agent),
            Op::CreateToken(new) => self.create_token(new),
            Op::RevokeToken { token } => self.revoke_token(*token),
            Op::RequestApproval(request) => self.request_approval(request),
            Op::DecideApproval(decide) => self.decide_approval(decide),
            Op::StartProcedure(start) => self.start_procedure(start),
            Op::StepProcedure(step) => self.step_procedure(step),
            Op::ControlProcedure(control) => self.control_procedure(control),
            Op::SignalProcedure(signal) => self.signal_procedure(signal),
            Op::ResumeLeases { agent, lease_ms } => self.resume_leases(agent, *lease_ms),
        }
    }

    fn conclude(self, results: Vec<OpResult>) -> Receipt {
        let at = self.now.wall;
        let seq = self.changed.then_some(self.seq);
        if self.changed {
            let is_sweep = matches!(self.commit.ops.as_slice(), [Op::Sweep]);
            self.space.records.push(LogRecord {
                at,
                kind: if is_sweep { RecordKind::Sweep } else { RecordKind::Commit },
                principal: self.commit.principal.to_string(),
                parts: self.parts,
            });
        }
        let receipt = Receipt { seq, at, results };
        if let Some((key, fingerprint)) = self.commit.key.as_ref().filter(|_| receipt.consumes_key()) {
            self.space.receipts.push(StoredReceipt {
                principal: self.commit.principal.clone(),
                key: key.clone(),
                fingerprint: *fingerprint,
                receipt: without_inputs(&receipt),
            });
        }
        receipt
    }

    /// Ends an open delivery.
    pub(super) fn end_delivery(&mut self, number: DeliveryNo, state: EndState, reason: String) {
        let (seq, at) = (self.seq, self.now.wall);
        let delivery = self.space.delivery_mut(number);
        let (holder, token) = (delivery.to.agent_no(), delivery.token());
        delivery.phase = DeliveryPhase::Ended { state, token, seq, at, reason };
        self.changed = true;
        // The in-flight limit of the holder may now allow another delivery.
        if let Some(agent) = holder {
            self.space.queue_dispatch_of_agent(agent);
        }
        if matches!(state, EndState::Dead | EndState::Purged) {
            self.fail_request_delivery(number);
        }
    }
}

/// Returns the receipt to store under the key: without the inputs of tasks, which are in the log.
fn without_inputs(receipt: &Receipt) -> Receipt {
    let mut stored = receipt.clone();
    for result in &mut stored.results {
        if let OpResult::TasksClaimed(tasks) = result {
            tasks.iter_mut().for_each(|task| task.input = None);
        }
    }
    stored
}

/// Returns the item of an operation as named in a refusal, and its lease token.
fn item(op: &Op) -> (String, Option<LeaseToken>) {
    match op {
        Op::Ack(lease) => (lease.delivery.to_string(), Some(lease.token)),
        Op::Nack(nack) => (nack.lease.delivery.to_string(), Some(nack.lease.token)),
        Op::Extend(extend) => (extend.lease.delivery.to_string(), Some(extend.lease.token)),
        Op::Put(put) => (put.key.to_string(), None),
        Op::Delete(delete) => (delete.key.to_string(), None),
        Op::RenewLocks(RenewLocks { locks, .. }) | Op::ReleaseLocks(locks) => {
            (locks.first().map(|fence| fence.lock.to_string()).unwrap_or_default(), None)
        }
        Op::HeartbeatTask(heartbeat) => (heartbeat.lease.task.to_string(), Some(heartbeat.lease.token)),
        Op::CompleteTask(complete) => (complete.lease.task.to_string(), Some(complete.lease.token)),
        Op::FailTask(fail) => (fail.lease.task.to_string(), Some(fail.lease.token)),
        Op::ReleaseTask(lease) => (lease.task.to_string(), Some(lease.token)),
        Op::StepProcedure(step) => (step.procedure.to_string(), None),
        Op::Rollback(Rollback { scope: RollbackScope::Key { key, .. }, .. }) => (key.to_string(), None),
        _ => (String::new(), None),
    }
}

fn ended_before(seq: Seq) -> Refused {
    Refused::new(Code::StaleLease, format!("the lease was ended by record {seq}")).ended_by(seq)
}
