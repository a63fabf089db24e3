//! Read models of tasks.

pub use quorate_api::task::{Task, TaskWithPayloads};
