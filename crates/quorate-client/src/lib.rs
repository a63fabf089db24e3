//! Quorate over the network: the API and the error of the library `quorate`, for a hub that runs elsewhere.
//!
//! [`connect`] gives the library's [`Hub`](quorate::Hub). It reconnects by itself, goes on where it stopped, and never sends
//! twice: what was not answered is said again under the same key. [`Http`] is the door underneath, for calls that the
//! library has no verb for.

mod address;
mod dial;
mod http;
mod patience;
mod problem;
mod remote;
mod socket;
mod wire;

pub use http::{Answer, Http, Lines, Options, Request, segment};
pub use quorate::{Code, Error, Refused, Remote};
pub use remote::{Settings, connect, connect_with};

/// The guide's examples compile: they are part of the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/rust-client.md")]
struct Guide;
