//! Benchmark workloads of `quorate bench`. Durable operations are measured until their fsync. The command line and its
//! output are in `quorate-cli`.
//!
//! Errors use `anyhow`: a run stops at the first error, and the binary is the only caller.

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

/// Names of all workloads, in the order in which they run.
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

/// Size and location of a benchmark run.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Divisor of every full count; 1 for published results.
    pub part: u64,
    /// Parent of the data directories that are created; the system's temporary directory by default.
    pub data: Option<PathBuf>,
    /// Maximum number of acked messages in the log of W8, in millions.
    pub millions: u64,
    /// Path of the `quorate` binary. Workloads over sockets start its `serve`; W8 starts its `bench-child`, which calls
    /// [`child`].
    pub binary: PathBuf,
}

impl Scale {
    /// Scales a full count to this run.
    fn count(&self, full: u64) -> u64 {
        full / self.part
    }
}

/// Runs one workload of [`WORKLOADS`].
///
/// # Errors
/// If the workload is unknown or one of its operations fails.
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
