//! The environment of a process: clock and entropy, each with a system and a deterministic test implementation; and
//! backoff.
//!
//! A crate of its own, because both the store and the network client need them, and the client does not depend on the
//! store.

mod backoff;
mod clock;
mod entropy;

use std::pin::Pin;

pub use backoff::Backoff;
pub use clock::{Clock, ManualClock, SystemClock, sleep};
pub use entropy::Entropy;

/// A boxed future, for traits that are used as `Arc<dyn …>`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
