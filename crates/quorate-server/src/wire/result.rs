//! What operations came to, in JSON.

use quorate_core::{DeliveryNo, OpResult, Receipt};
use quorate_engine::Space;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::time;

/// What changed something: the record of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Changed")]
pub(crate) struct Changed {
    /// `null` if nothing durable changed.
    pub(crate) seq: Option<u64>,
}

impl Changed {
    pub(crate) fn of(receipt: &Receipt) -> Self {
        Self { seq: receipt.happened_in().map(|seq| seq.0) }
    }
}

/// What a message came to. Only described here.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "SendReceipt")]
#[allow(dead_code)]
pub(crate) enum Sent {
    Message(SentMessage),
    Flag(ReceivedFlag),
}

/// A message that is on its way.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SentMessage {
    id: String,
    /// `null` for an ephemeral message.
    seq: Option<u64>,
    /// The ids of its deliveries; none if it went straight to somebody who waits for it.
    deliveries: Vec<String>,
    /// Of an answer to a request: whether nobody waits for it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    late: Option<bool>,
}

/// A conduct flag that is on disk. There is nothing else to tell.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FlagReceived")]
pub(crate) struct ReceivedFlag {
    pub(crate) received: bool,
}

/// Whether nothing of a commit is public.
pub(crate) fn is_private(receipt: &Receipt) -> bool {
    !receipt.results.is_empty() && receipt.results.iter().all(|result| *result == OpResult::Received)
}

/// The result of one operation.
pub(crate) fn shown(space: &Space, result: &OpResult) -> Value {
    match result {
        OpResult::Registered { epoch } => json!({"epoch": epoch.0}),
        OpResult::Sent { id, first, count } => {
            json!({"id": id.to_string(), "seq": id.seq.0, "deliveries": deliveries(space, *first, *count)})
        }
        OpResult::Received => json!({"received": true}),
        OpResult::Acked { seq } => json!({"seq": seq.0}),
        OpResult::Purged { count } => json!({"count": count}),
        OpResult::Written { version } => json!({"version": version.0}),
        OpResult::SessionOpened { id } => json!({"id": id.to_string()}),
        OpResult::SessionAdded { n } => json!({"n": n}),
        OpResult::TaskAccepted { seq, token } => json!({"seq": seq.0, "acceptedToken": token.0}),
        OpResult::SnapshotMade { seq } => json!({"seq": seq.0}),
        OpResult::RolledBack { to, written, deleted } => {
            json!({"to": to.0, "written": written, "deleted": deleted})
        }
        OpResult::TasksCreated { count, .. } => json!({"count": count}),
        OpResult::Locked(locked) => {
            let locks = locked.locks.iter();
            let locks = locks.map(|one| json!({"lock": one.lock.as_str(), "fence": one.fence.0}));
            json!({"ttlMs": locked.ttl_ms, "locks": locks.collect::<Vec<_>>()})
        }
        OpResult::Subscribed { since, .. } => json!({"since": since.0}),
        OpResult::ApprovalRequested { id, digest, expires_at } => json!({
            "id": id.to_string(), "digest": digest.to_string(), "expiresAt": time::shown(*expires_at)
        }),
        OpResult::ApprovalDecided { seq, state, digest } => {
            json!({"seq": seq.0, "state": state, "digest": digest.to_string()})
        }
        OpResult::ProcedureStarted { id } => json!({"id": id.to_string(), "version": 1}),
        OpResult::ProcedureStepped { version } => json!({"version": version.0}),
        OpResult::TokenCreated { id, .. } => json!({"id": id.to_string()}),
        OpResult::Replied { id, late } => {
            json!({"id": id.to_string(), "seq": id.seq.0, "deliveries": [], "late": late})
        }
        _ => json!({}),
    }
}

/// The ids of deliveries that follow each other.
pub(crate) fn deliveries(space: &Space, first: DeliveryNo, count: u32) -> Vec<String> {
    let eras = &space.published().eras;
    (first.0..).take(count as usize).map(|number| eras.delivery_id(DeliveryNo(number)).to_string()).collect()
}
