//! Operations of a commit in JSON: an object whose `op` says which one; the other fields are those of its own call.

use quorate_core::{
    AddKind, AddToSession, AgentId, Code, DeliveryId, ErasePayload, FenceRef, Op, Refused, Seq, SessionId,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Sealing;
use super::agent::{AgentIn, HeartbeatIn, named};
use super::delivery::{LeaseIn, Settle};
use super::entry::{DeleteIn, EntryIn, FenceIn};
use super::message::MessageIn;
use super::task::{GraphIn, HolderIn, Say, TaskIn};
use crate::body::Fields;

/// A commit as a caller writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CommitIn<'a> {
    #[serde(borrow)]
    pub(crate) ops: Vec<Fields<'a>>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) epoch: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AgentOnly {
    agent: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeliveryOnly {
    delivery_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartIn {
    seq: u64,
    #[serde(default)]
    part: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LocksIn {
    locks: Vec<FenceIn>,
}

fn fences(fields: Fields<'_>) -> Result<Vec<FenceRef>, Refused> {
    fields.read::<LocksIn>()?.locks.into_iter().map(FenceIn::read).collect()
}

/// What is added to a session.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AddIn<'a> {
    session: String,
    kind: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    content_type: Option<String>,
    #[serde(default)]
    rationale: String,
}

impl AddIn<'_> {
    fn read(self, sealing: &Sealing<'_>) -> Result<Op, Refused> {
        let kind = AddKind::ALL.into_iter().find(|kind| kind.as_str() == self.kind).ok_or_else(|| {
            Refused::new(Code::Invalid, format!("kind: {:?} is none", self.kind))
                .hint("say decision, artifact, finding, blocker or note")
        })?;
        Ok(Op::AddToSession(AddToSession {
            session: SessionId::new(self.session)?,
            kind,
            body: sealing.payload(self.content, self.content_type.as_deref())?,
            content_type: self.content_type,
            rationale: self.rationale,
        }))
    }
}

/// Reads an operation. `by` is the agent that acts, if it is one.
pub(crate) fn read(
    mut fields: Fields<'_>,
    sealing: &Sealing<'_>,
    by: Option<&AgentId>,
) -> Result<Op, Refused> {
    let name = fields.take_text("op")?;
    Ok(match name.as_str() {
        "send" => Op::send(fields.read::<MessageIn<'_>>()?.read(sealing, by)?),
        "ack" => fields.read::<LeaseIn>()?.read(Settle::Ack)?,
        "nack" => fields.read::<LeaseIn>()?.read(Settle::Nack)?,
        "extend" => fields.read::<LeaseIn>()?.read(Settle::Extend)?,
        "put" => Op::Put(fields.read::<EntryIn<'_>>()?.read(sealing, None)?),
        "delete" => Op::Delete(fields.read::<DeleteIn>()?.read(None)?),
        "redrive" => {
            let delivery: DeliveryId = fields.read::<DeliveryOnly>()?.delivery_id.parse()?;
            Op::Redrive { delivery }
        }
        "purge" => Op::Purge { agent: named(by, fields.read::<AgentOnly>()?.agent)? },
        "agent.register" => Op::RegisterAgent(fields.read::<AgentIn>()?.read(None)?),
        "agent.remove" => Op::RemoveAgent { agent: named(None, fields.read::<AgentOnly>()?.agent)? },
        "agent.heartbeat" => Op::Heartbeat(fields.read::<HeartbeatIn>()?.read(by)?),
        "task.heartbeat" => fields.read::<HolderIn<'_>>()?.read(Say::Heartbeat, sealing, None)?,
        "task.complete" => fields.read::<HolderIn<'_>>()?.read(Say::Complete, sealing, None)?,
        "task.fail" => fields.read::<HolderIn<'_>>()?.read(Say::Fail, sealing, None)?,
        "task.release" => fields.read::<HolderIn<'_>>()?.read(Say::Release, sealing, None)?,
        "task.cancel" => fields.read::<HolderIn<'_>>()?.read(Say::Cancel, sealing, None)?,
        "task.create" => {
            let tasks = fields.read::<GraphIn<'_>>()?.tasks.into_iter().map(TaskIn::read);
            sealing.space.task_op(tasks.collect::<Result<Vec<_>, _>>()?)
        }
        "payload.erase" => {
            let PartIn { seq, part } = fields.read()?;
            Op::Erase(ErasePayload { seq: Seq(seq), part })
        }
        "lock.renew" => Op::RenewLocks(fences(fields)?),
        "lock.release" => Op::ReleaseLocks(fences(fields)?),
        "session.add" => fields.read::<AddIn<'_>>()?.read(sealing)?,
        other => {
            return Err(Refused::new(Code::Invalid, format!("there is no operation {other:?}"))
                .hint("see GET /v1/openapi.json for what a commit may hold"));
        }
    })
}
