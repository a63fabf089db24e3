//! Results of operations.

use quorate_core::{
    ActionDigest, ApprovalId, ApprovalState, DeliveryId, DeliveryNo, Epoch, Generations, GrantedLocks,
    LeaseToken, MessageId, Op, OpResult, ProcedureId, Receipt, Seq, SessionId, TaskId, Timestamp, TokenId,
    Version,
};
use serde::{Deserialize, Serialize};

use crate::lock::LockFence;

/// Result of a change that returns no further data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeReceipt {
    /// Sequence number of the record; `null` if nothing durable changed.
    pub seq: Option<Seq>,
}

impl From<&Receipt> for ChangeReceipt {
    fn from(receipt: &Receipt) -> Self {
        Self { seq: receipt.effective_seq() }
    }
}

/// Message that was accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SentMessage {
    /// Unique identifier.
    pub id: String,
    /// Sequence number of the record; `null` for an ephemeral message.
    pub seq: Option<Seq>,
    /// Delivery IDs; empty if the message was returned directly to a waiting caller.
    pub deliveries: Vec<DeliveryId>,
    /// Only for an answer: whether the request had already ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<bool>,
}

/// Confirmation that a conduct flag was stored. It discloses no further data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlagReceipt {
    /// Always true.
    pub received: bool,
}

/// Result of sending a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum SendReceipt {
    Message(SentMessage),
    Flag(FlagReceipt),
}

/// Results of sending messages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SendReceipts {
    /// One receipt per message, in order.
    pub receipts: Vec<SendReceipt>,
}

/// Whether all operations of a commit were raised as conduct flags, so that nothing of it is public.
#[must_use]
pub fn is_flag_receipt(receipt: &Receipt) -> bool {
    !receipt.results.is_empty() && receipt.results.iter().all(|result| *result == OpResult::Received)
}

/// Result of an operation. Its fields depend on the operation.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, rename_all_fields = "camelCase")]
#[allow(missing_docs, reason = "the fields are those of the equivalent single calls")]
pub enum OperationResult {
    Sent(SentMessage),
    Flag(FlagReceipt),
    ApprovalRequested { id: ApprovalId, digest: ActionDigest, expires_at: Timestamp },
    ApprovalDecided { seq: Seq, state: String, digest: ActionDigest },
    TaskAccepted { seq: Seq, accepted_token: LeaseToken },
    Locked { ttl_ms: u64, locks: Vec<LockFence> },
    RolledBack { to: Seq, written: u32, deleted: u32 },
    ProcedureStarted { id: ProcedureId, version: Version },
    TokenCreated { id: TokenId, token: Option<String> },
    Created { id: String },
    Registered { epoch: Epoch },
    TasksCreated { count: u32, tasks: Vec<TaskRef> },
    Counted { count: u32 },
    ProcedureChanged { version: Version, remaining: u32 },
    Version { version: Version },
    Added { n: u64 },
    Subscribed { since: Seq },
    Record { seq: Seq },
    Done {},
}

impl OperationResult {
    /// Creates the API representation of a result.
    #[must_use]
    pub fn new(generations: &Generations, result: &OpResult) -> Self {
        match result {
            OpResult::Registered { epoch } => Self::Registered { epoch: *epoch },
            OpResult::Sent { id, first, count } | OpResult::Requested { id, first, count, .. } => {
                Self::Sent(sent(*id, delivery_ids(generations, *first, *count), None))
            }
            OpResult::Replied { id, late } => Self::Sent(sent(*id, Vec::new(), Some(*late))),
            OpResult::Received => Self::Flag(FlagReceipt { received: true }),
            OpResult::Acked { seq } | OpResult::SnapshotMade { seq } => Self::Record { seq: *seq },
            OpResult::Purged { count } | OpResult::TasksCreated { count, .. } => {
                Self::Counted { count: *count }
            }
            OpResult::Written { version } | OpResult::ProcedureStepped { version } => {
                Self::Version { version: *version }
            }
            OpResult::ProcedureChanged { version, remaining } => {
                Self::ProcedureChanged { version: *version, remaining: *remaining }
            }
            OpResult::SessionOpened { id } => Self::Created { id: id.to_string() },
            OpResult::ContributionAdded { n } => Self::Added { n: *n },
            OpResult::TaskAccepted { seq, token } => Self::TaskAccepted { seq: *seq, accepted_token: *token },
            OpResult::RolledBack { to, written, deleted } => {
                Self::RolledBack { to: *to, written: *written, deleted: *deleted }
            }
            OpResult::LocksGranted(granted) => {
                Self::Locked { ttl_ms: granted.ttl_ms, locks: granted.locks.iter().map(Into::into).collect() }
            }
            OpResult::Subscribed { since, .. } => Self::Subscribed { since: *since },
            OpResult::ApprovalRequested { id, digest, expires_at } => {
                Self::ApprovalRequested { id: id.clone(), digest: *digest, expires_at: *expires_at }
            }
            OpResult::ApprovalDecided { seq, state, digest } => {
                Self::ApprovalDecided { seq: *seq, state: (*state).to_owned(), digest: *digest }
            }
            OpResult::ProcedureStarted { id } => {
                Self::ProcedureStarted { id: id.clone(), version: Version(1) }
            }
            OpResult::TokenCreated { id, .. } => Self::Created { id: id.to_string() },
            OpResult::Done
            | OpResult::Claimed(_)
            | OpResult::Queued
            | OpResult::TasksClaimed(_)
            | OpResult::AckedMany { .. }
            | OpResult::Inspected(_) => Self::Done {},
        }
    }
}

/// Reference to a task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskRef {
    /// Task ID.
    pub id: TaskId,
}

// A client receives the results as `RawJson`: their type depends on the operation, see `parse_result`.
/// Receipt of a commit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Receipt"))]
pub struct CommitReceipt<R = OperationResult> {
    /// Sequence number of the record; `null` if nothing durable changed.
    pub seq: Option<Seq>,
    /// One result per operation, in order.
    pub results: Vec<R>,
}

fn sent(id: MessageId, deliveries: Vec<DeliveryId>, late: Option<bool>) -> SentMessage {
    SentMessage { id: id.to_string(), seq: Some(id.seq), deliveries, late }
}

/// Returns the IDs of consecutive deliveries.
#[must_use]
pub fn delivery_ids(generations: &Generations, first: DeliveryNo, count: u32) -> Vec<DeliveryId> {
    (first.0..).take(count as usize).map(|number| generations.delivery_id(DeliveryNo(number))).collect()
}

/// Parses the result of an operation, as a client receives it.
///
/// # Errors
/// A missing or unknown field: the hub runs another release.
pub fn parse_result(op: &Op, raw: &str) -> Result<OpResult, serde_json::Error> {
    Ok(match op {
        Op::RegisterAgent(_) => parse_as(raw, |Registered { epoch }| OpResult::Registered { epoch })?,
        Op::Send { .. } | Op::Request(_) => parse_sent(raw)?,
        Op::Ack(_) => parse_as(raw, |Record { seq }| OpResult::Acked { seq })?,
        Op::MakeSnapshot(_) => parse_as(raw, |Record { seq }| OpResult::SnapshotMade { seq })?,
        Op::Put(_) | Op::Delete(_) => parse_as(raw, |Versioned { version }| OpResult::Written { version })?,
        Op::StepProcedure(_) => {
            parse_as(raw, |Versioned { version }| OpResult::ProcedureStepped { version })?
        }
        Op::ControlProcedure(_) => {
            parse_as(raw, |Changed { version, remaining }| OpResult::ProcedureChanged { version, remaining })?
        }
        Op::Purge { .. } => parse_as(raw, |Counted { count }| OpResult::Purged { count })?,
        // The client derives the IDs of new tasks from those in the request.
        Op::CreateTasks(_) => parse_as(raw, |Counted { count }| OpResult::TasksCreated {
            generation: quorate_core::Generation(0),
            seq: Seq(0),
            first: 0,
            count,
        })?,
        Op::OpenSession(_) => parse_as(raw, |Id::<SessionId> { id }| OpResult::SessionOpened { id })?,
        Op::StartProcedure(_) => parse_as(raw, |Id::<ProcedureId> { id }| OpResult::ProcedureStarted { id })?,
        Op::AddToSession(_) => parse_as(raw, |Added { n }| OpResult::ContributionAdded { n })?,
        Op::RequestApproval(_) => parse_as(raw, |Requested { id, digest, expires_at }| {
            OpResult::ApprovalRequested { id, digest, expires_at }
        })?,
        Op::DecideApproval(_) => parse_decided(raw)?,
        Op::AcquireLocks(_) => parse_as(raw, |Locks { ttl_ms, locks }| {
            OpResult::LocksGranted(GrantedLocks {
                ttl_ms,
                locks: locks.into_iter().map(Into::into).collect(),
            })
        })?,
        Op::Rollback(_) => parse_as(raw, |RolledBack { to, written, deleted }| OpResult::RolledBack {
            to,
            written,
            deleted,
        })?,
        Op::Subscribe(_) => parse_as(raw, |Since { since }| OpResult::Subscribed { since, backfill: None })?,
        Op::CompleteTask(_) | Op::FailTask(_) => {
            let Accepted { seq, accepted_token } = serde_json::from_str(raw)?;
            match (seq, accepted_token) {
                (Some(seq), Some(token)) => OpResult::TaskAccepted { seq, token },
                _ => OpResult::Done,
            }
        }
        Op::AckMany(_) => OpResult::AckedMany { earlier: Vec::new() },
        other => parse_empty(other)?,
    })
}

/// Returns the result of an operation whose result is empty.
fn parse_empty(op: &Op) -> Result<OpResult, serde_json::Error> {
    match op {
        Op::Nack(_)
        | Op::Extend(_)
        | Op::Redrive { .. }
        | Op::RemoveAgent { .. }
        | Op::Heartbeat(_)
        | Op::HeartbeatTask(_)
        | Op::ReleaseTask(_)
        | Op::CancelTask(_)
        | Op::RenewLocks(_)
        | Op::ReleaseLocks(_)
        | Op::ChangeSession(_)
        | Op::DropSnapshot { .. }
        | Op::Unsubscribe { .. }
        | Op::RevokeToken { .. }
        | Op::CancelRequest { .. }
        | Op::SetBudget(_)
        | Op::SetPolicy(_)
        | Op::ErasePayload(_) => Ok(OpResult::Done),
        // The others are handled above, or never committed by a client.
        _ => Err(serde::de::Error::custom("unexpected result: clients do not commit this operation")),
    }
}

fn parse_as<'a, T: Deserialize<'a>>(
    raw: &'a str,
    result: impl FnOnce(T) -> OpResult,
) -> Result<OpResult, serde_json::Error> {
    serde_json::from_str(raw).map(result)
}

fn parse_sent(raw: &str) -> Result<OpResult, serde_json::Error> {
    #[derive(Deserialize)]
    struct Sent {
        received: Option<bool>,
        id: Option<MessageId>,
        #[serde(default)]
        deliveries: Vec<DeliveryId>,
        late: Option<bool>,
    }
    let Sent { received, id, deliveries, late } = serde_json::from_str(raw)?;
    match (received, id, late) {
        (Some(true), ..) => Ok(OpResult::Received),
        (_, Some(id), Some(late)) => Ok(OpResult::Replied { id, late }),
        (_, Some(id), None) => {
            let first = deliveries.first().map_or(DeliveryNo(0), |first| first.number);
            Ok(OpResult::Sent { id, first, count: deliveries.len() as u32 })
        }
        (_, None, _) => Err(serde::de::Error::missing_field("id")),
    }
}

fn parse_decided(raw: &str) -> Result<OpResult, serde_json::Error> {
    #[derive(Deserialize)]
    struct Decided {
        seq: Seq,
        state: String,
        digest: ActionDigest,
    }
    let Decided { seq, state, digest } = serde_json::from_str(raw)?;
    let known = ApprovalState::NAMES.into_iter().find(|known| *known == state);
    let state = known.ok_or_else(|| serde::de::Error::unknown_variant(&state, &ApprovalState::NAMES))?;
    Ok(OpResult::ApprovalDecided { seq, state, digest })
}

/// Declares the structs that results are parsed into.
macro_rules! result_structs {
    ($($name:ident { $($field:ident: $kind:ty),* })*) => {
        $(
            #[derive(Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct $name {
                $($field: $kind,)*
            }
        )*
    };
}

result_structs! {
    Registered { epoch: Epoch }
    Record { seq: Seq }
    Versioned { version: Version }
    Changed { version: Version, remaining: u32 }
    Counted { count: u32 }
    Added { n: u64 }
    Since { since: Seq }
    Requested { id: ApprovalId, digest: ActionDigest, expires_at: Timestamp }
    Locks { ttl_ms: u64, locks: Vec<LockFence> }
    RolledBack { to: Seq, written: u32, deleted: u32 }
    Accepted { seq: Option<Seq>, accepted_token: Option<LeaseToken> }
}

#[derive(Deserialize)]
struct Id<T> {
    id: T,
}
