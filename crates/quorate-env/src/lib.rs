//! The environment of a process: the clock and random bytes. Each has a real source and a deterministic one for tests.
//!
//! The store and the network client both need them, and the client does without the store.

mod backoff;
mod chance;
mod clock;

use std::pin::Pin;

pub use backoff::Backoff;
pub use chance::Chance;
pub use clock::{Clock, SetClock, SystemClock, sleep};

/// A future behind a pointer, for traits that are used as `Arc<dyn …>`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
