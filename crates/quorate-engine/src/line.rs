//! Locks that are waited for under a key. Whoever finds them free takes them in a commit that bears the key. Whoever must
//! wait stands in line like everybody else, with its priority and in the search for circles; what comes of that is kept in
//! memory for a while, so that the same call again, after a break, has the same place and the same answer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::{
    AcquireLocks, Code, IdempotencyKey, Locked, Op, OpResult, Receipt, Refused, SpaceNo, Timestamp, Waiting,
};
use quorate_store::StoreError;
use tokio::sync::watch;

use crate::error::Error;
use crate::once::Asker;
use crate::space::Space;

/// How long a place is kept for somebody whose call broke off.
const COME_BACK: Duration = Duration::from_secs(5);
/// How long an answer is kept at most.
const KEPT: Duration = Duration::from_secs(60);

/// Who waits under which key.
type Place = (SpaceNo, String, IdempotencyKey);
type Told = Result<(Locked, Timestamp), Error>;

/// Calls that wait for locks under a key, and what came of them.
#[derive(Default)]
pub(crate) struct Lines {
    waits: Mutex<HashMap<Place, Wait>>,
}

struct Wait {
    /// Of what was asked for.
    fingerprint: [u8; 32],
    tell: Arc<watch::Sender<Option<Told>>>,
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Wait>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes of the call that waits under this key, if there is one.
    fn join(
        &self,
        place: &Place,
        fingerprint: &[u8; 32],
    ) -> Result<Option<watch::Receiver<Option<Told>>>, Refused> {
        match self.lock().get(place) {
            None => Ok(None),
            Some(wait) if wait.fingerprint == *fingerprint => Ok(Some(wait.tell.subscribe())),
            Some(_) => Err(Refused::new(Code::Duplicate, "this idempotency key was used for other locks")
                .hint("use a new key for a new call; repeat a call only with the very same content")),
        }
    }
}

impl Space {
    /// Takes locks under a key, and tells when.
    ///
    /// # Errors
    /// `TIMEOUT` if they could not be had in time, `DEADLOCK` if they never could, another refusal, or a failure of the
    /// storage.
    pub async fn lock_once(
        &self,
        asker: Asker<'_>,
        ask: AcquireLocks,
        wait: Duration,
    ) -> Result<(Locked, Timestamp), Error> {
        let commit = asker(vec![Op::AcquireLocks(AcquireLocks { waiting: Waiting::No, ..ask.clone() })]);
        let keyed = commit.key.clone().ok_or_else(|| Refused::new(Code::Invalid, "the call has no key"))?;
        let (key, fingerprint) = keyed;
        let (principal, epoch) = (commit.principal.clone(), commit.epoch);
        let place = (self.number(), principal.to_text(), key);
        let mut told = match self.engine().lines.join(&place, &fingerprint)? {
            Some(told) => told,
            None => match self.commit(commit).await {
                Err(error) if error.code() == Code::Timeout && !wait.is_zero() => {
                    let given = {
                        let space = self.clone();
                        async move { space.lock(&principal, epoch, ask, wait).await }
                    };
                    self.stand_in_line(place, fingerprint, given)
                }
                outcome => return locked_of(outcome?),
            },
        };
        let given_up =
            || Refused::new(Code::Unavailable, "the wait for the lock was given up").hint("call again");
        let told = told.wait_for(Option::is_some).await.map_err(|_| given_up())?.clone();
        told.unwrap_or_else(|| Err(given_up().into()))
    }

    /// Begins to wait, unless the same call does already.
    fn stand_in_line(
        &self,
        place: Place,
        fingerprint: [u8; 32],
        given: impl Future<Output = Result<Locked, Error>> + Send + 'static,
    ) -> watch::Receiver<Option<Told>> {
        let mut waits = self.engine().lines.lock();
        let vacant = match waits.entry(place.clone()) {
            Entry::Occupied(wait) => return wait.get().tell.subscribe(),
            Entry::Vacant(vacant) => vacant,
        };
        let (tell, told) = watch::channel(None);
        let tell = Arc::new(tell);
        vacant.insert(Wait { fingerprint, tell: Arc::clone(&tell) });
        let space = self.clone();
        tokio::spawn(async move {
            stand(&space, &tell, given).await;
            space.engine().lines.lock().remove(&place);
        });
        told
    }
}

fn locked_of(receipt: Receipt) -> Told {
    match receipt.results.into_iter().next() {
        Some(OpResult::Locked(locked)) => Ok((locked, receipt.at)),
        _ => Err(StoreError::Read("a lock was not answered".into()).into()),
    }
}

/// Stands in line for as long as somebody wants to know, and keeps the answer for whoever did not hear it.
async fn stand(
    space: &Space,
    tell: &watch::Sender<Option<Told>>,
    given: impl Future<Output = Result<Locked, Error>>,
) {
    let given = tokio::select! {
        given = given => given,
        // The place is given up, and whatever was given on the way is given back.
        () = deserted(space, tell) => return,
    };
    let at = space.engine().clock().now().wall;
    let locked = given.as_ref().ok().cloned();
    let heard = tell.receiver_count() > 0;
    tell.send_replace(Some(given.map(|locked| (locked, at))));
    let Some(locked) = locked else { return };
    if !heard {
        space.pass(COME_BACK).await;
        if tell.receiver_count() == 0 {
            space.release_unwanted(locked.locks).await;
            return;
        }
    }
    space.pass(KEPT.min(Duration::from_millis(locked.ttl_ms))).await;
}

/// Ends when nobody has waited for so long that nobody comes back.
async fn deserted(space: &Space, tell: &watch::Sender<Option<Told>>) {
    loop {
        tell.closed().await;
        space.pass(COME_BACK).await;
        if tell.receiver_count() == 0 {
            return;
        }
    }
}
