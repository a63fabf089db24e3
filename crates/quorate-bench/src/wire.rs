//! What a hub does over real sockets: a `quorate serve` of its own is started for each workload, and this process is all of
//! its clients. W2 and W9 are the durable cycle, W3 asks, W4 publishes, HTTP sends with one request after the other on each
//! connection, IDLE is what connections cost that say nothing, LOAD what 1,000 messages a second cost, READY how long a
//! start takes, NEIGHBOUR what readers of large pages cost an agent beside them.

pub(crate) mod ask;
pub(crate) mod cycle;
pub(crate) mod http;
pub(crate) mod idle;
pub(crate) mod neighbour;
mod served;
mod socket;
pub(crate) mod topic;

/// A payload of so many bytes that says which slot of which sender it is.
fn payload(sender: usize, slot: usize, bytes: usize) -> String {
    let head = format!("{{\"sender\":{sender},\"slot\":{slot},\"pad\":\"");
    let pad = "x".repeat(bytes.saturating_sub(head.len() + 2));
    format!("{head}{pad}\"}}")
}
