//! Integration tests of quorate-client in one target, because each target links the whole workspace.

mod connection_loss;
mod http;
mod remote_scenarios;
#[path = "../../../quorate/tests/it/scenarios/mod.rs"]
mod scenarios;
mod support;
mod tls;
