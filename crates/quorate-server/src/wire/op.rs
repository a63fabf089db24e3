//! Operations of a commit in JSON: an object whose `op` says which one; the other fields are those of its own call. The
//! table is all there is: what can be read is described, and the other way round.

use std::borrow::Cow;

use quorate_core::limits::OPS_MAX;
use quorate_core::{AgentId, Code, DeliveryId, ErasePayload, Op, Refused, Seq};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Sealing;
use super::agent::{AgentIn, HeartbeatIn, named};
use super::delivery::{LeaseIn, Settle};
use super::entry::{DeleteIn, EntryIn};
use super::message::MessageIn;
use super::task::{GraphIn, HolderIn, Say, TaskIn};
use crate::api::words;
use crate::body::Fields;

/// A commit as a caller writes it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Commit")]
pub(crate) struct CommitIn<'a> {
    /// What to do, in order; later operations see earlier ones.
    #[serde(borrow)]
    #[schemars(with = "Vec<OpIn>", length(min = 1, max = OPS_MAX))]
    pub(crate) ops: Vec<Fields<'a>>,
    /// As the header `Idempotency-Key`.
    #[schemars(with = "Option<words::Id>")]
    pub(crate) idempotency_key: Option<String>,
    /// As the header `Quorate-Epoch`.
    pub(crate) epoch: Option<u64>,
}

/// What an operation is read with: the request, and the agent that acts if it is one.
struct Reading<'a> {
    sealing: &'a Sealing<'a>,
    by: Option<&'a AgentId>,
}

/// One operation: its name, how it is read, and the shape of its fields.
struct Known {
    name: &'static str,
    read: for<'a> fn(Fields<'a>, &Reading<'_>) -> Result<Op, Refused>,
    shape: fn(&mut SchemaGenerator) -> Schema,
}

macro_rules! known {
    ($name:literal, $shape:ty, $read:expr) => {
        Known { name: $name, read: $read, shape: <$shape as JsonSchema>::json_schema }
    };
}

/// All of them.
const KNOWN: &[Known] = &[
    known!("send", MessageIn<'_>, |fields, reading| {
        Ok(Op::send(fields.read::<MessageIn<'_>>()?.read(reading.sealing, reading.by)?))
    }),
    known!("ack", LeaseIn, |fields, reading| held(fields, reading, Settle::Ack)),
    known!("nack", LeaseIn, |fields, reading| held(fields, reading, Settle::Nack)),
    known!("extend", LeaseIn, |fields, reading| held(fields, reading, Settle::Extend)),
    known!("put", EntryIn<'_>, |fields, reading| {
        Ok(Op::Put(fields.read::<EntryIn<'_>>()?.read(reading.sealing, None)?))
    }),
    known!("delete", DeleteIn, |fields, _| Ok(Op::Delete(fields.read::<DeleteIn>()?.read(None)?))),
    known!("redrive", DeliveryOnly, |fields, _| {
        let delivery: DeliveryId = fields.read::<DeliveryOnly>()?.delivery_id.parse()?;
        Ok(Op::Redrive { delivery })
    }),
    known!("purge", AgentOnly, |fields, reading| {
        Ok(Op::Purge { agent: named(reading.by, fields.read::<AgentOnly>()?.agent)? })
    }),
    known!("agent.register", AgentIn, |fields, reading| {
        Ok(Op::RegisterAgent(fields.read::<AgentIn>()?.read(None, &reading.sealing.times)?))
    }),
    known!("agent.remove", AgentOnly, |fields, _| {
        Ok(Op::RemoveAgent { agent: named(None, fields.read::<AgentOnly>()?.agent)? })
    }),
    known!("agent.heartbeat", HeartbeatIn, |fields, reading| {
        Ok(Op::Heartbeat(fields.read::<HeartbeatIn>()?.read(reading.by)?))
    }),
    known!("task.heartbeat", HolderIn<'_>, |fields, reading| said(fields, reading, Say::Heartbeat)),
    known!("task.complete", HolderIn<'_>, |fields, reading| said(fields, reading, Say::Complete)),
    known!("task.fail", HolderIn<'_>, |fields, reading| said(fields, reading, Say::Fail)),
    known!("task.release", HolderIn<'_>, |fields, reading| said(fields, reading, Say::Release)),
    known!("task.cancel", HolderIn<'_>, |fields, reading| said(fields, reading, Say::Cancel)),
    known!("task.create", GraphIn<'_>, |fields, reading| {
        let tasks = fields.read::<GraphIn<'_>>()?.tasks.into_iter();
        let tasks = tasks.map(|task: TaskIn<'_>| task.read(&reading.sealing.times));
        Ok(reading.sealing.space.task_op(tasks.collect::<Result<Vec<_>, _>>()?))
    }),
    known!("payload.erase", PartIn, |fields, _| {
        let PartIn { seq, part } = fields.read()?;
        Ok(Op::Erase(ErasePayload { seq: Seq(seq), part }))
    }),
];

fn held(fields: Fields<'_>, reading: &Reading<'_>, what: Settle) -> Result<Op, Refused> {
    fields.read::<LeaseIn>()?.read(what, &reading.sealing.times)
}

fn said(fields: Fields<'_>, reading: &Reading<'_>, say: Say) -> Result<Op, Refused> {
    fields.read::<HolderIn<'_>>()?.read(say, reading.sealing, None)
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AgentOnly {
    #[schemars(with = "Option<words::Id>")]
    agent: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeliveryOnly {
    #[schemars(with = "words::DeliveryId")]
    delivery_id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PartIn {
    /// The record.
    seq: u64,
    /// Which part of it, from 0.
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
    match KNOWN.iter().find(|known| known.name == name) {
        Some(known) => (known.read)(fields, &Reading { sealing, by }),
        None => Err(Refused::new(Code::Invalid, format!("there is no operation {name:?}"))
            .hint("see GET /v1/openapi.json for what a commit may hold")),
    }
}

/// One operation of a commit, described.
struct OpIn;

impl JsonSchema for OpIn {
    fn schema_name() -> Cow<'static, str> {
        "Operation".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = |known: &Known| -> Value {
            let mut schema = (known.shape)(generator).to_value();
            schema["properties"]["op"] = json!({"const": known.name});
            let mut required = schema["required"].as_array().cloned().unwrap_or_default();
            required.push("op".into());
            schema["required"] = required.into();
            schema["title"] = known.name.into();
            schema
        };
        let all: Vec<Value> = KNOWN.iter().map(one).collect();
        json_schema!({"oneOf": all})
    }
}
