//! Hub in a separate process, and the HTTP requests that prepare it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http::HttpConnection;
use crate::Scale;
use crate::embedded_hub::new_directory;
use crate::measure::{ResourceUsage, cpu_seconds_of, peak_memory_of};

/// Hub in a separate process. Killed on drop.
pub(super) struct HubProcess {
    child: Child,
    _directory: TempDir,
    pub(super) address: SocketAddr,
    pub(super) admin: String,
    /// Time from the start of the process to its ready line.
    pub(super) ready_after: Duration,
}

/// Counter values at the start of a run.
pub(super) struct HubMeter {
    start: Instant,
    cpu: f64,
    disk: Disk,
}

/// Disk counters from the metrics of the hub.
#[derive(Clone, Copy, Default)]
struct Disk {
    syncs: f64,
    sync_seconds: f64,
    bytes: f64,
}

impl HubProcess {
    /// Starts a hub in a new directory.
    pub(super) fn start(scale: &Scale) -> anyhow::Result<Self> {
        Self::start_in(scale, new_directory(scale.data.as_deref())?, &[])
    }

    /// Starts a hub with a webhook that sends its events to a topic.
    pub(super) fn start_with_webhook(scale: &Scale, name: &str, secret: &str) -> anyhow::Result<Self> {
        let directory = new_directory(scale.data.as_deref())?;
        let file = directory.path().join("webhook.secret");
        std::fs::write(&file, secret)?;
        let webhook = format!("{name}={}:topic:events", file.display());
        Self::start_in(scale, directory, &["--webhook", &webhook])
    }

    fn start_in(scale: &Scale, directory: TempDir, options: &[&str]) -> anyhow::Result<Self> {
        let start = Instant::now();
        let mut child = Command::new(&scale.binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(directory.path().join("data"))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let out = child.stdout.take().context("the hub has no stdout")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let ready_after = start.elapsed();
        let ready: Value = serde_json::from_str(&line).context("the hub printed no ready line")?;
        let address = ready["http"].as_str().context("no address in the ready line")?.parse()?;
        let file = ready["adminTokenFile"].as_str().context("no admin token file in the ready line")?;
        let admin = std::fs::read_to_string(file)?.trim().to_owned();
        Ok(Self { child, _directory: directory, address, admin, ready_after })
    }

    /// Registers the agents `a0`, `a1` and so on, and returns their access tokens.
    pub(super) async fn register_agents(&self, count: usize) -> anyhow::Result<Vec<String>> {
        let mut http = HttpConnection::connect(self.address, &self.admin).await?;
        let mut tokens = Vec::with_capacity(count);
        for index in 0..count {
            let created = http.call("PUT", &format!("/v1/agents/a{index}"), &json!({})).await?;
            tokens.push(created["token"].as_str().context("no token in the response")?.to_owned());
        }
        Ok(tokens)
    }

    /// Subscribes an agent to a topic.
    pub(super) async fn subscribe(&self, index: usize, topic: &str) -> anyhow::Result<()> {
        let mut http = HttpConnection::connect(self.address, &self.admin).await?;
        http.call("PUT", &format!("/v1/agents/a{index}/subscriptions/{topic}"), &json!({})).await.map(drop)
    }

    /// Returns the statistics of the hub, including deliveries by state.
    pub(super) async fn stats(&self) -> anyhow::Result<Value> {
        let mut http = HttpConnection::connect(self.address, &self.admin).await?;
        http.call("GET", "/v1/admin/stats", &Value::Null).await
    }

    async fn disk(&self) -> anyhow::Result<Disk> {
        let mut http = HttpConnection::connect(self.address, &self.admin).await?;
        let text = http.text("/metrics").await?;
        let metric = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.parse().ok()).with_context(|| format!("missing metric {name}"))
        };
        Ok(Disk {
            syncs: metric("quorate_syncs_total")?,
            sync_seconds: metric("quorate_sync_seconds_total")?,
            bytes: metric("quorate_wal_written_bytes_total")?,
        })
    }

    pub(super) async fn start_meter(&self) -> anyhow::Result<HubMeter> {
        let disk = self.disk().await?;
        Ok(HubMeter { start: Instant::now(), cpu: cpu_seconds_of(self.child.id()), disk })
    }

    /// Returns the resource usage of the hub since `meter`, without that of the clients in this process.
    pub(super) async fn usage_since(&self, meter: &HubMeter) -> anyhow::Result<ResourceUsage> {
        let seconds = meter.start.elapsed().as_secs_f64();
        let cpu_seconds = cpu_seconds_of(self.child.id()) - meter.cpu;
        let (before, after) = (meter.disk, self.disk().await?);
        let syncs = (after.syncs - before.syncs) as u64;
        Ok(ResourceUsage {
            seconds,
            syncs,
            wal_syncs: syncs,
            sync_seconds: after.sync_seconds - before.sync_seconds,
            bytes_written: (after.bytes - before.bytes) as u64,
            cpu_seconds,
            peak_memory: peak_memory_of(self.child.id()),
        })
    }

    /// Checks the number of acked deliveries on the hub. A mismatch invalidates the measurement.
    pub(super) async fn check_acked(&self, expected: u64) -> anyhow::Result<()> {
        let stats = self.stats().await?;
        let acked = stats["deliveries"]["acked"].as_u64();
        ensure!(
            acked == Some(expected),
            "expected {expected} acked deliveries, the hub has {}",
            stats["deliveries"]
        );
        Ok(())
    }
}

impl Drop for HubProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses a response and fails unless the status is 2xx.
pub(super) fn parse_response(status: u16, body: &[u8]) -> anyhow::Result<Value> {
    if !(200..300).contains(&status) {
        bail!("the hub answered {status}: {}", String::from_utf8_lossy(body));
    }
    Ok(if body.is_empty() { Value::Null } else { serde_json::from_slice(body)? })
}
