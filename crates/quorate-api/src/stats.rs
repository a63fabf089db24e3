//! Statistics of a space.

use std::collections::BTreeMap;

use quorate_core::{DeliveryStateCounts, Seq, TaskCounts, TaskStatus, Timestamp};
use serde::{Deserialize, Serialize};

/// Statistics of a space.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Sequence number of the newest record.
    pub seq: Seq,
    /// Time at which the newest record was written.
    pub at: Timestamp,
    /// Number of registered agents.
    pub agents: usize,
    /// Number of available agents.
    pub active_agents: usize,
    /// Number of deliveries in each state.
    pub deliveries: DeliveryCounts,
    /// Number of ready deliveries, by priority.
    pub queue_depth: QueueDepth,
    /// Number of tasks in each state.
    pub tasks: BTreeMap<String, u64>,
}

/// Number of deliveries in each state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeliveryCounts {
    /// Deliveries that are available for a claim.
    pub ready: u64,
    /// Deliveries that are not available before their due time, or while their session is paused.
    pub scheduled: u64,
    /// Deliveries that an agent has claimed under a lease.
    pub leased: u64,
    /// Deliveries that the recipient acknowledged.
    pub acked: u64,
    /// Deliveries that failed permanently: dead letters.
    pub dead: u64,
    /// Deliveries that were not acknowledged before the message expired.
    pub expired: u64,
    /// Deliveries that were discarded by a purge.
    pub purged: u64,
}

impl From<&DeliveryStateCounts> for DeliveryCounts {
    fn from(counts: &DeliveryStateCounts) -> Self {
        let DeliveryStateCounts { ready, scheduled, leased, acked, dead, expired, purged, .. } = *counts;
        Self { ready, scheduled, leased, acked, dead, expired, purged }
    }
}

impl From<DeliveryCounts> for DeliveryStateCounts {
    fn from(counts: DeliveryCounts) -> Self {
        let DeliveryCounts { ready, scheduled, leased, acked, dead, expired, purged } = counts;
        Self { ready, scheduled, leased, acked, dead, expired, purged }
    }
}

/// Number of ready deliveries, by priority.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct QueueDepth {
    pub low: u64,
    pub normal: u64,
    pub high: u64,
    pub urgent: u64,
}

/// Returns the number of tasks in each state, keyed by the name of the state.
#[must_use]
pub fn task_counts(counts: &TaskCounts) -> BTreeMap<String, u64> {
    TaskStatus::ALL.into_iter().map(|status| (status.as_str().to_owned(), counts.get(status))).collect()
}

impl Stats {
    /// Returns the task counts as the core type; `None` if the hub omitted a state.
    #[must_use]
    pub fn task_counts(&self) -> Option<TaskCounts> {
        let count = |status: TaskStatus| Some((status, *self.tasks.get(status.as_str())?));
        TaskStatus::ALL.into_iter().map(count).collect()
    }
}
