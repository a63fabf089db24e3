//! Tasks as every caller sees them.

pub use quorate_api::task::{Task, TaskWithPayloads};
