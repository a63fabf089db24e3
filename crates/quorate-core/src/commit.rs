//! The commit: an atomic list of operations, and the receipt that answers it.

mod receipt;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::access_token::{CreateToken, TokenName, TokenRole};
use crate::approval::{DecideApproval, RequestApproval, Verdict};
use crate::budget::SetBudget;
use crate::codec::fingerprint;
use crate::decide::RollbackPlan;
use crate::declaration::DeclarationDigest;
use crate::ids::{
    AgentId, AgentNo, ConsumerId, DeliveryId, Epoch, IdempotencyKey, Key, LeaseToken, MessageId, Seq,
    SnapshotName, TokenId, Version,
};
use crate::inspect::Inspect;
use crate::limits::{
    ACKS_MAX, CLAIM_MAX, COMMIT_BYTES_MAX, LEASE_MS_MAX, LEASE_MS_MIN, LIST_MAX, NACK_DELAY_MS_MAX, OPS_MAX,
};
use crate::lock::{self, AcquireLocks, FenceRef, RenewLocks};
use crate::message::{Message, Payload, check_label, check_reason, check_short_text, is_json};
use crate::policy::Policy;
use crate::presence::Heartbeat;
use crate::procedure::{ControlProcedure, SignalProcedure, StartProcedure, StepProcedure};
use crate::refused::{Code, Refused};
use crate::registry::AgentRole;
use crate::request::SendRequest;
use crate::session::{AddToSession, ChangeSession, OpenSession};
use crate::snapshot::{MakeSnapshot, Rollback};
use crate::subscription::{Backfill, Subscribe};
use crate::task::{
    AwaitTask, CancelTask, ClaimTasks, CompleteTask, CreateTasks, FailTask, HeartbeatTask, TaskLeaseRef,
};
use crate::topic::Pattern;

pub use receipt::{ConsumerEvent, GrantedLocks, HolderEvent, OpResult, Receipt};

/// The principal that acts. Set by authentication; identity claims inside a request are ignored.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Principal {
    /// The hub itself: sweeps, and local access to the data directory.
    System,
    /// An agent.
    Agent(AgentId),
    /// A person or tool with an access token. Its role decides its permissions, see `permissions.rs`.
    Holder {
        /// The role, which decides the permissions.
        role: TokenRole,
        /// The name of the access token.
        name: TokenName,
    },
}

impl Principal {
    /// Returns the text form that is stored in the log.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::System => "system".to_owned(),
            Self::Agent(id) => ["agent:", id.as_str()].concat(),
            Self::Holder { role, name } => [role.as_str(), ":", name.as_str()].concat(),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// A list of operations that is applied atomically and becomes one record in the log.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The principal that acts.
    pub principal: Principal,
    /// The epoch of the acting agent; checked if present.
    pub epoch: Option<Epoch>,
    /// The access token of the acting agent, whose grants limit what it may register; `None` for other principals, and in
    /// an embedding program, which are not limited.
    pub token: Option<TokenId>,
    /// The idempotency key, with the fingerprint of the request that it belongs to.
    pub key: Option<(IdempotencyKey, [u8; 32])>,
    /// The operations, in order. Each one sees the effects of those before it.
    pub ops: Vec<Op>,
    /// Rollback plans, by the index of their operation. The store computes them before the commit is queued, because
    /// planning at the head would block the writer for too long.
    pub plans: BTreeMap<usize, Arc<Result<RollbackPlan, Refused>>>,
}

impl Commit {
    /// Creates a commit without an epoch and an idempotency key.
    #[must_use]
    pub fn new(principal: Principal, ops: Vec<Op>) -> Self {
        Self { principal, epoch: None, token: None, key: None, ops, plans: BTreeMap::new() }
    }

    /// Returns the prefix rollbacks that still need a plan, with the indexes of their operations.
    pub fn unplanned_rollbacks(&self) -> impl Iterator<Item = (usize, &Rollback)> {
        let rollbacks = self.ops.iter().enumerate().filter_map(|(index, op)| match op {
            Op::Rollback(rollback) if rollback.scope.is_prefix() => Some((index, rollback)),
            _ => None,
        });
        rollbacks.filter(|(index, _)| !self.plans.contains_key(index))
    }

    /// Estimates how many rows the commit touches. Used for fair queueing before the commit is decided.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.ops.iter().map(Op::weight).sum()
    }

    /// Sets the idempotency key: a retry with the same key and content is not applied again and gets the same receipt.
    #[must_use]
    pub fn keyed(mut self, key: IdempotencyKey) -> Self {
        let digest = fingerprint::of_commit(&self.ops);
        self.key = Some((key, digest));
        self
    }

    /// Sets the idempotency key of a commit whose operations were derived from the current state. The fingerprint
    /// covers the original request, because a retry of it may derive other operations.
    #[must_use]
    pub fn keyed_for(mut self, key: IdempotencyKey, request: &[&[u8]]) -> Self {
        self.key = Some((key, fingerprint::of_parts(request)));
        self
    }

    /// Whether the commit only ends leases: acks, completions and failures, plus the credit that the hub grants with
    /// them. Only such a commit may be replayed for a lease that an earlier record ended. Any other operation in it
    /// would be applied a second time for the same lease.
    #[must_use]
    pub fn only_ends_leases(&self) -> bool {
        let ends_lease = |op: &Op| {
            matches!(
                op,
                Op::Ack(_) | Op::AckMany(_) | Op::CompleteTask(_) | Op::FailTask(_) | Op::GrantCredit { .. }
            )
        };
        self.ops.iter().all(ends_lease)
    }

    /// Returns the size of all payloads in bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.ops.iter().map(Op::payload_bytes).sum()
    }

    /// Validates everything that does not depend on the state of the space. Runs on the caller's thread.
    ///
    /// # Errors
    /// `INVALID`, `TOO_LARGE` or `LIMIT_EXCEEDED`, naming the operation.
    pub fn check(&self) -> Result<(), Refused> {
        if self.ops.is_empty() {
            return Err(Refused::new(Code::Invalid, "the commit has no operation")
                .hint("send at least one operation in `ops`"));
        }
        if self.ops.len() > OPS_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                format!("the commit has {} operations", self.ops.len()),
            )
            .limit(OPS_MAX as u64)
            .hint("split it; operations that must be applied atomically have to fit into one commit"));
        }
        if self.ops.len() > 1 && self.ops.iter().any(|op| matches!(op, Op::Inspect(_))) {
            return Err(Refused::new(
                Code::Invalid,
                "an inspection must be the only operation of its commit",
            ));
        }
        for (index, op) in self.ops.iter().enumerate() {
            op.check().map_err(|refused| refused.at_op(index))?;
        }
        let bytes = self.payload_bytes();
        if bytes > COMMIT_BYTES_MAX {
            return Err(Refused::new(
                Code::TooLarge,
                format!("the payloads of the commit have {bytes} bytes"),
            )
            .limit(COMMIT_BYTES_MAX as u64));
        }
        Ok(())
    }
}

/// One operation of a commit.
#[derive(Clone, Debug)]
pub enum Op {
    /// `agent.register`: register an agent, or register it again under a new epoch.
    RegisterAgent(RegisterAgent),
    /// `agent.remove`: remove an agent. Its inbox must be empty.
    RemoveAgent {
        /// The agent to remove.
        agent: AgentId,
    },
    /// `send`: send a message to one or more recipients.
    Send {
        /// The message.
        message: Arc<Message>,
        /// Fingerprint that identifies a resend of the same message.
        fingerprint: Fingerprint,
    },
    /// `claim`: lease deliveries, and optionally wait for more.
    Claim {
        /// The agent whose inbox is claimed from.
        agent: AgentId,
        /// Maximum number of deliveries; for [`WaitMode::Standing`], its initial credit.
        max: u32,
        /// Duration of the leases.
        lease_ms: u64,
        /// Whether to wait if fewer than `max` deliveries are ready.
        wait: WaitMode,
    },
    /// Grants credit to a standing consumer. Writes no record unless this dispatches a delivery.
    GrantCredit {
        /// The consumer that receives the credit.
        consumer: ConsumerId,
        /// Number of additional deliveries that it accepts.
        credit: u32,
    },
    /// Closes a consumer. Writes no record; its deliveries stay leased.
    CloseConsumer {
        /// The consumer to close.
        consumer: ConsumerId,
    },
    /// `ack`: acknowledge a delivery.
    Ack(LeaseRef),
    /// `nack`: return a delivery without acknowledging it.
    Nack(Nack),
    /// `extend`: extend the lease of a delivery. Writes no record.
    Extend(Extend),
    /// `redrive`: redeliver a dead letter with a fresh set of attempts.
    Redrive {
        /// The dead letter.
        delivery: DeliveryId,
    },
    /// `purge`: end up to 4,096 open deliveries of an inbox: first the waiting ones, then the leased ones.
    Purge {
        /// The agent whose inbox is purged, or a pool such as `can:review`.
        agent: AgentId,
    },
    /// `put`: write a memory entry.
    Put(PutEntry),
    /// `delete`: delete a memory entry by writing a tombstone.
    Delete(DeleteEntry),
    /// `payload.erase`: overwrite a payload with zeros; the hash chain still verifies.
    ErasePayload(ErasePayload),
    /// Processes timeouts: expired leases, expired messages, deliveries that are due.
    Sweep,
    /// `policy.set`: replace the policy of the space.
    SetPolicy(Policy),
    /// `lock.acquire`: acquire all of the named locks or none, and optionally wait for them.
    AcquireLocks(AcquireLocks),
    /// `lock.renew`: restart the time to live of held locks. Writes no record.
    RenewLocks(RenewLocks),
    /// `lock.release`: release locks.
    ReleaseLocks(Vec<FenceRef>),
    /// `budget.set`: set the budget of a message chain.
    SetBudget(SetBudget),
    /// `session.open`: open a session, a scope for joint work.
    OpenSession(OpenSession),
    /// `session.join`, `leave`, `pause`, `resume`, `complete`, `fail`.
    ChangeSession(ChangeSession),
    /// `session.add`: add a decision, an artifact, a finding, a blocker or a note.
    AddToSession(AddToSession),
    /// `task.create`: create one task or a graph of tasks.
    CreateTasks(CreateTasks),
    /// `task.claim`: lease tasks, and optionally wait for more.
    ClaimTasks(ClaimTasks),
    /// `task.heartbeat`: extend the lease of a task. Writes no record unless it carries a partial result.
    HeartbeatTask(HeartbeatTask),
    /// `task.complete`: complete a task with a result.
    CompleteTask(CompleteTask),
    /// `task.fail`: report a failed attempt.
    FailTask(FailTask),
    /// `task.release`: return a task without an attempt. The lease does not count as an attempt.
    ReleaseTask(TaskLeaseRef),
    /// `task.cancel`: cancel a task.
    CancelTask(CancelTask),
    /// `snapshot.make`: name the log position before this commit.
    MakeSnapshot(MakeSnapshot),
    /// `snapshot.drop`: delete the name. The history stays.
    DropSnapshot {
        /// The snapshot to drop.
        name: SnapshotName,
    },
    /// `rollback`: restore earlier versions of entries by writing them as new versions.
    Rollback(Rollback),
    /// `subscribe`: subscribe an agent to the topics that match a pattern.
    Subscribe(Subscribe),
    /// `unsubscribe`: end a subscription.
    Unsubscribe {
        /// The subscriber.
        agent: AgentId,
        /// The exact pattern of the subscription.
        pattern: Pattern,
    },
    /// Delivers earlier messages to a subscriber that requested history. Issued by the hub.
    Backfill(Backfill),
    /// `ack` for several deliveries.
    AckMany(Vec<LeaseRef>),
    /// `request`: send a message and wait for the reply.
    Request(SendRequest),
    /// Waits for the reply to an existing request. Writes no record.
    AwaitRequest {
        /// The request.
        request: MessageId,
        /// The consumer that is notified.
        consumer: ConsumerId,
    },
    /// `request.cancel`: cancel a request and purge its deliveries that are not leased.
    CancelRequest {
        /// The request to cancel.
        request: MessageId,
    },
    /// `agent.heartbeat`: report that an agent is alive. Writes no record unless its status or health changed.
    Heartbeat(Heartbeat),
    /// Reads the state at the head. Must be the only operation of its commit; writes no record.
    Inspect(Inspect),
    /// Waits until a task has ended. Writes no record.
    AwaitTask(AwaitTask),
    /// Heartbeats of several agents whose status did not change. Writes no record.
    HeartbeatBatch {
        /// The agents that sent a heartbeat.
        agents: Vec<AgentNo>,
    },
    /// A connection of an agent other than a consumer was closed, such as that of a waiting call. Writes no record.
    ConnectionClosed {
        /// The agent.
        agent: AgentNo,
    },
    /// `token.create`: create an access token.
    CreateToken(CreateToken),
    /// `token.revoke`: revoke an access token.
    RevokeToken {
        /// The token to revoke.
        token: TokenId,
    },
    /// Returns the leased deliveries of an agent after a lost connection, with unchanged lease tokens, and restarts
    /// their leases. Writes no record.
    ResumeLeases {
        /// The agent that reconnected.
        agent: AgentId,
        /// New duration of the leases, starting now.
        lease_ms: u64,
    },
    /// `procedure.start`: start a procedure.
    StartProcedure(StartProcedure),
    /// `procedure.step`: advance a procedure by one step.
    StepProcedure(StepProcedure),
    /// `procedure.pause`, `procedure.resume`, `procedure.cancel`.
    ControlProcedure(ControlProcedure),
    /// `procedure.signal`: send a signal to the driver of a procedure.
    SignalProcedure(SignalProcedure),
    /// `approval.request`: propose an action for approval.
    RequestApproval(Box<RequestApproval>),
    /// `approval.decide`: approve, reject or modify a proposed action.
    DecideApproval(Box<DecideApproval>),
}

/// Behaviour of a claim when fewer deliveries are ready than it may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitMode {
    /// Return immediately with what is ready.
    NoWait,
    /// If nothing is ready, wait for the first dispatch, then close the consumer.
    Once(ConsumerId),
    /// Receive deliveries until closed, within the granted credit.
    Standing(ConsumerId),
}

/// Registers an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterAgent {
    /// The agent's unique id.
    pub id: AgentId,
    /// Display name.
    pub name: String,
    /// Role of the agent in the space.
    pub role: AgentRole,
    /// Capabilities by which messages and tasks are routed to it.
    pub capabilities: Vec<String>,
    /// Actions that it answers.
    pub supported_actions: Vec<String>,
    /// The current epoch, to update the registration without starting a new epoch.
    pub epoch: Option<Epoch>,
    /// Heartbeat interval; after three missed heartbeats the agent is offline. 0 disables the check.
    pub heartbeat_ms: u64,
    /// What it is declared to be, if it runs from a declaration.
    pub declaration: Option<DeclarationDigest>,
}

/// A delivery together with the token of its lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseRef {
    /// The leased delivery.
    pub delivery: DeliveryId,
    /// The lease token.
    pub token: LeaseToken,
}

/// Returns a leased delivery without acknowledging it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nack {
    /// The delivery and its lease.
    pub lease: LeaseRef,
    /// Further handling of the delivery.
    pub action: NackAction,
    /// Reason; stored with a dead letter.
    pub reason: String,
}

/// Further handling of a delivery that was nacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NackAction {
    /// Redeliver after a delay; dead-letter after the last attempt.
    Retry {
        /// Delay before the redelivery; `None` for exponential backoff: 1, 2, 4, 8, then 16 s.
        delay_ms: Option<u64>,
    },
    /// Redeliver immediately and do not count this attempt: the message was not processed.
    Release,
    /// Dead-letter immediately: a retry would not help.
    DeadLetter,
}

/// Extends a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extend {
    /// The delivery and its lease.
    pub lease: LeaseRef,
    /// New duration of the lease, starting now.
    pub lease_ms: u64,
}

/// Writes a memory entry.
#[derive(Clone, PartialEq, Debug)]
pub struct PutEntry {
    /// Key of the entry.
    pub key: Key,
    /// Type of the entry, one word chosen by the application.
    pub entry_type: String,
    /// The new content.
    pub content: Payload,
    /// Media type of the content; `None` is JSON.
    pub content_type: Option<String>,
    /// Expected current version (compare-and-set); 0 = the entry must not exist; `None` = unconditional.
    pub expect: Option<Version>,
    /// Entries that this content was derived from.
    pub depends_on: Vec<Key>,
    /// Fencing token of a lock: the write is refused if its grant has ended and the lock was granted again.
    pub fence: Option<FenceRef>,
}

/// Deletes a memory entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeleteEntry {
    /// Key of the entry.
    pub key: Key,
    /// Expected current version (compare-and-set); `None` = unconditional.
    pub expect: Option<Version>,
    /// Fencing token of a lock: the delete is refused if its grant has ended and the lock was granted again.
    pub fence: Option<FenceRef>,
}

/// Erases one payload part of an earlier record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErasePayload {
    /// The record that holds the payload.
    pub seq: Seq,
    /// Index of the payload part, starting at 0.
    pub part: u32,
}

/// Fingerprint by which a resend of a message with a client id is recognised.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fingerprint {
    /// Fingerprint of the stored message; zeros if it has no client id.
    pub written: [u8; 32],
    /// Fingerprint of the message as sent, if the hub added fields to it. The additions may differ for a resend.
    pub original: Option<Box<[u8; 32]>>,
}

impl Fingerprint {
    pub(crate) fn new(message: &Message, digest: impl FnOnce(&Message) -> [u8; 32]) -> Self {
        let written = if message.client_id.is_some() { digest(message) } else { [0; 32] };
        Self { written, original: None }
    }

    /// Recomputes the fingerprint of a message to which the hub added fields, and keeps that of the message as sent.
    fn update(&mut self, message: &Message, digest: impl FnOnce(&Message) -> [u8; 32]) {
        if message.client_id.is_some() {
            self.original.get_or_insert_with(|| Box::new(self.written));
            self.written = digest(message);
        }
    }

    /// Whether `earlier`, the fingerprint of a stored message, belongs to the same message.
    #[must_use]
    pub fn matches(&self, earlier: &[u8; 32]) -> bool {
        self.written == *earlier || self.original.as_deref() == Some(earlier)
    }
}

impl Op {
    /// Creates a `send` operation; computes the fingerprint if the message has a client id.
    #[must_use]
    pub fn send(message: Message) -> Self {
        let fingerprint = Fingerprint::new(&message, fingerprint::of_message);
        Self::Send { message: Arc::new(message), fingerprint }
    }

    /// Adds fields to the message that the operation sends; `change` returns whether it changed the message. The
    /// fingerprint covers the stored message, so that it can be recomputed from the log; that of the message as sent is
    /// retained too, because a retry may get other fields.
    pub fn add_to_message(&mut self, change: impl FnOnce(&mut Message) -> bool) {
        let (message, stored, digest): (_, _, fn(&Message) -> [u8; 32]) = match self {
            Self::Send { message, fingerprint } => (message, fingerprint, fingerprint::of_message),
            Self::Request(send) => {
                (&mut send.message, &mut send.fingerprint, fingerprint::of_request_message)
            }
            _ => return,
        };
        let message = Arc::make_mut(message);
        if change(message) {
            stored.update(message, digest);
        }
    }

    /// Estimates how many rows the operation touches.
    fn weight(&self) -> usize {
        let count = match self {
            Self::AckMany(leases) => leases.len(),
            Self::CreateTasks(create) => create.tasks.len(),
            Self::Claim { max, .. } => *max as usize,
            Self::AcquireLocks(acquire) => acquire.names.len(),
            Self::HeartbeatBatch { agents } => agents.len(),
            Self::Backfill(backfill) => backfill.messages.len(),
            _ => 1,
        };
        count.max(1)
    }

    /// Returns the delivery leases that this operation ends.
    #[must_use]
    pub fn ended_leases(&self) -> &[LeaseRef] {
        match self {
            Self::Ack(lease) => std::slice::from_ref(lease),
            Self::AckMany(leases) => leases,
            Self::Nack(nack) => std::slice::from_ref(&nack.lease),
            _ => &[],
        }
    }

    /// Returns the payloads of this operation, each with the name of its field.
    pub fn payloads(&self) -> impl Iterator<Item = (&'static str, &Payload)> {
        fn required<'a>(
            name: &'static str,
            payload: &'a Payload,
        ) -> [Option<(&'static str, &'a Payload)>; 2] {
            [Some((name, payload)), None]
        }
        fn optional<'a>(
            name: &'static str,
            payload: &'a Option<Payload>,
        ) -> [Option<(&'static str, &'a Payload)>; 2] {
            [payload.as_ref().map(|payload| (name, payload)), None]
        }
        let payloads = match self {
            Self::Send { message, .. } => required("payload", &message.payload),
            Self::Request(send) => required("payload", &send.message.payload),
            Self::Put(put) => required("content", &put.content),
            Self::OpenSession(open) => optional("task", &open.task),
            Self::AddToSession(add) => required("body", &add.body),
            Self::CreateTasks(create) => optional("input", &create.inputs),
            Self::HeartbeatTask(heartbeat) => optional("partial", &heartbeat.partial),
            Self::CompleteTask(complete) => optional("result", &complete.result),
            Self::FailTask(fail) => optional("details", &fail.details),
            Self::StartProcedure(start) => optional("spec", &start.spec),
            Self::StepProcedure(step) => {
                [optional("state", &step.state)[0], optional("result", &step.result)[0]]
            }
            Self::SignalProcedure(signal) => optional("payload", &signal.payload),
            Self::RequestApproval(request) => required("action", &request.document),
            Self::DecideApproval(decide) => match &decide.verdict {
                Verdict::Approve | Verdict::Reject => [None, None],
                Verdict::Modify { patch, document } => {
                    [Some(("modification", patch)), optional("action", document)[0]]
                }
            },
            _ => [None, None],
        };
        payloads.into_iter().flatten()
    }

    /// Returns the size of all payloads in bytes.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payloads().map(|(_, payload)| payload.bytes.len()).sum()
    }

    /// Returns the size of the largest payload in bytes. Each task input counts separately.
    pub(crate) fn largest_payload_bytes(&self) -> usize {
        match self {
            Self::CreateTasks(create) => {
                let inputs = create.tasks.iter().filter_map(|task| create.input_of(task));
                inputs.map(|input| input.len()).max().unwrap_or(0)
            }
            other => other.payloads().map(|(_, payload)| payload.bytes.len()).max().unwrap_or(0),
        }
    }

    fn check(&self) -> Result<(), Refused> {
        match self {
            Self::RegisterAgent(agent) => agent.check(),
            Self::Send { message, .. } => message.check(),
            // A standing consumer may grant its first credit later.
            Self::Claim { max: 0, lease_ms, wait: WaitMode::Standing(_), .. } => check_lease(*lease_ms),
            Self::Claim { max, lease_ms, .. } => {
                check_claim("deliveries", *max)?;
                check_lease(*lease_ms)
            }
            Self::ResumeLeases { lease_ms, .. } => check_lease(*lease_ms),
            Self::Nack(nack) => nack.check(),
            Self::Extend(extend) => check_lease(extend.lease_ms),
            Self::Put(put) => put.check(),
            Self::AcquireLocks(acquire) => acquire.check(),
            Self::SetBudget(set) => set.check(),
            Self::RenewLocks(renew) => renew.check(),
            Self::ReleaseLocks(locks) => lock::check_lock_count(locks.len()),
            Self::OpenSession(open) => open.check(),
            Self::ChangeSession(change) => change.check(),
            Self::AddToSession(add) => add.check(),
            Self::CreateTasks(create) => create.check(),
            Self::ClaimTasks(claim) => claim.check(),
            Self::HeartbeatTask(heartbeat) => heartbeat.check(),
            Self::CompleteTask(complete) => complete.check(),
            Self::FailTask(fail) => fail.check(),
            Self::CancelTask(cancel) => cancel.check(),
            Self::MakeSnapshot(make) => make.check(),
            Self::Rollback(rollback) => rollback.check(),
            Self::SetPolicy(policy) => policy.check(),
            Self::Subscribe(subscribe) => subscribe.check(),
            Self::Backfill(backfill) => backfill.check(),
            Self::AckMany(leases) => check_leases(leases),
            Self::Request(send) => send.check(),
            Self::Heartbeat(heartbeat) => heartbeat.check(),
            Self::CreateToken(create) => create.check(),
            Self::StartProcedure(start) => start.check(),
            Self::StepProcedure(step) => step.check(),
            Self::ControlProcedure(control) => control.check(),
            Self::SignalProcedure(signal) => signal.check(),
            Self::RequestApproval(request) => request.check(),
            Self::DecideApproval(decide) => decide.check(),
            Self::RemoveAgent { .. }
            | Self::GrantCredit { .. }
            | Self::CloseConsumer { .. }
            | Self::Ack(_)
            | Self::Redrive { .. }
            | Self::Purge { .. }
            | Self::Delete(_)
            | Self::ErasePayload(_)
            | Self::Sweep
            | Self::ReleaseTask(_)
            | Self::DropSnapshot { .. }
            | Self::Unsubscribe { .. }
            | Self::AwaitRequest { .. }
            | Self::CancelRequest { .. }
            | Self::Inspect(_)
            | Self::AwaitTask(_)
            | Self::RevokeToken { .. }
            | Self::HeartbeatBatch { .. }
            | Self::ConnectionClosed { .. } => Ok(()),
        }
    }
}

/// Validates the size of a claim.
pub(crate) fn check_claim(noun: &str, max: u32) -> Result<(), Refused> {
    if (1..=CLAIM_MAX).contains(&max) {
        return Ok(());
    }
    Err(Refused::new(Code::LimitExceeded, format!("invalid claim size: {max} {noun}"))
        .limit(u64::from(CLAIM_MAX))
        .hint(format!("claim 1 to {CLAIM_MAX} at a time")))
}

fn check_leases(leases: &[LeaseRef]) -> Result<(), Refused> {
    match leases.len() {
        0 => Err(Refused::new(Code::Invalid, "the operation lists no delivery")
            .hint("list at least one delivery with its lease token")),
        1..=ACKS_MAX => Ok(()),
        count => Err(Refused::new(Code::LimitExceeded, format!("the operation lists {count} deliveries"))
            .limit(ACKS_MAX as u64)
            .hint("split them over several ack operations")),
    }
}

/// Validates the duration of a lease.
///
/// # Errors
/// `INVALID`.
pub fn check_lease(lease_ms: u64) -> Result<(), Refused> {
    if (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease_ms) {
        return Ok(());
    }
    Err(Refused::new(Code::Invalid, format!("invalid lease duration: {lease_ms} ms"))
        .hint(format!("use a lease of {LEASE_MS_MIN} to {LEASE_MS_MAX} ms")))
}

impl RegisterAgent {
    /// Registers a worker with default values for everything except its id.
    #[must_use]
    pub fn named(id: AgentId) -> Self {
        let name = id.to_string();
        Self {
            id,
            name,
            role: AgentRole::default(),
            capabilities: Vec::new(),
            supported_actions: Vec::new(),
            epoch: None,
            heartbeat_ms: 0,
            declaration: None,
        }
    }

    /// Validates the fields.
    ///
    /// # Errors
    /// `INVALID` or `LIMIT_EXCEEDED`, with the field.
    pub fn check(&self) -> Result<(), Refused> {
        AgentId::for_registration(&self.id)?;
        check_short_text("name", &self.name)?;
        for (field, list) in
            [("capabilities", &self.capabilities), ("supportedActions", &self.supported_actions)]
        {
            if list.len() > LIST_MAX {
                return Err(Refused::new(Code::LimitExceeded, format!("{field} has {} items", list.len()))
                    .limit(LIST_MAX as u64));
            }
            for label in list {
                check_label(field, label)?;
            }
        }
        self.check_heartbeat()
    }
}

impl Nack {
    fn check(&self) -> Result<(), Refused> {
        check_reason("reason", &self.reason)?;
        match self.action {
            NackAction::Retry { delay_ms: Some(delay_ms) } if delay_ms > NACK_DELAY_MS_MAX => {
                Err(Refused::new(Code::Invalid, format!("invalid retry delay: {delay_ms} ms"))
                    .limit(NACK_DELAY_MS_MAX)
                    .hint("use a delay of at most one day"))
            }
            NackAction::Retry { .. } | NackAction::Release | NackAction::DeadLetter => Ok(()),
        }
    }
}

impl PutEntry {
    /// Whether the content is declared to be JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        is_json(self.content_type.as_deref())
    }

    fn check(&self) -> Result<(), Refused> {
        self.content.check()?;
        self.content.check_sealed()?;
        check_label("type", &self.entry_type)?;
        check_label("contentType", self.content_type.as_deref().unwrap_or(""))?;
        if self.depends_on.len() > LIST_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                format!("dependsOn has {} items", self.depends_on.len()),
            )
            .limit(LIST_MAX as u64));
        }
        Ok(())
    }
}
