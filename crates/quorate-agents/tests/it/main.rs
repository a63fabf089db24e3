//! Integration tests of quorate-agents as one target: every further target would link the whole workspace again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod declared;
mod worker;
