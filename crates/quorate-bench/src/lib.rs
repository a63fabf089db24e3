//! Benchmark workloads of `quorate bench`. Durable operations are measured until their fsync. The command line and its
//! output are in `quorate-cli`.
//!
//! Errors use `anyhow`: a run stops at the first error, and the binary is the only caller.

mod atomic_step;
mod cas;
mod cycle;
mod deadlock_check;
mod deliberation;
mod embedded_hub;
mod fill;
mod growth;
mod heartbeats;
mod measure;
mod report;
mod request;
mod tasks;
mod topic;
mod tournament;
mod wire;
mod writer_hold;

use std::path::PathBuf;
use std::pin::Pin;

pub use growth::growth_child;
pub use report::{Measurement, table_header};

/// Names of all workloads, in the order in which they run.
pub const WORKLOADS: [&str; 20] = [
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
    "TOURNAMENT",
    "NEIGHBOUR",
];

/// Size and location of a benchmark run.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Divisor of every full count; 1 for published results.
    pub divisor: u64,
    /// Parent of the data directories that are created; the system's temporary directory by default.
    pub data: Option<PathBuf>,
    /// Maximum number of acked messages in the log of W8, in millions.
    pub acked_millions_max: u64,
    /// Path of the measured `quorate` binary. Workloads over sockets start its `serve`; W8 starts its `bench-child`, which calls
    /// [`growth_child`].
    pub binary: PathBuf,
}

impl Scale {
    /// Scales a full count to this run.
    fn count(&self, full: u64) -> u64 {
        full / self.divisor
    }
}

/// Runs one workload of [`WORKLOADS`].
///
/// The future is boxed because rustc compiles an async function in the crate that polls it. The binary is not optimised
/// for speed, and the workloads would be compiled like it, with all async functions of the hub that they call.
///
/// # Errors
/// If the workload is unknown or one of its operations fails.
pub fn measure<'a>(workload: &'a str, scale: &'a Scale) -> MeasureFuture<'a> {
    Box::pin(measure_workload(workload, scale))
}

/// Future of [`measure`].
pub type MeasureFuture<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Vec<Measurement>>> + Send + 'a>>;

async fn measure_workload(workload: &str, scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    match workload {
        "W0" => cycle::measure_baseline(scale),
        "W1" => cycle::measure(scale).await,
        "W2" => wire::cycle::measure(scale).await,
        "W3" => Ok([request::measure(scale).await?, wire::request::measure(scale).await?].concat()),
        "W4" => Ok([topic::measure(scale).await?, wire::topic::measure(scale).await?].concat()),
        "W5" => cas::measure(scale).await,
        "W6" => tasks::measure(scale).await,
        "W7" => atomic_step::measure(scale).await,
        "W8" => growth::measure(scale).await,
        "W9" => wire::cycle::measure_large(scale).await,
        "HTTP" => wire::http::measure(scale).await,
        "IDLE" => wire::footprint::measure_idle(scale).await,
        "LOAD" => wire::footprint::measure_load(scale).await,
        "READY" => wire::footprint::measure_startup(scale).await,
        "BEATS" => heartbeats::measure(scale).await,
        "DELIBERATE" => deliberation::measure(scale).await,
        "TOURNAMENT" => tournament::measure(scale).await,
        "NEIGHBOUR" => wire::noisy_neighbour::measure(scale).await,
        "WAITS" => deadlock_check::measure(scale).await,
        "HOLD" => writer_hold::measure(scale).await,
        unknown => anyhow::bail!("unknown workload `{unknown}`"),
    }
}
