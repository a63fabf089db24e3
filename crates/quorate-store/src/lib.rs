//! Storage interface between the engine and its backends: the trait [`Store`]. Clock and entropy are injected.
//!
//! Every backend passes the same contract suite. A backend implements tables, not rules: the rules are in
//! `quorate-core`.

#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod read;
#[cfg(any(test, feature = "contract"))]
mod reference;
mod store;

pub use read::{Built, DeadLetter, DeliveryState, Entry, ListedItem, PartBytes, Read, Rows, StoredMessage};
#[cfg(any(test, feature = "contract"))]
pub use reference::Reference;
pub use store::{Figures, Handover, Outcome, Position, Published, Sink, SpaceInfo, Store, Wiring};

// Re-exports. These types are defined in lower crates because the network client needs them without the store.
pub use quorate_core::{Page, StoreError, When};
pub use quorate_env::{BoxFuture, Chance, Clock, SetClock, SystemClock, sleep};
