//! The integration tests of quorate-store as one target: every further target would link the whole workspace again.

mod limits;
mod task_limits;
