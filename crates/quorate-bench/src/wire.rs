//! Workloads over real sockets. Each workload starts a `quorate serve` process; this process runs all of its clients.
//!
//! - W2, W9: the durable cycle.
//! - W3: request and response.
//! - W4: publish to a topic.
//! - HTTP: sequential sends on each connection.
//! - IDLE: cost of idle connections.
//! - LOAD: cost of 1,000 messages per second.
//! - READY: startup time.
//! - NEIGHBOUR: latency of an agent while other clients read large results (noisy neighbours).

pub(crate) mod cycle;
pub(crate) mod footprint;
pub(crate) mod http;
mod hub_process;
pub(crate) mod noisy_neighbour;
pub(crate) mod request;
mod socket;
pub(crate) mod topic;

/// Builds a payload of the given size that identifies its sender and slot.
fn payload(sender: usize, slot: usize, bytes: usize) -> String {
    let head = format!("{{\"sender\":{sender},\"slot\":{slot},\"pad\":\"");
    let pad = "x".repeat(bytes.saturating_sub(head.len() + 2));
    format!("{head}{pad}\"}}")
}
