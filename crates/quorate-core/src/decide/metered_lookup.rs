//! Work accounting: the cost of a commit for the writer, measured while it is decided.
//!
//! The writer serves every space, so a single commit must not block it for long. Each row that is read or written
//! costs one unit, and so does each kilobyte. A commit that exceeds [`COMMIT_WORK_MAX`] is refused immediately. The
//! store charges the units to the space, even if the commit is refused.

use std::cell::Cell;
use std::sync::Arc;

use crate::commit::Principal;
use crate::decide::DecideError;
use crate::effect::{Effect, Record};
use crate::entry::EntryHead;
use crate::ids::{ClientId, DeliveryNo, IdempotencyKey, Key, Seq};
use crate::item::{Item, ItemKey, ItemKind};
use crate::limits::COMMIT_WORK_MAX;
use crate::lookup::{
    DeadDelivery, DeliveryEnd, EraseTarget, Lookup, PrefixScan, PriorSend, StoredReceipt, VersionSelector,
};
use crate::refused::{Code, Refused};
use crate::time::Timestamp;

/// Bytes that count as one unit.
const UNIT_BYTES: usize = 1024;
/// Steps in memory that count as one unit.
const UNIT_STEPS: usize = 32;

/// Converts bytes to units of work.
pub(super) fn units_of(bytes: usize) -> u64 {
    (bytes / UNIT_BYTES) as u64
}

/// Lookups with work accounting, which fail once the limit of the commit is exceeded.
pub(super) struct MeteredLookup<'a> {
    inner: &'a dyn Lookup,
    spent: Cell<u64>,
    max: u64,
}

impl<'a> MeteredLookup<'a> {
    /// Wraps a lookup with the work limit of a commit.
    pub(super) fn new(inner: &'a dyn Lookup) -> Self {
        Self { inner, spent: Cell::new(0), max: COMMIT_WORK_MAX }
    }

    /// Wraps a lookup without a limit, for work outside the writer that is bounded elsewhere.
    pub(super) fn unbounded(inner: &'a dyn Lookup) -> Self {
        Self { max: u64::MAX, ..Self::new(inner) }
    }

    /// Returns the units spent so far.
    pub(super) fn units_spent(&self) -> u64 {
        self.spent.get()
    }

    /// Adds units of work; the limit is checked separately.
    pub(super) fn add_units(&self, units: u64) {
        self.spent.set(self.spent.get().saturating_add(units));
    }

    /// Adds the cost of bytes that are read, decoded or written.
    pub(super) fn add_bytes(&self, bytes: usize) {
        self.add_units(units_of(bytes));
    }

    /// Adds the cost of an iteration in memory.
    pub(super) fn add_steps(&self, steps: usize) {
        self.add_units((steps / UNIT_STEPS) as u64);
    }

    /// Adds the cost of the rows that an effect writes.
    pub(super) fn add_effect(&self, effect: &Effect) {
        let listed = |count: usize| (count / UNIT_STEPS) as u64;
        self.add_units(match effect {
            Effect::Sent { deliveries, .. } => 1 + deliveries.len() as u64,
            Effect::Backfilled { messages, .. } => 1 + messages.len() as u64,
            Effect::Leased { deliveries, .. } | Effect::LeasedFromPool { deliveries, .. } => {
                deliveries.len() as u64
            }
            Effect::AckedMany { deliveries } => deliveries.len() as u64,
            Effect::Changed { item, .. } => match item {
                Item::Session(session) => 1 + listed(session.participants.len()),
                Item::Request(request) => 1 + listed(request.recipients.len()),
                Item::Task(task) => 1 + listed(task.spec.depends_on.len()),
                _ => 1,
            },
            _ => 1,
        });
    }

    /// Refuses a commit that exceeded its limit.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`.
    pub(super) fn check_limit(&self) -> Result<(), Refused> {
        if self.spent.get() <= self.max {
            return Ok(());
        }
        Err(Refused::new(
            Code::LimitExceeded,
            format!("the commit needs more than {COMMIT_WORK_MAX} units of work"),
        )
        .limit(COMMIT_WORK_MAX)
        .hint(
            "split it into several commits; each row and each kilobyte that is read or written costs one unit",
        ))
    }

    /// Charges one row and returns the lookup.
    fn charged(&self) -> Result<&'a dyn Lookup, DecideError> {
        self.add_units(1);
        self.check_limit()?;
        Ok(self.inner)
    }

    pub(super) fn stored_receipt(
        &self,
        principal: &Principal,
        key: &IdempotencyKey,
    ) -> Result<Option<StoredReceipt>, DecideError> {
        Ok(self.charged()?.stored_receipt(principal, key)?)
    }

    pub(super) fn entry(&self, key: &Key) -> Result<Option<EntryHead>, DecideError> {
        Ok(self.charged()?.entry(key)?)
    }

    pub(super) fn delivery_end(&self, delivery: DeliveryNo) -> Result<Option<DeliveryEnd>, DecideError> {
        let (found, bytes) = self.charged()?.delivery_end(delivery)?;
        self.add_bytes(bytes);
        Ok(found)
    }

    pub(super) fn dead_delivery(&self, delivery: DeliveryNo) -> Result<Option<DeadDelivery>, DecideError> {
        Ok(self.charged()?.dead_delivery(delivery)?)
    }

    pub(super) fn prior_send(&self, id: &ClientId) -> Result<Option<PriorSend>, DecideError> {
        Ok(self.charged()?.prior_send(id)?)
    }

    /// Looks up an erasure target. The cost includes the whole record, because it is read and rewritten.
    pub(super) fn erase_target(&self, seq: Seq, part: u32) -> Result<Option<EraseTarget>, DecideError> {
        let found = self.charged()?.erase_target(seq, part)?;
        self.add_bytes(found.map_or(0, |target| target.record_bytes));
        Ok(found)
    }

    pub(super) fn version_at(
        &self,
        key: &Key,
        at: VersionSelector,
    ) -> Result<Option<EntryHead>, DecideError> {
        Ok(self.charged()?.version_at(key, at)?)
    }

    pub(super) fn changed_since(
        &self,
        prefix: &str,
        seq: Seq,
        max: usize,
    ) -> Result<Option<PrefixScan>, DecideError> {
        Ok(self.charged()?.changed_since(prefix, seq, max)?)
    }

    pub(super) fn recent_changes(
        &self,
        prefix: &str,
        seq: Seq,
    ) -> Result<Option<Vec<(Key, EntryHead)>>, DecideError> {
        let found = self.charged()?.recent_changes(prefix, seq);
        self.add_steps(found.as_ref().map_or(0, Vec::len));
        Ok(found)
    }

    pub(super) fn is_erased(&self, seq: Seq, part: u32) -> Result<bool, DecideError> {
        Ok(self.charged()?.is_erased(seq, part)?)
    }

    /// Looks up the newest record as of a time, by binary search.
    pub(super) fn seq_at(&self, time: Timestamp) -> Result<Seq, DecideError> {
        self.add_units(16);
        Ok(self.charged()?.seq_at(time)?)
    }

    pub(super) fn record(&self, seq: Seq) -> Result<Option<Record>, DecideError> {
        let found = self.charged()?.record(seq)?;
        self.add_bytes(found.as_ref().map_or(0, |record| record.body.len() + record.payload.len()));
        Ok(found)
    }

    pub(super) fn item(&self, key: &ItemKey) -> Result<Option<Item>, DecideError> {
        Ok(self.charged()?.item(key)?)
    }

    pub(super) fn first_stored_item(
        &self,
        kind: ItemKind,
        ids: &[Arc<str>],
    ) -> Result<Option<usize>, DecideError> {
        self.add_steps(ids.len());
        let (found, rows) = self.charged()?.first_stored_item(kind, ids)?;
        self.add_units(rows as u64);
        Ok(found)
    }
}
