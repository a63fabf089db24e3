//! The commit: what a caller asks for, and what it is answered.

mod answer;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::approval::{DecideApproval, RequestApproval, Verdict};
use crate::budget::SetBudget;
use crate::codec::fingerprint;
use crate::decide::RollbackPlan;
use crate::ids::{
    AgentId, AgentNo, ConsumerId, DeliveryId, Epoch, IdempotencyKey, Key, MessageId, Seq, SnapshotName,
    Token, TokenId, Version,
};
use crate::inspect::Inspect;
use crate::limits::{
    ACKS_MAX, CLAIM_MAX, COMMIT_BYTES_MAX, LEASE_MS_MAX, LEASE_MS_MIN, LIST_MAX, NACK_DELAY_MS_MAX, OPS_MAX,
};
use crate::lock::{self, AcquireLocks, FenceRef, RenewLocks};
use crate::message::{Message, Payload, check_reason, check_word, is_json};
use crate::policy::Policy;
use crate::presence::Heartbeat;
use crate::procedure::{StartProcedure, StepProcedure};
use crate::refused::{Code, Refused};
use crate::registry::Role;
use crate::request::Ask;
use crate::session::{AddToSession, ChangeSession, OpenSession};
use crate::snapshot::{MakeSnapshot, Rollback};
use crate::subscription::{BringHistory, Subscribe};
use crate::task::{
    AwaitTask, CancelTask, ClaimTasks, CompleteTask, CreateTasks, FailTask, HeartbeatTask, TaskLeaseRef,
};
use crate::token::{CreateToken, TokenName, TokenRole};
use crate::topic::Pattern;

pub use answer::{Locked, OpResult, Receipt, Told};

/// Who acts. Authenticated at the door; what a caller says about itself is ignored.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Principal {
    /// The hub itself: sweeps, and whoever holds the data directory.
    System,
    /// An agent.
    Agent(AgentId),
    /// Somebody or something else that holds a token. What it may do is in `rights.rs`; the rules for agents are not for it.
    Holder {
        /// What it may do.
        role: TokenRole,
        /// The name of its token.
        name: TokenName,
    },
}

impl Principal {
    /// As it stands in the log.
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

/// A list of operations that takes effect all at once or not at all, and is one record in the log.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Who acts.
    pub principal: Principal,
    /// The start of the agent that acts; checked when present.
    pub epoch: Option<Epoch>,
    /// The key under which it may be repeated, with the fingerprint of what it asked for.
    pub key: Option<(IdempotencyKey, [u8; 32])>,
    /// What to do, in order; later operations see earlier ones.
    pub ops: Vec<Op>,
    /// What was found out before the commit was queued, by the number of its operation: a store adds it where finding it
    /// out at the head would take too long.
    pub plans: BTreeMap<usize, Arc<Result<RollbackPlan, Refused>>>,
}

impl Commit {
    /// A commit without epoch and key.
    #[must_use]
    pub fn new(principal: Principal, ops: Vec<Op>) -> Self {
        Self { principal, epoch: None, key: None, ops, plans: BTreeMap::new() }
    }

    /// The rollbacks that are to be planned before the commit is queued, with the numbers of their operations.
    pub fn unplanned(&self) -> impl Iterator<Item = (usize, &Rollback)> {
        let rollbacks = self.ops.iter().enumerate().filter_map(|(index, op)| match op {
            Op::Rollback(rollback) if rollback.what.is_prefix() => Some((index, rollback)),
            _ => None,
        });
        rollbacks.filter(|(index, _)| !self.plans.contains_key(index))
    }

    /// About how many rows the commit names, for a queue that is to be fair before anything is decided.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.ops.iter().map(Op::weight).sum()
    }

    /// Makes the commit repeatable: with the same key and content it has one effect and one answer.
    #[must_use]
    pub fn keyed(mut self, key: IdempotencyKey) -> Self {
        let digest = fingerprint::of_commit(&self.ops);
        self.key = Some((key, digest));
        self
    }

    /// Makes a commit repeatable whose operations follow from what is there: the key is for what was asked, since the same
    /// call later would come to other operations.
    #[must_use]
    pub fn keyed_for(mut self, key: IdempotencyKey, asked: &[&[u8]]) -> Self {
        self.key = Some((key, fingerprint::of_request(asked)));
        self
    }

    /// Whether the commit does nothing but end leases: acks, completions and failures, beside the credit that the hub grants
    /// with them. Only such a commit may end a lease again that an earlier record ended: whatever else a commit did
    /// would happen a second time for the same lease.
    #[must_use]
    pub fn only_ends_leases(&self) -> bool {
        let ends_lease = |op: &Op| {
            matches!(
                op,
                Op::Ack(_) | Op::AckMany(_) | Op::CompleteTask(_) | Op::FailTask(_) | Op::Grant { .. }
            )
        };
        self.ops.iter().all(ends_lease)
    }

    /// Refuses what no commit may be, whatever the state of the world. Runs on the caller's thread.
    ///
    /// # Errors
    /// `INVALID`, `TOO_LARGE` or `LIMIT_EXCEEDED`, naming the operation.
    pub fn check(&self) -> Result<(), Refused> {
        if self.ops.is_empty() {
            return Err(Refused::new(Code::Invalid, "the commit has no operation")
                .hint("give it at least one operation in ops"));
        }
        if self.ops.len() > OPS_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                format!("the commit has {} operations", self.ops.len()),
            )
            .limit(OPS_MAX as u64)
            .hint("split it; operations that must happen together have to fit in one commit"));
        }
        if self.ops.len() > 1 && self.ops.iter().any(|op| matches!(op, Op::Inspect(_))) {
            return Err(Refused::new(Code::Invalid, "a look at the state is alone in its commit"));
        }
        let mut bytes = 0;
        for (index, op) in self.ops.iter().enumerate() {
            op.check().map_err(|refused| refused.at_op(index))?;
            bytes += op.payloads().map(|(_, payload)| payload.bytes.len()).sum::<usize>();
        }
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
    /// `agent.register`: make an agent known, or start it again with a new epoch.
    RegisterAgent(RegisterAgent),
    /// `agent.remove`: forget an agent. Its inbox must be empty.
    RemoveAgent {
        /// Which one.
        agent: AgentId,
    },
    /// `send`: a message for one agent or several.
    Send {
        /// The message.
        message: Arc<Message>,
        /// By what it is known if it is sent again.
        fingerprint: Fingerprint,
    },
    /// `claim`: take deliveries, and wait for more if asked to.
    Claim {
        /// Whose inbox.
        agent: AgentId,
        /// How many at most; for a standing consumer its first credit.
        max: u32,
        /// How long the leases last.
        lease_ms: u64,
        /// What to do when fewer than `max` are there.
        waiting: Waiting,
    },
    /// More credit for a standing consumer. Leaves no record unless a delivery goes out.
    Grant {
        /// Which consumer.
        consumer: ConsumerId,
        /// How many more deliveries it takes.
        credit: u32,
    },
    /// The consumer waits no longer. Leaves no record; what it holds stays leased.
    Close {
        /// Which consumer.
        consumer: ConsumerId,
    },
    /// `ack`: done with a delivery.
    Ack(LeaseRef),
    /// `nack`: not done with a delivery.
    Nack(Nack),
    /// `extend`: keep a delivery for longer. Leaves no record.
    Extend(Extend),
    /// `redrive`: give out a dead letter again, with all its tries.
    Redrive {
        /// Which one.
        delivery: DeliveryId,
    },
    /// `purge`: end up to 4,096 open deliveries of an inbox: those that wait, then those that are held.
    Purge {
        /// Whose inbox.
        agent: AgentId,
    },
    /// `put`: write a memory entry.
    Put(PutEntry),
    /// `delete`: end a memory entry with a tombstone.
    Delete(DeleteEntry),
    /// `payload.erase`: blank a payload; the chain still verifies.
    Erase(ErasePayload),
    /// What time alone brings about: leases that lapse, messages that expire, deliveries that fall due.
    Sweep,
    /// `policy.set`: the rules of the space.
    SetPolicy(Policy),
    /// `lock.acquire`: take locks, all of them or none, and wait for them if asked to.
    AcquireLocks(AcquireLocks),
    /// `lock.renew`: hold locks for longer, counted from now. Leaves no record.
    RenewLocks(RenewLocks),
    /// `lock.release`: give locks back.
    ReleaseLocks(Vec<FenceRef>),
    /// `budget.set`: what a chain may spend.
    SetBudget(SetBudget),
    /// `session.open`: begin a piece of common work.
    OpenSession(OpenSession),
    /// `session.join`, `leave`, `pause`, `resume`, `complete`, `fail`.
    ChangeSession(ChangeSession),
    /// `session.add`: a decision, an artifact, a finding, a blocker, a note.
    AddToSession(AddToSession),
    /// `task.create`: one task or a whole graph.
    CreateTasks(CreateTasks),
    /// `task.claim`: take tasks, and wait for more if asked to.
    ClaimTasks(ClaimTasks),
    /// `task.heartbeat`: keep a task for longer. Leaves no record unless it brings a partial result.
    HeartbeatTask(HeartbeatTask),
    /// `task.complete`: the end of a task with a result.
    CompleteTask(CompleteTask),
    /// `task.fail`: a try came to nothing.
    FailTask(FailTask),
    /// `task.release`: it was not tried at all; somebody else may, and this try does not count.
    ReleaseTask(TaskLeaseRef),
    /// `task.cancel`: nobody needs it any more.
    CancelTask(CancelTask),
    /// `snapshot.make`: give the position before this commit a name.
    MakeSnapshot(MakeSnapshot),
    /// `snapshot.drop`: forget the name. History stays.
    DropSnapshot {
        /// Which one.
        name: SnapshotName,
    },
    /// `rollback`: bring back what was there before, as new versions.
    Rollback(Rollback),
    /// `subscribe`: the messages of some topics are for an agent as well, from now on.
    Subscribe(Subscribe),
    /// `unsubscribe`: they are not any more.
    Unsubscribe {
        /// Which agent.
        agent: AgentId,
        /// The pattern, as it subscribed.
        pattern: Pattern,
    },
    /// Brings earlier messages to a subscriber that asked for them. For the hub.
    BringHistory(BringHistory),
    /// `ack`, for several deliveries at once.
    AckMany(Vec<LeaseRef>),
    /// `request`: send a message and wait for the answer.
    Request(Ask),
    /// Wait, or wait again, for the answer to a request. Leaves no record.
    AwaitRequest {
        /// Which one.
        request: MessageId,
        /// Who is told.
        waiting: ConsumerId,
    },
    /// `request.cancel`: want no answer any more.
    CancelRequest {
        /// Which one.
        request: MessageId,
    },
    /// `agent.heartbeat`: a sign of life. Leaves no record unless the agent says something new of itself.
    Heartbeat(Heartbeat),
    /// A look at the state at the head: alone in its commit, leaves no record.
    Inspect(Inspect),
    /// Wait until a task is over. Leaves no record.
    AwaitTask(AwaitTask),
    /// Signs of life in which nothing new was said, of several agents at once. Leaves no record.
    Heard {
        /// Whose.
        agents: Vec<AgentNo>,
    },
    /// `token.create`: let somebody in who shows the secret.
    CreateToken(CreateToken),
    /// `token.revoke`: do so no more.
    RevokeToken {
        /// Which one.
        token: TokenId,
    },
    /// What an agent holds, after its connection broke: the same leases with the same tokens, and they run from now
    /// again. Leaves no record.
    Resume {
        /// Which agent.
        agent: AgentId,
        /// How long the leases last from now on.
        lease_ms: u64,
    },
    /// `procedure.start`: begin a protocol of several steps.
    StartProcedure(StartProcedure),
    /// `procedure.step`: go on with one.
    StepProcedure(StepProcedure),
    /// `approval.request`: propose an action.
    RequestApproval(Box<RequestApproval>),
    /// `approval.decide`: approve, reject or modify one.
    DecideApproval(Box<DecideApproval>),
}

/// What a claim does when fewer deliveries are there than it may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// Take what is there.
    No,
    /// If nothing is there, wait for the first hand-over, then stop.
    Once(ConsumerId),
    /// Go on until closed, within its credit.
    Standing(ConsumerId),
}

/// Registers an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterAgent {
    /// Its id.
    pub id: AgentId,
    /// What people call it.
    pub name: String,
    /// What it is in the group.
    pub role: Role,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// Which actions it answers.
    pub supported_actions: Vec<String>,
    /// The current epoch, to change the description without a new start.
    pub epoch: Option<Epoch>,
    /// How often it will give a sign of life; three missed, and it is offline. 0 = nobody looks.
    pub heartbeat_ms: u64,
}

/// A delivery and the lease under which it is held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseRef {
    /// Which delivery.
    pub delivery: DeliveryId,
    /// The token of the lease.
    pub token: Token,
}

/// Gives a delivery back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nack {
    /// The delivery and its lease.
    pub lease: LeaseRef,
    /// What happens to it.
    pub then: NackThen,
    /// Why; kept with a dead letter.
    pub reason: String,
}

/// What happens to a delivery that is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NackThen {
    /// Try again after a while; a dead letter after the last try.
    Retry {
        /// How long to wait.
        delay_ms: u64,
    },
    /// It was not tried at all: give it to somebody else and do not count this try.
    Release,
    /// Trying again would not help: a dead letter at once.
    Dead,
}

/// Prolongs a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extend {
    /// The delivery and its lease.
    pub lease: LeaseRef,
    /// How long from now.
    pub lease_ms: u64,
}

/// Writes a memory entry.
#[derive(Clone, PartialEq, Debug)]
pub struct PutEntry {
    /// Which entry.
    pub key: Key,
    /// What kind of thing it holds, as a word.
    pub entry_type: String,
    /// The content.
    pub content: Payload,
    /// What the bytes of the content are; `None` is JSON.
    pub content_type: Option<String>,
    /// The version it must have now; 0 = it must not exist; `None` = whatever it is.
    pub expect: Option<Version>,
    /// The entries it was built on.
    pub depends_on: Vec<Key>,
    /// The lock under which it is written: refused if somebody else was given it since.
    pub fence: Option<FenceRef>,
}

/// Ends a memory entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeleteEntry {
    /// Which entry.
    pub key: Key,
    /// The version it must have now; `None` = whatever it is.
    pub expect: Option<Version>,
    /// The lock under which it is ended: refused if somebody else was given it since.
    pub fence: Option<FenceRef>,
}

/// Blanks one payload part of an earlier record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErasePayload {
    /// The record.
    pub seq: Seq,
    /// Which part of it, counted from 0.
    pub part: u32,
}

/// By what a message that bears a client's id is known if it is sent again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fingerprint {
    /// Of the message as it is written; zeros if it bears no client's id.
    pub written: [u8; 32],
    /// Of the message as its sender said it, if the hub added something: what it adds may be found only the second time.
    pub said: Option<Box<[u8; 32]>>,
}

impl Fingerprint {
    pub(crate) fn new(message: &Message, of: impl FnOnce(&Message) -> [u8; 32]) -> Self {
        let written = if message.client_id.is_some() { of(message) } else { [0; 32] };
        Self { written, said: None }
    }

    /// The same message, to which the hub added something.
    #[must_use]
    pub fn of_what_was_said(self, said: Self) -> Self {
        Self { said: Some(said.said.unwrap_or_else(|| Box::new(said.written))), ..self }
    }

    /// Whether the message that was written under this one was the same.
    #[must_use]
    pub fn is(&self, earlier: &[u8; 32]) -> bool {
        self.written == *earlier || self.said.as_deref() == Some(earlier)
    }
}

impl Op {
    /// A send; computes the fingerprint if the message bears a client's id.
    #[must_use]
    pub fn send(message: Message) -> Self {
        let fingerprint = Fingerprint::new(&message, fingerprint::of_message);
        Self::Send { message: Arc::new(message), fingerprint }
    }

    /// About how many rows the operation names.
    fn weight(&self) -> usize {
        let named = match self {
            Self::AckMany(leases) => leases.len(),
            Self::CreateTasks(create) => create.tasks.len(),
            Self::Claim { max, .. } => *max as usize,
            Self::AcquireLocks(ask) => ask.names.len(),
            Self::Heard { agents } => agents.len(),
            Self::BringHistory(history) => history.messages.len(),
            _ => 1,
        };
        named.max(1)
    }

    /// The leases of deliveries that this operation ends.
    #[must_use]
    pub fn ended_leases(&self) -> &[LeaseRef] {
        match self {
            Self::Ack(lease) => std::slice::from_ref(lease),
            Self::AckMany(leases) => leases,
            Self::Nack(nack) => std::slice::from_ref(&nack.lease),
            _ => &[],
        }
    }

    /// The bytes that this operation brings, each with the name of its field.
    pub fn payloads(&self) -> impl Iterator<Item = (&'static str, &Payload)> {
        fn one<'a>(name: &'static str, payload: &'a Payload) -> [Option<(&'static str, &'a Payload)>; 2] {
            [Some((name, payload)), None]
        }
        fn maybe<'a>(
            name: &'static str,
            payload: &'a Option<Payload>,
        ) -> [Option<(&'static str, &'a Payload)>; 2] {
            [payload.as_ref().map(|payload| (name, payload)), None]
        }
        let brought = match self {
            Self::Send { message, .. } => one("payload", &message.payload),
            Self::Request(ask) => one("payload", &ask.message.payload),
            Self::Put(put) => one("content", &put.content),
            Self::OpenSession(open) => maybe("task", &open.task),
            Self::AddToSession(add) => one("body", &add.body),
            Self::CreateTasks(create) => maybe("input", &create.inputs),
            Self::HeartbeatTask(heartbeat) => maybe("partial", &heartbeat.partial),
            Self::CompleteTask(complete) => maybe("result", &complete.result),
            Self::FailTask(fail) => maybe("details", &fail.details),
            Self::StartProcedure(start) => maybe("spec", &start.spec),
            Self::StepProcedure(step) => [maybe("state", &step.state)[0], maybe("result", &step.result)[0]],
            Self::RequestApproval(ask) => one("action", &ask.document),
            Self::DecideApproval(decide) => match &decide.verdict {
                Verdict::Approve | Verdict::Reject => [None, None],
                Verdict::Modify { patch, document } => {
                    [Some(("modification", patch)), maybe("action", document)[0]]
                }
            },
            _ => [None, None],
        };
        brought.into_iter().flatten()
    }

    /// Bytes of the largest thing that it brings: the inputs of tasks count each by itself.
    pub(crate) fn bytes_max(&self) -> usize {
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
            // Somebody who stays may give its first credit later.
            Self::Claim { max: 0, lease_ms, waiting: Waiting::Standing(_), .. } => check_lease(*lease_ms),
            Self::Claim { max, lease_ms, .. } => {
                check_claim("deliveries", *max)?;
                check_lease(*lease_ms)
            }
            Self::Resume { lease_ms, .. } => check_lease(*lease_ms),
            Self::Nack(nack) => nack.check(),
            Self::Extend(extend) => check_lease(extend.lease_ms),
            Self::Put(put) => put.check(),
            Self::AcquireLocks(ask) => ask.check(),
            Self::SetBudget(set) => set.check(),
            Self::RenewLocks(renew) => renew.check(),
            Self::ReleaseLocks(locks) => lock::check_count(locks.len()),
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
            Self::BringHistory(history) => history.check(),
            Self::AckMany(leases) => check_leases(leases),
            Self::Request(ask) => ask.check(),
            Self::Heartbeat(heartbeat) => heartbeat.check(),
            Self::CreateToken(create) => create.check(),
            Self::StartProcedure(start) => start.check(),
            Self::StepProcedure(step) => step.check(),
            Self::RequestApproval(ask) => ask.check(),
            Self::DecideApproval(decide) => decide.check(),
            Self::RemoveAgent { .. }
            | Self::Grant { .. }
            | Self::Close { .. }
            | Self::Ack(_)
            | Self::Redrive { .. }
            | Self::Purge { .. }
            | Self::Delete(_)
            | Self::Erase(_)
            | Self::Sweep
            | Self::ReleaseTask(_)
            | Self::DropSnapshot { .. }
            | Self::Unsubscribe { .. }
            | Self::AwaitRequest { .. }
            | Self::CancelRequest { .. }
            | Self::Inspect(_)
            | Self::AwaitTask(_)
            | Self::RevokeToken { .. }
            | Self::Heard { .. } => Ok(()),
        }
    }
}

/// How many a claim may take.
pub(crate) fn check_claim(what: &str, max: u32) -> Result<(), Refused> {
    if (1..=CLAIM_MAX).contains(&max) {
        return Ok(());
    }
    Err(Refused::new(Code::LimitExceeded, format!("a claim of {max} {what}"))
        .limit(u64::from(CLAIM_MAX))
        .hint(format!("claim 1 to {CLAIM_MAX} at a time")))
}

fn check_leases(leases: &[LeaseRef]) -> Result<(), Refused> {
    match leases.len() {
        0 => Err(Refused::new(Code::Invalid, "the operation names no delivery")
            .hint("name at least one delivery with its lease token")),
        1..=ACKS_MAX => Ok(()),
        count => Err(Refused::new(Code::LimitExceeded, format!("the operation names {count} deliveries"))
            .limit(ACKS_MAX as u64)
            .hint("ack them in several operations")),
    }
}

/// Refuses a lease that is too short or too long.
///
/// # Errors
/// `INVALID`.
pub fn check_lease(lease_ms: u64) -> Result<(), Refused> {
    if (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease_ms) {
        return Ok(());
    }
    Err(Refused::new(Code::Invalid, format!("a lease of {lease_ms} ms"))
        .hint(format!("a lease lasts {LEASE_MS_MIN} to {LEASE_MS_MAX} ms")))
}

impl RegisterAgent {
    /// An agent that is a worker and says no more of itself.
    #[must_use]
    pub fn named(id: AgentId) -> Self {
        let name = id.to_string();
        Self {
            id,
            name,
            role: Role::default(),
            capabilities: Vec::new(),
            supported_actions: Vec::new(),
            epoch: None,
            heartbeat_ms: 0,
        }
    }

    fn check(&self) -> Result<(), Refused> {
        AgentId::for_agent(&self.id)?;
        check_word("name", &self.name)?;
        for (what, list) in
            [("capabilities", &self.capabilities), ("supportedActions", &self.supported_actions)]
        {
            if list.len() > LIST_MAX {
                return Err(Refused::new(Code::LimitExceeded, format!("{what} has {} items", list.len()))
                    .limit(LIST_MAX as u64));
            }
            for word in list {
                check_word(what, word)?;
            }
        }
        self.check_heartbeat()
    }
}

impl Nack {
    fn check(&self) -> Result<(), Refused> {
        check_reason("reason", &self.reason)?;
        match self.then {
            NackThen::Retry { delay_ms } if delay_ms > NACK_DELAY_MS_MAX => {
                Err(Refused::new(Code::Invalid, format!("a delay of {delay_ms} ms"))
                    .limit(NACK_DELAY_MS_MAX)
                    .hint("wait at most a day"))
            }
            NackThen::Retry { .. } | NackThen::Release | NackThen::Dead => Ok(()),
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
        check_word("type", &self.entry_type)?;
        check_word("contentType", self.content_type.as_deref().unwrap_or(""))?;
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
