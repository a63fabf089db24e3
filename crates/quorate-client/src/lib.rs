//! Quorate over the network: the API and the error of the library `quorate`, for a hub that runs elsewhere.
//!
//! [`Http`] is the door underneath: calls of the hub's HTTP interface, with its problems as the library's errors.

mod address;
mod dial;
mod http;
mod problem;
#[cfg(feature = "tls")]
mod tls;

pub use http::{Answer, Http, Lines, Options, Request, segment};
pub use quorate::{Code, Error, Refused, Remote};
