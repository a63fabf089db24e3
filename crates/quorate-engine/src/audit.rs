//! Whether the log is what was written, looked at while the hub works: every hash follows from the stored bytes and the
//! hash before, and every payload gives its digest. What else there is to check (the tables, whether the records fit each
//! other) needs a hub that stands still: `quorate verify`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quorate_core::chain::{Broken, Chain, check_parts, first_previous};
use quorate_core::{Head, Seq, SpaceName, SpaceNo, Timestamp, codec};
use quorate_store::{SpaceInfo, Store, StoreError};

use crate::engine::Engine;

/// Records read at once.
const PAGE: usize = 1_000;
/// Payload bytes read at once.
const PAYLOADS_AT_ONCE: u64 = 4 * 1024 * 1024;
/// Payload bytes that are looked at before the hub is ready: about 50 ms.
const PAYLOADS_OF_NEWEST: u64 = 32 * 1024 * 1024;
/// However many spaces there are, so many records of each are looked at before the hub is ready.
const NEWEST_MIN: u64 = 1_000;
/// For each millisecond of work so many of rest: the hub's callers do not notice.
const REST: u64 = 30;
/// How long it waits when the readers have more to do than they take.
const BUSY: Duration = Duration::from_millis(100);

/// Why a log is not what was written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} at record {seq} of space {space}: {detail}", .broken.as_str())]
pub struct Unsound {
    /// The space.
    pub space: SpaceName,
    /// The first record that is wrong.
    pub seq: Seq,
    /// In which way.
    pub broken: Broken,
    /// How that shows, for a person.
    pub detail: String,
}

/// How far the log of a space was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Audited {
    /// Up to this record, from the first one on.
    pub seq: Seq,
    /// When that was.
    pub at: Timestamp,
}

/// What was looked at so far.
#[derive(Default)]
pub(crate) struct Auditor(Mutex<BTreeMap<SpaceNo, Audited>>);

/// Why a walk ended early.
enum Stop {
    Unsound(Unsound),
    /// The store is closed or has failed, which others tell.
    Gone,
}

impl Engine {
    /// How far the log of a space was found to be what was written, since the start.
    #[must_use]
    pub fn audited(&self, space: SpaceNo) -> Option<Audited> {
        self.auditor.0.lock().unwrap_or_else(PoisonError::into_inner).get(&space).copied()
    }

    /// All that there is now was looked at, in whichever way.
    pub fn audited_whole(&self) {
        for info in self.store.spaces() {
            if let Some(published) = self.store.published(info.number) {
                let seq = published.borrow().head.seq;
                self.note_audited(info.number, seq);
            }
        }
    }

    pub(crate) fn note_audited(&self, space: SpaceNo, seq: Seq) {
        let audited = Audited { seq, at: self.clock.now().wall };
        self.auditor.0.lock().unwrap_or_else(PoisonError::into_inner).insert(space, audited);
    }

    /// Looks at the newest records of every space, without a pause. Many spaces share the number: it bounds how long a hub
    /// takes to start.
    ///
    /// # Errors
    /// The first that is not what was written.
    pub async fn audit_newest(&self, records: u64) -> Result<(), Unsound> {
        let spaces = self.store.spaces();
        let share = |whole: u64| whole / (spaces.len() as u64).max(1);
        let records = share(records).max(records.min(NEWEST_MIN));
        for info in &spaces {
            match self.audit_newest_of(info, records, share(PAYLOADS_OF_NEWEST)).await {
                Err(Stop::Unsound(unsound)) => return Err(unsound),
                Err(Stop::Gone) => return Ok(()),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    async fn audit_newest_of(&self, info: &SpaceInfo, records: u64, payloads: u64) -> Result<(), Stop> {
        let head = self.head_of(info)?;
        let first = Seq((head.seq.0 + 1).saturating_sub(records).max(1));
        let mut walk = Walk::begin(&*self.store, info, first, head).await?;
        let mut lengths = Vec::new();
        while walk.goes_on() {
            lengths.extend(walk.page().await?);
        }
        // The newest payloads that are cheap to look at; the rest follows in the background.
        let mut bytes = 0;
        let cheap = lengths.iter().rev().take_while(|(_, length)| {
            bytes += length;
            bytes <= payloads
        });
        let from = lengths.len() - cheap.count();
        for run in runs(&lengths[from..]) {
            walk.payloads(run).await?;
        }
        if (first, from) == (Seq(1), 0) {
            self.note_audited(info.number, head.seq);
        }
        Ok(())
    }

    /// Looks at everything once, a little at a time and mostly resting.
    ///
    /// # Errors
    /// The first record that is not what was written.
    pub async fn audit_all(&self) -> Result<(), Unsound> {
        for info in self.store.spaces() {
            match self.audit_all_of(&info).await {
                Err(Stop::Unsound(unsound)) => return Err(unsound),
                Err(Stop::Gone) => return Ok(()),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    async fn audit_all_of(&self, info: &SpaceInfo) -> Result<(), Stop> {
        let mut begun = self.clock.now().mono;
        let mut walk = Walk::begin(&*self.store, info, Seq(1), self.head_of(info)?).await?;
        while walk.goes_on() {
            let lengths = walk.page().await?;
            for run in runs(&lengths) {
                walk.payloads(run).await?;
                let worked_ms = self.clock.now().mono.0.saturating_sub(begun.0);
                tokio::time::sleep(Duration::from_millis((worked_ms + 1) * REST)).await;
                begun = self.clock.now().mono;
            }
        }
        self.note_audited(info.number, walk.head.seq);
        Ok(())
    }

    fn head_of(&self, info: &SpaceInfo) -> Result<Head, Stop> {
        self.store.published(info.number).map(|published| published.borrow().head).ok_or(Stop::Gone)
    }
}

/// Records with payloads that are read together: the first one and how many.
fn runs(lengths: &[(Seq, u64)]) -> Vec<(Seq, usize)> {
    let mut runs: Vec<(Seq, usize)> = Vec::new();
    let mut bytes = 0;
    for (seq, length) in lengths {
        bytes += length;
        match runs.last_mut() {
            Some((_, count)) if bytes <= PAYLOADS_AT_ONCE => *count += 1,
            _ => {
                runs.push((*seq, 1));
                bytes = *length;
            }
        }
    }
    runs
}

/// A walk over the log of one space, up to what was its head when it began.
struct Walk<'a> {
    store: &'a dyn Store,
    info: &'a SpaceInfo,
    chain: Chain,
    head: Head,
}

impl<'a> Walk<'a> {
    async fn begin(store: &'a dyn Store, info: &'a SpaceInfo, first: Seq, head: Head) -> Result<Self, Stop> {
        let mut walk = Self { store, info, chain: Chain::before(first, first_previous(info.id)), head };
        if first > Seq(1) {
            let before = Seq(first.0 - 1);
            let found = walk.patiently(|| store.bodies(info.number, before, 1)).await;
            let found = walk.read(before, found)?;
            let found = found.into_iter().find(|record| record.seq == before);
            walk.chain.hash = found.map(|record| record.hash).ok_or_else(|| {
                let detail = "the record before the newest ones is missing".to_owned();
                walk.unsound(before, Broken::Deleted, detail)
            })?;
        }
        Ok(walk)
    }

    fn goes_on(&self) -> bool {
        self.chain.next <= self.head.seq
    }

    /// The next records: each follows from the one before. Says how long the payload of each is.
    async fn page(&mut self) -> Result<Vec<(Seq, u64)>, Stop> {
        let from = self.chain.next;
        let max = PAGE.min((self.head.seq.0 - from.0) as usize + 1);
        let records = self.patiently(|| self.store.bodies(self.info.number, from, max)).await;
        let records = self.read(from, records)?;
        if records.is_empty() {
            let detail = format!("the log ends here, its head is {}", self.head.seq);
            return Err(self.unsound(from, Broken::Truncated, detail));
        }
        let mut lengths = Vec::with_capacity(records.len());
        for record in &records {
            let next = self.chain.next;
            self.chain.add(record).map_err(|broken| {
                let detail = match broken {
                    Broken::Deleted => format!("the next record is {}", record.seq),
                    Broken::Reordered => "its time is before that of the one before".to_owned(),
                    _ => "the stored bytes do not give the stored hash".to_owned(),
                };
                self.unsound(next, broken, detail)
            })?;
            let parts = codec::parts_of(&record.body).unwrap_or_default();
            lengths.push((record.seq, parts.iter().map(|(length, _)| length).sum()));
        }
        if !self.goes_on() && self.chain.hash != self.head.hash {
            let detail = "the chain does not lead to the head".to_owned();
            return Err(self.unsound(self.head.seq, Broken::Forked, detail));
        }
        Ok(lengths)
    }

    /// Payloads give their digests.
    async fn payloads(&self, (first, count): (Seq, usize)) -> Result<(), Stop> {
        let records = self.patiently(|| self.store.log(self.info.number, first, count)).await;
        for record in self.read(first, records)? {
            check_parts(&record).map_err(|why| self.unsound(record.seq, Broken::Edited, why))?;
        }
        Ok(())
    }

    /// What is looked at in the background waits for those who are in a hurry.
    async fn patiently<T, F>(&self, read: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        loop {
            match read().await {
                Err(StoreError::Busy) => tokio::time::sleep(BUSY).await,
                read => return read,
            }
        }
    }

    /// What was read, or why there is no going on.
    fn read<T>(&self, from: Seq, read: Result<T, StoreError>) -> Result<T, Stop> {
        read.map_err(|error| match error {
            StoreError::Read(_) | StoreError::Damaged(_) => {
                self.unsound(from, Broken::Unreadable, error.to_string())
            }
            StoreError::Busy
            | StoreError::Full
            | StoreError::Failed(_)
            | StoreError::Closed
            | StoreError::NoSpace => Stop::Gone,
        })
    }

    fn unsound(&self, seq: Seq, broken: Broken, detail: String) -> Stop {
        Stop::Unsound(Unsound { space: self.info.name.clone(), seq, broken, detail })
    }
}
