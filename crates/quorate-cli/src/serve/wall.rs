//! The outer wall, as the command line says it: TLS, and how much is taken from each.

use std::path::PathBuf;

use clap::Args;
use quorate_server::{Limits, Rate, Tls};

use crate::exit::{Ended, USAGE};

/// Descriptors that are not connections: the database, its log, what is being read, and the library's own.
const DESCRIPTORS_KEPT: u64 = 128;

#[derive(Args, Debug)]
pub(crate) struct WallArgs {
    /// The certificate to show, in PEM, with its chain. Read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "TLS")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM. Read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    tls_key: Option<PathBuf>,
    /// Connections at a time; whoever comes next is told OVERLOADED.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().connections, value_parser = connections)]
    connections: usize,
    /// Calls a second of one agent, requests and frames; 0 is without a limit.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().agents.per_second)]
    agent_rate: u32,
    /// Calls of one agent at once, after a pause.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().agents.burst)]
    agent_burst: u32,
    /// Calls a second of one person or tool: of every token that is not an agent's; 0 is without a limit.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().people.per_second)]
    person_rate: u32,
    /// Calls of one person or tool at once, after a pause.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().people.burst)]
    person_burst: u32,
    /// Tokens and codes a second from one address that are not good; 0 is without a limit.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().failures.per_second)]
    failure_rate: u32,
    /// Tokens and codes from one address that are not good at once, after a pause.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().failures.burst)]
    failure_burst: u32,
    /// Lists, exports and event streams that one principal may have open; 0 is without a limit.
    #[arg(long, value_name = "COUNT", help_heading = LIMITS, hide_short_help = true)]
    #[arg(default_value_t = Limits::default().bulk_reads)]
    bulk_reads: usize,
}

const LIMITS: &str = "Limits";

fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1_000_000) => Ok(count),
        _ => Err("give 1 to 1,000,000 connections".to_owned()),
    }
}

impl WallArgs {
    /// How much is taken from each. Never more connections than there are descriptors for.
    pub(crate) fn limits(&self) -> Limits {
        let descriptors = raise_descriptors();
        let room = usize::try_from(descriptors.saturating_sub(DESCRIPTORS_KEPT)).unwrap_or(usize::MAX).max(1);
        if room < self.connections {
            tracing::warn!(
                descriptors,
                connections = room,
                "instead of" = self.connections,
                see = "ulimit -n",
                "the system gives too few descriptors"
            );
        }
        Limits {
            connections: self.connections.min(room),
            agents: Rate { per_second: self.agent_rate, burst: self.agent_burst },
            people: Rate { per_second: self.person_rate, burst: self.person_burst },
            failures: Rate { per_second: self.failure_rate, burst: self.failure_burst },
            bulk_reads: self.bulk_reads,
        }
    }

    /// The certificate, if there is one. What becomes of a change stands in the journal.
    pub(crate) fn tls(&self) -> anyhow::Result<Option<Tls>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let tls = Tls::load(certificate, key).map_err(|error| {
            let message = quorate_core::error_chain(&error);
            let hint = "give a certificate and its key in PEM; `quorate cert dev` makes both for development";
            Ended { code: USAGE, message, hint: hint.to_owned() }
        })?;
        Ok(Some(tls.on_change(|changed| match changed {
            Ok(()) => tracing::info!("the new certificate is in use"),
            Err(error) => tracing::warn!(why = %error, "the old certificate is kept"),
        })))
    }
}

/// As many open files as the system lets us have: a connection is one. Says how many that are.
fn raise_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}
