//! Tasks as every caller sees them.

use quorate_core::TaskId;

pub use quorate_api::task::{Task, TaskWithPayloads};

/// Some tasks, and the cursor of the next page.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskPage {
    /// The tasks, by id.
    pub tasks: Vec<Task>,
    /// Where the next page begins; `None` if there is none.
    pub cursor: Option<TaskId>,
}
