//! The hub over the network: HTTP now; WebSocket, events and dialects join it here.
//!
//! A request is authenticated, read and checked at the door; behind it there is one call of the engine. What an agent
//! says about itself is ignored: who it is stands in its token.

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

/// The description of the interface: OpenAPI 3.1 in JSON, as `GET /v1/openapi.json` answers it.
#[must_use]
pub fn openapi() -> &'static str {
    api::text()
}
