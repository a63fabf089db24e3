//! Output of measurements: JSON lines for programs, and a table that includes the targets for people.

use serde_json::{Map, Value, json};

use crate::measure::{Latencies, ResourceUsage};

/// Result of one workload variant.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// One of [`WORKLOADS`](crate::WORKLOADS).
    pub workload: &'static str,
    pub(crate) variant: String,
    /// Completed operations per second.
    pub per_second: f64,
    pub(crate) quantiles: Option<(u64, u64, u64)>,
    /// Transactions of the store, each with one fsync.
    pub(crate) transactions: u64,
    pub(crate) completed: u64,
    pub(crate) usage: ResourceUsage,
    pub(crate) settings: Map<String, Value>,
    /// Target rate per second, and its description.
    pub(crate) target: Option<(f64, &'static str)>,
}

impl Measurement {
    pub(crate) fn new(
        workload: &'static str,
        variant: impl Into<String>,
        completed: u64,
        usage: ResourceUsage,
    ) -> Self {
        Self {
            workload,
            variant: variant.into(),
            per_second: if usage.seconds > 0.0 { completed as f64 / usage.seconds } else { 0.0 },
            quantiles: None,
            transactions: usage.wal_syncs,
            completed,
            usage,
            settings: Map::new(),
            target: None,
        }
    }

    pub(crate) fn latencies(mut self, latencies: &Latencies) -> Self {
        self.quantiles = Some((latencies.quantile(0.5), latencies.quantile(0.99), latencies.quantile(0.999)));
        self
    }

    pub(crate) fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.settings.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn target(mut self, per_second: f64, description: &'static str) -> Self {
        self.target = Some((per_second, description));
        self
    }

    /// Converts the measurement to a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let (p50, p99, p999) = self.quantiles.unwrap_or_default();
        json!({
            "workload": self.workload,
            "variant": self.variant,
            "perSecond": self.per_second.round(),
            "p50Us": p50,
            "p99Us": p99,
            "p999Us": p999,
            "commits": self.transactions,
            "perCommit": ratio(self.completed, self.transactions),
            "syncUs": self.sync_us(),
            "fsyncs": self.usage.syncs,
            "bytesWritten": self.usage.bytes_written,
            "cpuSeconds": self.usage.cpu_seconds,
            "peakMemoryBytes": self.usage.peak_memory,
            "settings": self.settings,
        })
    }

    /// Returns the average time of an fsync, which is the lower bound of the commit latency.
    fn sync_us(&self) -> u64 {
        ((1e6 * self.usage.sync_seconds) as u64).checked_div(self.transactions).unwrap_or(0)
    }

    /// Renders the measurement as a table row. W1 includes its ratio to W0 if W0 was measured in the same run.
    #[must_use]
    pub fn to_row(&self, w0_per_second: Option<f64>) -> String {
        let (p50, p99, _) = self.quantiles.unwrap_or_default();
        let latency =
            if self.quantiles.is_some() { format!("{:>8} {:>8}", us(p50), us(p99)) } else { " ".repeat(17) };
        let verdict = match self.target {
            Some((goal, target)) if self.per_second >= goal => format!("target {target}: reached"),
            Some((goal, target)) => format!("target {target}: at {:.0} %", 100.0 * self.per_second / goal),
            None => String::new(),
        };
        let relative = match w0_per_second {
            Some(baseline) if self.workload == "W1" => format!("  {:.2} × W0", self.per_second / baseline),
            _ => String::new(),
        };
        let extra: Vec<String> =
            ["readyMs", "slower", "corePercent", "barePercent", "echoUs", "holdP99Us", "holdMaxUs"]
                .iter()
                .filter_map(|name| Some(format!("{name} {}", self.settings.get(*name)?)))
                .collect();
        format!(
            "{:<5} {:<34} {:>10} {latency} {:>8.1} {:>8} {:>7.0} MB  {verdict}{relative}{}{}",
            self.workload,
            self.variant,
            thousands(self.per_second),
            ratio(self.completed, self.transactions),
            us(self.sync_us()),
            self.usage.peak_memory as f64 / 1e6,
            if extra.is_empty() { "" } else { "  " },
            extra.join(", "),
        )
    }
}

/// Returns the header of the table.
#[must_use]
pub fn table_header() -> String {
    format!(
        "{:<5} {:<34} {:>10} {:>8} {:>8} {:>8} {:>8} {:>10}",
        "", "workload", "per second", "p50", "p99", "per sync", "sync", "memory"
    )
}

fn ratio(completed: u64, transactions: u64) -> f64 {
    if transactions == 0 { 0.0 } else { (10.0 * completed as f64 / transactions as f64).round() / 10.0 }
}

fn us(microseconds: u64) -> String {
    if microseconds < 10_000 { format!("{microseconds} µs") } else { format!("{} ms", microseconds / 1000) }
}

fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
