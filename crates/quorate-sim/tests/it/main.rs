//! Integration tests of quorate-sim. They are one target, because every target links the whole workspace.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and prints how to reproduce a run"
)]

mod background_errors;
mod corruption;
mod crash;
mod deliberation;
mod disk_faults;
mod dropped_calls;
mod fuzz;
mod kill_harness;
mod model;
mod power;
mod procedures;
mod sabotage;
mod scripts;
