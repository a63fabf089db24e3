//! Integration tests of quorate-client in one target, because each target links the whole workspace.

mod anywhere;
mod breaks;
mod http;
#[path = "../../../quorate/tests/it/scenarios/mod.rs"]
mod scenarios;
mod support;
mod tls;
