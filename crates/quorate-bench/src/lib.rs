//! The workloads of `quorate bench`, each waiting for its durable answer. Not here: the command line and what it prints.
//!
//! Errors are `anyhow`'s: a run ends at the first one, and the binary is the only caller.

mod ask;
mod beats;
mod cas;
mod cycle;
mod deliberate;
mod fill;
mod growth;
mod hold;
mod measure;
mod report;
mod rig;
mod step;
mod tasks;
mod topic;
mod waits;
mod wire;

use std::path::PathBuf;

pub use growth::child;
pub use report::{Line, header};

/// The names of all workloads, in the order in which they run.
pub const WORKLOADS: [&str; 19] = [
    "W0",
    "W1",
    "W2",
    "W3",
    "W4",
    "W5",
    "W6",
    "W7",
    "W8",
    "W9",
    "BEATS",
    "WAITS",
    "HOLD",
    "HTTP",
    "IDLE",
    "LOAD",
    "READY",
    "DELIBERATE",
    "NEIGHBOUR",
];

/// How much is measured, and where.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Every full count is divided by this: 1 for published figures.
    pub part: u64,
    /// Where new data directories are made; by default the temporary directory.
    pub data: Option<PathBuf>,
    /// The most acked messages in the log of W8, in millions.
    pub millions: u64,
    /// The binary `quorate`: its `serve` is the hub of workloads over sockets, its `bench-child` calls [`child`].
    pub binary: PathBuf,
}

impl Scale {
    /// The full count, or a part of it.
    fn count(&self, full: u64) -> u64 {
        full / self.part
    }
}

/// Runs one workload of [`WORKLOADS`].
///
/// # Errors
/// If there is no such workload, or a step of it fails.
pub async fn measure(workload: &str, scale: &Scale) -> anyhow::Result<Vec<Line>> {
    match workload {
        "W0" => cycle::bare(scale),
        "W1" => cycle::measure(scale).await,
        "W2" => wire::cycle::measure(scale).await,
        "W3" => Ok([ask::measure(scale).await?, wire::ask::measure(scale).await?].concat()),
        "W4" => Ok([topic::measure(scale).await?, wire::topic::measure(scale).await?].concat()),
        "W5" => cas::measure(scale).await,
        "W6" => tasks::measure(scale).await,
        "W7" => step::measure(scale).await,
        "W8" => growth::measure(scale).await,
        "W9" => wire::cycle::large(scale).await,
        "HTTP" => wire::http::measure(scale).await,
        "IDLE" => wire::idle::connections(scale).await,
        "LOAD" => wire::idle::steady(scale).await,
        "READY" => wire::idle::start(scale).await,
        "BEATS" => beats::measure(scale).await,
        "DELIBERATE" => deliberate::measure(scale).await,
        "NEIGHBOUR" => wire::neighbour::measure(scale).await,
        "WAITS" => waits::measure(scale).await,
        "HOLD" => hold::measure(scale).await,
        unknown => anyhow::bail!("unknown workload `{unknown}`"),
    }
}
