//! Integration tests of quorate-cli in one target, because each target links the whole workspace.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and prints how to reproduce a run"
)]

mod agent_test;
mod cli;
mod client;
mod commands;
mod crash_over_sockets;
mod damaged_data;
mod demo;
mod failing_disk;
mod flags;
mod forged_export;
mod hostile;
mod hostile_agents;
mod llm;
mod observe;
mod place;
mod run;
#[path = "../../../quorate-agents/tests/it/declared/support.rs"]
mod scripted;
mod serve;
mod support;
mod told;
mod trust;
mod truth;
mod verbs;
mod verdict;
mod wall;
mod webhooks;
