//! The integration tests of quorate-client as one target: every further target would link the whole workspace again.

mod anywhere;
mod breaks;
mod http;
#[path = "../../../quorate/tests/it/scenarios/mod.rs"]
mod scenarios;
mod support;
mod tls;
