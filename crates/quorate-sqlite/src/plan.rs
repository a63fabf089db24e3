//! Planning rollbacks on the threads that read, before a commit is queued: the writer only brings the plan up to date.
//!
//! The work is cut into slices, each a read of its own, so that a large plan does not hold up the reads of others.

use std::sync::Arc;

use quorate_core::limits::ROLLBACK_SCAN_MAX;
use quorate_core::{
    Commit, Effect, EntryHead, Key, No, Refused, Rollback, RollbackPlan, RollbackWhat, Rows, Seq, SpaceNo,
    codec,
};
use quorate_store::StoreError;
use rusqlite::Connection;

use crate::lookup::{Lookups, in_words};
use crate::read;
use crate::readers::{Lane, ReadError, Readers};
use crate::tail::Tails;

/// Entries that are looked up in one slice.
const SLICE_KEYS: usize = 1024;
/// Records that are read in one slice to catch up with what was written meanwhile.
const SLICE_RECORDS: usize = 1024;
/// Slices in which a plan may catch up. Whatever is left after them is too much for the writer, which then refuses.
const CATCH_UP_MAX: usize = 64;

/// Where plans are made.
#[derive(Clone)]
pub(crate) struct Planner {
    pub(crate) readers: Arc<Readers>,
    pub(crate) tails: Tails,
}

impl Planner {
    /// Plans every rollback of the commits that needs it. A refusal is left to the writer, since the commit may turn out to be
    /// a repetition.
    pub(crate) async fn plan(self, space: SpaceNo, commits: &mut [Commit]) -> Result<(), StoreError> {
        for commit in commits {
            let unplanned: Vec<_> = commit.unplanned().map(|(op, rollback)| (op, rollback.clone())).collect();
            let mut scan_max = ROLLBACK_SCAN_MAX;
            for (op, rollback) in unplanned {
                let planned = self.one(space, Arc::new(rollback), &mut scan_max).await?;
                commit.plans.insert(op, Arc::new(planned));
            }
        }
        Ok(())
    }

    async fn one(
        &self,
        space: SpaceNo,
        rollback: Arc<Rollback>,
        scan_max: &mut usize,
    ) -> Result<Result<RollbackPlan, Refused>, StoreError> {
        let (asked, max) = (Arc::clone(&rollback), *scan_max);
        let begun = self
            .slice(space, move |rows, at, _| RollbackPlan::begin(rows, at, &asked, max).map_err(Stop::from))
            .await?;
        let (mut plan, scan) = match begun {
            Ok(begun) => begun,
            Err(refused) => return Ok(Err(refused)),
        };
        *scan_max -= scan.scanned.min(*scan_max);
        let mut changed = scan.changed.into_iter();
        while changed.len() > 0 {
            let some: Vec<(Key, EntryHead)> = changed.by_ref().take(SLICE_KEYS).collect();
            let added = self.slice(space, move |rows, _, _| {
                plan.add(rows, some.into_iter())?;
                Ok(plan)
            });
            plan = match added.await? {
                Ok(plan) => plan,
                Err(refused) => return Ok(Err(refused)),
            };
        }
        self.catch_up(space, rollback, plan).await
    }

    /// Looks again at entries that were written since the plan was begun.
    async fn catch_up(
        &self,
        space: SpaceNo,
        rollback: Arc<Rollback>,
        mut plan: RollbackPlan,
    ) -> Result<Result<RollbackPlan, Refused>, StoreError> {
        for _ in 0..CATCH_UP_MAX {
            let asked = Arc::clone(&rollback);
            let caught_up = self.slice(space, move |rows, through, connection| {
                let (written, at) = written(connection, space, (plan.at(), through), &asked)?;
                plan.catch_up(rows, at, written)?;
                Ok((plan, at == through))
            });
            let is_done;
            (plan, is_done) = match caught_up.await? {
                Ok(caught_up) => caught_up,
                Err(refused) => return Ok(Err(refused)),
            };
            if is_done {
                break;
            }
        }
        Ok(Ok(plan))
    }

    /// Runs one slice against the state of the space, of which it is told the newest record.
    async fn slice<T: Send + 'static>(
        &self,
        space: SpaceNo,
        work: impl FnOnce(&dyn Rows, Seq, &Connection) -> Result<T, Stop> + Send + 'static,
    ) -> Result<Result<T, Refused>, StoreError> {
        let tails = self.tails.clone();
        let read = self.readers.run(Lane::Bulk, space, move |connection| {
            let snapshot = connection.unchecked_transaction()?;
            // A transaction has its snapshot from its first read on.
            let pin = || snapshot.query_row("SELECT count(*) FROM spaces", [], |_| Ok(()));
            let tail = tails.pinned_for_plan(space, pin)?;
            let through = tail.through();
            let lookups = Lookups::prepare(&snapshot, Tails::new([(space, tail)].into()))?;
            lookups.space.set(space);
            match work(&lookups, through, &snapshot) {
                Ok(found) => Ok(Ok(found)),
                Err(Stop::No(No::Refused(refused))) => Ok(Err(refused)),
                Err(Stop::No(No::Failed(failed))) => Err(ReadError::Other(in_words(&failed).to_string())),
                Err(Stop::Read(error)) => Err(error),
            }
        });
        read.await
    }
}

/// Why a slice came to nothing.
enum Stop {
    No(No),
    Read(ReadError),
}

impl From<No> for Stop {
    fn from(no: No) -> Self {
        Self::No(no)
    }
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// The entries in question that were written by the records after one, up to another or as far as one slice goes, and the
/// last of those records.
fn written(
    connection: &Connection,
    space: SpaceNo,
    (after, through): (Seq, Seq),
    rollback: &Rollback,
) -> Result<(Vec<Key>, Seq), ReadError> {
    let RollbackWhat::Prefix(prefix) = &rollback.what else { return Ok((Vec::new(), through)) };
    let count = ((through.0 - after.0) as usize).min(SLICE_RECORDS);
    let mut written = Vec::new();
    let mut at = after;
    for record in read::bodies(connection, space, Seq(after.0 + 1), count)? {
        at = record.seq;
        for effect in codec::read_body(&record)?.effects {
            if let Effect::Written { key, .. } | Effect::Deleted { key, .. } = effect
                && key.as_str().starts_with(prefix.as_str())
            {
                written.push(key);
            }
        }
    }
    written.sort();
    written.dedup();
    Ok((written, at))
}
