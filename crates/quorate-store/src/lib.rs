//! The seam between the kernel and what keeps it: [`Store`], with the clock and the chance that come in as arguments.
//!
//! Every backend passes the same contract suite. A backend knows tables, not rules: the rules are in `quorate-core`.

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

// Declared below the store, since the network client needs them without it.
pub use quorate_core::{Page, StoreError, When};
pub use quorate_env::{BoxFuture, Chance, Clock, SetClock, SystemClock, sleep};
