//! Agents as playbooks declare them, against real processes and real sockets.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod models;
mod programs;
mod servers;
mod support;
