//! The hub over the network: HTTP now; WebSocket, events and dialects join it here.
//!
//! A request is authenticated, read and checked at the door; behind it there is one call of the engine. What an agent
//! says about itself is ignored: who it is stands in its token.

mod api;
mod app;
mod body;
mod call;
mod guard;
mod listen;
mod patience;
mod problem;
mod routes;
mod wire;
mod ws;

pub use app::{App, Patience, Settings};
pub use listen::{Listening, ServeError};

/// The description of the interface: OpenAPI 3.1 in JSON, as `GET /v1/openapi.json` answers it.
#[must_use]
pub fn openapi() -> &'static str {
    api::text()
}
