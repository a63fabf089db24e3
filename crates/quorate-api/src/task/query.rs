//! Queries of tasks.

use quorate_core::{Code, Refused, TaskStatus};
use serde::Deserialize;

use crate::page::Order;
#[cfg(feature = "schema")]
use crate::schema;

/// As-of position of a task, or a wait for its end.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskGetQuery {
    /// Sequence number of a record, or a time: read the state after it. Current state by default.
    pub at: Option<String>,
    /// Read the state at this time. Cannot be combined with `at`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Time>"))]
    pub time: Option<String>,
    /// How long to wait for the end of the task; then the current state is returned. An agent counts as waiting for
    /// deadlock detection meanwhile.
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub wait_ms: Option<u64>,
}

/// Filter and page of a list of tasks.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskListQuery {
    /// Only tasks with this status.
    #[serde(alias = "state")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::TaskStatusName>"))]
    pub status: Option<String>,
    /// Only tasks of this type.
    pub r#type: Option<String>,
    /// Only tasks that are assigned to this agent, or that it holds or ended.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub agent: Option<String>,
    /// Sort order by creation; `newest` by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Order>"))]
    pub order: Option<Order>,
    /// Maximum number of items in a page; 100 by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Limit>"))]
    pub limit: Option<usize>,
    /// Cursor of the previous page; omit it for the first page.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
}

/// Parses the name of a task status.
///
/// # Errors
/// `INVALID` if the name is unknown.
pub fn parse_task_status(name: &str) -> Result<TaskStatus, Refused> {
    TaskStatus::ALL.into_iter().find(|status| status.as_str() == name).ok_or_else(|| {
        let names = TaskStatus::ALL.map(TaskStatus::as_str).join(", ");
        Refused::new(Code::Invalid, format!("unknown task status {name:?}"))
            .hint(format!("use one of {names}"))
    })
}
