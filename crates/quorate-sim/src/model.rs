//! Model-based tests: the same random plan runs on SQLite and on the reference model in lock step. Outcomes,
//! dispatches and state must be equal.
//!
//! [`plan`] defines the steps of a plan. Steps refer to earlier ones relatively ("the second newest lease", "one
//! version too old"), so that a plan stays meaningful when it is shrunk. [`generate`] generates plans. [`resolve`]
//! turns a step into commits. [`lockstep`] executes a plan on both stores and compares them after every step.
//! [`replay`] replays the log of SQLite and compares the result as well.

mod approvals;
mod comparable;
pub mod generate;
mod lease_reuse;
mod locks;
mod lockstep;
mod message_chains;
mod plan;
mod procedures;
mod replay;
mod requests;
mod resolve;
mod rollback;
mod sessions;
mod tasks;
mod tokens;
mod topics;

pub use lockstep::run;
pub use plan::Plan;
