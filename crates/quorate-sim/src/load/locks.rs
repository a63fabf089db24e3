//! Callers that acquire locks, write under them, and keep writing after the release to test fencing.

use std::sync::Arc;

use super::Shared;
use crate::history::{Call, CallOp, Event, LockOp};
use crate::seed::Rng;

/// Number of locks that the callers compete for.
const LOCKS: u64 = 3;
/// Time to live of a lock: shorter than a run, so that some expire.
const TTL_MS: u64 = 1_000;

impl Shared {
    pub(super) async fn run_locker(self: Arc<Self>, index: usize) {
        let task = format!("l{index}");
        let rng = self.rng(&task);
        let mut count = 0;
        while self.take_call() {
            count += 1;
            let by = rng.pick(&self.names).clone();
            let id = format!("{}-{task}-{count}", self.load.run);
            if self.hold(&rng, &id, &by).await.is_none() {
                return;
            }
        }
    }

    /// Acquires locks, writes under them, releases some and writes again. `None` if the storage failed.
    async fn hold(&self, rng: &Rng, id: &str, by: &str) -> Option<()> {
        let mut names = vec![format!("l{}", rng.below(LOCKS))];
        if rng.percent(30) {
            names.push(format!("l{}", rng.below(LOCKS)));
        }
        let call = |part: &str, op: LockOp| Call {
            id: format!("{id}{part}"),
            by: by.to_owned(),
            op: CallOp::Lock(op),
        };
        let outcome = self.call(call("", LockOp::Acquire { names, ttl_ms: TTL_MS })).await?;
        let Event::Done { response, .. } = outcome else { return Some(()) };
        for (lock, fence) in response.fences {
            let size = self.size(rng);
            let write = |part: &str| {
                let (lock, key) = (lock.clone(), format!("g{lock}"));
                call(&format!("{lock}{part}"), LockOp::Write { lock, fence, key, size })
            };
            self.call(write("w")).await?;
            // Some locks are not released: they end by expiry or by the next registration of the agent.
            if rng.percent(80) {
                self.call(call(&format!("{lock}g"), LockOp::Release { lock: lock.clone(), fence })).await?;
            }
            // Writes once more, although another caller may hold the lock by now.
            self.call(write("x")).await?;
        }
        Some(())
    }
}
