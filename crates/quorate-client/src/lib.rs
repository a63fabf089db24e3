//! Client for a Quorate hub that runs in another process.
//!
//! [`connect`] returns the same [`Hub`](quorate::Hub) as the embedded library `quorate`, with the same errors. It
//! reconnects automatically, resumes leases and streams, and retries unanswered calls with the same idempotency key,
//! so that each takes effect once. [`HttpClient`] is the underlying HTTP client, for API calls that the library does
//! not wrap.

mod address;
mod connect;
mod http;
mod problem;
mod remote;
mod retry;
mod socket;
mod wire;

pub use http::{HttpClient, HttpOptions, HttpRequest, HttpResponse, ResponseLines, percent_encode};
pub use quorate::{Code, Error, Refused, RemoteError};
pub use remote::{ConnectOptions, connect, connect_with};

/// Compiles the examples of the guide as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/rust-client.md")]
struct Guide;
