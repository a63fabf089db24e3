//! How agents come to a decision: pure state machines over findings, conflicts, discussion and votes; and their driver.
//!
//! Nothing beside the driver does I/O, asks for the time or draws lots: what happens comes in, what to do next goes out, and the same
//! words in give the same words out. Who drives a machine stores its state in the commit that sends what it asked for.

pub mod conflict;
pub mod count;
pub mod deliberation;
mod driver;
pub mod finding;
pub mod plain;
pub mod tokens;

pub use driver::{DRIVER, Driver, KIND};
