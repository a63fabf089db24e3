//! The sweep of a space: waits until the next timer is due and commits a sweep operation. Core decides in the writer
//! which leases, messages and schedules are due.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::{Commit, Mono, NextWake, Now, Op, Principal, SpaceNo};
use quorate_store::{Clock, PublishedState, Store, StoreError};
use tokio::sync::watch;

use crate::heartbeats::HeartbeatBuffer;
use crate::timers::Timer;

/// Maximum interval between checks, because the wall clock can jump without notice.
const INTERVAL_MAX: Duration = Duration::from_secs(30);
/// Delay after a sweep that could not be written.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Sweeps one space for as long as the store is open.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    space: SpaceNo,
    published: watch::Receiver<Arc<PublishedState>>,
    timer: Arc<Timer>,
    heartbeats: Arc<HeartbeatBuffer>,
    batching: Duration,
) {
    let batching_ms = u64::try_from(batching.as_millis()).unwrap_or(u64::MAX);
    let mut flush_at: Option<Mono> = None;
    let mut failures = 0_u64;
    loop {
        timer.disarm();
        let wake = published.borrow().wake;
        let now = clock.now();
        let (sweep_due, flush_due) = (wake.is_due(now), flush_at.is_some_and(|at| at <= now.mono));
        if sweep_due || flush_due {
            flush_at = None;
            let sweep = sweep_due.then(|| Commit::new(Principal::System, vec![Op::Sweep]));
            // Flush heartbeats first, so that a live agent is not declared offline.
            let commits: Vec<_> = heartbeats.take_commit().into_iter().chain(sweep).collect();
            if commits.is_empty() {
                continue;
            }
            match store.transact(space, commits).await {
                Ok(_) => {
                    failures = 0;
                    continue;
                }
                Err(StoreError::Closed) => return,
                Err(error @ (StoreError::Failed(_) | StoreError::Corrupt(_) | StoreError::UnknownSpace)) => {
                    tracing::error!(space = space.0, error = %error, "sweep stopped: leases of this space no longer expire");
                    return;
                }
                Err(error @ (StoreError::Busy | StoreError::DiskFull | StoreError::Read(_))) => {
                    // Log only the first failure of a series: it is retried ten times per second.
                    if failures == 0 {
                        tracing::warn!(space = space.0, error = %error, "sweep failed, retrying");
                    }
                    failures += 1;
                    clock.wait(RETRY_DELAY).await;
                    continue;
                }
            }
        }
        let sleep = clock.wait(time_until(wake, flush_at, now));
        timer.arm(wake);
        tokio::select! {
            () = sleep => {}
            () = heartbeats.first_buffered() => flush_at = Some(clock.now().mono.plus_ms(batching_ms)),
            () = timer.became_earlier() => {}
        }
    }
}

fn time_until(wake: NextWake, flush_at: Option<Mono>, now: Now) -> Duration {
    let wall = wake.wall.map(|at| at.0.saturating_sub(now.wall.0));
    let mono = [wake.mono, flush_at].into_iter().flatten().min().map(|at| at.0.saturating_sub(now.mono.0));
    let ms = [wall, mono].into_iter().flatten().min();
    // One extra millisecond, so that the deadline has passed when the clock is read.
    ms.map_or(INTERVAL_MAX, |ms| Duration::from_millis(ms.saturating_add(1))).min(INTERVAL_MAX)
}
