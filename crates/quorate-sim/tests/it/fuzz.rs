//! Fuzz tests of every parser of untrusted input: it must respond, refuse with a reason, or close the connection, and
//! never panic. `cargo xtask sim --fuzz SECONDS` runs longer, `QUORATE_SEED` reproduces a run.

mod client_responses;
mod dialects;
mod hub;
mod identifiers;
mod records;
