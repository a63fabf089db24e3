//! Storage interface between the engine and its backends: the trait [`Store`]. Clock and entropy are injected.
//!
//! Every backend passes the same conformance suite. A backend implements tables, not rules: the rules are in
//! `quorate-core`.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod read;
#[cfg(any(test, feature = "conformance"))]
mod reference;
mod store;

pub use read::{
    EntryDependencies, ListedItem, PartBytes, ReadQuery, ReadResult, StoredDeadLetter, StoredDeliveryState,
    StoredEntry, StoredMessage,
};
#[cfg(any(test, feature = "conformance"))]
pub use reference::ReferenceStore;
pub use store::{
    BackupPosition, BatchDispatch, CommitResult, PublishedState, Sink, SpaceInfo, Store, StoreContext,
    StoreStats,
};

// Re-exports. These types are defined in lower crates because the network client needs them without the store.
pub use quorate_core::{AsOf, StoreError, TimelinePage};
pub use quorate_env::{BoxFuture, Clock, Entropy, ManualClock, SystemClock, sleep};
