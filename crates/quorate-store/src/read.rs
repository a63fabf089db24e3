//! What can be read besides the published state: rows, as they were after the last sync.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    AgentNo, ClientId, Created, DeliveryNo, EndState, EntryHead, EntryVersion, Item, ItemKey, ItemKind,
    ItemRange, Key, LineKind, Message, OpenState, Page, Payload, Recipient, Record, Seq, Timestamp, Version,
    When,
};

impl Read {
    /// The items of a kind by id, from the first one on.
    #[must_use]
    pub fn items(kind: ItemKind, limit: usize) -> Self {
        Self::Items { kind, range: ItemRange::ById(None), limit }
    }
}

/// One thing to read. Several in one call are read from one snapshot.
#[derive(Clone, PartialEq, Debug)]
pub enum Read {
    /// One version of an entry.
    Entry {
        /// Which entry.
        key: Key,
        /// Which version.
        when: When,
    },
    /// The versions of an entry, oldest first.
    History {
        /// Which entry.
        key: Key,
        /// Only later ones than this.
        after: Version,
        /// How many at most.
        limit: usize,
    },
    /// The live entries, by key.
    Entries {
        /// Only those whose key begins so.
        prefix: String,
        /// Only those of this type.
        entry_type: Option<String>,
        /// Only those whose newest version is by this author.
        author: Option<String>,
        /// Only later keys than this.
        after: Option<Key>,
        /// How many at most.
        limit: usize,
    },
    /// One message.
    Message {
        /// Its record.
        seq: Seq,
        /// Which message of it.
        n: u32,
    },
    /// The message that bears a client's id.
    MessageByClientId(ClientId),
    /// Where deliveries are.
    Deliveries {
        /// The first.
        first: DeliveryNo,
        /// How many; a message has 4,096 at most, and so has an answer.
        count: u32,
    },
    /// The dead letters, oldest first.
    DeadLetters {
        /// Only this recipient's.
        agent: Option<AgentNo>,
        /// Only later ones than this.
        after: DeliveryNo,
        /// How many at most.
        limit: usize,
    },
    /// The newest record at a time.
    SeqAt(Timestamp),
    /// One item.
    Item(ItemKey),
    /// The items of a kind.
    Items {
        /// Which kind.
        kind: ItemKind,
        /// In which order, and from where on.
        range: ItemRange,
        /// How many at most.
        limit: usize,
    },
    /// The live entries that were built on others, by key.
    Built {
        /// Only later keys than this.
        after: Option<Key>,
        /// How many at most.
        limit: usize,
    },
    /// One record.
    Record(Seq),
    /// The records in which something happened to a session, or a message named it.
    Timeline {
        /// Which session.
        session: Arc<str>,
        /// Only what is of this kind.
        kind: Option<LineKind>,
        /// From where, and in which order.
        page: Page,
        /// How many at most.
        limit: usize,
    },
    /// Some bytes of a payload part.
    Part {
        /// The record.
        seq: Seq,
        /// Which part of it.
        part: u32,
        /// From which byte of the part on.
        start: u64,
        /// How many bytes at most.
        length: u64,
    },
}

/// What was read, in the order asked for.
#[derive(Clone, PartialEq, Debug)]
pub enum Rows {
    /// Of [`Read::Entry`].
    Entry(Option<Entry>),
    /// Of [`Read::History`] and [`Read::Entries`].
    Entries(Vec<Entry>),
    /// Of [`Read::Message`] and [`Read::MessageByClientId`].
    Message(Option<StoredMessage>),
    /// Of [`Read::Deliveries`]; `None` for what was never made.
    Deliveries(Vec<Option<DeliveryState>>),
    /// Of [`Read::DeadLetters`].
    DeadLetters(Vec<DeadLetter>),
    /// Of [`Read::SeqAt`].
    Seq(Seq),
    /// Of [`Read::Item`].
    Item(Option<Item>),
    /// Of [`Read::Items`].
    Items(Vec<ListedItem>),
    /// Of [`Read::Built`].
    Built(Vec<Built>),
    /// Of [`Read::Record`].
    Record(Option<Record>),
    /// Of [`Read::Timeline`]: each record once.
    Timeline(Vec<Seq>),
    /// Of [`Read::Part`]; `None` if there is no such part.
    Part(Option<PartBytes>),
}

/// An item of a list.
#[derive(Clone, PartialEq, Debug)]
pub struct ListedItem {
    /// Where it was created.
    pub created: Created,
    /// Its state.
    pub item: Item,
}

/// Bytes of a payload part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartBytes {
    /// The bytes; zeros if the part was erased.
    pub bytes: Bytes,
    /// Whether the part was erased.
    pub erased: bool,
}

/// What the newest version of an entry was built on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    /// Which entry.
    pub key: Key,
    /// Its newest version.
    pub version: Version,
    /// What it was built on, with the version that it had then and what it is now.
    pub depends_on: Vec<(Key, Version, Option<EntryHead>)>,
}

/// One version of an entry, with its content.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Which entry.
    pub key: Key,
    /// Which version, and what is known of it.
    pub version: EntryVersion,
    /// The content; `None` for a tombstone.
    pub content: Option<Payload>,
}

/// A message as it was stored.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredMessage {
    /// Its record.
    pub seq: Seq,
    /// Which message of it.
    pub n: u32,
    /// When it was sent.
    pub at: Timestamp,
    /// The message.
    pub message: Arc<Message>,
    /// Its first delivery.
    pub first: DeliveryNo,
    /// The recipients, in the order of the deliveries.
    pub recipients: Vec<Recipient>,
}

/// Where a delivery is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryState {
    /// Not ended.
    Open {
        /// Where it is.
        state: OpenState,
        /// How often it was taken.
        attempt: u16,
    },
    /// Ended.
    Ended {
        /// How.
        state: EndState,
        /// By which record.
        seq: Seq,
    },
}

/// A dead letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    /// Which delivery.
    pub delivery: DeliveryNo,
    /// The recipient.
    pub to: Recipient,
    /// The record of its message.
    pub seq: Seq,
    /// Which message of it.
    pub n: u32,
    /// How often it was tried.
    pub attempts: u16,
    /// Why it was given up: what the last holder said, or what happened.
    pub reason: String,
    /// Since when it is dead.
    pub at: Timestamp,
}
