//! The writer: the one thread that decides and writes. It takes all that waits, lets core decide each commit at the head
//! of its space, carries the effects into tables, syncs once, and only then answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::{Commit, Decided, No, SpaceId, SpaceName, SpaceNo, Working, decide, genesis};
use quorate_store::{Handover, Outcome, Published, SpaceInfo, StoreError, Wiring};
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::checkpoint::Wal;
use crate::load::Loaded;
use crate::lookup::{Lookups, in_words};
use crate::open::Shared;
use crate::queue::Job;
use crate::write::Writes;

/// What a job came to, to be told after the sync.
enum Answer {
    Transact(oneshot::Sender<Result<Vec<Outcome>, StoreError>>, Vec<Outcome>),
    Space(oneshot::Sender<Result<SpaceNo, StoreError>>, SpaceNo),
}

impl Answer {
    /// Tells the caller. One that no longer listens is fine: with a key it may ask again.
    fn tell(self, failure: Option<&StoreError>) {
        match (self, failure) {
            (Self::Transact(to, outcomes), None) => drop(to.send(Ok(outcomes))),
            (Self::Space(to, number), None) => drop(to.send(Ok(number))),
            (Self::Transact(to, _), Some(error)) => drop(to.send(Err(error.clone()))),
            (Self::Space(to, _), Some(error)) => drop(to.send(Err(error.clone()))),
        }
    }
}

pub(crate) struct Writer<'c> {
    connection: &'c Connection,
    writes: Writes<'c>,
    lookups: Lookups<'c>,
    spaces: BTreeMap<SpaceNo, Loaded>,
    wiring: Wiring,
    shared: Arc<Shared>,
    wal: Wal,
    #[cfg(feature = "sabotage")]
    sabotage: Option<crate::Sabotage>,
}

impl<'c> Writer<'c> {
    pub(crate) fn new(
        connection: &'c Connection,
        spaces: BTreeMap<SpaceNo, Loaded>,
        wiring: Wiring,
        shared: Arc<Shared>,
        wal: Wal,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            connection,
            writes: Writes::prepare(connection)?,
            lookups: Lookups::prepare(connection)?,
            spaces,
            wiring,
            wal,
            #[cfg(feature = "sabotage")]
            sabotage: shared.sabotage,
            shared,
        })
    }

    /// Works until the queue is closed and empty, or the storage fails.
    pub(crate) fn run(mut self) {
        while let Some(batch) = self.shared.queue.take() {
            if let Err(error) = self.batch(batch) {
                self.shared.fail(error);
                return;
            }
            self.wal.after_batch(self.connection);
        }
    }

    /// One transaction: many commits, one sync. An error means that nothing more may be acknowledged.
    fn batch(&mut self, jobs: Vec<Job>) -> Result<(), StoreError> {
        let mut answers = Vec::with_capacity(jobs.len());
        let mut touched = BTreeSet::new();
        let mut handovers = BTreeMap::new();
        let written = self.decide_and_write(jobs, &mut answers, &mut touched, &mut handovers);
        #[cfg(feature = "sabotage")]
        if self.sabotage == Some(crate::Sabotage::AnswerBeforeSync) {
            answers.drain(..).for_each(|answer| answer.tell(None));
        }
        match written.and_then(|()| self.commit_batch(&touched)) {
            Ok(()) => {
                self.publish(&touched, handovers);
                answers.into_iter().for_each(|answer| answer.tell(None));
                Ok(())
            }
            Err(error) => {
                let error = self.give_up(&error, &touched);
                let fatal = !matches!(error, StoreError::Full);
                answers.into_iter().for_each(|answer| answer.tell(Some(&error)));
                if fatal { Err(error) } else { Ok(()) }
            }
        }
    }

    fn decide_and_write(
        &mut self,
        jobs: Vec<Job>,
        answers: &mut Vec<Answer>,
        touched: &mut BTreeSet<SpaceNo>,
        handovers: &mut BTreeMap<SpaceNo, Handover>,
    ) -> Result<(), BatchError> {
        // The first error ends the batch, but every caller is told.
        let mut result = self.connection.execute_batch("BEGIN IMMEDIATE").map_err(BatchError::from);
        for job in jobs {
            match job {
                Job::Space { name, answer } => {
                    let number = match &result {
                        Ok(()) => self.space(&name, touched),
                        Err(_) => Ok(SpaceNo(0)),
                    };
                    answers.push(Answer::Space(answer, *number.as_ref().unwrap_or(&SpaceNo(0))));
                    result = result.and(number.map(drop));
                }
                Job::Transact { space, commits, answer } => {
                    touched.insert(space);
                    let mut outcomes = Vec::with_capacity(commits.len());
                    for commit in commits {
                        if result.is_ok() {
                            let handover = handovers.entry(space).or_insert_with(|| Handover {
                                space,
                                handed: Vec::new(),
                                dismissed: Vec::new(),
                            });
                            result = self.one(space, commit, handover).map(|outcome| outcomes.push(outcome));
                        }
                    }
                    answers.push(Answer::Transact(answer, outcomes));
                }
            }
        }
        result
    }

    /// Decides one commit and writes what it did.
    fn one(
        &mut self,
        space: SpaceNo,
        commit: Commit,
        handover: &mut Handover,
    ) -> Result<Outcome, BatchError> {
        let Some(loaded) = self.spaces.get_mut(&space) else { return Err(BatchError::NoSpace) };
        #[cfg(feature = "sabotage")]
        let commit = crate::sabotage::twist(self.sabotage, commit, &loaded.working);
        self.lookups.space.set(space);
        match decide(&mut loaded.working, &self.lookups, &commit, self.wiring.clock.now()) {
            Ok(decided) => {
                self.writes.commit(space, &loaded.working, &commit, &decided, &self.lookups)?;
                #[cfg(feature = "sabotage")]
                crate::sabotage::after_write(self.sabotage, self.connection, space, &decided)?;
                let Decided { receipt, handed, dismissed, .. } = decided;
                handover.handed.extend(handed);
                handover.dismissed.extend(dismissed);
                Ok(Ok(receipt))
            }
            Err(No::Refused(refused)) => Ok(Err(refused)),
            Err(No::Failed(failed)) => Err(BatchError::Lookup(in_words(&failed))),
        }
    }

    fn space(&mut self, name: &SpaceName, touched: &mut BTreeSet<SpaceNo>) -> Result<SpaceNo, BatchError> {
        if let Some((number, _)) = self.spaces.iter().find(|(_, loaded)| loaded.name == *name) {
            return Ok(*number);
        }
        let number = SpaceNo(self.spaces.last_key_value().map_or(1, |(last, _)| last.0 + 1));
        let id = SpaceId(self.wiring.chance.sixteen());
        let mut working = Working::new(id);
        let (record, _) = genesis(&mut working, name.clone(), self.wiring.clock.now().wall);
        self.connection.execute(
            "INSERT INTO spaces VALUES (?1, ?2, ?3, 0, x'', 0, 0, 1, 0, 0, 0, 0, 0)",
            (number.0, name.as_str(), id.0),
        )?;
        self.writes.record(number, &record)?;
        self.writes.new_era(number, &working)?;
        self.spaces.insert(number, Loaded { name: name.clone(), working });
        touched.insert(number);
        Ok(number)
    }

    /// THE line where a batch becomes durable: before COMMIT returns, a power failure loses all of it and nobody was
    /// told otherwise; after it returns, it is on disk and every caller is told so.
    fn commit_batch(&mut self, touched: &BTreeSet<SpaceNo>) -> Result<(), BatchError> {
        for number in touched {
            if let Some(loaded) = self.spaces.get(number)
                && loaded.working.has_moved()
            {
                self.writes.head(*number, &loaded.working)?;
            }
        }
        self.connection.execute_batch("COMMIT")?;
        for number in touched {
            if let Some(loaded) = self.spaces.get_mut(number) {
                loaded.working.settle();
            }
        }
        Ok(())
    }

    /// Makes the new state visible and hands deliveries over, before the callers are answered.
    fn publish(&self, touched: &BTreeSet<SpaceNo>, handovers: BTreeMap<SpaceNo, Handover>) {
        for number in touched {
            if let Some(loaded) = self.spaces.get(number) {
                self.shared.publish(*number, loaded);
            }
        }
        for (_, handover) in handovers {
            if !handover.handed.is_empty() || !handover.dismissed.is_empty() {
                (self.wiring.sink)(handover);
            }
        }
    }

    /// Puts memory back to what the disk holds, and says whether it is worth going on.
    fn give_up(&mut self, error: &BatchError, touched: &BTreeSet<SpaceNo>) -> StoreError {
        if !self.connection.is_autocommit() {
            // If even this fails, the connection is of no more use; then the error below is fatal anyway.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        for number in touched {
            if self.shared.published(*number).is_none() {
                // A space that was to be made by this very batch.
                self.spaces.remove(number);
            } else if let Some(loaded) = self.spaces.get_mut(number) {
                loaded.working.revert();
            }
        }
        error.into_store_error(self.connection.is_autocommit())
    }
}

/// Why a batch was not written.
enum BatchError {
    Sqlite(rusqlite::Error),
    Lookup(Arc<str>),
    NoSpace,
}

impl From<rusqlite::Error> for BatchError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl BatchError {
    /// A full disk is the one failure after which we go on: the write was refused, so it is certain that nothing was
    /// applied. After any other the disk may hold what memory does not know, so nothing more is acknowledged.
    fn into_store_error(&self, rolled_back: bool) -> StoreError {
        match self {
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(rusqlite::ErrorCode::DiskFull) if rolled_back => StoreError::Full,
                _ => StoreError::Failed(in_words(error)),
            },
            Self::Lookup(words) => StoreError::Failed(Arc::clone(words)),
            Self::NoSpace => StoreError::Failed("a commit names a space that does not exist".into()),
        }
    }
}

impl Shared {
    fn publish(&self, number: SpaceNo, loaded: &Loaded) {
        let working = &loaded.working;
        let published = Arc::new(Published {
            head: working.head,
            agents: Arc::clone(working.agents()),
            eras: Arc::clone(working.eras()),
            counts: working.counts(),
            wake: working.wake(),
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

    /// Makes the loaded spaces visible at start.
    pub(crate) fn publish_all(&self, spaces: &BTreeMap<SpaceNo, Loaded>) {
        for (number, loaded) in spaces {
            self.publish(*number, loaded);
        }
    }
}
