//! What a hub that serves says of itself: lines on stderr, and spans to a collector.

use std::io::IsTerminal as _;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use quorate_server::{Journal, Level, Otlp, Style};
use quorate_store::Clock;

use crate::exit::{Ended, USAGE};
use crate::text;

/// What the hub says of itself.
#[derive(Args, Debug)]
#[command(next_help_heading = "What the hub says of itself")]
pub(crate) struct ObserveArgs {
    /// How much to say on stderr: error, warn, info or debug. Also QUORATE_LOG.
    #[arg(long, value_name = "LEVEL")]
    log: Option<Level>,
    /// What the lines on stderr look like; plain on a terminal, else JSON. Also QUORATE_LOG_FORMAT.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<Format>,
    /// Send spans to this OpenTelemetry collector by OTLP over HTTP, such as http://127.0.0.1:4318. Also
    /// OTEL_EXPORTER_OTLP_ENDPOINT; OTEL_EXPORTER_OTLP_HEADERS and OTEL_SERVICE_NAME are heard, too.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Format {
    Json,
    Plain,
}

/// A variable of the environment that says something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn usage(message: String, hint: &str) -> anyhow::Error {
    Ended { code: USAGE, message, hint: hint.to_owned() }.into()
}

impl ObserveArgs {
    /// Writes the events of this process to stderr from here on. Returns what the lines look like.
    pub(crate) fn install_journal(&self, clock: Arc<dyn Clock>) -> anyhow::Result<Style> {
        let level = match (self.log, variable("QUORATE_LOG")) {
            (Some(level), _) => level,
            (None, Some(text)) => text.trim().parse().map_err(|hint: String| {
                usage(format!("QUORATE_LOG: {:?} is no level", text::clean(&text)), &hint)
            })?,
            (None, None) => Level::Info,
        };
        let format = match (self.log_format, variable("QUORATE_LOG_FORMAT")) {
            (Some(format), _) => format,
            (None, Some(text)) => Format::from_str(text.trim(), true).map_err(|_| {
                let what = format!("QUORATE_LOG_FORMAT: {:?} is no format", text::clean(&text));
                usage(what, "say json or plain")
            })?,
            (None, None) if std::io::stderr().is_terminal() => Format::Plain,
            (None, None) => Format::Json,
        };
        let style = match format {
            Format::Json => Style::Json,
            Format::Plain => Style::Plain,
        };
        let journal = Journal::new(level, style, move || clock.now().wall, Arc::new(|line| text::say(line)));
        tracing::subscriber::set_global_default(journal)?;
        Ok(style)
    }

    /// Where spans go.
    pub(crate) fn otlp(&self) -> anyhow::Result<Option<Otlp>> {
        let endpoint = self.otlp.clone().or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let Some(endpoint) = endpoint else { return Ok(None) };
        let mut otlp = Otlp::new(endpoint.trim());
        let headers = variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let pairs = headers.split(',').filter_map(|pair| pair.split_once('='));
        otlp.headers = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        otlp.service = variable("OTEL_SERVICE_NAME").unwrap_or(otlp.service);
        otlp.check().map_err(|why| {
            usage(format!("spans cannot be sent: {why}"), "say --otlp http://HOST:4318, or leave it out")
        })?;
        Ok(Some(otlp))
    }
}
