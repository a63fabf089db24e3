//! Plans rollbacks on the reader threads before a commit is queued, so that the writer only has to bring the plan up to
//! date.
//!
//! The work is split into slices, each a separate read, so that a large plan does not block other reads.

use std::sync::Arc;

use quorate_core::limits::ROLLBACK_SCAN_MAX;
use quorate_core::{
    Commit, DecideError, Effect, EntryHead, Key, Lookup, Refused, Rollback, RollbackPlan, RollbackScope, Seq,
    SpaceNo, codec,
};
use quorate_store::StoreError;
use rusqlite::Connection;

use crate::lookup::{SqliteLookup, error_text};
use crate::memtable::Memtables;
use crate::read;
use crate::readers::{Lane, ReadError, Readers};

/// Entries looked up per slice.
const SLICE_KEYS: usize = 1024;
/// Records read per slice to catch up with concurrent writes.
const SLICE_RECORDS: usize = 1024;
/// Maximum number of catch-up slices. If there are still too many concurrent writes after them, the writer rejects the
/// rollback.
const CATCH_UP_MAX: usize = 64;

/// Plans rollbacks on the bulk lane of the readers.
#[derive(Clone)]
pub(crate) struct RollbackPlanner {
    pub(crate) readers: Arc<Readers>,
    pub(crate) memtables: Memtables,
}

impl RollbackPlanner {
    /// Plans every rollback of the commits that has no plan yet. A refusal is stored in the plan and left to the writer,
    /// because the commit may turn out to be an idempotent replay.
    pub(crate) async fn plan(self, space: SpaceNo, commits: &mut [Commit]) -> Result<(), StoreError> {
        for commit in commits {
            let unplanned: Vec<_> =
                commit.unplanned_rollbacks().map(|(op, rollback)| (op, rollback.clone())).collect();
            let mut scan_max = ROLLBACK_SCAN_MAX;
            for (op, rollback) in unplanned {
                let planned = self.plan_rollback(space, Arc::new(rollback), &mut scan_max).await?;
                commit.plans.insert(op, Arc::new(planned));
            }
        }
        Ok(())
    }

    async fn plan_rollback(
        &self,
        space: SpaceNo,
        rollback: Arc<Rollback>,
        scan_max: &mut usize,
    ) -> Result<Result<RollbackPlan, Refused>, StoreError> {
        let (request, max) = (Arc::clone(&rollback), *scan_max);
        let started = self
            .slice(space, move |rows, at, _| RollbackPlan::begin(rows, at, &request, max).map_err(Stop::from))
            .await?;
        let (mut plan, scan) = match started {
            Ok(started) => started,
            Err(refused) => return Ok(Err(refused)),
        };
        *scan_max -= scan.scanned.min(*scan_max);
        let mut changed = scan.changed.into_iter();
        while changed.len() > 0 {
            let slice_keys: Vec<(Key, EntryHead)> = changed.by_ref().take(SLICE_KEYS).collect();
            let added = self.slice(space, move |rows, _, _| {
                plan.add(rows, slice_keys.into_iter())?;
                Ok(plan)
            });
            plan = match added.await? {
                Ok(plan) => plan,
                Err(refused) => return Ok(Err(refused)),
            };
        }
        self.catch_up(space, rollback, plan).await
    }

    /// Updates the plan for entries that were written since it was started.
    async fn catch_up(
        &self,
        space: SpaceNo,
        rollback: Arc<Rollback>,
        mut plan: RollbackPlan,
    ) -> Result<Result<RollbackPlan, Refused>, StoreError> {
        for _ in 0..CATCH_UP_MAX {
            let request = Arc::clone(&rollback);
            let caught_up = self.slice(space, move |rows, through, connection| {
                let (written_keys, at) = written_keys(connection, space, (plan.at(), through), &request)?;
                plan.catch_up(rows, at, written_keys)?;
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

    /// Runs one slice against a snapshot of the space. `work` also gets the last record of that snapshot.
    async fn slice<T: Send + 'static>(
        &self,
        space: SpaceNo,
        work: impl FnOnce(&dyn Lookup, Seq, &Connection) -> Result<T, Stop> + Send + 'static,
    ) -> Result<Result<T, Refused>, StoreError> {
        let memtables = self.memtables.clone();
        let read = self.readers.run(Lane::Bulk, space, move |connection| {
            let snapshot = connection.unchecked_transaction()?;
            // A SQLite read transaction gets its snapshot with the first read.
            let pin = || snapshot.query_row("SELECT count(*) FROM spaces", [], |_| Ok(()));
            let memtable = memtables.snapshot_for_plan(space, pin)?;
            let through = memtable.last_seq();
            let lookups = SqliteLookup::prepare(&snapshot, Memtables::new([(space, memtable)].into()))?;
            lookups.space.set(space);
            match work(&lookups, through, &snapshot) {
                Ok(found) => Ok(Ok(found)),
                Err(Stop::Decide(DecideError::Refused(refused))) => Ok(Err(refused)),
                Err(Stop::Decide(DecideError::LookupFailed(failed))) => {
                    Err(ReadError::Other(error_text(&failed).to_string()))
                }
                Err(Stop::Read(error)) => Err(error),
            }
        });
        read.await
    }
}

/// Reason why a slice stopped early.
enum Stop {
    Decide(DecideError),
    Read(ReadError),
}

impl From<DecideError> for Stop {
    fn from(error: DecideError) -> Self {
        Self::Decide(error)
    }
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// Returns the keys covered by the rollback that the records after `after`, up to `through`, have written, and the last
/// record that was read. Reads at most [`SLICE_RECORDS`] records.
fn written_keys(
    connection: &Connection,
    space: SpaceNo,
    (after, through): (Seq, Seq),
    rollback: &Rollback,
) -> Result<(Vec<Key>, Seq), ReadError> {
    let RollbackScope::Prefix(prefix) = &rollback.scope else { return Ok((Vec::new(), through)) };
    let count = ((through.0 - after.0) as usize).min(SLICE_RECORDS);
    let mut written_keys = Vec::new();
    let mut at = after;
    for record in read::bodies(connection, space, Seq(after.0 + 1), count)? {
        at = record.seq;
        for effect in codec::read_body(&record)?.effects {
            if let Effect::Written { key, .. } | Effect::Deleted { key, .. } = effect
                && key.as_str().starts_with(prefix.as_str())
            {
                written_keys.push(key);
            }
        }
    }
    written_keys.sort();
    written_keys.dedup();
    Ok((written_keys, at))
}
