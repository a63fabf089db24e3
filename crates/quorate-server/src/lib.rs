//! The network server of a hub: REST over HTTP/1, WebSocket, server-sent events, message dialects and inbound
//! webhooks.
//!
//! A request is authenticated, parsed and validated here, then becomes one call of the engine. The identity of an
//! agent comes from its access token, never from fields of the request.

mod api;
mod app;
mod body;
mod bulk;
mod call;
mod deliberations;
mod dialect;
mod exclusive;
mod guard;
mod listen;
mod patience;
mod problem;
mod rate;
mod routes;
mod settings;
mod sign_in;
mod tls;
mod turn_away;
mod unread;
mod webhook;
mod wire;
mod ws;

mod journal;
mod making;
mod observe;
mod otlp;

pub use app::App;
pub use journal::{Journal, Level, Out, Style};
pub use listen::{Listening, Reserved, ServeError};
pub use otlp::{Otlp, otlp_of};
pub use settings::{CONNECTIONS_MAX, HEADER_BYTES_MAX, Limits, Patience, Rate, Settings, Times};
pub use tls::{Tls, TlsError};
pub use webhook::{WEBHOOK_SECRET_BYTES_MAX, WEBHOOK_SECRET_BYTES_MIN, WEBHOOKS_MAX, Webhook, Webhooks};

/// Returns the OpenAPI 3.1 document as JSON, as served by `GET /v1/openapi.json`.
#[must_use]
pub fn openapi() -> &'static str {
    api::text()
}
