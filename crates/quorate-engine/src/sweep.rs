//! Letting time pass. A timer only says "look now": what has lapsed, expired or fallen due is decided in core, at the
//! head, like everything else.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::{Commit, Mono, Now, Op, Principal, SpaceNo, Wake};
use quorate_store::{Clock, Published, Store, StoreError};
use tokio::sync::watch;

use crate::alarm::Alarm;
use crate::signs::Signs;

/// Looks again after so long at the latest: the wall clock may have jumped, and nobody tells.
const LONGEST: Duration = Duration::from_secs(30);
/// How long to wait after a sweep that could not be written.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Sweeps one space for as long as the store is open.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    space: SpaceNo,
    published: watch::Receiver<Arc<Published>>,
    alarm: Arc<Alarm>,
    signs: Arc<Signs>,
    gather: Duration,
) {
    let gather_ms = u64::try_from(gather.as_millis()).unwrap_or(u64::MAX);
    let mut tell_at: Option<Mono> = None;
    let mut failures = 0_u64;
    loop {
        alarm.unset();
        let wake = published.borrow().wake;
        let now = clock.now();
        let (sweeps, tells) = (wake.is_due(now), tell_at.is_some_and(|at| at <= now.mono));
        if sweeps || tells {
            tell_at = None;
            let sweep = sweeps.then(|| Commit::new(Principal::System, vec![Op::Sweep]));
            // Whoever gave a sign of life is not missed.
            let commits: Vec<_> = signs.commit().into_iter().chain(sweep).collect();
            if commits.is_empty() {
                continue;
            }
            match store.transact(space, commits).await {
                Ok(_) => {
                    failures = 0;
                    continue;
                }
                Err(StoreError::Closed) => return,
                Err(error @ (StoreError::Failed(_) | StoreError::Damaged(_) | StoreError::NoSpace)) => {
                    tracing::error!(space = space.0, why = %error, "the sweep of a space stopped: no lease expires any more");
                    return;
                }
                Err(error @ (StoreError::Busy | StoreError::Full | StoreError::Read(_))) => {
                    // The first of a series: it is tried ten times a second.
                    if failures == 0 {
                        tracing::warn!(space = space.0, why = %error, "a sweep failed and is retried");
                    }
                    failures += 1;
                    clock.pass(AFTER_FAILURE).await;
                    continue;
                }
            }
        }
        let timer = clock.pass(until(wake, tell_at, now));
        alarm.set(wake);
        tokio::select! {
            () = timer => {}
            () = signs.first() => tell_at = Some(clock.now().mono.plus_ms(gather_ms)),
            () = alarm.nearer() => {}
        }
    }
}

fn until(wake: Wake, tell_at: Option<Mono>, now: Now) -> Duration {
    let wall = wake.wall.map(|at| at.0.saturating_sub(now.wall.0));
    let mono = [wake.mono, tell_at].into_iter().flatten().min().map(|at| at.0.saturating_sub(now.mono.0));
    let ms = [wall, mono].into_iter().flatten().min();
    // One more millisecond, so that the clock has passed the mark when we look.
    ms.map_or(LONGEST, |ms| Duration::from_millis(ms.saturating_add(1))).min(LONGEST)
}
