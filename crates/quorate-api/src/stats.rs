//! Statistics of a space.

use std::collections::BTreeMap;

use quorate_core::{Counts, Seq, TaskCounts, TaskStatus, Timestamp};
use serde::{Deserialize, Serialize};

/// Statistics of a space.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// The newest record.
    pub seq: Seq,
    /// When it was written.
    pub at: Timestamp,
    /// The number of agents.
    pub agents: usize,
    /// The number of agents that are available.
    pub active_agents: usize,
    /// The number of deliveries in each state.
    pub deliveries: DeliveryCounts,
    /// The number of deliveries that are ready, by priority.
    pub queue_depth: QueueDepth,
    /// The number of tasks in each state.
    pub tasks: BTreeMap<String, u64>,
}

/// The number of deliveries in each state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the words are documented in the guide on messages")]
pub struct DeliveryCounts {
    pub ready: u64,
    pub scheduled: u64,
    pub leased: u64,
    pub acked: u64,
    pub dead: u64,
    pub expired: u64,
    pub purged: u64,
}

impl From<&Counts> for DeliveryCounts {
    fn from(counts: &Counts) -> Self {
        let Counts { ready, scheduled, leased, acked, dead, expired, purged, .. } = *counts;
        Self { ready, scheduled, leased, acked, dead, expired, purged }
    }
}

impl From<DeliveryCounts> for Counts {
    fn from(counts: DeliveryCounts) -> Self {
        let DeliveryCounts { ready, scheduled, leased, acked, dead, expired, purged } = counts;
        Self { ready, scheduled, leased, acked, dead, expired, purged }
    }
}

/// The number of deliveries that are ready, by priority.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the words say it")]
pub struct QueueDepth {
    pub low: u64,
    pub normal: u64,
    pub high: u64,
    pub urgent: u64,
}

/// The number of tasks in each state, by its name.
#[must_use]
pub fn task_counts(counts: &TaskCounts) -> BTreeMap<String, u64> {
    TaskStatus::ALL.into_iter().map(|status| (status.as_str().to_owned(), counts.of(status))).collect()
}

impl Stats {
    /// The number of tasks in each state, as the core knows it; `None` if the hub left a state out.
    #[must_use]
    pub fn task_counts(&self) -> Option<TaskCounts> {
        let count = |status: TaskStatus| Some((status, *self.tasks.get(status.as_str())?));
        TaskStatus::ALL.into_iter().map(count).collect()
    }
}
