//! How a hub is served: what it is called, how long it waits, how much it takes. Every default that a caller meets at the
//! wall is here; what the kernel allows is in `quorate_core::limits`.

use std::time::Duration;

use quorate_api::Defaults;

use crate::otlp::Otlp;
use crate::webhook::Webhooks;

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Bytes of a request's headers.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;

/// How to serve a hub.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Names under which the hub may be called, besides `localhost` and loopback addresses. Whoever asks for another one
    /// was led here by somebody else's name server.
    pub hosts: Vec<String>,
    /// How long the hub waits for those who are slow.
    pub patience: Patience,
    /// How much it takes from each.
    pub limits: Limits,
    /// What holds for those who name no time.
    pub times: Times,
    /// Where spans go, if anywhere.
    pub otlp: Option<Otlp>,
    /// Who may bring events from outside.
    pub webhooks: Webhooks,
}

/// How long the hub waits for those who are slow.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the first frame of a WebSocket.
    pub hello: Duration,
    /// For a reader to take what was written. Then it is cut off.
    pub reader: Duration,
    /// How often a silent WebSocket is pinged; after three without a sign of life it is cut off.
    pub ping: Duration,
    /// For a TLS handshake to end.
    pub handshake: Duration,
    /// For all headers of a request.
    pub headers: Duration,
    /// For the whole body of a request.
    pub body: Duration,
    /// For requests under way to end when the hub is told to stop. Those that only wait are sent away after half of it.
    pub drain: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let ten = Duration::from_secs(10);
        Self {
            hello: ten,
            reader: ten,
            ping: Duration::from_secs(20),
            handshake: ten,
            headers: ten,
            body: Duration::from_secs(30),
            drain: ten,
        }
    }
}

/// What holds for those who name no time, and how often the hub looks at what may have changed.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The lease of a delivery or a task, and how long a lock is held.
    pub lease: Duration,
    /// Between two heartbeats of an agent that names none when it is registered; zero: none are expected.
    pub heartbeat: Duration,
    /// The longest wait of one claim.
    pub wait_max: Duration,
    /// How often the token of an open connection is looked at again. Revocation must work within 5 seconds.
    pub look: Duration,
    /// How often it is looked whether the certificate has changed.
    pub certificate_look: Duration,
    /// How long a sign-in code is good.
    pub sign_in_code: Duration,
    /// How long the token of a page is good that somebody signed in to.
    pub page_token: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lease: Duration::from_millis(quorate_core::limits::LEASE_MS_DEFAULT),
            heartbeat: Duration::ZERO,
            wait_max: Duration::from_secs(60),
            look: Duration::from_secs(2),
            certificate_look: Duration::from_secs(2),
            sign_in_code: Duration::from_secs(60),
            page_token: Duration::from_secs(8 * 60 * 60),
        }
    }
}

impl Times {
    pub(crate) fn defaults(&self) -> Defaults {
        Defaults { lease_ms: self.lease_ms(), heartbeat_ms: whole_ms(self.heartbeat) }
    }

    pub(crate) fn lease_ms(&self) -> u64 {
        whole_ms(self.lease)
    }
}

/// How much the hub takes from each.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Calls of one agent: requests and frames.
    pub agents: Rate,
    /// Calls of one person or tool: whoever holds a token that is not an agent's.
    pub people: Rate,
    /// Tokens and codes from one address that are not good.
    pub failures: Rate,
    /// Lists, exports and event streams that one principal may have open; 0 is without a limit.
    pub bulk_reads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_MAX,
            agents: Rate { per_second: 100_000, burst: 200_000 },
            people: Rate { per_second: 10_000, burst: 20_000 },
            failures: Rate { per_second: 10, burst: 100 },
            bulk_reads: 64,
        }
    }
}

/// How often something may happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// In the long run; 0 is without a limit.
    pub per_second: u32,
    /// At once, after a pause.
    pub burst: u32,
}

pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
