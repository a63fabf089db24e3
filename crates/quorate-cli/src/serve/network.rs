//! TLS and limit options of `serve`: certificate, connections and rate limits.

use std::path::PathBuf;

use clap::Args;
use quorate_server::{Limits, Rate, Tls};

use crate::exit::{CommandError, USAGE};

/// File descriptors reserved for the database, its log, readers and libraries.
const RESERVED_DESCRIPTORS: u64 = 128;

#[derive(Args, Debug)]
pub(crate) struct NetworkArgs {
    /// TLS certificate with its chain, in PEM; reloaded when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "TLS")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM; reloaded when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    tls_key: Option<PathBuf>,
    /// Maximum number of connections; further ones are rejected with OVERLOADED.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().connections, value_parser = connections)]
    connections: usize,
    /// Maximum number of connections per IP address that have not authenticated yet; 0 disables the limit.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().unauthenticated_connections)]
    unauthenticated_connections: usize,
    /// Rate limit of an agent, in calls per second (requests and WebSocket frames); 0 disables it.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().agents.per_second)]
    agent_rate: u32,
    /// Burst size of an agent's rate limit.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().agents.burst)]
    agent_burst: u32,
    /// Rate limit of a user (any token without an agent), in calls per second (requests and WebSocket frames); 0 disables it.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().other_principals.per_second)]
    user_rate: u32,
    /// Burst size of a user's rate limit.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().other_principals.burst)]
    user_burst: u32,
    /// Rate limit of failed authentications per IP address and second; 0 disables it.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().failures.per_second)]
    auth_failure_rate: u32,
    /// Burst size of failed authentications per IP address.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().failures.burst)]
    auth_failure_burst: u32,
    /// Maximum number of concurrent lists, exports and event streams per principal; 0 disables the limit.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().bulk_reads)]
    bulk_reads: usize,
}

const LIMITS: &str = "Limits";

fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1_000_000) => Ok(count),
        _ => Err("expected 1 to 1,000,000 connections".to_owned()),
    }
}

impl NetworkArgs {
    /// Returns the limits. The number of connections is reduced to the available file descriptors.
    pub(crate) fn limits(&self) -> Limits {
        let descriptors = raise_descriptors();
        let available =
            usize::try_from(descriptors.saturating_sub(RESERVED_DESCRIPTORS)).unwrap_or(usize::MAX).max(1);
        if available < self.connections {
            tracing::warn!(
                descriptors,
                connections = available,
                requested = self.connections,
                see = "ulimit -n",
                "reduced the connection limit: too few file descriptors"
            );
        }
        Limits {
            connections: self.connections.min(available),
            unauthenticated_connections: self.unauthenticated_connections,
            agents: Rate { per_second: self.agent_rate, burst: self.agent_burst },
            other_principals: Rate { per_second: self.user_rate, burst: self.user_burst },
            failures: Rate { per_second: self.auth_failure_rate, burst: self.auth_failure_burst },
            bulk_reads: self.bulk_reads,
        }
    }

    /// Loads the certificate, if one is set. Reloads are logged.
    pub(crate) fn tls(&self) -> anyhow::Result<Option<Tls>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let tls = Tls::load(certificate, key).map_err(|error| {
            let message = quorate_core::error_chain(&error);
            let hint =
                "use a certificate and its key in PEM; `quorate cert dev` creates both for development";
            CommandError { code: USAGE, message, hint: hint.to_owned() }
        })?;
        Ok(Some(tls.on_change(|changed| match changed {
            Ok(()) => tracing::info!("reloaded the certificate"),
            Err(error) => {
                tracing::warn!(error = %error, "failed to reload the certificate; keeping the old one")
            }
        })))
    }
}

/// Raises the limit of open files to the maximum, since each connection needs one. Returns the limit.
fn raise_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}
