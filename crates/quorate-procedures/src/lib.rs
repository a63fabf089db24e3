//! Deliberation procedures: pure state machines over findings, conflicts, discussion and votes, and the driver that
//! runs them.
//!
//! Only the driver performs I/O. The state machines neither read the clock nor use randomness: they map events to outputs
//! deterministically. The driver stores the new state in the same commit that sends the outputs.

pub mod conflict;
pub mod deliberation;
mod driver;
pub mod finding;
pub mod normalise;
pub mod tally;
pub mod tokens;

pub use driver::{DELIBERATION_DRIVER, DELIBERATION_KIND, Driver};
