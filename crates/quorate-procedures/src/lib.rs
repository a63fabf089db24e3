//! Procedures: multi-step protocols as pure state machines ([`machine`]), the runtime that drives them, and the
//! machines: [`deliberation`] and [`proposal`].
//!
//! Only the runtime performs I/O. The machines neither read the clock nor use randomness: they map events to outputs
//! deterministically. The runtime stores the new state in the same commit that sends the outputs.

pub mod compression;
pub mod conflict;
pub mod deliberation;
pub mod finding;
pub mod machine;
pub mod normalise;
pub mod pipeline;
pub mod proposal;
mod registry;
mod runtime;
#[cfg(test)]
mod scripted_run;
pub mod tally;
pub mod tokens;
pub mod tournament;

pub use registry::Registry;
pub use runtime::{PROCEDURE_DRIVER, ProcedureHost};

/// Agent that drives deliberations.
pub const DELIBERATION_DRIVER: &str = "deliberations";
/// Kind of deliberations.
pub const DELIBERATION_KIND: &str = "deliberation";
