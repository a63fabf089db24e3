//! Integration tests of quorate-store. A single target, because each additional one would link the whole workspace
//! again.

mod limits;
mod task_limits;
