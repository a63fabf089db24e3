//! The receipt of a commit, the results of its operations, and the events for waiting consumers.

use std::sync::Arc;

use crate::access_token::TokenDigest;
use crate::approval::ActionDigest;
use crate::decide::LeasedDelivery;
use crate::ids::{
    ApprovalId, DeliveryNo, Epoch, Generation, LeaseToken, MessageId, ProcedureId, Seq, SessionId, TaskId,
    TokenId, Version,
};
use crate::inspect::InspectResult;
use crate::lock::FenceRef;
use crate::message::Message;
use crate::refused::Code;
use crate::refused::Refused;
use crate::subscription::History;
use crate::task::{LeaseLoss, LeasedTask};
use crate::time::Timestamp;

/// The answer to an accepted commit.
#[derive(Clone, PartialEq, Debug)]
pub struct Receipt {
    /// Sequence number of its record; `None` if nothing durable changed.
    pub seq: Option<Seq>,
    /// Time of the decision.
    pub at: Timestamp,
    /// One result for each operation.
    pub results: Vec<OpResult>,
}

impl Receipt {
    /// Returns the record that holds the effect: the commit's own, or, for an idempotent replay, the original one.
    #[must_use]
    pub fn effective_seq(&self) -> Option<Seq> {
        let mut seqs = self.results.iter().map(|result| match result {
            OpResult::Acked { seq } | OpResult::TaskAccepted { seq, .. } => Some(*seq),
            OpResult::AckedMany { earlier } => self.seq.or(earlier.iter().map(|(_, seq)| *seq).max()),
            _ => None,
        });
        let first = seqs.next().flatten();
        first.filter(|seq| seqs.all(|other| other == Some(*seq))).or(self.seq)
    }

    /// Whether the commit consumes its idempotency key. A claim that returned nothing may be retried under the same key
    /// until it returns something, even if it wrote a record for side effects: an agent that came online, a dispatch to
    /// another consumer.
    #[must_use]
    pub fn consumes_key(&self) -> bool {
        let returned_nothing = |result: &OpResult| match result {
            OpResult::Claimed(deliveries) => deliveries.is_empty(),
            OpResult::TasksClaimed(tasks) => tasks.is_empty(),
            OpResult::Queued | OpResult::Inspected(_) => true,
            _ => false,
        };
        !self.results.iter().all(returned_nothing)
    }
}

/// A notification for a consumer that waits for something other than deliveries.
#[derive(Clone, PartialEq, Debug)]
pub enum ConsumerEvent {
    /// The wait ended without a result.
    Refused(Refused),
    /// The requested locks were granted.
    LocksGranted(GrantedLocks),
    /// A task was leased to the consumer.
    TaskLeased(Box<LeasedTask>),
    /// The lease of a task has ended; operations under its token are refused from now on.
    TaskLost {
        /// The lost task.
        task: TaskId,
        /// Token of the ended lease.
        token: LeaseToken,
        /// Reason for the loss.
        loss: LeaseLoss,
    },
    /// A reply to the consumer's request.
    Answered {
        /// Id of the reply.
        id: MessageId,
        /// Time of the reply.
        at: Timestamp,
        /// The reply.
        message: Arc<Message>,
        /// Whether no further reply can arrive.
        is_last: bool,
    },
    /// The awaited task has ended.
    TaskEnded(TaskId),
}

/// An event for the agent that holds a lease, whatever it waits for: its work is no longer needed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HolderEvent {
    /// The lease of a task has ended, because the task was cancelled or the attempt exceeded its timeout.
    TaskLost {
        /// The lost task.
        task: TaskId,
        /// Token of the ended lease.
        token: LeaseToken,
        /// Reason for the loss.
        loss: LeaseLoss,
        /// Reason given for a cancellation; may be empty.
        reason: String,
    },
    /// A request was cancelled, timed out, failed or was answered by another agent before the holder replied. Its delivery
    /// has ended.
    RequestEnded {
        /// Id of the request.
        request: MessageId,
        /// The delivery that the agent held.
        delivery: DeliveryNo,
        /// Code with which the request ended; `CONFLICT` if another agent answered it.
        code: Code,
    },
}

/// Locks that were granted to an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrantedLocks {
    /// The locks with their fencing tokens, sorted by name.
    pub locks: Vec<FenceRef>,
    /// Time to live of each grant; also applies to renewals.
    pub ttl_ms: u64,
}

/// The result of one operation.
#[derive(Clone, PartialEq, Debug)]
pub enum OpResult {
    /// Success without further data.
    Done,
    /// The agent is registered.
    Registered {
        /// The current epoch, to be sent with further commits.
        epoch: Epoch,
    },
    /// A conduct flag was stored. Nothing else is disclosed to the sender.
    Received,
    /// The message was accepted.
    Sent {
        /// Id of the message.
        id: MessageId,
        /// Number of its first delivery.
        first: DeliveryNo,
        /// Number of deliveries.
        count: u32,
    },
    /// Deliveries that a claim leased immediately.
    Claimed(Vec<LeasedDelivery>),
    /// The delivery is acknowledged.
    Acked {
        /// The record that ended it; an earlier one for an idempotent replay.
        seq: Seq,
    },
    /// Deliveries were purged.
    Purged {
        /// Number of purged deliveries.
        count: u32,
    },
    /// The entry was written or deleted.
    Written {
        /// The new version.
        version: Version,
    },
    /// The locks were granted.
    LocksGranted(GrantedLocks),
    /// The result is not available yet: the caller waits for locks or for the end of a task.
    Queued,
    /// The session is open.
    SessionOpened {
        /// Id of the session.
        id: SessionId,
    },
    /// A contribution was added to a session.
    ContributionAdded {
        /// Number of the contribution within its kind, starting at 1.
        n: u64,
    },
    /// The tasks were created, numbered from `first`. A task without a client-assigned id is `tsk_GENERATION-SEQ-N`.
    TasksCreated {
        /// The generation of the record.
        generation: Generation,
        /// The record that created them.
        seq: Seq,
        /// Index of the first task within that record.
        first: u32,
        /// Number of tasks.
        count: u32,
    },
    /// Tasks that a claim leased immediately.
    TasksClaimed(Vec<LeasedTask>),
    /// A completion, failure or cancellation of a task was accepted.
    TaskAccepted {
        /// The record that contains it; an earlier one for an idempotent replay.
        seq: Seq,
        /// Token of the lease; 0 if there was none.
        token: LeaseToken,
    },
    /// The snapshot was created.
    SnapshotMade {
        /// The last record that it includes.
        seq: Seq,
    },
    /// The rollback was applied.
    RolledBack {
        /// The record whose state was restored.
        to: Seq,
        /// Number of entries written.
        written: u32,
        /// Number of entries deleted.
        deleted: u32,
    },
    /// The subscription is active.
    Subscribed {
        /// The record since which new messages are delivered.
        since: Seq,
        /// Requested history that is still to be delivered.
        backfill: Option<History>,
    },
    /// The deliveries are acknowledged.
    AckedMany {
        /// Deliveries that were acknowledged before: their index in the operation, and the record that ended them.
        earlier: Vec<(u32, Seq)>,
    },
    /// The request was sent and waits for replies.
    Requested {
        /// Id of the request and of its message.
        id: MessageId,
        /// Number of its first delivery.
        first: DeliveryNo,
        /// Number of recipients.
        count: u32,
        /// Whether the request is still open. False for a repeated request that has ended: its result can be read.
        is_open: bool,
    },
    /// The message was matched to a request as its reply. It goes to the waiting requester and into no inbox.
    Replied {
        /// Id of the reply.
        id: MessageId,
        /// Whether the request had ended before. A late reply is stored but not delivered.
        late: bool,
    },
    /// Result of an inspection at the head.
    Inspected(Box<InspectResult>),
    /// The access token is valid from now on.
    TokenCreated {
        /// Id of the token.
        id: TokenId,
        /// Digest of the secret that was stored. A retry under the same idempotency key may have sent another secret,
        /// which is not valid.
        digest: TokenDigest,
    },
    /// The procedure was started, at version 1.
    ProcedureStarted {
        /// Id of the procedure.
        id: ProcedureId,
    },
    /// The procedure advanced by one step.
    ProcedureStepped {
        /// Its new version.
        version: Version,
    },
    /// The procedure was paused, resumed or cancelled.
    ProcedureChanged {
        /// Its version.
        version: Version,
        /// Number of its open requests and tasks that are still to be cancelled: repeat the operation.
        remaining: u32,
    },
    /// The approval was requested.
    ApprovalRequested {
        /// Id of the approval.
        id: ApprovalId,
        /// Digest of the canonical action.
        digest: ActionDigest,
        /// Deadline of the decision.
        expires_at: Timestamp,
    },
    /// The approval was decided.
    ApprovalDecided {
        /// The record that contains the decision.
        seq: Seq,
        /// The new state: `approved`, `rejected` or `modified`.
        state: &'static str,
        /// Digest of the approved action; of the proposed action if it was rejected.
        digest: ActionDigest,
    },
}
