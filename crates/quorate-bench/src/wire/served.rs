//! A hub in a process of its own, and the few plain requests that prepare it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http::Http;
use crate::Scale;
use crate::measure::{Taken, cpu_seconds_of, peak_memory_of};
use crate::rig::new_directory;

/// A hub in a process of its own. Ended with the value.
pub(super) struct Served {
    child: Child,
    _directory: TempDir,
    pub(super) address: SocketAddr,
    pub(super) admin: String,
    /// From the start of the process to the line that says it is ready.
    pub(super) ready_after: Duration,
}

/// Readings at the start of a run.
pub(super) struct Meter {
    start: Instant,
    cpu: f64,
    disk: Disk,
}

/// What the disk was asked to do, as the hub's metrics say.
#[derive(Clone, Copy, Default)]
struct Disk {
    syncs: f64,
    sync_seconds: f64,
    bytes: f64,
}

impl Served {
    /// Starts a hub in a new directory.
    pub(super) fn start(scale: &Scale) -> anyhow::Result<Self> {
        let directory = new_directory(scale.data.as_deref())?;
        let start = Instant::now();
        let mut child = Command::new(&scale.binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(directory.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let out = child.stdout.take().context("the hub has no stdout")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let ready_after = start.elapsed();
        let ready: Value = serde_json::from_str(&line).context("the hub did not get ready")?;
        let address = ready["http"].as_str().context("no address")?.parse()?;
        let file = ready["adminTokenFile"].as_str().context("no token")?;
        let admin = std::fs::read_to_string(file)?.trim().to_owned();
        Ok(Self { child, _directory: directory, address, admin, ready_after })
    }

    /// Registers the agents `a0`, `a1` and so on, and gives their tokens.
    pub(super) async fn agents(&self, count: usize) -> anyhow::Result<Vec<String>> {
        let mut http = Http::connect(self.address, &self.admin).await?;
        let mut tokens = Vec::with_capacity(count);
        for index in 0..count {
            let made = http.call("PUT", &format!("/v1/agents/a{index}"), &json!({})).await?;
            tokens.push(made["token"].as_str().context("no token came")?.to_owned());
        }
        Ok(tokens)
    }

    /// Lets an agent have the messages of a topic.
    pub(super) async fn subscribe(&self, index: usize, topic: &str) -> anyhow::Result<()> {
        let mut http = Http::connect(self.address, &self.admin).await?;
        http.call("PUT", &format!("/v1/agents/a{index}/subscriptions/{topic}"), &json!({})).await.map(drop)
    }

    /// How many deliveries are in each state.
    pub(super) async fn stats(&self) -> anyhow::Result<Value> {
        let mut http = Http::connect(self.address, &self.admin).await?;
        http.call("GET", "/v1/admin/stats", &Value::Null).await
    }

    async fn disk(&self) -> anyhow::Result<Disk> {
        let mut http = Http::connect(self.address, &self.admin).await?;
        let text = http.text("/metrics").await?;
        let figure = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|figure| figure.parse().ok()).with_context(|| format!("the hub has no {name}"))
        };
        Ok(Disk {
            syncs: figure("quorate_syncs_total")?,
            sync_seconds: figure("quorate_sync_seconds_total")?,
            bytes: figure("quorate_wal_written_bytes_total")?,
        })
    }

    pub(super) async fn meter(&self) -> anyhow::Result<Meter> {
        let disk = self.disk().await?;
        Ok(Meter { start: Instant::now(), cpu: cpu_seconds_of(self.child.id()), disk })
    }

    /// What the hub took since then; this process, its clients, is not in it.
    pub(super) async fn taken(&self, meter: &Meter) -> anyhow::Result<Taken> {
        let seconds = meter.start.elapsed().as_secs_f64();
        let cpu_seconds = cpu_seconds_of(self.child.id()) - meter.cpu;
        let (before, after) = (meter.disk, self.disk().await?);
        let syncs = (after.syncs - before.syncs) as u64;
        Ok(Taken {
            seconds,
            syncs,
            wal_syncs: syncs,
            sync_seconds: after.sync_seconds - before.sync_seconds,
            bytes_written: (after.bytes - before.bytes) as u64,
            cpu_seconds,
            peak_memory: peak_memory_of(self.child.id()),
        })
    }

    /// What came of all messages must be what was done, or the figure is none.
    pub(super) async fn check_acked(&self, wanted: u64) -> anyhow::Result<()> {
        let stats = self.stats().await?;
        let acked = stats["deliveries"]["acked"].as_u64();
        ensure!(
            acked == Some(wanted),
            "{wanted} deliveries were acked, the hub says {}",
            stats["deliveries"]
        );
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What an answer over HTTP must be.
pub(super) fn checked(status: u16, body: &[u8]) -> anyhow::Result<Value> {
    if !(200..300).contains(&status) {
        bail!("the hub answered {status}: {}", String::from_utf8_lossy(body));
    }
    Ok(if body.is_empty() { Value::Null } else { serde_json::from_slice(body)? })
}
