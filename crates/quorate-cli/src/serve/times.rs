//! Every time of a hub as a flag, so that a test can live through all of them in seconds.

use std::time::Duration;

use clap::Args;
use quorate_server::{Patience, Times};

const HEADING: &str = "Times, to be set for tests";

#[derive(Args, Debug)]
#[command(next_help_heading = HEADING)]
pub(crate) struct TimeArgs {
    /// The lease of a delivery, a task or a lock when the caller names none [default: 30000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1_000..))]
    lease_ms: Option<u64>,
    /// Between two heartbeats of an agent that names none; three missed, and it is offline. 0: none are expected [default: 0].
    #[arg(long, value_name = "MS", hide_short_help = true)]
    heartbeat_ms: Option<u64>,
    /// How long signs of life are gathered before they count [default: 1000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    sweep_ms: Option<u64>,
    /// The longest wait of one claim [default: 60000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    wait_max_ms: Option<u64>,
    /// How often the token of an open connection is looked at again [default: 2000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    token_look_ms: Option<u64>,
    /// How often it is looked whether the certificate has changed [default: 2000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    cert_look_ms: Option<u64>,
    /// How long a sign-in code is good [default: 60000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    sign_in_code_ms: Option<u64>,
    /// How long the token is good that comes of a sign-in code [default: 28800000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    page_token_ms: Option<u64>,
    /// For the first frame of a WebSocket [default: 10000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    hello_ms: Option<u64>,
    /// For a reader to take what was written; then it is cut off [default: 10000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    reader_ms: Option<u64>,
    /// Between two pings of a silent WebSocket; three without an answer, and it is cut off [default: 20000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    ping_ms: Option<u64>,
    /// For a TLS handshake [default: 10000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    handshake_ms: Option<u64>,
    /// For all headers of a request [default: 10000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    headers_ms: Option<u64>,
    /// For the body of a request [default: 30000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    body_ms: Option<u64>,
    /// For requests under way when the hub is told to stop [default: 10000].
    #[arg(long, value_name = "MS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..))]
    drain_ms: Option<u64>,
}

/// A time that was said, or the one that holds otherwise.
fn or(said: Option<u64>, otherwise: Duration) -> Duration {
    said.map_or(otherwise, Duration::from_millis)
}

impl TimeArgs {
    pub(crate) fn times(&self) -> Times {
        let usual = Times::default();
        Times {
            lease: or(self.lease_ms, usual.lease),
            heartbeat: or(self.heartbeat_ms, usual.heartbeat),
            wait_max: or(self.wait_max_ms, usual.wait_max),
            look: or(self.token_look_ms, usual.look),
            certificate_look: or(self.cert_look_ms, usual.certificate_look),
            sign_in_code: or(self.sign_in_code_ms, usual.sign_in_code),
            page_token: or(self.page_token_ms, usual.page_token),
        }
    }

    pub(crate) fn patience(&self) -> Patience {
        let usual = Patience::default();
        Patience {
            hello: or(self.hello_ms, usual.hello),
            reader: or(self.reader_ms, usual.reader),
            ping: or(self.ping_ms, usual.ping),
            handshake: or(self.handshake_ms, usual.handshake),
            headers: or(self.headers_ms, usual.headers),
            body: or(self.body_ms, usual.body),
            drain: or(self.drain_ms, usual.drain),
        }
    }

    pub(crate) fn engine(&self) -> quorate_engine::Options {
        let usual = quorate_engine::Options::default();
        quorate_engine::Options { gather: or(self.sweep_ms, usual.gather), ..usual }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::TimeArgs;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        times: TimeArgs,
    }

    /// Every flag arrives somewhere: what a flag of its own number sets is found again.
    #[test]
    fn every_time_can_be_set() {
        let names = [
            "lease",
            "heartbeat",
            "sweep",
            "wait-max",
            "token-look",
            "cert-look",
            "sign-in-code",
            "page-token",
            "hello",
            "reader",
            "ping",
            "handshake",
            "headers",
            "body",
            "drain",
        ];
        let flags =
            names.iter().zip(1_001u64..).flat_map(|(name, ms)| [format!("--{name}-ms"), ms.to_string()]);
        let set = Line::parse_from(std::iter::once("quorate".to_owned()).chain(flags)).times;
        let (times, patience) = (set.times(), set.patience());
        let found = [
            times.lease,
            times.heartbeat,
            set.engine().gather,
            times.wait_max,
            times.look,
            times.certificate_look,
            times.sign_in_code,
            times.page_token,
            patience.hello,
            patience.reader,
            patience.ping,
            patience.handshake,
            patience.headers,
            patience.body,
            patience.drain,
        ];
        let found: Vec<_> = found.iter().map(|time| time.as_millis()).collect();
        assert_eq!(found, (1_001..1_001 + names.len() as u128).collect::<Vec<_>>());
        let said: Vec<_> = <Line as clap::CommandFactory>::command()
            .get_arguments()
            .filter_map(|flag| flag.get_long().and_then(|long| long.strip_suffix("-ms")).map(str::to_owned))
            .collect();
        assert_eq!(said, names);
    }

    #[test]
    fn what_help_says_of_a_default_is_true() {
        let none = Line::parse_from(["quorate"]).times;
        let (times, patience) = (none.times(), none.patience());
        let usual = [
            times.lease,
            times.heartbeat,
            none.engine().gather,
            times.wait_max,
            times.look,
            times.certificate_look,
            times.sign_in_code,
            times.page_token,
            patience.hello,
            patience.reader,
            patience.ping,
            patience.handshake,
            patience.headers,
            patience.body,
            patience.drain,
        ];
        let command = <Line as clap::CommandFactory>::command();
        for (flag, usual) in command.get_arguments().filter(|flag| flag.get_long() != Some("help")).zip(usual)
        {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("[default: {}]", usual.as_millis())), "{help}");
        }
    }
}
