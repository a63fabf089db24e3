//! Lookups that a decision may do outside the working state: stored rows that do not fit into memory.

use std::sync::Arc;

use crate::commit::{Principal, Receipt};
use crate::effect::{DeliveryOrigin, EndState, Record};
use crate::entry::EntryHead;
use crate::ids::{ClientId, DeliveryNo, IdempotencyKey, Key, LeaseToken, ScopeNo, Seq, Version};
use crate::item::{Item, ItemKey, ItemKind};
use crate::message::Priority;
use crate::recipient::Recipient;
use crate::time::Timestamp;

/// The end of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliveryEnd {
    /// The final state.
    pub state: EndState,
    /// Token of the lease under which it ended; 0 if it was not leased, or was purged.
    pub token: LeaseToken,
    /// The record that ended it.
    pub seq: Seq,
    /// Its message and recipient; for a pool, also the agent that held the last lease.
    pub origin: DeliveryOrigin,
}

/// A dead letter, with everything that a redrive needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadDelivery {
    /// The recipient.
    pub to: Recipient,
    /// The record that contains the message.
    pub seq: Seq,
    /// Index of the message within that record.
    pub n: u32,
    /// Priority of the message.
    pub priority: Priority,
    /// Number of attempts that a redrive grants.
    pub attempts_max: u16,
    /// Expiry time of the message, if any.
    pub expires_at: Option<Timestamp>,
    /// The scope that the delivery belongs to.
    pub scope: Option<ScopeNo>,
}

/// An earlier message with a client id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PriorSend {
    /// The record that contains it.
    pub seq: Seq,
    /// Index of the message within that record.
    pub n: u32,
    /// Index of its payload part within that record.
    pub part: u32,
    /// Text form of the principal that sent it.
    pub principal: String,
    /// Fingerprint of the message. Zeros once its payload was erased, because it could be used to confirm a guess.
    pub fingerprint: [u8; 32],
    /// Number of its first delivery.
    pub first: DeliveryNo,
    /// Number of deliveries.
    pub count: u32,
}

/// The receipt that is stored under an idempotency key.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredReceipt {
    /// Fingerprint of the original request.
    pub fingerprint: [u8; 32],
    /// The stored receipt.
    pub receipt: Receipt,
}

/// The record of a payload part that is to be erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EraseTarget {
    /// Number of payload parts of the record.
    pub parts: u32,
    /// Whether the payload part is already erased.
    pub erased: bool,
    /// Size of the record, which is read and rewritten by an erasure.
    pub record_bytes: usize,
}

/// The changed entries of a prefix.
#[derive(Clone, PartialEq, Debug)]
pub struct PrefixScan {
    /// Their newest versions, including tombstones, sorted by key.
    pub changed: Vec<(Key, EntryHead)>,
    /// Number of entries scanned.
    pub scanned: usize,
}

/// Selects a version of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VersionSelector {
    /// Exactly this version.
    Version(Version),
    /// The version that was current as of this record.
    Seq(Seq),
}

/// A failed lookup: an error of the storage, not a refusal by the domain.
#[derive(Debug, thiserror::Error)]
#[error("failed to look up {subject}")]
pub struct LookupError {
    /// Object of the lookup.
    pub subject: &'static str,
    /// The storage error.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Lookups at the head of one space. They see all earlier commits of the same batch.
pub trait Lookup {
    /// Returns the receipt that is stored for this principal and idempotency key.
    ///
    /// # Errors
    /// If the storage fails. The same applies to all methods below.
    fn stored_receipt(
        &self,
        principal: &Principal,
        key: &IdempotencyKey,
    ) -> Result<Option<StoredReceipt>, LookupError>;
    /// Returns the newest version of an entry, including tombstones.
    fn entry(&self, key: &Key) -> Result<Option<EntryHead>, LookupError>;
    /// Returns the end of a delivery, if it has ended, and the number of record bytes that were read.
    fn delivery_end(&self, delivery: DeliveryNo) -> Result<(Option<DeliveryEnd>, usize), LookupError>;
    /// Returns a dead letter.
    fn dead_delivery(&self, delivery: DeliveryNo) -> Result<Option<DeadDelivery>, LookupError>;
    /// Returns the earlier message with this client id.
    fn prior_send(&self, id: &ClientId) -> Result<Option<PriorSend>, LookupError>;
    /// Returns the erasure target of a payload part of an earlier record.
    fn erase_target(&self, seq: Seq, part: u32) -> Result<Option<EraseTarget>, LookupError>;
    /// Returns a version of an entry, including tombstones.
    fn version_at(&self, key: &Key, at: VersionSelector) -> Result<Option<EntryHead>, LookupError>;
    /// Returns the entries of a prefix that were written after a record; `None` if the prefix has more than `max`
    /// entries. Scans all entries of the prefix, so the writer must not call it: a reader calls it to plan a rollback,
    /// before the commit is queued.
    fn changed_since(&self, prefix: &str, seq: Seq, max: usize) -> Result<Option<PrefixScan>, LookupError>;
    /// Returns the newest versions, including tombstones, of the entries of a prefix that were written after a record,
    /// sorted by key. Reads only memory: `None` if memory does not reach back to that record.
    fn recent_changes(&self, prefix: &str, seq: Seq) -> Option<Vec<(Key, EntryHead)>>;
    /// Whether a payload part is erased.
    fn is_erased(&self, seq: Seq, part: u32) -> Result<bool, LookupError>;
    /// Returns the newest record as of a time.
    fn seq_at(&self, time: Timestamp) -> Result<Seq, LookupError>;
    /// Returns an earlier record.
    fn record(&self, seq: Seq) -> Result<Option<Record>, LookupError>;
    /// Returns an item as stored.
    fn item(&self, key: &ItemKey) -> Result<Option<Item>, LookupError>;
    /// Returns the index of the first of these ids that belongs to a stored item of this kind, and the number of rows that
    /// were read. Cheaper than one lookup per id if few other ids sort between them.
    fn first_stored_item(
        &self,
        kind: ItemKind,
        ids: &[Arc<str>],
    ) -> Result<(Option<usize>, usize), LookupError>;
}
