//! Encoding of a commit's results, stored under its idempotency key so that a replay returns the same results.

use crate::access_token::TokenDigest;
use crate::approval::{ActionDigest, ApprovalState};
use crate::codec::{DecodeError, Reader, Writer, item};
use crate::commit::{GrantedLocks, OpResult};
use crate::decide::LeasedDelivery;
use crate::ids::{DeliveryNo, Epoch, Fence, Generation, LeaseToken, MessageId, Seq, Version};
use crate::item::{Item, ItemKind};
use crate::lock::FenceRef;
use crate::subscription::History;
use crate::task::LeasedTask;
use crate::time::Timestamp;

/// Encodes the results of a commit.
#[must_use]
pub fn write_results(results: &[OpResult]) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(16 * results.len()));
    for result in results {
        write_result(&mut out, result);
    }
    out.0
}

fn write_result(out: &mut Writer, result: &OpResult) {
    match result {
        // Raising a flag never creates a commit, so its result is never stored.
        OpResult::Done | OpResult::Received => out.number(0),
        OpResult::Registered { epoch } => {
            out.number(1);
            out.number(epoch.0);
        }
        OpResult::Sent { id, first, count } => {
            let MessageId { generation, seq, n } = id;
            out.numbers(&[2, generation.0, seq.0, u64::from(*n), first.0, u64::from(*count)]);
        }
        OpResult::Claimed(leased) => {
            out.numbers(&[3, leased.len() as u64]);
            leased.iter().for_each(|delivery| write_leased(out, delivery));
        }
        OpResult::Acked { seq } => {
            out.number(4);
            out.number(seq.0);
        }
        OpResult::Purged { count } => {
            out.number(5);
            out.number(u64::from(*count));
        }
        OpResult::Written { version } => {
            out.number(6);
            out.number(version.0);
        }
        OpResult::LocksGranted(granted) => {
            out.numbers(&[22, granted.ttl_ms, granted.locks.len() as u64]);
            for fence_ref in &granted.locks {
                out.text(&fence_ref.lock);
                out.number(fence_ref.fence.0);
            }
        }
        OpResult::Queued => out.number(23),
        OpResult::SessionOpened { id } => {
            out.number(25);
            out.text(id);
        }
        OpResult::ContributionAdded { n } => {
            out.number(26);
            out.number(*n);
        }
        OpResult::TasksCreated { generation, seq, first, count } => {
            out.numbers(&[17, generation.0, seq.0, u64::from(*first), u64::from(*count)]);
        }
        OpResult::TasksClaimed(leased) => {
            out.numbers(&[18, leased.len() as u64]);
            leased.iter().for_each(|task| item::write(out, &Item::Task(task.task.clone())));
        }
        OpResult::TaskAccepted { seq, token } => out.numbers(&[19, seq.0, token.0]),
        OpResult::SnapshotMade { seq } => out.numbers(&[28, seq.0]),
        OpResult::RolledBack { to, written, deleted } => {
            out.numbers(&[29, to.0, u64::from(*written), u64::from(*deleted)]);
        }
        OpResult::Subscribed { since, backfill } => {
            out.numbers(&[12, since.0]);
            write_history(out, *backfill);
        }
        OpResult::AckedMany { earlier } => {
            out.numbers(&[13, earlier.len() as u64]);
            earlier.iter().for_each(|(index, seq)| out.numbers(&[u64::from(*index), seq.0]));
        }
        OpResult::Requested { id, first, count, is_open } => {
            let numbers = [14, id.generation.0, id.seq.0, u64::from(id.n), first.0, u64::from(*count)];
            out.numbers(&numbers);
            out.number(u64::from(*is_open));
        }
        OpResult::Replied { id, late } => {
            out.numbers(&[15, id.generation.0, id.seq.0, u64::from(id.n), u64::from(*late)]);
        }
        // An inspection is the only operation of its commit and writes no record, so its result is never stored.
        OpResult::Inspected(_) => out.number(0),
        OpResult::TokenCreated { id, digest } => {
            out.numbers(&[31, id.generation.0, id.seq.0, u64::from(id.n)]);
            out.0.extend_from_slice(&digest.0);
        }
        OpResult::ProcedureStarted { id } => {
            out.number(32);
            out.text(id);
        }
        OpResult::ProcedureStepped { version } => out.numbers(&[33, version.0]),
        OpResult::ProcedureChanged { version, remaining } => {
            out.numbers(&[40, version.0, u64::from(*remaining)]);
        }
        OpResult::ApprovalRequested { id, digest, expires_at } => {
            out.number(34);
            out.text(id);
            out.0.extend_from_slice(&digest.0);
            out.number(expires_at.0);
        }
        OpResult::ApprovalDecided { seq, state, digest } => {
            out.numbers(&[35, seq.0]);
            out.text(state);
            out.0.extend_from_slice(&digest.0);
        }
    }
}

fn write_leased(out: &mut Writer, leased: &LeasedDelivery) {
    let LeasedDelivery { delivery, token, attempt, lease_ms, seq, n, message: _ } = leased;
    out.numbers(&[delivery.0, token.0, u64::from(*attempt), *lease_ms, seq.0, u64::from(*n)]);
}

fn write_history(out: &mut Writer, history: Option<History>) {
    match history {
        None => out.number(0),
        Some(History::Seq(seq)) => out.numbers(&[1, seq.0]),
        Some(History::Time(time)) => out.numbers(&[2, time.0]),
        Some(History::Last(last)) => out.numbers(&[3, u64::from(last)]),
    }
}

/// Decodes the output of [`write_results`].
///
/// # Errors
/// If the bytes cannot be decoded.
pub fn read_results(bytes: &[u8]) -> Result<Vec<OpResult>, DecodeError> {
    let mut input = Reader::new(bytes);
    let mut results = Vec::new();
    while !input.is_done() {
        results.push(read_result(&mut input)?);
    }
    Ok(results)
}

fn read_result(input: &mut Reader<'_>) -> Result<OpResult, DecodeError> {
    Ok(match input.number()? {
        0 => OpResult::Done,
        1 => OpResult::Registered { epoch: Epoch(input.number()?) },
        2 => OpResult::Sent {
            id: read_message_id(input)?,
            first: DeliveryNo(input.number()?),
            count: input.narrow()?,
        },
        3 => OpResult::Claimed(read_leased(input)?),
        4 => OpResult::Acked { seq: Seq(input.number()?) },
        5 => OpResult::Purged { count: input.narrow()? },
        6 => OpResult::Written { version: Version(input.number()?) },
        22 => OpResult::LocksGranted(read_granted_locks(input)?),
        23 => OpResult::Queued,
        25 => OpResult::SessionOpened { id: input.id()? },
        26 => OpResult::ContributionAdded { n: input.number()? },
        17 => OpResult::TasksCreated {
            generation: Generation(input.number()?),
            seq: Seq(input.number()?),
            first: input.narrow()?,
            count: input.narrow()?,
        },
        18 => OpResult::TasksClaimed(read_tasks(input)?),
        19 => OpResult::TaskAccepted { seq: Seq(input.number()?), token: LeaseToken(input.number()?) },
        28 => OpResult::SnapshotMade { seq: Seq(input.number()?) },
        29 => OpResult::RolledBack {
            to: Seq(input.number()?),
            written: input.narrow()?,
            deleted: input.narrow()?,
        },
        12 => OpResult::Subscribed { since: Seq(input.number()?), backfill: read_history(input)? },
        13 => {
            let count = input.count(2)?;
            let mut earlier = Vec::with_capacity(count);
            for _ in 0..count {
                earlier.push((input.narrow()?, Seq(input.number()?)));
            }
            OpResult::AckedMany { earlier }
        }
        14 => OpResult::Requested {
            id: read_message_id(input)?,
            first: DeliveryNo(input.number()?),
            count: input.narrow()?,
            is_open: input.number()? != 0,
        },
        15 => OpResult::Replied { id: read_message_id(input)?, late: input.number()? != 0 },
        31 => OpResult::TokenCreated { id: item::read_token_id(input)?, digest: TokenDigest(input.array()?) },
        32 => OpResult::ProcedureStarted { id: input.id()? },
        33 => OpResult::ProcedureStepped { version: Version(input.number()?) },
        40 => OpResult::ProcedureChanged { version: Version(input.number()?), remaining: input.narrow()? },
        34 => read_requested(input)?,
        35 => read_decided(input)?,
        _ => return input.expected("a known result"),
    })
}

fn read_leased(input: &mut Reader<'_>) -> Result<Vec<LeasedDelivery>, DecodeError> {
    let count = input.count(6)?;
    let mut leased = Vec::with_capacity(count);
    for _ in 0..count {
        leased.push(LeasedDelivery {
            delivery: DeliveryNo(input.number()?),
            token: LeaseToken(input.number()?),
            attempt: input.narrow()?,
            lease_ms: input.number()?,
            seq: Seq(input.number()?),
            n: input.narrow()?,
            message: None,
        });
    }
    Ok(leased)
}

fn read_requested(input: &mut Reader<'_>) -> Result<OpResult, DecodeError> {
    Ok(OpResult::ApprovalRequested {
        id: input.id()?,
        digest: ActionDigest(input.array()?),
        expires_at: Timestamp(input.number()?),
    })
}

fn read_decided(input: &mut Reader<'_>) -> Result<OpResult, DecodeError> {
    Ok(OpResult::ApprovalDecided {
        seq: Seq(input.number()?),
        state: read_state(input)?,
        digest: ActionDigest(input.array()?),
    })
}

fn read_state(input: &mut Reader<'_>) -> Result<&'static str, DecodeError> {
    let name = input.text()?;
    let state = ApprovalState::NAMES.into_iter().find(|state| *state == name);
    state.map_or_else(|| input.expected("the state of an approval"), Ok)
}

fn read_history(input: &mut Reader<'_>) -> Result<Option<History>, DecodeError> {
    Ok(match input.number()? {
        0 => None,
        1 => Some(History::Seq(Seq(input.number()?))),
        2 => Some(History::Time(Timestamp(input.number()?))),
        3 => Some(History::Last(input.narrow()?)),
        _ => return input.expected("a kind of history"),
    })
}

fn read_granted_locks(input: &mut Reader<'_>) -> Result<GrantedLocks, DecodeError> {
    let ttl_ms = input.number()?;
    let count = input.count(2)?;
    let mut locks = Vec::with_capacity(count);
    for _ in 0..count {
        locks.push(FenceRef { lock: input.id()?, fence: Fence(input.number()?) });
    }
    Ok(GrantedLocks { locks, ttl_ms })
}

/// Decodes leased tasks. Their inputs are read from the log.
fn read_tasks(input: &mut Reader<'_>) -> Result<Vec<LeasedTask>, DecodeError> {
    let mut leased = Vec::new();
    for _ in 0..input.count(8)? {
        match item::read(ItemKind::Task, input)? {
            Item::Task(task) => leased.push(LeasedTask { task, input: None }),
            _ => return input.expected("a task"),
        }
    }
    Ok(leased)
}

fn read_message_id(input: &mut Reader<'_>) -> Result<MessageId, DecodeError> {
    Ok(MessageId { generation: Generation(input.number()?), seq: Seq(input.number()?), n: input.narrow()? })
}
