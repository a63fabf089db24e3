//! Read queries and their results: everything that is not part of the published state.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    AgentNo, AsOf, ClientId, CreationPosition, DeliveryNo, EndState, EntryHead, EntryVersion, Item, ItemKey,
    ItemKind, ItemRange, Key, Message, OpenDeliveryState, Payload, Recipient, Record, Seq, TimelineKind,
    TimelinePage, Timestamp, Version,
};

impl ReadQuery {
    /// Returns a query for the first items of a kind, ordered by id.
    #[must_use]
    pub fn items(kind: ItemKind, limit: usize) -> Self {
        Self::Items { kind, range: ItemRange::ById(None), limit }
    }
}

/// Read query. Queries of one call run on the same snapshot.
#[derive(Clone, PartialEq, Debug)]
pub enum ReadQuery {
    /// One version of an entry.
    Entry {
        /// Key of the entry.
        key: Key,
        /// Version or point in time.
        when: AsOf,
    },
    /// Versions of an entry, oldest first.
    History {
        /// Key of the entry.
        key: Key,
        /// Return only later versions.
        after: Version,
        /// Maximum number of results.
        limit: usize,
    },
    /// Live entries, ordered by key.
    Entries {
        /// Key prefix.
        prefix: String,
        /// Entry type.
        entry_type: Option<String>,
        /// Author of the newest version.
        author: Option<String>,
        /// Return only greater keys.
        after: Option<Key>,
        /// Maximum number of results.
        limit: usize,
    },
    /// One message.
    Message {
        /// Record that contains the message.
        seq: Seq,
        /// Index of the message within the record.
        n: u32,
    },
    /// The message with this client id.
    MessageByClientId(ClientId),
    /// The message of a delivery that is open or has ended.
    MessageOfDelivery(DeliveryNo),
    /// States of consecutive deliveries.
    Deliveries {
        /// First delivery.
        first: DeliveryNo,
        /// Number of deliveries; a result contains at most 4,096, like a message.
        count: u32,
    },
    /// Dead letters, oldest first.
    DeadLetters {
        /// Recipient.
        agent: Option<AgentNo>,
        /// Return only later deliveries.
        after: DeliveryNo,
        /// Maximum number of results.
        limit: usize,
    },
    /// Sequence number of the newest record as of a time.
    SeqAt(Timestamp),
    /// One item.
    Item(ItemKey),
    /// Items of a kind.
    Items {
        /// Kind of the items.
        kind: ItemKind,
        /// Order and start of the page.
        range: ItemRange,
        /// Maximum number of results.
        limit: usize,
    },
    /// Live entries that depend on other entries, ordered by key.
    Dependencies {
        /// Return only greater keys.
        after: Option<Key>,
        /// Maximum number of results.
        limit: usize,
    },
    /// One record.
    Record(Seq),
    /// Records that changed a session or contain a message of it.
    Timeline {
        /// Session id.
        session: Arc<str>,
        /// Kind of timeline entry.
        kind: Option<TimelineKind>,
        /// Start and direction of the page.
        page: TimelinePage,
        /// Maximum number of results.
        limit: usize,
    },
    /// Byte range of a payload part.
    Part {
        /// Record that contains the part.
        seq: Seq,
        /// Index of the part within the record.
        part: u32,
        /// Offset of the first byte.
        start: u64,
        /// Maximum number of bytes.
        length: u64,
    },
}

/// Result of a [`ReadQuery`].
#[derive(Clone, PartialEq, Debug)]
pub enum ReadResult {
    /// Result of [`ReadQuery::Entry`].
    Entry(Option<StoredEntry>),
    /// Result of [`ReadQuery::History`] and [`ReadQuery::Entries`].
    Entries(Vec<StoredEntry>),
    /// Result of [`ReadQuery::Message`], [`ReadQuery::MessageByClientId`] and [`ReadQuery::MessageOfDelivery`].
    Message(Option<StoredMessage>),
    /// Result of [`ReadQuery::Deliveries`]; `None` for a delivery that never existed.
    Deliveries(Vec<Option<StoredDeliveryState>>),
    /// Result of [`ReadQuery::DeadLetters`].
    DeadLetters(Vec<StoredDeadLetter>),
    /// Result of [`ReadQuery::SeqAt`].
    Seq(Seq),
    /// Result of [`ReadQuery::Item`].
    Item(Option<Item>),
    /// Result of [`ReadQuery::Items`].
    Items(Vec<ListedItem>),
    /// Result of [`ReadQuery::Dependencies`].
    Dependencies(Vec<EntryDependencies>),
    /// Result of [`ReadQuery::Record`].
    Record(Option<Record>),
    /// Result of [`ReadQuery::Timeline`]: each record is listed once.
    Timeline(Vec<Seq>),
    /// Result of [`ReadQuery::Part`]; `None` if the part does not exist.
    Part(Option<PartBytes>),
}

/// Item in a list.
#[derive(Clone, PartialEq, Debug)]
pub struct ListedItem {
    /// Position of its creation, which defines the list order.
    pub created: CreationPosition,
    /// Current state.
    pub item: Item,
}

/// Bytes of a payload part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartBytes {
    /// Content; zeros if the part was erased.
    pub bytes: Bytes,
    /// Whether the part was erased.
    pub erased: bool,
}

/// Dependencies of the newest version of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryDependencies {
    /// Key of the entry.
    pub key: Key,
    /// Newest version of the entry.
    pub version: Version,
    /// Each dependency: its key, the version that was used, and its current head.
    pub depends_on: Vec<(Key, Version, Option<EntryHead>)>,
}

/// One version of an entry, with its content.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredEntry {
    /// Key of the entry.
    pub key: Key,
    /// Version number and metadata.
    pub version: EntryVersion,
    /// Content; `None` for a tombstone.
    pub content: Option<Payload>,
}

/// Message as stored in the log.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredMessage {
    /// Record that contains the message.
    pub seq: Seq,
    /// Index of the message within the record.
    pub n: u32,
    /// Time of the send.
    pub at: Timestamp,
    /// Content and metadata.
    pub message: Arc<Message>,
    /// First of its consecutive deliveries.
    pub first_delivery: DeliveryNo,
    /// Recipients, in the order of the deliveries.
    pub recipients: Vec<Recipient>,
}

/// State of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoredDeliveryState {
    /// Not ended.
    Open {
        /// Ready, scheduled or leased.
        state: OpenDeliveryState,
        /// Number of times it was leased.
        attempt: u16,
    },
    /// Ended.
    Ended {
        /// Final state.
        state: EndState,
        /// Record that ended it.
        seq: Seq,
    },
}

/// Dead-lettered delivery: it is not redelivered unless it is redriven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredDeadLetter {
    /// Number of the delivery.
    pub delivery: DeliveryNo,
    /// Recipient: an agent or a pool.
    pub to: Recipient,
    /// Record that contains the message.
    pub seq: Seq,
    /// Index of the message within the record.
    pub n: u32,
    /// Number of delivery attempts.
    pub attempts: u16,
    /// Cause: the reason of the last nack, or a description of the event.
    pub reason: String,
    /// Time at which it was dead-lettered.
    pub at: Timestamp,
}
