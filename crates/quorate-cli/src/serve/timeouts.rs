//! Options for all intervals and timeouts of a hub. Tests use them to run through them in seconds.

use std::time::Duration;

use clap::Args;
use quorate_server::{Durations, Timeouts};

const HEADING: &str = "Timeouts";

#[derive(Args, Debug)]
#[command(next_help_heading = HEADING)]
pub(crate) struct TimeoutArgs {
    /// Default lease of a delivery, task or lock [default: 30000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1_000..))]
    lease_ms: Option<u64>,
    /// Default heartbeat interval; an agent that misses three is offline, 0 disables this [default: 10000].
    #[arg(long, value_name = "MS", hide_short_help = true)]
    heartbeat_ms: Option<u64>,
    /// How long agent heartbeats are collected before they are committed together [default: 1000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    heartbeat_batch_ms: Option<u64>,
    /// Interval of the consistency checks of each space, 0 disables them [default: 600000].
    #[arg(long, value_name = "MS", hide_short_help = true)]
    consistency_check_ms: Option<u64>,
    /// Maximum long-poll time (waitMs) of a call [default: 60000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    long_poll_max_ms: Option<u64>,
    /// Interval at which the tokens of open connections are revalidated [default: 2000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    token_check_ms: Option<u64>,
    /// Interval at which the certificate files are checked for changes [default: 2000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    cert_check_ms: Option<u64>,
    /// Validity of a sign-in code [default: 60000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    sign_in_code_ms: Option<u64>,
    /// Validity of a web session token [default: 28800000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    web_session_ms: Option<u64>,
    /// Timeout for the first frame of a WebSocket [default: 10000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    hello_timeout_ms: Option<u64>,
    /// Write timeout of a connection, after which it is closed [default: 10000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    write_timeout_ms: Option<u64>,
    /// Ping interval of an idle WebSocket; closes it after three unanswered pings [default: 20000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    ping_ms: Option<u64>,
    /// Timeout of a TLS handshake [default: 10000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    handshake_timeout_ms: Option<u64>,
    /// Timeout for the headers of a request, and of idle keep-alive connections [default: 10000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    headers_timeout_ms: Option<u64>,
    /// Timeout for the body of a request [default: 30000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    body_timeout_ms: Option<u64>,
    /// Timeout for requests in progress at shutdown [default: 10000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    drain_ms: Option<u64>,
}

/// Returns the option as a duration, or the default.
fn millis_or(flag: Option<u64>, default: Duration) -> Duration {
    flag.map_or(default, Duration::from_millis)
}

impl TimeoutArgs {
    pub(crate) fn durations(&self) -> Durations {
        let defaults = Durations::default();
        Durations {
            lease: millis_or(self.lease_ms, defaults.lease),
            heartbeat: millis_or(self.heartbeat_ms, defaults.heartbeat),
            consistency_check: millis_or(self.consistency_check_ms, defaults.consistency_check),
            wait_max: millis_or(self.long_poll_max_ms, defaults.wait_max),
            token_check: millis_or(self.token_check_ms, defaults.token_check),
            certificate_check: millis_or(self.cert_check_ms, defaults.certificate_check),
            sign_in_code: millis_or(self.sign_in_code_ms, defaults.sign_in_code),
            web_session: millis_or(self.web_session_ms, defaults.web_session),
        }
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        let defaults = Timeouts::default();
        Timeouts {
            hello: millis_or(self.hello_timeout_ms, defaults.hello),
            write: millis_or(self.write_timeout_ms, defaults.write),
            ping: millis_or(self.ping_ms, defaults.ping),
            handshake: millis_or(self.handshake_timeout_ms, defaults.handshake),
            headers: millis_or(self.headers_timeout_ms, defaults.headers),
            body: millis_or(self.body_timeout_ms, defaults.body),
            drain: millis_or(self.drain_ms, defaults.drain),
        }
    }

    pub(crate) fn engine_options(&self) -> quorate_engine::Options {
        let defaults = quorate_engine::Options::default();
        quorate_engine::Options {
            heartbeat_batching: millis_or(self.heartbeat_batch_ms, defaults.heartbeat_batching),
            ..defaults
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::TimeoutArgs;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        timeouts: TimeoutArgs,
    }

    /// All values, in the order of the flags.
    fn values(args: &TimeoutArgs) -> [Duration; 16] {
        let (durations, timeouts) = (args.durations(), args.timeouts());
        [
            durations.lease,
            durations.heartbeat,
            args.engine_options().heartbeat_batching,
            durations.consistency_check,
            durations.wait_max,
            durations.token_check,
            durations.certificate_check,
            durations.sign_in_code,
            durations.web_session,
            timeouts.hello,
            timeouts.write,
            timeouts.ping,
            timeouts.handshake,
            timeouts.headers,
            timeouts.body,
            timeouts.drain,
        ]
    }

    /// Sets each option to a different value and checks that each arrives in the right field.
    #[test]
    fn every_option_sets_its_own_field() {
        let names = [
            "lease",
            "heartbeat",
            "heartbeat-batch",
            "consistency-check",
            "long-poll-max",
            "token-check",
            "cert-check",
            "sign-in-code",
            "web-session",
            "hello-timeout",
            "write-timeout",
            "ping",
            "handshake-timeout",
            "headers-timeout",
            "body-timeout",
            "drain",
        ];
        let flags =
            names.iter().zip(1_001u64..).flat_map(|(name, ms)| [format!("--{name}-ms"), ms.to_string()]);
        let args = Line::parse_from(std::iter::once("quorate".to_owned()).chain(flags)).timeouts;
        let values = values(&args);
        let values: Vec<_> = values.iter().map(|time| time.as_millis()).collect();
        assert_eq!(values, (1_001..1_001 + names.len() as u128).collect::<Vec<_>>());
        let flags: Vec<_> = <Line as clap::CommandFactory>::command()
            .get_arguments()
            .filter_map(|flag| flag.get_long().and_then(|long| long.strip_suffix("-ms")).map(str::to_owned))
            .collect();
        assert_eq!(flags, names);
    }

    #[test]
    fn the_documented_defaults_are_right() {
        let args = Line::parse_from(["quorate"]).timeouts;
        let defaults = values(&args);
        let command = <Line as clap::CommandFactory>::command();
        let flags: Vec<_> = command.get_arguments().filter(|flag| flag.get_long() != Some("help")).collect();
        assert_eq!(flags.len(), defaults.len());
        for (flag, default) in flags.into_iter().zip(defaults) {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("[default: {}]", default.as_millis())), "{help}");
        }
    }
}
