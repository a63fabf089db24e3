//! The seam between the kernel and what keeps it: [`Store`], with the clock and the chance that come in as arguments.
//!
//! Every backend passes the same contract suite. A backend knows tables, not rules: the rules are in `quorate-core`.

mod chance;
mod clock;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod read;
#[cfg(any(test, feature = "contract"))]
mod reference;
mod store;

pub use chance::Chance;
pub use clock::{Clock, SetClock, SystemClock};
pub use read::{Built, DeadLetter, DeliveryState, Entry, Page, PartBytes, Read, Rows, StoredMessage, When};
#[cfg(any(test, feature = "contract"))]
pub use reference::Reference;
pub use store::{
    BoxFuture, Figures, Handover, Outcome, Position, Published, Sink, SpaceInfo, Store, StoreError, Wiring,
};
