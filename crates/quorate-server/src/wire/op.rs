//! Operations of a commit in JSON: an object whose `op` says which one; the other fields are those of its own call.

use quorate_core::{AgentId, Code, DeliveryId, ErasePayload, Op, Refused, Seq};
use serde::Deserialize;

use super::Sealing;
use super::agent::{AgentIn, HeartbeatIn, named};
use super::delivery::{LeaseIn, Settle};
use super::entry::{DeleteIn, EntryIn};
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

/// Reads an operation. `by` is the agent that acts, if it is one.
pub(crate) fn read(
    mut fields: Fields<'_>,
    sealing: &Sealing<'_>,
    by: Option<&AgentId>,
) -> Result<Op, Refused> {
    let name = fields.take_text("op")?;
    Ok(match name.as_str() {
        "send" => Op::send(fields.read::<MessageIn<'_>>()?.read(sealing, by)?),
        "ack" => fields.read::<LeaseIn>()?.read(Settle::Ack, &sealing.times)?,
        "nack" => fields.read::<LeaseIn>()?.read(Settle::Nack, &sealing.times)?,
        "extend" => fields.read::<LeaseIn>()?.read(Settle::Extend, &sealing.times)?,
        "put" => Op::Put(fields.read::<EntryIn<'_>>()?.read(sealing, None)?),
        "delete" => Op::Delete(fields.read::<DeleteIn>()?.read(None)?),
        "redrive" => {
            let delivery: DeliveryId = fields.read::<DeliveryOnly>()?.delivery_id.parse()?;
            Op::Redrive { delivery }
        }
        "purge" => Op::Purge { agent: named(by, fields.read::<AgentOnly>()?.agent)? },
        "agent.register" => Op::RegisterAgent(fields.read::<AgentIn>()?.read(None, &sealing.times)?),
        "agent.remove" => Op::RemoveAgent { agent: named(None, fields.read::<AgentOnly>()?.agent)? },
        "agent.heartbeat" => Op::Heartbeat(fields.read::<HeartbeatIn>()?.read(by)?),
        "task.heartbeat" => fields.read::<HolderIn<'_>>()?.read(Say::Heartbeat, sealing, None)?,
        "task.complete" => fields.read::<HolderIn<'_>>()?.read(Say::Complete, sealing, None)?,
        "task.fail" => fields.read::<HolderIn<'_>>()?.read(Say::Fail, sealing, None)?,
        "task.release" => fields.read::<HolderIn<'_>>()?.read(Say::Release, sealing, None)?,
        "task.cancel" => fields.read::<HolderIn<'_>>()?.read(Say::Cancel, sealing, None)?,
        "task.create" => {
            let tasks = fields.read::<GraphIn<'_>>()?.tasks.into_iter();
            let tasks = tasks.map(|task: TaskIn<'_>| task.read(&sealing.times));
            sealing.space.task_op(tasks.collect::<Result<Vec<_>, _>>()?)
        }
        "payload.erase" => {
            let PartIn { seq, part } = fields.read()?;
            Op::Erase(ErasePayload { seq: Seq(seq), part })
        }
        other => {
            return Err(Refused::new(Code::Invalid, format!("there is no operation {other:?}"))
                .hint("see GET /v1/openapi.json for what a commit may hold"));
        }
    })
}
