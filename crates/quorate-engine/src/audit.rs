//! Online audit of the log: every hash follows from the stored bytes and the previous hash, and every payload matches
//! its digest. All other checks (tables, consistency between records) require a stopped hub: `quorate verify`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quorate_core::hash_chain::{ChainVerifier, LogDamage, genesis_hash, verify_parts};
use quorate_core::{Head, Seq, SpaceName, SpaceNo, Timestamp, codec};
use quorate_store::{SpaceInfo, Store, StoreError};

use crate::engine::Engine;

/// Number of records read together.
const RECORDS_PER_READ: usize = 1_000;
/// Payload bytes read together.
const PAYLOAD_BYTES_PER_READ: u64 = 4 * 1024 * 1024;
/// Payload bytes audited before the hub is ready: about 50 ms.
const NEWEST_PAYLOAD_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Minimum number of records per space audited before the hub is ready, regardless of the number of spaces.
const NEWEST_RECORDS_MIN: u64 = 1_000;
/// Idle milliseconds per millisecond of work, so that the audit does not affect callers.
const IDLE_PER_WORK: u64 = 30;
/// Delay while the reader threads are overloaded.
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Corruption of a log.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} at record {seq} of space {space}: {detail}", .damage.as_str())]
pub struct AuditFailure {
    /// Name of the space.
    pub space: SpaceName,
    /// First corrupt record.
    pub seq: Seq,
    /// Kind of corruption.
    pub damage: LogDamage,
    /// Human-readable description.
    pub detail: String,
}

/// Audit progress of a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuditProgress {
    /// Last audited record, starting from the first one.
    pub seq: Seq,
    /// Time of the audit.
    pub at: Timestamp,
}

/// Audit progress of all spaces.
#[derive(Default)]
pub(crate) struct Auditor(Mutex<BTreeMap<SpaceNo, AuditProgress>>);

/// Reason for an early end of an audit.
enum Stop {
    Corrupt(AuditFailure),
    /// The store is closed or has failed, which is reported elsewhere.
    StoreUnavailable,
}

impl Engine {
    /// Returns the audit progress of a space since the start of the hub.
    #[must_use]
    pub fn audit_progress(&self, space: SpaceNo) -> Option<AuditProgress> {
        self.auditor.0.lock().unwrap_or_else(PoisonError::into_inner).get(&space).copied()
    }

    /// Marks all current records as audited, for example after an offline verification.
    pub fn mark_all_audited(&self) {
        for info in self.store.spaces() {
            if let Some(published) = self.store.published(info.number) {
                let seq = published.borrow().head.seq;
                self.record_audit(info.number, seq);
            }
        }
    }

    pub(crate) fn record_audit(&self, space: SpaceNo, seq: Seq) {
        let audited = AuditProgress { seq, at: self.clock.now().wall };
        self.auditor.0.lock().unwrap_or_else(PoisonError::into_inner).insert(space, audited);
    }

    /// Audits the newest records of every space without pausing. All spaces share the number of records, which bounds
    /// the startup time of a hub.
    ///
    /// # Errors
    /// The first corruption found.
    pub async fn audit_newest(&self, records: u64) -> Result<(), AuditFailure> {
        let spaces = self.store.spaces();
        let share = |whole: u64| whole / (spaces.len() as u64).max(1);
        let records = share(records).max(records.min(NEWEST_RECORDS_MIN));
        for info in &spaces {
            match self.audit_newest_of(info, records, share(NEWEST_PAYLOAD_BYTES_MAX)).await {
                Err(Stop::Corrupt(failure)) => return Err(failure),
                Err(Stop::StoreUnavailable) => return Ok(()),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    async fn audit_newest_of(&self, info: &SpaceInfo, records: u64, payloads: u64) -> Result<(), Stop> {
        let head = self.head_of(info)?;
        let first = Seq((head.seq.0 + 1).saturating_sub(records).max(1));
        let mut audit = LogAudit::start(&*self.store, info, first, head).await?;
        let mut lengths = Vec::new();
        while audit.has_more() {
            lengths.extend(audit.audit_page().await?);
        }
        // Audit the newest payloads within the budget; the others follow in the background.
        let mut bytes = 0;
        let within_budget = lengths.iter().rev().take_while(|(_, length)| {
            bytes += length;
            bytes <= payloads
        });
        let from = lengths.len() - within_budget.count();
        for run in runs(&lengths[from..]) {
            audit.audit_payloads(run).await?;
        }
        if (first, from) == (Seq(1), 0) {
            self.record_audit(info.number, head.seq);
        }
        Ok(())
    }

    /// Audits everything once, throttled to a small share of the time.
    ///
    /// # Errors
    /// The first corruption found.
    pub async fn audit_all(&self) -> Result<(), AuditFailure> {
        for info in self.store.spaces() {
            match self.audit_all_of(&info).await {
                Err(Stop::Corrupt(failure)) => return Err(failure),
                Err(Stop::StoreUnavailable) => return Ok(()),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    async fn audit_all_of(&self, info: &SpaceInfo) -> Result<(), Stop> {
        let mut started = self.clock.now().mono;
        let mut audit = LogAudit::start(&*self.store, info, Seq(1), self.head_of(info)?).await?;
        while audit.has_more() {
            let lengths = audit.audit_page().await?;
            for run in runs(&lengths) {
                audit.audit_payloads(run).await?;
                let worked_ms = self.clock.now().mono.0.saturating_sub(started.0);
                tokio::time::sleep(Duration::from_millis((worked_ms + 1) * IDLE_PER_WORK)).await;
                started = self.clock.now().mono;
            }
        }
        self.record_audit(info.number, audit.head.seq);
        Ok(())
    }

    fn head_of(&self, info: &SpaceInfo) -> Result<Head, Stop> {
        self.store
            .published(info.number)
            .map(|published| published.borrow().head)
            .ok_or(Stop::StoreUnavailable)
    }
}

/// Groups records whose payloads are read together: first record and count.
fn runs(lengths: &[(Seq, u64)]) -> Vec<(Seq, usize)> {
    let mut runs: Vec<(Seq, usize)> = Vec::new();
    let mut bytes = 0;
    for (seq, length) in lengths {
        bytes += length;
        match runs.last_mut() {
            Some((_, count)) if bytes <= PAYLOAD_BYTES_PER_READ => *count += 1,
            _ => {
                runs.push((*seq, 1));
                bytes = *length;
            }
        }
    }
    runs
}

/// Audit of the log of one space, up to its head at the start of the audit.
struct LogAudit<'a> {
    store: &'a dyn Store,
    info: &'a SpaceInfo,
    chain: ChainVerifier,
    head: Head,
}

impl<'a> LogAudit<'a> {
    async fn start(store: &'a dyn Store, info: &'a SpaceInfo, first: Seq, head: Head) -> Result<Self, Stop> {
        let mut audit =
            Self { store, info, chain: ChainVerifier::starting_at(first, genesis_hash(info.id)), head };
        if first > Seq(1) {
            let before = Seq(first.0 - 1);
            let found = audit.retry_busy(|| store.log_bodies(info.number, before, 1)).await;
            let found = audit.read(before, found)?;
            let found = found.into_iter().find(|record| record.seq == before);
            audit.chain.hash = found.map(|record| record.hash).ok_or_else(|| {
                let detail = "the record preceding the audited range is missing".to_owned();
                audit.corrupt(before, LogDamage::Deleted, detail)
            })?;
        }
        Ok(audit)
    }

    fn has_more(&self) -> bool {
        self.chain.next <= self.head.seq
    }

    /// Audits the next records and returns the payload length of each.
    async fn audit_page(&mut self) -> Result<Vec<(Seq, u64)>, Stop> {
        let from = self.chain.next;
        let max = RECORDS_PER_READ.min((self.head.seq.0 - from.0) as usize + 1);
        let records = self.retry_busy(|| self.store.log_bodies(self.info.number, from, max)).await;
        let records = self.read(from, records)?;
        if records.is_empty() {
            let detail = format!("the log ends here, but its head is {}", self.head.seq);
            return Err(self.corrupt(from, LogDamage::Truncated, detail));
        }
        let mut lengths = Vec::with_capacity(records.len());
        for record in &records {
            let next = self.chain.next;
            self.chain.verify_next(record).map_err(|damage| {
                let detail = match damage {
                    LogDamage::Deleted => format!("the next record is {}", record.seq),
                    LogDamage::Reordered => {
                        "its timestamp is earlier than that of the previous record".to_owned()
                    }
                    _ => "the stored bytes do not match the stored hash".to_owned(),
                };
                self.corrupt(next, damage, detail)
            })?;
            let parts = codec::part_table(&record.body).unwrap_or_default();
            lengths.push((record.seq, parts.iter().map(|(length, _)| length).sum()));
        }
        if !self.has_more() && self.chain.hash != self.head.hash {
            let detail = "the chain does not lead to the head".to_owned();
            return Err(self.corrupt(self.head.seq, LogDamage::Forked, detail));
        }
        Ok(lengths)
    }

    /// Checks payloads against their digests.
    async fn audit_payloads(&self, (first, count): (Seq, usize)) -> Result<(), Stop> {
        let records = self.retry_busy(|| self.store.log(self.info.number, first, count)).await;
        for record in self.read(first, records)? {
            verify_parts(&record).map_err(|detail| self.corrupt(record.seq, LogDamage::Edited, detail))?;
        }
        Ok(())
    }

    /// Retries a read while the store is busy, so that the audit yields to foreground reads.
    async fn retry_busy<T, F>(&self, read: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        loop {
            match read().await {
                Err(StoreError::Busy) => tokio::time::sleep(BUSY_RETRY_DELAY).await,
                read => return read,
            }
        }
    }

    /// Converts the error of a read.
    fn read<T>(&self, from: Seq, read: Result<T, StoreError>) -> Result<T, Stop> {
        read.map_err(|error| match error {
            StoreError::Read(_) | StoreError::Corrupt(_) => {
                self.corrupt(from, LogDamage::Unreadable, error.to_string())
            }
            StoreError::Busy
            | StoreError::DiskFull
            | StoreError::Failed(_)
            | StoreError::Closed
            | StoreError::UnknownSpace => Stop::StoreUnavailable,
        })
    }

    fn corrupt(&self, seq: Seq, damage: LogDamage, detail: String) -> Stop {
        Stop::Corrupt(AuditFailure { space: self.info.name.clone(), seq, damage, detail })
    }
}
