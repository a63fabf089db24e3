//! Integration tests of quorate-cli in one target, because each target links the whole workspace.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and prints how to reproduce a run"
)]

mod agent_test;
mod cancelled_work;
mod client;
mod commands;
mod compress;
mod crash_over_sockets;
mod damaged_data;
mod deliberation_outcome;
mod demo;
mod demo_picture;
mod error_messages;
mod exports_and_proofs;
mod failing_disk;
mod fixture;
mod flags;
mod forged_export;
mod hostile_agents;
mod hostile_text;
mod llm;
mod logging;
mod offline_commands;
mod output_fidelity;
mod presence;
mod program_access;
mod run;
#[path = "../../../quorate-agents/tests/it/declared/scripted_server.rs"]
mod scripted;
mod serve;
mod shell_agents;
mod support;
mod tls_and_limits;
mod token_safety;
mod webhooks;
mod worker;
