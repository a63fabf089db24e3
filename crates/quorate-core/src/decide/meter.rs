//! What a commit costs the writer, counted while it is decided.
//!
//! The writer serves every space, so a single commit must not hold it for long. Each row read or written is one unit, and so is
//! each kilobyte. A commit that would need more than [`COMMIT_WORK_MAX`] is refused as soon as it gets there. The
//! store charges the space by the units spent, also for a refusal.

use std::cell::Cell;

use crate::commit::Principal;
use crate::decide::No;
use crate::effect::{Effect, Record};
use crate::entry::EntryHead;
use crate::ids::{ClientId, DeliveryNo, IdempotencyKey, Key, Seq};
use crate::item::{Item, ItemKey};
use crate::limits::COMMIT_WORK_MAX;
use crate::refused::{Code, Refused};
use crate::rows::{Answered, Dead, Ended, EraseTarget, Rows, Scan, SentBefore, VersionAt};
use crate::time::Timestamp;

/// Bytes that count as one unit.
const UNIT_BYTES: usize = 1024;
/// Steps in memory that count as one unit.
const UNIT_STEPS: usize = 32;

/// The units that so many bytes are.
pub(super) fn units_of(bytes: usize) -> u64 {
    (bytes / UNIT_BYTES) as u64
}

/// Look-ups that are counted, and refused beyond the bound of a commit.
pub(super) struct Meter<'a> {
    rows: &'a dyn Rows,
    spent: Cell<u64>,
    max: u64,
}

impl<'a> Meter<'a> {
    /// Counts what a commit spends, up to its bound.
    pub(super) fn new(rows: &'a dyn Rows) -> Self {
        Self { rows, spent: Cell::new(0), max: COMMIT_WORK_MAX }
    }

    /// For work that is not done on the writer, and is bounded elsewhere.
    pub(super) fn unbounded(rows: &'a dyn Rows) -> Self {
        Self { max: u64::MAX, ..Self::new(rows) }
    }

    /// The units spent so far.
    pub(super) fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// Counts units; [`Meter::check`] finds out whether they were too many.
    pub(super) fn add(&self, units: u64) {
        self.spent.set(self.spent.get().saturating_add(units));
    }

    /// Counts bytes that are read, decoded or written.
    pub(super) fn add_bytes(&self, bytes: usize) {
        self.add(units_of(bytes));
    }

    /// Counts steps through something in memory.
    pub(super) fn add_steps(&self, steps: usize) {
        self.add((steps / UNIT_STEPS) as u64);
    }

    /// Counts what an effect writes.
    pub(super) fn add_effect(&self, effect: &Effect) {
        let listed = |count: usize| (count / UNIT_STEPS) as u64;
        self.add(match effect {
            Effect::Sent { deliveries, .. } => 1 + deliveries.len() as u64,
            Effect::Brought { letters, .. } => 1 + letters.len() as u64,
            Effect::Leased { deliveries, .. } | Effect::Taken { deliveries, .. } => deliveries.len() as u64,
            Effect::AckedMany { deliveries } => deliveries.len() as u64,
            Effect::Changed { item, .. } => match item {
                Item::Session(session) => 1 + listed(session.participants.len()),
                Item::Request(request) => 1 + listed(request.asked.len()),
                Item::Task(task) => 1 + listed(task.spec.depends_on.len()),
                _ => 1,
            },
            _ => 1,
        });
    }

    /// Refuses a commit that spent too much.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`.
    pub(super) fn check(&self) -> Result<(), Refused> {
        if self.spent.get() <= self.max {
            return Ok(());
        }
        Err(Refused::new(
            Code::LimitExceeded,
            format!("the commit needs more than {COMMIT_WORK_MAX} units of work"),
        )
        .limit(COMMIT_WORK_MAX)
        .hint(
            "split it into several commits; every row and every kilobyte that is read or written is a unit",
        ))
    }

    fn look_up(&self) -> Result<&'a dyn Rows, No> {
        self.add(1);
        self.check()?;
        Ok(self.rows)
    }

    pub(super) fn answered(
        &self,
        principal: &Principal,
        key: &IdempotencyKey,
    ) -> Result<Option<Answered>, No> {
        Ok(self.look_up()?.answered(principal, key)?)
    }

    pub(super) fn entry(&self, key: &Key) -> Result<Option<EntryHead>, No> {
        Ok(self.look_up()?.entry(key)?)
    }

    pub(super) fn ended(&self, delivery: DeliveryNo) -> Result<Option<Ended>, No> {
        let (found, bytes) = self.look_up()?.ended(delivery)?;
        self.add_bytes(bytes);
        Ok(found)
    }

    pub(super) fn dead(&self, delivery: DeliveryNo) -> Result<Option<Dead>, No> {
        Ok(self.look_up()?.dead(delivery)?)
    }

    pub(super) fn sent_before(&self, id: &ClientId) -> Result<Option<SentBefore>, No> {
        Ok(self.look_up()?.sent_before(id)?)
    }

    /// A payload part that may be erased; to erase it the whole record is read and written.
    pub(super) fn erase_target(&self, seq: Seq, part: u32) -> Result<Option<EraseTarget>, No> {
        let found = self.look_up()?.erase_target(seq, part)?;
        self.add_bytes(found.map_or(0, |target| target.record_bytes));
        Ok(found)
    }

    pub(super) fn version_at(&self, key: &Key, at: VersionAt) -> Result<Option<EntryHead>, No> {
        Ok(self.look_up()?.version_at(key, at)?)
    }

    pub(super) fn changed_since(&self, prefix: &str, seq: Seq, max: usize) -> Result<Option<Scan>, No> {
        Ok(self.look_up()?.changed_since(prefix, seq, max)?)
    }

    pub(super) fn recent_changes(&self, prefix: &str, seq: Seq) -> Result<Option<Vec<(Key, EntryHead)>>, No> {
        let found = self.look_up()?.recent_changes(prefix, seq);
        self.add_steps(found.as_ref().map_or(0, Vec::len));
        Ok(found)
    }

    pub(super) fn is_erased(&self, seq: Seq, part: u32) -> Result<bool, No> {
        Ok(self.look_up()?.is_erased(seq, part)?)
    }

    /// The newest record at a time, found by bisection.
    pub(super) fn seq_at(&self, time: Timestamp) -> Result<Seq, No> {
        self.add(16);
        Ok(self.look_up()?.seq_at(time)?)
    }

    pub(super) fn record(&self, seq: Seq) -> Result<Option<Record>, No> {
        let found = self.look_up()?.record(seq)?;
        self.add_bytes(found.as_ref().map_or(0, |record| record.body.len() + record.payload.len()));
        Ok(found)
    }

    pub(super) fn item(&self, key: &ItemKey) -> Result<Option<Item>, No> {
        Ok(self.look_up()?.item(key)?)
    }
}
