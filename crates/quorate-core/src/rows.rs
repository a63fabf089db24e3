//! What a decision may look up besides the working state: rows that are too many to hold in memory.

use crate::commit::{Principal, Receipt};
use crate::effect::{EndState, Record};
use crate::entry::EntryHead;
use crate::ids::{ClientId, DeliveryNo, IdempotencyKey, Key, Seq, SessionNo, Token, Version};
use crate::item::{Item, ItemKey};
use crate::message::Priority;
use crate::recipient::Recipient;
use crate::time::Timestamp;

/// How a delivery ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Its last state.
    pub state: EndState,
    /// The lease under which it ended; 0 if it was not held, or ended by an operator.
    pub token: Token,
    /// The record that ended it.
    pub seq: Seq,
}

/// A dead letter: enough to give it out again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dead {
    /// The recipient.
    pub to: Recipient,
    /// The record that holds the message.
    pub seq: Seq,
    /// Which message of that record.
    pub n: u32,
    /// Its priority.
    pub priority: Priority,
    /// Tries that a redrive grants anew.
    pub attempts_max: u16,
    /// When the message expires, if ever.
    pub expires_at: Option<Timestamp>,
    /// The session that the message belongs to.
    pub session: Option<SessionNo>,
}

/// A message that bears a client's id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentBefore {
    /// The record that holds it.
    pub seq: Seq,
    /// Which message of that record.
    pub n: u32,
    /// Which payload part of that record it brought.
    pub part: u32,
    /// Who sent it, as in the record.
    pub principal: String,
    /// The fingerprint of the message as it was sent; zeros once its payload was erased, since it would confirm a guess.
    pub fingerprint: [u8; 32],
    /// Its first delivery.
    pub first: DeliveryNo,
    /// How many deliveries it has.
    pub count: u32,
}

/// The answer that an idempotency key already has.
#[derive(Clone, PartialEq, Debug)]
pub struct Answered {
    /// The fingerprint of what was asked for.
    pub fingerprint: [u8; 32],
    /// The answer.
    pub receipt: Receipt,
}

/// A record whose payload part may be erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EraseTarget {
    /// How many parts the record has.
    pub parts: u32,
    /// Whether the part in question was erased already.
    pub erased: bool,
    /// Bytes of the record, which are read and written to erase a part of it.
    pub record_bytes: usize,
}

/// Entries of a prefix that changed.
#[derive(Clone, PartialEq, Debug)]
pub struct Scan {
    /// Their newest versions, tombstones included, by key.
    pub changed: Vec<(Key, EntryHead)>,
    /// Entries that were looked at.
    pub scanned: usize,
}

/// Which version of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VersionAt {
    /// This very one.
    Version(Version),
    /// The newest one after this record.
    Seq(Seq),
}

/// A look-up could not be answered: the storage failed, not the domain.
#[derive(Debug, thiserror::Error)]
#[error("failed to look up {what}")]
pub struct LookupFailed {
    /// What was looked up.
    pub what: &'static str,
    /// Why it failed.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Look-ups at the head of one space. They see everything written before in the same batch.
pub trait Rows {
    /// The answer that this principal already has under this key.
    ///
    /// # Errors
    /// When the storage fails; likewise below.
    fn answered(&self, principal: &Principal, key: &IdempotencyKey)
    -> Result<Option<Answered>, LookupFailed>;
    /// The newest version of an entry.
    fn entry(&self, key: &Key) -> Result<Option<EntryHead>, LookupFailed>;
    /// How a delivery ended, if it did, and how many bytes of its record were read to find out.
    fn ended(&self, delivery: DeliveryNo) -> Result<(Option<Ended>, usize), LookupFailed>;
    /// A dead letter.
    fn dead(&self, delivery: DeliveryNo) -> Result<Option<Dead>, LookupFailed>;
    /// The message that bears a client's id.
    fn sent_before(&self, id: &ClientId) -> Result<Option<SentBefore>, LookupFailed>;
    /// A payload part of an earlier record.
    fn erase_target(&self, seq: Seq, part: u32) -> Result<Option<EraseTarget>, LookupFailed>;
    /// A version of an entry, tombstones included.
    fn version_at(&self, key: &Key, at: VersionAt) -> Result<Option<EntryHead>, LookupFailed>;
    /// The entries of a prefix that were written after a record. `None` if the prefix has more than `max` entries. Walks all
    /// of them, so it is not for the head.
    fn changed_since(&self, prefix: &str, seq: Seq, max: usize) -> Result<Option<Scan>, LookupFailed>;
    /// The newest versions of the entries of a prefix that were written after a record, tombstones included, by key, from
    /// memory alone. `None` if memory does not reach back to that record.
    fn recent_changes(&self, prefix: &str, seq: Seq) -> Option<Vec<(Key, EntryHead)>>;
    /// Whether a payload part was erased.
    fn is_erased(&self, seq: Seq, part: u32) -> Result<bool, LookupFailed>;
    /// The newest record at a time.
    fn seq_at(&self, time: Timestamp) -> Result<Seq, LookupFailed>;
    /// An earlier record.
    fn record(&self, seq: Seq) -> Result<Option<Record>, LookupFailed>;
    /// An item as it was stored.
    fn item(&self, key: &ItemKey) -> Result<Option<Item>, LookupFailed>;
}
