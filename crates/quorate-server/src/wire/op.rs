//! Operations of a commit in JSON: an object whose `op` says which one; the other fields are those of its own call. The
//! table is all there is: what can be read is described, and the other way round.

use std::borrow::Cow;
use std::cell::RefCell;

use quorate_core::limits::{ACKS_MAX, OPS_MAX};
use quorate_core::{
    AgentId, Code, DeliveryId, ErasePayload, Op, Refused, Secret, Seq, SnapshotName, Subscribe,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Sealing;
use super::agent::{AgentIn, HeartbeatIn, named};
use super::delivery::{LeaseIn, Settle};
use super::entry::{DeleteIn, EntryIn};
use super::message::MessageIn;
use super::task::{self, GraphIn, HolderIn, Say, TaskIn};
use crate::api::words;
use crate::body::Fields;
use crate::routes::admin::TokenIn;
use crate::routes::approvals::{DecisionIn, RequestIn};
use crate::routes::budgets::BudgetIn;
use crate::routes::going_back::{RollbackIn, SnapshotIn};
use crate::routes::locks::{AcquireIn, LocksIn, RenewIn};
use crate::routes::policy::PolicyIn;
use crate::routes::procedures::{StartIn, StepIn};
use crate::routes::sessions::{AddIn, ChangeIn, OpenIn, Verb};
use crate::routes::subscriptions::TopicIn;

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
    /// Secrets of new tokens, for whoever can show them.
    drawn: Option<&'a RefCell<Vec<Secret>>>,
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

/// One task or a graph.
fn create(fields: Fields<'_>, reading: &Reading<'_>) -> Result<Op, Refused> {
    Ok(reading.sealing.space.task_op(task::new(fields, &reading.sealing.times)?))
}

/// All of them; one that may be written in two ways stands here twice.
const KNOWN: &[Known] = &[
    known!("send", MessageIn<'_>, |fields, reading| {
        Ok(Op::send(fields.read::<MessageIn<'_>>()?.read(reading.sealing, reading.by)?))
    }),
    known!("ack", LeaseIn, |fields, reading| held(fields, reading, Settle::Ack)),
    known!("nack", LeaseIn, |fields, reading| held(fields, reading, Settle::Nack)),
    known!("extend", LeaseIn, |fields, reading| held(fields, reading, Settle::Extend)),
    known!("ack", ListIn, |fields, _| {
        let list = fields.read::<ListIn>()?.deliveries;
        Ok(Op::AckMany(list.iter().map(LeaseIn::lease).collect::<Result<_, _>>()?))
    }),
    known!("nack", OneIn, |fields, reading| held_one(fields, reading, Settle::Nack)),
    known!("extend", OneIn, |fields, reading| held_one(fields, reading, Settle::Extend)),
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
    known!("task.create", GraphIn<'_>, create),
    known!("task.create", TaskIn<'_>, create),
    known!("lock.acquire", AcquireIn, |fields, reading| {
        let ask = fields.read::<AcquireIn>()?.without_wait()?.read(
            None,
            reading.by,
            reading.sealing.times.lease_ms(),
        )?;
        Ok(Op::AcquireLocks(ask))
    }),
    known!("lock.renew", RenewIn, |fields, _| Ok(Op::RenewLocks(fields.read::<RenewIn>()?.read()?))),
    known!("lock.release", LocksIn, |fields, _| Ok(Op::ReleaseLocks(fields.read::<LocksIn>()?.read()?))),
    known!("session.open", OpenIn<'_>, |fields, reading| {
        Ok(Op::OpenSession(fields.read::<OpenIn<'_>>()?.read(reading.sealing, reading.by)?))
    }),
    known!("session.pause", ChangeIn, |fields, reading| changed(fields, reading, Verb::Pause)),
    known!("session.resume", ChangeIn, |fields, reading| changed(fields, reading, Verb::Resume)),
    known!("session.complete", ChangeIn, |fields, reading| changed(fields, reading, Verb::Complete)),
    known!("session.fail", ChangeIn, |fields, reading| changed(fields, reading, Verb::Fail)),
    known!("session.join", ChangeIn, |fields, reading| changed(fields, reading, Verb::Join)),
    known!("session.leave", ChangeIn, |fields, reading| changed(fields, reading, Verb::Leave)),
    known!("session.add", AddIn<'_>, |fields, reading| {
        Ok(Op::AddToSession(fields.read::<AddIn<'_>>()?.read(reading.sealing, None)?))
    }),
    known!("rollback", RollbackIn, |fields, _| Ok(Op::Rollback(fields.read::<RollbackIn>()?.read()?))),
    known!("snapshot.make", SnapshotIn, |fields, _| {
        Ok(Op::MakeSnapshot(fields.read::<SnapshotIn>()?.read()?))
    }),
    known!("snapshot.drop", NameOnly, |fields, _| {
        Ok(Op::DropSnapshot { name: SnapshotName::new(fields.read::<NameOnly>()?.name)? })
    }),
    known!("subscribe", TopicIn, |fields, reading| {
        let (agent, pattern) = fields.read::<TopicIn>()?.read(reading.by)?;
        Ok(Op::Subscribe(Subscribe { agent, pattern, history: None }))
    }),
    known!("unsubscribe", TopicIn, |fields, reading| {
        let (agent, pattern) = fields.read::<TopicIn>()?.read(reading.by)?;
        Ok(Op::Unsubscribe { agent, pattern })
    }),
    known!("token.create", TokenIn, |fields, reading| {
        let drawn = reading.drawn.ok_or_else(|| {
            Refused::new(Code::Invalid, "a token is not made here").hint("make it with a call over HTTP")
        })?;
        let secret = reading.sealing.space.draw_secret();
        let asked = fields.read::<TokenIn>()?;
        if asked.space().is_some() {
            return Err(Refused::new(
                Code::Invalid,
                "space: a commit is in one space, and so is what it makes",
            )
            .hint("leave space out, or make the token with a call of its own"));
        }
        let create = asked.read(&secret)?;
        drawn.borrow_mut().push(secret);
        Ok(Op::CreateToken(create))
    }),
    known!("token.revoke", TokenOnly, |fields, _| {
        Ok(Op::RevokeToken { token: fields.read::<TokenOnly>()?.token.parse()? })
    }),
    known!("request.cancel", RequestOnly, |fields, _| {
        Ok(Op::CancelRequest { request: fields.read::<RequestOnly>()?.request.parse()? })
    }),
    known!("approval.request", RequestIn<'_>, |fields, reading| {
        Ok(Op::RequestApproval(Box::new(fields.read::<RequestIn<'_>>()?.read(reading.sealing)?)))
    }),
    known!("approval.decide", DecisionIn<'_>, |fields, reading| {
        Ok(Op::DecideApproval(Box::new(fields.read::<DecisionIn<'_>>()?.read(reading.sealing, None)?)))
    }),
    known!("procedure.start", StartIn<'_>, |fields, reading| {
        Ok(Op::StartProcedure(fields.read::<StartIn<'_>>()?.read(reading.sealing)?))
    }),
    known!("procedure.step", StepIn<'_>, |fields, reading| {
        Ok(Op::StepProcedure(fields.read::<StepIn<'_>>()?.read(reading.sealing, None)?))
    }),
    known!("budget.set", BudgetIn, |fields, _| Ok(Op::SetBudget(fields.read::<BudgetIn>()?.read(None)?))),
    known!("policy.set", PolicyIn, |fields, _| Ok(Op::SetPolicy(fields.read::<PolicyIn>()?.read()))),
    known!("payload.erase", PartIn, |fields, _| {
        let PartIn { seq, part } = fields.read()?;
        Ok(Op::Erase(ErasePayload { seq: Seq(seq), part }))
    }),
];

fn held(fields: Fields<'_>, reading: &Reading<'_>, what: Settle) -> Result<Op, Refused> {
    fields.read::<LeaseIn>()?.read(what, &reading.sealing.times)
}

/// As its own call has it: a list, which in a commit has one item, so that every operation has one result.
fn held_one(fields: Fields<'_>, reading: &Reading<'_>, what: Settle) -> Result<Op, Refused> {
    match <[LeaseIn; 1]>::try_from(fields.read::<OneIn>()?.deliveries) {
        Ok([one]) => one.read(what, &reading.sealing.times),
        Err(list) => Err(Refused::new(Code::Invalid, format!("deliveries has {} items", list.len()))
            .hint("name one delivery in each nack or extend of a commit; an ack may name many")),
    }
}

fn said(fields: Fields<'_>, reading: &Reading<'_>, say: Say) -> Result<Op, Refused> {
    fields.read::<HolderIn<'_>>()?.read(say, reading.sealing, None)
}

fn changed(fields: Fields<'_>, reading: &Reading<'_>, verb: Verb) -> Result<Op, Refused> {
    Ok(Op::ChangeSession(fields.read::<ChangeIn>()?.read(verb, None, reading.by)?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HeldDeliveries")]
struct ListIn {
    #[serde(deserialize_with = "crate::object::objects")]
    #[schemars(length(min = 1, max = ACKS_MAX))]
    deliveries: Vec<LeaseIn>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneIn {
    #[serde(deserialize_with = "crate::object::objects")]
    #[schemars(length(min = 1, max = 1))]
    deliveries: Vec<LeaseIn>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NameOnly {
    #[schemars(with = "words::Id")]
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TokenOnly {
    #[schemars(with = "words::TokenId")]
    token: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RequestOnly {
    #[schemars(with = "words::MessageId")]
    request: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AgentOnly {
    #[serde(alias = "id")]
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
pub(crate) fn read(fields: Fields<'_>, sealing: &Sealing<'_>, by: Option<&AgentId>) -> Result<Op, Refused> {
    read_with(fields, &Reading { sealing, by, drawn: None })
}

/// Reads an operation where the secrets of new tokens can be shown.
pub(crate) fn read_drawing(
    fields: Fields<'_>,
    sealing: &Sealing<'_>,
    by: Option<&AgentId>,
    drawn: &RefCell<Vec<Secret>>,
) -> Result<Op, Refused> {
    read_with(fields, &Reading { sealing, by, drawn: Some(drawn) })
}

fn read_with(mut fields: Fields<'_>, reading: &Reading<'_>) -> Result<Op, Refused> {
    let name = fields.take_text("op")?;
    // Of those that may be written in two ways, the one whose list is there.
    let as_list = matches!(name.as_str(), "ack" | "nack" | "extend") && fields.has("deliveries");
    match KNOWN.iter().filter(|known| known.name == name).nth(usize::from(as_list)) {
        Some(known) => (known.read)(fields, reading),
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
