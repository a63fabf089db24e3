//! What a caller is answered: the receipt of a commit, and what those who wait are told.

use std::sync::Arc;

use crate::approval::ActionDigest;
use crate::decide::Handed;
use crate::ids::{
    ApprovalId, DeliveryNo, Epoch, Generation, MessageId, ProcedureId, Seq, SessionId, TaskId, Token,
    TokenId, Version,
};
use crate::inspect::Inspected;
use crate::lock::FenceRef;
use crate::message::Message;
use crate::refused::Refused;
use crate::subscription::History;
use crate::task::{TaskHanded, TaskLoss};
use crate::time::Timestamp;
use crate::token::TokenDigest;

/// The answer to a commit that took effect.
#[derive(Clone, PartialEq, Debug)]
pub struct Receipt {
    /// Its record; `None` if nothing durable changed.
    pub seq: Option<Seq>,
    /// When it was decided.
    pub at: Timestamp,
    /// One result for each operation.
    pub results: Vec<OpResult>,
}

impl Receipt {
    /// The record in which it happened: its own, or, if it only says again what was done before, the one in which that was.
    #[must_use]
    pub fn happened_in(&self) -> Option<Seq> {
        let mut named = self.results.iter().map(|result| match result {
            OpResult::Acked { seq } | OpResult::TaskAccepted { seq, .. } => Some(*seq),
            OpResult::AckedMany { earlier } => self.seq.or(earlier.iter().map(|(_, seq)| *seq).max()),
            _ => None,
        });
        let first = named.next().flatten();
        first.filter(|seq| named.all(|other| other == Some(*seq))).or(self.seq)
    }

    /// Whether its key is used up. A claim that took nothing may be repeated under its key until it takes something, also
    /// if its record holds what was due besides: somebody who is back, somebody else who was served.
    #[must_use]
    pub fn uses_key(&self) -> bool {
        let took_nothing = |result: &OpResult| match result {
            OpResult::Claimed(handed) => handed.is_empty(),
            OpResult::TasksClaimed(handed) => handed.is_empty(),
            OpResult::InLine | OpResult::Inspected(_) => true,
            _ => false,
        };
        !self.results.iter().all(took_nothing)
    }
}

/// What somebody is told who waits for something other than deliveries.
#[derive(Clone, PartialEq, Debug)]
pub enum Told {
    /// What it waited for will not come, and why.
    Refused(Refused),
    /// It holds the locks it waited for.
    Locked(Locked),
    /// A task, leased.
    TaskHanded(Box<TaskHanded>),
    /// A task that it holds is not its own any more: whatever it does with it would be refused.
    TaskLost {
        /// Which task.
        task: TaskId,
        /// The lease that is over.
        token: Token,
        /// Why.
        loss: TaskLoss,
    },
    /// An answer to its request.
    Answered {
        /// The id of the answer.
        id: MessageId,
        /// When it was given.
        at: Timestamp,
        /// The answer.
        message: Arc<Message>,
        /// Whether no more can come.
        is_last: bool,
    },
    /// The task that it waited for is over.
    TaskOver(TaskId),
}

/// Locks that somebody holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Locked {
    /// Each with its fence, by name.
    pub locks: Vec<FenceRef>,
    /// How long each hold lasts, also after each renewal.
    pub ttl_ms: u64,
}

/// The result of one operation.
#[derive(Clone, PartialEq, Debug)]
pub enum OpResult {
    /// Nothing to say.
    Done,
    /// The agent and its epoch now.
    Registered {
        /// The epoch to act under.
        epoch: Epoch,
    },
    /// It was raised as a conduct flag: it is on disk, and there is nothing else to tell.
    Received,
    /// The message is on its way.
    Sent {
        /// Its id.
        id: MessageId,
        /// Its first delivery.
        first: DeliveryNo,
        /// How many deliveries it has.
        count: u32,
    },
    /// What a claim took at once.
    Claimed(Vec<Handed>),
    /// The delivery is done with, since this record.
    Acked {
        /// The record that ended it.
        seq: Seq,
    },
    /// How many deliveries a purge ended.
    Purged {
        /// How many.
        count: u32,
    },
    /// The version of the entry now.
    Written {
        /// The version.
        version: Version,
    },
    /// The locks are held.
    Locked(Locked),
    /// Not all locks can be had now: the caller waits in line.
    InLine,
    /// The session is open.
    SessionOpened {
        /// Its id.
        id: SessionId,
    },
    /// Something was added to a session.
    SessionAdded {
        /// The how many-th of its kind it is, counted from 1.
        n: u64,
    },
    /// The tasks are made, numbered from `first` on. One without an id of its own is `tsk_GENERATION-SEQ-N`.
    TasksCreated {
        /// The generation of the record.
        generation: Generation,
        /// The record that made them.
        seq: Seq,
        /// Which tasks of that record: the first.
        first: u32,
        /// How many.
        count: u32,
    },
    /// What a claim of tasks took at once.
    TasksClaimed(Vec<TaskHanded>),
    /// What was said of a task was accepted, by this record.
    TaskAccepted {
        /// The record.
        seq: Seq,
        /// The token under which; 0 if there was no lease.
        token: Token,
    },
    /// The position has a name.
    SnapshotMade {
        /// The last record that it holds.
        seq: Seq,
    },
    /// What was there before is there again.
    RolledBack {
        /// The record to which it went back.
        to: Seq,
        /// Entries that were written.
        written: u32,
        /// Entries that were deleted.
        deleted: u32,
    },
    /// The agent subscribes.
    Subscribed {
        /// The record since which messages come by themselves.
        since: Seq,
        /// Which earlier ones are still to be brought.
        wanted: Option<History>,
    },
    /// The deliveries are done with.
    AckedMany {
        /// Those that were acked before, by their place in the list, and the record that did.
        earlier: Vec<(u32, Seq)>,
    },
    /// The question is on its way, and whoever asked waits.
    Requested {
        /// The id of the question and of the request.
        id: MessageId,
        /// Its first delivery.
        first: DeliveryNo,
        /// How many were asked.
        count: u32,
        /// Not so if it was asked before and is over: then the result can be read.
        is_open: bool,
    },
    /// The message answers a request: it went to whoever waits, and into no inbox.
    Replied {
        /// Its id.
        id: MessageId,
        /// Nobody waited any more: it is on record, and that is all.
        late: bool,
    },
    /// What was seen at the head.
    Inspected(Box<Inspected>),
    /// The token is good from now on.
    TokenCreated {
        /// Its id.
        id: TokenId,
        /// What its secret is known by. A commit that is repeated under its key may have brought another secret, which
        /// is good for nothing.
        digest: TokenDigest,
    },
    /// The procedure began, at version 1.
    ProcedureStarted {
        /// Its id.
        id: ProcedureId,
    },
    /// The procedure went on.
    ProcedureStepped {
        /// Its version now.
        version: Version,
    },
    /// The action is proposed.
    ApprovalRequested {
        /// The id of the approval.
        id: ApprovalId,
        /// The digest of the canonical action.
        digest: ActionDigest,
        /// Until when somebody may decide.
        expires_at: Timestamp,
    },
    /// The approval is decided.
    ApprovalDecided {
        /// By this record.
        seq: Seq,
        /// Where it is now: `approved`, `rejected` or `modified`.
        state: &'static str,
        /// The digest of what may happen; of what was proposed, if it was rejected.
        digest: ActionDigest,
    },
}
