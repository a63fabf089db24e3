//! Operations of a commit: an object whose `op` is the name of the operation; the other fields are those of the
//! equivalent single call.
//!
//! The table covers both directions: every operation that can be parsed has a schema, and every operation that a
//! client can commit is serialized the way it is parsed.

use std::sync::PoisonError;

use quorate_core::limits::OPS_MAX;
use quorate_core::{
    AgentId, ChangeSession, Code, ControlProcedure, DeliveryId, ErasePayload, IdempotencyKey, MessageId, Op,
    ProcedureControl, Refused, Seq, SnapshotName, TokenId,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::agent::{AgentRegistration, Heartbeat};
use crate::approval::{NewApproval, NewDecision};
use crate::budget::NewBudget;
use crate::delivery::{AckDelivery, DeliveryList, ExtendLease, NackDelivery, ack_many_op};
use crate::entry::{EntryDeletion, NewEntry};
use crate::lock::{LockRelease, LockRenewalBatch, LockRequest};
use crate::message::NewMessage;
use crate::parse_context::{ParseContext, missing_field};
use crate::policy::NewPolicy;
use crate::procedure::{NewProcedure, ProcedureChange, ProcedureSignal, ProcedureStep};
use crate::request_body::RequestFields;
use crate::rollback::{NewSnapshot, Rollback};
use crate::session::{NewSession, SessionAction, SessionChange, SessionContribution};
use crate::subscription::{NewSubscription, subscribe_op};
#[cfg(feature = "schema")]
use crate::task::NewTask;
use crate::task::{
    self, TaskCancellation, TaskCompletion, TaskFailure, TaskGraph, TaskHeartbeat, TaskRelease,
};
use crate::token::NewToken;

/// Commit of operations, applied atomically: either all of them or none.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Commit"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Commit<'a> {
    /// Operations, in order. Later ones see the effects of earlier ones.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<schema::Operation>", length(min = 1, max = OPS_MAX)))]
    pub ops: Vec<RequestFields<'a>>,
    /// Idempotency key; equivalent to the header `Idempotency-Key`.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Epoch of the agent; equivalent to the header `Quorate-Epoch`.
    pub epoch: Option<u64>,
}

const _: () = assert!(OPS_MAX > 0);

/// Commit as a client sends it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitBody<'a> {
    /// Operations, serialized by [`serialize_op`].
    pub ops: Vec<Box<RawValue>>,
    /// Idempotency key for retries.
    pub idempotency_key: &'a str,
    /// Epoch of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

macro_rules! reference {
    ($(#[$doc:meta])* $name:ident { $($field:tt)* }) => {
        $(#[$doc])*
        #[derive(Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            $($field)*
        }
    };
}

reference!(
    /// Reference to a snapshot.
    SnapshotRef {
        /// Snapshot name.
        pub name: SnapshotName,
    }
);
reference!(
    /// Reference to an access token.
    TokenRef {
        /// Access token ID.
        pub token: TokenId,
    }
);
reference!(
    /// Reference to a request.
    RequestRef {
        /// Request ID.
        pub request: MessageId,
    }
);
reference!(
    /// Reference to an agent.
    AgentRef {
        /// Agent ID; `id` is accepted as an alias.
        #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
        pub agent: Option<AgentId>,
    }
);
reference!(
    /// Reference to a delivery.
    DeadLetterRef {
        /// Delivery ID.
        pub delivery_id: DeliveryId,
    }
);
reference!(
    /// Reference to a payload of a record.
    PayloadRef {
        /// Sequence number of the record.
        pub seq: Seq,
        /// Index of the payload within the record, starting at 0.
        #[serde(default)]
        pub part: u32,
    }
);

/// Table entry of an operation: its name, its parser, and the schema of its fields.
struct Entry {
    name: &'static str,
    parse: for<'a> fn(RequestFields<'a>, &ParseContext<'_>) -> Result<Op, Refused>,
    #[cfg(feature = "schema")]
    schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
}

macro_rules! op {
    ($name:literal, $fields:ty, $parse:expr) => {
        Entry {
            name: $name,
            parse: $parse,
            #[cfg(feature = "schema")]
            schema: <$fields as schemars::JsonSchema>::json_schema,
        }
    };
}

/// All operations. An operation with two forms has two entries; the second one takes a list.
const TABLE: &[Entry] = &[
    op!("send", NewMessage<'_>, |fields, context| {
        Ok(Op::send(fields.parse_into::<NewMessage<'_>>()?.into_core(context)?))
    }),
    op!("ack", AckDelivery, |fields, _| Ok(Op::Ack(fields.parse_into::<AckDelivery>()?.lease()))),
    op!("ack", DeliveryList<AckDelivery>, |fields, _| ack_many_op(fields.parse_into()?)),
    op!("nack", NackDelivery, |fields, _| Ok(fields.parse_into::<NackDelivery>()?.into_core())),
    op!("nack", DeliveryList<NackDelivery>, |fields, _| Ok(single::<NackDelivery>(fields)?.into_core())),
    op!("extend", ExtendLease, |fields, context| Ok(fields.parse_into::<ExtendLease>()?.into_core(context))),
    op!("extend", DeliveryList<ExtendLease>, |fields, context| Ok(
        single::<ExtendLease>(fields)?.into_core(context)
    )),
    op!("put", NewEntry<'_>, |fields, context| {
        Ok(Op::Put(fields.parse_into::<NewEntry<'_>>()?.into_core(context, None)?))
    }),
    op!("delete", EntryDeletion, |fields, _| Ok(Op::Delete(
        fields.parse_into::<EntryDeletion>()?.into_core(None)?
    ))),
    op!("redrive", DeadLetterRef, |fields, _| {
        Ok(Op::Redrive { delivery: fields.parse_into::<DeadLetterRef>()?.delivery_id })
    }),
    op!("purge", AgentRef, |fields, context| {
        Ok(Op::Purge { agent: context.agent(fields.parse_into::<AgentRef>()?.agent)? })
    }),
    op!("agent.register", AgentRegistration, |fields, context| {
        Ok(Op::RegisterAgent(fields.parse_into::<AgentRegistration>()?.into_core(context, None)?))
    }),
    op!("agent.remove", AgentRef, |fields, _| {
        let agent = fields.parse_into::<AgentRef>()?.agent.ok_or_else(|| missing_field("agent"))?;
        Ok(Op::RemoveAgent { agent })
    }),
    op!("agent.heartbeat", Heartbeat, |fields, context| {
        let mut heartbeat = fields.parse_into::<Heartbeat>()?;
        heartbeat.agent = heartbeat.agent.or_else(|| context.agent.cloned());
        Ok(Op::Heartbeat(heartbeat.into_core(None)?))
    }),
    op!("task.create", NewTask<'_>, task::parse_create),
    op!("task.create", TaskGraph<'_>, task::parse_create),
    op!("task.heartbeat", TaskHeartbeat<'_>, |fields, context| {
        fields.parse_into::<TaskHeartbeat<'_>>()?.into_core(context, None)
    }),
    op!("task.complete", TaskCompletion<'_>, |fields, context| {
        fields.parse_into::<TaskCompletion<'_>>()?.into_core(context, None)
    }),
    op!("task.fail", TaskFailure<'_>, |fields, context| fields
        .parse_into::<TaskFailure<'_>>()?
        .into_core(context, None)),
    op!("task.release", TaskRelease, |fields, _| fields.parse_into::<TaskRelease>()?.into_core(None)),
    op!("task.cancel", TaskCancellation, |fields, _| fields
        .parse_into::<TaskCancellation>()?
        .into_core(None)),
    op!("lock.acquire", LockRequest, |fields, context| {
        Ok(Op::AcquireLocks(fields.parse_into::<LockRequest>()?.reject_wait()?.into_core(context, None)?))
    }),
    op!("lock.renew", LockRenewalBatch, |fields, _| Ok(Op::RenewLocks(
        fields.parse_into::<LockRenewalBatch>()?.into_core()?
    ))),
    op!("lock.release", LockRelease, |fields, _| Ok(Op::ReleaseLocks(
        fields.parse_into::<LockRelease>()?.into_core()?
    ))),
    op!("session.open", NewSession<'_>, |fields, context| {
        Ok(Op::OpenSession(fields.parse_into::<NewSession<'_>>()?.into_core(context)?))
    }),
    op!("session.pause", SessionChange, |fields, context| change(fields, context, SessionAction::Pause)),
    op!("session.resume", SessionChange, |fields, context| change(fields, context, SessionAction::Resume)),
    op!("session.complete", SessionChange, |fields, context| change(
        fields,
        context,
        SessionAction::Complete
    )),
    op!("session.fail", SessionChange, |fields, context| change(fields, context, SessionAction::Fail)),
    op!("session.join", SessionChange, |fields, context| change(fields, context, SessionAction::Join)),
    op!("session.leave", SessionChange, |fields, context| change(fields, context, SessionAction::Leave)),
    op!("session.add", SessionContribution<'_>, |fields, context| {
        Ok(Op::AddToSession(fields.parse_into::<SessionContribution<'_>>()?.into_core(context, None)?))
    }),
    op!("rollback", Rollback, |fields, _| Ok(Op::Rollback(fields.parse_into::<Rollback>()?.into_core()?))),
    op!("snapshot.make", NewSnapshot, |fields, _| Ok(Op::MakeSnapshot(
        fields.parse_into::<NewSnapshot>()?.into()
    ))),
    op!("snapshot.drop", SnapshotRef, |fields, _| {
        Ok(Op::DropSnapshot { name: fields.parse_into::<SnapshotRef>()?.name })
    }),
    op!("subscribe", NewSubscription, |fields, context| Ok(Op::Subscribe(subscribe_op(
        fields.parse_into()?,
        context
    )?))),
    op!("unsubscribe", NewSubscription, |fields, context| {
        let (agent, pattern) = fields.parse_into::<NewSubscription>()?.into_core(context)?;
        Ok(Op::Unsubscribe { agent, pattern })
    }),
    op!("token.create", NewToken, |fields, context| create_token(fields.parse_into()?, context)),
    op!("token.revoke", TokenRef, |fields, _| Ok(Op::RevokeToken {
        token: fields.parse_into::<TokenRef>()?.token
    })),
    op!("request.cancel", RequestRef, |fields, _| {
        Ok(Op::CancelRequest { request: fields.parse_into::<RequestRef>()?.request })
    }),
    op!("approval.request", NewApproval<'_>, |fields, context| {
        Ok(Op::RequestApproval(Box::new(fields.parse_into::<NewApproval<'_>>()?.into_core(context)?)))
    }),
    op!("approval.decide", NewDecision<'_>, |fields, context| {
        Ok(Op::DecideApproval(Box::new(fields.parse_into::<NewDecision<'_>>()?.into_core(context, None)?)))
    }),
    op!("procedure.start", NewProcedure<'_>, |fields, context| {
        Ok(Op::StartProcedure(fields.parse_into::<NewProcedure<'_>>()?.into_core(context)?))
    }),
    op!("procedure.step", ProcedureStep<'_>, |fields, context| {
        Ok(Op::StepProcedure(fields.parse_into::<ProcedureStep<'_>>()?.into_core(context, None)?))
    }),
    op!("procedure.pause", ProcedureChange, |fields, _| control(fields, ProcedureControl::Pause)),
    op!("procedure.resume", ProcedureChange, |fields, _| control(fields, ProcedureControl::Resume)),
    op!("procedure.cancel", ProcedureChange, |fields, _| control(fields, ProcedureControl::Cancel)),
    op!("procedure.signal", ProcedureSignal<'_>, |fields, context| {
        Ok(Op::SignalProcedure(fields.parse_into::<ProcedureSignal<'_>>()?.into_core(context, None)?))
    }),
    op!("budget.set", NewBudget, |fields, _| Ok(Op::SetBudget(
        fields.parse_into::<NewBudget>()?.into_core(None)?
    ))),
    op!("policy.set", NewPolicy, |fields, _| Ok(Op::SetPolicy(
        fields.parse_into::<NewPolicy>()?.into_core()
    ))),
    op!("payload.erase", PayloadRef, |fields, _| {
        let PayloadRef { seq, part } = fields.parse_into()?;
        Ok(Op::ErasePayload(ErasePayload { seq, part }))
    }),
];

fn control(fields: RequestFields<'_>, control: ProcedureControl) -> Result<Op, Refused> {
    Ok(Op::ControlProcedure(fields.parse_into::<ProcedureChange>()?.into_core(control, None)?))
}

fn change(
    fields: RequestFields<'_>,
    context: &ParseContext<'_>,
    action: SessionAction,
) -> Result<Op, Refused> {
    Ok(Op::ChangeSession(fields.parse_into::<SessionChange>()?.into_core(action, context, None)?))
}

/// Parses a list of exactly one element, since every operation has one result.
fn single<'a, T: Deserialize<'a>>(fields: RequestFields<'a>) -> Result<T, Refused> {
    match <[T; 1]>::try_from(fields.parse_into::<DeliveryList<T>>()?.deliveries) {
        Ok([element]) => Ok(element),
        Err(list) => {
            Err(Refused::new(Code::Invalid, format!("deliveries contains {} items, expected 1", list.len()))
                .hint("send one delivery per nack or extend in a commit; only ack accepts several"))
        }
    }
}

fn create_token(token: NewToken, context: &ParseContext<'_>) -> Result<Op, Refused> {
    let secrets = context.secrets.ok_or_else(|| {
        Refused::new(Code::Invalid, "token.create is not supported on this connection")
            .hint("create the token with POST /v1/tokens")
    })?;
    if token.space.is_some() {
        return Err(Refused::new(Code::Invalid, "space: a commit cannot create a token for another space")
            .hint("omit space, or create the token with POST /v1/tokens"));
    }
    let secret = context.seal.generate_secret();
    let create = token.into_core(&secret)?;
    secrets.lock().unwrap_or_else(PoisonError::into_inner).push(secret);
    Ok(Op::CreateToken(create))
}

/// Parses an operation.
///
/// # Errors
/// `INVALID` with the path of the invalid field.
pub fn parse_op(mut fields: RequestFields<'_>, context: &ParseContext<'_>) -> Result<Op, Refused> {
    let name = fields.take_string("op")?;
    let is_list = matches!(name.as_str(), "ack" | "nack" | "extend") && fields.contains("deliveries");
    match TABLE.iter().filter(|entry| entry.name == name).nth(usize::from(is_list)) {
        Some(entry) => (entry.parse)(fields, context),
        None => Err(Refused::new(Code::Invalid, format!("op: unknown operation {name:?}"))
            .hint("see GET /v1/openapi.json for the operations of a commit")),
    }
}

/// Returns the names of all operations.
pub fn op_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|entry| entry.name)
}

/// Serializes an operation as a client sends it. `tasks` creates the fields of `task.create`, which require IDs.
///
/// # Errors
/// `INVALID` for operations that only a hub commits, and for payloads that do not match their content type.
pub fn serialize_op(
    op: &Op,
    tasks: impl FnOnce(&quorate_core::CreateTasks) -> Result<TaskGraph<'static>, Refused>,
) -> Result<Box<RawValue>, Refused> {
    match op {
        Op::Send { message, .. } => named("send", &NewMessage::new(message)?),
        Op::Ack(lease) => named("ack", &AckDelivery::from(lease)),
        Op::AckMany(leases) => {
            named("ack", &DeliveryList { deliveries: leases.iter().map(AckDelivery::from).collect() })
        }
        Op::Nack(nack) => named("nack", &NackDelivery::from(nack)),
        Op::Extend(extend) => named("extend", &ExtendLease::from(extend)),
        Op::Put(put) => named("put", &NewEntry::new(put)?),
        Op::Delete(delete) => named("delete", &EntryDeletion::from(delete)),
        Op::Redrive { delivery } => named("redrive", &DeadLetterRef { delivery_id: *delivery }),
        Op::Purge { agent } => named("purge", &AgentRef { agent: Some(agent.clone()) }),
        Op::RegisterAgent(agent) => named("agent.register", &AgentRegistration::from(agent)),
        Op::RemoveAgent { agent } => named("agent.remove", &AgentRef { agent: Some(agent.clone()) }),
        Op::Heartbeat(heartbeat) => named("agent.heartbeat", &Heartbeat::from(heartbeat)),
        Op::CreateTasks(create) => named("task.create", &tasks(create)?),
        Op::HeartbeatTask(heartbeat) => named("task.heartbeat", &TaskHeartbeat::new(heartbeat)?),
        Op::CompleteTask(complete) => named("task.complete", &TaskCompletion::new(complete)?),
        Op::FailTask(fail) => named("task.fail", &TaskFailure::new(fail)?),
        Op::ReleaseTask(lease) => named("task.release", &TaskRelease::from(lease)),
        Op::CancelTask(cancel) => named("task.cancel", &TaskCancellation::from(cancel)),
        Op::AcquireLocks(acquire) => named("lock.acquire", &LockRequest::from(acquire)),
        Op::RenewLocks(renew) => named("lock.renew", &LockRenewalBatch::from(renew)),
        Op::ReleaseLocks(locks) => named("lock.release", &LockRelease::new(locks)),
        Op::OpenSession(open) => named("session.open", &NewSession::new(open)?),
        Op::ChangeSession(change) => serialize_session_change(change),
        Op::AddToSession(add) => named("session.add", &SessionContribution::new(add)?),
        Op::Rollback(rollback) => named("rollback", &Rollback::from(rollback)),
        Op::MakeSnapshot(make) => named("snapshot.make", &NewSnapshot::from(make)),
        Op::DropSnapshot { name } => named("snapshot.drop", &SnapshotRef { name: name.clone() }),
        Op::Subscribe(subscribe) => {
            named("subscribe", &NewSubscription::new(&subscribe.agent, &subscribe.pattern))
        }
        Op::Unsubscribe { agent, pattern } => named("unsubscribe", &NewSubscription::new(agent, pattern)),
        Op::RevokeToken { token } => named("token.revoke", &TokenRef { token: *token }),
        Op::CancelRequest { request } => named("request.cancel", &RequestRef { request: *request }),
        Op::RequestApproval(request) => named("approval.request", &NewApproval::new(request)?),
        Op::DecideApproval(decide) => named("approval.decide", &NewDecision::new(decide)?),
        Op::StartProcedure(start) => named("procedure.start", &NewProcedure::new(start)?),
        Op::StepProcedure(step) => named("procedure.step", &ProcedureStep::new(step)?),
        Op::ControlProcedure(control) => serialize_control(control),
        Op::SignalProcedure(signal) => named("procedure.signal", &ProcedureSignal::new(signal)?),
        Op::SetBudget(set) => named("budget.set", &NewBudget::from(set)),
        Op::SetPolicy(policy) => named("policy.set", &NewPolicy::from(policy)),
        Op::ErasePayload(erase) => named("payload.erase", &PayloadRef { seq: erase.seq, part: erase.part }),
        // The hub generates the secrets of tokens, and the others are not part of commits.
        Op::CreateToken(_)
        | Op::Request(_)
        | Op::AwaitRequest { .. }
        | Op::AwaitTask(_)
        | Op::Claim { .. }
        | Op::ClaimTasks(_)
        | Op::GrantCredit { .. }
        | Op::CloseConsumer { .. }
        | Op::ResumeLeases { .. }
        | Op::Inspect(_)
        | Op::Backfill(_)
        | Op::HeartbeatBatch { .. }
        | Op::ConnectionClosed { .. }
        | Op::Sweep => {
            Err(Refused::new(Code::Invalid, "this operation is not supported in a commit over the network")
                .hint("use the dedicated call"))
        }
    }
}

fn serialize_control(control: &ControlProcedure) -> Result<Box<RawValue>, Refused> {
    let name = match control.control {
        ProcedureControl::Pause => "procedure.pause",
        ProcedureControl::Resume => "procedure.resume",
        ProcedureControl::Cancel => "procedure.cancel",
    };
    named(name, &ProcedureChange::new(control))
}

fn serialize_session_change(change: &ChangeSession) -> Result<Box<RawValue>, Refused> {
    let (name, change) = SessionChange::new(change);
    named(name, &change)
}

/// Operation with its name.
#[derive(Serialize)]
struct Named<'a, T> {
    op: &'static str,
    #[serde(flatten)]
    fields: &'a T,
}

fn named<T: Serialize>(op: &'static str, fields: &T) -> Result<Box<RawValue>, Refused> {
    serde_json::value::to_raw_value(&Named { op, fields })
        .map_err(|error| Refused::new(Code::Invalid, format!("cannot serialize the operation {op}: {error}")))
}

#[cfg(feature = "schema")]
mod schema {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde_json::{Map, Value, json};

    use super::TABLE;

    /// Schema of an operation of a commit.
    pub(super) struct Operation;

    impl JsonSchema for Operation {
        fn schema_name() -> Cow<'static, str> {
            "Operation".into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            let mut names: Vec<&str> = TABLE.iter().map(|entry| entry.name).collect();
            names.dedup();
            let path = generator.settings().definitions_path.clone();
            let references: Vec<(&str, String)> = names
                .into_iter()
                .map(|name| {
                    let component = component(name);
                    let schema = operation(name, generator);
                    generator.definitions_mut().insert(component.clone(), schema);
                    (name, format!("#{path}/{component}"))
                })
                .collect();
            let schemas: Vec<Value> =
                references.iter().map(|(_, reference)| json!({"$ref": reference})).collect();
            let mapping: Map<String, Value> =
                references.into_iter().map(|(name, reference)| (name.to_owned(), reference.into())).collect();
            json_schema!({
                "description": "Operation of a commit. `op` is its name; the other fields are those of the equivalent single call.",
                "oneOf": schemas,
                "discriminator": {"propertyName": "op", "mapping": mapping},
            })
        }
    }

    /// Returns the component name: `TaskCreateOperation` for `task.create`.
    fn component(name: &str) -> String {
        let segments = name.split('.').map(|segment| {
            let (first, rest) = segment.split_at(1);
            format!("{}{rest}", first.to_uppercase())
        });
        segments.collect::<String>() + "Operation"
    }

    /// Returns the schema of an operation. If it has two forms, the schema has the fields of both, so that the name
    /// alone discriminates it.
    fn operation(name: &'static str, generator: &mut SchemaGenerator) -> Value {
        let forms: Vec<Value> = TABLE
            .iter()
            .filter(|entry| entry.name == name)
            .map(|entry| (entry.schema)(generator).to_value())
            .collect();
        let mut forms = forms.into_iter();
        let mut schema = forms.next().unwrap_or_default();
        for other in forms {
            if let (Some(fields), Some(more)) =
                (schema["properties"].as_object_mut(), other["properties"].as_object())
            {
                fields.extend(more.clone());
            }
            // The forms differ in their required fields.
            schema["required"] = json!([]);
        }
        schema["properties"]["op"] = json!({"type": "string", "const": name});
        let mut required = schema["required"].as_array().cloned().unwrap_or_default();
        required.push("op".into());
        schema["required"] = required.into();
        schema["title"] = component(name).into();
        schema
    }
}

#[cfg(test)]
mod tests;
