//! Claims of messages and tasks, which may wait for longer than a single call.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use quorate_store::{Clock as _, SystemClock};

use super::{DryRunArgs, Hub, JsonFields, Method};
use crate::output::ListResponse;
use crate::token::parse_duration;

/// Maximum wait of one call. Hubs allow at least this.
const CALL_WAIT_MAX: Duration = Duration::from_secs(20);

/// A wait, divided into the waits of several calls.
pub(crate) struct CallWaits {
    /// Started with the wait.
    clock: Arc<SystemClock>,
    total: Duration,
}

impl CallWaits {
    pub(crate) fn new(total: Duration) -> Self {
        Self { clock: SystemClock::new(), total }
    }

    /// Returns the wait of the next call, and whether it is the last.
    pub(crate) fn next(&mut self) -> (Duration, bool) {
        let elapsed = Duration::from_millis(self.clock.now().mono.0);
        let remaining = self.total.saturating_sub(elapsed);
        (remaining.min(CALL_WAIT_MAX), remaining <= CALL_WAIT_MAX)
    }
}

/// Options of a claim.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClaimArgs {
    /// Maximum number of items to claim.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    max: Option<u32>,
    /// How long to wait if there is none: 500ms, 90s, 15m or 12h; by default, do not wait.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// Duration of the lease, in the same format.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    lease: Option<Duration>,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

impl ClaimArgs {
    /// Claims items with these fields in the request. Returns the response with the list `name`, which is empty if none became
    /// available in time, or `None` for a dry run.
    pub(crate) async fn claim(
        &self,
        hub: &Hub,
        (path, name): (&str, &str),
        fields: impl Fn() -> anyhow::Result<JsonFields>,
    ) -> anyhow::Result<Option<String>> {
        let mut waits = CallWaits::new(self.wait.unwrap_or_default());
        loop {
            let (wait, is_last) = waits.next();
            let body = fields()?
                .set_if_some("max", self.max)?
                .set_if_some("waitMs", self.wait.map(|_| wait.as_millis()))?
                .set_if_some("leaseMs", self.lease.map(|lease| lease.as_millis()))?;
            let call = (Method::Post, path);
            let response = hub.write_waiting(self.dry_run, call, Some(body.to_json()), wait).await?;
            let Some(response) = response else { return Ok(None) };
            if is_last || !ListResponse::parse(&response, name)?.items.is_empty() {
                return Ok(Some(response));
            }
        }
    }
}
