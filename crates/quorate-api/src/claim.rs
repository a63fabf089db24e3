//! Claims of deliveries and tasks.

use quorate_core::AgentId;
use serde::{Deserialize, Serialize};

use crate::delivery::Delivery;
use crate::message::Message;
use crate::result::TaskRef;
#[cfg(feature = "schema")]
use crate::schema;
use crate::task::HeldTask;

/// A claim of deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboxClaim {
    /// The number of deliveries at most; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 256)))]
    pub max: Option<u32>,
    /// How long to wait for the first; not at all by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub wait_ms: Option<u64>,
    /// How long each is leased; 30 s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub lease_ms: Option<u64>,
}

// `M` is the form of the messages, if they are rendered already.
/// Deliveries that were claimed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ClaimedDeliveries"))]
pub struct ClaimedDeliveries<M = Message> {
    /// The deliveries; none if none came in time.
    pub deliveries: Vec<Delivery<M>>,
}

/// A claim of tasks.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskClaim {
    /// The holder; by default the agent of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Only tasks of these types; by default of those that the agent has a capability for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 256), inner(length(max = 128))))]
    pub types: Vec<String>,
    /// The number of tasks at most; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 256)))]
    pub max: Option<u32>,
    /// How long to wait for the first; not at all by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub wait_ms: Option<u64>,
    /// How long a holder may be silent; by default as each task states.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub lease_ms: Option<u64>,
}

/// Tasks that were claimed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimedTasks {
    /// The tasks; none if none came in time.
    pub tasks: Vec<HeldTask>,
}

/// Tasks that were created, in their order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedTasks {
    /// The tasks.
    pub tasks: Vec<TaskRef>,
}
