//! Integration tests of quorate in one target, because each target links the whole workspace.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod approvals;
mod chains;
mod deliberations;
mod embedded_scenarios;
mod library;
mod locks;
mod policy;
mod procedures;
mod requests;
mod resume;
mod rollback;
mod scenarios;
mod secrets;
mod sessions;
mod spaces;
mod tasks;
mod tokens;
mod topics;
