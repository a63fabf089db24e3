//! Operations of a commit, and what they came to.

use quorate::{Code, Error, Refused};
use quorate_core::{
    AddKind, ApprovalId, ApprovalState, ChangeSession, CompleteTask, DecideApproval, DeliveryId, DeliveryNo,
    Epoch, FenceRef, LeaseRef, MessageId, NackThen, Op, OpResult, Payload, ProcedureId, RequestApproval, Seq,
    SessionChange, SessionId, StepProcedure, TaskLeaseRef, TaskStatus, Token, Verdict, Version,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::entry::{FenceOut, PutOut};
use super::message::MessageOut;
use super::rules::policy_out;
use super::task::TasksOut;
use super::{raw, strange, time_in, write};

/// A commit on its way out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CommitOut<'a> {
    ops: Vec<Box<RawValue>>,
    idempotency_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
}

/// A commit in JSON. It always has a key: it may have to be said again.
pub(crate) fn commit(ops: &[Op], key: &str, epoch: Option<Epoch>) -> Result<String, Error> {
    let ops = ops.iter().map(|op| out(op, key)).collect::<Result<Vec<_>, _>>()?;
    write(&CommitOut { ops, idempotency_key: key, epoch: epoch.map(|epoch| epoch.0) })
}

fn out(op: &Op, key: &str) -> Result<Box<RawValue>, Error> {
    let text = match op {
        Op::Send { message, .. } => write(&MessageOut::as_op(message)?),
        Op::Put(put) => write(&PutOut::new(put)?),
        Op::CreateTasks(create) => write(&TasksOut::as_op(create, key)?),
        Op::CompleteTask(done) => complete(done),
        Op::HeartbeatTask(beat) => {
            let named = task("task.heartbeat", &beat.lease);
            with(named, "partial", beat.partial.as_ref(), None)
        }
        Op::FailTask(fail) => {
            let mut named = task("task.fail", &fail.lease);
            named.insert("reason".into(), fail.reason.clone().into());
            named.insert("recoverable".into(), fail.recoverable.into());
            with(named, "details", fail.details.as_ref(), None)
        }
        Op::AddToSession(add) => {
            let mut named = Map::new();
            named.insert("op".into(), "session.add".into());
            named.insert("session".into(), add.session.to_string().into());
            named.insert("kind".into(), kind(add.kind).into());
            named.insert("rationale".into(), add.rationale.clone().into());
            with(named, "body", Some(&add.body), add.content_type.as_deref())
        }
        Op::StartProcedure(start) => {
            let mut named = json!({"op": "procedure.start", "kind": start.kind});
            put_if(&mut named, "id", start.id.as_ref().map(|id| id.to_string().into()));
            put_if(&mut named, "driver", start.driver.as_ref().map(|id| id.to_string().into()));
            let Value::Object(named) = named else { return Err(strange(&"a procedure")) };
            with(named, "spec", start.spec.as_ref(), None)
        }
        Op::StepProcedure(step) => stepped(step),
        Op::RequestApproval(ask) => asked(ask),
        Op::DecideApproval(decide) => decided(decide),
        Op::OpenSession(open) => {
            let participants: Vec<_> = open.participants.iter().map(ToString::to_string).collect();
            let mut named = json!({"op": "session.open", "title": open.title, "participants": participants});
            put_if(&mut named, "id", open.id.as_ref().map(|id| id.to_string().into()));
            put_if(&mut named, "coordinator", open.coordinator.as_ref().map(|id| id.to_string().into()));
            let Value::Object(named) = named else { return Err(strange(&"a session")) };
            with(named, "task", open.task.as_ref(), None)
        }
        other => write(&plain(other)?),
    };
    RawValue::from_string(text?).map_err(|error| strange(&error))
}

/// Operations that bear no payload.
fn plain(op: &Op) -> Result<Value, Error> {
    Ok(match op {
        Op::Ack(lease) => leased("ack", lease).into(),
        Op::Nack(nack) => {
            let mut named = leased("nack", &nack.lease);
            named.insert("reason".into(), nack.reason.clone().into());
            match nack.then {
                NackThen::Retry { delay_ms } => named.insert("delayMs".into(), delay_ms.into()),
                NackThen::Release => named.insert("untried".into(), true.into()),
                NackThen::Dead => named.insert("hopeless".into(), true.into()),
            };
            named.into()
        }
        Op::Extend(extend) => {
            let mut named = leased("extend", &extend.lease);
            named.insert("leaseMs".into(), extend.lease_ms.into());
            named.into()
        }
        Op::Delete(delete) => {
            let fence = delete.fence.as_ref().map(FenceOut::new);
            let fence = fence.map(|one| serde_json::to_value(one).unwrap_or_default());
            let mut named = json!({"op": "delete", "key": delete.key.to_string()});
            put_if(&mut named, "expect", delete.expect.map(|version| version.0.into()));
            put_if(&mut named, "fence", fence);
            named
        }
        Op::Redrive { delivery } => json!({"op": "redrive", "deliveryId": delivery.to_string()}),
        Op::Purge { agent } => json!({"op": "purge", "agent": agent.to_string()}),
        Op::RemoveAgent { agent } => json!({"op": "agent.remove", "agent": agent.to_string()}),
        Op::ReleaseTask(lease) => task("task.release", lease).into(),
        Op::CancelTask(cancel) => {
            json!({"op": "task.cancel", "task": cancel.task.to_string(), "reason": cancel.reason})
        }
        Op::Heartbeat(beat) => json!({
            "op": "agent.heartbeat",
            "agent": beat.agent.to_string(),
            "status": beat.status.as_str(),
            "health": beat.health.as_str(),
            "note": beat.health.note(),
        }),
        Op::RenewLocks(renew) => {
            let mut named = json!({"op": "lock.renew", "locks": fences(&renew.locks)});
            put_if(&mut named, "ttlMs", renew.ttl_ms.map(Into::into));
            named
        }
        Op::ReleaseLocks(locks) => json!({"op": "lock.release", "locks": fences(locks)}),
        Op::ChangeSession(change) => changed(change),
        Op::SetBudget(set) => {
            let mut named =
                json!({"op": "budget.set", "budget": set.id.to_string(), "messagesMax": set.messages_max});
            put_if(&mut named, "tokensMax", set.tokens_max.map(Into::into));
            put_if(&mut named, "moneyMax", set.money_max.map(Into::into));
            named
        }
        Op::MakeSnapshot(make) => {
            json!({"op": "snapshot.make", "name": make.name.to_string(), "prefix": make.prefix})
        }
        Op::DropSnapshot { name } => json!({"op": "snapshot.drop", "name": name.to_string()}),
        Op::SetPolicy(policy) => policy_out(policy),
        Op::CancelRequest { request } => json!({"op": "request.cancel", "request": request.to_string()}),
        _ => {
            let refused = Refused::new(Code::Invalid, "this cannot be said over the network yet");
            return Err(refused.hint("use the hub's HTTP interface for it").into());
        }
    })
}

/// A change of a session.
fn changed(change: &ChangeSession) -> Value {
    let (verb, agent) = match &change.change {
        SessionChange::Join(agent) => ("join", Some(agent)),
        SessionChange::Leave(agent) => ("leave", Some(agent)),
        SessionChange::Pause => ("pause", None),
        SessionChange::Resume => ("resume", None),
        SessionChange::Complete => ("complete", None),
        SessionChange::Fail => ("fail", None),
    };
    let session = change.session.to_string();
    let mut named = json!({"op": format!("session.{verb}"), "session": session, "reason": change.reason});
    put_if(&mut named, "agent", agent.map(|agent| agent.to_string().into()));
    named
}

fn fences(locks: &[FenceRef]) -> Vec<Value> {
    locks.iter().map(|one| json!({"lock": one.lock.to_string(), "fence": one.fence.0})).collect()
}

fn kind(kind: AddKind) -> &'static str {
    kind.as_str()
}

fn put_if(named: &mut Value, name: &str, value: Option<Value>) {
    if let (Some(named), Some(value)) = (named.as_object_mut(), value) {
        named.insert(name.to_owned(), value);
    }
}

fn leased(op: &str, lease: &LeaseRef) -> Map<String, Value> {
    let mut named = Map::new();
    named.insert("op".into(), op.into());
    named.insert("deliveryId".into(), lease.delivery.to_string().into());
    named.insert("leaseToken".into(), lease.token.0.into());
    named
}

fn task(op: &str, lease: &TaskLeaseRef) -> Map<String, Value> {
    let mut named = Map::new();
    named.insert("op".into(), op.into());
    named.insert("task".into(), lease.task.to_string().into());
    named.insert("leaseToken".into(), lease.token.0.into());
    named
}

/// Adds a payload, byte for byte: by way of a [`Value`] it would not stay as it is.
fn with(
    named: Map<String, Value>,
    name: &str,
    payload: Option<&Payload>,
    content_type: Option<&str>,
) -> Result<String, Error> {
    let Some(payload) = payload else { return write(&named) };
    let mut named = named;
    if let Some(content_type) = content_type {
        named.insert("contentType".into(), content_type.into());
    }
    and(write(&named)?, name, Some(payload), content_type)
}

/// Adds one more to an object that is written already.
fn and(
    mut text: String,
    name: &str,
    payload: Option<&Payload>,
    content_type: Option<&str>,
) -> Result<String, Error> {
    let Some(payload) = payload else { return Ok(text) };
    // Every object here has an `op`, so there is something before the comma.
    text.pop();
    Ok(format!("{text},\"{name}\":{}}}", raw(&payload.bytes, content_type)?.get()))
}

fn complete(done: &CompleteTask) -> Result<String, Error> {
    let mut named = task("task.complete", &done.lease);
    let status = if done.status == TaskStatus::Partial { "partial" } else { "done" };
    named.insert("status".into(), status.into());
    let mut named = Value::from(named);
    put_if(&mut named, "confidence", done.confidence.map(Into::into));
    put_if(&mut named, "rationale", done.rationale.clone().map(Into::into));
    let fence = done.fence.as_ref().map(FenceOut::new);
    put_if(&mut named, "fence", fence.map(|one| serde_json::to_value(one).unwrap_or_default()));
    let Value::Object(named) = named else { return Err(strange(&"a task")) };
    with(named, "result", done.result.as_ref(), done.content_type.as_deref())
}

fn stepped(step: &StepProcedure) -> Result<String, Error> {
    let named = json!({
        "op": "procedure.step",
        "procedure": step.procedure.to_string(),
        "expect": step.expect.0,
        "phase": step.phase,
        "status": step.status.as_str(),
    });
    let Value::Object(named) = named else { return Err(strange(&"a procedure")) };
    and(with(named, "state", step.state.as_ref(), None)?, "result", step.result.as_ref(), None)
}

/// The hub makes the canonical bytes anew of the payload in them.
fn asked(ask: &RequestApproval) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        payload: &'a RawValue,
    }
    let document: Document<'_> =
        serde_json::from_slice(&ask.document.bytes).map_err(|error| strange(&error))?;
    let then: Vec<_> =
        ask.then.iter().map(|(to, action)| json!({"to": to.to_string(), "action": action})).collect();
    let mut named = json!({
        "op": "approval.request",
        "action": ask.action,
        "priority": ask.priority.level,
        "timeoutMs": ask.timeout_ms,
        "default": ask.default,
        "then": then,
    });
    put_if(&mut named, "id", ask.id.as_ref().map(|id| id.to_string().into()));
    put_if(&mut named, "agent", ask.agent.as_ref().map(|id| id.to_string().into()));
    put_if(&mut named, "rationale", ask.rationale.clone().map(Into::into));
    put_if(&mut named, "confidence", ask.confidence.map(Into::into));
    put_if(&mut named, "sessionId", ask.session.clone().map(Into::into));
    let mut text = write(&named)?;
    text.pop();
    Ok(format!("{text},\"payload\":{}}}", document.payload.get()))
}

fn decided(decide: &DecideApproval) -> Result<String, Error> {
    let (word, patch) = match &decide.verdict {
        Verdict::Approve => ("approve", None),
        Verdict::Reject => ("reject", None),
        Verdict::Modify { patch, .. } => ("modify", Some(patch)),
    };
    let named = json!({
        "op": "approval.decide",
        "approval": decide.approval.to_string(),
        "decision": word,
        "digest": decide.digest.to_string(),
        "reason": decide.reason,
    });
    let Value::Object(named) = named else { return Err(strange(&"an approval")) };
    with(named, "modification", patch, None)
}

/// What a commit came to, as it is told.
#[derive(Deserialize)]
pub(crate) struct CommittedIn {
    pub(crate) seq: Option<u64>,
    results: Vec<ResultIn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultIn {
    epoch: Option<u64>,
    id: Option<String>,
    seq: Option<u64>,
    deliveries: Option<Vec<String>>,
    version: Option<u64>,
    count: Option<u32>,
    n: Option<u64>,
    accepted_token: Option<u64>,
    digest: Option<String>,
    expires_at: Option<String>,
    state: Option<String>,
    received: Option<bool>,
}

impl CommittedIn {
    /// One result for each operation.
    pub(crate) fn read(self, ops: &[Op]) -> Result<Vec<OpResult>, Error> {
        if self.results.len() != ops.len() {
            return Err(strange(&"there is not one result for each operation"));
        }
        self.results.into_iter().zip(ops).map(|(result, op)| result.read(op)).collect()
    }
}

impl ResultIn {
    fn read(self, op: &Op) -> Result<OpResult, Error> {
        let missing = || strange(&"a result says too little");
        Ok(match op {
            Op::RegisterAgent(_) => OpResult::Registered { epoch: Epoch(self.epoch.ok_or_else(missing)?) },
            Op::Send { .. } | Op::Request(_) if self.received == Some(true) => OpResult::Received,
            Op::Send { .. } => {
                let id: MessageId = self.id.ok_or_else(missing)?.parse()?;
                // An answer to a question has no deliveries of its own.
                let deliveries = self.deliveries.unwrap_or_default();
                let first = deliveries.first().map(|first| first.parse::<DeliveryId>()).transpose()?;
                let first = first.map_or(DeliveryNo(0), |first| first.number);
                OpResult::Sent { id, first, count: deliveries.len() as u32 }
            }
            Op::Ack(_) => OpResult::Acked { seq: Seq(self.seq.ok_or_else(missing)?) },
            Op::Put(_) | Op::Delete(_) => {
                OpResult::Written { version: Version(self.version.ok_or_else(missing)?) }
            }
            Op::Purge { .. } => OpResult::Purged { count: self.count.ok_or_else(missing)? },
            Op::MakeSnapshot(_) => OpResult::SnapshotMade { seq: Seq(self.seq.ok_or_else(missing)?) },
            Op::OpenSession(_) => {
                OpResult::SessionOpened { id: SessionId::new(self.id.ok_or_else(missing)?)? }
            }
            Op::RequestApproval(_) => OpResult::ApprovalRequested {
                id: ApprovalId::new(self.id.ok_or_else(missing)?)?,
                digest: self.digest.ok_or_else(missing)?.parse()?,
                expires_at: time_in(&self.expires_at.ok_or_else(missing)?)?,
            },
            Op::DecideApproval(_) => {
                let word = self.state.ok_or_else(missing)?;
                let known = ApprovalState::WORDS.into_iter().find(|known| *known == word);
                OpResult::ApprovalDecided {
                    seq: Seq(self.seq.ok_or_else(missing)?),
                    state: known.ok_or_else(|| strange(&word))?,
                    digest: self.digest.ok_or_else(missing)?.parse()?,
                }
            }
            Op::StartProcedure(_) => {
                OpResult::ProcedureStarted { id: ProcedureId::new(self.id.ok_or_else(missing)?)? }
            }
            Op::StepProcedure(_) => {
                OpResult::ProcedureStepped { version: Version(self.version.ok_or_else(missing)?) }
            }
            Op::AddToSession(_) => OpResult::SessionAdded { n: self.n.ok_or_else(missing)? },
            Op::CompleteTask(_) | Op::FailTask(_) => match (self.seq, self.accepted_token) {
                (Some(seq), Some(token)) => OpResult::TaskAccepted { seq: Seq(seq), token: Token(token) },
                _ => OpResult::Done,
            },
            _ => OpResult::Done,
        })
    }
}
