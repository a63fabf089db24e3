//! Integration tests of quorate-sim. They are one target, because every target links the whole workspace.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and prints how to reproduce a run"
)]

mod crash;
mod damaged;
mod deliberation;
mod disk;
mod fuzz;
mod gone;
mod model;
mod power;
mod reports;
mod sabotage;
mod scripts;
