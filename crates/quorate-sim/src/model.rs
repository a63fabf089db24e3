//! The same random work on SQLite and on the reference model, in lock step: same answers, same hand-overs, same state.
//!
//! [`plan`] says what can happen, in words and with relative choices ("its second newest lease", "one version too
//! old"), so that a plan still means something after it was shrunk. [`chance`] draws plans. [`pair`] carries a plan out on
//! both stores and compares them after every step. [`replay`] folds the log of the real store and compares that too.

mod approvals;
mod asking;
mod chains;
pub mod chance;
mod lease_reuse;
mod locks;
mod pair;
mod plan;
mod procedures;
mod replay;
mod resolve;
mod rollback;
mod sessions;
mod tasks;
mod tokens;
mod topics;
mod views;

pub use pair::run;
pub use plan::Plan;
