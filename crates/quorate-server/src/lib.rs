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
mod caller_activity;
mod dialect;
mod drain_body;
mod exclusive_jobs;
mod host_origin;
mod large_requests;
mod listen;
mod middleware;
mod problem;
mod rate_limit;
mod reject;
mod response_headers;
mod routes;
mod settings;
mod sign_in_codes;
mod tls;
mod unauthenticated;
mod uploads;
mod webhook_config;
mod wire;
mod write_timeout;
mod ws;

mod journal;
mod observe;
mod otlp;
mod space_keys;

pub use app::App;
pub use journal::{Journal, JournalFormat, JournalLevel, LineSink};
pub use listen::{BoundAddress, ServeError, Server};
pub use otlp::{OtlpSettings, trace_to_otlp};
pub use settings::{CONNECTIONS_MAX, Durations, HEADER_BYTES_MAX, Limits, Rate, Settings, Timeouts};
pub use tls::{Tls, TlsError};
pub use webhook_config::{
    WEBHOOK_SECRET_BYTES_MAX, WEBHOOK_SECRET_BYTES_MIN, WEBHOOKS_MAX, Webhook, Webhooks,
};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Generates the OpenAPI 3.1 document as JSON. `openapi/quorate.json`, which `GET /v1/openapi.json` serves, is a copy
/// of it; a test compares them.
#[cfg(feature = "schema")]
#[must_use]
pub fn openapi() -> &'static str {
    api::openapi_text()
}
