//! Writer thread: the only thread that decides and writes commits. It takes a batch from the queue, lets core decide each
//! commit at the head of its space, writes the records, commits once (one fsync) and only then responds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use quorate_core::codec::fingerprint;
use quorate_core::{
    Commit, CommitOutcome, DecideError, Effect, Lookup as _, Message, Now, Op, PriorSend, Seq, SpaceId,
    SpaceName, SpaceNo, WorkingState, decide, decide_genesis,
};
use quorate_store::{BatchDispatch, CommitResult, PublishedState, SpaceInfo, StoreContext, StoreError};
use rusqlite::{Connection, Statement};
use tokio::sync::watch;

use crate::checkpoint::WalMonitor;
use crate::disk::clock;
use crate::flush::Flusher;
use crate::load::{self, LoadedSpace};
use crate::lookup::{KeyRotation, SqliteLookup, error_text};
use crate::memtable::{Memtable, client_ids_of_part};
use crate::queue::{Job, SpinWait};
use crate::responder::{CommittedBatch, JobResponse, Responder};
use crate::sqlite_store::{Shared, reject};
use crate::witness::Position;
use crate::write_statements::WriteStatements;

/// Work units after which a batch takes no further commit, including the rows of the flush before it. Together with the
/// limit per commit, it bounds how long a batch occupies the writer.
const BATCH_WORK_MAX: u64 = 8_192;

/// Tolerance for rounding when the meter of core is checked, in work units.
const UNMETERED: u64 = 16;

pub(crate) struct Writer<'c> {
    connection: &'c Connection,
    begin: Statement<'c>,
    commit: Statement<'c>,
    writes: WriteStatements<'c>,
    flusher: Flusher<'c>,
    lookups: SqliteLookup<'c>,
    spaces: BTreeMap<SpaceNo, LoadedSpace>,
    context: StoreContext,
    shared: Arc<Shared>,
    responder: Responder,
    wal: WalMonitor,
    /// Number of rows in a memtable that triggers a flush.
    flush_rows: usize,
    /// Newest durable batch.
    last: Position,
    #[cfg(feature = "sabotage")]
    sabotage: Option<crate::Sabotage>,
}

impl<'c> Writer<'c> {
    pub(crate) fn new(
        connection: &'c Connection,
        spaces: BTreeMap<SpaceNo, LoadedSpace>,
        context: StoreContext,
        shared: Arc<Shared>,
        wal: WalMonitor,
        (flush_rows, last): (usize, Position),
    ) -> rusqlite::Result<Self> {
        #[cfg_attr(
            not(feature = "sabotage"),
            expect(unused_mut, reason = "only a deliberate bug changes it")
        )]
        let mut flusher = Flusher::prepare(connection)?;
        #[cfg(feature = "sabotage")]
        {
            flusher.keep_acked = shared.sabotage == Some(crate::Sabotage::RedeliverAfterAck);
        }
        Ok(Self {
            connection,
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            writes: WriteStatements::prepare(connection)?,
            flusher,
            lookups: SqliteLookup::prepare(connection, shared.memtables.clone())?,
            spaces,
            responder: Responder::start(Arc::clone(&context.sink)),
            context,
            wal,
            flush_rows,
            last,
            #[cfg(feature = "sabotage")]
            sabotage: shared.sabotage,
            shared,
        })
    }

    /// Processes batches until the queue is closed and empty, or the storage fails.
    pub(crate) fn run(mut self) {
        let mut spin_wait = SpinWait::default();
        while let Some(batch) = self.shared.queue.take(&mut spin_wait) {
            // The witness could not be written: the disk fails.
            if let Some(error) = self.shared.failed() {
                return reject(batch, &error);
            }
            let (flow, held) = clock::timed(|| self.batch(batch));
            if flow.is_break() {
                return;
            }
            self.shared.stats.add_batch(held);
            if self.flush_large_memtables().is_break() {
                return;
            }
            self.wal.after_batch(self.connection);
        }
        if self.shared.failed().is_some() {
            return;
        }
        // Flush on close, so that the tables are complete for tools that read them while no hub runs.
        if let Err(error) = self.flush_all() {
            let error = error.to_store_error(false);
            tracing::warn!(
                error = %error,
                "the memtables were not flushed: the next start replays the end of the log"
            );
        }
    }

    /// Flushes all memtables in a transaction of their own.
    fn flush_all(&mut self) -> Result<(), BatchError> {
        if self.flush_rows == usize::MAX || self.shared.memtables.read().values().all(Memtable::is_empty) {
            return Ok(());
        }
        self.begin.execute([])?;
        let due = self.memtables_to_flush(1, u64::MAX);
        self.flush_memtables(&due)?;
        self.commit.execute([])?;
        Ok(())
    }

    /// Flushes each memtable that is too large for the transaction of a batch in a transaction of its own, so that a
    /// flush and a costly commit never occupy the writer together, and callers do not wait for the flush. `Break` means
    /// that nothing more may be acknowledged.
    fn flush_large_memtables(&mut self) -> ControlFlow<()> {
        let rows_min = self.flush_rows.max(BATCH_WORK_MAX as usize);
        for (space, rows) in self.memtables_to_flush(rows_min, u64::MAX) {
            let (flushed, held) = clock::timed(|| {
                self.begin.execute([])?;
                self.flush_memtables(&[(space, rows)])?;
                self.commit.execute([])?;
                Ok::<_, BatchError>(())
            });
            match flushed {
                Ok(()) => self.update_memtables(&[(space, rows)]),
                Err(error) => {
                    let error = self.abort_batch(&error, &BTreeSet::new());
                    if !matches!(error, StoreError::DiskFull) {
                        self.shared.fail(error);
                        return ControlFlow::Break(());
                    }
                    // The disk is full. The memtable stays complete, and the flush is tried again after the next batch.
                }
            }
            self.shared.stats.add_flush(rows, held);
        }
        ControlFlow::Continue(())
    }

    /// Returns the spaces whose memtable has at least `rows_min` rows, with these rows, up to `total_max` rows in total.
    fn memtables_to_flush(&self, rows_min: usize, total_max: u64) -> Vec<(SpaceNo, u64)> {
        let mut total = 0;
        let mut due = Vec::new();
        for (space, memtable) in self.shared.memtables.read().iter() {
            let rows = memtable.rows() as u64;
            if rows >= rows_min as u64 && total + rows <= total_max {
                total += rows;
                due.push((*space, rows));
            }
        }
        due
    }

    /// Writes the rows of these memtables.
    fn flush_memtables(&mut self, due: &[(SpaceNo, u64)]) -> Result<(), BatchError> {
        let memtables = self.shared.memtables.read();
        for (space, _) in due {
            if let (Some(loaded), Some(memtable)) = (self.spaces.get(space), memtables.get(space)) {
                self.flusher.flush(*space, &loaded.working, memtable, loaded.first_unflushed)?;
            }
        }
        Ok(())
    }

    /// Runs one transaction: many commits, one fsync. `Break` means that nothing more may be acknowledged.
    fn batch(&mut self, jobs: Vec<Job>) -> ControlFlow<()> {
        let mut responses = Vec::with_capacity(jobs.len());
        let mut touched = BTreeSet::new();
        let mut dispatches: BTreeMap<SpaceNo, BatchDispatch> = BTreeMap::new();
        // The first error aborts the batch, but every caller gets a response.
        let prepared = self.begin.execute([]).map_err(BatchError::from);
        // Before anything is decided: the working state is then exactly the state after the last record.
        // At least one job fits besides the flush.
        let flushed = self.memtables_to_flush(self.flush_rows, BATCH_WORK_MAX - 1);
        let prepared = prepared.and_then(|_| self.flush_memtables(&flushed));
        let prepared = prepared.map(|()| flushed.iter().map(|(_, rows)| rows).sum());
        let written = self.decide_and_write(prepared, jobs, &mut responses, &mut touched, &mut dispatches);
        #[cfg(feature = "sabotage")]
        if self.sabotage == Some(crate::Sabotage::AcknowledgeBeforeSync) {
            responses.drain(..).for_each(|response| response.send(None));
        }
        match written.and_then(|()| self.commit_batch(&touched)) {
            Ok(()) => {
                self.update_memtables(&flushed);
                self.publish(&touched);
                for dispatch in dispatches.values_mut() {
                    let loaded = self.spaces.get(&dispatch.space);
                    dispatch.wake = loaded.map(|loaded| loaded.working.next_wake()).unwrap_or_default();
                }
                self.responder
                    .respond(CommittedBatch { dispatches: dispatches.into_values().collect(), responses });
                ControlFlow::Continue(())
            }
            Err(error) => {
                let error = self.abort_batch(&error, &touched);
                let can_continue = matches!(error, StoreError::DiskFull);
                if !can_continue {
                    // Before responding, so that a caller that retries already sees the failure.
                    self.shared.fail(error.clone());
                }
                responses.into_iter().for_each(|response| response.send(Some(&error)));
                if can_continue { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            }
        }
    }

    /// Decides the jobs of a batch and writes their records. `prepared` is the work of the flush before it, in rows. If
    /// it failed, the jobs are not decided, but still get a response.
    fn decide_and_write(
        &mut self,
        prepared: Result<u64, BatchError>,
        jobs: Vec<Job>,
        responses: &mut Vec<JobResponse>,
        touched: &mut BTreeSet<SpaceNo>,
        dispatches: &mut BTreeMap<SpaceNo, BatchDispatch>,
    ) -> Result<(), BatchError> {
        let now = self.context.clock.now();
        let (mut batch_work, mut commits) = (*prepared.as_ref().unwrap_or(&0), 0);
        let mut result = prepared.map(drop);
        let mut charges: BTreeMap<SpaceNo, u64> = BTreeMap::new();
        let mut jobs = jobs.into_iter();
        while batch_work < BATCH_WORK_MAX
            && let Some(job) = jobs.next()
        {
            commits += job.commits() as u64;
            let weight = job.weight() as u64;
            match job {
                Job::OpenSpace { name, sender } => {
                    let number = match &result {
                        Ok(()) => self.space(&name, touched),
                        Err(_) => Ok(SpaceNo(0)),
                    };
                    responses.push(JobResponse::Space(sender, *number.as_ref().unwrap_or(&SpaceNo(0))));
                    result = result.and(number.map(drop));
                }
                Job::Transact { space, sender, .. } if !self.spaces.contains_key(&space) => {
                    JobResponse::Transact(sender, Vec::new()).send(Some(&StoreError::UnknownSpace));
                }
                Job::Transact { space, commits, sender } => {
                    touched.insert(space);
                    let mut outcomes = Vec::with_capacity(commits.len());
                    let mut spent = 0;
                    for commit in commits {
                        if result.is_ok() {
                            let dispatch =
                                dispatches.entry(space).or_insert_with(|| BatchDispatch::new(space));
                            result = self
                                .commit_one(space, commit, now, dispatch)
                                .map(|outcome| outcomes.push(outcome));
                            spent += self.spaces.get(&space).map_or(0, |loaded| loaded.working.spent);
                        }
                    }
                    responses.push(JobResponse::Transact(sender, outcomes));
                    *charges.entry(space).or_default() += spent.saturating_sub(weight);
                    batch_work += spent;
                }
            }
        }
        self.shared.stats.add_work(commits, batch_work);
        // The remaining jobs would delay the batch for too long: they go back to the queue.
        self.shared.queue.settle(charges, jobs.collect());
        result
    }

    /// Decides one commit and writes its record.
    fn commit_one(
        &mut self,
        space: SpaceNo,
        commit: Commit,
        now: Now,
        dispatch: &mut BatchDispatch,
    ) -> Result<CommitResult, BatchError> {
        let Some(loaded) = self.spaces.get_mut(&space) else {
            return Err(BatchError::Lookup(
                "the working state of the space is missing; this is a bug".into(),
            ));
        };
        #[cfg(feature = "sabotage")]
        let commit = crate::sabotage::tamper(self.sabotage, commit, &loaded.working);
        self.lookups.space.set(space);
        self.lookups.read_units.set(0);
        let decided = decide(&mut loaded.working, &self.lookups, &commit, now);
        check_metered(&loaded.working, self.lookups.read_units.get(), decided.as_ref().ok());
        match decided {
            Ok(decided) => {
                self.writes.write_commit(space, &loaded.working, &commit, &decided, &self.lookups)?;
                stage(&mut self.writes, &self.lookups, &loaded.working, &commit, &decided)?;
                let CommitOutcome {
                    receipt,
                    dispatched,
                    dismissed_consumers,
                    consumer_events,
                    holder_events,
                    ..
                } = decided;
                dispatch.dispatched.extend(dispatched);
                dispatch.dismissed_consumers.extend(dismissed_consumers);
                dispatch.consumer_events.extend(consumer_events);
                dispatch.holder_events.extend(holder_events);
                Ok(Ok(receipt))
            }
            Err(DecideError::Refused(refused)) => Ok(Err(refused)),
            Err(DecideError::LookupFailed(failed)) => Err(BatchError::Lookup(error_text(&failed))),
        }
    }

    fn space(&mut self, name: &SpaceName, touched: &mut BTreeSet<SpaceNo>) -> Result<SpaceNo, BatchError> {
        if let Some((number, _)) = self.spaces.iter().find(|(_, loaded)| loaded.name == *name) {
            return Ok(*number);
        }
        let number = SpaceNo(self.spaces.last_key_value().map_or(1, |(last, _)| last.0 + 1));
        let id = SpaceId(self.context.entropy.bytes_16());
        let mut working = WorkingState::new(id);
        let (record, _) = decide_genesis(&mut working, name.clone(), self.context.clock.now().wall);
        self.connection.execute(
            "INSERT INTO spaces VALUES (?1, ?2, ?3, 0, x'', 0, 0, 1, 1, 0, 0, 0, 0, 0, ?4)",
            (number.0, name.as_str(), id.0, self.last.batch + 1),
        )?;
        self.writes.append_record(number, &record)?;
        self.writes.write_generation(number, &working)?;
        let first_unflushed = working.stored_counters().next_delivery;
        self.spaces.insert(
            number,
            LoadedSpace { name: name.clone(), working, first_unflushed, memtable: Memtable::default() },
        );
        touched.insert(number);
        Ok(number)
    }

    /// Makes the batch durable. Until COMMIT returns, a power loss discards the whole batch, and no caller has been
    /// acknowledged; once it has returned, the batch is on disk and callers may be acknowledged.
    fn commit_batch(&mut self, touched: &BTreeSet<SpaceNo>) -> Result<(), BatchError> {
        let position = self.write_position(touched)?;
        #[cfg(feature = "sabotage")]
        if self.sabotage == Some(crate::Sabotage::WitnessBeforeSync) {
            self.shared.witness.advance(position);
            self.shared.witness.flush();
        }
        self.commit.execute([])?;
        if position.batch > self.last.batch {
            self.last = position;
            self.shared.witness.advance(position);
        }
        for number in touched {
            if let Some(loaded) = self.spaces.get_mut(number) {
                loaded.working.mark_durable();
            }
        }
        Ok(())
    }

    /// Writes the heads that the batch moved, with its number. Returns the position that the store has after it.
    fn write_position(&mut self, touched: &BTreeSet<SpaceNo>) -> rusqlite::Result<Position> {
        let changed = self.writes.take_changed();
        let batch = self.last.batch + 1;
        let mut position = self.last;
        for number in touched {
            let Some(LoadedSpace { working, .. }) = self.spaces.get(number) else { continue };
            if working.has_unsaved_records() {
                self.writes.write_head(*number, working, batch)?;
            } else if changed.contains(number) {
                self.writes.write_batch(*number, batch)?;
            } else {
                continue;
            }
            let head = working.head;
            position = Position { batch, space: *number, seq: head.seq, hash: head.hash, ..self.last };
        }
        Ok(position)
    }

    /// Clears the memtables that were flushed, then merges the changes of the batch.
    fn update_memtables(&mut self, flushed: &[(SpaceNo, u64)]) {
        let mut staged = self.lookups.staged.borrow_mut();
        // Spaces without changes in this batch are dropped; the others keep their allocation for the next batch.
        staged.retain(|_, memtable| !memtable.is_empty());
        let mut memtables = self.shared.memtables.write();
        for (space, _) in flushed {
            if let (Some(memtable), Some(loaded)) = (memtables.get_mut(space), self.spaces.get_mut(space)) {
                // All deliveries below this number are in the tables now.
                loaded.first_unflushed = loaded.first_unflushed.max(memtable.next_delivery());
                memtable.clear();
            }
        }
        for (space, memtable) in staged.iter_mut() {
            memtables.entry(*space).or_default().merge(memtable);
        }
    }

    /// Publishes the new state of the spaces, before callers are acknowledged.
    fn publish(&self, touched: &BTreeSet<SpaceNo>) {
        for number in touched {
            if let Some(loaded) = self.spaces.get(number) {
                self.shared.publish(*number, loaded);
            }
        }
    }

    /// Rolls back the transaction and the working state. The returned error is `DiskFull` if the writer can continue.
    fn abort_batch(&mut self, error: &BatchError, touched: &BTreeSet<SpaceNo>) -> StoreError {
        if !self.connection.is_autocommit() {
            // If this fails too, the connection is unusable, and the error returned below is fatal anyway.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        self.lookups.staged.take();
        self.writes.take_changed();
        for number in touched {
            if self.shared.published(*number).is_none() {
                // Created by this batch, so it does not exist.
                self.spaces.remove(number);
            } else if let Some(loaded) = self.spaces.get_mut(number) {
                loaded.working.revert_to_durable();
            }
        }
        match KeyRotation::load(self.connection) {
            Ok(rotation) => self.lookups.key_rotation.set(rotation),
            Err(error) => return StoreError::Failed(error_text(&error)),
        }
        error.to_store_error(self.connection.is_autocommit())
    }
}

/// Asserts that a decision read and wrote no more than core metered; otherwise a space could occupy the writer without
/// being charged for it.
fn check_metered(working: &WorkingState, read: u64, decided: Option<&CommitOutcome>) {
    let record = decided.and_then(|decided| decided.record.as_ref());
    let written = record.map_or(0, |record| (record.body.len() + record.payload.len()) as u64 / 1024);
    debug_assert!(
        read + written <= working.spent + UNMETERED,
        "read {read}, wrote {written}, metered {}",
        working.spent
    );
}

/// Adds the changes of a commit to the staged memtable. Erasures are written immediately.
fn stage(
    writes: &mut WriteStatements<'_>,
    lookups: &SqliteLookup<'_>,
    working: &WorkingState,
    commit: &Commit,
    decided: &CommitOutcome,
) -> Result<(), BatchError> {
    let space = lookups.space.get();
    for number in &decided.extended_leases {
        lookups.staged.borrow_mut().entry(space).or_default().update_open(working, *number);
    }
    let Some(record) = &decided.record else { return Ok(()) };
    for effect in &decided.effects {
        if let Effect::Erased { seq, part } = effect {
            erase(writes, lookups, space, (*seq, *part))?;
        }
    }
    let mut staged = lookups.staged.borrow_mut();
    let changes = (&decided.effects[..], &decided.ended[..]);
    staged.entry(space).or_default().apply(working, record, changes, |sent, n| {
        fingerprint_in(commit, sent).unwrap_or_else(|| fingerprint::of_logged(sent, n, &decided.effects))
    });
    Ok(())
}

/// Returns the fingerprint of a message that the caller's thread computed.
fn fingerprint_in(commit: &Commit, sent: &Arc<Message>) -> Option<[u8; 32]> {
    commit.ops.iter().find_map(|op| match op {
        Op::Send { message, fingerprint } if Arc::ptr_eq(message, sent) => Some(fingerprint.written),
        // A request is sent with its expiry filled in, so it is a different `Message`; its client id is the same.
        Op::Request(request) if request.message.client_id == sent.client_id => {
            Some(request.fingerprint.written)
        }
        _ => None,
    })
}

/// Overwrites a payload part with zeros, and clears the fingerprints that would allow guesses at it to be confirmed.
fn erase(
    writes: &mut WriteStatements<'_>,
    lookups: &SqliteLookup<'_>,
    space: SpaceNo,
    (seq, part): (Seq, u32),
) -> Result<(), BatchError> {
    let Some(record) = load::record(writes.connection(), space, seq)? else { return Ok(()) };
    writes.erase_part(space, &record, part)?;
    let lookup = |error: &dyn std::error::Error| BatchError::Lookup(error_text(error));
    for id in client_ids_of_part(&record, part).map_err(|error| lookup(&error))? {
        if let Some(sent) = lookups.prior_send(&id).map_err(|error| lookup(&error))? {
            let mut staged = lookups.staged.borrow_mut();
            let memtable = staged.entry(space).or_default();
            memtable.client_ids.insert(id, PriorSend { fingerprint: [0; 32], ..sent });
        }
    }
    Ok(())
}

/// Reason why a batch was not committed.
enum BatchError {
    Sqlite(rusqlite::Error),
    Lookup(Arc<str>),
}

impl From<rusqlite::Error> for BatchError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl BatchError {
    /// Maps the error to the one that callers get. A full disk is the only recoverable failure: the write was rejected,
    /// so it is certain that nothing was applied. After any other failure the state on disk is uncertain, so nothing
    /// more is acknowledged.
    fn to_store_error(&self, rolled_back: bool) -> StoreError {
        match self {
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(rusqlite::ErrorCode::DiskFull) if rolled_back => StoreError::DiskFull,
                _ => StoreError::Failed(error_text(error)),
            },
            Self::Lookup(text) => StoreError::Failed(Arc::clone(text)),
        }
    }
}

impl Shared {
    fn publish(&self, number: SpaceNo, loaded: &LoadedSpace) {
        let working = &loaded.working;
        let published = Arc::new(PublishedState {
            head: working.head,
            agents: Arc::clone(working.agents()),
            generations: Arc::clone(working.generations()),
            counts: working.counts(),
            ready_by_priority: working.ready_by_level(),
            tasks: working.task_counts(),
            approval_changes: working.approval_changes(),
            procedure_changes: working.procedure_changes(),
            wake: working.next_wake(),
            topics: Arc::clone(working.subscription_tree()),
            policy: Arc::clone(working.active_policy()),
            tokens: Arc::clone(working.tokens()),
        });
        let mut spaces = self.lock_spaces();
        match spaces.get(&number) {
            Some((_, sender)) => drop(sender.send_replace(published)),
            None => {
                let info = SpaceInfo { number, name: loaded.name.clone(), id: working.id };
                spaces.insert(number, (info, watch::Sender::new(published)));
            }
        }
    }

    /// Publishes all loaded spaces at start.
    pub(crate) fn publish_all(&self, spaces: &BTreeMap<SpaceNo, LoadedSpace>) {
        for (number, loaded) in spaces {
            self.publish(*number, loaded);
        }
    }
}
