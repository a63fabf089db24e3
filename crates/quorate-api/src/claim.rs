//! Claims of deliveries and tasks.

use quorate_core::AgentId;
use serde::{Deserialize, Serialize};

use crate::delivery::Delivery;
use crate::message::Message;
use crate::result::TaskRef;
#[cfg(feature = "schema")]
use crate::schema;
use crate::task::HeldTask;

/// Request to claim deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboxClaim {
    /// Maximum number of deliveries; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 256)))]
    pub max: Option<u32>,
    /// How long to wait for the first delivery. By default the call returns immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub wait_ms: Option<u64>,
    /// Lease duration of each delivery; 30 s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub lease_ms: Option<u64>,
}

// `M` is the type of the messages, which may be rendered already.
/// Claimed deliveries.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ClaimedDeliveries"))]
pub struct ClaimedDeliveries<M = Message> {
    /// Deliveries; empty if none became available in time.
    pub deliveries: Vec<Delivery<M>>,
}

/// Request to claim tasks.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskClaim {
    /// Agent that claims the tasks; the agent of the access token by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Task types to claim; by default the capabilities of the agent. Explicit types need not be capabilities. Tasks that
    /// are assigned to the agent are claimed in any case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 256), inner(length(max = 128))))]
    pub types: Vec<String>,
    /// Maximum number of tasks; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 256)))]
    pub max: Option<u32>,
    /// How long to wait for the first task. By default the call returns immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub wait_ms: Option<u64>,
    /// Lease duration, extended by heartbeats. Defaults to the one of each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub lease_ms: Option<u64>,
}

/// Claimed tasks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimedTasks {
    /// Tasks; empty if none became available in time.
    pub tasks: Vec<HeldTask>,
}

/// Result of creating tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedTasks {
    /// Created tasks, in request order.
    pub tasks: Vec<TaskRef>,
}
