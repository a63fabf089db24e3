//! What earlier attempts and dependencies left for the holder of a task.

use quorate_core::{TaskId, TaskStatus};
use serde::{Deserialize, Serialize};

use crate::json::RawJson;

/// What earlier attempts and dependencies left for the holder of a task.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct TaskContext {
    /// Partial results of earlier attempts, oldest first.
    pub partials: Vec<RawJson>,
    /// Details of the last failed attempt.
    pub details: Option<RawJson>,
    /// Dependencies with their results.
    pub dependencies: Vec<DependencyResult>,
    /// Whether payloads were left out because of their size.
    pub truncated: bool,
}

/// Dependency of a task, with its result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DependencyResult {
    /// ID of the dependency.
    pub task: TaskId,
    /// Status of the dependency.
    pub status: TaskStatus,
    /// Result of the dependency; `null` if it has none.
    pub result: Option<RawJson>,
    /// Media type of the result. Omitted for JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_content_type: Option<String>,
}
