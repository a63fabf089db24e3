//! Server settings: host names, timeouts, default durations and limits. Limits of the domain logic are
//! in `quorate_core::limits`.

use std::time::Duration;

use quorate_api::Defaults;

use crate::otlp::OtlpSettings;
use crate::webhook_config::Webhooks;

/// Maximum number of concurrent connections.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Maximum size of request headers in bytes.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Server settings.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Host names of the hub, in addition to `localhost` and loopback addresses. Requests with another `Host` are
    /// refused, as protection against DNS rebinding.
    pub hosts: Vec<String>,
    /// Timeouts for slow clients.
    pub timeouts: Timeouts,
    /// Connection and rate limits.
    pub limits: Limits,
    /// Default durations and check intervals.
    pub durations: Durations,
    /// Exporter for OpenTelemetry spans.
    pub otlp: Option<OtlpSettings>,
    /// Inbound webhooks.
    pub webhooks: Webhooks,
}

/// Timeouts for slow clients.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the first frame of a WebSocket.
    pub hello: Duration,
    /// For a client to read pending output. Then it is disconnected.
    pub write: Duration,
    /// Ping interval of an idle WebSocket. After three pings without a reply it is disconnected.
    pub ping: Duration,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// For all headers of a request. A connection without a request is closed after the same time.
    pub headers: Duration,
    /// For the whole body of a request.
    pub body: Duration,
    /// For requests in progress when the hub shuts down. Pending waits are cancelled after half of it.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let ten = Duration::from_secs(10);
        Self {
            hello: ten,
            write: ten,
            ping: Duration::from_secs(20),
            handshake: ten,
            headers: ten,
            body: Duration::from_secs(30),
            drain: ten,
        }
    }
}

/// Default durations for calls that specify none, and check intervals.
#[derive(Clone, Copy, Debug)]
pub struct Durations {
    /// Lease of a delivery or task, and of a lock.
    pub lease: Duration,
    /// Heartbeat interval of agents that register without one; zero expects no heartbeats.
    pub heartbeat: Duration,
    /// Interval of the consistency checks of each space; zero disables them.
    pub consistency_check: Duration,
    /// Maximum `waitMs` of a call: a claim, a lock, or a wait for a task, an approval or answers.
    pub wait_max: Duration,
    /// How often the token of an open connection is rechecked. Revocation must take effect within 5 seconds.
    pub token_check: Duration,
    /// How often the certificate files are checked for changes.
    pub certificate_check: Duration,
    /// Validity of a sign-in code.
    pub sign_in_code: Duration,
    /// Validity of the token of a web session.
    pub web_session: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            lease: Duration::from_millis(quorate_core::limits::LEASE_MS_DEFAULT),
            heartbeat: Duration::from_secs(10),
            consistency_check: Duration::from_secs(10 * 60),
            wait_max: Duration::from_secs(60),
            token_check: Duration::from_secs(2),
            certificate_check: Duration::from_secs(2),
            sign_in_code: Duration::from_secs(60),
            web_session: Duration::from_secs(8 * 60 * 60),
        }
    }
}

impl Durations {
    pub(crate) fn defaults(&self) -> Defaults {
        Defaults { lease_ms: self.lease_ms(), heartbeat_ms: whole_ms(self.heartbeat) }
    }

    pub(crate) fn lease_ms(&self) -> u64 {
        whole_ms(self.lease)
    }
}

/// Connection and rate limits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent connections.
    pub connections: usize,
    /// Concurrent connections of one address without an authenticated request yet; 0 disables the limit.
    pub unauthenticated_connections: usize,
    /// Calls of one agent: requests and WebSocket frames.
    pub agents: Rate,
    /// Calls of one principal that is not an agent.
    pub other_principals: Rate,
    /// Failed authentications from one address: invalid tokens and sign-in codes.
    pub failures: Rate,
    /// Concurrent lists, exports and event streams of one principal; 0 disables the limit.
    pub bulk_reads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_MAX,
            unauthenticated_connections: 1_024,
            agents: Rate { per_second: 100_000, burst: 200_000 },
            other_principals: Rate { per_second: 10_000, burst: 20_000 },
            failures: Rate { per_second: 10, burst: 100 },
            bulk_reads: 64,
        }
    }
}

/// Token-bucket rate limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Sustained rate; 0 disables the limit.
    pub per_second: u32,
    /// Bucket size: calls allowed in a burst.
    pub burst: u32,
}

pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
