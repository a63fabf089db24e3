//! Waiting for locks under an idempotency key. If the locks are free, they are acquired in a commit that carries the
//! key. Otherwise the call queues like any other, with its priority and in the deadlock detection. Its outcome is
//! held in memory for a while, so that a retry after a disconnect gets the same position and the same result.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::{
    AcquireLocks, Code, GrantedLocks, IdempotencyKey, Op, OpResult, Receipt, Refused, SpaceNo, Timestamp,
    WaitMode,
};
use quorate_store::StoreError;
use tokio::sync::watch;

use crate::error::Error;
use crate::idempotent_wait::CommitBuilder;
use crate::space::Space;

/// How long the position in the queue is retained after a disconnect.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time for which an outcome is retained.
const RETENTION: Duration = Duration::from_secs(60);

/// Space, principal and idempotency key of a waiting call.
type WaitKey = (SpaceNo, String, IdempotencyKey);
type LockOutcome = Result<(GrantedLocks, Timestamp), Error>;

/// Calls that wait for locks under an idempotency key, and their outcomes.
#[derive(Default)]
pub(crate) struct PendingLocks {
    waits: Mutex<HashMap<WaitKey, PendingLock>>,
}

struct PendingLock {
    /// Fingerprint of the request.
    fingerprint: [u8; 32],
    sender: Arc<watch::Sender<Option<LockOutcome>>>,
}

impl PendingLocks {
    fn lock(&self) -> MutexGuard<'_, HashMap<WaitKey, PendingLock>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the call that waits under this key, if there is one.
    fn join(
        &self,
        key: &WaitKey,
        fingerprint: &[u8; 32],
    ) -> Result<Option<watch::Receiver<Option<LockOutcome>>>, Refused> {
        match self.lock().get(key) {
            None => Ok(None),
            Some(wait) if wait.fingerprint == *fingerprint => Ok(Some(wait.sender.subscribe())),
            Some(_) => {
                Err(Refused::new(Code::Duplicate, "this idempotency key was already used for other locks")
                    .hint("use a new key for a new call; a retry must have the same content"))
            }
        }
    }
}

impl Space {
    /// Acquires locks, under an idempotency key if the commit has one. Returns them with the time of the grant.
    ///
    /// # Errors
    /// `TIMEOUT` if the locks were not granted in time, `DEADLOCK` if they never can be, another refusal, or a storage
    /// failure.
    pub async fn lock_idempotent(
        &self,
        build_commit: CommitBuilder<'_>,
        request: AcquireLocks,
        wait: Duration,
    ) -> Result<(GrantedLocks, Timestamp), Error> {
        let commit =
            build_commit(vec![Op::AcquireLocks(AcquireLocks { wait: WaitMode::NoWait, ..request.clone() })]);
        let (principal, epoch) = (commit.principal.clone(), commit.epoch);
        let Some((key, fingerprint)) = commit.key.clone() else {
            let granted = self.lock(&principal, epoch, request, wait).await?;
            return Ok((granted, self.engine().clock().now().wall));
        };
        let wait_key = (self.number(), principal.to_text(), key);
        let mut outcome = match self.engine().pending_locks.join(&wait_key, &fingerprint)? {
            Some(outcome) => outcome,
            None => match self.commit(commit).await {
                Err(error) if error.code() == Code::Timeout && !wait.is_zero() => {
                    let acquisition = {
                        let space = self.clone();
                        async move { space.lock(&principal, epoch, request, wait).await }
                    };
                    self.wait_in_queue(wait_key, fingerprint, acquisition)
                }
                outcome => return granted_locks(outcome?),
            },
        };
        let aborted = || {
            Refused::new(Code::Unavailable, "the wait for the lock was aborted")
                .hint("retry with the same key")
        };
        let outcome = outcome.wait_for(Option::is_some).await.map_err(|_| aborted())?.clone();
        outcome.unwrap_or_else(|| Err(aborted().into()))
    }

    /// Starts to wait, unless a call under the same key does already.
    fn wait_in_queue(
        &self,
        key: WaitKey,
        fingerprint: [u8; 32],
        acquisition: impl Future<Output = Result<GrantedLocks, Error>> + Send + 'static,
    ) -> watch::Receiver<Option<LockOutcome>> {
        let mut waits = self.engine().pending_locks.lock();
        let vacant = match waits.entry(key.clone()) {
            Entry::Occupied(wait) => return wait.get().sender.subscribe(),
            Entry::Vacant(vacant) => vacant,
        };
        let (sender, receiver) = watch::channel(None);
        let sender = Arc::new(sender);
        vacant.insert(PendingLock { fingerprint, sender: Arc::clone(&sender) });
        let space = self.clone();
        tokio::spawn(async move {
            wait_for_grant(&space, &sender, acquisition).await;
            space.engine().pending_locks.lock().remove(&key);
        });
        receiver
    }
}

fn granted_locks(receipt: Receipt) -> LockOutcome {
    match receipt.results.into_iter().next() {
        Some(OpResult::LocksGranted(granted)) => Ok((granted, receipt.at)),
        _ => Err(StoreError::Read("unexpected result of a lock operation".into()).into()),
    }
}

/// Waits in the queue for as long as a caller is interested, and retains the outcome for a caller that has to
/// reconnect.
async fn wait_for_grant(
    space: &Space,
    sender: &watch::Sender<Option<LockOutcome>>,
    acquisition: impl Future<Output = Result<GrantedLocks, Error>>,
) {
    let outcome = tokio::select! {
        outcome = acquisition => outcome,
        // Dropping `acquisition` leaves the queue and releases any lock that was granted meanwhile.
        () = abandoned(space, sender) => return,
    };
    let at = space.engine().clock().now().wall;
    let granted = outcome.as_ref().ok().cloned();
    let was_received = sender.receiver_count() > 0;
    sender.send_replace(Some(outcome.map(|granted| (granted, at))));
    let Some(granted) = granted else { return };
    if !was_received {
        space.sleep(RECONNECT_TIMEOUT).await;
        if sender.receiver_count() == 0 {
            space.release_abandoned_locks(granted.locks).await;
            return;
        }
    }
    space.sleep(RETENTION.min(Duration::from_millis(granted.ttl_ms))).await;
}

/// Resolves once no caller has been waiting for [`RECONNECT_TIMEOUT`].
async fn abandoned(space: &Space, sender: &watch::Sender<Option<LockOutcome>>) {
    loop {
        sender.closed().await;
        space.sleep(RECONNECT_TIMEOUT).await;
        if sender.receiver_count() == 0 {
            return;
        }
    }
}
