//! The environment of a process: clock and entropy, each with a system and a deterministic test implementation;
//! backoff; retries of requests; and files that are replaced atomically.
//!
//! A crate of its own, because both the store and the network client need them, and the client does not depend on the
//! store.

mod backoff;
mod clock;
mod entropy;
mod replace_file;
mod retry;

use std::pin::Pin;

pub use backoff::Backoff;
pub use clock::{Clock, ManualClock, SystemClock, sleep};
pub use entropy::Entropy;
pub use replace_file::replace_file;
pub use retry::{Attempt, FailedRequest, retry_request};

/// A boxed future, for traits that are used as `Arc<dyn …>`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
